# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += device_hostram.la
TESTS      += device.yaml
EXTRA_DIST += device.yaml
