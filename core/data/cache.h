/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Decoded images kept in memory: a dataset in front of a dataset, whose image() copies what it has
 *  decoded before. Images are never given up, so that the first ones to come fill the room. */
#ifndef DATA_CACHE_H
#define DATA_CACHE_H

#include <stance/dataset.h>

struct stance_image_cache;

/** @param dataset, dataset_state  used until the cache is freed
 *  @param bytes  of pixels to keep at most */
stance_status stance_image_cache_new(const struct stance_dataset_ops *dataset, const void *dataset_state,
                                     size_t bytes, struct stance_image_cache **out,
                                     struct stance_error *err) STANCE_MUST_CHECK;

/** The dataset to use instead; its state is the cache. */
const struct stance_dataset_ops *stance_image_cache_ops(const struct stance_image_cache *c);

/** Accepts NULL. */
void stance_image_cache_free(struct stance_image_cache *c);

#endif
