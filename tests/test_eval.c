/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "golden.h"
#include "runner.h"

#include "eval/eval_file.h"
#include "eval/oks.h"
#include "eval/order.h"
#include "eval/sigmas.h"

#include <stance/log.h>

#include <dirent.h>
#include <math.h>
#include <strings.h>
#include <yaml.h>

/* ---- the evaluation against pycocotools ------------------------------------------------------- */

static const char *const sets[] = { "crowded", "four_points", "many_per_image", "perfect",
                                    "plain", "small_only", "ties", "twenty_one_points" };

static char *sigmas_text(const json_t *list)
{
    struct stance_string t = { 0 };

    for (size_t i = 0; i < json_array_size(list); i++)
        stance_string_add(&t, "%s%.17g", i > 0 ? "," : "", json_number_value(json_array_get(list, i)));
    return t.s;
}

static void compare_all(const char *what, const double *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        /* A mean of at most 1010 numbers of [0, 1], each within a few units in the last place. */
        ck_assert_msg(fabs(got[i] - want[i]) <= 1e-12, "%s[%zu]: %.17g, not %.17g", what, i, got[i],
                      want[i]);
}

START_TEST(golden_sets)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_eval_data    gt, dt;
    struct stance_eval_options options = { NULL, STANCE_AREA_NONE };
    struct stance_eval_result  result;
    struct stance_coco_curves  curves;
    struct stance_string       warnings = { 0 };
    char                       name[64], *text, *bytes;
    double                     want[STANCE_COCO_STATS];
    size_t                     size;
    json_t                    *expect, *header;
    const char                *path;

    snprintf(name, sizeof name, "golden/cocoeval/%s/expect.json", sets[_i]);
    path = shared_file(name);
    if (path == NULL) {
        SKIP("golden/cocoeval is not there");
        return;
    }
    expect = golden_json(path);
    text = sigmas_text(json_object_get(expect, "sigmas"));
    options.sigmas = text;
    for (size_t i = 0; i < STANCE_COCO_STATS; i++)
        want[i] = json_number_value(json_array_get(json_object_get(expect, "stats"), i));

    snprintf(name, sizeof name, "golden/cocoeval/%s/gt.json", sets[_i]);
    ck_assert_msg(stance_eval_read(shared_file(name), STANCE_EVAL_TRUTH, &gt, &err) == STANCE_OK, "%s", err.text);
    snprintf(name, sizeof name, "golden/cocoeval/%s/dt.json", sets[_i]);
    ck_assert_msg(stance_eval_read(shared_file(name), STANCE_EVAL_RESULTS, &dt, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_eval_data(&gt, &dt, &options, &result, &curves, &warnings, &err) == STANCE_OK,
                  "%s", err.text);
    compare_all("stats", result.stats, want, STANCE_COCO_STATS);
    ck_assert_msg(warnings.s == NULL, "%s", warnings.s);

    snprintf(name, sizeof name, "golden/cocoeval/%s/curves.safetensors", sets[_i]);
    bytes  = golden_bytes(shared_file(name), &size);
    header = golden_header(bytes);
    ck_assert_int_eq(curves.categories, 1);
    compare_all("precision", curves.precision, golden_tensor(bytes, header, "precision"), 10 * 101 * 3);
    compare_all("recall", curves.recall, golden_tensor(bytes, header, "recall"), 10 * 3);

    json_decref(header);
    json_decref(expect);
    free(bytes);
    stance_free(text);
    stance_coco_curves_free(&curves);
    stance_eval_data_free(&gt);
    stance_eval_data_free(&dt);
}
END_TEST

