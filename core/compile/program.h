/* SPDX-License-Identifier: Apache-2.0
 *
 * A program: the launches of one graph for one device, in order, over one arena whose size is known
 * before the first step. */
#ifndef COMPILE_PROGRAM_H
#define COMPILE_PROGRAM_H

#include "compile/kernel.h"
#include "compile/store.h"

struct stance_program;

/** What the backward pass computes again instead of keeping it. NORM: normalisation, activation and
 *  other cheap passes of the core, from the results of convolutions and matrix products, which are
 *  kept. BLOCK: everything between a few kept values. */
enum stance_rebuild { STANCE_REBUILD_NONE, STANCE_REBUILD_NORM, STANCE_REBUILD_BLOCK };

struct stance_program_options {
    bool accumulate; /**< add gradients to what the flat array holds */
    bool no_fusion;  /**< for tests */
    int  slots;      /**< arrays of the optimizer; -1: no training */
    enum stance_rebuild rebuild; /**< what a training program computes again in its backward pass */
    const struct stance_sync *sync; /**< batch statistics over several processes; NULL: of this one alone */
};

/** Compiles a graph, which the program takes over (freed with it, and on failure). The first program
 *  of a store settles the store's forms, so the training one comes first. */
stance_status stance_program_new(struct stance_graph *g, struct stance_store *store,
                                 const struct stance_program_options *options,
                                 struct stance_program **out, struct stance_error *err);
/** Accepts NULL. Before the store is freed. */
void stance_program_free(struct stance_program *p);

/** Points every launch at its memory. After the last stance_program_new() of the store. */
stance_status stance_program_bind(struct stance_program *p, struct stance_error *err);

/** Runs a section. */
stance_status stance_program_forward(struct stance_program *p);
stance_status stance_program_backward(struct stance_program *p);
/** The backward section with a look after each launch. @param launch  its number, from the first of forward */
typedef stance_status stance_program_follow(void *ctx, size_t launch);
stance_status stance_program_backward_followed(struct stance_program *p, stance_program_follow *follow, void *ctx);
/** Takes part in what the launches of a training step exchange with other processes (batch statistics),
 *  with nothing to add: for a process without a sample in this batch. */
stance_status stance_program_idle(struct stance_program *p);
/** Launch that writes the gradient of each segment of the store last; 0 where none does.
 *  @param[out] last  [n_segments] */
void stance_program_gradients(const struct stance_program *p, size_t *last);
/** Makes the copies of weights anew that this program reads: after an update, and before the first run. */
stance_status stance_program_pack(struct stance_program *p);

/** The tensor of an input ("image") or a named output ("heatmap", "loss"), in the device's form; NULL
 *  if the graph has none. Looked up once, before the steps. */
const struct stance_tensor *stance_program_input(const struct stance_program *p, const char *name);
const struct stance_tensor *stance_program_output(const struct stance_program *p, const char *name);

/** Name and tensor of input @p i; NULL past the last. */
const char *stance_program_input_name(const struct stance_program *p, size_t i);

struct stance_program_size { size_t arena, arena_bound, inputs, launches, forward; };
struct stance_program_size stance_program_size(const struct stance_program *p);

/** For `bench --profile` and messages: what launch @p i is; seconds it has taken since profiling was
 *  turned on. @return false past the last */
struct stance_program_launch { const char *op, *scope; double seconds; bool on_device, backward; };
bool stance_program_launch(const struct stance_program *p, size_t i, struct stance_program_launch *out);
/** What launch @p i is made from. @return false past the last */
struct stance_program_part {
    const struct stance_graph  *g;
    uint32_t                    node;
    const struct stance_launch *launch;
    bool                        backward;
};
bool stance_program_part(const struct stance_program *p, size_t i, struct stance_program_part *out);
/** Turns timing of launches on or off. @return false when memory is short. */
bool stance_program_profile(struct stance_program *p, bool on);

#endif
