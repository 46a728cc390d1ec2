/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/text.h"
#include "registry/instance.h"
#include "step/scaler.h"

#include <stance/alloc.h>
#include <stance/log.h>

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define STANCE_LOG_MODULE "scaler"

struct stance_scaler {
    const struct stance_plugin     *plugin;
    const struct stance_scaler_ops *ops;
    void                           *config, *state;
};

stance_status stance_scaler_new(const struct stance_plugin *plugin, const void *config,
                                struct stance_scaler **out, struct stance_error *err)
{
    struct stance_scaler *s = stance_calloc(1, sizeof *s);
    stance_status         status;

    if (s == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "scaler '%s'", plugin->name);
    s->plugin = plugin;
    s->ops    = plugin->ops.scaler;
    s->config = stance_plugin_config_copy(plugin, config);
    s->state  = stance_calloc(1, s->ops->state_size + 1); /* never 0 bytes */
    if (s->config == NULL || s->state == NULL) {
        stance_scaler_free(s);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "scaler '%s'", plugin->name);
    }
    status = stance_param_defaults(s->ops->state, s->state, err);
    if (status != STANCE_OK) {
        stance_scaler_free(s);
        return stance_error_prefix(err, status, "scaler '%s': state", plugin->name);
    }
    if (STANCE_HAS(s->ops, start))
        s->ops->start(s->state, s->config);
    *out = s;
    return STANCE_OK;
}

stance_status stance_scaler_from(struct stance_registry *reg, const char *spec,
                                 struct stance_scaler **out, struct stance_error *err)
{
    struct stance_instance i;
    stance_status          status = stance_instance_new(reg, STANCE_KIND_SCALER, spec, &i, err);

    if (status != STANCE_OK)
        return status;
    status = stance_scaler_new(i.plugin, i.config, out, err);
    stance_instance_clear(&i);
    return status;
}

void stance_scaler_free(struct stance_scaler *s)
{
    if (s == NULL)
        return;
    stance_free(s->state);
    stance_plugin_config_free(s->config);
    stance_free(s);
}

const char *stance_scaler_name(const struct stance_scaler *s)
{
    return s->plugin->name;
}

bool stance_scaler_wants(const struct stance_scaler *s, uint32_t want)
{
    return (s->ops->wants & want) != 0;
}

stance_status stance_scaler_scale(const struct stance_scaler *s, float *out,
                                  struct stance_error *err)
{
    float scale = s->ops->scale(s->state, s->config);

    if (scale == 0)
        return STANCE_FAIL(err, STANCE_ERR_DIVERGED, "scaler '%s': the scale has fallen to 0",
                           s->plugin->name);
    if (!(scale > 0 && isfinite(scale)))
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN,
                           "scaler '%s': gives the scale %g, which is not a positive number",
                           s->plugin->name, (double)scale);
    *out = scale;
    return STANCE_OK;
}

void stance_scaler_update(struct stance_scaler *s, const struct stance_outcome *outcome)
{
    struct stance_outcome o = *outcome;

    o.size = sizeof o;
    if (STANCE_HAS(s->ops, update))
        s->ops->update(s->state, s->config, &o);
}

stance_status stance_scaler_save(const struct stance_scaler *s, char **text,
                                 struct stance_error *err)
{
    struct stance_string t = { 0 };
    char                 value[STANCE_TEXT_MAX + 2];

    stance_string_add(&t, "%s", s->plugin->name);
    for (const struct stance_param *p = s->ops->state; p != NULL && p->name != NULL; p++) {
        /* What the separators of this form would cut apart cannot be saved in it. */
        if (!stance_param_text(p, s->state, value, sizeof value)
            || (p->type == STANCE_PARAM_TYPE_TEXT && strpbrk(value, ",[]") != NULL)) {
            stance_string_free(&t);
            return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED,
                               "scaler '%s': state '%s' cannot be saved", s->plugin->name, p->name);
        }
        stance_string_add(&t, "%s%s=%s", p == s->ops->state ? ":" : ",", p->name, value);
    }
    if (t.failed) {
        stance_string_free(&t);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "state of scaler '%s'", s->plugin->name);
    }
    *text = t.s;
    return STANCE_OK;
}

/* Reads "key=value,..." into state; every field of the table must come exactly once. */
static stance_status read_state(const struct stance_scaler *s, void *state, const char *text,
                                struct stance_error *err)
{
    const struct stance_param *table = s->ops->state;
    char     key[64], value[STANCE_TEXT_MAX + 1];
    uint64_t seen[4] = { 0 }; /* tables have a few entries; 256 are watched */
    size_t   n = 0, got = 0;
    int      more;

