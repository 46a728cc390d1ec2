/* SPDX-License-Identifier: Apache-2.0
 *
 * One vector of LANES binary32 numbers, in three makes: CPU_SIMD 512 (AVX-512), 256 (AVX2, FMA, F16C)
 * and 128 (any machine GCC's vectors know). LANES is the block of channels that oneDNN's kernels for
 * the same instruction set want: 16, or 8. Only passes_*.c include this. */
#ifndef CPU_SIMD_H
#define CPU_SIMD_H

#include "half.h"

#define INLINE static inline __attribute__((always_inline, unused))

#if CPU_SIMD == 512
#include <immintrin.h>
#define LANES 16
typedef __m512   vec;
typedef uint16_t vec_mask;

INLINE vec vec_set(float v) { return _mm512_set1_ps(v); }
INLINE vec vec_load_f32(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vec_store_f32(float *p, vec v) { _mm512_storeu_ps(p, v); }
INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
INLINE vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
INLINE vec vec_sqrt(vec a) { return _mm512_sqrt_ps(a); }
INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
/* The second operand of max is returned when one is NaN, so NaN passes. */
INLINE vec vec_relu(vec a) { return _mm512_max_ps(_mm512_setzero_ps(), a); }
INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
INLINE vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
INLINE vec vec_abs(vec a) { return _mm512_abs_ps(a); }
INLINE vec_mask vec_not_le(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ); }
INLINE vec_mask vec_gt(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
INLINE vec_mask vec_eq(vec a, vec b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE vec_mask vec_nan(vec a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
INLINE vec vec_keep(vec_mask m, vec a) { return _mm512_maskz_mov_ps(m, a); }
INLINE vec vec_pick(vec_mask m, vec a, vec b) { return _mm512_mask_blend_ps(m, b, a); }
INLINE vec vec_gather(const float *p, const int32_t *index)
{
    return _mm512_i32gather_ps(_mm512_loadu_si512(index), p, 4);
}
INLINE vec vec_load_bf16(const uint16_t *p)
{
    __m512i w = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));

    return _mm512_castsi512_ps(_mm512_slli_epi32(w, 16));
}
/* Integer rounding, not VCVTNEPS2BF16: that one flushes subnormals. The sum is exact in 32 bits for
 * every number; NaN is put in afterwards. */
INLINE __m512i vec_bits_bf16(vec v)
{
    __m512i u   = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    __m512i r   = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));

    return _mm512_mask_or_epi32(r, vec_nan(v), u, _mm512_set1_epi32(0x400000));
}
INLINE void vec_store_bf16(uint16_t *p, vec v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(vec_bits_bf16(v), 16)));
}
INLINE vec vec_round_bf16(vec v)
{
    return _mm512_castsi512_ps(_mm512_and_si512(vec_bits_bf16(v), _mm512_set1_epi32((int)0xffff0000)));
}
INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
INLINE void vec_store_f16(uint16_t *p, vec v)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE vec vec_round_f16(vec v)
{
    return _mm512_cvtph_ps(_mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE vec vec_load_u8(const uint8_t *p)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
INLINE void vec_store_u8(uint8_t *p, vec v)
{
    _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(v)));
}

typedef struct { __m512d lo, hi; } vec_f64;

INLINE vec_f64 vec_f64_zero(void) { return (vec_f64){ _mm512_setzero_pd(), _mm512_setzero_pd() }; }
INLINE vec_f64 vec_f64_add_square(vec_f64 s, vec v)
{
    __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    __m512d b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));

    return (vec_f64){ _mm512_fmadd_pd(a, a, s.lo), _mm512_fmadd_pd(b, b, s.hi) };
}
INLINE void vec_f64_store(double *p, vec_f64 s)
{
    _mm512_storeu_pd(p, s.lo);
    _mm512_storeu_pd(p + 8, s.hi);
}

#elif CPU_SIMD == 256
#include <immintrin.h>
#define LANES 8
typedef __m256  vec;
typedef uint8_t vec_mask;

