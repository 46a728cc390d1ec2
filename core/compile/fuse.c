/* SPDX-License-Identifier: Apache-2.0
 *
 * Fusion. A cluster is a tree of forward nodes under one root: relu over sums over (nearest upsampling
 * of) batch norms and other values. Its gradient nodes are known by grad_of. Where the device has
 * norm_sum and norm_sum_grad, a cluster becomes these two; the values that others see keep their
 * numbers. */
#include "config.h"

#include "compile/compile.h"

#include <string.h>

enum { CLUSTER_MAX = 40, DY_MAX = 16, OPERANDS_MAX = 64 };

static const struct stance_op_ops norm_sum_op = {
    .size = sizeof norm_sum_op, .attr_size = sizeof(struct stance_norm_sum),
    .type_class = STANCE_CLASS_WIDE, .flags = STANCE_OP_STATE,
};
static const struct stance_op_ops norm_sum_grad_op = {
    .size = sizeof norm_sum_grad_op, .attr_size = sizeof(struct stance_norm_sum_grad),
    .type_class = STANCE_CLASS_WIDE,
};

/* Who reads each value, as ranges of one list. */
struct readers { uint32_t *first, *list; bool *pinned; };

struct term { uint32_t norm; int32_t factor; }; /* batch norm node */

struct cluster {
    uint32_t    root, nodes[CLUSTER_MAX];
    int         n_nodes;
    struct term norms[STANCE_NORM_SUM_MAX];
    uint32_t    plain[STANCE_NORM_SUM_MAX];
    int         n_norms, n_plain;
    bool        relu, inference;
};

struct fuse {
    struct stance_compile *c;
    struct readers         r;
    uint32_t              *claimed; /* per node: root of the cluster that took it; 0: free */
};

static bool is_op(const struct stance_graph *g, uint32_t node, const char *name)
{
    return strcmp(g->nodes[node].name, name) == 0;
}

static uint32_t producer(const struct stance_graph *g, uint32_t value)
{
    return g->values[value].source == STANCE_SOURCE_NODE ? g->values[value].owner : 0;
}

static bool find_readers(struct stance_compile *c, struct readers *r)
{
    struct stance_graph *g = c->g;
    size_t total = 0;

    r->first  = stance_calloc(g->n_values + 2, sizeof *r->first);
    r->pinned = stance_calloc(g->n_values + 1, sizeof *r->pinned);
    if (r->first == NULL || r->pinned == NULL)
        return false;
    for (size_t i = 0; i < c->n; i++) {
        const struct stance_graph_node *n = &g->nodes[c->order[i]];

        for (int k = 0; k < n->n_in; k++)
            r->first[n->in[k] + 2] += n->in[k] != 0;
        total += (size_t)n->n_in;
    }
    for (size_t i = 2; i < g->n_values + 2; i++)
        r->first[i] += r->first[i - 1];
    r->list = stance_calloc(total + 1, sizeof *r->list);
    if (r->list == NULL)
        return false;
    for (size_t i = 0; i < c->n; i++) {
        const struct stance_graph_node *n = &g->nodes[c->order[i]];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k] != 0)
                r->list[r->first[n->in[k] + 1]++] = c->order[i];
    }
    for (size_t i = 0; i < g->n_outputs; i++)
        r->pinned[stance_graph_resolve(g, g->outputs[i].value)] = true;
    for (size_t i = 0; i < g->n_weights; i++)
        r->pinned[g->weights[i].assigned] = r->pinned[g->weights[i].grad] = true;
    r->pinned[0] = false;
    return true;
}

static bool in_cluster(const struct cluster *k, uint32_t node)
{
    for (int i = 0; i < k->n_nodes; i++)
        if (k->nodes[i] == node)
            return true;
    return false;
}

/* Forward readers of a value: how many. */
static int forward_readers(const struct fuse *f, uint32_t value)
{
    int n = 0;

    for (uint32_t i = f->r.first[value]; i < f->r.first[value + 1]; i++)
        n += f->c->g->nodes[f->r.list[i]].section == STANCE_SECTION_FORWARD;
    return n;
}

/* Only a value with one forward reader may disappear inside a cluster. */
static bool may_vanish(const struct fuse *f, uint32_t value)
{
    return !f->r.pinned[value] && forward_readers(f, value) == 1;
}

static bool is_norm(const struct stance_graph *g, uint32_t node)
{
    return is_op(g, node, g->training ? "batch_norm" : "batch_norm_inference");
}

