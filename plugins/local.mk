# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += plugins/schedules/schedule_cosine.la
plugin_LTLIBRARIES += plugins/schedules/schedule_poly.la
plugin_LTLIBRARIES += plugins/schedules/schedule_step.la
