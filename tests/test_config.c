/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "case_schema.h"
#include "fault.h"
#include "runner.h"

#include <dirent.h>
#include <sys/stat.h>
#include <time.h>

static char folder[64];

static void make_folder(void)
{
    strcpy(folder, "/tmp/stance-config-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char path[400];

        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    closedir(d);
    rmdir(folder);
}

/* Writes a file into the folder of the test and gives its path (static, four at a time). */
static const char *file(const char *name, const char *text)
{
    static char paths[4][200];
    static int  next;
    char       *path = paths[next = (next + 1) % 4];
    FILE       *f;

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static struct stance_config *load(const char *path)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_config *c   = NULL;

    ck_assert_msg(stance_config_load(path, NULL, &c, &err) == STANCE_OK, "%s", err.text);
    return c;
}

static const char *value(const struct stance_config *c, const char *dotted)
{
    const struct stance_config_node *n = stance_config_get(c->root, dotted);

    return n == NULL                       ? "(absent)"
           : n->kind == STANCE_CONFIG_MAP  ? "(map)"
           : n->kind == STANCE_CONFIG_LIST ? "(list)"
                                           : n->text;
}

START_TEST(shared_cases)
{
    static const char *const areas[] = { "cases/config", "cases/loss-scale" };
    int                      ran     = 0;

    for (int a = 0; a < 2; a++) {
        const char    *root = shared_file(areas[a]);
        DIR           *d    = root != NULL ? opendir(root) : NULL;
        struct dirent *e;

        if (d == NULL) {
            SKIP("the shared cases are not here");
            return;
        }
        while ((e = readdir(d)) != NULL) {
            char            path[4200], why[1200] = "";
            struct timespec from, to;

            if (e->d_name[0] == '.' || (a == 1 && strcmp(e->d_name, "defaults") != 0))
                continue;
            snprintf(path, sizeof path, "%s/%s", root, e->d_name);
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
            ck_assert_msg(case_load_config(path, why, sizeof why), "%s: %s", e->d_name, why);
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
            ck_assert_msg(to.tv_sec - from.tv_sec < 2, "%s takes too long", e->d_name);
            ran++;
        }
        closedir(d);
    }
    ck_assert_int_ge(ran, 16);
}
END_TEST

/* The judge itself must be able to say no. */
START_TEST(case_judge_refuses)
{
    static const char *const expects[] = {
        "status: error",
        "status: ok\n  values: {train.lr: 0.02}",
        "status: ok\n  values: {train.lr: '0.010'}",
        "status: ok\n  values: {train.lr_steps: [5, 6]}",
        "status: ok\n  values: {train.lr_steps: [5]}",
        "status: ok\n  absent: [train.lr]",
        "status: ok\n  values: {train.what: 1}",
    };
    char why[1200];

    file("c.yaml", "train: {lr: 0.01, lr_steps: [5, 6, 7]}\n");
    for (size_t i = 0; i < sizeof expects / sizeof *expects; i++) {
        char text[400];

        snprintf(text, sizeof text, "do: load-config\ninput:\n  config: c.yaml\nexpect:\n  %s\n",
                 expects[i]);
        file("case.yaml", text);
        ck_assert_msg(!case_load_config(folder, why, sizeof why), "expect %s passes", expects[i]);
    }
    file("case.yaml", "input: {config: c.yaml}\nexpect: {status: ok, values: {train.lr: 1e-2, "
                      "train.lr_steps: [5, 6, 7]}}\n");
    ck_assert_msg(case_load_config(folder, why, sizeof why), "%s", why);
}
END_TEST

START_TEST(bases_merge_in_order)
{
    struct stance_config            *c;
    const struct stance_config_node *n;
    char                             place[STANCE_CONFIG_PLACE_MAX];

    file("one.yaml", "a: {x: 1, y: 2, list: [1, 2], gone: {z: 1}, none: 5}\nonly: one\n");
    file("two.yaml", "_base_: one.yaml\na: {y: 3}\nb: {_delete_: false, q: 1}\n");
    file("three.yaml", "c: 7\na: {w: 4}\n");
    c = load(file("top.yaml", "_base_:\n- two.yaml\n- three.yaml\na:\n  list: [9]\n  gone: ~\n  "
                              "none: ~\nb:\n  _delete_: true\n  r: 2\n"));
    ck_assert_str_eq(value(c, "a.x"), "1");
    ck_assert_str_eq(value(c, "a.y"), "3");
    ck_assert_str_eq(value(c, "a.w"), "4");
    ck_assert_str_eq(value(c, "a.list.0"), "9");
    ck_assert_str_eq(value(c, "a.list.1"), "(absent)");
    ck_assert_str_eq(value(c, "a.gone"), "(absent)");
    ck_assert_str_eq(value(c, "b.q"), "(absent)");
    ck_assert_str_eq(value(c, "b.r"), "2");
    ck_assert_str_eq(value(c, "b._delete_"), "(absent)");
    ck_assert_str_eq(value(c, "_base_"), "(absent)");
    ck_assert_str_eq(value(c, "only"), "one");
    n = stance_config_get(c->root, "a.none");
    ck_assert(n != NULL && stance_config_is_null(n) && n->removed);
    stance_config_place(stance_config_get(c->root, "a.y"), place);
    ck_assert_msg(strstr(place, "two.yaml:2:8") != NULL, "%s", place);
    stance_config_free(c);
}
END_TEST

START_TEST(one_base_by_two_ways_is_no_conflict)
{
    struct stance_config *c;

    file("root.yaml", "a: {x: 1}\n");
    file("l.yaml", "_base_: root.yaml\nl: 1\n");
    file("r.yaml", "_base_: ./root.yaml\nr: 1\n");
    c = load(file("top.yaml", "_base_: [l.yaml, r.yaml]\n"));
    ck_assert_str_eq(value(c, "a.x"), "1");
    ck_assert_str_eq(value(c, "r"), "1");
    stance_config_free(c);
}
END_TEST

START_TEST(child_settles_a_conflict_of_bases)
{
    struct stance_config *c;

    file("l.yaml", "a: {x: 1}\nm: {k: 1}\n");
    file("r.yaml", "a: {x: 2}\nm: 3\n");
    c = load(file("top.yaml", "_base_: [l.yaml, r.yaml]\na: {x: 5}\nm: 8\n"));
    ck_assert_str_eq(value(c, "a.x"), "5");
    ck_assert_str_eq(value(c, "m"), "8");
    stance_config_free(c);
}
END_TEST

static const struct {
    const char *text, *says, *more;
} bad_files[] = {
    { "_base_: top.yaml\n", "top.yaml: the file is its own base", NULL },
    { "_base_: absent.yaml\n", "top.yaml:1:9: _base_: ", "absent.yaml: cannot be opened" },
    { "_base_: {a: 1}\n", "top.yaml:1:9: _base_: a mapping", NULL },
    { "- 1\n", "top.yaml:1:1: a list where a mapping is expected", NULL },
    { "# nothing\n", "empty", NULL },
    { "~\n", "empty", NULL },
    { "a: 1\n---\nb: 1\n", "top.yaml:2:1: a second document", NULL },
    { "a: *b\n", "top.yaml:1:4: an alias without an anchor", NULL },
    { "a: &a [1, *a]\n", "top.yaml:1:11: an alias inside its own anchor", NULL },
    { "[1]: 2\n", "a key must be a word", NULL },
    { "a: \"x\\0y\"\n", "zero byte", NULL },
    { "a: [1, 2\n", "top.yaml:2:1: ", NULL },
    { "a: \xff\n", "not UTF-8", NULL },
    { "a: {b: 1, c: {b: 2, b: 3}}\n", "key 'b' stands twice", "line 1" },
    { "a: 1\na.b: 2\na: 3\n", "top.yaml:3:1: key 'a' stands twice: in line 1 and in line 3", NULL },
};

START_TEST(bad_files_are_told)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_config *c   = NULL;
    stance_status status = stance_config_load(file("top.yaml", bad_files[_i].text), NULL, &c, &err);

    ck_assert_ptr_null(c);
    ck_assert_int_eq(stance_exit_status(status), 2);
    ck_assert_msg(strstr(err.text, bad_files[_i].says) != NULL, "says: %s", err.text);
    ck_assert_msg(bad_files[_i].more == NULL || strstr(err.text, bad_files[_i].more) != NULL,
                  "says: %s", err.text);
}
END_TEST

