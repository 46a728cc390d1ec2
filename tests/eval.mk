# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_eval
tests_test_eval_LDFLAGS =
tests_test_eval_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS) $(JANSSON_CFLAGS)
tests_test_eval_LDADD = $(TEST_LIBS) $(YAML_LIBS) $(JANSSON_LIBS)
EXTRA_DIST += tests/golden.h
stance_tests += tests/test_decode
tests_test_decode_LDFLAGS =
tests_test_decode_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_decode_LDADD = $(TEST_LIBS) $(JANSSON_LIBS)
stance_tests += tests/test_results
tests_test_results_LDFLAGS =
tests_test_results_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CAIRO_CFLAGS)
tests_test_results_LDADD = $(TEST_LIBS) $(JANSSON_LIBS) $(CAIRO_LIBS)
stance_tests += tests/fuzz/fuzz_eval
tests_fuzz_fuzz_eval_LDFLAGS =
