/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#include "runner.h"

#include "base/random.h"
#include "io/json.h"

#include <jansson.h>
#include <math.h>

/* ---- our reader as a builder of jansson's values, so that jansson can judge ------------------- */

static json_t *build(struct stance_json *r)
{
    struct stance_json_text   text;
    struct stance_json_number n;
    json_t                   *v = NULL;

    switch (stance_json_peek(r)) {
    case STANCE_JSON_NULL: stance_json_null(r); return json_null();
    case STANCE_JSON_BOOL: return json_boolean(stance_json_bool(r));
    case STANCE_JSON_STRING:
        text = stance_json_string(r);
        return json_stringn_nocheck(text.s, text.len);
    case STANCE_JSON_NUMBER:
        if (!stance_json_number(r, &n))
            return NULL;
        return n.integer ? json_integer(n.i64) : json_real(n.f64);
    case STANCE_JSON_ARRAY:
        v = json_array();
        for (stance_json_array(r); stance_json_next_item(r);)
            json_array_append_new(v, build(r));
        return v;
    case STANCE_JSON_OBJECT:
        v = json_object();
        for (stance_json_object(r); stance_json_next_key(r, &text);) {
            char key[4096];

            ck_assert_uint_lt(text.len, sizeof key);
            memcpy(key, text.s, text.len);
            key[text.len] = '\0';
            json_object_set_new_nocheck(v, key, build(r));
        }
        return v;
    case STANCE_JSON_NONE: break;
    }
    return NULL;
}

static stance_status read_text(const char *text, size_t size, bool skip, json_t **out,
                               struct stance_error *err)
{
    struct stance_json *r;
    stance_status       status;

    ck_assert_int_eq(stance_json_open_memory(text, size, "doc", &r, err), STANCE_OK);
    *out = NULL;
    if (skip)
        stance_json_skip(r);
    else
        *out = build(r);
    status = stance_json_finish(r, err);
    stance_json_close(r);
    return status;
}

