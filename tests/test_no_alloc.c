/* SPDX-License-Identifier: Apache-2.0
 *
 * A step asks nobody for memory and looks no name up: the allocator, mmap() and the comparisons of strings
 * are those of this program, in front of libc's, for every library in the process.
 *
 * dnnl_primitive_execute() itself builds a map of its arguments, by operator new, and gives it back before
 * it returns; there is no way around that in its C interface. So what is asked for by libdnnl, or by the C++
 * and OpenMP libraries that only it uses, is counted apart: as much must be given back as is taken. */
#include "config.h"

#include "step_run.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __GLIBC__
#define CAN_COUNT 0
#else
#define CAN_COUNT 1
#endif

/* Armed, the first requests are noted with who asked. */
static atomic_int  armed;
static atomic_long requests, comparisons, taken, returned; /* the last two: by libraries of oneDNN */
static void       *asked_by[16];
static const char *asked_for[16];

#if CAN_COUNT
struct range { uintptr_t from, to; };
static struct range libraries[8];
static int          n_libraries;

static int find_libraries(struct dl_phdr_info *info, size_t size, void *data)
{
    static const char *const names[] = { "/libdnnl.", "/libstdc++.", "/libgomp.", "/libomp.", "/libtbb." };

    (void)size, (void)data;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct range r = { UINTPTR_MAX, 0 };

        if (strstr(info->dlpi_name, names[i]) == NULL || n_libraries == 8)
            continue;
        for (int k = 0; k < info->dlpi_phnum; k++) {
            uintptr_t from = info->dlpi_addr + info->dlpi_phdr[k].p_vaddr, to = from + info->dlpi_phdr[k].p_memsz;

            if (info->dlpi_phdr[k].p_type == PT_LOAD) {
                r.from = from < r.from ? from : r.from;
                r.to   = to > r.to ? to : r.to;
            }
        }
        libraries[n_libraries++] = r;
    }
    return 0;
}

static void note(const char *what, void *caller)
{
    long n;

    if (!atomic_load_explicit(&armed, memory_order_relaxed))
        return;
    for (int i = 0; i < n_libraries; i++) {
        if ((uintptr_t)caller >= libraries[i].from && (uintptr_t)caller < libraries[i].to) {
            atomic_fetch_add(what[0] == 'f' ? &returned : &taken, 1);
            return;
        }
    }
    n = atomic_fetch_add(&requests, 1);
    if (n < 16) {
        asked_by[n]  = caller;
        asked_for[n] = what;
    }
}
#define NOTE(what) note(what, __builtin_return_address(0))

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void  __libc_free(void *p);
void *__libc_memalign(size_t align, size_t size);

void *malloc(size_t size)
{
    NOTE("malloc");
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    NOTE("calloc");
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t size)
{
    NOTE("realloc");
    return __libc_realloc(p, size);
}

void free(void *p)
{
    if (p != NULL)
        NOTE("free");
    __libc_free(p);
}

void *memalign(size_t align, size_t size)
{
    NOTE("memalign");
    return __libc_memalign(align, size);
}

void *aligned_alloc(size_t align, size_t size)
{
    NOTE("aligned_alloc");
    return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
    void *p;

    NOTE("posix_memalign");
    p = __libc_memalign(align, size);
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    long r;

    NOTE("mmap");
    r = syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    return r == -1 ? MAP_FAILED : (void *)r; /* syscall() has set errno */
}

/* Who looks a name up compares strings, if only to find out that a hash has not lied. */
static int compared(const char *a, const char *b, size_t n)
{
    if (atomic_load_explicit(&armed, memory_order_relaxed))
        atomic_fetch_add(&comparisons, 1);
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] || a[i] == '\0')
            return (unsigned char)a[i] - (unsigned char)b[i];
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return compared(a, b, SIZE_MAX);
}

int strncmp(const char *a, const char *b, size_t n)
{
    return compared(a, b, n);
}

int memcmp(const void *a, const void *b, size_t n)
{
    const unsigned char *x = a, *y = b;

    if (atomic_load_explicit(&armed, memory_order_relaxed))
        atomic_fetch_add(&comparisons, 1);
    for (size_t i = 0; i < n; i++)
        if (x[i] != y[i])
            return x[i] - y[i];
    return 0;
}
#endif

static const char hrnet[] =
    "model:\n  task: top_down\n  backbone: {name: hrnet, width: 4, stage1_planes: 8}\n"
    "  head: {name: heatmap, deconv: []}\n  loss: {name: joints_mse, use_target_weight: true}\n"
    "data: {dataset: synthetic, input_size: [32, 32], heatmap_size: [8, 8]}\n"
    "train: {batch_size: 1, optimizer: {name: adam, lr: 5.0e-4}}\nthreads: %d\n";

