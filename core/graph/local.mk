# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/graph/backward.c core/graph/builder.c core/graph/graph.h
include core/graph/ops/local.mk
