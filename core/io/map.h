/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a file, read-only and followed by zeros. */
#ifndef IO_MAP_H
#define IO_MAP_H

#include <stance/error.h>

/** Readable zero bytes behind the last byte of the file, so that scanners need no length test and
 *  may load a word at a time. */
#define STANCE_MAP_PAD 64

struct stance_map {
    const unsigned char *data;   /**< [size], then STANCE_MAP_PAD zeros; never NULL when open */
    size_t               size;
    size_t               mapped; /**< bytes of address space; 0: a copy on the heap */
};

/** Maps a regular file; reads a pipe to its end. The file must not shrink while it is mapped.
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened or read; the text names @p path);
 *          STANCE_ERR_NOMEM. */
stance_status stance_map_open(const char *path, struct stance_map *out, struct stance_error *err)
    STANCE_MUST_CHECK;

/** Copies @p size bytes. */
stance_status stance_map_copy(const void *data, size_t size, struct stance_map *out,
                              struct stance_error *err) STANCE_MUST_CHECK;

/** Gives the page frames of [from, to) back to the system; the bytes stay readable. */
void stance_map_forget(const struct stance_map *m, size_t from, size_t to);

/** Undoes open and copy; accepts a zeroed map. */
void stance_map_close(struct stance_map *m);

#endif
