/* SPDX-License-Identifier: Apache-2.0
 *
 * walk_cases DIR...: runs every folder with a case.yaml under the given ones through stance's own
 * libraries, each in a process of its own, and prints a line for each. Without DIR: the shared
 * cases. */
#define _GNU_SOURCE /* strcasestr, nftw */
#include "config.h"

#include "walk.h"

#include <stance/log.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <ltdl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#if SANITIZED
/* The leak checker of gcc 12 faults when it looks into the thread-local memory of OpenMP's threads,
 * which are there to the end. What only such memory points to then looks lost: libgomp's pool of
 * threads, and what a plugin of a case, whose file lies in the scratch folder, has put there. */
const char *__lsan_default_options(void);
const char *__lsan_default_suppressions(void);

__attribute__((visibility("default"))) const char *__lsan_default_options(void)
{
    return "use_tls=0:print_suppressions=0";
}

__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void)
{
    return "leak:/walk-\nleak:libgomp\n";
}
#endif

enum {
    VERDICT_FD = 9,   /* where the process of a case writes its verdict */
    SECONDS    = 300, /* for a case without max_seconds */
    GRACE      = 2,   /* seconds over max_seconds before the process is ended */
    DEPTH      = 4    /* folders within folders */
};

/* Keys of expect that every case may have. */
#define COMMON                                                                                     \
    "status message_has tolerance tolerance_relative max_seconds max_memory_mb leak_free "         \
    "exit_code"

static const struct walk_do *const groups[] = { walk_data,    walk_settings, walk_scale,
                                                walk_trace,   walk_ops,      walk_files,
                                                walk_plugins, walk_pose,     walk_train };

static const struct walk_do *do_of(const char *word)
{
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
        for (const struct walk_do *d = groups[g]; d->word != NULL; d++)
            if (strcmp(d->word, word) == 0)
                return d;
    return NULL;
}

/* ---- one case, in a process of its own ------------------------------------------------------- */

static atomic_long live; /* blocks of stance's heap that are not given back */

static void *count_calloc(void *ctx, size_t count, size_t size)
{
    void *p = calloc(count, size);

    (void)ctx;
    live += p != NULL;
    return p;
}

static void count_free(void *ctx, void *p)
{
    (void)ctx;
    live -= p != NULL;
    free(p);
}

static void keep_log(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    struct walk *w = ctx;

    w->warnings += level == STANCE_LOG_WARN;
    stance_string_add(&w->said, "%s: %s\n", module, text);
}

static const char *word_of_message(const struct walk *w, const char *word)
{
    for (int i = 0; i < w->n_alias; i++)
        if (strcmp(w->alias[i].from, word) == 0)
            return w->alias[i].to;
    return word;
}

static void judge_message(struct walk *w)
{
    const struct stance_config_node *has = walk_expects(w, "message_has");
    const char *said = w->said.s != NULL ? w->said.s : "", *error = w->err.text;

    if (w->status == STANCE_OK)
        error = "";
    else if (*error == '\0' || strchr(error, '\n') != NULL)
        walk_fail(w, "the message is %s", *error == '\0' ? "empty" : "not one line");
    if (has != NULL && has->kind != STANCE_CONFIG_LIST)
        walk_fail(w, "message_has is not a list");
    for (size_t i = 0; has != NULL && i < has->count; i++) {
        const char *word = word_of_message(w, has->child[i]->text);

        if (strcasestr(error, word) == NULL && strcasestr(said, word) == NULL)
            walk_fail(w, "'%s' is not in the message: %.300s%.100s", word, error,
                      *said != '\0'    ? said
                      : *error == '\0' ? "(there is none)"
                                       : "");
    }
}

