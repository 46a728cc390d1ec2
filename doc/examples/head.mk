# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += head_pointmap.la
TESTS      += head.yaml
EXTRA_DIST += head.yaml
if HAVE_CHECK
check_PROGRAMS += test_head_pointmap
endif
test_head_pointmap_LDFLAGS =
test_head_pointmap_LDADD = $(CHECK_LIBS)
