# SPDX-License-Identifier: Apache-2.0
include core/graph/ops/local.mk
