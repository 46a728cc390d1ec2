/* SPDX-License-Identifier: Apache-2.0
 *
 * stance convert: a weight file of PyTorch as safetensors. */
#include "config.h"

#include "cli/cli.h"
#include "io/tensors.h"

#include <stdio.h>

static int run(const struct stance_command *c, struct stance_error *err)
{
    struct stance_converted r;

    if (stance_tensors_convert(c->args[0], c->args[1], &r, err) != STANCE_OK)
        return STANCE_FAILED;
    printf("%s: %zu tensors%s\n", c->args[1], r.tensors, r.stripped ? ", 'module.' taken off their names" : "");
    return 0;
}

const struct stance_verb stance_verb_convert = {
    .name = "convert", .summary = "Turn a .pth, .pt or .safetensors file into safetensors", .arguments = "IN OUT",
    .min_args = 2, .max_args = 2, .run = run,
};
