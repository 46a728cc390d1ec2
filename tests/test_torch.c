/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#include "runner.h"
#include "sha256.h"

#include "io/json.h"
#include "io/tensors.h"
#include "io/torch.h"

#include <sys/stat.h>
#include <zip.h>

/* ---- golden/checkpoints ---------------------------------------------------------------------- */

static void check_tensor(const struct stance_tensors *t, const char *file, const char *name,
                         struct stance_json *r)
{
    const struct stance_entry *e = stance_tensors_find(t, name);
    struct stance_json_text    key, text;
    double                    *values;
    char                       hex[65];
    int                        rank = 0;
    size_t                     n;

    ck_assert_msg(e != NULL, "%s: %s is missing", file, name);
    n      = stance_entry_elements(e);
    values = malloc(n * sizeof *values + 1);
    stance_entry_f64(e, 0, n, values);
    sha256(values, n * sizeof *values, hex);
    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        if (stance_json_is(key, "shape")) {
            for (stance_json_array(r); stance_json_next_item(r);)
                ck_assert_msg(rank < e->rank && e->dim[rank++] == stance_json_i64(r), "%s: %s", file, name);
        } else if (stance_json_is(key, "dtype")) {
            static const struct { const char *theirs, *ours; } words[] = {
                { "float32", "F32" }, { "float16", "F16" }, { "bfloat16", "BF16" },
                { "float64", "F64" }, { "int64", "I64" } };
            const char *ours = "?";

            text = stance_json_string(r);
            for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                if (stance_json_is(text, words[i].theirs))
                    ours = words[i].ours;
            ck_assert_str_eq(stance_dtype_word(e->dtype), ours);
        } else if (stance_json_is(key, "sha256_f64")) {
            text = stance_json_string(r);
            ck_assert_msg(stance_json_is(text, hex), "%s: %s: %s", file, name, hex);
        } else {
            stance_json_skip(r);
        }
    }
    ck_assert_int_eq(rank, e->rank);
    free(values);
}

/* Reads one entry of expect.json twice: the verdict may stand behind the tensors. */
static bool may_load(struct stance_json *r, size_t *tensors)
{
    struct stance_json_text key;
    bool                    load = false;

    *tensors = 0;
    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        if (stance_json_is(key, "load")) {
            load = stance_json_bool(r);
        } else if (stance_json_is(key, "tensors")) {
            for (stance_json_object(r); stance_json_next_key(r, &key); ++*tensors)
                stance_json_skip(r);
        } else {
            stance_json_skip(r);
        }
    }
    return load;
}

static void check_values(const struct stance_tensors *t, const char *file, struct stance_json *r)
{
    struct stance_json_text key;
    char                    name[256];

    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        if (!stance_json_is(key, "tensors")) {
            stance_json_skip(r);
            continue;
        }
        for (stance_json_object(r); stance_json_next_key(r, &key);) {
            snprintf(name, sizeof name, "%.*s", (int)key.len, key.s);
            check_tensor(t, file, name, r);
        }
    }
}

static void check_file(const char *file, const char *path, bool load, size_t tensors, struct stance_json *r)
{
    static const char       out[] = "golden-out.safetensors";
    struct stance_error     err = STANCE_ERROR_INIT;
    struct stance_tensors  *t;
    struct stance_converted done;
    stance_status           status = stance_tensors_open(path, &t, &err);

    if (!load) {
        stance_json_skip(r);
        ck_assert_msg(status == STANCE_ERR_FORMAT, "%s: status %d", file, status);
        ck_assert_msg(strncmp(err.text, path, strlen(path)) == 0 && strlen(err.text) > strlen(path) + 4, "%s", err.text);
        ck_assert_int_eq(stance_tensors_convert(path, out, NULL, &err), STANCE_ERR_FORMAT);
        ck_assert_int_ne(access(out, F_OK), 0);
        if (strstr(file, "hostile") != NULL)
            ck_assert_msg(strstr(err.text, "posix.system") != NULL, "%s", err.text);
        return;
    }
    ck_assert_msg(status == STANCE_OK, "%s", err.text);
    ck_assert_uint_eq(stance_tensors_count(t), tensors);
    check_values(t, file, r);
    ck_assert(stance_tensors_stripped(t) == (strcmp(file, "data_parallel_prefix.pth") == 0));
    ck_assert_msg(stance_tensors_convert(path, out, &done, &err) == STANCE_OK, "%s", err.text);
    ck_assert(done.tensors == tensors && done.stripped == stance_tensors_stripped(t));
    stance_tensors_close(t);
}

