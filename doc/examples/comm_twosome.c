/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes on one machine, over two connections between them: one for the sums that go on during the
 * backward pass, one for everything else, because the order between the two is not the same on both sides.
 * Who is who, and the port, is told as torchrun tells it: RANK, WORLD_SIZE, MASTER_PORT. */
#define _DEFAULT_SOURCE
#include <stance/comm.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { SUMS, OTHERS, CONNECTIONS };

struct state { int rank, fd[CONNECTIONS]; };

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text != NULL && *text != '\0' ? atoi(text) : otherwise;
}

/* Rank 0 waits for the other, which tries until it is there. */
static int connect_pair(int rank, int port, int seconds)
{
    struct sockaddr_in at  = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval     most = { seconds, 0 };
    int                yes = 1, fd, pair = -1;

    for (int tries = 0; rank != 0 && tries < 50 * seconds && pair < 0; tries++) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
            pair = fd;
        else if (fd >= 0)
            close(fd);
        if (pair < 0)
            usleep(20000);
    }
    if (rank == 0 && (fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
        if (bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 1) == 0)
            pair = accept(fd, NULL, NULL);
        close(fd);
    }
    if (pair >= 0) /* a process that is gone is noticed, not waited for */
        setsockopt(pair, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    return pair;
}

static stance_status lost(const struct state *s, struct stance_error *err)
{
    return STANCE_FAIL(err, STANCE_ERR_DEVICE, "comm 'twosome': rank %d is gone: %s", 1 - s->rank, strerror(errno));
}

/* Sends mine and receives theirs; rank 0 speaks first. */
static bool exchange(const struct state *s, int which, const void *mine, size_t n_mine, void *theirs, size_t n_theirs)
{
    for (int turn = 0; turn < 2; turn++) {
        bool   send_now = (turn == 0) == (s->rank == 0);
        size_t n        = send_now ? n_mine : n_theirs;

        for (size_t done = 0; done < n;) {
            ssize_t k = send_now ? send(s->fd[which], (const char *)mine + done, n - done, MSG_NOSIGNAL)
                                 : recv(s->fd[which], (char *)theirs + done, n - done, 0);

            if (k <= 0)
                return false;
            done += (size_t)k;
        }
    }
    return true;
}

#define COMBINE(type)                                                                                \
    for (size_t i = 0; i < n; i++) {                                                                 \
        type a = ((type *)mine)[i], b = ((const type *)theirs)[i];                                   \
                                                                                                     \
        ((type *)mine)[i] = what == STANCE_COMM_SUM ? a + b : b > a || b != b ? b : a;                \
    }

static stance_status reduce(struct state *s, int which, void *data, size_t n, enum stance_type type,
                            enum stance_comm_sum what, struct stance_error *err)
{
    char   part[16384]; /* both sides sum the same two numbers: the same bytes on both */
    size_t size = stance_type_size(type), most = sizeof part / size, left = n;
    char  *mine = data;

    for (; left > 0; left -= n, mine += n * size) {
        const char *theirs = part;

        n = left < most ? left : most;
        if (!exchange(s, which, mine, n * size, part, n * size))
            return lost(s, err);
        if (type == STANCE_TYPE_F32)
            COMBINE(float)
        else if (type == STANCE_TYPE_F64)
            COMBINE(double)
        else
            COMBINE(int64_t)
    }
    return STANCE_OK;
}

static stance_status open_comm(void *state, const void *config, double timeout, struct stance_error *err)
{
    struct state *s       = state;
    int           seconds = timeout > 0 && timeout < 3600 ? (int)timeout + 1 : 3600, port = number("MASTER_PORT", 29500);

    (void)config;
    s->rank = number("RANK", -1);
    if (s->rank < 0 || s->rank > 1 || number("WORLD_SIZE", 0) != 2)
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "comm 'twosome': is for RANK 0 and 1 of WORLD_SIZE 2");
    for (int i = 0; i < CONNECTIONS; i++) {
        s->fd[i] = connect_pair(s->rank, port + i, seconds);
        if (s->fd[i] < 0) {
            while (i-- > 0)
                close(s->fd[i]);
            return STANCE_FAIL(err, STANCE_ERR_DEVICE, "comm 'twosome': no connection by port %d: %s", port, strerror(errno));
        }
    }
    return STANCE_OK;
}

