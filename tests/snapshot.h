/* SPDX-License-Identifier: Apache-2.0
 *
 * What a step has made, as bytes, and a batch that makes it overflow. */
#ifndef TESTS_SNAPSHOT_H
#define TESTS_SNAPSHOT_H

#include "step_run.h"

#include <math.h>

/** Everything that a step may change, as bytes; freed with free(). */
struct snapshot { char *bytes; size_t size; };

static inline void snapshot_append(struct snapshot *s, const void *data, size_t bytes)
{
    if (bytes == 0 || data == NULL)
        return;
    s->bytes = realloc(s->bytes, s->size + bytes);
    ck_assert_ptr_nonnull(s->bytes);
    memcpy(s->bytes + s->size, data, bytes);
    s->size += bytes;
}

static inline struct snapshot step_snapshot(const struct step_run *r)
{
    const struct stance_store *s = stance_step_store(r->step);
    struct snapshot            x = { NULL, 0 };
    uint64_t                   applied = stance_step_applied(r->step);

    for (int b = 0; b < STANCE_BANK_COUNT; b++) {
        snapshot_append(&x, s->bank[b], s->bytes[b]);
        snapshot_append(&x, s->committed[b], s->bytes[b]);
        snapshot_append(&x, s->average[b], s->bytes[b]);
    }
    for (int i = 0; i < s->n_slots; i++)
        snapshot_append(&x, s->slot[i], s->bytes[STANCE_BANK_PARAM]);
    snapshot_append(&x, &applied, sizeof applied);
    return x;
}

static inline bool step_equal(const struct snapshot *a, const struct snapshot *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

/** One value of the image becomes infinite. */
static inline void step_fill_infinity(struct step_run *r)
{
    int                         input = stance_step_input(r->step, STANCE_STEP_BATCH, "image");
    const struct stance_tensor *t     = stance_program_input(stance_step_program(r->step, STANCE_STEP_BATCH), "image");
    int64_t                     n     = stance_elements(&t->shape);
    float                      *v     = malloc((size_t)n * sizeof *v);
    struct stance_error         err   = STANCE_ERROR_INIT;

    ck_assert_ptr_nonnull(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = i == n / 2 ? INFINITY : 2 * step_noise(0, (uint64_t)i);
    ck_assert_int_eq(stance_step_fill(r->step, STANCE_STEP_BATCH, input, STANCE_TYPE_F32, v, &err), STANCE_OK);
    free(v);
}

#endif
