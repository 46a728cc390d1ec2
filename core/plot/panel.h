/* SPDX-License-Identifier: Apache-2.0
 *
 * One picture of a figure: a title, two axes and some curves, or the exponents of gradients. */
#ifndef PLOT_PANEL_H
#define PLOT_PANEL_H

#include "plot/axis.h"
#include "plot/canvas.h"
#include "plot/curves.h"

enum { STANCE_PANEL_LINES = 16, STANCE_PANEL_WIDTH = 480, STANCE_PANEL_HEIGHT = 280 };

struct stance_panel_line {
    const struct stance_series *series;
    const char                 *label;  /**< for the legend */
    int                         number; /**< of colour and dashes, from 0 */
};

/** What the y axis is. AUTO: logarithmic where the values are positive and span a factor of 20. */
enum stance_panel_scale { STANCE_PANEL_AUTO, STANCE_PANEL_ZERO, STANCE_PANEL_UNIT, STANCE_PANEL_COUNT, STANCE_PANEL_LOG2 };

struct stance_panel {
    const char                          *title; /**< with the unit: "Throughput (images/s)" */
    enum stance_panel_scale              scale;
    bool                                 steps;  /**< values hold until the next one */
    bool                                 dots;   /**< measured now and then: each is marked */
    bool                                 legend;
    bool                                 nested; /**< curves that lie on each other are seen: the lower ones are wider */
    struct stance_panel_line             line[STANCE_PANEL_LINES];
    int                                  n;
    int64_t                              last;   /**< step where the x axis ends; it begins at 0 */
    /** Instead of curves: of each run that has one a histogram, with the run's number. */
    struct { const struct stance_step_exponents *of; int number; } exponents[STANCE_PANEL_LINES];
    int                                  n_exponents;
    bool                                 alone; /**< of one run: its weights and its loss scale too */
};

/** Draws into the width and height above. */
void stance_panel_draw(const struct stance_panel *p, const struct stance_canvas *c, double x, double y);

/** Whether there is anything to draw. */
bool stance_panel_filled(const struct stance_panel *p);

#endif
