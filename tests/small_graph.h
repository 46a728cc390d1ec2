/* SPDX-License-Identifier: Apache-2.0
 *
 * A small graph compiled and run on a device, as one program of one store. */
#ifndef TESTS_SMALL_GRAPH_H
#define TESTS_SMALL_GRAPH_H

#include "runner.h"
#include "step_run.h"

#include "compile/program.h"
#include "graph/graph.h"

#include <math.h>

/** Builds nodes; training: returns the loss. */
typedef struct stance_value small_build(struct stance_builder *b);

struct small {
    struct stance_registry *registry;
    struct stance_device   *device;
    struct stance_policy    policy;
    struct stance_store    *store;
    struct stance_program  *program;
    enum stance_rebuild     rebuild; /**< set before compiling */
};

static inline void small_open(struct small *s, const char *device, const char *precision)
{
    struct stance_error err = STANCE_ERROR_INIT;

    LTDL_SET_PRELOADED_SYMBOLS();
    *s = (struct small){ 0 };
    ck_assert_msg(stance_registry_new(NULL, &s->registry, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_device_open(s->registry, device, NULL, 1, &s->device, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_policy_of(precision, s->device, true, &s->policy, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_store_new(s->device, s->policy, &s->store, &err) == STANCE_OK, "%s", err.text);
}

static inline stance_status small_compile(struct small *s, small_build *build, bool training, struct stance_error *err)
{
    struct stance_program_options o = { .slots = training ? 0 : -1, .rebuild = s->rebuild };
    struct stance_graph          *g;
    struct stance_value           loss;
    stance_status                 status = stance_graph_new(s->registry, training, &g, err);

    if (status != STANCE_OK)
        return status;
    loss   = build(stance_graph_builder(g));
    status = stance_graph_status(g, err);
    if (status == STANCE_OK && training)
        status = stance_graph_backward(g, loss, err);
    if (status != STANCE_OK) {
        stance_graph_free(g);
        return status;
    }
    return stance_program_new(g, s->store, &o, &s->program, err);
}

/** Fills an input; v NULL: noise that depends on the name's first letter. */
static inline void small_fill(struct small *s, const char *name, const double *v)
{
    const struct stance_tensor *t = stance_program_input(s->program, name);
    struct stance_tensor        host;
    struct stance_error         err = STANCE_ERROR_INIT;
    int64_t                     n;
    float                      *x;

    ck_assert_msg(t != NULL, "no input '%s'", name);
    n = stance_elements(&t->shape);
    x = malloc((size_t)n * sizeof *x);
    ck_assert_ptr_nonnull(x);
    for (int64_t i = 0; i < n; i++)
        x[i] = v != NULL ? (float)v[i] : step_noise((uint64_t)name[0], (uint64_t)i);
    host = (struct stance_tensor){ x, STANCE_TYPE_F32, STANCE_TYPE_F32, 0, t->shape, (size_t)n * sizeof *x };
    ck_assert_msg(s->device->ops->reorder(s->device->state, t, &host, &err) == STANCE_OK, "%s", err.text);
    free(x);
}

/** Compiles, initialises the weights, binds and packs; inputs are noise. */
static inline void small_make(struct small *s, small_build *build, bool training)
{
    struct stance_error err = STANCE_ERROR_INIT;
    const char         *name;

    ck_assert_msg(small_compile(s, build, training, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_store_initialise(s->store, 7, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_program_bind(s->program, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(stance_program_pack(s->program), STANCE_OK);
    s->store->control->scale        = 1;
    s->store->control->micro_weight = 1;
    for (size_t i = 0; (name = stance_program_input_name(s->program, i)) != NULL; i++)
        small_fill(s, name, NULL);
}

static inline void small_run(struct small *s)
{
    ck_assert_int_eq(stance_program_forward(s->program), STANCE_OK);
    ck_assert_int_eq(stance_program_backward(s->program), STANCE_OK);
}

static inline void small_close(struct small *s)
{
    stance_program_free(s->program);
    stance_store_free(s->store);
    stance_device_close(s->device);
    stance_registry_free(s->registry);
}

/** An output as binary64; freed with free(). */
static inline double *small_output(struct small *s, const char *name, int64_t *n)
{
    const struct stance_tensor *t = stance_program_output(s->program, name);
    struct stance_tensor        host;
    struct stance_error         err = STANCE_ERROR_INIT;
    double                     *v;

    ck_assert_msg(t != NULL, "no output '%s'", name);
    *n = stance_elements(&t->shape);
    v  = malloc((size_t)*n * sizeof *v);
    ck_assert_ptr_nonnull(v);
    /* A device need not know binary64: then binary32 is widened here, from the end. */
    host = (struct stance_tensor){ v, s->policy.wide, s->policy.wide, 0, t->shape,
                                   (size_t)*n * stance_type_size(s->policy.wide) };
    ck_assert_msg(s->device->ops->reorder(s->device->state, &host, t, &err) == STANCE_OK, "%s", err.text);
    for (int64_t i = *n; s->policy.wide == STANCE_TYPE_F32 && i-- > 0;) {
        float f;

        memcpy(&f, (const char *)v + 4 * i, sizeof f);
        v[i] = (double)f;
    }
    return v;
}

/** The gradient of a weight likewise. */
static inline double *small_gradient(struct small *s, const char *name, int64_t *n)
{
    long                segment = stance_store_find(s->store, name);
    struct stance_error err     = STANCE_ERROR_INIT;
    double             *v;

    ck_assert_msg(segment >= 0, "no weight '%s'", name);
    *n = stance_elements(&s->store->segments[segment].shape);
    v  = malloc((size_t)*n * sizeof *v);
    ck_assert_ptr_nonnull(v);
    ck_assert_msg(stance_store_read(s->store, (size_t)segment, STANCE_ARRAY_GRADIENT, STANCE_TYPE_F64, v, &err) == STANCE_OK,
                  "%s", err.text);
    return v;
}

/** How many launches of an op the program has, and how many of them plain C runs. */
static inline int small_count(const struct small *s, const char *op, int *plain)
{
    struct stance_program_launch l;
    int                          n = 0;

    if (plain != NULL)
        *plain = 0;
    for (size_t i = 0; stance_program_launch(s->program, i, &l); i++) {
        if (strcmp(l.op, op) != 0)
            continue;
        n++;
        if (plain != NULL)
            *plain += !l.on_device;
    }
    return n;
}

/** Relative L2 distance. */
static inline double small_distance(const double *have, const double *want, int64_t n)
{
    double off = 0, size = 0;

    for (int64_t i = 0; i < n; i++) {
        off += (have[i] - want[i]) * (have[i] - want[i]);
        size += want[i] * want[i];
    }
    return off == 0 ? 0 : sqrt(off / size);
}

#endif
