/* SPDX-License-Identifier: Apache-2.0
 *
 * stance predict: points on new images. */
#include "config.h"

#include "cli/cli.h"
#include "cli/predict.h"
#include "cli/run.h"
#include "data/image.h"
#include "data/pose_info.h"
#include "data/warp.h"
#include "eval/oks.h"
#include "eval/overlay.h"
#include "eval/results.h"
#include "io/tensors.h"
#include "train/evaluate.h"
#include "train/pose_text.h"
#include "train/weights.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct predict {
    struct stance_setup          setup;
    struct stance_config        *pose_config; /* owns what the checkpoint says of the points */
    struct stance_step          *step;
    struct stance_evaluation    *evaluation;
    struct stance_persons        persons;
    struct stance_prediction    *prediction; /* [persons] */
    struct stance_meta          *meta;
    float                       *keypoint;   /* [persons,K,3] */
    float                       *images;     /* [batch,3,H,W] */
    int32_t                      batch;
    bool                         average; /* the moving averages of the checkpoint */
};

/* The points: the recipe's, else those that the checkpoint was trained for. */
static stance_status find_pose(struct predict *p, const struct stance_tensors *t, struct stance_error *err)
{
    const char                *text  = stance_tensors_meta(t, "stance.pose");
    const struct stance_entry *final = stance_tensors_find(t, "keypoint_head.final_layer.weight");
    struct stance_pose         pose  = { .size = sizeof pose };
    stance_status              status;

    if (p->setup.recipe->pose.keypoints > 0 || text == NULL)
        return stance_setup_pose(&p->setup, p->setup.recipe->pose.keypoints == 0 && final != NULL && final->rank > 0
                                                ? (int32_t)final->dim[0] : 0, err);
    p->pose_config = stance_config_new();
    if (p->pose_config == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "points");
    status = stance_pose_parse(p->pose_config, text, &pose, err);
    if (status == STANCE_OK)
        status = stance_setup_pose(&p->setup, pose.keypoints, err); /* sizes */
    if (status != STANCE_OK)
        return status;
    for (int i = 0; i < 2; i++) {
        pose.input_size[i]   = p->setup.pose.input_size[i];
        pose.heatmap_size[i] = p->setup.pose.heatmap_size[i];
    }
    p->setup.pose = pose;
    return STANCE_OK;
}

static stance_status load_model(struct predict *p, const char *path, struct stance_error *err)
{
    struct stance_step_options o = { .model = &p->setup.model, .device = p->setup.device, .policy = p->setup.policy };
    struct stance_tensors     *t;
    stance_status              status = stance_tensors_open(path, &t, err);

    if (status != STANCE_OK)
        return status;
    status = find_pose(p, t, err);
    p->batch = (int32_t)p->setup.recipe->test.batch_size;
    if (p->batch > p->persons.n && p->persons.n > 0)
        p->batch = (int32_t)p->persons.n;
    p->setup.recipe->test.batch_size = o.eval_batch = p->batch;
    if (status == STANCE_OK)
        status = stance_step_new(&o, &p->step, err);
    if (status == STANCE_OK)
        status = p->average ? stance_weights_take_average(stance_step_store(p->step), t, err)
                            : stance_weights_take(stance_step_store(p->step), t, NULL, err);
    if (status != STANCE_OK)
        stance_error_prefix(err, status, "%s", path);
    else
        status = stance_evaluation_bare(&p->setup, p->step, &p->evaluation, err);
    stance_tensors_close(t);
    return status;
}

