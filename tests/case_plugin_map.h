/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts the stand-in header of ../shared/cases/plugin onto the real one: given to the compiler by
 * -include, with CASE_PLUGIN_H defined, so that the stand-in is empty. CASE_NAME is the name as a
 * word. A device, because that kind has something to start. */
#include <stance/device.h>

#define CASE_ABI STANCE_PLUGIN_ABI

static int (*case_start)(void);

static stance_status case_open(void *state, const void *config, int threads,
                               struct stance_error *err)
{
    int code = case_start();

    (void)state;
    (void)config;
    (void)threads;
    if (code == 0)
        return STANCE_OK;
    /* Not stance_fail(): these plugins are linked with nothing. */
    err->status = STANCE_ERR_DEVICE;
    for (const char *from = "start returned ", *end = from + 15; from < end; from++)
        err->text[15 - (end - from)] = *from;
    err->text[15] = (char)('0' + code % 10);
    err->text[16] = '\0';
    return STANCE_ERR_DEVICE;
}

static void case_close(void *state)
{
    (void)state;
}

static stance_status case_alloc(void *state, size_t bytes, void **out, struct stance_error *err)
{
    (void)state; (void)bytes; (void)out; (void)err;
    return STANCE_ERR_NOMEM;
}

static void case_release(void *state, void *memory, size_t bytes)
{
    (void)state; (void)memory; (void)bytes;
}

static stance_status case_reorder(void *state, const struct stance_tensor *to,
                                  const struct stance_tensor *from, struct stance_error *err)
{
    (void)state; (void)to; (void)from; (void)err;
    return STANCE_ERR_UNSUPPORTED;
}

#define CASE_DEFINE_(name) STANCE_PLUGIN(device, name)
#define CASE_DEFINE(name)  CASE_DEFINE_(name)
#define CASE_PLUGIN(abi_, name_, init_)                                                           \
    static int (*case_start)(void) = init_;                                                       \
    static const struct stance_device_ops case_ops = {                                            \
        .size = sizeof case_ops, .open = case_open, .close = case_close,                          \
        .alloc = case_alloc, .release = case_release, .reorder = case_reorder };                  \
    CASE_DEFINE(CASE_NAME) = {                                                                    \
        .abi = (abi_), .unstable_abi = STANCE_UNSTABLE_ABI, .size = sizeof(struct stance_plugin), \
        .kind = STANCE_KIND_DEVICE, .name = (name_), .version = "1", .license = "Apache-2.0",     \
        .source = "a case", .summary = "a case", .ops.device = &case_ops }
