/* SPDX-License-Identifier: Apache-2.0
 *
 * The cpu device: what its files share. Nothing here is seen outside the plugin.
 *
 * Layouts: 0 plain; 1 channels in blocks of `lanes` (oneDNN's nChw16c or nChw8c), the padding of the last
 * block always zero; 2 a mask, `lanes` bits for each pixel of a block; 3 the places of max_pool's maxima,
 * one byte an element in the order of layout 1; 16 and up the weight layouts that oneDNN asked for. */
#ifndef CPU_CPU_H
#define CPU_CPU_H

#include <stance/device.h>

#include "dnnl_compat.h"
#include "passes.h"

enum { CPU_PLAIN, CPU_BLOCKED, CPU_MASK, CPU_PLACES, CPU_WEIGHTS = 16 };

/** A weight layout. The place of an element is the sum of one number for each of its four indices, as in
 *  every blocked layout; so two layouts are the same when these tables are. */
struct cpu_layout {
    int64_t  dim[4];    /**< as the op sees them; the layout may have room for more */
    int64_t  padded[4]; /**< lengths of the tables */
    int64_t *at[4];
    int64_t  elements;  /**< with padding */
    bool     has[2];    /**< md[0] binary32, md[1] bfloat16 */
    cpu_md   md[2];
};

struct cpu_config { int winograd; };
enum { CPU_WINOGRAD_AUTO, CPU_WINOGRAD_OFF };

struct cpu {
    struct cpu_config        config;
    int                      threads;
    const struct cpu_passes *pass;
    int                      lanes;
    bool                     bf16; /**< oneDNN computes in bfloat16 here */
    dnnl_engine_t            engine;
    dnnl_stream_t            stream;
    dnnl_primitive_attr_t    attr;
    struct cpu_layout       *layouts;
    size_t                   n_layouts, room_layouts;
    char                     text[512];
};

struct cpu_op;
/** First member of what prepare makes. */
struct cpu_kernel { const struct cpu_op *op; };

/** One op of the device. */
struct cpu_op {
    const char *name;
    bool (*offer)(struct cpu *, const struct stance_request *, struct stance_offer *);
    /** NULL: launch needs nothing beside the call. */
    stance_status (*prepare)(struct cpu *, const struct stance_request *, struct cpu_kernel **,
                             struct stance_error *);
    stance_status (*launch)(struct cpu *, struct cpu_kernel *, const struct stance_call *);
    void (*dispose)(struct cpu_kernel *); /**< NULL: stance_free() */
};

/* NULL-ended. */
extern const struct cpu_op *const stance_cpu_conv_ops[], *const stance_cpu_norm_ops[],
    *const stance_cpu_norm_grad_ops[], *const stance_cpu_plane_ops[], *const stance_cpu_flat_ops[],
    *const stance_cpu_pack_ops[], *const stance_cpu_update_ops[];

/* ---- parallel.c ------------------------------------------------------------------------------- */

/** Calls unit(ctx, 0 .. n-1), each thread a contiguous run of them. */
void stance_cpu_parallel(const struct cpu *cpu, int64_t n, void (*unit)(void *ctx, int64_t i), void *ctx);
/** Sets the number of threads of OpenMP, and so of oneDNN, for the calling thread. @return the old one */
int  stance_cpu_threads(int threads);
/** Threads that OpenMP uses unless told otherwise: OMP_NUM_THREADS, or the CPUs allowed. */
int  stance_cpu_default_threads(void);
/** to[i] = from[i] over n values. */
void stance_cpu_convert(const struct cpu *cpu, enum cpu_kind to_kind, void *to, enum cpu_kind kind,
                        const void *from, int64_t n);

/* ---- tensor.c --------------------------------------------------------------------------------- */

/** Kind of a tensor's values; false: not one of floats that passes know. */
bool stance_cpu_kind(const struct stance_tensor *t, enum cpu_kind *kind);
/** Index into cpu_passes.typed of an activation; -1: none. */
int  stance_cpu_typed(const struct stance_tensor *t);
/** Whether @p t is a gradient that goes with activations of typed passes @p typed. */
bool stance_cpu_gradient(const struct stance_tensor *t, int typed);
/** Elements with the padding of the layout; 0 where the layout does not say. */
int64_t stance_cpu_length(const struct cpu *cpu, const struct stance_tensor *t);
/** Whether @p t is plain, of @p type and dense in that type; per-channel operands of normalisation are. */
bool stance_cpu_plain(const struct stance_tensor *t, enum stance_type type);
bool stance_cpu_same_shape(const struct stance_shape *a, const struct stance_shape *b);

static inline int64_t stance_cpu_round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/** How a blocked tensor is cut into units: image, block of channels, band of rows. */
struct cpu_grid { int64_t images, blocks, height, width, rows, bands; };
struct cpu_unit { int64_t image, block, row, rows; };

/** Bands of about 1024 pixels, their rows a multiple of 8 so that every upsampling factor fits. */
struct cpu_grid stance_cpu_grid(const struct cpu *cpu, const struct stance_tensor *t);

static inline int64_t stance_cpu_units(const struct cpu_grid *g)
{
    return g->images * g->blocks * g->bands;
}

static inline struct cpu_unit stance_cpu_unit(const struct cpu_grid *g, int64_t i)
{
    struct cpu_unit u = { i / g->bands / g->blocks, i / g->bands % g->blocks, i % g->bands * g->rows, 0 };

    u.rows = g->height - u.row < g->rows ? g->height - u.row : g->rows;
    return u;
}

/** Element at which @p row of a block starts, in a tensor 1/factor as high and wide as the grid's. */
static inline int64_t stance_cpu_start(const struct cpu_grid *g, const struct cpu_unit *u, int lanes, int factor)
{
    int64_t h = g->height / factor, w = g->width / factor;

    return (((u->image * g->blocks + u->block) * h + u->row / factor) * w) * lanes;
}

static inline void *stance_cpu_at(const void *p, enum cpu_kind k, int64_t element)
{
    return (char *)(uintptr_t)p + (size_t)element * cpu_kind_size(k);
}

/* ---- layout.c --------------------------------------------------------------------------------- */

/** The number of the layout that @p md (binary32 or bfloat16, blocked) is for weights of @p shape; 0 when
 *  memory is short or the descriptor is none that can be described. */
uint32_t stance_cpu_layout_add(struct cpu *cpu, const struct stance_shape *shape, cpu_md_ref md);
/** NULL for a number that was never given. */
const struct cpu_layout *stance_cpu_layout(const struct cpu *cpu, uint32_t id);
void stance_cpu_layouts_free(struct cpu *cpu);

/* ---- reorder.c -------------------------------------------------------------------------------- */

/** Whether stance_cpu_reorder() knows both forms. */
bool stance_cpu_can_reorder(const struct cpu *cpu, const struct stance_tensor *to,
                            const struct stance_tensor *from);
/** Fills *to from *from. */
stance_status stance_cpu_reorder(struct cpu *cpu, const struct stance_tensor *to,
                                 const struct stance_tensor *from, struct stance_error *err);

#endif
