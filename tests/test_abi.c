/* SPDX-License-Identifier: Apache-2.0
 *
 * The binary interface: sizes, plugins of older and other headers, ops of plugins in a graph and in a step. The
 * plugins are compiled beforehand by one line each, into $ABI_DIR. */
#include "graph_run.h"
#include "runner.h"

#include "compile/kernel.h"
#include "registry/internal.h"

#include <stance/device.h>

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* What ABI 0 began with, where pointers have 64 bits. What begins with its size may grow, the rest may not. */
#if UINTPTR_MAX == UINT64_MAX
#define FIXED(type, n) _Static_assert(sizeof(type) == (n), "the size of " #type " is part of ABI 0")
#define GROWS(type, n) _Static_assert(sizeof(type) >= (n), #type " has lost a field")
FIXED(struct stance_value, 4);
FIXED(struct stance_shape, 56);
FIXED(struct stance_init, 12);
FIXED(struct stance_tensor, 88);
FIXED(struct stance_kernel, 32);
FIXED(struct stance_param, 80);
FIXED(struct stance_text, 512);
FIXED(struct stance_list_i64, 520);
FIXED(struct stance_list_f64, 520);
FIXED(struct stance_error, 1024);
FIXED(struct stance_allocator, 24);
FIXED(enum stance_kind, 4);
GROWS(struct stance_plugin, 80);
GROWS(struct stance_backbone_ops, 16);
GROWS(struct stance_head_ops, 32);
GROWS(struct stance_loss_ops, 16);
GROWS(struct stance_scaler_ops, 56);
GROWS(struct stance_optimizer_ops, 40);
GROWS(struct stance_schedule_ops, 16);
GROWS(struct stance_op_ops, 88);
GROWS(struct stance_call, 56);
GROWS(struct stance_outcome, 40);
GROWS(struct stance_update, 40);
GROWS(struct stance_progress, 48);
GROWS(struct stance_pose, 80);
GROWS(struct stance_decode, 64);
/* Attributes of built-in ops: plugins make them, the core zero-fills what they lack. */
GROWS(struct stance_conv2d, 44);
GROWS(struct stance_conv_transpose2d, 36);
GROWS(struct stance_batch_norm, 16);
GROWS(struct stance_pool, 32);
#endif

static struct stance_registry *registry(void)
{
    struct stance_registry *reg;
    struct stance_error     err = STANCE_ERROR_INIT;

    ck_assert_msg(stance_registry_new(ABI_DIR, &reg, &err) == STANCE_OK, "%s", err.text);
    return reg;
}

/* ---- the loader ----------------------------------------------------------------------------------- */

START_TEST(no_code_of_another_interface_runs)
{
    struct stance_registry     *reg = registry();
    struct stance_error         err = STANCE_ERROR_INIT;
    const struct stance_plugin *p;

    unsetenv("STANCE_TEST_CONSTRUCTOR");
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "later", &p, &err), STANCE_ERR_ABI);
    ck_assert_msg(strstr(err.text, "9999") != NULL && strstr(err.text, "scaler_later.so") != NULL, "%s", err.text);
    ck_assert_ptr_null(getenv("STANCE_TEST_CONSTRUCTOR"));
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "same", &p, &err), STANCE_OK);
    ck_assert_ptr_nonnull(getenv("STANCE_TEST_CONSTRUCTOR")); /* so that the silence above meant something */
    stance_registry_free(reg);
}
END_TEST

/* "same" is built with another number of the unstable kinds: a scaler does not care. */
START_TEST(unstable_number_is_for_unstable_kinds)
{
    struct stance_plugin_head h = { STANCE_PLUGIN_ABI, STANCE_UNSTABLE_ABI + 77, sizeof(struct stance_plugin), 0 };

    for (h.kind = 0; h.kind < STANCE_KIND_COUNT; h.kind++) {
        bool stable = h.kind <= STANCE_KIND_OP; /* in the order of the numbers, the stable ones come first */

        ck_assert_int_eq(stance_plugin_check_head(&h, h.kind, NULL), stable ? STANCE_OK : STANCE_ERR_ABI);
    }
}
END_TEST

