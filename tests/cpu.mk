# SPDX-License-Identifier: Apache-2.0
if HAVE_DNNL
stance_tests += tests/test_cpu
endif
tests_test_cpu_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_cpu_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_cpu_DEPENDENCIES = $(PLUGINS_NEED)
