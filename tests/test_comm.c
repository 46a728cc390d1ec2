/* SPDX-License-Identifier: Apache-2.0
 *
 * Several processes. First the step beside another process that is played here; then whole runs of two by
 * mpirun: they are one run of twice the batch, they go on, stop and fail together. */
#include "config.h"

#include "program.h"
#include "step_run.h"

#include "data/image.h"
#include "io/entry.h"
#include "io/tensors.h"
#include "train/launch.h"

#include <dlfcn.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

/* ---- a step beside a process that is not there ------------------------------------------------------------ */

/* Rank 0 of two; the other one has the same gradients and sums, and `skip` of its own. */
struct played {
    int      started, waited, tested, early; /* early: buckets begun before the pass was over */
    double   skip, failed;
    float    add; /* to the first gradient of each bucket */
    size_t   bytes;
    char    *last; /* where the bucket before began */
};

static void played_place(const void *state, struct stance_comm_place *out)
{
    (void)state;
    *out = (struct stance_comm_place){ sizeof *out, 0, 2, 0, 2 };
}

static stance_status played_start(void *state, void *request, void *data, size_t n, enum stance_type type,
                                  enum stance_comm_sum what, void *queue, struct stance_error *err)
{
    struct played *p = state;
    float         *v = data;

    (void)queue, (void)err;
    ck_assert(type == STANCE_TYPE_F32 && what == STANCE_COMM_SUM);
    ck_assert_int_eq(*(int *)request, 0);
    ck_assert_msg(p->last == NULL || (char *)data + n * sizeof *v == p->last, "buckets do not follow one another");
    *(int *)request = 1;
    for (size_t i = 0; i < n; i++)
        v[i] += v[i];
    v[0] += p->add;
    p->last = data;
    p->bytes += n * sizeof *v;
    p->started++;
    return STANCE_OK;
}

static bool played_test(void *state, void *request)
{
    struct played *p = state;

    ck_assert_int_eq(*(int *)request, 1);
    p->tested++;
    p->early = p->started;
    return false;
}

static stance_status played_wait(void *state, void *request, struct stance_error *err)
{
    (void)err;
    ck_assert_int_eq(*(int *)request, 1);
    *(int *)request = 0;
    ((struct played *)state)->waited++;
    return STANCE_OK;
}

/* What the step shares: loss, skipped, acc, samples, stop, failed. */
static stance_status played_reduce(void *state, void *data, size_t n, enum stance_type type, enum stance_comm_sum what,
                                   struct stance_error *err)
{
    struct played *p = state;
    double        *v = data;

    (void)type, (void)what, (void)err;
    ck_assert_uint_eq(n, 2 + STANCE_SHARES);
    for (size_t i = 0; i < n; i++)
        v[i] += i == 1 ? p->skip : i == 2 + STANCE_SHARE_FAILED ? p->failed : v[i];
    p->last = NULL;
    return STANCE_OK;
}

static const struct stance_comm_ops played_ops = {
    .size = sizeof played_ops, .request_size = sizeof(int), .host_memory = true, .place = played_place, .start = played_start,
    .test = played_test, .wait = played_wait, .all_reduce = played_reduce,
};
static const struct stance_plugin played_plugin = { .kind = STANCE_KIND_COMM, .name = "played" };

static const char small[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [16]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [4, 4], sigma: 1}\n"
    "train: {batch_size: 4, optimizer: {name: adam, lr: 1.0e-3}}\nthreads: 1\n";

/* A step with weight 1 and one with the weight 1/2 beside a process that has the same are the same bytes:
 * halves and doubles are exact. */
