# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_registry tests/test_plugins tests/test_scaler tests/test_cli tests/test_options \
	tests/test_loggers tests/fuzz/fuzz_settings
tests_test_registry_LDFLAGS =
tests_test_registry_CPPFLAGS = $(AM_CPPFLAGS) -DTEST_CC='"$(CC)"' -DBROKEN_DIR='"$(abs_builddir)/tests/broken"'
tests_test_registry_LDADD = $(LDADD) $(LTDL_LIBS)
# The plugins are part of these programs in a --disable-shared build.
tests_test_plugins_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_plugins_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_plugins_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_scaler_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_scaler_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(YAML_CFLAGS)
tests_test_scaler_LDADD = $(LDADD) $(JANSSON_LIBS) $(YAML_LIBS) $(LTDL_LIBS)
tests_test_scaler_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_loggers_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_loggers_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
tests_test_loggers_LDADD = $(LDADD) $(JANSSON_LIBS) $(LTDL_LIBS)
tests_test_loggers_DEPENDENCIES = $(PLUGINS_NEED)
tests_test_cli_LDFLAGS =
tests_test_cli_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) -DTEST_CC='"$(CC)"'
tests_test_cli_LDADD = $(LDADD) $(JANSSON_LIBS)
tests_test_options_SOURCES = tests/test_options.c core/cli/options.c core/cli/run_options.c
tests_test_options_LDFLAGS =
tests_fuzz_fuzz_settings_LDFLAGS =

EXTRA_DIST += tests/broken.c tests/scaler_mine.c tests/case_plugin_map.h

# Faulty plugins. Not by libtool: some must not link properly.
BROKEN = tests/broken/scaler_good.so tests/broken/two/scaler_good.so tests/broken/scaler_fine.so \
	tests/broken/scaler_old_abi.so tests/broken/scaler_small.so tests/broken/scaler_other_name.so \
	tests/broken/scaler_other_kind.so tests/broken/scaler_no_license.so \
	tests/broken/scaler_no_function.so tests/broken/scaler_outside.so \
	tests/broken/scaler_state_outside.so tests/broken/scaler_no_doc.so \
	tests/broken/scaler_no_symbol.so tests/broken/scaler_no_library.so \
	tests/broken/scaler_no_descriptor.so tests/broken/device_unstable.so \
	tests/broken/scaler_garbage.so tests/broken/scaler_cut.so
if HAVE_CHECK
check_SCRIPTS += $(BROKEN)
endif
CLEANFILES += $(BROKEN) tests/broken/libgone.so
BROKEN_CC = name=`basename $@ .so`; $(MKDIR_P) `dirname $@`; \
	$(CC) $(CPPFLAGS) -I$(top_srcdir)/core $(CFLAGS) -shared -fPIC -DNAME=$${name\#*_} -o $@ $(srcdir)/tests/broken.c
tests/broken/scaler_good.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=GOOD -DHELPER=2
tests/broken/two/scaler_good.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=GOOD -DHELPER=3
tests/broken/scaler_fine.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=GOOD -DHELPER=4
tests/broken/scaler_old_abi.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=OLD_ABI -DHELPER=1
tests/broken/scaler_small.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=SMALL -DHELPER=1
tests/broken/scaler_other_name.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=OTHER_NAME -DHELPER=1
tests/broken/scaler_other_kind.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=OTHER_KIND -DHELPER=1
tests/broken/scaler_no_license.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=NO_LICENSE -DHELPER=1
tests/broken/scaler_no_function.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=NO_FUNCTION -DHELPER=1
tests/broken/scaler_outside.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=OUTSIDE -DHELPER=1
tests/broken/scaler_state_outside.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=STATE_OUTSIDE -DHELPER=1
tests/broken/scaler_no_doc.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=NO_DOC -DHELPER=1
tests/broken/scaler_no_symbol.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=NO_SYMBOL -DHELPER=1 -Wl,-z,lazy
tests/broken/scaler_no_descriptor.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=NO_DESCRIPTOR -DHELPER=1
tests/broken/device_unstable.so: tests/broken.c
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=UNSTABLE -DHELPER=1
# No file has the name that the linker notes down.
tests/broken/libgone.so: tests/broken.c
	$(AM_V_GEN)$(MKDIR_P) tests/broken; \
	echo 'int gone_value(void); int gone_value(void) { return 1; }' \
	| $(CC) $(CFLAGS) -shared -fPIC -Wl,-soname,libgone.so.9 -o $@ -x c -
tests/broken/scaler_no_library.so: tests/broken.c tests/broken/libgone.so
	$(AM_V_GEN)$(BROKEN_CC) -DVARIANT=NO_LIBRARY -DHELPER=1 tests/broken/libgone.so
tests/broken/scaler_garbage.so: tests/broken.c
	$(AM_V_GEN)$(MKDIR_P) tests/broken; printf 'not an object file' > $@
tests/broken/scaler_cut.so: tests/broken/scaler_good.so
	$(AM_V_GEN)head -c 9000 tests/broken/scaler_good.so > $@
