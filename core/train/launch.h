/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process of a job this one is, as the program that started it says in the environment. */
#ifndef TRAIN_LAUNCH_H
#define TRAIN_LAUNCH_H

#include <stance/error.h>

struct stance_place {
    const char *launcher;    /**< "none", "Open MPI", "torchrun", "MPICH", "Slurm" */
    int32_t     rank, world; /**< 0 <= rank < world */
    int32_t     local_rank;  /**< among the processes of this machine */
    bool        writes;      /**< checkpoints, logs and results: rank 0 alone */
};

/** Reads the variables of Open MPI (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK), torchrun (RANK,
 * WORLD_SIZE, LOCAL_RANK), MPICH (PMI_RANK, PMI_SIZE, MPI_LOCALRANKID) and Slurm (SLURM_PROCID;
 * SLURM_STEP_NUM_TASKS or SLURM_NTASKS; SLURM_LOCALID). Where several are set the first of these is
 * it: mpirun and torchrun run inside Slurm's allocations, not around them. Without any, one
 * process; inside an allocation of several tasks that is told in a warning that names srun.
 *  @param environment  NULL-ended list of "NAME=value"
 *  @return STANCE_OK; STANCE_ERR_INVAL (a variable is missing or no number), STANCE_ERR_RANGE (rank
 * and size do not go together): the text names the variable */
stance_status stance_place_detect(const char *const *environment, struct stance_place *out,
                                  struct stance_error *err) STANCE_MUST_CHECK;

#endif
