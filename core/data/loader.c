/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/loader.h"

#include "base/random.h"
#include "data/cache.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

enum { ALIGN = 64, AHEAD = 2 };

/* Where one batch is made. Batch b is made in slot b modulo the number of slots. */
struct slot {
    struct stance_batch  batch;
    void               **field; /* [fields] */
    struct stance_meta  *meta;  /* [batch_size] */
    void                *block;
    int32_t              done;   /* samples finished, well or not */
    int32_t              failed; /* position in the batch of the first sample that failed; -1: none */
    struct stance_error  error;  /* of that sample */
};

struct stance_loader {
    struct stance_loader_options o;
    struct stance_image_cache   *cache;
    const struct stance_field   *field;
    int                          fields;
    size_t                      *stride; /* [fields] bytes of one sample */
    int64_t                      all;    /* samples of all ranks */
    int64_t                      n, batches;
    uint32_t                    *order;  /* [all] shuffled; training only */
    int64_t                      epoch;
    struct slot                 *slots;
    int32_t                      n_slots;
    pthread_t                   *threads;
    int32_t                      n_threads;

    /* Guarded by lock: all below, and done, failed and error of the slots. `work` is signalled when there
     * may be samples to take, `ready` when a batch is complete or the last worker has stopped. */
    pthread_mutex_t lock;
    pthread_cond_t  work, ready;
    int64_t         next;     /* sample of this rank's epoch that is taken next */
    int64_t         current;  /* batch that next() gives next; those before it but the last are free */
    int64_t         released; /* batches below this one are no longer in use */
    int32_t         busy;     /* samples under way */
    bool            running, quit;
    struct stance_error told; /* by next(): stays until the next start */
};

/* Samples of all ranks in a training batch. */
static int64_t together(const struct stance_loader *l, int64_t batch)
{
    int64_t whole = (int64_t)l->o.batch_size * l->o.world, left = l->all - batch * whole;

    return left < whole ? left : whole;
}

/* Where the share of a rank begins among the samples of a training batch: rank 0 is never without one. */
static int64_t share(const struct stance_loader *l, int64_t batch, int32_t rank)
{
    return (together(l, batch) * rank + l->o.world - 1) / l->o.world;
}

/* Evaluation: the first sample of a rank, which begins a batch. */
static int64_t first_sample(const struct stance_loader *l, int32_t rank)
{
    int64_t b = l->o.batch_size, batches = (l->all + b - 1) / b, first = batches * rank / l->o.world * b;

    return first < l->all ? first : l->all;
}

/* Index into the dataset of sample i of this rank's epoch. */
static int64_t sample_at(const struct stance_loader *l, int64_t i)
{
    int64_t batch = i / l->o.batch_size, at = i % l->o.batch_size;

    if (!l->o.training)
        return first_sample(l, l->o.rank) + i;
    return l->order[batch * l->o.batch_size * l->o.world + share(l, batch, l->o.rank) + at];
}

static int32_t batch_count(const struct stance_loader *l, int64_t batch)
{
    int64_t left = l->n - batch * l->o.batch_size;

    return (int32_t)(left < l->o.batch_size ? left : l->o.batch_size);
}

int32_t stance_loader_count(const struct stance_loader *l, int64_t batch)
{
    return batch_count(l, batch);
}

static void shuffle(struct stance_loader *l)
{
    struct stance_rng r = stance_rng(l->o.seed, STANCE_USE_ORDER, (uint64_t)l->epoch, 0);

    for (int64_t i = 0; i < l->all; i++)
        l->order[i] = (uint32_t)i;
    for (int64_t i = l->all - 1; i > 0; i--) {
        uint32_t j = stance_rng_below(&r, (uint32_t)i + 1), t = l->order[i];

        l->order[i] = l->order[j];
        l->order[j] = t;
    }
}

static stance_status load(const struct stance_loader *l, struct slot *s, int32_t at, int64_t index,
                          void **place, struct stance_error *err)
{
    const struct stance_dataset_ops *dataset = l->cache ? stance_image_cache_ops(l->cache) : l->o.dataset;
    const void                      *state   = l->cache ? (const void *)l->cache : l->o.dataset_state;

    for (int f = 0; f < l->fields; f++)
        place[f] = s->field[f] != NULL ? (char *)s->field[f] + (size_t)at * l->stride[f] : NULL;
    return l->o.task->load(l->o.task_state, dataset, state, index, l->o.seed, l->epoch, l->o.training, place,
                           &s->meta[at], err);
}

static bool may_take(const struct stance_loader *l)
{
    return l->running && l->next < l->n
           && l->next / l->o.batch_size < l->batches
           && l->next / l->o.batch_size < l->released + l->n_slots;
}

