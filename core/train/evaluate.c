/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/evaluate.h"

#include <stdio.h>
#include <string.h>

struct stance_evaluation {
    const struct stance_setup *setup;
    struct stance_step        *step;
    struct stance_loader      *loader;   /* NULL: bare */
    int                        image[STANCE_STEP_PROGRAMS]; /* number of the input, per program */
    float                     *mirrored; /* [batch,3,H,W] */
    float                     *heat, *flipped; /* [batch,K,h,w] */
    float                     *centre, *scale; /* [batch,2] */
    float                     *keypoint; /* [samples,K,3] */
    struct stance_prediction  *prediction;
    int64_t                    count;
    int32_t                    batch;
    /* With several processes. */
    size_t                    *each; /* [world] bytes that rank 0 gets */
    char                       names[STANCE_METRICS_MAX][32]; /* of the scores that rank 0 has told */
};

int32_t stance_evaluation_last_batch(const struct stance_setup *s)
{
    int64_t n = s->val.ops->count(s->val.state), b = s->recipe->test.batch_size;

    return (int32_t)(n <= b ? n : n % b);
}

static size_t heat_size(const struct stance_pose *p)
{
    return (size_t)p->keypoints * (size_t)p->heatmap_size[0] * (size_t)p->heatmap_size[1];
}

stance_status stance_evaluation_bare(const struct stance_setup *setup, struct stance_step *step,
                                     struct stance_evaluation **out, struct stance_error *err)
{
    struct stance_evaluation *e = stance_calloc(1, sizeof *e);
    const struct stance_pose *p = &setup->pose;
    size_t                    pixels = 3u * (size_t)p->input_size[0] * (size_t)p->input_size[1], b;

    if (e == NULL)
        goto no_memory;
    e->setup    = setup;
    e->step     = step;
    e->batch    = (int32_t)setup->recipe->test.batch_size;
    b           = (size_t)e->batch;
    e->mirrored = stance_calloc(b * pixels, sizeof *e->mirrored);
    e->heat     = stance_calloc(b * heat_size(p), sizeof *e->heat);
    e->flipped  = stance_calloc(b * heat_size(p), sizeof *e->flipped);
    e->centre   = stance_calloc(b * 2, sizeof *e->centre);
    e->scale    = stance_calloc(b * 2, sizeof *e->scale);
    if (e->mirrored == NULL || e->heat == NULL || e->flipped == NULL || e->centre == NULL || e->scale == NULL)
        goto no_memory;
    for (int i = STANCE_STEP_EVAL; i <= STANCE_STEP_EVAL_LAST; i++)
        e->image[i] = stance_step_input(step, (enum stance_step_program)i, "image");
    *out = e;
    return STANCE_OK;

no_memory:
    stance_evaluation_free(e);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation");
}

stance_status stance_evaluation_new(const struct stance_setup *setup, struct stance_step *step, int workers,
                                    size_t cache_bytes, struct stance_evaluation **out, struct stance_error *err)
{
    struct stance_loader_options o = {
        .task = setup->task, .task_state = setup->task_state, .dataset = setup->val.ops, .dataset_state = setup->val.state,
        .batch_size = (int32_t)setup->recipe->test.batch_size, .workers = workers, .cache_bytes = cache_bytes,
        .rank = stance_comm_rank(setup->comm), .world = setup->comm != NULL ? setup->comm->place.world : 1,
    };
    struct stance_evaluation *e;
    int64_t                   n = setup->val.ops->count(setup->val.state);
    stance_status             status = stance_evaluation_bare(setup, step, &e, err);

    if (status != STANCE_OK)
        return status;
    e->keypoint   = stance_calloc((size_t)n * (size_t)setup->pose.keypoints * 3, sizeof *e->keypoint);
    e->prediction = stance_calloc((size_t)n, sizeof *e->prediction);
    e->each       = stance_calloc((size_t)o.world, sizeof *e->each);
    if (e->keypoint == NULL || e->prediction == NULL || e->each == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "predictions of %lld samples", (long long)n);
    if (status == STANCE_OK)
        status = stance_loader_new(&o, &e->loader, err);
    if (status != STANCE_OK) {
        stance_evaluation_free(e);
        return status;
    }
    *out = e;
    return STANCE_OK;
}

