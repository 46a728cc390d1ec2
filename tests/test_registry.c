/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "fault.h"
#include "runner.h"

#include "registry/instance.h"
#include "registry/registry.h"

#include <stance/device.h>
#include <stance/log.h>
#include <stance/registry.h>

#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char warned[3000];

static void keep_warning(void *ctx, enum stance_log_level level, const char *module,
                         const char *text)
{
    (void)ctx;
    (void)module;
    if (level == STANCE_LOG_WARN)
        snprintf(warned + strlen(warned), sizeof warned - strlen(warned), "%s\n", text);
}

/* Only the folders of the test: neither the environment's nor those of an installed stance. */
static struct stance_registry *registry_of(const char *path)
{
    struct stance_error     err = STANCE_ERROR_INIT;
    struct stance_registry *reg;

    unsetenv("STANCE_PLUGIN_PATH");
    setenv("XDG_DATA_HOME", "/nonexistent", 1);
    ck_assert_msg(stance_registry_new(path, &reg, &err) == STANCE_OK, "%s", err.text);
    return reg;
}

static const struct {
    enum stance_kind kind;
    const char      *name;
    stance_status    want;
    const char      *says[3];
} refusals[] = {
    { STANCE_KIND_SCALER,
      "old_abi",
      STANCE_ERR_ABI,
      { "scaler 'old_abi': ", "scaler_old_abi.so", "9999, this stance has 0" } },
    { STANCE_KIND_SCALER, "small", STANCE_ERR_ABI, { "scaler_small.so", "24 bytes" } },
    { STANCE_KIND_SCALER, "other_name", STANCE_ERR_PLUGIN, { "'somebody'", "'other_name'" } },
    { STANCE_KIND_SCALER,
      "other_kind",
      STANCE_ERR_PLUGIN,
      { "is a scaler by its file name and a loss" } },
    { STANCE_KIND_SCALER,
      "no_license",
      STANCE_ERR_PLUGIN,
      { "scaler_no_license.so", "no license" } },
    { STANCE_KIND_SCALER, "no_function", STANCE_ERR_PLUGIN, { "no function 'scale'" } },
    { STANCE_KIND_SCALER, "outside", STANCE_ERR_PLUGIN, { "parameter 'x' lies outside" } },
    { STANCE_KIND_SCALER, "state_outside", STANCE_ERR_PLUGIN, { "state 'x' lies outside" } },
    { STANCE_KIND_SCALER, "no_doc", STANCE_ERR_PLUGIN, { "parameter 'x' is not described" } },
    { STANCE_KIND_SCALER,
      "no_symbol",
      STANCE_ERR_PLUGIN,
      { "scaler_no_symbol.so", "no_such_function_anywhere" } },
    { STANCE_KIND_SCALER,
      "no_library",
      STANCE_ERR_PLUGIN,
      { "scaler_no_library.so", "libgone.so.9" } },
    { STANCE_KIND_SCALER,
      "no_descriptor",
      STANCE_ERR_PLUGIN,
      { "scaler_no_descriptor.so", "not a plugin" } },
    { STANCE_KIND_SCALER, "garbage", STANCE_ERR_PLUGIN, { "scaler_garbage.so", "file too short" } },
    { STANCE_KIND_SCALER, "cut", STANCE_ERR_PLUGIN, { "scaler_cut.so", "cut short" } },
    { STANCE_KIND_DEVICE,
      "unstable",
      STANCE_ERR_ABI,
      { "device_unstable.so", "device interface 7" } },
    { STANCE_KIND_SCALER,
      "good99",
      STANCE_ERR_NOENT,
      { "scaler 'good99': not found; known: ", "fine, garbage, good, no_" } },
    { STANCE_KIND_LOSS,
      "mse",
      STANCE_ERR_NOENT,
      { "loss 'mse': not found", BROKEN_DIR, "no loss plugin" } },
    { STANCE_KIND_SCALER,
      "../scaler_good",
      STANCE_ERR_INVAL,
      { "'../scaler_good' cannot be the name" } },
    { STANCE_KIND_SCALER, "Good", STANCE_ERR_INVAL, { "cannot be the name" } },
    { STANCE_KIND_SCALER, "", STANCE_ERR_INVAL, { "cannot be the name" } },
    { STANCE_KIND_COUNT, "good", STANCE_ERR_INVAL, { "cannot be the name of a plugin" } },
};

