# SPDX-License-Identifier: Apache-2.0
# What both plugins are made of; automake compiles it once for each.
if HAVE_MPI
plugin_LTLIBRARIES += plugins/comms/comm_mpi.la
endif
if HAVE_NCCL
plugin_LTLIBRARIES += plugins/comms/comm_nccl.la
endif
plugins_comms_comm_mpi_la_SOURCES = plugins/comms/comm_mpi.c plugins/comms/mpi_calls.c plugins/comms/mpi_calls.h
plugins_comms_comm_mpi_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS)
plugins_comms_comm_mpi_la_LIBADD = $(MPI_LIBS)
plugins_comms_comm_nccl_la_SOURCES = plugins/comms/comm_nccl.c plugins/comms/mpi_calls.c plugins/comms/mpi_calls.h
plugins_comms_comm_nccl_la_CPPFLAGS = $(AM_CPPFLAGS) $(MPI_CFLAGS) $(NCCL_CFLAGS)
plugins_comms_comm_nccl_la_LIBADD = $(MPI_LIBS) $(NCCL_LIBS)
