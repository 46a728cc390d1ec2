/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading and skipping a text must come to the same verdict. */
#include "replay.h"

#include "io/json.h"

static const struct seed seeds[] = {
    SEED("{\"a\": [1, -2.5e3, true, null], \"b\\u00e9\\n\": {\"c\": \"\xe2\x82\xac\"}}"),
    SEED("[12345678901234567890, 0.1, 1e400, \"\\ud83d\\ude00\", [], {}]"),
};

static unsigned long seen; /* so that no read is optimised away */

static void walk(struct stance_json *r)
{
    struct stance_json_text   text;
    struct stance_json_number n;

    switch (stance_json_peek(r)) {
    case STANCE_JSON_NULL: stance_json_null(r); break;
    case STANCE_JSON_BOOL: seen += stance_json_bool(r); break;
    case STANCE_JSON_NUMBER:
        if (stance_json_number(r, &n))
            seen += n.integer;
        break;
    case STANCE_JSON_STRING:
        text = stance_json_string(r);
        for (size_t i = 0; i < text.len; i++)
            seen += (unsigned char)text.s[i];
        break;
    case STANCE_JSON_ARRAY:
        for (stance_json_array(r); stance_json_next_item(r);)
            walk(r);
        break;
    case STANCE_JSON_OBJECT:
        for (stance_json_object(r); stance_json_next_key(r, &text);) {
            seen += text.len > 0 ? (unsigned char)text.s[text.len - 1] : 0;
            walk(r);
        }
        break;
    case STANCE_JSON_NONE: break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stance_error err = STANCE_ERROR_INIT;
    struct stance_json *r;
    stance_status       status[2];

    for (int i = 0; i < 2; i++) {
        if (stance_json_open_memory(data, size, "fuzz", &r, &err) != STANCE_OK)
            return 0;
        if (i == 0)
            walk(r);
        else
            stance_json_skip(r);
        status[i] = stance_json_finish(r, &err);
        stance_json_close(r);
    }
    /* A number beyond binary64 is an error only where it is read. */
    if (status[0] != status[1] && status[0] != STANCE_ERR_RANGE)
        abort();
    return 0;
}

REPLAY_MAIN(seeds)
