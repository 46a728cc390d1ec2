/* SPDX-License-Identifier: Apache-2.0
 *
 * stance trace: numbers for comparison. Trains N steps on one given batch from given weights and writes
 * what another implementation can be held against: heatmaps, losses, gradients, weights. */
#include "config.h"

#include "cli/cli.h"
#include "cli/run.h"
#include "io/tensors.h"
#include "step/step.h"
#include "train/weights.h"

#include <stdio.h>
#include <string.h>

struct trace {
    struct stance_setup              setup;
    struct stance_step              *step;
    struct stance_tensors           *batch;
    struct stance_safetensors_out   *out;
    struct stance_entry             *entries;
    size_t                           n_entries;
    char                            *names; /* of entries, one after the other */
    int64_t                          steps;
    enum stance_type                 type;  /* of what is written */
    const struct stance_entry       *image, *target, *weight;
    struct stance_shape              heatmap;
    size_t                           heat_bytes;
    void                            *heat;
    double                          *losses;
    float                           *scales;
    int64_t                         *skipped;
};

static const struct stance_entry *operand(const struct trace *t, const char *path, const char *name, int rank,
                                          struct stance_error *err)
{
    const struct stance_entry *e = stance_tensors_find(t->batch, name);

    if (e == NULL)
        STANCE_FAIL(err, STANCE_ERR_FORMAT, "%s: has no '%s'", path, name);
    else if (e->rank != rank || e->dtype != STANCE_DTYPE_F32)
        STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: '%s' must be F32 with %d dimensions", path, name, rank);
    else
        return e;
    return NULL;
}

static stance_status read_batch(struct trace *t, const char *path, struct stance_error *err)
{
    stance_status status = stance_tensors_open(path, &t->batch, err);

    if (status != STANCE_OK)
        return status;
    t->image  = operand(t, path, "image", 4, err);
    t->target = t->image != NULL ? operand(t, path, "target", 4, err) : NULL;
    t->weight = t->target != NULL ? operand(t, path, "target_weight", 3, err) : NULL;
    if (t->weight == NULL)
        return err->status;
    if (t->image->dim[1] != 3 || t->target->dim[0] != t->image->dim[0] || t->weight->dim[0] != t->image->dim[0]
        || t->weight->dim[1] != t->target->dim[1] || t->weight->dim[2] != 1)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: want image [B,3,H,W], target [B,K,h,w], target_weight [B,K,1]", path);
    return STANCE_OK;
}

/* The batch decides the sizes. */
static stance_status make_step(struct trace *t, struct stance_error *err)
{
    struct stance_setup       *s = &t->setup;
    struct stance_step_options o = { .model = &s->model, .device = s->device, .policy = s->policy,
                                     .optimizer = &s->optimizer, .scaler = s->scaler, .rebuild = stance_setup_rebuild(s),
                                     .batch = (int32_t)t->image->dim[0], .eval_batch = (int32_t)t->image->dim[0] };
    stance_status status = stance_setup_pose(s, (int32_t)t->target->dim[1], err);

    if (status != STANCE_OK)
        return status;
    s->pose.input_size[0]   = (int32_t)t->image->dim[3];
    s->pose.input_size[1]   = (int32_t)t->image->dim[2];
    s->pose.heatmap_size[0] = (int32_t)t->target->dim[3];
    s->pose.heatmap_size[1] = (int32_t)t->target->dim[2];
    stance_setup_window(s, &o);
    return stance_step_new(&o, &t->step, err);
}

static void declare(struct trace *t, const char *name, enum stance_dtype dtype, const struct stance_shape *s)
{
    struct stance_entry *e = &t->entries[t->n_entries++];

    *e = (struct stance_entry){ .name = name, .dtype = dtype, .rank = s->rank };
    for (int i = 0; i < s->rank; i++)
        e->dim[i] = s->dim[i];
}

static const char *joined(char **at, const char *prefix, const char *name)
{
    char *start = *at;

    *at += sprintf(*at, "%s%s", prefix, name) + 1;
    return start;
}

/* Everything is declared first and then written as it comes: evaluation, first heatmap, gradients of
 * the first applied step, weights after the last one. */
