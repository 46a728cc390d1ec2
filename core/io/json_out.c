/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "io/json.h"
#include "io/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void stance_json_out_start(struct stance_json_out *o, FILE *file, int indent)
{
    *o = (struct stance_json_out){ .file = file, .indent = indent };
}

static void new_line(struct stance_json_out *o)
{
    if (o->indent > 0)
        fprintf(o->file, "\n%*s", o->indent * o->depth, "");
}

/* What stands before a value or a key: comma, line end, blanks. */
static void lead(struct stance_json_out *o)
{
    uint64_t bit = (uint64_t)1 << o->depth;

    if (o->keyed) {
        o->keyed = false;
        return;
    }
    if (o->depth > 0) {
        if ((o->filled & bit) != 0)
            fputs(o->indent > 0 ? "," : ", ", o->file);
        new_line(o);
    }
    o->filled |= bit;
}

static void open_bracket(struct stance_json_out *o, int c)
{
    lead(o);
    fputc(c, o->file);
    if (o->depth < STANCE_JSON_OUT_DEPTH - 1)
        o->depth++;
    o->filled &= ~((uint64_t)1 << o->depth);
}

static void close_bracket(struct stance_json_out *o, int c)
{
    bool filled = (o->filled >> o->depth & 1) != 0;

    if (o->depth > 0)
        o->depth--;
    if (filled)
        new_line(o);
    fputc(c, o->file);
}

void stance_json_out_object(struct stance_json_out *o)
{
    open_bracket(o, '{');
}

void stance_json_out_end_object(struct stance_json_out *o)
{
    close_bracket(o, '}');
}

void stance_json_out_array(struct stance_json_out *o)
{
    open_bracket(o, '[');
}

void stance_json_out_end_array(struct stance_json_out *o)
{
    close_bracket(o, ']');
}

static void quoted(FILE *f, const char *text)
{
    const unsigned char *p = (const unsigned char *)text, *end = p + strlen(text);

    fputc('"', f);
    while (p < end) {
        size_t len = stance_utf8_length(p, end);

        if (len == 0) {
            fputs("\xef\xbf\xbd", f);
            p++;
            continue;
        }
        if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", f);
        else if (*p == '\t')
            fputs("\\t", f);
        else if (*p < ' ' || *p == 0x7f)
            fprintf(f, "\\u%04x", *p);
        else
            fwrite(p, 1, len, f);
        p += len;
    }
    fputc('"', f);
}

void stance_json_out_key(struct stance_json_out *o, const char *key)
{
    lead(o);
    quoted(o->file, key);
    fputs(": ", o->file);
    o->keyed = true;
}

void stance_json_out_text(struct stance_json_out *o, const char *text)
{
    lead(o);
    if (text != NULL)
        quoted(o->file, text);
    else
        fputs("null", o->file);
}

void stance_json_out_i64(struct stance_json_out *o, int64_t v)
{
    lead(o);
    fprintf(o->file, "%" PRId64, v);
}

/* Whatever the locale's decimal sign is, in one byte or more, it becomes a point. */
static void to_point(char *text)
{
    char *to = text;
    bool  sign = false;

    for (const char *c = text; *c != '\0'; c++) {
        if (strchr("0123456789+-e", *c) != NULL)
            *to++ = *c;
        else if (!sign) {
            *to++ = '.';
            sign  = true;
        }
    }
    *to = '\0';
}

/* The fewest digits are at most 17 for binary64 and 9 for binary32, and every decimal of 15 or 6
 * digits survives; %g drops the zeros behind. */
static void number(struct stance_json_out *o, double v, bool single)
{
    char   text[64];
    double back;

    lead(o);
    if (!isfinite(v)) {
        fputs("null", o->file);
        return;
    }
    if (v == trunc(v) && fabs(v) < 1e15) {
        fprintf(o->file, signbit(v) && v == 0 ? "-0.0" : "%.0f", v);
        return;
    }
    for (int digits = single ? 6 : 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        to_point(text);
        if (stance_text_f64(text, &back) && (single ? (float)back == (float)v : back == v))
            break;
    }
    fputs(text, o->file);
}

void stance_json_out_f64(struct stance_json_out *o, double v)
{
    number(o, v, false);
}

void stance_json_out_f32(struct stance_json_out *o, float v)
{
    number(o, (double)v, true);
}

void stance_json_out_bool(struct stance_json_out *o, bool v)
{
    lead(o);
    fputs(v ? "true" : "false", o->file);
}

void stance_json_out_null(struct stance_json_out *o)
{
    lead(o);
    fputs("null", o->file);
}

stance_status stance_json_out_finish(struct stance_json_out *o, struct stance_error *err)
{
    errno = 0;
    fputc('\n', o->file);
    if (fflush(o->file) != 0 || ferror(o->file))
        return STANCE_FAIL(err, STANCE_ERR_IO, "writing JSON: %s",
                           errno != 0 ? strerror(errno) : "the stream failed");
    return STANCE_OK;
}
