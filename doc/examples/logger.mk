# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += logger_csvlog.la
TESTS      += logger.yaml
EXTRA_DIST += logger.yaml
