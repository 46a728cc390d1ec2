/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing beyond U+10FFFF. */
#ifndef IO_UTF8_H
#define IO_UTF8_H

#include <stddef.h>
#include <stdint.h>

/** Bytes of the well-formed sequence at @p p, which ends before @p end; 0 if there is none. */
static inline size_t stance_utf8_length(const unsigned char *p, const unsigned char *end)
{
    size_t   left = (size_t)(end - p);
    unsigned a    = left > 0 ? p[0] : 0xff;
    unsigned low = 0x80, high = 0xbf; /* of the second byte */
    size_t   n;

    if (a < 0x80)
        return 1;
    if (a < 0xc2 || a > 0xf4)
        return 0;
    n = a < 0xe0 ? 2 : a < 0xf0 ? 3 : 4;
    if (a == 0xe0)
        low = 0xa0;
    else if (a == 0xed)
        high = 0x9f;
    else if (a == 0xf0)
        low = 0x90;
    else if (a == 0xf4)
        high = 0x8f;
    if (left < n || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

/** Writes the code point @p c. @param out  room for 4 bytes @return bytes written */
static inline size_t stance_utf8_encode(uint32_t c, char *out)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

#endif
