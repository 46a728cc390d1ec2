/* SPDX-License-Identifier: Apache-2.0
 *
 * A fuzz target defines LLVMFuzzerTestOneInput() and `seeds`. Built with
 * `clang -fsanitize=fuzzer,address -DSTANCE_FUZZER` it is a fuzzer; else this main() runs it on the
 * seeds, on each of them cut and with each byte changed, and on the files named on the command line. */
#ifndef TESTS_FUZZ_REPLAY_H
#define TESTS_FUZZ_REPLAY_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seed { const char *data; size_t size; };
#define SEED(text) { text, sizeof(text) - 1 }

#ifndef STANCE_FUZZER
static void replay_file(const char *path)
{
    FILE    *f = fopen(path, "rb");
    uint8_t *data;
    long     size;

    if (f == NULL) {
        perror(path);
        exit(1);
    }
    fseek(f, 0, SEEK_END);
    size = ftell(f);
    rewind(f);
    data = malloc((size_t)size + 1);
    if (data == NULL || fread(data, 1, (size_t)size, f) != (size_t)size)
        exit(1);
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

static void replay_seed(const struct seed *s)
{
    uint8_t *copy = malloc(s->size + 1);

    if (copy == NULL)
        exit(1);
    for (size_t n = 0; n <= s->size; n++) {
        memcpy(copy, s->data, n);
        LLVMFuzzerTestOneInput(copy, n);
    }
    for (size_t n = 0; n < s->size; n++)
        for (int bit = 0; bit < 8; bit++) {
            copy[n] ^= (uint8_t)(1 << bit);
            LLVMFuzzerTestOneInput(copy, s->size);
            copy[n] ^= (uint8_t)(1 << bit);
        }
    free(copy);
}

#define REPLAY_MAIN(seeds)                                          \
    int main(int argc, char **argv)                                 \
    {                                                               \
        for (size_t i = 0; i < sizeof(seeds) / sizeof *(seeds); i++) \
            replay_seed(&(seeds)[i]);                               \
        for (int i = 1; i < argc; i++)                              \
            replay_file(argv[i]);                                   \
        return 0;                                                   \
    }
#else
#define REPLAY_MAIN(seeds) \
    const struct seed *const fuzz_seeds = (seeds);
extern const struct seed *const fuzz_seeds;
#endif

#endif
