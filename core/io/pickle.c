/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/pickle.h"
#include "io/pickle_globals.h"

#include <inttypes.h>
#include <string.h>

/* Bounds on what a pickle may make of itself: a few bytes of it can ask for a list. The largest
 * published training checkpoints make some hundred thousand values. */
#define VALUES_MAX ((size_t)4 << 20)
#define SLOTS_MAX  ((size_t)16 << 20) /* of stack, memo and lists, each counted when made */

#define V struct stance_pickle_value

struct machine {
    const unsigned char  *head, *p, *end;
    struct stance_arena  *arena;
    V                   **stack;
    size_t                depth, stack_capacity;
    size_t               *mark; /* depths of the stack */
    size_t                marks, mark_capacity;
    V                   **memo;
    size_t                memos, memo_capacity;
    size_t                values, slots;
    struct stance_pickle *out;
    struct stance_error  *err;
    stance_status         status;
};

/* Shared values that never change. */
static const V none  = { .kind = STANCE_PICKLE_NONE };
static const V yes   = { .kind = STANCE_PICKLE_BOOL, .u.i = 1 };
static const V no    = { .kind = STANCE_PICKLE_BOOL };
static const V unit  = { .kind = STANCE_PICKLE_TUPLE };
static const V other = { .kind = STANCE_PICKLE_OPAQUE };
#define SHARED(v) ((V *)&(v)) /* only lists and dicts are ever changed */

#define BAD(m, ...)                                                                             \
    ((m)->status = STANCE_FAIL((m)->err, STANCE_ERR_FORMAT, __VA_ARGS__),                       \
     stance_error_prefix((m)->err, (m)->status, "pickle: byte %zu",                              \
                         (size_t)((m)->p - (m)->head)),                                         \
     false)

static bool short_of_memory(struct machine *m)
{
    m->status = STANCE_FAIL(m->err, STANCE_ERR_NOMEM, "pickle");
    return false;
}

static V *make(struct machine *m, enum stance_pickle_kind kind)
{
    V *v;

    if (++m->values > VALUES_MAX) {
        (void)BAD(m, "more than %zu values", VALUES_MAX);
        return NULL;
    }
    v = stance_arena_get(m->arena, sizeof *v, _Alignof(V));
    if (v == NULL)
        (void)short_of_memory(m);
    else
        v->kind = kind;
    return v;
}

static bool count_slots(struct machine *m, size_t n)
{
    m->slots += n;
    return m->slots <= SLOTS_MAX || BAD(m, "more than %zu entries", SLOTS_MAX);
}

static bool push(struct machine *m, V *v)
{
    if (v == NULL)
        return false;
    if (m->depth == SLOTS_MAX)
        return BAD(m, "its stack is deeper than %zu", SLOTS_MAX);
    if (!stance_grow((void **)&m->stack, &m->stack_capacity, m->depth + 1, sizeof *m->stack))
        return short_of_memory(m);
    m->stack[m->depth++] = v;
    return true;
}

/* Values above the innermost mark. */
static size_t above(const struct machine *m)
{
    return m->depth - (m->marks > 0 ? m->mark[m->marks - 1] : 0);
}

static V *pop(struct machine *m)
{
    if (above(m) == 0) {
        (void)BAD(m, "it takes a value from an empty stack");
        return NULL;
    }
    return m->stack[--m->depth];
}

static V *top(struct machine *m)
{
    if (above(m) == 0) {
        (void)BAD(m, "it uses a value of an empty stack");
        return NULL;
    }
    return m->stack[m->depth - 1];
}

/* Takes everything above the innermost mark, and the mark. *items stay valid till the next push. */
static bool pop_mark(struct machine *m, V ***items, size_t *count)
{
    if (m->marks == 0)
        return BAD(m, "no mark is set");
    *count   = above(m);
    m->depth = m->mark[--m->marks];
    *items   = m->stack != NULL ? m->stack + m->depth : NULL;
    return true;
}

