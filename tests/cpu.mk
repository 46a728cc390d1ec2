# SPDX-License-Identifier: Apache-2.0
if HAVE_DNNL
if SHARED_PLUGINS
# Opens the plugin's file.
stance_tests += tests/test_cpu
endif
endif
tests_test_cpu_LDFLAGS =