/* Takes one sample and loads it. Called with the lock held, which is open while loading. */
static void take(struct stance_loader *l, void **place)
{
    int64_t             i     = l->next++;
    int64_t             batch = i / l->o.batch_size, index = sample_at(l, i);
    int32_t             at = (int32_t)(i % l->o.batch_size);
    struct slot        *s  = &l->slots[batch % l->n_slots];
    struct stance_error err = STANCE_ERROR_INIT;
    stance_status       status;

    if (at == 0) {
        s->done   = 0;
        s->failed = -1;
    }
    l->busy++;
    pthread_mutex_unlock(&l->lock);
    status = load(l, s, at, index, place, &err);
    pthread_mutex_lock(&l->lock);
    l->busy--;
    /* Of several failures the first in order is told, whoever came first. */
    if (status != STANCE_OK && (s->failed < 0 || at < s->failed)) {
        s->failed = at;
        s->error  = err;
    }
    s->done++;
    if (s->done == batch_count(l, batch) || (l->busy == 0 && !l->running))
        pthread_cond_broadcast(&l->ready);
}

static void *worker(void *arg)
{
    struct stance_loader *l = arg;
    void                 *place[16];

    pthread_mutex_lock(&l->lock);
    while (!l->quit) {
        if (may_take(l))
            take(l, place);
        else
            pthread_cond_wait(&l->work, &l->lock);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

void stance_loader_begin(struct stance_loader *l, int64_t epoch, int64_t first_batch)
{
    pthread_mutex_lock(&l->lock);
    l->running = false;
    while (l->busy > 0)
        pthread_cond_wait(&l->ready, &l->lock);
    l->epoch = epoch;
    if (l->o.training)
        shuffle(l);
    l->next     = first_batch * l->o.batch_size;
    l->current  = first_batch;
    l->released = first_batch;
    l->running  = true;
    l->told     = (struct stance_error)STANCE_ERROR_INIT;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
}

stance_status stance_loader_next(struct stance_loader *l, const struct stance_batch **batch,
                                 struct stance_error *err)
{
    struct slot  *s;
    int32_t       count;
    stance_status status = STANCE_OK;

    pthread_mutex_lock(&l->lock);
    l->released = l->current; /* the batch given last is the loader's again */
    pthread_cond_broadcast(&l->work);
    *batch = NULL;
    if (l->told.status != STANCE_OK)
        goto tell;
    if (!l->running || l->current >= l->batches)
        goto unlock;
    s     = &l->slots[l->current % l->n_slots];
    count = batch_count(l, l->current);
    if (l->n_threads == 0) {
        void *place[16];

        while (l->next < l->current * l->o.batch_size + count)
            take(l, place);
    }
    while (count > 0 && (l->next < l->current * l->o.batch_size + count || s->done < count))
        pthread_cond_wait(&l->ready, &l->lock);
    if (count > 0 && s->failed >= 0) {
        l->told    = s->error;
        l->running = false;
        goto tell;
    }
    s->batch.count  = count;
    s->batch.number = l->current++;
    *batch          = &s->batch;
    goto unlock;
tell:
    if (err != NULL)
        *err = l->told;
    status = l->told.status;
unlock:
    pthread_mutex_unlock(&l->lock);
    return status;
}

int64_t stance_loader_batches(const struct stance_loader *l)
{
    return l->batches;
}

int64_t stance_loader_samples(const struct stance_loader *l)
{
    return l->n;
}

/* ---- making and ending ---------------------------------------------------------------------------- */

static size_t bytes_of(enum stance_type type)
{
    switch (type) {
    case STANCE_TYPE_F64: case STANCE_TYPE_I64: return 8;
    case STANCE_TYPE_F16: case STANCE_TYPE_BF16: return 2;
    case STANCE_TYPE_U8: return 1;
    default: return 4; /* F32, I32, and ANY, which the host keeps in binary32 */
    }
}

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static bool slot_new(struct stance_loader *l, struct slot *s)
{
    size_t total = ALIGN;
    char  *at;

    for (int f = 0; f < l->fields; f++)
        total += aligned(l->stride[f] * (size_t)l->o.batch_size);
    s->failed = -1;
    s->field  = stance_calloc((size_t)l->fields, sizeof *s->field);
    s->meta   = stance_calloc((size_t)l->o.batch_size, sizeof *s->meta);
    s->block  = stance_calloc(1, total);
    if (s->field == NULL || s->meta == NULL || s->block == NULL)
        return false;
    at = (char *)s->block + (ALIGN - (uintptr_t)s->block % ALIGN) % ALIGN;
    for (int f = 0; f < l->fields; f++) {
        if (f > 0 && !l->o.training) /* targets are not asked for */
            continue;
        s->field[f] = at;
        at += aligned(l->stride[f] * (size_t)l->o.batch_size);
    }
    s->batch.field = s->field;
    s->batch.meta  = s->meta;
    return true;
}

static stance_status check_options(const struct stance_loader_options *o, struct stance_error *err)
{
    if (o->batch_size < 1 || o->batch_size > 65536)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "loader: batch size %d is outside [1, 65536]", o->batch_size);
    if (o->workers < 0 || o->workers > 256 || o->ahead < 0 || o->ahead > 256)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "loader: %d workers, %d batches ahead: outside [0, 256]",
                           o->workers, o->ahead);
    if (o->world < 1 || o->rank < 0 || o->rank >= o->world)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "loader: rank %d of %d", o->rank, o->world);
    return STANCE_OK;
}

