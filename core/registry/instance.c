/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "registry/instance.h"

#include <stance/alloc.h>

#include <string.h>

stance_status stance_plugin_config_new(const struct stance_plugin *plugin, void **config,
                                       struct stance_error *err)
{
    const char   *word = stance_kind_word(plugin->kind);
    void         *c    = stance_calloc(1, plugin->config_size + 1); /* never 0 bytes */
    stance_status status;

    if (c == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "settings of %s '%s'", word, plugin->name);
    status = stance_param_defaults(plugin->params, c, err);
    if (status != STANCE_OK) {
        stance_free(c);
        return stance_error_prefix(err, status, "%s '%s'", word, plugin->name);
    }
    *config = c;
    return STANCE_OK;
}

void stance_plugin_config_free(void *config)
{
    stance_free(config);
}

void *stance_plugin_config_copy(const struct stance_plugin *plugin, const void *config)
{
    void *copy = stance_calloc(1, plugin->config_size + 1);

    if (copy != NULL && plugin->config_size > 0)
        memcpy(copy, config, plugin->config_size);
    return copy;
}

int stance_settings_next(const char **text, char *key, size_t key_size, char *value,
                         size_t value_size)
{
    const char *c     = *text, *equals = NULL, *end;
    int         depth = 0;

    if (*c == '\0')
        return 0;
    for (end = c; *end != '\0' && (*end != ',' || depth > 0); end++) {
        depth += (*end == '[') - (*end == ']');
        if (*end == '=' && equals == NULL)
            equals = end;
    }
    if (equals == NULL || equals == c || (size_t)(equals - c) >= key_size
        || (size_t)(end - equals - 1) >= value_size)
        return -1;
    memcpy(key, c, (size_t)(equals - c));
    key[equals - c] = '\0';
    memcpy(value, equals + 1, (size_t)(end - equals - 1));
    value[end - equals - 1] = '\0';
    *text = end + (*end == ',');
    return 1;
}

stance_status stance_plugin_config_set(const struct stance_plugin *plugin, void *config,
                                       const char *settings, struct stance_error *err)
{
    const char   *word = stance_kind_word(plugin->kind), *rest = settings;
    char          key[64], value[STANCE_TEXT_MAX + 1];
    stance_status status;
    int           more;

    while ((more = stance_settings_next(&rest, key, sizeof key, value, sizeof value)) > 0) {
        status = stance_param_set(plugin->params, config, key, value, err);
        if (status != STANCE_OK)
            return stance_error_prefix(err, status, "%s '%s'", word, plugin->name);
    }
    if (more < 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s '%s': '%s' is not of the form key=value,key=value", word,
                           plugin->name, settings);
    return STANCE_OK;
}

stance_status stance_instance_new(struct stance_registry *reg, enum stance_kind kind,
                                  const char *spec, struct stance_instance *out,
                                  struct stance_error *err)
{
    size_t                      len = strcspn(spec, ":");
    char                        name[128];
    const struct stance_plugin *plugin;
    void                       *config;
    stance_status               status;

    if (len >= sizeof name)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "'%s' is too long for a plugin's name", spec);
    memcpy(name, spec, len);
    name[len] = '\0';
    status = stance_registry_find(reg, kind, name, &plugin, err);
    if (status != STANCE_OK)
        return status;
    status = stance_plugin_config_new(plugin, &config, err);
    if (status != STANCE_OK)
        return status;
    if (spec[len] == ':') {
        status = stance_plugin_config_set(plugin, config, spec + len + 1, err);
        if (status != STANCE_OK) {
            stance_plugin_config_free(config);
            return status;
        }
    }
    *out = (struct stance_instance){ plugin, config };
    return STANCE_OK;
}

void stance_instance_clear(struct stance_instance *i)
{
    stance_plugin_config_free(i->config);
    *i = (struct stance_instance){ 0 };
}
