/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "eval/aside.h"
#include "eval/oks.h"
#include "eval/results.h"
#include "eval/utf8.h"

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

/* A JSON string; file names may hold anything. */
static void put_text(FILE *to, const char *text)
{
    const unsigned char *s = (const unsigned char *)text, *end = s + strlen(text);

    putc('"', to);
    while (s < end) {
        size_t n = stance_utf8_length(s, end);

        if (n == 0)
            fputs("\\ufffd", to);
        else if (*s == '"' || *s == '\\')
            fprintf(to, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(to, "\\u%04x", *s);
        else
            fwrite(s, 1, n, to);
        s += n > 0 ? n : 1;
    }
    putc('"', to);
}

static void put_numbers(FILE *to, const float *v, int64_t n, int64_t step)
{
    putc('[', to);
    for (int64_t i = 0; i < n; i++) {
        if (i > 0)
            fputs(", ", to);
        put_number(to, v[i * step]);
    }
    putc(']', to);
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

static void print_coco(FILE *to, const struct stance_results *r)
{
    fputs("[", to);
    for (int64_t i = 0; i < r->count; i++) {
        const struct stance_prediction *p = &r->p[i];

        fprintf(to, "%s{\"category_id\": %lld, \"center\": ", i > 0 ? ",\n" : "\n",
                (long long)p->category_id);
        put_numbers(to, p->centre, 2, 1);
        fprintf(to, ", \"image_id\": %lld, \"keypoints\": ", (long long)p->image_id);
        put_numbers(to, p->keypoint, 3 * (int64_t)r->pose->keypoints, 1);
        fputs(", \"scale\": ", to);
        put_numbers(to, p->scale, 2, 1);
        fputs(", \"score\": ", to);
        put_number(to, p->score);
        fputs("}", to);
    }
    fputs(r->count > 0 ? "\n]\n" : "]\n", to);
}

static void print_meta(FILE *to, const struct stance_pose *pose)
{
    char room[24];

    fprintf(to, "{\"num_keypoints\": %d, \"keypoint_id2name\": {", (int)pose->keypoints);
    for (int32_t k = 0; k < pose->keypoints; k++) {
        fprintf(to, "%s\"%d\": ", k > 0 ? ", " : "", (int)k);
        put_text(to, name_of(pose, k, room));
    }
    fputs("}, \"keypoint_name2id\": {", to);
    for (int32_t k = 0; k < pose->keypoints; k++) {
        fputs(k > 0 ? ", " : "", to);
        put_text(to, name_of(pose, k, room));
        fprintf(to, ": %d", (int)k);
    }
    fputs("}", to);
    if (pose->partner != NULL) {
        fputs(", \"flip_indices\": [", to);
        for (int32_t k = 0; k < pose->keypoints; k++)
            fprintf(to, "%s%d", k > 0 ? ", " : "", (int)pose->partner[k]);
        fputs("]", to);
    }
    fputs(", \"skeleton_links\": [", to);
    for (int32_t i = 0; i < pose->bones; i++)
        fprintf(to, "%s[%d, %d]", i > 0 ? ", " : "", (int)pose->skeleton[2 * i],
                (int)pose->skeleton[2 * i + 1]);
    fputs("]", to);
    if (pose->sigmas != NULL) {
        fputs(", \"sigmas\": [", to);
        for (int32_t k = 0; k < pose->keypoints; k++) {
            fputs(k > 0 ? ", " : "", to);
            put_number(to, stance_oks_sigma(pose->sigmas[k]));
        }
        fputs("]", to);
    }
    fputs("}", to);
}

static void print_instance(FILE *to, const struct stance_results *r, int64_t i)
{
    const struct stance_prediction *p = &r->p[i];
    double                          box[4];

    box_of(r, i, box);
    fputs("{\"keypoints\": [", to);
    for (int32_t k = 0; k < r->pose->keypoints; k++) {
        fputs(k > 0 ? ", " : "", to);
        put_numbers(to, p->keypoint + 3 * (int64_t)k, 2, 1);
    }
    fputs("], \"keypoint_scores\": ", to);
    put_numbers(to, p->keypoint + 2, r->pose->keypoints, 3);
    fputs(", \"bbox\": [[", to); /* corners, in one more list: MMPose's form */
    for (int j = 0; j < 4; j++) {
        fputs(j > 0 ? ", " : "", to);
        put_number(to, j < 2 ? box[j] : box[j - 2] + box[j]);
    }
    fputs("]], \"bbox_score\": ", to);
    put_number(to, p->box_score);
    fputs("}", to);
}

static void print_mmpose(FILE *to, const struct stance_results *r)
{
    struct walk w = { .r = r };

    fputs("{\"meta_info\": ", to);
    print_meta(to, r->pose);
    fputs(",\n\"instance_info\": [", to);
    while (next_image(&w)) {
        fprintf(to, "%s{\"frame_id\": %lld, ", w.image > 1 ? ",\n" : "\n", (long long)(w.image - 1));
        if (w.path != NULL) {
            fputs("\"image\": ", to);
            put_text(to, w.path);
            fputs(", ", to);
        }
        fprintf(to, "\"image_id\": %lld, \"instances\": [", (long long)w.id);
        for (int64_t i = w.first; i < w.end; i++) {
            fputs(i > w.first ? ", " : "", to);
            print_instance(to, r, i);
        }
        fputs("]}", to);
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
