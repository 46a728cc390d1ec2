/* SPDX-License-Identifier: Apache-2.0
 *
 * Whole runs by the program: what they leave, how they go on after any kind of end, and how they fail. */
#include "config.h"

#include "golden.h"
#include "program.h"

#include "train/checkpoint.h"

#include <stance/log.h>

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

/* 22 samples: five batches of 4 and one of 2 an epoch; windows of 4 batches end inside epochs. */
static const char recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [16]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data:\n  dataset: synthetic\n  input_size: [64, 64]\n  heatmap_size: [4, 4]\n  sigma: 1\n"
    "  train: {samples: 22}\n  val: {samples: 6}\n"
    "train:\n  epochs: 3\n  batch_size: 4\n  workers: 1\n  eval_interval: 1\n  log_interval: 1\n"
    "  checkpoint: {epochs: 1, keep: null}\n  optimizer: {name: adam, lr: 5.0e-4}\n"
    "  schedule: {name: step, steps: [2], warmup: linear, warmup_iters: 5, warmup_ratio: 0.1}\n"
    "device: ref\nthreads: 1\n";

static const char *device; /* cpu, or ref where that one is absent */

static void start(void)
{
    program_start();
    program_write("r.yaml", recipe);
    device = program_run("inspect --exists device/cpu") == 0 ? "cpu" : "ref";
}

static void *slurp(const char *path, size_t *size)
{
    struct stat st;

    ck_assert_msg(stat(path, &st) == 0, "%s", path);
    return golden_bytes(path, size);
}

/* Tensors, counters, scaler, recipe: a checkpoint is a function of the run, so the whole file is. */
static void same_file(const char *a, const char *b, const char *what)
{
    size_t n, m;
    char  *x = slurp(program_path(a), &n), *y = slurp(program_path(b), &m);

    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s: %s (%zu bytes) and %s (%zu) differ", what, a, n, b, m);
    free(x);
    free(y);
}

static json_t *metadata(const char *name)
{
    size_t  size;
    char   *bytes  = slurp(program_path(name), &size);
    json_t *header = golden_header(bytes), *meta = json_object_get(header, "__metadata__");

    ck_assert_msg(json_is_object(meta), "%s", name);
    json_incref(meta);
    json_decref(header);
    free(bytes);
    return meta;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    ck_assert_msg(text != NULL, "no %s", key);
    return text;
}

/* Names in a folder of the test's that begin and end so; the first of them in @p found. */
static int files(const char *folder, const char *begin, const char *end, char *found, size_t size)
{
    DIR           *d = opendir(program_path(folder));
    struct dirent *e;
    int            n = 0;

    ck_assert_msg(d != NULL, "%s", folder);
    while ((e = readdir(d)) != NULL) {
        size_t a = strlen(e->d_name), b = strlen(end);

        if (strncmp(e->d_name, begin, strlen(begin)) != 0 || a < b || strcmp(e->d_name + a - b, end) != 0)
            continue;
        if (n++ == 0 && found != NULL)
            snprintf(found, size, "%s", e->d_name);
    }
    closedir(d);
    return n;
}

#define TRAIN_OK(...) ck_assert_msg(program_run(__VA_ARGS__) == 0, "%s", program_err)

/* ---- going on --------------------------------------------------------------------------------------------- */

static const struct { const char *label, *options; } runs[] = {
    { "fp32", "" },
    { "fp32, windows of 4", "--accumulate 4" },
    { "bf16, windows of 3", "--precision bf16 --accumulate 3" },
    { "fp16, windows of 4", "--precision fp16 --accumulate 4 --scaler dynamic:growth_interval=2,init_scale=4096" },
    { "fp16", "--precision fp16 --scaler dynamic:growth_interval=3" },
    { "bf16, masters rounded at random", "--precision bf16 --set train.optimizer.master=bf16_stochastic --seed 3" },
    { "bf16, compensated masters", "--precision bf16 --accumulate 4 --set train.optimizer.master=bf16_kahan" },
    { "averaged weights", "--accumulate 4 --set train.ema.decay=0.9 --set train.ema.warmup=ratio" },
    { "flush", "--accumulate 4 --set train.accumulate_flush=true --set train.on_skip=hold" },
};
enum { RUNS = sizeof runs / sizeof *runs };

