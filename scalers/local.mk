# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += scalers/scaler_dynamic.la
plugin_LTLIBRARIES += scalers/scaler_hysteresis.la
plugin_LTLIBRARIES += scalers/scaler_lognormal.la
plugin_LTLIBRARIES += scalers/scaler_none.la
plugin_LTLIBRARIES += scalers/scaler_static.la
