/* SPDX-License-Identifier: Apache-2.0
 *
 * What plugins call to build a graph (stance/graph.h). The first failure is kept, with the scope it
 * happened in; every later call gives "no value". */
#include "config.h"

#include "graph/graph.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* uthash's allocations go through the one door too; an entry that cannot be added leaves the table
 * as it was. */
#define uthash_malloc(size)     stance_calloc(1, size)
#define uthash_free(p, size)    stance_free(p)
#define HASH_NONFATAL_OOM       1
#define uthash_nonfatal_oom(e)  ((e)->number = (uint32_t)-1)
#include <uthash.h>

struct stance_name_index {
    const char    *name;
    uint32_t       number;
    UT_hash_handle hh;
};

enum { NODE_OPERANDS_MAX = 64 };

const char *stance_type_word(enum stance_type t)
{
    static const char *const word[STANCE_TYPE_COUNT] = { "any", "f32", "f16", "bf16", "f64", "i32", "i64", "u8" };

    return (unsigned)t < STANCE_TYPE_COUNT ? word[t] : "?";
}

const char *stance_shape_text(const struct stance_shape *s, char *text, size_t size)
{
    size_t used = 0;

    if (s->rank <= 0) {
        snprintf(text, size, "%s", s->rank == 0 ? "scalar" : "none");
        return text;
    }
    for (int i = 0; i < s->rank && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%c%lld", i == 0 ? '[' : ',', (long long)s->dim[i]);
    if (used < size)
        snprintf(text + used, size - used, "]");
    return text;
}

stance_status stance_graph_new(struct stance_registry *registry, bool training,
                               struct stance_graph **out, struct stance_error *err)
{
    struct stance_builder *b = stance_calloc(1, sizeof *b);
    struct stance_graph   *g = b != NULL ? &b->graph : NULL;

    if (g == NULL)
        goto no_memory;
    g->arena = stance_arena_new(64 << 10);
    if (g->arena == NULL || !stance_grow((void **)&g->values, &g->room_values, 1024, sizeof *g->values)
        || !stance_grow((void **)&g->nodes, &g->room_nodes, 512, sizeof *g->nodes))
        goto no_memory;
    g->n_values         = 1;
    g->n_nodes          = 1;
    g->nodes[0].dead    = true;
    g->values[0].shape.rank = -1;
    g->registry         = registry;
    g->training         = training;
    *out                = g;
    return STANCE_OK;

no_memory:
    stance_graph_free(g);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "graph");
}

void stance_graph_free(struct stance_graph *g)
{
    struct stance_name_index *e, *next;

    if (g == NULL)
        return;
    HASH_ITER(hh, g->names, e, next)
        HASH_DEL(g->names, e); /* the entries themselves are in the arena */
    stance_free(g->values);
    stance_free(g->nodes);
    stance_free(g->weights);
    stance_free(g->inputs);
    stance_free(g->outputs);
    stance_arena_free(g->arena);
    stance_free(stance_graph_builder(g));
}

stance_status stance_graph_status(const struct stance_graph *g, struct stance_error *err)
{
    if (g->error.status != STANCE_OK && err != NULL)
        *err = g->error;
    return g->error.status;
}

static void fail(struct stance_graph *g, const struct stance_error *why)
{
    if (g->error.status != STANCE_OK)
        return;
    g->error = *why;
    if (g->scope_len > 0)
        stance_error_prefix(&g->error, g->error.status, "%s", g->scope);
}

static void no_memory(struct stance_graph *g)
{
    struct stance_error e = STANCE_ERROR_INIT;

    STANCE_FAIL(&e, STANCE_ERR_NOMEM, "graph");
    fail(g, &e);
}

void stance_refuse(struct stance_builder *b, stance_status status, const char *fmt, ...)
{
    struct stance_error e = STANCE_ERROR_INIT;
    va_list             ap;

    va_start(ap, fmt);
    vsnprintf(e.text, sizeof e.text, fmt, ap);
    va_end(ap);
    e.status = status;
    fail(&b->graph, &e);
}

bool stance_failed(const struct stance_builder *b)
{
    return b->graph.error.status != STANCE_OK;
}

bool stance_training(const struct stance_builder *b)
{
    return b->graph.training;
}

struct stance_shape stance_shape_of(const struct stance_builder *b, struct stance_value v)
{
    struct stance_shape none = { -1, { 0 } };

