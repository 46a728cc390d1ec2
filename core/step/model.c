/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "step/model.h"

stance_status stance_model_graph(const struct stance_model *m, int32_t batch, bool training,
                                 struct stance_graph **out, struct stance_error *err)
{
    struct stance_graph   *g;
    struct stance_builder *b;
    struct stance_value    image, features[STANCE_FEATURES_MAX] = { { 0 } }, outputs[STANCE_FEATURES_MAX] = { { 0 } };
    struct stance_value    loss = { 0 };
    int                    n_features = 0, n_outputs = 0;
    stance_status          status = stance_graph_new(m->registry, training, &g, err);

    if (status != STANCE_OK)
        return status;
    b     = stance_graph_builder(g);
    image = stance_input(b, "image", STANCE_TYPE_ANY,
                         stance_shape4(batch, 3, m->pose->input_size[1], m->pose->input_size[0]));
    stance_enter(b, "backbone");
    m->backbone.plugin->ops.backbone->build(b, m->backbone.config, image, features, &n_features);
    stance_leave(b);
    stance_enter(b, "keypoint_head");
    m->head.plugin->ops.head->build(b, m->head.config, m->pose, features, n_features, outputs, &n_outputs);
    stance_leave(b);
    if (training)
        loss = m->loss.plugin->ops.loss->build(b, m->loss.config, m->pose, outputs, n_outputs);
    status = stance_graph_status(g, err);
    if (status == STANCE_OK && training) {
        if (stance_graph_output(g, "loss") == 0)
            stance_output(b, "loss", loss);
        status = stance_graph_backward(g, loss, err);
    }
    if (status != STANCE_OK) {
        stance_graph_free(g);
        return status;
    }
    *out = g;
    return STANCE_OK;
}
