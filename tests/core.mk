# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_scaling
tests_test_scaling_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_scaling_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_scaling_DEPENDENCIES = $(PLUGINS_NEED)
EXTRA_DIST += tests/bench/compare.sh tests/bench/torch_step.py