static stance_status count_samples(struct stance_loader *l, struct stance_error *err)
{
    l->all = l->o.dataset->count(l->o.dataset_state);
    if (l->all <= 0 || l->all >= UINT32_MAX)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "loader: the dataset has %lld samples", (long long)l->all);
    if (l->o.training) {
        int64_t whole = (int64_t)l->o.batch_size * l->o.world;

        l->batches = l->o.drop_last ? l->all / whole : (l->all + whole - 1) / whole;
        l->n       = l->batches * l->o.batch_size;
        if (!l->o.drop_last) /* the last batch may be a smaller one */
            l->n += share(l, l->batches - 1, l->o.rank + 1) - share(l, l->batches - 1, l->o.rank) - l->o.batch_size;
    } else {
        l->n       = first_sample(l, l->o.rank + 1) - first_sample(l, l->o.rank);
        l->batches = l->o.drop_last ? l->n / l->o.batch_size : (l->n + l->o.batch_size - 1) / l->o.batch_size;
    }
    if (l->batches == 0 && l->o.training)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "loader: %lld samples do not fill one batch of %d",
                           (long long)(l->o.world > 1 ? l->all : l->n), l->o.batch_size);
    return STANCE_OK;
}

static stance_status make_fields(struct stance_loader *l, struct stance_error *err)
{
    l->field = l->o.task->fields(l->o.task_state, &l->fields);
    if (l->fields < 1 || l->fields > 16)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "loader: the task has %d fields", l->fields);
    l->stride = stance_calloc((size_t)l->fields, sizeof *l->stride);
    if (l->stride == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "loader");
    for (int f = 0; f < l->fields; f++) {
        l->stride[f] = bytes_of(l->field[f].type);
        for (int32_t d = 0; d < l->field[f].shape.rank; d++)
            l->stride[f] *= (size_t)l->field[f].shape.dim[d];
    }
    return STANCE_OK;
}

static stance_status make_slots(struct stance_loader *l, struct stance_error *err)
{
    bool made;

    l->n_slots = l->o.workers > 0 ? l->o.ahead + 1 : 1;
    l->slots   = stance_calloc((size_t)l->n_slots, sizeof *l->slots);
    l->threads = stance_calloc((size_t)l->o.workers + 1, sizeof *l->threads);
    l->order   = stance_calloc(l->o.training ? (size_t)l->all : 1, sizeof *l->order);
    made       = l->slots != NULL && l->threads != NULL && l->order != NULL;
    for (int32_t i = 0; i < l->n_slots && made; i++)
        made = slot_new(l, &l->slots[i]);
    return made ? STANCE_OK
                : STANCE_FAIL(err, STANCE_ERR_NOMEM, "loader: %d batches of %d samples", l->n_slots,
                              l->o.batch_size);
}

/* Signals are for the thread that runs the program. */
static stance_status start_threads(struct stance_loader *l, struct stance_error *err)
{
    sigset_t      all, before;
    stance_status status = STANCE_OK;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    for (; l->n_threads < l->o.workers; l->n_threads++) {
        int rc = pthread_create(&l->threads[l->n_threads], NULL, worker, l);

        if (rc != 0) {
            status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "loader: worker %d: %s", l->n_threads, strerror(rc));
            break;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

stance_status stance_loader_new(const struct stance_loader_options *options, struct stance_loader **out,
                                struct stance_error *err)
{
    struct stance_loader *l = stance_calloc(1, sizeof *l);
    stance_status         status;

    if (l == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "loader");
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->work, NULL);
    pthread_cond_init(&l->ready, NULL);
    l->o = *options;
    if (l->o.world == 0)
        l->o.world = 1;
    if (l->o.ahead == 0)
        l->o.ahead = AHEAD;
    status = check_options(&l->o, err);
    if (status == STANCE_OK)
        status = count_samples(l, err);
    if (status == STANCE_OK)
        status = make_fields(l, err);
    if (status == STANCE_OK && l->o.cache_bytes > 0)
        status = stance_image_cache_new(l->o.dataset, l->o.dataset_state, l->o.cache_bytes, &l->cache, err);
    if (status == STANCE_OK)
        status = make_slots(l, err);
    if (status == STANCE_OK)
        status = start_threads(l, err);
    if (status != STANCE_OK)
        goto free_loader;
    *out = l;
    return STANCE_OK;
free_loader:
    stance_loader_free(l);
    return status;
}

void stance_loader_free(struct stance_loader *l)
{
    if (l == NULL)
        return;
    pthread_mutex_lock(&l->lock);
    l->quit = true;
    pthread_cond_broadcast(&l->work);
    pthread_mutex_unlock(&l->lock);
    for (int32_t i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    for (int32_t i = 0; i < l->n_slots && l->slots != NULL; i++) {
        stance_free(l->slots[i].field);
        stance_free(l->slots[i].meta);
        stance_free(l->slots[i].block);
    }
    stance_free(l->slots);
    stance_free(l->threads);
    stance_free(l->order);
    stance_free(l->stride);
    stance_image_cache_free(l->cache);
    pthread_cond_destroy(&l->work);
    pthread_cond_destroy(&l->ready);
    pthread_mutex_destroy(&l->lock);
    stance_free(l);
}