static void check_entry(const char *file, const char *expect, size_t tensors, bool load)
{
    char                    path[300];
    struct stance_error     err = STANCE_ERROR_INIT;
    struct stance_json_text key;
    struct stance_json     *r;

    /* The file itself, then what convert made of it. */
    for (int i = 0; i < (load ? 2 : 1); i++) {
        const char *full;

        snprintf(path, sizeof path, "golden/checkpoints/%s", file);
        full = i == 0 ? shared_file(path) : "golden-out.safetensors";
        ck_assert_msg(full != NULL, "%s is absent", path);
        ck_assert_int_eq(stance_json_open(expect, &r, &err), STANCE_OK);
        for (stance_json_object(r); stance_json_next_key(r, &key);) {
            if (!stance_json_is(key, file))
                stance_json_skip(r);
            else if (i == 0)
                check_file(file, full, load, tensors, r);
            else {
                struct stance_tensors *t;

                ck_assert_msg(stance_tensors_open(full, &t, &err) == STANCE_OK, "%s", err.text);
                ck_assert_uint_eq(stance_tensors_count(t), tensors);
                check_values(t, file, r);
                stance_tensors_close(t);
                unlink(full);
            }
        }
        ck_assert_msg(stance_json_finish(r, &err) == STANCE_OK, "%s", err.text);
        stance_json_close(r);
    }
}

START_TEST(golden_checkpoints)
{
    const char             *found = shared_file("golden/checkpoints/expect.json");
    char                    expect[4096];
    struct stance_error     err    = STANCE_ERROR_INIT;
    struct stance_json_text key;
    struct stance_json     *r;
    int                     good = 0, bad = 0;

    if (found == NULL) {
        SKIP("golden/checkpoints is absent");
        return;
    }
    snprintf(expect, sizeof expect, "%s", found);
    ck_assert_int_eq(stance_json_open(expect, &r, &err), STANCE_OK);
    for (stance_json_object(r); stance_json_next_key(r, &key);) {
        char   file[128];
        size_t tensors;
        bool   load;

        snprintf(file, sizeof file, "%.*s", (int)key.len, key.s);
        load = may_load(r, &tensors);
        check_entry(file, expect, tensors, load);
        *(load ? &good : &bad) += 1;
    }
    ck_assert_msg(stance_json_finish(r, &err) == STANCE_OK, "%s", err.text);
    stance_json_close(r);
    ck_assert_int_ge(good, 13);
    ck_assert_int_ge(bad, 13);
    ck_assert_int_ne(access("pwned", F_OK), 0); /* what the hostile ones try to make */
}
END_TEST

/* ---- made by hand ---------------------------------------------------------------------------- */

struct bytes { char s[8192]; size_t n; };

static void add(struct bytes *b, const char *s, size_t n)
{
    ck_assert_uint_le(b->n + n, sizeof b->s);
    memcpy(b->s + b->n, s, n);
    b->n += n;
}
#define ADD(b, text) add((b), (text), sizeof(text) - 1)

/* What precedes the object in the older container. */
#define PREAMBLE                                                                         \
    "\x80\2\x8a\nl\xfc\x9c\x46\xf9\x20j\xa8P\x19.\x80\2M\xe9\3."                         \
    "\x80\2}X\r\0\0\0little_endian\x88s."
