# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += stance
stance_SOURCES = core/cli/bench.c core/cli/check.c core/cli/cli.h core/cli/config_verb.c \
	core/cli/convert.c core/cli/environment.c core/cli/environment.h core/cli/eval.c core/cli/inspect.c \
	core/cli/job.c core/cli/job.h core/cli/json.c core/cli/json.h core/cli/list.c core/cli/main.c core/cli/new.c \
	core/cli/options.c core/cli/persons.c core/cli/plot.c core/cli/predict.c core/cli/predict.h core/cli/run.c core/cli/run.h \
	core/cli/run_options.c core/cli/run_options.h \
	core/cli/sheet.c core/cli/sheet.h core/cli/test.c core/cli/trace.c core/cli/train.c
stance_SOURCES += core/cli/complete.c core/cli/complete.h core/cli/completion.c core/cli/describe.c \
	core/cli/describe.h core/cli/help.c core/cli/list.h core/cli/mdoc.c core/cli/mdoc.h core/cli/params.c \
	core/cli/params.h core/cli/recipe_sheet.c core/cli/recipe_sheet.h core/cli/terminal.c core/cli/terminal.h \
	core/cli/verbs.c
nodist_stance_SOURCES = core/cli/completion_scripts.h
stance_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DSTANCE_EXAMPLE_DIR='"$(exampledir)"'
stance_LDADD = libstance.la $(LTDL_LIBS) $(JANSSON_LIBS)
# Recorded in a shared build; with --disable-shared the plugins become part of the program.
stance_LDFLAGS = $(plugin_LTLIBRARIES:%=-dlopen %)
stance_DEPENDENCIES = libstance.la $(plugin_LTLIBRARIES)

# The scripts that `stance completion` prints are the files that are installed.
core/cli/completion_scripts.h: doc/completion/bash/stance doc/completion/zsh/_stance doc/completion/fish/stance.fish
	$(AM_V_GEN)$(MKDIR_P) core/cli; for f in $^; do \
		case $$f in */stance) name=bash ;; */_stance) name=zsh ;; *) name=fish ;; esac; \
		echo "static const char script_$$name[] ="; \
		sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$$/\\n"/' $$f; echo ';'; \
	done > $@.tmp && mv $@.tmp $@
core/cli/stance-completion.$(OBJEXT): core/cli/completion_scripts.h
CLEANFILES += core/cli/completion_scripts.h
