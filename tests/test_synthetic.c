/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#include "runner.h"

#include <stance/dataset.h>

#include <math.h>
#include <pthread.h>

extern const struct stance_plugin dataset_synthetic_LTX_stance_plugin;

#define PLUGIN  (&dataset_synthetic_LTX_stance_plugin)
#define OPS     (PLUGIN->ops.dataset)
#define K       17
#define PICTURE 24 /* samples whose bytes are compared */

/* A split that is open, or whose opening failed. */
struct data {
    max_align_t   state[64], config[16];
    stance_status status;
};

static void data_open(struct data *d, const struct stance_split *split, const char *key,
                      const char *text, struct stance_error *err)
{
    memset(d, 0, sizeof *d);
    ck_assert(OPS->state_size <= sizeof d->state && PLUGIN->config_size <= sizeof d->config);
    ck_assert_int_eq(stance_param_defaults(PLUGIN->params, d->config, err), STANCE_OK);
    if (key != NULL)
        ck_assert_int_eq(stance_param_set(PLUGIN->params, d->config, key, text, err), STANCE_OK);
    d->status = OPS->open(d->state, d->config, split, err);
}

static const struct stance_split train = {
    .size = sizeof train, .samples = 300, .training = true, .seed = 7, .image_size = { 96, 128 }
};

/* FNV-1a over the picture and its points. */
static uint64_t fingerprint(const struct data *d, int64_t index)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_image image;
    uint64_t            h = 14695981039346656037U;
    const uint8_t      *point = (const uint8_t *)OPS->sample(d->state, index)->keypoint;

    ck_assert_int_eq(OPS->image(d->state, index, &image, &err), STANCE_OK);
    for (int i = 0; i < 3 * image.width * image.height; i++)
        h = (h ^ image.rgb[i]) * 1099511628211U;
    for (size_t i = 0; i < 3 * K * sizeof(float); i++)
        h = (h ^ point[i]) * 1099511628211U;
    stance_free(image.rgb);
    return h;
}

START_TEST(points_and_boxes_make_sense)
{
    static const int    sizes[][2] = { { 96, 128 },  { 192, 256 }, { 288, 384 },
                                       { 128, 128 }, { 256, 64 },  { 16, 16 } };
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_split split = train;
    struct stance_image image;
    struct data         d;
    int64_t             truths, ids, seen[3] = { 0 };

    split.image_size[0] = sizes[_i][0];
    split.image_size[1] = sizes[_i][1];
    data_open(&d, &split, NULL, NULL, &err);
    ck_assert_msg(d.status == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(OPS->count(d.state), 300);
    ck_assert_int_eq(OPS->image(d.state, 0, &image, &err), STANCE_OK);
    ck_assert(image.width == lround(1.3 * split.image_size[0])
              && image.height == lround(1.3 * split.image_size[1]));
    stance_free(image.rgb);
    for (int64_t i = 0; i < 300; i++) {
        const struct stance_sample *s = OPS->sample(d.state, i);
        const struct stance_truth  *t = &OPS->truths(d.state, &truths)[i];
        int                         labelled = 0;

        ck_assert(s->image_id == i + 1 && s->category_id == 1 && s->score == 1 && s->box_id == 0);
        ck_assert(OPS->image_ids(d.state, &ids)[i] == i + 1 && t->image_id == i + 1 && !t->crowd);
        ck_assert(s->box[0] >= 0 && s->box[1] >= 0 && s->box[2] > 2 && s->box[3] > 4);
        ck_assert(s->box[0] + s->box[2] <= image.width - 1
                  && s->box[1] + s->box[3] <= image.height - 1);
        ck_assert(s->area > 0 && s->area < s->box[2] * s->box[3] && t->area == s->area);
        for (int k = 0; k < K; k++) {
            const float *p = s->keypoint + 3 * k;

            for (int c = 0; c < 3; c++)
                ck_assert(t->keypoint[3 * k + c] == p[c]);
            ck_assert(p[2] == 0 || p[2] == 1 || p[2] == 2);
            seen[(int)p[2]]++;
            if (p[2] == 0) {
                ck_assert(p[0] == 0 && p[1] == 0);
                continue;
            }
            labelled++;
            ck_assert(p[0] >= s->box[0] && p[0] <= s->box[0] + s->box[2]);
            ck_assert(p[1] >= s->box[1] && p[1] <= s->box[1] + s->box[3]);
        }
        ck_assert_int_ge(labelled, 5);
    }
    ck_assert(truths == 300 && ids == 300);
    /* 300 * 17 points: most in sight, some hidden, few outside. */
    ck_assert(seen[2] > 3800 && seen[1] > 250 && seen[0] > 10 && seen[0] < 400);
    OPS->close(d.state);
}
END_TEST

START_TEST(parameters_act)
{
    static const struct {
        const char *key, *text;
    } set[] = { { "occlusion", "1" }, { "truncation", "0" }, { "behind", "1" } };
    struct stance_error err = STANCE_ERROR_INIT;
    struct data         d, plain;
    int                 outside = 0, noses = 0, hidden[2] = { 0 };

    data_open(&plain, &train, NULL, NULL, &err);
    data_open(&d, &train, set[_i].key, set[_i].text, &err);
    ck_assert(plain.status == STANCE_OK && d.status == STANCE_OK);
    for (int64_t i = 0; i < 300; i++)
        for (int k = 0; k < K; k++) {
            float v = OPS->sample(d.state, i)->keypoint[3 * k + 2];

            outside += v == 0;
            noses += k == 0 && v == 2;
            hidden[0] += k > 4 && OPS->sample(plain.state, i)->keypoint[3 * k + 2] == 1;
            hidden[1] += k > 4 && v == 1;
        }
    ck_assert(_i != 0 || hidden[1] > 1.3 * hidden[0]);
    ck_assert(_i != 1 || outside == 0);
    ck_assert(_i != 2
              || noses
                  < 30); /* turned by up to 70 degrees and a head's own turn: rarely in sight */
    OPS->close(plain.state);
    OPS->close(d.state);
}
END_TEST

START_TEST(streams_differ)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_split split[3] = { train, train, train };
    struct data         d[3];
    uint64_t            h[3 * PICTURE];

    split[1].training = false;
    split[2].seed     = 8;
    for (int i = 0; i < 3; i++) {
        data_open(&d[i], &split[i], NULL, NULL, &err);
        ck_assert_int_eq(d[i].status, STANCE_OK);
        for (int n = 0; n < PICTURE; n++)
            h[i * PICTURE + n] = fingerprint(&d[i], n);
        OPS->close(d[i].state);
    }
    for (int i = 0; i < 3 * PICTURE; i++)
        for (int j = 0; j < i; j++)
            ck_assert(h[i] != h[j]);
}
END_TEST

