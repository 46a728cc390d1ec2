# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += dataset_dots.la
TESTS      += dataset.yaml
EXTRA_DIST += dataset.yaml
