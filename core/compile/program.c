/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/program.h"

#include "base/clock.h"
#include "compile/compile.h"
#include "compile/plan.h"
#include "compile/sync.h"

#include <string.h>

enum { ALIGN = 64 };

struct stance_program {
    struct stance_graph        *g;
    struct stance_store        *store;
    const struct stance_device *device;
    struct stance_arena        *memory; /* of launches and tensors */
    uint32_t                   *order;  /* node of each launch */
    struct stance_launch       *launches;
    size_t                      n, n_forward;
    struct stance_launch       *packs;
    size_t                      n_packs;
    uint32_t                   *pack_value; /* COPY value of each pack */
    size_t                     *offset;     /* per value: in the arena; SIZE_MAX: not there */
    size_t                     *work_offset; /* per launch: its workspace in the arena */
    size_t                      arena_bytes, arena_bound;
    size_t                      need; /* of arena memory, with the workspaces of packs */
    void                       *inputs; /* memory of all inputs */
    size_t                      input_bytes;
    struct stance_tensor       *input, *output; /* by number in the graph */
    double                     *seconds;
};

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static bool in_arena(const struct stance_graph *g, uint32_t v)
{
    return v != 0 && g->values[v].source == STANCE_SOURCE_NODE && g->values[v].home == 0;
}

static uint32_t root_of(const uint32_t *same, uint32_t v)
{
    while (same[v] != v)
        v = same[v];
    return v;
}

/* Life times of values and workspaces, with results laid over operands where their kernels allow it. */
static stance_status plan_memory(struct stance_program *p, struct stance_error *err)
{
    const struct stance_graph *g      = p->g;
    size_t                     nv     = g->n_values, n_blocks = 0;
    uint32_t                  *first  = stance_calloc(nv, sizeof *first), *last = stance_calloc(nv, sizeof *last);
    uint32_t                  *same   = stance_calloc(nv, sizeof *same), *block = stance_calloc(nv, sizeof *block);
    struct stance_life        *blocks = stance_calloc(nv + p->n + 1, sizeof *blocks);
    stance_status              status;

    p->offset      = stance_calloc(nv, sizeof *p->offset);
    p->work_offset = stance_calloc(p->n + 1, sizeof *p->work_offset);
    if (first == NULL || last == NULL || same == NULL || block == NULL || blocks == NULL || p->offset == NULL
        || p->work_offset == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "memory plan");
        goto done;
    }
    for (size_t v = 0; v < nv; v++) {
        same[v]      = (uint32_t)v;
        p->offset[v] = SIZE_MAX;
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &g->nodes[p->order[i]];

        for (int k = 0; k < n->n_in; k++)
            last[n->in[k]] = (uint32_t)i;
        for (int k = 0; k < n->n_out; k++)
            first[n->out[k]] = last[n->out[k]] = (uint32_t)i;
    }
    for (size_t i = 0; i < g->n_outputs; i++)
        last[stance_graph_resolve(g, g->outputs[i].value)] = (uint32_t)(p->n - 1);
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &g->nodes[p->order[i]];

        for (int k = 0; k < n->n_out && n->alias != NULL; k++) {
            uint32_t under, over = n->out[k];

            if (n->alias[k] < 0 || n->alias[k] >= n->n_in || !in_arena(g, over))
                continue;
            under = n->in[n->alias[k]];
            if (!in_arena(g, under) || g->values[under].form.bytes != g->values[over].form.bytes)
                continue;
            under = root_of(same, under);
            if (last[under] != i)
                continue;
            same[over]  = under;
            last[under] = last[over];
        }
    }
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &g->nodes[p->order[i]];

        for (int k = 0; k < n->n_out; k++) {
            uint32_t v = n->out[k];

            if (!in_arena(g, v) || same[v] != v)
                continue;
            block[v]           = (uint32_t)n_blocks;
            blocks[n_blocks++] = (struct stance_life){ first[v], last[v], g->values[v].form.bytes, 0 };
        }
    }
    for (size_t i = 0; i < p->n; i++)
        if (g->nodes[p->order[i]].workspace > 0)
            blocks[n_blocks++] = (struct stance_life){ (uint32_t)i, (uint32_t)i, g->nodes[p->order[i]].workspace, 0 };
    status = stance_plan(blocks, n_blocks, (uint32_t)p->n, &p->arena_bytes, &p->arena_bound, err);
    if (status != STANCE_OK)
        goto done;
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &g->nodes[p->order[i]];

        for (int k = 0; k < n->n_out; k++)
            if (in_arena(g, n->out[k]))
                p->offset[n->out[k]] = blocks[block[root_of(same, n->out[k])]].offset;
    }
    for (size_t i = p->n; i-- > 0;)
        if (g->nodes[p->order[i]].workspace > 0)
            p->work_offset[i] = blocks[--n_blocks].offset;