struct worker {
    const struct data *d;
    uint64_t           h[PICTURE];
    int                first;
};

static void *work(void *arg)
{
    struct worker *w = (struct worker *)arg;

    for (int i = 0; i < PICTURE; i++) {
        int n = (w->first + 7 * i) % PICTURE; /* each thread in another order */

        w->h[n] = fingerprint(w->d, n);
    }
    return NULL;
}

START_TEST(same_bytes_in_any_thread_and_order)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_split longer = train;
    struct data         d, again;
    struct worker       w[4];
    pthread_t           thread[4];

    longer.samples = 400; /* more samples leave the first ones as they are */
    data_open(&d, &train, NULL, NULL, &err);
    data_open(&again, &longer, NULL, NULL, &err);
    ck_assert(d.status == STANCE_OK && again.status == STANCE_OK);
    for (int i = 0; i < 4; i++) {
        w[i] = (struct worker){ .d = i < 3 ? &d : &again, .first = 5 * i };
        ck_assert_int_eq(pthread_create(&thread[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    for (int i = 1; i < 4; i++)
        ck_assert_int_eq(memcmp(w[i].h, w[0].h, sizeof w[0].h), 0);
    OPS->close(d.state);
    OPS->close(again.state);
}
END_TEST

/* A painted point in sight has the colour of a person, not of the place behind: the same picture
 * without clutter and noise is flat there, so that removing both changes few of them. */
START_TEST(the_person_is_where_the_points_are)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_split split = train;
    struct data         d, bare;
    int                 same = 0, all = 0;

    data_open(&d, &split, "noise", "0", &err);
    data_open(&bare, &split, "noise", "0", &err);
    ck_assert_int_eq(stance_param_set(PLUGIN->params, bare.config, "clutter", "0", &err),
                     STANCE_OK);
    OPS->close(bare.state);
    ck_assert_int_eq(OPS->open(bare.state, bare.config, &split, &err), STANCE_OK);
    for (int64_t i = 0; i < 60; i++) {
        struct stance_image a, b;

        ck_assert_int_eq(OPS->image(d.state, i, &a, &err), STANCE_OK);
        ck_assert_int_eq(OPS->image(bare.state, i, &b, &err), STANCE_OK);
        for (int k = 0; k < K; k++) {
            const float *p = OPS->sample(d.state, i)->keypoint + 3 * k;
            int          at = 3 * ((int)lroundf(p[1]) * a.width + (int)lroundf(p[0]));

            if (p[2] != 2)
                continue;
            all++;
            same += abs(a.rgb[at] - b.rgb[at]) + abs(a.rgb[at + 1] - b.rgb[at + 1])
                    + abs(a.rgb[at + 2] - b.rgb[at + 2])
                <= 6;
        }
        stance_free(a.rgb);
        stance_free(b.rgb);
    }
    ck_assert(all > 600 && same > 0.97 * all);
    OPS->close(d.state);
    OPS->close(bare.state);
}
END_TEST

START_TEST(pose_is_coco)
{
    struct stance_error       err = STANCE_ERROR_INIT;
    const struct stance_pose *p;
    struct data               d;

    data_open(&d, &train, NULL, NULL, &err);
    p = OPS->pose(d.state);
    ck_assert(p->keypoints == K && p->bones == 19 && fabsf(p->sigmas[11] - 0.107F) < 1e-7F);
    for (int k = 0; k < K; k++) {
        const char *other = p->names[p->partner[k]], *self = p->names[k];

        ck_assert_int_eq(p->partner[p->partner[k]], k);
        ck_assert(p->upper[k] == (k <= 10));
        if (k == 0)
            continue;
        ck_assert(strncmp(self, k % 2 ? "left_" : "right_", k % 2 ? 5 : 6) == 0);
        ck_assert_str_eq(strchr(self, '_'), strchr(other, '_'));
    }
    OPS->close(d.state);
}
END_TEST

START_TEST(refuses_what_it_cannot_draw)
{
    static const char *const other[K] = { "snout" };
    static const struct stance_pose fly = { .size = sizeof fly, .keypoints = 32 };
    static const struct stance_pose odd = { .size = sizeof odd, .keypoints = K, .names = other };
    static const struct {
        int64_t                   samples;
        int                       width;
        const struct stance_pose *info;
        stance_status             want;
        const char               *says;
    } cases[] = {
        { 0, 96, NULL, STANCE_ERR_RANGE, "samples: 0 is outside" },
        { -3, 96, NULL, STANCE_ERR_RANGE, "samples: -3" },
        { 5, 8, NULL, STANCE_ERR_RANGE, "input_size: 8 is outside" },
        { 5, 96, &fly, STANCE_ERR_INVAL, "names 32" },
        { 5, 96, &odd, STANCE_ERR_INVAL, "'nose', data.info calls it 'snout'" },
    };
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_split split = train;
    struct data         d;

    split.samples       = cases[_i].samples;
    split.image_size[0] = cases[_i].width;
    split.info          = cases[_i].info;
    data_open(&d, &split, NULL, NULL, &err);
    ck_assert_int_eq(d.status, cases[_i].want);
    ck_assert_msg(strstr(err.text, cases[_i].says) != NULL, "says: %s", err.text);
}
END_TEST

START_TEST(short_memory_is_told)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_split split = train;
    struct stance_image image = { NULL, -1, -1 };
    struct data         d;
    stance_status       status = STANCE_ERR_NOMEM;
    long                n;

    split.samples = 3;
    for (n = 0; status != STANCE_OK; n++) {
        ck_assert_int_lt(n, 50);
        fault_after(n);
        data_open(&d, &split, NULL, NULL, &err);
        status = d.status;
        if (status == STANCE_OK) {
            status = OPS->image(d.state, 1, &image, &err);
            ck_assert(status == STANCE_OK || image.width == -1);
            stance_free(image.rgb);
            OPS->close(d.state);
        }
        ck_assert(status == STANCE_OK || status == STANCE_ERR_NOMEM);
        ck_assert_int_eq(fault_live, 0);
    }
    ck_assert_int_gt(n, 5);
    stance_set_allocator(NULL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("synthetic");
    TCase *t = tcase_create("synthetic");

    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, points_and_boxes_make_sense, 0, 6);
    tcase_add_loop_test(t, parameters_act, 0, 3);
    tcase_add_test(t, streams_differ);
    tcase_add_test(t, same_bytes_in_any_thread_and_order);
    tcase_add_test(t, the_person_is_where_the_points_are);
    tcase_add_test(t, pose_is_coco);
    tcase_add_loop_test(t, refuses_what_it_cannot_draw, 0, 5);
    tcase_add_test(t, short_memory_is_told);
    suite_add_tcase(s, t);
    return run_suite(s);
}
