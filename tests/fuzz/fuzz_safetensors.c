/* SPDX-License-Identifier: Apache-2.0
 *
 * What opens can be read to its last element. */
#include "replay.h"

#include "io/safetensors.h"

static const struct seed seeds[] = {
    SEED("\x97\0\0\0\0\0\0\0"
         "{\"__metadata__\":{\"k\":\"v\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[8,10]}}                         "
         "0123456789"),
};

static double seen;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stance_error        err = STANCE_ERROR_INIT;
    struct stance_safetensors *s;

    if (stance_safetensors_open_memory(data, size, "fuzz", &s, &err) != STANCE_OK)
        return 0;
    for (size_t i = 0; i < stance_safetensors_count(s); i++) {
        const struct stance_entry *e = stance_safetensors_at(s, i);

        if (stance_safetensors_find(s, e->name) != e)
            abort();
        for (size_t j = 0; j < stance_entry_elements(e); j++) {
            double v;

            stance_entry_f64(e, j, 1, &v);
            seen += v;
        }
    }
    stance_safetensors_close(s);
    return 0;
}

REPLAY_MAIN(seeds)