START_TEST(base_cycles_name_both_files)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_config *c;

    file("l.yaml", "_base_: r.yaml\n");
    ck_assert_int_ne(stance_config_load(file("r.yaml", "_base_: l.yaml\n"), NULL, &c, &err),
                     STANCE_OK);
    ck_assert_msg(strstr(err.text, "l.yaml") != NULL && strstr(err.text, "r.yaml") != NULL, "%s",
                  err.text);
}
END_TEST

START_TEST(files_have_a_limit)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_config *c;
    const char           *path = file("top.yaml", "a: 1\n");

    ck_assert_int_eq(truncate(path, STANCE_CONFIG_FILE_MAX + 1), 0);
    ck_assert_int_eq(stance_config_load(path, NULL, &c, &err), STANCE_ERR_RANGE);
    ck_assert_msg(strstr(err.text, "larger than 16 MiB") != NULL, "%s", err.text);
}
END_TEST

static const struct {
    const char *set, *name, *want;
} sets[] = {
    { "a.x=5", "a.x", "5" },
    { "new.b.c=q", "new.b.c", "q" },
    { "a.list.1=7", "a.list.1", "7" },
    { "a.list=[4, 5, 6]", "a.list.2", "6" },
    { "a.maps.0.k=9", "a.maps.0.k", "9" },
    { "a={y: 2}", "a.x", "1" },
    { "a={_delete_: true, y: 2}", "a.x", "(absent)" },
    { "a=3", "a", "3" },
    { "s={k: 1}", "s.k", "1" },
    { "a=~", "a", "(absent)" },
    { "s=", "s", "null" },
    { "s=1,2", "s", "1,2" },
    { "s=a=b", "s", "a=b" },
    { "none.k=1", "none.k", "1" },
};