START_TEST(tells_the_reason)
{
    struct stance_registry     *reg = registry_of(BROKEN_DIR);
    const struct stance_plugin *p   = (const void *)&refusals;
    struct stance_error         err = STANCE_ERROR_INIT;

    ck_assert_int_eq(stance_registry_find(reg, refusals[_i].kind, refusals[_i].name, &p, &err),
                     refusals[_i].want);
    for (int i = 0; i < 3 && refusals[_i].says[i] != NULL; i++)
        ck_assert_msg(strstr(err.text, refusals[_i].says[i]) != NULL, "'%s' is not in: %s",
                      refusals[_i].says[i], err.text);
    ck_assert_ptr_eq(p, &refusals); /* set on success only */
    stance_registry_free(reg);
}
END_TEST

static float scale_of(const struct stance_plugin *p)
{
    return p->ops.scaler->scale(NULL, NULL);
}

START_TEST(each_sees_its_own_helper)
{
    struct stance_registry     *reg = registry_of(BROKEN_DIR);
    const struct stance_plugin *a, *b, *again;
    struct stance_error         err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &a, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_msg(stance_registry_find(reg, STANCE_KIND_SCALER, "fine", &b, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &again, &err),
                     STANCE_OK);
    ck_assert_ptr_eq(a, again);
    ck_assert(scale_of(a) == 2 && scale_of(b) == 4);
    ck_assert_str_eq(stance_registry_file(reg, a), BROKEN_DIR "/scaler_good.so");
    stance_registry_free(reg);
}
END_TEST

START_TEST(first_folder_wins_and_both_are_told)
{
    struct stance_registry *reg = registry_of(BROKEN_DIR "/two::" BROKEN_DIR "/:" BROKEN_DIR
                                                         "/two/");
    const struct stance_plugin  *p;
    const struct stance_listing *list;
    size_t                       n, hidden = 0, shown = 0;
    struct stance_error          err = STANCE_ERROR_INIT;

    stance_log_set_sink(keep_warning, NULL);
    warned[0] = '\0';
    ck_assert_msg(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert(scale_of(p) == 3);
    ck_assert_str_eq(warned, BROKEN_DIR "/two/scaler_good.so is used and hides " BROKEN_DIR
                                        "/scaler_good.so\n");
    warned[0] = '\0';
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err), STANCE_OK);
    ck_assert_str_eq(warned, ""); /* once */
    stance_log_set_sink(NULL, NULL);

    ck_assert_msg(stance_registry_list(reg, STANCE_KIND_COUNT, &list, &n, &err) == STANCE_OK, "%s",
                  err.text);
    for (size_t i = 0; i < n; i++) {
        const struct stance_listing *l = &list[i];

        ck_assert_msg(l->file[0] == '/', "%s", l->file);
        ck_assert((l->plugin == NULL) == (l->reason != NULL));
        ck_assert(i == 0 || list[i - 1].kind < l->kind
                  || (list[i - 1].kind == l->kind && strcmp(list[i - 1].name, l->name) <= 0));
        if (strcmp(l->name, "good") != 0)
            continue;
        if (l->plugin != NULL) {
            ck_assert_str_eq(l->file, BROKEN_DIR "/two/scaler_good.so");
            shown++;
        } else {
            ck_assert_str_eq(l->file, BROKEN_DIR "/scaler_good.so");
            ck_assert_str_eq(l->reason, "hidden by " BROKEN_DIR "/two/scaler_good.so");
            hidden++;
        }
    }
    ck_assert(shown == 1 && hidden == 1);
    ck_assert_uint_eq(n, 18); /* every file of tests/reg.mk */
    ck_assert_int_eq(stance_registry_list(reg, STANCE_KIND_DEVICE, &list, &n, &err), STANCE_OK);
    ck_assert(n == 1 && strcmp(list[0].name, "unstable") == 0
              && strstr(list[0].reason, "interface 7") != NULL);
    stance_registry_free(reg);
}
END_TEST

