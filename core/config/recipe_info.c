/* SPDX-License-Identifier: Apache-2.0
 *
 * The points of a dataset: names, mirror pairs, sigmas, bones, upper body. */
#include "config.h"

#include "config/recipe_priv.h"

#include "data/pose_info.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_list(const struct stance_config_node *n)
{
    return n != NULL && n->kind == STANCE_CONFIG_LIST;
}

static stance_status read_names(struct stance_config *c, const struct stance_config_node *info,
                                struct stance_pose *p, struct stance_error *err)
{
    const struct stance_config_node *list = stance_config_find(info, "keypoints");
    const char                     **names;

    if (!is_list(list) || list->count == 0)
        return stance_config_fail(err, STANCE_ERR_INVAL, list != NULL ? list : info,
                                  "keypoints: a list of names is expected");
    names = stance_arena_get(c->arena, list->count * sizeof *names, _Alignof(char *));
    if (names == NULL)
        return stance_recipe_nomem(c, err);
    for (size_t i = 0; i < list->count; i++) {
        const struct stance_config_node *n = list->child[i];

        if (n->kind == STANCE_CONFIG_LIST || n->kind == STANCE_CONFIG_MAP || n->text[0] == '\0')
            return stance_config_fail(err, STANCE_ERR_INVAL, n, "keypoints: item %zu is not a name",
                                      i);
        for (size_t j = 0; j < i; j++)
            if (strcmp(names[j], n->text) == 0)
                return stance_config_fail(err, STANCE_ERR_INVAL, n,
                                          "keypoints: '%s' stands twice, as %zu and as %zu",
                                          n->text, j, i);
        names[i] = n->text;
    }
    p->names     = names;
    p->keypoints = (int32_t)list->count;
    return STANCE_OK;
}

static stance_status read_sigmas(struct stance_config *c, const struct stance_config_node *info,
                                 struct stance_pose *p, struct stance_error *err)
{
    const struct stance_config_node *list = stance_config_find(info, "sigmas");
    float                           *sigmas;

    if (stance_config_is_null(list))
        return STANCE_OK;
    if (!is_list(list) || list->count != (size_t)p->keypoints)
        return stance_config_fail(err, STANCE_ERR_INVAL, list,
                                  "sigmas: %zu values for %d keypoints", list->count,
                                  (int)p->keypoints);
    sigmas = stance_arena_get(c->arena, list->count * sizeof *sigmas, _Alignof(float));
    if (sigmas == NULL)
        return stance_recipe_nomem(c, err);
    for (size_t i = 0; i < list->count; i++) {
        double v;

        if (list->child[i]->kind != STANCE_CONFIG_SCALAR
            || !stance_text_f64(list->child[i]->text, &v) || !(v > 1e-6 && v < 1e6))
            return stance_config_fail(err, STANCE_ERR_INVAL, list->child[i],
                                      "sigmas: '%s' is not a number above 0", list->child[i]->text);
        sigmas[i] = (float)v;
    }
    p->sigmas = sigmas;
    return STANCE_OK;
}

/* A point by number from 0, or by name. */
static stance_status point(const struct stance_config_node *n, const char *what,
                           const struct stance_pose *p, int32_t *out, struct stance_error *err)
{
    char *end;
    long  i;

    if (n->kind == STANCE_CONFIG_LIST || n->kind == STANCE_CONFIG_MAP || n->text[0] == '\0')
        return stance_config_fail(err, STANCE_ERR_INVAL, n, "%s: a point is expected", what);
    i = strtol(n->text, &end, 10);
    if (*end == '\0') {
        if (i < 0 || i >= p->keypoints)
            return stance_config_fail(err, STANCE_ERR_RANGE, n,
                                      "%s: point %s of a set of %d points (counted from 0)", what,
                                      n->text, (int)p->keypoints);
        *out = (int32_t)i;
        return STANCE_OK;
    }
    for (int32_t k = 0; k < p->keypoints; k++)
        if (strcmp(p->names[k], n->text) == 0) {
            *out = k;
            return STANCE_OK;
        }
    return stance_config_fail(err, STANCE_ERR_INVAL, n, "%s: '%s' is not one of the keypoints",
                              what, n->text);
}

/* Pairs of points, [[0, 1], ...], as 2 * count numbers. */
static stance_status read_pairs(struct stance_config *c, const struct stance_config_node *list,
                                const char *what, const struct stance_pose *p, int32_t **out,
                                struct stance_error *err)
{
    int32_t      *pairs;
    stance_status status = STANCE_OK;

