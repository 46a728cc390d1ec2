/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/kernel.h"

#include <string.h>

enum { OPERANDS_MAX = 64 };

/* Whether the device has a kernel for the node in exactly these forms. */
static bool accepted(const struct stance_device *d, const struct stance_request *req, size_t *workspace)
{
    struct stance_form  in[OPERANDS_MAX], out[OPERANDS_MAX];
    int32_t             alias[OPERANDS_MAX];
    struct stance_offer offer = { sizeof offer, 0, in, out, alias };

    for (int i = 0; i < req->n_in; i++)
        in[i] = (struct stance_form){ req->in[i].layout, req->in[i].stored, req->in[i].bytes };
    for (int i = 0; i < req->n_out; i++) {
        out[i]   = (struct stance_form){ req->out[i].layout, req->out[i].stored, req->out[i].bytes };
        alias[i] = -1;
    }
    if (!STANCE_HAS(d->ops, offer) || !d->ops->offer(d->state, req, &offer))
        return false;
    *workspace = offer.workspace;
    return true;
}

const struct stance_kernel *stance_plain_kernel(const struct stance_device *d, const struct stance_op_ops *op,
                                                enum stance_type first)
{
    for (int32_t i = 0; op != NULL && i < op->n_kernels; i++)
        if (strcmp(op->kernels[i].device, d->plugin->name) == 0 && (op->kernels[i].types & UINT32_C(1) << first) != 0)
            return &op->kernels[i];
    return NULL;
}

void *stance_device_queue(const struct stance_device *d)
{
    return STANCE_HAS(d->ops, queue) ? d->ops->queue(d->state) : NULL;
}

/* Plain C of the op, or its kernel for this device. */
static bool take_plain(const struct stance_device *d, const struct stance_op_ops *op, struct stance_launch *l)
{
    const struct stance_kernel *k = stance_plain_kernel(d, op, l->call.n_in > 0 ? l->in[0].stored : STANCE_TYPE_ANY);

    for (int i = 0; i < l->call.n_in; i++)
        if (l->in[i].layout != 0)
            return false;
    for (int i = 0; i < l->call.n_out; i++)
        if (l->out[i].layout != 0)
            return false;
    if (k != NULL) {
        l->plain      = k->run;
        l->call.queue = stance_device_queue(d);
        l->workspace  = k->workspace != NULL ? k->workspace(&l->call) : 0;
        return true;
    }
    if (op == NULL || op->reference == NULL || !d->ops->host_memory)
        return false;
    l->plain     = op->reference;
    l->workspace = op->workspace != NULL ? op->workspace(&l->call) : 0;
    return true;
}

stance_status stance_launch_make(const struct stance_device *d, struct stance_arena *a, const char *name,
                                 const struct stance_op_ops *op, const void *attr, const struct stance_tensor *in,
                                 int n_in, const struct stance_tensor *out, int n_out, bool training,
                                 struct stance_launch *launch, struct stance_error *err)
{
    struct stance_request req = { sizeof req, name, op, attr, in, out, n_in, n_out, training };

    memset(launch, 0, sizeof *launch);
    launch->in  = stance_arena_get(a, ((size_t)n_in + 1) * sizeof *launch->in, 64);
    launch->out = stance_arena_get(a, ((size_t)n_out + 1) * sizeof *launch->out, 64);
    if (launch->in == NULL || launch->out == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "launch of %s", name);
    memcpy(launch->in, in, (size_t)n_in * sizeof *in);
    memcpy(launch->out, out, (size_t)n_out * sizeof *out);
    launch->op   = name;
    launch->call = (struct stance_call){ .size = sizeof launch->call, .attr = attr, .in = launch->in,
                                         .out = launch->out, .n_in = n_in, .n_out = n_out };
    if (accepted(d, &req, &launch->workspace))
        return d->ops->prepare(d->state, &req, &launch->kernel, err);
    if (!take_plain(d, op, launch))
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "device '%s' has no kernel for op '%s'", d->plugin->name, name);
    return STANCE_OK;
}

void stance_launch_dispose(const struct stance_device *d, struct stance_launch *launch)
{
    if (launch->kernel != NULL && STANCE_HAS(d->ops, dispose))
        d->ops->dispose(d->state, launch->kernel);
    launch->kernel = NULL;
}
