/* SPDX-License-Identifier: Apache-2.0
 *
 * One process of several: starting them, and ending them with one message. */
#ifndef CLI_JOB_H
#define CLI_JOB_H

#include "train/setup.h"

/** Finds out which process of a job this one is. Starts this very command again in @p nproc processes by mpirun, in place of this process, unless it is one
 *  of them already or nproc is 1 or less.
 *  @param[out] place  also after a failure
 *  @return STANCE_OK to go on; STANCE_ERR_NOENT without mpirun; STANCE_ERR_INVAL when another launcher has
 *          started another number */
stance_status stance_job_start(int64_t nproc, struct stance_place *place, struct stance_error *err);

/** Exit status after a failure of a verb that has joined a job: prints the message unless another process
 *  does, and ends those that do not know. Before stance_setup_clear().
 *  @param signal_number  that this process has caught; 0: none
 *  @return STANCE_FAILED where main is to print, with one process */
int stance_job_end(const struct stance_setup *s, stance_status status, int signal_number, const struct stance_error *err);

#endif
