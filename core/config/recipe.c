/* SPDX-License-Identifier: Apache-2.0
 *
 * From a name to a recipe: finding the file, its paths, and the order of the steps. */
#include "config.h"

#include "base/environment.h"
#include "config/recipe_priv.h"
#include "data/pose_info.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

stance_status stance_recipe_nomem(const struct stance_config *c, struct stance_error *err)
{
    if (c->nodes >= STANCE_CONFIG_NODES_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "recipe: more than %d values",
                           STANCE_CONFIG_NODES_MAX);
    return STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe: out of memory");
}

/* ---- finding --------------------------------------------------------------------------------- */

static void offer_near(const char *folder, const char *name, int *best, char near[256])
{
    DIR *d = opendir(folder);

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        char   word[256];
        size_t len = strlen(e->d_name);
        int    distance;

        if (len < 6 || len >= sizeof word || strcmp(e->d_name + len - 5, ".yaml") != 0)
            continue;
        memcpy(word, e->d_name, len - 5);
        word[len - 5] = '\0';
        distance      = stance_text_distance(name, word);
        if (distance < *best || (distance == *best && strcmp(word, near) < 0)) {
            *best = distance;
            strcpy(near, word);
        }
    }
    if (d != NULL)
        closedir(d);
}

/* Looks in one folder; *path stays NULL if the recipe is not there. */
static bool look_in(const char *folder, size_t len, const char *name, char **path, int *best,
                    char near[256])
{
    static const char *const ends[] = { "", ".yaml", ".yml" };
    struct stance_string     s      = { 0 };
    bool                     memory;

    if (len == 0)
        return true;
    for (int i = 0; i < 3; i++) {
        s.len = 0;
        stance_string_add(&s, "%.*s/%s%s", (int)len, folder, name, ends[i]);
        if (s.failed)
            break;
        if (access(s.s, R_OK) == 0) {
            *path = s.s;
            return true;
        }
    }
    s.len = 0;
    stance_string_add(&s, "%.*s", (int)len, folder);
    memory = !s.failed;
    if (memory)
        offer_near(s.s, name, best, near);
    stance_string_free(&s);
    return memory;
}

stance_status stance_recipe_locate(const char *recipe, char **path, struct stance_error *err)
{
    const char *list      = stance_env(STANCE_ENV_RECIPE_PATH);
    char       *found     = NULL;
    char        near[256] = "";
    int         best      = 4; /* names are long: three slips are still the same name */
    bool        memory    = true;

    if (strchr(recipe, '/') != NULL || access(recipe, F_OK) == 0) {
        found = stance_strdup(recipe);
        if (found == NULL)
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe '%s': out of memory", recipe);
        *path = found;
        return STANCE_OK;
    }
    while (list != NULL && *list != '\0' && found == NULL && memory) {
        size_t len = strcspn(list, ":");

        memory = look_in(list, len, recipe, &found, &best, near);
        list += len + (list[len] == ':');
    }
    if (found == NULL && memory)
        memory = look_in(STANCE_RECIPE_DIR, strlen(STANCE_RECIPE_DIR), recipe, &found, &best, near);
    if (!memory)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe '%s': out of memory", recipe);
    if (found == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT,
                           "recipe '%s': neither a file nor a recipe of %s%s%s%s", recipe,
                           STANCE_RECIPE_DIR, near[0] != '\0' ? "; did you mean '" : "", near,
                           near[0] != '\0' ? "'?" : "");
    *path = found;
    return STANCE_OK;
}

static const char *name_of(struct stance_config *c, const char *path)
{
    const char *slash = strrchr(path, '/'), *base = slash != NULL ? slash + 1 : path;
    char       *name = stance_arena_strdup(c->arena, base);
    char       *dot  = name != NULL ? strrchr(name, '.') : NULL;

    if (dot != NULL && dot != name && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0))
        *dot = '\0';
    return name;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* @p name relative to the folder of @p file, or to the current one for an option; in the arena. */
static const char *beside(struct stance_config *c, const struct stance_config_node *n)
{
    const char *slash = n->line > 0 ? strrchr(n->file, '/') : NULL;
    size_t      dir   = n->text[0] == '/' || slash == NULL ? 0 : (size_t)(slash - n->file) + 1;
    char       *path  = stance_arena_get(c->arena, dir + strlen(n->text) + 1, 1);

    if (path != NULL) {
        memcpy(path, n->file, dir);
        strcpy(path + dir, n->text);
    }
    return path;
}

static const char *absolute(struct stance_config *c, const char *path)
{
    char  here[4096];
    char *whole;

    if (path[0] == '/' || getcwd(here, sizeof here) == NULL)
        return path;
    whole = stance_arena_get(c->arena, strlen(here) + strlen(path) + 2, 1);
    if (whole != NULL)
        sprintf(whole, "%s/%s", here, path);
    return whole;
}

