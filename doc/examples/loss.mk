# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += loss_absmaps.la
TESTS      += loss.yaml
EXTRA_DIST += loss.yaml
if HAVE_CHECK
check_PROGRAMS += test_loss_absmaps
endif
test_loss_absmaps_LDFLAGS =
test_loss_absmaps_LDADD = $(CHECK_LIBS)
