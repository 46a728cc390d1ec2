# SPDX-License-Identifier: Apache-2.0
include plugins/devices/local.mk
include plugins/loggers/local.mk
include plugins/comms/local.mk
include plugins/datasets/local.mk
include plugins/optimizers/local.mk
plugin_LTLIBRARIES += plugins/schedules/schedule_cosine.la
plugin_LTLIBRARIES += plugins/schedules/schedule_poly.la
plugin_LTLIBRARIES += plugins/schedules/schedule_step.la
include plugins/tasks/local.mk
