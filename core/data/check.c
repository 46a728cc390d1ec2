/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/check.h"
#include "data/image.h"

#include <stance/log.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define STANCE_LOG_MODULE "check"

struct id_index { int64_t id, index; };

struct decoding {
    const struct stance_dataset_ops *ops;
    const void                      *state;
    const struct id_index           *images; /* [n] one sample of each image, in the order of samples */
    int64_t                          n;
    atomic_int_fast64_t              next;
    char                           **reasons; /* [n] NULL: decodes */
    atomic_bool                      no_memory;
};

static int by_id(const void *a, const void *b)
{
    const struct id_index *x = a, *y = b;

    return x->id != y->id ? (x->id < y->id ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}

static int by_index(const void *a, const void *b)
{
    const struct id_index *x = a, *y = b;

    return (x->index > y->index) - (x->index < y->index);
}

static void *decode(void *arg)
{
    struct decoding *d = arg;

    for (int64_t i; (i = atomic_fetch_add(&d->next, 1)) < d->n;) {
        struct stance_image image = { 0 };
        struct stance_error err   = STANCE_ERROR_INIT;
        stance_status       got   = d->ops->image(d->state, d->images[i].index, &image, &err);

        if (got == STANCE_OK) {
            stance_image_free(&image);
            continue;
        }
        d->reasons[i] = stance_strdup(err.text);
        if (got == STANCE_ERR_NOMEM || d->reasons[i] == NULL)
            d->no_memory = true;
    }
    return NULL;
}

static void decode_all(struct decoding *d, int threads)
{
    pthread_t thread[256];
    int       n = 0;

    while (n < threads - 1 && n < 255 && pthread_create(&thread[n], NULL, decode, d) == 0)
        n++;
    decode(d); /* this thread works too, so that none at all would do */
    while (n > 0)
        pthread_join(thread[--n], NULL);
}

static stance_status check_open(const struct stance_dataset_ops *ops, const void *state, int threads,
                                struct stance_check_result *out, struct stance_error *err)
{
    const int64_t    n      = ops->count(state);
    const int32_t    K      = ops->pose(state)->keypoints;
    struct id_index *images = stance_calloc((size_t)n + 1, sizeof *images);
    struct decoding  d      = { .ops = ops, .state = state, .images = images };
    stance_status    status = STANCE_OK;

    d.reasons = stance_calloc((size_t)n + 1, sizeof *d.reasons);
    if (images == NULL || d.reasons == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "check: list of images");
        goto free_lists;
    }
    for (int64_t i = 0; i < n; i++) {
        const struct stance_sample *s = ops->sample(state, i);

        images[i] = (struct id_index){ s->image_id, i };
        for (int32_t k = 0; k < K; k++)
            out->labelled += s->keypoint[3 * k + 2] > 0;
    }
    qsort(images, (size_t)n, sizeof *images, by_id);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || images[i].id != images[i - 1].id)
            images[d.n++] = images[i];
    qsort(images, (size_t)d.n, sizeof *images, by_index);
    out->samples = n;
    out->points  = n * K;
    out->images  = d.n;
    decode_all(&d, threads);
    for (int64_t i = 0; i < d.n; i++) {
        if (d.reasons[i] == NULL)
            continue;
        if (out->bad_images++ == 0)
            status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s", d.reasons[i]);
        STANCE_LOG(STANCE_LOG_WARN, "%s", d.reasons[i]);
    }
    if (d.no_memory)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "check: an image did not fit into memory");
    else if (out->bad_images > 1)
        stance_error_prefix(err, status, "%lld images cannot be used, the first", (long long)out->bad_images);
free_lists:
    for (int64_t i = 0; i < d.n && d.reasons != NULL; i++)
        stance_free(d.reasons[i]);
    stance_free(d.reasons);
    stance_free(images);
    return status;
}

stance_status stance_check_dataset(const struct stance_dataset_ops *ops, const void *config,
                                   const struct stance_split *split, int threads,
                                   struct stance_check_result *out, struct stance_error *err)
{
    struct stance_split all   = *split;
    void               *state = stance_calloc(1, ops->state_size + 1);
    stance_status       status;

    *out = (struct stance_check_result){ 0 };
    if (state == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "check: dataset");
    all.check_images = true;
    status           = ops->open(state, config, &all, err);
    if (status == STANCE_OK) {
        status = check_open(ops, state, threads, out, err);
        ops->close(state);
    }
    stance_free(state);
    return status;
}
