# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += heads/head_heatmap.la
