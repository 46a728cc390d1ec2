/* SPDX-License-Identifier: Apache-2.0
 *
 * What the two containers of PyTorch's files give to torch.c: a pickle, bytes by storage key. */
#ifndef IO_TORCH_FILE_H
#define IO_TORCH_FILE_H

#include "io/map.h"
#include "io/pickle.h"

/** A storage that the pickle mentions. */
struct stance_torch_storage {
    struct stance_pickle_text key;
    enum stance_dtype         dtype;
    int64_t                   elements;
    const unsigned char      *data;  /**< NULL until loaded */
    void                     *owned; /**< the same when it is on the heap */
};

struct stance_torch_file {
    const struct stance_map     *map;
    struct stance_arena         *arena;  /**< of the pickle's values */
    struct stance_pickle         pickle;
    struct stance_torch_storage *storage; /**< sorted by key, each key once */
    size_t                       storages;
    size_t                       loaded;  /**< bytes of storages on the heap */
    void                        *zip;     /**< struct zip, or NULL for the older container */
    char                        *prefix;  /**< top folder of the archive with its slash, or "" */
    unsigned char               *text;    /**< the pickle of a zip */
};

/** Opens either container. On failure the file is closed. */
stance_status stance_torch_file_open(const struct stance_map *map,
                                     struct stance_torch_file *out,
                                     struct stance_error *err) STANCE_MUST_CHECK;
/** Leaves the bytes of loaded storages to the caller, who has taken their `owned`. */
void stance_torch_file_close(struct stance_torch_file *f);

/** Loads the bytes of one storage of the list, unless that has been done. */
stance_status stance_torch_file_load(struct stance_torch_file *f, struct stance_torch_storage *s,
                                     struct stance_error *err) STANCE_MUST_CHECK;
/** The storage under @p key; NULL if there is none. */
struct stance_torch_storage *stance_torch_file_find(struct stance_torch_file *f,
                                                    struct stance_pickle_text key);

/** The two containers. */
stance_status stance_torch_zip_open(struct stance_torch_file *f, struct stance_error *err)
    STANCE_MUST_CHECK;
stance_status stance_torch_zip_load(struct stance_torch_file *f, struct stance_torch_storage *s,
                                    struct stance_error *err) STANCE_MUST_CHECK;
void stance_torch_zip_close(struct stance_torch_file *f);
stance_status stance_torch_legacy_open(struct stance_torch_file *f, struct stance_error *err)
    STANCE_MUST_CHECK;
bool stance_torch_is_zip(const void *data, size_t size);

#endif
