/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/summary.h"

#include <string.h>

static const struct { const char *name, *label, *threshold, *area; } rows[STANCE_COCO_STATS] = {
    { "AP", "AP", "0.50:0.95", "all" },       { "AP50", "AP .5", "0.50", "all" },
    { "AP75", "AP .75", "0.75", "all" },      { "APM", "AP (M)", "0.50:0.95", "medium" },
    { "APL", "AP (L)", "0.50:0.95", "large" }, { "AR", "AR", "0.50:0.95", "all" },
    { "AR50", "AR .5", "0.50", "all" },       { "AR75", "AR .75", "0.75", "all" },
    { "ARM", "AR (M)", "0.50:0.95", "medium" }, { "ARL", "AR (L)", "0.50:0.95", "large" },
};

const char *stance_summary_name(int i)
{
    return i >= 0 && i < STANCE_COCO_STATS ? rows[i].name : NULL;
}

const char *stance_summary_label(int i)
{
    return i >= 0 && i < STANCE_COCO_STATS ? rows[i].label : NULL;
}

/* Prints a number with a point, whatever the locale. */
static const char *text_of(double v, const char *format, char text[40])
{
    char *comma;

    snprintf(text, 40, format, v);
    comma = strchr(text, ',');
    if (comma != NULL)
        *comma = '.';
    return text;
}

bool stance_summary_print(FILE *to, const double stats[STANCE_COCO_STATS])
{
    char text[40];
    bool written = true;

    for (int i = 0; i < STANCE_COCO_STATS; i++)
        written &= fprintf(to, " %-18s %s @[ IoU=%-9s | type=%6s | maxDets=%3d ] = %s\n",
                           i < 5 ? "Average Precision" : "Average Recall", i < 5 ? "(AP)" : "(AR)",
                           rows[i].threshold, rows[i].area, STANCE_COCO_DETECTIONS,
                           text_of(stats[i], "%.3f", text)) > 0;
    return written;
}

bool stance_summary_json(FILE *to, const double stats[STANCE_COCO_STATS])
{
    char text[40];
    bool written = true;

    for (int i = 0; i < STANCE_COCO_STATS; i++)
        written &= fprintf(to, "%s\"%s\": %s", i == 0 ? "{" : ", ", rows[i].name,
                           text_of(stats[i], "%.17g", text)) > 0;
    return fputs("}\n", to) >= 0 && written;
}
