/* SPDX-License-Identifier: Apache-2.0
 *
 * memory.recompute: a run has the same bytes whether its backward pass keeps values or computes them again,
 * and the arena is as much smaller as was promised. */
#include "arena.h"
#include "fault.h"
#include "small_graph.h"
#include "snapshot.h"

#include "compile/segments.h"

#include <stance/ops.h>

static const char *const words[] = { "none", "norm", "block" };

/* ---- the choice of cuts -------------------------------------------------------------------------------- */

enum { NODES = 10, DRAWS = 200 };

static size_t draw(int seed, uint64_t *k, size_t below)
{
    return (size_t)(((double)step_noise((uint64_t)seed, (*k)++) + 1) / 2 * (double)below);
}

/* Largest sum of live bytes for the cuts in @p cuts (bit i: before node i + 1), as segments.h tells it.
 * @param more  kept besides; NULL: nothing. @return SIZE_MAX if what the cuts need is not in @p more */
static size_t peak_of(const struct stance_segment_node *n, size_t count, unsigned cuts, const bool *more)
{
    size_t peak = 0, fixed = 0, across = 0;

    for (size_t from = 0, to; from < count; from = to) {
        size_t inside = 0, beside = 0;

        for (to = from + 1; to < count && (cuts & 1u << (to - 1)) == 0; to++)
            ;
        for (size_t i = from; i < to; i++) {
            fixed += n[i].fixed;
            inside += n[i].inside;
            beside = n[i].beside > beside ? n[i].beside : beside;
            if (more != NULL && !more[i] && (to == count || n[i].last >= to))
                return SIZE_MAX;
        }
        if (fixed + across + inside + beside > peak)
            peak = fixed + across + inside + beside;
        for (size_t i = from; i < to; i++)
            across += n[i].last >= to ? n[i].crossing : more != NULL && more[i] ? n[i].inside : 0;
    }
    return peak;
}

static void draw_nodes(int d, struct stance_segment_node *n, size_t *count)
{
    uint64_t k = 0;

    *count = 1 + draw(d, &k, NODES);
    for (size_t i = 0; i < *count; i++) {
        size_t left = *count - i;

        n[i] = (struct stance_segment_node){
            .last = (uint32_t)(i + draw(d, &k, d % 2 == 0 || left < 3 ? left : 3)),
            .fixed = draw(d, &k, d % 3 == 0 ? 3000 : 1), .inside = draw(d, &k, 10000), .beside = draw(d, &k, 2000),
            .work = (double)draw(d, &k, 1000),
        };
        n[i].crossing = draw(d, &k, 2) == 0 ? n[i].inside : draw(d, &k, 5000);
    }
}

static double work_again(const struct stance_segment_node *n, size_t count, const bool *kept)
{
    double work = 0;

    for (size_t i = 0; i < count; i++)
        work += kept[i] ? 0 : n[i].work;
    return work;
}

/* Against all cuts: the peak is the smallest to 1 %, what is kept needs no more than that, and less work is
 * done again when there is more room. */
START_TEST(cuts_have_the_smallest_peak)
{
    struct stance_error err = STANCE_ERROR_INIT;
    double              all = 0, again = 0, again_with_room = 0;

    for (int d = 0; d < DRAWS; d++) {
        struct stance_segment_node n[NODES] = { { .last = 0 } };
        bool                       kept[NODES] = { false };
        const bool                 none[NODES] = { false };
        size_t                     count, best = SIZE_MAX, seen = SIZE_MAX, peak;

        draw_nodes(d, n, &count);
        ck_assert_int_eq(stance_segments_choose(n, count, 0, kept, &peak, &err), STANCE_OK);
        for (unsigned cuts = 0; cuts < 1u << (count - 1); cuts++) {
            size_t p = peak_of(n, count, cuts, NULL), with = peak_of(n, count, cuts, kept);

            best = p < best ? p : best;
            seen = with < seen ? with : seen;
        }
        ck_assert_msg(seen <= peak && peak <= best + best / 99 + 1, "draw %d: best %zu, said %zu, kept %zu", d, best, peak, seen);
        all += work_again(n, count, none);
        again += work_again(n, count, kept);
        ck_assert_int_eq(stance_segments_choose(n, count, 0.3, kept, &peak, &err), STANCE_OK);
        ck_assert_uint_le(peak, best + best * 32 / 100 + 2);
        again_with_room += work_again(n, count, kept);
    }
    printf("work done again: %.2f of all, %.2f with room for a third more\n", again / all, again_with_room / all);
    ck_assert(again_with_room < again && again < all);
}
END_TEST

