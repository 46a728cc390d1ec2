# SPDX-License-Identifier: Apache-2.0
libstance_la_SOURCES += core/step/comm.c core/step/comm.h core/step/reducer.c core/step/reducer.h
libstance_la_SOURCES += core/step/scaler.c core/step/scaler.h
libstance_la_SOURCES += core/step/model.c core/step/model.h core/step/look.c core/step/make.c core/step/step.c core/step/step_priv.h core/step/step.h
libstance_la_SOURCES += core/step/window.c core/step/window.h
libstance_la_SOURCES += core/step/diagnose.c core/step/diagnose.h core/step/exponents.c core/step/exponents.h