static const struct { const char *device, *precision; int threads, steps; } cases[] = {
    { "ref", "fp32", 1, 3 }, { "cpu", "fp32", 1, 100 }, { "cpu", "bf16", 1, 20 }, { "cpu", "fp16", 1, 100 }, { "cpu", "fp16", 2, 5 },
};

enum { PIXELS = 3 * 32 * 32, MAPS = 17 * 8 * 8, POINTS = 17 };

/* What the loader hands over. */
static float image[PIXELS], target[MAPS], weight[POINTS], heat[MAPS];

static stance_status one_step(struct step_run *r, const int input[3], struct stance_error *err)
{
    static const float *const data[3] = { image, target, weight };
    struct stance_step_result result;
    stance_status             status = STANCE_OK;

    for (int micro = 0; micro < 2 && status == STANCE_OK; micro++) {
        for (int i = 0; i < 3 && status == STANCE_OK; i++)
            status = stance_step_fill(r->step, STANCE_STEP_BATCH, input[i], STANCE_TYPE_F32, data[i], err);
        if (status == STANCE_OK)
            status = stance_step_micro(r->step, STANCE_STEP_BATCH, 0.5, err);
    }
    return status == STANCE_OK ? stance_step_apply(r->step, 5e-4, &result, err) : status;
}

START_TEST(a_step_asks_for_nothing)
{
    struct step_run     r;
    struct stance_error err = STANCE_ERROR_INIT;
    stance_status       status = STANCE_OK;
    const struct stance_ema ema = { 0.9, 10, STANCE_EMA_EXPONENTIAL };
    int                 input[3];
    char                text[1024], told[1600] = "";

    if (!CAN_COUNT) {
        SKIP("requests for memory in a step: cannot be counted under sanitizers");
        return;
    }
    if (!step_has_device(cases[_i].device, "requests for memory in a step"))
        return;
    snprintf(text, sizeof text, hrnet, cases[_i].threads);
    step_setup(&r, text, cases[_i].device, cases[_i].precision);
    r.options.accumulate     = true;
    r.options.eval_batch     = 1;
    r.options.average        = &ema;
    r.options.average_states = true;
    r.options.clip_value     = 1;
    step_make(&r);
    for (int i = 0; i < PIXELS; i++)
        image[i] = 2 * step_noise(0, (uint64_t)i);
    for (int i = 0; i < MAPS; i++)
        target[i] = 0.5F + 0.5F * step_noise(1, (uint64_t)i);
    for (int i = 0; i < POINTS; i++)
        weight[i] = 1;
    input[0] = stance_step_input(r.step, STANCE_STEP_BATCH, "image");
    input[1] = stance_step_input(r.step, STANCE_STEP_BATCH, "target");
    input[2] = stance_step_input(r.step, STANCE_STEP_BATCH, "target_weight");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(one_step(&r, input, &err), STANCE_OK);
#if CAN_COUNT
    dl_iterate_phdr(find_libraries, NULL);
#endif
    requests = comparisons = taken = returned = 0;
    armed    = 1;
    for (int i = 0; i < cases[_i].steps && status == STANCE_OK; i++)
        status = one_step(&r, input, &err);
    armed = 0;
    ck_assert_msg(status == STANCE_OK, "%s", err.text);
    for (long i = 0; i < requests && i < 16; i++) {
        Dl_info who = { 0 };

        dladdr(asked_by[i], &who);
        snprintf(told + strlen(told), sizeof told - strlen(told), " %s by %s in %s;", asked_for[i],
                 who.dli_sname != NULL ? who.dli_sname : "?", who.dli_fname != NULL ? who.dli_fname : "?");
    }
    ck_assert_msg(requests == 0, "%ld requests in %d steps:%s", (long)requests, cases[_i].steps, told);
    printf("%s, %s, %d threads: none by stance; oneDNN took and gave back %ld a step\n", cases[_i].device, cases[_i].precision,
           cases[_i].threads, taken / cases[_i].steps);
    ck_assert_int_eq(taken, returned);
    ck_assert_msg(comparisons == 0, "%ld comparisons of strings in %d steps", (long)comparisons, cases[_i].steps);
    /* The counters count: an output is found by its name. */
    armed = 1;
    ck_assert_int_eq(stance_step_read(r.step, STANCE_STEP_BATCH, "heatmap", STANCE_TYPE_F32, heat, &err), STANCE_OK);
    free(malloc(100));
    armed = 0;
    ck_assert(requests >= 2 && comparisons >= 1);
    step_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("no_alloc");
    TCase *tc    = tcase_create("all");

    tcase_set_timeout(tc, 180);
    tcase_add_loop_test(tc, a_step_asks_for_nothing, 0, sizeof cases / sizeof *cases);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
