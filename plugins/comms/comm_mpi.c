/* SPDX-License-Identifier: Apache-2.0
 *
 * comm "mpi": Open MPI, MPICH or another MPI-3 library. */
#include "mpi_calls.h"

static stance_status open_mpi(void *state, const void *config, double timeout, struct stance_error *err)
{
    (void)config;
    return comms_mpi_open(state, timeout, err);
}

static void close_mpi(void *state)
{
    comms_mpi_close(state);
}

static stance_status start(void *state, void *request, void *data, size_t n, enum stance_type type,
                           enum stance_comm_sum what, void *queue, struct stance_error *err)
{
    (void)queue;
    return comms_mpi_start(((struct mpi *)state)->reductions, request, data, n, type, what, err);
}

/* MPI_Test() moves on whatever is under way, and forgets a request that is complete: wait() returns at once
 * then. A failure is told there. */
static bool test(void *state, void *request)
{
    int done = 0;

    (void)state;
    return MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done;
}

static stance_status wait_for(void *state, void *request, struct stance_error *err)
{
    return comms_mpi_wait(state, request, "gradients", err);
}

static const struct stance_comm_ops ops = {
    .size         = sizeof ops,
    .state_size   = sizeof(struct mpi),
    .request_size = sizeof(MPI_Request),
    .host_memory  = true,
    .open         = open_mpi,
    .close        = close_mpi,
    .place        = comms_mpi_place,
    .start        = start,
    .test         = test,
    .wait         = wait_for,
    .all_reduce   = comms_mpi_all_reduce,
    .broadcast    = comms_mpi_broadcast,
    .all_gather   = comms_mpi_all_gather,
    .gather       = comms_mpi_gather,
    .barrier      = comms_mpi_barrier,
    .abort        = comms_mpi_abort,
};

STANCE_PLUGIN(comm, mpi) = {
    STANCE_PLUGIN_HEAD,
    .kind     = STANCE_KIND_COMM,
    .name     = "mpi",
    .version  = "1.0",
    .license  = "Apache-2.0",
    .source   = "MPI: A Message-Passing Interface Standard, version 3.1",
    .summary  = "processes of an MPI job: mpirun, srun",
    .ops.comm = &ops,
};
