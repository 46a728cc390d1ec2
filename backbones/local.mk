# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += backbones/backbone_hrnet.la
plugin_LTLIBRARIES += backbones/backbone_resnet.la
