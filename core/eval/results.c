/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "eval/aside.h"
#include "eval/oks.h"
#include "eval/results.h"
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#define PADDING 1.25 /* of the box that centre and scale describe: MMPose's */

static const char *const format_words[] = {
    [STANCE_RESULTS_COCO] = "coco", [STANCE_RESULTS_MMPOSE] = "mmpose", [STANCE_RESULTS_CSV] = "csv",
};

bool stance_results_format_of(const char *word, enum stance_results_format *out)
{
    for (size_t i = 0; i < sizeof format_words / sizeof *format_words; i++)
        if (strcmp(word, format_words[i]) == 0) {
            *out = (enum stance_results_format)i;
            return true;
        }
    return false;
}

/* ---- pieces ----------------------------------------------------------------------------------- */

static void put_number(FILE *to, double v)
{
    char text[40];

    stance_text_of_f64(v, text, sizeof text);
    fputs(text, to);
}

static void put_numbers(struct stance_json_out *o, const char *key, const float *v, int64_t n, int64_t step)
{
    if (key != NULL)
        stance_json_out_key(o, key);
    stance_json_out_array(o);
    for (int64_t i = 0; i < n; i++)
        stance_json_out_f64(o, v[i * step]); /* as binary64, which is what readers take it for */
    stance_json_out_end_array(o);
}

static void box_of(const struct stance_results *r, int64_t i, double box[4])
{
    const struct stance_prediction *p = &r->p[i];

    if (r->box != NULL) {
        memcpy(box, r->box + 4 * i, 4 * sizeof *box);
        return;
    }
    for (int j = 0; j < 2; j++) {
        box[2 + j] = (double)p->scale[j] * 200 / PADDING;
        box[j]     = (double)p->centre[j] - box[2 + j] / 2;
    }
}

static const char *name_of(const struct stance_pose *pose, int32_t k, char room[24])
{
    if (pose->names != NULL)
        return pose->names[k];
    snprintf(room, 24, "point%d", (int)k);
    return room;
}

/* ---- images in order --------------------------------------------------------------------------- */

/* Walks the images with their persons. */
struct walk {
    const struct stance_results *r;
    int64_t     image;      /* number of images seen */
    int64_t     first, end; /* persons of the present one */
    int64_t     id;
    const char *path;       /* NULL: not known */
};

static bool next_image(struct walk *w)
{
    const struct stance_results *r = w->r;

    w->first = w->end;
    if (r->image != NULL ? w->image >= r->images : w->end >= r->count)
        return false;
    w->id   = r->image != NULL ? r->image[w->image].id : r->p[w->end].image_id;
    w->path = r->image != NULL ? r->image[w->image].path : NULL;
    while (w->end < r->count && r->p[w->end].image_id == w->id)
        w->end++;
    w->image++;
    return true;
}

static stance_status check(const struct stance_results *r, struct stance_error *err)
{
    struct walk w = { .r = r };

    while (next_image(&w))
        ;
    if (w.end < r->count)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "results: person %lld is of image %lld, which is not listed or comes earlier",
                           (long long)w.end, (long long)r->p[w.end].image_id);
    for (int64_t i = 0; i < r->count; i++) {
        const struct stance_prediction *p  = &r->p[i];
        bool                            ok = isfinite(p->score) && isfinite(p->box_score);

        for (int64_t j = 0; j < 3 * (int64_t)r->pose->keypoints; j++)
            ok &= isfinite(p->keypoint[j]) != 0;
        for (int j = 0; j < 2; j++)
            ok &= isfinite(p->centre[j]) && isfinite(p->scale[j]);
        for (int j = 0; j < 4 && r->box != NULL; j++)
            ok &= isfinite(r->box[4 * i + j]) != 0;
        if (!ok)
            return STANCE_FAIL(err, STANCE_ERR_RANGE,
                               "results: a number of person %lld (image %lld) is not finite: the network "
                               "has diverged", (long long)i, (long long)p->image_id);
    }
    return STANCE_OK;
}

/* ---- the formats ------------------------------------------------------------------------------- */

