# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/ops.h
stance_tests += tests/test_ops tests/test_gradients
tests_test_ops_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_ops_LDADD = $(LDADD) $(JANSSON_LIBS)
tests_test_ops_LDFLAGS =
tests_test_gradients_LDFLAGS =
