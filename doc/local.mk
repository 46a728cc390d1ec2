# SPDX-License-Identifier: Apache-2.0
dist_man_MANS += doc/stance.1
EXTRA_DIST += doc/scaling.md