done:
    stance_free(first);
    stance_free(last);
    stance_free(same);
    stance_free(block);
    stance_free(blocks);
    return status;
}

static stance_status make_launches(struct stance_program *p, struct stance_error *err)
{
    struct stance_graph *g = p->g;

    p->launches = stance_arena_get(p->memory, (p->n + 1) * sizeof *p->launches, 64);
    if (p->launches == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "launches");
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &g->nodes[p->order[i]];
        struct stance_launch           *l = &p->launches[i];
        struct stance_request           req;
        stance_status                   status;

        l->in  = stance_arena_get(p->memory, ((size_t)n->n_in + 1) * sizeof *l->in, 64);
        l->out = stance_arena_get(p->memory, ((size_t)n->n_out + 1) * sizeof *l->out, 64);
        if (l->in == NULL || l->out == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "launches");
        for (int k = 0; k < n->n_in; k++)
            l->in[k] = stance_compile_tensor(g, n->in[k]);
        for (int k = 0; k < n->n_out; k++)
            l->out[k] = stance_compile_tensor(g, n->out[k]);
        l->op        = n->name;
        l->scope     = n->scope;
        l->workspace = n->workspace;
        l->call      = (struct stance_call){ .size = sizeof l->call, .attr = n->attr, .in = l->in, .out = l->out,
                                             .n_in = n->n_in, .n_out = n->n_out };
        p->n_forward += n->section == STANCE_SECTION_FORWARD;
        if (!n->on_device) {
            l->plain      = n->kernel != NULL ? n->kernel->run : n->op->reference;
            l->call.queue = n->kernel != NULL ? stance_device_queue(p->device) : NULL;
            continue;
        }
        req = (struct stance_request){ sizeof req, n->name, n->op, n->attr, l->in, l->out, n->n_in, n->n_out, g->training };
        status = p->device->ops->prepare(p->device->state, &req, &l->kernel, err);
        if (status != STANCE_OK)
            return stance_error_prefix(err, status, "%s%s", n->scope, n->name);
    }
    return STANCE_OK;
}

/* One pack for each copy that the program reads. */
static stance_status make_packs(struct stance_program *p, struct stance_error *err)
{
    struct stance_graph *g = p->g;
    size_t               n = 0;

    for (size_t v = 1; v < g->n_values; v++)
        n += g->values[v].source == STANCE_SOURCE_COPY && g->values[v].form.bytes > 0;
    p->packs      = stance_arena_get(p->memory, (n + 1) * sizeof *p->packs, 64);
    p->pack_value = stance_arena_get(p->memory, (n + 1) * sizeof *p->pack_value, 64);
    if (p->packs == NULL || p->pack_value == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "copies of weights");
    for (size_t v = 1; v < g->n_values; v++) {
        const struct stance_packed *k;
        struct stance_tensor        from, to;
        stance_status               status;
        bool                        read = false;

        if (g->values[v].source != STANCE_SOURCE_COPY || g->values[v].form.bytes == 0)
            continue;
        /* The precision pass leaves copies behind that a kernel has exchanged for another form. */
        for (size_t i = 0; i < p->n && !read; i++)
            for (int j = 0; j < g->nodes[p->order[i]].n_in; j++)
                read = read || g->nodes[p->order[i]].in[j] == v;
        if (!read)
            continue;
        k       = &p->store->packed[g->values[v].packed];
        from    = stance_store_tensor(p->store, k->segment, STANCE_ARRAY_MASTER);
        to      = stance_compile_tensor(g, (uint32_t)v);
        to.data = k->data;
        p->pack_value[p->n_packs] = (uint32_t)v;
        status = stance_launch_make(p->device, p->memory, "pack", stance_builtin_op("pack"), NULL, &from, 1, &to, 1,
                                    g->training, &p->packs[p->n_packs], err);
        if (status != STANCE_OK)
            return stance_error_prefix(err, status, "%s", p->store->segments[k->segment].name);
        p->n_packs++;
    }
    return STANCE_OK;
}

static stance_status take_inputs(struct stance_program *p, struct stance_error *err)
{
    const struct stance_graph *g = p->g;
    size_t                     at = 0;
    stance_status              status;

    for (size_t i = 0; i < g->n_inputs; i++)
        p->input_bytes += aligned(g->values[g->inputs[i].value].form.bytes);
    p->input  = stance_arena_get(p->memory, (g->n_inputs + 1) * sizeof *p->input, 64);
    p->output = stance_arena_get(p->memory, (g->n_outputs + 1) * sizeof *p->output, 64);
    if (p->input == NULL || p->output == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "inputs");
    if (p->input_bytes > 0) {
        status = p->device->ops->alloc(p->device->state, p->input_bytes, &p->inputs, err);
        if (status != STANCE_OK)
            return status;
    }
    for (size_t i = 0; i < g->n_inputs; i++) {
        p->input[i]      = stance_compile_tensor(g, g->inputs[i].value);
        p->input[i].data = (char *)p->inputs + at;
        at += aligned(p->input[i].bytes);
    }
    return STANCE_OK;
}

