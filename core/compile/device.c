/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "compile/device.h"

#include <string.h>

stance_status stance_device_open(struct stance_registry *registry, const char *name, void *config,
                                 int threads, struct stance_device **out, struct stance_error *err)
{
    const struct stance_plugin *plugin;
    struct stance_device       *d = NULL;
    stance_status status = stance_registry_find(registry, STANCE_KIND_DEVICE, name, &plugin, err);

    if (status != STANCE_OK)
        goto free_config;
    d = stance_calloc(1, sizeof *d);
    if (config == NULL) {
        config = stance_calloc(1, plugin->config_size + 1);
        if (config != NULL && (status = stance_param_defaults(plugin->params, config, err)) != STANCE_OK)
            goto free_device;
    }
    if (d != NULL)
        d->state = stance_calloc(1, plugin->ops.device->state_size + 1);
    if (d == NULL || config == NULL || d->state == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "device '%s'", name);
        goto free_device;
    }
    d->plugin = plugin;
    d->ops    = plugin->ops.device;
    d->config = config;
    status    = d->ops->open(d->state, config, threads, err);
    if (status != STANCE_OK) {
        stance_error_prefix(err, status, "device '%s'", name);
        goto free_device;
    }
    *out = d;
    return STANCE_OK;

free_device:
    if (d != NULL)
        stance_free(d->state);
    stance_free(d);
free_config:
    stance_free(config);
    return status;
}

void stance_device_close(struct stance_device *d)
{
    if (d == NULL)
        return;
    if (STANCE_HAS(d->ops, close))
        d->ops->close(d->state);
    stance_free(d->state);
    stance_free(d->config);
    stance_free(d);
}

static const struct { const char *word; struct stance_policy policy; } policies[] = {
    { "fp32", { STANCE_TYPE_F32, STANCE_TYPE_F32 } },
    { "bf16", { STANCE_TYPE_BF16, STANCE_TYPE_F32 } },
    { "fp16", { STANCE_TYPE_F16, STANCE_TYPE_F32 } },
    { "fp64", { STANCE_TYPE_F64, STANCE_TYPE_F64 } },
};

const char *stance_policy_word(struct stance_policy p)
{
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
        if (policies[i].policy.low == p.low)
            return policies[i].word;
    return "?";
}

stance_status stance_policy_of(const char *word, const struct stance_device *d, bool training,
                               struct stance_policy *out, struct stance_error *err)
{
    enum stance_type low = STANCE_TYPE_ANY;

    if (strcmp(word, "auto") == 0)
        low = STANCE_HAS(d->ops, fast_type) ? d->ops->fast_type(d->state) : STANCE_TYPE_F32;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        if (policies[i].policy.low == low || strcmp(policies[i].word, word) == 0) {
            stance_status status = STANCE_OK;

            if (STANCE_HAS(d->ops, precision))
                status = d->ops->precision(d->state, policies[i].policy.low, training, err);
            else if (policies[i].policy.low != STANCE_TYPE_F32)
                status = STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "device '%s' computes in fp32 only", d->plugin->name);

            if (status == STANCE_OK)
                *out = policies[i].policy;
            return status;
        }
    }
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "precision: '%s' is not one of fp32, bf16, fp16, fp64, auto", word);
}
