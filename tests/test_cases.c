/* SPDX-License-Identifier: Apache-2.0
 *
 * The walker of cases itself: what passes, what fails, and how that is told. */
#define _GNU_SOURCE
#include "config.h"

#include "runner.h"

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PLUGIN(body)                                                                               \
    "#include \"../case_plugin.h\"\n#include <stdlib.h>\n#include <string.h>\n#include "           \
    "<unistd.h>\n"                                                                                 \
    "static int start(void) { " body " }\nCASE_PLUGIN(CASE_ABI, \"made\", start);\n"
#define LOAD "do: load-plugin\ninput: {sources: [p.c], module: p.so}\n"

static const struct {
    const char *yaml, *file, *text; /* case.yaml, and one more file */
    const char *line;               /* begins so, with "area/case" */
    const char *has;                /* in the rest of it, or NULL */
} cases[] = {
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: ok, values: {train.lr: 0.5}}\n",
      "c.yaml", "train: {lr: 0.5}\n", "pass area/case", NULL },
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: ok, values: {train.lr: 0.25}}\n",
      "c.yaml", "train: {lr: 0.5}\n", "fail area/case: ", "train.lr is 0.5" },
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: error}\n", "c.yaml",
      "train: {lr: 0.5}\n", "fail area/case: ", "status is ok, not error" },
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: error, message_has: [LR, "
      "train]}\n",
      "c.yaml", "train: {lr: fast}\n", "pass area/case", NULL },
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: error, message_has: [lr, "
      "elephant]}\n",
      "c.yaml", "train: {lr: fast}\n", "fail area/case: ", "'elephant' is not in the message" },
    { "do: load-config\ninput: {config: c.yaml, colour: red}\nexpect: {status: ok}\n", "c.yaml",
      "train: {lr: 0.5}\n", "fail area/case: ", "does not know key colour in input" },
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: ok, colour: red}\n", "c.yaml",
      "train: {lr: 0.5}\n", "fail area/case: ", "does not know key colour in expect" },
    { "do: load-config\ninput: {config: c.yaml}\nexpect: {status: error, values: {train.lr: 1}}\n",
      "c.yaml", "train: {lr: fast}\n",
      "fail area/case: ", "nothing to compare with expect.values" },
    { "do: juggle\ninput: {}\nexpect: {status: ok}\n", NULL, NULL, "unknown area/case: do 'juggle'",
      NULL },
    { "do: [\n", NULL, NULL, "fail area/case: ", "case.yaml" },
    { "title: nothing to do\n", NULL, NULL, "fail area/case: ", "no `do`" },
    { "do: scale-trace\ninput: {mode: static, init_scale: 8, found_inf: [0, 1]}\n"
      "expect: {status: ok, scale_after: [8, 8], stepped: [1, 0]}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: scale-trace\ninput: {mode: static, init_scale: 8, found_inf: [0, 1]}\n"
      "expect: {status: ok, scale_after: [8, 8.0000001]}\n",
      NULL, NULL, "fail area/case: ", "scale_after[1]" },
    { "do: scale-trace\ninput: {mode: static, init_scale: 8, found_inf: [0, 1]}\n"
      "expect: {status: ok, scale_after: [8, 8.1], tolerance: 0.2}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: scale-trace\ninput: {mode: static, init_scale: 8, found_inf: [0, 1]}\nexpect: {status: "
      "ok, scale_after: [8]}\n",
      NULL, NULL, "fail area/case: ", "2 numbers, not 1" },
    /* More maps than a block of channels has. */
    { "do: heatmap-loss\ninput: {joints: 19, height: 3, width: 5, pred_fill: 2.0, target_fill: "
      "0.5}\n"
      "expect: {status: ok, mean_squared_error: 2.25, tolerance: 1e-6}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: clip-step\ninput: {scaled_grad: [6.0, 8.0], grad_dtype: bf16, scale: 2.0, max_norm: "
      "1.0}\n"
      "expect: {status: ok, norm: 5.0, clipped_grad: [0.6, 0.8], tolerance: 1e-6}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: optim-step\ninput: {optimizer: {type: adam, lr: 0.1, betas: [0.5, 0.5]}, weight: [1.0], "
      "scaled_grad: [4.0], scale: 2.0,"
      " repeat: 2}\nexpect: {status: ok, stepped: 2, weight: [0.8], exp_avg: [1.5], exp_avg_sq: "
      "[3.0], tolerance: 1e-6}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: accumulate\ninput: {micro_grad: [[1.0, 0.0], [5.0, 8.0]], micro_samples: [3, 1], "
      "window: 2}\n"
      "expect: {status: ok, step_grad: [[2.0, 2.0]], tolerance: 1e-6}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: bn-update\ninput: {x: [[1.0, 3.0], [0.0, 4.0]], momentum: 0.5, running_mean: [0, 0], "
      "running_var: [1, 1]}\n"
      "expect: {status: ok, running_mean: [1.0, 1.0], running_var: [1.5, 4.5], running_var_finite: "
      "true, tolerance: 1e-6}\n",
      NULL, NULL, "pass area/case", NULL },
    { "do: conv-forward\ninput: {x: a.json, x_shape: [1, 1, 2, 2], x_strides: [0, 0, 1, 2], w: "
      "a.json, w_layout: oihw}\n"
      "expect: {status: error}\n",
      "a.json", "{\"shape\": [1, 1, 2, 2], \"data\": [1, 2, 3, 4.5]}",
      "fail area/case: ", "status is ok" },
    { LOAD "expect: {status: ok, loaded: [made], exit_code: 0}\n", "p.c", PLUGIN("return 0;"),
      "pass area/case", NULL },
    { LOAD "expect: {status: error, message_has: [made, '3']}\n", "p.c", PLUGIN("return 3;"),
      "pass area/case", NULL },
    { LOAD "expect: {status: ok}\n", "p.c", PLUGIN("abort();"),
      "fail area/case: ", "ended by signal 6" },
    { LOAD "expect: {status: ok}\n", "p.c", PLUGIN("return atexit(abort);"),
      "fail area/case: ", "ended by signal 6" },
    { LOAD "expect: {status: ok}\n", "p.c", PLUGIN("_exit(3);"), "fail area/case: ", "status 3" },
    { LOAD "expect: {status: ok, plugin_code_ran: false}\n", "p.c", PLUGIN("return 0;"),
      "fail area/case: ", "plugin_code_ran is true" },
    { LOAD "expect: {status: ok, max_seconds: 1}\n", "p.c", PLUGIN("return sleep(2) != 0;"),
      "fail area/case: ", "took" },
    { LOAD "expect: {status: ok, max_seconds: 0.5}\n", "p.c", PLUGIN("for (;;) pause();"),
      "fail area/case: ", "did not end" },
    { LOAD "expect: {status: ok, max_memory_mb: 64}\n", "p.c",
      PLUGIN(
          "char *p = malloc(99 << 20); if (!p) return 5; memset(p, 1, 99 << 20); return p[5] - 1;"),
      "fail area/case: ", "" },
    { LOAD "expect: {status: ok, loaded: [other]}\n", "p.c", PLUGIN("return 0;"),
      "fail area/case: ", "loaded has made" },
};

