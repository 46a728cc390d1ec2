# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += losses/loss_joints_mse.la