START_TEST(blocklist_is_by_whole_names)
{
    struct stance_registry      *reg;
    const struct stance_plugin  *p;
    const struct stance_listing *list;
    size_t                       n;
    struct stance_error          err = STANCE_ERROR_INIT;
    bool                         seen = false;

    setenv("STANCE_PLUGIN_BLOCKLIST", "scaler_goo,device_x, scaler_fine", 1);
    reg = registry_of(BROKEN_DIR);
    unsetenv("STANCE_PLUGIN_BLOCKLIST");
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err), STANCE_OK);
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "fine", &p, &err),
                     STANCE_ERR_NOENT);
    ck_assert_str_eq(err.text, "scaler 'fine': blocked by STANCE_PLUGIN_BLOCKLIST");
    ck_assert_int_eq(stance_registry_list(reg, STANCE_KIND_SCALER, &list, &n, &err), STANCE_OK);
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].name, "fine") == 0)
            seen = list[i].plugin == NULL
                   && strcmp(list[i].reason, "blocked by STANCE_PLUGIN_BLOCKLIST") == 0;
    ck_assert(seen);
    stance_registry_free(reg);
}
END_TEST

START_TEST(current_folder_only_by_name)
{
    struct stance_registry     *reg;
    const struct stance_plugin *p;
    struct stance_error         err = STANCE_ERROR_INIT;

    ck_assert_int_eq(chdir(BROKEN_DIR), 0);
    reg = registry_of("::");
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err),
                     STANCE_ERR_NOENT);
    stance_registry_free(reg);
    reg = registry_of("two");
    ck_assert_int_eq(chdir("/"), 0); /* it was taken as it stood */
    ck_assert_msg(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_str_eq(stance_registry_file(reg, p), BROKEN_DIR "/two/scaler_good.so");
    stance_registry_free(reg);
}
END_TEST

START_TEST(users_folder_and_environment)
{
    char                        home[] = "/tmp/stance-test-XXXXXX", folder[64], command[1024];
    struct stance_registry     *reg;
    const struct stance_plugin *p;
    struct stance_error         err = STANCE_ERROR_INIT;

    ck_assert_ptr_nonnull(mkdtemp(home));
    snprintf(folder, sizeof folder, "%s/stance/plugins", home);
    snprintf(command, sizeof command, "mkdir -p %s && cp " BROKEN_DIR "/scaler_good.so %s", folder,
             folder);
    ck_assert_int_eq(system(command), 0);
    setenv("XDG_DATA_HOME", home, 1);
    setenv("STANCE_PLUGIN_PATH", ":/nonexistent/folder", 1);
    ck_assert_int_eq(stance_registry_new(NULL, &reg, &err), STANCE_OK);
    ck_assert_ptr_nonnull(strstr(stance_registry_path(reg), "/nonexistent/folder:"));
    ck_assert_msg(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_ptr_nonnull(strstr(stance_registry_file(reg, p), folder));
    stance_registry_free(reg);
    setenv("STANCE_PLUGIN_PATH", BROKEN_DIR "/two", 1);
    stance_log_set_sink(keep_warning, NULL);
    ck_assert_int_eq(stance_registry_new(NULL, &reg, &err), STANCE_OK);
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err), STANCE_OK);
    ck_assert(scale_of(p) == 3);
    stance_registry_free(reg);
    stance_log_set_sink(NULL, NULL);
    snprintf(command, sizeof command, "rm -r %s", home);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(opens_a_file_by_its_path)
{
    struct stance_registry     *reg = registry_of(NULL);
    const struct stance_plugin *p;
    struct stance_error         err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_registry_open(reg, BROKEN_DIR "/two/scaler_good.so", &p, &err)
                      == STANCE_OK,
                  "%s", err.text);
    ck_assert(scale_of(p) == 3);
    ck_assert_int_eq(chdir(BROKEN_DIR), 0);
    ck_assert_msg(stance_registry_open(reg, "scaler_good.so", &p, &err) == STANCE_OK, "%s",
                  err.text);
    ck_assert(scale_of(p) == 2);
    /* A file opened by its path is not on the search path. */
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "good", &p, &err),
                     STANCE_ERR_NOENT);
    ck_assert_int_eq(stance_registry_open(reg, "/nonexistent/scaler_x.so", &p, &err),
                     STANCE_ERR_NOENT);
    ck_assert_ptr_nonnull(strstr(err.text, "No such file"));
    ck_assert_int_eq(stance_registry_open(reg, BROKEN_DIR "/libgone.so", &p, &err),
                     STANCE_ERR_INVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "<kind>_<name>.so"));
    ck_assert_int_eq(stance_registry_open(reg, "/tmp", &p, &err), STANCE_ERR_INVAL);
    stance_registry_free(reg);
}
END_TEST

