/* SPDX-License-Identifier: Apache-2.0 */
/* One person a picture, and the whole picture is the network's input: no box, no augmentation. The score is
 * the share of points that are found within a tenth of the picture's width. */
#include <stance/task.h>

#include <math.h>

struct config { double near; };

struct state {
    struct stance_task_setup setup;
    struct stance_field      fields[3];
    double                   near;
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, near, "0.1", 0, 1, "widths", "distance at which a point counts as found"),
    STANCE_PARAM_END
};

static stance_status open_task(void *state, const void *config, const struct stance_task_setup *setup,
                               struct stance_error *err)
{
    struct state             *s = state;
    const struct stance_pose *p = setup->pose;

    if (!(setup->sigma > 0))
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "data.sigma: %g is not above 0", setup->sigma);
    s->setup     = *setup;
    s->near      = ((const struct config *)config)->near;
    s->fields[0] = (struct stance_field){ "image", STANCE_TYPE_F32, { 3, { 3, p->input_size[1], p->input_size[0] } } };
    s->fields[1] = (struct stance_field){
        "target", STANCE_TYPE_F32, { 3, { p->keypoints, p->heatmap_size[1], p->heatmap_size[0] } }
    };
    s->fields[2] = (struct stance_field){ "target_weight", STANCE_TYPE_F32, { 2, { p->keypoints, 1 } } };
    return STANCE_OK;
}

static void close_task(void *state)
{
    (void)state;
}

static const struct stance_field *fields(const void *state, int *count)
{
    *count = 3;
    return ((const struct state *)state)->fields;
}

/* The nearest pixel of the picture, 0 to 255 as -1 to 1. */
static void draw_input(const struct stance_image *image, const int32_t size[2], float *out)
{
    for (int c = 0; c < 3; c++)
        for (int32_t y = 0; y < size[1]; y++)
            for (int32_t x = 0; x < size[0]; x++) {
                int64_t from = (int64_t)y * image->height / size[1] * image->width + x * image->width / size[0];

                *out++ = (float)image->rgb[3 * from + c] / 127.5F - 1;
            }
}

static void draw_targets(const struct state *s, const struct stance_image *image, const float *keypoint, float *map,
                         float *weight)
{
    const struct stance_pose *p = s->setup.pose;
    int32_t                   w = p->heatmap_size[0], h = p->heatmap_size[1];

    for (int32_t k = 0; k < p->keypoints; k++) {
        double u = (double)keypoint[3 * k] * w / image->width, v = (double)keypoint[3 * k + 1] * h / image->height;

        weight[k] = keypoint[3 * k + 2] > 0 ? 1 : 0;
        for (int32_t y = 0; y < h; y++)
            for (int32_t x = 0; x < w; x++)
                *map++ = (float)exp(-((x - u) * (x - u) + (y - v) * (y - v)) / (2 * s->setup.sigma * s->setup.sigma));
    }
}

static stance_status load(const void *state, const struct stance_dataset_ops *dataset, const void *dataset_state,
                          int64_t index, uint64_t seed, int64_t epoch, bool training, void *const *at,
                          struct stance_meta *meta, struct stance_error *err)
{
    const struct state         *s      = state;
    const struct stance_sample *sample = dataset->sample(dataset_state, index);
    struct stance_image         image;
    stance_status               status = dataset->image(dataset_state, index, &image, err);

    (void)seed;
    (void)epoch;
    (void)training;
    if (status != STANCE_OK)
        return status;
    if (at[0] != NULL)
        draw_input(&image, s->setup.pose->input_size, at[0]);
    if (at[1] != NULL && at[2] != NULL)
        draw_targets(s, &image, sample->keypoint, at[1], at[2]);
    /* scale counts in 200 px: what decoding multiplies heatmaps with */
    *meta = (struct stance_meta){ .index = index, .image_id = sample->image_id, .category_id = sample->category_id,
                                  .box_id = sample->box_id,
                                  .centre = { (float)image.width / 2, (float)image.height / 2 },
                                  .scale = { (float)image.width / 200, (float)image.height / 200 },
                                  .score = (float)sample->score };
    stance_free(image.rgb);
    return STANCE_OK;
}

static stance_status finish(const void *state, struct stance_prediction *p, int64_t *count, struct stance_error *err)
{
    int32_t points = ((const struct state *)state)->setup.pose->keypoints;

    (void)err;
    for (int64_t i = 0; i < *count; i++) {
        p[i].score = 0;
        for (int32_t k = 0; k < points; k++)
            p[i].score += (double)p[i].keypoint[3 * k + 2] / points;
    }
    return STANCE_OK;
}

static stance_status score(const void *state, const struct stance_dataset_ops *dataset, const void *dataset_state,
                           const struct stance_prediction *p, int64_t count, struct stance_metric *metrics,
                           int *n_metrics, struct stance_error *err)
{
    const struct state        *s = state;
    int64_t                    n = 0, found = 0, all;
    const struct stance_truth *truth = dataset->truths(dataset_state, &all);

    (void)err;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < all; j++) {
            for (int32_t k = 0; truth[j].image_id == p[i].image_id && k < s->setup.pose->keypoints; k++) {
                const double *t = truth[j].keypoint + 3 * k;

                if (t[2] == 0)
                    continue;
                n++;
                found += hypot((double)p[i].keypoint[3 * k] - t[0], (double)p[i].keypoint[3 * k + 1] - t[1])
                         <= s->near * (double)p[i].scale[0] * 200;
            }
        }
    metrics[0] = (struct stance_metric){ "PCK", n > 0 ? (double)found / (double)n : -1 };
    *n_metrics = 1;
    return STANCE_OK;
}

static const struct stance_task_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .open = open_task, .close = close_task, .fields = fields,
    .load = load, .finish = finish, .score = score,
};

STANCE_PLUGIN(task, wholeframe) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_TASK,
    .name        = "wholeframe",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "an example",
    .summary     = "one person a picture, the picture as it is",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.task    = &ops,
};
