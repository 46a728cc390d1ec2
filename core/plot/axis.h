/* SPDX-License-Identifier: Apache-2.0
 *
 * Axes: which range is shown, where it is marked, and with what text. */
#ifndef PLOT_AXIS_H
#define PLOT_AXIS_H

#include <stance/common.h>

enum stance_axis_kind { STANCE_AXIS_LINEAR, STANCE_AXIS_LOG10, STANCE_AXIS_LOG2 };

enum { STANCE_TICKS_MAX = 16 };

struct stance_axis {
    enum stance_axis_kind kind;
    double                low, high; /**< low < high; > 0 on a logarithmic axis */
    int                   n;
    struct { double at; char text[16]; } tick[STANCE_TICKS_MAX]; /**< from low to high */
};

/** An axis over [min, max], which may be the same number; both finite, min <= max, and > 0 for a
 *  logarithmic axis. What is beyond 1e290 or within 1e-290 of 0 is cut. @param tight  the axis ends at min and max, not at the ticks around them
 *  @param whole  no ticks between integers (linear). @param want  about so many ticks, 2 to 8 */
void stance_axis_make(struct stance_axis *a, enum stance_axis_kind kind, double min, double max, bool tight, bool whole,
                      int want);

/** Where a value lies: 0 at low, 1 at high. Beyond them for what is beyond; NaN where a logarithm is not. */
double stance_axis_place(const struct stance_axis *a, double v);

/** A number in few characters: "0.001", "5e-5", "120k" (whole thousands and millions from 10000 on). */
void stance_axis_text(double v, char text[16]);

#endif