static void put_file(const char *folder, const char *name, const char *text)
{
    char  path[300];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    ck_assert(f != NULL && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Runs the walker on a folder. @return its exit status */
static int walk(const char *folder, char *out, size_t size)
{
    const char *program = getenv("STANCE_PROGRAM");
    char        command[5000];
    FILE       *p;
    size_t      n;

    ck_assert_ptr_nonnull(program);
    snprintf(command, sizeof command, "'%.*s/tests/walk_cases' '%s'",
             (int)(strrchr(program, '/') - program), program, folder);
    p = popen(command, "r");
    ck_assert_ptr_nonnull(p);
    n      = fread(out, 1, size - 1, p);
    out[n] = '\0';
    return WEXITSTATUS(pclose(p));
}

static void remove_tree(const char *root)
{
    char command[100];

    snprintf(command, sizeof command, "rm -r '%s'", root);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(cases_are_judged)
{
    char        root[] = "/tmp/stance-test-XXXXXX", folder[100], out[8000], *line = out;
    const char *last;
    int         status;
    bool        failed = cases[_i].line[0] == 'f', unknown = cases[_i].line[0] == 'u';

    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(folder, sizeof folder, "%s/area", root);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    put_file(folder, "case_plugin.h", "");
    snprintf(folder, sizeof folder, "%s/area/case", root);
    ck_assert_int_eq(mkdir(folder, 0755), 0);
    put_file(folder, "case.yaml", cases[_i].yaml);
    if (cases[_i].file != NULL)
        put_file(folder, cases[_i].file, cases[_i].text);
    /* From the root, and from the case itself. */
    status = walk(_i % 3 == 0 ? root : folder, out, sizeof out);
    remove_tree(root);
    ck_assert_msg(strncmp(line, cases[_i].line, strlen(cases[_i].line)) == 0, "%s", out);
    ck_assert_msg(cases[_i].has == NULL || strcasestr(line, cases[_i].has) != NULL, "%s", out);
    last = failed    ? "0 passed, 1 failed, 0 unknown\n"
           : unknown ? "0 passed, 0 failed, 1 unknown\n"
                     : "1 passed, 0 failed, 0 unknown\n";
    ck_assert_msg(strlen(out) > strlen(last) && strcmp(out + strlen(out) - strlen(last), last) == 0,
                  "%s", out);
    ck_assert_int_eq(status, failed);
}
END_TEST

START_TEST(nothing_to_walk_is_a_failure)
{
    char root[] = "/tmp/stance-test-XXXXXX", out[1000];

    ck_assert_ptr_nonnull(mkdtemp(root));
    ck_assert_int_eq(walk(root, out, sizeof out), 1);
    ck_assert_ptr_nonnull(strstr(out, "no case.yaml"));
    remove_tree(root);
    ck_assert_int_eq(walk("/nowhere/at/all", out, sizeof out), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cases");
    TCase *tc    = tcase_create("all");

    tcase_add_loop_test(tc, cases_are_judged, 0, sizeof cases / sizeof *cases);
    tcase_add_test(tc, nothing_to_walk_is_a_failure);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
