/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin together with its settings. */
#ifndef REGISTRY_INSTANCE_H
#define REGISTRY_INSTANCE_H

#include <stance/registry.h>

/** @param config  the plugin's config struct; owned. Lives no longer than the registry. */
struct stance_instance {
    const struct stance_plugin *plugin;
    void                       *config;
};

/** Makes the config struct of @p plugin with its defaults (also for a plugin without parameters:
 *  the result is never NULL). @param[out] config  the caller's, for stance_plugin_config_free(). */
stance_status stance_plugin_config_new(const struct stance_plugin *plugin, void **config,
                                       struct stance_error *err);
/** Accepts NULL. */
void stance_plugin_config_free(void *config);

/** Copy of a config, the caller's; NULL when memory is short. */
void *stance_plugin_config_copy(const struct stance_plugin *plugin, const void *config);

/** Sets fields from "key=value,key=value". A comma inside brackets belongs to the value:
 *  "steps=[170,200]".
 *  @return as stance_param_set(); STANCE_ERR_INVAL for a piece without '='. The config may then be
 *  partly set. Failures start with "<kind> '<name>'". */
stance_status stance_plugin_config_set(const struct stance_plugin *plugin, void *config,
                                       const char *settings, struct stance_error *err);

/** Finds a plugin and fills its config: @p spec is NAME or NAME:key=value,key=value; the rest are
 *  defaults. @param[out] out  for stance_instance_clear() */
stance_status stance_instance_new(struct stance_registry *reg, enum stance_kind kind,
                                  const char *spec, struct stance_instance *out,
                                  struct stance_error *err);
/** Frees the config; accepts a cleared or zeroed one. */
void stance_instance_clear(struct stance_instance *i);

/** Takes the next piece off "key=value,key=value": writes key and value, moves *text behind it.
 *  @return 1: a piece; 0: the end; -1: no '=', an empty key, or no room. */
int stance_settings_next(const char **text, char *key, size_t key_size, char *value,
                         size_t value_size);

#endif