static void judge(struct walk *w, const struct walk_do *d)
{
    const struct stance_config_node *status = walk_expects(w, "status");
    const char *want = status != NULL && status->text != NULL ? status->text : "";
    const char *got  = w->status != STANCE_OK ? "error" : w->warnings > 0 ? "warn" : "ok";
    char        known[1000];

    if (strcmp(want, "ok") != 0 && strcmp(want, "warn") != 0 && strcmp(want, "error") != 0)
        walk_fail(w, "expect.status is '%s'", want);
    else if (strcmp(want, got) != 0)
        walk_fail(w, "status is %s, not %s: %.400s", got, want,
                  w->status != STANCE_OK ? w->err.text
                  : w->warnings > 0      ? w->said.s
                                         : "nothing was said");
    walk_is_f64(w, "exit_code", stance_exit_status(w->status));
    judge_message(w);
    snprintf(known, sizeof known, "%s %s", COMMON, d->expect);
    walk_known(w, w->expect, "expect", known);
    for (const char *c = COMMON; c != NULL; c = strchr(c, ' ')) {
        char key[40];

        c += *c == ' ';
        snprintf(key, sizeof key, "%.*s", (int)strcspn(c, " "), c);
        walk_expects(w, key);
    }
    for (size_t i = 0; w->expect != NULL && i < w->expect->count; i++) {
        bool seen = false;

        for (int k = 0; k < w->n_seen; k++)
            seen |= w->seen[k] == w->expect->child[i];
        if (!seen)
            walk_fail(w, "nothing to compare with expect.%s", w->expect->child[i]->key);
    }
}

/* kB resident, and of address space. */
static long kilobytes(const char *key)
{
    FILE *f = fopen("/proc/self/status", "r");
    char  line[256];
    long  v = 0;

    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, key, strlen(key)) == 0)
            v = strtol(line + strlen(key) + 1, NULL, 10);
    if (f != NULL)
        fclose(f);
    return v;
}

/* A request beyond the limit fails, so that what is only reserved counts too. The tools that watch
 * memory reserve far more themselves. */
static void limit_space(long megabytes)
{
    struct rlimit r;

    if (SANITIZED || getenv("WALK_WATCHED") != NULL)
        return;
    r.rlim_cur = r.rlim_max = ((rlim_t)kilobytes("VmSize:") << 10) + ((rlim_t)megabytes << 20);
    setrlimit(RLIMIT_AS, &r);
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
    (void)s;
    (void)type;
    (void)f;
    return remove(path);
}

