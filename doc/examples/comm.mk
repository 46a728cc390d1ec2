# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += comm_twosome.la
TESTS      += comm.yaml
EXTRA_DIST += comm.yaml
