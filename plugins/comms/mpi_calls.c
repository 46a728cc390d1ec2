/* SPDX-License-Identifier: Apache-2.0
 *
 * All waiting is polling of non-blocking calls, so that a process that is gone, which MPI itself may never
 * tell, ends the wait. */
#include "mpi_calls.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 30 }; /* bytes of one transfer: MPI counts in int */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(double seconds)
{
    struct timespec t = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };

    nanosleep(&t, NULL);
}

static stance_status failed(int code, const char *what, struct stance_error *err)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int  len;

    MPI_Error_string(code, text, &len);
    return STANCE_FAIL(err, STANCE_ERR_DEVICE, "MPI: %s: %s", what, text);
}

/* Gone, or dead and not yet buried. */
static bool is_gone(pid_t pid)
{
    char  path[64], line[512];
    FILE *f;
    char *state;
    bool  dead = false;

    if (kill(pid, 0) != 0)
        return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    f = fopen(path, "re");
    if (f == NULL)
        return false;
    if (fgets(line, sizeof line, f) != NULL && (state = strrchr(line, ')')) != NULL && state[1] == ' ')
        dead = state[2] == 'Z' || state[2] == 'X';
    fclose(f);
    return dead;
}

stance_status comms_mpi_amiss(const struct mpi *m, double waited, const char *what, struct stance_error *err)
{
    for (int i = 0; i < m->local_world - 1; i++) {
        if (!is_gone(m->peers[i].pid))
            continue;
        /* One of those left says so; it ends the others before they would. */
        for (int j = 0; j < m->local_world - 1; j++)
            if (m->peers[j].rank < m->rank && !is_gone(m->peers[j].pid)) {
                nap(3);
                break;
            }
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "the process of rank %d (pid %ld) is gone", m->peers[i].rank,
                           (long)m->peers[i].pid);
    }
    if (m->timeout > 0 && waited > m->timeout)
        return STANCE_FAIL(err, STANCE_ERR_DEVICE, "rank %d has waited %.0f s for the other processes (%s)", m->rank, waited,
                           what);
    return STANCE_OK;
}

/* Some tests as fast as can be; then other processes may have the processor; after 10 ms, in which 25 MB
 * get through the memory of a machine, it sleeps: the others are not where this one is. */
stance_status comms_mpi_wait(struct mpi *m, MPI_Request *request, const char *what, struct stance_error *err)
{
    double start = 0, looked = 0;

    for (int64_t i = 0;; i++) {
        int    done, code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        double at;

        if (code != MPI_SUCCESS)
            return failed(code, what, err);
        if (done)
            return STANCE_OK;
        if (i < 100)
            continue;
        at = now();
        if (i == 100)
            start = looked = at;
        if (at - looked > 0.5) {
            stance_status status = comms_mpi_amiss(m, at - start, what, err);

            if (status != STANCE_OK)
                return status;
            looked = at;
        }
        if (at - start < 0.01)
            sched_yield();
        else
            nap(50e-6);
    }
}

static MPI_Datatype type_of(enum stance_type t)
{
    return t == STANCE_TYPE_F64 ? MPI_DOUBLE : t == STANCE_TYPE_I64 ? MPI_INT64_T : MPI_FLOAT;
}

stance_status comms_mpi_start(MPI_Comm comm, MPI_Request *request, void *data, size_t n, enum stance_type type,
                              enum stance_comm_sum what, struct stance_error *err)
{
    int code;

    if (n > INT32_MAX)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "MPI: %zu numbers in one reduction", n);
    code = MPI_Iallreduce(MPI_IN_PLACE, data, (int)n, type_of(type), what == STANCE_COMM_SUM ? MPI_SUM : MPI_MAX, comm,
                          request);
    return code == MPI_SUCCESS ? STANCE_OK : failed(code, "reduction", err);
}

stance_status comms_mpi_all_reduce(void *state, void *data, size_t n, enum stance_type type, enum stance_comm_sum what,
                                   struct stance_error *err)
{
    struct mpi   *m = state;
    MPI_Request   r;
    stance_status status = comms_mpi_start(m->others, &r, data, n, type, what, err);

    return status == STANCE_OK ? comms_mpi_wait(m, &r, "reduction", err) : status;
}

stance_status comms_mpi_broadcast(void *state, void *data, size_t bytes, int32_t root, struct stance_error *err)
{
    struct mpi *m = state;

    for (size_t at = 0; at < bytes;) {
        size_t        n = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Request   r;
        int           code   = MPI_Ibcast((char *)data + at, (int)n, MPI_BYTE, root, m->others, &r);
        stance_status status = code == MPI_SUCCESS ? comms_mpi_wait(m, &r, "broadcast", err) : failed(code, "broadcast", err);

        if (status != STANCE_OK)
            return status;
        at += n;
    }
    return STANCE_OK;
}

stance_status comms_mpi_all_gather(void *state, const void *mine, size_t bytes, void *all, struct stance_error *err)
{
    struct mpi *m = state;
    MPI_Request r;
    int         code;

    if (bytes > PIECE)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "MPI: %zu bytes to gather from each process", bytes);
    code = MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, m->others, &r);
    return code == MPI_SUCCESS ? comms_mpi_wait(m, &r, "gathering", err) : failed(code, "gathering", err);
}

