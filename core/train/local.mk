# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/train/progress.c core/train/progress.h
libstance_la_SOURCES += core/train/schedule.c core/train/schedule.h
