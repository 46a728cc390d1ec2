# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += stance
stance_SOURCES = core/cli/bench.c core/cli/check.c core/cli/cli.h core/cli/config_verb.c \
	core/cli/convert.c core/cli/environment.c core/cli/environment.h core/cli/eval.c core/cli/inspect.c \
	core/cli/job.c core/cli/job.h core/cli/json.c core/cli/json.h core/cli/list.c core/cli/main.c core/cli/new.c \
	core/cli/options.c core/cli/persons.c core/cli/predict.c core/cli/predict.h core/cli/run.c core/cli/run.h \
	core/cli/run_options.c core/cli/run_options.h \
	core/cli/sheet.c core/cli/sheet.h core/cli/test.c core/cli/trace.c core/cli/train.c
stance_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DSTANCE_EXAMPLE_DIR='"$(exampledir)"'
stance_LDADD = libstance.la $(LTDL_LIBS) $(JANSSON_LIBS)
# Recorded in a shared build; with --disable-shared the plugins become part of the program.
stance_LDFLAGS = $(plugin_LTLIBRARIES:%=-dlopen %)
stance_DEPENDENCIES = libstance.la $(plugin_LTLIBRARIES)