/* Both of our ways through a text, and jansson's, must come to the same end. */
static bool agree(const char *text, size_t size)
{
    struct stance_error err = STANCE_ERROR_INIT;
    json_error_t        theirs_err;
    json_t             *ours, *nothing;
    json_t *theirs = json_loadb(text, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &theirs_err);
    stance_status status = read_text(text, size, false, &ours, &err);
    stance_status skipped;
    bool          ok = theirs != NULL;

    if (theirs == NULL && (strstr(theirs_err.text, "too big") != NULL
                           || strstr(theirs_err.text, "NUL byte in object key") != NULL)) {
        json_decref(ours);
        return false; /* limits of jansson's own, not of JSON */
    }
    ck_assert_msg((status == STANCE_OK) == ok, "%.*s: ours '%s', theirs '%s'", (int)size, text,
                  err.text, ok ? "" : theirs_err.text);
    ck_assert_msg(!ok || json_equal(ours, theirs), "%.*s: other values", (int)size, text);
    json_decref(ours);
    json_decref(theirs);
    skipped = read_text(text, size, true, &nothing, &err);
    /* Skipping reads no numbers, so one beyond binary64 is no error there. */
    ck_assert_msg(skipped == status || status == STANCE_ERR_RANGE,
                  "%.*s: skipping says %s", (int)size, text, err.text);
    return ok;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static const struct { const char *text, *says; } refusals[] = {
    { "", "doc:1:1: the text ends where a value" },
    { " \n ", "doc:2:2: the text ends" },
    { "[1,2", "doc:1:5: the text ends where ',' or ']'" },
    { "[1,]", "doc:1:4: a value expected, found ']'" },
    { "[,1]", "a value expected, found ','" },
    { "[1 2]", "doc:1:4: ',' or ']' expected, found '2'" },
    { "{\"a\":1,}", "a key in quotes expected, found '}'" },
    { "{\"a\" 1}", "':' after a key expected" },
    { "{a:1}", "a key in quotes expected, found 'a'" },
    { "{\"a\":1]", "',' or '}' expected, found ']'" },
    { "[1}", "',' or ']' expected, found '}'" },
    { "\"abc", "doc:1:5: the text ends within a string" },
    { "\"a\tb\"", "doc:1:3: control character 0x09" },
    { "\"\\x\"", "unknown escape" },
    { "\"\\u12g4\"", "four hexadecimal digits" },
    { "\"\\ud800\"", "half of a surrogate pair" },
    { "\"\\ud800\\u0041\"", "half of a surrogate pair" },
    { "\"\\udc00\\ud800\"", "half of a surrogate pair" },
    { "\"\xff\"", "doc:1:2: a string is not UTF-8" },
    { "\"\xc0\xaf\"", "not UTF-8" },
    { "\"\xed\xa0\x80\"", "not UTF-8" },
    { "\"\xf4\x90\x80\x80\"", "not UTF-8" },
    { "\"\xe2\x82\"", "not UTF-8" },
    { "01", "doc:1:1: a number with a leading zero" },
    { "[-012]", "doc:1:3: a number with a leading zero" },
    { "-", "a digit" },
    { "1.", "a digit" },
    { "1.e3", "a digit" },
    { "1e", "a digit" },
    { "1e+", "a digit" },
    { "+1", "a value expected, found '+'" },
    { ".5", "a value expected, found '.'" },
    { "NaN", "NaN and Infinity are not numbers in JSON" },
    { "-Infinity", "NaN and Infinity" },
    { "[Infinity]", "NaN and Infinity" },
    { "nul", "not 'true', 'false' or 'null'" },
    { "True", "a value expected, found 'T'" },
    { "1 2", "doc:1:3: the document ends before this" },
    { "{}\n\n x", "doc:3:2: the document ends before this" },
    { "\x01", "found byte 0x01" },
    { "[\"a\",\n \"b\",\n  oops]", "doc:3:3: a value expected, found 'o'" },
};

START_TEST(refuses_with_place_and_reason)
{
    struct stance_error err = STANCE_ERROR_INIT;
    const char         *text = refusals[_i].text;
    json_t             *v;

    for (int skip = 0; skip < 2; skip++) {
        ck_assert_int_eq(read_text(text, strlen(text), skip != 0, &v, &err), STANCE_ERR_FORMAT);
        ck_assert_msg(strstr(err.text, refusals[_i].says) != NULL, "%s: says %s", text, err.text);
        json_decref(v);
    }
    ck_assert(!agree(text, strlen(text)));
}
END_TEST

START_TEST(accepts_what_is_json)
{
    static const char *const texts[] = {
        "0", "-0", "1", "-1", "9223372036854775807", "-9223372036854775808", "1.5e308", "5e-324",
        "1e-400", "\"\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", "[]", "{}",
        "[[],{},\"\",null,true,false]", " {\"a\" : [1 , 2.0 ,3e0 ] , \"b\":{\"c\":\"d\"}} \n",
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 plain text that is longer than eight bytes\"",
        "\"\\u0000\"", "{\"a\":1,\"a\":2}",
    };

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(agree(texts[i], strlen(texts[i])), "%s", texts[i]);
}
END_TEST

START_TEST(numbers_are_exact)
{
    struct stance_error       err = STANCE_ERROR_INIT;
    struct stance_rng         rng = stance_rng(7, STANCE_USE_INIT, 0, 0);
    struct stance_json_number n;
    struct stance_json       *r;
    char                      text[128];

    for (int i = 0; i < 40000; i++) {
        uint64_t bits = (uint64_t)stance_rng_u32(&rng) << 32 | stance_rng_u32(&rng);
        double   v;

        memcpy(&v, &bits, 8);
        if (i % 4 == 1) /* coordinates, and the digits that Clinger's path takes */
            v = (double)stance_rng_below(&rng, 100000000) / 10000;
        if (!isfinite(v))
            continue;
        if (i % 4 == 2)
            snprintf(text, sizeof text, "%.*f", (int)stance_rng_below(&rng, 30), fmod(v, 1e30));
        else if (i % 4 == 3)
            snprintf(text, sizeof text, "%lld", (long long)bits);
        else
            snprintf(text, sizeof text, "%.*g", 1 + (int)stance_rng_below(&rng, 25), v);
        v = strtod(text, NULL);
        if (isinf(v)) /* rounded up beyond the largest */
            continue;
        ck_assert_int_eq(stance_json_open_memory(text, strlen(text), "n", &r, &err), STANCE_OK);
        ck_assert(stance_json_number(r, &n));
        ck_assert_msg(n.f64 == v && signbit(n.f64) == signbit(v), "%s", text);
        ck_assert(i % 4 != 3 || (n.integer && n.i64 == (int64_t)bits));
        ck_assert_int_eq(stance_json_finish(r, &err), STANCE_OK);
        stance_json_close(r);
    }
}
END_TEST

static const struct { const char *text; stance_status want; int64_t value; const char *says; } integers[] = {
    { "12", STANCE_OK, 12, "" },
    { "12.0", STANCE_OK, 12, "" },
    { "-1.2e1", STANCE_OK, -12, "" },
    { "9223372036854775807", STANCE_OK, INT64_MAX, "" },
    { "-9223372036854775808", STANCE_OK, INT64_MIN, "" },
    { "9223372036854775808", STANCE_ERR_RANGE, 0, "beyond 64 bits" },
    { "18446744073709551616", STANCE_ERR_RANGE, 0, "beyond 64 bits" },
    { "1e300", STANCE_ERR_RANGE, 0, "beyond 64 bits" },
    { "1e999", STANCE_ERR_RANGE, 0, "beyond the range of binary64" },
    { "12.5", STANCE_ERR_FORMAT, 0, "an integer expected, found 12.5" },
    { "\"12\"", STANCE_ERR_FORMAT, 0, "a number expected, found a string" },
    { "[12]", STANCE_ERR_FORMAT, 0, "a number expected, found an array" },
    { "null", STANCE_ERR_FORMAT, 0, "a number expected, found null" },
};

START_TEST(integers_are_integers)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_json *r;

    ck_assert_int_eq(stance_json_open_memory(integers[_i].text, strlen(integers[_i].text), "n", &r,
                                             &err), STANCE_OK);
    ck_assert_int_eq(stance_json_i64(r), integers[_i].value);
    ck_assert_int_eq(stance_json_finish(r, &err), integers[_i].want);
    ck_assert_msg(strstr(err.text, integers[_i].says) != NULL, "says %s", err.text);
    stance_json_close(r);
}
END_TEST

