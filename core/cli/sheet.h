/* SPDX-License-Identifier: Apache-2.0
 *
 * What an evaluation found, as one picture to look at. */
#ifndef CLI_SHEET_H
#define CLI_SHEET_H

#include "train/setup.h"

/** Draws up to twelve of the predictions of data.val, taken at equal distances from the list, each cut
 *  to its box, over a line of how sure the network is and how near it came (OKS, where annotated).
 *  @param p  [count], by stance_evaluation_run()   @param score  of the whole; its name may be NULL: none
 *  @return STANCE_OK; STANCE_ERR_INVAL without predictions; STANCE_ERR_NOMEM; STANCE_ERR_IO; what reading
 *          an image returns */
stance_status stance_sheet_write(const char *path, const struct stance_setup *setup, const struct stance_prediction *p,
                                 int64_t count, const struct stance_metric *score, struct stance_error *err);

#endif
