/* SPDX-License-Identifier: Apache-2.0
 *
 * The first byte says how the rest is taken: as a whole file; as what follows the preamble of the
 * older container; or as a bare pickle. */
#include "replay.h"

#include "io/pickle.h"
#include "io/torch.h"

/* A mapping of "w" to a 2x2 float tensor with strides, the list of keys, the elements. */
#define TENSOR                                                                               \
    "\x80\2}q\0X\1\0\0\0wctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storagectorch\n"       \
    "FloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4NtQK\0K\2K\2\x86K\1K\2\x86\x89)tRs."           \
    "\x80\2]X\1\0\0\0" "0a.\4\0\0\0\0\0\0\0" "0123456789abcdef"

static const struct seed seeds[] = {
    SEED("\1" TENSOR),
    SEED("\2" TENSOR),
    SEED("\2\x80\4\x95\x20\0\0\0\0\0\0\0}\x94(\x8c\1a\x94]\x94(K\1M\2\1J\3\4\5\6G12345678e\x8c\1b\x94\x8f(N\x90u."),
    SEED("\2\x80\2ccollections\nOrderedDict\n]]X\1\0\0\0kK\1ea\x85R}X\1\0\0\0mK\2sb."),
};

static const char preamble[] =
    "\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20j\xa8P\x19.\x80\2M\xe9\3.\x80\2}X\r\0\0\0little_endian\x88s.";

static unsigned long seen;

static void whole(const uint8_t *data, size_t size)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_torch *t;

    if (stance_torch_open_memory(data, size, "fuzz", &t, &err) != STANCE_OK)
        return;
    for (size_t i = 0; i < stance_torch_count(t); i++) {
        const struct stance_entry *e = stance_torch_at(t, i);

        for (size_t j = 0; j < e->bytes; j++)
            seen += ((const uint8_t *)e->data)[j];
        seen += strlen(e->name);
    }
    stance_torch_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_arena *arena;
    struct stance_pickle p;
    uint8_t             *file;

    if (size == 0)
        return 0;
    switch (data[0] % 3) {
    case 0: whole(data + 1, size - 1); break;
    case 1:
        file = malloc(sizeof preamble + size);
        if (file == NULL)
            return 0;
        memcpy(file, preamble, sizeof preamble - 1);
        memcpy(file + sizeof preamble - 1, data + 1, size - 1);
        whole(file, sizeof preamble - 1 + size - 1);
        free(file);
        break;
    default:
        arena = stance_arena_new(4096);
        if (arena != NULL && stance_pickle_load(data + 1, size - 1, arena, &p, &err) == STANCE_OK)
            stance_pickle_free(&p);
        stance_arena_free(arena);
    }
    return 0;
}

REPLAY_MAIN(seeds)
