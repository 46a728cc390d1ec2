# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += plugins/datasets/dataset_synthetic.la
synthetic_files = plugins/datasets/synthetic_backdrop.c plugins/datasets/synthetic_draw.h plugins/datasets/synthetic_dress.c \
	plugins/datasets/synthetic_figure.h plugins/datasets/synthetic_paint.c plugins/datasets/synthetic_paint.h \
	plugins/datasets/synthetic_pose.c plugins/datasets/synthetic_scene.c plugins/datasets/synthetic_scene.h
plugins_datasets_dataset_synthetic_la_SOURCES = plugins/datasets/dataset_synthetic.c $(synthetic_files)
plugin_LTLIBRARIES += plugins/datasets/dataset_coco.la
