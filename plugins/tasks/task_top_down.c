/* SPDX-License-Identifier: Apache-2.0
 *
 * Top-down pose estimation: one person a sample, its box warped to the network's input, one heatmap a
 * point. Transforms, rescoring, suppression and scores are MMPose 0.29's. */
#include <stance/plugin.h>

#include "data/augment.h"
#include "data/image.h"
#include "data/target.h"
#include "data/warp.h"
#include "eval/coco.h"
#include "eval/oks.h"

#include <stance/task.h>

#include <math.h>
#include <string.h>

struct state {
    struct stance_task_setup setup;
    struct stance_augment    augment;
    struct stance_normalise  normalise;
    struct stance_field      fields[3];
};

static stance_status top_down_open(void *state, const void *config, const struct stance_task_setup *setup,
                                   struct stance_error *err)
{
    struct state             *s = state;
    const struct stance_pose *p = setup->pose;

    (void)config;
    if (p->input_size[0] < 1 || p->input_size[1] < 1 || p->heatmap_size[0] < 1 || p->heatmap_size[1] < 1)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "task top_down: input %d x %d, heatmap %d x %d",
                           p->input_size[0], p->input_size[1], p->heatmap_size[0], p->heatmap_size[1]);
    if (!(setup->sigma > 0 && setup->sigma <= STANCE_TARGET_SIGMA_MAX))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "data.sigma: %g is outside (0, %g] px", setup->sigma,
                           STANCE_TARGET_SIGMA_MAX);
    if (!(setup->padding > 0))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "data.padding: %g is not above 0", setup->padding);
    if (setup->half_body > 0 && p->upper == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "data.augment.half_body: %g needs upper_body in the file of data.info, which says "
                           "which points are the upper half; or set it to 0",
                           setup->half_body);
    s->setup   = *setup;
    s->augment = (struct stance_augment){ .flip          = setup->flip,
                                          .half_body     = setup->half_body,
                                          .rotation      = setup->rotation,
                                          .rotation_prob = setup->rotation_prob,
                                          .scale         = setup->scale,
                                          .shift         = setup->shift,
                                          .shift_prob    = setup->shift_prob };
    stance_normalise_init(&s->normalise, stance_image_mean, stance_image_std);
    s->fields[0] = (struct stance_field){ "image", STANCE_TYPE_F32, { 3, { 3, p->input_size[1], p->input_size[0] } } };
    s->fields[1] = (struct stance_field){
        "target", STANCE_TYPE_F32, { 3, { p->keypoints, p->heatmap_size[1], p->heatmap_size[0] } }
    };
    s->fields[2] = (struct stance_field){ "target_weight", STANCE_TYPE_F32, { 2, { p->keypoints, 1 } } };
    return STANCE_OK;
}

static void top_down_close(void *state)
{
    (void)state;
}

static const struct stance_field *top_down_fields(const void *state, int *count)
{
    *count = 3;
    return ((const struct state *)state)->fields;
}

/* The window on a sample's image, and the points in it. */
static void place_sample(const struct state *s, const struct stance_sample *sample, int64_t index, uint64_t seed,
                         int64_t epoch, bool training, int32_t image_width, float *points, struct stance_placement *p,
                         double m[6])
{
    const struct stance_pose *pose = s->setup.pose;

    memcpy(points, sample->keypoint, 3 * (size_t)pose->keypoints * sizeof *points);
    stance_placement_of_box(sample->box, pose->input_size, s->setup.padding, p);
    if (training) {
        struct stance_rng rng = stance_rng(seed, STANCE_USE_AUGMENT, (uint64_t)epoch, (uint64_t)index);

        stance_augment_draw(&s->augment, pose, &rng, image_width, points, p);
    }
    stance_affine_matrix(p, pose->input_size, m);
}

static stance_status top_down_load(const void *state, const struct stance_dataset_ops *dataset,
                                   const void *dataset_state, int64_t index, uint64_t seed, int64_t epoch,
                                   bool training, void *const *place, struct stance_meta *meta,
                                   struct stance_error *err)
{
    const struct state         *s      = state;
    const struct stance_pose   *pose   = s->setup.pose;
    const struct stance_sample *sample = dataset->sample(dataset_state, index);
    struct stance_placement     p;
    struct stance_image         image;
    double                      m[6];
    float                      *points = stance_calloc(3 * (size_t)pose->keypoints, sizeof *points);
    stance_status               status;

