# SPDX-License-Identifier: Apache-2.0
lib_LTLIBRARIES += libstance.la
stanceincludedir = $(includedir)/stance
stanceinclude_HEADERS = core/stance/alloc.h core/stance/comm.h core/stance/common.h core/stance/dataset.h \
	core/stance/device.h core/stance/error.h core/stance/graph.h core/stance/log.h \
	core/stance/logger.h core/stance/ops.h core/stance/param.h core/stance/plugin.h \
	core/stance/pose.h core/stance/registry.h core/stance/schedule.h core/stance/task.h
EXTRA_DIST += core/libstance.map
libstance_la_SOURCES =
libstance_la_CPPFLAGS = $(AM_CPPFLAGS) -DSTANCE_PLUGIN_DIR='"$(plugindir)"' -DSTANCE_RECIPE_DIR='"$(recipedir)"' \
	$(YAML_CFLAGS) $(JANSSON_CFLAGS) $(JPEG_CFLAGS) $(LIBJPEG_CFLAGS) $(PNG_CFLAGS) $(ZIP_CFLAGS) $(CAIRO_CFLAGS)
# Not hidden: the version script says what the program, the plugins and the tests may see.
libstance_la_CFLAGS = $(STANCE_CFLAGS) $(PTHREAD_CFLAGS)
libstance_la_LIBADD = $(LTDL_LIBS) $(YAML_LIBS) $(JANSSON_LIBS) $(JPEG_LIBS) $(LIBJPEG_LIBS) $(PNG_LIBS) $(ZIP_LIBS) \
	$(CAIRO_LIBS) $(PTHREAD_LIBS)
libstance_la_LDFLAGS = -no-undefined -version-info $(STANCE_LT) \
	-Wl,--version-script=$(top_srcdir)/core/libstance.map
libstance_la_DEPENDENCIES = core/libstance.map

include core/base/local.mk
include core/config/local.mk
include core/registry/local.mk
include core/graph/local.mk
include core/compile/local.mk
include core/step/local.mk
include core/train/local.mk
include core/data/local.mk
include core/eval/local.mk
include core/io/local.mk
include core/plot/local.mk
include core/cli/local.mk
