/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of a run: a comm plugin in use, and how they come to one mind. */
#ifndef STEP_COMM_H
#define STEP_COMM_H

#include <stance/comm.h>
#include <stance/registry.h>

struct stance_comm {
    const struct stance_plugin   *plugin;
    const struct stance_comm_ops *ops;
    void                         *state, *config;
    struct stance_comm_place      place;
    /** The failure at hand is known to all processes, which therefore end by themselves; it is `culprit`'s
     *  to tell. Else the others must be ended: stance_comm_abort(). */
    bool    agreed;
    int32_t culprit;
};

/** Opens a comm plugin. @param world  processes that the launcher speaks of; another number is an error
 *  @param timeout  s; 0: none */
stance_status stance_comm_open(struct stance_registry *registry, const char *name, int32_t world, double timeout,
                               struct stance_comm **out, struct stance_error *err);
/** Accepts NULL. Waits for the other processes, unless a failure is known to this one alone. */
void stance_comm_close(struct stance_comm *c);
/** Ends all processes. */
void stance_comm_abort(struct stance_comm *c, int exit_status);

static inline int32_t stance_comm_rank(const struct stance_comm *c)
{
    return c != NULL ? c->place.rank : 0;
}

/** Brings the outcome of something that every process has done to all of them; c NULL: nothing to do.
 *  @return @p status, or else that of the first process that failed, with its text behind its rank in
 *          @p err; what cannot be exchanged is a failure too */
stance_status stance_comm_agree(struct stance_comm *c, stance_status status, struct stance_error *err);

/** A failure that every process finds for itself: rank 0 is to tell it. @return @p status */
stance_status stance_comm_common(struct stance_comm *c, stance_status status);

/** Something that must be the same everywhere. */
struct stance_comm_item { const char *what; uint64_t hash; };

/** Compares with rank 0. @return STANCE_ERR_INVAL, on all, naming the first thing that differs and its rank */
stance_status stance_comm_same(struct stance_comm *c, const struct stance_comm_item *item, int n, struct stance_error *err);

/** Goes on with a hash over more bytes; begins with 0. */
uint64_t stance_comm_hash(uint64_t h, const void *data, size_t bytes);

/** Processor cores for this process: those it may run on, divided by the processes of this machine that
 *  may run on them too. */
stance_status stance_comm_cores(struct stance_comm *c, int *cores, struct stance_error *err);

#endif
