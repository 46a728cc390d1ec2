/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/compile.h"

enum { OPERANDS_MAX = 64 };

bool stance_compile_append(struct stance_compile *c, uint32_t node)
{
    if (!stance_grow((void **)&c->order, &c->room, c->n + 1, sizeof *c->order))
        return false;
    c->order[c->n++] = node;
    return true;
}

struct stance_tensor stance_compile_tensor(const struct stance_graph *g, uint32_t value)
{
    const struct stance_graph_value *v = &g->values[value];
    struct stance_tensor             t = { .shape = { -1, { 0 } } };

    if (value == 0)
        return t;
    t.type   = v->type;
    t.stored = v->form.stored;
    t.layout = v->form.layout;
    t.bytes  = v->form.bytes;
    t.shape  = v->shape;
    return t;
}

struct stance_form stance_device_form(const struct stance_device *d, enum stance_type type,
                                      const struct stance_shape *shape, enum stance_purpose purpose)
{
    struct stance_form   form = { 0, type, (size_t)stance_elements(shape) * stance_type_size(type) };
    struct stance_tensor t    = { .type = type, .stored = type, .shape = *shape, .bytes = form.bytes };

    if (purpose != STANCE_PURPOSE_INPUT && STANCE_HAS(d->ops, form))
        d->ops->form(d->state, &t, purpose, &form);
    return form;
}

bool stance_compile_takes(struct stance_compile *c, const char *name, const struct stance_op_ops *op, const void *attr,
                          const uint32_t *in, int n_in, const uint32_t *out, int n_out)
{
    struct stance_tensor  ti[OPERANDS_MAX], to[OPERANDS_MAX];
    struct stance_form    fi[OPERANDS_MAX], fo[OPERANDS_MAX];
    int32_t               alias[OPERANDS_MAX];
    struct stance_request req   = { sizeof req, name, op, attr, ti, to, n_in, n_out, c->g->training };
    struct stance_offer   offer = { sizeof offer, 0, fi, fo, alias };

    for (int i = 0; i < n_in; i++) {
        stance_compile_default_form(c, in[i]);
        ti[i] = stance_compile_tensor(c->g, in[i]);
        fi[i] = c->g->values[in[i]].form;
    }
    for (int i = 0; i < n_out; i++) {
        stance_compile_default_form(c, out[i]);
        to[i]    = stance_compile_tensor(c->g, out[i]);
        fo[i]    = c->g->values[out[i]].form;
        alias[i] = -1;
    }
    return STANCE_HAS(c->device->ops, offer) && c->device->ops->offer(c->device->state, &req, &offer);
}

stance_status stance_pass_order(struct stance_compile *c, struct stance_error *err)
{
    struct stance_graph *g = c->g;
    bool *needed = stance_calloc(g->n_values, sizeof *needed);

    if (needed == NULL)
        goto no_memory;
    for (size_t i = 0; i < g->n_outputs; i++)
        needed[stance_graph_resolve(g, g->outputs[i].value)] = true;
    for (size_t i = 0; i < g->n_weights; i++) {
        needed[stance_graph_resolve(g, g->weights[i].assigned)] = g->training;
        needed[stance_graph_resolve(g, g->weights[i].grad)]     = true;
    }
    for (size_t i = g->n_nodes; i-- > 1;) {
        struct stance_graph_node *n = &g->nodes[i];
        bool live = false;

        for (int k = 0; k < n->n_out; k++)
            live = live || (n->out[k] != 0 && needed[n->out[k]]);
        n->dead = n->dead || !live;
        for (int k = 0; !n->dead && k < n->n_in; k++) {
            n->in[k]         = stance_graph_resolve(g, n->in[k]);
            needed[n->in[k]] = true;
        }
    }
    for (size_t i = 1; i < g->n_nodes; i++)
        if (!g->nodes[i].dead && !stance_compile_append(c, (uint32_t)i))
            goto no_memory;
    stance_free(needed);
    return STANCE_OK;

no_memory:
    stance_free(needed);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "order of %zu nodes", g->n_nodes);
}
