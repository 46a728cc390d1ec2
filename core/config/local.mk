# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/config/dump.c core/config/fill.c core/config/merge.c core/config/parse.c \
	core/config/recipe.c core/config/recipe.h core/config/recipe_clip.c core/config/recipe_dump.c \
	core/config/recipe_info.c core/config/recipe_plugins.c core/config/recipe_precision.c core/config/recipe_priv.h \
	core/config/recipe_tables.c core/config/set.c core/config/tree.c core/config/tree.h
libstance_la_SOURCES += core/config/recipe_keys.c core/config/recipe_keys.h
