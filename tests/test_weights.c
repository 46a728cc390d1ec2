/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#include "runner.h"

#include "io/tensors.h"

#include <stance/log.h>

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- elements -------------------------------------------------------------------------------- */

/* Binary16 by its definition, IEEE 754-2019 3.4. */
static double half_value(unsigned h)
{
    int    exponent = h >> 10 & 31;
    double fraction = h & 0x3ff, v;

    if (exponent == 31)
        v = fraction != 0 ? (double)NAN : (double)INFINITY;
    else
        v = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return (h & 0x8000) != 0 ? -v : v;
}

START_TEST(half_types_widen_exactly)
{
    for (unsigned h = 0; h < 65536; h++) {
        uint32_t bits = (uint32_t)h << 16, got;
        double   want = half_value(h);
        float    f    = stance_f16_to_f32((uint16_t)h), b = stance_bf16_to_f32((uint16_t)h);

        ck_assert(isnan(want) ? isnan(f) : (double)f == want && !!signbit(f) == !!signbit(want));
        memcpy(&got, &b, 4);
#ifdef __i386__ /* a float may come back through the x87 unit, which makes signalling NaNs quiet */
        if (isnan(b)) {
            got |= 0x400000;
            bits |= 0x400000;
        }
#endif
        ck_assert_uint_eq(got, bits);
    }
}
END_TEST

START_TEST(elements_widen)
{
    static const int64_t values[] = { -128, -1, 0, 1, 100, 127 };
    unsigned char raw[6 * 8 + 1];

    for (int t = 0; t < STANCE_DTYPE_COUNT; t++) {
        size_t              size = stance_dtype_size((enum stance_dtype)t);
        struct stance_entry e = { .name = "x", .dtype = (enum stance_dtype)t, .rank = 1, .dim = { 6 },
                                  .data = raw + 1 }; /* not aligned */
        float               f[6];
        double              d[6];
        int64_t             i[6];

        ck_assert(stance_entry_size(&e));
        ck_assert_uint_eq(e.bytes, 6 * size);
        ck_assert_uint_eq(stance_entry_elements(&e), 6);
        for (int j = 0; j < 6; j++) {
            bool    is_unsigned = t >= STANCE_DTYPE_U64;
            int64_t v           = is_unsigned && values[j] < 0 ? 7 : values[j];
            double  as_double   = (double)v;
            float   as_float    = (float)v;
            unsigned char *to   = raw + 1 + (size_t)j * size;
            uint32_t bits;

            memcpy(&bits, &as_float, 4);
            if (t == STANCE_DTYPE_F64) {
                memcpy(to, &as_double, 8);
            } else if (t == STANCE_DTYPE_F32) {
                memcpy(to, &as_float, 4);
            } else if (t == STANCE_DTYPE_BF16) { /* whole numbers below 256 have eight bits */
                memcpy(to, (unsigned char *)&bits + 2, 2);
            } else if (t == STANCE_DTYPE_F16) {
                unsigned h = 0;

                while (half_value(h) != as_double)
                    h++;
                memcpy(to, &h, 2);
            } else {
                memcpy(to, &v, size);
            }
            if (t == STANCE_DTYPE_BOOL)
                v = v != 0;
            stance_entry_f32(&e, (size_t)j, 1, f + j);
            stance_entry_f64(&e, (size_t)j, 1, d + j);
            ck_assert(stance_entry_i64(&e, (size_t)j, 1, i + j));
            ck_assert_msg(f[j] == (float)v && d[j] == (double)v && i[j] == v, "%s %d: %g %g %lld",
                          stance_dtype_word((enum stance_dtype)t), j, (double)f[j], d[j],
                          (long long)i[j]);
        }
        stance_entry_f32(&e, 0, 0, NULL);
        ck_assert_int_eq(stance_dtype_of(stance_dtype_word(e.dtype), strlen(stance_dtype_word(e.dtype))), t);
    }
    ck_assert_int_eq(stance_dtype_of("F3", 2), STANCE_DTYPE_COUNT);
}
END_TEST

