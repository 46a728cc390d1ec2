/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "runner.h"

#include "base/text.h"
#include "step/scaler.h"

#include <stance/log.h>

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <yaml.h>

static struct stance_registry *reg;

static void open_registry(void)
{
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_registry_new(NULL, &reg, &err) == STANCE_OK, "%s", err.text);
}

static void close_registry(void)
{
    stance_registry_free(reg);
}

static struct stance_scaler *scaler(const char *spec)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_scaler *s;

    ck_assert_msg(stance_scaler_from(reg, spec, &s, &err) == STANCE_OK, "%s", err.text);
    return s;
}

static void tell(struct stance_scaler *s, uint64_t step, bool overflow)
{
    struct stance_outcome o = { .step      = step,
                                .overflow  = overflow,
                                .grad_norm = overflow ? INFINITY : 1 };

    stance_scaler_update(s, &o);
}

/* A field of the saved state: "growth_tracker" of "dynamic:scale=4,growth_tracker=1". */
static double field(const struct stance_scaler *s, const char *name)
{
    struct stance_error err = STANCE_ERROR_INIT;
    char               *text, key[64], *at, number[64];
    double              v;

    ck_assert_msg(stance_scaler_save(s, &text, &err) == STANCE_OK, "%s", err.text);
    snprintf(key, sizeof key, "%s=", name);
    at = strstr(text, key);
    ck_assert_msg(at != NULL, "no %s in %s", name, text);
    at += strlen(key);
    snprintf(number, sizeof number, "%.*s", (int)strcspn(at, ","), at);
    ck_assert(stance_text_f64(number, &v));
    stance_free(text);
    return v;
}

/* ---- golden/schedule/scalers.json: PyTorch's and MMCV's own scalers, step by step ---------- */

static json_t *golden(const char *list)
{
    const char *file = shared_file("golden/schedule/scalers.json");
    json_t     *root, *part;

    if (file == NULL) {
        SKIP("scalers: golden/schedule/scalers.json is absent");
        return NULL;
    }
    root = json_load_file(file, 0, NULL);
    ck_assert_ptr_nonnull(root);
    part = json_incref(json_object_get(root, list));
    json_decref(root);
    ck_assert(json_array_size(part) > 0);
    return part;
}

static double option(const json_t *options, const char *name, double otherwise)
{
    const json_t *v = json_object_get(options, name);

    return v != NULL ? json_number_value(v) : otherwise;
}

static void replay(const json_t *trace, const char *spec, bool tracker)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_scaler *s   = scaler(spec);
    json_t               *row;
    size_t                i;

    json_array_foreach(json_object_get(trace, "rows"), i, row) {
        double want = json_number_value(json_object_get(row, "scale"));
        float  scale = 0;

        if (want > 0) {
            ck_assert_msg(stance_scaler_scale(s, &scale, &err) == STANCE_OK, "%s", err.text);
        } else {
            /* Where PyTorch hands out a factor of 0 and poisons the weights, the run ends. */
            ck_assert_int_eq(stance_scaler_scale(s, &scale, &err), STANCE_ERR_DIVERGED);
        }
        ck_assert_msg((double)scale == want, "%s, step %zu: %.9g instead of %.9g", spec, i,
                      (double)scale, want);
        tell(s, i, json_integer_value(json_object_get(row, "found")) != 0);
        if (tracker) {
            ck_assert(field(s, "scale") == json_number_value(json_object_get(row, "next_scale")));
            ck_assert(field(s, "growth_tracker")
                      == json_number_value(json_object_get(row, "growth_tracker")));
        }
    }
    ck_assert_uint_ge(i, 60);
    stance_scaler_free(s);
}

START_TEST(replays_grad_scaler)
{
    json_t *list = golden("grad_scaler"), *trace;
    size_t  i;

    json_array_foreach(list, i, trace) {
        const json_t *o = json_object_get(trace, "options");
        char          spec[256];

        snprintf(spec, sizeof spec,
                 "dynamic:min_scale=0,init_scale=%.17g,growth_factor=%.17g,backoff_factor=%.17g,"
                 "growth_interval=%.0f",
                 option(o, "init_scale", 65536), option(o, "growth_factor", 2),
                 option(o, "backoff_factor", 0.5), option(o, "growth_interval", 2000));
        replay(trace, spec, true);
    }
    json_decref(list);
}
END_TEST

