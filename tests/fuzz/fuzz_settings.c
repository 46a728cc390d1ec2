/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings of plugins and saved states of scalers: texts from a command line and from checkpoints.
 * Built with clang -fsanitize=fuzzer,address and -DSTANCE_FUZZ by hand; make check replays the
 * seeds below. */
#include "config.h"

#include "registry/instance.h"
#include "step/scaler.h"

#include <stance/alloc.h>

#include <stdlib.h>
#include <string.h>

struct config {
    double                 number;
    int64_t                whole;
    bool                   on;
    struct stance_list_f64 list;
    struct stance_text     text;
};

static const struct stance_param table[] = {
    STANCE_PARAM_F64(struct config, number, "1", 0, 10, "1", "a number"),
    STANCE_PARAM_I64(struct config, whole, "1", 0, 10, "steps", "a count"),
    STANCE_PARAM_BOOL(struct config, on, "true", "a switch"),
    STANCE_PARAM_LIST_F64(struct config, list, "[1, 2]", 0, 10, "1", "numbers"),
    STANCE_PARAM_TEXT(struct config, text, "", "a text"),
    STANCE_PARAM_END
};

static float scale(const void *state, const void *config)
{
    (void)state;
    (void)config;
    return 1;
}

static const struct stance_scaler_ops ops = {
    .size = sizeof ops, .state_size = sizeof(struct config), .state = table, .scale = scale,
};

static const struct stance_plugin plugin = {
    STANCE_PLUGIN_HEAD,
    .kind        = STANCE_KIND_SCALER,
    .name        = "x",
    .version     = "1",
    .license     = "Apache-2.0",
    .source      = "fuzz",
    .summary     = "fuzz",
    .params      = table,
    .config_size = sizeof(struct config),
    .ops.scaler  = &ops,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char                 *text = stance_calloc(size + 1, 1), *first, *second;
    struct stance_scaler *s;
    void                 *config;

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    if (stance_plugin_config_new(&plugin, &config, NULL) != STANCE_OK)
        abort();
    stance_plugin_config_set(&plugin, config, text, NULL);
    if (stance_scaler_new(&plugin, config, &s, NULL) != STANCE_OK)
        abort();
    /* What was taken up and saved is taken up again and saved as the same text. */
    if (stance_scaler_restore(s, text, NULL) == STANCE_OK && strncmp(text, "x:", 2) == 0
        && stance_scaler_save(s, &first, NULL) == STANCE_OK) {
        if (stance_scaler_restore(s, first, NULL) != STANCE_OK
            || stance_scaler_save(s, &second, NULL) != STANCE_OK || strcmp(first, second) != 0)
            abort();
        stance_free(first);
        stance_free(second);
    }
    stance_scaler_free(s);
    stance_plugin_config_free(config);
    stance_free(text);
    return 0;
}

#ifndef STANCE_FUZZ
int main(void)
{
    static const char *const seeds[] = {
        "x:number=1,whole=2,on=true,list=[1, 2],text=a",
        "x:number=1,whole=2,on=true,list=[],text=",
        "number=1,list=[1,2],on=false",
        "x:number=.nan",
        "list=[1,[2],3",
        "=",
        "a=b,",
        "x:",
        "x",
        "y:number=1",
        ",,,",
        "x:number=1,number=1",
        "x:list=]]]],number=1",
        "text=]a,b[=c",
    };

    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        LLVMFuzzerTestOneInput((const uint8_t *)seeds[i], strlen(seeds[i]));
    return 0;
}
#endif
