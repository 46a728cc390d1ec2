/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Everything that can be wrong with a dataset, before training: what `stance check` runs. */
#ifndef DATA_CHECK_H
#define DATA_CHECK_H

#include <stance/dataset.h>

struct stance_check_result {
    int64_t samples, images;  /**< that would be trained on or evaluated */
    int64_t bad_images;       /**< of those: not to be decoded */
    int64_t labelled;         /**< points, over all samples */
    int64_t points;           /**< K times samples */
};

/** Opens the dataset, decodes each of its images once and closes it. Every fault is told with id, file
 *  and reason, as a warning of the log; nothing is written.
 *  @param threads  that decode, 1 to 256
 *  @param[out] out  filled as far as it came, also on failure
 *  @return STANCE_OK; that of opening; STANCE_ERR_INPUT: images that cannot be decoded, the first named
 *          with their number */
stance_status stance_check_dataset(const struct stance_dataset_ops *ops, const void *config,
                                   const struct stance_split *split, int threads,
                                   struct stance_check_result *out, struct stance_error *err) STANCE_MUST_CHECK;

#endif
