/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4) of a block of memory, to compare tensors with golden ones. */
#ifndef TESTS_SHA256_H
#define TESTS_SHA256_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static inline uint32_t sha256_turn(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* The constants are the first 32 bits of the fractions of square and cube roots of primes. The long
 * double of x86 has 64 bits, enough for 32 behind the point. */
static inline void sha256_constants(uint32_t h[8], uint32_t k[64])
{
    int n = 0;

    for (int p = 2; n < 64; p++) {
        bool prime = true;

        for (int d = 2; d * d <= p; d++)
            prime = prime && p % d != 0;
        if (!prime)
            continue;
        if (n < 8)
            h[n] = (uint32_t)(int64_t)(ldexpl(sqrtl(p) - floorl(sqrtl(p)), 32));
        k[n++] = (uint32_t)(int64_t)(ldexpl(cbrtl(p) - floorl(cbrtl(p)), 32));
    }
}

/** @param[out] hex  64 digits and a zero */
static inline void sha256(const void *data, size_t size, char hex[65])
{
    uint32_t h[8], k[64];
    size_t   padded = (size + 9 + 63) / 64 * 64;

    sha256_constants(h, k);
    for (size_t at = 0; at < padded; at += 64) {
        unsigned char block[64];
        uint32_t      w[64], s[8];

        for (size_t i = 0; i < 64; i++) {
            size_t j = at + i;

            block[i] = j < size                ? ((const unsigned char *)data)[j]
                       : j == size             ? 0x80
                       : j >= padded - 8       ? (unsigned char)((uint64_t)size * 8 >> 8 * (padded - 1 - j))
                                               : 0;
        }
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16
                   | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
        for (int i = 16; i < 64; i++)
            w[i] = w[i - 16] + w[i - 7]
                   + (sha256_turn(w[i - 15], 7) ^ sha256_turn(w[i - 15], 18) ^ w[i - 15] >> 3)
                   + (sha256_turn(w[i - 2], 17) ^ sha256_turn(w[i - 2], 19) ^ w[i - 2] >> 10);
        memcpy(s, h, sizeof s);
        for (int i = 0; i < 64; i++) {
            uint32_t a = s[0], e = s[4];
            uint32_t one = s[7] + (sha256_turn(e, 6) ^ sha256_turn(e, 11) ^ sha256_turn(e, 25))
                           + ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
            uint32_t two = (sha256_turn(a, 2) ^ sha256_turn(a, 13) ^ sha256_turn(a, 22))
                           + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));

            memmove(s + 1, s, 7 * sizeof *s);
            s[4] += one;
            s[0] = one + two;
        }
        for (int i = 0; i < 8; i++)
            h[i] += s[i];
    }
    for (int i = 0; i < 8; i++)
        snprintf(hex + 8 * i, 9, "%08x", h[i]);
}

#endif
