/* SPDX-License-Identifier: Apache-2.0
 *
 * Short runs of the real training loop on drawn figures. */
#include "config.h"

#include "walk.h"

#include "io/tensors.h"
#include "train/run.h"

#include <stance/logger.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS_MAX = 1000 };

/* ---- what a run leaves ----------------------------------------------------------------------- */

struct losses {
    double  v[STEPS_MAX];
    int64_t n;
};

static stance_status listen_open(void *state, const void *config, const char *directory,
                                 struct stance_error *err)
{
    (void)directory;
    (void)err;
    memcpy(state, &config, sizeof config);
    return STANCE_OK;
}

static void listen_event(void *state, const struct stance_event *e)
{
    struct losses *l = *(struct losses **)state;

    for (int32_t i = 0; e->kind == STANCE_EVENT_TRAIN && i < e->n_scalars; i++)
        if (strcmp(e->scalars[i].name, "loss") == 0 && l->n < STEPS_MAX)
            l->v[l->n++] = e->scalars[i].value;
}

static const struct stance_logger_ops listen_ops = { .size       = sizeof listen_ops,
                                                     .state_size = sizeof(void *),
                                                     .open       = listen_open,
                                                     .event      = listen_event };
static const struct stance_plugin     listener   = { STANCE_PLUGIN_HEAD,
                                                     .kind       = STANCE_KIND_LOGGER,
                                                     .name       = "listener",
                                                     .ops.logger = &listen_ops };

/* ---- a run ----------------------------------------------------------------------------------- */

struct plan {
    const char *device, *precision;
    int64_t     seed, steps, threads, batch_size, accumulate;
};

struct outcome {
    struct losses losses;
    bool          data_read;     /* a dataset was opened */
    char          weights[4096]; /* the last checkpoint */
};

static const char recipe_text[] =
    "model:\n"
    "  task: top_down\n"
    "  backbone: {name: resnet, depth: 18, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [16, 16]}\n"
    "  loss: {name: joints_mse}\n"
    "data:\n"
    "  dataset: synthetic\n"
    "  input_size: [64, 64]\n"
    "  heatmap_size: [8, 8]\n"
    "  sigma: 1\n"
    "  train: {samples: 8}\n"
    "  val: {samples: 2}\n"
    "train:\n"
    "  epochs: 100000\n"
    "  eval_interval: null\n"
    "  log_interval: 1\n"
    "  workers: 1\n"
    "  optimizer: {name: adam, lr: 1.0e-3}\n"
    "  schedule: {name: step, steps: []}\n"
    "  loggers: []\n"
    "  checkpoint: {epochs: null}\n";

static bool write_recipe(struct walk *w, const struct plan *p, char path[200])
{
    FILE *f;

    snprintf(path, 200, "%.60s/tiny.yaml", w->scratch);
    f = fopen(path, "w");
    if (f == NULL
        || fprintf(f,
                   "%s  seed: %" PRId64 "\n  max_steps: %" PRId64 "\n  batch_size: %" PRId64
                   "\n  accumulate: %" PRId64 "\ndevice: %s\nprecision: %s\nthreads: %" PRId64 "\n",
                   recipe_text, p->seed, p->steps, p->batch_size, p->accumulate, p->device,
                   p->precision, p->threads)
               < 0
        || fclose(f) != 0) {
        walk_fail(w, "%s cannot be written", path);
        return false;
    }
    return true;
}

static void train(struct walk *w, const struct plan *p, const char *folder, struct outcome *out)
{
    const unsigned parts =
        STANCE_SETUP_TRAIN | STANCE_SETUP_VAL | STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD;
    struct stance_setup         setup = { 0 };
    struct stance_recipe_plugin heard = {
        .kind = STANCE_KIND_LOGGER, .name = "listener", .plugin = &listener, .config = &out->losses
    };
    struct stance_train_result result;
    char                       path[200], work[200];

    snprintf(work, sizeof work, "%.60s/%.60s", w->scratch, folder);
    struct stance_train_options o = { .work_dir = work, .quiet = true };

    if (!write_recipe(w, p, path))
        return;
    w->status      = stance_setup_make(w->registry, path, NULL, parts, &setup, &w->err);
    out->data_read = setup.train.ops != NULL || setup.val.ops != NULL;
    if (w->status == STANCE_OK) {
        struct stance_recipe_plugin *loggers = setup.recipe->logger;
        size_t                       n       = setup.recipe->n_loggers;

        setup.recipe->logger    = &heard;
        setup.recipe->n_loggers = 1;
        w->status               = stance_train(&setup, &o, &result, &w->err);
        snprintf(out->weights, sizeof out->weights, "%s", result.last);
        setup.recipe->logger    = loggers;
        setup.recipe->n_loggers = n;
    }
    stance_setup_clear(&setup);
    if (w->status != STANCE_OK && !out->data_read && access(work, F_OK) == 0)
        walk_fail(w, "the run failed before it began, but left %s", work);
}

/* ---- start-training -------------------------------------------------------------------------- */

/* The first device that cannot do "TYPE forward" or "TYPE backward"; NULL: every one can. */
static const char *device_without(struct walk *w, const char *what)
{
    static const char *const devices[] = { "cpu", "ref" };
    char                     type[20];
    const char              *pass = strchr(what, ' ');
    bool                     backward;

    if (pass == NULL || (strcmp(pass, " backward") != 0 && strcmp(pass, " forward") != 0)) {
        walk_fail(w, "backend_without: '%.60s' is not known", what);
        return NULL;
    }
    backward = strcmp(pass, " backward") == 0;
    snprintf(type, sizeof type, "%.*s", (int)(pass - what), what);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        struct stance_device *d;
        struct stance_policy  policy;
        stance_status         status;

        if (stance_device_open(w->registry, devices[i], NULL, 1, &d, NULL) != STANCE_OK)
            continue;
        status = stance_policy_of(type, d, backward, &policy, NULL);
        stance_device_close(d);
        if (status != STANCE_OK)
            return devices[i];
    }
    walk_fail(w, "backend_without: every device can do %s", what);
    return NULL;
}

