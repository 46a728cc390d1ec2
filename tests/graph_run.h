/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a graph as it was built, node by node, by the references in binary64: no passes, no plan. */
#ifndef TESTS_GRAPH_RUN_H
#define TESTS_GRAPH_RUN_H

#include "ops.h"

#include "graph/graph.h"

#include <math.h>
#include <string.h>

/* Tensors of all values of a graph. */
struct run {
    struct stance_graph  *g;
    struct stance_tensor *t;
    struct stance_control control;
};

static inline bool run_has_memory(const struct stance_graph *g, size_t v)
{
    return v != 0 && g->values[v].alias == 0 && g->values[v].source != STANCE_SOURCE_CONTROL;
}

/** Takes the graph over. Weights and inputs are random; what is called a variance is not negative. */
static inline void run_new(struct run *r, struct stance_graph *g)
{
    *r   = (struct run){ .g = g, .control = { .size = sizeof r->control, .scale = 1, .micro_weight = 1 } };
    r->t = stance_calloc(g->n_values, sizeof *r->t);
    for (size_t v = 0; v < g->n_values; v++) {
        enum stance_type t = g->values[v].type;

        r->t[v].shape = g->values[v].shape;
        if (run_has_memory(g, v))
            r->t[v] = ops_tensor(t == STANCE_TYPE_ANY || t == STANCE_TYPE_F32 ? STANCE_TYPE_F64 : t, g->values[v].shape);
        if (g->values[v].source == STANCE_SOURCE_CONTROL)
            r->t[v] = (struct stance_tensor){ &r->control, STANCE_TYPE_U8, STANCE_TYPE_U8, 0, g->values[v].shape,
                                              sizeof r->control };
        if (run_has_memory(g, v) && g->values[v].source != STANCE_SOURCE_NODE && r->t[v].type == STANCE_TYPE_F64)
            ops_random(&r->t[v], v);
    }
    for (size_t w = 0; w < g->n_weights; w++) {
        struct stance_tensor *t = &r->t[g->weights[w].value];

        for (int64_t i = 0; strstr(g->weights[w].name, "var") != NULL && i < stance_elements(&t->shape); i++)
            stance_tensor_put(t, i, fabs(stance_tensor_get(t, i)));
    }
}

static inline void run_free(struct run *r)
{
    for (size_t v = 0; v < r->g->n_values; v++)
        if (run_has_memory(r->g, v))
            stance_free(r->t[v].data);
    stance_free(r->t);
    stance_graph_free(r->g);
}

/** Runs the forward pass, or both. @return the loss, or whatever scalar the value is */
static inline double run_nodes(struct run *r, bool backward, uint32_t loss)
{
    for (size_t i = 1; i < r->g->n_nodes; i++) {
        const struct stance_graph_node *n = &r->g->nodes[i];
        struct stance_tensor            in[OPS_MAX], out[OPS_MAX];
        struct stance_call c = { .size = sizeof c, .attr = n->attr, .in = in, .out = out, .n_in = n->n_in, .n_out = n->n_out };

        if (n->dead || (n->section == STANCE_SECTION_BACKWARD && !backward))
            continue;
        for (int k = 0; k < n->n_in; k++)
            in[k] = r->t[stance_graph_resolve(r->g, n->in[k])];
        for (int k = 0; k < n->n_out; k++)
            out[k] = r->t[n->out[k]];
        if (n->op->workspace != NULL)
            c.workspace = stance_calloc(n->op->workspace(&c) + 1, 1);
        ck_assert_int_eq(n->op->reference(&c), STANCE_OK);
        stance_free(c.workspace);
    }
    return loss != 0 ? stance_tensor_get(&r->t[loss], 0) : 0;
}

#endif
