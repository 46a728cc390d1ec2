/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  The comm kind: the processes of a run and what they exchange. Not yet stable: STANCE_UNSTABLE_ABI
 *  moves with it. */
#ifndef STANCE_COMM_H
#define STANCE_COMM_H

#include <stance/plugin.h>

STANCE_BEGIN_DECLS

/** @addtogroup comm Processes of a run
 *  @{ */

/** Which of the processes this one is. */
struct stance_comm_place {
    size_t  size;        /**< sizeof(struct stance_comm_place) */
    int32_t rank;        /**< 0 <= rank < world */
    int32_t world;       /**< processes */
    int32_t local_rank;  /**< among the processes of this machine */
    int32_t local_world; /**< processes of this machine */
};

/** What a reduction makes of the numbers. */
enum stance_comm_sum {
    STANCE_COMM_SUM, /**< their sum */
    STANCE_COMM_MAX  /**< the largest */
};

/** Every function but close, place, test and abort is called by all processes, in the same order.
 *  Reductions that were started and the other calls are independent of each other: either may be first on
 *  some process and second on another. One thread uses a state. Waiting must not last for ever when a
 *  process is gone: a call that can tell fails with a text that names its rank.
 *
 *  The same numbers on the same number of processes give the same bytes, on all of them. */
struct stance_comm_ops {
    size_t size;         /**< sizeof(struct stance_comm_ops) */
    size_t state_size;   /**< zeroed bytes that the core keeps */
    size_t request_size; /**< bytes of one reduction under way, which the core keeps, zeroed */
    bool   host_memory;  /**< start() takes host memory; else that of device_name */
    const char *device_name; /**< NULL with host_memory */

    /** Joins the other processes. @param timeout  s after which waiting for them fails; 0: never
     *  @return STANCE_ERR_UNSUPPORTED when this process was not started so that it can */
    stance_status (*open)(void *state, const void *config, double timeout, struct stance_error *err);
    /** Leaves them, once all have come here. Not called after abort. */
    void (*close)(void *state);
    /** Tells which of them this is. */
    void (*place)(const void *state, struct stance_comm_place *out);

    /** Starts a reduction over all processes, in place. @param type  F32, F64 or I64
     *  @param queue  of the device, behind whose work it begins; NULL: at once */
    stance_status (*start)(void *state, void *request, void *data, size_t n, enum stance_type type,
                           enum stance_comm_sum what, void *queue, struct stance_error *err);
    /** Moves reductions on that need the processor; may be called at any time after start.
     *  @return whether this one is complete. NULL: they move by themselves. */
    bool (*test)(void *state, void *request);
    /** Waits for the end of a reduction; the request may then be used again. */
    stance_status (*wait)(void *state, void *request, struct stance_error *err);

    /* The rest is over host memory, and complete on return. */

    /** Reduces in place; as start() and wait(). */
    stance_status (*all_reduce)(void *state, void *data, size_t n, enum stance_type type,
                                enum stance_comm_sum what, struct stance_error *err);
    /** Gives the bytes of process @p root to all. */
    stance_status (*broadcast)(void *state, void *data, size_t bytes, int32_t root, struct stance_error *err);
    /** @param all  [world][bytes], by rank */
    stance_status (*all_gather)(void *state, const void *mine, size_t bytes, void *all, struct stance_error *err);
    /** To rank 0. @param each  [world] bytes from each rank. @param all  one after the other by rank;
     *  rank 0 only, where it may begin with what is there: mine */
    stance_status (*gather)(void *state, const void *mine, const size_t *each, void *all, struct stance_error *err);
    /** Waits until all have come here. */
    stance_status (*barrier)(void *state, struct stance_error *err);
    /** Ends all processes with this exit status; does not return. */
    void (*abort)(void *state, int exit_status);
};

/** @} */

STANCE_END_DECLS
#endif
