/* SPDX-License-Identifier: Apache-2.0
 *
 * The passes for any machine. */
#include "passes.h"

#include <math.h>

#define CPU_SIMD 128
#define PASSES_NAME stance_cpu_passes_base
#define PASSES_ISA "portable"
#include "simd.h"

#include "passes_table.h"
