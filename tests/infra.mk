# SPDX-License-Identifier: Apache-2.0
TESTS += tests/install/headers
EXTRA_DIST += tests/install/headers tests/install/installed tests/install/run tests/skips.txt

# What is installed, seen from outside the build folder; distcheck runs it too.
installcheck-local:
	$(srcdir)/tests/install/headers "$(DESTDIR)$(includedir)"
	CC='$(CC)' $(srcdir)/tests/install/installed "$(DESTDIR)$(bindir)" "$(DESTDIR)$(libdir)" "$(abs_srcdir)"
	test -n "$(DESTDIR)" || test $(enable_shared) = no || \
		CC='$(CC)' STANCE='$(bindir)/stance' PKG_CONFIG_PATH='$(pkgconfigdir)' $(srcdir)/tests/install/run
