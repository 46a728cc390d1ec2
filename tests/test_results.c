/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "golden.h"
#include "runner.h"

#include "eval/eval_file.h"
#include "eval/overlay.h"
#include "eval/results.h"
#include "eval/summary.h"

#include <cairo.h>
#include <dirent.h>
#include <math.h>

static const char *const names[3]    = { "nose", "left_eye", "right \"eye\"" };
static const int32_t     partner[3]  = { 0, 2, 1 };
static const int32_t     skeleton[4] = { 0, 1, 0, 2 };
static const float       sigmas[3]   = { 0.026f, 0.025f, 0.025f };

static const struct stance_pose pose = {
    .size = sizeof pose, .keypoints = 3, .names = names, .sigmas = sigmas, .partner = partner,
    .skeleton = skeleton, .bones = 2,
};

static float points[3][9] = {
    { 10.1f, 20.3f, 0.9f, 12.7f, 18.1f, 0.8f, 8.2f, 18.3f, 1e-7f },
    { 1000.33f, -20.5f, 0.9f, 12.7f, 18.1f, 0.8f, 8.2f, 18.3f, 0.7f },
    { 3, 4, 0.5f, 5, 6, 0.5f, 7, 8, 0.5f },
};

static struct stance_prediction persons[3] = {
    { .image_id = 7, .category_id = 1, .centre = { 10, 20 }, .scale = { 0.5f, 0.6f }, .box_score = 0.95f,
      .score = 0.1 + 0.2, .keypoint = points[0] },
    { .image_id = 7, .category_id = 1, .centre = { 500.1f, 20 }, .scale = { 1, 1 }, .box_score = 1,
      .score = 0.5, .keypoint = points[1] },
    { .image_id = 3, .category_id = 1, .centre = { 5, 6 }, .scale = { 0.1f, 0.1f }, .box_score = 1,
      .score = 0.25, .keypoint = points[2] },
};

static const struct stance_results_image images[3] = {
    { 7, "a b/\xc3\xa9,\"1\".jpg" }, { 5, "bad \xff byte\n" }, { 3, "c.png" },
};

static const struct stance_results results = {
    .pose = &pose, .p = persons, .count = 3, .image = images, .images = 3,
};

static char folder[] = "/tmp/stance-results-XXXXXX";