START_TEST(replays_mmcv_loss_scaler)
{
    json_t *list = golden("loss_scaler"), *trace;
    size_t  i;

    json_array_foreach(list, i, trace) {
        const json_t *o = json_object_get(trace, "options");
        double        factor = option(o, "scale_factor", 2);
        char          spec[256];

        if (strcmp(json_string_value(json_object_get(o, "mode")), "static") == 0)
            snprintf(spec, sizeof spec, "static:scale=%.17g", option(o, "init_scale", 512));
        else
            snprintf(spec, sizeof spec,
                     "dynamic:min_scale=1,init_scale=%.17g,growth_factor=%.17g,"
                     "backoff_factor=%.17g,growth_interval=%.0f",
                     option(o, "init_scale", 65536), factor, 1 / factor,
                     option(o, "scale_window", 1000));
        replay(trace, spec, false);
    }
    json_decref(list);
}
END_TEST

/* ---- spec/mixed-precision.md 19 ----------------------------------------------------------- */

static const struct {
    const char *spec, *flags;
    double      scale[20];
    int         tracker[20]; /* -1: not given */
} traces[] = {
    { "dynamic:init_scale=4,growth_interval=3", "0010000001", { 4, 4, 2, 2, 2, 4, 4, 4, 8, 4 },
      { 1, 2, 0, 1, 2, 0, 1, 2, 0, 0 } },
    { "dynamic:init_scale=16,growth_interval=4", "0000000010000110",
      { 16, 16, 16, 32, 32, 32, 32, 64, 32, 32, 32, 32, 64, 32, 16, 16 },
      { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 } },
    /* Apex amp: a ceiling of 2^24. */
    { "dynamic:init_scale=16,growth_interval=4,max_scale=16777216", "000000001011000001",
      { 16, 16, 16, 32, 32, 32, 32, 64, 32, 32, 16, 8, 8, 8, 8, 16, 16, 8 },
      { -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1 } },
    /* Megatron. */
    { "hysteresis:init_scale=16,growth_interval=4", "000000001011000001",
      { 16, 16, 16, 32, 32, 32, 32, 64, 64, 64, 32, 16, 16, 16, 16, 32, 32, 32 },
      { 1, 2, 3, 0, 1, 2, 3, 0, 0, 1, 0, 0, 1, 2, 3, 0, 1, 0 } },
    { "hysteresis:init_scale=16,hysteresis=1", "11", { 8, 4 }, { 0, 0 } },
    { "dynamic:init_scale=8,growth_interval=1", "0010", { 16, 32, 16, 32 }, { 0, 0, 0, 0 } },
    { "static", "0110", { 512, 512, 512, 512 }, { -1, -1, -1, -1 } },
    { "static:scale=128", "01", { 128, 128 }, { -1, -1 } },
    { "none", "01", { 1, 1 }, { -1, -1 } },
    { "dynamic:growth_interval=1,init_scale=8.507059173023462e37", "0001", /* 2^126 */
      { 0x1p127, 0x1p127, 0x1p127, 0x1p126 }, { 0, 0, 0, 0 } },
    { "dynamic:init_scale=2", "111", { 1, 1, 1 }, { 0, 0, 0 } },
    { "dynamic:init_scale=0.25", "1", { 1 }, { 0 } }, /* the floor holds from the start */
};

START_TEST(traces_of_the_field)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_scaler *s   = scaler(traces[_i].spec);

    for (size_t k = 0; traces[_i].flags[k] != '\0'; k++) {
        float scale;

        tell(s, k, traces[_i].flags[k] == '1');
        ck_assert_msg(stance_scaler_scale(s, &scale, &err) == STANCE_OK, "%s", err.text);
        ck_assert_msg((double)scale == traces[_i].scale[k], "%s, step %zu: %g", traces[_i].spec, k,
                      (double)scale);
        if (traces[_i].tracker[k] >= 0)
            ck_assert(field(s, "growth_tracker") == traces[_i].tracker[k]);
    }
    stance_scaler_free(s);
}
END_TEST

