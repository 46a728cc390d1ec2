# SPDX-License-Identifier: Apache-2.0
EXTRA_DIST += plugins/optimizers/adam.h plugins/optimizers/optimizers.h plugins/optimizers/rounding.h
plugin_LTLIBRARIES += plugins/optimizers/optimizer_adam.la
plugin_LTLIBRARIES += plugins/optimizers/optimizer_adamw.la
plugin_LTLIBRARIES += plugins/optimizers/optimizer_sgd.la