static void make_folder(void)
{
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    char           path[512];

    while ((entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    closedir(dir);
    rmdir(folder);
}

static int count_files(void)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    int            n = 0;

    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    closedir(dir);
    return n;
}

static const char *in_folder(const char *name)
{
    static char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static double at(const json_t *list, size_t i)
{
    return json_number_value(json_array_get(list, i));
}

/* ---- result files ------------------------------------------------------------------------------ */

/* Keys in the order of the alphabet; every number comes back as it was; stance's own reader takes it. */
START_TEST(coco_list)
{
    static const char *const keys[] = { "category_id", "center", "image_id", "keypoints", "scale", "score" };
    struct stance_error      err = STANCE_ERROR_INIT;
    struct stance_eval_data  back;
    json_t                  *root;

    ck_assert_msg(stance_results_write(in_folder("r.json"), STANCE_RESULTS_COCO, &results, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_int_eq(count_files(), 1);
    root = golden_json(in_folder("r.json"));
    ck_assert_uint_eq(json_array_size(root), 3);
    for (size_t i = 0; i < 3; i++) {
        json_t     *o = json_array_get(root, i), *value;
        const char *key;
        int         n = 0;

        json_object_foreach(o, key, value)
        {
            (void)value;
            ck_assert_str_eq(key, keys[n++]);
        }
        ck_assert_int_eq(n, 6);
        ck_assert_int_eq(json_integer_value(json_object_get(o, "image_id")), persons[i].image_id);
        ck_assert_double_eq(json_number_value(json_object_get(o, "score")), persons[i].score);
        for (size_t j = 0; j < 9; j++)
            ck_assert_double_eq(at(json_object_get(o, "keypoints"), j), points[i][j]);
        for (size_t j = 0; j < 2; j++) {
            ck_assert_double_eq(at(json_object_get(o, "center"), j), persons[i].centre[j]);
            ck_assert_double_eq(at(json_object_get(o, "scale"), j), persons[i].scale[j]);
        }
    }
    json_decref(root);
    ck_assert_msg(stance_eval_read(in_folder("r.json"), STANCE_EVAL_RESULTS, &back, &err) == STANCE_OK, "%s",
                  err.text);
    ck_assert_uint_eq(back.n_entries, 3);
    ck_assert_double_eq(back.numbers[9], points[1][0]);
    stance_eval_data_free(&back);
}
END_TEST

START_TEST(mmpose_form)
{
    json_t *root, *meta, *info, *person;

    ck_assert_int_eq(stance_results_write(in_folder("m.json"), STANCE_RESULTS_MMPOSE, &results, NULL), STANCE_OK);
    root = golden_json(in_folder("m.json"));
    meta = json_object_get(root, "meta_info");
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(meta, "keypoint_id2name"), "2")), names[2]);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(meta, "keypoint_name2id"), names[2])), 2);
    ck_assert_double_eq(at(json_object_get(meta, "flip_indices"), 1), 2);
    ck_assert_double_eq(at(json_object_get(meta, "sigmas"), 0), 0.026);
    ck_assert_double_eq(at(json_array_get(json_object_get(meta, "skeleton_links"), 1), 1), 2);
    info = json_object_get(root, "instance_info");
    ck_assert_uint_eq(json_array_size(info), 3);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(info, 0), "image")), images[0].path);
    ck_assert_str_eq(json_string_value(json_object_get(json_array_get(info, 1), "image")), "bad \xef\xbf\xbd byte\n");
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(info, 0), "instances")), 2);
    ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(info, 1), "instances")), 0);
    person = json_array_get(json_object_get(json_array_get(info, 0), "instances"), 1);
    ck_assert_double_eq(at(json_array_get(json_object_get(person, "keypoints"), 0), 0), points[1][0]);
    ck_assert_double_eq(at(json_array_get(json_object_get(person, "keypoints"), 2), 1), points[1][7]);
    ck_assert_double_eq(at(json_object_get(person, "keypoint_scores"), 2), points[1][8]);
    /* Scale 1 is 200 px with the padding of 1.25, so 160 px. */
    ck_assert_double_eq_tol(at(json_array_get(json_object_get(person, "bbox"), 0), 0), 420.1, 1e-4);
    ck_assert_double_eq_tol(at(json_array_get(json_object_get(person, "bbox"), 0), 3), 100, 1e-4);
    json_decref(root);
}
END_TEST

START_TEST(csv_form)
{
    static const double   box[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };
    struct stance_results r       = results;
    struct stance_pose    bare    = { .size = sizeof bare, .keypoints = 3 };
    size_t                size;
    char                 *text;

    r.box = box;
    ck_assert_int_eq(stance_results_write(in_folder("r.csv"), STANCE_RESULTS_CSV, &r, NULL), STANCE_OK);
    text = golden_bytes(in_folder("r.csv"), &size);
    ck_assert_ptr_nonnull(strstr(text, "image,image_id,person,score,box_score,box_x,box_y,box_width,box_height,"
                                       "nose_x,nose_y,nose_score,left_eye_x"));
    ck_assert_ptr_nonnull(strstr(text, ",\"right \"\"eye\"\"_x\","));
    ck_assert_ptr_nonnull(strstr(text, "\n\"a b/\xc3\xa9,\"\"1\"\".jpg\",7,0,0.30000000000000004,0.949999988079071,1,2,3,4,"));
    ck_assert_ptr_nonnull(strstr(text, "\nc.png,3,0,0.25,1,9,10,11,12,3,4,0.5,5,6,0.5,7,8,0.5\n"));
    free(text);
    r.pose  = &bare;
    r.image = NULL;
    ck_assert_int_eq(stance_results_write(in_folder("r.csv"), STANCE_RESULTS_CSV, &r, NULL), STANCE_OK);
    text = golden_bytes(in_folder("r.csv"), &size);
    ck_assert_ptr_nonnull(strstr(text, "point2_score\n,7,0,"));
    free(text);
}
END_TEST

