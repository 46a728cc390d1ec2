/* SPDX-License-Identifier: Apache-2.0
 *
 * oneDNN 2.6 and 3.x behind one set of names: memory descriptors, which became opaque, and the making of
 * convolutions, which lost its operation descriptors. Needs 2.6 or newer. */
#ifndef CPU_DNNL_COMPAT_H
#define CPU_DNNL_COMPAT_H

#include <dnnl.h>
#include <stdbool.h>
#include <string.h>

#if DNNL_VERSION_MAJOR < 2 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR < 6)
#error oneDNN 2.6 or newer is needed
#endif

/** What a blocked descriptor says; strides are of the outer indices. */
struct cpu_blocking {
    int        ndims, n_inner;
    dnnl_dim_t dim[12], padded[12], stride[12], inner[12], inner_dim[12];
    bool       f32, bf16;
};

/** Everything that makes a convolution. bias may be NULL. */
struct cpu_conv_desc {
    dnnl_alg_kind_t algorithm;
    dnnl_dims_t     stride, dilation, pad_low, pad_high; /**< dilation 0: none */
};

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t            cpu_md; /* owned */
typedef const_dnnl_memory_desc_t      cpu_md_ref;
typedef const_dnnl_primitive_desc_t   cpu_pd_ref;

static inline cpu_md_ref cpu_md_of(const cpu_md *md)
{
    return *md;
}

static inline bool cpu_md_make(cpu_md *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(out, ndims, dims, type, tag) == dnnl_success;
}

static inline bool cpu_md_copy(cpu_md *out, cpu_md_ref md)
{
    return dnnl_memory_desc_clone(out, md) == dnnl_success;
}

static inline void cpu_md_drop(cpu_md *md)
{
    dnnl_memory_desc_destroy(*md);
}

static inline bool cpu_md_blocking(cpu_md_ref md, struct cpu_blocking *b)
{
    dnnl_format_kind_t kind;
    dnnl_data_type_t   type;
    dnnl_dims_t       *v;
    dnnl_dim_t         start;

#define CPU_MD_COPY(what, field)                                                                \
    if (dnnl_memory_desc_query(md, dnnl_query_##what, &v) != dnnl_success)                      \
        return false;                                                                           \
    for (int i = 0; i < 12; i++)                                                                \
        b->field[i] = (*v)[i]
    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) != dnnl_success || kind != dnnl_blocked
        || dnnl_memory_desc_query(md, dnnl_query_submemory_offset_s64, &start) != dnnl_success || start != 0
        || dnnl_memory_desc_query(md, dnnl_query_data_type, &type) != dnnl_success
        || dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &b->ndims) != dnnl_success
        || dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &b->n_inner) != dnnl_success)
        return false;
    CPU_MD_COPY(dims, dim);
    CPU_MD_COPY(padded_dims, padded);
    CPU_MD_COPY(strides, stride);
    if (b->n_inner > 0) {
        CPU_MD_COPY(inner_blks, inner);
        CPU_MD_COPY(inner_idxs, inner_dim);
    }
#undef CPU_MD_COPY
    b->f32  = type == dnnl_f32;
    b->bf16 = type == dnnl_bf16;
    return true;
}

static inline dnnl_status_t cpu_conv_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                             const struct cpu_conv_desc *c, cpu_md_ref src, cpu_md_ref weights,
                                             cpu_md_ref bias, cpu_md_ref dst, dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_forward_primitive_desc_create(out, engine, dnnl_forward_training, c->algorithm, src,
                                                          weights, bias, dst, c->stride, c->dilation, c->pad_low,
                                                          c->pad_high, attr);
}

static inline dnnl_status_t cpu_conv_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                          const struct cpu_conv_desc *c, cpu_md_ref src, cpu_md_ref weights,
                                          cpu_md_ref dst, dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_backward_data_primitive_desc_create(out, engine, c->algorithm, src, weights, dst,
                                                                c->stride, c->dilation, c->pad_low, c->pad_high,
                                                                hint, attr);
}

static inline dnnl_status_t cpu_conv_weights(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                             const struct cpu_conv_desc *c, cpu_md_ref src, cpu_md_ref weights,
                                             cpu_md_ref dst, dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(out, engine, c->algorithm, src, weights, NULL,
                                                                   dst, c->stride, c->dilation, c->pad_low,
                                                                   c->pad_high, hint, attr);
}

#else

typedef dnnl_memory_desc_t          cpu_md;
typedef const dnnl_memory_desc_t   *cpu_md_ref;
typedef const_dnnl_primitive_desc_t cpu_pd_ref;

static inline cpu_md_ref cpu_md_of(const cpu_md *md)
{
    return md;
}

static inline bool cpu_md_make(cpu_md *out, int ndims, const dnnl_dims_t dims, dnnl_data_type_t type,
                               dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(out, ndims, dims, type, tag) == dnnl_success;
}

static inline bool cpu_md_copy(cpu_md *out, cpu_md_ref md)
{
    *out = *md;
    return true;
}

static inline void cpu_md_drop(cpu_md *md)
{
    (void)md;
}

static inline bool cpu_md_blocking(cpu_md_ref md, struct cpu_blocking *b)
{
    if (md->format_kind != dnnl_blocked || md->offset0 != 0 || md->extra.flags != 0)
        return false;
    b->ndims   = md->ndims;
    b->n_inner = md->format_desc.blocking.inner_nblks;
    for (int i = 0; i < DNNL_MAX_NDIMS; i++) {
        b->dim[i]       = md->dims[i];
        b->padded[i]    = md->padded_dims[i];
        b->stride[i]    = md->format_desc.blocking.strides[i];
        b->inner[i]     = md->format_desc.blocking.inner_blks[i];
        b->inner_dim[i] = md->format_desc.blocking.inner_idxs[i];
    }
    b->f32  = md->data_type == dnnl_f32;
    b->bf16 = md->data_type == dnnl_bf16;
    return true;
}

static inline dnnl_status_t cpu_conv_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                             const struct cpu_conv_desc *c, cpu_md_ref src, cpu_md_ref weights,
                                             cpu_md_ref bias, cpu_md_ref dst, dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, c->algorithm, src,
                                                                 weights, bias, dst, c->stride, c->dilation,
                                                                 c->pad_low, c->pad_high);

    return s != dnnl_success ? s : dnnl_primitive_desc_create(out, &d, attr, engine, NULL);
}

static inline dnnl_status_t cpu_conv_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                          const struct cpu_conv_desc *c, cpu_md_ref src, cpu_md_ref weights,
                                          cpu_md_ref dst, dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_backward_data_desc_init(&d, c->algorithm, src, weights, dst,
                                                                       c->stride, c->dilation, c->pad_low,
                                                                       c->pad_high);

    return s != dnnl_success ? s : dnnl_primitive_desc_create(out, &d, attr, engine, hint);
}

static inline dnnl_status_t cpu_conv_weights(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                             const struct cpu_conv_desc *c, cpu_md_ref src, cpu_md_ref weights,
                                             cpu_md_ref dst, dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    dnnl_status_t s = dnnl_dilated_convolution_backward_weights_desc_init(&d, c->algorithm, src, weights, NULL, dst,
                                                                          c->stride, c->dilation, c->pad_low,
                                                                          c->pad_high);

    return s != dnnl_success ? s : dnnl_primitive_desc_create(out, &d, attr, engine, hint);
}

#endif

static inline cpu_md_ref cpu_pd_md(cpu_pd_ref pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

#endif
