/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
#ifndef EVAL_UTF8_H
#define EVAL_UTF8_H

#include <stddef.h>

/** Bytes of the sequence at @p p, which ends before @p end; 0 if there is none. */
static inline size_t stance_utf8_length(const unsigned char *p, const unsigned char *end)
{
    size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;

    if (n > (size_t)(end - p))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90)
        || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

#endif
