/* SPDX-License-Identifier: Apache-2.0
 *
 * comm "nccl": gradients in the memory of NVIDIA GPUs, over NVLink, PCIe or the network as NCCL finds them. MPI
 * starts it and carries everything else. Each process uses the GPU of its local rank. */
#include "mpi_calls.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string.h>
#include <time.h>

struct nccl {
    struct mpi   mpi; /* first: the functions of mpi_calls.h take it */
    ncclComm_t   comm;
    cudaStream_t stream;
};

/* A reduction under way: an event behind it, made by the first use and kept. */
struct request { cudaEvent_t begin, end; bool made; };

static stance_status of_nccl(ncclResult_t r, const char *what, struct stance_error *err)
{
    return r == ncclSuccess ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_DEVICE, "NCCL: %s: %s", what, ncclGetErrorString(r));
}

static stance_status of_cuda(cudaError_t r, const char *what, struct stance_error *err)
{
    return r == cudaSuccess ? STANCE_OK : STANCE_FAIL(err, STANCE_ERR_DEVICE, "CUDA: %s: %s", what, cudaGetErrorString(r));
}

static void leave(struct nccl *s)
{
    if (s->comm != NULL)
        ncclCommDestroy(s->comm);
    if (s->stream != NULL)
        cudaStreamDestroy(s->stream);
    s->comm   = NULL;
    s->stream = NULL;
    comms_mpi_close(&s->mpi);
}

/* Its own GPU for each process of the machine; whether all have one is known to all before NCCL begins,
 * which waits for all. */
static stance_status join(struct nccl *s, struct stance_error *err)
{
    ncclUniqueId  id;
    int           gpus   = 0;
    int64_t       lacks  = 0;
    stance_status status = of_cuda(cudaGetDeviceCount(&gpus), "looking for GPUs", err);

    if (status == STANCE_OK && s->mpi.local_rank >= gpus)
        status = STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "NCCL: %d processes on a machine with %d GPUs", s->mpi.local_world, gpus);
    if (status == STANCE_OK)
        status = of_cuda(cudaSetDevice(s->mpi.local_rank), "choosing a GPU", err);
    if (status == STANCE_OK)
        status = of_cuda(cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking), "queue", err);
    lacks = status != STANCE_OK;
    memset(&id, 0, sizeof id);
    if (s->mpi.rank == 0 && lacks == 0 && (status = of_nccl(ncclGetUniqueId(&id), "start", err)) != STANCE_OK)
        lacks = 1;
    if (comms_mpi_all_reduce(&s->mpi, &lacks, 1, STANCE_TYPE_I64, STANCE_COMM_SUM, status == STANCE_OK ? err : NULL) != STANCE_OK)
        return status != STANCE_OK ? status : STANCE_ERR_DEVICE;
    if (lacks > 0)
        return status != STANCE_OK ? status
                                   : STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "NCCL: %d of the processes lack a GPU", (int)lacks);
    status = comms_mpi_broadcast(&s->mpi, &id, sizeof id, 0, err);
    if (status == STANCE_OK)
        status = of_nccl(ncclCommInitRank(&s->comm, s->mpi.world, id, s->mpi.rank), "joining", err);
    return status;
}

static stance_status open_nccl(void *state, const void *config, double timeout, struct stance_error *err)
{
    struct nccl  *s      = state;
    stance_status status = comms_mpi_open(&s->mpi, timeout, err);

    (void)config;
    if (status != STANCE_OK)
        return status;
    status = join(s, err);
    if (status != STANCE_OK)
        leave(s);
    return status;
}

static void close_nccl(void *state)
{
    leave(state);
}

/* On a queue of its own, behind what the device's queue has been given so far. */
static stance_status start(void *state, void *request, void *data, size_t n, enum stance_type type,
                           enum stance_comm_sum what, void *queue, struct stance_error *err)
{
    struct nccl    *s      = state;
    struct request *r      = request;
    ncclDataType_t  t      = type == STANCE_TYPE_F64 ? ncclFloat64 : type == STANCE_TYPE_I64 ? ncclInt64 : ncclFloat32;
    stance_status   status = STANCE_OK;

    if (!r->made) {
        status = of_cuda(cudaEventCreateWithFlags(&r->begin, cudaEventDisableTiming), "event", err);
        if (status == STANCE_OK)
            status = of_cuda(cudaEventCreateWithFlags(&r->end, cudaEventDisableTiming), "event", err);
        r->made = status == STANCE_OK;
    }
    if (status == STANCE_OK)
        status = of_cuda(cudaEventRecord(r->begin, queue), "reduction", err);
    if (status == STANCE_OK)
        status = of_cuda(cudaStreamWaitEvent(s->stream, r->begin, 0), "reduction", err);
    if (status == STANCE_OK)
        status = of_nccl(ncclAllReduce(data, data, n, t, what == STANCE_COMM_SUM ? ncclSum : ncclMax, s->comm, s->stream), "reduction",
                         err);
    return status == STANCE_OK ? of_cuda(cudaEventRecord(r->end, s->stream), "reduction", err) : status;
}

/* A process that is gone leaves the kernels of the others waiting for ever: the host looks. */
static stance_status wait_for(void *state, void *request, struct stance_error *err)
{
    struct nccl    *s = state;
    struct request *r = request;
    struct timespec pause = { 0, 20000 };
    double          waited = 0;

    for (int64_t i = 0;; i++) {
        cudaError_t  e = cudaEventQuery(r->end);
        ncclResult_t late = ncclSuccess;

        if (e == cudaSuccess)
            return STANCE_OK;
        if (e != cudaErrorNotReady)
            return of_cuda(e, "reduction", err);
        if (i < 1000)
            continue;
        nanosleep(&pause, NULL);
        waited += 70e-6; /* with the slack of the timer; a limit, not a measurement */
        if (i % 8192 == 0) {
            stance_status status = ncclCommGetAsyncError(s->comm, &late) == ncclSuccess ? of_nccl(late, "reduction", err) : STANCE_OK;

            if (status == STANCE_OK)
                status = comms_mpi_amiss(&s->mpi, waited, "gradients", err);
            if (status != STANCE_OK)
                return status;
        }
    }
}

static const struct stance_comm_ops ops = {
    .size         = sizeof ops,
    .state_size   = sizeof(struct nccl),
    .request_size = sizeof(struct request),
    .device_name  = "cuda",
    .open         = open_nccl,
    .close        = close_nccl,
    .place        = comms_mpi_place,
    .start        = start,
    .wait         = wait_for,
    .all_reduce   = comms_mpi_all_reduce,
    .broadcast    = comms_mpi_broadcast,
    .all_gather   = comms_mpi_all_gather,
    .gather       = comms_mpi_gather,
    .barrier      = comms_mpi_barrier,
    .abort        = comms_mpi_abort,
};

STANCE_PLUGIN(comm, nccl) = {
    STANCE_PLUGIN_HEAD,
    .kind     = STANCE_KIND_COMM,
    .name     = "nccl",
    .version  = "1.0",
    .license  = "Apache-2.0",
    .source   = "NVIDIA Collective Communications Library (NCCL) 2",
    .summary  = "gradients of NVIDIA GPUs by NCCL, the rest by MPI",
    .ops.comm = &ops,
};
