# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += plugins/tasks/task_top_down.la