INLINE vec vec_set(float v) { return _mm256_set1_ps(v); }
INLINE vec vec_load_f32(const float *p) { return _mm256_loadu_ps(p); }
INLINE void vec_store_f32(float *p, vec v) { _mm256_storeu_ps(p, v); }
INLINE vec vec_add(vec a, vec b) { return _mm256_add_ps(a, b); }
INLINE vec vec_sub(vec a, vec b) { return _mm256_sub_ps(a, b); }
INLINE vec vec_mul(vec a, vec b) { return _mm256_mul_ps(a, b); }
INLINE vec vec_div(vec a, vec b) { return _mm256_div_ps(a, b); }
INLINE vec vec_sqrt(vec a) { return _mm256_sqrt_ps(a); }
INLINE vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vec vec_relu(vec a) { return _mm256_max_ps(_mm256_setzero_ps(), a); }
INLINE vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
INLINE vec vec_min(vec a, vec b) { return _mm256_min_ps(a, b); }
INLINE vec vec_abs(vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INLINE vec_mask vec_bits(vec a) { return (vec_mask)_mm256_movemask_ps(a); }
INLINE vec_mask vec_not_le(vec a, vec b) { return vec_bits(_mm256_cmp_ps(a, b, _CMP_NLE_UQ)); }
INLINE vec_mask vec_gt(vec a, vec b) { return vec_bits(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
INLINE vec_mask vec_eq(vec a, vec b) { return vec_bits(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
INLINE vec_mask vec_nan(vec a) { return vec_bits(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)); }
INLINE vec vec_lanes(vec_mask m)
{
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);

    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(m), bit), bit));
}
INLINE vec vec_keep(vec_mask m, vec a) { return _mm256_and_ps(vec_lanes(m), a); }
INLINE vec vec_pick(vec_mask m, vec a, vec b) { return _mm256_blendv_ps(b, a, vec_lanes(m)); }
INLINE vec vec_gather(const float *p, const int32_t *index)
{
    return _mm256_i32gather_ps(p, _mm256_loadu_si256((const __m256i *)index), 4);
}
INLINE vec vec_load_bf16(const uint16_t *p)
{
    __m256i w = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));

    return _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
}
INLINE vec vec_round_bf16(vec v)
{
    __m256i u   = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    __m256i r   = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    __m256i q   = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
    vec     w   = _mm256_blendv_ps(_mm256_castsi256_ps(r), _mm256_castsi256_ps(q),
                                   _mm256_cmp_ps(v, v, _CMP_UNORD_Q));

    return _mm256_and_ps(w, _mm256_castsi256_ps(_mm256_set1_epi32((int)0xffff0000)));
}
INLINE void vec_store_bf16(uint16_t *p, vec v)
{
    __m256i w = _mm256_srli_epi32(_mm256_castps_si256(vec_round_bf16(v)), 16);

    w = _mm256_permute4x64_epi64(_mm256_packus_epi32(w, w), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(w));
}
INLINE vec vec_load_f16(const uint16_t *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE void vec_store_f16(uint16_t *p, vec v)
{
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE vec vec_round_f16(vec v)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
INLINE vec vec_load_u8(const uint8_t *p)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE void vec_store_u8(uint8_t *p, vec v)
{
    __m256i w = _mm256_cvttps_epi32(v);
    __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));

    _mm_storel_epi64((__m128i *)p, _mm_packus_epi16(h, h));
}

typedef struct { __m256d lo, hi; } vec_f64;

INLINE vec_f64 vec_f64_zero(void) { return (vec_f64){ _mm256_setzero_pd(), _mm256_setzero_pd() }; }
INLINE vec_f64 vec_f64_add_square(vec_f64 s, vec v)
{
    __m256d a = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    __m256d b = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));

    return (vec_f64){ _mm256_fmadd_pd(a, a, s.lo), _mm256_fmadd_pd(b, b, s.hi) };
}
INLINE void vec_f64_store(double *p, vec_f64 s)
{
    _mm256_storeu_pd(p, s.lo);
    _mm256_storeu_pd(p + 4, s.hi);
}

#else
#include <math.h>
#define LANES 8
typedef struct { float v[8] __attribute__((aligned(16))); } vec;
typedef uint8_t vec_mask;

/* Plain loops of a fixed length of 8: the compiler makes of them what the machine has. */
#define VEC_EACH for (int i_ = 0; i_ < 8; i_++)
#define VEC_MAP(expr) vec r_; VEC_EACH r_.v[i_] = (expr); return r_
#define VEC_TEST(expr) unsigned m_ = 0; VEC_EACH m_ |= (unsigned)(expr) << i_; return (vec_mask)m_