/* A data path: relative to data.root; *out is NULL for "". */
static bool under_root(struct stance_recipe *r, const char *path, const char **out)
{
    const char *root = r->data.root.s;
    char       *whole;

    *out = path[0] != '\0' ? path : NULL;
    if (path[0] == '\0' || path[0] == '/' || root[0] == '\0')
        return true;
    whole = stance_arena_get(r->tree->arena, strlen(root) + strlen(path) + 2, 1);
    if (whole != NULL)
        sprintf(whole, "%s%s%s", root, root[strlen(root) - 1] == '/' ? "" : "/", path);
    *out = whole;
    return whole != NULL;
}

static stance_status make_split(struct stance_recipe *r, const struct stance_recipe_part *part,
                                bool training, struct stance_split *out, struct stance_error *err)
{
    struct stance_split s = {
        .size            = sizeof s,
        .samples         = part->samples,
        .training        = training,
        .seed            = (uint64_t)r->train.seed,
        .info            = &r->pose,
        .skip_bad_images = r->data.on_bad_image == STANCE_ON_BAD_IMAGE_SKIP,
        .image_size      = { r->pose.input_size[0], r->pose.input_size[1] },
    };

    if (!under_root(r, part->annotations.s, &s.annotations)
        || !under_root(r, part->images.s, &s.images))
        return stance_recipe_nomem(r->tree, err);
    s.boxes = "truth";
    if (part->boxes.s[0] != '\0' && strcmp(part->boxes.s, "truth") != 0
        && !under_root(r, part->boxes.s, &s.boxes))
        return stance_recipe_nomem(r->tree, err);
    *out = s;
    return STANCE_OK;
}

/* ---- points ---------------------------------------------------------------------------------- */

stance_status stance_recipe_check_pose(const struct stance_recipe *r,
                                       const struct stance_pose *pose, struct stance_error *err)
{
    const struct stance_config_node *n = stance_config_get(r->tree->root, "data.augment.half_body");

    if (r->augment.half_body <= 0 || pose->upper != NULL || stance_pose_is_coco(pose))
        return STANCE_OK;
    if (n == NULL)
        n = stance_config_get(r->tree->root, "data.info");
    return stance_config_fail(err, STANCE_ERR_INVAL, n != NULL ? n : r->tree->root,
                              "data.augment.half_body: %g needs to know the upper body: "
                              "list 'upper_body' in the file of data.info, or set half_body: 0",
                              r->augment.half_body);
}

static stance_status read_points(struct stance_recipe *r, struct stance_error *err)
{
    struct stance_config_node *n = stance_config_get(r->tree->root, "data.info"), *info = n;
    char                       place[STANCE_CONFIG_PLACE_MAX];
    stance_status              status;

    for (int i = 0; i < 2; i++) {
        r->pose.input_size[i]   = (int32_t)r->data.input_size.v[i];
        r->pose.heatmap_size[i] = (int32_t)r->data.heatmap_size.v[i];
    }
    r->pose.size = sizeof r->pose;
    if (stance_config_is_null(n))
        return STANCE_OK;
    if (n->kind == STANCE_CONFIG_SCALAR) {
        const char *path = beside(r->tree, n);

        if (path == NULL)
            return stance_recipe_nomem(r->tree, err);
        status = stance_config_read(r->tree, path, &info, err);
        if (status != STANCE_OK)
            return stance_error_prefix(err, status, "%s: data.info", stance_config_place(n, place));
        if (!stance_config_node_put(r->tree, stance_config_find(r->tree->root, "data"), "info",
                                    info))
            return stance_recipe_nomem(r->tree, err);
    } else if (n->kind != STANCE_CONFIG_MAP) {
        return stance_config_fail(err, STANCE_ERR_INVAL, n,
                                  "data.info: a file name or a mapping is expected");
    }
    status = stance_pose_read(r->tree, info, &r->pose, err);
    if (status == STANCE_OK)
        status = stance_recipe_check_pose(r, &r->pose, err);
    return status;
}

static stance_status read_pretrained(struct stance_recipe *r, struct stance_error *err)
{
    const struct stance_config_node *n = stance_config_get(r->tree->root, "model.pretrained");

    if (stance_config_is_null(n))
        return STANCE_OK;
    if (n->kind != STANCE_CONFIG_SCALAR)
        return stance_config_fail(err, STANCE_ERR_INVAL, n,
                                  "model.pretrained: a file name is expected");
    r->pretrained = beside(r->tree, n);
    if (r->pretrained != NULL)
        r->pretrained = absolute(r->tree, r->pretrained);
    return r->pretrained != NULL ? STANCE_OK : stance_recipe_nomem(r->tree, err);
}

/* ---- loading --------------------------------------------------------------------------------- */

