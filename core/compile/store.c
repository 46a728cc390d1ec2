/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/store.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

enum { ALIGN = 64 };

stance_status stance_store_new(const struct stance_device *device, struct stance_policy policy,
                               struct stance_store **out, struct stance_error *err)
{
    struct stance_store *s = stance_calloc(1, sizeof *s);

    if (s == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "parameter store");
    s->device = device;
    s->policy = policy;
    *out      = s;
    return STANCE_OK;
}

static void give_back(const struct stance_store *s, void *memory, size_t bytes)
{
    if (memory != NULL)
        s->device->ops->release(s->device->state, memory, bytes);
}

void stance_store_free(struct stance_store *s)
{
    if (s == NULL)
        return;
    for (int b = 0; b < STANCE_BANK_COUNT; b++) {
        give_back(s, s->bank[b], s->bytes[b]);
        give_back(s, s->committed[b], s->bytes[b]);
        give_back(s, s->average[b], s->bytes[b]);
    }
    give_back(s, s->gradient, s->bytes[STANCE_BANK_PARAM]);
    for (int i = 0; i < STANCE_SLOTS_MAX; i++)
        give_back(s, s->slot[i], s->bytes[STANCE_BANK_PARAM]);
    for (size_t i = 0; i < s->n_blocks; i++)
        give_back(s, s->blocks[i].memory, s->blocks[i].bytes);
    give_back(s, s->control, sizeof *s->control);
    give_back(s, s->arena, s->arena_bytes);
    for (size_t i = 0; i < s->n_segments; i++)
        stance_free(s->segments[i].name);
    stance_free(s->segments);
    stance_free(s->packed);
    stance_free(s->blocks);
    stance_free(s);
}

long stance_store_find(const struct stance_store *s, const char *name)
{
    for (size_t i = 0; i < s->n_segments; i++)
        if (strcmp(s->segments[i].name, name) == 0)
            return (long)i;
    return -1;
}

/* A weight that the loss does not depend on is kept as it is, as PyTorch keeps one without a gradient:
 * neither weight decay nor momentum reaches it. */
static enum stance_bank bank_of(const struct stance_graph *g, const struct stance_graph_weight *w)
{
    if (w->type == STANCE_TYPE_I64)
        return STANCE_BANK_COUNTER;
    return w->role == STANCE_ROLE_PARAM ? g->training && w->grad == 0 ? STANCE_BANK_FROZEN : STANCE_BANK_PARAM
           : w->role == STANCE_ROLE_FROZEN ? STANCE_BANK_FROZEN : STANCE_BANK_STATE;
}

stance_status stance_store_adopt(struct stance_store *s, const struct stance_graph *g, struct stance_error *err)
{
    for (size_t i = 0; i < g->n_weights; i++) {
        struct stance_graph_weight *w = &g->weights[i];
        struct stance_segment      *t;
        char                        a[STANCE_SHAPE_TEXT], b[STANCE_SHAPE_TEXT];
        /* Graphs of one model name their weights in the same order: the look-up is the exception. */
        long at = i < s->n_segments && strcmp(s->segments[i].name, w->name) == 0 ? (long)i
                                                                                 : stance_store_find(s, w->name);

        if (at >= 0) {
            t = &s->segments[at];
            bool                same = t->bank == bank_of(g, w);

            /* An evaluation graph does not know which weights training leaves alone. */
            if (!same && !g->training && w->role == STANCE_ROLE_PARAM)
                same = t->bank == STANCE_BANK_FROZEN;
            if (!same || t->shape.rank != w->shape.rank
                || memcmp(t->shape.dim, w->shape.dim, sizeof t->shape.dim) != 0)
                return STANCE_FAIL(err, STANCE_ERR_SHAPE, "weight '%s' is %s in one graph and %s in another", w->name,
                                   stance_shape_text(&t->shape, a, sizeof a), stance_shape_text(&w->shape, b, sizeof b));
            w->segment = (size_t)at;
            continue;
        }
        if (s->laid_out)
            return STANCE_FAIL(err, STANCE_ERR_SHAPE, "weight '%s' is in this graph only", w->name);
        if (!stance_grow((void **)&s->segments, &s->room_segments, s->n_segments + 1, sizeof *s->segments))
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "parameter store");
        t  = &s->segments[s->n_segments];
        *t = (struct stance_segment){ .bank = bank_of(g, w), .shape = w->shape, .init = w->init };
        t->type = w->type == STANCE_TYPE_I64 ? STANCE_TYPE_I64 : s->policy.wide;
        t->form = (struct stance_form){ 0, t->type, (size_t)stance_elements(&t->shape) * stance_type_size(t->type) };
        t->name = stance_strdup(w->name);
        if (t->name == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "parameter store");
        w->segment = s->n_segments++;
    }
    return STANCE_OK;
}