START_TEST(files_without_a_descriptor_are_left_to_the_linker)
{
    struct stance_plugin_head h;
    unsigned char             junk[4096];
    FILE                     *f = fopen(ABI_DIR "/scaler_same.so", "rb");
    static unsigned char      so[1 << 20];
    size_t                    n;

    ck_assert_ptr_nonnull(f);
    n = fread(so, 1, sizeof so, f);
    fclose(f);
    ck_assert(stance_elf_read(so, n, "scaler_same_LTX_stance_plugin", &h, sizeof h));
    ck_assert_uint_eq(h.size, sizeof(struct stance_plugin));
    ck_assert_uint_eq(h.unstable_abi, STANCE_UNSTABLE_ABI + 77);
    ck_assert(!stance_elf_read(so, n, "scaler_other_LTX_stance_plugin", &h, sizeof h));
    ck_assert(!stance_elf_is_cut_short(so, n));
    ck_assert(stance_elf_is_cut_short(so, n - 1));
    /* Nothing outside the bytes is read, whatever is wrong in them: the sanitizers watch. */
    for (size_t i = 0; i < n; i += 13)
        stance_elf_read(so, i, "scaler_same_LTX_stance_plugin", &h, sizeof h);
    for (size_t i = 0; i < 4096 && i < n; i++) {
        unsigned char was = so[i];

        so[i] = (unsigned char)(was ^ 0xff);
        stance_elf_read(so, n, "scaler_same_LTX_stance_plugin", &h, sizeof h);
        so[i] = was;
    }
    for (size_t i = n > 4096 ? n - 4096 : 0; i < n; i++) { /* the section headers */
        unsigned char was = so[i];

        so[i] = (unsigned char)(was ^ 0x80);
        stance_elf_read(so, n, "scaler_same_LTX_stance_plugin", &h, sizeof h);
        so[i] = was;
    }
    memset(junk, 0xff, sizeof junk);
    ck_assert(!stance_elf_read(junk, sizeof junk, "x", &h, sizeof h));
}
END_TEST

static void queue_of_nobody(void)
{
    ck_abort_msg("a field was used that its plugin's header does not have");
}

/* A table that ends before a field which ours has: what lies behind it in memory is not that field. */
START_TEST(older_headers_lack_fields)
{
    struct stance_arena     *arena = stance_arena_new(1024);
    struct stance_device_ops old;
    struct stance_plugin     p = { .abi = STANCE_PLUGIN_ABI, .unstable_abi = STANCE_UNSTABLE_ABI, .size = sizeof p,
                                   .kind = STANCE_KIND_DEVICE, .name = "old", .ops.device = &old };
    struct { struct stance_scaler_ops ops; void *newer[4]; } larger = { .ops = { .size = sizeof larger } };
    struct stance_plugin        q = { .abi = STANCE_PLUGIN_ABI, .size = sizeof q, .kind = STANCE_KIND_SCALER,
                                      .name = "new", .ops.scaler = &larger.ops };
    const struct stance_plugin *a;

    memset(&old, 0x5a, sizeof old);
    old.size       = offsetof(struct stance_device_ops, queue);
    old.state_size = 8;
    old.queue      = (void *(*)(void *))queue_of_nobody;
    a              = stance_plugin_adopt(&p, arena);
    ck_assert_ptr_nonnull(a);
    ck_assert_uint_eq(a->ops.device->size, sizeof old);
    ck_assert_uint_eq(a->ops.device->state_size, 8);
    ck_assert_ptr_eq((void *)a->ops.device->describe, (void *)old.describe);
    ck_assert(a->ops.device->queue == NULL);
    ck_assert(!STANCE_HAS(&old, queue));
    ck_assert(STANCE_HAS(&old, describe));
    a = stance_plugin_adopt(&q, arena);
    ck_assert_ptr_nonnull(a);
    ck_assert_uint_eq(a->ops.scaler->size, sizeof(struct stance_scaler_ops));
    stance_arena_free(arena);
}
END_TEST

static stance_status no_shape(const void *attr, const struct stance_shape *in, int n_in, struct stance_shape *out,
                              enum stance_type *out_type, int n_out, struct stance_error *err)
{
    (void)attr; (void)in; (void)n_in; (void)out; (void)out_type; (void)n_out; (void)err;
    return STANCE_OK;
}

static stance_status no_run(const struct stance_call *call)
{
    (void)call;
    return STANCE_OK;
}

static double no_rate(const void *config)
{
    (void)config;
    return 1;
}

