/* SPDX-License-Identifier: Apache-2.0
 *
 * The ways to ask for mixed precision. MMPose's `fp16: {loss_scale: ...}` with the names of
 * PyTorch's GradScaler or of MMCV's LossScaler, our `precision`, and the command line all end as
 *     precision: {compute: P, scaler: {name: ..., ...}}
 * Source of the meanings: MMCV 1.7 Fp16OptimizerHook (a number is a static scale, 512 if none is
 * given, "dynamic" is GradScaler with its defaults). */
#include "config.h"

#include "config/recipe_priv.h"

#include <stance/log.h>

#include <stdio.h>
#include <string.h>

#define STANCE_LOG_MODULE "recipe"

static const char *const words[] = { "fp32", "bf16", "fp16", "fp64", "auto", NULL };

const char *stance_precision_word(enum stance_precision p)
{
    return (unsigned)p < STANCE_PRECISION_COUNT ? words[p] : "unknown";
}

const char *stance_recipe_scaler_of(enum stance_precision p)
{
    return p == STANCE_PRECISION_AUTO ? NULL : p == STANCE_PRECISION_FP16 ? "dynamic" : "none";
}

struct compute {
    int compute;
};

static const struct stance_param precision_table[] = {
    STANCE_PARAM_ENUM(struct compute, compute, "fp32", words,
                      "type of activations and weight copies"),
    STANCE_PARAM_END,
};
static const char *const precision_extra[] = { "scaler", "loss_scale", NULL };
static const char *const fp16_extra[]      = { "loss_scale", NULL };

static const struct stance_config_section precision_section = { "precision", precision_table,
                                                                precision_extra };
static const struct stance_config_section fp16_section      = { "fp16", NULL, fp16_extra };

static struct stance_config_node *named(struct stance_config *c, const char *name,
                                        const struct stance_config_node *place)
{
    struct stance_config_node *map = stance_config_node_new(c, STANCE_CONFIG_MAP, place);
    struct stance_config_node *n   = stance_config_node_text(c, name, place);

    return map != NULL && n != NULL && stance_config_node_add(c, map, "name", n) ? map : NULL;
}

static bool add_copy(struct stance_config *c, struct stance_config_node *map, const char *key,
                     const struct stance_config_node *n)
{
    struct stance_config_node *copy = stance_config_node_copy(c, n);

    return copy != NULL && stance_config_node_add(c, map, key, copy);
}

static bool is_number(const struct stance_config_node *n)
{
    double v;

    return n->kind == STANCE_CONFIG_SCALAR && stance_text_f64(n->text, &v);
}

/* MMCV's scale_factor is PyTorch's growth_factor and one over its backoff_factor. */
static stance_status add_factor(struct stance_config *c, struct stance_config_node *map,
                                const struct stance_config_node *n, struct stance_error *err)
{
    struct stance_config_node *back;
    char                       text[40];
    double                     v;

    if (n->kind != STANCE_CONFIG_SCALAR || !stance_text_f64(n->text, &v) || !(v > 1 && v <= 1e30))
        return stance_config_fail(err, STANCE_ERR_INVAL, n,
                                  "loss_scale.scale_factor: '%s' is not a number above 1", n->text);
    stance_text_of_f64(1 / v, text, sizeof text);
    back = stance_config_node_text(c, text, n);
    if (back == NULL || !add_copy(c, map, "growth_factor", n)
        || !stance_config_node_add(c, map, "backoff_factor", back))
        return stance_recipe_nomem(c, err);
    return STANCE_OK;
}

static const struct {
    const char *key, *other, *scaler;
} scale_keys[] = {
    /* key of loss_scale, the same thing by another name, key of the scaler */
    { "init_scale", "", "init_scale" },
    { "growth_factor", "scale_factor", "growth_factor" },
    { "backoff_factor", "scale_factor", "backoff_factor" },
    { "growth_interval", "scale_window", "growth_interval" },
    { "scale_window", "", "growth_interval" },
    { "min_scale", "", "min_scale" },
    { "max_scale", "", "max_scale" },
    { "scale_factor", "", NULL },
    { "mode", "", NULL },
    { "enabled", "", NULL },
};
enum { SCALE_KEYS = sizeof scale_keys / sizeof *scale_keys };