/* ---- random documents ------------------------------------------------------------------------ */

static void random_value(struct stance_rng *rng, FILE *f, int depth)
{
    static const char *const pieces[] = { "a", "\\n", "\\u00e9", "\xe2\x82\xac", "\\ud83d\\ude00", " ",
                                          "\\\\", "long enough for the words", "\\/", "\\u0000" };
    uint32_t kind = stance_rng_below(rng, depth > 5 ? 5 : 7), n = stance_rng_below(rng, 5);

    switch (kind) {
    case 0: fputs("null", f); break;
    case 1: fputs(n % 2 ? "true" : "false", f); break;
    case 2: fprintf(f, "%d", (int)stance_rng_u32(rng)); break;
    case 3: fprintf(f, "%.*g", 1 + (int)n * 4, (double)(int)stance_rng_u32(rng) / 1e5); break;
    case 4:
        fputc('"', f);
        while (n-- > 0)
            fputs(pieces[stance_rng_below(rng, 10)], f);
        fputc('"', f);
        break;
    case 5:
        fputc('[', f);
        for (uint32_t i = 0; i < n; i++) {
            fputs(i > 0 ? ", " : "", f);
            random_value(rng, f, depth + 1);
        }
        fputc(']', f);
        break;
    default:
        fputc('{', f);
        for (uint32_t i = 0; i < n; i++) {
            fprintf(f, "%s\"k%u\":", i > 0 ? "," : "\n", i);
            random_value(rng, f, depth + 1);
        }
        fputc('}', f);
    }
}

START_TEST(random_documents_agree_with_jansson)
{
    static const char noise[] = "{}[],:\"\\0123456789.eE+-tfnu \n\x80\xc3\xe2\xff";
    int               good = 0, bad = 0;

    for (int i = 0; i < 6000; i++) {
        struct stance_rng rng = stance_rng(11, STANCE_USE_INIT, (uint64_t)i, 0);
        char             *text;
        size_t            size;
        FILE             *f = open_memstream(&text, &size);

        random_value(&rng, f, 0);
        fclose(f);
        ck_assert(agree(text, size));
        for (int j = 0; j < 4; j++) {
            size_t at   = stance_rng_below(&rng, (uint32_t)size);
            char   kept = text[at];

            text[at] = noise[stance_rng_below(&rng, sizeof noise - 1)];
            if (agree(text, size))
                good++;
            else
                bad++;
            text[at] = kept;
            if (at > 0)
                bad += !agree(text, at);
        }
        free(text);
    }
    ck_assert(good > 1000 && bad > 1000); /* both sides were tried */
}
END_TEST