    if (stance_failed(b) || v.id == 0 || v.id >= b->graph.n_values)
        return none;
    return b->graph.values[v.id].shape;
}

enum stance_type stance_type_of(const struct stance_builder *b, struct stance_value v)
{
    return v.id < b->graph.n_values ? b->graph.values[v.id].type : STANCE_TYPE_ANY;
}

bool stance_wants_gradient(const struct stance_builder *b, struct stance_value v)
{
    return v.id < b->graph.n_values && b->graph.values[v.id].wants;
}

void stance_enter(struct stance_builder *b, const char *fmt, ...)
{
    struct stance_graph *g = &b->graph;
    va_list              ap;
    int                  n;
    size_t               room = sizeof g->scope - g->scope_len;

    if (stance_failed(b))
        return;
    if (g->depth == (int)(sizeof g->scope_mark / sizeof *g->scope_mark)) {
        stance_refuse(b, STANCE_ERR_INVAL, "scopes are nested deeper than %d", g->depth);
        return;
    }
    g->scope_mark[g->depth++] = (uint16_t)g->scope_len;
    va_start(ap, fmt);
    n = vsnprintf(g->scope + g->scope_len, room, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n + 1 >= room) {
        g->scope[g->scope_mark[g->depth - 1]] = '\0';
        stance_refuse(b, STANCE_ERR_INVAL, "scope name is longer than %zu bytes", sizeof g->scope);
        return;
    }
    g->scope_len += (size_t)n;
    if (n > 0) {
        g->scope[g->scope_len++] = '.';
        g->scope[g->scope_len]   = '\0';
    }
}

void stance_leave(struct stance_builder *b)
{
    struct stance_graph *g = &b->graph;

    if (stance_failed(b))
        return;
    if (g->depth == 0) {
        stance_refuse(b, STANCE_ERR_INVAL, "stance_leave() without stance_enter()");
        return;
    }
    g->scope_len           = g->scope_mark[--g->depth];
    g->scope[g->scope_len] = '\0';
}

uint32_t stance_graph_value_new(struct stance_graph *g, enum stance_type type,
                                const struct stance_shape *shape)
{
    const struct stance_shape  copy = *shape; /* it may lie in the array that grows */
    struct stance_graph_value *v;

    if (g->n_values >= UINT32_MAX
        || !stance_grow((void **)&g->values, &g->room_values, g->n_values + 1, sizeof *g->values)) {
        no_memory(g);
        return 0;
    }
    v        = &g->values[g->n_values];
    *v       = (struct stance_graph_value){ .type = type, .shape = copy };
    return (uint32_t)g->n_values++;
}

uint32_t stance_graph_node_new(struct stance_graph *g, const struct stance_op_ops *op,
                               const char *name, const void *attr, size_t attr_size,
                               const uint32_t *in, int n_in, const uint32_t *out, int n_out)
{
    struct stance_graph_node *n;
    size_t size = op != NULL && op->attr_size > attr_size ? op->attr_size : attr_size;

    if (!stance_grow((void **)&g->nodes, &g->room_nodes, g->n_nodes + 1, sizeof *g->nodes))
        goto no_memory;
    n        = &g->nodes[g->n_nodes];
    *n       = (struct stance_graph_node){ .op = op, .n_in = n_in, .n_out = n_out,
                                           .section = g->section, .grad_of = g->grad_of };
    n->name  = stance_arena_strdup(g->arena, name);
    n->scope = stance_arena_strdup(g->arena, g->scope);
    n->attr  = stance_arena_get(g->arena, size + 1, 16);
    n->in    = stance_arena_get(g->arena, ((size_t)n_in + 1) * sizeof *n->in, sizeof *n->in);
    n->out   = stance_arena_get(g->arena, ((size_t)n_out + 1) * sizeof *n->out, sizeof *n->out);
    if (n->name == NULL || n->scope == NULL || n->attr == NULL || n->in == NULL || n->out == NULL)
        goto no_memory;
    if (attr_size > 0)
        memcpy(n->attr, attr, attr_size);
    for (int i = 0; i < n_in; i++)
        n->in[i] = in[i];
    for (int i = 0; i < n_out; i++) {
        n->out[i] = out[i];
        if (out[i] != 0) {
            g->values[out[i]].source = STANCE_SOURCE_NODE;
            g->values[out[i]].owner  = (uint32_t)g->n_nodes;
            g->values[out[i]].slot   = i;
        }
    }
    return (uint32_t)g->n_nodes++;

no_memory:
    no_memory(g);
    return 0;
}