/* Five nodes of one size; the second is small and dear, and there is room for it beside the cut. */
START_TEST(the_dear_are_kept)
{
    const struct stance_segment_node n[] = {
        { .last = 1, .inside = 1000, .crossing = 1000, .work = 10 }, { .last = 2, .inside = 10, .crossing = 10, .work = 900 },
        { .last = 3, .inside = 1000, .crossing = 1000, .work = 10 }, { .last = 4, .inside = 1000, .crossing = 1000, .work = 10 },
        { .last = 4, .inside = 500, .crossing = 0, .work = 10 },
    };
    struct stance_error err = STANCE_ERROR_INIT;
    bool                kept[5] = { false };
    size_t              peak;

    ck_assert_int_eq(stance_segments_choose(n, 5, 0.1, kept, &peak, &err), STANCE_OK);
    ck_assert_uint_lt(peak, 3510);
    ck_assert(kept[1] && kept[4]);
    ck_assert(!kept[0] || !kept[2]);
}
END_TEST

START_TEST(no_nodes_have_no_cuts)
{
    struct stance_error err  = STANCE_ERROR_INIT;
    size_t              peak = 1;

    ck_assert_int_eq(stance_segments_choose(NULL, 0, 0, NULL, &peak, &err), STANCE_OK);
    ck_assert_uint_eq(peak, 0);
}
END_TEST

/* ---- the same bytes ------------------------------------------------------------------------------------- */

static const char *const nets[] = {
    "model:\n  task: top_down\n  backbone: {name: hrnet, width: 4, stage1_planes: 8}\n"
    "  head: {name: heatmap, deconv: []}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [16, 16]}\n"
    "train: {batch_size: 2, optimizer: {name: adam, lr: 5.0e-4}}\n",
    "model:\n  task: top_down\n  backbone: {name: resnet, depth: 50, stem_channels: 8, base_channels: 8}\n"
    "  head: {name: heatmap, deconv: [8, 8, 8]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [64, 64], heatmap_size: [16, 16]}\n"
    "train: {batch_size: 2, optimizer: {name: adam, lr: 5.0e-4}}\n",
};

static const struct { int net; const char *device, *precision; bool accumulate, no_fusion; } runs[] = {
    { 0, "cpu", "fp32", false, false }, { 0, "cpu", "bf16", false, false }, { 0, "cpu", "fp16", false, false },
    { 0, "cpu", "bf16", true, false },  { 0, "cpu", "fp32", false, true },  { 0, "ref", "fp32", false, false },
    { 1, "cpu", "fp32", false, false }, { 1, "cpu", "bf16", false, false }, { 1, "cpu", "fp16", true, false },
    { 1, "ref", "fp32", true, false },  { 1, "ref", "fp64", false, false }, { 1, "cpu", "fp16", false, true },
};

/* Launches of the backward pass that are no gradient's: what is computed again. */
static int rebuilt(const struct step_run *r, const char *op)
{
    struct stance_program_launch l;
    int                          n = 0;

    for (size_t i = 0; stance_program_launch(stance_step_program(r->step, STANCE_STEP_BATCH), i, &l); i++)
        n += l.backward && strcmp(l.op, op) == 0;
    return n;
}