static bool append(struct machine *m, V *list, V *const *items, size_t count)
{
    size_t need = list->u.list.count + count;

    if (!count_slots(m, count))
        return false;
    if (need > list->u.list.capacity) {
        size_t capacity = list->u.list.capacity * 2 > need ? list->u.list.capacity * 2 : need;
        V    **larger   = stance_arena_get(m->arena, capacity * sizeof *larger, _Alignof(V *));

        if (larger == NULL)
            return short_of_memory(m);
        if (list->u.list.count > 0)
            memcpy(larger, list->u.list.item, list->u.list.count * sizeof *larger);
        list->u.list.item     = larger;
        list->u.list.capacity = capacity;
    }
    if (count > 0)
        memcpy(list->u.list.item + list->u.list.count, items, count * sizeof *items);
    list->u.list.count = need;
    return true;
}

static V *collect(struct machine *m, enum stance_pickle_kind kind, V *const *items, size_t count)
{
    V *v;

    if (count == 0 && kind == STANCE_PICKLE_TUPLE)
        return SHARED(unit);
    v = make(m, kind);
    return v != NULL && append(m, v, items, count) ? v : NULL;
}

/* ---- arguments in the byte stream ------------------------------------------------------------ */

static bool need(struct machine *m, uint64_t n)
{
    return n <= (uint64_t)(m->end - m->p) || BAD(m, "it ends too early");
}

static bool little(struct machine *m, int bytes, uint64_t *out)
{
    if (!need(m, (uint64_t)bytes))
        return false;
    *out = 0;
    for (int i = 0; i < bytes; i++)
        *out |= (uint64_t)m->p[i] << 8 * i;
    m->p += bytes;
    return true;
}

static bool push_text(struct machine *m, int length_bytes)
{
    uint64_t n;
    V       *v;

    if (!little(m, length_bytes, &n) || !need(m, n))
        return false;
    v = make(m, STANCE_PICKLE_TEXT);
    if (v == NULL)
        return false;
    v->u.text = (struct stance_pickle_text){ (const char *)m->p, (size_t)n };
    m->p += n;
    return push(m, v);
}

static bool push_int(struct machine *m, int64_t i)
{
    V *v = make(m, STANCE_PICKLE_INT);

    if (v != NULL)
        v->u.i = i;
    return push(m, v);
}

/* Two's complement of any length; what does not fit into 64 bits is nobody's size here. */
static bool push_long(struct machine *m, int length_bytes)
{
    uint64_t n, bits = 0;

    if (!little(m, length_bytes, &n) || !need(m, n))
        return false;
    for (uint64_t i = 0; i < n && i < 8; i++)
        bits |= (uint64_t)m->p[i] << 8 * i;
    if (n > 0 && n < 8 && (m->p[n - 1] & 0x80) != 0)
        bits |= UINT64_MAX << 8 * n;
    m->p += n;
    return n <= 8 ? push_int(m, (int64_t)bits) : push(m, SHARED(other));
}

static bool push_float(struct machine *m)
{
    uint64_t bits = 0;
    V       *v;

    if (!need(m, 8))
        return false;
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | m->p[i];
    m->p += 8;
    v = make(m, STANCE_PICKLE_FLOAT);
    if (v != NULL)
        memcpy(&v->u.f, &bits, 8);
    return push(m, v);
}

static bool put(struct machine *m, uint64_t at)
{
    V *v = top(m);

    if (v == NULL)
        return false;
    /* Python numbers its memos one by one, so no number can exceed the bytes read so far. */
    if (at >= SLOTS_MAX || at > (uint64_t)(m->p - m->head))
        return BAD(m, "memo %" PRIu64 " is far out of order", at);
    if (!stance_grow((void **)&m->memo, &m->memo_capacity, (size_t)at + 1, sizeof *m->memo))
        return short_of_memory(m);
    m->memos += m->memo[at] == NULL;
    m->memo[at] = v;
    return true;
}