/* Between rank 0 and another. */
static stance_status transfer(struct mpi *m, void *data, size_t bytes, int from, struct stance_error *err)
{
    for (size_t at = 0; at < bytes;) {
        size_t        n = bytes - at < PIECE ? bytes - at : PIECE;
        MPI_Request   r;
        int           code   = m->rank == 0 ? MPI_Irecv((char *)data + at, (int)n, MPI_BYTE, from, 0, m->others, &r)
                                            : MPI_Isend((char *)data + at, (int)n, MPI_BYTE, 0, 0, m->others, &r);
        stance_status status = code == MPI_SUCCESS ? comms_mpi_wait(m, &r, "gathering", err) : failed(code, "gathering", err);

        if (status != STANCE_OK)
            return status;
        at += n;
    }
    return STANCE_OK;
}

stance_status comms_mpi_gather(void *state, const void *mine, const size_t *each, void *all, struct stance_error *err)
{
    struct mpi *m  = state;
    char       *to = all;

    if (m->rank != 0)
        return transfer(m, (void *)mine, each[m->rank], 0, err);
    memmove(to, mine, each[0]);
    for (int r = 1; r < m->world; r++) {
        stance_status status;

        to += each[r - 1];
        status = transfer(m, to, each[r], r, err);
        if (status != STANCE_OK)
            return status;
    }
    return STANCE_OK;
}

stance_status comms_mpi_barrier(void *state, struct stance_error *err)
{
    struct mpi *m = state;
    MPI_Request r;
    int         code = MPI_Ibarrier(m->others, &r);

    return code == MPI_SUCCESS ? comms_mpi_wait(m, &r, "barrier", err) : failed(code, "barrier", err);
}

void comms_mpi_abort(void *state, int exit_status)
{
    (void)state;
    MPI_Abort(MPI_COMM_WORLD, exit_status);
    _exit(exit_status);
}

void comms_mpi_place(const void *state, struct stance_comm_place *out)
{
    const struct mpi *m = state;

    *out = (struct stance_comm_place){ sizeof *out, m->rank, m->world, m->local_rank, m->local_world };
}

/* What tells machines apart, and process numbers apart that mean the same. */
struct home { char host[64], pids[64]; int64_t pid; };

static stance_status find_peers(struct mpi *m, struct stance_error *err)
{
    struct home   mine, *all = stance_calloc((size_t)m->world, sizeof *all);
    stance_status status;
    int           n = 0;

    if (all == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "MPI: %d processes", m->world);
    memset(&mine, 0, sizeof mine);
    gethostname(mine.host, sizeof mine.host - 1);
    if (readlink("/proc/self/ns/pid", mine.pids, sizeof mine.pids - 1) < 0)
        mine.pids[0] = '?';
    mine.pid = getpid();
    status   = comms_mpi_all_gather(m, &mine, sizeof mine, all, err);
    if (status != STANCE_OK)
        goto free_all;
    m->peers = stance_calloc((size_t)m->world, sizeof *m->peers);
    if (m->peers == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "MPI: %d processes", m->world);
        goto free_all;
    }
    for (int r = 0; r < m->world; r++) {
        if (strcmp(all[r].host, mine.host) != 0 || strcmp(all[r].pids, mine.pids) != 0)
            continue;
        if (r == m->rank)
            m->local_rank = n;
        else
            m->peers[n - (r > m->rank)] = (struct mpi_peer){ r, (pid_t)all[r].pid };
        n++;
    }
    m->local_world = n;

free_all:
    stance_free(all);
    return status;
}

/* srun without the process management interface that the library knows: MPI_Init() would end the process. */
static bool is_alone_in_slurm(void)
{
#ifdef OPEN_MPI
    static const char *const known[] = { "PMIX_RANK", "OMPI_COMM_WORLD_SIZE" };
#else
    static const char *const known[] = { "PMIX_RANK", "PMI_RANK", "PMI_FD" };
#endif

    if (getenv("SLURM_PROCID") == NULL || getenv("SLURM_STEP_ID") == NULL)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (getenv(known[i]) != NULL)
            return false;
    return true;
}

stance_status comms_mpi_open(struct mpi *m, double timeout, struct stance_error *err)
{
    int           is_up = 0, ended = 0, level, code;
    stance_status status;

    MPI_Finalized(&ended);
    if (ended)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "MPI: has been ended in this process");
    MPI_Initialized(&is_up);
    if (!is_up && is_alone_in_slurm())
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED,
                           "srun has started this process in a way that MPI does not know: srun --mpi=pmix");
    if (!is_up) {
        code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
        if (code != MPI_SUCCESS)
            return failed(code, "start", err);
        m->started = true;
    }
    m->timeout = timeout;
    m->reductions = m->others = MPI_COMM_NULL;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    code = MPI_Comm_dup(MPI_COMM_WORLD, &m->reductions);
    if (code == MPI_SUCCESS)
        code = MPI_Comm_dup(MPI_COMM_WORLD, &m->others);
    if (code != MPI_SUCCESS) {
        status = failed(code, "start", err);
        goto close;
    }
    MPI_Comm_rank(m->others, &m->rank);
    MPI_Comm_size(m->others, &m->world);
    status = find_peers(m, err);
    if (status == STANCE_OK)
        return STANCE_OK;
close:
    comms_mpi_close(m);
    return status;
}

void comms_mpi_close(struct mpi *m)
{
    if (m->reductions != MPI_COMM_NULL)
        MPI_Comm_free(&m->reductions);
    if (m->others != MPI_COMM_NULL)
        MPI_Comm_free(&m->others);
    if (m->started)
        MPI_Finalize();
    stance_free(m->peers);
}
