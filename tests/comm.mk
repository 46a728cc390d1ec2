# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_comm
tests_test_comm_LDFLAGS = $(RUNS_DLOPEN)
tests_test_comm_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_comm_LDADD = $(RUNS_LIBS)
tests_test_comm_DEPENDENCIES = $(RUNS_NEED)
# Not a Check program: it starts daemons.
TESTS += tests/slurm.sh
EXTRA_DIST += tests/slurm.sh tests/bench/weak_scaling.sh
