/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of `stance eval GT DT`: COCO keypoint evaluation of a result file against a ground truth
 * file. */
#ifndef EVAL_EVAL_FILE_H
#define EVAL_EVAL_FILE_H

#include "base/text.h"
#include "eval/coco.h"
#include "eval/eval_read.h"

/** What stands in for an annotation without `area`. */
enum stance_area_fallback {
    STANCE_AREA_NONE, /**< nothing: it is an error that names the annotation */
    STANCE_AREA_BBOX  /**< width times height of its box */
};

struct stance_eval_options {
    const char               *sigmas; /**< as stance_sigmas_read() takes them; NULL: COCO's, for K = 17 */
    enum stance_area_fallback area_fallback;
};

struct stance_eval_result {
    double  stats[STANCE_COCO_STATS]; /**< as stance_coco_evaluate() gives them */
    int32_t keypoints;
    int64_t images, annotations, results;
};

/** Reads both files, checks that they fit together, and evaluates.
 *  @param options   NULL: none
 *  @param warnings  gets a line for each thing that the user should know; NULL: they are logged
 *  @return STANCE_OK; STANCE_ERR_INPUT, STANCE_ERR_FORMAT (the text names the file, the annotation's
 *          id or the result's index, and the reason), STANCE_ERR_INVAL, STANCE_ERR_RANGE (the
 *          sigmas); STANCE_ERR_NOMEM */
stance_status stance_eval_files(const char *gt_path, const char *dt_path,
                                const struct stance_eval_options *options,
                                struct stance_eval_result *result, struct stance_string *warnings,
                                struct stance_error *err) STANCE_MUST_CHECK;

/** The same on what was read. @param curves  as in stance_coco_evaluate(), or NULL */
stance_status stance_eval_data(const struct stance_eval_data *gt, const struct stance_eval_data *dt,
                               const struct stance_eval_options *options,
                               struct stance_eval_result *result, struct stance_coco_curves *curves,
                               struct stance_string *warnings, struct stance_error *err) STANCE_MUST_CHECK;

#endif
