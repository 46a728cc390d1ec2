/* SPDX-License-Identifier: Apache-2.0
 *
 * Geometry of the top-down pipeline. */
#include "config.h"

#include "walk.h"

#include "data/augment.h"
#include "data/pose_info.h"
#include "data/target.h"
#include "data/warp.h"

#include <stance/alloc.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t count, size_t size)
{
    void *p = stance_calloc(count + 1, size);

    if (p == NULL)
        abort();
    return p;
}

static void box_to_window(struct walk *w)
{
    int32_t                 size[2] = { (int32_t)walk_i64(w, "input_width", 192),
                                        (int32_t)walk_i64(w, "input_height", 256) };
    size_t                  n;
    double                 *box = walk_numbers(w, walk_get(w, "box"), "box", &n), out[2][2];
    struct stance_placement p;

    if (n != 4)
        walk_fail(w, "box has %zu numbers", n);
    if (!walk_failed(w)) {
        stance_placement_of_box(box, size, walk_f64(w, "padding", 1.25), &p);
        for (int i = 0; i < 2; i++) {
            out[0][i] = (double)p.centre[i];
            out[1][i] = 200.0 * (double)p.scale[i];
        }
        walk_is_list(w, "center", out[0], 2);
        walk_is_list(w, "size", out[1], 2);
    }
    stance_free(box);
}

/* Points [n,3] x, y, v as binary32. */
static float *points_of(struct walk *w, const char *key, size_t *n)
{
    size_t  count;
    double *v = walk_numbers(w, walk_get(w, key), key, &count);
    float  *p = zeroed(count, sizeof *p);

    if (count % 3 != 0 || count == 0)
        walk_fail(w, "%s: x, y, v of each point are wanted", key);
    for (size_t i = 0; i < count; i++)
        p[i] = (float)v[i];
    stance_free(v);
    *n = count / 3;
    return p;
}

static void flip_sample(struct walk *w)
{
    size_t  n, n_pairs;
    float  *p        = points_of(w, "points", &n);
    double *pairs    = walk_numbers(w, walk_get(w, "flip_pairs"), "flip_pairs", &n_pairs),
           *out      = zeroed(3 * n, sizeof *out);
    int32_t *partner = zeroed(n, sizeof *partner), (*pair)[2] = zeroed(n_pairs, sizeof *pair);

    for (size_t i = 0; i < n_pairs; i++)
        pair[i / 2][i % 2] = (int32_t)pairs[i];
    if (n_pairs % 2 != 0)
        walk_fail(w, "flip_pairs: an odd number of points");
    if (!walk_failed(w))
        w->status = stance_pose_partners((const int32_t(*)[2])pair, (int32_t)(n_pairs / 2),
                                         (int32_t)n, partner, &w->err);
    if (!walk_failed(w) && w->status == STANCE_OK) {
        stance_flip_points(p, (int32_t)n, partner, (int32_t)walk_i64(w, "width", 0));
        for (size_t i = 0; i < 3 * n; i++)
            out[i] = (double)p[i];
        walk_is_list(w, "points", out, 3 * n);
    }
    stance_free(p);
    stance_free(pairs);
    stance_free(out);
    stance_free(partner);
    stance_free(pair);
}

/* One map's weight, sum and first maximum. */
static void compare_target(struct walk *w, const float *map, int width, int height, float weight,
                           const struct stance_config_node *want)
{
    double peak = 0, sum = 0;
    int    x = -1, y = -1;
    struct {
        const char *key;
        double      have;
    } v[5];

    for (int i = 0; i < width * height; i++) {
        sum += (double)map[i];
        if ((double)map[i] > peak) {
            peak = (double)map[i];
            x    = i % width;
            y    = i / width;
        }
    }
    v[0].key = "weight", v[0].have = (double)weight;
    v[1].key = "peak", v[1].have = peak;
    v[2].key = "peak_x", v[2].have = x;
    v[3].key = "peak_y", v[3].have = y;
    v[4].key = "sum", v[4].have = sum;
    walk_known(w, want, "targets", "weight peak peak_x peak_y sum");
    for (int i = 0; i < 5; i++)
        if (stance_config_find(want, v[i].key) != NULL)
            walk_same(w, v[i].key, v[i].have, stance_config_find(want, v[i].key));
}