START_TEST(resumed_run_is_the_undisturbed_one)
{
    DIR           *d;
    struct dirent *e;
    char           options[400], last[100] = "", a[600];
    int            tried = 0, inside = 0;
    long           newest = -1;

    if (strstr(runs[_i].options, "--precision") != NULL && strcmp(device, "cpu") != 0) {
        SKIP("resume in %s: device 'cpu' is absent", runs[_i].label);
        return;
    }
    snprintf(options, sizeof options, "--device %s --quiet %s", device, runs[_i].options);
    TRAIN_OK("train r.yaml --work-dir whole %s --set train.checkpoint.steps=1", options);
    d = opendir(program_path("whole"));
    ck_assert_ptr_nonnull(d);
    while ((e = readdir(d)) != NULL)
        if (strncmp(e->d_name, "step_", 5) == 0 && atol(e->d_name + 5) > newest) {
            newest = atol(e->d_name + 5);
            snprintf(last, sizeof last, "%.90s", e->d_name);
        }
    rewinddir(d);
    /* From each checkpoint on: at the end of an epoch, within it, within a window. */
    while ((e = readdir(d)) != NULL) {
        json_t *meta;
        char    from[600], b[600];

        if (strncmp(e->d_name, "step_", 5) != 0 || strcmp(e->d_name, last) == 0)
            continue;
        if (atol(e->d_name + 5) > 3 && atol(e->d_name + 5) % 5 != 0)
            continue; /* enough of them */
        snprintf(from, sizeof from, "whole/%.250s", e->d_name);
        meta = metadata(from);
        inside += strcmp(text_of(meta, "stance.micro"), "0") != 0;
        json_decref(meta);
        TRAIN_OK("train r.yaml --work-dir from_%ld %s --set train.checkpoint.steps=1 --resume=%s", atol(e->d_name + 5), options,
                 from);
        snprintf(a, sizeof a, "whole/%s", last);
        snprintf(b, sizeof b, "from_%ld/%s", atol(e->d_name + 5), last);
        same_file(a, b, runs[_i].label);
        snprintf(b, sizeof b, "from_%ld/best_AP.safetensors", atol(e->d_name + 5));
        tried++;
    }
    closedir(d);
    ck_assert_int_ge(tried, 3);
    if (strstr(runs[_i].options, "accumulate 4") != NULL && strstr(runs[_i].options, "flush") == NULL)
        ck_assert_int_ge(inside, 1);
    /* In one folder, run by run: each ends early and the next finds where it was. */
    for (int k = 2; k <= 4; k += 2)
        TRAIN_OK("train r.yaml --work-dir parts %s --max-steps %d --resume", options, k);
    TRAIN_OK("train r.yaml --work-dir parts %s --set train.checkpoint.steps=1 --resume", options);
    snprintf(a, sizeof a, "parts/%s", last);
    {
        char b[600];

        snprintf(b, sizeof b, "whole/%s", last);
        same_file(a, b, "in parts");
    }
    printf("%s: resumed from %d checkpoints, %d of them inside a window\n", runs[_i].label, tried, inside);
}
END_TEST

/* Ended between the checkpoint of the last step and the end of its epoch: that end is still to come, and to
 * be kept, though no step is left to do. */
START_TEST(end_of_the_epoch_is_made_up_for)
{
    const char *options = "--quiet --set train.checkpoint.epochs=null --set train.checkpoint.steps=1";
    json_t     *meta;

    TRAIN_OK("train r.yaml --work-dir three --device %s %s", device, options);
    TRAIN_OK("train r.yaml --work-dir two --device %s %s --epochs 2", device, options);
    meta = metadata("three/step_12.safetensors");
    ck_assert_str_eq(text_of(meta, "stance.batch"), "6");
    json_decref(meta);
    TRAIN_OK("train r.yaml --work-dir late --device %s %s --epochs 2 --resume=three/step_12.safetensors", device, options);
    same_file("two/step_12.safetensors", "late/step_12.safetensors", "end of the epoch");
    /* And once more there is nothing to do, nor to write. */
    ck_assert_int_eq(program_shell("rm %s/late/last_checkpoint", program_folder), 0);
    TRAIN_OK("train r.yaml --work-dir late --device %s %s --epochs 2 --resume", device, options);
    ck_assert_int_ne(access(program_path("late/last_checkpoint"), F_OK), 0);
}
END_TEST

