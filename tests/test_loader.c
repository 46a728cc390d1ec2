/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"
#include "runner.h"

#include "data/image.h"
#include "data/loader.h"
#include "data/pose_info.h"

#include <stance/log.h>
#include <stance/registry.h>

#include <math.h>
#include <pthread.h>

/* ---- a dataset and a task without files -------------------------------------------------------------- */

enum { SAMPLES = 23, FLOATS = 5 };

/* bad: index of samples that fail, every one from there on. */
struct fake { int64_t bad; struct stance_sample sample[SAMPLES]; _Atomic int decoded; };

static int64_t fake_count(const void *state)
{
    (void)state;
    return SAMPLES;
}

static const struct stance_sample *fake_sample(const void *state, int64_t i)
{
    return &((const struct fake *)state)->sample[i];
}

static const char *fake_path(const void *state, int64_t i)
{
    (void)state;
    (void)i;
    return "fake.png";
}

static stance_status fake_image(const void *state, int64_t i, struct stance_image *out, struct stance_error *err)
{
    struct fake *f = (struct fake *)(uintptr_t)state;

    f->decoded++;
    if (i >= f->bad)
        return STANCE_FAIL(err, STANCE_ERR_FORMAT, "image %lld: fake.png: damaged", (long long)i);
    out->rgb = stance_calloc(3 * 4 * 4, 1);
    if (out->rgb == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "fake.png");
    memset(out->rgb, (int)f->sample[i].image_id + 1, 3 * 4 * 4);
    out->width = out->height = 4;
    return STANCE_OK;
}

static const struct stance_dataset_ops fake_dataset = { .size   = sizeof fake_dataset,
                                                        .count  = fake_count,
                                                        .sample = fake_sample,
                                                        .image  = fake_image,
                                                        .path   = fake_path };

static const struct stance_field fake_field[2] = { { "image", STANCE_TYPE_F32, { 1, { FLOATS } } },
                                                   { "target", STANCE_TYPE_I64, { 0, { 0 } } } };

static const struct stance_field *fake_fields(const void *state, int *n)
{
    (void)state;
    *n = 2;
    return fake_field;
}

static stance_status fake_load(const void *state, const struct stance_dataset_ops *dataset, const void *dataset_state,
                               int64_t index, uint64_t seed, int64_t epoch, bool training, void *const *place,
                               struct stance_meta *meta, struct stance_error *err)
{
    struct stance_image image;
    float              *f      = place[0];
    stance_status       status = dataset->image(dataset_state, index, &image, err);

    (void)state;
    if (status != STANCE_OK)
        return status;
    for (int i = 0; i < FLOATS; i++)
        f[i] = (float)(index * 1000 + epoch * 100 + i) + (float)seed + image.rgb[0] / 256.0f;
    ck_assert_int_eq(place[1] != NULL, training);
    if (place[1] != NULL)
        *(int64_t *)place[1] = index;
    meta->index = index;
    stance_image_free(&image);
    return STANCE_OK;
}

static const struct stance_task_ops fake_task = { .size = sizeof fake_task, .fields = fake_fields, .load = fake_load };

static struct fake *fake_new(int64_t bad)
{
    struct fake *f = calloc(1, sizeof *f);

    f->bad = bad;
    for (int i = 0; i < SAMPLES; i++) /* two samples an image, not side by side */
        f->sample[i].image_id = i % 12;
    return f;
}

static struct stance_loader_options options_of(struct fake *f, int workers, bool training)
{
    return (struct stance_loader_options){ .task = &fake_task, .dataset = &fake_dataset, .dataset_state = f,
                                           .batch_size = 4, .workers = workers, .seed = 1, .training = training };
}

