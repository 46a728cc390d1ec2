/* SPDX-License-Identifier: Apache-2.0
 *
 * Clipping of gradients in the words of MMCV's `grad_clip` and of PyTorch's clip_grad_norm_: a number is
 * the largest L2 norm, a mapping names `max_norm` and `norm_type`. Both end as the keys clip_grad_norm
 * and clip_norm_type of the section `train`. */
#include "config.h"

#include "config/recipe_priv.h"

#include <math.h>
#include <string.h>

/* Texts of the table for the norms that exist here. */
static const char *norm_word(const struct stance_config_node *n)
{
    static const char *const infinite[] = { "inf", ".inf", ".Inf", "Inf", "infinity", "Infinity" };
    double                   v;

    if (n->kind != STANCE_CONFIG_SCALAR)
        return NULL;
    for (size_t i = 0; i < sizeof infinite / sizeof *infinite; i++)
        if (strcmp(n->text, infinite[i]) == 0)
            return "inf";
    return stance_text_f64(n->text, &v) && v == 2 ? "2" : NULL;
}

stance_status stance_recipe_normalise_clip(struct stance_config *c, struct stance_error *err)
{
    struct stance_config_node       *train = stance_config_find(c->root, "train");
    const struct stance_config_node *clip  = train != NULL && train->kind == STANCE_CONFIG_MAP
                                                 ? stance_config_find(train, "clip_grad_norm") : NULL;
    const struct stance_config_node *norm, *type;
    struct stance_config_node       *word;

    if (clip == NULL || clip->kind != STANCE_CONFIG_MAP)
        return STANCE_OK;
    for (size_t i = 0; i < clip->count; i++)
        if (strcmp(clip->child[i]->key, "max_norm") != 0 && strcmp(clip->child[i]->key, "norm_type") != 0)
            return stance_config_fail(err, STANCE_ERR_INVAL, clip->child[i],
                                      "train.clip_grad_norm.%s: unknown key; known are max_norm and norm_type",
                                      clip->child[i]->key);
    norm = stance_config_find(clip, "max_norm");
    type = stance_config_find(clip, "norm_type");
    if (stance_config_is_null(norm))
        return stance_config_fail(err, STANCE_ERR_INVAL, clip, "train.clip_grad_norm: `max_norm` is missing");
    if (norm->kind != STANCE_CONFIG_SCALAR)
        return stance_config_fail(err, STANCE_ERR_INVAL, norm, "train.clip_grad_norm.max_norm: a number is expected");
    if (!stance_config_is_null(type)) {
        if (norm_word(type) == NULL)
            return stance_config_fail(err, STANCE_ERR_INVAL, type,
                                      "train.clip_grad_norm.norm_type: '%s' is not one of 2, inf",
                                      type->kind == STANCE_CONFIG_SCALAR ? type->text : stance_config_kind_word(type));
        word = stance_config_node_text(c, norm_word(type), type);
        if (word == NULL || !stance_config_node_put(c, train, "clip_norm_type", word))
            return stance_recipe_nomem(c, err);
    }
    word = stance_config_node_text(c, norm->text, norm);
    if (word == NULL || !stance_config_node_put(c, train, "clip_grad_norm", word))
        return stance_recipe_nomem(c, err);
    return STANCE_OK;
}
