# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/compile/average.c core/compile/compile.h core/compile/device.c core/compile/device.h \
	core/compile/fuse.c core/compile/kernel.c core/compile/kernel.h core/compile/order.c \
	core/compile/place.c core/compile/plan.c core/compile/plan.h core/compile/precision.c \
	core/compile/program.c core/compile/program.h core/compile/recompute.c \
	core/compile/segments.c core/compile/segments.h core/compile/store.c core/compile/store.h core/compile/sync.c core/compile/sync.h \
	core/compile/watch.c core/compile/watch.h