START_TEST(settings_in_text)
{
    struct stance_registry *reg = registry_of(BROKEN_DIR);
    struct stance_instance  i;
    struct stance_error     err = STANCE_ERROR_INIT;
    const char             *text = "a=1,b=[1,2],c=";
    char                    key[8], value[8];

    ck_assert_msg(stance_instance_new(reg, STANCE_KIND_SCALER, "good:x=0.5", &i, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert(*(double *)i.config == 0.5);
    stance_instance_clear(&i);
    ck_assert_int_eq(stance_instance_new(reg, STANCE_KIND_SCALER, "good", &i, &err), STANCE_OK);
    ck_assert(*(double *)i.config == 1);
    stance_instance_clear(&i);
    ck_assert_int_eq(stance_instance_new(reg, STANCE_KIND_SCALER, "good:x=3", &i, &err),
                     STANCE_ERR_RANGE);
    ck_assert_str_eq(err.text, "scaler 'good': x: 3 is outside [0, 2]");
    ck_assert_int_eq(stance_instance_new(reg, STANCE_KIND_SCALER, "good:x", &i, &err),
                     STANCE_ERR_INVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "key=value"));
    ck_assert_int_eq(stance_instance_new(reg, STANCE_KIND_SCALER, "good:y=1", &i, &err),
                     STANCE_ERR_INVAL);
    ck_assert_int_eq(stance_settings_next(&text, key, sizeof key, value, sizeof value), 1);
    ck_assert_int_eq(stance_settings_next(&text, key, sizeof key, value, sizeof value), 1);
    ck_assert(strcmp(key, "b") == 0 && strcmp(value, "[1,2]") == 0);
    ck_assert_int_eq(stance_settings_next(&text, key, sizeof key, value, sizeof value), 1);
    ck_assert_int_eq(stance_settings_next(&text, key, sizeof key, value, sizeof value), 0);
    text = "a=123456789";
    ck_assert_int_eq(stance_settings_next(&text, key, sizeof key, value, sizeof value), -1);
    stance_registry_free(reg);
}
END_TEST

START_TEST(memory_runs_out_anywhere)
{
    const struct stance_listing *list;
    stance_status                status = STANCE_ERR_NOMEM;
    size_t                       n;

    unsetenv("STANCE_PLUGIN_PATH");
    for (long k = 0; status != STANCE_OK; k++) {
        struct stance_registry     *reg = NULL;
        const struct stance_plugin *p;
        struct stance_error         err = STANCE_ERROR_INIT;
        struct stance_instance      i   = { 0 };

        fault_after(k);
        status = stance_registry_new(BROKEN_DIR, &reg, &err);
        if (status == STANCE_OK) {
            status = stance_registry_find(reg, STANCE_KIND_SCALER, "absent", &p, &err);
            ck_assert(status == STANCE_ERR_NOENT || status == STANCE_ERR_NOMEM);
            if (status == STANCE_ERR_NOENT)
                status = stance_instance_new(reg, STANCE_KIND_SCALER, "good:x=1", &i, &err);
            if (status == STANCE_OK)
                status = stance_registry_list(reg, STANCE_KIND_COUNT, &list, &n, &err);
        }
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "%s", err.text);
        stance_instance_clear(&i);
        stance_registry_free(reg);
        ck_assert_int_eq(fault_live, 0);
        ck_assert_int_lt(k, 1000);
    }
    stance_set_allocator(NULL);
}
END_TEST

static void *find_all(void *arg)
{
    struct stance_registry *reg = arg;

    for (int i = 0; i < 50; i++) {
        const struct stance_plugin *p;

        if (stance_registry_find(reg, STANCE_KIND_SCALER, i % 2 ? "good" : "fine", &p, NULL)
            != STANCE_OK)
            return reg;
        if (stance_registry_find(reg, STANCE_KIND_SCALER, "no_symbol", &p, NULL)
            != STANCE_ERR_PLUGIN)
            return reg;
    }
    return NULL;
}

