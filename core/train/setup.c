/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/setup.h"

#include "base/log.h"
#include "data/pose_info.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static stance_status find_plugin(void *registry, enum stance_kind kind, const char *name,
                                 const struct stance_plugin **out, struct stance_error *err)
{
    return stance_registry_find(registry, kind, name, out, err);
}

static struct stance_instance instance_of(const struct stance_recipe_plugin *p)
{
    return (struct stance_instance){ p->plugin, p->config };
}

static stance_status open_device(struct stance_setup *s, unsigned parts, struct stance_error *err)
{
    static const enum stance_precision of_type[STANCE_TYPE_COUNT] = {
        [STANCE_TYPE_F32] = STANCE_PRECISION_FP32, [STANCE_TYPE_F16] = STANCE_PRECISION_FP16,
        [STANCE_TYPE_BF16] = STANCE_PRECISION_BF16, [STANCE_TYPE_F64] = STANCE_PRECISION_FP64,
    };
    struct stance_recipe             *r = s->recipe;
    const struct stance_recipe_lookup lookup = { find_plugin, s->registry };
    void         *config = stance_plugin_config_copy(r->device.plugin, r->device.config);
    int           threads = r->machine.threads == INT64_MIN ? 0 : (int)r->machine.threads;
    stance_status status;

    if (threads == 0)
        threads = s->cores;

    if (config == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "device '%s'", r->device.name);
    status = stance_device_open(s->registry, r->device.name, config, threads, &s->device, err);
    if (status != STANCE_OK)
        return status;
    status = stance_policy_of(stance_precision_word(r->precision), s->device, (parts & STANCE_SETUP_BACKWARD) != 0,
                              &s->policy, err);
    if (status == STANCE_OK && r->precision == STANCE_PRECISION_AUTO)
        status = stance_recipe_settle_precision(r, of_type[s->policy.low], &lookup, err);
    return status;
}

static stance_status open_data(const struct stance_recipe_plugin *p, const struct stance_split *split,
                               struct stance_data *out, struct stance_error *err)
{
    const struct stance_dataset_ops *ops   = p->plugin->ops.dataset;
    void                            *state = stance_calloc(1, ops->state_size + 1);
    stance_status                    status;

    if (state == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "dataset '%s'", p->name);
    status = ops->open(state, p->config, split, err);
    if (status != STANCE_OK) {
        stance_free(state);
        return status;
    }
    *out = (struct stance_data){ ops, state };
    return STANCE_OK;
}

static void close_data(struct stance_data *d)
{
    if (d->ops != NULL && STANCE_HAS(d->ops, close))
        d->ops->close(d->state);
    stance_free(d->state);
    *d = (struct stance_data){ NULL, NULL };
}

static void take_sizes(struct stance_setup *s)
{
    for (int i = 0; i < 2; i++) {
        s->pose.input_size[i]   = s->recipe->pose.input_size[i];
        s->pose.heatmap_size[i] = s->recipe->pose.heatmap_size[i];
    }
}

stance_status stance_setup_pose(struct stance_setup *s, int32_t keypoints, struct stance_error *err)
{
    const struct stance_pose *told   = &s->recipe->pose, *joined;
    struct stance_pose_found  found  = { .keypoints = keypoints, .file = s->recipe->file };
    stance_status             status;

    /* The number that is asked for decides; names and pairs come from the recipe if it has as many. */
    if (found.keypoints == 0)
        found.keypoints = told->keypoints > 0 ? told->keypoints : stance_pose_coco()->keypoints;
    if (s->points == NULL && (s->points = stance_arena_new(16 << 10)) == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "points");
    status = stance_pose_join(s->points, told->keypoints == found.keypoints ? told : NULL, &found, &joined, err);
    if (status != STANCE_OK)
        return status;
    s->pose = *joined;
    take_sizes(s);
    return STANCE_OK;
}

