/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of a run as its work folder has them: scalars.jsonl and histogram.jsonl of every start,
 * joined by step. */
#ifndef PLOT_CURVES_H
#define PLOT_CURVES_H

#include "step/exponents.h"

#include <stance/error.h>

/** @p value NaN: logged as null. */
struct stance_point { int64_t step; double value; };

struct stance_series {
    char                *name; /**< as in scalars.jsonl: "loss", "AP", ... */
    struct stance_point *point;
    size_t               n, room;
};

struct stance_step_exponents { int64_t step; struct stance_gradient_exponents e; };

/** Zero-initialise. */
struct stance_curves {
    char                         *label;  /**< name of the work folder */
    char                         *newest; /**< folder of the newest start with scalars */
    struct stance_series         *series;
    size_t                        n_series, room_series;
    struct stance_step_exponents *histogram; /**< in the order of their steps */
    size_t                        n_histograms, room_histograms;
    size_t                        n_starts; /**< with scalars */
};

/** Reads a work folder, or the folder of one start. A start that begins at step s replaces what earlier
 *  ones have from s on. A last line without its line end that is no JSON was cut by the end of the
 *  process, and is passed over.
 *  @param[out] out  for stance_curves_clear(), also after a failure
 *  @return STANCE_OK; STANCE_ERR_INPUT (no such folder, or no scalars.jsonl in it); STANCE_ERR_FORMAT
 *          with file, line and column; STANCE_ERR_NOMEM */
stance_status stance_curves_read(const char *folder, struct stance_curves *out, struct stance_error *err) STANCE_MUST_CHECK;
void stance_curves_clear(struct stance_curves *c);

/** Appends the lines of one scalars.jsonl that is in memory; points that @p c has from its first step on
 *  are dropped. @param name  stands for the file in messages */
stance_status stance_curves_add_scalars(struct stance_curves *c, const char *text, size_t size, const char *name,
                                        struct stance_error *err) STANCE_MUST_CHECK;
/** Likewise of a histogram.jsonl. */
stance_status stance_curves_add_histograms(struct stance_curves *c, const char *text, size_t size, const char *name,
                                           struct stance_error *err) STANCE_MUST_CHECK;

/** The series of this name with at least one finite value; NULL: there is none. */
const struct stance_series *stance_curves_find(const struct stance_curves *c, const char *name);
/** Its last finite point; NULL: there is none. Accepts NULL. */
const struct stance_point *stance_series_last(const struct stance_series *s);

#endif
