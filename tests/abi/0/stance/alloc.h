/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The one door to the heap, and the arena for what dies together. */
#ifndef STANCE_ALLOC_H
#define STANCE_ALLOC_H

#include <stance/common.h>

STANCE_BEGIN_DECLS

/** @addtogroup alloc Memory
 *  @{ */

/** Heap functions, replaceable so that tests can make the n-th request fail. @p calloc returns
 *  zeroed bytes or NULL; @p free accepts NULL. */
struct stance_allocator {
    void *(*calloc)(void *ctx, size_t count, size_t size); /**< @p count * @p size zeroed bytes */
    void (*free)(void *ctx, void *p); /**< @p p is from calloc, or NULL */
    void *ctx;                        /**< handed to both; the caller's */
};

/** Installs @p a (copied), or the C library's heap when NULL. Call before anything else of
 *  stance; not safe against running threads. */
STANCE_API void stance_set_allocator(const struct stance_allocator *a);

/** Zeroed bytes, the caller's, or NULL (also when count * size overflows). */
STANCE_API void *stance_calloc(size_t count, size_t size) STANCE_MUST_CHECK;
/** Accepts NULL. */
STANCE_API void stance_free(void *p);
/** Copy of @p text, the caller's, or NULL. */
STANCE_API char *stance_strdup(const char *text) STANCE_MUST_CHECK;

/** Makes room for at least @p need elements of @p size bytes: *array (from stance_calloc, or NULL)
 *  is replaced by a larger zero-filled one when *capacity is too small; growth is geometric.
 *  @return false when memory is short; *array is then unchanged. */
STANCE_API bool stance_grow(void **array, size_t *capacity, size_t need, size_t size)
    STANCE_MUST_CHECK;

/** Bump allocator: many small pieces, one release. Used by one thread at a time. */
struct stance_arena;

/** A new arena, the caller's, or NULL.
 *  @param block  bytes asked of the heap at a time; larger requests get their own block. */
STANCE_API struct stance_arena *stance_arena_new(size_t block) STANCE_MUST_CHECK;
/** Zeroed bytes aligned to @p align (a power of two, at most 64), or NULL. */
STANCE_API void *stance_arena_get(struct stance_arena *a, size_t size, size_t align)
    STANCE_MUST_CHECK;
/** Copy of @p text in the arena, or NULL. */
STANCE_API char *stance_arena_strdup(struct stance_arena *a, const char *text) STANCE_MUST_CHECK;
/** Frees every piece at once; accepts NULL. */
STANCE_API void stance_arena_free(struct stance_arena *a);

/** @} */

STANCE_END_DECLS
#endif
