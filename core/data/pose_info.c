/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "data/pose_info.h"

#include <stance/log.h>

#include <stdio.h>
#include <string.h>

#define STANCE_LOG_MODULE "data"

/* Names, order and skeleton: COCO's person category. Sigmas: Ronchi and Perona, ICCV 2017, as in the COCO
 * evaluation code. */
static const char *const coco_names[17] = {
    "nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder",
    "left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip", "left_knee",
    "right_knee", "left_ankle", "right_ankle",
};
static const float   coco_sigmas[17] = { .026f, .025f, .025f, .035f, .035f, .079f, .079f, .072f, .072f,
                                         .062f, .062f, .107f, .107f, .087f, .087f, .089f, .089f };
static const int32_t coco_partner[17] = { 0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15 };
static const uint8_t coco_upper[17] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
static const int32_t coco_skeleton[38] = {
    15, 13, 13, 11, 16, 14, 14, 12, 11, 12, 5, 11, 6, 12, 5, 6, 5, 7,
    6, 8, 7, 9, 8, 10, 1, 2, 0, 1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 6,
};

const struct stance_pose *stance_pose_coco(void)
{
    static const struct stance_pose coco = {
        .size      = sizeof coco,
        .keypoints = 17,
        .names     = coco_names,
        .sigmas    = coco_sigmas,
        .partner   = coco_partner,
        .upper     = coco_upper,
        .skeleton  = coco_skeleton,
        .bones     = sizeof coco_skeleton / sizeof *coco_skeleton / 2,
    };

    return &coco;
}

bool stance_pose_is_coco(const struct stance_pose *pose)
{
    if (pose->keypoints != 17)
        return false;
    for (int32_t k = 0; k < pose->keypoints; k++)
        if (strcmp(pose->names[k], coco_names[k]) != 0)
            return false;
    return true;
}

stance_status stance_pose_partners(const int32_t (*pairs)[2], int32_t n, int32_t keypoints,
                                   int32_t *partner, struct stance_error *err)
{
    for (int32_t k = 0; k < keypoints; k++)
        partner[k] = k;
    for (int32_t i = 0; i < n; i++) {
        for (int j = 0; j < 2; j++) {
            int32_t k = pairs[i][j];

            if (k < 0 || k >= keypoints)
                return STANCE_FAIL(err, STANCE_ERR_RANGE,
                                   "flip pair [%d, %d]: there is no point %d among %d, which count from 0",
                                   pairs[i][0], pairs[i][1], k, keypoints);
            if (partner[k] != k || pairs[i][0] == pairs[i][1])
                return STANCE_FAIL(err, STANCE_ERR_INVAL,
                                   "flip pair [%d, %d]: point %d has a partner already", pairs[i][0],
                                   pairs[i][1], k);
        }
        partner[pairs[i][0]] = pairs[i][1];
        partner[pairs[i][1]] = pairs[i][0];
    }
    return STANCE_OK;
}

/* Whether b is a with one side's word in place of the other's, at the start or after a separator. */
static bool mirrors(const char *a, const char *b)
{
    static const char *const sides[][2] = { { "left", "right" }, { "Left", "Right" }, { "LEFT", "RIGHT" },
                                            { "L_", "R_" },      { "l_", "r_" },      { "_L", "_R" },
                                            { "_l", "_r" } };

    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (const char *at = a; (at = strstr(at, sides[i][0])) != NULL; at++) {
            size_t before = (size_t)(at - a), left = strlen(sides[i][0]), right = strlen(sides[i][1]);
            bool   starts = before == 0 || at[-1] == '_' || at[-1] == '-' || at[-1] == ' ' || at[0] == '_';

            if (sides[i][0][0] == '_' && at[left] != '\0' && at[left] != '_')
                continue; /* "_l" ends a word */
            if (starts && strncmp(a, b, before) == 0 && strncmp(b + before, sides[i][1], right) == 0
                && strcmp(at + left, b + before + right) == 0)
                return true;
        }
    return false;
}

static const int32_t *partners_by_name(struct stance_arena *arena, const char *const *names, int32_t n)
{
    int32_t *partner = stance_arena_get(arena, (size_t)n * sizeof *partner, sizeof *partner);

    if (partner == NULL)
        return NULL;
    for (int32_t k = 0; k < n; k++)
        partner[k] = k;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            if (i != j && partner[i] == i && partner[j] == j && mirrors(names[i], names[j])) {
                partner[i] = j;
                partner[j] = i;
            }
    return partner;
}

