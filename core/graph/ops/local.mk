# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/graph/ops/accumulate.c core/graph/ops/add.c \
	core/graph/ops/avg_pool.c core/graph/ops/batch_norm.c core/graph/ops/batch_norm_build.c \
	core/graph/ops/cast.c core/graph/ops/clip_value.c core/graph/ops/commit.c \
	core/graph/ops/concat.c core/graph/ops/conv.c core/graph/ops/ema.c \
	core/graph/ops/conv.h core/graph/ops/conv2d.c core/graph/ops/conv_transpose2d.c \
	core/graph/ops/grad_check.c core/graph/ops/increment.c core/graph/ops/loss_seed.c \
	core/graph/ops/matmul.c core/graph/ops/max_pool.c core/graph/ops/mse.c core/graph/ops/mul.c \
	core/graph/ops/op.c core/graph/ops/op.h core/graph/ops/pack.c core/graph/ops/pool.c \
	core/graph/ops/pool.h core/graph/ops/reduce_sum.c core/graph/ops/relu.c \
	core/graph/ops/reshape.c core/graph/ops/scale.c core/graph/ops/table.c \
	core/graph/ops/table.h core/graph/ops/transpose.c core/graph/ops/upsample.c