static const char set_base[] = "a: {x: 1, list: [1, 2], maps: [{k: 1}]}\ns: text\nnone: ~\n";

START_TEST(settings_apply)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_config *c   = load(file("top.yaml", set_base));
    char                  place[STANCE_CONFIG_PLACE_MAX];

    ck_assert_msg(stance_config_set(c, sets[_i].set, "--set", &err) == STANCE_OK, "%s", err.text);
    ck_assert_str_eq(value(c, sets[_i].name), sets[_i].want);
    if (_i < 5)
        ck_assert_str_eq(stance_config_place(stance_config_get(c->root, sets[_i].name), place),
                         "--set");
    stance_config_free(c);
}
END_TEST

static const struct {
    const char *set, *says;
} bad_sets[] = {
    { "a.x.y=1", "'x' is a value and has no keys" },
    { "a.list.2=1", "'2' is no item of a list of 2" },
    { "a.list.-1=1", "'-1' is no item" },
    { "a.list.x.k=1", "'x' is no item" },
    { "a.x", "'name=value' is expected" },
    { "=1", "a name like a.b.c" },
    { "a..x=1", "a name like a.b.c" },
    { "a.=1", "a name like a.b.c" },
    { "a.x=[1", "'a.x=[1'" },
    { "a.x=*q", "alias" },
    { "a.\xa3=1", "not UTF-8" },
    { "a.x=\xed\xa0\x80", "not UTF-8" },
    { "a.x=\xc0\x80", "not UTF-8" },
};

START_TEST(bad_settings_are_told)
{
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_config *c   = load(file("top.yaml", set_base));

    ck_assert_int_eq(stance_exit_status(stance_config_set(c, bad_sets[_i].set, "--set", &err)), 2);
    ck_assert_msg(strstr(err.text, bad_sets[_i].says) != NULL && strstr(err.text, "--set") != NULL,
                  "says: %s", err.text);
    stance_config_free(c);
}
END_TEST

static const struct {
    const char *spec, *name, *want;
} specs[] = {
    { "cpu", "name", "cpu" },
    { "cpu:winograd=off", "winograd", "off" },
    { "cuda:1", "index", "1" },
    { "cuda:1,graphs=off", "graphs", "off" },
    { "cuda:1:graphs=off", "graphs", "off" },
    { "adam:betas=[0.9,0.99],lr=1e-3", "betas", "[0.9,0.99]" },
    { "adam:betas=[0.9,0.99],lr=1e-3", "lr", "1e-3" },
};

