/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Building a graph: what backbones, heads, losses and gradient rules call.
 *
 *  A value is a number, not a pointer: passes may move and clone nodes under a plugin's feet. 0 is
 *  "no value"; every call passes it through. Errors are sticky: the first failure is kept with the
 *  scope it happened in, later calls do nothing, so a builder function need not look. */
#ifndef STANCE_GRAPH_H
#define STANCE_GRAPH_H

#include <stance/error.h>

STANCE_BEGIN_DECLS

/** @addtogroup graph Graphs
 *  @{ */

/** A graph in the making; the core's. */
struct stance_builder;
struct stance_param;

/** ANY: the low type of the run's precision policy. F32 in a graph means the *wide* type of the
 *  policy: binary32, or binary64 under the policy fp64. */
enum stance_type {
    STANCE_TYPE_ANY, STANCE_TYPE_F32, STANCE_TYPE_F16, STANCE_TYPE_BF16, STANCE_TYPE_F64,
    STANCE_TYPE_I32, STANCE_TYPE_I64, STANCE_TYPE_U8, STANCE_TYPE_COUNT
};

/** How an op meets reduced precision. LOW: operands are cast to the low type (convolution, matrix
 *  product; sums are binary32 inside). WIDE: binary32 inside, type of the first operand outside
 *  (normalisation, losses, reductions). FOLLOW: type of the first operand. */
enum stance_class { STANCE_CLASS_LOW, STANCE_CLASS_WIDE, STANCE_CLASS_FOLLOW };

/** PARAM: trained, a segment of the flat masters. FROZEN: kept as loaded. STATE: changed by
 *  stance_assign() when a step is committed (running statistics, counters). */
enum stance_role { STANCE_ROLE_PARAM, STANCE_ROLE_FROZEN, STANCE_ROLE_STATE };

/** A value of the graph. */
struct stance_value {
    uint32_t id; /**< 0: no value */
};

#define STANCE_RANK_MAX 6 /**< dimensions of a value at most */
/** Logical order N, C, H, W whatever the memory order is. rank 0: a scalar; -1: an absent operand. */
struct stance_shape {
    int32_t rank;                 /**< dimensions; 0: a scalar, -1: absent */
    int64_t dim[STANCE_RANK_MAX]; /**< [rank] elements along each; 0 behind them */
};

/** How a weight starts. */
enum stance_init_kind { STANCE_INIT_CONSTANT, STANCE_INIT_NORMAL, STANCE_INIT_UNIFORM };
/** constant a | normal of mean a and standard deviation b | uniform in [a, b). */
struct stance_init {
    enum stance_init_kind kind; /**< the distribution */
    float a;                    /**< value, mean or lower end */
    float b;                    /**< unused, standard deviation or upper end */
};

/** An operand that the loader or the core fills before each step. The same name twice is the same
 *  value (shape and type must agree). @param name  "image", "target", ...; copied. */
STANCE_API struct stance_value stance_input(struct stance_builder *b, const char *name,
                                            enum stance_type type, struct stance_shape shape);

/** A tensor that outlives the step; its full name is the open scopes and @p leaf joined by dots,
 *  and is its name in checkpoints. The same full name twice is the same tensor (shared weights).
 *  @param type  F32, or I64 for counters (role STATE). */
STANCE_API struct stance_value stance_weight(struct stance_builder *b, const char *leaf,
                                             enum stance_role role, enum stance_type type,
                                             struct stance_shape shape, struct stance_init init);

/** Appends a node. @param op  name of a built-in op or of an op plugin.
 *  @param attr  the op's attribute struct, copied; shorter than the op's is zero-filled.
 *  @param in  operands; id 0 is an absent optional one.
 *  @param[out] out  n_out new values (id 0 after a failure). */
STANCE_API void stance_node(struct stance_builder *b, const char *op, const void *attr,
                            size_t attr_size, const struct stance_value *in, int n_in,
                            struct stance_value *out, int n_out);

/** At the end of a micro-batch @p state becomes @p value; undone if the window is skipped. */
STANCE_API void stance_assign(struct stance_builder *b, struct stance_value state,
                              struct stance_value value);

/** Names a result: of a head ("heatmap"), of a loss ("loss"). Kept until the step's end. */
STANCE_API void stance_output(struct stance_builder *b, const char *name, struct stance_value v);

/** The same value, through which no gradient flows. */
STANCE_API struct stance_value stance_stop_gradient(struct stance_builder *b, struct stance_value v);

/** rank -1 for "no value" and after a failure. */
STANCE_API struct stance_shape stance_shape_of(const struct stance_builder *b, struct stance_value v);
/** Type of a value; ANY for "no value" and after a failure. */
STANCE_API enum stance_type    stance_type_of(const struct stance_builder *b, struct stance_value v);

/** Opens a scope: part of the names of weights and of error messages. May contain dots. */
STANCE_API void stance_enter(struct stance_builder *b, const char *fmt, ...) STANCE_PRINTF(2, 3);
/** Closes the scope that was opened last. */
STANCE_API void stance_leave(struct stance_builder *b);

/** Whether the graph trains (batch statistics, gradients) or evaluates. */
STANCE_API bool stance_training(const struct stance_builder *b);
/** Whether a gradient with respect to @p v is needed: gradient rules build nothing for others. */
STANCE_API bool stance_wants_gradient(const struct stance_builder *b, struct stance_value v);
/** Whether something has failed already: loops may stop early, need not. */
STANCE_API bool stance_failed(const struct stance_builder *b);
/** Fails the build with a reason of the caller's; the scope is put in front. */
STANCE_API void stance_refuse(struct stance_builder *b, stance_status status, const char *fmt, ...)
    STANCE_PRINTF(3, 4);