static void run_do(struct walk *w, const struct walk_do *d)
{
    const struct stance_config_node *megabytes = stance_config_find(w->expect, "max_memory_mb");
    struct stance_error              err       = STANCE_ERROR_INIT;
    double most   = megabytes != NULL ? walk_node_f64(w, megabytes, "max_memory_mb") : 0;
    long   before = kilobytes("VmHWM:");

    if (stance_registry_new(NULL, &w->registry, &err) != STANCE_OK)
        walk_fail(w, "%s", err.text);
    if (mkdtemp(w->scratch) == NULL)
        walk_fail(w, "%s: %s", w->scratch, strerror(errno));
    walk_known(w, w->input, "input", d->input);
    if (megabytes != NULL)
        limit_space((long)ceil(most));
    if (!walk_failed(w)) {
        stance_log_set_sink(keep_log, w);
        stance_log_level_set(STANCE_LOG_INFO);
        d->run(w);
        stance_log_set_sink(NULL, NULL);
    }
    if (megabytes != NULL && getenv("WALK_WATCHED") == NULL
        && (double)(kilobytes("VmHWM:") - before) / 1024 > most)
        walk_fail(w, "took %ld MB of memory", (kilobytes("VmHWM:") - before) >> 10);
    if (!walk_failed(w))
        judge(w, d);
    nftw(w->scratch, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    stance_registry_free(w->registry);
}

static void write_verdict(char letter, const char *text)
{
    char    line[1000];
    int     n    = snprintf(line, sizeof line, "%c%.900s", letter, text);
    ssize_t done = write(VERDICT_FD, line, (size_t)n);

    (void)done;
    close(VERDICT_FD);
}

/* @return exit status of the process: 0, unless it could not say how the case went. */
static int run_here(const char *folder)
{
    static const struct stance_allocator heap = { count_calloc, count_free, NULL };
    static struct walk                   w;
    struct stance_config                *c    = NULL;
    struct stance_config_node           *root = NULL;
    struct stance_error                  err  = STANCE_ERROR_INIT;
    const struct stance_config_node     *word;
    const struct walk_do                *d;
    char                                 path[4200], letter = 'f', text[700];

    stance_set_allocator(&heap);
    snprintf(path, sizeof path, "%s/case.yaml", folder);
    w = (struct walk){ .folder = folder, .err = STANCE_ERROR_INIT };
    snprintf(w.scratch, sizeof w.scratch, "%.40s/walk-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    c = stance_config_new();
    if (c == NULL || stance_config_read(c, path, &root, &err) != STANCE_OK) {
        snprintf(text, sizeof text, "%.600s", err.text);
        goto done;
    }
    word     = stance_config_find(root, "do");
    w.input  = stance_config_find(root, "input");
    w.expect = stance_config_find(root, "expect");
    if (word == NULL || word->text == NULL) {
        snprintf(text, sizeof text, "case.yaml has no `do`");
        goto done;
    }
    d = do_of(word->text);
    if (d == NULL) {
        letter = 'u';
        snprintf(text, sizeof text, "do '%.100s'", word->text);
        goto done;
    }
    run_do(&w, d);
    letter = walk_failed(&w) ? 'f' : 'p';
    snprintf(text, sizeof text, "%s", w.why);

done:
    stance_string_free(&w.said);
    stance_config_free(c);
    if (letter == 'p' && live != 0) {
        letter = 'f';
        snprintf(text, sizeof text, "%ld blocks of memory were not given back", (long)live);
    }
    write_verdict(letter, text);
    return 0;
}

/* ---- the walk -----------------------------------------------------------------------------------
 */

struct totals {
    int passed, failed, unknown;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the parent needs of a case before it runs. */
struct limits {
    double seconds;
    bool   watched;
};

static struct limits limits_of(const char *folder)
{
    struct limits                    l = { 0, false };
    struct stance_config            *c = stance_config_new();
    struct stance_config_node       *root;
    const struct stance_config_node *n;
    char                             path[4200];

    snprintf(path, sizeof path, "%s/case.yaml", folder);
    if (c != NULL && stance_config_read(c, path, &root, NULL) == STANCE_OK) {
        n = stance_config_get(root, "expect.max_seconds");
        if (n != NULL && n->text != NULL && !stance_text_f64(n->text, &l.seconds))
            l.seconds = 0;
        n         = stance_config_get(root, "expect.leak_free");
        l.watched = n != NULL && n->text != NULL && strcmp(n->text, "true") == 0 && !SANITIZED;
    }
    stance_config_free(c);
    return l;
}

/* The process of a case. With a memory checker at hand, leak_free is what that finds. */
static void be_child(const char *folder, bool watched, int verdict, int output)
{
    char self[4096];

    setpgid(0, 0);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    dup2(verdict, VERDICT_FD);
    if (!watched) {
        fcntl(VERDICT_FD, F_SETFD, FD_CLOEXEC);
        exit(run_here(folder));
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = '\0';
        setenv("WALK_WATCHED", "1", 1);
        execlp("valgrind", "valgrind", "-q", "--error-exitcode=99", "--leak-check=full",
               "--errors-for-leak-kinds=definite", self, "--here", folder, (char *)NULL);
    }
    fcntl(VERDICT_FD, F_SETFD, FD_CLOEXEC);
    exit(run_here(folder));
}

/* What a process that ended badly has printed: the line of a checker, or the last one. */
static void last_words(int output, char *text, size_t size)
{
    static char all[64 << 10];
    ssize_t     n = pread(output, all, sizeof all - 1, 0);
    char       *at, *line = all;

    all[n > 0 ? n : 0] = '\0';
    at                 = strstr(all, "SUMMARY: ");
    if (at == NULL)
        at = strstr(all, "runtime error: ");
    if (at == NULL)
        at = strstr(all, "==");
    if (at == NULL) {
        for (char *c = all; *c != '\0'; c++)
            if (*c == '\n' && c[1] != '\0')
                line = c + 1;
        at = line;
    }
    snprintf(text, size, "%.*s", (int)strcspn(at, "\n"), at);
}

/* Reads the verdict until the process closes its end. @return false: time is up */
static bool read_verdict(int from, double until, char *text, size_t size)
{
    size_t len = 0;

    for (;;) {
        struct pollfd p    = { from, POLLIN, 0 };
        double        left = until - now();
        ssize_t       n;
        char          spill[64];

        if (left <= 0)
            return false;
        if (poll(&p, 1, (int)(left * 1000) + 1) <= 0)
            continue;
        n = len + 1 < size ? read(from, text + len, size - 1 - len)
                           : read(from, spill, sizeof spill);
        if (n <= 0)
            break;
        if (len + 1 < size)
            len += (size_t)n;
    }
    text[len] = '\0';
    return true;
}

/* Waits for the end, which may hang in an exit handler. @return false: time is up */
static bool wait_until(pid_t child, double until, int *status)
{
    pid_t got;

    while ((got = waitpid(child, status, WNOHANG)) == 0 && now() < until)
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    return got == child;
}

static void walk_case(const char *folder, const char *name, struct totals *t)
{
    struct limits l = limits_of(folder);
    int           ends[2], status = 0, output;
    char          file[] = "/tmp/walk-output-XXXXXX", verdict[1000] = "", words[300] = "";
    double start = now(), until = start + (l.seconds > 0 ? l.seconds + GRACE : SECONDS), took;
    pid_t  child;
    bool   ended;

    output = mkstemp(file);
    if (output < 0 || unlink(file) != 0 || pipe2(ends, O_CLOEXEC) != 0) {
        perror("walk_cases");
        exit(2);
    }
    fcntl(output, F_SETFD, FD_CLOEXEC);
    fflush(NULL);
    child = fork();
    if (child < 0) {
        perror("walk_cases");
        exit(2);
    }
    if (child == 0)
        be_child(folder, l.watched, ends[1], output);
    close(ends[1]);
    ended = read_verdict(ends[0], until, verdict, sizeof verdict);
    took  = now() - start;
    ended = ended && wait_until(child, until, &status);
    if (!ended) {
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
    }
    close(ends[0]);
    last_words(output, words, sizeof words);
    close(output);
    if (!ended)
        printf("fail %s: did not end within %.0f s%s\n", name, until - start,
               verdict[0] != '\0' ? ", though it was done" : "");
    else if (WIFSIGNALED(status))
        printf("fail %s: ended by signal %d (%s) %s\n", name, WTERMSIG(status),
               strsignal(WTERMSIG(status)), words);
    else if (WEXITSTATUS(status) != 0)
        printf("fail %s: the process ended with status %d: %s\n", name, WEXITSTATUS(status), words);
    else if (verdict[0] == 'u')
        printf("unknown %s: %s\n", name, verdict + 1);
    else if (verdict[0] != 'p')
        printf("fail %s: %s\n", name, verdict[0] == 'f' ? verdict + 1 : "no verdict");
    else if (l.seconds > 0 && took > l.seconds)
        printf("fail %s: took %.1f s, at most %g are allowed\n", name, took, l.seconds);
    else {
        printf("pass %s\n", name);
        t->passed++;
        return;
    }
    if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0 && verdict[0] == 'u')
        t->unknown++;
    else
        t->failed++;
}

static int no_dots(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

/* @param area  last part of the folder above */
static void walk_folder(const char *folder, int depth, struct totals *t)
{
    char            path[4096], name[600];
    struct dirent **list;
    const char     *base, *area;
    int             n;

    if (snprintf(path, sizeof path, "%s/case.yaml", folder) < (int)sizeof path
        && access(path, F_OK) == 0) {
        base = strrchr(folder, '/');
        for (area = base; area > folder && area[-1] != '/';)
            area--;
        snprintf(name, sizeof name, "%.500s", area);
        walk_case(folder, name, t);
        return;
    }
    n = depth > 0 ? scandir(folder, &list, no_dots, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        struct stat s;

        if (snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name) < (int)sizeof path
            && stat(path, &s) == 0 && S_ISDIR(s.st_mode))
            walk_folder(path, depth - 1, t);
        free(list[i]);
    }
    if (n > 0)
        free(list);
}

int main(int argc, char **argv)
{
    struct totals t      = { 0 };
    const char   *shared = getenv("STANCE_SHARED");
    char          path[4096], *real;

    setvbuf(stdout, NULL, _IOLBF, 0);
    LTDL_SET_PRELOADED_SYMBOLS();
    /* Cases ask for more threads than there may be cores; those that spin keep others from work. */
    setenv("OMP_WAIT_POLICY", "passive", 0);
    if (argc == 3 && strcmp(argv[1], "--here") == 0)
        return run_here(argv[2]);
    if (argc < 2) {
        snprintf(path, sizeof path, "%.4000s/cases", shared != NULL ? shared : "");
        if (shared == NULL || access(path, R_OK) != 0) {
            printf("SKIPPED: the shared cases are absent\n");
            return 77;
        }
        argv[1] = path;
        argc    = 2;
    }
    for (int i = 1; i < argc; i++) {
        int before = t.passed + t.failed + t.unknown;

        real = realpath(argv[i], NULL);
        if (real != NULL)
            walk_folder(real, DEPTH, &t);
        free(real);
        if (t.passed + t.failed + t.unknown == before) {
            printf("fail %s: no case.yaml there\n", argv[i]);
            t.failed++;
        }
    }
    printf("%d passed, %d failed, %d unknown\n", t.passed, t.failed, t.unknown);
    return t.failed > 0;
}