static stance_status unknown_scale_key(const struct stance_config_node *n, struct stance_error *err)
{
    const char *near = NULL;
    int         best = 3;

    for (int i = 0; i < SCALE_KEYS; i++) {
        int d = stance_text_distance(n->key, scale_keys[i].key);

        if (d < best) {
            best = d;
            near = scale_keys[i].key;
        }
    }
    return stance_config_fail(err, STANCE_ERR_INVAL, n, "loss_scale.%s: unknown key%s%s%s", n->key,
                              near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                              near != NULL ? "'?" : "");
}

static stance_status static_of_map(struct stance_config *c, const struct stance_config_node *node,
                                   struct stance_config_node **out, struct stance_error *err)
{
    const struct stance_config_node *scale = stance_config_find(node, "init_scale");

    *out = named(c, "static", node);
    if (*out == NULL || (!stance_config_is_null(scale) && !add_copy(c, *out, "scale", scale)))
        return stance_recipe_nomem(c, err);
    for (size_t i = 0; i < node->count; i++)
        if (strncmp(node->child[i]->key, "growth", 6) == 0
            || strncmp(node->child[i]->key, "backoff", 7) == 0)
            return stance_config_fail(err, STANCE_ERR_INVAL, node->child[i],
                                      "loss_scale.%s: a static scale does not change",
                                      node->child[i]->key);
    return STANCE_OK;
}

static stance_status scaler_of_map(struct stance_config *c, const struct stance_config_node *node,
                                   struct stance_config_node **out, struct stance_error *err)
{
    const struct stance_config_node *mode    = stance_config_find(node, "mode");
    const struct stance_config_node *enabled = stance_config_find(node, "enabled");

    for (size_t i = 0; i < node->count; i++) {
        int k = 0;

        while (k < SCALE_KEYS && strcmp(scale_keys[k].key, node->child[i]->key) != 0)
            k++;
        if (k == SCALE_KEYS)
            return unknown_scale_key(node->child[i], err);
        if (stance_config_find(node, scale_keys[k].other) != NULL)
            return stance_config_fail(err, STANCE_ERR_INVAL, node->child[i],
                                      "loss_scale: %s and %s contradict each other",
                                      scale_keys[k].key, scale_keys[k].other);
    }
    if (!stance_config_is_null(enabled) && strcmp(enabled->text, "false") != 0
        && strcmp(enabled->text, "False") != 0 && strcmp(enabled->text, "true") != 0
        && strcmp(enabled->text, "True") != 0)
        return stance_config_fail(err, STANCE_ERR_INVAL, enabled,
                                  "loss_scale.enabled: '%s' is neither true nor false",
                                  enabled->text);
    if (!stance_config_is_null(enabled) && (enabled->text[0] == 'f' || enabled->text[0] == 'F')) {
        *out = named(c, "none", enabled);
        return *out != NULL ? STANCE_OK : stance_recipe_nomem(c, err);
    }
    if (!stance_config_is_null(mode) && strcmp(mode->text, "static") == 0)
        return static_of_map(c, node, out, err);
    if (!stance_config_is_null(mode) && strcmp(mode->text, "dynamic") != 0)
        return stance_config_fail(err, STANCE_ERR_INVAL, mode,
                                  "loss_scale.mode: '%s' is not one of dynamic, static",
                                  mode->text);
    *out = named(c, "dynamic", node);
    if (*out == NULL)
        return stance_recipe_nomem(c, err);
    for (size_t i = 0; i < node->count; i++)
        for (int k = 0; k < SCALE_KEYS; k++) {
            if (strcmp(scale_keys[k].key, node->child[i]->key) != 0
                || node->child[i]->kind == STANCE_CONFIG_NULL)
                continue;
            if (strcmp(scale_keys[k].key, "scale_factor") == 0) {
                stance_status status = add_factor(c, *out, node->child[i], err);

                if (status != STANCE_OK)
                    return status;
            } else if (scale_keys[k].scaler != NULL
                       && !add_copy(c, *out, scale_keys[k].scaler, node->child[i])) {
                return stance_recipe_nomem(c, err);
            }
        }
    return STANCE_OK;
}

