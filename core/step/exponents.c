/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/exponents.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

void stance_exponents_add(struct stance_exponents *e, const float *v, int64_t n, double factor)
{
    for (int64_t i = 0; i < n; i++) {
        double   x = (double)v[i] * factor;
        uint64_t bits;
        int      exponent;

        memcpy(&bits, &x, sizeof bits);
        exponent = (int)(bits >> 52 & 0x7ff) - 1023; /* a subnormal binary64 counts as 2^-1023 */
        if (!isfinite(v[i])) {
            e->nan += isnan(v[i]);
            e->inf += !isnan(v[i]);
        } else if (v[i] == 0)
            e->zero++;
        else if (exponent < STANCE_EXPONENT_FIRST)
            e->below++;
        else if (exponent > STANCE_EXPONENT_LAST)
            e->above++;
        else
            e->count[exponent - STANCE_EXPONENT_FIRST]++;
    }
}

static uint64_t nonzero(const struct stance_exponents *e)
{
    uint64_t n = e->below + e->above;

    for (int i = 0; i < STANCE_EXPONENTS; i++)
        n += e->count[i];
    return n;
}

uint64_t stance_exponents_total(const struct stance_exponents *e)
{
    return e->zero + e->inf + e->nan + nonzero(e);
}

struct stance_exponents_fate stance_exponents_fate(const struct stance_exponents *e, double shift)
{
    struct stance_exponents_fate f = { 0, 0, 0, 0 };
    double                       n = (double)nonzero(e);

    if (n == 0)
        return f;
    for (int i = -1; i <= STANCE_EXPONENTS; i++) {
        /* What is outside the bins is taken to be just outside. */
        double at = STANCE_EXPONENT_FIRST + i + shift;
        double part = (double)(i < 0 ? e->below : i == STANCE_EXPONENTS ? e->above : e->count[i]) / n;

        if (at < -25)
            f.zero += part;
        else if (at < -14)
            f.subnormal += part;
        else if (at < 16)
            f.normal += part;
        else
            f.overflow += part;
    }
    return f;
}

static void add_fate(struct stance_string *out, const char *what, const struct stance_exponents *e, double shift)
{
    struct stance_exponents_fate plain = stance_exponents_fate(e, 0), scaled = stance_exponents_fate(e, shift);
    uint64_t                     total = stance_exponents_total(e);

    stance_string_add(out, "\n  %s: %" PRIu64 " numbers, %.2f %% of them 0, %" PRIu64 " not finite; of the others in fp16", what,
                      total, total > 0 ? 100 * (double)e->zero / (double)total : 0.0, e->inf + e->nan);
    stance_string_add(out, " without scaling %.2f %% are 0, %.2f %% subnormal, %.2f %% inf;", 100 * plain.zero,
                      100 * plain.subnormal, 100 * plain.overflow);
    stance_string_add(out, " with it %.2f %%, %.2f %%, %.2f %%", 100 * scaled.zero, 100 * scaled.subnormal,
                      100 * scaled.overflow);
}

static uint64_t pair(const struct stance_exponents *e, int i)
{
    return e->count[i] + e->count[i + 1];
}

static double percent(uint64_t part, uint64_t total)
{
    return total > 0 ? 100 * (double)part / (double)total : 0;
}

void stance_gradient_exponents_text(const struct stance_gradient_exponents *g, int64_t step, struct stance_string *out)
{
    const struct stance_exponents *a = &g->activation, *w = &g->weight;
    double   shift = g->scale > 0 ? log2((double)g->scale) : 0;
    uint64_t na = nonzero(a), nw = nonzero(w);
    int      first = STANCE_EXPONENTS, last = -1;

    _Static_assert(STANCE_EXPONENTS % 2 == 0, "bins go by twos");
    for (int i = 0; i < STANCE_EXPONENTS; i += 2) {
        if (pair(a, i) + pair(w, i) == 0)
            continue;
        first = first < i ? first : i;
        last  = i;
    }
    stance_string_add(out, "gradients of step %" PRId64 " divided by the loss scale (%.10g), by magnitude:", step, (double)g->scale);
    add_fate(out, "activations", a, shift);
    add_fate(out, "weights", w, shift);
    stance_string_add(out, "\n  from     activations   weights   fp16 without scaling");
    if (a->below + w->below > 0)
        stance_string_add(out, "\n  <2^%-4d  %9.3f %% %7.3f %%   0", STANCE_EXPONENT_FIRST, percent(a->below, na),
                          percent(w->below, nw));
    for (int i = first; i <= last; i += 2) {
        int e = STANCE_EXPONENT_FIRST + i;

        stance_string_add(out, "\n  2^%-4d   %9.3f %% %7.3f %%   %s", e, percent(pair(a, i), na), percent(pair(w, i), nw),
                          e + 1 < -25 ? "0" : e < -25 ? "0 below 2^-25" : e < -14 ? "subnormal" : "normal");
    }
    if (a->above + w->above > 0)
        stance_string_add(out, "\n  2^%-4d   %9.3f %% %7.3f %%   inf", STANCE_EXPONENT_LAST + 1, percent(a->above, na),
                          percent(w->above, nw));
}