START_TEST(same_bytes_as_without)
{
    enum { WINDOWS = 4, OVERFLOW = 2 };
    struct snapshot    want[WINDOWS];
    size_t             arena[3];
    int                again[3][3];
    const char *const  norm = runs[_i].no_fusion || strcmp(runs[_i].device, "ref") == 0 ? "relu" : "norm_sum_given";

    if (!step_has_device(runs[_i].device, "recomputation"))
        return;
    for (int mode = STANCE_REBUILD_NONE; mode <= STANCE_REBUILD_BLOCK; mode++) {
        struct step_run     r;
        struct snapshot     before = { NULL, 0 };
        struct stance_error err    = STANCE_ERROR_INIT;

        step_setup(&r, nets[runs[_i].net], runs[_i].device, runs[_i].precision);
        r.options.rebuild    = (enum stance_rebuild)mode;
        r.options.no_fusion  = runs[_i].no_fusion;
        r.options.accumulate = runs[_i].accumulate;
        step_make(&r);
        for (int w = 0; w < WINDOWS; w++) {
            const int                 micros = runs[_i].accumulate ? 2 : 1;
            struct stance_step_result result;
            struct snapshot           have;
            double                    loss;

            if (w == OVERFLOW)
                before = step_snapshot(&r);
            for (int m = 0; m < micros; m++) {
                step_fill_inputs(&r, STANCE_STEP_BATCH, 4 * w + 2 * m);
                if (w == OVERFLOW && m == micros - 1)
                    step_fill_infinity(&r);
                ck_assert_msg(stance_step_micro(r.step, STANCE_STEP_BATCH, 1.0 / micros, &err) == STANCE_OK, "%s", err.text);
            }
            ck_assert_int_eq(stance_step_read(r.step, STANCE_STEP_BATCH, "loss", STANCE_TYPE_F64, &loss, &err), STANCE_OK);
            ck_assert_msg(stance_step_apply(r.step, 1e-3, &result, &err) == STANCE_OK, "%s", err.text);
            ck_assert(result.skipped == (w == OVERFLOW));
            have = step_snapshot(&r);
            if (w == OVERFLOW)
                ck_assert_msg(step_equal(&before, &have), "%s: the skipped window has changed something", words[mode]);
            snapshot_append(&have, stance_step_store(r.step)->gradient, stance_step_store(r.step)->bytes[STANCE_BANK_PARAM]);
            snapshot_append(&have, &loss, sizeof loss);
            if (mode == STANCE_REBUILD_NONE)
                want[w] = have;
            else
                ck_assert_msg(w == OVERFLOW ? have.size == want[w].size : step_equal(&want[w], &have),
                              "%s: other bytes after window %d", words[mode], w);
            if (mode != STANCE_REBUILD_NONE)
                free(have.bytes);
        }
        free(before.bytes);
        arena[mode]    = stance_program_size(stance_step_program(r.step, STANCE_STEP_BATCH)).arena;
        again[mode][0] = rebuilt(&r, "conv2d");
        again[mode][1] = rebuilt(&r, norm);
        again[mode][2] = rebuilt(&r, "increment");
        step_close(&r);
    }
    for (int w = 0; w < WINDOWS; w++)
        free(want[w].bytes);
    printf("net %d, %s %s: arena %zu, %zu, %zu bytes; %d %s and %d conv2d again\n", runs[_i].net, runs[_i].device,
           runs[_i].precision, arena[0], arena[1], arena[2], again[2][1], norm, again[2][0]);
    ck_assert(again[0][0] == 0 && again[0][1] == 0 && again[1][0] == 0 && again[1][1] > 0 && again[2][0] > 0
              && again[2][1] > 0 && again[0][2] + again[1][2] + again[2][2] == 0);
    ck_assert(arena[1] < arena[0] && arena[2] < arena[1]);
}
END_TEST

/* ---- evaluation is left alone --------------------------------------------------------------------------- */

START_TEST(evaluation_is_the_same_program)
{
    struct stance_program_size size[3];

    for (int mode = STANCE_REBUILD_NONE; mode <= STANCE_REBUILD_BLOCK; mode++) {
        struct step_run r;

        step_setup(&r, nets[1], "ref", "fp32");
        r.options.rebuild    = (enum stance_rebuild)mode;
        r.options.eval_batch = 2;
        step_make(&r);
        size[mode] = stance_program_size(stance_step_program(r.step, STANCE_STEP_EVAL));
        step_close(&r);
    }
    ck_assert_uint_gt(size[0].launches, 100);
    for (int mode = 1; mode < 3; mode++)
        ck_assert(size[mode].launches == size[0].launches && size[mode].arena == size[0].arena
                  && size[mode].forward == size[0].forward);
}
END_TEST

/* ---- ops of others --------------------------------------------------------------------------------------- */

/* x plus the number of calls so far: who runs it twice gets other numbers. */
static int calls;

