/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of Python's pickle format (protocols 2 to 5) that PyTorch's weight files use. Nothing is
 * ever called: a global is a word of a fixed list, and what would be a call is looked at here. A
 * global that is not on the list is an error that names it.
 * Sources: CPython's Lib/pickletools.py (opcodes); PyTorch's torch/serialization.py (ids). */
#ifndef IO_PICKLE_H
#define IO_PICKLE_H

#include "io/entry.h"

#include <stance/alloc.h>
#include <stance/error.h>

enum stance_pickle_kind {
    STANCE_PICKLE_NONE, STANCE_PICKLE_BOOL, STANCE_PICKLE_INT, STANCE_PICKLE_FLOAT,
    STANCE_PICKLE_TEXT,    /**< also bytes */
    STANCE_PICKLE_TUPLE, STANCE_PICKLE_LIST,
    STANCE_PICKLE_DICT,    /**< also OrderedDict */
    STANCE_PICKLE_GLOBAL,
    STANCE_PICKLE_STORAGE, /**< what a persistent id stands for */
    STANCE_PICKLE_TENSOR,  /**< also Parameter */
    STANCE_PICKLE_OPAQUE   /**< known to be harmless and of no use here: sets, numpy scalars, ... */
};

/** Not zero-terminated; lies in the pickle. */
struct stance_pickle_text { const char *s; size_t len; };

struct stance_pickle_storage {
    struct stance_pickle_text key;      /**< of the storage that holds the bytes */
    enum stance_dtype         dtype;
    int64_t                   elements; /**< of that storage */
    int64_t                   first, count; /**< the part that this view shows */
};

/** Offsets and strides in elements. */
struct stance_pickle_tensor {
    const struct stance_pickle_storage *storage;
    int64_t                             offset;
    int32_t                             rank;
    int64_t                             size[STANCE_ENTRY_RANK], stride[STANCE_ENTRY_RANK];
};

struct stance_pickle_value {
    enum stance_pickle_kind kind;
    int                     global; /**< GLOBAL: which one; private */
    union {
        int64_t                   i; /**< BOOL, INT */
        double                    f;
        struct stance_pickle_text text;
        /** TUPLE, LIST; of a DICT key and value in turn. */
        struct { struct stance_pickle_value **item; size_t count, capacity; } list;
        struct stance_pickle_storage *storage;
        struct stance_pickle_tensor  *tensor;
    } u;
};

struct stance_pickle {
    struct stance_pickle_value    *root;
    size_t                         used;    /**< bytes of the pickle; more may follow it */
    struct stance_pickle_storage **storage; /**< one for each persistent id met */
    size_t                         storages, storage_capacity;
};

/** Reads one pickle. Values live in @p arena and point into @p data.
 *  @return STANCE_OK, then stance_pickle_free() is due; STANCE_ERR_FORMAT; STANCE_ERR_NOMEM */
stance_status stance_pickle_load(const unsigned char *data, size_t size,
                                 struct stance_arena *arena, struct stance_pickle *out,
                                 struct stance_error *err) STANCE_MUST_CHECK;
/** Frees the list of storages; the values are the arena's. */
void stance_pickle_free(struct stance_pickle *p);

/** Value under a text key of a DICT, the last one as in Python; NULL if there is none. */
const struct stance_pickle_value *stance_pickle_get(const struct stance_pickle_value *dict,
                                                    const char *key);

#endif