START_TEST(integers_that_are_none_are_refused)
{
    static const double   odd[]  = { 0.5, 0x1p63, -0x1.1p63, (double)NAN };
    static const uint64_t long_one = (uint64_t)1 << 63;
    struct stance_entry   e = { .name = "x", .dtype = STANCE_DTYPE_F64, .bytes = 8 };
    int64_t               v;

    for (int i = 0; i < 4; i++) {
        e.data = &odd[i];
        ck_assert(!stance_entry_i64(&e, 0, 1, &v));
    }
    e.dtype = STANCE_DTYPE_U64;
    e.data  = &long_one;
    ck_assert(!stance_entry_i64(&e, 0, 1, &v));
}
END_TEST

START_TEST(sizes_do_not_overflow)
{
    struct stance_entry e = { .name = "x", .dtype = STANCE_DTYPE_F32, .rank = 3,
                              .dim = { 0, INT64_MAX / 4, 1 } };
    char text[64];

    ck_assert(stance_entry_size(&e) == (sizeof(size_t) == 8)); /* what memory cannot address is too much */
    e.dim[1] = (int64_t)(SIZE_MAX / 8);
    ck_assert(stance_entry_size(&e));
    ck_assert_uint_eq(e.bytes, 0);
    e.dim[1] = INT64_MAX / 4;
    e.dim[2] = 2; /* 0 times too much is still too much */
    ck_assert(!stance_entry_size(&e));
    e.dim[1] = -1;
    ck_assert(!stance_entry_size(&e));
    stance_entry_shape_text(4, (const int64_t[]){ 17, 4, 1, 1 }, text, sizeof text);
    ck_assert_str_eq(text, "17x4x1x1");
    stance_entry_shape_text(0, NULL, text, sizeof text);
    ck_assert_str_eq(text, "scalar");
    stance_entry_shape_text(4, (const int64_t[]){ 17, 4, 1, 1 }, text, 6);
    ck_assert_uint_lt(strlen(text), 6);
}
END_TEST

/* ---- reading safetensors --------------------------------------------------------------------- */

/* A file from its header; @p data bytes follow. */
static stance_status open_header(const char *header, size_t data, struct stance_safetensors **out,
                                 struct stance_error *err)
{
    unsigned char bytes[4096] = { 0 };
    uint64_t      length      = strlen(header);

    memcpy(bytes, &length, 8);
    memcpy(bytes + 8, header, length);
    return stance_safetensors_open_memory(bytes, 8 + length + data, "f.st", out, err);
}

/* On 32 bits a size that memory cannot address is refused before it is compared with the file. */
#define BY_WORD(on_64, on_32) (sizeof(size_t) == 8 ? (on_64) : (on_32))

static const struct { const char *header; size_t data; const char *says; } refusals[] = {
    { "[]", 0, "f.st: header:1:1: an object expected" },
    { "{\"a\":1}", 0, "an object expected, found a number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}} x", 4, "the document ends before" },
    { "{\"a\":{\"dtype\":\"F8\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "tensor 'a': unknown type 'F8'" },
    { "{\"a\":{\"dtype\":4,\"shape\":[4],\"data_offsets\":[0,4]}}", 4, "a string expected" },
    { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "has no dtype" },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "has no shape" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "has no data_offsets" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension: a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "dimension: a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],\"data_offsets\":[0,4]}}", 4, "whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "more than 8 dim" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "data_offsets are not" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "data_offsets are not" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "data_offsets are not" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 3, "cut short: the file has 65 bytes, its header needs 66" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "too long: the file has 67 bytes, its header accounts for 66" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "4 bytes before tensor 'a' belong to no tensor" },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[9223372036854775807],\"data_offsets\":[0,9223372036854775807]}}", 4,
      BY_WORD("cut short", "shape overflows") },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", 2, "'a' stands twice" },
    { "{\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "a name with a zero byte" },
    { "{\"__metadata__\":{\"a\":1}}", 0, "metadata 'a' is not a string" },
    { "{\"__metadata__\":[]}", 0, "an object expected" },
};

START_TEST(damaged_headers_are_refused)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_safetensors *s   = NULL;

    ck_assert_int_eq(open_header(refusals[_i].header, refusals[_i].data, &s, &err), STANCE_ERR_FORMAT);
    ck_assert_msg(strstr(err.text, refusals[_i].says) != NULL, "says %s", err.text);
    ck_assert_int_eq(strncmp(err.text, "f.st: ", 6), 0);
    ck_assert_ptr_null(s);
}
END_TEST