/* The program, started and not waited for. */
static pid_t spawn(const char *arguments)
{
    char  command[8192];
    pid_t child;

    snprintf(command, sizeof command, "cd %s && exec '%s' %s > out 2> err", program_folder, getenv("STANCE_PROGRAM"), arguments);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static int wait_for(pid_t child)
{
    int status;

    ck_assert_int_eq(waitpid(child, &status, 0), child);
    program_read(program_path("out"), program_out, sizeof program_out);
    program_read(program_path("err"), program_err, sizeof program_err);
    return status;
}

static void sleep_ms(double ms)
{
    struct timespec t = { (time_t)(ms / 1000), (long)(fmod(ms, 1000) * 1e6) };

    nanosleep(&t, NULL);
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* Killed at ten moments; each start goes on from what is there. */
START_TEST(killed_run_ends_with_the_same_bytes)
{
    char     options[300], arguments[600];
    double   first, spent;
    uint64_t random = 88172645463325252u;
    int      kills = 0, resumed = 0, status = -1;

    snprintf(options, sizeof options,
             "--device %s --epochs 16 --accumulate 2 --set train.checkpoint.steps=1 --set train.checkpoint.keep=2 --set "
             "train.seed=3", device);
    first = now_ms();
    TRAIN_OK("train r.yaml --quiet --work-dir one %s --max-steps 1", options);
    first = now_ms() - first;
    spent = now_ms();
    TRAIN_OK("train r.yaml --quiet --work-dir whole %s", options);
    spent = now_ms() - spent;
    snprintf(arguments, sizeof arguments, "train r.yaml --work-dir killed --resume %s", options);
    for (int i = 0; i < 60 && status != 0; i++) {
        pid_t child = spawn(arguments);

        if (kills < 10) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            /* From within the start to an eighth of the steps further on. */
            sleep_ms(0.5 * first + (0.5 * first + 0.12 * fmax(spent - first, 0)) * (double)(random >> 40) / 16777216);
            kill(child, SIGKILL);
        }
        status = wait_for(child);
        ck_assert_msg(WIFSIGNALED(status) || status == 0, "%s", program_err);
        kills += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        resumed += strstr(program_err, "resumed from") != NULL;
    }
    ck_assert_int_eq(status, 0);
    same_file("whole/step_48.safetensors", "killed/step_48.safetensors", "after kills");
    printf("%d kills, %d starts went on from a checkpoint\n", kills, resumed);
    ck_assert_int_ge(kills, 5);
}
END_TEST

static const struct { int signal, status; } signals[] = { { SIGTERM, 143 }, { SIGINT, 130 } };

START_TEST(signal_leaves_a_checkpoint)
{
    char   arguments[600], text[200], begun[640];
    int    status, n;
    double since;
    pid_t  child;

    snprintf(arguments, sizeof arguments,
             "train r.yaml --device %s --epochs 60 --set train.eval_interval=50 --set train.checkpoint.epochs=null "
             "--accumulate 4 --quiet", device);
    TRAIN_OK("%s --work-dir whole", arguments);
    snprintf(begun, sizeof begun, "%s --work-dir w", arguments);
    child = spawn(begun);
    /* Once the run is under way, which its log shows. */
    for (since = now_ms(), n = 0; n == 0 && now_ms() - since < 60000; sleep_ms(5)) {
        char folder[300], log[700];
        struct stat st;

        if (access(program_path("w"), F_OK) != 0 || files("w", "20", "", folder, sizeof folder) == 0)
            continue;
        snprintf(log, sizeof log, "w/%s/scalars.jsonl", folder);
        n = stat(program_path(log), &st) == 0 && st.st_size > 0;
    }
    kill(child, signals[_i].signal);
    status = wait_for(child);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == signals[_i].status, "status %x: %s", (unsigned)status,
                  program_err);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "checkpoint w/step_") != NULL, "%s", program_err);
    ck_assert_int_eq(files("w", "step_", ".safetensors", text, sizeof text), 1);
    TRAIN_OK("%s --resume", begun);
    same_file("whole/step_90.safetensors", "w/step_90.safetensors", "after the signal");
}
END_TEST

/* ---- which checkpoint -------------------------------------------------------------------------------------- */

START_TEST(damaged_and_foreign_files_are_passed_over)
{
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
    char              found[200];

    /* Nothing there: from the beginning, and it says so. */
    TRAIN_OK("train r.yaml --work-dir w --device %s --resume --set train.checkpoint.keep=3 --set train.checkpoint.steps=1",
             device);
    ck_assert_msg(strstr(program_err, "no checkpoint in w: starting from the beginning") != NULL, "%s", program_err);
    ck_assert_int_eq(files("w", "step_", ".safetensors", NULL, 0), 3);
    ck_assert_int_eq(files("w", "step_16", ".safetensors", NULL, 0), 1);
    ck_assert_int_eq(files("w", "step_18", ".safetensors", NULL, 0), 1);
    ck_assert_int_eq(files("w", "best_AP", ".safetensors", NULL, 0), 1);
    ck_assert_int_eq(files("w", "", ".tmp", NULL, 0), 0);
    /* The newest is cut; a leftover of a crash and weights without a run look newer still. */
    ck_assert_int_eq(program_shell("printf '%%s\\0\\0\\0\\0\\0\\0\\0%%s' '%c' '%s0000' > %s/w/weights_999.safetensors",
                                   (int)strlen(header), header, program_folder), 0);
    ck_assert_int_eq(program_shell("cd %s/w && truncate -s 100000 step_18.safetensors && cp step_17.safetensors "
                                   "step_99.safetensors.tmp && cp step_17.safetensors best_AP.safetensors", program_folder), 0);
    TRAIN_OK("train r.yaml --work-dir w --device %s --resume", device);
    ck_assert_msg(strstr(program_err, "passed over: w/step_18.safetensors") != NULL, "%s", program_err);
    ck_assert_msg(strstr(program_err, "resumed from w/step_17.safetensors at step 17") != NULL, "%s", program_err);
    /* Only the best one is left: that is none to go on from. */
    ck_assert_int_eq(program_shell("cd %s/w && rm step_*.safetensors weights_*", program_folder), 0);
    TRAIN_OK("train r.yaml --work-dir w --device %s --resume --max-steps 1", device);
    ck_assert_msg(strstr(program_err, "starting from the beginning") != NULL, "%s", program_err);
    /* Damaged ones only: not from the beginning, silently. */
    ck_assert_int_eq(files("w", "step_", ".safetensors", found, sizeof found), 1);
    ck_assert_int_eq(program_shell("cd %s/w && printf 'x' > %s", program_folder, found), 0);
    ck_assert_int_eq(program_run("train r.yaml --work-dir w --device %s --resume --quiet", device), 2);
    ck_assert_msg(strstr(program_err, "no whole checkpoint") != NULL, "%s", program_err);
}
END_TEST

static char warned[4096];

static void take_warning(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx, (void)level, (void)module;
    strncat(warned, text, sizeof warned - strlen(warned) - 1);
}

static const struct { const char *folder, *newest, *warns; } newest_cases[] = {
    { "cases/checkpoint/leftover-temporary-file/run", "step-000100.safetensors", NULL },
    { "cases/checkpoint/resume-past-damaged-newest/run", "step-000200.safetensors", "step-000300.safetensors" },
};