START_TEST(faulty_tables_are_refused)
{
    static const char *const  slots[] = { "a", "b", "c", "d", "e" };
    struct stance_kernel      kernel = { .device = "cpu", .run = no_run, .types = 2 };
    struct stance_op_ops      backward = { .size = sizeof backward, .shape = no_shape, .reference = no_run };
    struct stance_op_ops      op = { .size = sizeof op, .shape = no_shape, .reference = no_run, .kernels = &kernel,
                                     .n_kernels = 1, .backward = &backward };
    struct stance_optimizer_ops opt = { .size = sizeof opt, .slots = 2, .slot_names = slots, .base_rate = no_rate,
                                        .update = &op };
    struct stance_param       table[2] = { { .name = "x", .type = STANCE_PARAM_TYPE_F64, .dflt = "1", .min = 0, .max = 2,
                                             .unit = "1", .doc = "x" } };
    struct stance_plugin      p = { .abi = STANCE_PLUGIN_ABI, .size = sizeof p, .kind = STANCE_KIND_OP, .name = "x",
                                    .version = "1", .license = "x", .source = "x", .summary = "x", .params = table,
                                    .config_size = 8, .ops.op = &op };
    struct stance_error       err;

#define REFUSED(what, status, says)                                                          \
    do {                                                                                     \
        err = (struct stance_error)STANCE_ERROR_INIT;                                        \
        what;                                                                                \
        ck_assert_int_eq(stance_plugin_check(&p, p.kind, "x", &err), status);                \
        ck_assert_msg(strstr(err.text, says) != NULL, "'%s' is not in '%s'", says, err.text); \
    } while (0)
    REFUSED((void)0, STANCE_OK, "");
    REFUSED(op.size = 10 * sizeof(size_t), STANCE_ERR_ABI, sizeof(size_t) == 8 ? "80 bytes" : "40 bytes");
    REFUSED((op.size = sizeof op, op.flags = 1), STANCE_ERR_ABI, "flags 0x1");
    REFUSED((op.flags = 64 | STANCE_OP_IN_PLACE), STANCE_ERR_ABI, "flags 0x40");
    REFUSED((op.flags = 0, op.kernels = NULL), STANCE_ERR_PLUGIN, "1 kernels");
    REFUSED((op.kernels = &kernel, kernel.device = NULL), STANCE_ERR_PLUGIN, "device");
    REFUSED((kernel.device = "cpu", backward.reference = NULL), STANCE_ERR_PLUGIN, "backward");
    REFUSED((backward.reference = no_run, table[0].more = &err), STANCE_ERR_ABI, "later stance");
    REFUSED((table[0].more = NULL, table[0].flags = 2), STANCE_ERR_ABI, "later stance");
    REFUSED((table[0].flags = 0, table[0].type = 99), STANCE_ERR_ABI, "type 99");
    table[0].type   = STANCE_PARAM_TYPE_F64;
    p.kind          = STANCE_KIND_OPTIMIZER;
    p.ops.optimizer = &opt;
    op.attr_size    = 8;
    REFUSED((void)0, STANCE_OK, "");
    REFUSED(opt.slots = 5, STANCE_ERR_PLUGIN, "5 slots");
    REFUSED((opt.slots = 2, opt.slot_names = NULL), STANCE_ERR_PLUGIN, "without names");
    REFUSED((opt.slot_names = slots, p.config_size = 16), STANCE_ERR_PLUGIN, "8 bytes of attributes");
    REFUSED((p.config_size = 8, opt.update = NULL), STANCE_ERR_PLUGIN, "update");
}
END_TEST

static const struct { const char *list; bool blocked; } lists[] = {
    { "scaler/same", true }, { "scaler_same", true }, { "loss/x:scaler/same", true }, { "a,scaler/same,b", true },
    { "scaler/sam", false }, { "scaler/samee", false }, { "same", false }, { "scaler", false }, { "scaler:same", false },
    { "", false }, { ":,:", false }, { "SCALER/SAME", false },
};

START_TEST(blocked_by_exact_name)
{
    struct stance_registry     *reg;
    struct stance_error         err = STANCE_ERROR_INIT;
    const struct stance_plugin *p;
    stance_status               want = lists[_i].blocked ? STANCE_ERR_NOENT : STANCE_OK;

    setenv("STANCE_PLUGIN_BLOCKLIST", lists[_i].list, 1);
    reg = registry();
    unsetenv("STANCE_PLUGIN_BLOCKLIST");
    ck_assert_int_eq(stance_registry_find(reg, STANCE_KIND_SCALER, "same", &p, &err), want);
    ck_assert_int_eq(stance_registry_open(reg, ABI_DIR "/scaler_same.so", &p, &err), want);
    ck_assert(!lists[_i].blocked || strstr(err.text, "STANCE_PLUGIN_BLOCKLIST") != NULL);
    stance_registry_free(reg);
}
END_TEST