START_TEST(every_cut_is_refused)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    unsigned char     bytes[128] = { sizeof header - 1 };
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_safetensors *s   = NULL;
    size_t                     size = 8 + sizeof header - 1 + 8;

    memcpy(bytes + 8, header, sizeof header - 1);
    for (size_t n = 0; n < size; n++)
        ck_assert_int_eq(stance_safetensors_open_memory(bytes, n, "f.st", &s, &err), STANCE_ERR_FORMAT);
    ck_assert_int_eq(stance_safetensors_open_memory(bytes, size, "f.st", &s, &err), STANCE_OK);
    stance_safetensors_close(s);
    memset(bytes, 0xff, 8);
    ck_assert_int_eq(stance_safetensors_open_memory(bytes, size, "f.st", &s, &err), STANCE_ERR_FORMAT);
}
END_TEST

START_TEST(good_headers_are_read)
{
    static const char header[] =
        "{\"b\": {\"data_offsets\": [2,10], \"extra\": {\"x\": [1]}, \"dtype\": \"F32\", \"shape\": [2,1]},"
        "\"__metadata__\": {\"k\\u00e9\": \"v\\n\", \"second\": \"\"},"
        "\"a\": {\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[0,2]},"
        "\"empty\": {\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[10,10]}}   ";
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_safetensors *s;
    const struct stance_pair  *meta;
    const struct stance_entry *e;
    size_t                     n;

    ck_assert_msg(open_header(header, 10, &s, &err) == STANCE_OK, "%s", err.text);
    ck_assert_uint_eq(stance_safetensors_count(s), 3);
    ck_assert_str_eq(stance_safetensors_at(s, 0)->name, "b");
    e = stance_safetensors_find(s, "a");
    ck_assert(e != NULL && e->dtype == STANCE_DTYPE_F16 && e->rank == 0 && e->bytes == 2);
    ck_assert(stance_safetensors_find(s, "empty")->bytes == 0);
    ck_assert_ptr_eq((const char *)stance_safetensors_find(s, "b")->data, (const char *)e->data + 2);
    ck_assert_ptr_null(stance_safetensors_find(s, "c"));
    ck_assert_str_eq(stance_safetensors_meta(s, "k\xc3\xa9"), "v\n");
    ck_assert_ptr_null(stance_safetensors_meta(s, "k"));
    meta = stance_safetensors_metas(s, &n);
    ck_assert(n == 2 && strcmp(meta[1].key, "second") == 0 && meta[1].value[0] == '\0');
    stance_safetensors_close(s);
}
END_TEST

/* ---- writing safetensors --------------------------------------------------------------------- */

static const struct stance_entry declared[] = {
    { .name = "moment \"1\"\n", .dtype = STANCE_DTYPE_F64, .rank = 2, .dim = { 3, 2 } },
    { .name = "big", .dtype = STANCE_DTYPE_F32, .rank = 4, .dim = { 50, 40, 3, 3 } },
    { .name = "none", .dtype = STANCE_DTYPE_I64, .rank = 1, .dim = { 0 } },
    { .name = "count", .dtype = STANCE_DTYPE_I64, .rank = 0 },
    { .name = "h\xc3\xa9", .dtype = STANCE_DTYPE_BF16, .rank = 1, .dim = { 7 } },
};
#define DECLARED (sizeof declared / sizeof *declared)
static const struct stance_pair metadata[] = { { "step", "17" }, { "recipe", "a: \"b\"\n\tc: \x01\\" } };
enum { DATA = 48 + 72000 + 8 + 14 };

static unsigned char pattern(size_t i)
{
    return (unsigned char)(i * 37 + i / 251);
}