static stance_status take(struct stance_store *s, size_t bytes, void **out, struct stance_error *err)
{
    return bytes == 0 ? STANCE_OK : s->device->ops->alloc(s->device->state, bytes, out, err);
}

stance_status stance_store_lay_out(struct stance_store *s, int slots, struct stance_error *err)
{
    stance_status status;
    void         *control = NULL;

    if (s->laid_out)
        return STANCE_OK;
    for (size_t i = 0; i < s->n_segments; i++) {
        struct stance_segment *t = &s->segments[i];

        t->offset         = s->bytes[t->bank];
        s->bytes[t->bank] += (t->form.bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    s->laid_out = true;
    s->n_slots  = slots < 0 ? 0 : slots;
    for (int b = 0; b < STANCE_BANK_COUNT; b++) {
        status = take(s, s->bytes[b], &s->bank[b], err);
        if (status == STANCE_OK && (b == STANCE_BANK_STATE || b == STANCE_BANK_COUNTER))
            status = take(s, s->bytes[b], &s->committed[b], err);
        if (status != STANCE_OK)
            return status;
    }
    status = slots < 0 ? STANCE_OK : take(s, s->bytes[STANCE_BANK_PARAM], &s->gradient, err);
    for (int i = 0; i < s->n_slots && status == STANCE_OK; i++)
        status = take(s, s->bytes[STANCE_BANK_PARAM], &s->slot[i], err);
    if (status == STANCE_OK && s->averages)
        status = take(s, s->bytes[STANCE_BANK_PARAM], &s->average[STANCE_BANK_PARAM], err);
    if (status == STANCE_OK && s->averages && s->averages_states)
        status = take(s, s->bytes[STANCE_BANK_STATE], &s->average[STANCE_BANK_STATE], err);
    if (status == STANCE_OK)
        status = take(s, sizeof *s->control, &control, err);
    if (status != STANCE_OK)
        return status;
    s->control = control;
    s->control->size        = sizeof *s->control;
    s->control->update.size = sizeof s->control->update;
    s->control->first_bad   = -1;
    return STANCE_OK;
}

bool stance_store_pack(struct stance_store *s, size_t segment, enum stance_type type,
                       const struct stance_form *form, size_t *out)
{
    for (size_t i = 0; i < s->n_packed; i++) {
        const struct stance_packed *p = &s->packed[i];

        if (p->segment == segment && p->type == type && p->form.layout == form->layout
            && p->form.stored == form->stored && p->form.bytes == form->bytes) {
            *out = i;
            return true;
        }
    }
    if (!stance_grow((void **)&s->packed, &s->room_packed, s->n_packed + 1, sizeof *s->packed))
        return false;
    s->packed[s->n_packed] = (struct stance_packed){ segment, type, *form, NULL };
    *out                   = s->n_packed++;
    return true;
}

stance_status stance_store_take_packed(struct stance_store *s, struct stance_error *err)
{
    size_t        total = 0;
    void         *memory = NULL;
    stance_status status;

    for (size_t i = 0; i < s->n_packed; i++)
        if (s->packed[i].data == NULL)
            total += (s->packed[i].form.bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (total == 0)
        return STANCE_OK;
    if (!stance_grow((void **)&s->blocks, &s->room_blocks, s->n_blocks + 1, sizeof *s->blocks))
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "copies of weights");
    status = take(s, total, &memory, err);
    if (status != STANCE_OK)
        return status;
    s->blocks[s->n_blocks++] = (struct stance_block){ memory, total };
    total = 0;
    for (size_t i = 0; i < s->n_packed; i++) {
        if (s->packed[i].data == NULL) {
            s->packed[i].data = (char *)memory + total;
            total += (s->packed[i].form.bytes + ALIGN - 1) / ALIGN * ALIGN;
        }
    }
    return STANCE_OK;
}

stance_status stance_store_take_arena(struct stance_store *s, size_t bytes, struct stance_error *err)
{
    stance_status status;
    void         *memory = NULL;

    if (bytes <= s->arena_bytes)
        return STANCE_OK;
    give_back(s, s->arena, s->arena_bytes);
    s->arena       = NULL;
    s->arena_bytes = 0;
    status         = take(s, bytes, &memory, err);
    if (status == STANCE_OK) {
        s->arena       = memory;
        s->arena_bytes = bytes;
    }
    return status;
}

struct stance_tensor stance_store_tensor(const struct stance_store *s, size_t segment, int array)
{
    const struct stance_segment *t = &s->segments[segment];
    struct stance_tensor         x = { NULL, t->type, t->form.stored, t->form.layout, t->shape, t->form.bytes };
    char *base = array == STANCE_ARRAY_MASTER      ? s->bank[t->bank]
                 : array == STANCE_ARRAY_COMMITTED ? s->committed[t->bank]
                 : array == STANCE_ARRAY_GRADIENT  ? s->gradient
                 : array == STANCE_ARRAY_AVERAGE   ? s->average[t->bank]
                                                   : s->slot[array - STANCE_ARRAY_SLOT];

    x.data = base != NULL ? base + t->offset : NULL;
    return x;
}

static struct stance_tensor host_tensor(const struct stance_segment *t, enum stance_type type, void *data)
{
    struct stance_tensor x = { data, type, type, 0, t->shape,
                               (size_t)stance_elements(&t->shape) * stance_type_size(type) };

    return x;
}

stance_status stance_store_read(const struct stance_store *s, size_t segment, int array,
                                enum stance_type type, void *to, struct stance_error *err)
{
    struct stance_tensor from = stance_store_tensor(s, segment, array);
    struct stance_tensor host = host_tensor(&s->segments[segment], type, to);

    return s->device->ops->reorder(s->device->state, &host, &from, err);
}

stance_status stance_store_write(struct stance_store *s, size_t segment, int array,
                                 enum stance_type type, const void *from, struct stance_error *err)
{
    struct stance_tensor to   = stance_store_tensor(s, segment, array);
    struct stance_tensor host = host_tensor(&s->segments[segment], type, (void *)from);

    return s->device->ops->reorder(s->device->state, &to, &host, err);
}

/* FNV-1a, 64 bits: the name of a stream. */
static uint64_t hash_name(const char *name)
{
    uint64_t h = 14695981039346656037u;

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h;
}

static void draw(const struct stance_segment *t, uint64_t seed, double *v, int64_t n)
{
    struct stance_rng r = stance_rng(seed, STANCE_USE_INIT, hash_name(t->name), 0);

    for (int64_t i = 0; i < n; i++) {
        switch (t->init.kind) {
        case STANCE_INIT_CONSTANT: v[i] = (double)t->init.a; break;
        case STANCE_INIT_NORMAL:   v[i] = (double)t->init.a + (double)t->init.b * stance_rng_normal(&r); break;
        case STANCE_INIT_UNIFORM:
            v[i] = (double)t->init.a + ((double)t->init.b - (double)t->init.a) * stance_rng_uniform(&r);
            break;
        }
    }
}

stance_status stance_store_initialise(struct stance_store *s, uint64_t seed, struct stance_error *err)
{
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < s->n_segments && status == STANCE_OK; i++) {
        struct stance_segment *t = &s->segments[i];
        int64_t                n = stance_elements(&t->shape);
        double                *v = stance_calloc((size_t)n, sizeof *v);
        enum stance_type       type = STANCE_TYPE_F64;

        if (v == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "initial values of '%s'", t->name);
        draw(t, seed, v, n);
        if (t->bank == STANCE_BANK_COUNTER) {
            for (int64_t k = 0; k < n; k++)
                memcpy(&v[k], &(int64_t){ (int64_t)v[k] }, sizeof v[k]);
            type = STANCE_TYPE_I64;
        }
        status = stance_store_write(s, i, STANCE_ARRAY_MASTER, type, v, err);
        if (status == STANCE_OK && s->committed[t->bank] != NULL)
            status = stance_store_write(s, i, STANCE_ARRAY_COMMITTED, type, v, err);
        stance_free(v);
    }
    return status;
}

size_t stance_store_parameters(const struct stance_store *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_segments; i++)
        if (s->segments[i].bank == STANCE_BANK_PARAM)
            n += (size_t)stance_elements(&s->segments[i].shape);
    return n;
}