START_TEST(plugin_specs)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_config      *c   = stance_config_new();
    struct stance_config_node *map = NULL, *n;

    ck_assert_msg(stance_config_spec(c, specs[_i].spec, c->root, &map, &err) == STANCE_OK, "%s",
                  err.text);
    n = stance_config_find(map, specs[_i].name);
    ck_assert(n != NULL);
    ck_assert_str_eq(n->text, specs[_i].want);
    stance_config_free(c);
}
END_TEST

START_TEST(bad_plugin_specs)
{
    static const char *const   bad[] = { "",       ":a=1",        "cpu:",         "cpu:x",
                                         "cpu:=1", "cpu:a=1,a=2", "cpu:a=1,,b=2", "cuda:1,2" };
    struct stance_error        err   = STANCE_ERROR_INIT;
    struct stance_config      *c     = stance_config_new();
    struct stance_config_node *map;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(stance_config_spec(c, bad[i], c->root, &map, &err) == STANCE_ERR_INVAL,
                      "%s passes", bad[i]);
    stance_config_free(c);
}
END_TEST

static const char odd[] =
    "plain: word\nquoted: 'null'\n\"odd key: #\": \"tab\\tquote\\\" \\x85\\u2028\\ufeff\\x7f "
    "\\U0001F600\"\n"
    "empty: ''\nnothing:\nlist: [no, ~, null, '~', 1.0, -1, .5, a b, 'x,y', [], {}, {k: [1]}]\n"
    "deep: {a: {b: {c: 1}}, none: {}}\n\"null\": 1\n\"1\": two\npath: ../x/y.z\nlong: |\n  two\n  "
    "lines\n";

START_TEST(dump_reads_back)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_config      *c   = stance_config_new();
    struct stance_config_node *one = NULL, *two = NULL;

    for (int origins = 0; origins < 2; origins++) {
        struct stance_string text = { 0 };

        ck_assert_msg(stance_config_parse(c, odd, strlen(odd), "odd.yaml", &one, &err) == STANCE_OK,
                      "%s", err.text);
        stance_config_dump(one, origins, &text);
        ck_assert(!text.failed);
        ck_assert_msg(stance_config_parse(c, text.s, text.len, "dump", &two, &err) == STANCE_OK,
                      "%s\n%s", err.text, text.s);
        if (!origins) /* "nothing:" reads back as null: the one word that changes */
            one->child[4]->text = "null";
        else
            ck_assert_ptr_nonnull(strstr(text.s, "plain: word  # odd.yaml:1:8"));
        one->child[4]->text = "null";
        ck_assert_msg(stance_config_equal(one, two), "%s", text.s);
        stance_string_free(&text);
    }
    stance_config_free(c);
}
END_TEST

/* ---- tables ---- */

static const char *const warmups[] = { "null", "linear", NULL };

struct table {
    double                 lr, clip;
    int64_t                steps, limit;
    bool                   on;
    int                    warmup;
    struct stance_text     path;
    struct stance_list_f64 list;
};

static const struct stance_param table[] = {
    STANCE_PARAM_F64(struct table, lr, "0.5", 0, 1, "1", "rate"),
    STANCE_PARAM_F64_OR_NULL(struct table, clip, "35", 0, 100, "1", "norm"),
    STANCE_PARAM_I64(struct table, steps, "10", 1, 100, "steps", "steps"),
    STANCE_PARAM_I64_OR_NULL(struct table, limit, "3", 1, 100, "steps", "limit"),
    STANCE_PARAM_BOOL(struct table, on, "true", "switch"),
    STANCE_PARAM_ENUM(struct table, warmup, "linear", warmups, "warm-up"),
    STANCE_PARAM_TEXT(struct table, path, "", "path"),
    STANCE_PARAM_LIST_F64(struct table, list, "[1]", 0, 10, "1", "list"),
    STANCE_PARAM_END,
};

static stance_status fill(const char *text, const struct stance_config_section *schema,
                          struct table *t, struct stance_error *err)
{
    struct stance_config *c      = load(file("recipe.yaml", text));
    stance_status         status = stance_param_defaults(table, t, err);

