# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_config tests/fuzz/fuzz_config
if SHARED_PLUGINS
# These open plugin files.
stance_tests += tests/test_recipe tests/test_schedule
endif
tests_test_config_SOURCES = tests/test_config.c tests/case_schema.c tests/case_schema.h
tests_test_config_LDFLAGS =
tests_test_recipe_LDFLAGS =
tests_test_schedule_LDFLAGS =
tests_test_schedule_LDADD = $(LDADD) $(JANSSON_LIBS)
tests_fuzz_fuzz_config_LDFLAGS =
EXTRA_DIST += tests/open_plugin.h