START_TEST(newest_of_a_folder)
{
    struct stance_error err = STANCE_ERROR_INIT;
    const char         *folder = shared_file(newest_cases[_i].folder);
    char               *path;

    if (folder == NULL) {
        SKIP("%s is absent", newest_cases[_i].folder);
        return;
    }
    stance_log_set_sink(take_warning, NULL);
    ck_assert_int_eq(stance_checkpoint_newest(folder, &path, &err), STANCE_OK);
    ck_assert_ptr_nonnull(path);
    ck_assert_str_eq(strrchr(path, '/') + 1, newest_cases[_i].newest);
    ck_assert_msg(newest_cases[_i].warns == NULL ? warned[0] == '\0' : strstr(warned, newest_cases[_i].warns) != NULL, "%s",
                  warned);
    stance_free(path);
}
END_TEST

/* A checkpoint of another run: said, not taken. */
START_TEST(unfitting_checkpoints_are_refused)
{
    const char *weights;
    json_t     *meta;

    TRAIN_OK("train r.yaml --work-dir w --device %s --quiet --max-steps 2", device);
    ck_assert_int_eq(program_run("train r.yaml --work-dir v --device %s --quiet --resume=w/step_2.safetensors --set "
                                 "train.optimizer=sgd", device), 2);
    ck_assert_msg(strstr(program_err, "optimizer 'adam'") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run("train r.yaml --work-dir v --device %s --quiet --resume=w/step_2.safetensors --set "
                                 "model.backbone.base_channels=16", device), 2);
    ck_assert_msg(strstr(program_err, "w/step_2.safetensors") != NULL && program_lines(program_err) == 1, "%s", program_err);
    ck_assert_int_eq(program_run("train r.yaml --work-dir v --device %s --quiet --resume=gone.safetensors", device), 2);
    ck_assert_msg(strstr(program_err, "gone.safetensors") != NULL && program_lines(program_err) == 1, "%s", program_err);
    /* Only the weights of it. */
    TRAIN_OK("train r.yaml --work-dir v --device %s --quiet --load w/step_2.safetensors --max-steps 1", device);
    meta = metadata("v/step_1.safetensors");
    ck_assert_str_eq(text_of(meta, "stance.applied"), "1");
    json_decref(meta);
    /* Weights of another tool are none to go on from. */
    weights = shared_file("golden/nets/resnet18_c8.init.safetensors");
    if (weights != NULL) {
        ck_assert_int_eq(program_run("train r.yaml --work-dir v --device %s --quiet --resume='%s'", device, weights), 2);
        ck_assert_msg(strstr(program_err, "use --load") != NULL, "%s", program_err);
    }
    /* An epoch of other batches has no such place. */
    TRAIN_OK("train r.yaml --work-dir u --device %s --quiet --max-steps 5", device);
    ck_assert_int_eq(program_run("train r.yaml --work-dir u --device %s --quiet --resume --batch-size 11", device), 2);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "step_5.safetensors: stopped at batch 5") != NULL, "%s",
                  program_err);
    /* Nor has a window of fewer batches: two of four are done at the end of this epoch. */
    TRAIN_OK("train r.yaml --work-dir t --device %s --quiet --epochs 2 --accumulate 4", device);
    meta = metadata("t/step_1.safetensors");
    ck_assert_str_eq(text_of(meta, "stance.micro"), "2");
    json_decref(meta);
    ck_assert_int_eq(program_run("train r.yaml --work-dir t --device %s --quiet --resume=t/step_1.safetensors --accumulate 2", device),
                     2);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "train.accumulate is 2") != NULL, "%s", program_err);
}
END_TEST

/* ---- what a run leaves ------------------------------------------------------------------------------------- */

static const char *const train_keys[] = { "lr", "data_time", "loss", "grad_norm", "time", "loss_scale", "skipped", "throughput",
                                          "epoch", "iter", "step", NULL };
static const char *const eval_keys[] = { "AP", "AP50", "AP75", "APM", "APL", "AR", "AR50", "AR75", "ARM", "ARL", "step", NULL };

