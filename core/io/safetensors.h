/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors format: 8 bytes of length, little-endian; a JSON header of that length,
 * {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {text: text}};
 * the elements, without gaps. Source: the format section of huggingface/safetensors. */
#ifndef IO_SAFETENSORS_H
#define IO_SAFETENSORS_H

#include "io/entry.h"
#include "io/map.h"

#include <stance/error.h>

/** Longest header that is read, the limit of the format's own code. */
#define STANCE_SAFETENSORS_HEADER_MAX 100000000

struct stance_pair { const char *key, *value; };

struct stance_safetensors;

/** Maps a file and checks all of its header before anything is used: lengths, types, shapes,
 *  offsets, names; the elements are not touched. The file must not shrink while it is open.
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened); STANCE_ERR_FORMAT (the text names the
 *          file, the tensor and the reason, sizes found and needed); STANCE_ERR_NOMEM. */
stance_status stance_safetensors_open(const char *path, struct stance_safetensors **out,
                                      struct stance_error *err) STANCE_MUST_CHECK;
/** The same from memory, which is copied. @param name  stands for the file in messages */
stance_status stance_safetensors_open_memory(const void *data, size_t size, const char *name,
                                             struct stance_safetensors **out,
                                             struct stance_error *err) STANCE_MUST_CHECK;
/** The same from an open map, which is closed with the reader, or at once after a failure. */
stance_status stance_safetensors_take(struct stance_map *map, const char *name,
                                      struct stance_safetensors **out,
                                      struct stance_error *err) STANCE_MUST_CHECK;
/** Accepts NULL. */
void stance_safetensors_close(struct stance_safetensors *s);

/** Whether @p size bytes may be such a file: a length, then a brace. */
bool stance_safetensors_looks(const void *data, size_t size);

size_t stance_safetensors_count(const struct stance_safetensors *s);
/** In the order of the header. Owned by @p s. */
const struct stance_entry *stance_safetensors_at(const struct stance_safetensors *s, size_t index);
/** NULL if there is none of that name. */
const struct stance_entry *stance_safetensors_find(const struct stance_safetensors *s,
                                                   const char *name);
/** Value under @p key of the metadata, or NULL. */
const char *stance_safetensors_meta(const struct stance_safetensors *s, const char *key);
/** All of the metadata, in the order of the header. */
const struct stance_pair *stance_safetensors_metas(const struct stance_safetensors *s,
                                                   size_t *count);

/* ---- writing --------------------------------------------------------------------------------- */

struct stance_safetensors_out;

/** Begins a file: declares all tensors, so that their elements can then be streamed. Written as
 *  "<path>.tmp" in the same folder until it is committed; an old file at @p path stays untouched
 *  till then. The bytes depend on the arguments only. Declare wide types first: elements then lie
 *  aligned.
 *  @param entries  name, dtype, rank and dim are read, data and bytes are not; copied
 *  @return STANCE_OK; STANCE_ERR_INVAL (a name twice, or reserved; a shape too large; not UTF-8);
 *          STANCE_ERR_IO; STANCE_ERR_NOMEM */
stance_status stance_safetensors_create(const char *path, const struct stance_entry *entries,
                                        size_t count, const struct stance_pair *meta,
                                        size_t meta_count, struct stance_safetensors_out **out,
                                        struct stance_error *err) STANCE_MUST_CHECK;
/** Appends elements in the order of the declaration, in pieces of any size. After a failure only
 *  commit or abort may follow. @return STANCE_OK; STANCE_ERR_IO; STANCE_ERR_INVAL (more than
 *  declared) */
stance_status stance_safetensors_write(struct stance_safetensors_out *o, const void *data,
                                       size_t bytes, struct stance_error *err) STANCE_MUST_CHECK;
/** Makes the file durable (fsync), gives it its name, makes that durable too, and frees @p o. After
 *  any failure, also an earlier one, the temporary file is removed and the old file is as it was.
 *  @return STANCE_OK; STANCE_ERR_IO; STANCE_ERR_INVAL (less written than declared) */
stance_status stance_safetensors_commit(struct stance_safetensors_out *o,
                                        struct stance_error *err) STANCE_MUST_CHECK;
/** Removes the temporary file and frees @p o. Accepts NULL. */
void stance_safetensors_abort(struct stance_safetensors_out *o);

#endif
