# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/arena.h tests/snapshot.h
stance_tests += tests/test_recompute
tests_test_recompute_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_recompute_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_recompute_DEPENDENCIES = $(PLUGINS_NEED)