    ck_assert_int_eq(status, STANCE_OK);
    if (schema != NULL)
        status = stance_config_fill_section(stance_config_find(c->root, "train"), &schema[1],
                                            schema, t, err);
    else
        status = stance_config_fill(stance_config_find(c->root, "train"), table, t, "train", err);
    stance_config_free(c);
    return status;
}

START_TEST(tables_are_filled)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct table        t;

    ck_assert_msg(fill("train: {lr: 1e-3, clip: null, limit: ~, steps: ~, on: false, warmup: ~, "
                       "path: 'a, b', list: [.5, 2]}",
                       NULL, &t, &err)
                      == STANCE_OK,
                  "%s", err.text);
    ck_assert(t.lr == 1e-3 && t.clip != t.clip && t.limit == INT64_MIN && t.steps == 10 && !t.on
              && t.warmup == 0);
    ck_assert(t.list.n == 2 && t.list.v[0] == 0.5 && strcmp(t.path.s, "a, b") == 0);
    ck_assert_int_eq(fill("train:\n", NULL, &t, &err), STANCE_OK);
    ck_assert_int_eq(fill("other: 1\n", NULL, &t, &err), STANCE_OK);
    ck_assert_int_eq(fill("train: {list: []}\n", NULL, &t, &err), STANCE_OK);
    ck_assert_int_eq(t.list.n, 0);
    ck_assert_int_eq(fill("train: {list: '3,4'}\n", NULL, &t, &err), STANCE_OK);
    ck_assert(t.list.n == 2 && t.list.v[1] == 4);
}
END_TEST

static const struct {
    const char *text, *says;
} bad_fills[] = {
    { "train:\n  lr: fast\n", "recipe.yaml:2:7: train.lr: 'fast' is not a number (line 2)" },
    { "train:\n  lr: 2\n", "recipe.yaml:2:7: train.lr: 2 is outside [0, 1] (line 2)" },
    { "train:\n  lr: [1]\n", "recipe.yaml:2:7: train.lr: a list where a value is expected" },
    { "train:\n  lr: {a: 1}\n", "recipe.yaml:2:7: train.lr: a mapping where a value is expected" },
    { "train:\n  list: {a: 1}\n",
      "recipe.yaml:2:9: train.list: a mapping where a list is expected" },
    { "train:\n  list: [1,\n    x]\n",
      "recipe.yaml:3:5: train.list: 'x' is not a number (line 3)" },
    { "train:\n  list: [1, '2,3']\n", "train.list: '2,3' is not a number" },
    { "train:\n  list: [1, 11]\n", "train.list: 11 is outside [0, 10]" },
    { "train:\n  stepps: 1\n",
      "recipe.yaml:2:3: train.stepps: unknown key; did you mean 'steps'? (line 2)" },
    { "train:\n  zzzzzz: 1\n", "recipe.yaml:2:3: train.zzzzzz: unknown key (line 2)" },
    { "train: 5\n", "recipe.yaml:1:8: train: a value where a mapping is expected (line 1)" },
};

START_TEST(bad_values_are_placed)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct table        t;

    ck_assert_int_eq(stance_exit_status(fill(bad_fills[_i].text, NULL, &t, &err)), 2);
    ck_assert_msg(strstr(err.text, bad_fills[_i].says) != NULL, "says: %s", err.text);
}
END_TEST

START_TEST(keys_are_offered_where_they_belong)
{
    static const char *const extra[] = { "nested", NULL }, *const top[] = { "train", "device",
                                                                            NULL };
    const struct stance_config_section schema[] = { { "", NULL, top },
                                                    { "train", table, extra },
                                                    { "test", NULL, extra },
                                                    { "data.augment", table, NULL },
                                                    { NULL, NULL, NULL } };
    struct stance_error                err      = STANCE_ERROR_INIT;
    struct table                       t;

    ck_assert_int_eq(fill("train: {nested: {x: 1}}\n", schema, &t, &err), STANCE_OK);
    ck_assert_int_eq(fill("train: {nestet: {x: 1}}\n", schema, &t, &err), STANCE_ERR_INVAL);
    ck_assert_msg(strstr(err.text, "did you mean 'nested'") != NULL, "%s", err.text);
    ck_assert_int_eq(fill("train: {device: cpu}\n", schema, &t, &err), STANCE_ERR_INVAL);
    ck_assert_msg(strstr(err.text, "'device' belongs to the top level") != NULL, "%s", err.text);
}
END_TEST