static stance_status write_file(const char *path, size_t piece, size_t total, struct stance_error *err)
{
    struct stance_safetensors_out *o;
    static unsigned char           data[DATA + 100];
    stance_status status = stance_safetensors_create(path, declared, DECLARED, metadata, 2, &o, err);

    if (status != STANCE_OK)
        return status;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = pattern(i);
    for (size_t at = 0; at < total && status == STANCE_OK; at += piece)
        status = stance_safetensors_write(o, data + at, piece < total - at ? piece : total - at, err);
    if (status == STANCE_OK)
        return stance_safetensors_commit(o, err);
    /* Commit tells of the failure, too, and must undo. */
    ck_assert_int_eq(stance_safetensors_commit(o, NULL), status);
    return status;
}

static char *slurp(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *data;

    ck_assert_msg(f != NULL, "%s", path);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    data  = calloc(*size + 1, 1);
    rewind(f);
    ck_assert_uint_eq(fread(data, 1, *size, f), *size);
    fclose(f);
    return data;
}

static char folder[64];

/* Path of a file in a folder of this test's own. */
static void in_folder(const char *name, char *path)
{
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/stance-weights-XXXXXX");
        ck_assert_ptr_nonnull(mkdtemp(folder));
    }
    snprintf(path, 256, "%s/%s", folder, name);
}

static void remove_folder(void)
{
    ck_assert_int_eq(rmdir(folder), 0); /* nothing is left behind: no temporary file */
    folder[0] = '\0';
}

START_TEST(what_is_written_reads_back)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_safetensors *s;
    char                       path[256], *first = NULL;
    size_t                     size, at = 0;
    static const size_t        pieces[] = { DATA, 1, 1000, 65536, 40000 };

    in_folder("w.safetensors", path);
    for (int i = 0; i < 5; i++) {
        char *again;

        ck_assert_msg(write_file(path, pieces[i], DATA, &err) == STANCE_OK, "%s", err.text);
        again = slurp(path, &size);
        if (first != NULL)
            ck_assert_int_eq(memcmp(first, again, size), 0); /* the same bytes each time */
        free(first);
        first = again;
    }
    ck_assert_uint_eq((size_t)(unsigned char)first[0] % 8, 0);
    ck_assert_msg(stance_safetensors_open(path, &s, &err) == STANCE_OK, "%s", err.text);
    ck_assert_uint_eq(stance_safetensors_count(s), DECLARED);
    for (size_t i = 0; i < DECLARED; i++) {
        const struct stance_entry *e = stance_safetensors_at(s, i);

        ck_assert_str_eq(e->name, declared[i].name);
        ck_assert(e->dtype == declared[i].dtype && e->rank == declared[i].rank);
        ck_assert_int_eq(memcmp(e->dim, declared[i].dim, sizeof e->dim), 0);
        ck_assert_uint_eq((uintptr_t)e->data % stance_dtype_size(e->dtype), 0);
        for (size_t j = 0; j < e->bytes; j++, at++)
            ck_assert_uint_eq(((const unsigned char *)e->data)[j], pattern(at));
    }
    ck_assert_uint_eq(at, DATA);
    ck_assert_str_eq(stance_safetensors_meta(s, "recipe"), metadata[1].value);
    stance_safetensors_close(s);
    { /* the header is JSON for others, too */
        uint64_t length;
        json_t  *header;

        memcpy(&length, first, 8);
        header = json_loadb(first + 8, length, JSON_REJECT_DUPLICATES, NULL);
        ck_assert_ptr_nonnull(header);
        ck_assert_uint_eq(json_object_size(header), DECLARED + 1);
        json_decref(header);
    }
    free(first);
    unlink(path);
    remove_folder();
}
END_TEST