/* Nearest upsampling by the same power of two both ways; 0 if it is another. */
static int32_t nearest_factor(const struct stance_graph_node *n)
{
    const struct stance_upsample *a = n->attr;
    int32_t f = a->factor[0];

    return !a->bilinear && a->factor[1] == f && f > 1 && f <= 8 && (f & (f - 1)) == 0 ? f : 0;
}

static bool add_node(struct cluster *k, uint32_t node)
{
    if (k->n_nodes == CLUSTER_MAX)
        return false;
    k->nodes[k->n_nodes++] = node;
    return true;
}

/* Takes a value of the sum apart. @param vanish  the value is read by nobody else */
static bool take(const struct fuse *f, struct cluster *k, uint32_t value, bool vanish)
{
    const struct stance_graph *g = f->c->g;
    uint32_t                   p = producer(g, value);

    if (vanish && p != 0 && f->claimed[p] == 0 && g->nodes[p].section == STANCE_SECTION_FORWARD
        && g->nodes[p].out[0] == value) {
        const struct stance_graph_node *n = &g->nodes[p];

        if (is_op(g, p, "add")) {
            if (!add_node(k, p))
                return false;
            for (int i = 0; i < n->n_in; i++)
                if (!take(f, k, n->in[i], may_vanish(f, n->in[i])))
                    return false;
            return true;
        }
        if (is_norm(g, p) && k->n_norms < STANCE_NORM_SUM_MAX) {
            k->norms[k->n_norms++] = (struct term){ p, 1 };
            return add_node(k, p);
        }
        if (is_op(g, p, "upsample") && nearest_factor(n) != 0 && k->n_norms < STANCE_NORM_SUM_MAX) {
            uint32_t below = producer(g, n->in[0]);

            if (below != 0 && f->claimed[below] == 0 && is_norm(g, below) && may_vanish(f, n->in[0])) {
                k->norms[k->n_norms++] = (struct term){ below, nearest_factor(n) };
                return add_node(k, p) && add_node(k, below);
            }
        }
    }
    if (k->n_plain == STANCE_NORM_SUM_MAX)
        return false;
    k->plain[k->n_plain++] = value;
    return true;
}

static bool match(const struct fuse *f, uint32_t root, struct cluster *k)
{
    const struct stance_graph *g = f->c->g;
    const struct stance_batch_norm *first, *other;

    *k = (struct cluster){ .root = root, .inference = !g->training };
    if (is_op(g, root, "relu")) {
        k->relu = true;
        if (!add_node(k, root) || !take(f, k, g->nodes[root].in[0], may_vanish(f, g->nodes[root].in[0])))
            return false;
    } else if (is_op(g, root, "add") || is_norm(g, root)) {
        if (!take(f, k, g->nodes[root].out[0], true))
            return false;
    } else {
        return false;
    }
    if (k->n_norms == 0)
        return false;
    first = g->nodes[k->norms[0].norm].attr;
    for (int i = 1; i < k->n_norms; i++) {
        other = g->nodes[k->norms[i].norm].attr;
        if (other->eps != first->eps || other->momentum != first->momentum)
            return false;
    }
    /* Inside values are read inside, or by the gradients of the inside, and by nobody else. */
    for (int i = 0; i < k->n_nodes; i++) {
        uint32_t v = g->nodes[k->nodes[i]].out[0];

        if (k->nodes[i] == root)
            continue;
        for (uint32_t j = f->r.first[v]; j < f->r.first[v + 1]; j++) {
            const struct stance_graph_node *reader = &g->nodes[f->r.list[j]];

            if (!in_cluster(k, f->r.list[j]) && !(reader->grad_of != 0 && in_cluster(k, reader->grad_of)))
                return false;
        }
    }
    return true;
}

/* The gradient nodes of a cluster. */
struct mirror {
    uint32_t nodes[CLUSTER_MAX];
    int      n_nodes;
    uint32_t sum, relu_grad, norm_grad[STANCE_NORM_SUM_MAX];
    uint32_t dy[DY_MAX];
    int      n_dy;
    uint32_t through; /* the gradient of the plain operands */
    bool     want_plain;
};

