/* SPDX-License-Identifier: Apache-2.0
 *
 * One launch: a kernel of the device or plain C, with everything it is called with. */
#ifndef COMPILE_KERNEL_H
#define COMPILE_KERNEL_H

#include "compile/device.h"

struct stance_launch {
    void                 *kernel; /**< the device's; NULL: plain is called */
    stance_kernel_fn     *plain;
    struct stance_call    call;
    struct stance_tensor *in, *out; /**< what call.in and call.out point to */
    const char           *op, *scope;
    size_t                workspace; /**< bytes */
};

/** Plain memory as a vector of a type, stored as such. */
static inline struct stance_tensor stance_tensor_flat(void *data, enum stance_type type, size_t bytes)
{
    return (struct stance_tensor){ data, type, type, 0, { 1, { (int64_t)(bytes / stance_type_size(type)) } }, bytes };
}

/** The kernel for this device that an op plugin brings for a first operand of the given type; NULL: none. */
const struct stance_kernel *stance_plain_kernel(const struct stance_device *d, const struct stance_op_ops *op,
                                                enum stance_type first);

/** What plain kernels launch on. */
void *stance_device_queue(const struct stance_device *d);

/** Makes a launch of an op over the given tensors, in their forms; the tensors are copied, their data
 *  pointers may be set later. Memory is the arena's. @param op  NULL: only the device can know it. */
stance_status stance_launch_make(const struct stance_device *d, struct stance_arena *a, const char *name,
                                 const struct stance_op_ops *op, const void *attr, const struct stance_tensor *in,
                                 int n_in, const struct stance_tensor *out, int n_out, bool training,
                                 struct stance_launch *launch, struct stance_error *err);
void stance_launch_dispose(const struct stance_device *d, struct stance_launch *launch);

static inline stance_status stance_launch_run(const struct stance_device *d, const struct stance_launch *l)
{
    return l->kernel != NULL ? d->ops->launch(d->state, l->kernel, &l->call) : l->plain(&l->call);
}

#endif
