# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/program.h tests/step_run.h tests/small_graph.h tests/step_models.h tests/kill_test.sh
# The plugins are part of these programs in a --disable-shared build.
RUNS_DLOPEN = $(PLUGINS_DLOPEN)
RUNS_LIBS = $(LDADD) $(JANSSON_LIBS) $(LTDL_LIBS)
RUNS_NEED = $(PLUGINS_NEED)
stance_tests += tests/test_golden
tests_test_golden_LDFLAGS = $(RUNS_DLOPEN)
tests_test_golden_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_golden_LDADD = $(RUNS_LIBS)
tests_test_golden_DEPENDENCIES = $(RUNS_NEED)
stance_tests += tests/test_compile
tests_test_compile_LDFLAGS = $(RUNS_DLOPEN)
tests_test_compile_LDADD = $(RUNS_LIBS)
tests_test_compile_DEPENDENCIES = $(RUNS_NEED)
stance_tests += tests/test_step
tests_test_step_LDFLAGS = $(RUNS_DLOPEN)
tests_test_step_LDADD = $(RUNS_LIBS)
tests_test_step_DEPENDENCIES = $(RUNS_NEED)
stance_tests += tests/test_train
tests_test_train_LDFLAGS =
tests_test_train_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DTEST_CC='"$(CC)"'
tests_test_train_LDADD = $(RUNS_LIBS)
# It replaces the allocator of the process, and needs its symbols seen by every library.
stance_tests += tests/test_no_alloc
tests_test_no_alloc_LDFLAGS = $(RUNS_DLOPEN) -export-dynamic
tests_test_no_alloc_CFLAGS = $(STANCE_CFLAGS) $(PTHREAD_CFLAGS) -fno-builtin
tests_test_no_alloc_LDADD = $(RUNS_LIBS)
tests_test_no_alloc_DEPENDENCIES = $(RUNS_NEED)
