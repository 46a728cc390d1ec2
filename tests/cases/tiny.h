/* SPDX-License-Identifier: Apache-2.0
 *
 * A network of a few nodes in the real training step, on each device that can. */
#ifndef TESTS_CASES_TINY_H
#define TESTS_CASES_TINY_H

#include "walk.h"

#include "step/step.h"

/** What the model is made of. The functions get @p ctx as their config. */
struct tiny_net {
    /** Backbone and head in one: names of weights begin with "backbone.". @return the output */
    struct stance_value (*build)(struct stance_builder *b, const void *ctx);
    /** @return the scalar; NULL: the sum of all elements */
    struct stance_value (*loss)(struct stance_builder *b, const void *ctx,
                                struct stance_value output);
    const void *ctx;
};

struct tiny_options {
    const char                      *precision; /**< "fp32", "fp16", ... */
    const char                      *optimizer; /**< "sgd", or another one */
    const struct stance_config_node *settings;  /**< of it, or NULL; `type` is passed over */
    const char                      *scaler;    /**< "static:scale=8" */
    double                           clip;      /**< 0: none */
    bool                             accumulate;
};

/** The step on one device. */
struct tiny {
    const char            *name; /**< of the device */
    struct stance_device  *device;
    struct stance_instance optimizer;
    struct stance_scaler  *scaler;
    struct stance_step    *step;
    struct stance_store   *store;
    struct stance_plugin   backbone, head, loss;
    struct stance_pose     pose;
    struct stance_model    model;
};

/** Runs @p run with a step on device ref and then on cpu, where the device is there and has the
 *  precision; a failure of the case names the device. @p run returns what the run came to. */
void tiny_on_devices(struct walk *w, const struct tiny_net *net, const struct tiny_options *o,
                     stance_status (*run)(struct walk *w, struct tiny *t, void *arg,
                                          struct stance_error *err),
                     void *arg);

/** "backbone.<leaf>"; aborts the case when there is none. */
size_t tiny_segment(struct walk *w, const struct tiny *t, const char *leaf);
/** Copies numbers to and from an array of a segment. Elements of the shape. */
stance_status tiny_write(struct tiny *t, size_t segment, int array, const double *v,
                         struct stance_error *err);
double       *tiny_read(struct walk *w, struct tiny *t, size_t segment, int array);
/** Fills an input of the training program. */
stance_status tiny_fill(struct walk *w, struct tiny *t, const char *input, const double *v,
                        struct stance_error *err);

/** Spec of the scaler that the input describes, for stance_scaler_from(): the dynamic one unless
 * `mode` says otherwise; its first scale is `init_scale`, else `scale`. */
void tiny_scaler(struct walk *w, char *text, size_t size);
#define TINY_SCALER_KEYS                                                                           \
    "mode init_scale growth_factor backoff_factor growth_interval min_scale max_scale "

/** fp32, fp16 or bf16 as a type; fails the case for another word. */
enum stance_type tiny_type(struct walk *w, const char *word);
/** @p v as the type holds it. */
double tiny_round(double v, enum stance_type type);

#endif