    if (points == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "points of sample %lld", (long long)index);
    if (dataset->image_part != NULL && dataset->image_size != NULL) {
        int32_t width, height, part[4];

        dataset->image_size(dataset_state, index, &width, &height);
        place_sample(s, sample, index, seed, epoch, training, width, points, &p, m);
        stance_warp_part(p.mirrored, m, pose->input_size[0], pose->input_size[1], width, part);
        status = dataset->image_part(dataset_state, index, part, &image, err);
    } else {
        status = dataset->image(dataset_state, index, &image, err);
        if (status == STANCE_OK)
            place_sample(s, sample, index, seed, epoch, training, image.width, points, &p, m);
    }
    if (status != STANCE_OK)
        goto free_points;
    if (place[0] != NULL)
        stance_warp_f32(&image, p.mirrored, m, &s->normalise, pose->input_size[0], pose->input_size[1], place[0]);
    if (place[1] != NULL && place[2] != NULL) {
        stance_affine_points(m, points, pose->keypoints);
        stance_target_draw(pose, points, s->setup.sigma, s->setup.unbiased_encoding, place[1], place[2]);
    }
    *meta = (struct stance_meta){ .index       = index,
                                  .image_id    = sample->image_id,
                                  .category_id = sample->category_id,
                                  .box_id      = sample->box_id,
                                  .centre      = { p.centre[0], p.centre[1] },
                                  .scale       = { p.scale[0], p.scale[1] },
                                  .score       = (float)sample->score };
    stance_image_free(&image);
free_points:
    stance_free(points);
    return status;
}

/* Without sigmas nobody can say how alike two poses are. */
static stance_status need_sigmas(const struct stance_pose *pose, struct stance_error *err)
{
    if (pose->sigmas != NULL)
        return STANCE_OK;
    return STANCE_FAIL(err, STANCE_ERR_INVAL,
                       "sigmas of the %d points are not known, and a score needs them: name them in the file of "
                       "data.info",
                       pose->keypoints);
}

static stance_status top_down_finish(const void *state, struct stance_prediction *p, int64_t *count,
                                     struct stance_error *err)
{
    const struct state *s      = state;
    stance_status       status = need_sigmas(s->setup.pose, err);

    if (status != STANCE_OK)
        return status;
    return stance_oks_finish(p, count, s->setup.pose->keypoints, s->setup.pose->sigmas, s->setup.vis_thr,
                             STANCE_NMS_HARD, s->setup.oks_thr, err);
}

static stance_status top_down_score(const void *state, const struct stance_dataset_ops *dataset,
                                    const void *dataset_state, const struct stance_prediction *p, int64_t count,
                                    struct stance_metric *metrics, int *n_metrics, struct stance_error *err)
{
    static const char *const names[STANCE_COCO_STATS] = { "AP", "AP50", "AP75", "APM", "APL",
                                                          "AR", "AR50", "AR75", "ARM", "ARL" };
    const struct state        *s = state;
    int64_t                    n_truths, images;
    const struct stance_truth *truths = dataset->truths(dataset_state, &n_truths);
    const int64_t             *ids    = dataset->image_ids(dataset_state, &images);
    double                     stats[STANCE_COCO_STATS];
    stance_status              status = need_sigmas(s->setup.pose, err);

    if (status != STANCE_OK)
        return status;
    for (int64_t i = 0; i < n_truths; i++)
        if (isnan(truths[i].area))
            return STANCE_FAIL(err, STANCE_ERR_INPUT, "annotation %lld has no area, and a score needs it",
                               (long long)truths[i].annotation_id);
    status = stance_coco_score(s->setup.pose, truths, n_truths, ids, images, p, count, stats, err);
    if (status != STANCE_OK)
        return status;
    for (int i = 0; i < STANCE_COCO_STATS; i++)
        metrics[i] = (struct stance_metric){ names[i], stats[i] };
    *n_metrics = STANCE_COCO_STATS;
    return STANCE_OK;
}

static const struct stance_task_ops ops = {
    .size       = sizeof ops,
    .state_size = sizeof(struct state),
    .open       = top_down_open,
    .close      = top_down_close,
    .fields     = top_down_fields,
    .load       = top_down_load,
    .finish     = top_down_finish,
    .score      = top_down_score,
};

STANCE_PLUGIN(task, top_down) = {
    STANCE_PLUGIN_HEAD,
    .kind     = STANCE_KIND_TASK,
    .name     = "top_down",
    .version  = "1.0",
    .license  = "Apache-2.0",
    .source   = "Xiao, Wu, Wei, \"Simple Baselines for Human Pose Estimation and Tracking\", ECCV 2018; MMPose 0.29",
    .summary  = "one person a box, one heatmap a point",
    .ops.task = &ops,
};
