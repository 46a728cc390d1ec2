# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_average
tests_test_average_LDFLAGS = $(RUNS_DLOPEN)
tests_test_average_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_average_LDADD = $(RUNS_LIBS)
tests_test_average_DEPENDENCIES = $(RUNS_NEED)
stance_tests += tests/test_rows_step
tests_test_rows_step_LDFLAGS = $(RUNS_DLOPEN)
tests_test_rows_step_LDADD = $(RUNS_LIBS)
tests_test_rows_step_DEPENDENCIES = $(RUNS_NEED)