START_TEST(any_thread_may_ask)
{
    struct stance_registry *reg = registry_of(BROKEN_DIR);
    pthread_t               thread[4];
    void                   *bad;

    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, find_all, reg), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(thread[i], &bad);
        ck_assert_ptr_null(bad);
    }
    stance_registry_free(reg);
}
END_TEST

/* ---- ../shared/cases/plugin --------------------------------------------------------------- */

static const struct {
    const char *folder;
    const char *source[2];
    const char *name[2];
    const char *dir[2];
    const char *link;
} cases[] = {
    { "well-formed", { "p.c" }, { "well" }, { "d" }, "" },
    { "without-la-file", { "p.c" }, { "bare" }, { "d" }, "" },
    { "newer-interface", { "p.c" }, { "future" }, { "d" }, "" },
    { "missing-symbol", { "p.c" }, { "dangling" }, { "d" }, "" },
    { "missing-library", { "p.c" }, { "needs" }, { "d" }, "-L. -lgone" },
    { "start-fails", { "p.c" }, { "refuses" }, { "d" }, "" },
    { "exit-handler-in-plugin", { "p.c" }, { "handlers" }, { "d" }, "" },
    { "no-descriptor", { "p.c" }, { "p" }, { "d" }, "" },
    { "same-symbol-in-two-plugins", { "a.c", "b.c" }, { "a", "b" }, { "d", "d" }, "" },
    { "one-name-in-two-folders", { "one.c", "two.c" }, { "same", "same" }, { "d1", "d2" }, "" },
};

/* Loads and starts the plugins in a child, as a program would that then ends; text: what it had to
 * say. */