stance_status stance_program_new(struct stance_graph *g, struct stance_store *store,
                                 const struct stance_program_options *options,
                                 struct stance_program **out, struct stance_error *err)
{
    struct stance_program *p = stance_calloc(1, sizeof *p);
    struct stance_compile  c = { .g = g, .device = store->device, .policy = store->policy, .store = store,
                                 .accumulate = options->accumulate };
    stance_status          status;

    if (p == NULL) {
        stance_graph_free(g);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "program");
    }
    p->g      = g;
    p->store  = store;
    p->device = store->device;
    status    = stance_graph_status(g, err);
    p->memory = stance_arena_new(256 << 10);
    if (status == STANCE_OK && p->memory == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "program");
    if (status == STANCE_OK)
        status = stance_store_adopt(store, g, err);
    if (status == STANCE_OK && options->sync != NULL)
        stance_sync_norms(g, options->sync);
    if (status == STANCE_OK)
        status = stance_pass_order(&c, err);
    if (status == STANCE_OK)
        status = stance_pass_precision(&c, err);
    if (status == STANCE_OK && !options->no_fusion)
        status = stance_pass_fuse(&c, err);
    if (status == STANCE_OK && g->training)
        status = stance_pass_recompute(&c, options->rebuild, err);
    if (status == STANCE_OK)
        status = stance_pass_place(&c, err);
    p->order = c.order;
    p->n     = c.n;
    if (status == STANCE_OK && c.n == 0)
        status = STANCE_FAIL(err, STANCE_ERR_INVAL, "the graph has no output");
    if (status == STANCE_OK)
        status = stance_store_lay_out(store, options->slots, err);
    if (status == STANCE_OK)
        status = stance_store_take_packed(store, err);
    if (status == STANCE_OK)
        status = plan_memory(p, err);
    if (status == STANCE_OK)
        status = make_launches(p, err);
    if (status == STANCE_OK)
        status = make_packs(p, err);
    if (status == STANCE_OK)
        status = take_inputs(p, err);
    p->need = p->arena_bytes;
    for (size_t i = 0; i < p->n_packs; i++)
        if (p->packs[i].workspace > p->need)
            p->need = p->packs[i].workspace;
    if (status == STANCE_OK)
        status = stance_store_take_arena(store, p->need, err);
    if (status != STANCE_OK) {
        stance_program_free(p);
        return status;
    }
    *out = p;
    return STANCE_OK;
}

void stance_program_free(struct stance_program *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; p->launches != NULL && i < p->n; i++)
        stance_launch_dispose(p->device, &p->launches[i]);
    for (size_t i = 0; i < p->n_packs; i++)
        stance_launch_dispose(p->device, &p->packs[i]);
    if (p->inputs != NULL)
        p->device->ops->release(p->device->state, p->inputs, p->input_bytes);
    stance_free(p->order);
    stance_free(p->offset);
    stance_free(p->work_offset);
    stance_free(p->seconds);
    stance_arena_free(p->memory);
    stance_graph_free(p->g);
    stance_free(p);
}

static void *address(const struct stance_program *p, uint32_t v)
{
    const struct stance_graph_value *x = &p->g->values[v];
    struct stance_store             *s = p->store;
    size_t                           segment;
    int                              array;

    if (v == 0)
        return NULL;
    if (x->home > 0)
        return stance_store_tensor(s, p->g->weights[x->home - 1].segment, STANCE_ARRAY_GRADIENT).data;
    if (x->home < 0)
        return stance_store_tensor(s, p->g->weights[-x->home - 1].segment, STANCE_ARRAY_MASTER).data;
    switch (x->source) {
    case STANCE_SOURCE_NODE:    return (char *)s->arena + p->offset[v];
    case STANCE_SOURCE_INPUT:   return p->input[x->owner].data;
    case STANCE_SOURCE_CONTROL: return s->control;
    case STANCE_SOURCE_COPY:    return s->packed[x->packed].data;
    case STANCE_SOURCE_GRAD:
        return stance_store_tensor(s, p->g->weights[x->owner].segment, STANCE_ARRAY_GRADIENT).data;
    case STANCE_SOURCE_WEIGHT:
        segment = p->g->weights[x->owner].segment;
        /* Evaluation reads the states of the last committed step. */
        array = !p->g->training && s->committed[s->segments[segment].bank] != NULL ? STANCE_ARRAY_COMMITTED
                                                                                   : STANCE_ARRAY_MASTER;
        return stance_store_tensor(s, segment, array).data;
    }
    return NULL;
}