/* The spare overflows of the Megatron trace, from the same table. */
START_TEST(hysteresis_is_spent_and_refilled)
{
    static const char  flags[] = "000000001011000001";
    static const int   left[]  = { 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 0, -1, -1, -1, -1, 2, 2, 1 };
    struct stance_scaler *s = scaler("hysteresis:init_scale=16,growth_interval=4");

    for (size_t k = 0; flags[k] != '\0'; k++) {
        tell(s, k, flags[k] == '1');
        ck_assert(field(s, "hysteresis_tracker") == left[k]);
    }
    stance_scaler_free(s);
}
END_TEST

/* OpenSeq2Seq's LogMax. The factor is rounded to binary32 here: 2^-24 relative, 6e-8; the table's
 * own nine digits are finer. */
START_TEST(lognormal_follows_the_largest_gradient)
{
    static const double   largest[] = { 0x1p-8, 0x1p-6, 0x1p-10, 0x1p-7 };
    static const double   want[]    = { 16777216, 981735.773, 509782.945, 594210.926 };
    struct stance_scaler *s         = scaler("lognormal");
    struct stance_error   err       = STANCE_ERROR_INIT;
    float                 scale, before;

    ck_assert(stance_scaler_wants(s, STANCE_WANT_MAX_ABS));
    ck_assert_int_eq(stance_scaler_scale(s, &scale, &err), STANCE_OK);
    ck_assert(scale == 1);
    for (int k = 0; k < 4; k++) {
        struct stance_outcome o = { .step = (uint64_t)k, .grad_norm = 1, .max_abs = largest[k] };

        stance_scaler_update(s, &o);
        ck_assert_int_eq(stance_scaler_scale(s, &scale, &err), STANCE_OK);
        ck_assert_msg(fabs((double)scale / want[k] - 1) < 1e-7, "%d: %.9g", k, (double)scale);
    }
    before = scale;
    stance_scaler_update(
        s, &(struct stance_outcome){ .step = 4, .max_abs = 0 }); /* says nothing of the range */
    ck_assert_int_eq(stance_scaler_scale(s, &scale, &err), STANCE_OK);
    ck_assert(scale == before);
    tell(s, 5, true);
    ck_assert_int_eq(stance_scaler_scale(s, &scale, &err), STANCE_OK);
    ck_assert(scale < before);
    stance_scaler_free(s);
}
END_TEST

/* ---- ../shared/cases/loss-scale, do: scale-trace ------------------------------------------ */

static yaml_node_t *child(yaml_document_t *doc, yaml_node_t *map, const char *key)
{
    if (map == NULL || map->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++)
        if (strcmp((char *)yaml_document_get_node(doc, p->key)->data.scalar.value, key) == 0)
            return yaml_document_get_node(doc, p->value);
    return NULL;
}

static double number(yaml_document_t *doc, yaml_node_t *map, const char *key, double otherwise)
{
    yaml_node_t *n = child(doc, map, key);

    return n != NULL ? strtod((char *)n->data.scalar.value, NULL) : otherwise;
}

static int elements(yaml_node_t *list)
{
    return list != NULL ? (int)(list->data.sequence.items.top - list->data.sequence.items.start)
                        : 0;
}

static double element(yaml_document_t *doc, yaml_node_t *list, int i)
{
    return strtod(
        (char *)yaml_document_get_node(doc, list->data.sequence.items.start[i])->data.scalar.value,
        NULL);
}

static void expect(yaml_document_t *doc, yaml_node_t *want, const char *key, int step, double got,
                   const char *name)
{
    yaml_node_t *list = child(doc, want, key);

    if (list != NULL && step < elements(list))
        ck_assert_msg(element(doc, list, step) == got, "%s, step %d: %s is %g", name, step, key,
                      got);
}

