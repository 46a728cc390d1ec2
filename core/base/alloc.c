/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stance/alloc.h>

#include <stdlib.h>
#include <string.h>

static void *libc_calloc(void *ctx, size_t count, size_t size)
{
    (void)ctx;
    return calloc(count, size);
}

static void libc_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static const struct stance_allocator libc_heap = { libc_calloc, libc_free, NULL };
static struct stance_allocator       heap      = { libc_calloc, libc_free, NULL };

void stance_set_allocator(const struct stance_allocator *a)
{
    heap = a != NULL ? *a : libc_heap;
}

void *stance_calloc(size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return heap.calloc(heap.ctx, count, size);
}

void stance_free(void *p)
{
    heap.free(heap.ctx, p);
}

char *stance_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char  *copy = stance_calloc(1, size);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

bool stance_grow(void **array, size_t *capacity, size_t need, size_t size)
{
    size_t room = *capacity < 8 ? 8 : *capacity;
    void  *larger;

    if (need <= *capacity)
        return true;
    while (room < need) {
        if (room > SIZE_MAX / 2)
            return false;
        room *= 2;
    }
    larger = stance_calloc(room, size);
    if (larger == NULL)
        return false;
    if (*capacity > 0)
        memcpy(larger, *array, *capacity * size);
    stance_free(*array);
    *array    = larger;
    *capacity = room;
    return true;
}

struct block {
    struct block *next;
    size_t        used, size;
    unsigned char bytes[];
};

struct stance_arena {
    struct block *head;
    size_t        block;
};

struct stance_arena *stance_arena_new(size_t block)
{
    struct stance_arena *a = stance_calloc(1, sizeof *a);

    if (a != NULL)
        a->block = block;
    return a;
}

void *stance_arena_get(struct stance_arena *a, size_t size, size_t align)
{
    struct block *b   = a->head;
    uintptr_t     at  = b != NULL ? (uintptr_t)b->bytes + b->used : 0;
    size_t        pad = b != NULL ? (size_t)(-at & (align - 1)) : 0;

    if (b == NULL || b->size - b->used < pad || b->size - b->used - pad < size) {
        /* Room for the worst padding: calloc() promises 16 bytes, we promise 64. */
        size_t need = size > a->block ? size : a->block;

        if (need > SIZE_MAX - sizeof *b - 64)
            return NULL;
        b = stance_calloc(1, sizeof *b + need + 64);
        if (b == NULL)
            return NULL;
        b->size = need + 64;
        b->next = a->head;
        a->head = b;
        pad     = (size_t)(-(uintptr_t)b->bytes & (align - 1));
    }
    b->used += pad + size;
    return b->bytes + b->used - size;
}

char *stance_arena_strdup(struct stance_arena *a, const char *text)
{
    size_t size = strlen(text) + 1;
    char  *copy = stance_arena_get(a, size, 1);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void stance_arena_free(struct stance_arena *a)
{
    if (a == NULL)
        return;
    while (a->head != NULL) {
        struct block *b = a->head;

        a->head = b->next;
        stance_free(b);
    }
    stance_free(a);
}