static bool same_shape(const struct stance_shape *a, const struct stance_shape *b)
{
    return a->rank == b->rank && (a->rank <= 0 || memcmp(a->dim, b->dim, (size_t)a->rank * sizeof a->dim[0]) == 0);
}

static bool legal_shape(const struct stance_shape *s)
{
    int64_t n = 1;

    if (s->rank < 0 || s->rank > STANCE_RANK_MAX)
        return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] <= 0 || __builtin_mul_overflow(n, s->dim[i], &n) || n > (int64_t)1 << 40)
            return false;
    return true;
}

struct stance_value stance_input(struct stance_builder *b, const char *name, enum stance_type type,
                                 struct stance_shape shape)
{
    struct stance_graph *g    = &b->graph;
    struct stance_value  none = { 0 }, v;
    char                 text[STANCE_SHAPE_TEXT], other[STANCE_SHAPE_TEXT];

    if (stance_failed(b))
        return none;
    for (size_t i = 0; i < g->n_inputs; i++) {
        if (strcmp(g->inputs[i].name, name) == 0) {
            v.id = g->inputs[i].value;
            if (same_shape(&g->values[v.id].shape, &shape) && g->values[v.id].type == type)
                return v;
            stance_refuse(b, STANCE_ERR_SHAPE, "input '%s' is %s and is asked for as %s", name,
                          stance_shape_text(&g->values[v.id].shape, text, sizeof text),
                          stance_shape_text(&shape, other, sizeof other));
            return none;
        }
    }
    if (!legal_shape(&shape)) {
        stance_refuse(b, STANCE_ERR_SHAPE, "input '%s': shape %s", name, stance_shape_text(&shape, text, sizeof text));
        return none;
    }
    if (!stance_grow((void **)&g->inputs, &g->room_inputs, g->n_inputs + 1, sizeof *g->inputs)) {
        no_memory(g);
        return none;
    }
    v.id                      = stance_graph_value_new(g, type, &shape);
    g->inputs[g->n_inputs]    = (struct stance_graph_name){ stance_arena_strdup(g->arena, name), v.id };
    if (v.id == 0 || g->inputs[g->n_inputs].name == NULL) {
        no_memory(g);
        return none;
    }
    g->values[v.id].source = STANCE_SOURCE_INPUT;
    g->values[v.id].owner  = (uint32_t)g->n_inputs++;
    return v;
}

long stance_graph_weight_find(const struct stance_graph *g, const char *name)
{
    struct stance_name_index *e;

    HASH_FIND_STR(g->names, name, e);
    return e != NULL ? (long)e->number : -1;
}

struct stance_value stance_weight(struct stance_builder *b, const char *leaf, enum stance_role role,
                                  enum stance_type type, struct stance_shape shape,
                                  struct stance_init init)
{
    struct stance_graph        *g    = &b->graph;
    struct stance_value         none = { 0 }, v;
    char                        name[sizeof g->scope + 128], text[STANCE_SHAPE_TEXT], other[STANCE_SHAPE_TEXT];
    struct stance_name_index   *e;
    struct stance_graph_weight *w;

    if (stance_failed(b))
        return none;
    if (snprintf(name, sizeof name, "%s%s", g->scope, leaf) >= (int)sizeof name || *leaf == '\0') {
        stance_refuse(b, STANCE_ERR_INVAL, "weight '%s': its name is empty or too long", leaf);
        return none;
    }
    HASH_FIND_STR(g->names, name, e);
    if (e != NULL) {
        w    = &g->weights[e->number];
        v.id = w->value;
        if (same_shape(&w->shape, &shape) && w->role == role && w->type == type)
            return v;
        stance_refuse(b, STANCE_ERR_SHAPE, "weight '%s' is %s and is asked for as %s", leaf,
                      stance_shape_text(&w->shape, text, sizeof text), stance_shape_text(&shape, other, sizeof other));
        return none;
    }
    if (!legal_shape(&shape) || (type != STANCE_TYPE_F32 && type != STANCE_TYPE_I64)
        || (type == STANCE_TYPE_I64 && role == STANCE_ROLE_PARAM)) {
        stance_refuse(b, STANCE_ERR_SHAPE, "weight '%s': %s %s", leaf, stance_type_word(type),
                      stance_shape_text(&shape, text, sizeof text));
        return none;
    }
    e    = stance_arena_get(g->arena, sizeof *e, _Alignof(struct stance_name_index));
    v.id = stance_graph_value_new(g, type, &shape);
    if (e == NULL || v.id == 0
        || !stance_grow((void **)&g->weights, &g->room_weights, g->n_weights + 1, sizeof *g->weights))
        goto no_memory;
    e->name   = stance_arena_strdup(g->arena, name);
    e->number = (uint32_t)g->n_weights;
    if (e->name == NULL)
        goto no_memory;
    HASH_ADD_KEYPTR(hh, g->names, e->name, strlen(e->name), e);
    if (e->number == (uint32_t)-1)
        goto no_memory;
    g->weights[g->n_weights] = (struct stance_graph_weight){ .name = e->name, .role = role, .type = type,
                                                         .shape = shape, .init = init, .value = v.id };
    g->values[v.id].source   = STANCE_SOURCE_WEIGHT;
    g->values[v.id].owner    = (uint32_t)g->n_weights++;
    g->values[v.id].wants    = role == STANCE_ROLE_PARAM && g->training;
    return v;

no_memory:
    no_memory(g);
    return none;
}