START_TEST(failures_leave_the_old_file_alone)
{
    struct stance_error err = STANCE_ERROR_INIT;
    char                path[256], inside[256], *before, *after;
    size_t              size, again;
    pid_t               child;
    int                 how;

    in_folder("w.safetensors", path);
    ck_assert_int_eq(write_file(path, DATA, DATA, &err), STANCE_OK);
    before = slurp(path, &size);
    ck_assert_int_eq(write_file(path, 999, DATA - 1, &err), STANCE_ERR_INVAL);
    ck_assert_msg(strstr(err.text, "1 bytes fewer than were declared") != NULL, "%s", err.text);
    ck_assert_int_eq(write_file(path, DATA + 2, DATA + 2, &err), STANCE_ERR_INVAL);
    ck_assert_msg(strstr(err.text, "2 bytes more than were declared") != NULL, "%s", err.text);
    child = fork();
    if (child == 0) { /* a disk that is full after 50000 bytes */
        struct rlimit limit = { 50000, 50000 };

        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        _exit(write_file(path, 1000, DATA, &err) == STANCE_ERR_IO && strstr(err.text, "w.safetensors: File too large") != NULL ? 0 : 1);
    }
    waitpid(child, &how, 0);
    ck_assert_int_eq(how, 0);
    after = slurp(path, &again);
    ck_assert(size == again && memcmp(before, after, size) == 0);
    free(after);
    free(before);
    unlink(path);

    in_folder("nowhere/w.safetensors", inside);
    ck_assert_int_eq(write_file(inside, DATA, DATA, &err), STANCE_ERR_IO);
    ck_assert_msg(strstr(err.text, "No such file or directory") != NULL, "%s", err.text);
    ck_assert_int_eq(mkdir(path, 0777), 0); /* the rename fails */
    in_folder("w.safetensors/x", inside);
    fclose(fopen(inside, "w"));
    ck_assert_int_eq(write_file(path, DATA, DATA, &err), STANCE_ERR_IO);
    unlink(inside);
    rmdir(path);
    remove_folder();
}
END_TEST

START_TEST(aborting_undoes)
{
    struct stance_error            err = STANCE_ERROR_INIT;
    struct stance_safetensors_out *o;
    char                           path[256];

    in_folder("w.safetensors", path);
    ck_assert_int_eq(stance_safetensors_create(path, declared, DECLARED, NULL, 0, &o, &err), STANCE_OK);
    stance_safetensors_abort(o);
    stance_safetensors_abort(NULL);
    remove_folder();
}
END_TEST

static const struct { struct stance_entry e[2]; struct stance_pair meta[2]; const char *says; } undeclared[] = {
    { { { .name = "a" }, { .name = "a" } }, { { "x", "" }, { "y", "" } }, "tensor 'a' is declared twice" },
    { { { .name = "__metadata__" }, { .name = "a" } }, { { "x", "" }, { "y", "" } }, "the name is reserved" },
    { { { .name = "\xff" }, { .name = "a" } }, { { "x", "" }, { "y", "" } }, "not UTF-8" },
    { { { .name = "a", .rank = 9 }, { .name = "b" } }, { { "x", "" }, { "y", "" } }, "no such type or shape" },
    { { { .name = "a", .rank = 1, .dim = { -1 } }, { .name = "b" } }, { { "x", "" }, { "y", "" } }, "no such type" },
    { { { .name = "a", .rank = 1, .dim = { INT64_MAX / 8 } }, { .name = "b", .rank = 1, .dim = { 8 } } },
      { { "x", "" }, { "y", "" } }, BY_WORD("tensor 'b': no such type or shape", "tensor 'a': no such type or shape") },
    { { { .name = "a", .dtype = STANCE_DTYPE_COUNT }, { .name = "b" } }, { { "x", "" }, { "y", "" } }, "no such type" },
    { { { .name = "a" }, { .name = "b" } }, { { "x", "" }, { "x", "" } }, "metadata 'x': stands twice" },
    { { { .name = "a" }, { .name = "b" } }, { { "x", "\xc3" }, { "y", "" } }, "metadata 'x': is not UTF-8" },
};

START_TEST(bad_declarations_are_refused)
{
    struct stance_error            err = STANCE_ERROR_INIT;
    struct stance_safetensors_out *o;

    ck_assert_int_eq(stance_safetensors_create("never.st", undeclared[_i].e, 2, undeclared[_i].meta, 2, &o, &err),
                     STANCE_ERR_INVAL);
    ck_assert_msg(strstr(err.text, undeclared[_i].says) != NULL, "says %s", err.text);
    ck_assert_int_ne(access("never.st.tmp", F_OK), 0);
}
END_TEST

/* ---- matching: cases/checkpoint -------------------------------------------------------------- */