static stance_status check(const struct stance_pose *p, struct stance_error *err)
{
    for (int32_t k = 0; k < p->keypoints; k++) {
        if (p->partner[k] < 0 || p->partner[k] >= p->keypoints)
            return STANCE_FAIL(err, STANCE_ERR_RANGE,
                               "flip pair [%d, %d]: there is no point %d among %d, which count from 0", k,
                               p->partner[k], p->partner[k], p->keypoints);
        if (p->partner[p->partner[k]] != k)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "flip pairs: point %d is the partner of two points",
                               p->partner[k]);
        if (p->sigmas != NULL && !(p->sigmas[k] > 0 && p->sigmas[k] < 1e6f))
            return STANCE_FAIL(err, STANCE_ERR_RANGE, "sigma of point %d (%s): %g is not above 0", k,
                               p->names[k], p->sigmas[k]);
    }
    return STANCE_OK;
}

/* A skeleton is for drawing only: one that does not fit is left out. */
static void check_skeleton(struct stance_pose *p, const char *file)
{
    for (int32_t i = 0; i < 2 * p->bones; i++)
        if (p->skeleton[i] < 0 || p->skeleton[i] >= p->keypoints) {
            STANCE_LOG(STANCE_LOG_WARN, "%s: skeleton: there is no point %d among %d: left out", file,
                       p->skeleton[i] + 1, p->keypoints);
            p->bones    = 0;
            p->skeleton = NULL;
        }
}

static const char *const *numbered_names(struct stance_arena *arena, int32_t n)
{
    enum { NAME = 20 };
    const char **names = stance_arena_get(arena, (size_t)n * sizeof *names, sizeof *names);
    char        *text  = stance_arena_get(arena, (size_t)n * NAME, 1);

    if (names == NULL || text == NULL)
        return NULL;
    for (int32_t k = 0; k < n; k++) {
        snprintf(text + NAME * k, NAME, "point_%d", k);
        names[k] = text + NAME * k;
    }
    return names;
}

stance_status stance_pose_join(struct stance_arena *arena, const struct stance_pose *info,
                               const struct stance_pose_found *found, const struct stance_pose **out,
                               struct stance_error *err)
{
    const struct stance_pose *person = stance_pose_coco();
    const bool                told   = info != NULL && info->keypoints > 0;
    struct stance_pose       *p      = stance_arena_get(arena, sizeof *p, sizeof(void *));
    bool                      coco;
    stance_status             status;

    if (p == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "names of points");
    if (info != NULL)
        *p = *info;
    p->size = sizeof *p;
    if (told && found->keypoints != 0 && found->keypoints != p->keypoints)
        return STANCE_FAIL(err, STANCE_ERR_SHAPE, "%s: has %d points, data.info lists %d", found->file,
                           found->keypoints, p->keypoints);
    if (!told) { /* tables without a length say nothing */
        p->keypoints = found->keypoints;
        p->names     = NULL;
        p->sigmas    = NULL;
        p->partner   = NULL;
        p->upper     = NULL;
        p->skeleton  = NULL;
        p->bones     = 0;
    }
    if (p->keypoints <= 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL,
                           "%s: no category lists keypoints, no annotation has any, and there is no data.info",
                           found->file);
    if (p->names != NULL && found->names != NULL)
        for (int32_t k = 0; k < p->keypoints; k++)
            if (strcmp(p->names[k], found->names[k]) != 0) {
                STANCE_LOG(STANCE_LOG_WARN, "%s: point %d is called '%s', in data.info '%s'", found->file, k,
                           found->names[k], p->names[k]);
                break;
            }
    if (p->names == NULL)
        p->names = found->names;
    if (p->names == NULL)
        p->names = p->keypoints == person->keypoints ? person->names : numbered_names(arena, p->keypoints);
    if (p->names == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "names of points");
    coco = stance_pose_is_coco(p);
    if (coco) {
        p->sigmas = p->sigmas != NULL ? p->sigmas : person->sigmas;
        p->upper  = p->upper != NULL ? p->upper : person->upper;
    }
    if (p->partner == NULL)
        p->partner = coco ? person->partner : partners_by_name(arena, p->names, p->keypoints);
    if (p->partner == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "flip pairs");
    if (p->skeleton == NULL) {
        p->skeleton = coco ? person->skeleton : found->skeleton;
        p->bones    = coco ? person->bones : found->bones;
    }
    check_skeleton(p, found->file);
    status = check(p, err);
    if (status != STANCE_OK)
        return status;
    *out = p;
    return STANCE_OK;
}
