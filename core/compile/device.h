/* SPDX-License-Identifier: Apache-2.0
 *
 * A device in use. */
#ifndef COMPILE_DEVICE_H
#define COMPILE_DEVICE_H

#include <stance/device.h>
#include <stance/registry.h>

struct stance_device {
    const struct stance_plugin     *plugin;
    const struct stance_device_ops *ops;
    void                           *state, *config;
};

/** Opens a device. @param config  filled by its parameter table; taken over (freed with the device,
 *  and on failure); NULL: defaults. @param threads  0: as many as the process may use */
stance_status stance_device_open(struct stance_registry *registry, const char *name, void *config,
                                 int threads, struct stance_device **out, struct stance_error *err);
/** Accepts NULL. */
void stance_device_close(struct stance_device *d);

/** The low and the wide type of a precision policy. */
struct stance_policy { enum stance_type low, wide; };

/** Policy by its word ("fp32", "bf16", "fp16", "fp64", "auto"), checked against the device.
 *  @param training  whether a backward pass will be asked for */
stance_status stance_policy_of(const char *word, const struct stance_device *d, bool training,
                               struct stance_policy *out, struct stance_error *err);
/** "fp32", "bf16", ... */
const char *stance_policy_word(struct stance_policy p);

#endif