/* ---- ops: built-in, fused and third-party ops are all this struct ---------------------------- */

/** A tensor as a kernel sees it. Layout 0 is plain: dense, the last dimension fastest. Other
 *  layouts are the device's own and only its kernels meet them: the kernels of an op plugin, its
 *  reference included, get plain memory whose bytes are of type `stored`.
 *  An element of an array: it never grows. */
struct stance_tensor {
    void               *data;   /**< the first element; NULL where it is absent */
    enum stance_type    type;   /**< of the values: what they have been rounded to */
    enum stance_type    stored; /**< of the bytes; wider than type where a device keeps rounded values wide */
    uint32_t            layout; /**< 0: plain */
    struct stance_shape shape;  /**< rank -1: absent */
    size_t              bytes;  /**< of memory behind data */
};

/** One launch. Everything in it is set when the program is made. */
struct stance_call {
    size_t                      size; /**< sizeof(struct stance_call) */
    const void                 *attr; /**< the op's attribute struct; NULL if it has none */
    const struct stance_tensor *in;   /**< [n_in] operands */
    const struct stance_tensor *out;  /**< [n_out] results */
    int32_t                     n_in; /**< operands, absent ones included */
    int32_t                     n_out; /**< results */
    void                       *workspace; /**< as many bytes as were asked for; not kept between launches */
    void                       *queue; /**< that the device launches on (CUDA: a cudaStream_t); NULL: call and wait */
};

/** Runs one launch. Called by one thread at a time for one call; may use threads of its own.
 *  @return STANCE_OK; any other status ends the run */
typedef stance_status stance_kernel_fn(const struct stance_call *);

/** A kernel of an op for one device, over plain layouts in that device's memory (CUDA: run() launches on
 *  call->queue and does not wait). It is used where the device has none of its own for the op.
 *  An element of an array: it never grows. */
struct stance_kernel {
    const char       *device; /**< name of the device plugin: "cpu", "cuda" */
    stance_kernel_fn *run;    /**< the kernel */
    size_t (*workspace)(const struct stance_call *); /**< bytes; NULL: none */
    /** Bit mask (1 << STANCE_TYPE_x) of the types that its first operand of numbers may have. With
     *  binary16 or bfloat16 among them, a run in that precision gives it operands and results as they
     *  are stored; otherwise they are converted to binary32 (under fp64: binary64), and back. */
    uint32_t          types;
};

/** Flags of an op. 1 and 2 are kept for ops that need the host, or random numbers. */
enum stance_op_flag {
    STANCE_OP_IN_PLACE     = 4, /**< output 0 may lie over input 0 where that one ends */
    STANCE_OP_NO_RECOMPUTE = 8, /**< its results are kept for the backward pass, never computed again */
    STANCE_OP_STATE        = 16 /**< results assigned to a state operand may lie over that operand */
};

/** An operator: rule of shapes, rule of gradients, kernels. */
struct stance_op_ops {
    size_t size;      /**< sizeof(struct stance_op_ops) */
    size_t attr_size; /**< sizeof its attribute struct; 0: none */
    const struct stance_param *attrs; /**< over the attribute struct: printing, hashing, checks; may be NULL */
    enum stance_class type_class; /**< how it meets reduced precision */
    uint32_t flags;               /**< STANCE_OP_... */

    /** Shapes of the outputs, and their types where the class does not say (F32, I64; preset to ANY).
     *  in[i].rank is -1 for an absent operand. */
    stance_status (*shape)(const void *attr, const struct stance_shape *in, int n_in,
                           struct stance_shape *out, enum stance_type *out_type, int n_out,
                           struct stance_error *err);

    /** Builds the nodes of the backward pass: given d_out (id 0: nothing flows) sets d_in (preset to
     *  0). What it mentions is kept alive until then, nothing else is. NULL: no gradient. */
    void (*gradient)(struct stance_builder *b, const void *attr, const struct stance_value *in,
                     int n_in, const struct stance_value *out, const struct stance_value *d_out,
                     int n_out, struct stance_value *d_in);

    /** Plain C over plain layouts, binary32 and binary64 (`stored` of each tensor says which): the judge of
     *  every device's kernel, and what runs on a device without one whose memory is the host's.
     *  Must give the same bytes for the same operands. NULL only for ops of the core.
     *  @return STANCE_OK; any other status ends the run. */
    stance_kernel_fn *reference;
    size_t (*workspace)(const struct stance_call *); /**< bytes that reference wants; NULL: none */

    const struct stance_kernel *kernels;   /**< [n_kernels] for devices that it knows; may be NULL */
    int32_t                     n_kernels; /**< how many */

    /** The op "<name>_grad", for the gradient rule of this one to build nodes of, so that both are one
     *  plugin. It has no gradient of its own. NULL: the rule builds nodes of other ops. */
    const struct stance_op_ops *backward;
};

/** Elements of a shape: 1 for a scalar, 0 for an absent operand. */
static inline int64_t stance_elements(const struct stance_shape *s)
{
    int64_t n = s->rank < 0 ? 0 : 1;

    for (int i = 0; i < s->rank; i++)
        n *= s->dim[i];
    return n;
}

/** Bytes of one element; 0 for ANY. */
static inline size_t stance_type_size(enum stance_type t)
{
    return t == STANCE_TYPE_F64 || t == STANCE_TYPE_I64   ? 8
           : t == STANCE_TYPE_F32 || t == STANCE_TYPE_I32 ? 4
           : t == STANCE_TYPE_F16 || t == STANCE_TYPE_BF16 ? 2
           : t == STANCE_TYPE_U8                           ? 1
                                                           : 0;
}

/** "f32", "bf16", ...; "?" out of range. */
STANCE_API const char *stance_type_word(enum stance_type t);

/** @} */

STANCE_END_DECLS
#endif