START_TEST(work_folder)
{
    char    folder[200], name[600], line[8192], *resolved, again[600];
    FILE   *f;
    int     trained = 0, evaluated = 0;
    size_t  size;
    json_t *meta;

    TRAIN_OK("train r.yaml --work-dir w --device %s --epochs 2 --quiet", device);
    ck_assert_str_eq(program_out, "");
    ck_assert_int_eq(files("w", "step_12.", "safetensors", NULL, 0), 1);
    ck_assert_int_eq(files("w", "best_AP.", "safetensors", NULL, 0), 1);
    program_read(program_path("w/last_checkpoint"), line, sizeof line);
    ck_assert_str_eq(line, "w/step_12.safetensors\n");
    ck_assert_int_eq(files("w", "20", "", folder, sizeof folder), 1);
    ck_assert_msg(strlen(folder) == 15 && folder[8] == '_', "%s", folder);
    snprintf(name, sizeof name, "w/%s", folder);
    ck_assert_int_eq(files(name, "train.log", "", NULL, 0), 1);
    snprintf(name, sizeof name, "w/%s/environment.txt", folder);
    program_read(program_path(name), line, sizeof line);
    ck_assert_msg(strstr(line, "stance: " PACKAGE_VERSION) == line && strstr(line, "\nprecision: fp32\n") != NULL
                  && strstr(line, "\ndevice: ") != NULL, "%s", line);
    snprintf(name, sizeof name, "w/%s/train.log", folder);
    program_read(program_path(name), line, sizeof line);
    ck_assert_msg(strstr(line, "Epoch(train) [1][1/6]") != NULL && strstr(line, "Epoch(val) [2]") != NULL, "%s", line);
    /* Every line is an object with the keys of the contract; steps go up. */
    snprintf(name, sizeof name, "w/%s/scalars.jsonl", folder);
    f = fopen(program_path(name), "r");
    ck_assert_ptr_nonnull(f);
    for (long step = 0; fgets(line, sizeof line, f) != NULL;) {
        json_t *o = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
        bool    evaluation;

        ck_assert_msg(json_is_object(o), "%s", line);
        evaluation = json_object_get(o, "AP") != NULL;
        for (const char *const *k = evaluation ? eval_keys : train_keys; *k != NULL; k++)
            ck_assert_msg(json_is_number(json_object_get(o, *k)), "%s: %s", *k, line);
        ck_assert_int_ge(json_integer_value(json_object_get(o, "step")), step);
        step = (long)json_integer_value(json_object_get(o, "step"));
        *(evaluation ? &evaluated : &trained) += 1;
        json_decref(o);
    }
    fclose(f);
    ck_assert(trained == 12 && evaluated == 2);
    /* recipe.yaml is the resolved recipe: it reads back to itself, and stands in the checkpoint. */
    snprintf(name, sizeof name, "w/%s/recipe.yaml", folder);
    resolved = slurp(program_path(name), &size);
    TRAIN_OK("config %s", name);
    ck_assert_str_eq(program_out, resolved);
    TRAIN_OK("config r.yaml --device %s --set train.epochs=2", device);
    ck_assert_str_eq(program_out, resolved);
    meta = metadata("w/step_12.safetensors");
    ck_assert_str_eq(text_of(meta, "stance.recipe"), resolved);
    ck_assert_str_eq(text_of(meta, "stance.step"), "12");
    ck_assert_str_eq(text_of(meta, "stance.epoch"), "2");
    ck_assert_str_eq(text_of(meta, "stance.applied"), "12");
    json_decref(meta);
    /* The same run again from what it says of itself, in a second folder of starts. */
    TRAIN_OK("train %s --work-dir again --quiet", name);
    snprintf(again, sizeof again, "again/step_12.safetensors");
    same_file("w/step_12.safetensors", again, "from recipe.yaml");
    free(resolved);
    /* Without --work-dir it is work_dirs/RECIPE. */
    TRAIN_OK("train r.yaml --device %s --max-steps 1 --quiet", device);
    ck_assert_int_eq(files("work_dirs/r", "step_1.", "safetensors", NULL, 0), 1);
}
END_TEST

/* ---- less memory ---------------------------------------------------------------------------------------------- */

/* The tensors of a checkpoint; what is before them holds the recipe, which differs. */
static char *tensors(const char *name, size_t *size)
{
    char    *bytes = slurp(program_path(name), size);
    uint64_t header;

    memcpy(&header, bytes, sizeof header); /* little-endian, as the machines that this runs on */
    ck_assert_uint_lt(8 + header, *size);
    *size -= 8 + header;
    memmove(bytes, bytes + 8 + header, *size);
    return bytes;
}

static const char *const recomputes[] = { "norm", "block" };

/* With a smaller last batch, windows of three, evaluation, and a change of mind on resume. */
START_TEST(recomputation_changes_no_byte)
{
    char   options[256], *want, *have;
    size_t n, m;

    snprintf(options, sizeof options, "--quiet --device %s --epochs 2 --accumulate 3%s", device,
             strcmp(device, "cpu") == 0 ? " --precision bf16" : "");
    TRAIN_OK("train r.yaml --work-dir none %s", options);
    TRAIN_OK("train r.yaml --work-dir some %s --set memory.recompute=%s", options, recomputes[_i]);
    TRAIN_OK("train r.yaml --work-dir both %s --max-steps 2", options);
    TRAIN_OK("train r.yaml --work-dir both %s --set memory.recompute=%s --resume", options, recomputes[_i]);
    want = tensors("none/step_4.safetensors", &n);
    for (int i = 0; i < 2; i++) {
        have = tensors(i == 0 ? "some/step_4.safetensors" : "both/step_4.safetensors", &m);
        ck_assert_msg(n == m && memcmp(want, have, n) == 0, "%s: other tensors", i == 0 ? "from the start" : "resumed");
        free(have);
    }
    free(want);
    TRAIN_OK("bench r.yaml --device %s --steps 1 --warmup 0 --json --set memory.recompute=%s", device, recomputes[_i]);
    ck_assert_msg(strstr(program_out, "\"arena_bytes\"") != NULL, "%s", program_out);
}
END_TEST

/* ---- failing -------------------------------------------------------------------------------------------------- */

