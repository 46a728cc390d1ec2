/* SPDX-License-Identifier: Apache-2.0
 *
 * Moving averages of the masters, and of the running statistics. */
#include "config.h"

#include "compile/kernel.h"
#include "compile/store.h"

static stance_status copy(const struct stance_store *s, void *to, size_t to_offset, void *from, size_t from_offset,
                          size_t bytes, struct stance_error *err)
{
    struct stance_tensor a = stance_tensor_flat((char *)to + to_offset, s->policy.wide, bytes);
    struct stance_tensor b = stance_tensor_flat((char *)from + from_offset, s->policy.wide, bytes);

    return s->device->ops->reorder(s->device->state, &a, &b, err);
}

/* What is averaged, and what evaluation reads: masters and committed statistics. */
static void *source(const struct stance_store *s, int bank)
{
    return s->committed[bank] != NULL ? s->committed[bank] : s->bank[bank];
}

stance_status stance_store_begin_average(struct stance_store *s, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (int b = 0; b < STANCE_BANK_COUNT && status == STANCE_OK; b++)
        if (s->average[b] != NULL)
            status = copy(s, s->average[b], 0, source(s, b), 0, s->bytes[b], err);
    return status;
}

stance_status stance_store_exchange_average(struct stance_store *s, struct stance_error *err)
{
    size_t        most   = s->arena_bytes / 64 * 64;
    stance_status status = STANCE_OK;

    for (int b = 0; b < STANCE_BANK_COUNT; b++) {
        for (size_t at = 0, n; s->average[b] != NULL && at < s->bytes[b] && status == STANCE_OK; at += n) {
            n      = s->bytes[b] - at < most ? s->bytes[b] - at : most;
            status = n == 0 ? STANCE_FAIL(err, STANCE_ERR_INTERNAL, "averages: no room to exchange them")
                            : copy(s, s->arena, 0, source(s, b), at, n, err);
            if (status == STANCE_OK)
                status = copy(s, source(s, b), at, s->average[b], at, n, err);
            if (status == STANCE_OK)
                status = copy(s, s->average[b], at, s->arena, 0, n, err);
        }
    }
    return status;
}