START_TEST(halves_make_a_whole)
{
    struct played      p = { 0 };
    struct stance_comm comm = { .plugin = &played_plugin, .ops = &played_ops, .state = &p };
    struct step_run    one, two;
    struct stance_error err = STANCE_ERROR_INIT;
    int                buckets = 0;

    played_place(NULL, &comm.place);
    step_setup(&one, small, "ref", "fp32");
    step_make(&one);
    step_setup(&two, small, "ref", "fp32");
    two.options.comm   = &comm;
    two.options.bucket = 100 << 10;
    step_make(&two);
    for (int i = 0; i < 3; i++) {
        struct stance_step_result a, b;

        step_fill_inputs(&one, STANCE_STEP_BATCH, 4 * i);
        step_fill_inputs(&two, STANCE_STEP_BATCH, 4 * i);
        p = (struct played){ 0 };
        ck_assert_int_eq(stance_step_micro(one.step, STANCE_STEP_BATCH, 1, &err), STANCE_OK);
        ck_assert_int_eq(stance_step_apply(one.step, 1e-3, &a, &err), STANCE_OK);
        stance_step_close_window(two.step);
        ck_assert_int_eq(stance_step_micro(two.step, STANCE_STEP_BATCH, 0.5, &err), STANCE_OK);
        stance_step_share(two.step)[STANCE_SHARE_SAMPLES] = 4;
        ck_assert_int_eq(stance_step_apply(two.step, 1e-3, &b, &err), STANCE_OK);
        ck_assert(a.loss == b.loss && a.grad_norm == b.grad_norm && !a.skipped && !b.skipped);
        ck_assert(stance_step_share(two.step)[STANCE_SHARE_SAMPLES] == 8);
        buckets = stance_reducer_stats(stance_step_reducer(two.step)).buckets;
        ck_assert_int_gt(buckets, 3);
        ck_assert(p.started == buckets && p.waited == buckets);
        /* All but the last, which has the first layers, begin while backward is under way. */
        ck_assert_int_ge(p.early, buckets - 1);
        ck_assert_uint_eq(p.bytes, stance_step_store(two.step)->bytes[STANCE_BANK_PARAM]);
    }
    for (size_t s = 0; s < stance_step_store(one.step)->n_segments; s++) {
        int64_t n, m;
        double *x, *y;

        if (stance_step_store(one.step)->segments[s].bank != STANCE_BANK_PARAM)
            continue;
        x = step_values(&one, s, STANCE_ARRAY_MASTER, &n);
        y = step_values(&two, s, STANCE_ARRAY_MASTER, &m);
        ck_assert_msg(n == m && memcmp(x, y, (size_t)n * sizeof *x) == 0, "%s", stance_step_store(one.step)->segments[s].name);
        free(x);
        free(y);
    }
    step_close(&one);
    step_close(&two);
}
END_TEST

static void *master_bytes(struct step_run *r, size_t *bytes)
{
    const struct stance_store *s = stance_step_store(r->step);
    void                      *copy;

    *bytes = s->bytes[STANCE_BANK_PARAM];
    copy   = malloc(*bytes);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, s->bank[STANCE_BANK_PARAM], *bytes);
    return copy;
}

/* Rows 36 and 39: an infinity of another process arrives in the sum, and both skip; what is summed is binary32
 * in fp16 as well (the played process insists on it). */
START_TEST(row_36_row_39_infinity_of_another_process)
{
    struct played             p = { 0 };
    struct stance_comm        comm = { .plugin = &played_plugin, .ops = &played_ops, .state = &p };
    struct step_run           r;
    struct stance_step_result w;
    struct stance_error       err = STANCE_ERROR_INIT;
    size_t                    bytes;
    void                     *before;
    float                     scale = 0;

    if (!step_has_device("cpu", "rows 36 and 39"))
        return;
    played_place(NULL, &comm.place);
    step_setup(&r, small, "cpu", "fp16");
    stance_scaler_free(r.setup.scaler);
    ck_assert_int_eq(stance_scaler_from(r.registry, "dynamic:init_scale=1024", &r.setup.scaler, &err), STANCE_OK);
    r.options.scaler = r.setup.scaler;
    r.options.comm   = &comm;
    r.options.bucket = 1 << 20;
    step_make(&r);
    before = master_bytes(&r, &bytes);
    for (int i = 0; i < 2; i++) {
        p = (struct played){ .add = i == 0 ? 0 : INFINITY };
        step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
        stance_step_close_window(r.step);
        ck_assert_int_eq(stance_step_micro(r.step, STANCE_STEP_BATCH, 0.5, &err), STANCE_OK);
        ck_assert_int_eq(stance_step_apply(r.step, 1e-3, &w, &err), STANCE_OK);
        ck_assert_int_eq(w.skipped, i);
        ck_assert_int_eq(stance_scaler_scale(r.setup.scaler, &scale, &err), STANCE_OK);
        ck_assert(scale == (i == 0 ? 1024 : 512));
        ck_assert_int_eq(memcmp(before, stance_step_store(r.step)->bank[STANCE_BANK_PARAM], bytes) == 0, i);
        free(before);
        before = master_bytes(&r, &bytes);
    }
    free(before);
    step_close(&r);
}
END_TEST

