/* SPDX-License-Identifier: Apache-2.0
 *
 * The figure of a run, or of several over each other: which panels there are, and how they stand. */
#ifndef PLOT_FIGURE_H
#define PLOT_FIGURE_H

#include "plot/panel.h"

enum { STANCE_FIGURE_PANELS = 12 };

struct stance_figure {
    const struct stance_curves *run; /**< [n], borrowed */
    int                         n;   /**< 1 to STANCE_PANEL_LINES */
    struct stance_panel         panel[STANCE_FIGURE_PANELS];
    int                         n_panels;
    char                        titles[STANCE_FIGURE_PANELS][120]; /**< of those that are made */
};

/** Chooses the panels: those with anything to show. */
void stance_figure_make(struct stance_figure *f, const struct stance_curves *run, int n);

/** Writes it as the end of the name says: ".png" or ".svg".
 *  @return STANCE_OK; STANCE_ERR_INVAL (another end); STANCE_ERR_IO; STANCE_ERR_NOMEM */
stance_status stance_figure_write(const struct stance_figure *f, const char *path, struct stance_error *err) STANCE_MUST_CHECK;

#endif
