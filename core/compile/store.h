/* SPDX-License-Identifier: Apache-2.0
 *
 * What outlives a step: the flat masters, gradients and moments, the states (pending and committed),
 * the copies of weights that kernels read, and the control block. The programs of one model (training
 * and evaluation, whole and last batch) share a store. */
#ifndef COMPILE_STORE_H
#define COMPILE_STORE_H

#include "compile/device.h"
#include "graph/graph.h"

/** PARAM: trained; FROZEN: as loaded; STATE: wide states; COUNTER: I64 states. */
enum stance_bank { STANCE_BANK_PARAM, STANCE_BANK_FROZEN, STANCE_BANK_STATE, STANCE_BANK_COUNTER, STANCE_BANK_COUNT };

/** One tensor of a bank. */
struct stance_segment {
    char               *name;   /**< as in checkpoints */
    enum stance_bank    bank;
    enum stance_type    type;   /**< the policy's wide type, or I64 */
    struct stance_shape shape;
    struct stance_init  init;
    struct stance_form  form;   /**< the same for master, gradient and moments */
    size_t              offset; /**< bytes into the bank; a multiple of 64 */
};

/** A weight in the type and form of some kernel. */
struct stance_packed {
    size_t             segment;
    enum stance_type   type;
    struct stance_form form;
    void              *data;
};

struct stance_block { void *memory; size_t bytes; };

struct stance_store {
    const struct stance_device *device;
    struct stance_policy        policy;
    struct stance_segment      *segments;
    size_t                      n_segments, room_segments;
    bool                        laid_out; /**< forms and offsets are settled, memory is there */

    size_t bytes[STANCE_BANK_COUNT];
    void  *bank[STANCE_BANK_COUNT];      /**< masters; pending states */
    void  *committed[STANCE_BANK_COUNT]; /**< STATE and COUNTER only */
    void  *gradient;                     /**< of the size of bank PARAM; NULL without training */
    void  *slot[STANCE_SLOTS_MAX];       /**< the optimizer's arrays, likewise */
    int    n_slots;
    bool   averages;                     /**< set before the first program: keep moving averages of the masters */
    bool   averages_states;              /**< and of the wide states (running statistics) */
    void  *average[STANCE_BANK_COUNT];   /**< PARAM and STATE only, of the size of the bank; or NULL */

    struct stance_packed  *packed;
    size_t                 n_packed, room_packed;
    struct stance_block   *blocks; /**< the memory of the copies */
    size_t                 n_blocks, room_blocks;
    struct stance_control *control;
    void                  *arena; /**< of the activations; programs run one at a time */
    size_t                 arena_bytes;
};

stance_status stance_store_new(const struct stance_device *device, struct stance_policy policy,
                               struct stance_store **out, struct stance_error *err);
/** Accepts NULL. */
void stance_store_free(struct stance_store *s);

/** Number of the segment of this name, or -1. */
long stance_store_find(const struct stance_store *s, const char *name);

/** Adds the weights of a graph; those that are there already must agree in shape. Before layout, new
 *  ones are added; afterwards an unknown one is an error. */
stance_status stance_store_adopt(struct stance_store *s, const struct stance_graph *g, struct stance_error *err);

/** Settles offsets and takes the memory. @param slots  arrays of the optimizer; -1: evaluation only,
 *  no gradient either */
stance_status stance_store_lay_out(struct stance_store *s, int slots, struct stance_error *err);

/** Number of the packed copy of a segment in a type and form, added if there is none.
 *  @return false when memory is short */
bool stance_store_pack(struct stance_store *s, size_t segment, enum stance_type type,
                       const struct stance_form *form, size_t *out);

/** Takes memory for copies that have none yet. */
stance_status stance_store_take_packed(struct stance_store *s, struct stance_error *err);

/** Makes the arena at least that large. Programs must be bound after the last call. */
stance_status stance_store_take_arena(struct stance_store *s, size_t bytes, struct stance_error *err);

/** Which array of a segment. */
enum stance_array {
    STANCE_ARRAY_MASTER,    /**< master weight, or pending state */
    STANCE_ARRAY_COMMITTED, /**< state only */
    STANCE_ARRAY_GRADIENT,
    STANCE_ARRAY_SLOT,      /**< + number of the slot */
    STANCE_ARRAY_AVERAGE = STANCE_ARRAY_SLOT + STANCE_SLOTS_MAX /**< masters and wide states, where averaged */
};

/** The tensor of one array of a segment, in the device's form. */
struct stance_tensor stance_store_tensor(const struct stance_store *s, size_t segment, int array);

/** Copies a segment's array to or from plain host memory of @p type (F32, F64 or I64), converting. */
stance_status stance_store_read(const struct stance_store *s, size_t segment, int array,
                                enum stance_type type, void *to, struct stance_error *err);
stance_status stance_store_write(struct stance_store *s, size_t segment, int array,
                                 enum stance_type type, const void *from, struct stance_error *err);

/** Starts the averages at the masters and the committed states. No-op without averages. */
stance_status stance_store_begin_average(struct stance_store *s, struct stance_error *err);
/** Exchanges masters and committed states with their averages, for evaluation; done twice, nothing has changed.
 *  The arena is used: no program may be under way. No-op without averages. */
stance_status stance_store_exchange_average(struct stance_store *s, struct stance_error *err);

/** Fills every weight by its init rule from the seed: each tensor's numbers depend on (seed, name)
 *  only. Committed states follow. */
stance_status stance_store_initialise(struct stance_store *s, uint64_t seed, struct stance_error *err);

/** Trained scalars: sum over PARAM segments of their elements, without padding. */
size_t stance_store_parameters(const struct stance_store *s);

#endif