static stance_status start_output(struct trace *t, const char *path, struct stance_error *err)
{
    const struct stance_store *store = stance_step_store(t->step);
    enum stance_dtype          dtype = t->type == STANCE_TYPE_F64 ? STANCE_DTYPE_F64 : STANCE_DTYPE_F32;
    struct stance_shape        n     = { 1, { t->steps } };
    size_t                     bytes = 0;
    char                      *at;

    for (size_t i = 0; i < store->n_segments; i++)
        bytes += 2 * (strlen(store->segments[i].name) + 8);
    t->entries = stance_calloc(2 * store->n_segments + 8, sizeof *t->entries);
    t->names   = stance_calloc(bytes + 1, 1);
    if (t->entries == NULL || t->names == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "trace");
    at = t->names;
    declare(t, "eval_heatmap", dtype, &t->heatmap);
    declare(t, "eval_flip_heatmap", dtype, &t->heatmap);
    declare(t, "heatmap", dtype, &t->heatmap);
    for (size_t i = 0; i < store->n_segments; i++)
        if (store->segments[i].bank == STANCE_BANK_PARAM)
            declare(t, joined(&at, "grad.", store->segments[i].name), dtype, &store->segments[i].shape);
    declare(t, "losses", STANCE_DTYPE_F64, &n);
    declare(t, "scales", STANCE_DTYPE_F32, &n);
    declare(t, "skipped", STANCE_DTYPE_I64, &n);
    for (size_t i = 0; i < store->n_segments; i++)
        declare(t, joined(&at, "param.", store->segments[i].name),
                store->segments[i].bank == STANCE_BANK_COUNTER ? STANCE_DTYPE_I64 : dtype, &store->segments[i].shape);
    return stance_safetensors_create(path, t->entries, t->n_entries, NULL, 0, &t->out, err);
}

static stance_status write_heatmap(struct trace *t, enum stance_step_program which, struct stance_error *err)
{
    stance_status status = stance_step_read(t->step, which, "heatmap", t->type, t->heat, err);

    return status == STANCE_OK ? stance_safetensors_write(t->out, t->heat, t->heat_bytes, err) : status;
}

/* The pass on the mirrored image, turned back. */
static stance_status write_flipped(struct trace *t, int image, struct stance_error *err)
{
    const struct stance_setup *s = &t->setup;
    int64_t n = t->image->dim[0] * t->image->dim[1] * t->image->dim[2], w = t->image->dim[3];
    int64_t count = stance_elements(&t->heatmap);
    float  *mirrored = stance_calloc((size_t)(n * w), sizeof *mirrored), *heat = stance_calloc((size_t)count, sizeof *heat);
    const float  *from = t->image->data;
    stance_status status = STANCE_OK;

    if (mirrored == NULL || heat == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "trace");
        goto done;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t x = 0; x < w; x++)
            mirrored[i * w + x] = from[i * w + w - 1 - x];
    status = stance_step_fill(t->step, STANCE_STEP_EVAL, image, STANCE_TYPE_F32, mirrored, err);
    if (status == STANCE_OK)
        status = stance_step_evaluate(t->step, STANCE_STEP_EVAL, err);
    if (status == STANCE_OK)
        status = stance_step_read(t->step, STANCE_STEP_EVAL, "heatmap", STANCE_TYPE_F32, heat, err);
    if (status != STANCE_OK)
        goto done;
    if (!STANCE_HAS(s->model.head.plugin->ops.head, unflip)) {
        status = STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "head '%s' cannot be flipped", s->model.head.plugin->name);
        goto done;
    }
    s->model.head.plugin->ops.head->unflip(s->model.head.config, &s->pose, heat, (int)t->image->dim[0],
                                           s->recipe->test.shift_heatmap);
    if (t->type == STANCE_TYPE_F64)
        for (int64_t i = 0; i < count; i++)
            ((double *)t->heat)[i] = (double)heat[i];
    else
        memcpy(t->heat, heat, t->heat_bytes);
    status = stance_safetensors_write(t->out, t->heat, t->heat_bytes, err);

done:
    stance_free(mirrored);
    stance_free(heat);
    return status;
}