/* @return whether the case is a scale-trace. */
static bool run_case(const char *name, yaml_document_t *doc)
{
    yaml_node_t          *root = yaml_document_get_root_node(doc), *in = child(doc, root, "input"),
                *want = child(doc, root, "expect"), *found = child(doc, in, "found_inf"), *words;
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_skips   skips = { 0 };
    struct stance_scaler *s;
    stance_status         status = STANCE_OK;
    char                  spec[512];
    bool                  dynamic;
    int                   applied = 0;

    if (strcmp((char *)child(doc, root, "do")->data.scalar.value, "scale-trace") != 0)
        return false;
    dynamic = strcmp((char *)child(doc, in, "mode")->data.scalar.value, "dynamic") == 0;
    if (dynamic)
        snprintf(spec, sizeof spec,
                 "dynamic:init_scale=%.17g,growth_factor=%.17g,backoff_factor=%.17g,"
                 "growth_interval=%.0f,min_scale=%.17g,max_scale=%.17g",
                 number(doc, in, "init_scale", 65536), number(doc, in, "growth_factor", 2),
                 number(doc, in, "backoff_factor", 0.5), number(doc, in, "growth_interval", 2000),
                 number(doc, in, "min_scale", 1), number(doc, in, "max_scale", 0x1p127));
    else
        snprintf(spec, sizeof spec, "static:scale=%.17g", number(doc, in, "init_scale", 512));
    s = scaler(spec);
    skips.limit = (int64_t)number(doc, in, "max_consecutive_skips",
                                  (double)stance_scaler_skip_limit(s));
    if (child(doc, in, "clean_steps") != NULL) { /* a resumed run */
        char saved[512];

        snprintf(saved, sizeof saved, "dynamic:scale=%.17g,growth_tracker=%.0f,%s",
                 number(doc, in, "init_scale", 0), number(doc, in, "clean_steps", 0),
                 strstr(spec, "growth_factor"));
        ck_assert_msg(stance_scaler_restore(s, saved, &err) == STANCE_OK, "%s", err.text);
    }
    ck_assert_int_gt(elements(found), 0);
    for (int i = 0; i < elements(found) && status == STANCE_OK; i++) {
        bool  overflow = element(doc, found, i) != 0;
        float scale;

        ck_assert_msg(stance_scaler_scale(s, &scale, &err) == STANCE_OK, "%s", err.text);
        expect(doc, want, "scale_used", i, (double)scale, name);
        applied += !overflow;
        tell(s, (uint64_t)i, overflow);
        ck_assert_int_eq(stance_scaler_scale(s, &scale, &err), STANCE_OK);
        expect(doc, want, "scale_after", i, (double)scale, name);
        expect(doc, want, "stepped", i, !overflow, name);
        expect(doc, want, "optimizer_steps", i, applied, name);
        expect(doc, want, "clean_after", i, dynamic ? field(s, "growth_tracker") : 0, name);
        status = stance_skips_count(&skips, overflow, "backbone.conv1.weight", scale, &err);
        if (status != STANCE_OK)
            ck_assert_int_eq(i + 1, elements(child(doc, want, "scale_used")));
    }
    if (strcmp((char *)child(doc, want, "status")->data.scalar.value, "error") == 0)
        ck_assert_int_eq(status, STANCE_ERR_DIVERGED);
    else
        ck_assert_msg(status == STANCE_OK, "%s: %s", name, err.text);
    words = child(doc, want, "message_has");
    for (int i = 0; i < elements(words); i++) {
        const char *word = (char *)yaml_document_get_node(doc, words->data.sequence.items.start[i])
                               ->data.scalar.value;

        ck_assert_msg(strcasestr(err.text, word) != NULL, "'%s' is not in: %s", word, err.text);
    }
    stance_scaler_free(s);
    return true;
}

START_TEST(shared_cases)
{
    const char    *folder = shared_file("cases/loss-scale");
    DIR           *dir;
    struct dirent *d;
    int            ran = 0;

    if (folder == NULL) {
        SKIP("scalers: cases/loss-scale is absent");
        return;
    }
    dir = opendir(folder);
    while ((d = readdir(dir)) != NULL) {
        char            path[4096];
        FILE           *f;
        yaml_parser_t   parser;
        yaml_document_t doc;

        snprintf(path, sizeof path, "%s/%s/case.yaml", folder, d->d_name);
        f = d->d_name[0] != '.' ? fopen(path, "r") : NULL;
        if (f == NULL)
            continue;
        ck_assert(yaml_parser_initialize(&parser));
        yaml_parser_set_input_file(&parser, f);
        ck_assert(yaml_parser_load(&parser, &doc));
        ran += run_case(d->d_name, &doc);
        yaml_document_delete(&doc);
        yaml_parser_delete(&parser);
        fclose(f);
    }
    closedir(dir);
    ck_assert_int_eq(ran, 9);
}
END_TEST