/* The data of spec/topdown.md 19.3, measured with xtcocotools. */
START_TEST(measured_vector)
{
    enum { K = 17 };
    static double              points[8][3 * K], found_points[12][3 * K];
    struct stance_truth        truths[8];
    struct stance_coco_detection found[12];
    int64_t                    ids[4] = { 3, 1, 4, 2 };
    double                     stats[STANCE_COCO_STATS];
    static const double        want[] = { 0.462376238, 0.9669967, 0.287128713, 0.533663366, 0.426732673,
                                          0.471428571, 1, 0.285714286, 0.533333333, 0.425 };
    static const double        oks[4][2] = { { 0.826675, 0.781198 }, { 0.738735, 0.700665 },
                                             { 0.660297, 0.646466 }, { 0.611023, 0.554693 } };
    double                     vars[K], term[K];
    int                        n = 0, nd = 0;

    for (int k = 0; k < K; k++)
        vars[k] = 4 * stance_coco_sigmas[k] * stance_coco_sigmas[k];
    for (int i = 1; i <= 4; i++) {
        for (int p = 0; p < 2; p++, n++) {
            double x0 = 1e9, x1 = -1e9, y0 = 1e9, y1 = -1e9;
            int    d  = 2 * i + 3 * p;

            for (int k = 0; k < K; k++) {
                double x = 40 * i + 10 * k + 40 * p, y = 50 + 7 * k % 60 + 30 * p;
                bool   v = (k + i + p) % 4 != 0;

                memcpy(points[n] + 3 * k, v ? (double[]){ x, y, 2 } : (double[]){ 0, 0, 0 }, 24);
                if (v) {
                    x0 = fmin(x0, x), x1 = fmax(x1, x), y0 = fmin(y0, y), y1 = fmax(y1, y);
                }
                memcpy(found_points[nd] + 3 * k, (double[]){ x + (k % 2 ? d : -d), y + d, 0.8 }, 24);
            }
            truths[n] = (struct stance_truth){ i, n + 1, points[n],
                                               { x0 - 5, y0 - 5, x1 - x0 + 10, y1 - y0 + 10 },
                                               2500 * (i + 3 * p), i == 4 && p == 1 };
            found[nd] = (struct stance_coco_detection){ i, 1, 0.9 - 0.1 * i - 0.05 * p, found_points[nd] };
            /* Given to six decimals. */
            ck_assert_double_eq_tol(stance_oks_truth(&truths[n], found_points[nd], vars, K, term),
                                    oks[i - 1][p], 5.1e-7);
            nd++;
        }
        for (int k = 0; k < K; k++)
            memcpy(found_points[nd] + 3 * k, (double[]){ 300 + 5 * k, 300 + 2 * k, 0.5 }, 24);
        found[nd] = (struct stance_coco_detection){ i, 1, 0.45 + 0.02 * i, found_points[nd] };
        nd++;
    }
    struct stance_coco_input in = {
        .keypoints = K, .sigmas = stance_coco_sigmas, .image_ids = ids, .images = 4,
        .truths = truths, .n_truths = 8, .detections = found, .n_detections = 12,
    };
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_coco_evaluate(&in, stats, NULL, &err) == STANCE_OK, "%s", err.text);
    for (int i = 0; i < STANCE_COCO_STATS; i++)
        ck_assert_double_eq_tol(stats[i], want[i], 5.1e-10); /* given to nine digits */

    ids[1] = 4;
    ck_assert_int_eq(stance_coco_evaluate(&in, stats, NULL, &err), STANCE_ERR_INVAL);
    ids[1] = 1;
    for (long i = 0;; i++) {
        stance_status status;

        fault_after(i);
        status = stance_coco_evaluate(&in, stats, NULL, &err);
        ck_assert_int_eq(fault_live, 0);
        if (status == STANCE_OK)
            break;
        ck_assert_int_eq(status, STANCE_ERR_NOMEM);
        ck_assert_int_lt(i, 1000);
    }
    stance_set_allocator(NULL);
}
END_TEST

/* Two categories are averaged; a category nobody is of changes nothing; NaN finds nobody. */
START_TEST(categories_and_nan)
{
    static double        a[] = { 10, 10, 2, 50, 90, 2 }, b[] = { 11, 10, 2, 52, 90, 2 };
    static double        far[] = { 500, 500, 1, 600, 600, 1 }, nan_points[] = { NAN, 10, 1, 50, 90, 1 };
    struct stance_truth  truths[] = { { 1, 1, a, { 0, 0, 60, 100 }, 3000, false },
                                      { 1, 2, b, { 0, 0, 60, 100 }, 3000, false } };
    int64_t              of[] = { 5, 7 }, categories[] = { 5, 6, 7 }, image = 1;
    double               sigmas[] = { 0.05, 0.05 }, stats[STANCE_COCO_STATS];
    struct stance_coco_detection found[] = { { 1, 5, 0.9, a }, { 1, 7, 0.8, far }, { 1, 9, 0.99, a },
                                             { 2, 5, 0.95, a }, { 1, 5, 0.99, nan_points } };
    struct stance_coco_input in = {
        .keypoints = 2, .sigmas = sigmas, .image_ids = &image, .images = 1, .truths = truths,
        .n_truths = 2, .detections = found, .n_detections = 4, .truth_category = of,
        .category_ids = categories, .categories = 3,
    };
    struct stance_coco_curves curves;

    ck_assert_int_eq(stance_coco_evaluate(&in, stats, &curves, NULL), STANCE_OK);
    ck_assert_double_eq_tol(stats[0], 0.5, 1e-12); /* category 5 found, 7 not, 6 undefined */
    ck_assert_double_eq(stats[5], 0.5);
    ck_assert_double_eq(curves.recall[1 * STANCE_COCO_AREAS], -1);
    stance_coco_curves_free(&curves);
    in.n_detections = 5;
    in.categories   = 1;
    ck_assert_int_eq(stance_coco_evaluate(&in, stats, NULL, NULL), STANCE_OK);
    ck_assert_double_eq_tol(stats[0], 0.5, 1e-12); /* the false alarm comes first */
    ck_assert_double_eq(stats[5], 1);
    sigmas[1] = 0;
    ck_assert_int_eq(stance_coco_evaluate(&in, stats, NULL, NULL), STANCE_ERR_RANGE);
}
END_TEST