stance_status stance_program_bind(struct stance_program *p, struct stance_error *err)
{
    const struct stance_graph *g = p->g;

    if (p->store->arena_bytes < p->need)
        return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "the arena is smaller than the plan");
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &g->nodes[p->order[i]];
        struct stance_launch           *l = &p->launches[i];

        for (int k = 0; k < n->n_in; k++)
            l->in[k].data = address(p, n->in[k]);
        for (int k = 0; k < n->n_out; k++)
            l->out[k].data = address(p, n->out[k]);
        l->call.workspace = n->workspace > 0 ? (char *)p->store->arena + p->work_offset[i] : NULL;
    }
    for (size_t i = 0; i < p->n_packs; i++)
        p->packs[i].call.workspace = p->packs[i].workspace > 0 ? p->store->arena : NULL;
    for (size_t i = 0; i < g->n_outputs; i++) {
        uint32_t v = stance_graph_resolve(g, g->outputs[i].value);

        p->output[i]      = stance_compile_tensor(g, v);
        p->output[i].data = address(p, v);
    }
    return STANCE_OK;
}

static stance_status run(struct stance_program *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        double        start  = p->seconds != NULL ? stance_seconds() : 0;
        stance_status status = stance_launch_run(p->device, &p->launches[i]);

        if (status != STANCE_OK)
            return status;
        if (p->seconds != NULL)
            p->seconds[i] += stance_seconds() - start;
    }
    return STANCE_OK;
}

stance_status stance_program_forward(struct stance_program *p)
{
    return run(p, 0, p->n_forward);
}

stance_status stance_program_backward(struct stance_program *p)
{
    return run(p, p->n_forward, p->n);
}

stance_status stance_program_backward_followed(struct stance_program *p, stance_program_follow *follow, void *ctx)
{
    for (size_t i = p->n_forward; i < p->n; i++) {
        stance_status status = run(p, i, i + 1);

        if (status == STANCE_OK)
            status = follow(ctx, i);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

stance_status stance_program_idle(struct stance_program *p)
{
    for (size_t i = 0; i < p->n; i++) {
        stance_status status = stance_sync_idle(&p->launches[i]);

        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

void stance_program_gradients(const struct stance_program *p, size_t *last)
{
    memset(last, 0, p->store->n_segments * sizeof *last);
    for (size_t i = 0; i < p->n; i++) {
        const struct stance_graph_node *n = &p->g->nodes[p->order[i]];

        for (int k = 0; k < n->n_out; k++)
            if (n->out[k] != 0 && p->g->values[n->out[k]].home > 0)
                last[p->g->weights[p->g->values[n->out[k]].home - 1].segment] = i;
    }
}

stance_status stance_program_pack(struct stance_program *p)
{
    for (size_t i = 0; i < p->n_packs; i++) {
        stance_status status = stance_launch_run(p->device, &p->packs[i]);

        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

const struct stance_tensor *stance_program_input(const struct stance_program *p, const char *name)
{
    for (size_t i = 0; i < p->g->n_inputs; i++)
        if (strcmp(p->g->inputs[i].name, name) == 0)
            return &p->input[i];
    return NULL;
}

const char *stance_program_input_name(const struct stance_program *p, size_t i)
{
    return i < p->g->n_inputs ? p->g->inputs[i].name : NULL;
}

const struct stance_tensor *stance_program_output(const struct stance_program *p, const char *name)
{
    for (size_t i = 0; i < p->g->n_outputs; i++)
        if (strcmp(p->g->outputs[i].name, name) == 0)
            return &p->output[i];
    return NULL;
}

struct stance_program_size stance_program_size(const struct stance_program *p)
{
    return (struct stance_program_size){ p->arena_bytes, p->arena_bound, p->input_bytes, p->n, p->n_forward };
}

bool stance_program_profile(struct stance_program *p, bool on)
{
    stance_free(p->seconds);
    p->seconds = on ? stance_calloc(p->n + 1, sizeof *p->seconds) : NULL;
    return !on || p->seconds != NULL;
}

bool stance_program_launch(const struct stance_program *p, size_t i, struct stance_program_launch *out)
{
    if (i >= p->n)
        return false;
    *out = (struct stance_program_launch){ p->launches[i].op, p->launches[i].scope,
                                           p->seconds != NULL ? p->seconds[i] : 0,
                                           p->launches[i].kernel != NULL, i >= p->n_forward };
    return true;
}

bool stance_program_part(const struct stance_program *p, size_t i, struct stance_program_part *out)
{
    if (i >= p->n)
        return false;
    *out = (struct stance_program_part){ p->g, p->order[i], &p->launches[i], i >= p->n_forward };
    return true;
}