#define MODEL(outputs)                                                          \
    { { "backbone.conv1.weight", { 4, { 4, 3, 3, 3 } } },                       \
      { "backbone.bn1.running_mean", { 1, { 4 } } },                            \
      { "head.final_layer.weight", { 4, { outputs, 4, 1, 1 } } },               \
      { "head.final_layer.bias", { 1, { outputs } } } }
static const struct stance_wanted model17[] = MODEL(17), model5[] = MODEL(5);

static const struct {
    const char                 *name;
    const struct stance_wanted *model;
    const char                 *only;
    stance_status               want;
    size_t                      loaded;
    const char                 *says[4];
} cases[] = {
    { "whole-file", model17, NULL, STANCE_OK, 4, { NULL } },
    { "backbone-only-on-request", model5, "backbone.", STANCE_OK, 2, { NULL } },
    { "half-file-into-single-model", model17, NULL, STANCE_OK, 4, { NULL } },
    { "module-prefix", model17, NULL, STANCE_OK, 4, { NULL } },
    { "head-shape-differs", model5, NULL, STANCE_ERR_SHAPE, 0,
      { "head.final_layer.weight", "17x4x1x1", "5x4x1x1", "head.final_layer.bias" } },
    { "nothing-matches", model17, NULL, STANCE_ERR_INVAL, 0,
      { "backbone.conv1.weight", "E.base.0.weight", "w.safetensors", NULL } },
    { "data-cut-short", model17, NULL, STANCE_ERR_FORMAT, 0, { "w.safetensors", "1024", "1124", NULL } },
    { "empty-file", model17, NULL, STANCE_ERR_FORMAT, 0, { "w.safetensors", NULL } },
    { "header-cut-short", model17, NULL, STANCE_ERR_FORMAT, 0, { "w.safetensors", "header", NULL } },
    { "header-length-lie", model17, NULL, STANCE_ERR_FORMAT, 0, { "w.safetensors", "header", NULL } },
};

static char logged[1024];

static void remember(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx;
    (void)level;
    snprintf(logged, sizeof logged, "%s: %s", module, text);
}

START_TEST(cases_end_as_they_should)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_tensors *t;
    struct stance_match    m;
    char                   name[256];
    const char            *path;
    stance_status          status;
    float                  first;

    snprintf(name, sizeof name, "cases/checkpoint/%s/w.safetensors", cases[_i].name);
    path = shared_file(name);
    if (path == NULL) {
        SKIP("%s is absent", name);
        return;
    }
    stance_log_level_set(STANCE_LOG_INFO);
    stance_log_set_sink(remember, NULL);
    status = stance_tensors_open(path, &t, &err);
    if (status == STANCE_OK) {
        status = stance_tensors_match(t, cases[_i].model, 4, cases[_i].only, &m, &err);
        if (status == STANCE_OK) {
            ck_assert_uint_eq(m.loaded, cases[_i].loaded);
            ck_assert_uint_eq(m.n_not_loaded, 4 - m.loaded);
            ck_assert_uint_eq(m.n_ignored, 4 - m.loaded);
            ck_assert(!m.completed);
            if (cases[_i].only != NULL)
                ck_assert(m.not_loaded[0] == 2 && m.not_loaded[1] == 3 && m.entry[2] == NULL);
            ck_assert(m.stripped == (strcmp(cases[_i].name, "module-prefix") == 0));
            ck_assert(!m.stripped || strstr(logged, "module.") != NULL);
            stance_entry_f32(m.entry[0], 0, 1, &first);
            if (strcmp(cases[_i].name, "half-file-into-single-model") == 0)
                ck_assert(first == 2.041015625f);
            stance_match_free(&m);
        }
        stance_tensors_close(t);
    }
    ck_assert_msg(status == cases[_i].want, "%s", err.text);
    for (int i = 0; i < 4 && cases[_i].says[i] != NULL; i++)
        ck_assert_msg(strstr(err.text, cases[_i].says[i]) != NULL, "says %s", err.text);
    stance_log_set_sink(NULL, NULL);
}
END_TEST