static stance_status static_scaler(struct stance_config *c, const char *scale,
                                   const struct stance_config_node *place,
                                   struct stance_config_node **out, struct stance_error *err)
{
    struct stance_config_node *n = stance_config_node_text(c, scale, place);

    *out = named(c, "static", place);
    if (*out == NULL || n == NULL || !stance_config_node_add(c, *out, "scale", n))
        return stance_recipe_nomem(c, err);
    return STANCE_OK;
}

/* `loss_scale`: a number, dynamic, or a mapping. */
static stance_status scaler_of_loss_scale(struct stance_config            *c,
                                          const struct stance_config_node *node,
                                          struct stance_config_node **out, struct stance_error *err)
{
    if (node->kind == STANCE_CONFIG_MAP)
        return scaler_of_map(c, node, out, err);
    if (is_number(node))
        return static_scaler(c, node->text, node, out, err);
    if (node->kind == STANCE_CONFIG_SCALAR && strcmp(node->text, "dynamic") == 0) {
        *out = named(c, "dynamic", node);
        return *out != NULL ? STANCE_OK : stance_recipe_nomem(c, err);
    }
    return stance_config_fail(err, STANCE_ERR_INVAL, node,
                              "loss_scale: '%s' is neither a number, nor dynamic, nor a mapping",
                              node->kind == STANCE_CONFIG_LIST ? stance_config_kind_word(node)
                                                               : node->text);
}

/* `scaler`: a name, "name:k=v", a number, or a mapping with its name. */
static stance_status scaler_of_scaler(struct stance_config            *c,
                                      const struct stance_config_node *node,
                                      struct stance_config_node **out, struct stance_error *err)
{
    if (is_number(node))
        return static_scaler(c, node->text, node, out, err);
    if (node->kind == STANCE_CONFIG_SCALAR)
        return stance_config_spec(c, node->text, node, out, err);
    if (node->kind != STANCE_CONFIG_MAP || stance_config_is_null(stance_config_find(node, "name")))
        return stance_config_fail(err, STANCE_ERR_INVAL, node,
                                  "precision.scaler: a name, or a mapping with one, is expected");
    *out = stance_config_node_copy(c, node);
    return *out != NULL ? STANCE_OK : stance_recipe_nomem(c, err);
}

static stance_status read_fp16(struct stance_config *c, const struct stance_config_node *node,
                               struct stance_config_node **scaler, struct stance_error *err)
{
    const struct stance_config_node *loss_scale = stance_config_find(node, "loss_scale");
    stance_status status = stance_config_fill_section(node, &fp16_section, NULL, NULL, err);

    if (status != STANCE_OK)
        return status;
    if (stance_config_is_null(loss_scale))
        return static_scaler(c, "512", node, scaler, err);
    return scaler_of_loss_scale(c, loss_scale, scaler, err);
}

/* @param[out] scaler  NULL: none named */
static stance_status read_precision(struct stance_config *c, const struct stance_config_node *node,
                                    int *compute, struct stance_config_node **scaler,
                                    struct stance_error *err)
{
    const struct stance_config_node *own        = stance_config_find(node, "scaler");
    const struct stance_config_node *loss_scale = stance_config_find(node, "loss_scale");
    struct compute                   found      = { STANCE_PRECISION_FP32 };
    stance_status                    status;