static bool have_device(struct walk *w, const char *name)
{
    const struct stance_plugin *p;

    return stance_registry_find(w->registry, STANCE_KIND_DEVICE, name, &p, NULL) == STANCE_OK;
}

static struct plan plan_of(struct walk *w)
{
    return (struct plan){ .device = walk_text(w, "device", have_device(w, "cpu") ? "cpu" : "ref"),
                          .precision  = walk_text(w, "precision", "fp32"),
                          .seed       = walk_i64(w, "seed", 0),
                          .steps      = walk_i64(w, "steps", 2),
                          .threads    = 1,
                          .batch_size = walk_i64(w, "batch_size", 2),
                          .accumulate = walk_i64(w, "accumulate", 1) };
}

static void start_training(struct walk *w)
{
    struct plan           p = plan_of(w);
    static struct outcome out;
    bool                  finite = true;

    if (walk_has(w, "backend_without"))
        p.device = device_without(w, walk_need(w, "backend_without"));
    p.threads = walk_i64(w, "threads", 1);
    if (!walk_failed(w))
        train(w, &p, "run", &out);
    for (int64_t i = 0; i < out.losses.n; i++)
        finite &= isfinite(out.losses.v[i]) != 0;
    walk_is_bool(w, "before_first_batch", w->status != STANCE_OK && !out.data_read);
    if (w->status == STANCE_OK) {
        walk_is_f64(w, "steps", (double)out.losses.n);
        walk_is_bool(w, "loss_finite", finite);
    }
}

/* ---- run-twice ------------------------------------------------------------------------------- */

/* Every tensor of the last checkpoints: weights, moments, running statistics. @return the name of
 * the first that differs, "" for none */
static const char *difference(struct walk *w, const char *a, const char *b)
{
    static char            name[700];
    struct stance_tensors *x = NULL, *y = NULL;
    struct stance_error    err = STANCE_ERROR_INIT;

    name[0] = '\0';
    if (stance_tensors_open(a, &x, &err) != STANCE_OK
        || stance_tensors_open(b, &y, &err) != STANCE_OK)
        walk_fail(w, "%s", err.text);
    for (size_t i = 0; !walk_failed(w) && i < stance_tensors_count(x) && name[0] == '\0'; i++) {
        const struct stance_entry *e = stance_tensors_at(x, i),
                                  *f = stance_tensors_find(y, e->name);

        if (f == NULL || f->bytes != e->bytes || memcmp(e->data, f->data, e->bytes) != 0)
            snprintf(name, sizeof name, "%s", e->name);
    }
    if (!walk_failed(w) && stance_tensors_count(x) != stance_tensors_count(y))
        walk_fail(w, "the checkpoints hold different tensors");
    stance_tensors_close(x);
    stance_tensors_close(y);
    return name;
}

static void run_twice(struct walk *w)
{
    static struct outcome            out[2];
    static const char *const         folder[] = { "first", "second" };
    const struct stance_config_node *most     = walk_expects(w, "max_relative_difference"), *same;
    struct plan                      p        = plan_of(w);
    size_t                           n;
    double *threads = walk_numbers(w, walk_get(w, "threads"), "threads", &n), worst = 0;

    (void)walk_bool(w, "deterministic", true); /* stance's runs are, always */
    if (n > 2 || p.steps < 1 || p.steps > STEPS_MAX)
        walk_fail(w, "threads wants a number for each of two runs, steps one of 1 to %d",
                  STEPS_MAX);
    for (int i = 0; i < 2 && !walk_failed(w) && w->status == STANCE_OK; i++) {
        p.threads = n == 0 ? 1 : (int64_t)threads[n == 1 ? 0 : i];
        train(w, &p, folder[i], &out[i]);
    }
    stance_free(threads);
    if (walk_failed(w) || w->status != STANCE_OK)
        return;
    if (out[0].losses.n != p.steps || out[1].losses.n != p.steps)
        walk_fail(w, "the runs told %lld and %lld losses", (long long)out[0].losses.n,
                  (long long)out[1].losses.n);
    for (int64_t i = 0; i < p.steps && !walk_failed(w); i++) {
        double d = fabs(out[0].losses.v[i] - out[1].losses.v[i]) / fabs(out[0].losses.v[i]);

        worst = d > worst || isnan(d) ? d : worst;
    }
    if (most != NULL && !walk_failed(w)
        && !(worst <= walk_node_f64(w, most, "max_relative_difference")))
        walk_fail(w, "losses differ by %g of their size", worst);
    same = walk_expects(w, "identical");
    if (same != NULL && !walk_failed(w)) {
        const char *name = difference(w, out[0].weights, out[1].weights);

        if (strcmp(same->text, "true") == 0 && name[0] != '\0')
            walk_fail(w, "%s differs", name);
        else if (strcmp(same->text, "true") == 0 && worst != 0)
            walk_fail(w, "losses differ by %g of their size", worst);
        else
            walk_is_bool(w, "identical", name[0] == '\0' && worst == 0);
    }
}

#define KEYS "device precision seed steps threads batch_size accumulate "

const struct walk_do walk_train[] = {
    { "start-training", start_training, KEYS "backend_without",
      "before_first_batch steps loss_finite" },
    { "run-twice", run_twice, KEYS "deterministic", "identical max_relative_difference" },
    { NULL, NULL, NULL, NULL },
};
