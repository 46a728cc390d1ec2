# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += optimizer_signum.la
TESTS      += optimizer.yaml
EXTRA_DIST += optimizer.yaml
if HAVE_CHECK
check_PROGRAMS += test_optimizer_signum
endif
test_optimizer_signum_LDFLAGS =
test_optimizer_signum_LDADD = $(CHECK_LIBS)