static const struct { const char *arguments; int status; const char *says; } failures[] = {
    { "train gone.yaml", 2, "gone.yaml" },
    { "train broken.yaml", 2, "broken.yaml:3:6: " },
    { "train r.yaml --set train.lr=1", 2, "train.optimizer" },
    { "train r.yaml --set train.optimizer.lr=fast", 2, "lr" },
    { "train r.yaml --set train.epochs=0", 2, "train.epochs: 0 is outside" },
    { "train r.yaml --scaler dynamic:growth_interval=0", 2, "growth_interval: 0 is outside [1, 1000000] steps" },
    { "train r.yaml --scaler nothing_of_the_kind", 3, "scaler 'nothing_of_the_kind': not found" },
    { "train r.yaml --device tpu", 3, "device 'tpu': not found" },
    { "train r.yaml --set model.backbone.name=hourglass", 3, "backbone 'hourglass': not found" },
    { "train r.yaml --set data.heatmap_size=[5,5]", 2, "heatmap_size is 5x5" },
    { "train r.yaml --device ref --precision fp16", 3, "device 'ref' has no fp16" },
    { "train r.yaml --work-dir r.yaml/w", 1, "r.yaml" },
    { "train r.yaml --work-dir /proc/nothing", 1, "/proc/nothing" },
    { "train r.yaml --load gone.pth", 2, "gone.pth" },
    { "train r.yaml --set model.pretrained=gone.pth", 2, "gone.pth" },
    { "train r.yaml --resume --load r.yaml", 2, "contradict" },
    { "train r.yaml s.yaml", 2, "unexpected argument" },
    { "train r.yaml --set memory.recompute=all", 2, "recompute" },
    { "train coco.yaml", 2, "gone.json" },
    { "test r.yaml gone.safetensors", 2, "gone.safetensors" },
    { "test r.yaml", 2, "an argument is missing" },
    { "predict r.yaml gone.safetensors gone.jpg", 2, "gone" },
    { "trace r.yaml", 2, "--weights" },
    { "check coco.yaml", 2, "gone.json" },
};

START_TEST(failures_are_one_line)
{
    program_write("broken.yaml", "model:\n  backbone: {name: resnet\ntrain: 1\n");
    program_write("coco.yaml", "_base_: [r.yaml]\ndata:\n  dataset: coco\n  train: {annotations: gone.json, images: .}\n"
                               "  val: {annotations: gone.json, images: .}\n");
    ck_assert_msg(program_run("%s", failures[_i].arguments) == failures[_i].status, "%s: not %d: %s", failures[_i].arguments,
                  failures[_i].status, program_err);
    ck_assert_msg(strstr(program_err, failures[_i].says) != NULL, "%s", program_err);
    ck_assert_msg(program_lines(program_err) == 1 && strncmp(program_err, "stance: ", 8) == 0, "%s", program_err);
    if (strncmp(failures[_i].arguments, "check", 5) != 0) /* which tells what it has found good */
        ck_assert_str_eq(program_out, "");
}
END_TEST

/* A full disk: files may not grow past 400 KiB, a checkpoint is larger. */
START_TEST(full_disk)
{
    int status = program_shell("cd %s && trap '' XFSZ && ulimit -f 400 && '%s' train r.yaml --device %s --quiet --work-dir w "
                               "--max-steps 1 > out 2> err", program_folder, getenv("STANCE_PROGRAM"), device);

    program_read(program_path("err"), program_err, sizeof program_err);
    ck_assert_msg(status == 1, "%d: %s", status, program_err);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "w/step_1.safetensors") != NULL, "%s", program_err);
    ck_assert_int_eq(files("w", "step_", "", NULL, 0), 0); /* nor a temporary one */
    ck_assert_int_ne(access(program_path("w/last_checkpoint"), F_OK), 0);
}
END_TEST

/* Divergence: exit status 4, the tensor named, no checkpoint of it. */
START_TEST(divergence)
{
    ck_assert_msg(program_run("train r.yaml --device %s --quiet --work-dir w --epochs 30 --set train.max_consecutive_skips=3 --set "
                              "train.optimizer.lr=1000 --set train.optimizer.name=sgd --set model.loss.loss_weight=1e6", device) == 4, "%s", program_err);
    ck_assert_msg(strstr(program_err, "3 steps in a row had non-finite gradients") != NULL && program_lines(program_err) == 1
                  && (strstr(program_err, "first in backbone.") != NULL || strstr(program_err, "first in keypoint_head.") != NULL),
                  "%s", program_err);
}
END_TEST

/* A plugin file that is missing hurts only those who name it. */
START_TEST(missing_plugin_file)
{
    const char *list = getenv("STANCE_PLUGIN_PATH");
    char        environment[300];

    ck_assert_ptr_nonnull(list);
    ck_assert_int_eq(program_shell("cd %s && mkdir plugins && for d in $(echo '%s' | tr : ' '); do for f in $d/.libs/*.so; do "
                                   "test -e $f && cp $f plugins; done; done; test -e plugins/backbone_hrnet.so",
                                   program_folder, list) != 0 ? 1 : 0, access(program_path("plugins/backbone_hrnet.so"), F_OK) != 0);
    if (access(program_path("plugins/backbone_hrnet.so"), F_OK) != 0) {
        SKIP("missing plugin file: plugins are part of the program");
        return;
    }
    ck_assert_int_eq(remove(program_path("plugins/backbone_hrnet.so")), 0);
    snprintf(environment, sizeof environment, "STANCE_PLUGIN_PATH=%s/plugins", program_folder);
    ck_assert_msg(program_run_in(environment, "train r.yaml --device %s --quiet --work-dir w --max-steps 1", device) == 0, "%s",
                  program_err);
    program_write("hrnet.yaml", "_base_: [r.yaml]\nmodel:\n  backbone: {_delete_: true, name: hrnet, width: 4}\n"
                                "  head: {deconv: []}\ndata: {heatmap_size: [16, 16]}\n");
    ck_assert_msg(program_run_in(environment, "train hrnet.yaml --device %s --work-dir w --max-steps 1", device) == 3, "%s",
                  program_err);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "backbone 'hrnet': not found") != NULL, "%s",
                  program_err);
    /* One that does not load: the reason is told. */
    program_write("plugins/backbone_hrnet.so", "not an object file");
    ck_assert_int_eq(program_run_in(environment, "train hrnet.yaml --device %s --work-dir w --max-steps 1", device), 3);
    ck_assert_msg(program_lines(program_err) == 1 && strstr(program_err, "file too short") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run_in(environment, "train r.yaml --device %s --quiet --work-dir w --max-steps 1", device), 0);
}
END_TEST

