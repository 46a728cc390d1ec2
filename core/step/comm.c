/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/comm.h"

#include "registry/instance.h"

#include <stance/alloc.h>

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { ITEMS_MAX = 16 };

stance_status stance_comm_open(struct stance_registry *registry, const char *name, int32_t world, double timeout,
                               struct stance_comm **out, struct stance_error *err)
{
    const struct stance_plugin *plugin;
    struct stance_comm         *c;
    stance_status               status = stance_registry_find(registry, STANCE_KIND_COMM, name, &plugin, err);

    if (status != STANCE_OK)
        return status;
    c = stance_calloc(1, sizeof *c);
    if (c == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "comm '%s'", name);
    c->plugin = plugin;
    c->ops    = plugin->ops.comm;
    c->state  = stance_calloc(1, c->ops->state_size + 1);
    if (c->state == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "comm '%s'", name);
        goto free_comm;
    }
    status = stance_plugin_config_new(plugin, &c->config, err);
    if (status == STANCE_OK)
        status = c->ops->open(c->state, c->config, timeout, err);
    if (status != STANCE_OK) {
        stance_error_prefix(err, status, "comm '%s'", name);
        goto free_comm;
    }
    c->ops->place(c->state, &c->place);
    if (c->place.world != world) {
        status = STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED,
                             "comm '%s' joins %d of the %d processes that were started: the launcher and the library that "
                             "stance was built with do not know each other (Slurm: srun --mpi=pmix)", name, c->place.world, world);
        c->ops->close(c->state);
        goto free_comm;
    }
    *out = c;
    return STANCE_OK;

free_comm:
    stance_free(c->state);
    stance_plugin_config_free(c->config);
    stance_free(c);
    return status;
}

void stance_comm_close(struct stance_comm *c)
{
    if (c == NULL)
        return;
    c->ops->close(c->state);
    stance_free(c->state);
    stance_plugin_config_free(c->config);
    stance_free(c);
}

void stance_comm_abort(struct stance_comm *c, int exit_status)
{
    c->ops->abort(c->state, exit_status);
}

struct outcome { int32_t status; char text[1000]; };

stance_status stance_comm_agree(struct stance_comm *c, stance_status status, struct stance_error *err)
{
    struct stance_error mine = STANCE_ERROR_INIT;
    struct outcome      told = { .status = (int32_t)status };
    int64_t             sum[2] = { status != STANCE_OK, 0 };
    stance_status       s;

    if (c == NULL)
        return status;
    /* The first that failed: the largest of world - rank. */
    sum[1] = status != STANCE_OK ? c->place.world - c->place.rank : 0;
    s      = c->ops->all_reduce(c->state, &sum[0], 1, STANCE_TYPE_I64, STANCE_COMM_SUM, &mine);
    if (s == STANCE_OK && sum[0] == 0)
        return STANCE_OK;
    if (s == STANCE_OK)
        s = c->ops->all_reduce(c->state, &sum[1], 1, STANCE_TYPE_I64, STANCE_COMM_MAX, &mine);
    if (s == STANCE_OK) {
        c->culprit = c->place.world - (int32_t)sum[1];
        if (status != STANCE_OK && err != NULL)
            snprintf(told.text, sizeof told.text, "%s", err->text);
        s = c->ops->broadcast(c->state, &told, sizeof told, c->culprit, &mine);
    }
    if (s != STANCE_OK) {
        if (status == STANCE_OK && err != NULL)
            *err = mine;
        return status != STANCE_OK ? status : s;
    }
    c->agreed = true;
    /* What all have run into is nobody's own. */
    if (sum[0] == c->place.world)
        return STANCE_FAIL(err, (stance_status)told.status, "%s", told.text);
    return STANCE_FAIL(err, (stance_status)told.status, "rank %d: %s", c->culprit, told.text);
}

stance_status stance_comm_common(struct stance_comm *c, stance_status status)
{
    if (c != NULL && status != STANCE_OK) {
        c->agreed  = true;
        c->culprit = 0;
    }
    return status;
}

stance_status stance_comm_same(struct stance_comm *c, const struct stance_comm_item *item, int n, struct stance_error *err)
{
    uint64_t      mine[ITEMS_MAX], *all;
    stance_status status;

    if (n > ITEMS_MAX)
        return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "%d things to compare", n);
    all = stance_calloc((size_t)c->place.world * (size_t)n + 1, sizeof *all);
    if (all == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "comparison of processes");
    for (int i = 0; i < n; i++)
        mine[i] = item[i].hash;
    status = c->ops->all_gather(c->state, mine, (size_t)n * sizeof *mine, all, err);
    for (int i = 0; i < n && status == STANCE_OK; i++)
        for (int r = 1; r < c->place.world && status == STANCE_OK; r++)
            if (all[r * n + i] != all[i])
                status = stance_comm_common(c, STANCE_FAIL(err, STANCE_ERR_INVAL, "rank %d has another %s than rank 0", r,
                                                           item[i].what));
    stance_free(all);
    return status;
}

/* Eight bytes a step, mixed as in splitmix64 (Steele, Lea, Flood, OOPSLA 2014): order and place count. */
uint64_t stance_comm_hash(uint64_t h, const void *data, size_t bytes)
{
    const char *p = data;

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t v = 0;

        memcpy(&v, p + i, bytes - i < 8 ? bytes - i : 8);
        h = (h ^ v) * 0xbf58476d1ce4e5b9u;
        h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
        h ^= h >> 31;
    }
    return h ^ bytes;
}

stance_status stance_comm_cores(struct stance_comm *c, int *cores, struct stance_error *err)
{
    cpu_set_t     mine, *all;
    int           sharing = 0, machines = (c->place.world + c->place.local_world - 1) / c->place.local_world, n;
    stance_status status;

    CPU_ZERO(&mine);
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        CPU_SET(0, &mine);
    n   = CPU_COUNT(&mine);
    all = stance_calloc((size_t)c->place.world, sizeof *all);
    if (all == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "comparison of processes");
    /* Processes that are bound elsewhere do not count; those of other machines have the same core numbers. */
    status = c->ops->all_gather(c->state, &mine, sizeof mine, all, err);
    for (int r = 0; r < c->place.world && status == STANCE_OK; r++)
        sharing += memcmp(&all[r], &mine, sizeof mine) == 0;
    sharing = (sharing + machines - 1) / machines;
    if (status == STANCE_OK)
        *cores = sharing > 0 && n / sharing > 0 ? n / sharing : 1;
    stance_free(all);
    return status;
}