static stance_status barrier(void *state, struct stance_error *err)
{
    char mine = 0, theirs;

    return exchange(state, OTHERS, &mine, 1, &theirs, 1) ? STANCE_OK : lost(state, err);
}

static void close_comm(void *state)
{
    struct state *s = state;

    (void)barrier(s, NULL);
    for (int i = 0; i < CONNECTIONS; i++)
        close(s->fd[i]);
}

static void place(const void *state, struct stance_comm_place *out)
{
    int rank = ((const struct state *)state)->rank;

    *out = (struct stance_comm_place){ .size = sizeof *out, .rank = rank, .world = 2, .local_rank = rank,
                                       .local_world = 2 };
}

/* A reduction is over when it has been started: there is nothing to wait for. */
static stance_status start(void *state, void *request, void *data, size_t n, enum stance_type type,
                           enum stance_comm_sum what, void *queue, struct stance_error *err)
{
    (void)request;
    (void)queue;
    return reduce(state, SUMS, data, n, type, what, err);
}

static stance_status wait_for(void *state, void *request, struct stance_error *err)
{
    (void)state;
    (void)request;
    (void)err;
    return STANCE_OK;
}

static stance_status all_reduce(void *state, void *data, size_t n, enum stance_type type, enum stance_comm_sum what,
                                struct stance_error *err)
{
    return reduce(state, OTHERS, data, n, type, what, err);
}

static stance_status broadcast(void *state, void *data, size_t bytes, int32_t root, struct stance_error *err)
{
    bool mine = ((const struct state *)state)->rank == root;

    return exchange(state, OTHERS, data, mine ? bytes : 0, data, mine ? 0 : bytes) ? STANCE_OK : lost(state, err);
}

static stance_status all_gather(void *state, const void *mine, size_t bytes, void *all, struct stance_error *err)
{
    int   rank = ((const struct state *)state)->rank;
    char *to   = all;

    memmove(to + (size_t)rank * bytes, mine, bytes);
    return exchange(state, OTHERS, to + (size_t)rank * bytes, bytes, to + (size_t)(1 - rank) * bytes, bytes)
               ? STANCE_OK : lost(state, err);
}

static stance_status gather(void *state, const void *mine, const size_t *each, void *all, struct stance_error *err)
{
    if (((const struct state *)state)->rank != 0)
        return exchange(state, OTHERS, mine, each[1], NULL, 0) ? STANCE_OK : lost(state, err);
    if (all != mine)
        memmove(all, mine, each[0]);
    return exchange(state, OTHERS, NULL, 0, (char *)all + each[0], each[1]) ? STANCE_OK : lost(state, err);
}

/* The connections break, and the other one is told by that. */
static void end(void *state, int exit_status)
{
    (void)state;
    _exit(exit_status);
}

static const struct stance_comm_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct state), .request_size = 1, .host_memory = true, .open = open_comm,
    .close = close_comm, .place = place, .start = start, .wait = wait_for, .all_reduce = all_reduce,
    .broadcast = broadcast, .all_gather = all_gather, .gather = gather, .barrier = barrier, .abort = end,
};

STANCE_PLUGIN(comm, twosome) = {
    STANCE_PLUGIN_HEAD,
    .kind     = STANCE_KIND_COMM,
    .name     = "twosome",
    .version  = "1.0",
    .license  = "Apache-2.0",
    .source   = "an example",
    .summary  = "two processes of one machine, over its loopback",
    .ops.comm = &ops,
};
