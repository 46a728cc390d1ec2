# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += plugins/datasets/dataset_coco.la