/* The program with the rights of another user takes nothing from the environment. */
START_TEST(set_uid_ignores_the_environment)
{
    char        folder[] = "/tmp/stance-suid-XXXXXX", line[2000], out[8000];
    const char *program  = getenv("STANCE_PROGRAM"), *slash;
    FILE       *f;
    size_t      n;

    ck_assert_ptr_nonnull(program);
    if (geteuid() != 0) {
        SKIP("set-uid program: only root can make one");
        return;
    }
    slash = strrchr(program, '/');
    ck_assert_ptr_nonnull(slash);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    /* In a build folder the program proper is in .libs and knows its library by an absolute run path. */
    snprintf(line, sizeof line,
             "cp '%.*s/.libs/stance' %s/stance 2>/dev/null || cp '%s' %s/stance; chmod 755 %s; chown 65534 %s/stance && "
             "chmod 4755 %s/stance && export STANCE_PLUGIN_PATH=%s && %s/stance list scaler 2>&1",
             (int)(slash - program), program, folder, program, folder, folder, folder, folder, ABI_DIR, folder);
    f = popen(line, "r");
    ck_assert_ptr_nonnull(f);
    n      = fread(out, 1, sizeof out - 1, f);
    out[n] = '\0';
    n      = (size_t)pclose(f);
    snprintf(line, sizeof line, "rm -r %s", folder);
    ck_assert_int_eq(system(line), 0);
    if (strstr(out, "error while loading") != NULL) {
        SKIP("set-uid program: the loader does not start it from a build folder");
        return;
    }
    ck_assert_msg(n == 0 && strstr(out, "KIND") != NULL, "%s", out);
    ck_assert_msg(strstr(out, "same") == NULL, "the environment counts: %s", out);
}
END_TEST

/* ---- ops of plugins ---------------------------------------------------------------------------------- */

/* L = sum of r * softclip(w): dL/dw by the plugin's gradient rule and backward kernel against central differences
 * in binary64 with a step of 1e-5: truncation and cancellation are both near 1e-10. */
START_TEST(gradient_of_a_plugins_op)
{
    struct stance_registry *reg = registry();
    struct stance_error     err = STANCE_ERROR_INIT;
    struct stance_graph    *g;
    struct stance_builder  *b;
    struct stance_shape     s = { 2, { 3, 5 } };
    struct stance_init      start = { STANCE_INIT_NORMAL, 0, 1 };
    struct stance_reduce    all = { 3, 0 };
    struct { double slope; } a = { 0.7 };
    struct stance_value     in[2], w;
    struct stance_tensor    weight, gradient;
    struct run              r;
    uint32_t                loss;

    ck_assert_int_eq(stance_graph_new(reg, true, &g, &err), STANCE_OK);
    b     = stance_graph_builder(g);
    w     = stance_weight(b, "w", STANCE_ROLE_PARAM, STANCE_TYPE_F32, s, start);
    in[0] = stance_node1(b, "softclip", &a, sizeof a, &w, 1);
    in[1] = stance_input(b, "r", STANCE_TYPE_F32, s);
    in[0] = stance_node1(b, "mul", NULL, 0, in, 2);
    in[0] = stance_node1(b, "reduce_sum", &all, sizeof all, in, 1);
    loss  = in[0].id;
    ck_assert_msg(stance_graph_backward(g, in[0], &err) == STANCE_OK, "%s", err.text);
    run_new(&r, g);
    run_nodes(&r, true, loss);
    weight   = r.t[g->weights[0].value];
    gradient = r.t[stance_graph_resolve(g, g->weights[0].grad)];
    for (int64_t i = 0; i < stance_elements(&s); i++) {
        double x = stance_tensor_get(&weight, i), exact = stance_tensor_get(&gradient, i), up, down;

        stance_tensor_put(&weight, i, x + 1e-5);
        up = run_nodes(&r, false, loss);
        stance_tensor_put(&weight, i, x - 1e-5);
        down = run_nodes(&r, false, loss);
        stance_tensor_put(&weight, i, x);
        ck_assert_double_eq_tol(exact, (up - down) / 2e-5, 1e-7);
    }
    run_free(&r);
    stance_registry_free(reg);
}
END_TEST

static const struct { const char *device, *precision; int expect; } probes[] = {
    { "ref", "fp32", -1 },                   /* no kernel for it: the reference */
    { "ref", "fp64", -1 },
    { "cpu", "fp32", STANCE_TYPE_F32 },
    { "cpu", "bf16", STANCE_TYPE_BF16 },     /* as it lies in memory */
    { "cpu", "fp16", STANCE_TYPE_F32 },      /* not among its types: converted, and back */
};