START_TEST(results_refused)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_results r   = results;
    enum stance_results_format format;

    r.images = 2;
    ck_assert_int_eq(stance_results_write(in_folder("x"), STANCE_RESULTS_COCO, &r, &err), STANCE_ERR_INVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "person 2 is of image 3"));
    points[1][4] = NAN;
    ck_assert_int_eq(stance_results_write(in_folder("x"), STANCE_RESULTS_COCO, &results, &err), STANCE_ERR_RANGE);
    ck_assert_ptr_nonnull(strstr(err.text, "person 1 (image 7)"));
    points[1][4] = 18.1f;
    ck_assert_int_eq(stance_results_write("/no/such/folder/x", STANCE_RESULTS_COCO, &results, &err), STANCE_ERR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/no/such/folder/x: No such file"));
    ck_assert_int_eq(count_files(), 0);
    if (access("/dev/full", W_OK) == 0)
        ck_assert_int_eq(stance_results_write("/dev/full", STANCE_RESULTS_COCO, &results, &err), STANCE_ERR_IO);
    ck_assert_int_eq(stance_results_write("/dev/null", STANCE_RESULTS_CSV, &results, &err), STANCE_OK);
    ck_assert(stance_results_format_of("mmpose", &format) && format == STANCE_RESULTS_MMPOSE);
    ck_assert(!stance_results_format_of("xml", &format));
    for (long i = 0;; i++) {
        stance_status status;

        fault_after(i);
        status = stance_results_write(in_folder("y"), STANCE_RESULTS_COCO, &results, &err);
        ck_assert_int_eq(fault_live, 0);
        if (status == STANCE_OK)
            break;
        ck_assert_int_eq(status, STANCE_ERR_NOMEM);
        ck_assert_int_eq(count_files(), 0);
    }
    stance_set_allocator(NULL);
    ck_assert_int_eq(count_files(), 1);
}
END_TEST

START_TEST(empty_results)
{
    struct stance_results r = { .pose = &pose };
    json_t               *root;

    ck_assert_int_eq(stance_results_write(in_folder("e"), STANCE_RESULTS_COCO, &r, NULL), STANCE_OK);
    root = golden_json(in_folder("e"));
    ck_assert(json_is_array(root) && json_array_size(root) == 0);
    json_decref(root);
    ck_assert_int_eq(stance_results_write(in_folder("e"), STANCE_RESULTS_MMPOSE, &r, NULL), STANCE_OK);
    root = golden_json(in_folder("e"));
    ck_assert_uint_eq(json_array_size(json_object_get(root, "instance_info")), 0);
    json_decref(root);
}
END_TEST

/* ---- the ten numbers --------------------------------------------------------------------------- */

START_TEST(summary)
{
    static const double stats[] = { 0.7464, 0.1, 1. / 3, -1, 0.5, 1, 0, 0.25, -1, 0.75 };
    char               *text = NULL;
    size_t              size;
    FILE               *f = open_memstream(&text, &size);
    json_t             *root;

    ck_assert(stance_summary_print(f, stats));
    fclose(f);
    ck_assert_ptr_eq(text, strstr(text, " Average Precision  (AP) @[ IoU=0.50:0.95 | type=   all | maxDets= 20 ] = 0.746\n"
                                        " Average Precision  (AP) @[ IoU=0.50      | type=   all | maxDets= 20 ] = 0.100\n"));
    ck_assert_ptr_nonnull(strstr(text, " Average Precision  (AP) @[ IoU=0.50:0.95 | type=medium | maxDets= 20 ] = -1.000\n"));
    ck_assert_ptr_nonnull(strstr(text, " Average Recall     (AR) @[ IoU=0.50:0.95 | type= large | maxDets= 20 ] = 0.750\n"));
    free(text);
    f = open_memstream(&text, &size);
    ck_assert(stance_summary_json(f, stats));
    fclose(f);
    root = json_loads(text, 0, NULL);
    for (int i = 0; i < STANCE_COCO_STATS; i++)
        ck_assert_double_eq(json_number_value(json_object_get(root, stance_summary_name(i))), stats[i]);
    ck_assert_ptr_nonnull(strstr(text, "\"APM\": -1, "));
    ck_assert_str_eq(stance_summary_label(8), "AR (M)");
    ck_assert_ptr_null(stance_summary_name(10));
    json_decref(root);
    free(text);
}
END_TEST

