# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/registry/adopt.c core/registry/check.c core/registry/elf.c core/registry/instance.c core/registry/instance.h \
	core/registry/internal.h core/registry/loader.c core/registry/registry.c \
	core/registry/registry.h core/registry/search.c
