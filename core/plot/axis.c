/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "plot/axis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The exponent of "5e-05" without its zeros and plus. */
static void shorten(char *text)
{
    char *e = strchr(text, 'e'), *from, *to;

    if (e == NULL)
        return;
    to = from = e + 1;
    if (*from == '-' || *from == '+')
        if (*from++ == '-')
            to++;
    while (*from == '0' && from[1] != '\0')
        from++;
    memmove(to, from, strlen(from) + 1);
}

/* Numbers are printed in the C locale: the program sets none, and a comma would be wrong in an SVG file. */
void stance_axis_text(double v, char text[16])
{
    double m = fabs(v);

    if (m >= 1e4 && m < 1e9 && fmod(m, m < 1e6 ? 100 : 1e5) < 0.5)
        snprintf(text, 16, m < 1e6 ? "%.4gk" : "%.4gM", v / (m < 1e6 ? 1e3 : 1e6));
    else if (m != 0 && (m < 1e-3 || m >= 1e5))
        snprintf(text, 16, "%.3g", v);
    else
        snprintf(text, 16, "%.5g", v);
    shorten(text);
}

/* The smallest of 1, 2, 5 times a power of ten that is not below @p v. */
static double nice(double v)
{
    double power = pow(10, floor(log10(v))), part = v / power;

    return power * (part <= 1 + 1e-9 ? 1 : part <= 2 + 1e-9 ? 2 : part <= 5 + 1e-9 ? 5 : 10);
}

static void add_tick(struct stance_axis *a, double at)
{
    if (a->n < STANCE_TICKS_MAX)
        a->tick[a->n++].at = at;
}

static void make_linear(struct stance_axis *a, double min, double max, bool tight, bool whole, int want)
{
    double step, first, last;

    if (!(max - min > 1e-9 * fmax(fabs(min), fabs(max)))) { /* one number */
        double room = min == 0 ? 1 : fabs(min) / 2;

        if (whole && room < 1)
            room = 1;
        tight = false;
        max += room;
        if (min != 0)
            min -= room;
    }
    step = nice((max - min) / want);
    if (whole && step < 1)
        step = 1;
    first   = tight ? ceil(min / step - 1e-9) : floor(min / step + 1e-9);
    last    = tight ? floor(max / step + 1e-9) : ceil(max / step - 1e-9);
    a->low  = tight ? min : first * step;
    a->high = tight ? max : last * step;
    for (double k = first; k <= last; k++)
        add_tick(a, k == 0 ? 0 : k * step);
}

static void make_log10(struct stance_axis *a, double min, double max, int want)
{
    static const double steps[] = { 1, 2, 5 };
    int                 low = (int)floor(log10(min) + 1e-9), high = (int)ceil(log10(max) - 1e-9), every;

    if (low == high)
        high++;
    /* Within two decades 1, 2, 5 are marked, and the axis need not go to powers of ten. */
    if (high - low <= 2) {
        double marks[10];
        int    n = 0, from = 0, to;

        for (int d = low; d <= high; d++)
            for (int i = 0; i < (d == high ? 1 : 3); i++)
                marks[n++] = steps[i] * pow(10, d);
        to = n - 1;
        while (from + 1 < to && marks[from + 1] <= min * (1 + 1e-9))
            from++;
        while (to - 1 > from && marks[to - 1] >= max * (1 - 1e-9))
            to--;
        a->low  = marks[from];
        a->high = marks[to];
        for (int i = from; i <= to; i++)
            add_tick(a, marks[i]);
        return;
    }
    every   = (high - low + want - 1) / want;
    a->low  = pow(10, low);
    a->high = pow(10, high);
    for (int d = low; d <= high; d++)
        if (d % every == 0)
            add_tick(a, pow(10, d));
}

static void make_log2(struct stance_axis *a, double min, double max, int want)
{
    int low = (int)floor(log2(min) + 1e-9), high = (int)ceil(log2(max) - 1e-9), every;

    if (low == high) {
        low--;
        high++;
    }
    every = (high - low + want - 1) / want;
    a->low  = ldexp(1, low);
    a->high = ldexp(1, high);
    for (int e = low; e <= high; e++)
        if (e % every == 0)
            add_tick(a, ldexp(1, e));
}

/* Enough decimals for the step, and the same for all ticks. */
static void linear_texts(struct stance_axis *a)
{
    double step = a->n > 1 ? a->tick[1].at - a->tick[0].at : 1, m = fmax(fabs(a->low), fabs(a->high));
    int    decimals = step >= 1 ? 0 : (int)ceil(-log10(step) - 1e-9);

    for (int i = 0; i < a->n; i++) {
        if (m >= 1e4 || m < 1e-2 || decimals > 5)
            stance_axis_text(fabs(a->tick[i].at) < step / 2 ? 0 : a->tick[i].at, a->tick[i].text);
        else
            snprintf(a->tick[i].text, sizeof a->tick[i].text, "%.*f", decimals, a->tick[i].at);
    }
}

/* What an axis can be made for: sums and products of it stay finite, and it is not lost beside them. */
static double within(double v, bool positive)
{
    double m = fmin(fmax(fabs(v), 1e-290), 1e290);

    if (positive)
        return m;
    return fabs(v) < 1e-290 ? 0 : copysign(m, v);
}

void stance_axis_make(struct stance_axis *a, enum stance_axis_kind kind, double min, double max, bool tight, bool whole,
                      int want)
{
    *a  = (struct stance_axis){ .kind = kind };
    min = within(min, kind != STANCE_AXIS_LINEAR);
    max = within(max, kind != STANCE_AXIS_LINEAR);
    switch (kind) {
    case STANCE_AXIS_LINEAR:
        make_linear(a, min, max, tight, whole, want);
        linear_texts(a);
        break;
    case STANCE_AXIS_LOG10:
        make_log10(a, min, max, want);
        for (int i = 0; i < a->n; i++)
            stance_axis_text(a->tick[i].at, a->tick[i].text);
        break;
    case STANCE_AXIS_LOG2:
        make_log2(a, min, max, want);
        for (int i = 0; i < a->n; i++)
            snprintf(a->tick[i].text, sizeof a->tick[i].text, "2^%d", (int)lrint(log2(a->tick[i].at)));
        break;
    }
}

double stance_axis_place(const struct stance_axis *a, double v)
{
    if (a->kind == STANCE_AXIS_LINEAR)
        return (v - a->low) / (a->high - a->low);
    return v > 0 ? (log(v) - log(a->low)) / (log(a->high) - log(a->low)) : (double)NAN;
}