/* Indices of an epoch from a batch on, and the bytes that came with them. @return their number */
static int run(struct stance_loader *l, int64_t epoch, int64_t first, int64_t *index, float *values)
{
    const struct stance_batch *b;
    struct stance_error        err = STANCE_ERROR_INIT;
    int                        n   = 0;

    stance_loader_begin(l, epoch, first);
    for (;;) {
        ck_assert_msg(stance_loader_next(l, &b, &err) == STANCE_OK, "%s", err.text);
        if (b == NULL)
            break;
        ck_assert_int_eq(b->number, first++);
        ck_assert_uint_eq((uintptr_t)b->field[0] % 64, 0);
        for (int i = 0; i < b->count; i++, n++) {
            index[n]  = b->meta[i].index;
            values[n] = ((float *)b->field[0])[FLOATS * i + 2];
            if (b->field[1] != NULL)
                ck_assert_int_eq(((int64_t *)b->field[1])[i], index[n]);
        }
    }
    ck_assert_int_eq(first, stance_loader_batches(l));
    return n;
}

START_TEST(order_does_not_depend_on_workers)
{
    static const int    workers[] = { 0, 1, 3 };
    struct stance_error err       = STANCE_ERROR_INIT;
    int64_t             first[2][32], index[32];
    float               value[2][32], values[32];
    int                 seen[SAMPLES] = { 0 };

    for (int w = 0; w < 6; w++) {
        struct fake                 *f = fake_new(SAMPLES);
        struct stance_loader_options o = options_of(f, workers[w / 2], true);
        struct stance_loader        *l;

        o.cache_bytes = w % 2 ? 300 : 0; /* six of the twelve images */
        ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(stance_loader_batches(l), 6);
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            ck_assert_int_eq(run(l, epoch, 0, w == 0 ? first[epoch] : index, w == 0 ? value[epoch] : values), SAMPLES);
            if (w > 0) {
                ck_assert_mem_eq(index, first[epoch], SAMPLES * sizeof *index);
                ck_assert_mem_eq(values, value[epoch], SAMPLES * sizeof *values);
            }
        }
        /* From the middle on, out of turn, is the same. */
        ck_assert_int_eq(run(l, 0, 3, index, values), SAMPLES - 12);
        ck_assert_mem_eq(index, first[0] + 12, (SAMPLES - 12) * sizeof *index);
        ck_assert_mem_eq(values, value[0] + 12, (SAMPLES - 12) * sizeof *values);
        if (w % 2) /* 57 without: at most 6 images of two samples are decoded again, 12 + 12 + 11 times */
            ck_assert_int_lt(f->decoded, 6 + 3 + 35);
        stance_loader_free(l);
        free(f);
    }
    ck_assert_mem_ne(first[0], first[1], SAMPLES * sizeof *index);
    for (int i = 0; i < SAMPLES; i++)
        seen[first[0][i]]++;
    for (int i = 0; i < SAMPLES; i++)
        ck_assert_int_eq(seen[i], 1);
}
END_TEST

