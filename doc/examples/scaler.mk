# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += scaler_patient.la
TESTS      += scaler.yaml
EXTRA_DIST += scaler.yaml
if HAVE_CHECK
check_PROGRAMS += test_scaler_patient
endif
test_scaler_patient_LDFLAGS =
test_scaler_patient_LDADD = $(CHECK_LIBS)
