/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target of the readers of ground truth and result files, and of the evaluation of whatever they
 * take. The input is both files with a zero byte between them. To fuzz:
 *     clang -g -O1 -fsanitize=fuzzer,address,undefined -DSTANCE_FUZZER -I. -I../core \
 *         tests/fuzz/fuzz_eval.c core/eval/{coco,coco_match,eval_file,eval_read,oks,order,sigmas}.c \
 *         core/base/{alloc,error,log,text}.c core/io/{json,map}.c -lyaml -lm
 * Without STANCE_FUZZER it is a test that runs the seeds below and every way to cut them short. */
#include "config.h"

#include "eval/eval_file.h"

#include <stdio.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t             *cut     = memchr(data, 0, size);
    size_t                     first   = cut != NULL ? (size_t)(cut - data) : size;
    size_t                     second  = cut != NULL ? size - first - 1 : 0;
    struct stance_eval_options options = { "0.05, 0.05", (enum stance_area_fallback)(size % 2) };
    struct stance_eval_data    gt = { .images = 0 }, dt = { .images = 0 };
    struct stance_string       warnings = { 0 };
    struct stance_eval_result  result;
    struct stance_error        err = STANCE_ERROR_INIT;

    if (stance_eval_read_memory(data, first, "gt", STANCE_EVAL_TRUTH, &gt, &err) == STANCE_OK
        && stance_eval_read_memory(data + size - second, second, "dt", STANCE_EVAL_RESULTS, &dt, &err) == STANCE_OK
        && stance_eval_data(&gt, &dt, &options, &result, NULL, &warnings, &err) == STANCE_OK)
        for (int i = 0; i < STANCE_COCO_STATS; i++)
            if (!(result.stats[i] >= -1 && result.stats[i] <= 1))
                __builtin_trap();
    stance_string_free(&warnings);
    stance_eval_data_free(&gt);
    stance_eval_data_free(&dt);
    return 0;
}

#ifndef STANCE_FUZZER
#define SEED(text) { text, sizeof text - 1 }

static const struct { const char *text; size_t size; } seeds[] = {
    SEED("{\"images\":[{\"id\":1},{\"id\":2}],\"annotations\":[{\"id\":7,\"image_id\":1,\"category_id\":1,"
         "\"area\":100,\"bbox\":[0,0,10,10],\"iscrowd\":0,\"keypoints\":[1,2,2,3,4,1]},{\"id\":8,\"image_id\":2,"
         "\"category_id\":1,\"area\":2e3,\"bbox\":[0,0,10,10],\"iscrowd\":1,\"keypoints\":[0,0,0,0,0,0]}],"
         "\"categories\":[{\"id\":1,\"keypoints\":[\"a\",\"b\"]}]}\0"
         "[{\"image_id\":1,\"category_id\":1,\"score\":0.5,\"keypoints\":[1,2,1,3,4,1]},"
         "{\"image_id\":2,\"category_id\":1,\"score\":0.5,\"keypoints\":[1e300,2,1,-3,4,1]}]"),
    SEED("{\"images\":[{\"id\":1}],\"annotations\":[{\"id\":0,\"image_id\":1,\"category_id\":3,\"area\":0,"
         "\"keypoints\":[1,2,2,3,4,1]}]}\0[{\"image_id\":1.0,\"category_id\":3,\"score\":-1,\"keypoints\":[1,2,1,3,4,1]}]"),
    SEED("{\"images\":[],\"annotations\":[]}\0[]"),
    SEED("[[[[[[[\0{}"),
    SEED(""),
};

int main(void)
{
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        for (size_t n = 0; n <= seeds[i].size; n++)
            LLVMFuzzerTestOneInput((const uint8_t *)seeds[i].text, n);
    return 0;
}
#endif