/* One gcc line, one variable. */
START_TEST(scaler_out_of_the_tree)
{
    const char *source = getenv("STANCE_SRCDIR");
    char        environment[5000];
    json_t     *meta;

    if (source == NULL || program_shell(TEST_CC " --version > /dev/null 2>&1") != 0) {
        SKIP("training with an out-of-tree scaler: no compiler");
        return;
    }
    ck_assert_int_eq(program_shell(TEST_CC " -shared -fPIC -I %s/core %s/tests/scaler_mine.c -o %s/scaler_mine.so", source, source,
                                   program_folder), 0);
    snprintf(environment, sizeof environment, "STANCE_PLUGIN_PATH=%s:%s", program_folder, getenv("STANCE_PLUGIN_PATH"));
    ck_assert_msg(program_run_in(environment, "train r.yaml --device %s --quiet --work-dir w --max-steps 2 --scaler mine:first=256",
                                 device) == 0, "%s", program_err);
    meta = metadata("w/step_2.safetensors");
    ck_assert_str_eq(text_of(meta, "stance.scaler"), "mine:scale=256");
    json_decref(meta);
    ck_assert_int_eq(program_run("train r.yaml --device %s --quiet --work-dir w --scaler mine", device), 3);
}
END_TEST

/* ---- the other verbs ------------------------------------------------------------------------------------------ */

static json_t *json_out(void)
{
    json_t *o = json_loads(program_out, JSON_REJECT_DUPLICATES, NULL);

    ck_assert_msg(o != NULL, "%s", program_out);
    return o;
}

START_TEST(test_verb)
{
    json_t *o, *list;
    size_t  n;

    TRAIN_OK("train r.yaml --device %s --quiet --work-dir w --max-steps 6", device);
    TRAIN_OK("test r.yaml w/step_6.safetensors --device %s --json --out results.json", device);
    o = json_out();
    for (const char *const *k = eval_keys; strcmp(*k, "step") != 0; k++)
        ck_assert_msg(json_is_number(json_object_get(o, *k)), "%s", *k);
    ck_assert_uint_eq(json_object_size(o), 10);
    ck_assert_str_eq(program_err, "");
    json_decref(o);
    list = golden_json(program_path("results.json"));
    n    = json_array_size(list);
    ck_assert(n > 0 && n <= 6);
    for (size_t i = 0; i < n; i++) {
        o = json_array_get(list, i);
        ck_assert_uint_eq(json_array_size(json_object_get(o, "keypoints")), 51);
        ck_assert(json_is_integer(json_object_get(o, "image_id")) && json_is_number(json_object_get(o, "score")));
    }
    json_decref(list);
    TRAIN_OK("test r.yaml w/step_6.safetensors --device %s", device);
    ck_assert_ptr_nonnull(strstr(program_out, "Average Precision"));
    /* The same numbers whatever the batch is. */
    TRAIN_OK("test r.yaml w/step_6.safetensors --device %s --json --set test.batch_size=6 --out other.json", device);
    if (strcmp(device, "ref") == 0)
        same_file("results.json", "other.json", "batch of evaluation");
}
END_TEST

