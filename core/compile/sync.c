/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/sync.h"

#include <stance/alloc.h>

#include <string.h>

void stance_sync_norms(struct stance_graph *g, const struct stance_sync *sync)
{
    for (size_t i = 1; i < g->n_nodes; i++)
        if (strcmp(g->nodes[i].name, "batch_norm") == 0 || strcmp(g->nodes[i].name, "batch_norm_grad") == 0)
            ((struct stance_batch_norm *)g->nodes[i].attr)->sync = sync;
}

stance_status stance_sync_idle(const struct stance_launch *l)
{
    const struct stance_sync *sync = NULL;
    int64_t                   sums = 1, channels = 0;
    double                   *v;
    stance_status             status = STANCE_OK;

    if (strcmp(l->op, "batch_norm") == 0 || strcmp(l->op, "batch_norm_grad") == 0) {
        sync     = ((const struct stance_batch_norm *)l->call.attr)->sync;
        channels = l->in[l->op[10] == '\0' ? 0 : 1].shape.dim[1];
    } else if (strcmp(l->op, "norm_sum") == 0) {
        const struct stance_norm_sum *a = l->call.attr;

        sync     = a->sync;
        sums     = a->n_norm;
        channels = l->out[0].shape.dim[1];
    } else if (strcmp(l->op, "norm_sum_grad") == 0) {
        const struct stance_norm_sum_grad *a = l->call.attr;

        sync     = a->sync;
        sums     = a->n_norm;
        channels = l->in[0].shape.dim[1];
    }
    if (sync == NULL)
        return STANCE_OK;
    v = stance_calloc((size_t)(2 * channels + 1), sizeof *v);
    if (v == NULL)
        return STANCE_ERR_NOMEM;
    for (int64_t k = 0; k < sums && status == STANCE_OK; k++) {
        memset(v, 0, (size_t)(2 * channels + 1) * sizeof *v);
        status = sync->sum(sync, v, (size_t)(2 * channels + 1));
    }
    stance_free(v);
    return status;
}
