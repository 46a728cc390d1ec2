/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/watch.h"

#include <stance/alloc.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_float(enum stance_type t)
{
    return t == STANCE_TYPE_F32 || t == STANCE_TYPE_F16 || t == STANCE_TYPE_BF16 || t == STANCE_TYPE_F64;
}

/* Shows what a launch reads that no launch has made. */
static void show_operands(const struct stance_program_part *part, bool *seen, stance_watch_fn *fn, void *ctx)
{
    const struct stance_graph_node *n = &part->g->nodes[part->node];

    for (int k = 0; k < n->n_in; k++) {
        const struct stance_graph_value *v = &part->g->values[n->in[k]];
        bool                             weight = v->source == STANCE_SOURCE_WEIGHT || v->source == STANCE_SOURCE_COPY;

        if (n->in[k] == 0 || seen[n->in[k]] || !(weight || v->source == STANCE_SOURCE_INPUT) || !is_float(v->type))
            continue;
        seen[n->in[k]] = true;
        fn(ctx, &(struct stance_watched){ .kind = weight ? STANCE_WATCHED_WEIGHT : STANCE_WATCHED_INPUT,
                                          .backward = part->backward, .tensor = &part->launch->in[k], .g = part->g,
                                          .node = part->node, .value = n->in[k] });
    }
}

static bool copies(const struct stance_graph_node *n)
{
    return strcmp(n->name, "cast") == 0 || strcmp(n->name, "reorder") == 0 || strcmp(n->name, "accumulate") == 0;
}

/* Marks what is not the gradient of an activation: values of the forward pass, also where backward makes them
 * again, and gradients of weights; casts, reorders and sums over micro-batches are what they copy. */
static void mark_others(const struct stance_program *p, bool *mark)
{
    struct stance_program_part part;
    size_t                     n = 0;

    for (; stance_program_part(p, n, &part); n++) {
        const struct stance_graph_node *x = &part.g->nodes[part.node];
        bool                            other = !part.backward || x->again || (copies(x) && x->n_in == 1 && mark[x->in[0]]);

        for (int k = 0; k < x->n_out; k++)
            mark[x->out[k]] = other || part.g->values[x->out[k]].home > 0;
    }
    while (n-- > 0 && stance_program_part(p, n, &part) && part.backward) {
        const struct stance_graph_node *x = &part.g->nodes[part.node];

        for (int k = 0; copies(x) && mark[x->out[0]] && k < x->n_in; k++)
            mark[x->in[k]] = true;
    }
    mark[0] = false;
}

static void show_results(const struct stance_program_part *part, const bool *others, stance_watch_fn *fn, void *ctx)
{
    const struct stance_graph_node *n = &part->g->nodes[part->node];

    for (int k = 0; k < n->n_out; k++) {
        if (n->out[k] == 0 || !is_float(part->g->values[n->out[k]].type))
            continue;
        fn(ctx, &(struct stance_watched){ .kind = STANCE_WATCHED_RESULT, .backward = part->backward,
                                          .gradient = part->backward && !others[n->out[k]],
                                          .tensor = &part->launch->out[k], .g = part->g, .node = part->node,
                                          .value = n->out[k] });
    }
}

stance_status stance_program_watch(struct stance_program *p, const struct stance_device *device,
                                   stance_watch_fn *fn, void *ctx, struct stance_error *err)
{
    struct stance_program_part part;
    bool                      *seen, *others;
    stance_status              status = STANCE_OK;

    if (!stance_program_part(p, 0, &part))
        return STANCE_OK;
    seen   = stance_calloc(part.g->n_values, sizeof *seen);
    others = stance_calloc(part.g->n_values, sizeof *others);
    if (seen == NULL || others == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "watching a program");
        goto done;
    }
    mark_others(p, others);
    for (size_t i = 0; status == STANCE_OK && stance_program_part(p, i, &part); i++) {
        show_operands(&part, seen, fn, ctx);
        if (stance_launch_run(device, part.launch) != STANCE_OK)
            status = STANCE_FAIL(err, STANCE_ERR_DEVICE, "device '%s': %s failed", device->plugin->name, part.launch->op);
        else if (STANCE_HAS(device->ops, wait))
            status = device->ops->wait(device->state, err);
        if (status == STANCE_OK)
            show_results(&part, others, fn, ctx);
    }

done:
    stance_free(seen);
    stance_free(others);
    return status;
}

