/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_MODELS_STUB_H
#define TESTS_MODELS_STUB_H
#include <stance/plugin.h>
struct stub_weight { char name[700]; enum stance_role role; enum stance_type type; struct stance_shape shape; struct stance_init init; };
struct stance_builder {
    struct stub_weight *weight; int n_weights;
    struct stance_shape *value; int n_values;
    char scope[512]; size_t mark[32]; int depth;
    bool training; struct stance_error err;
    int convs; struct { char name[40]; struct stance_value v; } output[8]; int n_outputs;
    struct { char name[40]; struct stance_shape s; } input[8]; int n_inputs;
};
struct stance_builder *stub_new(void);
void stub_free(struct stance_builder *b);
#endif
