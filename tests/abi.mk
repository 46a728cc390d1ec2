# SPDX-License-Identifier: Apache-2.0
stance_tests += tests/test_abi tests/fuzz/fuzz_elf
tests_test_abi_CPPFLAGS = $(AM_CPPFLAGS) -DABI_DIR='"$(abs_builddir)/tests/plugins"'
tests_test_abi_LDFLAGS = $(PLUGINS_DLOPEN)
tests_test_abi_LDADD = $(LDADD) $(LTDL_LIBS)
tests_test_abi_DEPENDENCIES = $(PLUGINS_NEED) tests/plugins/built
tests_fuzz_fuzz_elf_LDFLAGS =
tests_fuzz_fuzz_elf_LDADD = $(LDADD) $(LTDL_LIBS)
TESTS += tests/new tests/abi/frozen
# Files one by one: the folder of this name in the build folder holds the logs of tests.
EXTRA_DIST += scripts/freeze-abi tests/new tests/abi/0 tests/abi/compare tests/abi/dump tests/abi/early.c tests/abi/frozen \
	tests/abi/libstance.abi tests/abi/libstance.suppr tests/abi/probe.c tests/abi/probe.yaml doc/first-plugin.md

# By one line of the compiler, as outsiders do.
ABI_CC = $(CC) $(CPPFLAGS) -I$(top_srcdir)/core $(CFLAGS) -shared -fPIC
tests/plugins/built: tests/abi/early.c tests/abi/probe.c doc/examples/op_softclip.c
	$(AM_V_GEN)$(MKDIR_P) tests/plugins && \
	$(ABI_CC) -DNAME=later -DABI=9999 -DUNSTABLE=0 $(srcdir)/tests/abi/early.c -o tests/plugins/scaler_later.so && \
	$(ABI_CC) -DNAME=same -DABI=STANCE_PLUGIN_ABI -DUNSTABLE=STANCE_UNSTABLE_ABI+77 $(srcdir)/tests/abi/early.c \
		-o tests/plugins/scaler_same.so && \
	$(ABI_CC) -DPLUGIN_OP $(srcdir)/tests/abi/probe.c -o tests/plugins/op_probe.so && \
	$(ABI_CC) $(srcdir)/tests/abi/probe.c -o tests/plugins/backbone_probe.so && \
	$(ABI_CC) $(srcdir)/doc/examples/op_softclip.c -o tests/plugins/op_softclip.so && touch $@
CLEANFILES += tests/plugins/*.so tests/plugins/built

# Against the frozen dump; by ./check, where abidiff is at hand.
check-abi: libstance.la
	$(srcdir)/tests/abi/compare .
.PHONY: check-abi
