# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += doc/mixed-precision.md doc/scaling.md
EXTRA_DIST += doc/manual
include doc/pages.mk

# Renews the man pages and the list of them; to be run where every plugin of the tree is built.
manual: stance $(plugin_LTLIBRARIES)
	$(AM_TESTS_ENVIRONMENT) $(srcdir)/doc/manual ./stance $(srcdir) $(srcdir)/doc $(plugin_LTLIBRARIES)
.PHONY: manual

# Completion; the folders are those of packages in the prefix.
dist_bashcompletion_DATA = doc/completion/bash/stance
dist_zshcompletion_DATA = doc/completion/zsh/_stance
dist_fishcompletion_DATA = doc/completion/fish/stance.fish

# The public headers as HTML: `make doc`. Installed where it was built.
EXTRA_DIST += doc/Doxyfile.in doc/api.md doc/README.md
doc: doc/api/html/index.html
doc/api/html/index.html: doc/Doxyfile doc/api.md $(stanceinclude_HEADERS)
	@test -n "$(DOXYGEN)" || { echo "make doc: configured without doxygen" >&2; exit 1; }
	$(AM_V_GEN)rm -rf doc/api && $(MKDIR_P) doc/api && $(DOXYGEN) doc/Doxyfile
.PHONY: doc

if WITH_DOC
all-local: doc
endif
install-data-local:
	if test -f doc/api/html/index.html; then \
		$(MKDIR_P) "$(DESTDIR)$(htmldir)/api" && cp -R doc/api/html/. "$(DESTDIR)$(htmldir)/api"; fi
uninstall-local:
	if test -f doc/api/html/index.html; then rm -rf "$(DESTDIR)$(htmldir)/api"; fi
clean-local:
	rm -rf doc/api