struct stance_value stance_graph_control(struct stance_graph *g)
{
    struct stance_value v = { g->control };

    if (v.id == 0 && g->error.status == STANCE_OK) {
        struct stance_shape shape = { 1, { sizeof(struct stance_control) } };

        v.id = g->control = stance_graph_value_new(g, STANCE_TYPE_U8, &shape);
        if (v.id != 0)
            g->values[v.id].source = STANCE_SOURCE_CONTROL;
    }
    return v;
}

#define GRAD "_grad"

static const struct stance_op_ops *find_op(struct stance_graph *g, const char *name, struct stance_error *err)
{
    const struct stance_op_ops *op = stance_builtin_op(name);
    const struct stance_plugin *plugin;
    char                        base[64];
    size_t                      len = strlen(name), tail = strlen(GRAD);

    if (op != NULL)
        return op;
    if (g->registry == NULL) {
        STANCE_FAIL(err, STANCE_ERR_NOENT, "op '%s' is not built in", name);
        return NULL;
    }
    /* The backward part of an op plugin. */
    if (len > tail && len - tail < sizeof base && strcmp(name + len - tail, GRAD) == 0) {
        memcpy(base, name, len - tail);
        base[len - tail] = '\0';
        if (stance_registry_find(g->registry, STANCE_KIND_OP, base, &plugin, NULL) == STANCE_OK
            && plugin->ops.op->backward != NULL)
            return plugin->ops.op->backward;
    }
    if (stance_registry_find(g->registry, STANCE_KIND_OP, name, &plugin, err) != STANCE_OK)
        return NULL;
    return plugin->ops.op;
}