    while (table != NULL && table[n].name != NULL)
        n++;
    while ((more = stance_settings_next(&text, key, sizeof key, value, sizeof value)) > 0) {
        const struct stance_param *p = stance_param_find(table, key);
        size_t                     i = p != NULL ? (size_t)(p - table) : 0;

        if (p != NULL && i < 256) {
            if (seen[i / 64] >> i % 64 & 1)
                return STANCE_FAIL(err, STANCE_ERR_FORMAT, "'%s' comes twice", key);
            seen[i / 64] |= UINT64_C(1) << i % 64;
        }
        if (stance_param_set(table, state, key, value, err) != STANCE_OK)
            return STANCE_ERR_FORMAT;
        got++;
    }
    if (more < 0)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "'%s' is not of the form key=value,key=value",
                           text);
    for (size_t i = 0; i < n && i < 256; i++)
        if (!(seen[i / 64] >> i % 64 & 1))
            return STANCE_FAIL(err, STANCE_ERR_FORMAT, "'%s' is missing", table[i].name);
    if (got != n)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "%zu fields instead of %zu", got, n);
    return STANCE_OK;
}

/* A setting that the state repeats now comes from the checkpoint: whoever has edited the recipe is
 * told. */
static void tell_differences(const struct stance_scaler *s)
{
    for (const struct stance_param *p = s->ops->state; p != NULL && p->name != NULL; p++) {
        const struct stance_param *q = stance_param_find(s->plugin->params, p->name);
        char                       saved[STANCE_TEXT_MAX + 2], configured[STANCE_TEXT_MAX + 2];

        if (q != NULL && stance_param_text(p, s->state, saved, sizeof saved)
            && stance_param_text(q, s->config, configured, sizeof configured)
            && strcmp(saved, configured) != 0)
            STANCE_LOG(STANCE_LOG_WARN,
                       "scaler '%s' goes on with %s %s of the checkpoint, not with %s",
                       s->plugin->name, p->name, saved, configured);
    }
}

stance_status stance_scaler_restore(struct stance_scaler *s, const char *text,
                                    struct stance_error *err)
{
    const char   *name = s->plugin->name;
    size_t        len  = strcspn(text, ":");
    void         *state;
    stance_status status;

    if (len != strlen(name) || memcmp(text, name, len) != 0) {
        STANCE_LOG(STANCE_LOG_WARN,
                   "the checkpoint has the state of scaler '%.*s'; '%s' starts afresh",
                   len < 64 ? (int)len : 64, text, name);
        return STANCE_OK;
    }
    state = stance_calloc(1, s->ops->state_size + 1);
    if (state == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "state of scaler '%s'", name);
    memcpy(state, s->state, s->ops->state_size);
    status = read_state(s, state, text + len + (text[len] == ':'), err);
    if (status != STANCE_OK) {
        stance_free(state);
        return stance_error_prefix(err, status, "saved state of scaler '%s'", name);
    }
    stance_free(s->state);
    s->state = state;
    tell_differences(s);
    return STANCE_OK;
}

static bool number_of(const struct stance_scaler *s, const char *name, double *out)
{
    const struct stance_param *p = stance_param_find(s->plugin->params, name);

    if (p == NULL || p->type != STANCE_PARAM_TYPE_F64)
        return false;
    *out = *(const double *)((const char *)s->config + p->offset);
    return isfinite(*out);
}

int64_t stance_scaler_skip_limit(const struct stance_scaler *s)
{
    const int64_t least = 25;
    double        init, floor_;
    int64_t       steps;

    if (!number_of(s, "init_scale", &init) || !number_of(s, "min_scale", &floor_) || init <= 0)
        return least;
    if (floor_ < 0x1p-126)
        floor_ = 0x1p-126;
    steps = (int64_t)ceil(log2(init / floor_)) + 9;
    return steps > least ? steps : least;
}

void stance_skips_loss(struct stance_skips *k, double loss, uint64_t window)
{
    if (isfinite(loss))
        return;
    k->bad_losses++;
    if ((k->bad_losses & (k->bad_losses - 1)) == 0)
        STANCE_LOG(STANCE_LOG_WARN, "the loss of step %" PRIu64 " is %s, its gradients are finite: applied (%" PRId64 " such %s so far)",
                   window + 1, isnan(loss) ? "nan" : "inf", k->bad_losses, k->bad_losses == 1 ? "step" : "steps");
}

stance_status stance_skips_count(struct stance_skips *k, bool skipped, const char *tensor,
                                 float scale, struct stance_error *err)
{
    if (!skipped) {
        k->in_a_row = 0;
        return STANCE_OK;
    }
    k->in_a_row++;
    k->total++;
    if (k->limit == 0 || k->in_a_row < k->limit)
        return STANCE_OK;
    return STANCE_FAIL(err, STANCE_ERR_DIVERGED,
                       "%" PRId64
                       " steps in a row had non-finite gradients (loss scale %g; first in %s)",
                       k->in_a_row, (double)scale, tensor != NULL ? tensor : "a tensor unknown");
}