START_TEST(golden_files_agree_with_jansson)
{
    const char *dir = shared_file("golden/cocoeval");
    int         seen = 0;
    char        command[4200], path[4096];
    FILE       *list;

    if (dir == NULL) {
        SKIP("golden/cocoeval is absent");
        return;
    }
    snprintf(command, sizeof command, "find '%s' -name '*.json'", dir);
    list = popen(command, "r");
    ck_assert_ptr_nonnull(list);
    while (fgets(path, sizeof path, list) != NULL) {
        struct stance_error err = STANCE_ERROR_INIT;
        struct stance_json *r;
        json_t             *ours, *theirs;

        path[strcspn(path, "\n")] = '\0';
        theirs = json_load_file(path, JSON_DECODE_ANY, NULL);
        ck_assert_msg(stance_json_open(path, &r, &err) == STANCE_OK, "%s", err.text);
        ours = build(r);
        ck_assert_msg(stance_json_finish(r, &err) == STANCE_OK, "%s", err.text);
        stance_json_close(r);
        ck_assert_msg(json_equal(ours, theirs), "%s", path);
        json_decref(ours);
        json_decref(theirs);
        seen++;
    }
    pclose(list);
    ck_assert_int_ge(seen, 16);
}
END_TEST

/* ---- the rest of the reader ------------------------------------------------------------------ */

START_TEST(depth_is_limited)
{
    struct stance_error err = STANCE_ERROR_INIT;
    char                text[2 * STANCE_JSON_DEPTH + 4];
    json_t             *v;

    for (int n = STANCE_JSON_DEPTH; n <= STANCE_JSON_DEPTH + 1; n++) {
        memset(text, '[', (size_t)n);
        memset(text + n, ']', (size_t)n);
        for (int skip = 0; skip < 2; skip++) {
            stance_status status = read_text(text, 2 * (size_t)n, skip != 0, &v, &err);

            json_decref(v);
            ck_assert_int_eq(status, n == STANCE_JSON_DEPTH ? STANCE_OK : STANCE_ERR_FORMAT);
        }
    }
    ck_assert_msg(strstr(err.text, "512 brackets") != NULL, "%s", err.text);
    ck_assert_int_eq(read_text("[1\0]", 4, true, &v, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "doc:1:3: ',' or ']' expected, found byte 0x00");
}
END_TEST

START_TEST(errors_stick_and_loops_end)
{
    static const char   text[] = "{\"a\": [1, 2, \"three\", 4], \"b\": 5}";
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_json_text key;
    struct stance_json *r;
    int                 items = 0, keys = 0;

    ck_assert_int_eq(stance_json_open_memory(text, sizeof text - 1, "t", &r, &err), STANCE_OK);
    for (stance_json_object(r); stance_json_next_key(r, &key); keys++)
        for (stance_json_array(r); stance_json_next_item(r); items++)
            (void)stance_json_f64(r);
    stance_json_refuse(r, STANCE_ERR_INVAL, "a later one");
    ck_assert_int_eq(stance_json_string(r).len, 0);
    ck_assert_int_eq(stance_json_peek(r), STANCE_JSON_NONE);
    stance_json_skip(r);
    ck_assert_int_eq(keys, 1);
    ck_assert_int_eq(items, 3);
    ck_assert_int_eq(stance_json_finish(r, &err), STANCE_ERR_FORMAT);
    ck_assert_str_eq(err.text, "t:1:14: a number expected, found a string");
    stance_json_close(r);

    /* A caller's own refusal has the place; what was not read is noticed. */
    ck_assert_int_eq(stance_json_open_memory(text, sizeof text - 1, "t", &r, &err), STANCE_OK);
    ck_assert(stance_json_object(r) && stance_json_next_key(r, &key) && stance_json_is(key, "a"));
    ck_assert(!stance_json_is(key, "ab") && !stance_json_is(key, ""));
    stance_json_refuse(r, STANCE_ERR_RANGE, "annotation %d: too odd", 7);
    ck_assert_int_eq(stance_json_finish(r, &err), STANCE_ERR_RANGE);
    ck_assert_str_eq(err.text, "t:1:6: annotation 7: too odd");
    stance_json_close(r);
    ck_assert_int_eq(stance_json_open_memory(text, sizeof text - 1, "t", &r, &err), STANCE_OK);
    ck_assert(stance_json_object(r));
    ck_assert_int_eq(stance_json_finish(r, &err), STANCE_ERR_INTERNAL);
    stance_json_close(r);
}
END_TEST

/* A file larger than a portion of given-back pages, whose size is a multiple of the page size. */
START_TEST(large_files_are_read_in_little_memory)
{
    struct stance_error err = STANCE_ERROR_INIT;
    char                path[] = "json-large-XXXXXX";
    int                 fd = mkstemp(path);
    FILE               *f;
    struct stance_json *r;
    double              sum = 0;
    long                n = 0;

    ck_assert_int_ge(fd, 0);
    f = fdopen(fd, "w");
    fputs("\xef\xbb\xbf[0", f);
    for (int i = 1; i <= 1500000; i++)
        fprintf(f, ",%d.5", i);
    fputc(']', f);
    while (ftell(f) % 65536 != 0)
        fputc(' ', f);
    fclose(f);
    ck_assert_int_eq(stance_json_open(path, &r, &err), STANCE_OK);
    for (stance_json_array(r); stance_json_next_item(r); n++)
        sum += stance_json_f64(r);
    ck_assert_msg(stance_json_finish(r, &err) == STANCE_OK, "%s", err.text);
    stance_json_close(r);
    unlink(path);
    ck_assert_int_eq(n, 1500001);
    ck_assert(sum == 1500000.0 * 1500001 / 2 + 750000);
}
END_TEST

START_TEST(bad_paths_are_told)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_json *r   = NULL;

    ck_assert_int_eq(stance_json_open("no-such.json", &r, &err), STANCE_ERR_INPUT);
    ck_assert_str_eq(err.text, "no-such.json: No such file or directory");
    ck_assert_int_eq(stance_json_open(".", &r, &err), STANCE_ERR_INPUT);
    ck_assert_str_eq(err.text, ".: is a folder, not a file");
    ck_assert_ptr_null(r);
    /* Not a regular file: read to its end instead of mapped. */
    ck_assert_int_eq(stance_json_open("/dev/null", &r, &err), STANCE_OK);
    stance_json_skip(r);
    ck_assert_int_eq(stance_json_finish(r, &err), STANCE_ERR_FORMAT);
    stance_json_close(r);
}
END_TEST

