/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/reducer.h"

#include "base/clock.h"

#include <stance/alloc.h>

#include <stdlib.h>
#include <string.h>

struct bucket { size_t offset, bytes; };

struct stance_reducer {
    struct stance_comm   *comm;
    struct stance_store  *store;
    struct bucket        *buckets;
    int                   n;
    char                 *requests; /* [n] of request_size bytes */
    size_t                request_size;
    size_t               *ready[STANCE_REDUCER_PROGRAMS]; /* [n] launch after which each may start; never falling */
    const size_t         *watching; /* of the pass under way */
    int                   started, done;
    struct stance_error   error;    /* of a start within a pass */
    struct stance_reducer_stats stats;
};

static int by_offset_falling(const void *a, const void *b)
{
    const struct stance_segment *x = *(const struct stance_segment *const *)a, *y = *(const struct stance_segment *const *)b;

    return (x->offset < y->offset) - (x->offset > y->offset);
}

/* The trained segments from the last to the first. */
static const struct stance_segment **sorted(const struct stance_store *s, size_t *n)
{
    const struct stance_segment **list = stance_calloc(s->n_segments + 1, sizeof *list);

    *n = 0;
    for (size_t i = 0; list != NULL && i < s->n_segments; i++)
        if (s->segments[i].bank == STANCE_BANK_PARAM)
            list[(*n)++] = &s->segments[i];
    if (list != NULL)
        qsort(list, *n, sizeof *list, by_offset_falling);
    return list;
}

static void *request(const struct stance_reducer *r, int i)
{
    return r->requests + (size_t)i * r->request_size;
}

stance_status stance_reducer_new(struct stance_comm *c, struct stance_store *store, size_t bucket,
                                struct stance_reducer **out, struct stance_error *err)
{
    struct stance_reducer         *r = stance_calloc(1, sizeof *r);
    const struct stance_segment **list = NULL;
    size_t                        n = 0, end;

    if (r == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reduction of gradients");
    r->comm  = c;
    r->store = store;
    list     = sorted(store, &n);
    if (list == NULL)
        goto no_memory;
    r->buckets      = stance_calloc(n + 1, sizeof *r->buckets);
    r->request_size = (c->ops->request_size + 63) / 64 * 64;
    end             = store->bytes[STANCE_BANK_PARAM];
    for (size_t i = 0; r->buckets != NULL && i < n; i++) {
        if (end - list[i]->offset < bucket && i + 1 < n)
            continue;
        r->buckets[r->n++] = (struct bucket){ list[i]->offset, end - list[i]->offset };
        end                = list[i]->offset;
    }
    r->requests = stance_calloc((size_t)r->n + 1, r->request_size + 64);
    for (int i = 0; i < STANCE_REDUCER_PROGRAMS; i++)
        r->ready[i] = stance_calloc((size_t)r->n + 1, sizeof *r->ready[i]);
    stance_free(list);
    list = NULL;
    if (r->buckets == NULL || r->requests == NULL || r->ready[0] == NULL || r->ready[1] == NULL)
        goto no_memory;
    r->stats.buckets = r->n;
    *out             = r;
    return STANCE_OK;

no_memory:
    stance_free(list);
    stance_reducer_free(r);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reduction of gradients");
}

void stance_reducer_free(struct stance_reducer *r)
{
    if (r == NULL)
        return;
    for (int i = 0; i < STANCE_REDUCER_PROGRAMS; i++)
        stance_free(r->ready[i]);
    stance_free(r->requests);
    stance_free(r->buckets);
    stance_free(r);
}

stance_status stance_reducer_watch(struct stance_reducer *r, int which, const struct stance_program *p, struct stance_error *err)
{
    size_t *last = stance_calloc(r->store->n_segments + 1, sizeof *last);

    if (last == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reduction of gradients");
    stance_program_gradients(p, last);
    for (size_t i = 0; i < r->store->n_segments; i++) {
        const struct stance_segment *g = &r->store->segments[i];
        int                          b = 0;

        if (g->bank != STANCE_BANK_PARAM)
            continue;
        while (g->offset < r->buckets[b].offset)
            b++;
        if (last[i] > r->ready[which][b])
            r->ready[which][b] = last[i];
    }
    for (int b = 1; b < r->n; b++)
        if (r->ready[which][b] < r->ready[which][b - 1])
            r->ready[which][b] = r->ready[which][b - 1];
    stance_free(last);
    return STANCE_OK;
}

static stance_status start_next(struct stance_reducer *r, struct stance_error *err)
{
    const struct bucket *b    = &r->buckets[r->started];
    enum stance_type     wide = r->store->policy.wide;
    stance_status        status = r->comm->ops->start(r->comm->state, request(r, r->started),
                                                      (char *)r->store->gradient + b->offset, b->bytes / stance_type_size(wide),
                                                      wide, STANCE_COMM_SUM, NULL, err);

    r->stats.bytes += b->bytes;
    r->started++;
    return status;
}

static stance_status after_launch(void *ctx, size_t launch)
{
    struct stance_reducer *r = ctx;
    double                begin;

    while (r->started < r->n && r->watching[r->started] <= launch) {
        stance_status status = start_next(r, &r->error);

        if (status != STANCE_OK)
            return status;
    }
    if (r->done == r->started || r->comm->ops->test == NULL)
        return STANCE_OK;
    begin = stance_seconds();
    while (r->done < r->started && r->comm->ops->test(r->comm->state, request(r, r->done)))
        r->done++;
    r->stats.polled += stance_seconds() - begin;
    return STANCE_OK;
}

stance_status stance_reducer_backward(struct stance_reducer *r, int which, struct stance_program *p, struct stance_error *err)
{
    stance_status status;

    r->watching = r->ready[which];
    r->error    = (struct stance_error)STANCE_ERROR_INIT;
    status      = stance_program_backward_followed(p, after_launch, r);
    if (r->error.status != STANCE_OK && err != NULL)
        *err = r->error;
    return status;
}

stance_status stance_reducer_finish(struct stance_reducer *r, struct stance_error *err)
{
    double begin = stance_seconds();

    while (r->started < r->n) {
        stance_status status = start_next(r, err);

        if (status != STANCE_OK)
            return status;
    }
    for (int i = r->done; i < r->n; i++) {
        stance_status status = r->comm->ops->wait(r->comm->state, request(r, i), err);

        if (status != STANCE_OK)
            return status;
    }
    r->started = r->done = 0;
    r->stats.waited += stance_seconds() - begin;
    return STANCE_OK;
}

struct stance_reducer_stats stance_reducer_stats(const struct stance_reducer *r)
{
    return r->stats;
}

void stance_reducer_reset(struct stance_reducer *r)
{
    r->stats = (struct stance_reducer_stats){ .buckets = r->n };
}
