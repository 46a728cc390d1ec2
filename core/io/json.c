/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/json_scan.h"

#include <stance/alloc.h>

#include <math.h>
#include <stdarg.h>

/* Read pages are given back in portions of this size, so that a file of any length needs only that
 * much memory. */
#define FORGET_BYTES ((size_t)4 << 20)

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

void stance_json_refuse(struct stance_json *r, stance_status status, const char *fmt, ...)
{
    size_t               line = 1;
    const unsigned char *head = r->map.data;
    char                 reason[512];
    va_list              ap;

    if (stance_json_failed(r))
        return;
    for (const unsigned char *q = head;
         q < r->p && (q = memchr(q, '\n', (size_t)(r->p - q))) != NULL; q++) {
        line++;
        head = q + 1;
    }
    va_start(ap, fmt);
    vsnprintf(reason, sizeof reason, fmt, ap);
    va_end(ap);
    STANCE_FAIL(&r->error, status, "%s:%zu:%zu: %s", r->name, line, (size_t)(r->p - head) + 1,
                reason);
    r->depth = 0;
}

stance_status stance_json_status(const struct stance_json *r, struct stance_error *err)
{
    if (r->error.status != STANCE_OK && err != NULL)
        *err = r->error;
    return r->error.status;
}

/* ---- words, brackets, keys ------------------------------------------------------------------- */

static bool literal(struct stance_json *r, const char *word)
{
    size_t len = strlen(word);

    if (strncmp((const char *)r->p, word, len) != 0) {
        MALFORMED(r, "a value expected; it is not 'true', 'false' or 'null'");
        return false;
    }
    r->p += len;
    return true;
}

static bool push(struct stance_json *r)
{
    if (r->depth == STANCE_JSON_DEPTH) {
        MALFORMED(r, "more than %d brackets are open", STANCE_JSON_DEPTH);
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
        stance_json_unexpected(r, "a key in quotes");
        return false;
    }
    if (!stance_json_scan_string(r, key))
        return false;
    r->p = stance_json_blanks(r->p);
    if (*r->p != ':') {
        stance_json_unexpected(r, "':' after a key");
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
    if (stance_json_failed(r))
        return STANCE_JSON_NONE;
    r->p = stance_json_blanks(r->p);
    if (stance_json_is_digit(*r->p))
        return STANCE_JSON_NUMBER;
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
    default: break;
    }
    if (strncmp((const char *)r->p, "NaN", 3) == 0 || *r->p == 'I' || *r->p == '-')
        MALFORMED(r, "NaN and Infinity are not numbers in JSON");
    else
        stance_json_unexpected(r, "a value");
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
    if (stance_json_failed(r) || r->depth == 0 || r->open[r->depth - 1] != open) {
        if (!stance_json_failed(r))
            stance_json_refuse(r, STANCE_ERR_INTERNAL, "no '%c' is open", open);
        return false;
    }
    forget(r);
    r->p = stance_json_blanks(r->p);
    if (*r->p == close) {
        r->p++;
        r->depth--;
        r->first = false;
        return false;
    }
    if (!r->first) {
        if (*r->p != ',') {
            stance_json_unexpected(r, what);
            return false;
        }
        r->p = stance_json_blanks(r->p + 1);
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
    return want(r, STANCE_JSON_NUMBER) && stance_json_scan_number(r, out);
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

    if (want(r, STANCE_JSON_STRING) && !stance_json_scan_string(r, &text))
        text = (struct stance_json_text){ "", 0 };
    return text;
}

/* One value that is not a bracket. */
static bool skip_scalar(struct stance_json *r)
{
    switch (*r->p) {
    case '"': return stance_json_scan_string(r, NULL);
    case 't': return literal(r, "true");
    case 'f': return literal(r, "false");
    case 'n': return literal(r, "null");
    default:
        if (stance_json_is_digit(*r->p))
            return stance_json_skip_number(r);
        return stance_json_peek(r) == STANCE_JSON_NUMBER && stance_json_skip_number(r);
    }
}

void stance_json_skip(struct stance_json *r)
{
    int  base  = r->depth;
    bool value = true; /* a value is due; else a comma or a closing bracket */

    if (stance_json_failed(r))
        return;
    r->first = false;
    do {
        r->p = stance_json_blanks(r->p);
        if (value) {
            unsigned char c = *r->p;

            if (c == '{' || c == '[') {
                if (!push(r))
                    return;
                r->p = stance_json_blanks(r->p);
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
                    r->p = stance_json_blanks(r->p);
                    if (!scan_key(r, NULL))
                        return;
                }
                value = true;
            } else if (*r->p == open + 2) {
                r->p++;
                r->depth--;
                forget(r);
            } else {
                stance_json_unexpected(r, open == '{' ? "',' or '}'" : "',' or ']'");
                return;
            }
        }
    } while (value || r->depth > base);
}

stance_status stance_json_finish(struct stance_json *r, struct stance_error *err)
{
    if (!stance_json_failed(r)) {
        r->p = stance_json_blanks(r->p);
        if (r->depth > 0)
            stance_json_refuse(r, STANCE_ERR_INTERNAL, "not read to its end");
        else if (r->p < r->end)
            MALFORMED(r, "the document ends before this");
    }
    return stance_json_status(r, err);
}
