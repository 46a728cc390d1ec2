/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu device: convolutions by oneDNN, everything that only moves memory by passes of its own. Where the
 * time goes, and why the work is cut as it is: spec/cpu-training.md. */
#include "cpu/cpu.h"

#include <stdio.h>
#include <sys/mman.h>

static const char *const winograd_words[] = { "auto", "off", NULL };

static const struct stance_param params[] = {
    STANCE_PARAM_ENUM(struct cpu_config, winograd, "auto", winograd_words,
                      "Winograd kernels for fp32 3x3 convolutions, where shapes say that they pay (Lavin and "
                      "Gray, CVPR 2016)"),
    STANCE_PARAM_END
};

static const struct cpu_op *const *const tables[] = {
    stance_cpu_conv_ops, stance_cpu_norm_ops, stance_cpu_norm_grad_ops, stance_cpu_plane_ops,
    stance_cpu_flat_ops, stance_cpu_pack_ops, stance_cpu_update_ops,
};

static const struct cpu_op *find(const char *name)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct cpu_op *const *op = tables[t]; *op != NULL; op++)
            if (strcmp((*op)->name, name) == 0)
                return *op;
    return NULL;
}

static bool has_isa(dnnl_cpu_isa_t isa)
{
    return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

/* The passes follow what oneDNN uses, which may be told to use less than the machine has: its kernels and
 * these must agree on the block of channels. */
static const struct cpu_passes *choose(void)
{
#if defined(__x86_64__)
    if (has_isa(dnnl_cpu_isa_avx512_core) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return &stance_cpu_passes_avx512;
    if (has_isa(dnnl_cpu_isa_avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &stance_cpu_passes_avx2;
#endif
    return &stance_cpu_passes_base;
}

static void describe_state(struct cpu *cpu)
{
    const dnnl_version_t *v = dnnl_version();

    snprintf(cpu->text, sizeof cpu->text,
             "library: oneDNN %d.%d.%d\nisa: %s\nblock: %d channels\nthreads: %d\n"
             "computed in fp32: %sfp16\nwinograd: %s\n",
             v->major, v->minor, v->patch,
             has_isa(dnnl_cpu_isa_avx512_core_bf16) ? "AVX-512 with BF16" : cpu->pass->isa, cpu->lanes, cpu->threads,
             cpu->bf16 ? "" : "bf16, ",
             winograd_words[cpu->config.winograd]);
}

static stance_status cpu_open(void *state, const void *config, int threads, struct stance_error *err)
{
    struct cpu *cpu = state;

    if (config != NULL)
        cpu->config = *(const struct cpu_config *)config;
    cpu->threads = threads > 0 ? threads : stance_cpu_default_threads();
    cpu->pass    = choose();
    cpu->lanes   = cpu->pass->lanes;
    cpu->bf16    = has_isa(dnnl_cpu_isa_avx512_core);
    if (dnnl_engine_create(&cpu->engine, dnnl_cpu, 0) != dnnl_success)
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device 'cpu': oneDNN has no CPU engine");
    if (dnnl_stream_create(&cpu->stream, cpu->engine, dnnl_stream_in_order) != dnnl_success)
        goto destroy_engine;
    if (dnnl_primitive_attr_create(&cpu->attr) != dnnl_success)
        goto destroy_stream;
    if (dnnl_primitive_attr_set_scratchpad_mode(cpu->attr, dnnl_scratchpad_mode_user) != dnnl_success)
        goto destroy_attr;
    describe_state(cpu);
    return STANCE_OK;

destroy_attr:
    dnnl_primitive_attr_destroy(cpu->attr);
destroy_stream:
    dnnl_stream_destroy(cpu->stream);
destroy_engine:
    dnnl_engine_destroy(cpu->engine);
    return STANCE_FAIL(err, STANCE_ERR_DEVICE, "device 'cpu': oneDNN cannot be started");
}

static void cpu_close(void *state)
{
    struct cpu *cpu = state;

    stance_cpu_layouts_free(cpu);
    dnnl_primitive_attr_destroy(cpu->attr);
    dnnl_stream_destroy(cpu->stream);
    dnnl_engine_destroy(cpu->engine);
}

static stance_status precision(void *state, enum stance_type low, bool training, struct stance_error *err)
{
    (void)state;
    (void)training;
    if (low == STANCE_TYPE_F32 || low == STANCE_TYPE_BF16 || low == STANCE_TYPE_F16)
        return STANCE_OK;
    return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED,
                       "device 'cpu' has no %s kernels: it computes in fp32 and bf16, and stores fp16 (device 'ref' has fp64)",
                       low == STANCE_TYPE_F64 ? "fp64" : stance_type_word(low));
}

static enum stance_type fast_type(void *state)
{
    (void)state;
    return has_isa(dnnl_cpu_isa_avx512_core_bf16) ? STANCE_TYPE_BF16 : STANCE_TYPE_F32;
}

/* ---- memory --------------------------------------------------------------------------------------- */

#define HUGE_PAGE ((size_t)2 << 20)
#define PAGE 4096

static size_t whole_pages(size_t bytes)
{
    return bytes == 0 ? HUGE_PAGE : (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
}

static void touch(void *ctx, int64_t i)
{
    volatile char *p = (volatile char *)ctx + (size_t)i * HUGE_PAGE;

    for (size_t at = 0; at < HUGE_PAGE; at += PAGE)
        p[at] = 0;
}

/* Anonymous memory is zero; touching it now, each thread its share, takes the page faults out of the first
 * step and puts pages near their threads. */
static stance_status cpu_alloc(void *state, size_t bytes, void **out, struct stance_error *err)
{
    struct cpu *cpu = state;
    size_t      size = whole_pages(bytes), head;
    char       *p;

    if (bytes > SIZE_MAX - 2 * HUGE_PAGE)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "device 'cpu': %zu bytes", bytes);
    p = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "device 'cpu': %zu bytes", bytes);
    head = (HUGE_PAGE - (uintptr_t)p % HUGE_PAGE) % HUGE_PAGE;
    if (head > 0)
        munmap(p, head);
    munmap(p + head + size, HUGE_PAGE - head);
    p += head;
    madvise(p, size, MADV_HUGEPAGE);
    stance_cpu_parallel(cpu, (int64_t)(size / HUGE_PAGE), touch, p);
    *out = p;
    return STANCE_OK;
}

static void cpu_release(void *state, void *memory, size_t bytes)
{
    (void)state;
    if (memory != NULL)
        munmap(memory, whole_pages(bytes));
}

/* ---- forms and kernels ------------------------------------------------------------------------------ */

static bool is_float(enum stance_type t)
{
    return t == STANCE_TYPE_F32 || t == STANCE_TYPE_F16 || t == STANCE_TYPE_BF16;
}

/* Three channels stay plain: that is an image, and oneDNN has kernels for a plain first operand. FP16
 * gradients are kept in binary32, rounded: they are few at a time, and need no conversion for oneDNN. */
static void form(void *state, const struct stance_tensor *t, enum stance_purpose purpose, struct stance_form *out)
{
    struct cpu          *cpu = state;
    struct stance_tensor v = *t;

    v.layout = CPU_PLAIN;
    v.stored = t->type;
    if (is_float(t->type) && (purpose == STANCE_PURPOSE_ACTIVATION || purpose == STANCE_PURPOSE_GRADIENT)) {
        if (t->shape.rank == 4 && t->shape.dim[1] > 3)
            v.layout = CPU_BLOCKED;
        if (t->type == STANCE_TYPE_F16 && purpose == STANCE_PURPOSE_GRADIENT)
            v.stored = STANCE_TYPE_F32;
    }
    *out = (struct stance_form){ v.layout, v.stored, (size_t)stance_cpu_length(cpu, &v) * stance_type_size(v.stored) };
}

static bool offer(void *state, const struct stance_request *req, struct stance_offer *answer)
{
    struct cpu          *cpu = state;
    const struct cpu_op *op  = find(req->op);
    int                  threads;
    bool                 taken;

    if (op == NULL)
        return false;
    threads = stance_cpu_threads(cpu->threads);
    taken   = op->offer(cpu, req, answer);
    stance_cpu_threads(threads);
    return taken;
}

static stance_status prepare(void *state, const struct stance_request *req, void **kernel, struct stance_error *err)
{
    struct cpu          *cpu = state;
    const struct cpu_op *op  = find(req->op);
    struct cpu_kernel   *k   = NULL;
    stance_status        status = STANCE_OK;
    int                  threads;

    if (op == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOENT, "device 'cpu' has no op '%s'", req->op);
    threads = stance_cpu_threads(cpu->threads);
    if (op->prepare != NULL)
        status = op->prepare(cpu, req, &k, err);
    else if ((k = stance_calloc(1, sizeof *k)) == NULL)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "kernel of '%s'", req->op);
    stance_cpu_threads(threads);
    if (status == STANCE_OK) {
        k->op   = op;
        *kernel = k;
    }
    return status;
}

static void dispose(void *state, void *kernel)
{
    struct cpu_kernel *k = kernel;

    (void)state;
    if (k == NULL)
        return;
    if (k->op->dispose != NULL)
        k->op->dispose(k);
    else
        stance_free(k);
}

static stance_status launch(void *state, void *kernel, const struct stance_call *call)
{
    struct cpu        *cpu = state;
    struct cpu_kernel *k = kernel;
    int                threads = stance_cpu_threads(cpu->threads);
    stance_status      status = k->op->launch(cpu, k, call);

    stance_cpu_threads(threads);
    return status;
}

static stance_status reorder(void *state, const struct stance_tensor *to, const struct stance_tensor *from,
                             struct stance_error *err)
{
    return stance_cpu_reorder(state, to, from, err);
}

static const char *describe(void *state)
{
    return ((struct cpu *)state)->text;
}

static const struct stance_device_ops ops = {
    .size        = sizeof ops,
    .state_size  = sizeof(struct cpu),
    .host_memory = true,
    .open        = cpu_open,
    .close       = cpu_close,
    .precision   = precision,
    .fast_type   = fast_type,
    .alloc       = cpu_alloc,
    .release     = cpu_release,
    .form        = form,
    .offer       = offer,
    .prepare     = prepare,
    .dispose     = dispose,
    .launch      = launch,
    .reorder     = reorder,
    .describe    = describe,
};

STANCE_PLUGIN(device, cpu) = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_DEVICE,
    .name        = "cpu",
    .version     = "1.0",
    .license     = "Apache-2.0",
    .source      = "oneDNN; passes of its own for what surrounds convolutions",
    .summary     = "the processor: fp32, bf16 and fp16 storage, by oneDNN",
    .params      = params,
    .config_size = sizeof(struct cpu_config),
    .ops.device  = &ops,
};
