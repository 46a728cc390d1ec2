# SPDX-License-Identifier: Apache-2.0
# Documentation, completion, and what a start opens: scripts that run the program.
DOC_TESTS = tests/docs/pages tests/docs/completion tests/docs/headers tests/docs/start
TESTS += $(DOC_TESTS)
EXTRA_DIST += $(DOC_TESTS)
stance_tests += tests/test_manual
tests_test_manual_LDFLAGS =
