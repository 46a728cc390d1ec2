/* SPDX-License-Identifier: Apache-2.0
 *
 * The text ends in zeros (io/map.h), and zero stands nowhere in JSON: the scanners below stop at the
 * end without asking for it. */
#include "config.h"

#include "io/json.h"

#include "base/text.h"
#include "io/map.h"
#include "io/utf8.h"

#include <stance/alloc.h>

#include <float.h>
#include <math.h>
#include <stdarg.h>

/* Read pages are given back in portions of this size, so that a file of any length needs only that
 * much memory. */
#define FORGET_BYTES ((size_t)4 << 20)

struct stance_json {
    struct stance_map    map;
    const unsigned char *p, *end;
    size_t               forgotten; /* bytes given back */
    bool                 first;     /* just stepped into a bracket */
    int                  depth;
    unsigned char        open[STANCE_JSON_DEPTH]; /* '{' or '[' */
    char                *scratch;   /* strings with escapes, and numbers for strtod */
    size_t               scratch_size;
    char                *name;
    struct stance_error  error;
};

/* ---- opening, closing, failing --------------------------------------------------------------- */

static stance_status new_reader(const char *name, struct stance_json **out,
                                struct stance_error *err)
{
    struct stance_json *r = stance_calloc(1, sizeof *r);

    if (r != NULL)
        r->name = stance_strdup(name);
    if (r == NULL || r->name == NULL) {
        stance_free(r);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "reader of %s", name);
    }
    *out = r;
    return STANCE_OK;
}

static void start(struct stance_json *r)
{
    r->p   = r->map.data;
    r->end = r->map.data + r->map.size;
    if (r->map.size >= 3 && memcmp(r->p, "\xef\xbb\xbf", 3) == 0)
        r->p += 3;
}

stance_status stance_json_open(const char *path, struct stance_json **out, struct stance_error *err)
{
    struct stance_json *r;
    stance_status       status = new_reader(path, &r, err);

    if (status != STANCE_OK)
        return status;
    status = stance_map_open(path, &r->map, err);
    if (status != STANCE_OK) {
        stance_json_close(r);
        return status;
    }
    start(r);
    *out = r;
    return STANCE_OK;
}

stance_status stance_json_open_memory(const void *data, size_t size, const char *name,
                                      struct stance_json **out, struct stance_error *err)
{
    struct stance_json *r;
    stance_status       status = new_reader(name, &r, err);

    if (status != STANCE_OK)
        return status;
    status = stance_map_copy(data, size, &r->map, err);
    if (status != STANCE_OK) {
        stance_json_close(r);
        return status;
    }
    start(r);
    *out = r;
    return STANCE_OK;
}

void stance_json_close(struct stance_json *r)
{
    if (r == NULL)
        return;
    stance_map_close(&r->map);
    stance_free(r->scratch);
    stance_free(r->name);
    stance_free(r);
}

size_t stance_json_offset(const struct stance_json *r)
{
    return (size_t)(r->p - r->map.data);
}

static void refuse(struct stance_json *r, stance_status status, const char *fmt, va_list ap)
{
    size_t               line = 1;
    const unsigned char *head = r->map.data;
    char                 reason[512];

    if (r->error.status != STANCE_OK)
        return;
    for (const unsigned char *q = head; q < r->p && (q = memchr(q, '\n', (size_t)(r->p - q))) != NULL; q++) {
        line++;
        head = q + 1;
    }
    vsnprintf(reason, sizeof reason, fmt, ap);
    STANCE_FAIL(&r->error, status, "%s:%zu:%zu: %s", r->name, line, (size_t)(r->p - head) + 1,
                reason);
    r->depth = 0;
}

void stance_json_refuse(struct stance_json *r, stance_status status, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    refuse(r, status, fmt, ap);
    va_end(ap);
}

stance_status stance_json_status(const struct stance_json *r, struct stance_error *err)
{
    if (r->error.status != STANCE_OK && err != NULL)
        *err = r->error;
    return r->error.status;
}

static bool failed(const struct stance_json *r)
{
    return r->error.status != STANCE_OK;
}

