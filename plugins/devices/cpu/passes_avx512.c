/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes for AVX-512 (F, BW, DQ, VL). The target is set here and not by compiler flags, so that the
 * rest of the plugin runs on any x86-64; GCC's target_clones would lower wide vectors before it clones. */
#include "passes.h"

#include <math.h>

#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi2")
#endif

#define CPU_SIMD 512
#define PASSES_NAME stance_cpu_passes_avx512
#define PASSES_ISA "AVX-512"
#include "simd.h"

#include "passes_table.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
