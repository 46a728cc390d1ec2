# SPDX-License-Identifier: Apache-2.0
include plugins/devices/local.mk
include plugins/loggers/local.mk
include plugins/datasets/local.mk
include plugins/optimizers/local.mk
