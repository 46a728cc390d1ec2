/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/launch.h"

#include <stance/log.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STANCE_LOG_MODULE "launch"

/* Variables of one launcher. Slurm's are those of the step (srun), else of the allocation. */
struct launcher {
    const char *name, *rank, *size[2], *local, *per_machine;
    bool        pair; /* rank alone is somebody else's variable */
};

static const struct launcher launchers[] = {
    { "Open MPI",
      "OMPI_COMM_WORLD_RANK",
      { "OMPI_COMM_WORLD_SIZE", NULL },
      "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE",
      false },
    { "torchrun", "RANK", { "WORLD_SIZE", NULL }, "LOCAL_RANK", "LOCAL_WORLD_SIZE", true },
    { "MPICH", "PMI_RANK", { "PMI_SIZE", NULL }, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", false },
    { "Slurm",
      "SLURM_PROCID",
      { "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS" },
      "SLURM_LOCALID",
      "SLURM_NTASKS_PER_NODE",
      false },
};

/* Value of a variable; NULL if it is not set, or empty. */
static const char *value_of(const char *const *environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment != NULL; environment++)
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '='
            && (*environment)[len + 1] != '\0')
            return *environment + len + 1;
    return NULL;
}

static stance_status count_of(const char *name, const char *text, int32_t *out,
                              struct stance_error *err)
{
    char *end;
    long  v;

    errno = 0;
    v     = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || v < 0 || v > INT32_MAX)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not a count", name, text);
    *out = (int32_t)v;
    return STANCE_OK;
}

/* A local rank that is not told follows from the processes of a machine where ranks are dealt out
 * in blocks, which is what every launcher does unless told otherwise. */
static stance_status local_rank(const struct launcher *l, const char *const *environment,
                                struct stance_place *p, struct stance_error *err)
{
    const char *text = value_of(environment, l->local),
               *each = value_of(environment, l->per_machine);
    int32_t       n;
    stance_status status;

    if (text != NULL)
        return count_of(l->local, text, &p->local_rank, err);
    if (each != NULL) {
        status = count_of(l->per_machine, each, &n, err);
        if (status == STANCE_OK && n > 0) {
            p->local_rank = p->rank % n;
            return STANCE_OK;
        }
    }
    if (p->world == 1)
        return STANCE_OK;
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s is set, but not %s: started by %s?", l->rank,
                       l->local, l->name);
}

static stance_status read_place(const struct launcher *l, const char *const *environment,
                                struct stance_place *out, struct stance_error *err)
{
    struct stance_place p    = { .launcher = l->name };
    const char         *name = l->size[0], *size = value_of(environment, name);
    stance_status       status;

    if (size == NULL && l->size[1] != NULL)
        size = value_of(environment, name = l->size[1]);
    if (size == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s is set, but not %s: started by %s?", l->rank,
                           name, l->name);
    status = count_of(l->rank, value_of(environment, l->rank), &p.rank, err);
    if (status == STANCE_OK)
        status = count_of(name, size, &p.world, err);
    if (status == STANCE_OK && p.rank >= p.world)
        status = STANCE_FAIL(err, STANCE_ERR_RANGE, "%s is %" PRId32 ", but %s is %" PRId32,
                             l->rank, p.rank, name, p.world);
    if (status == STANCE_OK)
        status = local_rank(l, environment, &p, err);
    if (status == STANCE_OK && p.local_rank >= p.world)
        status = STANCE_FAIL(err, STANCE_ERR_RANGE, "%s is %" PRId32 ", but %s is %" PRId32,
                             l->local, p.local_rank, name, p.world);
    if (status != STANCE_OK)
        return status;
    p.writes = p.rank == 0;
    *out     = p;
    return STANCE_OK;
}

/* One process, though the allocation was made for more. */
static void hint(const char *const *environment)
{
    static const char *const names[] = { "SLURM_NTASKS", "SLURM_NPROCS" };
    int32_t                  n;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = value_of(environment, names[i]);

        if (text == NULL || count_of(names[i], text, &n, NULL) != STANCE_OK)
            continue;
        if (n > 1)
            STANCE_LOG(STANCE_LOG_WARN,
                       "one process in a Slurm allocation of %" PRId32
                       " tasks: start with srun to use them all",
                       n);
        return;
    }
}

/* A batch script, as opposed to what srun started from it: Slurm numbers its one process too. */
static bool is_batch_script(const char *const *environment)
{
    const char *where = value_of(environment, "ENVIRONMENT");

    return where != NULL && strcmp(where, "BATCH") == 0
           && value_of(environment, "SLURM_STEP_ID") == NULL
           && value_of(environment, "SLURM_STEPID") == NULL
           && value_of(environment, "SLURM_STEP_NUM_TASKS") == NULL;
}

stance_status stance_place_detect(const char *const *environment, struct stance_place *out,
                                  struct stance_error *err)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];

        if (l->size[1] != NULL && is_batch_script(environment))
            continue;
        if (value_of(environment, l->rank) != NULL
            && (!l->pair || value_of(environment, l->size[0]) != NULL))
            return read_place(l, environment, out, err);
    }
    hint(environment);
    *out = (struct stance_place){ "none", 0, 1, 0, true };
    return STANCE_OK;
}
