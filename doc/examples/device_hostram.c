/* SPDX-License-Identifier: Apache-2.0 */
/* A device whose memory is the host's, with one kernel of its own: "relu". The ops that it does not offer run
 * as their own plain C, which host_memory allows; a GPU would offer them all. */
#include <stance/device.h>

#include <string.h>

struct state { int64_t launches; };

static stance_status open_device(void *state, const void *config, int threads, struct stance_error *err)
{
    (void)state;
    (void)config;
    (void)threads;
    (void)err;
    return STANCE_OK;
}

static void close_device(void *state)
{
    (void)state;
}

/* Aligned to 64 bytes; what the heap gave is kept in front. */
static stance_status alloc(void *state, size_t bytes, void **out, struct stance_error *err)
{
    char *raw = bytes < SIZE_MAX - 128 ? stance_calloc(1, bytes + 128) : NULL, *p;

    (void)state;
    if (raw == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "device 'hostram': %zu bytes", bytes);
    p = raw + 128 - (uintptr_t)raw % 64;
    memcpy(p - sizeof raw, &raw, sizeof raw);
    *out = p;
    return STANCE_OK;
}

static void release(void *state, void *memory, size_t bytes)
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
    (void)answer; /* plain forms, as they are preset */
    return strcmp(req->op, "relu") == 0 && req->in[0].layout == 0 && req->in[0].stored == STANCE_TYPE_F32
           && req->out[0].layout == 0 && req->out[0].stored == STANCE_TYPE_F32;
}

static stance_status prepare(void *state, const struct stance_request *req, void **kernel, struct stance_error *err)
{
    (void)req;
    (void)err;
    *kernel = state; /* nothing to keep for one node: any address that is not NULL */
    return STANCE_OK;
}

static stance_status launch(void *state, void *kernel, const struct stance_call *call)
{
    const float *x = call->in[0].data;
    float       *y = call->out[0].data;
    int64_t      n = stance_elements(&call->in[0].shape);

    (void)kernel;
    ((struct state *)state)->launches++;
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0; /* NaN stays NaN */
    return STANCE_OK;
}

/* Between what the host hands in and what the device keeps: the same values, in binary32 or binary64. */
static stance_status reorder(void *state, const struct stance_tensor *to, const struct stance_tensor *from,
                             struct stance_error *err)
{
    int64_t n = stance_elements(&to->shape);

    (void)state;
    if (to->stored == from->stored && to->bytes == from->bytes)
        memmove(to->data, from->data, from->bytes);
    else if (to->stored == STANCE_TYPE_F32 && from->stored == STANCE_TYPE_F64)
        for (int64_t i = 0; i < n; i++)
            ((float *)to->data)[i] = (float)((const double *)from->data)[i];
    else if (to->stored == STANCE_TYPE_F64 && from->stored == STANCE_TYPE_F32)
        for (int64_t i = 0; i < n; i++)
            ((double *)to->data)[i] = (double)((const float *)from->data)[i];
    else
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "device 'hostram': no conversion from %s to %s",
                           stance_type_word(from->stored), stance_type_word(to->stored));
    return STANCE_OK;
}

static const struct stance_device_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .host_memory = true, .open = open_device,
    .close = close_device, .alloc = alloc, .release = release, .offer = offer, .prepare = prepare, .launch = launch,
    .reorder = reorder,
};

STANCE_PLUGIN(device, hostram) = {
    STANCE_PLUGIN_HEAD,
    .kind       = STANCE_KIND_DEVICE,
    .name       = "hostram",
    .version    = "1.0",
    .license    = "Apache-2.0",
    .source     = "an example",
    .summary    = "the host's memory, fp32, a kernel of its own for relu",
    .ops.device = &ops,
};