START_TEST(predict_verb)
{
    const char *images = shared_file("data/coco-person/images"), *truth;
    char        image[4200], name[300];
    DIR        *d;
    struct dirent *e;
    json_t     *o, *person;

    if (images == NULL) {
        SKIP("predict: data/coco-person is absent");
        return;
    }
    d = opendir(images);
    ck_assert_ptr_nonnull(d);
    do
        e = readdir(d);
    while (e != NULL && strstr(e->d_name, ".jpg") == NULL);
    ck_assert_ptr_nonnull(e);
    snprintf(name, sizeof name, "%s", e->d_name);
    snprintf(image, sizeof image, "%s/%s", images, name);
    closedir(d);
    TRAIN_OK("train r.yaml --device %s --quiet --work-dir w --max-steps 1", device);
    TRAIN_OK("predict r.yaml w/step_1.safetensors '%s' --device %s", image, device);
    o = json_out();
    json_decref(o);
    TRAIN_OK("predict r.yaml w/step_1.safetensors '%s' --device %s --format coco", image, device);
    o = json_out();
    ck_assert_uint_eq(json_array_size(o), 1);
    person = json_array_get(o, 0);
    ck_assert_uint_eq(json_array_size(json_object_get(person, "keypoints")), 51);
    json_decref(o);
    TRAIN_OK("predict r.yaml w/step_1.safetensors '%s' --device %s --format csv --out p.csv --vis-dir vis --kpt-thr 0", image,
             device);
    ck_assert_str_eq(program_out, "");
    program_read(program_path("p.csv"), program_out, sizeof program_out);
    ck_assert_int_ge(program_lines(program_out), 2);
    ck_assert_int_eq(files("vis", "", ".png", NULL, 0), 1);
    /* A folder, and persons from annotations. */
    truth = shared_file("data/coco-person/annotations");
    ck_assert_ptr_nonnull(truth);
    d = opendir(truth);
    do
        e = readdir(d);
    while (e != NULL && (strstr(e->d_name, ".json") == NULL || strstr(e->d_name, "detections") != NULL));
    if (e != NULL)
        TRAIN_OK("predict r.yaml w/step_1.safetensors '%s' --device %s --boxes '%s/%s' --format coco --out all.json", images,
                 device, truth, e->d_name);
    closedir(d);
    o = golden_json(program_path("all.json"));
    ck_assert_uint_gt(json_array_size(o), 1);
    json_decref(o);
}
END_TEST

START_TEST(check_config_and_bench)
{
    static const struct { const char *key; bool integer; } keys[] = {
        { "images_per_second", false }, { "arena_bytes", true }, { "arena_lower_bound_bytes", true },
        { "peak_rss_bytes", true }, { "parameters", true }, { "batch_size", true }, { "loader_images_per_second", false },
    };
    json_t *o;

    TRAIN_OK("check r.yaml --device %s", device);
    ck_assert_msg(strstr(program_out, "data.train: 22 samples") != NULL && strstr(program_out, "model: resnet") != NULL, "%s",
                  program_out);
    TRAIN_OK("config r.yaml --origins");
    ck_assert_msg(strstr(program_out, "r.yaml:") != NULL, "%s", program_out);
    TRAIN_OK("bench r.yaml --device %s --steps 3 --warmup 1 --json", device);
    ck_assert_str_eq(program_err, "");
    o = json_out();
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ck_assert_msg(keys[i].integer ? json_is_integer(json_object_get(o, keys[i].key))
                                      : json_is_number(json_object_get(o, keys[i].key)), "%s", keys[i].key);
    ck_assert_uint_eq(json_array_size(json_object_get(o, "step_ms")), 3);
    ck_assert_str_eq(text_of(o, "device"), device);
    ck_assert_str_eq(text_of(o, "precision"), "fp32");
    ck_assert(json_number_value(json_object_get(o, "images_per_second")) > 0);
    ck_assert_int_ge(json_integer_value(json_object_get(o, "arena_bytes")),
                     json_integer_value(json_object_get(o, "arena_lower_bound_bytes")));
    ck_assert_int_gt(json_integer_value(json_object_get(o, "parameters")), 100000);
    json_decref(o);
    TRAIN_OK("bench r.yaml --device %s --steps 2 --warmup 0 --profile --json", device);
    o = json_out();
    ck_assert_uint_gt(json_array_size(json_object_get(o, "profile")), 3);
    json_decref(o);
    TRAIN_OK("bench r.yaml --device %s --steps 1 --warmup 0", device);
    ck_assert_ptr_nonnull(strstr(program_out, "images/s"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("train");
    TCase *tc    = tcase_create("runs"), *fail = tcase_create("failures"), *verbs = tcase_create("verbs");

    tcase_add_checked_fixture(tc, start, program_stop);
    tcase_set_timeout(tc, strcmp(STANCE_DEFAULT_DEVICE, "ref") == 0 ? 600 : 120);
    tcase_add_loop_test(tc, resumed_run_is_the_undisturbed_one, 0, RUNS);
    tcase_add_test(tc, end_of_the_epoch_is_made_up_for);
    tcase_add_test(tc, killed_run_ends_with_the_same_bytes);
    tcase_add_loop_test(tc, signal_leaves_a_checkpoint, 0, 2);
    tcase_add_test(tc, damaged_and_foreign_files_are_passed_over);
    tcase_add_loop_test(tc, newest_of_a_folder, 0, sizeof newest_cases / sizeof *newest_cases);
    tcase_add_test(tc, unfitting_checkpoints_are_refused);
    tcase_add_test(tc, work_folder);
    tcase_add_loop_test(tc, recomputation_changes_no_byte, 0, 2);
    suite_add_tcase(suite, tc);
    tcase_add_checked_fixture(fail, start, program_stop);
    tcase_set_timeout(fail, 120);
    tcase_add_loop_test(fail, failures_are_one_line, 0, sizeof failures / sizeof *failures);
    tcase_add_test(fail, full_disk);
    tcase_add_test(fail, divergence);
    tcase_add_test(fail, missing_plugin_file);
    tcase_add_test(fail, scaler_out_of_the_tree);
    suite_add_tcase(suite, fail);
    tcase_add_checked_fixture(verbs, start, program_stop);
    tcase_set_timeout(verbs, 120);
    tcase_add_test(verbs, test_verb);
    tcase_add_test(verbs, predict_verb);
    tcase_add_test(verbs, check_config_and_bench);
    suite_add_tcase(suite, verbs);
    return run_suite(suite);
}
