/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the JSON reader: its state, and the scanning of strings and numbers.
 *
 * The text ends in zeros (io/map.h), and zero stands nowhere in JSON: the scanners stop at the end
 * without asking for it. */
#ifndef IO_JSON_SCAN_H
#define IO_JSON_SCAN_H

#include "io/json.h"
#include "io/map.h"

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

#define MALFORMED(r, ...) stance_json_refuse((r), STANCE_ERR_FORMAT, __VA_ARGS__)

/** Refuses what stands at the present place instead of @p what. */
void stance_json_unexpected(struct stance_json *r, const char *what);
/** Reads the string whose opening quote is next. @param text  NULL: it is checked only */
bool stance_json_scan_string(struct stance_json *r, struct stance_json_text *text);
/** Reads the number that begins here. */
bool stance_json_scan_number(struct stance_json *r, struct stance_json_number *out);
/** Passes over it; its value may be beyond binary64. */
bool stance_json_skip_number(struct stance_json *r);

static inline bool stance_json_failed(const struct stance_json *r)
{
    return r->error.status != STANCE_OK;
}

static inline const unsigned char *stance_json_blanks(const unsigned char *p)
{
    while (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')
        p++;
    return p;
}

static inline bool stance_json_is_digit(unsigned char c)
{
    return (unsigned)c - '0' < 10;
}

#endif
