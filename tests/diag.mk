# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_diagnose tests/test_plot tests/fuzz/fuzz_scalars
tests_test_diagnose_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_diagnose_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_diagnose_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_plot_LDFLAGS =
tests_fuzz_fuzz_scalars_LDFLAGS =
