/* SPDX-License-Identifier: Apache-2.0
 *
 * Annotation files, through the dataset that reads them: whatever the text, opening ends with samples whose
 * boxes and points are numbers, or with a reason. No image is opened. */
#include "replay.h"

#include "../../plugins/datasets/dataset_coco.c"

#include <unistd.h>

static const struct seed seeds[] = {
    SEED("{\"images\":[{\"id\":5,\"file_name\":\"a.png\",\"width\":80,\"height\":60},{\"id\":3,\"file_name\":"
         "\"b\\u00f1.png\",\"width\":9,\"height\":9}],\"annotations\":[{\"id\":1,\"image_id\":3,\"category_id\":7,"
         "\"bbox\":[1,1,4,4],\"keypoints\":[2,2,2,3,3,1],\"num_keypoints\":0},{\"id\":2,\"image_id\":5,"
         "\"category_id\":7,\"bbox\":[-3,0,40,4e1],\"area\":9,\"iscrowd\":0,\"keypoints\":[1,2,1,0,0,0]}],"
         "\"categories\":[{\"id\":7,\"name\":\"worm\",\"keypoints\":[\"left\",\"right\"],\"skeleton\":[[1,2]]}]}"),
};

static void silent(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx;
    (void)level;
    (void)module;
    (void)text;
}

/* The reader wants a path: the text goes into a file that is rewritten each time. */
static const char *as_file(const uint8_t *data, size_t size)
{
    static char name[64];
    FILE       *f;

    snprintf(name, sizeof name, "fuzz_coco.%ld.json", (long)getpid());
    f = fopen(name, "wb");
    if (f == NULL || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
    return name;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct state        s      = { 0 };
    struct config       config = { 0 };
    struct stance_error err    = STANCE_ERROR_INIT;
    struct stance_split split  = { .size = sizeof split, .annotations = as_file(data, size), .images = "/nowhere" };
    stance_status       status;

    stance_log_set_sink(silent, NULL);
    status = coco_open(&s, &config, &split, &err);
    unlink(split.annotations);
    if (status != STANCE_OK) {
        if (err.status != status || err.text[0] == '\0')
            abort();
        return 0;
    }
    for (int64_t i = 0; i < coco_count(&s); i++) {
        const struct stance_sample *t = coco_sample(&s, i);

        if (!(t->box[2] > 0 && t->box[3] > 0 && t->box[0] >= 0) || strncmp(coco_path(&s, i), "/", 1) != 0)
            abort();
        for (int32_t k = 0; k < 3 * coco_pose(&s)->keypoints; k++)
            if (isnan(t->keypoint[k]))
                abort();
    }
    coco_close(&s);
    return 0;
}

REPLAY_MAIN(seeds)