START_TEST(ranks)
{
    struct stance_error err                     = STANCE_ERROR_INIT;
    int                 seen[2][SAMPLES]        = { { 0 } }, total[2] = { 0 };
    struct fake        *f                       = fake_new(SAMPLES);
    int64_t             whole[32];
    float               value[32];

    /* One process with three times the batch size. */
    {
        struct stance_loader_options o = options_of(f, 0, true);
        struct stance_loader        *l;

        o.batch_size = 12;
        ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(run(l, 5, 0, whole, value), SAMPLES);
        stance_loader_free(l);
    }
    for (int training = 0; training < 2; training++)
        for (int rank = 0; rank < 3; rank++) {
            struct stance_loader_options o = options_of(f, 2, training);
            struct stance_loader        *l;
            int64_t                      index[32];
            float                        values[32];
            int                          n;

            o.rank  = rank;
            o.world = 3;
            ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
            n = run(l, 5, 0, index, values);
            ck_assert_int_eq(n, stance_loader_samples(l));
            if (training) { /* batches of 12 and of 11, the latter as 4, 4, 3 */
                ck_assert_int_eq(n, rank == 2 ? 7 : 8);
                ck_assert_int_eq(stance_loader_count(l, 0), 4);
                ck_assert_int_eq(stance_loader_count(l, 1), rank == 2 ? 3 : 4);
                ck_assert_mem_eq(index, whole + 4 * rank, 4 * sizeof *index);
                ck_assert_mem_eq(index + 4, whole + 12 + 4 * rank, (size_t)(n - 4) * sizeof *index);
                ck_assert_mem_eq(values, value + 4 * rank, 4 * sizeof *values);
            }
            for (int i = 0; i < n; i++) {
                seen[training][index[i]]++;
                ck_assert(training || i == 0 || index[i] == index[i - 1] + 1);
            }
            if (!training) /* six batches, the last of 3: two for each */
                ck_assert(n == (rank == 2 ? 7 : 8) && index[0] == 8 * rank);
            total[training] += n;
            stance_loader_free(l);
        }
    ck_assert(total[0] == SAMPLES && total[1] == SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        ck_assert(seen[0][i] == 1 && seen[1][i] == 1);
    free(f);
}
END_TEST

/* Fewer samples in the last batch than ranks: some have none in it, and the epoch goes on. */
START_TEST(empty_share)
{
    struct stance_error err  = STANCE_ERROR_INIT;
    struct fake        *f    = fake_new(SAMPLES);
    int                 seen[SAMPLES] = { 0 }, empty = 0;

    for (int rank = 0; rank < 5; rank++) {
        struct stance_loader_options o = options_of(f, _i, true);
        struct stance_loader        *l;

        o.rank  = rank;
        o.world = 5;
        ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(stance_loader_batches(l), 2);
        for (int64_t epoch = 0; epoch < 2; epoch++) {
            stance_loader_begin(l, epoch, 0);
            for (int batch = 0; batch < 2; batch++) {
                const struct stance_batch *b;

                ck_assert_msg(stance_loader_next(l, &b, &err) == STANCE_OK, "%s", err.text);
                ck_assert_ptr_nonnull(b);
                ck_assert(batch == 0 ? b->count == 4 : b->count <= 1 && (rank > 0 || b->count == 1));
                empty += b->count == 0;
                for (int32_t i = 0; epoch == 0 && i < b->count; i++)
                    seen[b->meta[i].index]++;
            }
        }
        stance_loader_free(l);
    }
    ck_assert_int_eq(empty, 2 * 2); /* three samples for five, in two epochs */
    for (int i = 0; i < SAMPLES; i++)
        ck_assert_int_eq(seen[i], 1);
    free(f);
}
END_TEST

START_TEST(drop_last)
{
    struct stance_error          err = STANCE_ERROR_INIT;
    struct fake                 *f   = fake_new(SAMPLES);
    struct stance_loader_options o   = options_of(f, _i, true);
    struct stance_loader        *l;
    int64_t                      index[32];
    float                        values[32];

    o.drop_last = true;
    ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(run(l, 0, 0, index, values), 20);
    stance_loader_free(l);
    o.batch_size = 24;
    ck_assert_int_eq(stance_loader_new(&o, &l, &err), STANCE_ERR_INVAL);
    o.batch_size = 0;
    ck_assert_int_eq(stance_loader_new(&o, &l, &err), STANCE_ERR_RANGE);
    free(f);
}
END_TEST

/* The first bad sample of the epoch is told, whatever worker met which first; then again; a new epoch
 * works up to it again. */
START_TEST(bad_sample)
{
    struct stance_error          err = STANCE_ERROR_INIT;
    struct fake                 *f   = fake_new(9);
    struct stance_loader_options o   = options_of(f, _i, false);
    const struct stance_batch   *b;
    struct stance_loader        *l;

    ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
    for (int epoch = 0; epoch < 20; epoch++) {
        stance_loader_begin(l, epoch, 0);
        for (int i = 0; i < 2; i++) {
            ck_assert_msg(stance_loader_next(l, &b, &err) == STANCE_OK, "%s", err.text);
            ck_assert(b != NULL && b->count == 4 && b->field[1] == NULL);
        }
        for (int i = 0; i < 2; i++) {
            ck_assert_int_eq(stance_loader_next(l, &b, &err), STANCE_ERR_FORMAT);
            ck_assert_ptr_null(b);
            ck_assert_str_eq(err.text, "image 9: fake.png: damaged");
        }
    }
    stance_loader_free(l);
    free(f);
}
END_TEST

START_TEST(ends_in_the_middle)
{
    struct stance_error          err = STANCE_ERROR_INIT;
    struct fake                 *f   = fake_new(SAMPLES);
    struct stance_loader_options o   = options_of(f, 3, true);
    const struct stance_batch   *b;
    struct stance_loader        *l;

    for (int n = 0; n < 50; n++) {
        ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(stance_loader_next(l, &b, &err), STANCE_OK);
        ck_assert_ptr_null(b); /* nothing has begun */
        for (int epoch = 0; epoch < n % 4; epoch++) {
            stance_loader_begin(l, epoch, 0);
            for (int i = 0; i < n % 3; i++)
                ck_assert_int_eq(stance_loader_next(l, &b, &err), STANCE_OK);
        }
        stance_loader_free(l);
    }
    free(f);
}
END_TEST

START_TEST(memory_runs_out)
{
    struct stance_error          err = STANCE_ERROR_INIT;
    struct fake                 *f   = fake_new(SAMPLES);
    struct stance_loader_options o   = options_of(f, 2, true);
    struct stance_loader        *l;
    const struct stance_batch   *b;
    stance_status                status;
    long                         n = 0;

    o.cache_bytes = 1000;
    do {
        fault_after(n++);
        status = stance_loader_new(&o, &l, &err);
        if (status == STANCE_OK) {
            stance_loader_begin(l, 0, 0);
            do
                status = stance_loader_next(l, &b, &err);
            while (status == STANCE_OK && b != NULL);
            stance_loader_free(l);
        }
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "%s", err.text);
        ck_assert_int_eq(fault_live, 0);
    } while (status != STANCE_OK);
    stance_set_allocator(NULL);
    ck_assert_int_gt(n, 20);
    free(f);
}
END_TEST

