/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/cache.h"
#include "data/image.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct stance_image_cache {
    struct stance_dataset_ops        ops;
    const struct stance_dataset_ops *dataset;
    const void                      *state;
    int64_t                          n;      /* different images */
    int32_t                         *slot_of; /* [samples] */
    struct stance_image             *slots;  /* [n]; filled once, then constant */
    size_t                           left;   /* bytes */
    pthread_mutex_t                  lock;   /* guards slots and left */
};

static const struct stance_pose *pose(const void *state)
{
    const struct stance_image_cache *c = state;

    return c->dataset->pose(c->state);
}

static int64_t count(const void *state)
{
    const struct stance_image_cache *c = state;

    return c->dataset->count(c->state);
}

static const struct stance_sample *sample(const void *state, int64_t index)
{
    const struct stance_image_cache *c = state;

    return c->dataset->sample(c->state, index);
}

static const char *path(const void *state, int64_t index)
{
    const struct stance_image_cache *c = state;

    return c->dataset->path(c->state, index);
}

static const struct stance_truth *truths(const void *state, int64_t *n)
{
    const struct stance_image_cache *c = state;

    return c->dataset->truths(c->state, n);
}

static const int64_t *image_ids(const void *state, int64_t *n)
{
    const struct stance_image_cache *c = state;

    return c->dataset->image_ids(c->state, n);
}

static size_t bytes_of(const struct stance_image *image)
{
    return (size_t)image->width * (size_t)image->height * 3;
}

/* Rows part[1] <= y < part[3], which need not be within the image; NULL: all.
 * @return false when memory is short */
static bool copy(const struct stance_image *from, const int32_t part[4], struct stance_image *to)
{
    uint8_t *rgb = stance_calloc(bytes_of(from), 1);
    size_t   row = 3 * (size_t)from->width;
    int32_t  top = part == NULL || part[1] < 0 ? 0 : part[1];
    int32_t  bottom = part == NULL || part[3] > from->height ? from->height : part[3];

    if (rgb == NULL)
        return false;
    if (top < bottom)
        memcpy(rgb + row * (size_t)top, from->rgb + row * (size_t)top, row * (size_t)(bottom - top));
    *to     = *from;
    to->rgb = rgb;
    return true;
}

static void keep(struct stance_image_cache *c, int32_t slot, const struct stance_image *image)
{
    struct stance_image kept;
    size_t              size = bytes_of(image);
    bool                room;

    pthread_mutex_lock(&c->lock);
    room = c->slots[slot].rgb == NULL && c->left >= size;
    if (room)
        c->left -= size;
    pthread_mutex_unlock(&c->lock);
    if (!room)
        return;
    if (!copy(image, NULL, &kept)) /* a cache may do without */
        return;
    pthread_mutex_lock(&c->lock);
    if (c->slots[slot].rgb == NULL) {
        c->slots[slot] = kept;
        kept.rgb       = NULL;
    } else {
        c->left += size;
    }
    pthread_mutex_unlock(&c->lock);
    stance_free(kept.rgb);
}

static void image_size(const void *state, int64_t index, int32_t *width, int32_t *height)
{
    const struct stance_image_cache *c = state;

    c->dataset->image_size(c->state, index, width, height);
}

/* Whether image() would keep one that is asked for now. */
static bool has_room(struct stance_image_cache *c, int64_t index)
{
    int32_t width, height;
    size_t  left;

    image_size(c, index, &width, &height);
    pthread_mutex_lock(&c->lock);
    left = c->left;
    pthread_mutex_unlock(&c->lock);
    return left >= bytes_of(&(struct stance_image){ .width = width, .height = height });
}

/* @param part  NULL: all of it */
static stance_status image_part(const void *state, int64_t index, const int32_t part[4], struct stance_image *out,
                                struct stance_error *err)
{
    /* The table of images changes behind a dataset that stays the same to whoever looks. */
    struct stance_image_cache *c    = (struct stance_image_cache *)(uintptr_t)state;
    int32_t                    slot = c->slot_of[index];
    struct stance_image        have;
    stance_status              status;

    pthread_mutex_lock(&c->lock);
    have = c->slots[slot];
    pthread_mutex_unlock(&c->lock);
    if (have.rgb != NULL) {
        if (copy(&have, part, out))
            return STANCE_OK;
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: %d x %d pixels", path(state, index), have.width,
                           have.height);
    }
    if (part != NULL && !has_room(c, index))
        return c->dataset->image_part(c->state, index, part, out, err);
    status = c->dataset->image(c->state, index, out, err);
    if (status == STANCE_OK)
        keep(c, slot, out);
    return status;
}

static stance_status image(const void *state, int64_t index, struct stance_image *out,
                           struct stance_error *err)
{
    return image_part(state, index, NULL, out, err);
}

struct id_index { int64_t id, index; };

static int by_id(const void *a, const void *b)
{
    const struct id_index *x = a, *y = b;

    return x->id != y->id ? (x->id < y->id ? -1 : 1) : (x->index > y->index) - (x->index < y->index);
}

stance_status stance_image_cache_new(const struct stance_dataset_ops *dataset, const void *dataset_state,
                                     size_t bytes, struct stance_image_cache **out,
                                     struct stance_error *err)
{
    int64_t                    samples = dataset->count(dataset_state);
    struct stance_image_cache *c       = stance_calloc(1, sizeof *c);
    struct id_index           *ids     = stance_calloc((size_t)samples + 1, sizeof *ids);

    if (c == NULL || ids == NULL || samples > INT32_MAX)
        goto no_memory;
    c->slot_of = stance_calloc((size_t)samples + 1, sizeof *c->slot_of);
    c->slots   = stance_calloc((size_t)samples + 1, sizeof *c->slots);
    if (c->slot_of == NULL || c->slots == NULL)
        goto no_memory;
    for (int64_t i = 0; i < samples; i++)
        ids[i] = (struct id_index){ dataset->sample(dataset_state, i)->image_id, i };
    qsort(ids, (size_t)samples, sizeof *ids, by_id);
    for (int64_t i = 0; i < samples; i++) {
        if (i == 0 || ids[i].id != ids[i - 1].id)
            c->n++;
        c->slot_of[ids[i].index] = (int32_t)(c->n - 1);
    }
    stance_free(ids);
    c->dataset = dataset;
    c->state   = dataset_state;
    c->left    = bytes;
    c->ops     = (struct stance_dataset_ops){ .size = sizeof c->ops, .pose = pose, .count = count,
                                              .sample = sample, .image = image, .path = path,
                                              .truths = truths, .image_ids = image_ids };
    if (dataset->image_size != NULL && dataset->image_part != NULL) {
        c->ops.image_size = image_size;
        c->ops.image_part = image_part;
    }
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    return STANCE_OK;
no_memory:
    if (c != NULL) {
        stance_free(c->slot_of);
        stance_free(c->slots);
    }
    stance_free(c);
    stance_free(ids);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "cache of images");
}

const struct stance_dataset_ops *stance_image_cache_ops(const struct stance_image_cache *c)
{
    return &c->ops;
}

void stance_image_cache_free(struct stance_image_cache *c)
{
    if (c == NULL)
        return;
    for (int64_t i = 0; i < c->n; i++)
        stance_free(c->slots[i].rgb);
    stance_free(c->slots);
    stance_free(c->slot_of);
    pthread_mutex_destroy(&c->lock);
    stance_free(c);
}