static stance_status open_task(struct stance_setup *s, struct stance_error *err)
{
    const struct stance_data *d = s->train.ops != NULL ? &s->train : &s->val;
    const struct stance_pose *pose;
    struct stance_task_setup  setup;
    stance_status             status;

    pose    = d->ops->pose(d->state);
    s->pose = (struct stance_pose){ 0 };
    memcpy(&s->pose, pose, pose->size < sizeof s->pose ? pose->size : sizeof s->pose);
    s->pose.size = sizeof s->pose;
    take_sizes(s);
    if (s->train.ops != NULL && s->val.ops != NULL
        && s->val.ops->pose(s->val.state)->keypoints != s->pose.keypoints)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "data.train has %d keypoints, data.val has %d", s->pose.keypoints,
                           s->val.ops->pose(s->val.state)->keypoints);
    if (s->train.ops != NULL) {
        status = stance_recipe_check_pose(s->recipe, &s->pose, err);
        if (status != STANCE_OK)
            return status;
    }
    s->task       = s->recipe->task.plugin->ops.task;
    s->task_state = stance_calloc(1, s->task->state_size + 1);
    if (s->task_state == NULL) {
        s->task = NULL;
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "task '%s'", s->recipe->task.name);
    }
    stance_recipe_task_setup(s->recipe, &s->pose, &setup);
    status = s->task->open(s->task_state, s->recipe->task.config, &setup, err);
    if (status != STANCE_OK) {
        stance_free(s->task_state);
        s->task_state = NULL;
        s->task       = NULL;
    }
    return status;
}

enum stance_rebuild stance_setup_rebuild(const struct stance_setup *s)
{
    static const enum stance_rebuild of_word[] = {
        [STANCE_RECOMPUTE_NONE]  = STANCE_REBUILD_NONE,
        [STANCE_RECOMPUTE_NORM]  = STANCE_REBUILD_NORM,
        [STANCE_RECOMPUTE_BLOCK] = STANCE_REBUILD_BLOCK,
    };

    return of_word[s->recipe->memory.recompute];
}

/* The comm plugin of a job of several processes. `auto` goes by what the gradients lie in. */
static stance_status open_comm(struct stance_setup *s, struct stance_error *err)
{
    const char *name = s->recipe != NULL ? s->recipe->comm.name.s : "auto";
    double      timeout = s->recipe != NULL ? s->recipe->comm.timeout : 60;

    if (strcmp(name, "auto") == 0)
        name = s->recipe != NULL && strcmp(s->recipe->device.name, "cuda") == 0 ? "nccl" : "mpi";
    if (strcmp(name, "none") == 0)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "comm.name is none, but %s has started %d processes",
                           s->place.launcher, s->place.world);
    if (stance_comm_open(s->registry, name, s->place.world, timeout, &s->comm, err) != STANCE_OK)
        return stance_error_prefix(err, err != NULL ? err->status : STANCE_ERR_UNSUPPORTED, "%d processes of %s",
                                   s->place.world, s->place.launcher);
    return STANCE_OK;
}

/* Where several processes were started, they join here, also to tell of a recipe that cannot be read once. */
static stance_status join(struct stance_setup *s, stance_status status, struct stance_error *err)
{
    struct stance_error     of_comm = STANCE_ERROR_INIT;
    struct stance_comm_item recipe  = { "recipe", 0 };

    if (stance_place_detect((const char *const *)environ, &s->place, &of_comm) != STANCE_OK || s->place.world == 1) {
        if (status == STANCE_OK && of_comm.status != STANCE_OK && err != NULL)
            *err = of_comm;
        return status == STANCE_OK ? of_comm.status : status;
    }
    if (s->place.rank != 0 && stance_log_level_get() == STANCE_LOG_WARN)
        stance_log_set_sink(stance_log_drop, NULL); /* rank 0 tells what all meet */
    if (open_comm(s, &of_comm) != STANCE_OK) {
        if (status == STANCE_OK && err != NULL)
            *err = of_comm;
        return status == STANCE_OK ? of_comm.status : status;
    }
    status = stance_comm_agree(s->comm, status, err);
    if (status == STANCE_OK && !stance_recipe_hash(s->recipe, &recipe.hash))
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe");
    if (status == STANCE_OK)
        status = stance_comm_same(s->comm, &recipe, 1, err);
    /* Rebuilt norms would ask the other processes again, in an order of their own. */
    if (status == STANCE_OK && s->recipe->comm.sync_bn && s->recipe->memory.recompute != STANCE_RECOMPUTE_NONE)
        return stance_comm_common(s->comm, stance_config_fail(err, STANCE_ERR_INVAL,
                                                              stance_config_get(s->recipe->tree->root, "memory.recompute"),
                                                              "memory.recompute and comm.sync_bn do not go together"));
    return status == STANCE_OK ? stance_comm_cores(s->comm, &s->cores, err) : status;
}

