/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"

#include <stance/alloc.h>

#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stance_string_add(struct stance_string *t, const char *fmt, ...)
{
    va_list ap;
    int     need;

    if (t->failed)
        return;
    va_start(ap, fmt);
    need = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (need < 0 || !stance_grow((void **)&t->s, &t->capacity, t->len + (size_t)need + 1, 1)) {
        t->failed = true;
        return;
    }
    va_start(ap, fmt);
    vsnprintf(t->s + t->len, (size_t)need + 1, fmt, ap);
    va_end(ap);
    t->len += (size_t)need;
}

void stance_string_free(struct stance_string *t)
{
    stance_free(t->s);
    *t = (struct stance_string){ 0 };
}

static locale_t       c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool stance_text_f64(const char *text, double *out)
{
    const char *body = text + (*text == '-' || *text == '+');
    char       *end;

    /* strtod() would take hexadecimal, blanks and a bare "nan" as numbers; recipes do not. */
    if (strcmp(body, ".inf") == 0) {
        *out = *text == '-' ? -INFINITY : INFINITY;
        return true;
    }
    if (strcmp(text, ".nan") == 0) {
        *out = NAN;
        return true;
    }
    if (strspn(body, "0123456789.eE+-") != strlen(body) || strpbrk(body, "0123456789") == NULL)
        return false;
    pthread_once(&c_locale_once, make_c_locale);
    *out = c_locale != (locale_t)0 ? strtod_l(text, &end, c_locale) : strtod(text, &end);
    return end != text && *end == '\0';
}

void stance_text_of_f64(double v, char *text, size_t size)
{
    double back;

    if (!isfinite(v)) {
        snprintf(text, size, "%s", isnan(v) ? ".nan" : v > 0 ? ".inf" : "-.inf");
        return;
    }
    /* Every decimal of 15 digits survives binary64, and %g drops zeros, so that fewer digits need no
     * try of their own; but for subnormal numbers, which have fewer. */
    for (int digits = fabs(v) < DBL_MIN ? 1 : DBL_DIG; digits <= DBL_DECIMAL_DIG; digits++) {
        snprintf(text, size, "%.*g", digits, v);
        for (char *c = text; *c != '\0'; c++)
            if (*c == ',') /* the decimal sign of a locale that somebody has set */
                *c = '.';
        if (stance_text_f64(text, &back) && back == v)
            return;
    }
}

int stance_text_distance(const char *a, const char *b)
{
    enum { MAX = 64 };
    int    row[MAX + 1];
    size_t la = strlen(a), lb = strlen(b);

    if (la > MAX || lb > MAX)
        return MAX;
    for (size_t j = 0; j <= lb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= la; i++) {
        int diagonal = row[0];

        row[0] = (int)i;
        for (size_t j = 1; j <= lb; j++) {
            int substitute = diagonal + (a[i - 1] != b[j - 1]);
            int other      = 1 + (row[j] < row[j - 1] ? row[j] : row[j - 1]);

            diagonal = row[j];
            row[j]   = substitute < other ? substitute : other;
        }
    }
    return row[lb];
}
