/* SPDX-License-Identifier: Apache-2.0
 *
 * Placement: which kernel runs a node, and in what form each value lies. The device is asked node by
 * node; what it declines runs as the op's plain C, between reorders to plain memory, where the
 * device's memory is the host's. */
#include "config.h"

#include "compile/compile.h"
#include "compile/kernel.h"

#include <string.h>

enum { OPERANDS_MAX = 64 };

struct place {
    struct stance_compile *c;
    uint32_t              *last_reader;  /* per value: 1 + position in the old order */
    uint32_t              *grad_weight;  /* per value: 1 + first weight whose gradient it is */
    uint32_t              *next_same;    /* per weight: 1 + next weight with the same gradient value */
    size_t                 n_values;     /* that these arrays cover */
    struct stance_error   *err;
};

static bool same_form(const struct stance_form *a, const struct stance_form *b)
{
    return a->layout == b->layout && a->stored == b->stored && a->bytes == b->bytes;
}

static struct stance_form plain_form(enum stance_type t, const struct stance_shape *s)
{
    return (struct stance_form){ 0, t, (size_t)stance_elements(s) * stance_type_size(t) };
}

static bool is_float(enum stance_type t)
{
    return t == STANCE_TYPE_F32 || t == STANCE_TYPE_F16 || t == STANCE_TYPE_BF16 || t == STANCE_TYPE_F64;
}

void stance_compile_default_form(struct stance_compile *c, uint32_t value)
{
    struct stance_graph_value *v = &c->g->values[value];

    if (value == 0 || v->form.bytes != 0)
        return;
    switch (v->source) {
    case STANCE_SOURCE_CONTROL:
        v->form = (struct stance_form){ 0, STANCE_TYPE_U8, sizeof(struct stance_control) };
        break;
    case STANCE_SOURCE_INPUT:
        v->form = stance_device_form(c->device, v->type, &v->shape, STANCE_PURPOSE_INPUT);
        break;
    case STANCE_SOURCE_WEIGHT: case STANCE_SOURCE_COPY:
        v->form = plain_form(v->type, &v->shape);
        break;
    case STANCE_SOURCE_GRAD:
        v->form = c->store->segments[c->g->weights[v->owner].segment].form;
        break;
    case STANCE_SOURCE_NODE:
        v->form = stance_device_form(c->device, v->type, &v->shape,
                                     c->g->nodes[v->owner].section == STANCE_SECTION_BACKWARD
                                         ? STANCE_PURPOSE_GRADIENT : STANCE_PURPOSE_ACTIVATION);
        break;
    }
}

static stance_status no_memory(const struct place *p)
{
    return STANCE_FAIL(p->err, STANCE_ERR_NOMEM, "placement of the graph");
}

/* Fills the request and asks. Forms of operands and results must be set. */
static bool ask(const struct place *p, const struct stance_graph_node *n, struct stance_offer *offer,
                struct stance_tensor *ti, struct stance_tensor *to)
{
    const struct stance_graph *g   = p->c->g;
    struct stance_request      req = { sizeof req, n->name, n->op, n->attr, ti, to, n->n_in, n->n_out, g->training };

    for (int i = 0; i < n->n_in; i++) {
        ti[i]        = stance_compile_tensor(g, n->in[i]);
        offer->in[i] = g->values[n->in[i]].form;
    }
    for (int i = 0; i < n->n_out; i++) {
        to[i]           = stance_compile_tensor(g, n->out[i]);
        offer->out[i]   = g->values[n->out[i]].form;
        offer->alias[i] = -1;
    }
    return STANCE_HAS(p->c->device->ops, offer) && p->c->device->ops->offer(p->c->device->state, &req, offer);
}