static void make_target(struct walk *w)
{
    struct stance_pose pose = { .size         = sizeof pose,
                                .input_size   = { (int32_t)walk_i64(w, "input_width", 192),
                                                  (int32_t)walk_i64(w, "input_height", 256) },
                                .heatmap_size = { (int32_t)walk_i64(w, "map_width", 48),
                                                  (int32_t)walk_i64(w, "map_height", 64) } };
    size_t             n, map = (size_t)pose.heatmap_size[0] * (size_t)pose.heatmap_size[1];
    float *points = points_of(w, "points", &n), *target = zeroed(n * map, sizeof *target),
          *weight                         = zeroed(n, sizeof *weight);
    const struct stance_config_node *want = walk_expects(w, "targets");

    pose.keypoints = (int32_t)n;
    if (want != NULL && want->count != n)
        walk_fail(w, "targets: %zu are expected of %zu points", want->count, n);
    if (!walk_failed(w))
        stance_target_draw(&pose, points, walk_f64(w, "sigma", 2), walk_bool(w, "unbiased", false),
                           target, weight);
    for (size_t i = 0; want != NULL && i < n && !walk_failed(w); i++)
        compare_target(w, target + i * map, pose.heatmap_size[0], pose.heatmap_size[1], weight[i],
                       want->child[i]);
    stance_free(points);
    stance_free(target);
    stance_free(weight);
}

static float *map_of_cells(struct walk *w, int width, int height)
{
    const struct stance_config_node *cells = walk_get(w, "cells");
    float                           *map   = zeroed((size_t)width * (size_t)height, sizeof *map);

    for (size_t i = 0; cells != NULL && i < cells->count; i++) {
        int64_t x = walk_node_i64(w, stance_config_find(cells->child[i], "x"), "cells.x");
        int64_t y = walk_node_i64(w, stance_config_find(cells->child[i], "y"), "cells.y");
        double  v = walk_node_f64(w, stance_config_find(cells->child[i], "v"), "cells.v");

        walk_known(w, cells->child[i], "cells", "x y v");
        if (x < 0 || y < 0 || x >= width || y >= height)
            walk_fail(w, "cells: %lld, %lld is not in the map", (long long)x, (long long)y);
        if (!walk_failed(w))
            map[y * width + x] = (float)v;
    }
    return map;
}

/* The binary32 whose product with 200 is @p size, so that a pixel of the map is a pixel of the
 * image. */
static float unit_scale(int size)
{
    float s = (float)size / 200;

    for (int i = -2; i <= 2; i++) {
        float t = s + (float)i * (nextafterf(s, 2 * s) - s);

        if (t * 200 == (float)size)
            return t;
    }
    return s;
}

/* In pixels of the map. The window lies around the origin and the result is moved back in binary64:
 * what is lost is half an ulp of a distance from the middle of the map, 1e-6 px in a map of 64. */
static void decode_heatmap(struct walk *w)
{
    static const struct {
        const char              *word;
        enum stance_post_process how;
    } ways[] = {
        { "quarter", STANCE_POST_DEFAULT },   { "default", STANCE_POST_DEFAULT },
        { "none", STANCE_POST_NONE },         { "dark", STANCE_POST_UNBIASED },
        { "unbiased", STANCE_POST_UNBIASED },
    };
    const int width                = (int)walk_i64(w, "map_width", 48),
              height               = (int)walk_i64(w, "map_height", 64);
    const char          *refine    = walk_text(w, "refine", "quarter");
    float                centre[2] = { 0, 0 }, scale[2] = { unit_scale(width), unit_scale(height) };
    float                out[3], *map                   = map_of_cells(w, width, height);
    int                  way = -1;
    struct stance_decode d   = { .size            = sizeof d,
                                 .heatmap         = map,
                                 .batch           = 1,
                                 .keypoints       = 1,
                                 .height          = height,
                                 .width           = width,
                                 .centre          = centre,
                                 .scale           = scale,
                                 .modulate_kernel = (int32_t)walk_i64(w, "modulate_kernel", 11),
                                 .keypoint        = out };

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(ways[i].word, refine) == 0)
            way = (int)i;
    if (way < 0)
        walk_fail(w, "refine: '%s' is not known", refine);
    if (!walk_failed(w)) {
        d.post_process = ways[way].how;
        w->status      = stance_decode_heatmap(&d, &w->err);
    }
    if (!walk_failed(w) && w->status == STANCE_OK) {
        walk_is_f64(w, "x", (double)out[0] + 0.5 * width);
        walk_is_f64(w, "y", (double)out[1] + 0.5 * height);
        walk_is_f64(w, "score", (double)out[2]);
        walk_is_bool(w, "found", out[2] > 0);
    }
    stance_free(map);
}

const struct walk_do walk_pose[] = {
    { "box-to-window", box_to_window, "box input_width input_height padding", "center size" },
    { "flip-sample", flip_sample, "width points flip_pairs", "points" },
    { "make-target", make_target,
      "input_width input_height map_width map_height sigma points unbiased", "targets" },
    { "decode-heatmap", decode_heatmap, "map_width map_height cells refine modulate_kernel",
      "x y score found" },
    { NULL, NULL, NULL, NULL },
};
