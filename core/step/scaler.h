/* SPDX-License-Identifier: Apache-2.0
 *
 * A loss scaler in use, and the count of windows that were skipped. */
#ifndef STEP_SCALER_H
#define STEP_SCALER_H

#include <stance/registry.h>

struct stance_scaler;

/** A scaler in its first state.
 *  @param plugin  of kind scaler; the registry outlives the scaler
 *  @param config  its config struct, which is copied
 *  @param[out] out  the caller's, for stance_scaler_free() */
stance_status stance_scaler_new(const struct stance_plugin *plugin, const void *config,
                                struct stance_scaler **out, struct stance_error *err);
/** The same from text: "dynamic:growth_interval=500" (see registry/instance.h). */
stance_status stance_scaler_from(struct stance_registry *reg, const char *spec,
                                 struct stance_scaler **out, struct stance_error *err);
/** Accepts NULL. */
void stance_scaler_free(struct stance_scaler *s);

const char *stance_scaler_name(const struct stance_scaler *s);
/** Whether it wants STANCE_WANT_... of an outcome. */
bool stance_scaler_wants(const struct stance_scaler *s, uint32_t want);

/** Factor of the coming window, finite and > 0.
 *  @return STANCE_OK; STANCE_ERR_DIVERGED when the plugin gives 0 (dynamic without a floor can);
 *          STANCE_ERR_PLUGIN when it gives something negative or not finite. *out is then
 *  unchanged. */
stance_status stance_scaler_scale(const struct stance_scaler *s, float *out,
                                  struct stance_error *err);

/** Tells the scaler what came of a window; outcome->size is set here. */
void stance_scaler_update(struct stance_scaler *s, const struct stance_outcome *outcome);

/** The whole state as one text, "dynamic:scale=65536,growth_tracker=3,...", for checkpoints and for
 *  the comparison of ranks: equal states give equal texts. @param[out] text  the caller's, for
 *  stance_free() */
stance_status stance_scaler_save(const struct stance_scaler *s, char **text,
                                 struct stance_error *err);

/** Takes up a saved state. Settings that are part of it win over those of the recipe, with a
 *  warning where they differ. A state of another scaler is left alone with a warning: the scaler
 *  starts afresh.
 *  @return STANCE_OK; STANCE_ERR_FORMAT when a field is missing, unknown, doubled or illegal. The
 *  state is then unchanged. */
stance_status stance_scaler_restore(struct stance_scaler *s, const char *text,
                                    struct stance_error *err);

/** Skipped windows in a row that end a run unless the recipe says otherwise: 25, or as many as the
 *  scale needs to fall from init_scale to min_scale and 9 more, for the scalers that have these
 *  parameters. min_scale 0 counts as the smallest normal binary32. */
int64_t stance_scaler_skip_limit(const struct stance_scaler *s);

/** The windows a run has skipped. Zero-initialise, set limit. */
struct stance_skips {
    int64_t limit; /**< in a row; 0: none */
    int64_t in_a_row, total;
    int64_t bad_losses; /**< windows that were applied though their loss was not finite */
};

/** Looks at the loss of an applied window. It decides nothing, as in GradScaler: gradients may be finite where the
 *  loss is not. Counted, and told in a warning the 1st, 2nd, 4th, 8th ... time.
 *  @param window  number of the window, from 0 */
void stance_skips_loss(struct stance_skips *k, double loss, uint64_t window);

/** Counts one window.
 *  @param tensor  name of the first tensor with a non-finite gradient; NULL: not known
 *  @return STANCE_OK, or STANCE_ERR_DIVERGED when the limit is reached. */
stance_status stance_skips_count(struct stance_skips *k, bool skipped, const char *tensor,
                                 float scale, struct stance_error *err);

#endif
