/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference device: it offers no kernel, so that every op is computed by its own plain C, in binary32 or
 * binary64. The judge of the other devices, and the port to any machine. */
#include <stance/device.h>

#include "base/half.h"

#include <string.h>

static stance_status ref_open(void *state, const void *config, int threads, struct stance_error *err)
{
    (void)state;
    (void)config;
    (void)threads;
    (void)err;
    return STANCE_OK;
}

static void ref_close(void *state)
{
    (void)state;
}

static stance_status precision(void *state, enum stance_type low, bool training, struct stance_error *err)
{
    (void)state;
    if (low == STANCE_TYPE_F32 || low == STANCE_TYPE_F64)
        return STANCE_OK;
    return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "device 'ref' has no %s %s: it computes in fp32 and fp64",
                       low == STANCE_TYPE_F16    ? "fp16"
                       : low == STANCE_TYPE_BF16 ? "bf16"
                                                 : stance_type_word(low),
                       training ? "backward" : "forward");
}

static enum stance_type fast_type(void *state)
{
    (void)state;
    return STANCE_TYPE_F32;
}

/* The pointer that the heap gave lies in front of the aligned block. */
#define ALIGN 64

static stance_status ref_alloc(void *state, size_t bytes, void **out, struct stance_error *err)
{
    char *raw = bytes > SIZE_MAX - 2 * ALIGN ? NULL : stance_calloc(1, bytes + 2 * ALIGN);
    char *p;

    (void)state;
    if (raw == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "device 'ref': %zu bytes", bytes);
    p = raw + 2 * ALIGN - (uintptr_t)raw % ALIGN;
    memcpy(p - sizeof raw, &raw, sizeof raw);
    *out = p;
    return STANCE_OK;
}

static void ref_release(void *state, void *memory, size_t bytes)
{
    char *raw;

    (void)state;
    (void)bytes;
    if (memory == NULL)
        return;
    memcpy(&raw, (char *)memory - sizeof raw, sizeof raw);
    stance_free(raw);
}

static bool offer(void *state, const struct stance_request *req, struct stance_offer *answer)
{
    (void)state;
    (void)req;
    (void)answer;
    return false;
}

static stance_status prepare(void *state, const struct stance_request *req, void **kernel, struct stance_error *err)
{
    (void)state;
    (void)kernel;
    return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "device 'ref' has no kernel of its own for '%s'", req->op);
}

static void dispose(void *state, void *kernel)
{
    (void)state;
    (void)kernel;
}

static stance_status launch(void *state, void *kernel, const struct stance_call *call)
{
    (void)state;
    (void)kernel;
    (void)call;
    return STANCE_ERR_UNSUPPORTED;
}

static bool is_float(enum stance_type t)
{
    return t == STANCE_TYPE_F32 || t == STANCE_TYPE_F64 || t == STANCE_TYPE_F16 || t == STANCE_TYPE_BF16;
}

static double get(const struct stance_tensor *t, int64_t i)
{
    switch (t->stored) {
    case STANCE_TYPE_F64: return ((const double *)t->data)[i];
    case STANCE_TYPE_F16: return stance_f64_of_half(((const uint16_t *)t->data)[i], STANCE_F16_FRACTION);
    case STANCE_TYPE_BF16: return stance_f64_of_half(((const uint16_t *)t->data)[i], STANCE_BF16_FRACTION);
    default: return ((const float *)t->data)[i];
    }
}

static void put(const struct stance_tensor *t, int64_t i, double v)
{
    enum stance_type narrow   = t->stored == STANCE_TYPE_F32 ? t->type : t->stored;
    int              fraction = narrow == STANCE_TYPE_F16    ? STANCE_F16_FRACTION
                                : narrow == STANCE_TYPE_BF16 ? STANCE_BF16_FRACTION
                                                             : 0;

    if (t->stored == STANCE_TYPE_F64)
        ((double *)t->data)[i] = v;
    else if (t->stored == STANCE_TYPE_F16 || t->stored == STANCE_TYPE_BF16)
        ((uint16_t *)t->data)[i] = stance_half_of_f64(v, fraction);
    else
        ((float *)t->data)[i] = (float)(fraction == 0 ? v
                                                      : stance_f64_of_half(stance_half_of_f64(v, fraction), fraction));
}

static int64_t get_integer(const struct stance_tensor *t, int64_t i)
{
    return t->stored == STANCE_TYPE_I64   ? ((const int64_t *)t->data)[i]
           : t->stored == STANCE_TYPE_I32 ? ((const int32_t *)t->data)[i]
                                          : ((const uint8_t *)t->data)[i];
}

static void put_integer(const struct stance_tensor *t, int64_t i, int64_t v)
{
    if (t->stored == STANCE_TYPE_I64)
        ((int64_t *)t->data)[i] = v;
    else if (t->stored == STANCE_TYPE_I32)
        ((int32_t *)t->data)[i] = (int32_t)v;
    else
        ((uint8_t *)t->data)[i] = (uint8_t)v;
}

static stance_status reorder(void *state, const struct stance_tensor *to, const struct stance_tensor *from,
                             struct stance_error *err)
{
    int64_t n = stance_elements(&to->shape);

    (void)state;
    if (to->layout != 0 || from->layout != 0 || n != stance_elements(&from->shape)
        || is_float(to->stored) != is_float(from->stored))
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "device 'ref': no conversion from %s to %s",
                           stance_type_word(from->stored), stance_type_word(to->stored));
    for (int64_t i = 0; i < n; i++)
        if (is_float(to->stored))
            put(to, i, get(from, i));
        else
            put_integer(to, i, get_integer(from, i));
    return STANCE_OK;
}

static const char *describe(void *state)
{
    (void)state;
    return "isa: portable C\nthreads: 1\n";
}

static const struct stance_device_ops ops = {
    .size        = sizeof ops,
    .state_size  = 0,
    .host_memory = true,
    .open        = ref_open,
    .close       = ref_close,
    .precision   = precision,
    .fast_type   = fast_type,
    .alloc       = ref_alloc,
    .release     = ref_release,
    .offer       = offer,
    .prepare     = prepare,
    .dispose     = dispose,
    .launch      = launch,
    .reorder     = reorder,
    .describe    = describe,
};

STANCE_PLUGIN(device, ref) = {
    STANCE_PLUGIN_HEAD,
    .kind       = STANCE_KIND_DEVICE,
    .name       = "ref",
    .version    = "1.0",
    .license    = "Apache-2.0",
    .source     = "the plain C of every op",
    .summary    = "reference: plain C in fp32 and fp64, one thread",
    .ops.device = &ops,
};
