# SPDX-License-Identifier: Apache-2.0
plugin_LTLIBRARIES += schedule_triangle.la
TESTS      += schedule.yaml
EXTRA_DIST += schedule.yaml
if HAVE_CHECK
check_PROGRAMS += test_schedule_triangle
endif
test_schedule_triangle_LDFLAGS =
test_schedule_triangle_LDADD = $(CHECK_LIBS)
