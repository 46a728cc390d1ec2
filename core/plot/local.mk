# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/plot/axis.c core/plot/axis.h core/plot/canvas.h core/plot/canvas_png.c \
	core/plot/canvas_svg.c core/plot/curves.c core/plot/curves.h core/plot/figure.c core/plot/figure.h core/plot/panel.c \
	core/plot/panel.h core/plot/report.c core/plot/report.h