static bool get(struct machine *m, uint64_t at)
{
    if (at >= m->memo_capacity || m->memo[at] == NULL)
        return BAD(m, "memo %" PRIu64 " is not set", at);
    return push(m, m->memo[at]);
}

/* ---- globals and what would be calls --------------------------------------------------------- */

static bool push_global(struct machine *m, struct stance_pickle_text module,
                        struct stance_pickle_text name)
{
    int found = stance_pickle_global(module, name);
    V  *v;

    if (found < 0)
        return BAD(m, "it asks for %.*s.%.*s, which weights do not need: refused, nothing was run",
                   (int)(module.len < 200 ? module.len : 200), module.s,
                   (int)(name.len < 200 ? name.len : 200), name.s);
    v = make(m, STANCE_PICKLE_GLOBAL);
    if (v != NULL)
        v->global = found;
    return push(m, v);
}

static bool read_line(struct machine *m, struct stance_pickle_text *out)
{
    const unsigned char *end = memchr(m->p, '\n', (size_t)(m->end - m->p));

    if (end == NULL)
        return BAD(m, "it ends too early");
    *out = (struct stance_pickle_text){ (const char *)m->p, (size_t)(end - m->p) };
    m->p = end + 1;
    return true;
}

static bool global_line(struct machine *m)
{
    struct stance_pickle_text module, name;

    return read_line(m, &module) && read_line(m, &name) && push_global(m, module, name);
}

static bool global_stack(struct machine *m)
{
    V *name = pop(m), *module = name != NULL ? pop(m) : NULL;

    if (module == NULL)
        return false;
    if (name->kind != STANCE_PICKLE_TEXT || module->kind != STANCE_PICKLE_TEXT)
        return BAD(m, "the name of a global is not a text");
    return push_global(m, module->u.text, name->u.text);
}

static V *item(const V *list, size_t i, enum stance_pickle_kind kind)
{
    V *v = i < list->u.list.count ? list->u.list.item[i] : NULL;

    return v != NULL && v->kind == kind ? v : NULL;
}

/* ("storage", class, key, location, elements[, view]), view = (key, first, count) or None: the
 * older container lets a storage be a part of another one. */
static bool persistent_id(struct machine *m)
{
    const V                      *id = pop(m), *word, *class, *key, *elements, *view = NULL;
    struct stance_pickle_storage *s;
    V                            *v;

    if (id == NULL)
        return false;
    if (id->kind != STANCE_PICKLE_TUPLE)
        return BAD(m, "a persistent id is not a tuple");
    word     = item(id, 0, STANCE_PICKLE_TEXT);
    class    = item(id, 1, STANCE_PICKLE_GLOBAL);
    key      = item(id, 2, STANCE_PICKLE_TEXT);
    elements = item(id, 4, STANCE_PICKLE_INT);
    if (word == NULL || word->u.text.len != 7 || memcmp(word->u.text.s, "storage", 7) != 0
        || class == NULL || !stance_pickle_is_storage(class->global) || key == NULL
        || elements == NULL || elements->u.i < 0)
        return BAD(m, "a persistent id is not that of a storage");
    s = stance_arena_get(m->arena, sizeof *s, _Alignof(struct stance_pickle_storage));
    v = make(m, STANCE_PICKLE_STORAGE);
    if (v == NULL)
        return false;
    if (s == NULL
        || !stance_grow((void **)&m->out->storage, &m->out->storage_capacity,
                        m->out->storages + 1, sizeof *m->out->storage))
        return short_of_memory(m);
    *s = (struct stance_pickle_storage){ .key      = key->u.text,
                                         .dtype    = stance_pickle_storage_type(class->global),
                                         .elements = elements->u.i,
                                         .count    = elements->u.i };
    view = item(id, 5, STANCE_PICKLE_TUPLE);
    if (view != NULL) {
        const V *root  = item(view, 0, STANCE_PICKLE_TEXT);
        const V *first = item(view, 1, STANCE_PICKLE_INT);
        const V *count = item(view, 2, STANCE_PICKLE_INT);

        if (root == NULL || first == NULL || count == NULL || first->u.i < 0 || count->u.i < 0
            || first->u.i > elements->u.i || count->u.i > elements->u.i - first->u.i)
            return BAD(m, "a view of a storage is malformed");
        s->first = first->u.i;
        s->count = count->u.i;
    }
    v->u.storage = s;
    m->out->storage[m->out->storages++] = s;
    return push(m, v);
}

