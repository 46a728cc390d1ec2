# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += plugins/optimizers/optimizers.h
plugin_LTLIBRARIES += plugins/optimizers/optimizer_adam.la
plugin_LTLIBRARIES += plugins/optimizers/optimizer_adamw.la
plugin_LTLIBRARIES += plugins/optimizers/optimizer_sgd.la
