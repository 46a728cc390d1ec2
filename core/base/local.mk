# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/base/alloc.c core/base/build.c core/base/build.h core/base/clock.h core/base/environment.c core/base/environment.h core/base/error.c core/base/half.h core/base/log.c core/base/log.h core/base/median.c core/base/median.h core/base/param.c \
	core/base/random.h core/base/text.c core/base/text.h
