# SPDX-License-Identifier: Apache-2.0
# A project of its own, installed as it is; `stance new` copies from there.
exampledir = $(datadir)/stance/examples
dist_example_SCRIPTS = doc/examples/train
dist_example_DATA = doc/examples/Makefile.am doc/examples/README.md doc/examples/README.project \
	doc/examples/configure.ac doc/examples/test.h doc/examples/tiny.yaml \
	doc/examples/backbone.mk doc/examples/backbone.yaml doc/examples/backbone_plainnet.c doc/examples/test_backbone_plainnet.c \
	doc/examples/comm.mk doc/examples/comm.yaml doc/examples/comm_twosome.c \
	doc/examples/dataset.mk doc/examples/dataset.yaml doc/examples/dataset_dots.c \
	doc/examples/device.mk doc/examples/device.yaml doc/examples/device_hostram.c \
	doc/examples/head.mk doc/examples/head.yaml doc/examples/head_pointmap.c doc/examples/test_head_pointmap.c \
	doc/examples/logger.mk doc/examples/logger.yaml doc/examples/logger_csvlog.c \
	doc/examples/loss.mk doc/examples/loss.yaml doc/examples/loss_absmaps.c doc/examples/test_loss_absmaps.c \
	doc/examples/op.mk doc/examples/op.yaml doc/examples/op_softclip.c doc/examples/backbone_softclip.c \
	doc/examples/test_op_softclip.c \
	doc/examples/optimizer.mk doc/examples/optimizer.yaml doc/examples/optimizer_signum.c \
	doc/examples/test_optimizer_signum.c \
	doc/examples/scaler.mk doc/examples/scaler.yaml doc/examples/scaler_patient.c doc/examples/test_scaler_patient.c \
	doc/examples/schedule.mk doc/examples/schedule.yaml doc/examples/schedule_triangle.c \
	doc/examples/test_schedule_triangle.c \
	doc/examples/task.mk doc/examples/task.yaml doc/examples/task_wholeframe.c

# STANCE_PLUGIN() for the configure.ac of plugins.
aclocaldir = $(datadir)/aclocal
dist_aclocal_DATA = aclocal/stance-plugin.m4
