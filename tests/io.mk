# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_json
tests_test_json_LDFLAGS =
tests_test_json_LDADD = $(LDADD) $(JANSSON_LIBS)
stance_tests += tests/test_weights
tests_test_weights_LDFLAGS =
tests_test_weights_LDADD = $(LDADD) $(JANSSON_LIBS)
