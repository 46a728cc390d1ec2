/* SPDX-License-Identifier: Apache-2.0
 *
 * Small things about text that the C library does not have. */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stance/common.h>

/** A growing text. Zero-initialise; `failed` is sticky, so a run of appends is checked once. */
struct stance_string {
    char  *s; /**< zero-terminated, or NULL before the first append; owned */
    size_t len, capacity;
    bool   failed;
};

void stance_string_add(struct stance_string *t, const char *fmt, ...) STANCE_PRINTF(2, 3);
void stance_string_free(struct stance_string *t);

/** Reads all of @p text as a decimal number, in the C locale whatever the process has set; "inf" and
 *  "nan" with YAML's leading dot too. @return false if anything is left over. */
bool stance_text_f64(const char *text, double *out);

/** Shortest decimal that reads back to the same value. */
void stance_text_of_f64(double v, char *text, size_t size);

/** Levenshtein distance, for "did you mean". */
int stance_text_distance(const char *a, const char *b);

#endif