/* (storage, offset, size, stride, ...): what follows does not change the values. */
static V *rebuild_tensor(struct machine *m, const V *args)
{
    const V *storage = item(args, 0, STANCE_PICKLE_STORAGE);
    const V *offset  = item(args, 1, STANCE_PICKLE_INT);
    const V *size    = item(args, 2, STANCE_PICKLE_TUPLE);
    const V *stride  = item(args, 3, STANCE_PICKLE_TUPLE);
    struct stance_pickle_tensor *t;
    V                           *v;

    if (storage == NULL || offset == NULL || size == NULL || stride == NULL || offset->u.i < 0
        || size->u.list.count != stride->u.list.count) {
        (void)BAD(m, "a tensor is not (storage, offset, size, stride)");
        return NULL;
    }
    if (size->u.list.count > STANCE_ENTRY_RANK) {
        (void)BAD(m, "a tensor has more than %d dimensions", STANCE_ENTRY_RANK);
        return NULL;
    }
    v = make(m, STANCE_PICKLE_TENSOR);
    if (v == NULL)
        return NULL;
    t = stance_arena_get(m->arena, sizeof *t, _Alignof(struct stance_pickle_tensor));
    if (t == NULL) {
        (void)short_of_memory(m);
        return NULL;
    }
    *t = (struct stance_pickle_tensor){ .storage = storage->u.storage,
                                        .offset  = offset->u.i,
                                        .rank    = (int32_t)size->u.list.count };
    for (size_t i = 0; i < size->u.list.count; i++) {
        const V *n = item(size, i, STANCE_PICKLE_INT), *s = item(stride, i, STANCE_PICKLE_INT);

        if (n == NULL || s == NULL || n->u.i < 0 || s->u.i < 0) {
            (void)BAD(m, "a size or stride of a tensor is not a whole number");
            return NULL;
        }
        t->size[i]   = n->u.i;
        t->stride[i] = s->u.i;
    }
    v->u.tensor = t;
    return v;
}

/* OrderedDict() or OrderedDict([(key, value), ...]), the latter as Python 2 wrote it. */
static V *make_dict(struct machine *m, const V *args)
{
    V       *v     = make(m, STANCE_PICKLE_DICT);
    const V *pairs = item(args, 0, STANCE_PICKLE_LIST);

    for (size_t i = 0; v != NULL && pairs != NULL && i < pairs->u.list.count; i++) {
        const V *pair = pairs->u.list.item[i];

        if ((pair->kind != STANCE_PICKLE_LIST && pair->kind != STANCE_PICKLE_TUPLE)
            || pair->u.list.count != 2) {
            (void)BAD(m, "an OrderedDict is not made of pairs");
            return NULL;
        }
        if (!append(m, v, pair->u.list.item, 2))
            return NULL;
    }
    return v;
}