INLINE vec vec_set(float v) { VEC_MAP(v); }
INLINE vec vec_load_f32(const float *p) { VEC_MAP(p[i_]); }
INLINE void vec_store_f32(float *p, vec v) { VEC_EACH p[i_] = v.v[i_]; }
INLINE vec vec_add(vec a, vec b) { VEC_MAP(a.v[i_] + b.v[i_]); }
INLINE vec vec_sub(vec a, vec b) { VEC_MAP(a.v[i_] - b.v[i_]); }
INLINE vec vec_mul(vec a, vec b) { VEC_MAP(a.v[i_] * b.v[i_]); }
INLINE vec vec_div(vec a, vec b) { VEC_MAP(a.v[i_] / b.v[i_]); }
INLINE vec vec_sqrt(vec a) { VEC_MAP(sqrtf(a.v[i_])); }
INLINE vec vec_fma(vec a, vec b, vec c) { VEC_MAP(a.v[i_] * b.v[i_] + c.v[i_]); }
INLINE vec vec_relu(vec a) { VEC_MAP(a.v[i_] <= 0 ? 0 : a.v[i_]); }
INLINE vec vec_max(vec a, vec b) { VEC_MAP(a.v[i_] > b.v[i_] ? a.v[i_] : b.v[i_]); }
INLINE vec vec_min(vec a, vec b) { VEC_MAP(a.v[i_] < b.v[i_] ? a.v[i_] : b.v[i_]); }
INLINE vec vec_abs(vec a) { VEC_MAP(fabsf(a.v[i_])); }
INLINE vec_mask vec_not_le(vec a, vec b) { VEC_TEST(!(a.v[i_] <= b.v[i_])); }
INLINE vec_mask vec_gt(vec a, vec b) { VEC_TEST(a.v[i_] > b.v[i_]); }
INLINE vec_mask vec_eq(vec a, vec b) { VEC_TEST(a.v[i_] == b.v[i_]); }
INLINE vec_mask vec_nan(vec a) { VEC_TEST(a.v[i_] != a.v[i_]); }
INLINE vec vec_keep(vec_mask m, vec a) { VEC_MAP(m >> i_ & 1 ? a.v[i_] : 0); }
INLINE vec vec_pick(vec_mask m, vec a, vec b) { VEC_MAP(m >> i_ & 1 ? a.v[i_] : b.v[i_]); }
INLINE vec vec_gather(const float *p, const int32_t *index) { VEC_MAP(p[index[i_]]); }
INLINE vec vec_load_bf16(const uint16_t *p) { VEC_MAP(half_from_bf16(p[i_])); }
INLINE void vec_store_bf16(uint16_t *p, vec v) { VEC_EACH p[i_] = half_to_bf16(v.v[i_]); }
INLINE vec vec_round_bf16(vec v) { VEC_MAP(half_from_bf16(half_to_bf16(v.v[i_]))); }
INLINE vec vec_load_f16(const uint16_t *p) { VEC_MAP(half_from_f16(p[i_])); }
INLINE void vec_store_f16(uint16_t *p, vec v) { VEC_EACH p[i_] = half_to_f16(v.v[i_]); }
INLINE vec vec_round_f16(vec v) { VEC_MAP(half_from_f16(half_to_f16(v.v[i_]))); }
INLINE vec vec_load_u8(const uint8_t *p) { VEC_MAP((float)p[i_]); }
INLINE void vec_store_u8(uint8_t *p, vec v) { VEC_EACH p[i_] = (uint8_t)v.v[i_]; }

typedef struct { double v[8]; } vec_f64;

INLINE vec_f64 vec_f64_zero(void) { return (vec_f64){ { 0 } }; }
INLINE vec_f64 vec_f64_add_square(vec_f64 s, vec v)
{
    VEC_EACH s.v[i_] += (double)v.v[i_] * v.v[i_];
    return s;
}
INLINE void vec_f64_store(double *p, vec_f64 s) { VEC_EACH p[i_] = s.v[i_]; }
#endif

/* Loads and stores by kind. The kind is a constant where these are used, so each becomes one branch. */
INLINE vec vec_load(enum cpu_kind k, const void *p, int64_t i)
{
    return k == CPU_BF16  ? vec_load_bf16((const uint16_t *)p + i)
           : k == CPU_F16 ? vec_load_f16((const uint16_t *)p + i)
                          : vec_load_f32((const float *)p + i);
}

INLINE vec vec_round(enum cpu_kind k, vec v)
{
    return k == CPU_BF16 || k == CPU_F32_OF_BF16 ? vec_round_bf16(v)
           : k == CPU_F16 || k == CPU_F32_OF_F16 ? vec_round_f16(v)
                                                 : v;
}

INLINE void vec_store(enum cpu_kind k, void *p, int64_t i, vec v)
{
    if (k == CPU_BF16)
        vec_store_bf16((uint16_t *)p + i, v);
    else if (k == CPU_F16)
        vec_store_f16((uint16_t *)p + i, v);
    else
        vec_store_f32((float *)p + i, vec_round(k, v));
}

/** Fewer than LANES values at the end of an array; the others read as 0 and are not written. */
INLINE vec vec_load_some(enum cpu_kind k, const void *p, int64_t i, int64_t n)
{
    float    f[LANES] = { 0 };
    uint16_t h[LANES] = { 0 };

    if (k == CPU_BF16 || k == CPU_F16) {
        memcpy(h, (const uint16_t *)p + i, (size_t)n * sizeof *h);
        return vec_load(k, h, 0);
    }
    memcpy(f, (const float *)p + i, (size_t)n * sizeof *f);
    return vec_load_f32(f);
}

INLINE void vec_store_some(enum cpu_kind k, void *p, int64_t i, int64_t n, vec v)
{
    float    f[LANES];
    uint16_t h[LANES];

    if (k == CPU_BF16 || k == CPU_F16) {
        vec_store(k, h, 0, v);
        memcpy((uint16_t *)p + i, h, (size_t)n * sizeof *h);
    } else {
        vec_store(k, f, 0, v);
        memcpy((float *)p + i, f, (size_t)n * sizeof *f);
    }
}

INLINE vec vec_zero(void)
{
    return vec_set(0);
}

#endif