static int load_case(const char *root, int k, char *text, size_t size)
{
    int   pipes[2], wait_status;
    pid_t child;
    ssize_t got;

    ck_assert_int_eq(pipe(pipes), 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        char                    path[1024];
        struct stance_registry *reg;
        struct stance_error     err = STANCE_ERROR_INIT;
        int                     bad = 0;

        snprintf(path, sizeof path, "%s/%s:%s/%s", root, cases[k].dir[0], root,
                 cases[k].dir[1] != NULL ? cases[k].dir[1] : "none");
        reg = registry_of(path);
        warned[0] = '\0';
        stance_log_set_sink(keep_warning, NULL);
        for (int i = 0; i < 2 && cases[k].name[i] != NULL && !bad; i++) {
            const struct stance_plugin *p;

            bad = stance_registry_find(reg, STANCE_KIND_DEVICE, cases[k].name[i], &p, &err)
                  != STANCE_OK;
            if (!bad && p->ops.device->open(NULL, NULL, 1, &err) != STANCE_OK) {
                stance_error_prefix(&err, err.status, "device '%s'", p->name);
                bad = 1;
            }
        }
        snprintf(text, size, "%s%s", warned, bad ? err.text : "");
        if (write(pipes[1], text, strlen(text)) < 0)
            _exit(9);
        stance_registry_free(reg);
        stance_log_set_sink(NULL, NULL);
        /* A second registry finds the resident module. */
        if (!bad && strcmp(cases[k].dir[0], "d") == 0) {
            const struct stance_plugin *p;

            reg = registry_of(path);
            if (stance_registry_find(reg, STANCE_KIND_DEVICE, cases[k].name[0], &p, &err)
                != STANCE_OK)
                bad = 2;
            stance_registry_free(reg);
        }
        exit(bad);
    }
    close(pipes[1]);
    text[0] = '\0';
    got = read(pipes[0], text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    close(pipes[0]);
    ck_assert_int_eq(waitpid(child, &wait_status, 0), child);
    ck_assert_msg(WIFEXITED(wait_status), "ended by signal %d", WTERMSIG(wait_status));
    return WEXITSTATUS(wait_status);
}

/* The words of `message_has: [a, 'b']`, with p.so as the file that the walker has built. */
static void check_words(const char *yaml, const char *text, int k)
{
    const char *list = strstr(yaml, "message_has: [");
    char        words[256], *word, *rest;

    if (list == NULL)
        return;
    list += strlen("message_has: [");
    snprintf(words, sizeof words, "%.*s", (int)strcspn(list, "]"), list);
    for (word = strtok_r(words, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
        char  want[128];
        char *so;

        word += strspn(word, " '");
        word[strcspn(word, "'")] = '\0';
        so = strstr(word, ".so");
        if (so != NULL && strncmp(word, "lib", 3) != 0)
            snprintf(want, sizeof want, "device_%s.so", cases[k].name[0]);
        else
            snprintf(want, sizeof want, "%s", word);
        if (strchr(word, '/') != NULL) { /* d1/same.so */
            *strchr(word, '/') = '\0';
            snprintf(want, sizeof want, "%s/device_%s.so", word, cases[k].name[0]);
        }
        ck_assert_msg(strcasestr(text, want) != NULL, "'%s' is not in: %s", want, text);
    }
}

START_TEST(shared_cases)
{
    char root[] = "/tmp/stance-test-XXXXXX", relative[256], command[8192], text[4096], yaml[4096];
    const char *file, *header;
    FILE       *f;
    size_t      got;
    int         exit_status;

    snprintf(relative, sizeof relative, "cases/plugin/%s/case.yaml", cases[_i].folder);
    file   = shared_file(relative);
    header = getenv("STANCE_SRCDIR");
    if (file == NULL || header == NULL) {
        SKIP("plugin cases: %s is absent", relative);
        return;
    }
    if (system(TEST_CC " --version > /dev/null 2>&1") != 0) {
        SKIP("plugin cases: no compiler");
        return;
    }
    ck_assert_ptr_nonnull(mkdtemp(root));
    if (*cases[_i].link != '\0') {
        snprintf(command, sizeof command,
                 "cd %s && " TEST_CC " -shared -fPIC -o libgone.so $(dirname %s)/gone.c", root,
                 file);
        ck_assert_int_eq(system(command), 0);
    }
    for (int i = 0; i < 2 && cases[_i].name[i] != NULL; i++) {
        snprintf(command, sizeof command,
                 "cd %s && mkdir -p %s && " TEST_CC
                 " -shared -fPIC -w -Wl,-z,lazy -I%s/core -DCASE_PLUGIN_H -DCASE_NAME=%s "
                 "-include %s/tests/case_plugin_map.h $(dirname %s)/%s -o %s/device_%s.so %s",
                 root, cases[_i].dir[i], header, cases[_i].name[i], header, file,
                 cases[_i].source[i], cases[_i].dir[i], cases[_i].name[i], cases[_i].link);
        ck_assert_msg(system(command) == 0, "%s", command);
    }
    if (*cases[_i].link != '\0') {
        snprintf(command, sizeof command, "rm %s/libgone.so", root);
        ck_assert_int_eq(system(command), 0);
    }
    exit_status = load_case(root, _i, text, sizeof text);
    f = fopen(file, "r");
    ck_assert_ptr_nonnull(f);
    got = fread(yaml, 1, sizeof yaml - 1, f);
    yaml[got] = '\0';
    fclose(f);
    if (strstr(yaml, "status: error") != NULL)
        ck_assert_msg(exit_status == 1, "%s", text);
    else
        ck_assert_msg(exit_status == 0, "%s", text);
    if (strstr(yaml, "status: ok") != NULL)
        ck_assert_str_eq(text, "");
    check_words(yaml, text, _i);
    snprintf(command, sizeof command, "rm -r %s", root);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("registry");
    TCase *tc    = tcase_create("all");

    tcase_add_loop_test(tc, tells_the_reason, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(tc, each_sees_its_own_helper);
    tcase_add_test(tc, first_folder_wins_and_both_are_told);
    tcase_add_test(tc, blocklist_is_by_whole_names);
    tcase_add_test(tc, current_folder_only_by_name);
    tcase_add_test(tc, users_folder_and_environment);
    tcase_add_test(tc, opens_a_file_by_its_path);
    tcase_add_test(tc, settings_in_text);
    tcase_add_test(tc, memory_runs_out_anywhere);
    tcase_add_test(tc, any_thread_may_ask);
    tcase_add_loop_test(tc, shared_cases, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
