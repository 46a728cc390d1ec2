/* SPDX-License-Identifier: Apache-2.0
 *
 * Rebuilding in the backward pass. A node is rebuilt by a copy of it with results of its own, which the
 * backward pass reads from there on; the copies stand just before the first node that needs them. They
 * read the same bytes and are the same ops, so they write the same bytes; what they make of states and
 * statistics besides is read by nobody. No plugin and no device knows of it. */
#include "config.h"

#include "compile/compile.h"
#include "compile/segments.h"

#include <math.h>
#include <string.h>

enum { OPERANDS_MAX = 64 };

/* Of block: with a peak larger by this part, HRNet-W32 does a third fewer operations of convolutions again,
 * ResNet-50 half as many; more room gains little besides. (norm does little work again in any case.) */
#define ROOM_FOR_SPEED 0.15

/* A norm_sum once more, by mean and inv_std: no pass for the statistics. */
static const struct stance_op_ops norm_sum_given_op = {
    .size = sizeof norm_sum_given_op, .attr_size = sizeof(struct stance_norm_sum), .type_class = STANCE_CLASS_WIDE,
};

enum state { NOT_REBUILT, MISSING, REBUILT };

struct rebuild {
    struct stance_compile *c;
    enum stance_rebuild    what;
    size_t                 n_values, n_nodes; /* before the pass, which the arrays cover */
    size_t                 n_forward; /* nodes of the order's beginning */
    uint32_t              *order;     /* the order before the pass */
    uint32_t              *position;  /* per node: 1 + place among the forward nodes; 0: of the backward pass */
    bool                  *stays;     /* per value: kept whatever is chosen */
    bool                  *wanted;    /* per value: the backward pass reads it */
    bool                  *kept;      /* per forward node */
    uint8_t               *state;     /* per forward node: enum state */
    uint32_t              *instead;   /* per value: the rebuilt one; 0: none */
    struct stance_segment_node *nodes; /* per forward node */
};

static bool is_op(const struct stance_graph_node *n, const char *name)
{
    return strcmp(n->name, name) == 0;
}

/* The forward node that makes a value: 1 + its place; 0: none does. */
static uint32_t maker(const struct rebuild *r, uint32_t value)
{
    const struct stance_graph *g = r->c->g;

    return value == 0 || value >= r->n_values || g->values[value].source != STANCE_SOURCE_NODE
               ? 0 : r->position[g->values[value].owner];
}

static bool may_run_again(const struct rebuild *r, const struct stance_graph_node *n)
{
    const struct stance_graph *g = r->c->g;
    /* Their results do not depend on the running statistics, which have changed when they run again. */
    const bool norm = is_op(n, "norm_sum") || is_op(n, "batch_norm");

    if (n->op->flags & STANCE_OP_NO_RECOMPUTE)
        return false;
    for (int k = 0; k < n->n_in; k++) {
        const struct stance_graph_value *v = &g->values[n->in[k]];

        if (n->in[k] != 0 && (v->source == STANCE_SOURCE_CONTROL
            || (v->source == STANCE_SOURCE_WEIGHT && !norm && g->weights[v->owner].assigned != 0)))
            return false;
    }
    /* Of an op of somebody else only block may think that it is cheaper than its result. */
    return r->what == STANCE_REBUILD_BLOCK
           || (n->op->type_class != STANCE_CLASS_LOW && (norm || n->op == stance_builtin_op(n->name)));
}

/* Bytes of a value in the device's form. */
static size_t bytes_of(const struct rebuild *r, uint32_t value)
{
    const struct stance_graph_value *v = &r->c->g->values[value];
    const struct stance_graph_node  *n = &r->c->g->nodes[v->owner];
    struct stance_form f = stance_device_form(r->c->device, v->type, &v->shape,
                                              n->section == STANCE_SECTION_FORWARD ? STANCE_PURPOSE_ACTIVATION
                                                                                   : STANCE_PURPOSE_GRADIENT);

    /* A mask has one bit an element, in a form that is known only when the device is asked. */
    return v->type == STANCE_TYPE_U8 && is_op(n, "norm_sum") ? f.bytes / 8 : f.bytes;
}

