/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/json_scan.h"

#include "base/text.h"
#include "io/utf8.h"

#include <stance/alloc.h>

#include <float.h>
#include <math.h>

void stance_json_unexpected(struct stance_json *r, const char *what)
{
    unsigned char c = *r->p;

    if (r->p >= r->end)
        MALFORMED(r, "the text ends where %s should stand", what);
    else if (c >= ' ' && c < 0x7f)
        MALFORMED(r, "%s expected, found '%c'", what, c);
    else
        MALFORMED(r, "%s expected, found byte 0x%02x", what, c);
}

/* First byte at or after p that is a quote, a backslash, a control or not ASCII. Eight bytes at a
 * time: the usual subtraction trick, whose false alarms can only come after a true one. */
static inline const unsigned char *plain_text(const unsigned char *p)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;

    for (;; p += 8) {
        uint64_t w, quote, slash;

        memcpy(&w, p, 8);
        quote = w ^ ones * '"';
        slash = w ^ ones * '\\';
        if (((w | (w - ones * 0x20) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & high)
            != 0)
            break;
    }
    while (*p >= ' ' && *p != '"' && *p != '\\' && *p < 0x80)
        p++;
    return p;
}

static int hex4(const unsigned char *p)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        int c = p[i];

        if (stance_json_is_digit((unsigned char)c))
            v = v * 16 + c - '0';
        else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
            v = v * 16 + (c | 0x20) - 'a' + 10;
        else
            return -1;
    }
    return v;
}

/* One escape at p, which is at its backslash. @return the code point and its length, or -1 */
static int32_t escape(struct stance_json *r, const unsigned char *p, size_t *len)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char       *known  = p[1] != '\0' ? strchr(from, p[1]) : NULL;
    int32_t           high, low;

    *len = 2;
    if (known != NULL)
        return to[known - from];
    r->p = p;
    if (p[1] != 'u') {
        MALFORMED(r, "unknown escape in a string");
        return -1;
    }
    *len = 6;
    high = hex4(p + 2);
    if (high < 0) {
        MALFORMED(r, "four hexadecimal digits expected after \\u");
        return -1;
    }
    if (high < 0xd800 || high > 0xdfff)
        return high;
    low = high < 0xdc00 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (low < 0xdc00 || low > 0xdfff) {
        MALFORMED(r, "half of a surrogate pair");
        return -1;
    }
    *len = 12;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

bool stance_json_scan_string(struct stance_json *r, struct stance_json_text *text)
{
    const unsigned char *head = r->p + 1, *p = head, *piece = head;
    size_t               used = 0;
    bool                 escaped = false;

    for (;;) {
        p = plain_text(p);
        if (*p == '"')
            break;
        if (*p >= 0x80) {
            size_t len = stance_utf8_length(p, r->end);

            if (len == 0) {
                r->p = p;
                MALFORMED(r, "a string is not UTF-8 here");
                return false;
            }
            p += len;
        } else if (*p == '\\') {
            size_t  len, plain = (size_t)(p - piece);
            int32_t c = escape(r, p, &len);

            if (c < 0)
                return false;
            escaped = true;
            if (text != NULL) {
                if (!stance_grow((void **)&r->scratch, &r->scratch_size, used + plain + 4, 1)) {
                    stance_json_refuse(r, STANCE_ERR_NOMEM, "a string");
                    return false;
                }
                memcpy(r->scratch + used, piece, plain);
                used += plain;
                used += stance_utf8_encode((uint32_t)c, r->scratch + used);
            }
            p += len;
            piece = p;
        } else {
            r->p = p;
            if (p >= r->end)
                MALFORMED(r, "the text ends within a string");
            else
                MALFORMED(r, "control character 0x%02x within a string", *p);
            return false;
        }
    }
    if (text != NULL && !escaped)
        *text = (struct stance_json_text){ (const char *)head, (size_t)(p - head) };
    if (text != NULL && escaped) {
        size_t plain = (size_t)(p - piece);

        if (!stance_grow((void **)&r->scratch, &r->scratch_size, used + plain + 1, 1)) {
            stance_json_refuse(r, STANCE_ERR_NOMEM, "a string");
            return false;
        }
        memcpy(r->scratch + used, piece, plain);
        *text = (struct stance_json_text){ r->scratch, used + plain };
    }
    r->p = p + 1;
    return true;
}

static bool digits_missing(struct stance_json *r, const unsigned char *p)
{
    r->p = p;
    stance_json_unexpected(r, "a digit");
    return false;
}

