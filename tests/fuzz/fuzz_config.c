/* SPDX-License-Identifier: Apache-2.0
 *
 * The YAML reader, --set, plugin specs and the points of a data set, on any bytes. The first byte
 * says which. What is read must be written so that it reads back to the same tree. By hand: clang
 * -fsanitize=fuzzer,address ...; without the fuzzer's main (plain `make check`) the seeds below and
 * the files given as arguments are run once. */
#include "config.h"

#include "config/recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "fuzz_config: %s\n", what);
        abort();
    }
}

/* A plain null of no letters is written as "null"; all other texts stay. */
static void name_nulls(struct stance_config_node *n)
{
    if (n->kind == STANCE_CONFIG_NULL && n->text[0] == '\0')
        n->text = "null";
    for (size_t i = 0; i < n->count; i++)
        name_nulls(n->child[i]);
}

static void read_back(struct stance_config *c, struct stance_config_node *root)
{
    struct stance_config_node *again = NULL;
    struct stance_error        err   = STANCE_ERROR_INIT;

    for (int origins = 0; origins < 2; origins++) {
        struct stance_string  text = { 0 };
        struct stance_config *d    = stance_config_new();

        must(d != NULL && c != NULL, "memory");
        stance_config_dump(root, origins, &text);
        must(!text.failed, "memory");
        name_nulls(root);
        must(stance_config_parse(d, text.s, text.len, "again", &again, &err) == STANCE_OK,
             err.text);
        must(again != NULL && stance_config_equal(root, again),
             "the dump reads back to another tree");
        stance_string_free(&text);
        stance_config_free(d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stance_config      *c    = stance_config_new();
    struct stance_config_node *root = NULL;
    struct stance_error        err  = STANCE_ERROR_INIT;
    struct stance_pose         pose = { .size = sizeof pose };
    char                      *text = calloc(1, size + 1);
    stance_status              status;

    must(c != NULL && text != NULL, "memory");
    if (size == 0)
        goto done;
    memcpy(text, data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        status = stance_config_parse(c, text, size - 1, "fuzz", &root, &err);
        must(status == STANCE_OK || err.text[0] != '\0', "a failure without a sentence");
        if (status == STANCE_OK && root != NULL)
            read_back(c, root);
        break;
    case 1:
        if (stance_config_set(c, text, "--set", &err) == STANCE_OK)
            read_back(c, c->root);
        break;
    case 2:
        if (stance_config_spec(c, text, c->root, &root, &err) == STANCE_OK)
            must(stance_config_find(root, "name") != NULL, "a spec without a name");
        break;
    default:
        if (stance_config_parse(c, text, size - 1, "fuzz", &root, &err) == STANCE_OK && root != NULL
            && root->kind == STANCE_CONFIG_MAP
            && stance_pose_read(c, root, &pose, &err) == STANCE_OK)
            for (int32_t k = 0; pose.partner != NULL && k < pose.keypoints; k++)
                must(pose.partner[pose.partner[k]] == k, "a partner whose partner is another");
        break;
    }
done:
    free(text);
    stance_config_free(c);
    return 0;
}

#ifndef STANCE_FUZZER
int main(int argc, char **argv)
{
    static const char *const seeds[] = {
        "0a: {b: [1, ~, 'no', \"\\u2028\"], ? c : d}\ne: &x [1]\nf: *x\n",
        "0a: &a [*a]",
        "0- - - 1\n- {a: }\n",
        "0\"\\0\": 1\n",
        "0? [a]\n: b\n",
        "0a: |\n  text\n  more\n# end\n",
        "0%YAML 1.1\n---\n!!str a: !x b\n...\n",
        "1a.b.c={x: [1]}",
        "1a.0=1",
        "1=",
        "2cpu:winograd=off",
        "2cuda:1,a=[1,2]",
        "2::",
        "3keypoints: [a, b, c]\nflip_pairs: [[0, b]]\nsigmas: [1, 2, 3]\nupper_body: [c]\n",
        "3keypoints: [a]\nskeleton: [[0, 1]]\n",
    };

    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
    for (int i = 1; i < argc; i++) {
        static uint8_t data[1 << 20];
        FILE          *f = fopen(argv[i], "rb");
        size_t         n = f != NULL ? fread(data, 1, sizeof data, f) : 0;

        if (f != NULL)
            fclose(f);
        LLVMFuzzerTestOneInput(data, n);
    }
    return 0;
}
#endif
