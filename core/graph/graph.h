/* SPDX-License-Identifier: Apache-2.0
 *
 * The graph behind a builder: values, nodes, weights, inputs and outputs in plain arrays, indexed by
 * number. Index 0 of values and nodes is nobody, so that 0 means "none". */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include <stance/device.h>
#include <stance/registry.h>

enum stance_section { STANCE_SECTION_FORWARD, STANCE_SECTION_BACKWARD, STANCE_SECTION_UPDATE };

/** Where a value comes from. COPY: a weight in the type and form that a kernel wants, made again
 *  after each update; GRAD: a segment of the flat gradients. The passes make these two. */
enum stance_source {
    STANCE_SOURCE_NODE, STANCE_SOURCE_INPUT, STANCE_SOURCE_WEIGHT, STANCE_SOURCE_CONTROL,
    STANCE_SOURCE_COPY, STANCE_SOURCE_GRAD
};

struct stance_graph_value {
    enum stance_type    type; /**< ANY until the precision pass; F32 is the wide type until then */
    struct stance_shape shape;
    enum stance_source  source;
    uint32_t            owner; /**< index of the node, input or weight */
    int32_t             slot;  /**< which output of the node */
    uint32_t            alias; /**< the value this one stands for (stop_gradient); 0: itself */
    bool                wants; /**< a gradient with respect to it is needed */
    struct stance_form  form;  /**< set by the place pass */
    int32_t             home;  /**< place pass: w + 1: lies in the gradient of weight w; -(w + 1): in its
                                    state; 0: in the arena, or where its source says */
    uint32_t            packed; /**< COPY: number in the store */
};

struct stance_graph_node {
    const struct stance_op_ops *op;
    const char                 *name; /**< of the op */
    const char                 *scope;
    void                       *attr;
    uint32_t                   *in, *out;
    int32_t                     n_in, n_out;
    enum stance_section         section;
    uint32_t                    grad_of; /**< forward node whose gradient it helps to make; 0: none */
    bool                        dead;
    bool                        again; /**< recomputation: a forward node's copy in the backward section */
    bool                        on_device; /**< place pass: the device has a kernel; else plain C runs it */
    const struct stance_kernel *kernel;    /**< place pass: the op's own for the device; NULL: its reference */
    size_t                      workspace; /**< bytes, of the kernel chosen */
    int32_t                    *alias;     /**< place pass: as in struct stance_offer; NULL: none */
    struct stance_form         *in_form;   /**< place pass: forms that its kernel wants its operands in */
};

struct stance_graph_weight {
    const char         *name; /**< full */
    enum stance_role    role;
    enum stance_type    type;
    struct stance_shape shape;
    struct stance_init  init;
    uint32_t            value;
    uint32_t            assigned; /**< value it becomes when the step is committed; 0: none */
    uint32_t            grad;     /**< value of its gradient; 0: none */
    size_t              segment;  /**< in the store, once adopted */
};

struct stance_graph_name { const char *name; uint32_t value; };

struct stance_graph {
    struct stance_registry *registry; /**< for op plugins; may be NULL */
    struct stance_arena    *arena;
    bool                    training;
    struct stance_error     error; /**< the first failure */

    struct stance_graph_value  *values;
    struct stance_graph_node   *nodes;
    struct stance_graph_weight *weights;
    struct stance_graph_name   *inputs, *outputs;
    size_t n_values, n_nodes, n_weights, n_inputs, n_outputs;
    size_t room_values, room_nodes, room_weights, room_inputs, room_outputs;

    struct stance_name_index *names; /**< full names of weights */
    char                      scope[512];
    size_t                    scope_len;
    uint16_t                  scope_mark[64]; /**< length of scope before each stance_enter() */
    int                       depth;
    enum stance_section       section;
    uint32_t                  grad_of;
    uint32_t                  control; /**< value of the control block; 0 before it is asked for */
};

/** The builder that plugins see is the graph. */
struct stance_builder { struct stance_graph graph; };

/** An empty graph. @param registry  may be NULL: built-in ops only; must outlive the graph. */
stance_status stance_graph_new(struct stance_registry *registry, bool training,
                               struct stance_graph **out, struct stance_error *err);
/** Accepts NULL. */
void stance_graph_free(struct stance_graph *g);

static inline struct stance_builder *stance_graph_builder(struct stance_graph *g)
{
    return (struct stance_builder *)g;
}

/** Appends the backward pass of the scalar @p loss and sets the gradient of every PARAM weight that
 *  it depends on. The gradient of the loss itself is loss_seed(control): scale times weight of the
 *  micro-batch. */
stance_status stance_graph_backward(struct stance_graph *g, struct stance_value loss,
                                    struct stance_error *err);

/** The status of the build so far; copies the first failure. */
stance_status stance_graph_status(const struct stance_graph *g, struct stance_error *err);

/** Value of the control block (U8 bytes of struct stance_control). */
struct stance_value stance_graph_control(struct stance_graph *g);

/** A new value without a producer, for passes. 0 when memory is short. */
uint32_t stance_graph_value_new(struct stance_graph *g, enum stance_type type,
                                const struct stance_shape *shape);
/** A new node over existing values, for passes: no shape rule, appended at the end. 0 when memory is
 *  short. @param attr  copied */
uint32_t stance_graph_node_new(struct stance_graph *g, const struct stance_op_ops *op,
                               const char *name, const void *attr, size_t attr_size,
                               const uint32_t *in, int n_in, const uint32_t *out, int n_out);

/** Value of a named output; 0 if there is none. */
uint32_t stance_graph_output(const struct stance_graph *g, const char *name);
/** Number of a weight by its full name, or -1. */
long stance_graph_weight_find(const struct stance_graph *g, const char *name);

/** The value that @p v stands for. */
static inline uint32_t stance_graph_resolve(const struct stance_graph *g, uint32_t v)
{
    while (g->values[v].alias != 0)
        v = g->values[v].alias;
    return v;
}

/** Built-in op by name, or NULL. */
const struct stance_op_ops *stance_builtin_op(const char *name);

/** "[2,32,64,48]" into @p text; "scalar"; "none". @return text */
const char *stance_shape_text(const struct stance_shape *s, char *text, size_t size);
#define STANCE_SHAPE_TEXT 96

#endif
