# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += backbone_plainnet.la
TESTS      += backbone.yaml
EXTRA_DIST += backbone.yaml
if HAVE_CHECK
check_PROGRAMS += test_backbone_plainnet
endif
test_backbone_plainnet_LDFLAGS =
test_backbone_plainnet_LDADD = $(CHECK_LIBS)
