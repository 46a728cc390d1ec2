/* SPDX-License-Identifier: Apache-2.0
 *
 * Drawn persons with known joints: data for a first run, for tests and for benchmarks, made on the
 * fly. A picture is a function of (seed, split, index): the same bytes in any thread and in any
 * order. */
#include "synthetic_scene.h"

#include <stance/dataset.h>

#include <math.h>
#include <string.h>

/* Box area to the area of a person's outline, as COCO's annotations have it on average: its `area`
 * is that of the segmentation. MMPose uses the same factor where there is none. */
#define AREA_PER_BOX 0.53

#define SAMPLES_MAX 10000000
#define PX_MIN      16
#define PX_MAX      4096

struct config {
    double  occlusion, truncation, behind, turn, noise;
    int64_t clutter;
};

struct state {
    struct scene_setup    setup;
    struct stance_pose    pose;
    int64_t               count;
    struct stance_sample *sample;   /* [count] */
    struct stance_truth  *truth;    /* [count] */
    float                *keypoint; /* [count, POINTS, 3] */
    double               *exact;    /* the same, for the ground truth */
    int64_t              *image_id; /* [count] */
};

static const struct stance_param params[] = {
    STANCE_PARAM_F64(struct config, occlusion, "0.25", 0, 1, "1",
                     "probability of something in front of a limb"),
    STANCE_PARAM_F64(struct config, truncation, "0.06", 0, 1, "1",
                     "probability of a person cut off by the picture's edge"),
    STANCE_PARAM_F64(struct config, behind, "0.06", 0, 1, "1",
                     "probability of a person seen from behind"),
    STANCE_PARAM_F64(struct config, turn, "55", 0, 180, "degrees",
                     "largest turn away from the viewer"),
    STANCE_PARAM_F64(struct config, noise, "5", 0, 64, "grey levels",
                     "standard deviation of the sensor's noise"),
    STANCE_PARAM_I64(struct config, clutter, "5", 0, 32, "things", "most things in the background"),
    STANCE_PARAM_END
};

/* COCO's keypoints; sigmas from its evaluation code, upper body and skeleton from MMPose. */
static const char *const names[POINTS] = {
    "nose",           "left_eye",   "right_eye",   "left_ear",   "right_ear",   "left_shoulder",
    "right_shoulder", "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip",
    "right_hip",      "left_knee",  "right_knee",  "left_ankle", "right_ankle",
};
static const float sigmas[POINTS] = { .026F, .025F, .025F, .035F, .035F, .079F, .079F, .072F, .072F,
                                      .062F, .062F, .107F, .107F, .087F, .087F, .089F, .089F };
static const int32_t partner[POINTS] = { 0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15 };
static const uint8_t upper[POINTS] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0 };
static const int32_t skeleton[]      = { 15, 13, 13, 11, 16, 14, 14, 12, 11, 12, 5,  11, 6,
                                         12, 5,  6,  5,  7,  6,  8,  7,  9,  8,  10, 1,  2,
                                         0,  1,  0,  2,  1,  3,  2,  4,  3,  5,  4,  6 };

static stance_status check_split(const struct stance_split *split, struct stance_error *err)
{
    const struct stance_pose *info = split->info;

    if (split->samples < 1 || split->samples > SAMPLES_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE,
                           "dataset 'synthetic': samples: %lld is outside [1, %d]",
                           (long long)split->samples, SAMPLES_MAX);
    for (int i = 0; i < 2; i++)
        if (split->image_size[i] < PX_MIN || split->image_size[i] > PX_MAX)
            return STANCE_FAIL(err, STANCE_ERR_RANGE,
                               "dataset 'synthetic': input_size: %d is outside [%d, %d] px",
                               split->image_size[i], PX_MIN, PX_MAX);
    if (info == NULL || info->keypoints == 0)
        return STANCE_OK;
    if (info->keypoints != POINTS)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "dataset 'synthetic': draws COCO's %d keypoints, data.info names %d",
                           POINTS, info->keypoints);
    for (int k = 0; info->names != NULL && k < POINTS; k++)
        if (strcmp(info->names[k], names[k]) != 0)
            return STANCE_FAIL(err, STANCE_ERR_INVAL,
                               "dataset 'synthetic': keypoint %d is '%s', data.info calls it '%s'",
                               k, names[k], info->names[k]);
    return STANCE_OK;
}

static void close_state(void *opaque)
{
    struct state *s = (struct state *)opaque;

    stance_free(s->sample);
    stance_free(s->truth);
    stance_free(s->keypoint);
    stance_free(s->exact);
    stance_free(s->image_id);
    memset(s, 0, sizeof *s);
}