START_TEST(reader_survives_lack_of_memory)
{
    static const char   text[] = "{\"k\\n\": [\"\\u00e9 and \\t so on\", 12345678901234567.25]}";
    struct stance_error err = STANCE_ERROR_INIT;
    stance_status       status = STANCE_ERR_NOMEM;

    for (long n = 0; status != STANCE_OK; n++) {
        struct stance_json     *r = NULL;
        struct stance_json_text key;

        fault_after(n);
        status = stance_json_open_memory(text, sizeof text - 1, "t", &r, &err);
        if (status == STANCE_OK) {
            for (stance_json_object(r); stance_json_next_key(r, &key);) {
                stance_json_array(r);
                if (stance_json_next_item(r))
                    (void)stance_json_string(r);
                if (stance_json_next_item(r))
                    (void)stance_json_f64(r);
                if (stance_json_next_item(r))
                    stance_json_skip(r);
            }
            status = stance_json_finish(r, &err);
        }
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        stance_json_close(r);
        ck_assert_int_eq(fault_live, 0);
        ck_assert_int_lt(n, 50);
    }
    for (long n = 0; n < 2; n++) {
        struct stance_json *r = NULL;

        fault_after(n);
        ck_assert_int_eq(stance_json_open("/dev/null", &r, &err), STANCE_ERR_NOMEM);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
}
END_TEST

/* ---- the writer ------------------------------------------------------------------------------ */

static void sample(FILE *f, int indent)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_json_out o;

    stance_json_out_start(&o, f, indent);
    stance_json_out_object(&o);
    stance_json_out_key(&o, "text");
    stance_json_out_text(&o, "a \"b\" \\ \n\t\x01 \xc3\xa9 \xff.");
    stance_json_out_key(&o, "none");
    stance_json_out_text(&o, NULL);
    stance_json_out_key(&o, "numbers");
    stance_json_out_array(&o);
    stance_json_out_i64(&o, INT64_MIN);
    stance_json_out_f64(&o, 0.1);
    stance_json_out_f32(&o, 0.1f);
    stance_json_out_f64(&o, 3);
    stance_json_out_f64(&o, -0.0);
    stance_json_out_f64(&o, 1e300);
    stance_json_out_f64(&o, NAN);
    stance_json_out_f64(&o, -INFINITY);
    stance_json_out_end_array(&o);
    stance_json_out_key(&o, "empty");
    stance_json_out_array(&o);
    stance_json_out_end_array(&o);
    stance_json_out_key(&o, "nested");
    stance_json_out_object(&o);
    stance_json_out_key(&o, "yes");
    stance_json_out_bool(&o, true);
    stance_json_out_key(&o, "null");
    stance_json_out_null(&o);
    stance_json_out_end_object(&o);
    stance_json_out_end_object(&o);
    ck_assert_int_eq(stance_json_out_finish(&o, &err), STANCE_OK);
}