START_TEST(order_is_stable)
{
    enum { N = 1000 };
    static struct stance_ranked r[N], scratch[N];
    uint32_t                    x = 1;

    for (int n = 0; n < N; n += 1 + n / 3) {
        for (int i = 0; i < n; i++) {
            x    = x * 1664525u + 1013904223u;
            r[i] = (struct stance_ranked){ x >> 24 == 3 ? NAN : (double)(x >> 27), i };
        }
        stance_order(r, scratch, n);
        for (int i = 1; i < n; i++) {
            const struct stance_ranked *p = &r[i - 1], *q = &r[i];

            if (isnan(p->score))
                ck_assert(isnan(q->score) && p->at < q->at);
            else
                ck_assert(isnan(q->score) || p->score > q->score
                          || (p->score == q->score && p->at < q->at));
        }
    }
}
END_TEST

/* ---- cases/eval ------------------------------------------------------------------------------- */

static const struct { const char *in_case; int at; } stat_names[] = {
    { "AP", 0 }, { "AP50", 1 }, { "AP75", 2 }, { "AP_M", 3 }, { "AP_L", 4 },
    { "AR", 5 }, { "AR50", 6 }, { "AR75", 7 }, { "AR_M", 8 }, { "AR_L", 9 },
};

static yaml_node_t *member(yaml_document_t *doc, yaml_node_t *map, const char *key)
{
    if (map == NULL || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
        if (strcmp((char *)yaml_document_get_node(doc, p->key)->data.scalar.value, key) == 0)
            return yaml_document_get_node(doc, p->value);
    return NULL;
}

static const char *scalar(yaml_document_t *doc, yaml_node_t *map, const char *key)
{
    yaml_node_t *n = member(doc, map, key);

    return n != NULL && n->type == YAML_SCALAR_NODE ? (char *)n->data.scalar.value : NULL;
}

static void says(yaml_document_t *doc, yaml_node_t *expect, const char *name, const char *message)
{
    yaml_node_t *words = member(doc, expect, "message_has");

    if (words == NULL)
        return;
    for (yaml_node_item_t *i = words->data.sequence.items.start; i < words->data.sequence.items.top; i++) {
        const char *word = (char *)yaml_document_get_node(doc, *i)->data.scalar.value;

        ck_assert_msg(strcasestr(message, word) != NULL, "%s: '%s' is not in: %s", name, word, message);
    }
}

static void run_case(const char *folder, const char *name)
{
    struct stance_error        err      = STANCE_ERROR_INIT;
    struct stance_string       warnings = { 0 }, sigmas = { 0 };
    struct stance_eval_options options  = { NULL, STANCE_AREA_NONE };
    struct stance_eval_result  result;
    char                       path[8192], gt[8192], dt[8192];
    yaml_parser_t              parser;
    yaml_document_t            doc;
    yaml_node_t               *input, *expect, *list;
    const char                *status, *tolerance, *text;
    stance_status              got;
    FILE                      *f;

    snprintf(path, sizeof path, "%s/%s/case.yaml", folder, name);
    f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    ck_assert(yaml_parser_initialize(&parser));
    yaml_parser_set_input_file(&parser, f);
    ck_assert(yaml_parser_load(&parser, &doc));
    input  = member(&doc, yaml_document_get_root_node(&doc), "input");
    expect = member(&doc, yaml_document_get_root_node(&doc), "expect");
    status = scalar(&doc, expect, "status");
    snprintf(gt, sizeof gt, "%s/%s/%s", folder, name, scalar(&doc, input, "gt"));
    snprintf(dt, sizeof dt, "%s/%s/%s", folder, name, scalar(&doc, input, "dt"));
    list = member(&doc, input, "sigmas");
    if (list != NULL) {
        for (yaml_node_item_t *i = list->data.sequence.items.start; i < list->data.sequence.items.top; i++)
            stance_string_add(&sigmas, "%s, ", (char *)yaml_document_get_node(&doc, *i)->data.scalar.value);
        options.sigmas = sigmas.s;
    }
    if (scalar(&doc, input, "area_fallback") != NULL)
        options.area_fallback = STANCE_AREA_BBOX;

    got = stance_eval_files(gt, dt, &options, &result, &warnings, &err);
    if (strcmp(status, "error") == 0) {
        ck_assert_msg(stance_exit_status(got) == 2, "%s: no error", name);
        /* Names of folders, line and column have digits too: only what follows them may count. */
        text = strstr(err.text, ".json:");
        text = text != NULL ? text + strcspn(text, " ") : err.text;
        says(&doc, expect, name, text);
    } else {
        ck_assert_msg(got == STANCE_OK, "%s: %s", name, err.text);
        ck_assert_msg((strcmp(status, "warn") == 0) == (warnings.s != NULL), "%s: warnings: %s", name,
                      warnings.s != NULL ? warnings.s : "none");
        says(&doc, expect, name, warnings.s != NULL ? warnings.s : "");
        tolerance = scalar(&doc, expect, "tolerance");
        for (size_t i = 0; i < sizeof stat_names / sizeof *stat_names; i++) {
            const char *want = scalar(&doc, member(&doc, expect, "stats"), stat_names[i].in_case);

            ck_assert_ptr_nonnull(want);
            ck_assert_msg(fabs(result.stats[stat_names[i].at] - atof(want)) <= atof(tolerance), "%s: %s: %g, not %s",
                          name, stat_names[i].in_case, result.stats[stat_names[i].at], want);
        }
    }
    stance_string_free(&warnings);
    stance_string_free(&sigmas);
    yaml_document_delete(&doc);
    yaml_parser_delete(&parser);
    fclose(f);
}

START_TEST(cases)
{
    const char    *root = shared_file("cases/eval");
    char           folder[4096];
    DIR           *dir;
    struct dirent *entry;
    int            n = 0;

    if (root == NULL) {
        SKIP("cases/eval is not there");
        return;
    }
    snprintf(folder, sizeof folder, "%s", root);
    dir = opendir(folder);
    while ((entry = readdir(dir)) != NULL)
        if (entry->d_name[0] != '.') {
            run_case(folder, entry->d_name);
            n++;
        }
    closedir(dir);
    ck_assert_int_ge(n, 19);
}
END_TEST

/* ---- files that are wrong --------------------------------------------------------------------- */

#define IMAGES "\"images\": [{\"id\": 1}, {\"id\": 2}], "
#define CATEGORY "\"categories\": [{\"id\": 1, \"keypoints\": [\"a\", \"b\"]}]"
#define TRUTH(annotation) "{" IMAGES "\"annotations\": [" annotation "], " CATEGORY "}"
#define GOOD "{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"area\": 100, \"bbox\": [0, 0, 10, 10], " \
             "\"keypoints\": [1, 2, 2, 3, 4, 1]}"
#define FOUND "{\"image_id\": 1, \"category_id\": 1, \"score\": 0.5, \"keypoints\": [1, 2, 1, 3, 4, 1]}"

static const struct { const char *gt, *dt, *sigmas; stance_status want; const char *says; } wrong[] = {
    { TRUTH(GOOD), "[" FOUND "]", "0.05,0.05", STANCE_OK, "" },
    { TRUTH(GOOD), "[" FOUND "]", "[0.05 0.05]", STANCE_OK, "" },
    { "[]", "[]", "0.05,0.05", STANCE_ERR_FORMAT, "gt:1:1: ground truth must be an object" },
    { "{\"images\": []}", "[]", NULL, STANCE_ERR_FORMAT, "no 'annotations'" },
    { "{\"images\": 3, \"annotations\": []}", "[]", NULL, STANCE_ERR_FORMAT, "'images' is a number" },
    { "{\"images\": [{\"id\": \"x\"}], \"annotations\": []}", "[]", NULL, STANCE_ERR_FORMAT,
      "entry of images 0: id \"x\" is text" },
    { "{\"images\": [{\"id\": 1}, {\"id\": 1}], \"annotations\": []}", "[]", NULL, STANCE_ERR_FORMAT,
      "image 1 is listed twice" },
    { TRUTH(GOOD), "{\"annotations\": []}", "0.05,0.05", STANCE_ERR_FORMAT, "dt:1:1: results must be a list" },
    { TRUTH(GOOD), "[" FOUND, "0.05,0.05", STANCE_ERR_FORMAT, "dt:1:" },
    { TRUTH(GOOD), "", "0.05,0.05", STANCE_ERR_FORMAT, "dt:1:1: the text ends" },
    { TRUTH(GOOD), "[3]", "0.05,0.05", STANCE_ERR_FORMAT, "result 0: it has a number where an object must be" },
    { TRUTH(GOOD), "[{\"image_id\": 1.5}]", "0.05,0.05", STANCE_ERR_FORMAT, "image_id 1.5 is not a whole number" },
    { TRUTH(GOOD), "[{\"image_id\": 1, \"score\": 1, \"keypoints\": [1, 2, 1, 3, 4, 1]}]", "0.05,0.05",
      STANCE_ERR_FORMAT, "result 0: category_id is missing" },
    { TRUTH(GOOD), "[{\"image_id\": 1, \"category_id\": 1, \"score\": null, \"keypoints\": []}]", "0.05,0.05",
      STANCE_ERR_FORMAT, "result 0: score has null" },
    { TRUTH(GOOD), "[" FOUND "]", "0.05,0", STANCE_ERR_RANGE, "sigmas: 0, number 2 of the list" },
    { TRUTH(GOOD), "[" FOUND "]", "0.05,,0.05", STANCE_ERR_INVAL, "sigmas" },
    { TRUTH(GOOD), "[" FOUND "]", "", STANCE_ERR_INVAL, "empty" },
    { TRUTH(GOOD), "[" FOUND "]", "no-such-file.yaml", STANCE_ERR_INPUT, "no-such-file.yaml" },
    { TRUTH("{\"image_id\": 1}"), "[]", NULL, STANCE_ERR_FORMAT, "entry of annotations 0: id is missing" },
    { TRUTH("{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"area\": 5}"), "[]", NULL, STANCE_ERR_FORMAT,
      "annotation 7: keypoints is missing" },
    { TRUTH("{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"area\": -5, \"keypoints\": []}"), "[]", NULL,
      STANCE_ERR_FORMAT, "annotation 7: area -5 is below 0" },
    { TRUTH("{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"area\": 5, \"keypoints\": [1, 2, 2, 3]}"), "[]",
      NULL, STANCE_ERR_FORMAT, "annotation 7: keypoints has 4 numbers" },
    { TRUTH("{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"area\": 5, \"keypoints\": [1, 2, 2]}"), "[]",
      NULL, STANCE_ERR_FORMAT, "annotation 7: 1 keypoints, but its category names 2" },
    { TRUTH("{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"area\": 5, \"keypoints\": [1, 2, 0, 3, 4, 0]}"),
      "[]", "0.05,0.05", STANCE_ERR_FORMAT, "annotation 7: bbox is missing" },
    { TRUTH("{\"id\": 7, \"image_id\": 1, \"category_id\": 1, \"bbox\": [1, 2, 3], \"keypoints\": []}"), "[]", NULL,
      STANCE_ERR_FORMAT, "bbox is not a list of four numbers" },
};

static stance_status evaluate_texts(const char *gt_text, const char *dt_text, const char *sigmas,
                                    double *stats, struct stance_string *warnings, struct stance_error *err)
{
    struct stance_eval_options options = { sigmas, STANCE_AREA_NONE };
    struct stance_eval_data    gt = { .images = 0 }, dt = { .images = 0 };
    struct stance_eval_result  result;
    stance_status              status;

    status = stance_eval_read_memory(gt_text, strlen(gt_text), "gt", STANCE_EVAL_TRUTH, &gt, err);
    if (status == STANCE_OK)
        status = stance_eval_read_memory(dt_text, strlen(dt_text), "dt", STANCE_EVAL_RESULTS, &dt, err);
    if (status == STANCE_OK)
        status = stance_eval_data(&gt, &dt, &options, &result, NULL, warnings, err);
    if (status == STANCE_OK)
        memcpy(stats, result.stats, sizeof result.stats);
    stance_eval_data_free(&gt);
    stance_eval_data_free(&dt);
    return status;
}

START_TEST(wrong_files)
{
    struct stance_error err = STANCE_ERROR_INIT;
    double              stats[STANCE_COCO_STATS];
    stance_status       status;

    status = evaluate_texts(wrong[_i].gt, wrong[_i].dt, wrong[_i].sigmas, stats, NULL, &err);
    ck_assert_msg(status == wrong[_i].want, "%d: %s", (int)status, err.text);
    ck_assert_msg(strstr(err.text, wrong[_i].says) != NULL, "says: %s", err.text);
}
END_TEST

#define ODD "{\"id\": 0, \"image_id\": 1, \"category_id\": 1, \"area\": 100, \"bbox\": [0, 0, 10, 10], " \
            "\"keypoints\": [1, 2, 2, 3, 4, 1]}"
#define STRAY "{\"id\": 9, \"image_id\": 77, \"category_id\": 1, \"area\": 100, \"keypoints\": [1, 2, 2, 3, 4, 1]}"

static const struct { const char *gt, *dt, *says; double ap; } warned[] = {
    { TRUTH(ODD), "[" FOUND "]", "annotation 0 counts as never found", 0 },
    { TRUTH(GOOD ", " STRAY), "[" FOUND "]", "1 annotations take no part", 1 },
    { TRUTH(GOOD), "[{\"image_id\": 2, \"category_id\": 3, \"score\": 1, \"keypoints\": [1,2,1,3,4,1]}, " FOUND "]",
      "1 results take no part", 1 },
    { TRUTH(""), "[]", "no person with labelled keypoints", -1 },
};

START_TEST(warnings_are_told)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_string warnings = { 0 };
    double               stats[STANCE_COCO_STATS];

    ck_assert_msg(evaluate_texts(warned[_i].gt, warned[_i].dt, "0.05,0.05", stats, &warnings, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_ptr_nonnull(warnings.s);
    ck_assert_msg(strstr(warnings.s, warned[_i].says) != NULL, "%s", warnings.s);
    ck_assert_double_eq_tol(stats[0], warned[_i].ap, 1e-12);
    stance_string_free(&warnings);
}
END_TEST

START_TEST(reading_survives_failure)
{
    struct stance_error err = STANCE_ERROR_INIT;
    double              stats[STANCE_COCO_STATS];

    for (long i = 0;; i++) {
        struct stance_string warnings = { 0 };
        stance_status        status;

        fault_after(i);
        status = evaluate_texts(TRUTH(GOOD ", " STRAY), "[" FOUND "]", "0.05,0.05", stats, &warnings, &err);
        stance_string_free(&warnings);
        ck_assert_int_eq(fault_live, 0);
        if (status == STANCE_OK)
            break;
        ck_assert_int_eq(status, STANCE_ERR_NOMEM);
        ck_assert_int_lt(i, 1000);
    }
    stance_set_allocator(NULL);
}
END_TEST

static const struct { const char *text; int64_t n; double last; const char *says; } sigma_files[] = {
    { "[0.1, 0.2]", 2, 0.2, NULL },
    { "- 0.1\n- 0.25\n- 1e-2\n", 3, 0.01, NULL },
    { "name: x\nsigmas: [0.1,\n  0.3]\nkeypoints: [a, b]\n", 2, 0.3, NULL },
    { "{\"sigmas\": [0.5]}", 1, 0.5, NULL },
    { "name: x\n", 0, 0, "no list of sigmas" },
    { "sigmas: [0.1, [2]]\n", 0, 0, ":1:15: an entry of sigmas is not a number" },
    { "sigmas:\n- 0.1\n- big\n", 0, 0, ":3:3: sigmas: 'big' is not a number" },
    { "sigmas: [\n", 0, 0, ":2:1: " },
    { "", 0, 0, "no list of sigmas" },
};

START_TEST(sigmas_from_files)
{
    struct stance_error err = STANCE_ERROR_INIT;
    char                path[] = "/tmp/stance-sigmas-XXXXXX";
    int                 fd     = mkstemp(path);
    size_t              size   = strlen(sigma_files[_i].text);
    double             *v;
    int64_t             n;
    stance_status       status;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, sigma_files[_i].text, size), (int)size);
    close(fd);
    status = stance_sigmas_read(path, &v, &n, &err);
    unlink(path);
    if (sigma_files[_i].says != NULL) {
        ck_assert_int_eq(stance_exit_status(status), 2);
        ck_assert_msg(strstr(err.text, sigma_files[_i].says) != NULL, "says: %s", err.text);
        return;
    }
    ck_assert_msg(status == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(n, sigma_files[_i].n);
    ck_assert_double_eq(v[n - 1], sigma_files[_i].last);
    stance_free(v);
}
END_TEST

/* ---- suppression ------------------------------------------------------------------------------ */

/* The sigma of a float is the decimal it was written as. */
START_TEST(sigma_decimals)
{
    for (int i = 0; i < 17; i++)
        ck_assert_double_eq(stance_oks_sigma((float)stance_coco_sigmas[i]), stance_coco_sigmas[i]);
}
END_TEST

/* spec/topdown.md 9.4: poses (5, 3) px apart, areas 10000 and 12000. */
START_TEST(oks_of_detections)
{
    float                    a[51] = { 0 }, b[51] = { 0 };
    double                   vars[17];
    struct stance_prediction p = { .area = 10000, .keypoint = a }, q = { .area = 12000, .keypoint = b };

    for (int i = 0; i < 17; i++) {
        a[3 * i] = (float)(100 + 10 * i), a[3 * i + 1] = (float)(50 + 3 * i);
        b[3 * i] = a[3 * i] + 5, b[3 * i + 1] = a[3 * i + 1] + 3;
        vars[i] = 4 * stance_coco_sigmas[i] * stance_coco_sigmas[i];
    }
    ck_assert_float_eq_tol(stance_oks_pair(&p, &q, vars, 17), 0.84620214f, 6e-8f); /* one ulp */
}
END_TEST

enum { PEOPLE_MAX = 64 };
static float                    people_points[PEOPLE_MAX][51];
static struct stance_prediction people[PEOPLE_MAX];
static float                    people_sigmas[17];

static json_t *load_people(int64_t *n)
{
    const char   *path = shared_file("golden/topdown/oks_nms.json");
    json_t       *root, *list;

    if (path == NULL)
        return NULL;
    root = golden_json(path);
    list = json_object_get(root, "people");
    *n   = (int64_t)json_array_size(list);
    ck_assert_int_le(*n, PEOPLE_MAX);
    for (size_t i = 0; i < 17; i++)
        people_sigmas[i] = (float)json_number_value(json_array_get(json_object_get(root, "sigmas"), i));
    for (int64_t i = 0; i < *n; i++) {
        const json_t *p = json_array_get(list, (size_t)i), *k = json_object_get(p, "keypoints");

        for (size_t j = 0; j < 51; j++)
            people_points[i][j] = (float)json_number_value(json_array_get(json_array_get(k, j / 3), j % 3));
        people[i] = (struct stance_prediction){
            .image_id = 1, .box_id = (int32_t)i, .keypoint = people_points[i],
            .score = json_number_value(json_object_get(p, "score")),
            .area  = (float)json_number_value(json_object_get(p, "area")),
        };
    }
    return root;
}

START_TEST(golden_suppression)
{
    static const char *const thresholds[] = { "0.5", "0.7", "0.9" };
    int64_t                  n, kept, keep[PEOPLE_MAX];
    json_t                  *root = load_people(&n);

    if (root == NULL) {
        SKIP("golden/topdown is not there");
        return;
    }
    for (int soft = 0; soft < 2; soft++)
        for (int t = 0; t < 3; t++) {
            const json_t *want = json_object_get(json_object_get(root, soft ? "soft_oks_nms" : "oks_nms"),
                                                 thresholds[t]);

            ck_assert_int_eq(stance_oks_nms(people, n, 17, people_sigmas, soft ? STANCE_NMS_SOFT : STANCE_NMS_HARD,
                                            atof(thresholds[t]), keep, &kept, NULL), STANCE_OK);
            ck_assert_int_eq(kept, (int64_t)json_array_size(want));
            for (int64_t i = 0; i < kept; i++)
                ck_assert_int_eq(keep[i], json_integer_value(json_array_get(want, (size_t)i)));
        }
    json_decref(root);
}
END_TEST

/* Order of arrival, repeats and images: the same persons in the end; none is lost. */
START_TEST(finish_is_orderly)
{
    static float points[6][6] = {
        { 10, 10, 0.9f, 90, 90, 0.5f }, { 11, 10, 0.8f, 90, 90, 0.1f }, { 300, 10, 0.7f, 390, 90, 0.7f },
        { 10, 10, 0.9f, 90, 90, 0.5f }, { 10, 10, 0.1f, 90, 90, 0.2f }, { 500, 500, 0.9f, 600, 600, 0.9f },
    };
    static const struct { int64_t image; int32_t box; } of[6] = { { 5, 0 }, { 5, 1 }, { 5, 2 }, { 5, 0 }, { 2, 0 }, { 5, 3 } };
    static const float sigmas[2] = { 0.1f, 0.1f };
    static const int   orders[3][6] = { { 0, 1, 2, 3, 4, 5 }, { 5, 4, 3, 2, 1, 0 }, { 3, 5, 1, 0, 2, 4 } };
    struct stance_prediction p[6];

    for (int o = 0; o < 3; o++) {
        int64_t  n   = 6;
        unsigned all = 0;

        for (int i = 0; i < 6; i++) {
            int at = orders[o][i];

            p[i] = (struct stance_prediction){ .image_id = of[at].image, .box_id = of[at].box, .area = 10000,
                                               .box_score = at == 5 ? 0.5f : 1, .keypoint = points[at] };
        }
        ck_assert_int_eq(stance_oks_finish(p, &n, 2, sigmas, 0.2, STANCE_NMS_HARD, 0.9, NULL), STANCE_OK);
        /* (5, 1) has the score of its one point above 0.2, and so suppresses (5, 0). */
        ck_assert_int_eq(n, 4);
        ck_assert(p[0].image_id == 2 && p[0].score == 0);
        ck_assert(p[1].image_id == 5 && p[1].box_id == 1 && p[1].score == (double)0.8f);
        ck_assert(p[2].box_id == 2 && fabs(p[2].score - 0.7) < 1e-7);
        ck_assert(p[3].box_id == 3 && fabs(p[3].score - 0.45) < 1e-7);
        for (int i = 0; i < 6; i++)
            for (unsigned j = 0; j < 6; j++)
                all |= (unsigned)(p[i].keypoint == points[j]) << j;
        ck_assert_uint_eq(all, 63);
    }
    for (long i = 0;; i++) {
        int64_t       n = 6;
        unsigned      all = 0;
        stance_status status;

        fault_after(i);
        status = stance_oks_finish(p, &n, 2, sigmas, 0.2, STANCE_NMS_SOFT, 0.9, NULL);
        ck_assert_int_eq(fault_live, 0);
        for (int j = 0; j < 6; j++)
            for (unsigned l = 0; l < 6; l++)
                all |= (unsigned)(p[j].keypoint == points[l]) << l;
        ck_assert_uint_eq(all, 63);
        if (status == STANCE_OK)
            break;
        ck_assert(status == STANCE_ERR_NOMEM && n == 6);
    }
    stance_set_allocator(NULL);
}
END_TEST

/* What a run finds, scored in place: the pose's sigmas are binary32. */
START_TEST(scoring_predictions)
{
    static float  found[] = { 10, 10, 1, 50, 90, 1 };
    static double truth[] = { 10, 10, 2, 50, 90, 2 };
    static const float sigmas[2] = { 0.05f, 0.05f };
    struct stance_pose       pose = { .size = sizeof pose, .keypoints = 2, .sigmas = sigmas };
    struct stance_truth      t    = { 3, 1, truth, { 0, 0, 60, 100 }, 3000, false };
    struct stance_prediction p    = { .image_id = 3, .score = 0.5, .keypoint = found };
    int64_t                  ids[] = { 3, 4 };
    double                   stats[STANCE_COCO_STATS];

    ck_assert_int_eq(stance_coco_score(&pose, &t, 1, ids, 2, &p, 1, stats, NULL), STANCE_OK);
    ck_assert_double_eq_tol(stats[0], 1, 1e-12);
    ck_assert_double_eq(stats[4], -1);
    ck_assert_int_eq(stance_coco_score(&pose, &t, 1, ids, 2, &p, 0, stats, NULL), STANCE_OK);
    ck_assert_double_eq(stats[0], 0);
    ck_assert_double_eq(stats[5], 0);
    pose.sigmas = NULL;
    ck_assert_int_eq(stance_coco_score(&pose, &t, 1, ids, 2, &p, 1, stats, NULL), STANCE_ERR_INVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("eval");
    TCase *tc    = tcase_create("all");

    tcase_add_loop_test(tc, golden_sets, 0, sizeof sets / sizeof *sets);
    tcase_add_test(tc, measured_vector);
    tcase_add_test(tc, categories_and_nan);
    tcase_add_test(tc, order_is_stable);
    tcase_add_test(tc, cases);
    tcase_add_loop_test(tc, wrong_files, 0, sizeof wrong / sizeof *wrong);
    tcase_add_loop_test(tc, warnings_are_told, 0, sizeof warned / sizeof *warned);
    tcase_add_test(tc, reading_survives_failure);
    tcase_add_loop_test(tc, sigmas_from_files, 0, sizeof sigma_files / sizeof *sigma_files);
    tcase_add_test(tc, sigma_decimals);
    tcase_add_test(tc, oks_of_detections);
    tcase_add_test(tc, golden_suppression);
    tcase_add_test(tc, finish_is_orderly);
    tcase_add_test(tc, scoring_predictions);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