/* What stays whatever is chosen: results, statistics and other vectors; for norm also masks. */
static void find_stays(struct rebuild *r)
{
    const struct stance_graph *g = r->c->g;

    for (size_t i = 0; i < r->n_forward; i++) {
        const struct stance_graph_node *n = &g->nodes[r->c->order[i]];
        bool                            whole = !may_run_again(r, n);

        for (int k = 0; k < n->n_out; k++)
            r->stays[n->out[k]] = whole || g->values[n->out[k]].shape.rank <= 1
                                  || (r->what == STANCE_REBUILD_NORM && g->values[n->out[k]].type == STANCE_TYPE_U8);
    }
    for (size_t i = 0; i < g->n_outputs; i++)
        r->stays[stance_graph_resolve(g, g->outputs[i].value)] = true;
}

/* Bytes of the gradients that live at each node of the backward pass. */
static bool live_gradients(const struct rebuild *r, size_t *live)
{
    const struct stance_compile *c    = r->c;
    uint32_t                    *last = stance_calloc(r->n_values, sizeof *last);
    size_t                       now = 0;

    if (last == NULL)
        return false;
    for (size_t i = r->n_forward; i < c->n; i++) {
        const struct stance_graph_node *n = &c->g->nodes[c->order[i]];

        for (int k = 0; k < n->n_in; k++)
            last[n->in[k]] = (uint32_t)i;
    }
    for (size_t i = r->n_forward; i < c->n; i++) {
        const struct stance_graph_node *n = &c->g->nodes[c->order[i]];

        for (int k = 0; k < n->n_out; k++)
            now += n->out[k] != 0 && last[n->out[k]] > i ? bytes_of(r, n->out[k]) : 0;
        live[i - r->n_forward] = now;
        for (int k = 0; k < n->n_in; k++) {
            uint32_t v = n->in[k];

            if (v != 0 && last[v] == i && c->g->values[v].source == STANCE_SOURCE_NODE && maker(r, v) == 0) {
                now -= bytes_of(r, v);
                last[v] = 0; /* an operand that stands there twice ends once */
            }
        }
    }
    stance_free(last);
    return true;
}

/* Work of a node, in multiplications and bytes moved, which take about as long: m k n for a matrix product
 * of m k by k n, and of this size for a convolution; tens of operations fit into the time of one byte. */
static double work_of(const struct rebuild *r, const struct stance_graph_node *n)
{
    enum { OPERATIONS_A_BYTE = 10 };
    const struct stance_graph *g     = r->c->g;
    double                     bytes = 0, product = 1;

    for (int k = 0; k < n->n_in + n->n_out; k++) {
        uint32_t v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];

        if (v == 0)
            continue;
        bytes += (double)stance_elements(&g->values[v].shape) * (double)stance_type_size(g->values[v].type);
        if (k < 2 || k == n->n_in)
            product *= (double)stance_elements(&g->values[v].shape);
    }
    return OPERATIONS_A_BYTE * bytes + (n->op->type_class == STANCE_CLASS_LOW ? 2 * sqrt(product) : 0);
}

/* What the choice is made from. */
static bool describe(struct rebuild *r)
{
    const struct stance_compile *c    = r->c;
    const struct stance_graph   *g    = c->g;
    size_t                      *live = stance_calloc(c->n - r->n_forward + 1, sizeof *live);

    if (live == NULL || !live_gradients(r, live)) {
        stance_free(live);
        return false;
    }
    for (size_t i = 0; i < r->n_forward; i++)
        r->nodes[i].last = (uint32_t)i;
    for (size_t i = 0; i < c->n; i++) {
        const struct stance_graph_node *n = &g->nodes[c->order[i]];

        for (int k = 0; k < n->n_in; k++) {
            uint32_t v = n->in[k], p = maker(r, v);

            if (p == 0)
                continue;
            if (i < r->n_forward) {
                if (!r->stays[v])
                    r->nodes[p - 1].last = (uint32_t)i;
                continue;
            }
            if (r->nodes[p - 1].beside == 0)
                r->nodes[p - 1].beside = live[i - r->n_forward];
            r->wanted[v] = true;
        }
    }
    for (size_t i = 0; i < r->n_forward; i++) {
        const struct stance_graph_node *n = &g->nodes[c->order[i]];
        struct stance_segment_node     *s = &r->nodes[i];

        s->work = work_of(r, n);
        for (int k = 0; k < n->n_out; k++) {
            size_t bytes = n->out[k] != 0 ? bytes_of(r, n->out[k]) : 0;

            if (n->out[k] != 0 && r->stays[n->out[k]])
                s->fixed += r->wanted[n->out[k]] ? bytes : 0;
            else
                s->inside += r->wanted[n->out[k]] ? bytes : 0;
            if (n->out[k] != 0 && !r->stays[n->out[k]] && (r->wanted[n->out[k]] || s->last > i))
                s->crossing += bytes;
        }
    }
    stance_free(live);
    return true;
}

