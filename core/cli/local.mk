# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += stance
stance_SOURCES = core/cli/cli.h core/cli/environment.c core/cli/environment.h core/cli/inspect.c \
	core/cli/json.c core/cli/json.h core/cli/list.c core/cli/main.c core/cli/options.c \
	core/cli/run_options.c core/cli/run_options.h
stance_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
stance_LDADD = libstance.la $(LTDL_LIBS) $(JANSSON_LIBS)
# Recorded in a shared build; with --disable-shared the plugins become part of the program.
stance_LDFLAGS = $(plugin_LTLIBRARIES:%=-dlopen %)
stance_DEPENDENCIES = libstance.la $(plugin_LTLIBRARIES)