static _Atomic long requests;
static pthread_t    main_thread;

static void *count_calloc(void *ctx, size_t n, size_t size)
{
    (void)ctx;
    requests += pthread_equal(pthread_self(), main_thread) != 0;
    return calloc(n, size);
}

static void count_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

START_TEST(next_asks_for_no_memory)
{
    static const struct stance_allocator heap = { count_calloc, count_free, NULL };
    struct stance_error          err = STANCE_ERROR_INIT;
    struct fake                 *f   = fake_new(SAMPLES);
    struct stance_loader_options o   = options_of(f, 2, true);
    struct stance_loader        *l;
    int64_t                      index[32];
    float                        values[32];

    main_thread = pthread_self();
    stance_set_allocator(&heap);
    ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
    requests = 0;
    for (int epoch = 0; epoch < 3; epoch++)
        run(l, epoch, 0, index, values);
    ck_assert_int_eq(requests, 0);
    stance_loader_free(l);
    stance_set_allocator(NULL);
    free(f);
}
END_TEST

/* ---- real images through the real plugins ------------------------------------------------------------ */

struct real {
    struct stance_registry          *registry;
    const struct stance_dataset_ops *dataset;
    const struct stance_task_ops    *task;
    void                            *dataset_state, *task_state;
    struct stance_pose               pose;
};