/* ---- saving and taking up ----------------------------------------------------------------- */

static char warned[1024];

static void keep_warning(void *ctx, enum stance_log_level level, const char *module,
                         const char *text)
{
    (void)ctx;
    (void)level;
    (void)module;
    snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

static const struct {
    const char   *text;
    stance_status want;
    const char   *says; /* the error, or the warning; NULL: neither */
} saved[] = {
    { "dynamic:scale=8,growth_tracker=3,growth_factor=2,backoff_factor=0.5,growth_interval=2000,"
      "min_scale=1,max_scale=1.7014118346046923e+38",
      STANCE_OK, NULL },
    { "dynamic:scale=8,growth_tracker=3,growth_factor=2,backoff_factor=0.5,growth_interval=500,min_"
      "scale=1,max_scale=1.7014118346046923e+38",
      STANCE_OK, "goes on with growth_interval 500 of the checkpoint, not with 2000" },
    { "static", STANCE_OK, "state of scaler 'static'; 'dynamic' starts afresh" },
    { "", STANCE_OK, "starts afresh" },
    { "dynamic", STANCE_ERR_FORMAT, "'scale' is missing" },
    { "dynamic:scale=8", STANCE_ERR_FORMAT, "'growth_tracker' is missing" },
    { "dynamic:scale=8,scale=8", STANCE_ERR_FORMAT, "'scale' comes twice" },
    { "dynamic:scale=8,tracker=3", STANCE_ERR_FORMAT, "tracker: unknown key" },
    { "dynamic:scale=.nan", STANCE_ERR_FORMAT, "outside" },
    { "dynamic:scale=.inf", STANCE_ERR_FORMAT, "outside" },
    { "dynamic:scale=-1", STANCE_ERR_FORMAT, "outside" },
    { "dynamic:scale", STANCE_ERR_FORMAT, "key=value" },
    { "dynamic:scale=8,growth_tracker=99999999999999999999", STANCE_ERR_FORMAT, "outside" },
};

START_TEST(takes_up_or_refuses)
{
    struct stance_scaler *s   = scaler("dynamic");
    struct stance_error   err = STANCE_ERROR_INIT;
    char                 *before, *after;

    tell(s, 0, true);
    ck_assert_int_eq(stance_scaler_save(s, &before, &err), STANCE_OK);
    stance_log_set_sink(keep_warning, NULL);
    warned[0] = '\0';
    ck_assert_msg(stance_scaler_restore(s, saved[_i].text, &err) == saved[_i].want, "%s", err.text);
    stance_log_set_sink(NULL, NULL);
    ck_assert_int_eq(stance_scaler_save(s, &after, &err), STANCE_OK);
    if (saved[_i].want != STANCE_OK) {
        ck_assert_msg(strstr(err.text, saved[_i].says) != NULL
                          && strstr(err.text, "saved state of scaler 'dynamic'") == err.text,
                      "%s", err.text);
        ck_assert_str_eq(before, after);
    } else if (saved[_i].says != NULL) {
        ck_assert_msg(strstr(warned, saved[_i].says) != NULL, "%s", warned);
    } else {
        ck_assert_str_eq(warned, "");
        ck_assert_str_eq(after, saved[_i].text);
    }
    if (saved[_i].want == STANCE_OK && strchr(saved[_i].text, '=') != NULL)
        ck_assert(field(s, "scale") == 8 && field(s, "growth_tracker") == 3);
    stance_free(before);
    stance_free(after);
    stance_scaler_free(s);
}
END_TEST

START_TEST(limits_of_skipping)
{
    static const struct { const char *spec; int64_t limit; } limits[] = {
        { "dynamic", 25 },                                /* 16 halvings + 9 */
        { "dynamic:init_scale=4294967296", 41 },          /* 32 + 9 */
        { "dynamic:min_scale=0", 151 },                   /* 16 + 126 + 9 */
        { "dynamic:init_scale=65537,min_scale=0.5", 27 }, /* rounded up */
        { "static", 25 }, { "none", 25 },
    };
    struct stance_skips k   = { .limit = 2 };
    struct stance_error err = STANCE_ERROR_INIT;

    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct stance_scaler *s = scaler(limits[i].spec);

        ck_assert_msg(stance_scaler_skip_limit(s) == limits[i].limit, "%s", limits[i].spec);
        stance_scaler_free(s);
    }
    ck_assert_int_eq(stance_skips_count(&k, true, NULL, 4, &err), STANCE_OK);
    ck_assert_int_eq(stance_skips_count(&k, false, NULL, 4, &err), STANCE_OK);
    ck_assert_int_eq(stance_skips_count(&k, true, NULL, 2, &err), STANCE_OK);
    ck_assert_int_eq(stance_skips_count(&k, true, "head.bias", 1, &err), STANCE_ERR_DIVERGED);
    ck_assert_str_eq(
        err.text, "2 steps in a row had non-finite gradients (loss scale 1; first in head.bias)");
    ck_assert(k.total == 3 && stance_exit_status(err.status) == 4);
    k = (struct stance_skips){ .limit = 0 };
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(stance_skips_count(&k, true, NULL, 1, &err), STANCE_OK);
}
END_TEST