/* A storage of four floats, key "0"; then the tuple (storage, ...) is open. */
#define STORAGE "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4tQ"
#define REBUILD "ctorch._utils\n_rebuild_tensor_v2\n"
#define TAIL    "\211)tR"
/* 2x2 with strides (1, 2): transposed. */
#define TENSOR  REBUILD STORAGE "K\0K\2K\2\x86K\1K\2\x86" TAIL
#define KEYS    "\x80\2]X\1\0\0\0" "0a."
/* A name, then its tensor. */
#define NAMED(name) "X\1\0\0\0" name TENSOR

static const float elements[] = { 1, 2, 3, 4 };

static stance_status open_legacy(const char *object, size_t size, bool storage, struct stance_torch **out,
                                 struct stance_error *err)
{
    struct bytes b     = { .n = 0 };
    int64_t      count = 4;

    ADD(&b, PREAMBLE);
    add(&b, object, size);
    ADD(&b, KEYS);
    if (storage) {
        add(&b, (const char *)&count, 8);
        add(&b, (const char *)elements, sizeof elements);
    }
    return stance_torch_open_memory(b.s, b.n, "f.pth", out, err);
}

#define DOC(text) text, sizeof(text) - 1

static const struct { const char *object; size_t size, count; float first[4]; } accepted[] = {
    { DOC("\x80\2}" NAMED("w") "s."), 1, { 1, 3, 2, 4 } },
    /* protocol 4: frame, memoize, short text, global from the stack */
    { DOC("\x80\4\x95\2\0\0\0\0\0\0\0}\x94\x8c\1w\x94\x8c\014torch._utils\x94\x8c\022_rebuild_tensor_v2\x94\x93\x94" STORAGE
          "K\0K\2K\2\x86K\1K\2\x86" TAIL "s."), 1, { 1, 3, 2, 4 } },
    /* state_dict beats the rest; other values are passed over */
    { DOC("\x80\2}(X\1\0\0\0a" TENSOR "X\12\0\0\0state_dict}(" NAMED("b") "X\1\0\0\0cNX\1\0\0\0d]uX\4\0\0\0meta}u."), 1, { 1, 3, 2, 4 } },
    /* an OrderedDict of Python 2, made of a list of pairs, with its _metadata as attributes */
    { DOC("\x80\2ccollections\nOrderedDict\n](](U\1w" TENSOR "e](U\1n" "K\1ee\x85R}X\1\0\0\0mK\1sb."), 1, { 1, 3, 2, 4 } },
    /* a Parameter; meta with a numpy scalar, a set, floats, long integers; NEWOBJ */
    { DOC("\x80\2}(X\1\0\0\0wctorch._utils\n_rebuild_parameter\n(" TENSOR "\210ccollections\nOrderedDict\n)\x81tR"
          "X\1\0\0\0scnumpy.core.multiarray\nscalar\ncnumpy\ndtype\nU\2" "f8K\0K\1\x87RU\10" "12345678\x86R"
          "X\1\0\0\0lc__builtin__\nset\n]\x85RX\1\0\0\0fG?\340\0\0\0\0\0\0X\1\0\0\0i\x8a\1\377J\376\377\377\377"
          "ctorch\nSize\nK\1K\2\x86\x85Ru."), 1, { 1, 3, 2, 4 } },
    /* a view of a storage, as the older container had them: elements 1 and 2 of four */
    { DOC("\x80\2}X\1\0\0\0w" REBUILD "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4"
          "X\1\0\0\0vK\1K\2\x87tQK\0K\2\x85K\1\x85" TAIL "s."), 1, { 2, 3 } },
    /* offset and stride */
    { DOC("\x80\2}X\1\0\0\0w" REBUILD STORAGE "K\1K\2\x85K\2\x85" TAIL "s."), 1, { 2, 4 } },
    /* a stride of 0: one value thrice */
    { DOC("\x80\2}X\1\0\0\0w" REBUILD STORAGE "K\3K\3\x85K\0\x85" TAIL "s."), 1, { 4, 4, 4 } },
    /* a scalar; an element-less one far outside */
    { DOC("\x80\2}(X\1\0\0\0w" REBUILD STORAGE "K\2))" TAIL "X\1\0\0\0e" REBUILD STORAGE "K\377K\0\x85K\1\x85" TAIL "u."), 2, { 3 } },
};

