/* SPDX-License-Identifier: Apache-2.0
 *
 * A named tensor as a file holds it. */
#ifndef IO_ENTRY_H
#define IO_ENTRY_H

#include <stance/common.h>

/** Types of elements in weight files, with the words of safetensors. */
enum stance_dtype {
    STANCE_DTYPE_F64, STANCE_DTYPE_F32, STANCE_DTYPE_F16, STANCE_DTYPE_BF16, STANCE_DTYPE_I64,
    STANCE_DTYPE_I32, STANCE_DTYPE_I16, STANCE_DTYPE_I8, STANCE_DTYPE_U64, STANCE_DTYPE_U32,
    STANCE_DTYPE_U16, STANCE_DTYPE_U8, STANCE_DTYPE_BOOL, STANCE_DTYPE_COUNT
};

#define STANCE_ENTRY_RANK 8

/** The name and the elements belong to the file it came from. */
struct stance_entry {
    const char       *name;
    enum stance_dtype dtype;
    int32_t           rank;
    int64_t           dim[STANCE_ENTRY_RANK];
    const void       *data;  /**< little-endian, C order; may be unaligned; NULL: declared only */
    size_t            bytes; /**< elements times size; 0 for a tensor without elements */
};

/** Bytes of one element. */
size_t stance_dtype_size(enum stance_dtype t);
/** "F32", ...; "?" out of range. */
const char *stance_dtype_word(enum stance_dtype t);
/** STANCE_DTYPE_COUNT if @p word, of @p len bytes, is none. */
enum stance_dtype stance_dtype_of(const char *word, size_t len);

/** Elements of an entry whose bytes are set. */
static inline size_t stance_entry_elements(const struct stance_entry *e)
{
    return e->bytes / stance_dtype_size(e->dtype);
}

/** Sets bytes from type and shape. @return false when they do not fit into 63 bits, or a dimension
 *  is negative */
bool stance_entry_size(struct stance_entry *e) STANCE_MUST_CHECK;

/** "17x4x1x1"; "scalar" for rank 0. */
void stance_entry_shape_text(int32_t rank, const int64_t *dim, char *text, size_t size);

/** Elements [first, first + count) as binary32: exact for F32, F16, BF16, I16, U16, I8, U8 and
 *  BOOL, to the nearest for F64 and longer integers. */
void stance_entry_f32(const struct stance_entry *e, size_t first, size_t count, float *out);
/** Likewise as binary64: exact for all but I64 and U64 beyond 2^53. */
void stance_entry_f64(const struct stance_entry *e, size_t first, size_t count, double *out);
/** Likewise as integers. @return false if one is not an integer of 64 bits: *out is then
 *  unspecified */
bool stance_entry_i64(const struct stance_entry *e, size_t first, size_t count, int64_t *out)
    STANCE_MUST_CHECK;

/** Binary16 and bfloat16 as binary32, exactly. */
float stance_f16_to_f32(uint16_t h);
float stance_bf16_to_f32(uint16_t h);

#endif
