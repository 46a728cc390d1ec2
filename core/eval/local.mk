# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/eval/aside.c core/eval/aside.h core/eval/coco.c core/eval/coco.h \
	core/eval/coco_match.c core/eval/coco_match.h core/eval/decode.c core/eval/decode.h \
	core/eval/eval_file.c core/eval/eval_file.h core/eval/eval_read.c core/eval/eval_read.h \
	core/eval/oks.c core/eval/oks.h core/eval/order.c core/eval/order.h core/eval/overlay.c \
	core/eval/overlay.h core/eval/results.c core/eval/results.h core/eval/sigmas.c \
	core/eval/sigmas.h core/eval/summary.c core/eval/summary.h
