/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch norms whose statistics are those of all processes (struct stance_sync of <stance/ops.h>). */
#ifndef COMPILE_SYNC_H
#define COMPILE_SYNC_H

#include "compile/kernel.h"
#include "graph/graph.h"

/** Gives the batch norms of a training graph, and their gradients, the means to sum over processes.
 *  @param sync  outlives the programs made of it */
void stance_sync_norms(struct stance_graph *g, const struct stance_sync *sync);

/** Makes the sums of a launch with nothing to add, in the order in which its kernel makes them. */
stance_status stance_sync_idle(const struct stance_launch *l);

#endif
