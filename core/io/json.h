/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON (RFC 8259): a pull reader for files of any size, and a writer.
 *
 * The reader walks the text once and keeps nothing but the open brackets. The caller says what it
 * expects; what it skips is checked all the same, so a file that is read to its end is JSON
 * throughout. Errors are sticky: after the first one every call returns false or zero, loops end,
 * and stance_json_finish() tells it as "file:line:column: reason".
 *
 *     stance_json_open(path, &r, err);
 *     for (stance_json_object(r); stance_json_next_key(r, &key);)
 *         if (stance_json_is(key, "images"))
 *             for (stance_json_array(r); stance_json_next_item(r);)
 *                 ...
 *         else
 *             stance_json_skip(r);
 *     status = stance_json_finish(r, err);
 *     stance_json_close(r);
 *
 * A key that stands twice in an object comes twice. A byte order mark is passed over. NaN and
 * Infinity are not JSON. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <stance/error.h>

#include <stdio.h>
#include <string.h>

/** Brackets that may be open at once. */
#define STANCE_JSON_DEPTH 512

struct stance_json;

enum stance_json_kind {
    STANCE_JSON_NONE, /**< after an error, or where no value can stand */
    STANCE_JSON_NULL, STANCE_JSON_BOOL, STANCE_JSON_NUMBER, STANCE_JSON_STRING, STANCE_JSON_ARRAY,
    STANCE_JSON_OBJECT
};

/** UTF-8, not zero-terminated; may hold zeros. Valid until the next call that reads on. */
struct stance_json_text { const char *s; size_t len; };

/** f64 is the binary64 nearest to the text; i64 is its value where `integer` says so: written
 *  without fraction and exponent, and within 64 bits. */
struct stance_json_number { double f64; int64_t i64; bool integer; };

static inline bool stance_json_is(struct stance_json_text t, const char *word)
{
    return strlen(word) == t.len && memcmp(t.s, word, t.len) == 0;
}

/** Opens a file. @return STANCE_OK; STANCE_ERR_INPUT (cannot be opened); STANCE_ERR_NOMEM */
stance_status stance_json_open(const char *path, struct stance_json **out,
                               struct stance_error *err) STANCE_MUST_CHECK;
/** Reads a text in memory, which is copied. @param name  stands for the file in messages */
stance_status stance_json_open_memory(const void *data, size_t size, const char *name,
                                      struct stance_json **out,
                                      struct stance_error *err) STANCE_MUST_CHECK;
/** Accepts NULL. */
void stance_json_close(struct stance_json *r);

/** Kind of the next value; consumes nothing. */
enum stance_json_kind stance_json_peek(struct stance_json *r);
/** Word for a kind in messages: "an object", ... */
const char *stance_json_kind_word(enum stance_json_kind kind);

/** The next value must be an object: steps into it. */
bool stance_json_object(struct stance_json *r);
/** Next key of the innermost object. @return false at its end, which is consumed, and after an
 *  error; else the value of the key has to be read or skipped. */
bool stance_json_next_key(struct stance_json *r, struct stance_json_text *key);
/** The next value must be an array: steps into it. */
bool stance_json_array(struct stance_json *r);
/** Whether the innermost array has one more value; its end is consumed. */
bool stance_json_next_item(struct stance_json *r);

bool stance_json_number(struct stance_json *r, struct stance_json_number *out);
/** A number, to the nearest binary64. */
double stance_json_f64(struct stance_json *r);
/** A number of integral value, however written (1, 1.0, 1e3), within 64 bits; else an error. */
int64_t stance_json_i64(struct stance_json *r);
bool stance_json_bool(struct stance_json *r);
void stance_json_null(struct stance_json *r);
/** A string, escapes resolved; "" after an error. */
struct stance_json_text stance_json_string(struct stance_json *r);
/** Passes over one value of any kind. */
void stance_json_skip(struct stance_json *r);

/** Bytes consumed so far. */
size_t stance_json_offset(const struct stance_json *r);
/** Records an error of the caller's at the present place, unless there is one already. */
void stance_json_refuse(struct stance_json *r, stance_status status, const char *fmt, ...)
    STANCE_PRINTF(3, 4);
/** The first error, told; STANCE_OK if there is none. */
stance_status stance_json_status(const struct stance_json *r, struct stance_error *err);
/** Likewise, after checking that nothing follows the document's one value. */
stance_status stance_json_finish(struct stance_json *r, struct stance_error *err) STANCE_MUST_CHECK;

/* ---- writing --------------------------------------------------------------------------------- */

#define STANCE_JSON_OUT_DEPTH 64

/** A writer over a stdio stream. It uses no heap; write errors are found at the end. Commas, line
 *  ends and escapes are its business; that brackets and keys pair is the caller's. */
struct stance_json_out {
    FILE    *file;
    int      indent;  /**< blanks a level; 0: everything on one line */
    int      depth;
    uint64_t filled;  /**< bit d: the bracket at depth d holds something already */
    bool     keyed;   /**< a key was written, its value is due */
};

void stance_json_out_start(struct stance_json_out *o, FILE *file, int indent);
void stance_json_out_object(struct stance_json_out *o);
void stance_json_out_end_object(struct stance_json_out *o);
void stance_json_out_array(struct stance_json_out *o);
void stance_json_out_end_array(struct stance_json_out *o);
void stance_json_out_key(struct stance_json_out *o, const char *key);
/** A string; NULL is written as null. Bytes that are not UTF-8 become U+FFFD. */
void stance_json_out_text(struct stance_json_out *o, const char *text);
void stance_json_out_i64(struct stance_json_out *o, int64_t v);
/** Shortest decimal that reads back to the same binary64; null for NaN and infinities. */
void stance_json_out_f64(struct stance_json_out *o, double v);
/** Shortest decimal that reads back to the same binary32; null likewise. */
void stance_json_out_f32(struct stance_json_out *o, float v);
void stance_json_out_bool(struct stance_json_out *o, bool v);
void stance_json_out_null(struct stance_json_out *o);
/** Ends the line and flushes. The stream stays open. @return STANCE_OK; STANCE_ERR_IO */
stance_status stance_json_out_finish(struct stance_json_out *o, struct stance_error *err)
    STANCE_MUST_CHECK;

#endif