/* Row 37 of the table of edge cases: the flag of another process counts though the sums here are finite. */
START_TEST(row_37_flag_of_another_process)
{
    struct played             p = { .skip = 1 };
    struct stance_comm        comm = { .plugin = &played_plugin, .ops = &played_ops, .state = &p };
    struct step_run           r;
    struct stance_step_result w;
    struct stance_error       err = STANCE_ERROR_INIT;
    size_t                    bytes;
    void                     *before;
    float                     scale = 0;

    played_place(NULL, &comm.place);
    step_setup(&r, small, "ref", "fp32");
    stance_scaler_free(r.setup.scaler);
    ck_assert_int_eq(stance_scaler_from(r.registry, "dynamic:init_scale=1024", &r.setup.scaler, &err), STANCE_OK);
    r.options.scaler = r.setup.scaler;
    r.options.comm   = &comm;
    r.options.bucket = 1 << 20;
    step_make(&r);
    before = master_bytes(&r, &bytes);
    step_fill_inputs(&r, STANCE_STEP_BATCH, 0);
    ck_assert_int_eq(stance_step_micro(r.step, STANCE_STEP_BATCH, 0.5, &err), STANCE_OK);
    ck_assert_int_eq(stance_step_apply(r.step, 1e-3, &w, &err), STANCE_OK);
    ck_assert(w.skipped && isfinite(w.grad_norm));
    ck_assert_mem_eq(before, stance_step_store(r.step)->bank[STANCE_BANK_PARAM], bytes);
    ck_assert_int_eq(stance_scaler_scale(r.setup.scaler, &scale, &err), STANCE_OK);
    ck_assert(scale == 512);
    ck_assert_uint_eq(stance_step_applied(r.step), 0);

    /* One that has failed: nothing is changed, the scaler is told nothing. */
    p = (struct played){ .failed = 1 };
    ck_assert_int_eq(stance_step_micro(r.step, STANCE_STEP_BATCH, 0.5, &err), STANCE_OK);
    ck_assert_int_eq(stance_step_apply(r.step, 1e-3, &w, &err), STANCE_ERR_INTERRUPTED);
    ck_assert_mem_eq(before, stance_step_store(r.step)->bank[STANCE_BANK_PARAM], bytes);
    ck_assert_int_eq(stance_scaler_scale(r.setup.scaler, &scale, &err), STANCE_OK);
    ck_assert(scale == 512);
    free(before);
    step_close(&r);
}
END_TEST

/* ---- runs ------------------------------------------------------------------------------------------------- */

/* 22 samples: with two processes of 4 two steps of 8 and one of 6 an epoch. */
static const char recipe[] =
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [16]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data:\n  dataset: synthetic\n  input_size: [64, 64]\n  heatmap_size: [4, 4]\n  sigma: 1\n"
    "  train: {samples: 22}\n  val: {samples: 21}\n"
    "train:\n  epochs: 3\n  batch_size: 4\n  workers: 1\n  eval_interval: 1\n  log_interval: 1\n"
    "  checkpoint: {epochs: null, steps: 1, keep: null}\n  optimizer: {name: adam, lr: 5.0e-4}\n"
    "  schedule: {name: step, steps: [2], warmup: linear, warmup_iters: 5, warmup_ratio: 0.1}\n"
    "test: {batch_size: 4}\nthreads: 1\n";

static const char *device;
static bool        runs; /* there is an mpirun, and a plugin for it */

static void start(void)
{
    program_start();
    program_write("r.yaml", recipe);
    /* Where a container forbids it, Open MPI tells of it on stderr. */
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    device = program_run("inspect --exists device/cpu") == 0 ? "cpu" : "ref";
    runs   = program_run("inspect --exists comm/mpi") == 0 && program_shell("command -v mpirun > /dev/null 2>&1") == 0;
    if (!runs)
        SKIP("several processes: comm 'mpi' or mpirun is absent");
}

#define MPIRUN "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " \
               "timeout 250 mpirun -n"

/* `stance ARGUMENTS` in n processes. */
static int together(int n, const char *fmt, ...) STANCE_PRINTF(2, 3);
static int together(int n, const char *fmt, ...)
{
    char    environment[400], arguments[4096];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(arguments, sizeof arguments, fmt, ap);
    va_end(ap);
    snprintf(environment, sizeof environment, MPIRUN " %d", n);
    return program_go(environment, arguments);
}

#define TOGETHER_OK(...) ck_assert_msg(together(__VA_ARGS__) == 0, "%s", program_err)
#define RUN_OK(...)      ck_assert_msg(program_run(__VA_ARGS__) == 0, "%s", program_err)

static void same_file(const char *a, const char *b)
{
    int differ = program_shell("cmp %s %s", program_path(a), program_path(b));

    ck_assert_msg(differ == 0, "%s and %s differ", a, b);
}

static struct stance_tensors *tensors(const char *name)
{
    struct stance_tensors *t;
    struct stance_error    err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_tensors_open(program_path(name), &t, &err) == STANCE_OK, "%s", err.text);
    return t;
}

