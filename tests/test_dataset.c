/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* strcasestr */
#include "case_yaml.h"
#include "fault.h"
#include "runner.h"

#include "data/annotations.h"
#include "data/check.h"
#include "data/image.h"
#include "data/pose_info.h"

#include <stance/dataset.h>
#include <stance/log.h>
#include <stance/registry.h>

#include <dirent.h>
#include <math.h>
#include <turbojpeg.h>

static struct stance_registry          *registry;
static const struct stance_plugin      *plugin;
static const struct stance_dataset_ops *coco;

static void setup(void)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_registry_new(NULL, &registry, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_registry_find(registry, STANCE_KIND_DATASET, "coco", &plugin, &err) == STANCE_OK, "%s",
                  err.text);
    coco = plugin->ops.dataset;
}

static void teardown(void)
{
    stance_registry_free(registry);
}

/* What was logged, one line after the other. */
static char   logged[65536];
static size_t logged_length;

static void to_text(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx;
    (void)module;
    if (level == STANCE_LOG_WARN && logged_length + strlen(text) + 2 < sizeof logged)
        logged_length += (size_t)sprintf(logged + logged_length, "%s\n", text);
}

static void log_to_text(void)
{
    logged_length = 0;
    logged[0]     = '\0';
    stance_log_set_sink(to_text, NULL);
}

static void *config_of_plugin(void)
{
    void               *config = stance_calloc(1, plugin->config_size + 1);
    struct stance_error err    = STANCE_ERROR_INIT;

    ck_assert(config != NULL && stance_param_defaults(plugin->params, config, &err) == STANCE_OK);
    return config;
}

/* Opens a dataset as a run would. @return its state, or NULL with the reason in err */
static void *open_split(const struct stance_split *split, struct stance_error *err)
{
    void         *state = stance_calloc(1, coco->state_size), *config = config_of_plugin();
    stance_status status;

    ck_assert_ptr_nonnull(state);
    status = coco->open(state, config, split, err);
    stance_free(config);
    if (status == STANCE_OK)
        return state;
    ck_assert_int_eq(status, err->status);
    stance_free(state);
    return NULL;
}

static void close_split(void *state)
{
    coco->close(state);
    stance_free(state);
}

/* ---- the shared cases ------------------------------------------------------------------------------ */

static bool contains(const char *text, const char *word)
{
    return strcasestr(text, word) != NULL;
}

static void check_message(yaml_document_t *d, yaml_node_t *expect, const char *name, const char *text)
{
    yaml_node_t *has = case_get(d, expect, "message_has");

    for (int i = 0; i < case_length(has); i++)
        ck_assert_msg(contains(text, case_text(case_item(d, has, i))), "%s: '%s' is not in: %s", name,
                      case_text(case_item(d, has, i)), text);
}

static bool listed(yaml_document_t *d, yaml_node_t *list, int64_t id)
{
    for (int i = 0; i < case_length(list); i++)
        if ((int64_t)case_number(case_item(d, list, i)) == id)
            return true;
    return false;
}

static void check_samples(yaml_document_t *d, yaml_node_t *expect, const char *name, const void *state)
{
    yaml_node_t *kept = case_get(d, expect, "kept"), *boxes = case_get(d, expect, "boxes");
    int64_t      n = coco->count(state), images, with = 0;
    const int64_t *ids = coco->image_ids(state, &images);

    ck_assert_msg(n == case_length(kept), "%s: %lld samples", name, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const struct stance_sample *s = coco->sample(state, i);
        char                        key[32];

        ck_assert_msg(listed(d, kept, s->annotation_id), "%s: %lld is kept", name, (long long)s->annotation_id);
        ck_assert(!listed(d, case_get(d, expect, "dropped"), s->annotation_id));
        if (boxes == NULL)
            continue;
        snprintf(key, sizeof key, "%lld", (long long)s->annotation_id);
        for (int j = 0; j < 4; j++)
            ck_assert_double_le(fabs(s->box[j] - case_number(case_item(d, case_get(d, boxes, key), j))),
                                case_number(case_get(d, expect, "box_tolerance")));
    }
    for (int64_t i = 0; i < images; i++) {
        bool any = false;

        for (int64_t j = 0; j < n; j++)
            any |= coco->sample(state, j)->image_id == ids[i];
        with += any;
    }
    if (case_get(d, expect, "images_without_samples") != NULL)
        ck_assert_int_eq(images - with, (int64_t)case_number(case_get(d, expect, "images_without_samples")));
}

