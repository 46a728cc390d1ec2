/* SPDX-License-Identifier: Apache-2.0
 *
 * From a graph to a program: the passes, in the order in which stance_program_new() calls them. Each
 * takes the graph and the list of its live nodes in execution order, and leaves both changed. */
#ifndef COMPILE_COMPILE_H
#define COMPILE_COMPILE_H

#include "compile/program.h"
#include "compile/store.h"
#include "graph/graph.h"

struct stance_compile {
    struct stance_graph        *g;
    const struct stance_device *device;
    struct stance_policy        policy;
    struct stance_store        *store;
    bool                        accumulate; /**< gradients are added to what is there */
    uint32_t                   *order;      /**< live nodes */
    size_t                      n, room;
};

/** Live nodes in the order of their making: those that an output, a state or a gradient needs. */
stance_status stance_pass_order(struct stance_compile *c, struct stance_error *err);

/** Gives every value its type (design: low, wide, follow) and inserts casts; a weight that a low op
 *  reads becomes a COPY in the low type. */
stance_status stance_pass_precision(struct stance_compile *c, struct stance_error *err);

/** Replaces batch norms with what they are summed with, upsampled by and activated by, and the
 *  mirrored part of the backward pass, by norm_sum and norm_sum_grad, where the device has them. */
stance_status stance_pass_fuse(struct stance_compile *c, struct stance_error *err);

/** Chooses what is kept, and puts what the backward pass needs besides just before it needs it. The
 *  numbers of a program are the same bytes as without. Types must be settled. */
stance_status stance_pass_recompute(struct stance_compile *c, enum stance_rebuild what, struct stance_error *err);

/** Asks the device for each node; gives every value its form; inserts reorders, gradient
 *  accumulation and state assignment; settles the forms of the store's segments. */
stance_status stance_pass_place(struct stance_compile *c, struct stance_error *err);

/** Appends a node id to the order. */
bool stance_compile_append(struct stance_compile *c, uint32_t node);

/** A tensor as the device is asked about it: no data yet. */
struct stance_tensor stance_compile_tensor(const struct stance_graph *g, uint32_t value);

/** Whether the device would take a node of these operands, which get forms. */
bool stance_compile_takes(struct stance_compile *c, const char *name, const struct stance_op_ops *op, const void *attr,
                          const uint32_t *in, int n_in, const uint32_t *out, int n_out);

/** Gives a value the form that its type, shape and place ask for, unless it has one. */
void stance_compile_default_form(struct stance_compile *c, uint32_t value);

/** The device's form for a value of this type, shape and purpose. */
struct stance_form stance_device_form(const struct stance_device *d, enum stance_type type,
                                      const struct stance_shape *shape, enum stance_purpose purpose);

#endif
