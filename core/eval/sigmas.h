/* SPDX-License-Identifier: Apache-2.0
 *
 * Fall-offs of the keypoints, as a user gives them. */
#ifndef EVAL_SIGMAS_H
#define EVAL_SIGMAS_H

#include <stance/error.h>

/** COCO's seventeen: nose, eyes, ears, shoulders, elbows, wrists, hips, knees, ankles. */
extern const double stance_coco_sigmas[17];

/** Reads "0.05,0.05,0.1" (brackets and blanks allowed), or the YAML or JSON file of that name: a list
 *  of numbers, or a mapping with such a list under `sigmas` (as a data set's info file has).
 *  @param[out] out  [*n], the caller's, from stance_calloc
 *  @return STANCE_OK; STANCE_ERR_INVAL (not a list of numbers), STANCE_ERR_RANGE (a number not above
 *          0), STANCE_ERR_INPUT, STANCE_ERR_FORMAT (the file), STANCE_ERR_NOMEM */
stance_status stance_sigmas_read(const char *text, double **out, int64_t *n,
                                 struct stance_error *err) STANCE_MUST_CHECK;

#endif
