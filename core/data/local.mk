# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/data/annotations.c core/data/annotations.h core/data/augment.c \
	core/data/augment.h core/data/cache.c core/data/cache.h core/data/check.c core/data/check.h \
	core/data/image.c core/data/image.h core/data/image_codec.h core/data/image_exif.c \
	core/data/image_jpeg.c core/data/image_jpeg_part.c core/data/image_png.c core/data/loader.c core/data/loader.h \
	core/data/pose_info.c core/data/pose_info.h core/data/target.c core/data/target.h \
	core/data/warp.c core/data/warp.h