stance_status stance_setup_make(struct stance_registry *registry, const char *recipe,
                                const struct stance_recipe_options *options, unsigned parts,
                                struct stance_setup *out, struct stance_error *err)
{
    const struct stance_recipe_lookup lookup = { find_plugin, registry };
    struct stance_setup              *s      = out;
    stance_status                     status;

    *s          = (struct stance_setup){ .registry = registry, .place = { "none", 0, 1, 0, true } };
    status      = stance_recipe_load(recipe, options, &lookup, &s->recipe, err);
    if (parts & STANCE_SETUP_COMM)
        status = join(s, status, err);
    if (status != STANCE_OK)
        return status;
    s->model = (struct stance_model){ registry, instance_of(&s->recipe->backbone), instance_of(&s->recipe->head),
                                      instance_of(&s->recipe->loss), &s->pose };
    s->optimizer = instance_of(&s->recipe->optimizer);
    s->schedule  = instance_of(&s->recipe->schedule);
    s->average   = (struct stance_ema){ s->recipe->ema.decay, s->recipe->ema.tau,
                                        (enum stance_ema_warmup)s->recipe->ema.warmup };
    if (parts & STANCE_SETUP_DEVICE)
        status = open_device(s, parts, err);
    if (status == STANCE_OK && (parts & STANCE_SETUP_BACKWARD))
        status = stance_scaler_new(s->recipe->scaler.plugin, s->recipe->scaler.config, &s->scaler, err);
    if (status == STANCE_OK && (parts & STANCE_SETUP_TRAIN))
        status = open_data(&s->recipe->dataset, &s->recipe->train_split, &s->train, err);
    if (status == STANCE_OK && (parts & STANCE_SETUP_VAL))
        status = open_data(&s->recipe->dataset, &s->recipe->val_split, &s->val, err);
    if (status == STANCE_OK && (parts & (STANCE_SETUP_TRAIN | STANCE_SETUP_VAL)))
        status = open_task(s, err);
    return stance_comm_agree(s->comm, status, err);
}

void stance_setup_window(const struct stance_setup *s, struct stance_step_options *o)
{
    const struct stance_recipe_train *t = &s->recipe->train;

    o->clip           = t->clip_grad_norm > 0 ? t->clip_grad_norm : 0; /* NaN: none */
    o->clip_inf       = t->clip_norm_type == STANCE_CLIP_NORM_INF;
    o->clip_value     = t->clip_grad_value > 0 ? t->clip_grad_value : 0;
    o->seed           = (uint64_t)t->seed;
    o->average        = isnan(s->average.decay) ? NULL : &s->average;
    o->average_states = s->recipe->ema.statistics == STANCE_EMA_STATISTICS_AVERAGE;
}

void stance_setup_clear(struct stance_setup *s)
{
    if (s->task != NULL && STANCE_HAS(s->task, close))
        s->task->close(s->task_state);
    stance_free(s->task_state);
    close_data(&s->train);
    close_data(&s->val);
    stance_scaler_free(s->scaler);
    stance_device_close(s->device);
    stance_recipe_free(s->recipe);
    stance_comm_close(s->comm);
    stance_arena_free(s->points);
    *s = (struct stance_setup){ .registry = s->registry };
}
