# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/train/progress.c core/train/progress.h core/train/ranks.c core/train/ranks.h
libstance_la_SOURCES += core/train/schedule.c core/train/schedule.h
libstance_la_SOURCES += core/train/checkpoint.c core/train/checkpoint.h core/train/evaluate.c \
	core/train/evaluate.h core/train/folder.c core/train/folder.h core/train/pose_text.c \
	core/train/pose_text.h core/train/run.c core/train/run_keep.c core/train/run_log.c core/train/run_priv.h core/train/run_start.c core/train/run.h \
	core/train/setup.c core/train/setup.h core/train/weights.c core/train/weights.h
libstance_la_SOURCES += core/train/best.c core/train/best.h core/train/launch.c core/train/launch.h
libstance_la_SOURCES += core/train/look_log.c core/train/look_log.h