static V *call(struct machine *m, const V *function, V *args)
{
    if (function->kind != STANCE_PICKLE_GLOBAL || args->kind != STANCE_PICKLE_TUPLE) {
        (void)BAD(m, "it calls what is not a function");
        return NULL;
    }
    switch (function->global) {
    case STANCE_GLOBAL_DICT: return make_dict(m, args);
    case STANCE_GLOBAL_TENSOR: return rebuild_tensor(m, args);
    case STANCE_GLOBAL_SIZE: {
        V *tuple = item(args, 0, STANCE_PICKLE_TUPLE);

        return tuple != NULL ? tuple : SHARED(other);
    }
    case STANCE_GLOBAL_PARAMETER: {
        V *tensor = item(args, 0, STANCE_PICKLE_TENSOR);

        if (tensor == NULL)
            (void)BAD(m, "a Parameter does not hold a tensor");
        return tensor;
    }
    case STANCE_GLOBAL_INERT: return SHARED(other);
    default: (void)BAD(m, "it calls a storage class"); return NULL;
    }
}

static bool reduce(struct machine *m)
{
    V *args = pop(m), *function = args != NULL ? pop(m) : NULL;

    return function != NULL && push(m, call(m, function, args));
}

/* ---- containers ------------------------------------------------------------------------------ */

static bool add_items(struct machine *m, V *const *items, size_t count, bool pairs)
{
    V *to = top(m);

    if (to == NULL)
        return false;
    if (to->kind == STANCE_PICKLE_OPAQUE)
        return true;
    if (to->kind != (pairs ? STANCE_PICKLE_DICT : STANCE_PICKLE_LIST))
        return BAD(m, "it adds items to what is no %s", pairs ? "dict" : "list");
    if (pairs && count % 2 != 0)
        return BAD(m, "a key without a value");
    return append(m, to, items, count);
}

static bool add_marked(struct machine *m, bool pairs)
{
    V    **items;
    size_t count;

    return pop_mark(m, &items, &count) && add_items(m, items, count, pairs);
}

static bool add_popped(struct machine *m, size_t count, bool pairs)
{
    if (above(m) < count)
        return BAD(m, "it takes a value from an empty stack");
    m->depth -= count;
    return add_items(m, m->stack + m->depth, count, pairs);
}

static bool make_marked(struct machine *m, enum stance_pickle_kind kind)
{
    V    **items;
    size_t count;

    if (!pop_mark(m, &items, &count))
        return false;
    if (kind == STANCE_PICKLE_OPAQUE)
        return push(m, SHARED(other));
    if (kind == STANCE_PICKLE_DICT && count % 2 != 0)
        return BAD(m, "a key without a value");
    return push(m, collect(m, kind, items, count));
}

static bool make_tuple(struct machine *m, size_t count)
{
    if (above(m) < count)
        return BAD(m, "it takes a value from an empty stack");
    m->depth -= count;
    return push(m, collect(m, STANCE_PICKLE_TUPLE, m->stack + m->depth, count));
}

static bool set_mark(struct machine *m)
{
    if (m->marks == SLOTS_MAX)
        return BAD(m, "more than %zu marks", SLOTS_MAX);
    if (!stance_grow((void **)&m->mark, &m->mark_capacity, m->marks + 1, sizeof *m->mark))
        return short_of_memory(m);
    m->mark[m->marks++] = m->depth;
    return true;
}

static bool discard(struct machine *m)
{
    if (above(m) > 0)
        m->depth--;
    else if (m->marks > 0)
        m->marks--;
    else
        return BAD(m, "it takes a value from an empty stack");
    return true;
}