START_TEST(writes_json)
{
    char  *text;
    size_t size;
    FILE  *f = open_memstream(&text, &size);

    sample(f, 0);
    fclose(f);
    ck_assert_str_eq(text,
                     "{\"text\": \"a \\\"b\\\" \\\\ \\n\\t\\u0001 \xc3\xa9 \xef\xbf\xbd.\", \"none\": null, "
                     "\"numbers\": [-9223372036854775808, 0.1, 0.1, 3, -0.0, 1e+300, null, null], "
                     "\"empty\": [], \"nested\": {\"yes\": true, \"null\": null}}\n");
    ck_assert(agree(text, size));
    free(text);
    f = open_memstream(&text, &size);
    sample(f, 2);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "\n  \"numbers\": [\n    -9223372036854775808,\n    0.1,"));
    ck_assert_ptr_nonnull(strstr(text, "\n  \"empty\": [],\n"));
    ck_assert_ptr_nonnull(strstr(text, "    \"null\": null\n  }\n}\n"));
    ck_assert(agree(text, size));
    free(text);
}
END_TEST

START_TEST(written_numbers_read_back)
{
    struct stance_rng rng = stance_rng(3, STANCE_USE_INIT, 0, 0);

    for (int i = 0; i < 20000; i++) {
        uint64_t bits = (uint64_t)stance_rng_u32(&rng) << 32 | stance_rng_u32(&rng);
        uint32_t half = stance_rng_u32(&rng);
        double   v, back;
        float    s;
        char     text[64];
        FILE    *f = fmemopen(text, sizeof text, "w");
        struct stance_json_out o;

        memcpy(&v, &bits, 8);
        memcpy(&s, &half, 4);
        if (!isfinite(v) || !isfinite(s)) {
            fclose(f);
            continue;
        }
        stance_json_out_start(&o, f, 0);
        if (i % 2 == 0)
            stance_json_out_f64(&o, v);
        else
            stance_json_out_f32(&o, s);
        fclose(f);
        back = strtod(text, NULL);
        ck_assert_msg(i % 2 == 0 ? back == v : (float)back == s, "%s", text);
        ck_assert_uint_le(strlen(text), i % 2 == 0 ? 24 : 16); /* sign, 17 digits, point, exponent; or 15 digits */
    }
}
END_TEST

START_TEST(a_full_disk_is_told)
{
    struct stance_error    err = STANCE_ERROR_INIT;
    struct stance_json_out o;
    FILE                  *f = fopen("/dev/full", "w");

    if (f == NULL) {
        SKIP("/dev/full is absent");
        return;
    }
    stance_json_out_start(&o, f, 0);
    stance_json_out_text(&o, "words");
    ck_assert_int_eq(stance_json_out_finish(&o, &err), STANCE_ERR_IO);
    ck_assert_str_eq(err.text, "writing JSON: No space left on device");
    fclose(f);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, refuses_with_place_and_reason, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tc, accepts_what_is_json);
    tcase_add_test(tc, numbers_are_exact);
    tcase_add_loop_test(tc, integers_are_integers, 0, sizeof integers / sizeof *integers);
    tcase_add_test(tc, random_documents_agree_with_jansson);
    tcase_add_test(tc, golden_files_agree_with_jansson);
    tcase_add_test(tc, depth_is_limited);
    tcase_add_test(tc, errors_stick_and_loops_end);
    tcase_add_test(tc, large_files_are_read_in_little_memory);
    tcase_add_test(tc, bad_paths_are_told);
    tcase_add_test(tc, reader_survives_lack_of_memory);
    tcase_add_test(tc, writes_json);
    tcase_add_test(tc, written_numbers_read_back);
    tcase_add_test(tc, a_full_disk_is_told);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