START_TEST(long_messages_keep_their_place)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct table        t;
    char                text[3000] = "train: {lr: ";

    memset(text + 12, 'x', 2500);
    strcpy(text + 2512, "}\n");
    ck_assert_int_eq(fill(text, NULL, &t, &err), STANCE_ERR_INVAL);
    ck_assert(strstr(err.text, "recipe.yaml:1:13: train.lr: 'xxx") != NULL
              && strlen(err.text) < sizeof err.text);
}
END_TEST

/* ---- shortage of memory ---- */

static stance_status everything(const char *path)
{
    struct stance_config      *c = NULL;
    struct stance_string       s = { 0 };
    struct table               t;
    struct stance_error        err    = STANCE_ERROR_INIT;
    stance_status              status = stance_config_load(path, NULL, &c, &err);
    struct stance_config_node *map;

    if (status == STANCE_OK)
        status = stance_config_set(c, "train.list=[1, 2]", "--set", &err);
    if (status == STANCE_OK)
        status = stance_config_set(c, "new.b.c=1", "--set", &err);
    if (status == STANCE_OK)
        status = stance_config_spec(c, "cpu:a=1,b=2", c->root, &map, &err);
    if (status == STANCE_OK)
        status = stance_param_defaults(table, &t, &err);
    if (status == STANCE_OK)
        status = stance_config_fill(stance_config_find(c->root, "train"), table, &t, "train", &err);
    if (status == STANCE_OK) {
        stance_config_dump(c->root, true, &s);
        if (s.failed)
            status = STANCE_ERR_NOMEM;
    }
    stance_string_free(&s);
    stance_config_free(c);
    return status;
}

START_TEST(shortage_of_memory)
{
    const char   *path;
    stance_status status = STANCE_ERR_NOMEM;
    long          n;

    file("l.yaml", "train: &t {lr: 0.1, steps: 3}\nl: [1, 2, 3, 4, 5, 6, 7, 8, 9]\nq: *t\n");
    file("r.yaml", "train: {on: true}\nr: {a: 1, b: {c: 2}}\n");
    path = file(
        "top.yaml",
        "_base_: [l.yaml, r.yaml]\ntrain: {clip: 5}\nl: ~\nr: {b: {_delete_: true, d: 1}}\n");
    for (n = 0; status != STANCE_OK; n++) {
        fault_after(n);
        status = everything(path);
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "request %ld: status %d",
                      n, (int)status);
        ck_assert_int_eq(fault_live, 0);
    }
    stance_set_allocator(NULL);
    ck_assert_int_gt(n, 10);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("config");
    TCase *tc    = tcase_create("tree");

    tcase_add_checked_fixture(tc, make_folder, remove_folder);
    tcase_add_test(tc, shared_cases);
    tcase_add_test(tc, case_judge_refuses);
    tcase_add_test(tc, bases_merge_in_order);
    tcase_add_test(tc, one_base_by_two_ways_is_no_conflict);
    tcase_add_test(tc, child_settles_a_conflict_of_bases);
    tcase_add_loop_test(tc, bad_files_are_told, 0, sizeof bad_files / sizeof *bad_files);
    tcase_add_test(tc, base_cycles_name_both_files);
    tcase_add_test(tc, files_have_a_limit);
    tcase_add_loop_test(tc, settings_apply, 0, sizeof sets / sizeof *sets);
    tcase_add_loop_test(tc, bad_settings_are_told, 0, sizeof bad_sets / sizeof *bad_sets);
    tcase_add_loop_test(tc, plugin_specs, 0, sizeof specs / sizeof *specs);
    tcase_add_test(tc, bad_plugin_specs);
    tcase_add_test(tc, dump_reads_back);
    tcase_add_test(tc, tables_are_filled);
    tcase_add_loop_test(tc, bad_values_are_placed, 0, sizeof bad_fills / sizeof *bad_fills);
    tcase_add_test(tc, keys_are_offered_where_they_belong);
    tcase_add_test(tc, long_messages_keep_their_place);
    tcase_add_test(tc, shortage_of_memory);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