/* One opcode. @return false at STOP and after a failure */
static bool step(struct machine *m, bool *stop)
{
    uint64_t n;
    V      **items;
    size_t   count;

    if (!little(m, 1, &n))
        return false;
    switch (n) {
    case 0x80: /* PROTO */
        return little(m, 1, &n) && (n <= 5 || BAD(m, "protocol %" PRIu64 " is not known", n));
    case 0x95: /* FRAME */ return little(m, 8, &n) && need(m, n);
    case '.': *stop = true; return false;

    case 'N': return push(m, SHARED(none));
    case 0x88: return push(m, SHARED(yes));
    case 0x89: return push(m, SHARED(no));
    case 'K': return little(m, 1, &n) && push_int(m, (int64_t)n);
    case 'M': return little(m, 2, &n) && push_int(m, (int64_t)n);
    case 'J': return little(m, 4, &n) && push_int(m, (int32_t)n);
    case 0x8a: return push_long(m, 1);
    case 0x8b: return push_long(m, 4);
    case 'G': return push_float(m);

    case 'U': case 'C': case 0x8c: return push_text(m, 1);
    case 'T': case 'B': case 'X': return push_text(m, 4);
    case 0x8d: case 0x8e: case 0x96: return push_text(m, 8);

    case '(': return set_mark(m);
    case '0': return discard(m);
    case '1': return pop_mark(m, &items, &count);
    case '2': return push(m, top(m));

    case ')': return push(m, SHARED(unit));
    case 't': return make_marked(m, STANCE_PICKLE_TUPLE);
    case 0x85: return make_tuple(m, 1);
    case 0x86: return make_tuple(m, 2);
    case 0x87: return make_tuple(m, 3);
    case ']': return push(m, make(m, STANCE_PICKLE_LIST));
    case 'l': return make_marked(m, STANCE_PICKLE_LIST);
    case 'a': return add_popped(m, 1, false);
    case 'e': return add_marked(m, false);
    case '}': return push(m, make(m, STANCE_PICKLE_DICT));
    case 'd': return make_marked(m, STANCE_PICKLE_DICT);
    case 's': return add_popped(m, 2, true);
    case 'u': return add_marked(m, true);
    case 0x8f: return push(m, SHARED(other)); /* EMPTY_SET */
    case 0x90: return add_marked(m, false);
    case 0x91: return make_marked(m, STANCE_PICKLE_OPAQUE);

    case 'q': return little(m, 1, &n) && put(m, n);
    case 'r': return little(m, 4, &n) && put(m, n);
    case 0x94: return put(m, m->memos);
    case 'h': return little(m, 1, &n) && get(m, n);
    case 'j': return little(m, 4, &n) && get(m, n);

    case 'c': return global_line(m);
    case 0x93: return global_stack(m);
    case 'R': case 0x81: return reduce(m);
    case 0x92: /* NEWOBJ_EX: class, arguments, named arguments */ return discard(m) && reduce(m);
    case 'b': /* BUILD: attributes, such as an OrderedDict's _metadata */
        return above(m) >= 2 ? discard(m) : BAD(m, "it takes a value from an empty stack");
    case 'Q': return persistent_id(m);

    default: return BAD(m, "opcode 0x%02x is none that weights need", (unsigned)n);
    }
}

stance_status stance_pickle_load(const unsigned char *data, size_t size,
                                 struct stance_arena *arena, struct stance_pickle *out,
                                 struct stance_error *err)
{
    struct machine m = { .head = data, .p = data, .end = data + size, .arena = arena,
                         .out = out, .err = err };
    bool           stop = false;

    *out = (struct stance_pickle){ 0 };
    while (step(&m, &stop))
        ;
    if (stop && (m.depth != 1 || m.marks != 0))
        (void)BAD(&m, "it stops with %zu values and %zu marks", m.depth, m.marks);
    if (m.status == STANCE_OK) {
        out->root = m.stack[0];
        out->used = (size_t)(m.p - data);
    } else {
        stance_pickle_free(out);
    }
    stance_free(m.stack);
    stance_free(m.mark);
    stance_free(m.memo);
    return m.status;
}

void stance_pickle_free(struct stance_pickle *p)
{
    stance_free(p->storage);
    *p = (struct stance_pickle){ 0 };
}

const struct stance_pickle_value *stance_pickle_get(const V *dict, const char *key)
{
    size_t len = strlen(key);

    for (size_t i = dict->u.list.count; i > 0; i -= 2) {
        const V *k = dict->u.list.item[i - 2];

        if (k->kind == STANCE_PICKLE_TEXT && k->u.text.len == len
            && memcmp(k->u.text.s, key, len) == 0)
            return dict->u.list.item[i - 1];
    }
    return NULL;
}
