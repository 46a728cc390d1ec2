/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/entry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weight files are little-endian; this reader does not swap"
#endif

static const struct { const char *word; size_t size; } types[STANCE_DTYPE_COUNT] = {
    [STANCE_DTYPE_F64] = { "F64", 8 },   [STANCE_DTYPE_F32] = { "F32", 4 },
    [STANCE_DTYPE_F16] = { "F16", 2 },   [STANCE_DTYPE_BF16] = { "BF16", 2 },
    [STANCE_DTYPE_I64] = { "I64", 8 },   [STANCE_DTYPE_I32] = { "I32", 4 },
    [STANCE_DTYPE_I16] = { "I16", 2 },   [STANCE_DTYPE_I8] = { "I8", 1 },
    [STANCE_DTYPE_U64] = { "U64", 8 },   [STANCE_DTYPE_U32] = { "U32", 4 },
    [STANCE_DTYPE_U16] = { "U16", 2 },   [STANCE_DTYPE_U8] = { "U8", 1 },
    [STANCE_DTYPE_BOOL] = { "BOOL", 1 },
};

size_t stance_dtype_size(enum stance_dtype t)
{
    return types[t].size;
}

const char *stance_dtype_word(enum stance_dtype t)
{
    return (unsigned)t < STANCE_DTYPE_COUNT ? types[t].word : "?";
}

enum stance_dtype stance_dtype_of(const char *word, size_t len)
{
    int t = 0;

    while (t < STANCE_DTYPE_COUNT
           && (strlen(types[t].word) != len || memcmp(types[t].word, word, len) != 0))
        t++;
    return (enum stance_dtype)t;
}

bool stance_entry_size(struct stance_entry *e)
{
    int64_t bytes = (int64_t)stance_dtype_size(e->dtype);
    bool    none  = false;

    for (int i = 0; i < e->rank; i++) {
        if (e->dim[i] < 0)
            return false;
        /* A dimension of 0 makes the product 0, but does not excuse the others. */
        if (e->dim[i] == 0)
            none = true;
        else if (__builtin_mul_overflow(bytes, e->dim[i], &bytes))
            return false;
    }
    if ((uint64_t)bytes > SIZE_MAX)
        return false;
    e->bytes = none ? 0 : (size_t)bytes;
    return true;
}

void stance_entry_shape_text(int32_t rank, const int64_t *dim, char *text, size_t size)
{
    size_t used = 0;

    snprintf(text, size, "scalar");
    for (int i = 0; i < rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? "x" : "",
                                 (long long)dim[i]);
}

static float f32_of_bits(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, sizeof v);
    return v;
}

float stance_bf16_to_f32(uint16_t h)
{
    return f32_of_bits((uint32_t)h << 16);
}

float stance_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31, fraction = h & 0x3ff;

    if (exponent == 31)
        return f32_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0)
        return f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    /* Subnormal: an integer times 2^-24, a product without rounding. */
    return sign != 0 ? -(float)fraction * 0x1p-24f : (float)fraction * 0x1p-24f;
}

/* One element at p, widened to OUT. F64 and long integers may lose bits in a float; the caller's
 * header says so. */
#define WIDEN(OUT, p, ctype)                                       \
    for (size_t i = 0; i < count; i++) {                           \
        ctype v;                                                   \
                                                                   \
        memcpy(&v, (p) + i * sizeof v, sizeof v);                  \
        out[i] = (OUT)v;                                           \
    }                                                              \
    break

#define WIDEN_ALL(OUT)                                                             \
    const unsigned char *p = (const unsigned char *)e->data                        \
                             + first * stance_dtype_size(e->dtype);                \
    switch (e->dtype) {                                                            \
    case STANCE_DTYPE_F64: WIDEN(OUT, p, double);                                  \
    case STANCE_DTYPE_F32: WIDEN(OUT, p, float);                                   \
    case STANCE_DTYPE_I64: WIDEN(OUT, p, int64_t);                                 \
    case STANCE_DTYPE_I32: WIDEN(OUT, p, int32_t);                                 \
    case STANCE_DTYPE_I16: WIDEN(OUT, p, int16_t);                                 \
    case STANCE_DTYPE_I8: WIDEN(OUT, p, int8_t);                                   \
    case STANCE_DTYPE_U64: WIDEN(OUT, p, uint64_t);                                \
    case STANCE_DTYPE_U32: WIDEN(OUT, p, uint32_t);                                \
    case STANCE_DTYPE_U16: WIDEN(OUT, p, uint16_t);                                \
    case STANCE_DTYPE_U8: WIDEN(OUT, p, uint8_t);                                  \
    case STANCE_DTYPE_BOOL:                                                        \
        for (size_t i = 0; i < count; i++)                                         \
            out[i] = (OUT)(p[i] != 0);                                             \
        break;                                                                     \
    case STANCE_DTYPE_F16:                                                         \
    case STANCE_DTYPE_BF16:                                                        \
        for (size_t i = 0; i < count; i++) {                                       \
            uint16_t h;                                                            \
                                                                                   \
            memcpy(&h, p + 2 * i, 2);                                              \
            out[i] = (OUT)(e->dtype == STANCE_DTYPE_F16 ? stance_f16_to_f32(h)     \
                                                        : stance_bf16_to_f32(h));  \
        }                                                                          \
        break;                                                                     \
    case STANCE_DTYPE_COUNT: break;                                                \
    }

void stance_entry_f32(const struct stance_entry *e, size_t first, size_t count, float *out)
{
    if (count == 0)
        return;
    if (e->dtype == STANCE_DTYPE_F32) {
        memcpy(out, (const unsigned char *)e->data + 4 * first, 4 * count);
        return;
    }
    WIDEN_ALL(float)
}

void stance_entry_f64(const struct stance_entry *e, size_t first, size_t count, double *out)
{
    if (count == 0)
        return;
    WIDEN_ALL(double)
}

bool stance_entry_i64(const struct stance_entry *e, size_t first, size_t count, int64_t *out)
{
    const unsigned char *p;

    if (count == 0)
        return true;
    p = (const unsigned char *)e->data + first * stance_dtype_size(e->dtype);
    switch (e->dtype) {
    case STANCE_DTYPE_I64:
        memcpy(out, p, 8 * count);
        return true;
    case STANCE_DTYPE_U64:
        memcpy(out, p, 8 * count);
        for (size_t i = 0; i < count; i++)
            if (out[i] < 0)
                return false;
        return true;
    default:
        for (size_t i = 0; i < count; i++) {
            double v;

            stance_entry_f64(e, first + i, 1, &v);
            if (!(v >= -0x1p63 && v < 0x1p63) || v != trunc(v))
                return false;
            out[i] = (int64_t)v;
        }
        return true;
    }
}
