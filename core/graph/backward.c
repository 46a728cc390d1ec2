/* SPDX-License-Identifier: Apache-2.0
 *
 * The backward pass: every node's gradient rule is called once, from the last node to the first, with
 * the sum of what has flowed into its results. Gradients are nodes like any other. */
#include "config.h"

#include "graph/graph.h"

enum { ADD_MAX = 16, OPERANDS_MAX = 64 };

struct contribution { uint32_t value, next; };

struct flow {
    uint32_t            *head, *tail; /* per value of the forward pass: its contributions, in order */
    struct contribution *list;        /* entry 0 is nobody */
    size_t               n, room, n_forward;
};

static bool contribute(struct flow *f, uint32_t to, uint32_t value)
{
    if (!stance_grow((void **)&f->list, &f->room, f->n + 1, sizeof *f->list))
        return false;
    f->list[f->n] = (struct contribution){ value, 0 };
    if (f->head[to] == 0)
        f->head[to] = (uint32_t)f->n;
    else
        f->list[f->tail[to]].next = (uint32_t)f->n;
    f->tail[to] = (uint32_t)f->n++;
    return true;
}

/* The sum of all contributions to a value, as one value; 0 when nothing flows. */
static struct stance_value total(struct stance_builder *b, struct flow *f, uint32_t of)
{
    struct stance_value in[ADD_MAX], sum = { 0 };
    int                 n = 0;

    for (uint32_t c = f->head[of]; c != 0; c = f->list[c].next) {
        if (n == ADD_MAX) {
            sum   = stance_node1(b, "add", NULL, 0, in, n);
            in[0] = sum;
            n     = 1;
        }
        in[n++].id = f->list[c].value;
    }
    if (n == 0)
        return sum;
    return n == 1 ? in[0] : stance_node1(b, "add", NULL, 0, in, n);
}

static bool backward_of(struct stance_builder *b, struct flow *f, uint32_t node)
{
    struct stance_graph *g = &b->graph;
    struct stance_value  in[OPERANDS_MAX], out[OPERANDS_MAX], d_out[OPERANDS_MAX], d_in[OPERANDS_MAX];
    /* The rule appends nodes, which may move the array: what is needed is copied first. */
    struct stance_graph_node n = g->nodes[node];
    bool                     any = false;

    if (n.dead || n.op->gradient == NULL)
        return true;
    g->grad_of = node;
    for (int i = 0; i < n.n_out; i++) {
        out[i].id = n.out[i];
        d_out[i].id = 0;
        if (n.out[i] != 0 && g->values[n.out[i]].wants)
            d_out[i] = total(b, f, n.out[i]);
        any = any || d_out[i].id != 0;
    }
    if (!any)
        return true;
    for (int i = 0; i < n.n_in; i++) {
        in[i].id   = n.in[i];
        d_in[i].id = 0;
    }
    n.op->gradient(b, n.attr, in, n.n_in, out, d_out, n.n_out, d_in);
    for (int i = 0; i < n.n_in; i++)
        if (d_in[i].id != 0 && in[i].id != 0 && g->values[in[i].id].wants && !contribute(f, in[i].id, d_in[i].id))
            return false;
    return true;
}

stance_status stance_graph_backward(struct stance_graph *g, struct stance_value loss,
                                    struct stance_error *err)
{
    struct stance_builder *b = stance_graph_builder(g);
    struct flow            f = { .n = 1, .n_forward = g->n_values };
    size_t                 n_nodes = g->n_nodes;
    struct stance_value    control, seed;
    bool                   ok;

    if (stance_graph_status(g, err) != STANCE_OK)
        return g->error.status;
    if (loss.id == 0 || stance_shape_of(b, loss).rank != 0)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "the loss is not a scalar");
    f.head = stance_calloc(f.n_forward, sizeof *f.head);
    f.tail = stance_calloc(f.n_forward, sizeof *f.tail);
    ok     = f.head != NULL && f.tail != NULL
             && stance_grow((void **)&f.list, &f.room, 1024, sizeof *f.list);
    if (ok) {
        g->section = STANCE_SECTION_BACKWARD;
        control    = stance_graph_control(g);
        seed       = stance_node1(b, "loss_seed", NULL, 0, &control, 1);
        ok         = contribute(&f, loss.id, seed.id);
    }
    for (size_t node = n_nodes; ok && node-- > 1;)
        ok = backward_of(b, &f, (uint32_t)node);
    g->grad_of = 0;
    for (size_t i = 0; ok && i < g->n_weights; i++)
        if (g->weights[i].role == STANCE_ROLE_PARAM)
            g->weights[i].grad = total(b, &f, g->weights[i].value).id;
    g->section = STANCE_SECTION_FORWARD;
    stance_free(f.head);
    stance_free(f.tail);
    stance_free(f.list);
    if (!ok)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "backward pass");
    return stance_graph_status(g, err);
}
