/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a micro-batch stops being finite, and where its gradients lie: it is run once more, launch by
 * launch, and every tensor is looked at right after it is made. Pending states, gradients and control
 * block are put back afterwards, and what is left in the arena is what was there: a run with diagnosis
 * and one without have the same bytes. */
#ifndef STEP_DIAGNOSE_H
#define STEP_DIAGNOSE_H

#include "compile/program.h"
#include "step/exponents.h"

/** The first tensor of a pass that is not finite throughout. */
struct stance_finding {
    bool                found;
    char                where[400]; /**< "backbone.layer1.0.conv1 conv2d" */
    enum stance_type    type;
    struct stance_shape shape;
    int64_t             elements, nan, inf;
    double              min, max; /**< over the finite elements; NaN if there is none */
};

struct stance_diagnosis {
    struct stance_finding forward, backward;
    float                 scale;
    int64_t               micro;            /**< of its window, from 0 */
    double                largest;          /**< finite magnitude of the forward pass */
    char                  largest_in[400];  /**< where that is; "": nowhere */
};

/** Runs the program's micro-batch again on the inputs and weights as they are.
 *  @param findings   filled; may be NULL
 *  @param exponents  gradients of activations, divided by @p scale, are added; may be NULL
 *  @return STANCE_OK; STANCE_ERR_NOMEM and STANCE_ERR_UNSUPPORTED (a tensor cannot be brought to the
 *          host): what is looked for is then incomplete, the run may go on; STANCE_ERR_DEVICE */
stance_status stance_diagnose(struct stance_store *store, struct stance_program *p, bool accumulate,
                              struct stance_diagnosis *findings, struct stance_exponents *exponents, float scale,
                              struct stance_error *err);

/** Adds the flat gradients, divided by @p scale. */
stance_status stance_diagnose_weights(const struct stance_store *store, float scale, struct stance_exponents *exponents,
                                      struct stance_error *err);

/** One sentence about a pass. @param backward  which */
void stance_diagnosis_text(const struct stance_diagnosis *d, bool backward, char *text, size_t size);

/** The first of both passes, for the message that ends a run. @return false if nothing was found */
bool stance_diagnosis_first(const struct stance_diagnosis *d, char *text, size_t size);

#endif
