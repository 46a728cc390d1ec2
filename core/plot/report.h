/* SPDX-License-Identifier: Apache-2.0
 *
 * report.html: one page with everything in it, no script, nothing fetched. */
#ifndef PLOT_REPORT_H
#define PLOT_REPORT_H

#include "plot/figure.h"

/** Writes the page of the figure's runs: what came out, the evaluation's numbers, the curves, and, of a
 *  run alone, its overflows, recipe and environment, as its newest start has them.
 *  @return STANCE_OK; STANCE_ERR_IO; STANCE_ERR_NOMEM */
stance_status stance_report_write(const char *path, const struct stance_figure *f, struct stance_error *err) STANCE_MUST_CHECK;

/** The page of a work folder, from its files, into @p start/report.html. Without scalars.jsonl nothing is
 *  written, and that is no failure. */
stance_status stance_report_of(const char *folder, const char *start, struct stance_error *err) STANCE_MUST_CHECK;

#endif
