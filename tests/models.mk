# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_models tests/test_optimizers tests/test_synthetic
tests_test_models_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_models_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_models_LDADD = $(LDADD) $(JANSSON_LIBS) $(LTDL_LIBS)
tests_test_models_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_optimizers_LDFLAGS =
tests_test_optimizers_SOURCES = tests/test_optimizers.c plugins/optimizers/optimizer_adam.c \
	plugins/optimizers/optimizer_adamw.c plugins/optimizers/optimizer_sgd.c
# Plugins compiled into a test need object files of their own beside libtool's.
tests_test_optimizers_CFLAGS = $(AM_CFLAGS)
tests_test_synthetic_LDFLAGS =
tests_test_synthetic_SOURCES = tests/test_synthetic.c plugins/datasets/dataset_synthetic.c $(synthetic_files)
tests_test_synthetic_CFLAGS = $(AM_CFLAGS)