    if (!is_list(list))
        return stance_config_fail(err, STANCE_ERR_INVAL, list, "%s: a list of pairs is expected",
                                  what);
    pairs = stance_arena_get(c->arena, (2 * list->count + 1) * sizeof *pairs, _Alignof(int32_t));
    if (pairs == NULL)
        return stance_recipe_nomem(c, err);
    for (size_t i = 0; i < list->count && status == STANCE_OK; i++) {
        if (!is_list(list->child[i]) || list->child[i]->count != 2)
            return stance_config_fail(err, STANCE_ERR_INVAL, list->child[i],
                                      "%s: item %zu is not a pair", what, i);
        for (size_t k = 0; k < 2 && status == STANCE_OK; k++)
            status = point(list->child[i]->child[k], what, p, &pairs[2 * i + k], err);
    }
    *out = pairs;
    return status;
}

static stance_status read_partners(struct stance_config *c, const struct stance_config_node *info,
                                   struct stance_pose *p, struct stance_error *err)
{
    const struct stance_config_node *list = stance_config_find(info, "flip_pairs");
    int32_t                         *pairs, *partner;
    stance_status                    status;

    if (stance_config_is_null(list))
        return STANCE_OK;
    status = read_pairs(c, list, "flip_pairs", p, &pairs, err);
    if (status != STANCE_OK)
        return status;
    partner = stance_arena_get(c->arena, (size_t)p->keypoints * sizeof *partner, _Alignof(int32_t));
    if (partner == NULL)
        return stance_recipe_nomem(c, err);
    for (int32_t k = 0; k < p->keypoints; k++)
        partner[k] = k;
    for (size_t i = 0; i < list->count; i++) {
        int32_t a = pairs[2 * i], b = pairs[2 * i + 1];

        if (a == b || partner[a] != a || partner[b] != b)
            return stance_config_fail(err, STANCE_ERR_INVAL, list->child[i],
                                      "flip_pairs: point %d stands in two pairs or twice in one",
                                      (int)(a == b || partner[a] != a ? a : b));
        partner[a] = b;
        partner[b] = a;
    }
    p->partner = partner;
    return STANCE_OK;
}

static stance_status read_upper(struct stance_config *c, const struct stance_config_node *info,
                                struct stance_pose *p, struct stance_error *err)
{
    const struct stance_config_node *list = stance_config_find(info, "upper_body");
    uint8_t                         *upper;

    if (stance_config_is_null(list)) {
        if (stance_pose_is_coco(p))
            p->upper = stance_pose_coco()->upper;
        return STANCE_OK;
    }
    if (!is_list(list))
        return stance_config_fail(err, STANCE_ERR_INVAL, list,
                                  "upper_body: a list of points is expected");
    upper = stance_arena_get(c->arena, (size_t)p->keypoints, 1);
    if (upper == NULL)
        return stance_recipe_nomem(c, err);
    for (size_t i = 0; i < list->count; i++) {
        int32_t       k;
        stance_status status = point(list->child[i], "upper_body", p, &k, err);

        if (status != STANCE_OK)
            return status;
        upper[k] = 1;
    }
    p->upper = upper;
    return STANCE_OK;
}

stance_status stance_pose_read(struct stance_config *c, const struct stance_config_node *info,
                               struct stance_pose *pose, struct stance_error *err)
{
    const struct stance_config_node *skeleton = stance_config_find(info, "skeleton");
    struct stance_pose               p        = { .size = sizeof p };
    stance_status                    status   = read_names(c, info, &p, err);

    if (status == STANCE_OK)
        status = read_sigmas(c, info, &p, err);
    if (status == STANCE_OK)
        status = read_partners(c, info, &p, err);
    if (status == STANCE_OK)
        status = read_upper(c, info, &p, err);
    if (status == STANCE_OK && !stance_config_is_null(skeleton)) {
        int32_t *bones = NULL;

        status     = read_pairs(c, skeleton, "skeleton", &p, &bones, err);
        p.skeleton = bones;
        p.bones    = (int32_t)skeleton->count;
    }
    if (status != STANCE_OK)
        return status;
    memcpy(p.input_size, pose->input_size, sizeof p.input_size);
    memcpy(p.heatmap_size, pose->heatmap_size, sizeof p.heatmap_size);
    *pose = p;
    return STANCE_OK;
}