static stance_status own_shape(const void *attr, const struct stance_shape *in, int n_in, struct stance_shape *out,
                               enum stance_type *out_type, int n_out, struct stance_error *err)
{
    (void)attr, (void)n_in, (void)out_type, (void)n_out, (void)err;
    out[0] = in[0];
    return STANCE_OK;
}

static stance_status own_reference(const struct stance_call *c)
{
    const float *x = c->in[0].data, *state = c->n_in > 1 ? c->in[1].data : NULL;
    float       *y = c->out[0].data;

    calls++;
    for (int64_t i = 0; i < stance_elements(&c->out[0].shape); i++)
        y[i] = 0.5F * x[i] + (state != NULL ? *state : 0);
    if (c->n_out > 1)
        *(float *)c->out[1].data = *state + 1;
    return STANCE_OK;
}

static struct stance_op_ops own = {
    .size = sizeof own, .type_class = STANCE_CLASS_FOLLOW, .shape = own_shape, .reference = own_reference,
};
static bool own_state;

/* Six layers; the second is multiplied by the op's result, which the gradient of mul reads. */
static struct stance_value build_own(struct stance_builder *b)
{
    static const struct stance_init spread = { STANCE_INIT_NORMAL, 0, 0.3F }, zero = { STANCE_INIT_CONSTANT, 0, 0 };
    struct stance_graph *g = &b->graph;
    struct stance_value  x = stance_input(b, "image", STANCE_TYPE_ANY, stance_shape4(2, 4, 8, 8)), in[3];
    uint32_t             operands[2], results[2];
    struct stance_shape  scalar = { 0 };

    for (int i = 0; i < 6; i++) {
        stance_enter(b, "layer%d", i);
        x = stance_conv2d(b, x, 4, 3, 1, false, spread);
        stance_enter(b, "bn");
        x = stance_relu(b, stance_batch_norm(b, x, 1));
        stance_leave(b);
        if (i == 1) {
            struct stance_value s = stance_weight(b, "state", STANCE_ROLE_STATE, STANCE_TYPE_F32, scalar, zero);

            operands[0] = x.id;
            operands[1] = s.id;
            results[0]  = stance_graph_value_new(g, STANCE_TYPE_ANY, &g->values[x.id].shape);
            results[1]  = stance_graph_value_new(g, STANCE_TYPE_F32, &scalar);
            ck_assert_uint_ne(stance_graph_node_new(g, &own, "own", NULL, 0, operands, own_state ? 2 : 1, results,
                                                    own_state ? 2 : 1), 0);
            if (own_state)
                stance_assign(b, s, (struct stance_value){ results[1] });
            in[0] = x;
            in[1] = (struct stance_value){ results[0] };
            x     = stance_node1(b, "mul", NULL, 0, in, 2);
        }
        stance_leave(b);
    }
    in[0] = x;
    in[1] = stance_input(b, "target", STANCE_TYPE_F32, stance_shape4(2, 4, 8, 8));
    return stance_node1(b, "mse", NULL, 0, in, 2);
}

static const struct { uint32_t flags; bool state; enum stance_rebuild rebuild; int calls; } owns[] = {
    { 0, false, STANCE_REBUILD_NONE, 1 },  { 0, false, STANCE_REBUILD_NORM, 1 }, { 0, false, STANCE_REBUILD_BLOCK, 2 },
    { STANCE_OP_NO_RECOMPUTE, false, STANCE_REBUILD_BLOCK, 1 },
    { STANCE_OP_STATE, true, STANCE_REBUILD_NONE, 1 }, { STANCE_OP_STATE, true, STANCE_REBUILD_BLOCK, 1 },
};

START_TEST(ops_of_others)
{
    double *gradient[2];
    int64_t n;

    for (int i = 0; i < 2; i++) { /* 0: all values kept */
        struct small s;

        own.flags = owns[_i].flags;
        own_state = owns[_i].state;
        small_open(&s, "ref", "fp32");
        s.rebuild = i == 0 ? STANCE_REBUILD_NONE : owns[_i].rebuild;
        small_make(&s, build_own, true);
        calls = 0;
        small_run(&s);
        if (i == 1) {
            ck_assert_int_eq(calls, owns[_i].calls);
            ck_assert_int_eq(small_count(&s, "conv2d", NULL) > 6, owns[_i].rebuild == STANCE_REBUILD_BLOCK);
        }
        gradient[i] = small_gradient(&s, "layer0.weight", &n);
        small_close(&s);
    }
    ck_assert_int_eq(memcmp(gradient[0], gradient[1], (size_t)n * sizeof **gradient), 0);
    free(gradient[0]);
    free(gradient[1]);
}
END_TEST