static stance_status build(struct stance_recipe *r, const struct stance_recipe_options *o,
                           const struct stance_recipe_lookup *lookup, struct stance_error *err)
{
    stance_status                    status = STANCE_OK;
    const struct stance_config_node *compute;

    for (size_t i = 0; o != NULL && i < o->n_sets && status == STANCE_OK; i++)
        status = stance_config_set(r->tree, o->sets[i], "--set", err);
    if (status == STANCE_OK)
        status = stance_recipe_normalise_precision(r->tree, err);
    if (status == STANCE_OK)
        status = stance_recipe_normalise_clip(r->tree, err);
    if (status == STANCE_OK && o != NULL)
        status = stance_recipe_apply_options(r->tree, o, err);
    if (status != STANCE_OK)
        return status;
    compute = stance_config_get(r->tree->root, "precision.compute");
    for (int p = 0; compute != NULL && p < STANCE_PRECISION_COUNT; p++)
        if (strcmp(compute->text, stance_precision_word((enum stance_precision)p)) == 0)
            r->precision = (enum stance_precision)p;
    status = stance_recipe_read_plugins(r, lookup, err);
    if (status == STANCE_OK)
        status = stance_recipe_read_sections(r, err);
    if (status == STANCE_OK)
        status = read_points(r, err);
    if (status == STANCE_OK)
        status = read_pretrained(r, err);
    if (status == STANCE_OK)
        status = make_split(r, &r->train_part, true, &r->train_split, err);
    if (status == STANCE_OK)
        status = make_split(r, &r->val_part, false, &r->val_split, err);
    if (status == STANCE_OK)
        status = stance_recipe_resolve(r, err);
    return status;
}

stance_status stance_recipe_load(const char *recipe, const struct stance_recipe_options *options,
                                 const struct stance_recipe_lookup *lookup,
                                 struct stance_recipe **out, struct stance_error *err)
{
    struct stance_recipe *r;
    char                 *path;
    stance_status         status = stance_recipe_locate(recipe, &path, err);

    if (status != STANCE_OK)
        return status;
    r = stance_calloc(1, sizeof *r);
    if (r == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "recipe '%s': out of memory", recipe);
        goto free_path;
    }
    status = stance_config_load(path, NULL, &r->tree, err);
    if (status != STANCE_OK)
        goto free_recipe;
    r->file = stance_arena_strdup(r->tree->arena, path);
    r->name = name_of(r->tree, path);
    status  = r->file != NULL && r->name != NULL ? build(r, options, lookup, err)
                                                 : stance_recipe_nomem(r->tree, err);
    if (status != STANCE_OK)
        goto free_recipe;
    *out = r;
    stance_free(path);
    return STANCE_OK;
free_recipe:
    stance_recipe_free(r);
free_path:
    stance_free(path);
    return status;
}

void stance_recipe_free(struct stance_recipe *r)
{
    if (r == NULL)
        return;
    stance_free(r->task.config);
    stance_free(r->backbone.config);
    stance_free(r->head.config);
    stance_free(r->loss.config);
    stance_free(r->dataset.config);
    stance_free(r->optimizer.config);
    stance_free(r->schedule.config);
    stance_free(r->scaler.config);
    stance_free(r->device.config);
    for (size_t i = 0; i < r->n_loggers; i++)
        stance_free(r->logger[i].config);
    stance_free(r->logger);
    stance_config_free(r->tree);
    stance_free(r);
}

stance_status stance_recipe_settle_precision(struct stance_recipe *r, enum stance_precision p,
                                             const struct stance_recipe_lookup *lookup,
                                             struct stance_error               *err)
{
    char fallback[64];

    if (r->precision != STANCE_PRECISION_AUTO)
        return STANCE_OK;
    if (p == STANCE_PRECISION_AUTO || (unsigned)p >= STANCE_PRECISION_COUNT)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "precision: auto cannot stand for %s",
                           stance_precision_word(p));
    if (r->scaler.name == NULL) {
        stance_status status;

        snprintf(fallback, sizeof fallback, "{name: %s}", stance_recipe_scaler_of(p));
        status = stance_recipe_choose(r, &r->scaler, NULL, fallback, lookup, err);
        if (status != STANCE_OK)
            return status;
    }
    r->precision = p;
    return STANCE_OK;
}

void stance_recipe_task_setup(const struct stance_recipe *r, const struct stance_pose *pose,
                              struct stance_task_setup *out)
{
    *out = (struct stance_task_setup){
        .size              = sizeof *out,
        .pose              = pose,
        .sigma             = r->data.sigma,
        .unbiased_encoding = r->data.unbiased_encoding,
        .flip              = r->augment.flip,
        .half_body         = r->augment.half_body,
        .rotation          = r->augment.rotation,
        .rotation_prob     = r->augment.rotation_prob,
        .scale             = r->augment.scale,
        .shift             = r->augment.shift,
        .shift_prob        = r->augment.shift_prob,
        .padding           = r->data.padding,
        .oks_thr           = r->test.oks_thr,
        .vis_thr           = r->test.vis_thr,
    };
}