/* Tensors in memory: names separated by blanks, each of one F32 in shape [1]. */
static struct stance_tensors *tensors_named(const char *names)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_tensors *t   = NULL;
    unsigned char          bytes[8192] = { 0 };
    char                   list[1024], *save = NULL;
    char                  *header = (char *)bytes + 8;
    uint64_t               used   = 0;
    int                    n      = 0;

    snprintf(list, sizeof list, "%s", names);
    for (char *w = strtok_r(list, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save), n++)
        used += (uint64_t)sprintf(header + used, "%c\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                                  n == 0 ? '{' : ',', w, 4 * n, 4 * n + 4);
    header[used++] = '}';
    memcpy(bytes, &used, 8);
    ck_assert_msg(stance_tensors_open_memory(bytes, 8 + used + 4 * (size_t)n, "t", &t, &err) == STANCE_OK,
                  "%s", err.text);
    return t;
}

static const struct { const char *file, *model, *only; stance_status want; size_t loaded, ignored; bool completed; const char *says; } names[] = {
    { "a b", "a b", NULL, STANCE_OK, 2, 0, false, "" },
    { "a", "a b", NULL, STANCE_ERR_INVAL, 0, 0, false, "t: does not fit the model: missing in the file: b" },
    { "a b c", "a b", NULL, STANCE_ERR_INVAL, 0, 0, false, "t: does not fit the model: not in the model: c" },
    { "a x", "a b", NULL, STANCE_ERR_INVAL, 0, 0, false, "missing in the file: b; not in the model: x" },
    { "a 1 2 3 4 5 6", "a", NULL, STANCE_ERR_INVAL, 0, 0, false, "not in the model: 1, 2, 3, 4 and 2 more" },
    { "a bn.num_batches_tracked", "a", NULL, STANCE_OK, 1, 1, false, "" },
    { "a", "a bn.num_batches_tracked", NULL, STANCE_OK, 1, 0, false, "" },
    { "a", "a xnum_batches_tracked", NULL, STANCE_ERR_INVAL, 0, 0, false, "missing in the file: xnum_batches_tracked" },
    { "a stance.exp_avg.a", "a", NULL, STANCE_OK, 1, 1, false, "" },
    { "module.a module.b", "a b", NULL, STANCE_OK, 2, 0, false, "" },
    { "module.a b", "a b", NULL, STANCE_ERR_INVAL, 0, 0, false, "not in the model: module.a" },
    { "x y", "a b", NULL, STANCE_ERR_INVAL, 0, 0, false, "wants for instance a; the file has for instance x" },
    { "backbone.a head.b", "backbone.a head.c", "backbone.", STANCE_OK, 1, 1, false, "" },
    { "a b fc", "backbone.a backbone.b head.c", "backbone.", STANCE_OK, 2, 1, true, "" },
    { "a fc", "backbone.a backbone.b head.c", "backbone.", STANCE_ERR_INVAL, 0, 0, true, "missing in the file: backbone.b" },
    { "backbone.x", "backbone.a head.c", "backbone.", STANCE_ERR_INVAL, 0, 0, false, "nothing in it matches" },
};

static size_t want_named(const char *list, struct stance_wanted *out, char *room, size_t size)
{
    char  *save = NULL;
    size_t n    = 0;

    snprintf(room, size, "%s", list);
    for (char *w = strtok_r(room, " ", &save); w != NULL; w = strtok_r(NULL, " ", &save))
        out[n++] = (struct stance_wanted){ w, { 1, { 1 } } };
    return n;
}

START_TEST(names_match_or_are_told)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_tensors *t   = tensors_named(names[_i].file);
    struct stance_wanted   wanted[16];
    struct stance_match    m = { 0 };
    char                   room[1024];
    size_t                 n = want_named(names[_i].model, wanted, room, sizeof room);

    ck_assert_msg(stance_tensors_match(t, wanted, n, names[_i].only, &m, &err) == names[_i].want, "%s", err.text);
    ck_assert_msg(strstr(err.text, names[_i].says) != NULL, "says %s", err.text);
    if (names[_i].want == STANCE_OK) {
        ck_assert_uint_eq(m.loaded, names[_i].loaded);
        ck_assert_uint_eq(m.n_ignored, names[_i].ignored);
        ck_assert(m.completed == names[_i].completed);
    }
    stance_match_free(&m);
    stance_tensors_close(t);
}
END_TEST

