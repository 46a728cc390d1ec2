# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_config tests/test_recipe tests/test_schedule tests/fuzz/fuzz_config
tests_test_config_SOURCES = tests/test_config.c tests/case_schema.c tests/case_schema.h
tests_test_config_LDFLAGS =
tests_test_recipe_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_recipe_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_recipe_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_schedule_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_schedule_LDADD = $(LDADD) $(JANSSON_LIBS) $(LTDL_LIBS)
tests_test_schedule_DEPENDENCIES = $(PLUGINS_NEED)
tests_fuzz_fuzz_config_LDFLAGS =
EXTRA_DIST += tests/open_plugin.h
