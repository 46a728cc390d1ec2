# SPDX-License-Identifier: Apache-2.0
include plugins/loggers/local.mk
include plugins/datasets/local.mk
include plugins/tasks/local.mk
