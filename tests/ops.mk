# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += tests/graph_run.h tests/ops.h
stance_tests += tests/test_ops tests/test_gradients tests/test_nets
tests_test_ops_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_ops_LDADD = $(LDADD) $(JANSSON_LIBS)
tests_test_ops_LDFLAGS =
tests_test_gradients_LDFLAGS =
tests_test_nets_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_nets_CFLAGS = $(AM_CFLAGS)
tests_test_nets_LDADD = $(LDADD) $(JANSSON_LIBS)
tests_test_nets_LDFLAGS =
tests_test_nets_SOURCES = tests/test_nets.c backbones/backbone_hrnet.c backbones/backbone_resnet.c \
	heads/head_heatmap.c losses/loss_joints_mse.c
