# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/fault.h tests/runner.h
TEST_LIBS = libstance.la $(CHECK_LIBS)
# LeakSanitizer stops with an error of its own now and then where a forked test has had OpenMP threads;
# the tests count what is given back themselves (tests/fault.h).
# One thread a test program: several run at once, and OpenMP threads that spin on the same cores slow
# each other down many times.
AM_TESTS_ENVIRONMENT = OMP_NUM_THREADS="$${OMP_NUM_THREADS:-1}"; export OMP_NUM_THREADS; \
	ASAN_OPTIONS="$${ASAN_OPTIONS:-detect_leaks=0}"; export ASAN_OPTIONS; \
	STANCE_SANITIZED=$(enable_sanitizers); export STANCE_SANITIZED; STANCE_SHARED_PLUGINS=$(enable_shared); export STANCE_SHARED_PLUGINS; \
	STANCE_PLUGIN_PATH=$(abs_builddir)/backbones:$(abs_builddir)/heads:$(abs_builddir)/losses:$(abs_builddir)/scalers:$(abs_builddir)/plugins/devices:$(abs_builddir)/plugins/ops:$(abs_builddir)/plugins/optimizers:$(abs_builddir)/plugins/schedules:$(abs_builddir)/plugins/datasets:$(abs_builddir)/plugins/tasks:$(abs_builddir)/plugins/loggers:$(abs_builddir)/plugins/comms:$(abs_builddir)/tests; export STANCE_PLUGIN_PATH; \
	STANCE_SHARED="$${STANCE_SHARED:-$(abs_top_srcdir)/../shared}"; export STANCE_SHARED; \
	STANCE_PROGRAM=$(abs_builddir)/stance; export STANCE_PROGRAM; \
	STANCE_SRCDIR=$(abs_top_srcdir); export STANCE_SRCDIR; \
	CC='$(CC)'; export CC; \
	STANCE_TEST_PLUGINS='$(plugin_LTLIBRARIES)'; export STANCE_TEST_PLUGINS;

# A test program is two lines: its name here, and NAME_LDFLAGS = to undo the flags of plugins. Its
# source is tests/NAME.c.
LDADD = $(TEST_LIBS)
# Of a test that opens plugins: in a --disable-shared build they are part of it. Its main() begins with
# LTDL_SET_PRELOADED_SYMBOLS().
PLUGINS_DLOPEN = $(plugin_LTLIBRARIES:%=-dlopen %)
PLUGINS_NEED = libstance.la $(plugin_LTLIBRARIES)
stance_tests = tests/test_base
tests_test_base_LDFLAGS =
if HAVE_CHECK
check_PROGRAMS += $(stance_tests)
TESTS += $(stance_tests)
endif
include tests/ops.mk
include tests/models.mk
include tests/reg.mk
include tests/io.mk
include tests/config.mk
include tests/data.mk
include tests/eval.mk
include tests/cpu.mk
include tests/infra.mk
include tests/core.mk
include tests/walk.mk
include tests/runs.mk
include tests/abi.mk
include tests/mp.mk
include tests/mem.mk
include tests/diag.mk
include tests/docs.mk
include tests/comm.mk