/* The recipe's flip pairs are checked when its info becomes a table, before a dataset is opened. */
static bool flip_pairs_fail(yaml_document_t *d, yaml_node_t *pairs, struct stance_error *err)
{
    int32_t pair[8][2], partner[6];

    for (int i = 0; i < case_length(pairs); i++)
        for (int j = 0; j < 2; j++)
            pair[i][j] = (int32_t)case_number(case_item(d, case_item(d, pairs, i), j));
    return stance_pose_partners((const int32_t(*)[2])pair, case_length(pairs), 6, partner, err) != STANCE_OK;
}

static void walk_case(const char *root, const char *name)
{
    char                path[3][4096];
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_check_result found;
    void               *state, *config;
    yaml_document_t     d;
    yaml_node_t        *input, *expect;
    const char         *status;

    snprintf(path[0], sizeof path[0], "%s/%s/case.yaml", root, name);
    case_load(path[0], &d);
    input  = case_get(&d, case_root(&d), "input");
    expect = case_get(&d, case_root(&d), "expect");
    status = case_text(case_get(&d, expect, "status"));
    snprintf(path[1], sizeof path[1], "%s/%s/%s", root, name, case_text(case_get(&d, input, "annotations")));
    snprintf(path[2], sizeof path[2], "%s/%s/%s", root, name, case_text(case_get(&d, input, "images")));
    struct stance_split split = { .size         = sizeof split,
                                  .annotations  = path[1],
                                  .images       = path[2],
                                  .training     = true,
                                  .check_images = true };
    if (case_get(&d, input, "on_bad_image") != NULL)
        split.skip_bad_images = strcmp(case_text(case_get(&d, input, "on_bad_image")), "skip") == 0;
    log_to_text();
    if (case_get(&d, input, "flip_pairs") != NULL) {
        ck_assert(flip_pairs_fail(&d, case_get(&d, input, "flip_pairs"), &err));
        check_message(&d, expect, name, err.text);
        yaml_document_delete(&d);
        return;
    }
    state = open_split(&split, &err);
    if (strcmp(status, "error") == 0) {
        ck_assert_msg(state == NULL, "%s: opens", name);
        check_message(&d, expect, name, err.text);
        ck_assert_int_eq(stance_exit_status(err.status), 2);
    } else {
        ck_assert_msg(state != NULL, "%s: %s", name, err.text);
        ck_assert_msg((strcmp(status, "warn") == 0) == (logged_length > 0), "%s: said: %s", name, logged);
        check_message(&d, expect, name, logged);
        check_samples(&d, expect, name, state);
        close_split(state);
    }
    config = config_of_plugin();
    ck_assert_msg((stance_check_dataset(coco, config, &split, 2, &found, &err) != STANCE_OK)
                      == (strcmp(status, "error") == 0),
                  "%s: check: %s", name, err.text);
    stance_free(config);
    stance_log_set_sink(NULL, NULL);
    yaml_document_delete(&d);
}