/* ---- names ---------------------------------------------------------------------------------------- */

struct text { char *s; size_t size, len; };

static void add(struct text *t, const char *fmt, ...) STANCE_PRINTF(2, 3);
static void add(struct text *t, const char *fmt, ...)
{
    va_list ap;
    int     n;

    va_start(ap, fmt);
    n = vsnprintf(t->s + t->len, t->size - t->len, fmt, ap);
    va_end(ap);
    if (n > 0)
        t->len = t->len + (size_t)n < t->size ? t->len + (size_t)n : t->size - 1;
}

/* "backbone.conv1." without the dot. */
static void add_scope(struct text *t, const char *scope)
{
    size_t n = strlen(scope);

    add(t, "%.*s", (int)(n > 0 && scope[n - 1] == '.' ? n - 1 : n), scope);
}

/* A fused launch stands for several norms; each has its weight among the operands. */
static int add_norms(struct text *t, const struct stance_graph *g, const struct stance_graph_node *n)
{
    static const char leaf[] = ".weight";
    int               found  = 0;

    for (int k = 0; k < n->n_in; k++) {
        const struct stance_graph_value *v = &g->values[n->in[k]];
        const char                      *name;
        size_t                           len;

        if (n->in[k] == 0 || (v->source != STANCE_SOURCE_WEIGHT && v->source != STANCE_SOURCE_COPY))
            continue;
        name = g->weights[v->owner].name;
        len  = strlen(name);
        if (len >= sizeof leaf && strcmp(name + len - (sizeof leaf - 1), leaf) == 0)
            add(t, "%s%.*s", found++ > 0 ? ", " : "", (int)(len - (sizeof leaf - 1)), name);
    }
    return found;
}

static void add_value(struct text *t, const struct stance_graph *g, uint32_t value, int depth);

/* Passes put casts, reorders and sums in between, which have no scope: they are named by what they
 * read. Gradient nodes have that of the node whose gradient they make. */
static void add_node(struct text *t, const struct stance_graph *g, uint32_t id, int depth)
{
    const struct stance_graph_node *n = &g->nodes[id];

    if (strcmp(n->name, "norm_sum") == 0 || strcmp(n->name, "norm_sum_given") == 0
        || strcmp(n->name, "norm_sum_grad") == 0) {
        if (add_norms(t, g, n) == 0)
            add_scope(t, n->scope);
        add(t, " %s", n->name);
    } else if (n->scope[0] != '\0') {
        add_scope(t, n->scope);
        add(t, " %s", n->name);
    } else if (n->grad_of != 0) {
        const struct stance_graph_node *f     = &g->nodes[n->grad_of];
        const char                     *blank = f->scope[0] != '\0' ? " " : "";

        add_scope(t, f->scope);
        if (strcmp(n->name, "add") == 0 && n->section == STANCE_SECTION_BACKWARD)
            add(t, "%ssum of the gradients of %s", blank, f->name);
        else
            add(t, "%s%s", blank, n->name);
    } else {
        add(t, "%s", n->name);
        for (int k = 0; k < n->n_in && depth < 8; k++) {
            if (n->in[k] == 0 || g->values[n->in[k]].source == STANCE_SOURCE_GRAD)
                continue;
            add(t, " of ");
            add_value(t, g, n->in[k], depth + 1);
            break;
        }
    }
    if (n->again)
        add(t, " (made again)");
}

static void add_value(struct text *t, const struct stance_graph *g, uint32_t value, int depth)
{
    const struct stance_graph_value *v = &g->values[value];

    switch (v->source) {
    case STANCE_SOURCE_INPUT: add(t, "input '%s'", g->inputs[v->owner].name); break;
    case STANCE_SOURCE_CONTROL: add(t, "the loss scale"); break;
    case STANCE_SOURCE_WEIGHT: case STANCE_SOURCE_COPY: case STANCE_SOURCE_GRAD:
        add(t, "weight %s", g->weights[v->owner].name);
        break;
    case STANCE_SOURCE_NODE: add_node(t, g, v->owner, depth); break;
    }
}

void stance_watched_name(const struct stance_watched *w, char *text, size_t size)
{
    struct text t = { text, size, 0 };

    text[0] = '\0';
    if (w->kind == STANCE_WATCHED_RESULT)
        add_node(&t, w->g, w->node, 0);
    else
        add_value(&t, w->g, w->value, 0);
}
