/* SPDX-License-Identifier: Apache-2.0
 *
 * One door to named tensors on disk, whatever the format: safetensors, or PyTorch's files. */
#ifndef IO_TENSORS_H
#define IO_TENSORS_H

#include "io/entry.h"
#include "io/safetensors.h"

#include <stance/error.h>
#include <stance/graph.h>

/** Tensors whose names begin so are no weights, and matching passes over them: moments of the
 *  optimizer and the like in checkpoints of ours. */
#define STANCE_TENSORS_RESERVED "stance."

struct stance_tensors;

/** Opens a weight file by its content, not by its suffix. Where every name begins with "module."
 *  (as parallel wrappers of PyTorch leave them), that is taken off and told as a log line. The file
 *  must not shrink while it is open.
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened); STANCE_ERR_FORMAT (damaged, hostile, of
 *          another format or without any tensor; the text names file and reason);
 *          STANCE_ERR_NOMEM */
stance_status stance_tensors_open(const char *path, struct stance_tensors **out,
                                  struct stance_error *err) STANCE_MUST_CHECK;
/** The same from memory, which is copied. @param name  stands for the file in messages */
stance_status stance_tensors_open_memory(const void *data, size_t size, const char *name,
                                         struct stance_tensors **out,
                                         struct stance_error *err) STANCE_MUST_CHECK;
/** Accepts NULL. */
void stance_tensors_close(struct stance_tensors *t);

/** As it was given to open. */
const char *stance_tensors_path(const struct stance_tensors *t);
size_t stance_tensors_count(const struct stance_tensors *t);
/** In the order of the file; elements in C order. Owned by @p t. */
const struct stance_entry *stance_tensors_at(const struct stance_tensors *t, size_t index);
/** NULL if there is none of that name. */
const struct stance_entry *stance_tensors_find(const struct stance_tensors *t, const char *name);
/** Whether a common "module." was taken off the names. */
bool stance_tensors_stripped(const struct stance_tensors *t);
/** Value under @p key of a safetensors file's metadata; NULL if there is none. */
const char *stance_tensors_meta(const struct stance_tensors *t, const char *key);
/** All of the metadata; none for PyTorch's files. */
const struct stance_pair *stance_tensors_metas(const struct stance_tensors *t, size_t *count);

struct stance_converted { size_t tensors; bool stripped; };

/** `stance convert IN OUT`: the same names (without a common "module."), types and values as
 *  safetensors. Nothing is written unless all of @p in is good; @p out may be the same file.
 *  @param[out] report  may be NULL @return as open; STANCE_ERR_IO */
stance_status stance_tensors_convert(const char *in, const char *out,
                                     struct stance_converted *report,
                                     struct stance_error *err) STANCE_MUST_CHECK;

/* ---- finding a model's weights in a file ----------------------------------------------------- */

struct stance_wanted { const char *name; struct stance_shape shape; };

/** What goes where. Entries belong to the file, the arrays to the match. */
struct stance_match {
    const struct stance_entry **entry;  /**< [n] for each wanted tensor; NULL: it keeps its value */
    size_t                      loaded; /**< how many are not NULL */
    size_t                     *not_loaded; /**< indices of the others: not of @p only, or absent
                                             *   counters */
    size_t                      n_not_loaded;
    const struct stance_entry **ignored;    /**< of the file, that no wanted tensor took */
    size_t                      n_ignored;
    bool                        stripped;   /**< a common "module." was taken off */
    bool                        completed;  /**< the file's names lacked @p only: put in front */
};

/** Matches the tensors of a file with those of a model, all or nothing: a missing, an unexpected or
 *  a misshapen tensor is an error that lists them, with both shapes as 17x4x1x1, and so is a file
 *  of which nothing fits. Never an error: a missing or unexpected num_batches_tracked, and reserved
 *  names.
 *
 *  @param only  NULL; or a prefix such as "backbone.": only wanted tensors of that prefix are
 *               loaded, and of the file what nobody wants is ignored. A file of which no name has
 *               the prefix (an ImageNet backbone) is read as if all had it.
 *  @param[out] out  stance_match_free() is due after success
 *  @return STANCE_OK; STANCE_ERR_SHAPE; STANCE_ERR_INVAL (names); STANCE_ERR_NOMEM */
stance_status stance_tensors_match(const struct stance_tensors *t,
                                   const struct stance_wanted *wanted, size_t n, const char *only,
                                   struct stance_match *out,
                                   struct stance_error *err) STANCE_MUST_CHECK;
/** Accepts a zeroed one. */
void stance_match_free(struct stance_match *m);

#endif