static bool find_mirror(const struct fuse *f, const struct cluster *k, struct mirror *m)
{
    const struct stance_compile *c = f->c;
    const struct stance_graph   *g = c->g;

    *m = (struct mirror){ 0 };
    for (size_t i = 0; i < c->n; i++) {
        uint32_t                        id = c->order[i];
        const struct stance_graph_node *n  = &g->nodes[id];

        if (n->grad_of == 0 || !in_cluster(k, n->grad_of))
            continue;
        if (m->n_nodes == CLUSTER_MAX)
            return false;
        m->nodes[m->n_nodes++] = id;
        if (is_op(g, id, "add") && n->grad_of == k->root && m->sum == 0) {
            m->sum = id;
        } else if (is_op(g, id, "relu_grad") && n->grad_of == k->root) {
            m->relu_grad = id;
        } else if (is_op(g, id, "batch_norm_grad")) {
            for (int t = 0; t < k->n_norms; t++)
                if (k->norms[t].norm == n->grad_of)
                    m->norm_grad[t] = id;
        } else if (!is_op(g, id, "upsample_grad")) {
            return false;
        }
    }
    if (m->n_nodes == 0)
        return false;
    for (int t = 0; t < k->n_norms; t++)
        if (m->norm_grad[t] == 0)
            return false;
    if (m->sum != 0) {
        if (g->nodes[m->sum].n_in > DY_MAX)
            return false;
        for (int i = 0; i < g->nodes[m->sum].n_in; i++)
            m->dy[m->n_dy++] = g->nodes[m->sum].in[i];
        m->through = g->nodes[m->sum].out[0];
    } else if (m->relu_grad != 0) {
        m->dy[m->n_dy++] = g->nodes[m->relu_grad].in[0];
    } else { /* what flows in reaches every part as it is */
        uint32_t first = m->norm_grad[0];

        for (int i = 0; i < m->n_nodes; i++)
            if (is_op(g, m->nodes[i], "upsample_grad")
                && g->nodes[first].in[0] == g->nodes[m->nodes[i]].out[0])
                first = m->nodes[i];
        m->dy[m->n_dy++] = g->nodes[first].in[0];
    }
    if (k->relu) {
        if (m->relu_grad == 0)
            return false;
        m->through = g->nodes[m->relu_grad].out[0];
    }
    if (m->through != 0) {
        bool mine;

        m->want_plain = f->r.pinned[m->through];
        for (uint32_t j = f->r.first[m->through]; j < f->r.first[m->through + 1]; j++) {
            mine = false;
            for (int i = 0; i < m->n_nodes; i++)
                mine = mine || m->nodes[i] == f->r.list[j];
            m->want_plain = m->want_plain || !mine;
        }
    }
    return true;
}

/* Operand and result numbers of the fused forward node. @return results */
static int forward_operands(const struct stance_graph *g, const struct cluster *k, uint32_t mask,
                            uint32_t *in, int *n_in, uint32_t *out)
{
    int n_out = 0;

    *n_in = 0;
    out[n_out++] = g->nodes[k->root].out[0];
    if (!k->inference)
        out[n_out++] = mask;
    for (int t = 0; t < k->n_norms; t++) {
        const struct stance_graph_node *n = &g->nodes[k->norms[t].norm];

        for (int i = 0; i < 5; i++)
            in[(*n_in)++] = n->in[i];
        for (int i = 1; !k->inference && i < 5; i++)
            out[n_out++] = n->out[i];
    }
    for (int i = 0; i < k->n_plain; i++)
        in[(*n_in)++] = k->plain[i];
    return n_out;
}

static int backward_operands(const struct stance_graph *g, const struct cluster *k,
                             const struct mirror *m, uint32_t mask, uint32_t *in, int *n_in, uint32_t *out)
{
    int n_out = 0;

    *n_in = 0;
    for (int i = 0; i < m->n_dy; i++)
        in[(*n_in)++] = m->dy[i];
    in[(*n_in)++] = mask;
    out[n_out++]  = m->want_plain ? m->through : 0;
    for (int t = 0; t < k->n_norms; t++) {
        const struct stance_graph_node *n = &g->nodes[k->norms[t].norm];
        const struct stance_graph_node *d = &g->nodes[m->norm_grad[t]];

        in[(*n_in)++] = n->in[0];
        in[(*n_in)++] = n->in[1];
        in[(*n_in)++] = n->out[3];
        in[(*n_in)++] = n->out[4];
        for (int i = 0; i < 3; i++)
            out[n_out++] = d->out[i];
    }
    return n_out;
}