/* Each person and each image stands on a line of its own; a writer lives for one line. */
static void print_coco(FILE *to, const struct stance_results *r)
{
    fputs("[", to);
    for (int64_t i = 0; i < r->count; i++) {
        const struct stance_prediction *p = &r->p[i];
        struct stance_json_out          o;

        fputs(i > 0 ? ",\n" : "\n", to);
        stance_json_out_start(&o, to, 0);
        stance_json_out_object(&o);
        stance_json_out_key(&o, "category_id");
        stance_json_out_i64(&o, p->category_id);
        put_numbers(&o, "center", p->centre, 2, 1);
        stance_json_out_key(&o, "image_id");
        stance_json_out_i64(&o, p->image_id);
        put_numbers(&o, "keypoints", p->keypoint, 3 * (int64_t)r->pose->keypoints, 1);
        put_numbers(&o, "scale", p->scale, 2, 1);
        stance_json_out_key(&o, "score");
        stance_json_out_f64(&o, p->score);
        stance_json_out_end_object(&o);
    }
    fputs(r->count > 0 ? "\n]\n" : "]\n", to);
}

static void print_names(struct stance_json_out *o, const struct stance_pose *pose)
{
    char room[24];

    stance_json_out_key(o, "keypoint_id2name");
    stance_json_out_object(o);
    for (int32_t k = 0; k < pose->keypoints; k++) {
        snprintf(room, sizeof room, "%d", (int)k);
        stance_json_out_key(o, room);
        stance_json_out_text(o, name_of(pose, k, room));
    }
    stance_json_out_end_object(o);
    stance_json_out_key(o, "keypoint_name2id");
    stance_json_out_object(o);
    for (int32_t k = 0; k < pose->keypoints; k++) {
        stance_json_out_key(o, name_of(pose, k, room));
        stance_json_out_i64(o, k);
    }
    stance_json_out_end_object(o);
}

static void print_meta(struct stance_json_out *o, const struct stance_pose *pose)
{
    stance_json_out_object(o);
    stance_json_out_key(o, "num_keypoints");
    stance_json_out_i64(o, pose->keypoints);
    print_names(o, pose);
    if (pose->partner != NULL) {
        stance_json_out_key(o, "flip_indices");
        stance_json_out_array(o);
        for (int32_t k = 0; k < pose->keypoints; k++)
            stance_json_out_i64(o, pose->partner[k]);
        stance_json_out_end_array(o);
    }
    stance_json_out_key(o, "skeleton_links");
    stance_json_out_array(o);
    for (int32_t i = 0; i < pose->bones; i++) {
        stance_json_out_array(o);
        stance_json_out_i64(o, pose->skeleton[2 * i]);
        stance_json_out_i64(o, pose->skeleton[2 * i + 1]);
        stance_json_out_end_array(o);
    }
    stance_json_out_end_array(o);
    if (pose->sigmas != NULL) {
        stance_json_out_key(o, "sigmas");
        stance_json_out_array(o);
        for (int32_t k = 0; k < pose->keypoints; k++)
            stance_json_out_f64(o, stance_oks_sigma(pose->sigmas[k]));
        stance_json_out_end_array(o);
    }
    stance_json_out_end_object(o);
}

static void print_instance(struct stance_json_out *o, const struct stance_results *r, int64_t i)
{
    const struct stance_prediction *p = &r->p[i];
    double                          box[4];

    box_of(r, i, box);
    stance_json_out_object(o);
    stance_json_out_key(o, "keypoints");
    stance_json_out_array(o);
    for (int32_t k = 0; k < r->pose->keypoints; k++)
        put_numbers(o, NULL, p->keypoint + 3 * (int64_t)k, 2, 1);
    stance_json_out_end_array(o);
    put_numbers(o, "keypoint_scores", p->keypoint + 2, r->pose->keypoints, 3);
    stance_json_out_key(o, "bbox"); /* corners, in one more list: MMPose's form */
    stance_json_out_array(o);
    stance_json_out_array(o);
    for (int j = 0; j < 4; j++)
        stance_json_out_f64(o, j < 2 ? box[j] : box[j - 2] + box[j]);
    stance_json_out_end_array(o);
    stance_json_out_end_array(o);
    stance_json_out_key(o, "bbox_score");
    stance_json_out_f64(o, p->box_score);
    stance_json_out_end_object(o);
}