/* One array of all segments of a bank, or of all of them (bank STANCE_BANK_COUNT), times a factor. */
static stance_status write_segments(struct trace *t, enum stance_bank bank, int array, double factor,
                                    struct stance_error *err)
{
    const struct stance_store *store = stance_step_store(t->step);

    for (size_t i = 0; i < store->n_segments; i++) {
        const struct stance_segment *g = &store->segments[i];
        enum stance_type type  = g->bank == STANCE_BANK_COUNTER ? STANCE_TYPE_I64 : t->type;
        int64_t          n     = stance_elements(&g->shape);
        void            *v;
        stance_status    status;

        if (bank != STANCE_BANK_COUNT && g->bank != bank)
            continue;
        v = stance_calloc((size_t)n, stance_type_size(type));
        if (v == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", g->name);
        status = stance_store_read(store, i, array == STANCE_ARRAY_COMMITTED && store->committed[g->bank] == NULL
                                                 ? STANCE_ARRAY_MASTER : array, type, v, err);
        for (int64_t k = 0; k < n && factor != 1; k++) {
            if (type == STANCE_TYPE_F64)
                ((double *)v)[k] *= factor;
            else
                ((float *)v)[k] *= (float)factor;
        }
        if (status == STANCE_OK)
            status = stance_safetensors_write(t->out, v, (size_t)n * stance_type_size(type), err);
        stance_free(v);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

static stance_status run_steps(struct trace *t, struct stance_error *err)
{
    static const char *const names[] = { "image", "target", "target_weight" };
    const struct stance_entry *data[] = { t->image, t->target, t->weight };
    const struct stance_setup *s      = &t->setup;
    double        rate = s->optimizer.plugin->ops.optimizer->base_rate(s->optimizer.config);
    bool          have_gradient = false;
    stance_status status = STANCE_OK;

    for (int i = 0; i < 3 && status == STANCE_OK; i++) {
        int input = stance_step_input(t->step, STANCE_STEP_BATCH, names[i]);

        if (input >= 0)
            status = stance_step_fill(t->step, STANCE_STEP_BATCH, input, STANCE_TYPE_F32, data[i]->data, err);
    }
    for (int64_t k = 0; k < t->steps && status == STANCE_OK; k++) {
        struct stance_step_result r;

        status = stance_step_micro(t->step, STANCE_STEP_BATCH, 1, err);
        if (status == STANCE_OK && k == 0)
            status = write_heatmap(t, STANCE_STEP_BATCH, err);
        if (status == STANCE_OK)
            status = stance_step_apply(t->step, rate, &r, err);
        if (status != STANCE_OK)
            return status;
        t->losses[k]  = r.loss;
        t->scales[k]  = r.scale;
        t->skipped[k] = r.skipped;
        if (!r.skipped && !have_gradient) {
            have_gradient = true;
            status = write_segments(t, STANCE_BANK_PARAM, STANCE_ARRAY_GRADIENT, (double)(float)(1 / (double)r.scale), err);
        }
    }
    if (status == STANCE_OK && !have_gradient)
        return STANCE_FAIL(err, STANCE_ERR_DIVERGED, "none of %lld steps was applied: the scale is still %g",
                           (long long)t->steps, (double)t->scales[t->steps - 1]);
    return status;
}

static stance_status write_results(struct trace *t, struct stance_error *err)
{
    size_t        n = (size_t)t->steps;
    stance_status status = stance_safetensors_write(t->out, t->losses, n * sizeof *t->losses, err);

    if (status == STANCE_OK)
        status = stance_safetensors_write(t->out, t->scales, n * sizeof *t->scales, err);
    if (status == STANCE_OK)
        status = stance_safetensors_write(t->out, t->skipped, n * sizeof *t->skipped, err);
    if (status == STANCE_OK)
        status = write_segments(t, STANCE_BANK_COUNT, STANCE_ARRAY_COMMITTED, 1, err);
    return status;
}

static stance_status trace(struct trace *t, const struct stance_command *c, struct stance_error *err)
{
    const struct stance_tensor *heat;
    int           image;
    stance_status status = read_batch(t, stance_command_text(c, "batch"), err);

    if (status == STANCE_OK)
        status = make_step(t, err);
    if (status == STANCE_OK)
        status = stance_weights_load(stance_step_store(t->step), stance_command_text(c, "weights"), NULL, err);
    if (status != STANCE_OK)
        return status;
    heat = stance_program_output(stance_step_program(t->step, STANCE_STEP_EVAL), "heatmap");
    if (heat == NULL)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "this head has no heatmap");
    t->type       = t->setup.policy.wide;
    t->heatmap    = heat->shape;
    t->heat_bytes = (size_t)stance_elements(&t->heatmap) * stance_type_size(t->type);
    t->heat       = stance_calloc(1, t->heat_bytes);
    t->losses     = stance_calloc((size_t)t->steps, sizeof *t->losses);
    t->scales     = stance_calloc((size_t)t->steps, sizeof *t->scales);
    t->skipped    = stance_calloc((size_t)t->steps, sizeof *t->skipped);
    if (t->heat == NULL || t->losses == NULL || t->scales == NULL || t->skipped == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "trace");
    status = start_output(t, stance_command_text(c, "out"), err);
    if (status != STANCE_OK)
        return status;
    image  = stance_step_input(t->step, STANCE_STEP_EVAL, "image");
    status = stance_step_fill(t->step, STANCE_STEP_EVAL, image, STANCE_TYPE_F32, t->image->data, err);
    if (status == STANCE_OK)
        status = stance_step_evaluate(t->step, STANCE_STEP_EVAL, err);
    if (status == STANCE_OK)
        status = write_heatmap(t, STANCE_STEP_EVAL, err);
    if (status == STANCE_OK)
        status = write_flipped(t, image, err);
    if (status == STANCE_OK)
        status = run_steps(t, err);
    if (status == STANCE_OK)
        status = write_results(t, err);
    if (status == STANCE_OK) {
        status = stance_safetensors_commit(t->out, err);
        t->out = NULL;
    }
    return status;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct trace            t = { .steps = stance_command_i64(c, "steps", 1) };
    struct stance_registry *registry = NULL;
    stance_status           status;

    for (const char *const *need = (const char *const[]){ "weights", "batch", "out", NULL }; *need != NULL; need++)
        if (stance_command_text(c, *need) == NULL)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "trace: --%s is needed", *need) == STANCE_OK ? 0 : STANCE_FAILED;
    status = stance_command_registry(c, &registry, err);
    if (status == STANCE_OK)
        status = stance_command_setup(c, registry, STANCE_SETUP_DEVICE | STANCE_SETUP_BACKWARD, &t.setup, NULL, err);
    if (status == STANCE_OK)
        status = trace(&t, c, err);
    stance_safetensors_abort(t.out);
    stance_free(t.entries);
    stance_free(t.names);
    stance_free(t.heat);
    stance_free(t.losses);
    stance_free(t.scales);
    stance_free(t.skipped);
    stance_step_free(t.step);
    stance_tensors_close(t.batch);
    stance_setup_clear(&t.setup);
    stance_registry_free(registry);
    return status == STANCE_OK ? 0 : STANCE_FAILED;
}

static const struct stance_option options[] = {
    { "weights", 0, STANCE_OPTION_TEXT, "FILE", "state dict to start from (.safetensors or .pth)", { NULL }, 0, 0, NULL, false },
    { "batch", 0, STANCE_OPTION_TEXT, "FILE", "safetensors with image, target and target_weight (F32)", { NULL }, 0, 0, NULL, false },
    { "steps", 0, STANCE_OPTION_INTEGER, "N", "training steps on that batch (1)", { NULL }, 1, 1000000, NULL, false },
    { "out", 0, STANCE_OPTION_TEXT, "FILE", "safetensors to write", { NULL }, 0, 0, NULL, false },
    { .name = NULL },
};
static const struct stance_option *const tables[] = { options, stance_run_options, NULL };

const struct stance_verb stance_verb_trace = {
    .name = "trace", .summary = "Write heatmaps, losses, gradients and weights for comparison",
    .arguments = "RECIPE", .min_args = 1, .max_args = 1, .options = tables,
    .doc = "Trains on one batch at the optimizer's base rate and writes heatmap, losses, grad.<name> of the first "
           "applied step, param.<name>, scales, skipped, eval_heatmap and eval_flip_heatmap.",
    .run = run,
};