/* A value like another, in the form of the forward pass. */
static uint32_t value_like(const struct rebuild *r, uint32_t value)
{
    struct stance_graph *g = r->c->g;
    uint32_t             v = stance_graph_value_new(g, g->values[value].type, &g->values[value].shape);

    if (v != 0)
        stance_compile_default_form(r->c, v); /* it has no maker yet: an activation's */
    return v;
}

static bool is_gone(const struct rebuild *r, uint32_t value)
{
    uint32_t p = maker(r, value);

    return p != 0 && !r->stays[value] && !r->kept[p - 1];
}

/* A norm_sum by its own mean and inv_std, where the device can do that. @return false when memory is short
 * @param in  operands of the copy; @param[out] out  results as of norm_sum; @param[out] node  0: it cannot */
static bool rebuild_given(struct rebuild *r, const struct stance_graph_node *n, const uint32_t *in, uint32_t *out,
                          uint32_t *node)
{
    struct stance_graph          *g    = r->c->g;
    const struct stance_norm_sum *a    = n->attr;
    const int                     head = n->n_out - 4 * a->n_norm; /* y, and the mask's place */
    const uint32_t                mask = head == 2 ? n->out[1] : 0;
    uint32_t                      given[OPERANDS_MAX];

    *node = 0;
    memcpy(given, in, (size_t)n->n_in * sizeof *given);
    memset(out, 0, (size_t)n->n_out * sizeof *out);
    for (int k = 0; k < a->n_norm; k++) {
        given[5 * k + 3] = n->out[head + 4 * k + 2];
        given[5 * k + 4] = n->out[head + 4 * k + 3];
    }
    if ((out[0] = value_like(r, n->out[0])) == 0)
        return false;
    if (mask != 0 && r->wanted[mask] && !r->stays[mask] && (out[1] = value_like(r, mask)) == 0)
        return false;
    if (!stance_compile_takes(r->c, "norm_sum_given", &norm_sum_given_op, a, given, n->n_in, out, head))
        return true;
    *node = stance_graph_node_new(g, &norm_sum_given_op, "norm_sum_given", a, sizeof *a, given, n->n_in, out, head);
    return *node != 0;
}

/* The copy of a forward node. @return false when memory is short */
static bool rebuild_node(struct rebuild *r, uint32_t id)
{
    struct stance_graph           *g = r->c->g;
    const struct stance_graph_node n = g->nodes[id]; /* the array may move */
    uint32_t                       in[OPERANDS_MAX], out[OPERANDS_MAX], node = 0;
    bool                           ok;

    for (int k = 0; k < n.n_in; k++)
        in[k] = is_gone(r, n.in[k]) ? r->instead[n.in[k]] : n.in[k];
    g->section = STANCE_SECTION_BACKWARD;
    ok         = !is_op(&n, "norm_sum") || rebuild_given(r, &n, in, out, &node);
    if (ok && node == 0) {
        for (int k = 0; k < n.n_out && ok; k++) {
            out[k] = n.out[k] != 0 ? value_like(r, n.out[k]) : 0;
            ok     = out[k] != 0 || n.out[k] == 0;
        }
        if (ok)
            node = stance_graph_node_new(g, n.op, n.name, n.attr, n.op->attr_size, in, n.n_in, out, n.n_out);
    }
    g->section = STANCE_SECTION_FORWARD;
    if (!ok || node == 0)
        return false;
    g->nodes[node].scope = n.scope;
    g->nodes[node].again = true;
    for (int k = 0; k < n.n_out; k++)
        r->instead[n.out[k]] = out[k];
    return stance_compile_append(r->c, node);
}