START_TEST(refuses_settings)
{
    static const struct {
        const char *spec, *says;
    } bad[] = {
        { "dynamic:growth_interval=0",
          "scaler 'dynamic': growth_interval: 0 is outside [1, 1000000] steps" },
        { "dynamic:growth_factor=0.5", "growth_factor" },
        { "dynamic:backoff_factor=1", "backoff_factor" },
        { "dynamic:init_scale=0", "init_scale" },
        { "static:scale=0", "scale: 0 is outside" },
        { "static:scale=-3", "outside" },
        { "static:scale=.inf", "outside" },
        { "none:scale=1", "scaler 'none': scale: unknown key" },
        { "dynamc",
          "scaler 'dynamc': not found; known: dynamic, hysteresis, lognormal, none, static" },
    };
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_scaler *s;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(stance_scaler_from(reg, bad[i].spec, &s, &err) != STANCE_OK, "%s",
                      bad[i].spec);
        ck_assert_msg(strstr(err.text, bad[i].says) != NULL, "%s", err.text);
    }
}
END_TEST

START_TEST(memory_runs_out_anywhere)
{
    stance_status status = STANCE_ERR_NOMEM;

    close_registry();
    reg = NULL;
    for (long n = 0; status != STANCE_OK; n++) {
        struct stance_registry *r = NULL;
        struct stance_scaler   *s = NULL;
        struct stance_error     err = STANCE_ERROR_INIT;
        char                   *text = NULL;

        fault_after(n);
        status = stance_registry_new(NULL, &r, &err);
        if (status == STANCE_OK)
            status = stance_scaler_from(r, "dynamic:init_scale=8", &s, &err);
        if (status == STANCE_OK)
            status = stance_scaler_save(s, &text, &err);
        if (status == STANCE_OK)
            status = stance_scaler_restore(s, text, &err);
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "%s", err.text);
        stance_free(text);
        stance_scaler_free(s);
        stance_registry_free(r);
        ck_assert_int_eq(fault_live, 0);
        ck_assert_int_lt(n, 200);
    }
    stance_set_allocator(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scaler");
    TCase *tc    = tcase_create("all");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_checked_fixture(tc, open_registry, close_registry);
    tcase_add_test(tc, replays_grad_scaler);
    tcase_add_test(tc, replays_mmcv_loss_scaler);
    tcase_add_loop_test(tc, traces_of_the_field, 0, sizeof traces / sizeof *traces);
    tcase_add_test(tc, hysteresis_is_spent_and_refilled);
    tcase_add_test(tc, lognormal_follows_the_largest_gradient);
    tcase_add_test(tc, shared_cases);
    tcase_add_loop_test(tc, takes_up_or_refuses, 0, sizeof saved / sizeof *saved);
    tcase_add_test(tc, limits_of_skipping);
    tcase_add_test(tc, refuses_settings);
    tcase_add_test(tc, memory_runs_out_anywhere);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