/* Makes the two fused nodes. @return false when memory is short; *done tells whether it was fused. */
static bool fuse_one(struct fuse *f, const struct cluster *k, uint32_t *fused, bool *done)
{
    struct stance_compile      *c = f->c;
    struct stance_graph        *g = c->g;
    const struct stance_batch_norm *norm = g->nodes[k->norms[0].norm].attr;
    struct stance_norm_sum      a = { k->n_norms, k->n_plain, { 0 }, k->relu, k->inference, norm->eps, norm->momentum,
                                      norm->sync };
    struct stance_norm_sum_grad b = { .n_norm = k->n_norms, .relu = k->relu, .sync = norm->sync };
    struct mirror               m = { 0 };
    uint32_t in[OPERANDS_MAX], out[OPERANDS_MAX], mask = 0, forward, backward = 0;
    int      n_in, n_out;

    *done = false;
    if (g->training && !find_mirror(f, k, &m))
        return true;
    for (int t = 0; t < k->n_norms; t++)
        a.factor[t] = b.factor[t] = k->norms[t].factor;
    if (k->relu && g->training) {
        mask = stance_graph_value_new(g, STANCE_TYPE_U8, &g->values[g->nodes[k->root].out[0]].shape);
        if (mask == 0)
            return false;
        g->values[mask].source = STANCE_SOURCE_NODE;
    }
    n_out = forward_operands(g, k, mask, in, &n_in, out);
    if (!stance_compile_takes(c, "norm_sum", &norm_sum_op, &a, in, n_in, out, n_out))
        return true;
    if (g->training) {
        b.n_dy       = m.n_dy;
        b.want_plain = m.want_plain;
        n_out        = backward_operands(g, k, &m, mask, in, &n_in, out);
        if (!stance_compile_takes(c, "norm_sum_grad", &norm_sum_grad_op, &b, in, n_in, out, n_out))
            return true;
        g->section = STANCE_SECTION_BACKWARD;
        backward   = stance_graph_node_new(g, &norm_sum_grad_op, "norm_sum_grad", &b, sizeof b, in, n_in, out, n_out);
        g->section = STANCE_SECTION_FORWARD;
        if (backward == 0)
            return false;
        g->nodes[backward].scope = g->nodes[k->norms[0].norm].scope;
    }
    n_out   = forward_operands(g, k, mask, in, &n_in, out);
    forward = stance_graph_node_new(g, &norm_sum_op, "norm_sum", &a, sizeof a, in, n_in, out, n_out);
    if (forward == 0)
        return false;
    g->nodes[forward].scope = g->nodes[k->norms[0].norm].scope;
    for (int i = 0; i < k->n_nodes; i++) {
        f->claimed[k->nodes[i]]  = k->root;
        g->nodes[k->nodes[i]].dead = true;
    }
    for (int i = 0; i < m.n_nodes; i++)
        g->nodes[m.nodes[i]].dead = true;
    /* Where they go: the root's place, and the place of the first gradient node. */
    fused[k->root] = forward;
    if (backward != 0)
        fused[m.nodes[0]] = backward;
    *done = true;
    return true;
}

stance_status stance_pass_fuse(struct stance_compile *c, struct stance_error *err)
{
    struct fuse   f       = { .c = c };
    size_t        n_nodes = c->g->n_nodes, n_old = c->n;
    uint32_t     *fused = stance_calloc(n_nodes, sizeof *fused), *old = c->order;
    stance_status status = STANCE_OK;

    f.claimed = stance_calloc(n_nodes, sizeof *f.claimed);
    if (fused == NULL || f.claimed == NULL || !find_readers(c, &f.r))
        goto no_memory;
    for (size_t i = n_old; i-- > 0;) {
        struct cluster k;
        bool           done;
        uint32_t       id = old[i];

        if (c->g->nodes[id].dead || c->g->nodes[id].section != STANCE_SECTION_FORWARD || f.claimed[id] != 0
            || !match(&f, id, &k))
            continue;
        if (!fuse_one(&f, &k, fused, &done))
            goto no_memory;
    }
    c->order = NULL;
    c->n = c->room = 0;
    for (size_t i = 0; i < n_old; i++) {
        uint32_t id = fused[old[i]] != 0 ? fused[old[i]] : old[i];

        if (!c->g->nodes[id].dead && !stance_compile_append(c, id)) {
            stance_free(old);
            goto no_memory;
        }
    }
    stance_free(old);
    goto done;

no_memory:
    status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "fusion");
done:
    stance_free(fused);
    stance_free(f.claimed);
    stance_free(f.r.first);
    stance_free(f.r.list);
    stance_free(f.r.pinned);
    return status;
}