static void real_open(struct real *r, const char *set, const char *boxes)
{
    struct stance_error         err = STANCE_ERROR_INIT;
    const struct stance_plugin *dataset, *task;
    char                        file[4096], folder[4096], config[64] = { 0 };
    struct stance_pose          sizes = { .size = sizeof sizes, .input_size = { 192, 256 }, .heatmap_size = { 48, 64 } };
    struct stance_split         split = { .size = sizeof split, .annotations = file, .images = folder, .boxes = boxes,
                                          .info = &sizes };
    struct stance_task_setup    setup = { .size = sizeof setup, .pose = &r->pose, .sigma = 2, .flip = 0.5,
                                          .rotation = 40, .rotation_prob = 0.6, .scale = 0.5, .shift = 0.16,
                                          .shift_prob = 0.3, .padding = 1.25, .oks_thr = 0.9, .vis_thr = 0.2 };

    snprintf(file, sizeof file, "%s/annotations/val.json", set);
    snprintf(folder, sizeof folder, "%s/images", set);
    ck_assert_msg(stance_registry_new(NULL, &r->registry, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_registry_find(r->registry, STANCE_KIND_DATASET, "coco", &dataset, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(stance_registry_find(r->registry, STANCE_KIND_TASK, "top_down", &task, &err) == STANCE_OK, "%s", err.text);
    ck_assert_int_eq(stance_param_defaults(dataset->params, config, &err), STANCE_OK);
    r->dataset       = dataset->ops.dataset;
    r->task          = task->ops.task;
    r->dataset_state = calloc(1, r->dataset->state_size);
    r->task_state    = calloc(1, r->task->state_size);
    ck_assert_msg(r->dataset->open(r->dataset_state, config, &split, &err) == STANCE_OK, "%s", err.text);
    r->pose         = *r->dataset->pose(r->dataset_state);
    setup.half_body = r->pose.upper != NULL ? 0.3 : 0;
    ck_assert_msg(r->task->open(r->task_state, NULL, &setup, &err) == STANCE_OK, "%s", err.text);
    setup.half_body = 0.3;
    if (r->pose.upper == NULL) {
        ck_assert_int_eq(r->task->open(r->task_state, NULL, &setup, &err), STANCE_ERR_INVAL);
        ck_assert(strstr(err.text, "upper_body") != NULL);
    }
}

static void real_close(struct real *r)
{
    r->task->close(r->task_state);
    r->dataset->close(r->dataset_state);
    free(r->task_state);
    free(r->dataset_state);
    stance_registry_free(r->registry);
}

START_TEST(real_batches)
{
    const char         *set = shared_file("data/coco-person");
    struct stance_error err = STANCE_ERROR_INIT;
    uint64_t            sum[3] = { 0 };
    struct stance_dataset_ops whole;
    struct real         r;

    if (set == NULL) {
        SKIP("data/coco-person: the shared images are absent");
        return;
    }
    real_open(&r, set, NULL);
    whole            = *r.dataset;
    whole.image_part = NULL;
    for (int way = 0; way < 3; way++) { /* parts of images, cached ones, whole ones */
        struct stance_loader_options o = { .task = r.task, .task_state = r.task_state,
                                           .dataset = way < 2 ? r.dataset : &whole,
                                           .dataset_state = r.dataset_state, .batch_size = 16,
                                           .workers = way ? 2 : 0, .training = true, .seed = 5,
                                           .cache_bytes = way == 1 ? (size_t)20 << 20 : 0 };
        const struct stance_batch   *b;
        struct stance_loader        *l;
        int                          samples = 0;

        ck_assert_msg(stance_loader_new(&o, &l, &err) == STANCE_OK, "%s", err.text);
        ck_assert_int_eq(stance_loader_batches(l), 6);
        for (int epoch = 0; epoch < 2; epoch++) {
            stance_loader_begin(l, epoch, 0);
            while (stance_loader_next(l, &b, &err) == STANCE_OK && b != NULL) {
                const uint32_t *bits = b->field[0];
                const float    *target = b->field[1], *weight = b->field[2];

                samples += b->count;
                for (size_t i = 0; i < (size_t)b->count * 3 * 256 * 192; i++)
                    sum[way] = sum[way] * 31 + bits[i];
                for (int i = 0; i < b->count * 17; i++) {
                    float peak = 0;

                    for (int j = 0; j < 64 * 48; j++)
                        peak = fmaxf(peak, target[(size_t)i * 64 * 48 + (size_t)j]);
                    ck_assert(weight[i] == 0 ? peak == 0 : peak <= 1);
                }
            }
            ck_assert_str_eq(err.text, "");
        }
        ck_assert_int_eq(samples, 2 * 89);
        stance_loader_free(l);
    }
    ck_assert_uint_eq(sum[0], sum[1]);
    ck_assert_uint_eq(sum[0], sum[2]);
    real_close(&r);
}
END_TEST

/* Scoring the labels themselves gives 1, through rescoring and suppression. */
START_TEST(labels_score_one)
{
    const char           *set = shared_file("data/coco-person");
    struct stance_error   err = STANCE_ERROR_INIT;
    struct stance_metric  metrics[16];
    struct stance_prediction *p;
    int64_t               n, count;
    int                   n_metrics = 0;
    struct real           r;

    if (set == NULL) {
        SKIP("data/coco-person: the shared images are absent");
        return;
    }
    real_open(&r, set, NULL);
    count = n = r.dataset->count(r.dataset_state);
    p = calloc((size_t)n, sizeof *p);
    for (int64_t i = 0; i < n; i++) {
        const struct stance_sample *s = r.dataset->sample(r.dataset_state, i);

        p[i] = (struct stance_prediction){ .image_id = s->image_id, .category_id = s->category_id,
                                           .box_id = s->box_id, .box_score = 1,
                                           .area = (float)(s->box[2] * s->box[3]) };
        p[i].keypoint = malloc(51 * sizeof(float));
        memcpy(p[i].keypoint, s->keypoint, 51 * sizeof(float));
    }
    ck_assert_msg(r.task->finish(r.task_state, p, &count, &err) == STANCE_OK, "%s", err.text);
    ck_assert_msg(r.task->score(r.task_state, r.dataset, r.dataset_state, p, count, metrics, &n_metrics, &err) == STANCE_OK,
                  "%s", err.text);
    ck_assert_int_eq(n_metrics, 10);
    ck_assert_str_eq(metrics[0].name, "AP");
    ck_assert_str_eq(metrics[9].name, "ARL");
    ck_assert_msg(metrics[0].value > 0.99, "AP %g of %lld", metrics[0].value, (long long)count);
    for (int64_t i = 0; i < n; i++)
        free(p[i].keypoint);
    free(p);
    real_close(&r);
}
END_TEST

START_TEST(no_score_without_sigmas)
{
    const char          *set = shared_file("data/fly32");
    struct stance_error  err = STANCE_ERROR_INIT;
    struct stance_metric metrics[16];
    int64_t              none = 0;
    int                  n_metrics;
    struct real          r;

    if (set == NULL) {
        SKIP("data/fly32: the shared images are absent");
        return;
    }
    real_open(&r, set, NULL);
    ck_assert_int_eq(r.task->finish(r.task_state, NULL, &none, &err), STANCE_ERR_INVAL);
    ck_assert_int_eq(r.task->score(r.task_state, r.dataset, r.dataset_state, NULL, 0, metrics, &n_metrics, &err),
                     STANCE_ERR_INVAL);
    ck_assert_msg(strstr(err.text, "sigmas") && strstr(err.text, "32"), "%s", err.text);
    real_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loader");
    TCase *t = tcase_create("loader");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_add_test(t, order_does_not_depend_on_workers);
    tcase_add_test(t, ranks);
    tcase_add_loop_test(t, empty_share, 0, 3);
    tcase_add_loop_test(t, drop_last, 0, 3);
    tcase_add_loop_test(t, bad_sample, 0, 4);
    tcase_add_test(t, ends_in_the_middle);
    tcase_add_test(t, memory_runs_out);
    tcase_add_test(t, next_asks_for_no_memory);
    tcase_add_test(t, real_batches);
    tcase_add_test(t, labels_score_one);
    tcase_add_test(t, no_score_without_sigmas);
    tcase_set_timeout(t, 120);
    suite_add_tcase(s, t);
    return run_suite(s);
}
