# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += task_wholeframe.la
TESTS      += task.yaml
EXTRA_DIST += task.yaml
