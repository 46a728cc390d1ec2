# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += plugins/devices/device_ref.la
if HAVE_DNNL
plugin_LTLIBRARIES += plugins/devices/device_cpu.la
endif
plugins_devices_device_cpu_la_SOURCES = plugins/devices/device_cpu.c \
	plugins/devices/cpu/conv.c \
	plugins/devices/cpu/cpu.h \
	plugins/devices/cpu/dnnl_compat.h \
	plugins/devices/cpu/flat.c \
	plugins/devices/cpu/half.h \
	plugins/devices/cpu/layout.c \
	plugins/devices/cpu/norm.c \
	plugins/devices/cpu/norm_grad.c \
	plugins/devices/cpu/pack.c \
	plugins/devices/cpu/parallel.c \
	plugins/devices/cpu/passes.h \
	plugins/devices/cpu/passes_avx2.c \
	plugins/devices/cpu/passes_avx512.c \
	plugins/devices/cpu/passes_base.c \
	plugins/devices/cpu/passes_flat.h \
	plugins/devices/cpu/passes_norm.h \
	plugins/devices/cpu/passes_pool.h \
	plugins/devices/cpu/passes_table.h \
	plugins/devices/cpu/plane.c \
	plugins/devices/cpu/reorder.c \
	plugins/devices/cpu/simd.h \
	plugins/devices/cpu/tensor.c \
	plugins/devices/cpu/update.c
# OpenMP stays inside this plugin: libgomp reads its settings when it is loaded, after the program has
# chosen them.
plugins_devices_device_cpu_la_CFLAGS = $(AM_CFLAGS) $(OPENMP_CFLAGS)
plugins_devices_device_cpu_la_LIBADD = $(DNNL_LIBS)
