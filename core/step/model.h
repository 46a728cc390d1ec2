/* SPDX-License-Identifier: Apache-2.0
 *
 * A model as plugins: backbone, head and loss with their settings, and the graphs they build. */
#ifndef STEP_MODEL_H
#define STEP_MODEL_H

#include "graph/graph.h"
#include "registry/instance.h"

/** Nothing of it is owned here: plugins, settings and pose live in the recipe and the registry. */
struct stance_model {
    struct stance_registry   *registry;
    struct stance_instance    backbone, head, loss;
    const struct stance_pose *pose;
};

/** Builds the graph of one batch: input "image" [B,3,H,W], outputs as the head names them, in training
 *  also "loss" and the backward pass. @param[out] out  the caller's, for stance_graph_free() or a program */
stance_status stance_model_graph(const struct stance_model *m, int32_t batch, bool training,
                                 struct stance_graph **out, struct stance_error *err);

#endif