START_TEST(matching_survives_lack_of_memory)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_tensors *t   = tensors_named("a x y");
    struct stance_wanted   wanted[16];
    char                   room[64];
    size_t                 n = want_named("a b", wanted, room, sizeof room);
    stance_status          status = STANCE_ERR_NOMEM;

    for (long i = 0; status == STANCE_ERR_NOMEM; i++) {
        struct stance_match m = { 0 };

        fault_after(i);
        status = stance_tensors_match(t, wanted, n, NULL, &m, &err);
        ck_assert_int_eq(fault_live, 0);
    }
    ck_assert_int_eq(status, STANCE_ERR_INVAL);
    stance_set_allocator(NULL);
    stance_tensors_close(t);
}
END_TEST

START_TEST(files_survive_lack_of_memory)
{
    struct stance_error err = STANCE_ERROR_INIT;
    stance_status       status;
    char                path[256], out[256];

    in_folder("w.safetensors", path);
    in_folder("v.safetensors", out);
    status = STANCE_ERR_NOMEM;
    for (long n = 0; status != STANCE_OK; n++) {
        fault_after(n);
        status = write_file(path, DATA, DATA, &err);
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        ck_assert_int_eq(fault_live, 0);
    }
    status = STANCE_ERR_NOMEM;
    for (long n = 0; status != STANCE_OK; n++) {
        struct stance_safetensors *s = NULL;

        fault_after(n);
        status = stance_safetensors_open(path, &s, &err);
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        stance_safetensors_close(s);
        ck_assert_int_eq(fault_live, 0);
    }
    status = STANCE_ERR_NOMEM;
    for (long n = 0; status != STANCE_OK; n++) {
        fault_after(n);
        status = stance_tensors_convert(path, out, NULL, &err);
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        ck_assert_int_eq(fault_live, 0);
        ck_assert((access(out, F_OK) == 0) == (status == STANCE_OK));
    }
    stance_set_allocator(NULL);
    unlink(path);
    unlink(out);
    remove_folder();
}
END_TEST

START_TEST(nothing_to_load_is_an_error)
{
    static const unsigned char empty[] = { 2, 0, 0, 0, 0, 0, 0, 0, '{', '}' };
    struct stance_error        err     = STANCE_ERROR_INIT;
    struct stance_tensors     *t       = NULL;

    ck_assert_int_eq(stance_tensors_open_memory(empty, sizeof empty, "e", &t, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "e: holds no tensors by name");
    ck_assert_int_eq(stance_tensors_open_memory("plain words", 11, "e", &t, &err), STANCE_ERR_FORMAT);
    ck_assert_msg(strstr(err.text, "neither a safetensors file nor one of PyTorch's") != NULL, "%s", err.text);
    ck_assert_int_eq(stance_tensors_open("no-such-file", &t, &err), STANCE_ERR_INPUT);
    ck_assert_ptr_null(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weights");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, half_types_widen_exactly);
    tcase_add_test(tc, elements_widen);
    tcase_add_test(tc, integers_that_are_none_are_refused);
    tcase_add_test(tc, sizes_do_not_overflow);
    tcase_add_loop_test(tc, damaged_headers_are_refused, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tc, every_cut_is_refused);
    tcase_add_test(tc, good_headers_are_read);
    tcase_add_test(tc, what_is_written_reads_back);
    tcase_add_test(tc, failures_leave_the_old_file_alone);
    tcase_add_test(tc, aborting_undoes);
    tcase_add_loop_test(tc, bad_declarations_are_refused, 0, sizeof undeclared / sizeof *undeclared);
    tcase_add_loop_test(tc, cases_end_as_they_should, 0, sizeof cases / sizeof *cases);
    tcase_add_loop_test(tc, names_match_or_are_told, 0, sizeof names / sizeof *names);
    tcase_add_test(tc, matching_survives_lack_of_memory);
    tcase_add_test(tc, files_survive_lack_of_memory);
    tcase_add_test(tc, nothing_to_load_is_an_error);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
