/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights that PyTorch's torch.save() wrote: the zip container (1.6 and later) and the older one of
 * consecutive pickles. Nothing of the file is run (io/pickle.h). The weights are the tensors of the
 * mapping under "state_dict" if there is such a key, else of the mapping itself; what is no tensor
 * is passed over. Source: PyTorch's torch/serialization.py. */
#ifndef IO_TORCH_H
#define IO_TORCH_H

#include "io/entry.h"
#include "io/map.h"

#include <stance/error.h>

struct stance_torch;

/** Opens a file, checks and gathers its tensors: views and strides become plain C order.
 *  @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened); STANCE_ERR_FORMAT (the text names the
 *          file and the reason); STANCE_ERR_NOMEM */
stance_status stance_torch_open(const char *path, struct stance_torch **out,
                                struct stance_error *err) STANCE_MUST_CHECK;
/** The same from memory, which is copied. @param name  stands for the file in messages */
stance_status stance_torch_open_memory(const void *data, size_t size, const char *name,
                                       struct stance_torch **out,
                                       struct stance_error *err) STANCE_MUST_CHECK;
/** The same from an open map, which is closed with the reader, or at once after a failure. */
stance_status stance_torch_take(struct stance_map *map, const char *name,
                                struct stance_torch **out,
                                struct stance_error *err) STANCE_MUST_CHECK;
/** Accepts NULL. */
void stance_torch_close(struct stance_torch *t);

/** Whether @p size bytes begin as a zip archive or a pickle. */
bool stance_torch_looks(const void *data, size_t size);

size_t stance_torch_count(const struct stance_torch *t);
/** In the order of the mapping. Owned by @p t. */
const struct stance_entry *stance_torch_at(const struct stance_torch *t, size_t index);

#endif
