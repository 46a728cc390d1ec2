# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/config/dump.c core/config/fill.c core/config/merge.c core/config/parse.c \
	core/config/set.c core/config/tree.c core/config/tree.h
