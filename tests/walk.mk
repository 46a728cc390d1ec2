# SPDX-License-Identifier: Apache-2.0
# The walker of cases. `make check-cases CASES=DIR` runs it on any folder of them; `make check` on the
# shared ones.
check_PROGRAMS += tests/walk_cases
TESTS += tests/walk_cases
tests_walk_cases_SOURCES = tests/cases/walk.c tests/cases/walk.h tests/cases/expect.c tests/cases/tiny.c tests/cases/tiny.h \
	tests/cases/do_data.c tests/cases/do_settings.c tests/cases/do_scale.c tests/cases/do_ops.c tests/cases/do_files.c \
	tests/cases/do_plugins.c tests/cases/do_pose.c tests/cases/do_trace.c tests/cases/do_train.c tests/case_schema.c tests/case_schema.h
tests_walk_cases_CPPFLAGS = $(AM_CPPFLAGS) -DWALK_CC='"$(CC)"'
# The plugins are part of it in a --disable-shared build.
tests_walk_cases_LDFLAGS = $(PLUGINS_DLOPEN)
tests_walk_cases_LDADD = libstance.la $(LTDL_LIBS)
tests_walk_cases_DEPENDENCIES = $(PLUGINS_NEED)

check-cases: all tests/walk_cases
	@test -n "$(CASES)" || { echo "usage: make check-cases CASES=DIR" >&2; exit 2; }
	@$(AM_TESTS_ENVIRONMENT) tests/walk_cases $(CASES)
.PHONY: check-cases

stance_tests += tests/test_window tests/test_launch tests/test_cases
tests_test_window_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_window_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_window_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_launch_LDFLAGS =
tests_test_cases_LDFLAGS =