/* Largest relative L2 distance of a tensor. */
static double distance(const char *a, const char *b, const char **where)
{
    struct stance_tensors *x = tensors(a), *y = tensors(b);
    double                 worst = 0;
    static char            name[300];

    *where = name;
    ck_assert_uint_eq(stance_tensors_count(x), stance_tensors_count(y));
    for (size_t i = 0; i < stance_tensors_count(x); i++) {
        const struct stance_entry *e = stance_tensors_at(x, i), *f = stance_tensors_find(y, e->name);
        size_t                     n = stance_entry_elements(e);
        double                    *u = malloc((n + 1) * sizeof *u), *v = malloc((n + 1) * sizeof *v), off = 0, size = 0;

        ck_assert(u != NULL && v != NULL && f != NULL && stance_entry_elements(f) == n);
        stance_entry_f64(e, 0, n, u);
        stance_entry_f64(f, 0, n, v);
        for (size_t k = 0; k < n; k++) {
            off += (u[k] - v[k]) * (u[k] - v[k]);
            size += v[k] * v[k];
        }
        off = off == 0 ? 0 : sqrt(off / size);
        if (!(off <= worst)) {
            worst = off;
            snprintf(name, sizeof name, "%s", e->name);
        }
        free(u);
        free(v);
    }
    stance_tensors_close(x);
    stance_tensors_close(y);
    return worst;
}

/* Each case is 1 process of 2 B against 2 of B; windows of two batches cross the ends of epochs. */
static const struct { const char *device, *two, *one; double tolerance; } equal[] = {
    /* Masters after a step or nine: gradients differ by the order of sums, 2^-24 a term, over some thousand
     * terms a weight, and Adam's first steps divide them by their own size: a gradient near 0 may differ as a
     * whole, of which a tensor has few. */
    { "ref", "", "", 1e-5 },
    { "cpu", "--accumulate 2", "--accumulate 2", 1e-4 },
};

START_TEST(two_are_one_of_twice_the_batch)
{
    const char *where;
    double      d;

    if (!runs)
        return;
    if (strcmp(equal[_i].device, "cpu") == 0 && strcmp(device, "cpu") != 0) {
        SKIP("several processes: device 'cpu' is absent");
        return;
    }
    TOGETHER_OK(2, "train r.yaml --quiet --device %s --set comm.sync_bn=true --work-dir two %s", equal[_i].device, equal[_i].two);
    RUN_OK("train r.yaml --quiet --device %s --batch-size 8 --work-dir one %s --set test.batch_size=4", equal[_i].device,
           equal[_i].one);
    d = distance("two/step_1.safetensors", "one/step_1.safetensors", &where);
    ck_assert_msg(d <= equal[_i].tolerance, "step 1: %g in %s", d, where);
    d = distance("two/step_5.safetensors", "one/step_5.safetensors", &where);
    ck_assert_msg(d <= equal[_i].tolerance, "step 5: %g in %s", d, where);
    ck_assert_int_ne(access(program_path(strstr(equal[_i].two, "accumulate") ? "two/step_6.safetensors"
                                                                             : "two/step_10.safetensors"), F_OK), 0);
}
END_TEST

/* An object of the last line of scalars.jsonl that has a key. */
static json_t *last_scalars(const char *work, const char *key)
{
    char          text[262144], *line, *rest = text;
    json_t       *found = NULL;
    json_error_t  told;

    ck_assert_int_eq(program_shell("cat %s/2*/scalars.jsonl > %s", program_path(work), program_path("lines")), 0);
    program_read(program_path("lines"), text, sizeof text);
    while ((line = strsep(&rest, "\n")) != NULL) {
        json_t *object = *line != '\0' ? json_loads(line, 0, &told) : NULL;

        if (object != NULL && json_object_get(object, key) != NULL) {
            json_decref(found);
            found = object;
        } else {
            json_decref(object);
        }
    }
    ck_assert_msg(found != NULL, "%s: no line with %s", work, key);
    return found;
}

/* Noise with points in it, a person an image, and a recipe: sigmas so wide that a network that has learnt
 * nothing scores. @param bad  image that cannot be decoded to its end; -1: none */