void stance_node(struct stance_builder *b, const char *op_name, const void *attr, size_t attr_size,
                 const struct stance_value *in, int n_in, struct stance_value *out, int n_out)
{
    struct stance_graph        *g = &b->graph;
    struct stance_error         e = STANCE_ERROR_INIT;
    const struct stance_op_ops *op;
    struct stance_shape         in_shape[NODE_OPERANDS_MAX], out_shape[NODE_OPERANDS_MAX];
    enum stance_type            out_type[NODE_OPERANDS_MAX];
    uint32_t                    in_id[NODE_OPERANDS_MAX], out_id[NODE_OPERANDS_MAX], node;
    bool                        wants = false;
    stance_status               status;

    for (int i = 0; i < n_out; i++)
        out[i].id = 0;
    if (stance_failed(b))
        return;
    if (n_in < 0 || n_in > NODE_OPERANDS_MAX || n_out < 1 || n_out > NODE_OPERANDS_MAX) {
        stance_refuse(b, STANCE_ERR_INVAL, "%s: %d operands, %d results", op_name, n_in, n_out);
        return;
    }
    op = find_op(g, op_name, &e);
    if (op == NULL) {
        fail(g, &e);
        return;
    }
    if (attr_size > op->attr_size) {
        stance_refuse(b, STANCE_ERR_ABI, "%s: attributes of %zu bytes, the op knows %zu", op_name,
                      attr_size, op->attr_size);
        return;
    }
    for (int i = 0; i < n_in; i++) {
        if (in[i].id >= g->n_values) {
            stance_refuse(b, STANCE_ERR_INVAL, "%s: operand %d is no value of this graph", op_name, i);
            return;
        }
        in_id[i]    = in[i].id;
        in_shape[i] = g->values[in[i].id].shape;
        wants       = wants || g->values[in[i].id].wants;
    }
    for (int i = 0; i < n_out; i++) {
        out_shape[i] = (struct stance_shape){ -1, { 0 } };
        out_type[i]  = STANCE_TYPE_ANY;
    }
    {
        /* The rule gets its whole attribute struct, zero-filled where the caller's is shorter. */
        void *whole = stance_arena_get(g->arena, op->attr_size + 1, 16);

        if (whole == NULL) {
            no_memory(g);
            return;
        }
        if (attr_size > 0)
            memcpy(whole, attr, attr_size);
        status = op->shape(whole, in_shape, n_in, out_shape, out_type, n_out, &e);
        if (status != STANCE_OK) {
            fail(g, &e);
            return;
        }
        for (int i = 0; i < n_out; i++) {
            if (out_shape[i].rank >= 0 && !legal_shape(&out_shape[i])) {
                char text[STANCE_SHAPE_TEXT];

                stance_refuse(b, STANCE_ERR_SHAPE, "%s: result %d would be %s", op_name, i,
                              stance_shape_text(&out_shape[i], text, sizeof text));
                return;
            }
            out_id[i] = out_shape[i].rank < 0 ? 0 : stance_graph_value_new(g, out_type[i], &out_shape[i]);
            if (out_shape[i].rank >= 0 && out_id[i] == 0)
                return;
        }
        node = stance_graph_node_new(g, op, op_name, whole, op->attr_size, in_id, n_in, out_id, n_out);
    }
    if (node == 0)
        return;
    for (int i = 0; i < n_out; i++) {
        out[i].id = out_id[i];
        if (out_id[i] != 0)
            g->values[out_id[i]].wants = wants && op->gradient != NULL && g->section == STANCE_SECTION_FORWARD
                                         && out_type[i] != STANCE_TYPE_I32 && out_type[i] != STANCE_TYPE_I64
                                         && out_type[i] != STANCE_TYPE_U8;
    }
}

void stance_assign(struct stance_builder *b, struct stance_value state, struct stance_value value)
{
    struct stance_graph        *g = &b->graph;
    struct stance_graph_weight *w;

    if (stance_failed(b) || state.id == 0 || value.id == 0)
        return;
    if (g->values[state.id].source != STANCE_SOURCE_WEIGHT
        || g->weights[g->values[state.id].owner].role != STANCE_ROLE_STATE) {
        stance_refuse(b, STANCE_ERR_INVAL, "stance_assign() to a value that is no state");
        return;
    }
    w = &g->weights[g->values[state.id].owner];
    if (w->assigned != 0 || !same_shape(&w->shape, &g->values[value.id].shape)) {
        stance_refuse(b, STANCE_ERR_SHAPE, "state '%s' is assigned twice or from another shape", w->name);
        return;
    }
    w->assigned = value.id;
}

void stance_output(struct stance_builder *b, const char *name, struct stance_value v)
{
    struct stance_graph *g = &b->graph;

    if (stance_failed(b) || v.id == 0)
        return;
    if (stance_graph_output(g, name) != 0) {
        stance_refuse(b, STANCE_ERR_INVAL, "output '%s' is named twice", name);
        return;
    }
    if (!stance_grow((void **)&g->outputs, &g->room_outputs, g->n_outputs + 1, sizeof *g->outputs)) {
        no_memory(g);
        return;
    }
    g->outputs[g->n_outputs] = (struct stance_graph_name){ stance_arena_strdup(g->arena, name), v.id };
    if (g->outputs[g->n_outputs].name == NULL) {
        no_memory(g);
        return;
    }
    g->n_outputs++;
}

uint32_t stance_graph_output(const struct stance_graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_outputs; i++)
        if (strcmp(g->outputs[i].name, name) == 0)
            return g->outputs[i].value;
    return 0;
}

struct stance_value stance_stop_gradient(struct stance_builder *b, struct stance_value v)
{
    struct stance_graph *g    = &b->graph;
    struct stance_value  stop = { 0 };

    if (stance_failed(b) || v.id == 0)
        return stop;
    stop.id = stance_graph_value_new(g, g->values[v.id].type, &g->values[v.id].shape);
    if (stop.id != 0) {
        g->values[stop.id].alias  = v.id;
        g->values[stop.id].source = g->values[v.id].source;
        g->values[stop.id].owner  = g->values[v.id].owner;
        g->values[stop.id].slot   = g->values[v.id].slot;
    }
    return stop;
}
