/* SPDX-License-Identifier: Apache-2.0
 *
 * MPI as the comm plugins use it: mpi for everything, nccl for what is not a gradient. */
#ifndef COMMS_MPI_CALLS_H
#define COMMS_MPI_CALLS_H

#include <stance/comm.h>

#include <mpi.h>
#include <sys/types.h>

/** Another process of this machine. */
struct mpi_peer { int32_t rank; pid_t pid; };

struct mpi {
    MPI_Comm         reductions; /**< those that are started */
    MPI_Comm         others;
    int32_t          rank, world, local_rank, local_world;
    struct mpi_peer *peers; /**< [local_world - 1], by rank */
    double           timeout;
    bool             started;  /**< by this state, which then ends MPI too */
};

stance_status comms_mpi_open(struct mpi *m, double timeout, struct stance_error *err);
void comms_mpi_close(struct mpi *m);
/** The other functions of struct stance_comm_ops, over a state that begins with struct mpi. */
void comms_mpi_place(const void *state, struct stance_comm_place *out);
stance_status comms_mpi_all_reduce(void *state, void *data, size_t n, enum stance_type type, enum stance_comm_sum what,
                                   struct stance_error *err);
stance_status comms_mpi_broadcast(void *state, void *data, size_t bytes, int32_t root, struct stance_error *err);
stance_status comms_mpi_all_gather(void *state, const void *mine, size_t bytes, void *all, struct stance_error *err);
stance_status comms_mpi_gather(void *state, const void *mine, const size_t *each, void *all, struct stance_error *err);
stance_status comms_mpi_barrier(void *state, struct stance_error *err);
void comms_mpi_abort(void *state, int exit_status);

/** Starts a reduction on a communicator. */
stance_status comms_mpi_start(MPI_Comm comm, MPI_Request *request, void *data, size_t n, enum stance_type type,
                              enum stance_comm_sum what, struct stance_error *err);
/** Waits for a request: fails when another process is gone, or after the timeout. @param what  for the text */
stance_status comms_mpi_wait(struct mpi *m, MPI_Request *request, const char *what, struct stance_error *err);
/** To be called now and then by a caller that waits for something else. @param waited  s
 *  @return STANCE_OK while nothing is amiss */
stance_status comms_mpi_amiss(const struct mpi *m, double waited, const char *what, struct stance_error *err);

#endif