START_TEST(state_dicts_are_read)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_torch       *t;
    const struct stance_entry *e;
    float                      v[4];

    ck_assert_msg(open_legacy(accepted[_i].object, accepted[_i].size, true, &t, &err) == STANCE_OK, "%s", err.text);
    ck_assert_uint_eq(stance_torch_count(t), accepted[_i].count);
    e = stance_torch_at(t, 0);
    ck_assert_int_eq(e->dtype, STANCE_DTYPE_F32);
    ck_assert_uint_eq(strlen(e->name), 1);
    stance_entry_f32(e, 0, stance_entry_elements(e), v);
    for (size_t i = 0; i < stance_entry_elements(e); i++)
        ck_assert_msg(v[i] == accepted[_i].first[i], "%zu: %g", i, (double)v[i]);
    stance_torch_close(t);
}
END_TEST

static const struct { const char *object; size_t size; const char *says; } refused[] = {
    { DOC("\x80\2cos\nsystem\nX\2\0\0\0ls\x85R."), "it asks for os.system, which weights do not need" },
    { DOC("\x80\4\x8c\2os\x8c\6system\x93."), "it asks for os.system" },
    { DOC("\x80\2c__builtin__\neval\n."), "__builtin__.eval" },
    { DOC("\x80\2ctorch._utils\n_rebuild_qtensor\n."), "torch._utils._rebuild_qtensor" },
    { DOC("\x80\2ctorch\nQInt8Storage\n."), "torch.QInt8Storage" },
    { DOC("\x80\x09."), "protocol 9" },
    { DOC("\x80\2i"), "opcode 0x69" },
    { DOC("\x80\2X\xff\xff\xff\xff" "a."), "it ends too early" },
    { DOC("\x80\4\x8d\xff\xff\xff\xff\xff\xff\xff\xff" "a."), "it ends too early" },
    { DOC("\x80\2\x8b\xff\xff\xff\x7f."), "it ends too early" },
    { DOC("\x80\4\x95\xff\xff\xff\xff\xff\xff\xff\xff."), "it ends too early" },
    { DOC("\x80\2Nr\xff\xff\xff\xff."), "far out of order" },
    { DOC("\x80\2h\5."), "memo 5 is not set" },
    { DOC("\x80\2."), "stops with 0 values" },
    { DOC("\x80\2NN."), "stops with 2 values" },
    { DOC("\x80\2N(."), "stops with 1 values and 1 marks" },
    { DOC("\x80\2R"), "empty stack" },
    { DOC("\x80\2N(R"), "empty stack" },
    { DOC("\x80\2t"), "no mark is set" },
    { DOC("\x80\2\x85"), "empty stack" },
    { DOC("\x80\2}(Nu."), "a key without a value" },
    { DOC("\x80\2)Na."), "adds items to what is no list" },
    { DOC("\x80\2]NNs."), "adds items to what is no dict" },
    { DOC("\x80\2N)R."), "calls what is not a function" },
    { DOC("\x80\2ctorch\nFloatStorage\n)R."), "calls a storage class" },
    { DOC("\x80\2NQ."), "persistent id is not a tuple" },
    { DOC("\x80\2X\6\0\0\0moduleNN\x87Q."), "not that of a storage" },
    { DOC("\x80\2" REBUILD ")R."), "not (storage, offset, size, stride)" },
    { DOC("\x80\2" REBUILD STORAGE "K\0K\2\x85)" TAIL "."), "not (storage, offset, size, stride)" },
    { DOC("\x80\2" REBUILD STORAGE "K\0J\xff\xff\xff\xff\x85K\1\x85" TAIL "."), "not a whole number" },
    { DOC("\x80\2" REBUILD STORAGE "K\0K\1\x85J\xff\xff\xff\xff\x85" TAIL "."), "not a whole number" },
    { DOC("\x80\2" REBUILD STORAGE "K\0(K\1K\1K\1K\1K\1K\1K\1K\1K\1t(K\1K\1K\1K\1K\1K\1K\1K\1K\1t" TAIL "."), "more than 8 dimensions" },
    { DOC("\x80\2ctorch._utils\n_rebuild_parameter\nNN\x86R."), "does not hold a tensor" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD STORAGE "K\1K\4\x85K\1\x85" TAIL "s."), "tensor 'w': reaches beyond its storage of 4 elements" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD STORAGE "K\0K\2K\2\x86\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\1\x86" TAIL "s."), "reaches beyond" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD STORAGE "K\0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x85K\0\x85" TAIL "s."), "shape overflows" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD STORAGE "K\0J\0\0\0\x7f\x85K\0\x85" TAIL "s."),
      sizeof(size_t) == 8 ? "16 times the bytes of the file" : "shape overflows" },
    { DOC("\x80\2}X\2\0\0\0w\0" TENSOR "s."), "zero byte" },
    { DOC("\x80\2" TENSOR "."), "not a mapping of names to tensors" },
    { DOC("\x80\2}(" NAMED("w") "X\12\0\0\0state_dictNu."), "its 'state_dict' is not a mapping" },
    { DOC("\x80\2}(" NAMED("w") "X\1\0\0\0v" REBUILD
          "((X\7\0\0\0storagectorch\nHalfStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4tQK\0))" TAIL "u."), "has two descriptions" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\5tQK\0))" TAIL "s."),
      "has 4 elements, its tensors say 5" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "1X\3\0\0\0cpuK\4tQK\0))" TAIL "s."),
      "mentioned nowhere" },
    { DOC("\x80\2}X\1\0\0\0w" REBUILD "((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" "0X\3\0\0\0cpuK\4"
          "X\1\0\0\0vK\3K\2\x87tQK\0))" TAIL "s."), "view of a storage is malformed" },
};