static void STANCE_PRINTF(2, 3) malformed(struct stance_json *r, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    refuse(r, STANCE_ERR_FORMAT, fmt, ap);
    va_end(ap);
}

/* Something else stands where @p what should. */
static void unexpected(struct stance_json *r, const char *what)
{
    unsigned char c = *r->p;

    if (r->p >= r->end)
        malformed(r, "the text ends where %s should stand", what);
    else if (c >= ' ' && c < 0x7f)
        malformed(r, "%s expected, found '%c'", what, c);
    else
        malformed(r, "%s expected, found byte 0x%02x", what, c);
}

/* ---- scanning -------------------------------------------------------------------------------- */

static inline const unsigned char *blanks(const unsigned char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

static inline bool is_digit(unsigned char c)
{
    return (unsigned)c - '0' < 10;
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
        if (((w | (w - ones * 0x20) | ((quote - ones) & ~quote) | ((slash - ones) & ~slash)) & high) != 0)
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

        if (is_digit((unsigned char)c))
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
        malformed(r, "unknown escape in a string");
        return -1;
    }
    *len = 6;
    high = hex4(p + 2);
    if (high < 0) {
        malformed(r, "four hexadecimal digits expected after \\u");
        return -1;
    }
    if (high < 0xd800 || high > 0xdfff)
        return high;
    low = high < 0xdc00 && p[6] == '\\' && p[7] == 'u' ? hex4(p + 8) : -1;
    if (low < 0xdc00 || low > 0xdfff) {
        malformed(r, "half of a surrogate pair");
        return -1;
    }
    *len = 12;
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

/* The string whose opening quote is at r->p. @p text NULL: checked only. */
static bool scan_string(struct stance_json *r, struct stance_json_text *text)
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
                malformed(r, "a string is not UTF-8 here");
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
                malformed(r, "the text ends within a string");
            else
                malformed(r, "control character 0x%02x within a string", *p);
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
    unexpected(r, "a digit");
    return false;
}

/* Whether the whole part of a number may begin at p. */
static inline bool begins_well(struct stance_json *r, const unsigned char *p)
{
    if (!is_digit(*p))
        return digits_missing(r, p);
    if (*p == '0' && is_digit(p[1])) {
        r->p = p;
        malformed(r, "a number with a leading zero");
        return false;
    }
    return true;
}

