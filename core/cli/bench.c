/* SPDX-License-Identifier: Apache-2.0
 *
 * stance bench: speed and memory of the very program of `train`, on a batch in memory; the loader apart. */
#include "config.h"

#include "base/clock.h"
#include "base/median.h"
#include "base/random.h"
#include "cli/cli.h"
#include "cli/job.h"
#include "cli/json.h"
#include "cli/run.h"
#include "data/loader.h"
#include "step/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct bench {
    struct stance_setup         setup;
    struct stance_step         *step;
    int64_t                     steps, warmup;
    int32_t                     batch;
    double                     *ms; /* [steps] */
    double                      loader; /* images/s; NaN: no data */
};

/* Fills every input with numbers of the size that real ones have. */
static stance_status fill_inputs(struct bench *b, struct stance_error *err)
{
    static const char *const names[] = { "image", "target", "target_weight" };

    for (uint64_t k = 0; k < 3; k++) {
        int                         input = stance_step_input(b->step, STANCE_STEP_BATCH, names[k]);
        const struct stance_tensor *t = stance_program_input(stance_step_program(b->step, STANCE_STEP_BATCH), names[k]);
        struct stance_rng           r = stance_rng(1, STANCE_USE_INIT, k, 0);
        int64_t                     n;
        float                      *v;
        stance_status               status;

        if (input < 0)
            continue;
        n = stance_elements(&t->shape);
        v = stance_calloc((size_t)n, sizeof *v);
        if (v == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", names[k]);
        for (int64_t i = 0; i < n; i++)
            v[i] = k == 0 ? (float)stance_rng_normal(&r) : k == 1 ? (float)stance_rng_uniform(&r) : 1;
        status = stance_step_fill(b->step, STANCE_STEP_BATCH, input, STANCE_TYPE_F32, v, err);
        stance_free(v);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

static stance_status run_steps(struct bench *b, bool profile, struct stance_error *err)
{
    double rate = b->setup.optimizer.plugin->ops.optimizer->base_rate(b->setup.optimizer.config);

    for (int64_t i = -b->warmup; i < b->steps; i++) {
        struct stance_step_result r;
        double                    start = stance_seconds();
        stance_status             status;

        if (i == 0 && stance_step_reducer(b->step) != NULL)
            stance_reducer_reset(stance_step_reducer(b->step));
        if (i == 0 && profile && !stance_program_profile(stance_step_program(b->step, STANCE_STEP_BATCH), true))
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "profile");
        if (b->setup.comm != NULL)
            stance_step_close_window(b->step);
        status = stance_step_micro(b->step, STANCE_STEP_BATCH, 1.0 / b->setup.place.world, err);
        if (status == STANCE_OK)
            status = stance_step_apply(b->step, rate, &r, err);
        if (status != STANCE_OK)
            return status;
        if (i >= 0)
            b->ms[i] = 1e3 * (stance_seconds() - start);
    }
    return STANCE_OK;
}

/* Images that one loader thread delivers in a second; NaN where the recipe's data are not there. */
static double loader_speed(const struct stance_command *c, struct stance_registry *registry)
{
    struct stance_setup         s = { 0 };
    struct stance_loader       *l = NULL;
    const struct stance_batch  *batch;
    int64_t                     images = 0;
    double                      start, spent = NAN;
    struct stance_loader_options o;

    if (stance_command_setup(c, registry, STANCE_SETUP_TRAIN, &s, NULL, NULL) != STANCE_OK)
        goto done;
    o = (struct stance_loader_options){
        .task = s.task, .task_state = s.task_state, .dataset = s.train.ops, .dataset_state = s.train.state,
        .batch_size = 16, .training = true,
    };
    if (stance_loader_new(&o, &l, NULL) != STANCE_OK)
        goto done;
    start = stance_seconds();
    for (int64_t epoch = 0; stance_seconds() - start < 1.5; epoch++) {
        stance_loader_begin(l, epoch, 0);
        while (stance_seconds() - start < 1.5 && stance_loader_next(l, &batch, NULL) == STANCE_OK && batch != NULL)
            images += batch->count;
    }
    spent = stance_seconds() - start;

done:
    stance_loader_free(l);
    stance_setup_clear(&s);
    return images > 0 ? (double)images / spent : NAN;
}

static double median(const double *v, int64_t n)
{
    double *copy = stance_calloc((size_t)n, sizeof *copy), m;

    if (copy == NULL)
        return NAN;
    memcpy(copy, v, (size_t)n * sizeof *copy);
    m = stance_median(copy, (size_t)n);
    stance_free(copy);
    return m;
}

static int64_t peak_bytes(void)
{
    struct rusage u;

    return getrusage(RUSAGE_SELF, &u) == 0 ? (int64_t)u.ru_maxrss * 1024 : -1;
}

struct share { const char *op; bool backward, on_device; double seconds; int64_t launches; };

static int by_time(const void *a, const void *b)
{
    const struct share *x = a, *y = b;

    return (x->seconds < y->seconds) - (x->seconds > y->seconds);
}

/* Sums of the launches by op and direction, the slowest first. @return how many */
static int shares(const struct bench *b, struct share *out, int room)
{
    struct stance_program_launch l;
    int                          n = 0;

    for (size_t i = 0; stance_program_launch(stance_step_program(b->step, STANCE_STEP_BATCH), i, &l); i++) {
        int k = 0;

        while (k < n && (strcmp(out[k].op, l.op) != 0 || out[k].backward != l.backward))
            k++;
        if (k == n) {
            if (n == room)
                continue;
            out[n++] = (struct share){ l.op, l.backward, l.on_device, 0, 0 };
        }
        out[k].seconds += l.seconds;
        out[k].launches++;
    }
    qsort(out, (size_t)n, sizeof *out, by_time);
    return n;
}

enum { SHARES_MAX = 64 };

/* Communication of a step with several processes, ms and bytes. `share`: of the step, in which nothing else
 * was done. */
struct exchange { double waited, polled, share; int64_t bytes; int buckets; };

static struct exchange exchange(const struct bench *b)
{
    struct stance_reducer_stats s = stance_reducer_stats(stance_step_reducer(b->step));
    double                      n = (double)b->steps, total = 0;

    for (int64_t i = 0; i < b->steps; i++)
        total += b->ms[i];
    return (struct exchange){ 1e3 * s.waited / n, 1e3 * s.polled / n, 1e3 * (s.waited + s.polled) / total,
                              (int64_t)s.bytes / b->steps, s.buckets };
}

static int print_json(const struct bench *b, bool profile, struct stance_error *err)
{
    struct stance_program_size size = stance_program_size(stance_step_program(b->step, STANCE_STEP_BATCH));
    json_t                    *list = json_array(), *root, *part;
    struct share               s[SHARES_MAX];

    for (int64_t i = 0; i < b->steps && list != NULL; i++)
        json_array_append_new(list, json_real(b->ms[i]));
    root = json_pack("{s:o, s:o, s:I, s:I, s:I, s:I, s:s, s:s, s:I, s:o, s:I}", "images_per_second",
                     stance_json_finite(1e3 * b->batch / median(b->ms, b->steps)), "step_ms", list, "arena_bytes",
                     (json_int_t)size.arena, "arena_lower_bound_bytes", (json_int_t)size.arena_bound, "peak_rss_bytes",
                     (json_int_t)peak_bytes(), "parameters", (json_int_t)stance_store_parameters(stance_step_store(b->step)),
                     "device", b->setup.recipe->device.name, "precision", stance_policy_word(b->setup.policy), "batch_size",
                     (json_int_t)b->batch, "loader_images_per_second", stance_json_finite(b->loader), "launches",
                     (json_int_t)size.launches);
    if (root != NULL && b->setup.comm != NULL) {
        struct exchange x = exchange(b);

        json_object_set_new(root, "comm", json_pack("{s:s, s:I, s:b, s:I, s:I, s:f, s:f, s:f}", "name", b->setup.comm->plugin->name,
                                                    "processes", (json_int_t)b->setup.place.world, "sync_bn",
                                                    b->setup.recipe->comm.sync_bn, "bytes", (json_int_t)x.bytes, "buckets",
                                                    (json_int_t)x.buckets, "waited_ms", x.waited, "polled_ms", x.polled,
                                                    "share_not_hidden", x.share));
    }
    if (root != NULL && profile) {
        part = json_array();
        for (int i = 0, n = shares(b, s, SHARES_MAX); i < n && part != NULL; i++)
            json_array_append_new(part, json_pack("{s:s, s:b, s:b, s:I, s:f}", "op", s[i].op, "backward", s[i].backward,
                                                  "on_device", s[i].on_device, "launches", (json_int_t)s[i].launches, "ms",
                                                  1e3 * s[i].seconds / (double)b->steps));
        json_object_set_new(root, "profile", part);
    }
    return stance_json_print(root, err);
}

static void print_text(const struct bench *b, bool profile)
{
    struct stance_program_size size = stance_program_size(stance_step_program(b->step, STANCE_STEP_BATCH));
    double                     m    = median(b->ms, b->steps);
    struct share               s[SHARES_MAX];

    printf("%s, device %s, precision %s, batch %d: %.2f images/s (step %.1f ms, median of %" PRId64 ")\n",
           b->setup.recipe->name, b->setup.recipe->device.name, stance_policy_word(b->setup.policy), b->batch,
           1e3 * b->batch / m, m, b->steps);
    printf("parameters %zu, arena %.1f MiB (lower bound %.1f), peak memory %.1f MiB, %zu launches\n",
           stance_store_parameters(stance_step_store(b->step)), (double)size.arena / 1048576,
           (double)size.arena_bound / 1048576, (double)peak_bytes() / 1048576, size.launches);
    if (b->setup.comm != NULL) {
        struct exchange x = exchange(b);

        printf("%d processes by %s: %.2f images/s together; %.1f MiB of gradients a step in %d buckets; of the step %.1f %% is "
               "communication that nothing hides (%.1f ms after backward, %.1f ms in it)\n",
               b->setup.place.world, b->setup.comm->plugin->name, 1e3 * b->batch * b->setup.place.world / m,
               (double)x.bytes / 1048576, x.buckets, 100 * x.share, x.waited, x.polled);
    }
    if (!isnan(b->loader))
        printf("loader: %.1f images/s on one thread\n", b->loader);
    for (int i = 0, n = profile ? shares(b, s, SHARES_MAX) : 0; i < n; i++)
        printf("%9.2f ms  %5" PRId64 " x %s%s%s\n", 1e3 * s[i].seconds / (double)b->steps, s[i].launches, s[i].op,
               s[i].backward ? " (backward)" : "", s[i].on_device ? "" : "  [plain C]");
}

static stance_status bench(struct bench *b, const struct stance_command *c, struct stance_registry *registry,
                           struct stance_error *err)
{
    struct stance_setup *s = &b->setup;
    struct stance_step_options o = { .model = &s->model, .device = s->device, .policy = s->policy,
                                     .optimizer = &s->optimizer, .scaler = s->scaler,
                                     .rebuild = stance_setup_rebuild(s), .comm = s->comm,
                                     .bucket = (size_t)(s->recipe->comm.bucket * 1048576), .sync_bn = s->recipe->comm.sync_bn };
    bool          profile = stance_command_has(c, "profile");
    stance_status status  = stance_setup_pose(s, 0, err);

    b->batch = o.batch = (int32_t)s->recipe->train.batch_size;
    stance_setup_window(s, &o);
    b->ms = stance_calloc((size_t)b->steps, sizeof *b->ms);
    if (b->ms == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "bench");
    if (status == STANCE_OK)
        status = stance_step_new(&o, &b->step, err);
    if (status == STANCE_OK)
        status = stance_store_initialise(stance_step_store(b->step), (uint64_t)s->recipe->train.seed, err);
    if (status == STANCE_OK)
        status = stance_store_begin_average(stance_step_store(b->step), err);
    if (status == STANCE_OK)
        status = stance_step_refresh(b->step, err);
    if (status == STANCE_OK)
        status = fill_inputs(b, err);
    status = stance_comm_agree(s->comm, status, err);
    if (status == STANCE_OK)
        status = run_steps(b, profile, err);
    if (status != STANCE_OK)
        return status;
    b->loader = s->comm == NULL ? loader_speed(c, registry) : NAN;
    return STANCE_OK;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct bench            b = { .steps = stance_command_i64(c, "steps", 5), .warmup = stance_command_i64(c, "warmup", 2) };
    struct stance_registry *registry = NULL;
    stance_status           status   = stance_job_start(stance_command_i64(c, "nproc", 0), &b.setup.place, err);
    int                     exit_status;

    if (status == STANCE_OK)
        status = stance_command_registry(c, &registry, err);
    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD | STANCE_SETUP_COMM, &b.setup, NULL,
                                      err);
    if (status == STANCE_OK)
        status = bench(&b, c, registry, err);
    exit_status = status == STANCE_OK ? 0 : stance_job_end(&b.setup, status, 0, err);
    if (status == STANCE_OK && b.setup.place.writes) {
        if (stance_command_has(c, "json"))
            exit_status = print_json(&b, stance_command_has(c, "profile"), err);
        else
            print_text(&b, stance_command_has(c, "profile"));
    }
    stance_free(b.ms);
    stance_step_free(b.step);
    stance_setup_clear(&b.setup);
    stance_registry_free(registry);
    return exit_status;
}

static const struct stance_option options[] = {
    { .name = "steps", .kind = STANCE_OPTION_INTEGER, .argument = "N", .doc = "steps that are timed (5)", .min = 1, .max = 1000000 },
    { .name = "warmup", .kind = STANCE_OPTION_INTEGER, .argument = "N", .doc = "steps before them (2)", .min = 0, .max = 1000000 },
    { .name = "nproc", .kind = STANCE_OPTION_INTEGER, .argument = "N", .doc = "processes on this machine, started by mpirun",
      .min = 1, .max = 4096 },
    { .name = "profile", .kind = STANCE_OPTION_FLAG, .doc = "tell where the time goes, op by op" },
    { .name = "json", .kind = STANCE_OPTION_FLAG, .doc = "print one JSON object" },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, stance_run_options, NULL };

const struct stance_verb stance_verb_bench = {
    .name = "bench", .summary = "Measure speed and memory of a recipe's training step", .arguments = "RECIPE",
    .min_args = 1, .max_args = 1, .options = tables, .run = run,
};