/* Workspace of a plain kernel. */
static size_t plain_workspace(const struct stance_graph *g, const struct stance_graph_node *n)
{
    struct stance_tensor ti[OPERANDS_MAX], to[OPERANDS_MAX];
    struct stance_call   call = { .size = sizeof call, .attr = n->attr, .in = ti, .out = to, .n_in = n->n_in, .n_out = n->n_out };

    size_t (*workspace)(const struct stance_call *) = n->kernel != NULL ? n->kernel->workspace : n->op->workspace;

    if (workspace == NULL)
        return 0;
    for (int i = 0; i < n->n_in; i++)
        ti[i] = stance_compile_tensor(g, n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        to[i] = stance_compile_tensor(g, n->out[i]);
    return workspace(&call);
}

/* A node of the compiler's own over placed values: asked for in these very forms. */
static stance_status emit(struct place *p, const char *name, enum stance_section section,
                          const uint32_t *in, int n_in, uint32_t out)
{
    struct stance_compile *c = p->c;
    struct stance_graph   *g = c->g;
    struct stance_tensor   ti[2], to[1];
    struct stance_form     fi[2], fo[1];
    int32_t                alias[1];
    struct stance_offer    offer = { sizeof offer, 0, fi, fo, alias };
    struct stance_graph_node *n;
    uint32_t id;

    g->section = section;
    id         = stance_graph_node_new(g, stance_builtin_op(name), name, NULL, 0, in, n_in, &out, 1);
    g->section = STANCE_SECTION_FORWARD;
    if (id == 0 || !stance_compile_append(c, id))
        return no_memory(p);
    n = &g->nodes[id];
    n->on_device = ask(p, n, &offer, ti, to);
    n->workspace = n->on_device ? offer.workspace : 0;
    for (int i = 0; !n->on_device && i <= n_in; i++) {
        const struct stance_form *f = &g->values[i < n_in ? in[i] : out].form;

        if (f->layout != 0 || !c->device->ops->host_memory)
            return STANCE_FAIL(p->err, STANCE_ERR_UNSUPPORTED, "device '%s' has no kernel for op '%s'",
                               c->device->plugin->name, name);
    }
    return STANCE_OK;
}

/* A new value with the numbers of @p of in another form and type, filled by a reorder at this place. */
static stance_status reordered(struct place *p, uint32_t of, enum stance_type type,
                               const struct stance_form *form, enum stance_section section, uint32_t *out)
{
    struct stance_graph *g = p->c->g;
    uint32_t             v = stance_graph_value_new(g, type, &g->values[of].shape);

    if (v == 0)
        return no_memory(p);
    g->values[v].form = *form;
    *out              = v;
    return emit(p, "reorder", section, &of, 1, v);
}

static bool is_weight(const struct stance_graph *g, uint32_t v)
{
    return g->values[v].source == STANCE_SOURCE_WEIGHT || g->values[v].source == STANCE_SOURCE_COPY;
}

/* The device runs it, in the forms it has offered. */
static stance_status place_on_device(struct place *p, uint32_t id, const struct stance_offer *offer)
{
    struct stance_graph      *g = p->c->g;
    struct stance_graph_node  n = g->nodes[id];
    stance_status             status;

    n.on_device = true;
    n.workspace = offer->workspace;
    n.in_form   = stance_arena_get(g->arena, ((size_t)n.n_in + 1) * sizeof *n.in_form, sizeof(size_t));
    n.alias     = stance_arena_get(g->arena, ((size_t)n.n_out + 1) * sizeof *n.alias, sizeof *n.alias);
    if (n.in_form == NULL || n.alias == NULL)
        return no_memory(p);
    for (int i = 0; i < n.n_in; i++) {
        n.in_form[i] = offer->in[i];
        if (n.in[i] == 0 || is_weight(g, n.in[i]) || same_form(&offer->in[i], &g->values[n.in[i]].form))
            continue;
        status = reordered(p, n.in[i], g->values[n.in[i]].type, &offer->in[i], n.section, &n.in[i]);
        if (status != STANCE_OK)
            return status;
    }
    for (int i = 0; i < n.n_out; i++) {
        n.alias[i] = offer->alias[i];
        if (n.out[i] != 0)
            g->values[n.out[i]].form = offer->out[i];
    }
    g->nodes[id] = n;
    return stance_compile_append(p->c, id) ? STANCE_OK : no_memory(p);
}

/* The kernel that the op brings for the device. @param[out] narrow  it takes values in the types that they
 * have; else in the wide type */
static const struct stance_kernel *kernel_of(const struct stance_compile *c, const struct stance_graph_node *n,
                                             bool *narrow)
{
    const struct stance_kernel *k;
    enum stance_type            first = c->policy.wide;

    *narrow = false;
    for (int i = n->n_in; i-- > 0;)
        if (n->in[i] != 0 && is_float(c->g->values[n->in[i]].type))
            first = c->g->values[n->in[i]].type;
    k = stance_plain_kernel(c->device, n->op, first);
    if (k == NULL || first == c->policy.wide)
        return k != NULL ? k : stance_plain_kernel(c->device, n->op, c->policy.wide);
    *narrow = true;
    return k;
}

/* A kernel of the op runs it, over plain memory; its plain C wants operands and results wide. */
static stance_status place_plain(struct place *p, uint32_t id)
{
    struct stance_compile *c = p->c;
    struct stance_graph   *g = c->g;
    struct stance_graph_node n = g->nodes[id];
    uint32_t               final[OPERANDS_MAX];
    bool                   narrow;
    stance_status          status;

    n.kernel = kernel_of(c, &n, &narrow);
    if (n.kernel == NULL && (!c->device->ops->host_memory || n.op->reference == NULL))
        return STANCE_FAIL(p->err, STANCE_ERR_UNSUPPORTED, "%s%sdevice '%s' has no kernel for op '%s'", n.scope,
                           n.scope[0] != '\0' ? ": " : "", c->device->plugin->name, n.name);
    n.in_form = stance_arena_get(g->arena, ((size_t)n.n_in + 1) * sizeof *n.in_form, sizeof(size_t));
    if (n.in_form == NULL)
        return no_memory(p);
    for (int i = 0; i < n.n_in; i++) {
        const struct stance_graph_value *v = &g->values[n.in[i]];
        enum stance_type   type = narrow ? v->type : c->policy.wide;
        struct stance_form want;

        if (n.in[i] == 0 || !is_float(v->type)) {
            n.in_form[i] = v->form;
            continue;
        }
        want = plain_form(type, &v->shape);
        if (v->source == STANCE_SOURCE_WEIGHT) {
            n.in_form[i] = want;
            continue;
        }
        if (!same_form(&want, &v->form)) {
            status = reordered(p, n.in[i], type, &want, n.section, &n.in[i]);
            if (status != STANCE_OK)
                return status;
        }
        n.in_form[i] = want;
    }
    for (int i = 0; i < n.n_out; i++) {
        struct stance_graph_value *v = &g->values[n.out[i]];
        enum stance_type           type = narrow ? v->type : c->policy.wide;
        struct stance_form         want;

        final[i] = 0;
        if (n.out[i] == 0 || !is_float(v->type))
            continue;
        want = plain_form(type, &v->shape);
        if (v->type == type && same_form(&want, &v->form))
            continue;
        final[i] = n.out[i];
        n.out[i] = stance_graph_value_new(g, type, &v->shape);
        if (n.out[i] == 0)
            return no_memory(p);
        g->values[n.out[i]].source = STANCE_SOURCE_NODE;
        g->values[n.out[i]].owner  = id;
        g->values[n.out[i]].slot   = i;
        g->values[n.out[i]].form   = want;
    }
    n.on_device = false;
    n.workspace = plain_workspace(g, &n);
    if (n.op->flags & STANCE_OP_IN_PLACE) {
        n.alias = stance_arena_get(g->arena, (size_t)n.n_out * sizeof *n.alias, sizeof *n.alias);
        if (n.alias == NULL)
            return no_memory(p);
        for (int i = 1; i < n.n_out; i++)
            n.alias[i] = -1;
    }
    g->nodes[id] = n;
    if (!stance_compile_append(c, id))
        return no_memory(p);
    for (int i = 0; i < n.n_out; i++) {
        if (final[i] != 0) {
            status = emit(p, "reorder", n.section, &n.out[i], 1, final[i]);
            if (status != STANCE_OK)
                return status;
        }
    }
    return STANCE_OK;
}

/* A gradient of weights has been made: it lies in the flat gradients already, or is put there. */
static stance_status keep_gradient(struct place *p, uint32_t value)
{
    struct stance_compile *c = p->c;
    struct stance_graph   *g = c->g;

    if (value >= p->n_values)
        return STANCE_OK;
    for (uint32_t w = p->grad_weight[value]; w != 0; w = p->next_same[w - 1]) {
        struct stance_segment *s = &c->store->segments[g->weights[w - 1].segment];
        struct stance_form     f = g->values[value].form;
        uint32_t               to, in[2];
        stance_status          status;

        /* Its form becomes that of master and moments, if the choice is still free. */
        if (!c->store->laid_out && f.stored == c->policy.wide)
            s->form = f;
        if (!c->accumulate && same_form(&f, &s->form) && g->values[value].home == 0) {
            g->values[value].home = (int32_t)w;
            continue;
        }
        to = stance_graph_value_new(g, c->policy.wide, &g->values[value].shape);
        if (to == 0)
            return no_memory(p);
        g->values[to].home = (int32_t)w;
        g->values[to].form = s->form;
        in[0] = value;
        if (c->accumulate) {
            in[0] = stance_graph_value_new(g, c->policy.wide, &g->values[value].shape);
            if (in[0] == 0)
                return no_memory(p);
            g->values[in[0]].source = STANCE_SOURCE_GRAD;
            g->values[in[0]].owner  = w - 1;
            g->values[in[0]].form   = s->form;
            in[1] = value;
            if (f.layout != s->form.layout) {
                status = reordered(p, value, g->values[value].type, &s->form, STANCE_SECTION_BACKWARD, &in[1]);
                if (status != STANCE_OK)
                    return status;
            }
        }
        status = emit(p, c->accumulate ? "accumulate" : "reorder", STANCE_SECTION_BACKWARD, in, c->accumulate ? 2 : 1, to);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

/* States that became of a node's results: in place where that is safe, else by a copy at the end of
 * the forward pass. */
static void keep_states_in_place(struct place *p, uint32_t id, size_t position)
{
    struct stance_graph            *g = p->c->g;
    const struct stance_graph_node *n = &g->nodes[id];

    if (!(n->op->flags & STANCE_OP_STATE))
        return;
    for (int k = 0; k < n->n_in; k++) {
        const struct stance_graph_weight *w;

        if (n->in[k] == 0 || g->values[n->in[k]].source != STANCE_SOURCE_WEIGHT)
            continue;
        w = &g->weights[g->values[n->in[k]].owner];
        if (w->role != STANCE_ROLE_STATE || w->assigned == 0 || p->last_reader[w->value] != position + 1)
            continue;
        for (int i = 0; i < n->n_out; i++)
            if (n->out[i] == w->assigned && g->values[w->assigned].form.layout == 0
                && g->values[w->assigned].form.stored == g->values[w->value].type
                && g->values[w->assigned].home == 0)
                g->values[w->assigned].home = -(int32_t)g->values[n->in[k]].owner - 1;
    }
}

static stance_status copy_states(struct place *p)
{
    struct stance_graph *g = p->c->g;

    for (size_t i = 0; i < g->n_weights; i++) {
        uint32_t from = stance_graph_resolve(g, g->weights[i].assigned), to;
        stance_status status;

        if (from == 0 || g->values[from].home == -(int32_t)i - 1)
            continue;
        to = stance_graph_value_new(g, g->values[g->weights[i].value].type, &g->weights[i].shape);
        if (to == 0)
            return no_memory(p);
        g->values[to].home = -(int32_t)i - 1;
        g->values[to].form = plain_form(g->values[to].type, &g->weights[i].shape);
        status = emit(p, "reorder", STANCE_SECTION_FORWARD, &from, 1, to);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

/* Weights in the forms that kernels want: the master itself, or a copy of the store's. */
static stance_status settle_weights(struct place *p)
{
    struct stance_compile *c = p->c;
    struct stance_graph   *g = c->g;
    uint32_t              *copy = NULL; /* per packed number: its value in this graph */
    size_t                 room = 0;
    stance_status          status = STANCE_OK;

    for (size_t i = 0; i < g->n_weights; i++)
        g->values[g->weights[i].value].form = c->store->segments[g->weights[i].segment].form;
    for (size_t i = 0; i < c->n; i++) {
        struct stance_graph_node n = g->nodes[c->order[i]];

        for (int k = 0; k < n.n_in; k++) {
            const struct stance_graph_value v = g->values[n.in[k]];
            const struct stance_segment    *s;
            struct stance_form              want;
            size_t                          packed;

            if (n.in[k] == 0 || !is_weight(g, n.in[k]))
                continue;
            s    = &c->store->segments[g->weights[v.owner].segment];
            want = n.in_form != NULL ? n.in_form[k] : v.form;
            if (v.type == s->type && same_form(&want, &s->form)) {
                n.in[k] = g->weights[v.owner].value;
                continue;
            }
            if (!stance_store_pack(c->store, g->weights[v.owner].segment, v.type, &want, &packed)
                || !stance_grow((void **)&copy, &room, packed + 1, sizeof *copy))
                goto no_memory;
            if (copy[packed] == 0) {
                uint32_t new = stance_graph_value_new(g, v.type, &v.shape);

                if (new == 0)
                    goto no_memory;
                g->values[new].source = STANCE_SOURCE_COPY;
                g->values[new].owner  = v.owner;
                g->values[new].form   = want;
                g->values[new].packed = (uint32_t)packed;
                copy[packed]          = new;
            }
            n.in[k] = copy[packed];
        }
    }
    goto done;

no_memory:
    status = no_memory(p);
done:
    stance_free(copy);
    return status;
}

static stance_status place_node(struct place *p, uint32_t id, size_t position)
{
    struct stance_compile    *c = p->c;
    struct stance_graph      *g = c->g;
    struct stance_graph_node *n = &g->nodes[id];
    struct stance_tensor      ti[OPERANDS_MAX], to[OPERANDS_MAX];
    struct stance_form        fi[OPERANDS_MAX], fo[OPERANDS_MAX];
    int32_t                   alias[OPERANDS_MAX];
    struct stance_offer       offer = { sizeof offer, 0, fi, fo, alias };
    uint32_t                  results[OPERANDS_MAX]; /* before plain ones are put in front of them */
    int                       n_results = n->n_out;
    stance_status             status;

    for (int i = 0; i < n->n_in; i++)
        stance_compile_default_form(c, n->in[i]);
    for (int i = 0; i < n->n_out; i++) {
        uint32_t v = results[i] = n->out[i], w = v < p->n_values ? p->grad_weight[v] : 0;

        if (g->values[v].form.bytes != 0)
            continue;
        /* A weight's gradient is asked for in the form of its segment, once that is settled; until then
         * plain: an activation's layout, which a sum of gradients would get, is none for weights. */
        if (w != 0 && c->store->laid_out)
            g->values[v].form = c->store->segments[g->weights[w - 1].segment].form;
        stance_compile_default_form(c, v);
        if (w != 0 && !c->store->laid_out && g->values[v].source == STANCE_SOURCE_NODE)
            g->values[v].form = plain_form(g->values[v].form.stored, &g->values[v].shape);
    }
    status = ask(p, n, &offer, ti, to) ? place_on_device(p, id, &offer) : place_plain(p, id);
    if (status != STANCE_OK)
        return status;
    keep_states_in_place(p, id, position);
    for (int i = 0; i < n_results; i++) {
        status = keep_gradient(p, results[i]);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

stance_status stance_pass_place(struct stance_compile *c, struct stance_error *err)
{
    struct stance_graph *g = c->g;
    struct place         p = { .c = c, .n_values = g->n_values, .err = err };
    uint32_t            *old = c->order;
    size_t               n_old = c->n;
    bool                 states_done = false;
    stance_status        status = STANCE_OK;

    c->order      = NULL;
    c->n = c->room = 0;
    p.last_reader = stance_calloc(g->n_values, sizeof *p.last_reader);
    p.grad_weight = stance_calloc(g->n_values, sizeof *p.grad_weight);
    p.next_same   = stance_calloc(g->n_weights + 1, sizeof *p.next_same);
    if (p.last_reader == NULL || p.grad_weight == NULL || p.next_same == NULL) {
        status = no_memory(&p);
        goto done;
    }
    for (size_t i = 0; i < n_old; i++)
        for (int k = 0; k < g->nodes[old[i]].n_in; k++)
            p.last_reader[g->nodes[old[i]].in[k]] = (uint32_t)i + 1;
    for (size_t i = g->n_weights; g->training && i-- > 0;) {
        uint32_t v = stance_graph_resolve(g, g->weights[i].grad);

        if (v != 0) {
            p.next_same[i]   = p.grad_weight[v];
            p.grad_weight[v] = (uint32_t)i + 1;
        }
    }
    for (size_t i = 0; i < n_old && status == STANCE_OK; i++) {
        if (g->training && !states_done && g->nodes[old[i]].section == STANCE_SECTION_BACKWARD) {
            states_done = true;
            status      = copy_states(&p);
        }
        if (status == STANCE_OK)
            status = place_node(&p, old[i], i);
    }
    if (g->training && !states_done && status == STANCE_OK)
        status = copy_states(&p);
    if (status == STANCE_OK)
        status = settle_weights(&p);

done:
    stance_free(old);
    stance_free(p.last_reader);
    stance_free(p.grad_weight);
    stance_free(p.next_same);
    return status;
}
