# SPDX-License-Identifier: Apache-2.0
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