START_TEST(cases)
{
    const char    *root = shared_file("cases/dataset");
    int            walked = 0;
    DIR           *dir;
    struct dirent *e;

    if (root == NULL) {
        SKIP("cases/dataset: the shared cases are absent");
        return;
    }
    dir = opendir(root);
    while ((e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.') {
            walk_case(root, e->d_name);
            walked++;
        }
    closedir(dir);
    ck_assert_int_eq(walked, 14);
}
END_TEST

/* ---- real sets -------------------------------------------------------------------------------------- */

static const struct { const char *name; int64_t train, val; int32_t keypoints; } sets[] = {
    { "coco-person", 284, 89, 17 },    { "lspet", 2501, 357, 14 },         { "openfield-mouse", 93, 23, 4 },
    { "mirror-mouse", 72, 18, 17 },    { "fly32", 80, 20, 32 },            { "mmpose-samples/aic", 9, 9, 14 },
    { "mmpose-samples/animalkingdom", 2, 2, 23 }, { "mmpose-samples/animalpose", 2, 2, 20 },
    { "mmpose-samples/ap10k", 2, 2, 17 }, { "mmpose-samples/atrw", 2, 2, 15 },
    { "mmpose-samples/coco_wholebody", 12, 12, 133 }, { "mmpose-samples/cofw", 2, 2, 29 },
    { "mmpose-samples/crowdpose", 4, 4, 14 }, { "mmpose-samples/deepfashion2", 2, 2, 294 },
    { "mmpose-samples/face300w", 2, 2, 68 }, { "mmpose-samples/freihand", 8, 8, 21 },
    { "mmpose-samples/horse10", 3, 3, 22 }, { "mmpose-samples/locust", 2, 2, 35 },
    { "mmpose-samples/macaque", 2, 2, 17 }, { "mmpose-samples/mpii", 5, 5, 16 },
    { "mmpose-samples/ochuman", 5, 5, 17 }, { "mmpose-samples/onehand10k", 4, 4, 21 },
    { "mmpose-samples/posetrack18", 14, 14, 17 }, { "mmpose-samples/wflw", 4, 4, 98 },
    { "mmpose-samples/zebra", 2, 2, 9 },
};

START_TEST(real_sets)
{
    const char *root = shared_file("data");
    char        file[4096], folder[4096], name[64];
    void       *config = config_of_plugin();

    if (root == NULL) {
        SKIP("data/%s: the shared images are absent", sets[_i].name);
        return;
    }
    for (int v = 0; v < 2; v++) {
        struct stance_split        split = { .size = sizeof split, .annotations = file, .images = folder, .training = !v };
        struct stance_error        err   = STANCE_ERROR_INIT;
        struct stance_check_result found;
        void                      *state;

        snprintf(name, sizeof name, "%s %s", sets[_i].name, v ? "val" : "train");
        snprintf(file, sizeof file, "%s/%s/annotations/%s.json", root, sets[_i].name, v ? "val" : "train");
        snprintf(folder, sizeof folder, "%s/%s/images", root, sets[_i].name);
        ck_assert_msg(stance_check_dataset(coco, config, &split, 2, &found, &err) == STANCE_OK, "%s: %s", name, err.text);
        ck_assert_msg(found.samples == (v ? sets[_i].val : sets[_i].train), "%s: %lld samples", name,
                      (long long)found.samples);
        ck_assert_int_eq(found.points, found.samples * sets[_i].keypoints);
        ck_assert(found.bad_images == 0 && found.labelled > 0);
        state = open_split(&split, &err);
        ck_assert_msg(state != NULL, "%s: %s", name, err.text);
        ck_assert_int_eq(coco->pose(state)->keypoints, sets[_i].keypoints);
        close_split(state);
    }
    stance_free(config);
}
END_TEST

START_TEST(coco_person)
{
    const char          *file = shared_file("data/coco-person/annotations/val.json");
    const char          *folder = shared_file("data/coco-person/images");
    struct stance_split  split = { .size = sizeof split, .annotations = file, .images = folder };
    struct stance_error  err = STANCE_ERROR_INIT;
    int64_t              truths, images, crowds = 0, unlabelled = 0, last = -1;
    const struct stance_truth *t;
    void                *state;
    int                  box_id = 0;

    if (file == NULL) {
        SKIP("data/coco-person: the shared images are absent");
        return;
    }
    state = open_split(&split, &err);
    ck_assert_msg(state != NULL, "%s", err.text);
    t = coco->truths(state, &truths);
    coco->image_ids(state, &images);
    ck_assert(truths == 166 && images == 40);
    for (int64_t i = 0; i < truths; i++) {
        bool any = false;

        for (int k = 0; k < 17; k++)
            any |= t[i].keypoint[3 * k + 2] > 0;
        crowds += t[i].crowd;
        unlabelled += !any;
    }
    ck_assert(crowds > 0 && unlabelled >= 166 - 89);
    ck_assert(coco->pose(state)->sigmas != NULL && coco->pose(state)->partner[5] == 6);
    for (int64_t i = 0; i < coco->count(state); i++) { /* numbers of boxes start anew in each image */
        const struct stance_sample *s = coco->sample(state, i);

        box_id = s->image_id == last ? box_id + 1 : 0;
        last   = s->image_id;
        ck_assert_int_eq(s->box_id, box_id);
        ck_assert(s->score == 1 && s->area > 0 && s->box[0] >= 0 && s->box[2] > 0);
    }
    close_split(state);
    split.boxes = shared_file("data/coco-person/annotations/val_detections.json");
    state       = open_split(&split, &err);
    ck_assert_msg(state != NULL, "%s", err.text);
    ck_assert_int_gt(coco->count(state), 4);
    for (int64_t i = 0; i < coco->count(state); i++) {
        const struct stance_sample *s = coco->sample(state, i);

        ck_assert_int_eq(s->box_id, i);
        ck_assert(s->score > 0 && s->score <= 1 && s->keypoint[2] == 1 && s->keypoint[0] == 0);
    }
    coco->truths(state, &truths);
    ck_assert_int_eq(truths, 166);
    close_split(state);
}
END_TEST

/* ---- files of our own ------------------------------------------------------------------------------- */

static const char *write_file(const char *name, const char *text)
{
    FILE *f = fopen(name, "w");

    fputs(text, f);
    fclose(f);
    return name;
}

static const struct { const char *text; stance_status want; const char *says; } refusals[] = {
    { "", STANCE_ERR_FORMAT, "t.json" },
    { "[]", STANCE_ERR_FORMAT, "t.json" },
    { "{\"annotations\":[]}", STANCE_ERR_FORMAT, "no list of images" },
    { "{\"images\":[{\"id\":1}]}", STANCE_ERR_FORMAT, "has no file_name" },
    { "{\"images\":[{\"file_name\":\"a\"}]}", STANCE_ERR_FORMAT, "has no id" },
    { "{\"images\":[{\"id\":\"one\",\"file_name\":\"a\"}]}", STANCE_ERR_FORMAT, "t.json:1:" },
    { "{\"images\":[{\"id\":1,\"file_name\":\"a\",\"width\":-4}]}", STANCE_ERR_FORMAT, "-4" },
    { "{\"images\":[],\"annotations\":[{\"id\":1}]}", STANCE_ERR_FORMAT, "no image_id" },
    { "{\"images\":[],\"annotations\":[{\"id\":1,\"image_id\":1,\"bbox\":[1,2,3]}]}", STANCE_ERR_FORMAT, "bbox has 3" },
    { "{\"images\":[{\"id\":1,\"file_name\":\"a\"},{\"id\":1,\"file_name\":\"b\"}],\"annotations\":[]}",
      STANCE_ERR_FORMAT, "two images have the id 1" },
    { "{\"images\":[],\"annotations\":[],\"categories\":[{\"id\":1,\"keypoints\":[\"a\"]}]}", STANCE_ERR_INPUT,
      "no usable annotation among 0" },
    { "{\"images\":[],\"annotations\":[],\"categories\":[{\"id\":1,\"keypoints\":[\"a\"]},{\"id\":2,\"keypoints\":"
      "[\"a\",\"b\"]}]}", STANCE_ERR_SHAPE, "category 2 lists 2" },
    { "{\"images\":[],\"annotations\":[]}", STANCE_ERR_INVAL, "no category lists keypoints" },
};

START_TEST(refuses)
{
    struct stance_split split = { .size = sizeof split, .annotations = "t.json", .images = "." };
    struct stance_error err   = STANCE_ERROR_INIT;

    write_file("t.json", refusals[_i].text);
    ck_assert_ptr_null(open_split(&split, &err));
    ck_assert_msg(strstr(err.text, refusals[_i].says) != NULL, "says: %s", err.text);
    ck_assert_int_eq(err.status, refusals[_i].want);
    unlink("t.json");
}
END_TEST

static const char two_images[] =
    "{\"images\":[{\"id\":5,\"file_name\":\"t_a.png\",\"width\":8,\"height\":6},{\"id\":3,\"file_name\":\"t_b.png\"}],"
    "\"annotations\":["
    "{\"id\":1,\"image_id\":3,\"category_id\":7,\"bbox\":[1,1,4,4],\"keypoints\":[2,2,2, 3,3,1]},"
    "{\"id\":2,\"image_id\":5,\"category_id\":7,\"bbox\":[0,0,4,4],\"area\":9,\"keypoints\":[1,2,1, 0,0,0]},"
    "{\"id\":3,\"image_id\":5,\"category_id\":7,\"bbox\":[0,0,4,4],\"area\":0,\"keypoints\":[1,2,1, 0,0,0]},"
    "{\"id\":4,\"image_id\":5,\"category_id\":7,\"bbox\":[0,0,4,4],\"iscrowd\":1,\"keypoints\":[1,2,1, 0,0,0]},"
    "{\"id\":6,\"image_id\":99,\"category_id\":7,\"bbox\":[0,0,4,4],\"keypoints\":[1,2,1, 0,0,0]},"
    "{\"id\":7,\"image_id\":5,\"category_id\":7,\"bbox\":[4,1,3,4],\"area\":9,\"keypoints\":[5,2,2, 6,3,2]}],"
    "\"categories\":[{\"id\":7,\"name\":\"worm\",\"keypoints\":[\"head\",\"tail\"],\"skeleton\":[[1,2]]}]}";

static void write_images(void)
{
    static uint8_t      rgb[8 * 6 * 3];
    struct stance_image image = { rgb, 8, 6 };
    struct stance_error err   = STANCE_ERROR_INIT;

    ck_assert_msg(stance_image_write_png("t_a.png", &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_image_write_png("t_b.png", &image, &err) == STANCE_OK, "%s", err.text);
}

static void remove_images(void)
{
    unlink("t_a.png");
    unlink("t_b.png");
    unlink("t2.json");
}

/* Order of the images in the file, sizes from the image where the file has none, strangers and areas. */
START_TEST(order_and_oddities)
{
    struct stance_split split = { .size = sizeof split, .annotations = "t2.json", .images = "." };
    struct stance_error err   = STANCE_ERROR_INIT;
    struct stance_image image;
    int64_t             truths;
    const struct stance_truth *t;
    void               *state;

    write_images();
    write_file("t2.json", two_images);
    log_to_text();
    state = open_split(&split, &err);
    ck_assert_msg(state != NULL, "%s", err.text);
    ck_assert(contains(logged, "annotation 3") && contains(logged, "area") && contains(logged, "image_id 99"));
    ck_assert_int_eq(coco->count(state), 3);
    ck_assert_int_eq(coco->sample(state, 0)->annotation_id, 2);
    ck_assert_int_eq(coco->sample(state, 1)->annotation_id, 7);
    ck_assert_int_eq(coco->sample(state, 1)->box_id, 1);
    ck_assert_int_eq(coco->sample(state, 2)->annotation_id, 1);
    ck_assert_int_eq(coco->sample(state, 2)->category_id, 7);
    ck_assert_str_eq(coco->path(state, 2), "./t_b.png");
    ck_assert_msg(coco->image(state, 2, &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert(image.width == 8 && image.height == 6);
    stance_image_free(&image);
    t = coco->truths(state, &truths);
    ck_assert(truths == 5 && isnan(t[0].area) && t[1].area == 9 && t[3].crowd);
    ck_assert(coco->pose(state)->sigmas == NULL && coco->pose(state)->bones == 1);
    close_split(state);
    stance_log_set_sink(NULL, NULL);
    remove_images();
}
END_TEST

/* An image that changes behind the dataset's back is an error when it is loaded. */
START_TEST(size_differs)
{
    static uint8_t      rgb[6 * 8 * 3];
    struct stance_split split = { .size = sizeof split, .annotations = "t2.json", .images = "." };
    struct stance_image turned = { rgb, 6, 8 }, image;
    struct stance_error err = STANCE_ERROR_INIT;
    void               *state;

    write_images();
    write_file("t2.json", two_images);
    log_to_text();
    state = open_split(&split, &err);
    ck_assert_ptr_nonnull(state);
    ck_assert_int_eq(stance_image_write_png("t_a.png", &turned, &err), STANCE_OK);
    ck_assert_int_eq(coco->image(state, 0, &image, &err), STANCE_ERR_INPUT);
    ck_assert_msg(contains(err.text, "t_a.png") && contains(err.text, "6 x 8") && contains(err.text, "image 5"), "%s",
                  err.text);
    close_split(state);
    split.check_images = true;
    ck_assert_ptr_null(open_split(&split, &err));
    ck_assert_msg(contains(err.text, "6 x 8"), "%s", err.text);
    split.skip_bad_images = true;
    state                 = open_split(&split, &err);
    ck_assert_msg(state != NULL, "%s", err.text);
    ck_assert_int_eq(coco->count(state), 1);
    close_split(state);
    stance_log_set_sink(NULL, NULL);
    remove_images();
}
END_TEST

/* A sample that looks at the top alone tells of damage at the bottom all the same, as long as nobody has been there. */
START_TEST(damage_below_the_part)
{
    static uint8_t      rgb[64 * 64 * 3];
    const int32_t       top[4] = { 0, 0, 64, 8 };
    struct stance_split split  = { .size = sizeof split, .annotations = "t.json", .images = "." };
    struct stance_error err    = STANCE_ERROR_INIT;
    struct stance_image image;
    int32_t             w, h;
    unsigned char      *jpeg = NULL;
    unsigned long       size = 0;
    tjhandle            tj   = tjInitCompress();
    FILE               *f    = fopen("t.jpg", "wb");
    void               *state;

    for (size_t i = 0; i < sizeof rgb; i++)
        rgb[i] = (uint8_t)(i * i / 7);
    ck_assert_int_eq(tjCompress2(tj, rgb, 64, 0, 64, TJPF_RGB, &jpeg, &size, TJSAMP_420, 90, 0), 0);
    fwrite(jpeg, 1, size - size / 4, f);
    fclose(f);
    write_file("t.json", "{\"images\":[{\"id\":5,\"file_name\":\"t.jpg\",\"width\":64,\"height\":64}],\"annotations\":["
                         "{\"id\":1,\"image_id\":5,\"category_id\":7,\"bbox\":[1,1,40,40],\"area\":9,\"keypoints\":[2,2,2]}],"
                         "\"categories\":[{\"id\":7,\"name\":\"worm\",\"keypoints\":[\"head\"]}]}");
    log_to_text();
    state = open_split(&split, &err);
    ck_assert_msg(state != NULL, "%s", err.text);
    coco->image_size(state, 0, &w, &h);
    ck_assert(w == 64 && h == 64);
    for (int again = 0; again < 2; again++)
        ck_assert_int_eq(coco->image_part(state, 0, top, &image, &err), STANCE_ERR_FORMAT);
    ck_assert_msg(contains(err.text, "image 5: ./t.jpg: damaged or cut short"), "%s", err.text);
    f = fopen("t.jpg", "wb");
    fwrite(jpeg, 1, size, f);
    fclose(f);
    ck_assert_msg(coco->image_part(state, 0, top, &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert(image.width == 64 && image.height == 64);
    stance_image_free(&image);
    close_split(state);
    stance_log_set_sink(NULL, NULL);
    unlink("t.jpg");
    unlink("t.json");
    tjFree(jpeg);
    tjDestroy(tj);
}
END_TEST

START_TEST(memory_runs_out)
{
    struct stance_split split = { .size = sizeof split, .annotations = "t2.json", .images = ".", .check_images = true };
    struct stance_error err   = STANCE_ERROR_INIT;
    char                config[64] = { 0 }, state[4096] = { 0 };
    stance_status       status;
    long                n = 0;

    ck_assert_uint_le(coco->state_size, sizeof state);
    write_images();
    write_file("t2.json", two_images);
    log_to_text();
    do {
        fault_after(n++);
        status = coco->open(state, config, &split, &err);
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "%ld: %s", n, err.text);
        if (status == STANCE_OK)
            coco->close(state);
        ck_assert_msg(fault_live == 0, "request %ld: %ld blocks are left", n, (long)fault_live);
    } while (status != STANCE_OK);
    stance_set_allocator(NULL);
    ck_assert_int_gt(n, 15);
    stance_log_set_sink(NULL, NULL);
    remove_images();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dataset");
    TCase *t = tcase_create("coco");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, cases);
    tcase_add_loop_test(t, real_sets, 0, (int)(sizeof sets / sizeof *sets));
    tcase_add_test(t, coco_person);
    tcase_add_loop_test(t, refuses, 0, (int)(sizeof refusals / sizeof *refusals));
    tcase_add_test(t, order_and_oddities);
    tcase_add_test(t, size_differs);
    tcase_add_test(t, damage_below_the_part);
    tcase_add_test(t, memory_runs_out);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    return run_suite(s);
}
