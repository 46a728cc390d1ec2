/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the program as a user does. */
#include "config.h"

#include "runner.h"

#include <stance/plugin.h>

#include <jansson.h>
#include <sys/wait.h>

static char folder[64];
static char out[65536], errors[65536];

static void start(void)
{
    strcpy(folder, "/tmp/stance-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void stop(void)
{
    char command[128];

    snprintf(command, sizeof command, "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void slurp(const char *name, char *text, size_t size)
{
    char   path[128];
    FILE  *f;
    size_t got;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    got       = fread(text, 1, size - 1, f);
    text[got] = '\0';
    fclose(f);
}

/* Runs `stance ARGUMENTS` with ENVIRONMENT in front; fills out and errors.
 * @return the exit status */
static int stance_in(const char *environment, const char *arguments)
{
    const char *program = getenv("STANCE_PROGRAM");
    char        command[8192];
    int         status;

    ck_assert_msg(program != NULL, "STANCE_PROGRAM is not set: run by make check");
    snprintf(command, sizeof command, "%s '%s' %s > %s/out 2> %s/err", environment, program,
             arguments, folder, folder);
    status = system(command);
    ck_assert_msg(WIFEXITED(status), "%s", command);
    slurp("out", out, sizeof out);
    slurp("err", errors, sizeof errors);
    return WEXITSTATUS(status);
}

static int run(const char *arguments)
{
    return stance_in("", arguments);
}

static int lines(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

START_TEST(help_and_version)
{
    char version[64];

    snprintf(version, sizeof version, "stance " PACKAGE_VERSION " (plugin ABI %d)\n",
             STANCE_PLUGIN_ABI);
    ck_assert_int_eq(run("--version"), 0);
    ck_assert_str_eq(out, version);
    ck_assert_str_eq(errors, "");
    ck_assert_int_eq(run("--help"), 0);
    ck_assert_msg(strncmp(out, "Usage: stance ", 14) == 0 && strstr(out, "\n  list ") != NULL, "%s",
                  out);
    ck_assert_str_eq(errors, "");
    ck_assert_int_eq(run("inspect --help"), 0);
    ck_assert_msg(strstr(out, "--exists") != NULL && *errors == '\0', "%s", out);
    ck_assert_int_eq(run("help list"), 0);
    ck_assert_ptr_nonnull(strstr(out, "Usage: stance list")); /* no terminal: no man page */
    ck_assert_int_eq(run("--build-info"), 0);
    ck_assert_msg(strstr(out, "compiler: ") != NULL && strstr(out, "\nconfigure: ") != NULL
                  && strstr(out, "\nlibyaml: ") != NULL && strstr(out, "\ncpu device: ") != NULL, "%s", out);
}
END_TEST

static const struct { const char *arguments; int status; const char *says; } failures[] = {
    { "", 2, "stance: a command is missing; see 'stance --help'\n" },
    { "lst", 2, "stance: unknown command 'lst'; did you mean 'list'?\n" },
    { "frobnicate", 2, "stance: unknown command 'frobnicate'; see 'stance --help'\n" },
    { "help lst", 2, "did you mean 'list'" },
    { "--versoin", 2, "stance: unknown option '--versoin'" },
    { "list scaler loss", 2, "stance: list: unexpected argument 'loss'\n" },
    { "list scalers", 2, "stance: list: 'scalers' is not a kind of plugin; kinds: backbone, head" },
    { "list --jsn", 2, "did you mean '--json'" },
    { "inspect", 2, "stance: inspect: an argument is missing" },
    { "inspect dynamic", 2, "neither KIND/NAME" },
    { "inspect --exists dynamic", 2, "neither KIND/NAME" },
    { "help list scaler", 2, "stance: help: unexpected argument 'scaler'\n" },
    { "help --mdoc pages", 2, "stance: help: --mdoc verbs" },
    { "completion tcsh", 2, "stance: completion: 'tcsh' is not one of bash, zsh, fish\n" },
    { "inspect scaler/../x", 2, "cannot be the name" },
    { "inspect scaler/dynamical", 3, "stance: scaler 'dynamical': not found; known: dynamic" },
    { "inspect --json scaler/dynamical", 3, "not found" },
    { "inspect --exists scaler/dynamical", 3, "" },
    { "inspect /nonexistent/scaler_x.so", 3, "No such file" },
    { "inspect /dev/null", 2, "neither" },
};

START_TEST(failures_are_one_line)
{
    ck_assert_int_eq(run(failures[_i].arguments), failures[_i].status);
    ck_assert_str_eq(out, "");
    ck_assert_msg(strstr(errors, failures[_i].says) != NULL, "%s", errors);
    ck_assert_int_eq(lines(errors), *failures[_i].says != '\0');
}
END_TEST

START_TEST(list_is_json)
{
    json_t *list, *row;
    size_t  i;
    int     scalers = 0;

    ck_assert_int_eq(run("list --json"), 0);
    list = json_loads(out, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(json_is_array(list), "%s", out);
    json_array_foreach(list, i, row) {
        const char *state = json_string_value(json_object_get(row, "state"));
        const char *file  = json_string_value(json_object_get(row, "file"));

        ck_assert_uint_eq(json_object_size(row), 6);
        ck_assert(json_is_string(json_object_get(row, "kind"))
                  && json_is_string(json_object_get(row, "name")));
        ck_assert(file[0] == '/' || strcmp(file, "(built in)") == 0);
        ck_assert(json_is_null(json_object_get(row, "reason")) == (strcmp(state, "ok") == 0));
        ck_assert(json_is_string(json_object_get(row, "version")) == (strcmp(state, "ok") == 0));
        scalers += strcmp(json_string_value(json_object_get(row, "kind")), "scaler") == 0
                   && strcmp(state, "ok") == 0;
    }
    ck_assert_int_ge(scalers, 3);
    json_decref(list);
    ck_assert_int_eq(run("list scaler"), 0);
    ck_assert_msg(strstr(out, "dynamic") != NULL && strstr(out, "backbone") == NULL, "%s", out);
    ck_assert_str_eq(errors, "");
}
END_TEST

START_TEST(broken_plugins_are_listed_and_hurt_nobody)
{
    json_t *list, *row;
    size_t  i;
    int     broken = 0;
    char    arguments[256], command[256];

    snprintf(arguments, sizeof arguments, "list --json --plugin-path %s", folder);
    snprintf(command, sizeof command, "printf 'not an object file' > %s/scaler_garbage.so", folder);
    ck_assert_int_eq(system(command), 0);
    ck_assert_int_eq(run(arguments), 0);
    list = json_loads(out, 0, NULL);
    json_array_foreach(list, i, row)
        if (strcmp(json_string_value(json_object_get(row, "name")), "garbage") == 0) {
            ck_assert_str_eq(json_string_value(json_object_get(row, "state")), "broken");
            ck_assert_ptr_nonnull(
                strstr(json_string_value(json_object_get(row, "reason")), "file too short"));
            broken++;
        }
    ck_assert_int_eq(broken, 1);
    json_decref(list);
    snprintf(arguments, sizeof arguments, "inspect scaler/dynamic --plugin-path %s", folder);
    ck_assert_int_eq(run(arguments), 0);
    snprintf(arguments, sizeof arguments, "inspect scaler/garbage --plugin-path %s", folder);
    ck_assert_int_eq(run(arguments), 3);
}
END_TEST

START_TEST(inspect_shows_parameters)
{
    json_t *root, *p;

    ck_assert_int_eq(run("inspect scaler/dynamic"), 0);
    ck_assert_msg(strstr(out, "growth_interval") != NULL
                      && strstr(out, "[1, 1000000] steps") != NULL,
                  "%s", out);
    ck_assert_int_eq(run("inspect --exists scaler/dynamic"), 0);
    ck_assert(*out == '\0' && *errors == '\0');
    ck_assert_int_eq(run("inspect --json scaler/dynamic"), 0);
    root = json_loads(out, 0, NULL);
    ck_assert_msg(root != NULL, "%s", out);
    ck_assert_str_eq(json_string_value(json_object_get(root, "name")), "dynamic");
    p = json_array_get(json_object_get(root, "parameters"), 3);
    ck_assert_str_eq(json_string_value(json_object_get(p, "name")), "growth_interval");
    ck_assert_str_eq(json_string_value(json_object_get(p, "default")), "2000");
    ck_assert(json_number_value(json_object_get(p, "max")) == 1000000);
    json_decref(root);
}
END_TEST

START_TEST(inspect_shows_devices_and_kinds)
{
    json_t *root, *one;
    size_t  i;
    bool    ref = false;

    ck_assert_int_eq(run("inspect --json device/ref"), 0);
    root = json_loads(out, 0, NULL);
    ck_assert_msg(root != NULL, "%s", out);
    one = json_object_get(root, "machine");
    ck_assert(json_is_true(json_object_get(one, "usable")) && json_is_null(json_object_get(one, "reason")));
    ck_assert_str_eq(json_string_value(json_object_get(one, "precision_auto")), "fp32");
    ck_assert_uint_eq(json_array_size(json_object_get(one, "precisions")), 2); /* fp32, fp64 */
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(one, "facts"), "threads")), "1");
    json_decref(root);
    ck_assert_int_eq(run("inspect --json device"), 0);
    root = json_loads(out, 0, NULL);
    ck_assert_msg(json_is_array(root), "%s", out);
    json_array_foreach(root, i, one) {
        ck_assert_str_eq(json_string_value(json_object_get(one, "kind")), "device");
        ref = ref || strcmp(json_string_value(json_object_get(one, "name")), "ref") == 0;
    }
    ck_assert(ref);
    json_decref(root);
    ck_assert_int_eq(run("inspect --exists device/ref"), 0);
    ck_assert(*out == '\0' && *errors == '\0');
    ck_assert_int_eq(run("inspect --json recipe"), 0);
    root = json_loads(out, 0, NULL);
    ck_assert_msg(json_is_array(json_object_get(json_object_get(root, "sections"), "train.checkpoint")), "%s", out);
    ck_assert(json_array_size(json_object_get(root, "choices")) > 10);
    json_decref(root);
}
END_TEST

/* Tables are broken to the width at hand, and not at all in a pipe. */
START_TEST(tables_fit_the_terminal)
{
    static const char *const arguments[] = { "list", "inspect scaler", "inspect recipe", "inspect --env", "train --help" };

    for (size_t k = 0; k < sizeof arguments / sizeof *arguments; k++) {
        size_t widest = 0;

        ck_assert_int_eq(stance_in("COLUMNS=80", arguments[k]), 0);
        for (const char *line = out; *line != '\0';) {
            size_t len = strcspn(line, "\n");

            /* Paths and ranges are not broken. */
            if (len > widest && memchr(line, '/', len) == NULL && memchr(line, '[', len) == NULL)
                widest = len;
            line += len + (line[len] == '\n');
        }
        ck_assert_msg(widest > 60 && widest <= 80, "%s: %zu columns", arguments[k], widest);
    }
    ck_assert_int_eq(stance_in("env -u COLUMNS", "list dataset"), 0);
    ck_assert_msg(strstr(out, "drawn persons with COCO's 17 keypoints, made on the fly: no download\n") != NULL, "%s", out);
}
END_TEST

START_TEST(environment_is_shown)
{
    ck_assert_int_eq(stance_in("STANCE_PLUGIN_BLOCKLIST=device_x STANCE_TYPO=1", "inspect --env"),
                     0);
    ck_assert_msg(strstr(out, "STANCE_PLUGIN_BLOCKLIST=device_x\n    environment;") != NULL, "%s",
                  out);
    ck_assert_msg(strstr(out, "STANCE_TYPO=1\n    environment, unknown to stance") != NULL, "%s",
                  out);
    ck_assert_msg(strstr(out, "STANCE_LOG=") != NULL, "%s", out);
    ck_assert_msg(strstr(out, "STANCE_LOG=warn\n    default;") != NULL, "%s", out);
    ck_assert_int_eq(run("inspect --env --json"), 0);
    json_t *root = json_loads(out, 0, NULL);
    ck_assert_msg(json_is_array(json_object_get(root, "variables")), "%s", out);
    json_decref(root);
}
END_TEST

START_TEST(full_disk_is_told)
{
    char command[4096];
    int  status;

    if (access("/dev/full", W_OK) != 0) {
        SKIP("stdout on a full disk: no /dev/full");
        return;
    }
    snprintf(command, sizeof command, "'%s' list > /dev/full 2> %s/err", getenv("STANCE_PROGRAM"),
             folder);
    status = system(command);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    slurp("err", errors, sizeof errors);
    ck_assert_str_eq(errors, "stance: standard output: No space left on device\n");
}
END_TEST

/* The program itself needs neither a device's library nor OpenMP. */
START_TEST(program_is_light)
{
    const char *program = getenv("STANCE_PROGRAM");
    char        command[8192];

    ck_assert_ptr_nonnull(program);
    if (getenv("STANCE_SHARED_PLUGINS") != NULL && strcmp(getenv("STANCE_SHARED_PLUGINS"), "no") == 0) {
        SKIP("libraries of the program: the plugins are part of it");
        return;
    }
    if (getenv("STANCE_SANITIZED") != NULL && strcmp(getenv("STANCE_SANITIZED"), "yes") == 0) {
        SKIP("libraries of the program: a build with sanitizers has theirs");
        return;
    }
    if (system("ldd --version > /dev/null 2>&1") != 0) {
        SKIP("libraries of the program: no ldd");
        return;
    }
    /* In the build folder the program may be libtool's wrapper: then the real one is in .libs. */
    snprintf(command, sizeof command,
             "d=$(dirname '%s'); p=$d/.libs/stance; test -e $p || p='%s'; LD_LIBRARY_PATH=$d/.libs "
             "ldd $p > %s/out",
             program, program, folder);
    ck_assert_int_eq(system(command), 0);
    slurp("out", out, sizeof out);
    ck_assert_ptr_nonnull(strstr(out, "libc.so"));
    ck_assert_msg(strstr(out, "dnnl") == NULL && strstr(out, "gomp") == NULL
                      && strstr(out, "cudnn") == NULL,
                  "%s", out);
}
END_TEST

/* One gcc line, one variable: a scaler that was built out of the tree. */
START_TEST(out_of_tree_scaler)
{
    const char *source = getenv("STANCE_SRCDIR");
    char        command[4096], environment[512];

    if (source == NULL || system(TEST_CC " --version > /dev/null 2>&1") != 0) {
        SKIP("out-of-tree scaler: no compiler");
        return;
    }
    snprintf(command, sizeof command,
             TEST_CC " -shared -fPIC -I %s/core %s/tests/scaler_mine.c -o %s/scaler_mine.so",
             source, source, folder);
    ck_assert_int_eq(system(command), 0);
    snprintf(environment, sizeof environment, "STANCE_PLUGIN_PATH=%s", folder);
    ck_assert_int_eq(stance_in(environment, "inspect scaler/mine"), 0);
    ck_assert_msg(strstr(out, "scaler/mine 0.1") == out && strstr(out, "/scaler_mine.so") != NULL,
                  "%s", out);
    snprintf(command, sizeof command, "inspect %s/scaler_mine.so", folder);
    ck_assert_int_eq(run(command), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli");
    TCase *tc    = tcase_create("all");

    tcase_add_checked_fixture(tc, start, stop);
    tcase_add_test(tc, help_and_version);
    tcase_add_loop_test(tc, failures_are_one_line, 0, sizeof failures / sizeof *failures);
    tcase_add_test(tc, list_is_json);
    tcase_add_test(tc, broken_plugins_are_listed_and_hurt_nobody);
    tcase_add_test(tc, inspect_shows_parameters);
    tcase_add_test(tc, inspect_shows_devices_and_kinds);
    tcase_add_test(tc, tables_fit_the_terminal);
    tcase_add_test(tc, environment_is_shown);
    tcase_add_test(tc, full_disk_is_told);
    tcase_add_test(tc, program_is_light);
    tcase_add_test(tc, out_of_tree_scaler);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
