/* SPDX-License-Identifier: Apache-2.0
 *
 * Types. In the graph F32 says "wide" and ANY says "whatever the policy's low type makes of it"; here
 * both become real. No plugin mentions binary16: a low op's operands are cast, a wide op computes in
 * binary32 inside and gives back the type of its first operand, the others follow. */
#include "config.h"

#include "compile/compile.h"

static bool is_float(enum stance_type t)
{
    return t == STANCE_TYPE_ANY || t == STANCE_TYPE_F32 || t == STANCE_TYPE_F16 || t == STANCE_TYPE_BF16
           || t == STANCE_TYPE_F64;
}

struct cast_cache {
    uint32_t *as_low, *as_wide; /* value of that type, per value; 0: not made */
    size_t    n, room;
};

/* Same number of entries as the graph has values. */
static bool cover(struct cast_cache *k, size_t n)
{
    size_t room = k->room;

    if (!stance_grow((void **)&k->as_low, &room, n, sizeof *k->as_low)
        || !stance_grow((void **)&k->as_wide, &k->room, n, sizeof *k->as_wide))
        return false;
    k->n = n;
    return true;
}

/* The value @p v as @p type: itself, or a cast of it (one a type), or, for a weight, a copy. */
static uint32_t as_type(struct stance_compile *c, struct cast_cache *k, uint32_t v,
                        enum stance_type type, enum stance_section section)
{
    struct stance_graph *g = c->g;
    struct stance_cast   a = { (int32_t)type };
    uint32_t            *have, out, node;

    if (g->values[v].type == type)
        return v;
    if (!cover(k, g->n_values + 1))
        return 0;
    have = type == c->policy.wide ? &k->as_wide[v] : &k->as_low[v];
    if (*have != 0)
        return *have;
    out = stance_graph_value_new(g, type, &g->values[v].shape);
    if (out == 0)
        return 0;
    if (g->values[v].source == STANCE_SOURCE_WEIGHT) {
        g->values[out].source = STANCE_SOURCE_COPY;
        g->values[out].owner  = g->values[v].owner;
    } else {
        g->section = section;
        node = stance_graph_node_new(g, stance_builtin_op("cast"), "cast", &a, sizeof a, &v, 1, &out, 1);
        g->section = STANCE_SECTION_FORWARD;
        if (node == 0 || !stance_compile_append(c, node))
            return 0;
    }
    *have = out;
    return out;
}

stance_status stance_pass_precision(struct stance_compile *c, struct stance_error *err)
{
    struct stance_graph *g     = c->g;
    struct cast_cache    cache = { 0 };
    uint32_t            *old   = c->order;
    size_t               n_old = c->n;
    stance_status        status = STANCE_OK;

    c->order = NULL;
    c->n = c->room = 0;
    for (size_t i = 1; i < g->n_values; i++) {
        struct stance_graph_value *v = &g->values[i];

        if (v->type == STANCE_TYPE_F32)
            v->type = c->policy.wide;
        else if (v->type == STANCE_TYPE_ANY && v->source == STANCE_SOURCE_INPUT)
            v->type = c->policy.low;
    }
    for (size_t i = 0; i < n_old; i++) {
        uint32_t                 id = old[i];
        struct stance_graph_node n  = g->nodes[id]; /* casts append nodes and may move the array */
        enum stance_type         first = c->policy.wide;
        bool                     found = false;

        for (int k = 0; k < n.n_in; k++) {
            enum stance_type t = g->values[n.in[k]].type, want = t;

            if (n.in[k] == 0 || !is_float(t))
                continue;
            if (n.op->type_class == STANCE_CLASS_LOW)
                want = c->policy.low;
            else if (n.op->type_class == STANCE_CLASS_FOLLOW && found)
                want = first;
            n.in[k] = as_type(c, &cache, n.in[k], want, n.section);
            if (n.in[k] == 0)
                goto no_memory;
            if (!found)
                first = g->values[n.in[k]].type;
            found = true;
        }
        for (int k = 0; k < n.n_out; k++)
            if (n.out[k] != 0 && g->values[n.out[k]].type == STANCE_TYPE_ANY)
                g->values[n.out[k]].type = n.op->type_class == STANCE_CLASS_LOW ? c->policy.low : first;
        if (n.op == stance_builtin_op("cast") && n.out[0] != 0) {
            enum stance_type t = (enum stance_type)((const struct stance_cast *)n.attr)->type;

            if (t == STANCE_TYPE_ANY || t == STANCE_TYPE_F32)
                t = t == STANCE_TYPE_ANY ? c->policy.low : c->policy.wide;
            g->values[n.out[0]].type = t;
        }
        if (!stance_compile_append(c, id))
            goto no_memory;
    }
    goto done;

no_memory:
    status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "precision of the graph");
done:
    stance_free(old);
    stance_free(cache.as_low);
    stance_free(cache.as_wide);
    return status;
}