static stance_status take_room(struct predict *p, struct stance_error *err)
{
    size_t n = (size_t)p->persons.n;

    p->prediction = stance_calloc(n + 1, sizeof *p->prediction);
    p->meta       = stance_calloc(n + 1, sizeof *p->meta);
    p->keypoint   = stance_calloc(n * (size_t)p->setup.pose.keypoints * 3 + 1, sizeof *p->keypoint);
    p->images     = stance_calloc((size_t)p->batch * 3 * (size_t)p->setup.pose.input_size[0]
                                      * (size_t)p->setup.pose.input_size[1] + 1, sizeof *p->images);
    if (p->prediction == NULL || p->meta == NULL || p->keypoint == NULL || p->images == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%lld persons", (long long)p->persons.n);
    return STANCE_OK;
}

/* Network and decoding for persons [first, first + n). */
static stance_status run_batch(struct predict *p, int64_t first, int32_t n, struct stance_error *err)
{
    float        *heat;
    size_t        per    = (size_t)p->setup.pose.keypoints * 3;
    stance_status status = stance_evaluation_heatmaps(p->evaluation, STANCE_STEP_EVAL, p->batch, p->images, &heat, err);

    return status == STANCE_OK ? stance_evaluation_decode(p->evaluation, heat, p->meta + first, n,
                                                          p->keypoint + (size_t)first * per, err)
                               : status;
}

static stance_status find_points(struct predict *p, struct stance_error *err)
{
    struct stance_normalise normalise;
    struct stance_image     image  = { NULL, 0, 0 };
    int64_t                 open   = -1, first = 0;
    const int32_t          *size   = p->setup.pose.input_size;
    stance_status           status = STANCE_OK;

    stance_normalise_init(&normalise, stance_image_mean, stance_image_std);
    for (int64_t i = 0; i < p->persons.n && status == STANCE_OK; i++) {
        struct stance_person    *who = &p->persons.list[i];
        struct stance_placement  place;
        double                   m[6];

        if (open != who->image) {
            stance_image_free(&image);
            status = stance_image_read(p->persons.files[who->image], &image, err);
            if (status != STANCE_OK)
                break;
            open = who->image;
        }
        if (!(who->box[2] > 0)) { /* no box given: the whole image */
            who->box[2] = image.width;
            who->box[3] = image.height;
        }
        stance_placement_of_box(who->box, size, p->setup.recipe->data.padding, &place);
        stance_affine_matrix(&place, size, m);
        stance_warp_f32(&image, false, m, &normalise, size[0], size[1],
                        p->images + (size_t)(i - first) * 3 * (size_t)size[0] * (size_t)size[1]);
        p->meta[i] = (struct stance_meta){ .index = i, .image_id = who->image + 1, .category_id = 1, .box_id = (int32_t)i,
                                           .centre = { place.centre[0], place.centre[1] },
                                           .scale = { place.scale[0], place.scale[1] }, .score = (float)who->score };
        if (i + 1 - first == p->batch || i + 1 == p->persons.n) {
            status = run_batch(p, first, (int32_t)(i + 1 - first), err);
            first  = i + 1;
        }
    }
    stance_image_free(&image);
    return status;
}

static void keep(struct predict *p)
{
    for (int64_t i = 0; i < p->persons.n; i++) {
        const struct stance_meta *m = &p->meta[i];

        p->prediction[i] = (struct stance_prediction){
            .image_id = m->image_id, .category_id = 1, .box_id = m->box_id, .centre = { m->centre[0], m->centre[1] },
            .scale = { m->scale[0], m->scale[1] }, .area = (m->scale[0] * 200) * (m->scale[1] * 200), .box_score = m->score,
            .keypoint = p->keypoint + (size_t)i * (size_t)p->setup.pose.keypoints * 3,
        };
    }
    stance_rescore(p->prediction, p->persons.n, p->setup.pose.keypoints, p->setup.recipe->test.vis_thr);
}

static stance_status write_results(const struct predict *p, const char *out, const char *format, struct stance_error *err)
{
    struct stance_results_image *image = stance_calloc((size_t)p->persons.n_files + 1, sizeof *image);
    double                      *box   = stance_calloc((size_t)p->persons.n * 4 + 1, sizeof *box);
    enum stance_results_format   kind  = STANCE_RESULTS_MMPOSE;
    struct stance_results        r     = { &p->setup.pose, p->prediction, p->persons.n, image, p->persons.n_files, box };
    stance_status                status;

    if (image == NULL || box == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "results");
        goto done;
    }
    for (int64_t i = 0; i < p->persons.n_files; i++)
        image[i] = (struct stance_results_image){ i + 1, p->persons.files[i] };
    for (int64_t i = 0; i < p->persons.n; i++)
        memcpy(box + 4 * i, p->persons.list[i].box, 4 * sizeof *box);
    if (format != NULL)
        stance_results_format_of(format, &kind);
    status = out == NULL || strcmp(out, "-") == 0 ? stance_results_print(stdout, kind, &r, err)
                                                  : stance_results_write(out, kind, &r, err);

done:
    stance_free(image);
    stance_free(box);
    return status;
}