void stance_evaluation_free(struct stance_evaluation *e)
{
    if (e == NULL)
        return;
    stance_loader_free(e->loader);
    stance_free(e->mirrored);
    stance_free(e->heat);
    stance_free(e->flipped);
    stance_free(e->centre);
    stance_free(e->scale);
    stance_free(e->keypoint);
    stance_free(e->prediction);
    stance_free(e->each);
    stance_free(e);
}

int64_t stance_evaluation_batches(const struct stance_evaluation *e)
{
    return stance_loader_batches(e->loader);
}

static stance_status one_pass(struct stance_evaluation *e, enum stance_step_program which, const float *images,
                              float *heat, struct stance_error *err)
{
    stance_status status = stance_step_fill(e->step, which, e->image[which], STANCE_TYPE_F32, images, err);

    if (status == STANCE_OK)
        status = stance_step_evaluate(e->step, which, err);
    if (status == STANCE_OK)
        status = stance_step_read(e->step, which, "heatmap", STANCE_TYPE_F32, heat, err);
    return status;
}

stance_status stance_evaluation_heatmaps(struct stance_evaluation *e, enum stance_step_program which, int32_t count,
                                         const float *images, float **heat, struct stance_error *err)
{
    const struct stance_setup     *s    = e->setup;
    const struct stance_head_ops  *head = s->model.head.plugin->ops.head;
    int64_t                        rows = (int64_t)count * 3 * s->pose.input_size[1], w = s->pose.input_size[0];
    size_t                         n    = (size_t)count * heat_size(&s->pose);
    stance_status                  status = one_pass(e, which, images, e->heat, err);

    *heat = e->heat;
    if (status != STANCE_OK || !s->recipe->test.flip || !STANCE_HAS(head, unflip))
        return status;
    for (int64_t y = 0; y < rows; y++)
        for (int64_t x = 0; x < w; x++)
            e->mirrored[y * w + x] = images[y * w + w - 1 - x];
    status = one_pass(e, which, e->mirrored, e->flipped, err);
    if (status != STANCE_OK)
        return status;
    head->unflip(s->model.head.config, &s->pose, e->flipped, count, s->recipe->test.shift_heatmap);
    /* Averaged in binary32 whatever the precision of the run. */
    for (size_t i = 0; i < n; i++)
        e->heat[i] = (e->heat[i] + e->flipped[i]) * 0.5F;
    return STANCE_OK;
}

stance_status stance_evaluation_decode(struct stance_evaluation *e, const float *heat, const struct stance_meta *meta,
                                       int32_t count, float *keypoint, struct stance_error *err)
{
    const struct stance_setup *s = e->setup;
    struct stance_decode       d = {
        .size = sizeof d, .heatmap = heat, .batch = count, .keypoints = s->pose.keypoints,
        .height = s->pose.heatmap_size[1], .width = s->pose.heatmap_size[0], .centre = e->centre, .scale = e->scale,
        .post_process = (enum stance_post_process)s->recipe->test.post_process,
        .modulate_kernel = (int32_t)s->recipe->test.modulate_kernel, .keypoint = keypoint,
    };

    for (int32_t i = 0; i < count; i++) {
        for (int j = 0; j < 2; j++) {
            e->centre[2 * i + j] = meta[i].centre[j];
            e->scale[2 * i + j]  = meta[i].scale[j];
        }
    }
    if (!STANCE_HAS(s->model.head.plugin->ops.head, decode))
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "head '%s' makes no points of its results",
                           s->model.head.plugin->name);
    return s->model.head.plugin->ops.head->decode(s->model.head.config, &d, err);
}

static void keep(struct stance_evaluation *e, const struct stance_meta *m, int32_t n)
{
    size_t per = (size_t)e->setup->pose.keypoints * 3;

    for (int32_t i = 0; i < n; i++) {
        struct stance_prediction *p = &e->prediction[e->count];

        *p = (struct stance_prediction){
            .image_id = m[i].image_id, .category_id = m[i].category_id, .box_id = m[i].box_id,
            .centre = { m[i].centre[0], m[i].centre[1] }, .scale = { m[i].scale[0], m[i].scale[1] },
            .area = (m[i].scale[0] * 200) * (m[i].scale[1] * 200), .box_score = m[i].score,
            .keypoint = e->keypoint + (size_t)e->count * per,
        };
        e->count++;
    }
}