START_TEST(kernel_of_a_plugins_op_is_used)
{
    char                        folder[] = "/tmp/stance-probe-XXXXXX", line[2000];
    struct stance_registry     *reg = registry();
    const struct stance_plugin *p;
    int                         status;

    if (stance_registry_find(reg, STANCE_KIND_DEVICE, probes[_i].device, &p, NULL) != STANCE_OK) {
        SKIP("kernel of an op on device %s: it is not in this build", probes[_i].device);
        stance_registry_free(reg);
        return;
    }
    stance_registry_free(reg);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    for (int wrong = 0; wrong < 2; wrong++) {
        snprintf(line, sizeof line,
                 "'%s' train '%s/tests/abi/probe.yaml' --plugin-path '" ABI_DIR "' --set model.backbone.expect=%d --device %s --precision %s "
                 "--max-steps 1 --threads 1 --work-dir %s >%s/out 2>&1",
                 getenv("STANCE_PROGRAM"), getenv("STANCE_SRCDIR"), wrong ? (int)STANCE_TYPE_U8 : probes[_i].expect,
                 probes[_i].device, probes[_i].precision, folder, folder);
        status = system(line);
        ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == wrong, "%s: %d", line, WEXITSTATUS(status));
    }
    snprintf(line, sizeof line, "rm -r %s", folder);
    ck_assert_int_eq(system(line), 0);
}
END_TEST

static void *some_queue(void *state)
{
    return state;
}

/* On a device whose memory is its own, the kernel that the op brings is the only way; it gets the queue. */
START_TEST(kernel_launches_on_the_devices_queue)
{
    const struct stance_device_ops ops     = { .size = sizeof ops, .queue = some_queue };
    const struct stance_plugin     plugin  = { .name = "gpu" };
    const struct stance_kernel     kernels[] = { { .device = "cpu", .run = NULL, .types = ~0u },
                                                 { .device = "gpu", .run = no_run, .types = 1u << STANCE_TYPE_F16 } };
    const struct stance_op_ops     op      = { .size = sizeof op, .shape = no_shape, .reference = no_run,
                                               .kernels = kernels, .n_kernels = 2 };
    int                            queue;
    struct stance_device           d       = { &plugin, &ops, &queue, NULL };
    struct stance_arena           *arena   = stance_arena_new(4096);
    struct stance_tensor           t       = { NULL, STANCE_TYPE_F16, STANCE_TYPE_F16, 0, { 1, { 4 } }, 8 };
    struct stance_launch           l;
    struct stance_error            err     = STANCE_ERROR_INIT;

    ck_assert_int_eq(stance_launch_make(&d, arena, "mine", &op, NULL, &t, 1, &t, 1, true, &l, &err), STANCE_OK);
    ck_assert(l.plain == no_run);
    ck_assert_ptr_eq(l.call.queue, &queue);
    t.type = t.stored = STANCE_TYPE_F32;
    ck_assert_int_eq(stance_launch_make(&d, arena, "mine", &op, NULL, &t, 1, &t, 1, true, &l, &err),
                     STANCE_ERR_UNSUPPORTED);
    ck_assert_str_eq(err.text, "device 'gpu' has no kernel for op 'mine'");
    t.stored = STANCE_TYPE_F16;
    t.layout = 3; /* one of the device's own */
    ck_assert_int_eq(stance_launch_make(&d, arena, "mine", &op, NULL, &t, 1, &t, 1, true, &l, &err),
                     STANCE_ERR_UNSUPPORTED);
    stance_arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("abi");
    TCase *tc    = tcase_create("abi");
    const char *shared = getenv("STANCE_SHARED_PLUGINS");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, unstable_number_is_for_unstable_kinds);
    tcase_add_test(tc, older_headers_lack_fields);
    tcase_add_test(tc, faulty_tables_are_refused);
    tcase_add_test(tc, kernel_launches_on_the_devices_queue);
    tcase_add_test(tc, files_without_a_descriptor_are_left_to_the_linker);
    if (shared != NULL && strcmp(shared, "no") == 0) {
        SKIP("plugins of other headers: plugins are part of the program");
    } else {
        tcase_add_test(tc, no_code_of_another_interface_runs);
        tcase_add_loop_test(tc, blocked_by_exact_name, 0, sizeof lists / sizeof *lists);
        tcase_add_test(tc, set_uid_ignores_the_environment);
        tcase_add_test(tc, gradient_of_a_plugins_op);
        tcase_add_loop_test(tc, kernel_of_a_plugins_op_is_used, 0, sizeof probes / sizeof *probes);
    }
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
