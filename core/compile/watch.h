/* SPDX-License-Identifier: Apache-2.0
 *
 * A program run launch by launch with somebody looking on: the memory plan lays later values over
 * earlier ones, so a result can be seen right after its launch and never again. */
#ifndef COMPILE_WATCH_H
#define COMPILE_WATCH_H

#include "compile/program.h"

/** What is shown. WEIGHT: a master or the copy of one that a kernel reads; shown, as inputs are,
 *  before the first launch that reads it. */
enum stance_watched_kind { STANCE_WATCHED_INPUT, STANCE_WATCHED_WEIGHT, STANCE_WATCHED_RESULT };

struct stance_watched {
    enum stance_watched_kind    kind;
    bool                        backward;
    bool                        gradient; /**< a result that is the gradient of an activation: neither that of a
                                               weight nor an activation that backward has made again */
    const struct stance_tensor *tensor; /**< of a float type, in the device's form and memory */
    const struct stance_graph  *g;
    uint32_t                    node, value; /**< the launch's node; the value shown */
};

typedef void stance_watch_fn(void *ctx, const struct stance_watched *w);

/** Runs both sections and shows every float tensor. Results are the same bytes as those of
 *  stance_program_forward() and stance_program_backward().
 *  @return STANCE_OK; STANCE_ERR_NOMEM, before anything has run; STANCE_ERR_DEVICE */
stance_status stance_program_watch(struct stance_program *p, const struct stance_device *device,
                                   stance_watch_fn *fn, void *ctx, struct stance_error *err);

/** Names what is shown, as a reader of the network's code knows it: "backbone.conv1 conv2d", "input
 *  'image'", "weight backbone.conv1.weight", "backbone.layer1.0.bn2, backbone.layer1.0.downsample.1
 *  norm_sum" (a fused launch: the scopes of its norms). */
void stance_watched_name(const struct stance_watched *w, char *text, size_t size);

#endif