static void write_coco(int n, int bad)
{
    static uint8_t      rgb[64 * 64 * 3];
    struct stance_image image = { rgb, 64, 64 };
    struct stance_error err   = STANCE_ERROR_INIT;
    uint32_t            noise = 1;
    FILE               *f;

    for (size_t i = 0; i < sizeof rgb; i++) {
        noise  = noise * 1664525u + 1013904223u;
        rgb[i] = (uint8_t)(noise >> 24);
    }
    ck_assert_msg(stance_image_write_png(program_path("good.png"), &image, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(program_shell("cd %s && head -c 6000 good.png > bad.png", program_folder), 0);
    f = fopen(program_path("train.json"), "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "{\"images\":[");
    for (int i = 0; i < n; i++)
        fprintf(f, "%s{\"id\":%d,\"file_name\":\"%s.png\",\"width\":64,\"height\":64}", i > 0 ? "," : "", i + 1,
                i == bad ? "bad" : "good");
    fprintf(f, "],\"annotations\":[");
    for (int i = 0; i < n; i++)
        fprintf(f, "%s{\"id\":%d,\"image_id\":%d,\"category_id\":1,\"bbox\":[8,8,40,40],\"area\":1600,"
                   "\"keypoints\":[%d,20,2,30,%d,2]}", i > 0 ? "," : "", i + 1, i + 1, 9 + i * 5 % 37, 9 + i * 7 % 37);
    fprintf(f, "],\"categories\":[{\"id\":1,\"name\":\"worm\",\"keypoints\":[\"head\",\"tail\"],\"skeleton\":[[1,2]]}]}");
    ck_assert_int_eq(fclose(f), 0);
    program_write("coco.yaml",
                  "model:\n  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
                  "  head: {name: heatmap, deconv: [16]}\n"
                  "data:\n  dataset: coco\n  input_size: [64, 64]\n  heatmap_size: [4, 4]\n  sigma: 1\n"
                  "  info: {keypoints: [head, tail], sigmas: [.3, .3], flip_pairs: []}\n"
                  "  train: {annotations: train.json, images: .}\n  val: {annotations: train.json, images: .}\n"
                  "  augment: {half_body: 0}\n"
                  "train: {epochs: 3, batch_size: 1, eval_interval: null, log_interval: 1}\n"
                  "test: {batch_size: 4}\nthreads: 1\n");
}

/* Scores of three processes, of which each had some batches, are those of one, to the last digit. */
START_TEST(evaluation_is_that_of_one_process)
{
    json_t     *all, *alone;
    const char *key;
    json_t     *value;
    int         compared = 0;

    if (!runs)
        return;
    write_coco(21, -1);
    TOGETHER_OK(3, "train coco.yaml --quiet --device %s --batch-size 3 --epochs 2 --set train.eval_interval=1 --work-dir three", device);
    RUN_OK("test coco.yaml three/step_6.safetensors --device %s --json", device);
    alone = json_loads(program_out, 0, NULL);
    ck_assert_msg(json_is_object(alone), "%s", program_out);
    all = last_scalars("three", "AR");
    json_object_foreach(alone, key, value) {
        const json_t *same = json_object_get(all, key);
        double        v    = json_number_value(value);

        if (same == NULL)
            continue;
        ck_assert_msg(json_number_value(same) == v, "%s: %.17g and %.17g", key, json_number_value(same), v);
        compared += v > 0 && v < 1;
    }
    ck_assert_msg(compared >= 2, "the scores are trivial: %s", program_out);
    json_decref(all);
    json_decref(alone);
}
END_TEST

static const struct { const char *label, *options; int steps; } going[] = {
    { "fp32", "", 9 },
    { "averages and masters in bf16", "--set train.ema.decay=0.9 --set train.optimizer.master=bf16_stochastic", 9 },
    { "fp16, windows of 3, sync_bn", "--precision fp16 --accumulate 3 --set comm.sync_bn=true "
                                     "--scaler dynamic:growth_interval=2,init_scale=4096", 3 },
};

/* Twice the same bytes, also by --nproc; from each checkpoint on the same again. */
START_TEST(same_bytes_and_resume)
{
    char options[400], last[100], a[200], b[200];

    if (!runs)
        return;
    if (strstr(going[_i].options, "--precision") != NULL && strcmp(device, "cpu") != 0) {
        SKIP("several processes, %s: device 'cpu' is absent", going[_i].label);
        return;
    }
    snprintf(options, sizeof options, "--device %s --quiet %s", device, going[_i].options);
    snprintf(last, sizeof last, "step_%d.safetensors", going[_i].steps);
    snprintf(a, sizeof a, "whole/%s", last);
    TOGETHER_OK(2, "train r.yaml --work-dir whole %s", options);
    if (_i == 0) {
        RUN_OK("train r.yaml --work-dir again %s --nproc 2", options);
        same_file(a, "again/step_9.safetensors");
        TOGETHER_OK(1, "train r.yaml --work-dir single %s", options);
        RUN_OK("train r.yaml --work-dir plain %s", options);
        same_file("single/step_18.safetensors", "plain/step_18.safetensors");
    }
    for (int step = 1; step < going[_i].steps; step += 1 + going[_i].steps / 3) {
        snprintf(b, sizeof b, "from%d", step);
        ck_assert_int_eq(program_shell("mkdir %s && cp %s/step_%d.safetensors %s", program_path(b), program_path("whole"), step,
                                       program_path(b)), 0);
        TOGETHER_OK(2, "train r.yaml --work-dir %s --resume %s", b, options);
        snprintf(b, sizeof b, "from%d/%s", step, last);
        same_file(a, b);
    }
}
END_TEST

/* A shell script around a long run of two, whose process ids are in pid.0 and pid.1. @return the exit status
 * of mpirun */
static int disturbed(const char *work, const char *what)
{
    int status = program_shell(
        "cd %s && rm -f pid.*; " MPIRUN " 2 sh -c 'echo $$ > pid.$OMPI_COMM_WORLD_RANK$PMI_RANK; exec \"$0\" \"$@\"' "
        "'%s' train r.yaml --quiet --device %s --epochs 100000 --work-dir %s --set train.checkpoint.keep=2 > out 2> err & m=$!; "
        "cd %s; i=0; while [ ! -e %s/last_checkpoint ] && [ $i -lt 400 ]; do sleep 0.05; i=$((i + 1)); done; sleep 0.05; %s; "
        "wait $m", program_folder, getenv("STANCE_PROGRAM"), device, work, program_folder, work, what);

    program_read(program_path("out"), program_out, sizeof program_out);
    program_read(program_path("err"), program_err, sizeof program_err);
    return status;
}

/* SIGTERM to one of them: both leave at the same step, with a checkpoint that goes on to the bytes of an
 * undisturbed run. SIGKILL: the other leaves too, in time, and names it; the last checkpoint is whole. */
static const struct { const char *label, *signal, *says; int status; } ends[] = {
    { "SIGTERM to rank 1", "kill -TERM $(cat pid.1)", "stopped by a signal", 143 },
    { "SIGKILL to rank 1", "kill -KILL $(cat pid.1)", "rank 1", -1 },
};

START_TEST(one_leaves_all_leave)
{
    int    status;
    time_t begin = time(NULL);
    char   found[200];
    FILE  *f;
    long   step = -1;

    if (!runs)
        return;
    status = disturbed("w", ends[_i].signal);
    ck_assert_msg(time(NULL) - begin < 30, "%s: %ld s", ends[_i].label, (long)(time(NULL) - begin));
    ck_assert_msg(strstr(program_err, ends[_i].says) != NULL, "%s: %s", ends[_i].label, program_err);
    ck_assert_msg(ends[_i].status < 0 ? status != 0 : status == ends[_i].status, "%s: status %d: %s", ends[_i].label, status,
                  program_err);
    f = fopen(program_path("w/last_checkpoint"), "r");
    ck_assert(f != NULL && fgets(found, sizeof found, f) != NULL);
    fclose(f);
    ck_assert_int_eq(sscanf(found, "w/step_%ld", &step), 1);
    /* Two steps on, and the same from the start. */
    ck_assert_int_gt(step, 0);
    if (step < 100) {
        TOGETHER_OK(2, "train r.yaml --quiet --device %s --epochs 100000 --work-dir w --resume --set train.checkpoint.keep=2 "
                       "--max-steps %ld --set train.eval_interval=null", device, step + 2);
        TOGETHER_OK(2, "train r.yaml --quiet --device %s --epochs 100000 --work-dir whole --set train.checkpoint.keep=2 "
                       "--max-steps %ld --set train.checkpoint.steps=%ld --set train.eval_interval=null", device, step + 2, step + 2);
        /* The recipe of the disturbed one named no max_steps: the weights are compared. */
        {
            char        a[200], b[200];
            const char *where;

            snprintf(a, sizeof a, "w/step_%ld.safetensors", step + 2);
            snprintf(b, sizeof b, "whole/step_%ld.safetensors", step + 2);
            ck_assert_msg(distance(a, b, &where) == 0, "%s: %s", ends[_i].label, where);
        }
    }
}
END_TEST

/* ---- failing together ------------------------------------------------------------------------------------- */

#define DIVERGING "--epochs 30 --set train.max_consecutive_skips=2 --set train.optimizer.lr=1000 --set train.optimizer.name=sgd " \
                  "--set model.loss.loss_weight=1e6"
#define TRAIN "train r.yaml --quiet --device ref --work-dir f "

/* Of two processes: what each is told, the status, what is said, once. */
static const struct { const char *label, *rank0, *rank1, *says; int status; } failures[] = {
    { "recipe that cannot be read", TRAIN "--set train.lr=3", TRAIN "--set train.lr=3", "train.lr", 2 },
    { "recipes that differ", TRAIN, TRAIN "--batch-size 5", "rank 1 has another recipe than rank 0", 2 },
    { "checkpoints that differ", TRAIN "--resume=a/step_1.safetensors", TRAIN "--resume=a/step_2.safetensors",
      "rank 1 has another set of weights", 2 },
    /* Row 38: the scale and its tracker. */
    { "scalers that differ", TRAIN "--resume=a/step_2.safetensors", TRAIN "--resume=b/step_2.safetensors",
      "rank 1 has another state of the loss scaler than rank 0", 2 },
    { "a checkpoint that one lacks", TRAIN "--resume=a/step_2.safetensors", TRAIN "--resume=c/step_2.safetensors", "rank 1: c/step_2", 2 },
    { "no folder to write to", "train r.yaml --quiet --device ref --work-dir r.yaml/w", "train r.yaml --quiet --device ref --work-dir r.yaml/w",
      "rank 0: r.yaml", 1 },
    { "other number than --nproc", TRAIN "--nproc 3", TRAIN "--nproc 3", "--nproc 3", 2 },
    { "comm none", TRAIN "--set comm.name=none", TRAIN "--set comm.name=none", "comm.name is none", 3 },
    { "divergence", TRAIN DIVERGING, TRAIN DIVERGING, "2 steps in a row had non-finite gradients", 4 },
};

static int count(const char *text, const char *what)
{
    int n = 0;

    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

START_TEST(one_failure_one_message)
{
    const char *program = getenv("STANCE_PROGRAM");
    int         status;

    if (!runs)
        return;
    if (_i == 2 || _i == 4)
        RUN_OK("train r.yaml --quiet --device ref --work-dir a --max-steps 2");
    if (_i == 3) { /* the same weights, another state */
        RUN_OK("train r.yaml --quiet --device ref --work-dir a --max-steps 2 --scaler dynamic:init_scale=1024");
        RUN_OK("train r.yaml --quiet --device ref --work-dir b --max-steps 2 --scaler dynamic:init_scale=2048");
    }
    status = program_shell("cd %s && " MPIRUN " 1 '%s' %s %s : -n 1 '%s' %s %s > out 2> err", program_folder, program,
                           failures[_i].rank0, _i == 3 ? "--scaler dynamic" : "", program, failures[_i].rank1,
                           _i == 3 ? "--scaler dynamic" : "");
    program_read(program_path("err"), program_err, sizeof program_err);
    ck_assert_msg(status == failures[_i].status, "%s: status %d: %s", failures[_i].label, status, program_err);
    ck_assert_msg(count(program_err, failures[_i].says) == 1 && count(program_err, "stance: ") == 1, "%s: %s", failures[_i].label,
                  program_err);
}
END_TEST

/* An image that only one process comes to and cannot decode. */
START_TEST(bad_image_of_one_rank)
{
    if (!runs)
        return;
    write_coco(8, 5);
    for (int accumulate = 1; accumulate <= 4; accumulate += 3) {
        int status = together(2, "train coco.yaml --quiet --device ref --work-dir bad --accumulate %d --set comm.sync_bn=true", accumulate);

        ck_assert_msg(status == 2, "status %d: %s", status, program_err);
        ck_assert_msg(count(program_err, "bad.png") == 1 && count(program_err, "stance: ") == 1
                          && (strstr(program_err, "rank 1: ") != NULL || strstr(program_err, "rank 0: ") != NULL), "%s", program_err);
    }
}
END_TEST

/* A sum over one GPU of one process: the parts that need no second one. CUDA is asked for by name, so that this
 * program runs where there is none. */
START_TEST(nccl_on_one_gpu)
{
    struct stance_registry      *registry;
    const struct stance_plugin  *plugin;
    const struct stance_comm_ops *ops;
    struct stance_error          err = STANCE_ERROR_INIT;
    struct stance_comm_place     place;
    float                        host[1000], back[1000], *data = NULL;
    void                        *state, *request, *cuda;
    int                        (*gpu_malloc)(void **, size_t), (*gpu_copy)(void *, const void *, size_t, int);

    ck_assert_int_eq(stance_registry_new(NULL, &registry, &err), STANCE_OK);
    if (stance_registry_find(registry, STANCE_KIND_COMM, "nccl", &plugin, &err) != STANCE_OK) {
        SKIP("several GPUs: comm 'nccl' is not built");
        stance_registry_free(registry);
        return;
    }
    ops     = plugin->ops.comm;
    state   = calloc(1, ops->state_size);
    request = calloc(1, ops->request_size);
    ck_assert(state != NULL && request != NULL && !ops->host_memory && strcmp(ops->device_name, "cuda") == 0);
    if (access("/dev/nvidia0", F_OK) != 0) {
        ck_assert_int_ne(ops->open(state, NULL, 10, &err), STANCE_OK); /* and says so */
        ck_assert_msg(strstr(err.text, "GPU") != NULL || strstr(err.text, "CUDA") != NULL, "%s", err.text);
        SKIP("several GPUs: there is no GPU (%s)", err.text);
        goto done;
    }
    ck_assert_msg(ops->open(state, NULL, 10, &err) == STANCE_OK, "%s", err.text);
    ops->place(state, &place);
    ck_assert(place.world == 1 && place.rank == 0);
    cuda = dlopen("libcudart.so", RTLD_NOW | RTLD_GLOBAL);
    if (cuda == NULL)
        cuda = dlopen("libcudart.so.13", RTLD_NOW | RTLD_GLOBAL);
    ck_assert_msg(cuda != NULL, "%s", dlerror());
    *(void **)&gpu_malloc = dlsym(cuda, "cudaMalloc");
    *(void **)&gpu_copy   = dlsym(cuda, "cudaMemcpy");
    ck_assert(gpu_malloc != NULL && gpu_copy != NULL);
    for (int i = 0; i < 1000; i++)
        host[i] = (float)i / 7;
    ck_assert_int_eq(gpu_malloc((void **)&data, sizeof host), 0);
    ck_assert_int_eq(gpu_copy(data, host, sizeof host, 1), 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(ops->start(state, request, data, 1000, STANCE_TYPE_F32, STANCE_COMM_SUM, NULL, &err) == STANCE_OK, "%s", err.text);
        ck_assert_msg(ops->wait(state, request, &err) == STANCE_OK, "%s", err.text);
    }
    ck_assert_int_eq(gpu_copy(back, data, sizeof back, 2), 0);
    ck_assert_mem_eq(back, host, sizeof host);
    ops->close(state);
done:
    free(state);
    free(request);
    stance_registry_free(registry);
}
END_TEST

/* What is refused without mpirun: a launcher whose library is another, and mpirun itself being absent. */
START_TEST(started_in_vain)
{
    ck_assert_int_eq(program_run_in("STANCE_PLUGIN_BLOCKLIST=comm_mpi OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
                                    "OMPI_COMM_WORLD_LOCAL_RANK=0", "train r.yaml --quiet"), 3);
    ck_assert_msg(strstr(program_err, "2 processes of Open MPI: comm 'mpi'") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run_in("STANCE_PLUGIN_BLOCKLIST=comm_mpi SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2 SLURM_LOCALID=1",
                                    "train r.yaml --quiet"), 3);
    ck_assert_str_eq(program_err, ""); /* rank 0's to tell */
    ck_assert_int_eq(program_run_in("PATH=/nowhere", "train r.yaml --quiet --nproc 2"), 3);
    ck_assert_msg(strstr(program_err, "mpirun") != NULL, "%s", program_err);
    ck_assert_int_eq(program_run_in("OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=x", "train r.yaml --quiet"), 2);
    ck_assert_msg(strstr(program_err, "OMPI_COMM_WORLD_SIZE") != NULL, "%s", program_err);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("comm");
    TCase *step = tcase_create("step"), *t = tcase_create("runs"), *fail = tcase_create("failures");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_set_timeout(step, 60);
    tcase_add_test(step, halves_make_a_whole);
    tcase_add_test(step, row_36_row_39_infinity_of_another_process);
    tcase_add_test(step, row_37_flag_of_another_process);
    suite_add_tcase(s, step);
    tcase_add_checked_fixture(t, start, program_stop);
    tcase_set_timeout(t, 900);
    tcase_add_loop_test(t, two_are_one_of_twice_the_batch, 0, sizeof equal / sizeof *equal);
    tcase_add_test(t, evaluation_is_that_of_one_process);
    tcase_add_loop_test(t, same_bytes_and_resume, 0, sizeof going / sizeof *going);
    tcase_add_loop_test(t, one_leaves_all_leave, 0, sizeof ends / sizeof *ends);
    suite_add_tcase(s, t);
    tcase_add_checked_fixture(fail, start, program_stop);
    tcase_set_timeout(fail, 600);
    tcase_add_loop_test(fail, one_failure_one_message, 0, sizeof failures / sizeof *failures);
    tcase_add_test(fail, bad_image_of_one_rank);
    tcase_add_test(fail, started_in_vain);
    tcase_add_test(fail, nccl_on_one_gpu);
    suite_add_tcase(s, fail);
    return run_suite(s);
}