/* fontconfig 2.14 keeps the patterns of fonts once used and does not give them back; they do not grow
 * with the number of pictures. */
STANCE_API const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libfontconfig\n";
}

/* ---- pictures ---------------------------------------------------------------------------------- */

enum { IW = 160, IH = 120 };
static uint8_t pixels[IW * IH * 3];

static void pixel(cairo_surface_t *s, int x, int y, int rgb[3])
{
    uint32_t v;

    memcpy(&v, cairo_image_surface_get_data(s) + y * cairo_image_surface_get_stride(s) + 4 * x, 4);
    rgb[0] = v >> 16 & 255;
    rgb[1] = v >> 8 & 255;
    rgb[2] = v & 255;
}

/* Orange, blue and green where left, right and middle are; nothing below the threshold; untouched
 * pixels are the image's. */
START_TEST(overlay_colours)
{
    static const float              k[9] = { 80, 20, 1, 120, 60, 0.5f, 40, 60, 0.31f };
    static const float              faint[9] = { 80, 100, 0.29f, 120, 100, 0.2f, NAN, 100, 1 };
    struct stance_image             image = { pixels, IW, IH };
    const double                    box[4] = { 30, 10, 100, 60 };
    struct stance_overlay_person    p[2]  = { { k, box, 0.5 }, { faint, NULL, NAN } };
    struct stance_overlay           how   = { &pose, STANCE_OVERLAY_THRESHOLD, false };
    struct stance_error             err   = STANCE_ERROR_INIT;
    cairo_surface_t                *s;
    int                             c[3];

    for (int i = 0; i < IW * IH; i++)
        pixels[3 * i] = 200, pixels[3 * i + 1] = 100, pixels[3 * i + 2] = (uint8_t)(i % IW);
    ck_assert_msg(stance_overlay_write(in_folder("o.png"), &image, p, 2, &how, &err) == STANCE_OK, "%s", err.text);
    s = cairo_image_surface_create_from_png(in_folder("o.png"));
    ck_assert_int_eq(cairo_image_surface_get_width(s), IW);
    ck_assert_int_eq(cairo_image_surface_get_height(s), IH);
    pixel(s, 120, 60, c);
    ck_assert(c[0] > 230 && c[1] > 120 && c[1] < 200 && c[2] < 40); /* left: orange */
    pixel(s, 40, 60, c);
    ck_assert(c[2] > 230 && c[0] < 100); /* right: blue */
    pixel(s, 80, 20, c);
    ck_assert(c[1] > 180 && c[0] < 100 && c[2] < 150); /* middle: green */
    pixel(s, 100, 40, c);
    ck_assert(c[0] > 200 && c[2] < 80); /* the bone to the left eye */
    pixel(s, 130, 50, c);
    ck_assert(c[0] > 150 && c[2] > 150); /* the box: white */
    pixel(s, 80, 100, c);
    ck_assert(c[0] == 200 && c[1] == 100 && c[2] == 80);
    pixel(s, 5, 115, c);
    ck_assert(c[0] == 200 && c[1] == 100 && c[2] == 5);
    cairo_surface_destroy(s);
    image.width = 0;
    ck_assert_int_eq(stance_overlay_write(in_folder("o.png"), &image, p, 2, &how, &err), STANCE_ERR_RANGE);
    image.width = IW;
    how.legend = true;
    ck_assert_int_eq(stance_overlay_write("/no/such/folder/x.png", &image, p, 2, &how, &err), STANCE_ERR_IO);
    ck_assert_int_eq(count_files(), 1);
    for (long i = 0; i < 3; i++) {
        fault_after(i);
        ck_assert_int_eq(stance_overlay_write(in_folder("n.png"), &image, p, 2, &how, &err),
                         i < 2 ? STANCE_ERR_NOMEM : STANCE_OK);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
    if (access("/dev/full", W_OK) == 0)
        ck_assert_int_eq(stance_overlay_write("/dev/full", &image, p, 2, &how, &err), STANCE_ERR_IO);
}
END_TEST

START_TEST(overlay_sheets)
{
    static const float           k[9] = { 80, 20, 1, 120, 60, 0.5f, 40, 60, 0.31f };
    struct stance_overlay_person p    = { k, NULL, NAN };
    struct stance_overlay_tile   tiles[5];
    struct stance_overlay        how = { &pose, STANCE_OVERLAY_THRESHOLD, true };
    struct stance_error          err = STANCE_ERROR_INIT;
    cairo_surface_t             *s;
    int                          c[3];

    for (int i = 0; i < 5; i++)
        tiles[i] = (struct stance_overlay_tile){
            { pixels, IW, IH }, &p, i == 2 ? 0 : 1,
            i == 0 ? "a caption that is much too long for a picture of this size, by far" : i == 1 ? "bad \xff\xc3" : i == 3 ? "" : NULL,
        };
    ck_assert_msg(stance_overlay_sheet(in_folder("s.png"), tiles, 5, 3, 160, "title", &how, &err) == STANCE_OK, "%s",
                  err.text);
    s = cairo_image_surface_create_from_png(in_folder("s.png"));
    ck_assert_int_eq(cairo_image_surface_get_width(s), 8 + 3 * 168);
    ck_assert_int_eq(cairo_image_surface_get_height(s), 30 + 8 + 2 * (160 + 18 + 8));
    pixel(s, 8 + 168 + 120, 38 + 20 + 60, c); /* second picture, its left eye */
    ck_assert(c[0] > 230 && c[1] > 120 && c[1] < 200 && c[2] < 40);
    pixel(s, 8 + 2 * 168 + 120, 38 + 20 + 60, c); /* third: no person */
    ck_assert(c[0] < 60 || c[2] > 60);
    cairo_surface_destroy(s);
    ck_assert_int_eq(stance_overlay_sheet(in_folder("t.png"), tiles, 5, 0, 160, NULL, &how, &err), STANCE_ERR_RANGE);
    ck_assert_int_eq(stance_overlay_sheet(in_folder("t.png"), tiles, 5, 1, 9, NULL, &how, &err), STANCE_ERR_RANGE);
    tiles[4].image.rgb = NULL;
    ck_assert_int_eq(stance_overlay_sheet(in_folder("t.png"), tiles, 5, 3, 64, NULL, &how, &err), STANCE_ERR_RANGE);
    ck_assert_int_eq(count_files(), 1);
    /* Too narrow for a legend: left out. */
    ck_assert_int_eq(stance_overlay_sheet(in_folder("t.png"), tiles, 1, 9, 32, "t", &how, &err), STANCE_OK);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("results");
    TCase *tc    = tcase_create("all");

    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, coco_list);
    tcase_add_test(tc, mmpose_form);
    tcase_add_test(tc, csv_form);
    tcase_add_test(tc, results_refused);
    tcase_add_test(tc, empty_results);
    tcase_add_test(tc, summary);
    tcase_add_test(tc, overlay_colours);
    tcase_add_test(tc, overlay_sheets);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
