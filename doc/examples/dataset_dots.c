/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures of three coloured discs on grey: a data set without a file. */
#include <stance/dataset.h>

#include <string.h>

enum { POINTS = 3 }; /* keypoints */

struct config { int64_t radius; };

struct state {
    struct stance_pose    pose;
    int64_t               count;
    int32_t               width, height, radius;
    struct stance_sample *sample;   /* [count] */
    struct stance_truth  *truth;    /* [count] */
    float                *keypoint; /* [count,POINTS,3] */
    double               *exact;    /* the same for the ground truth */
    int64_t              *image;    /* [count] */
};

static const struct stance_param params[] = {
    STANCE_PARAM_I64(struct config, radius, "3", 1, 64, "px", "how large they are"),
    STANCE_PARAM_END
};

static const char *const names[POINTS]   = { "red", "green", "blue" };
static const float       sigmas[POINTS]  = { 0.05F, 0.05F, 0.05F };
static const int32_t     partner[POINTS] = { 0, 1, 2 };

/* A number in [0, n) that depends on nothing but its arguments (Steele et al., SplitMix64, OOPSLA 2014). */
static int32_t draw(uint64_t seed, uint64_t index, int32_t n)
{
    uint64_t z = seed + (index + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int32_t)((z ^ z >> 31) % (uint64_t)n);
}

static void close_dots(void *state)
{
    struct state *s = state;

    stance_free(s->sample);
    stance_free(s->truth);
    stance_free(s->keypoint);
    stance_free(s->exact);
    stance_free(s->image);
    memset(s, 0, sizeof *s);
}

static void place(struct state *s, int64_t i, uint64_t seed)
{
    double box[4] = { 0, 0, s->width - 1, s->height - 1 }, area = 0.5 * s->width * s->height;

    for (int k = 0; k < POINTS; k++) {
        float  *p = s->keypoint + 3 * (POINTS * i + k);
        double *e = s->exact + 3 * (POINTS * i + k);

        p[0] = (float)draw(seed, (uint64_t)(2 * (POINTS * i + k)), s->width);
        p[1] = (float)draw(seed, (uint64_t)(2 * (POINTS * i + k) + 1), s->height);
        p[2] = 2; /* visible */
        for (int j = 0; j < 3; j++)
            e[j] = (double)p[j];
    }
    s->image[i]  = i + 1;
    s->sample[i] = (struct stance_sample){ .image_id = i + 1, .annotation_id = i + 1, .category_id = 1, .score = 1,
                                           .area = area, .keypoint = s->keypoint + 3 * POINTS * i };
    s->truth[i]  = (struct stance_truth){ .image_id = i + 1, .annotation_id = i + 1, .area = area,
                                          .keypoint = s->exact + 3 * POINTS * i };
    memcpy(s->sample[i].box, box, sizeof box);
    memcpy(s->truth[i].box, box, sizeof box);
}

static stance_status open_dots(void *state, const void *config, const struct stance_split *split,
                               struct stance_error *err)
{
    struct state *s = state;
    size_t        n;

    if (split->samples < 1 || split->image_size[0] < 8 || split->image_size[1] < 8)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "dataset 'dots': samples and input_size are wanted");
    n           = (size_t)split->samples;
    s->count    = split->samples;
    s->width    = split->image_size[0];
    s->height   = split->image_size[1];
    s->radius   = (int32_t)((const struct config *)config)->radius;
    s->sample   = stance_calloc(n, sizeof *s->sample);
    s->truth    = stance_calloc(n, sizeof *s->truth);
    s->keypoint = stance_calloc(n, 3 * POINTS * sizeof *s->keypoint);
    s->exact    = stance_calloc(n, 3 * POINTS * sizeof *s->exact);
    s->image    = stance_calloc(n, sizeof *s->image);
    if (s->sample == NULL || s->truth == NULL || s->keypoint == NULL || s->exact == NULL || s->image == NULL) {
        close_dots(s);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "dataset 'dots': %zu samples", n);
    }
    s->pose = (struct stance_pose){ .size = sizeof s->pose, .keypoints = POINTS, .names = names, .sigmas = sigmas,
                                    .partner = partner };
    for (int64_t i = 0; i < s->count; i++)
        place(s, i, split->seed + (split->training ? 0 : 1));
    return STANCE_OK;
}

/* Called by several threads at once: what it reads does not change after open. */
static stance_status image(const void *state, int64_t index, struct stance_image *out, struct stance_error *err)
{
    const struct state *s   = state;
    size_t              n   = (size_t)s->width * (size_t)s->height;
    uint8_t            *rgb = stance_calloc(n, 3);

    if (rgb == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "dataset 'dots': a picture");
    memset(rgb, 96, 3 * n);
    for (int k = 0; k < POINTS; k++) {
        const float *p = s->sample[index].keypoint + 3 * k;

        for (int32_t y = 0; y < s->height; y++)
            for (int32_t x = 0; x < s->width; x++) {
                int32_t dx = x - (int32_t)p[0], dy = y - (int32_t)p[1];

                if (dx * dx + dy * dy <= s->radius * s->radius)
                    for (int c = 0; c < 3; c++)
                        rgb[3 * (y * s->width + x) + c] = c == k ? 255 : 0;
            }
    }
    *out = (struct stance_image){ rgb, s->width, s->height };
    return STANCE_OK;
}

static const struct stance_pose *pose(const void *state)
{
    return &((const struct state *)state)->pose;
}

static int64_t count(const void *state)
{
    return ((const struct state *)state)->count;
}

static const struct stance_sample *sample(const void *state, int64_t index)
{
    return &((const struct state *)state)->sample[index];
}

static const char *path(const void *state, int64_t index)
{
    (void)state;
    (void)index;
    return ""; /* there is no file */
}

static const struct stance_truth *truths(const void *state, int64_t *n)
{
    *n = ((const struct state *)state)->count;
    return ((const struct state *)state)->truth;
}

static const int64_t *image_ids(const void *state, int64_t *n)
{
    *n = ((const struct state *)state)->count;
    return ((const struct state *)state)->image;
}

static const struct stance_dataset_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .open = open_dots, .close = close_dots, .pose = pose,
    .count = count, .sample = sample, .image = image, .path = path, .truths = truths, .image_ids = image_ids,
};

STANCE_PLUGIN(dataset, dots) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_DATASET,
    .name        = "dots",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "an example",
    .summary     = "three coloured discs on grey",
    .params      = params,
    .config_size = sizeof(struct config),
    .ops.dataset = &ops,
};
