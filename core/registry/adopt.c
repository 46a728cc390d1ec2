/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin may have been compiled with an older header of the same ABI: its structs are then shorter than
 * ours. The registry keeps copies of full length, zero where the plugin has nothing, so that nobody else
 * need ask how long a struct is. */
#include "config.h"

#include "registry/internal.h"

#include <stance/comm.h>
#include <stance/dataset.h>
#include <stance/device.h>
#include <stance/logger.h>
#include <stance/task.h>

#include <string.h>

/* The copy of a table that begins with its size. */
static void *copy_table(struct stance_arena *arena, const void *from, size_t full)
{
    size_t size;
    void  *to = stance_arena_get(arena, full, 16);

    if (to == NULL)
        return NULL;
    memcpy(&size, from, sizeof size);
    memcpy(to, from, size < full ? size : full);
    memcpy(to, &full, sizeof full);
    return to;
}

static struct stance_op_ops *copy_op(struct stance_arena *arena, const struct stance_op_ops *from)
{
    struct stance_op_ops *op = copy_table(arena, from, sizeof *op), *backward;

    if (op == NULL || op->backward == NULL)
        return op;
    backward = copy_table(arena, op->backward, sizeof *backward);
    if (backward == NULL)
        return NULL;
    backward->backward = NULL;
    op->backward       = backward;
    return op;
}

static struct stance_optimizer_ops *copy_optimizer(struct stance_arena *arena, const struct stance_optimizer_ops *from)
{
    struct stance_optimizer_ops *o = copy_table(arena, from, sizeof *o);

    if (o == NULL)
        return NULL;
    o->update = copy_op(arena, o->update);
    return o->update != NULL ? o : NULL;
}

static size_t full_size(enum stance_kind kind)
{
    switch (kind) {
    case STANCE_KIND_BACKBONE: return sizeof(struct stance_backbone_ops);
    case STANCE_KIND_HEAD: return sizeof(struct stance_head_ops);
    case STANCE_KIND_LOSS: return sizeof(struct stance_loss_ops);
    case STANCE_KIND_SCALER: return sizeof(struct stance_scaler_ops);
    case STANCE_KIND_OPTIMIZER: return sizeof(struct stance_optimizer_ops);
    case STANCE_KIND_SCHEDULE: return sizeof(struct stance_schedule_ops);
    case STANCE_KIND_OP: return sizeof(struct stance_op_ops);
    case STANCE_KIND_DATASET: return sizeof(struct stance_dataset_ops);
    case STANCE_KIND_TASK: return sizeof(struct stance_task_ops);
    case STANCE_KIND_DEVICE: return sizeof(struct stance_device_ops);
    case STANCE_KIND_LOGGER: return sizeof(struct stance_logger_ops);
    case STANCE_KIND_COMM: return sizeof(struct stance_comm_ops);
    case STANCE_KIND_COUNT:
    case STANCE_KIND_ALL: break;
    }
    return 0;
}

const struct stance_plugin *stance_plugin_adopt(const struct stance_plugin *from, struct stance_arena *arena)
{
    struct stance_plugin *p = stance_arena_get(arena, sizeof *p, 16);

    if (p == NULL)
        return NULL;
    memcpy(p, from, from->size < sizeof *p ? from->size : sizeof *p);
    p->size = sizeof *p;
    if (p->kind == STANCE_KIND_OP)
        p->ops.op = copy_op(arena, p->ops.op);
    else if (p->kind == STANCE_KIND_OPTIMIZER)
        p->ops.optimizer = copy_optimizer(arena, p->ops.optimizer);
    else if (full_size(p->kind) > 0)
        p->ops.any = copy_table(arena, p->ops.any, full_size(p->kind));
    return p->ops.any != NULL ? p : NULL;
}