/* ---- real networks --------------------------------------------------------------------------------------- */

/* Largest part of the arena without that norm and block may take. */
static const double parts[][3] = { { 1, 0.6, 0.35 }, { 1, 0.7, 0.5 } };

START_TEST(arena_of_real_networks)
{
    static const char *const   precisions[] = { "fp32", "bf16", "fp16" };
    struct stance_program_size size[3];

    if (!step_has_device("cpu", "arena"))
        return;
    for (int p = 0; p < 3; p++) {
        for (int mode = STANCE_REBUILD_NONE; mode <= STANCE_REBUILD_BLOCK; mode++) {
            size[mode] = arena_size(arena_nets[_i][1], precisions[p], (enum stance_rebuild)mode);
            printf("%s, batch 16, %s, %s: arena %.1f MiB, %.3f times its bound\n", arena_nets[_i][0], precisions[p],
                   words[mode], (double)size[mode].arena / 1048576, (double)size[mode].arena / (double)size[mode].arena_bound);
            fflush(stdout);
            ck_assert((double)size[mode].arena <= 1.15 * (double)size[mode].arena_bound);
            ck_assert((double)size[mode].arena <= parts[_i][mode] * (double)size[0].arena);
        }
    }
}
END_TEST

/* ---- short of memory -------------------------------------------------------------------------------------- */

START_TEST(every_request_may_fail)
{
    static const char tiny[] =
        "model:\n  task: top_down\n  backbone: {name: resnet, depth: 18, stem_channels: 4, base_channels: 4}\n"
        "  head: {name: heatmap, deconv: [4]}\n  loss: {name: joints_mse, use_target_weight: true}\n"
        "data: {dataset: synthetic, input_size: [32, 32], heatmap_size: [2, 2]}\n"
        "train: {batch_size: 1, optimizer: {name: adam, lr: 5.0e-4}}\n";
    struct step_run     r;
    struct stance_error err    = STANCE_ERROR_INIT;
    stance_status       status = STANCE_ERR_NOMEM;
    long                n;

    step_setup(&r, tiny, "ref", "fp32");
    r.options.rebuild = _i == 0 ? STANCE_REBUILD_NORM : STANCE_REBUILD_BLOCK;
    for (n = 0; status != STANCE_OK; n++) {
        struct stance_step *step = NULL;

        fault_after(n);
        status = stance_step_new(&r.options, &step, &err);
        stance_step_free(step);
        ck_assert_msg(fault_live == 0, "request %ld: %ld blocks are left", n, (long)fault_live);
        stance_set_allocator(NULL);
        ck_assert_msg(status == STANCE_OK || status == STANCE_ERR_NOMEM, "request %ld: %s", n, err.text);
    }
    printf("short of memory at each of %ld requests\n", n - 1);
    ck_assert_int_gt(n, 50);
    step_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recompute");
    TCase *tc    = tcase_create("passes"), *big = tcase_create("networks"), *arena = tcase_create("arenas");

    LTDL_SET_PRELOADED_SYMBOLS();
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, cuts_have_the_smallest_peak);
    tcase_add_test(tc, the_dear_are_kept);
    tcase_add_test(tc, no_nodes_have_no_cuts);
    tcase_add_test(tc, evaluation_is_the_same_program);
    tcase_add_loop_test(tc, ops_of_others, 0, sizeof owns / sizeof *owns);
    suite_add_tcase(suite, tc);
    tcase_set_timeout(big, 600);
    tcase_add_loop_test(big, same_bytes_as_without, 0, sizeof runs / sizeof *runs);
    tcase_add_loop_test(big, every_request_may_fail, 0, 2);
    suite_add_tcase(suite, big);
    tcase_set_timeout(arena, 600);
    tcase_add_loop_test(arena, arena_of_real_networks, 0, 2);
    suite_add_tcase(suite, arena);
    return run_suite(suite);
}