/* The figure's box cut to the picture, as annotations are cleaned. */
static void fill_sample(struct state *s, int64_t i)
{
    struct stance_sample *sample = &s->sample[i];
    struct stance_truth  *truth  = &s->truth[i];
    struct scene          scene;
    double                x0, y0, x1, y1;

    scene_compose(&scene, &s->setup, i);
    memcpy(s->keypoint + 3 * POINTS * i, scene.keypoint, sizeof scene.keypoint);
    for (int k = 0; k < 3 * POINTS; k++)
        s->exact[3 * POINTS * i + k] = scene.keypoint[k];
    x0 = fmax(0, scene.low.x);
    y0 = fmax(0, scene.low.y);
    x1 = fmin(scene.width - 1, scene.high.x);
    y1 = fmin(scene.height - 1, scene.high.y);

    s->image_id[i] = i + 1; /* ids from 1, as in COCO's files */
    *sample        = (struct stance_sample){ .image_id      = i + 1,
                                             .annotation_id = i + 1,
                                             .category_id   = 1,
                                             .box           = { x0, y0, x1 - x0, y1 - y0 },
                                             .score         = 1,
                                             .area          = AREA_PER_BOX * (x1 - x0) * (y1 - y0),
                                             .keypoint      = s->keypoint + 3 * POINTS * i };
    *truth         = (struct stance_truth){ .image_id      = i + 1,
                                            .annotation_id = i + 1,
                                            .area          = sample->area,
                                            .keypoint      = s->exact + 3 * POINTS * i };
    memcpy(truth->box, sample->box, sizeof truth->box);
}

static stance_status open_state(void *opaque, const void *config, const struct stance_split *split,
                                struct stance_error *err)
{
    struct state        *s      = (struct state *)opaque;
    const struct config *c      = (const struct config *)config;
    stance_status        status = check_split(split, err);
    size_t               n;

    if (status != STANCE_OK)
        return status;
    n           = (size_t)split->samples;
    s->sample   = (struct stance_sample *)stance_calloc(n, sizeof *s->sample);
    s->truth    = (struct stance_truth *)stance_calloc(n, sizeof *s->truth);
    s->keypoint = (float *)stance_calloc(n, 3 * POINTS * sizeof *s->keypoint);
    s->exact    = (double *)stance_calloc(n, 3 * POINTS * sizeof *s->exact);
    s->image_id = (int64_t *)stance_calloc(n, sizeof *s->image_id);
    if (s->sample == NULL || s->truth == NULL || s->keypoint == NULL || s->exact == NULL
        || s->image_id == NULL) {
        close_state(s);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "dataset 'synthetic': %zu samples", n);
    }
    s->setup = (struct scene_setup){ .seed       = split->seed,
                                     .training   = split->training,
                                     .input      = { split->image_size[0], split->image_size[1] },
                                     .occlusion  = c->occlusion,
                                     .truncation = c->truncation,
                                     .behind     = c->behind,
                                     .turn       = c->turn,
                                     .clutter    = (int)c->clutter,
                                     .noise      = c->noise };
    s->pose  = (struct stance_pose){ .size       = sizeof s->pose,
                                     .keypoints  = POINTS,
                                     .names      = names,
                                     .sigmas     = sigmas,
                                     .partner    = partner,
                                     .upper      = upper,
                                     .skeleton   = skeleton,
                                     .bones      = sizeof skeleton / sizeof skeleton[0] / 2,
                                     .input_size = { split->image_size[0], split->image_size[1] } };
    s->count = split->samples;
    for (int64_t i = 0; i < s->count; i++)
        fill_sample(s, i);
    return STANCE_OK;
}

static const struct stance_pose *pose(const void *opaque)
{
    return &((const struct state *)opaque)->pose;
}

static int64_t count_samples(const void *opaque)
{
    return ((const struct state *)opaque)->count;
}

static const struct stance_sample *sample_at(const void *opaque, int64_t index)
{
    return &((const struct state *)opaque)->sample[index];
}

static stance_status image(const void *opaque, int64_t index, struct stance_image *out,
                           struct stance_error *err)
{
    const struct state *s = (const struct state *)opaque;
    struct scene        scene;
    struct canvas       canvas;

    scene_size(&s->setup, &canvas.width, &canvas.height);
    canvas.rgb = (uint8_t *)stance_calloc((size_t)canvas.width * (size_t)canvas.height, 3);
    if (canvas.rgb == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "dataset 'synthetic': a picture of %dx%d px",
                           canvas.width, canvas.height);
    scene_compose(&scene, &s->setup, index);
    scene_paint(&scene, &canvas);
    *out = (struct stance_image){ canvas.rgb, canvas.width, canvas.height };
    return STANCE_OK;
}

static const char *path(const void *opaque, int64_t index)
{
    (void)opaque;
    (void)index;
    return "";
}

static const struct stance_truth *truths(const void *opaque, int64_t *count)
{
    *count = ((const struct state *)opaque)->count;
    return ((const struct state *)opaque)->truth;
}

static const int64_t *image_ids(const void *opaque, int64_t *count)
{
    *count = ((const struct state *)opaque)->count;
    return ((const struct state *)opaque)->image_id;
}

static const struct stance_dataset_ops ops = {
    .size       = sizeof ops,
    .state_size = sizeof(struct state),
    .open       = open_state,
    .close      = close_state,
    .pose       = pose,
    .count      = count_samples,
    .sample     = sample_at,
    .image      = image,
    .path       = path,
    .truths     = truths,
    .image_ids  = image_ids,
};

STANCE_PLUGIN(dataset, synthetic) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_DATASET,
    .name        = "synthetic",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "drawn by stance; keypoints as in COCO (Lin et al., ECCV 2014)",
    .summary     = "drawn persons with COCO's 17 keypoints, made on the fly: no download",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.dataset = &ops,
};