    *scaler = NULL;
    if (node->kind == STANCE_CONFIG_SCALAR) {
        struct stance_config_node map = *node, *child[1], word = *node;

        word.key  = "compute"; /* the short form, told as the long one */
        child[0]  = &word;
        map.kind  = STANCE_CONFIG_MAP;
        map.child = child;
        map.count = 1;
        status    = stance_config_fill_section(&map, &precision_section, NULL, &found, err);
        *compute  = found.compute;
        return status;
    }
    status   = stance_config_fill_section(node, &precision_section, NULL, &found, err);
    *compute = found.compute;
    if (status != STANCE_OK)
        return status;
    if (stance_config_is_null(stance_config_find(node, "compute")))
        return stance_config_fail(
            err, STANCE_ERR_INVAL, node,
            "precision: `compute` is missing (fp32, bf16, fp16, fp64 or auto)");
    if (!stance_config_is_null(own) && !stance_config_is_null(loss_scale))
        return stance_config_fail(err, STANCE_ERR_INVAL, loss_scale,
                                  "precision: scaler and loss_scale contradict each other");
    if (!stance_config_is_null(own))
        return scaler_of_scaler(c, own, scaler, err);
    if (!stance_config_is_null(loss_scale))
        return scaler_of_loss_scale(c, loss_scale, scaler, err);
    return STANCE_OK;
}

static stance_status put_precision(struct stance_config *c, enum stance_precision p,
                                   struct stance_config_node       *scaler,
                                   const struct stance_config_node *place, struct stance_error *err)
{
    struct stance_config_node *map     = stance_config_node_new(c, STANCE_CONFIG_MAP, place);
    struct stance_config_node *compute = stance_config_node_text(c, words[p], place);

    if (map == NULL || compute == NULL || !stance_config_node_add(c, map, "compute", compute)
        || (scaler != NULL && !stance_config_node_add(c, map, "scaler", scaler))
        || !stance_config_node_put(c, c->root, "precision", map))
        return stance_recipe_nomem(c, err);
    stance_config_node_drop(c->root, "fp16");
    return STANCE_OK;
}

stance_status stance_recipe_normalise_precision(struct stance_config *c, struct stance_error *err)
{
    const struct stance_config_node *fp16 = stance_config_find(c->root, "fp16"),
                                    *node = stance_config_find(c->root, "precision");
    struct stance_config_node *scaler = NULL, *other = NULL;
    int                        compute = STANCE_PRECISION_FP32;
    stance_status              status  = STANCE_OK;
    char                       place[STANCE_CONFIG_PLACE_MAX];

    if (!stance_config_is_null(node))
        status = read_precision(c, node, &compute, &scaler, err);
    if (status == STANCE_OK && !stance_config_is_null(fp16))
        status = read_fp16(c, fp16, &other, err);
    if (status != STANCE_OK)
        return status;
    if (!stance_config_is_null(fp16) && !stance_config_is_null(node)
        && (compute != STANCE_PRECISION_FP16
            || (scaler != NULL && !stance_config_equal(scaler, other))))
        return stance_config_fail(err, STANCE_ERR_INVAL, fp16,
                                  "fp16 and the precision of %s contradict each other; "
                                  "write 'fp16: ~' or 'precision: ~' to drop one",
                                  stance_config_place(node, place));
    if (!stance_config_is_null(fp16))
        return put_precision(c, STANCE_PRECISION_FP16, other, fp16, err);
    if (!stance_config_is_null(node))
        return put_precision(c, (enum stance_precision)compute, scaler, node, err);
    stance_config_node_drop(c->root, "fp16");
    stance_config_node_drop(c->root, "precision");
    return STANCE_OK;
}

/* ---- command line ---------------------------------------------------------------------------- */

static struct stance_config_node *option(struct stance_config *c, const char *text,
                                         const char *origin)
{
    struct stance_config_node *n = stance_config_node_text(c, text, NULL);

    if (n != NULL)
        n->file = origin;
    return n;
}

static bool on_cuda(const struct stance_config *c)
{
    const struct stance_config_node *n = stance_config_find(c->root, "device");

    if (n != NULL && n->kind == STANCE_CONFIG_MAP)
        n = stance_config_find(n, "name");
    return n != NULL && n->kind == STANCE_CONFIG_SCALAR && strncmp(n->text, "cuda", 4) == 0
           && (n->text[4] == '\0' || n->text[4] == ':');
}

/* Type that the canonical tree asks for. */
static int policy(const struct stance_config *c)
{
    const struct stance_config_node *n = stance_config_get(c->root, "precision.compute");

    for (int p = 0; n != NULL && words[p] != NULL; p++)
        if (strcmp(words[p], n->text) == 0)
            return p;
    return STANCE_PRECISION_FP32;
}

