/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/cli.h"
#include "cli/job.h"

#include <stance/alloc.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What this process was called with: NULL-ended, in one block that is left to exec. */
static char **own_arguments(int *n)
{
    char   *text = NULL, **list = NULL;
    size_t  room = 0, used = 0;
    ssize_t got = 0;
    int     fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);

    *n = 0;
    do {
        used += (size_t)got;
        if (fd < 0 || !stance_grow((void **)&text, &room, used + 4096, 1))
            goto fail;
        got = read(fd, text + used, room - used - 1);
    } while (got > 0);
    for (size_t i = 0; i < used; i++)
        *n += text[i] == '\0';
    list = stance_calloc((size_t)*n + 1, sizeof *list);
    if (got < 0 || list == NULL)
        goto fail;
    for (int i = 0; i < *n; i++) {
        list[i] = text;
        text += strlen(text) + 1;
    }
    close(fd);
    return list;

fail:
    if (fd >= 0)
        close(fd);
    stance_free(text);
    stance_free(list);
    return NULL;
}

/* Open MPI gives processes a second to leave after a signal; a checkpoint may take longer. */
static void environment(void)
{
    setenv("OMPI_MCA_odls_base_sigkill_timeout", "10", 0);
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
}

static stance_status run_mpirun(int64_t nproc, struct stance_error *err)
{
    static char self[4096];
    char        count[32], **own;
    const char **argv;
    int         n, at = 0;
    ssize_t     len = readlink("/proc/self/exe", self, sizeof self - 1);

    own = own_arguments(&n);
    if (own == NULL || len < 0 || n < 1)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "/proc/self: %s", strerror(errno));
    self[len] = '\0';
    argv      = stance_calloc((size_t)n + 10, sizeof *argv);
    if (argv == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "command line");
    snprintf(count, sizeof count, "%" PRId64, nproc);
    argv[at++] = "mpirun";
#ifdef STANCE_OPEN_MPI
    argv[at++] = "--oversubscribe";
    argv[at++] = "--bind-to"; /* a core each would leave loaders no room */
    argv[at++] = "none";
    if (geteuid() == 0)
        argv[at++] = "--allow-run-as-root";
#endif
    argv[at++] = "-n";
    argv[at++] = count;
    argv[at++] = self;
    for (int i = 1; i < n; i++)
        argv[at++] = own[i];
    environment();
    execvp("mpirun", (char *const *)(void *)argv);
    return STANCE_FAIL(err, STANCE_ERR_NOENT, "--nproc %" PRId64 ": mpirun: %s", nproc, strerror(errno));
}

stance_status stance_job_start(int64_t nproc, struct stance_place *place, struct stance_error *err)
{
    stance_status status;

    *place = (struct stance_place){ "none", 0, 1, 0, true };
    if (nproc < 2)
        return STANCE_OK;
    status = stance_place_detect((const char *const *)environ, place, err);
    if (status != STANCE_OK)
        return status;
    if (strcmp(place->launcher, "none") == 0)
        return run_mpirun(nproc, err);
    if (place->world == nproc)
        return STANCE_OK;
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "--nproc %" PRId64 ", but %s has started %d processes", nproc, place->launcher,
                       place->world);
}

int stance_job_end(const struct stance_setup *s, stance_status status, int signal_number, const struct stance_error *err)
{
    bool several = s->place.world > 1, known = s->comm != NULL && s->comm->agreed;
    int  code = stance_exit_status(status);

    if (status == STANCE_ERR_INTERRUPTED && (signal_number != 0 || several))
        code = 128 + (signal_number != 0 ? signal_number : SIGTERM);
    else if (!several)
        return STANCE_FAILED;
    /* Known to all: one tells. Without a comm plugin all fail alike, and rank 0 tells. */
    if (!several || (known ? s->comm->culprit == s->place.rank : s->comm != NULL || s->place.rank == 0))
        fprintf(stderr, "stance: %s\n", err->text);
    fflush(NULL);
    if (s->comm != NULL && !known)
        stance_comm_abort(s->comm, code);
    return code;
}
