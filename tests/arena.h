/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena of real networks, without the memory. */
#ifndef TESTS_ARENA_H
#define TESTS_ARENA_H

#include "step_run.h"

#include <sys/mman.h>

/* Memory of a device that is address space only: nothing is run. */
static inline stance_status arena_reserve(void *state, size_t bytes, void **out, struct stance_error *err)
{
    void *p = mmap(NULL, bytes + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)state;
    if (p == MAP_FAILED)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%zu bytes", bytes);
    *out = p;
    return STANCE_OK;
}

static inline void arena_unreserve(void *state, void *memory, size_t bytes)
{
    (void)state;
    munmap(memory, bytes + 4096);
}

/** Sizes of the training program for a batch of 16. @param backbone  and head, as lines of a recipe */
static inline struct stance_program_size arena_size(const char *backbone, const char *precision,
                                                    enum stance_rebuild rebuild)
{
    struct step_run            r;
    struct stance_device_ops   ops;
    struct stance_device       device;
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_program_size size;
    char                       text[1024];

    snprintf(text, sizeof text,
             "model:\n  task: top_down\n  %s  loss: {name: joints_mse, use_target_weight: true}\n"
             "data: {dataset: synthetic}\ntrain: {batch_size: 16, optimizer: {name: adam, lr: 5.0e-4}}\n", backbone);
    step_setup(&r, text, "cpu", precision);
    ops               = *r.setup.device->ops;
    ops.alloc         = arena_reserve;
    ops.release       = arena_unreserve;
    device            = *r.setup.device;
    device.ops        = &ops;
    r.options.device  = &device;
    r.options.rebuild = rebuild;
    ck_assert_msg(stance_step_new(&r.options, &r.step, &err) == STANCE_OK, "%s", err.text);
    size = stance_program_size(stance_step_program(r.step, STANCE_STEP_BATCH));
    step_close(&r);
    return size;
}

static const char *const arena_nets[][2] = {
    { "hrnet_w32", "backbone: {name: hrnet, width: 32}\n  head: {name: heatmap, deconv: []}\n" },
    { "resnet50", "backbone: {name: resnet, depth: 50}\n  head: {name: heatmap, deconv: [256, 256, 256]}\n" },
};

#endif