static bool skip_number(struct stance_json *r)
{
    const unsigned char *p = r->p + (*r->p == '-');

    if (!begins_well(r, p))
        return false;
    while (is_digit(*p))
        p++;
    if (*p == '.') {
        p++;
        if (!is_digit(*p))
            return digits_missing(r, p);
        while (is_digit(*p))
            p++;
    }
    if ((*p | 0x20) == 'e') {
        p++;
        p += *p == '-' || *p == '+';
        if (!is_digit(*p))
            return digits_missing(r, p);
        while (is_digit(*p))
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

static bool scan_number(struct stance_json *r, struct decimal *d)
{
    const uint64_t       room = (UINT64_MAX - 9) / 10;
    const unsigned char *head = r->p, *p = head + (*head == '-');
    int                  written = 0;

    *d = (struct decimal){ .negative = *head == '-', .whole = true, .exact = true };
    if (!begins_well(r, p))
        return false;
    for (; is_digit(*p); p++) {
        if (d->m > room)
            d->exact = false;
        else
            d->m = d->m * 10 + (*p - '0');
    }
    if (*p == '.') {
        const unsigned char *point = p++;

        d->whole = false;
        for (; is_digit(*p); p++) {
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
        if (!is_digit(*p))
            return digits_missing(r, p);
        for (; is_digit(*p); p++)
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

static bool literal(struct stance_json *r, const char *word)
{
    size_t len = strlen(word);

    if (strncmp((const char *)r->p, word, len) != 0) {
        malformed(r, "a value expected; it is not 'true', 'false' or 'null'");
        return false;
    }
    r->p += len;
    return true;
}

static bool push(struct stance_json *r)
{
    if (r->depth == STANCE_JSON_DEPTH) {
        malformed(r, "more than %d brackets are open", STANCE_JSON_DEPTH);
        return false;
    }
    r->open[r->depth++] = *r->p++;
    return true;
}

static inline void forget(struct stance_json *r)
{
    size_t at = stance_json_offset(r);

    if (at - r->forgotten >= FORGET_BYTES) {
        stance_map_forget(&r->map, r->forgotten, at);
        r->forgotten = at;
    }
}

static bool scan_key(struct stance_json *r, struct stance_json_text *key)
{
    if (*r->p != '"') {
        unexpected(r, "a key in quotes");
        return false;
    }
    if (!scan_string(r, key))
        return false;
    r->p = blanks(r->p);
    if (*r->p != ':') {
        unexpected(r, "':' after a key");
        return false;
    }
    r->p++;
    return true;
}

/* ---- the caller's side ----------------------------------------------------------------------- */

const char *stance_json_kind_word(enum stance_json_kind kind)
{
    static const char *const word[] = { "nothing", "null", "true or false", "a number", "a string",
                                        "an array", "an object" };

    return (unsigned)kind < sizeof word / sizeof *word ? word[kind] : "?";
}

enum stance_json_kind stance_json_peek(struct stance_json *r)
{
    if (failed(r))
        return STANCE_JSON_NONE;
    r->p = blanks(r->p);
    switch (*r->p) {
    case '{': return STANCE_JSON_OBJECT;
    case '[': return STANCE_JSON_ARRAY;
    case '"': return STANCE_JSON_STRING;
    case 't': case 'f': return STANCE_JSON_BOOL;
    case 'n': return STANCE_JSON_NULL;
    case '-':
        if (r->p[1] == 'I') /* as Python writes an infinity */
            break;
        return STANCE_JSON_NUMBER;
    case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        return STANCE_JSON_NUMBER;
    default: break;
    }
    if (strncmp((const char *)r->p, "NaN", 3) == 0 || *r->p == 'I' || *r->p == '-')
        malformed(r, "NaN and Infinity are not numbers in JSON");
    else
        unexpected(r, "a value");
    return STANCE_JSON_NONE;
}

static bool want(struct stance_json *r, enum stance_json_kind kind)
{
    enum stance_json_kind found = stance_json_peek(r);

    r->first = false;
    if (found == kind)
        return true;
    if (found != STANCE_JSON_NONE)
        stance_json_refuse(r, STANCE_ERR_FORMAT, "%s expected, found %s",
                           stance_json_kind_word(kind), stance_json_kind_word(found));
    return false;
}

bool stance_json_object(struct stance_json *r)
{
    if (!want(r, STANCE_JSON_OBJECT) || !push(r))
        return false;
    r->first = true;
    return true;
}

bool stance_json_array(struct stance_json *r)
{
    if (!want(r, STANCE_JSON_ARRAY) || !push(r))
        return false;
    r->first = true;
    return true;
}

/* Passes the comma or the closing bracket. @return whether there is more */
static bool next(struct stance_json *r, unsigned char open, unsigned char close, const char *what)
{
    if (failed(r) || r->depth == 0 || r->open[r->depth - 1] != open) {
        if (!failed(r))
            stance_json_refuse(r, STANCE_ERR_INTERNAL, "no '%c' is open", open);
        return false;
    }
    forget(r);
    r->p = blanks(r->p);
    if (*r->p == close) {
        r->p++;
        r->depth--;
        r->first = false;
        return false;
    }
    if (!r->first) {
        if (*r->p != ',') {
            unexpected(r, what);
            return false;
        }
        r->p = blanks(r->p + 1);
    }
    r->first = false;
    return true;
}

bool stance_json_next_key(struct stance_json *r, struct stance_json_text *key)
{
    return next(r, '{', '}', "',' or '}'") && scan_key(r, key);
}

bool stance_json_next_item(struct stance_json *r)
{
    return next(r, '[', ']', "',' or ']'") && stance_json_peek(r) != STANCE_JSON_NONE;
}

bool stance_json_number(struct stance_json *r, struct stance_json_number *out)
{
    const unsigned char *head;
    struct decimal       d;
    double               v;

    if (!want(r, STANCE_JSON_NUMBER))
        return false;
    head = r->p;
    if (!scan_number(r, &d))
        return false;
    v = decimal_value(r, head, &d);
    if (failed(r))
        return false;
    *out = (struct stance_json_number){ .f64 = v };
    if (d.whole && d.exact && d.m <= (uint64_t)INT64_MAX + d.negative) {
        out->integer = true;
        out->i64     = d.negative ? (int64_t)(0 - d.m) : (int64_t)d.m;
    }
    return true;
}

double stance_json_f64(struct stance_json *r)
{
    struct stance_json_number n;

    return stance_json_number(r, &n) ? n.f64 : 0;
}

int64_t stance_json_i64(struct stance_json *r)
{
    struct stance_json_number n;
    const unsigned char      *head;

    if (!want(r, STANCE_JSON_NUMBER))
        return 0;
    head = r->p;
    if (!stance_json_number(r, &n))
        return 0;
    if (n.integer)
        return n.i64;
    /* 1.0 and 1e3 are integers; beyond 2^53 a binary64 no longer tells which. */
    if (n.f64 == trunc(n.f64) && fabs(n.f64) <= 9007199254740992.0)
        return (int64_t)n.f64;
    r->p = head;
    if (n.f64 == trunc(n.f64))
        stance_json_refuse(r, STANCE_ERR_RANGE, "integer beyond 64 bits");
    else
        stance_json_refuse(r, STANCE_ERR_FORMAT, "an integer expected, found %g", n.f64);
    return 0;
}

bool stance_json_bool(struct stance_json *r)
{
    if (!want(r, STANCE_JSON_BOOL))
        return false;
    if (*r->p == 't')
        return literal(r, "true");
    literal(r, "false");
    return false;
}

void stance_json_null(struct stance_json *r)
{
    if (want(r, STANCE_JSON_NULL))
        literal(r, "null");
}

struct stance_json_text stance_json_string(struct stance_json *r)
{
    struct stance_json_text text = { "", 0 };

    if (want(r, STANCE_JSON_STRING) && !scan_string(r, &text))
        text = (struct stance_json_text){ "", 0 };
    return text;
}

/* One value that is not a bracket. */
static bool skip_scalar(struct stance_json *r)
{
    switch (*r->p) {
    case '"': return scan_string(r, NULL);
    case 't': return literal(r, "true");
    case 'f': return literal(r, "false");
    case 'n': return literal(r, "null");
    default:
        if (is_digit(*r->p))
            return skip_number(r);
        return stance_json_peek(r) == STANCE_JSON_NUMBER && skip_number(r);
    }
}

void stance_json_skip(struct stance_json *r)
{
    int  base  = r->depth;
    bool value = true; /* a value is due; else a comma or a closing bracket */

    if (failed(r))
        return;
    r->first = false;
    do {
        r->p = blanks(r->p);
        if (value) {
            unsigned char c = *r->p;

            if (c == '{' || c == '[') {
                if (!push(r))
                    return;
                r->p = blanks(r->p);
                if (*r->p == c + 2) { /* '}' is '{' + 2, ']' is '[' + 2 */
                    r->p++;
                    r->depth--;
                    value = false;
                } else if (c == '{' && !scan_key(r, NULL)) {
                    return;
                }
            } else if (skip_scalar(r)) {
                value = false;
            } else {
                return;
            }
        } else {
            unsigned char open = r->open[r->depth - 1];

            if (*r->p == ',') {
                r->p++;
                if (open == '{') {
                    r->p = blanks(r->p);
                    if (!scan_key(r, NULL))
                        return;
                }
                value = true;
            } else if (*r->p == open + 2) {
                r->p++;
                r->depth--;
                forget(r);
            } else {
                unexpected(r, open == '{' ? "',' or '}'" : "',' or ']'");
                return;
            }
        }
    } while (value || r->depth > base);
}

stance_status stance_json_finish(struct stance_json *r, struct stance_error *err)
{
    if (!failed(r)) {
        r->p = blanks(r->p);
        if (r->depth > 0)
            stance_json_refuse(r, STANCE_ERR_INTERNAL, "not read to its end");
        else if (r->p < r->end)
            malformed(r, "the document ends before this");
    }
    return stance_json_status(r, err);
}