/* Whether the whole part of a number may begin at p. */
static inline bool begins_well(struct stance_json *r, const unsigned char *p)
{
    if (!stance_json_is_digit(*p))
        return digits_missing(r, p);
    if (*p == '0' && stance_json_is_digit(p[1])) {
        r->p = p;
        MALFORMED(r, "a number with a leading zero");
        return false;
    }
    return true;
}

bool stance_json_skip_number(struct stance_json *r)
{
    const unsigned char *p = r->p + (*r->p == '-');

    if (!begins_well(r, p))
        return false;
    while (stance_json_is_digit(*p))
        p++;
    if (*p == '.') {
        p++;
        if (!stance_json_is_digit(*p))
            return digits_missing(r, p);
        while (stance_json_is_digit(*p))
            p++;
    }
    if ((*p | 0x20) == 'e') {
        p++;
        p += *p == '-' || *p == '+';
        if (!stance_json_is_digit(*p))
            return digits_missing(r, p);
        while (stance_json_is_digit(*p))
            p++;
    }
    r->p = p;
    return true;
}

/* The digits as an integer m and a power of ten, while m holds them all. */
struct decimal {
    uint64_t m;
    int      exponent;
    bool     negative, whole; /* whole: neither point nor exponent */
    bool     exact;           /* m has every digit */
};

static bool scan_decimal(struct stance_json *r, struct decimal *d)
{
    const uint64_t       room = (UINT64_MAX - 9) / 10;
    const unsigned char *head = r->p, *p = head + (*head == '-');
    int                  written = 0;

    *d = (struct decimal){ .negative = *head == '-', .whole = true, .exact = true };
    if (!begins_well(r, p))
        return false;
    for (; stance_json_is_digit(*p); p++) {
        if (d->m > room)
            d->exact = false;
        else
            d->m = d->m * 10 + (*p - '0');
    }
    if (*p == '.') {
        const unsigned char *point = p++;

        d->whole = false;
        for (; stance_json_is_digit(*p); p++) {
            if (d->m > room)
                d->exact = false;
            else
                d->m = d->m * 10 + (*p - '0');
        }
        if (p == point + 1)
            return digits_missing(r, p);
        d->exact    = d->exact && p - point < 400;
        d->exponent = d->exact ? -(int)(p - point - 1) : 0;
    }
    if ((*p | 0x20) == 'e') {
        bool down;

        p++;
        down = *p == '-';
        p += *p == '-' || *p == '+';
        if (!stance_json_is_digit(*p))
            return digits_missing(r, p);
        for (; stance_json_is_digit(*p); p++)
            written = written < 100000 ? written * 10 + (*p - '0') : written;
        d->whole = false;
        d->exponent += down ? -written : written;
    }
    r->p = p;
    return true;
}

static double decimal_value(struct stance_json *r, const unsigned char *head,
                            const struct decimal *d)
{
    /* 10^0 to 10^22 are exact in binary64, and so is an integer to 2^53: one rounding, that of the
     * product or quotient, is then the rounding of the decimal (Clinger, PLDI 1990). */
    static const double power[] = { 1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21,
                                    1e22 };
    size_t len = (size_t)(r->p - head);
    double v;

    if (FLT_EVAL_METHOD == 0 && d->exact && d->m <= (uint64_t)1 << 53 && d->exponent >= -22
        && d->exponent <= 22) {
        v = (double)d->m;
        v = d->exponent < 0 ? v / power[-d->exponent] : v * power[d->exponent];
        return d->negative ? -v : v;
    }
    if (!stance_grow((void **)&r->scratch, &r->scratch_size, len + 1, 1)) {
        stance_json_refuse(r, STANCE_ERR_NOMEM, "a number");
        return 0;
    }
    memcpy(r->scratch, head, len);
    r->scratch[len] = '\0';
    if (!stance_text_f64(r->scratch, &v) || !isfinite(v)) {
        r->p = head;
        stance_json_refuse(r, STANCE_ERR_RANGE, "number beyond the range of binary64");
        return 0;
    }
    return v;
}

bool stance_json_scan_number(struct stance_json *r, struct stance_json_number *out)
{
    const unsigned char *head = r->p;
    struct decimal       d;
    double               v;

    if (!scan_decimal(r, &d))
        return false;
    v = decimal_value(r, head, &d);
    if (stance_json_failed(r))
        return false;
    *out = (struct stance_json_number){ .f64 = v };
    if (d.whole && d.exact && d.m <= (uint64_t)INT64_MAX + d.negative) {
        out->integer = true;
        out->i64     = d.negative ? (int64_t)(0 - d.m) : (int64_t)d.m;
    }
    return true;
}
