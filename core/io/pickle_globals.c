/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/pickle_globals.h"

#include <string.h>

/* Inert ones are met in `meta` and `optimizer`: best scores are numpy scalars, hooks leave sets.
 * None of them can do harm, as none is ever called. */
static const struct { const char *module, *name; int global; } globals[] = {
    { "collections", "OrderedDict", STANCE_GLOBAL_DICT },
    { "collections", "defaultdict", STANCE_GLOBAL_DICT },
    { "torch._utils", "_rebuild_tensor_v2", STANCE_GLOBAL_TENSOR },
    { "torch._utils", "_rebuild_tensor", STANCE_GLOBAL_TENSOR },
    { "torch._utils", "_rebuild_parameter", STANCE_GLOBAL_PARAMETER },
    { "torch._utils", "_rebuild_parameter_with_state", STANCE_GLOBAL_PARAMETER },
    { "torch", "Size", STANCE_GLOBAL_SIZE },
    { "torch", "FloatStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_F32 },
    { "torch", "DoubleStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_F64 },
    { "torch", "HalfStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_F16 },
    { "torch", "BFloat16Storage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_BF16 },
    { "torch", "LongStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_I64 },
    { "torch", "IntStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_I32 },
    { "torch", "ShortStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_I16 },
    { "torch", "CharStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_I8 },
    { "torch", "ByteStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_U8 },
    { "torch", "BoolStorage", STANCE_GLOBAL_STORAGE + STANCE_DTYPE_BOOL },
    { "torch", "device", STANCE_GLOBAL_INERT },
    { "torch", "float64", STANCE_GLOBAL_INERT },
    { "torch", "float32", STANCE_GLOBAL_INERT },
    { "torch", "float16", STANCE_GLOBAL_INERT },
    { "torch", "bfloat16", STANCE_GLOBAL_INERT },
    { "torch", "int64", STANCE_GLOBAL_INERT },
    { "torch", "int32", STANCE_GLOBAL_INERT },
    { "numpy", "dtype", STANCE_GLOBAL_INERT },
    { "numpy", "ndarray", STANCE_GLOBAL_INERT },
    { "numpy.core.multiarray", "scalar", STANCE_GLOBAL_INERT },
    { "numpy.core.multiarray", "_reconstruct", STANCE_GLOBAL_INERT },
    { "numpy._core.multiarray", "scalar", STANCE_GLOBAL_INERT },
    { "numpy._core.multiarray", "_reconstruct", STANCE_GLOBAL_INERT },
    { "_codecs", "encode", STANCE_GLOBAL_INERT },
    { "__builtin__", "set", STANCE_GLOBAL_INERT },
    { "__builtin__", "list", STANCE_GLOBAL_INERT },
    { "__builtin__", "dict", STANCE_GLOBAL_INERT },
    { "__builtin__", "int", STANCE_GLOBAL_INERT },
    { "__builtin__", "float", STANCE_GLOBAL_INERT },
    { "__builtin__", "bytearray", STANCE_GLOBAL_INERT },
    { "builtins", "set", STANCE_GLOBAL_INERT },
    { "builtins", "list", STANCE_GLOBAL_INERT },
    { "builtins", "dict", STANCE_GLOBAL_INERT },
    { "builtins", "int", STANCE_GLOBAL_INERT },
    { "builtins", "float", STANCE_GLOBAL_INERT },
    { "builtins", "bytearray", STANCE_GLOBAL_INERT },
};

static bool is(struct stance_pickle_text t, const char *word)
{
    return strlen(word) == t.len && memcmp(t.s, word, t.len) == 0;
}

int stance_pickle_global(struct stance_pickle_text module, struct stance_pickle_text name)
{
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++)
        if (is(module, globals[i].module) && is(name, globals[i].name))
            return globals[i].global;
    return -1;
}

bool stance_pickle_is_storage(int global)
{
    return global >= STANCE_GLOBAL_STORAGE;
}

enum stance_dtype stance_pickle_storage_type(int global)
{
    return (enum stance_dtype)(global - STANCE_GLOBAL_STORAGE);
}