static stance_status ask(struct stance_config *c, const char *word, const char *origin,
                         struct stance_error *err)
{
    struct stance_config_node *n      = option(c, word, origin);
    struct stance_config_node *scaler = stance_config_get(c->root, "precision.scaler"),
                              *none   = NULL;
    int           compute;
    stance_status status;

    if (n == NULL)
        return stance_recipe_nomem(c, err);
    status = read_precision(c, n, &compute, &none, err);
    if (status != STANCE_OK)
        return status;
    return put_precision(c, (enum stance_precision)compute, compute == policy(c) ? scaler : NULL, n,
                         err);
}

static stance_status precision_options(struct stance_config               *c,
                                       const struct stance_recipe_options *o,
                                       struct stance_error                *err)
{
    bool auto_too = o->precision != NULL && strcmp(o->precision, "auto") == 0;
    int  own;

    if ((o->precision != NULL && o->use_amp) || (o->amp && o->use_amp)
        || (o->amp && o->precision != NULL && !auto_too))
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "only one of --precision, --amp and --use-amp can be given");
    if (o->precision != NULL)
        return ask(c, o->precision, "--precision", err);
    if (o->amp)
        return ask(c, "auto", "--amp", err);
    if (!o->use_amp)
        return STANCE_OK;
    own = policy(c);
    if (own == STANCE_PRECISION_BF16 || own == STANCE_PRECISION_FP16
        || own == STANCE_PRECISION_AUTO)
        return STANCE_OK;
    if (on_cuda(c))
        return ask(c, "fp16", "--use-amp", err);
    STANCE_LOG(STANCE_LOG_WARN, "--use-amp: the recipe names no low precision and the device is "
                                "not cuda: training in fp32");
    return ask(c, "fp32", "--use-amp", err);
}

static stance_status scaler_option(struct stance_config *c, const char *text,
                                   struct stance_error *err)
{
    struct stance_config_node *n   = option(c, text, "--scaler"), *scaler,
                              *map = stance_config_find(c->root, "precision");
    stance_status status;

    if (n == NULL)
        return stance_recipe_nomem(c, err);
    status = scaler_of_scaler(c, n, &scaler, err);
    if (status != STANCE_OK)
        return status;
    if (map == NULL)
        return put_precision(c, STANCE_PRECISION_FP32, scaler, NULL, err);
    return stance_config_node_put(c, map, "scaler", scaler) ? STANCE_OK
                                                            : stance_recipe_nomem(c, err);
}

stance_status stance_recipe_apply_options(struct stance_config               *c,
                                          const struct stance_recipe_options *o,
                                          struct stance_error                *err)
{
    const struct {
        const char *text, *option, *key;
    } keys[] = {
        { o->batch_size, "--batch-size", "train.batch_size" },
        { o->accumulate, "--accumulate", "train.accumulate" },
        { o->clip_grad_norm, "--clip-grad-norm", "train.clip_grad_norm" },
        { o->epochs, "--epochs", "train.epochs" },
        { o->max_steps, "--max-steps", "train.max_steps" },
        { o->workers, "--workers", "train.workers" },
        { o->seed, "--seed", "train.seed" },
        { o->threads, "--threads", "threads" },
    };
    stance_status status = STANCE_OK;

    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == STANCE_OK; i++)
        if (keys[i].text != NULL) {
            char assignment[600];

            snprintf(assignment, sizeof assignment, "%s='%.500s'", keys[i].key, keys[i].text);
            if (strchr(keys[i].text, '\'') != NULL)
                return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not a number",
                                   keys[i].option, keys[i].text);
            status = stance_config_set(c, assignment, keys[i].option, err);
        }
    if (status == STANCE_OK && o->device != NULL) {
        struct stance_config_node *n = option(c, o->device, "--device");

        if (n == NULL || !stance_config_node_put(c, c->root, "device", n))
            return stance_recipe_nomem(c, err);
    }
    if (status == STANCE_OK)
        status = precision_options(c, o, err);
    if (status == STANCE_OK && o->scaler != NULL)
        status = scaler_option(c, o->scaler, err);
    return status;
}
