# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += op_softclip.la
plugin_LTLIBRARIES += backbone_softclip.la
TESTS      += op.yaml
EXTRA_DIST += op.yaml
if HAVE_CHECK
check_PROGRAMS += test_op_softclip
endif
test_op_softclip_LDFLAGS =
test_op_softclip_LDADD = $(CHECK_LIBS)
