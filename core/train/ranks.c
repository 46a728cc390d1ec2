/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/ranks.h"

#include <string.h>

enum { PATH_MAX_BYTES = 4400 };

stance_status stance_ranks_path(struct stance_comm *c, char **path, struct stance_error *err)
{
    char          text[PATH_MAX_BYTES] = "";
    stance_status status = STANCE_OK;

    if (c->place.rank == 0 && *path != NULL) {
        if (strlen(*path) >= sizeof text)
            status = STANCE_FAIL(err, STANCE_ERR_RANGE, "%.200s...: name is too long", *path);
        else
            strcpy(text, *path);
    }
    status = stance_comm_agree(c, status, err);
    if (status == STANCE_OK)
        status = c->ops->broadcast(c->state, text, sizeof text, 0, err);
    if (status != STANCE_OK || c->place.rank == 0)
        return status;
    stance_free(*path);
    *path = text[0] != '\0' ? stance_strdup(text) : NULL;
    return text[0] == '\0' || *path != NULL ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", text);
}

/* In the device's form: that it is the same has been compared. */
static stance_status give(struct stance_comm *c, void *data, size_t bytes, stance_status status, struct stance_error *err)
{
    return status == STANCE_OK && data != NULL && bytes > 0 ? c->ops->broadcast(c->state, data, bytes, 0, err) : status;
}

/* Of all tensors: name, place, form. */
static uint64_t layout(const struct stance_store *s)
{
    uint64_t h = stance_comm_hash(0, s->bytes, sizeof s->bytes);

    for (size_t i = 0; i < s->n_segments; i++) {
        const struct stance_segment *g = &s->segments[i];
        const uint64_t v[] = { (uint64_t)g->bank, (uint64_t)g->type, g->offset, g->form.layout, (uint64_t)g->form.stored,
                               g->form.bytes, (uint64_t)g->shape.rank };

        h = stance_comm_hash(h, g->name, strlen(g->name));
        h = stance_comm_hash(h, v, sizeof v);
        h = stance_comm_hash(h, g->shape.dim, (size_t)g->shape.rank * sizeof g->shape.dim[0]);
    }
    return h;
}

static stance_status compare_layout(struct stance_comm *c, const struct stance_store *s, struct stance_error *err)
{
    const struct stance_comm_item item = { "model or layout of its tensors (other processor?)", layout(s) };

    return stance_comm_same(c, &item, 1, err);
}

stance_status stance_ranks_weights(struct stance_comm *c, struct stance_step *step, struct stance_error *err)
{
    struct stance_store *s      = stance_step_store(step);
    stance_status        status = compare_layout(c, s, err);

    for (int b = 0; b < STANCE_BANK_COUNT; b++) {
        status = give(c, s->bank[b], s->bytes[b], status, err);
        status = give(c, s->committed[b], s->bytes[b], status, err);
    }
    return status;
}

stance_status stance_ranks_statistics(struct stance_comm *c, struct stance_step *step, struct stance_error *err)
{
    struct stance_store *s      = stance_step_store(step);
    stance_status        status = STANCE_OK;

    for (int b = 0; b < STANCE_BANK_COUNT; b++)
        status = give(c, s->committed[b], s->bytes[b], status, err);
    return status;
}

static uint64_t banks(const struct stance_store *s, int from, int to, bool committed)
{
    uint64_t h = 0;

    for (int b = from; b <= to; b++)
        if (s->bytes[b] > 0)
            h = stance_comm_hash(h, committed && s->committed[b] != NULL ? s->committed[b] : s->bank[b], s->bytes[b]);
    return h;
}

static uint64_t counters(struct stance_step *step, const struct stance_position *at)
{
    struct stance_skips *k = stance_step_skips(step);
    const int64_t        v[] = { at->epoch, at->batch, at->iteration, at->micro, (int64_t)stance_step_applied(step), k->in_a_row,
                                 k->total };

    return stance_comm_hash(stance_comm_hash(0, v, sizeof v), &at->best, sizeof at->best);
}

stance_status stance_ranks_compare(struct stance_comm *c, struct stance_step *step, const struct stance_setup *setup,
                                   const struct stance_position *at, struct stance_error *err)
{
    struct stance_store *s       = stance_step_store(step);
    uint64_t             moments = 0, averages = 0;
    char                *scaler  = NULL;
    stance_status        status  = stance_comm_agree(c, stance_scaler_save(setup->scaler, &scaler, err), err);

    if (status == STANCE_OK)
        status = compare_layout(c, s, err);
    if (status == STANCE_OK) {
        for (int i = 0; i < s->n_slots; i++)
            moments = stance_comm_hash(moments, s->slot[i], s->bytes[STANCE_BANK_PARAM]);
        for (int b = 0; b < STANCE_BANK_COUNT; b++)
            if (s->average[b] != NULL)
                averages = stance_comm_hash(averages, s->average[b], s->bytes[b]);
        {
            const struct stance_comm_item item[] = {
                { "set of weights (masters)", banks(s, STANCE_BANK_PARAM, STANCE_BANK_FROZEN, false) },
                { "set of running statistics", banks(s, STANCE_BANK_STATE, STANCE_BANK_COUNTER, true) },
                { "set of moments of the optimizer", moments },
                { "set of averaged weights", averages },
                { "state of the loss scaler", stance_comm_hash(0, scaler, strlen(scaler)) },
                { "position in the run (epoch, step, skips)", counters(step, at) },
            };

            status = stance_comm_same(c, item, sizeof item / sizeof *item, err);
        }
    }
    stance_free(scaler);
    return status;
}