/* DIR/NAME.png for each image with persons. */
static stance_status draw(const struct predict *p, const char *dir, double threshold, struct stance_error *err)
{
    struct stance_overlay         how = { &p->setup.pose, threshold, true };
    struct stance_overlay_person *who = stance_calloc((size_t)p->persons.n + 1, sizeof *who);
    stance_status                 status = STANCE_OK;

    if (who == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "overlays");
    for (int64_t i = 0; i < p->persons.n && status == STANCE_OK;) {
        int64_t             at = p->persons.list[i].image, n = 0;
        struct stance_image image;
        char                path[4200];

        for (; i < p->persons.n && p->persons.list[i].image == at; i++)
            who[n++] = (struct stance_overlay_person){ p->prediction[i].keypoint, p->persons.list[i].box, p->prediction[i].score };
        status = stance_persons_overlay_path(&p->persons, at, dir, path, sizeof path, err);
        if (status == STANCE_OK)
            status = stance_image_read(p->persons.files[at], &image, err);
        if (status != STANCE_OK)
            break;
        status = stance_overlay_write(path, &image, who, n, &how, err);
        stance_image_free(&image);
    }
    stance_free(who);
    return status;
}

static stance_status predict(struct predict *p, const struct stance_command *c, struct stance_error *err)
{
    const char   *vis = stance_command_text(c, "vis-dir");
    stance_status status;

    p->average = stance_command_has(c, "ema");
    status     = stance_persons_find(c->args + 2, c->n_args - 2, stance_command_text(c, "boxes"), &p->persons, err);

    if (status == STANCE_OK)
        status = load_model(p, c->args[1], err);
    if (status == STANCE_OK)
        status = take_room(p, err);
    if (status == STANCE_OK)
        status = find_points(p, err);
    if (status != STANCE_OK)
        return status;
    keep(p);
    status = write_results(p, stance_command_text(c, "out"), stance_command_text(c, "format"), err);
    if (status == STANCE_OK && vis != NULL)
        status = draw(p, vis, stance_command_f64(c, "kpt-thr", STANCE_OVERLAY_THRESHOLD), err);
    return status;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct predict          p        = { 0 };
    struct stance_registry *registry = NULL;
    stance_status           status   = stance_command_registry(c, &registry, err);

    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, STANCE_SETUP_DEVICE, &p.setup, NULL, err);
    if (status == STANCE_OK)
        status = predict(&p, c, err);
    stance_evaluation_free(p.evaluation);
    stance_step_free(p.step);
    stance_setup_clear(&p.setup);
    stance_config_free(p.pose_config);
    stance_persons_free(&p.persons);
    stance_free(p.prediction);
    stance_free(p.meta);
    stance_free(p.keypoint);
    stance_free(p.images);
    stance_registry_free(registry);
    return status == STANCE_OK ? 0 : STANCE_FAILED;
}

static const char *const formats[] = { "mmpose", "coco", "csv", NULL };
static const struct stance_option options[] = {
    { .name = "boxes", .kind = STANCE_OPTION_TEXT, .argument = "F",
      .doc = "where the persons are: a COCO annotation file, or a JSON list of {file_name, bbox, score} (default: one "
             "person that fills the image)" },
    { .name = "ema", .kind = STANCE_OPTION_FLAG, .doc = "the averaged weights of the checkpoint (train.ema) instead of its weights" },
    { .name = "out", .kind = STANCE_OPTION_TEXT, .argument = "FILE", .doc = "write the points there (default: standard output)" },
    { .name = "format", .kind = STANCE_OPTION_CHOICE, .argument = "mmpose|coco|csv", .choices = formats, .doc = "form of the points (mmpose)" },
    { .name = "vis-dir", .kind = STANCE_OPTION_TEXT, .argument = "DIR", .doc = "draw the points over the images, as PNG files" },
    { .name = "kpt-thr", .kind = STANCE_OPTION_REAL, .argument = "X", .doc = "score from which a point is drawn (0.3)", .min = 0, .max = 1 },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, stance_run_options, NULL };

const struct stance_verb stance_verb_predict = {
    .name = "predict", .summary = "Find the keypoints on images", .arguments = "RECIPE CKPT IMAGE|DIR...",
    .min_args = 3, .max_args = -1, .options = tables, .run = run,
};