/* Marks the maker of a value that is gone. @return 1 if it has to be rebuilt and was not marked yet */
static size_t mark(struct rebuild *r, uint32_t value)
{
    uint32_t p = maker(r, value);

    if (!is_gone(r, value) || r->state[p - 1] != NOT_REBUILT)
        return 0;
    r->state[p - 1] = MISSING;
    return 1;
}

/* Rebuilds what a node of the backward pass reads and is gone, with all that this needs, in the order of
 * the forward pass. */
static bool rebuild_operands(struct rebuild *r, const struct stance_graph_node *reader)
{
    size_t end = 0, begin, left = 0;

    for (int k = 0; k < reader->n_in; k++) {
        if (mark(r, reader->in[k]) == 0)
            continue;
        left++;
        end = maker(r, reader->in[k]) > end ? maker(r, reader->in[k]) : end;
    }
    for (begin = end; left > 0; ) {
        const struct stance_graph_node *n = &r->c->g->nodes[r->order[--begin]];

        if (r->state[begin] != MISSING)
            continue;
        left--;
        for (int k = 0; k < n->n_in; k++)
            left += mark(r, n->in[k]);
    }
    for (; begin < end; begin++) {
        if (r->state[begin] != MISSING)
            continue;
        if (!rebuild_node(r, r->order[begin]))
            return false;
        r->state[begin] = REBUILT;
    }
    return true;
}

static bool rewrite(struct rebuild *r, size_t n_order)
{
    struct stance_graph *g = r->c->g;

    for (size_t i = 0; i < n_order; i++) {
        if (i >= r->n_forward) {
            const struct stance_graph_node n = g->nodes[r->order[i]]; /* its operands do not move */

            if (!rebuild_operands(r, &n))
                return false;
            for (int k = 0; k < n.n_in; k++)
                if (is_gone(r, n.in[k]))
                    n.in[k] = r->instead[n.in[k]];
        }
        if (!stance_compile_append(r->c, r->order[i]))
            return false;
    }
    return true;
}

static bool take_memory(struct rebuild *r)
{
    r->position = stance_calloc(r->n_nodes, sizeof *r->position);
    r->stays    = stance_calloc(r->n_values, sizeof *r->stays);
    r->wanted   = stance_calloc(r->n_values, sizeof *r->wanted);
    r->instead  = stance_calloc(r->n_values, sizeof *r->instead);
    r->kept     = stance_calloc(r->n_forward + 1, sizeof *r->kept);
    r->state    = stance_calloc(r->n_forward + 1, sizeof *r->state);
    r->nodes    = stance_calloc(r->n_forward + 1, sizeof *r->nodes);
    return r->position != NULL && r->stays != NULL && r->wanted != NULL && r->instead != NULL && r->kept != NULL
           && r->state != NULL && r->nodes != NULL;
}

stance_status stance_pass_recompute(struct stance_compile *c, enum stance_rebuild what, struct stance_error *err)
{
    struct stance_graph *g = c->g;
    struct rebuild       r = { .c = c, .what = what, .n_values = g->n_values, .n_nodes = g->n_nodes };
    size_t               n_order = c->n;
    stance_status        status  = STANCE_OK;

    if (what == STANCE_REBUILD_NONE || !g->training)
        return STANCE_OK;
    while (r.n_forward < c->n && g->nodes[c->order[r.n_forward]].section == STANCE_SECTION_FORWARD)
        r.n_forward++;
    if (!take_memory(&r))
        goto no_memory;
    for (size_t i = 0; i < r.n_forward; i++)
        r.position[c->order[i]] = (uint32_t)i + 1;
    find_stays(&r);
    if (!describe(&r))
        goto no_memory;
    status = stance_segments_choose(r.nodes, r.n_forward, what == STANCE_REBUILD_BLOCK ? ROOM_FOR_SPEED : 0, r.kept, NULL,
                                    err);
    if (status != STANCE_OK)
        goto done;
    r.order  = c->order;
    c->order = NULL;
    c->n = c->room = 0;
    if (rewrite(&r, n_order))
        goto done;

no_memory:
    status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "recomputation");
done:
    stance_free(r.order);
    stance_free(r.position);
    stance_free(r.stays);
    stance_free(r.wanted);
    stance_free(r.instead);
    stance_free(r.kept);
    stance_free(r.state);
    stance_free(r.nodes);
    return status;
}
