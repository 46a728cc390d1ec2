/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "runner.h"

#include "train/launch.h"

#include <stance/log.h>

static char warned[500];

static void keep(void *ctx, enum stance_log_level level, const char *module, const char *text)
{
    (void)ctx;
    (void)module;
    ck_assert_int_eq(level, STANCE_LOG_WARN);
    snprintf(warned, sizeof warned, "%s", text);
}

#define MAX 8

static const struct {
    const char *env[MAX];
    const char *launcher;
    int32_t     rank, world, local;
    const char *warns; /* a word of the warning; NULL: none */
} places[] = {
    { { NULL }, "none", 0, 1, 0, NULL },
    { { "HOME=/root", "RANK=3", NULL }, "none", 0, 1, 0, NULL }, /* RANK alone may be anybody's */
    { { "OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=8", "OMPI_COMM_WORLD_LOCAL_RANK=1", NULL },
      "Open MPI",
      5,
      8,
      1,
      NULL },
    { { "RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=x", NULL },
      "torchrun",
      0,
      2,
      0,
      NULL },
    { { "PMI_RANK=1", "PMI_SIZE=4", "MPI_LOCALRANKID=1", NULL }, "MPICH", 1, 4, 1, NULL },
    { { "SLURM_PROCID=3", "SLURM_NTASKS=4", "SLURM_LOCALID=1", NULL }, "Slurm", 3, 4, 1, NULL },
    /* The step is what was started, whatever the allocation holds. */
    { { "SLURM_PROCID=1", "SLURM_NTASKS=16", "SLURM_STEP_NUM_TASKS=2", "SLURM_LOCALID=1", NULL },
      "Slurm",
      1,
      2,
      1,
      NULL },
    { { "SLURM_PROCID=5", "SLURM_NTASKS=8", "SLURM_NTASKS_PER_NODE=4", NULL },
      "Slurm",
      5,
      8,
      1,
      NULL },
    /* mpirun and torchrun inside Slurm. */
    { { "SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_LOCALID=0", "OMPI_COMM_WORLD_RANK=2",
        "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=2", NULL },
      "Open MPI",
      2,
      4,
      2,
      NULL },
    { { "SLURM_PROCID=1", "SLURM_NTASKS=2", "SLURM_LOCALID=0", "RANK=9", "WORLD_SIZE=16",
        "LOCAL_RANK=1", NULL },
      "torchrun",
      9,
      16,
      1,
      NULL },
    { { "SLURM_JOB_ID=17", "SLURM_NTASKS=4", NULL }, "none", 0, 1, 0, "srun" },
    { { "SLURM_JOB_ID=17", "SLURM_NTASKS=1", NULL }, "none", 0, 1, 0, NULL },
    /* A batch script is a process of its own. */
    { { "ENVIRONMENT=BATCH", "SLURM_JOB_ID=17", "SLURM_PROCID=0", "SLURM_LOCALID=0",
        "SLURM_NTASKS=4", NULL },
      "none",
      0,
      1,
      0,
      "srun" },
    { { "ENVIRONMENT=BATCH", "SLURM_STEP_ID=0", "SLURM_PROCID=2", "SLURM_LOCALID=0",
        "SLURM_NTASKS=4", NULL },
      "Slurm",
      2,
      4,
      0,
      NULL },
};

START_TEST(finds_the_place)
{
    struct stance_place p;
    struct stance_error err = STANCE_ERROR_INIT;

    warned[0] = '\0';
    stance_log_set_sink(keep, NULL);
    ck_assert_msg(stance_place_detect(places[_i].env, &p, &err) == STANCE_OK, "%s", err.text);
    ck_assert_str_eq(p.launcher, places[_i].launcher);
    ck_assert_int_eq(p.rank, places[_i].rank);
    ck_assert_int_eq(p.world, places[_i].world);
    ck_assert_int_eq(p.local_rank, places[_i].local);
    ck_assert(p.writes == (p.rank == 0));
    if (places[_i].warns == NULL)
        ck_assert_str_eq(warned, "");
    else
        ck_assert_ptr_nonnull(strstr(warned, places[_i].warns));
}
END_TEST

static const struct {
    const char   *env[MAX];
    const char   *says;
    stance_status status;
} bad[] = {
    { { "OMPI_COMM_WORLD_RANK=5", NULL }, "OMPI_COMM_WORLD_SIZE", STANCE_ERR_INVAL },
    { { "SLURM_PROCID=1", NULL }, "SLURM_NTASKS", STANCE_ERR_INVAL },
    { { "RANK=x", "WORLD_SIZE=2", "LOCAL_RANK=0", NULL }, "RANK: 'x'", STANCE_ERR_INVAL },
    { { "RANK=-1", "WORLD_SIZE=2", "LOCAL_RANK=0", NULL }, "'-1'", STANCE_ERR_INVAL },
    { { "RANK=1", "WORLD_SIZE=2 ", "LOCAL_RANK=0", NULL }, "WORLD_SIZE", STANCE_ERR_INVAL },
    { { "RANK=1", "WORLD_SIZE=99999999999999999999", "LOCAL_RANK=0", NULL },
      "WORLD_SIZE",
      STANCE_ERR_INVAL },
    { { "RANK=2", "WORLD_SIZE=2", "LOCAL_RANK=0", NULL }, "WORLD_SIZE is 2", STANCE_ERR_RANGE },
    { { "RANK=0", "WORLD_SIZE=0", "LOCAL_RANK=0", NULL }, "WORLD_SIZE is 0", STANCE_ERR_RANGE },
    { { "RANK=1", "WORLD_SIZE=2", "LOCAL_RANK=7", NULL }, "LOCAL_RANK is 7", STANCE_ERR_RANGE },
    { { "RANK=1", "WORLD_SIZE=2", NULL }, "LOCAL_RANK", STANCE_ERR_INVAL },
};

START_TEST(bad_variables_are_told)
{
    struct stance_place p   = { .rank = 77 };
    struct stance_error err = STANCE_ERROR_INIT;

    ck_assert_int_eq(stance_place_detect(bad[_i].env, &p, &err), bad[_i].status);
    ck_assert_msg(strstr(err.text, bad[_i].says) != NULL, "%s", err.text);
    ck_assert_int_eq(p.rank, 77);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("launch");
    TCase *tc    = tcase_create("all");

    tcase_add_loop_test(tc, finds_the_place, 0, sizeof places / sizeof *places);
    tcase_add_loop_test(tc, bad_variables_are_told, 0, sizeof bad / sizeof *bad);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