static void print_mmpose(FILE *to, const struct stance_results *r)
{
    struct walk            w = { .r = r };
    struct stance_json_out o;

    fputs("{\"meta_info\": ", to);
    stance_json_out_start(&o, to, 0);
    print_meta(&o, r->pose);
    fputs(",\n\"instance_info\": [", to);
    while (next_image(&w)) {
        fputs(w.image > 1 ? ",\n" : "\n", to);
        stance_json_out_start(&o, to, 0);
        stance_json_out_object(&o);
        stance_json_out_key(&o, "frame_id");
        stance_json_out_i64(&o, w.image - 1);
        if (w.path != NULL) {
            stance_json_out_key(&o, "image");
            stance_json_out_text(&o, w.path);
        }
        stance_json_out_key(&o, "image_id");
        stance_json_out_i64(&o, w.id);
        stance_json_out_key(&o, "instances");
        stance_json_out_array(&o);
        for (int64_t i = w.first; i < w.end; i++)
            print_instance(&o, r, i);
        stance_json_out_end_array(&o);
        stance_json_out_end_object(&o);
    }
    fputs("\n]}\n", to);
}

/* A field of RFC 4180. */
static void put_field(FILE *to, const char *text, const char *tail)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fprintf(to, "%s%s", text, tail);
        return;
    }
    putc('"', to);
    for (; *text != '\0'; text++)
        fprintf(to, *text == '"' ? "\"%c" : "%c", *text);
    fprintf(to, "%s\"", tail);
}

static void print_csv(FILE *to, const struct stance_results *r)
{
    struct walk w = { .r = r };
    char        room[24];
    double      box[4];

    fputs("image,image_id,person,score,box_score,box_x,box_y,box_width,box_height", to);
    for (int32_t k = 0; k < r->pose->keypoints; k++)
        for (int j = 0; j < 3; j++) {
            putc(',', to);
            put_field(to, name_of(r->pose, k, room), (const char *[]){ "_x", "_y", "_score" }[j]);
        }
    putc('\n', to);
    while (next_image(&w))
        for (int64_t i = w.first; i < w.end; i++) {
            put_field(to, w.path != NULL ? w.path : "", "");
            fprintf(to, ",%lld,%lld,", (long long)w.id, (long long)(i - w.first));
            put_number(to, r->p[i].score);
            putc(',', to);
            put_number(to, r->p[i].box_score);
            box_of(r, i, box);
            for (int j = 0; j < 4; j++) {
                putc(',', to);
                put_number(to, box[j]);
            }
            for (int64_t j = 0; j < 3 * (int64_t)r->pose->keypoints; j++) {
                putc(',', to);
                put_number(to, r->p[i].keypoint[j]);
            }
            putc('\n', to);
        }
}

static void print(FILE *to, enum stance_results_format format, const struct stance_results *r)
{
    if (format == STANCE_RESULTS_COCO)
        print_coco(to, r);
    else if (format == STANCE_RESULTS_MMPOSE)
        print_mmpose(to, r);
    else
        print_csv(to, r);
}

stance_status stance_results_print(FILE *to, enum stance_results_format format,
                                   const struct stance_results *r, struct stance_error *err)
{
    stance_status status = check(r, err);

    if (status != STANCE_OK)
        return status;
    print(to, format, r);
    if (fflush(to) != 0 || ferror(to))
        return STANCE_FAIL(err, STANCE_ERR_IO, "results: %s", strerror(errno));
    return STANCE_OK;
}

stance_status stance_results_write(const char *path, enum stance_results_format format,
                                   const struct stance_results *r, struct stance_error *err)
{
    struct stance_aside a;
    stance_status       status = check(r, err);

    if (status == STANCE_OK)
        status = stance_aside_open(&a, path, err);
    if (status != STANCE_OK)
        return status;
    print(a.file, format, r);
    return stance_aside_close(&a, STANCE_OK, err);
}