/* Predictions of all processes, one after the other by rank, which is the order of one process. */
static stance_status gather(struct stance_evaluation *e, struct stance_error *err)
{
    struct stance_comm *c = e->setup->comm;
    size_t              per = (size_t)e->setup->pose.keypoints * 3 * sizeof *e->keypoint, k = (size_t)e->setup->pose.keypoints * 3;
    int64_t             mine = e->count, total = 0, *count = stance_calloc((size_t)c->place.world, sizeof *count);
    stance_status       status = stance_comm_agree(c, count != NULL ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_NOMEM, "evaluation"), err);

    if (status == STANCE_OK)
        status = c->ops->all_gather(c->state, &mine, sizeof mine, count, err);
    for (int r = 0; status == STANCE_OK && r < c->place.world; r++) {
        total += count[r];
        e->each[r] = (size_t)count[r] * sizeof *e->prediction;
    }
    if (status == STANCE_OK)
        status = c->ops->gather(c->state, e->prediction, e->each, e->prediction, err);
    for (int r = 0; status == STANCE_OK && r < c->place.world; r++)
        e->each[r] = (size_t)count[r] * per;
    if (status == STANCE_OK)
        status = c->ops->gather(c->state, e->keypoint, e->each, e->keypoint, err);
    e->count = c->place.rank == 0 ? total : 0;
    for (int64_t i = 0; i < e->count; i++)
        e->prediction[i].keypoint = e->keypoint + (size_t)i * k;
    stance_free(count);
    return status;
}

static stance_status run_own(struct stance_evaluation *e, const volatile int *stop, struct stance_error *err)
{
    size_t        per = (size_t)e->setup->pose.keypoints * 3;
    stance_status status;

    e->count = 0;
    stance_loader_begin(e->loader, 0, 0);
    for (;;) {
        const struct stance_batch *b;
        float                     *heat;

        if (stop != NULL && *stop)
            return STANCE_FAIL(err, STANCE_ERR_INTERRUPTED, "evaluation was stopped");
        status = stance_loader_next(e->loader, &b, err);
        if (status != STANCE_OK || b == NULL)
            return status;
        status = stance_evaluation_heatmaps(e, b->count == e->batch ? STANCE_STEP_EVAL : STANCE_STEP_EVAL_LAST,
                                            b->count, b->field[0], &heat, err);
        if (status == STANCE_OK)
            status = stance_evaluation_decode(e, heat, b->meta, b->count, e->keypoint + (size_t)e->count * per, err);
        if (status != STANCE_OK)
            return status;
        keep(e, b->meta, b->count);
    }
}

stance_status stance_evaluation_run(struct stance_evaluation *e, const struct stance_prediction **p, int64_t *count,
                                    const volatile int *stop, struct stance_error *err)
{
    struct stance_comm *c      = e->setup->comm;
    stance_status       status = stance_comm_agree(c, run_own(e, c == NULL ? stop : NULL, err), err);

    if (status == STANCE_OK && c != NULL)
        status = gather(e, err);
    if (status != STANCE_OK)
        return status;
    if (stance_comm_rank(c) == 0)
        status = e->setup->task->finish(e->setup->task_state, e->prediction, &e->count, err);
    *p     = e->prediction;
    *count = e->count;
    return stance_comm_agree(c, status, err);
}

struct score { double value; char name[32]; };

stance_status stance_evaluation_score(struct stance_evaluation *e, struct stance_metric *m, int *n, struct stance_error *err)
{
    struct stance_comm *c = e->setup->comm;
    struct { int64_t n; struct score score[STANCE_METRICS_MAX]; } told;
    stance_status status = STANCE_OK;

    if (stance_comm_rank(c) == 0)
        status = e->setup->task->score(e->setup->task_state, e->setup->val.ops, e->setup->val.state, e->prediction, e->count,
                                       m, n, err);
    if (c == NULL)
        return status;
    status = stance_comm_agree(c, status, err);
    if (status != STANCE_OK)
        return status;
    memset(&told, 0, sizeof told);
    if (c->place.rank == 0) {
        told.n = *n;
        for (int i = 0; i < *n; i++) {
            told.score[i].value = m[i].value;
            snprintf(told.score[i].name, sizeof told.score[i].name, "%s", m[i].name);
        }
    }
    status = c->ops->broadcast(c->state, &told, sizeof told, 0, err);
    if (status != STANCE_OK || c->place.rank == 0)
        return status;
    *n = (int)told.n;
    for (int i = 0; i < *n; i++) {
        memcpy(e->names[i], told.score[i].name, sizeof e->names[i]);
        m[i] = (struct stance_metric){ e->names[i], told.score[i].value };
    }
    return STANCE_OK;
}
