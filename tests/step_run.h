/* SPDX-License-Identifier: Apache-2.0
 *
 * A model and its step in this process, from a recipe written on the spot. */
#ifndef TESTS_STEP_RUN_H
#define TESTS_STEP_RUN_H

#include "runner.h"

#include "step/step.h"
#include "train/setup.h"

#include <stdint.h>

struct step_run {
    struct stance_registry    *registry;
    struct stance_setup        setup;
    struct stance_step_options options;
    struct stance_step        *step;
};

/** Whether a device is on the plugin path; if not, says so. */
static inline bool step_has_device(const char *name, const char *what)
{
    struct stance_registry     *registry;
    const struct stance_plugin *plugin;
    struct stance_error         err = STANCE_ERROR_INIT;
    bool                        found;

    LTDL_SET_PRELOADED_SYMBOLS();
    ck_assert_msg(stance_registry_new(NULL, &registry, &err) == STANCE_OK, "%s", err.text);
    found = stance_registry_find(registry, STANCE_KIND_DEVICE, name, &plugin, &err) == STANCE_OK;
    if (!found)
        SKIP("%s: %s", what, err.text);
    stance_registry_free(registry);
    return found;
}

/** Reads the recipe and opens its device; the step is not made yet, so that options can be changed. */
static inline void step_setup(struct step_run *r, const char *recipe, const char *device, const char *precision)
{
    struct stance_recipe_options o   = { .device = device, .precision = precision };
    struct stance_error          err = STANCE_ERROR_INIT;
    char                         file[] = "/tmp/stance-recipe-XXXXXX.yaml";
    int                          fd = mkstemps(file, 5);
    ssize_t                      wrote;

    LTDL_SET_PRELOADED_SYMBOLS();
    *r = (struct step_run){ 0 };
    ck_assert_int_ge(fd, 0);
    wrote = write(fd, recipe, strlen(recipe));
    close(fd);
    ck_assert_int_eq(wrote, (ssize_t)strlen(recipe));
    ck_assert_msg(stance_registry_new(NULL, &r->registry, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_setup_make(r->registry, file, &o, STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD, &r->setup, &err)
                      == STANCE_OK, "%s", err.text);
    unlink(file);
    ck_assert_msg(stance_setup_pose(&r->setup, 0, &err) == STANCE_OK, "%s", err.text);
    r->options = (struct stance_step_options){
        .model = &r->setup.model, .device = r->setup.device, .policy = r->setup.policy,
        .optimizer = &r->setup.optimizer, .scaler = r->setup.scaler, .batch = (int32_t)r->setup.recipe->train.batch_size,
    };
}

static inline void step_make(struct step_run *r)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_step_new(&r->options, &r->step, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_store_initialise(stance_step_store(r->step), 1, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_step_refresh(r->step, &err) == STANCE_OK, "%s", err.text);
}

static inline void step_close(struct step_run *r)
{
    stance_step_free(r->step);
    stance_setup_clear(&r->setup);
    stance_registry_free(r->registry);
}

/** A number in [-1, 1) that depends on its arguments alone. */
static inline float step_noise(uint64_t key, uint64_t i)
{
    uint64_t z = key * 0x9E3779B97F4A7C15u + i * 0xBF58476D1CE4E5B9u + 1;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return (float)((double)(z >> 40) / 8388608.0 - 1);
}

/** Fills image, target and target_weight of a program: element i of an input is that of element
 *  first * (elements per sample) + i of one endless batch. */
static inline void step_fill_inputs(struct step_run *r, enum stance_step_program which, int64_t first)
{
    static const char *const names[] = { "image", "target", "target_weight" };
    struct stance_error      err     = STANCE_ERROR_INIT;

    for (uint64_t k = 0; k < 3; k++) {
        int                         input = stance_step_input(r->step, which, names[k]);
        const struct stance_tensor *t;
        int64_t                     n, at;
        float                      *v;

        if (input < 0)
            continue;
        t  = stance_program_input(stance_step_program(r->step, which), names[k]);
        n  = stance_elements(&t->shape);
        at = first * (n / t->shape.dim[0]);
        v  = malloc((size_t)n * sizeof *v);
        ck_assert_ptr_nonnull(v);
        for (int64_t i = 0; i < n; i++) {
            float u = step_noise(k, (uint64_t)(at + i));

            v[i] = k == 0 ? 2 * u : k == 1 ? 0.5F * u + 0.5F : u > -0.5F ? 1 : 0;
        }
        ck_assert_msg(stance_step_fill(r->step, which, input, STANCE_TYPE_F32, v, &err) == STANCE_OK, "%s", err.text);
        free(v);
    }
}

/** One array of a segment as binary64; freed with free(). */
static inline double *step_values(const struct step_run *r, size_t segment, int array, int64_t *n)
{
    const struct stance_store *s   = stance_step_store(r->step);
    struct stance_error        err = STANCE_ERROR_INIT;
    double                    *v;

    *n = stance_elements(&s->segments[segment].shape);
    v  = malloc((size_t)*n * sizeof *v);
    ck_assert_ptr_nonnull(v);
    ck_assert_msg(stance_store_read(s, segment, array, STANCE_TYPE_F64, v, &err) == STANCE_OK, "%s", err.text);
    return v;
}

#endif
