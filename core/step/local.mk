# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/step/scaler.c core/step/scaler.h