START_TEST(hostile_pickles_are_refused)
{
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_torch *t   = NULL;

    ck_assert_int_eq(open_legacy(refused[_i].object, refused[_i].size, true, &t, &err), STANCE_ERR_FORMAT);
    ck_assert_msg(strstr(err.text, refused[_i].says) != NULL, "says %s", err.text);
    ck_assert_int_eq(strncmp(err.text, "f.pth: ", 7), 0);
    ck_assert_ptr_null(t);
}
END_TEST

START_TEST(every_cut_of_the_older_container_is_refused)
{
    static const char    object[] = "\x80\2}" NAMED("w") "s.";
    struct stance_error  err      = STANCE_ERROR_INIT;
    struct stance_torch *t        = NULL;
    struct bytes         b        = { .n = 0 };
    int64_t              count    = 4;

    ADD(&b, PREAMBLE);
    add(&b, object, sizeof object - 1);
    ADD(&b, KEYS);
    add(&b, (const char *)&count, 8);
    add(&b, (const char *)elements, sizeof elements);
    for (size_t n = 0; n < b.n; n++)
        ck_assert_msg(stance_torch_open_memory(b.s, n, "f.pth", &t, &err) == STANCE_ERR_FORMAT, "%zu", n);
    ck_assert_int_eq(stance_torch_open_memory(b.s, b.n, "f.pth", &t, &err), STANCE_OK);
    stance_torch_close(t);
    ck_assert_int_eq(stance_torch_open_memory("\x80\2}.", 4, "f.pth", &t, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "f.pth: a pickle, but not one of torch.save()");
    ck_assert_int_eq(open_legacy(object, sizeof object - 1, false, &t, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "f.pth: cut short: it ends before storage 1 of 1");
}
END_TEST

/* A few bytes that ask for much: what they get is bounded. */
START_TEST(memory_is_bounded)
{
    struct stance_error  err  = STANCE_ERROR_INIT;
    size_t               size = sizeof PREAMBLE - 1 + ((size_t)5 << 20);
    char                *data = malloc(size);
    struct stance_torch *t    = NULL;

    memcpy(data, PREAMBLE, sizeof PREAMBLE - 1);
    memset(data + sizeof PREAMBLE - 1, ']', (size_t)5 << 20);
    ck_assert_int_eq(stance_torch_open_memory(data, size, "f.pth", &t, &err), STANCE_ERR_FORMAT);
    ck_assert_msg(strstr(err.text, "more than 4194304 values") != NULL, "%s", err.text);
    free(data);
}
END_TEST

/* ---- archives -------------------------------------------------------------------------------- */

struct member { const char *name, *data; size_t size; bool deflate; };

static void write_zip(const char *path, const struct member *m, size_t n)
{
    zip_t *z = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, NULL);

    ck_assert_ptr_nonnull(z);
    for (size_t i = 0; i < n; i++) {
        zip_int64_t at = zip_file_add(z, m[i].name, zip_source_buffer(z, m[i].data, m[i].size, 0), 0);

        ck_assert_int_ge(at, 0);
        zip_set_file_compression(z, (zip_uint64_t)at, m[i].deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    }
    ck_assert_int_eq(zip_close(z), 0);
}

#define PICKLE "\x80\2}" NAMED("w") "s."
static const char zeros[4096];

static const struct { struct member m[3]; size_t n; const char *says; } archives[] = {
    { { { "top/data.pkl", DOC(PICKLE), false }, { "top/data/0", (const char *)elements, 16, false } }, 2, "" },
    { { { "data.pkl", DOC(PICKLE), false }, { "data/0", (const char *)elements, 16, false } }, 2, "" },
    { { { "top/data.pkl", DOC(PICKLE), false }, { "top/data/0", (const char *)elements, 16, false },
        { "top/byteorder", DOC("little"), false } }, 3, "" },
    { { { "top/data.pkl", DOC(PICKLE), false }, { "top/data/0", (const char *)elements, 16, false },
        { "top/byteorder", DOC("big"), false } }, 3, "byte order is not little-endian" },
    { { { "top/data.pkl", DOC(PICKLE), false } }, 1, "tensor 'w': storage '0' is not in the archive" },
    { { { "top/data.pkl", DOC(PICKLE), false }, { "data/0", (const char *)elements, 16, false } }, 2, "is not in the archive" },
    { { { "top/data.pkl", DOC(PICKLE), false }, { "top/data/0", (const char *)elements, 12, false } }, 2, "has 12 bytes, its tensors need 16" },
    { { { "top/data.pkl", DOC(PICKLE), false }, { "top/data/0", zeros, sizeof zeros, true } }, 2, "is compressed" },
    { { { "top/xdata.pkl", DOC(PICKLE), false } }, 1, "it has no data.pkl" },
    { { { "word/document.xml", DOC("<xml/>"), false } }, 1, "a zip archive, but not one of torch.save()" },
};

START_TEST(archives_are_read_or_told)
{
    struct stance_error  err  = STANCE_ERROR_INIT;
    struct stance_torch *t    = NULL;
    char                 path[] = "archive-XXXXXX";
    stance_status        status;
    float                v[4];

    close(mkstemp(path));
    write_zip(path, archives[_i].m, archives[_i].n);
    status = stance_torch_open(path, &t, &err);
    unlink(path);
    ck_assert_msg(status == (archives[_i].says[0] == '\0' ? STANCE_OK : STANCE_ERR_FORMAT), "%s", err.text);
    ck_assert_msg(strstr(err.text, archives[_i].says) != NULL, "says %s", err.text);
    if (status == STANCE_OK) {
        stance_entry_f32(stance_torch_at(t, 0), 0, 4, v);
        ck_assert(v[0] == 1 && v[1] == 3 && v[2] == 2 && v[3] == 4);
    }
    stance_torch_close(t);
}
END_TEST

START_TEST(readers_survive_lack_of_memory)
{
    static const char   *const files[] = { "strided_views.pth", "mmcv_wrapped_legacy.pth", "parameters.pth", "crc_flip.pth" };
    struct stance_error  err = STANCE_ERROR_INIT;
    static const char    object[] = "\x80\2}" NAMED("w") "s.";
    stance_status        status = STANCE_ERR_NOMEM;

    for (long n = 0; status != STANCE_OK; n++) {
        struct stance_torch *t = NULL;

        fault_after(n);
        status = open_legacy(object, sizeof object - 1, true, &t, &err);
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        stance_torch_close(t);
        ck_assert_int_eq(fault_live, 0);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char        name[128];
        const char *path;

        snprintf(name, sizeof name, "golden/checkpoints/%s", files[i]);
        path = shared_file(name);
        if (path == NULL) {
            SKIP("golden/checkpoints is absent");
            break;
        }
        status = STANCE_ERR_NOMEM;
        for (long n = 0; status == STANCE_ERR_NOMEM; n++) {
            struct stance_tensors *t = NULL;

            fault_after(n);
            status = stance_tensors_open(path, &t, &err);
            stance_tensors_close(t);
            ck_assert_int_eq(fault_live, 0);
        }
        ck_assert_int_eq(status, i < 3 ? STANCE_OK : STANCE_ERR_FORMAT);
    }
    stance_set_allocator(NULL);
}
END_TEST

START_TEST(a_name_twice_is_refused)
{
    static const char      object[] = "\x80\2}(" NAMED("w") NAMED("w") "u.";
    struct stance_error    err      = STANCE_ERROR_INIT;
    struct stance_tensors *t        = NULL;
    struct bytes           b        = { .n = 0 };
    int64_t                count    = 4;

    ADD(&b, PREAMBLE);
    add(&b, object, sizeof object - 1);
    ADD(&b, KEYS);
    add(&b, (const char *)&count, 8);
    add(&b, (const char *)elements, sizeof elements);
    ck_assert_int_eq(stance_tensors_open_memory(b.s, b.n, "f.pth", &t, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "f.pth: tensor 'w' stands twice in it");
    /* A mapping without tensors is an error, too. */
    b.n = 0;
    ADD(&b, PREAMBLE "\x80\2}X\1\0\0\0aK\1s." "\x80\2].");
    ck_assert_int_eq(stance_tensors_open_memory(b.s, b.n, "f.pth", &t, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "f.pth: holds no tensors by name");
}
END_TEST

START_TEST(sha256_known_answers)
{
    char hex[65];

    sha256("abc", 3, hex);
    ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hex);
    ck_assert_str_eq(hex, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("torch");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, sha256_known_answers);
    tcase_add_test(tc, golden_checkpoints);
    tcase_add_loop_test(tc, state_dicts_are_read, 0, sizeof accepted / sizeof *accepted);
    tcase_add_loop_test(tc, hostile_pickles_are_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(tc, every_cut_of_the_older_container_is_refused);
    tcase_add_test(tc, memory_is_bounded);
    tcase_add_loop_test(tc, archives_are_read_or_told, 0, sizeof archives / sizeof *archives);
    tcase_add_test(tc, readers_survive_lack_of_memory);
    tcase_add_test(tc, a_name_twice_is_refused);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
