/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/cli.h"
#include "cli/json.h"

#include <stance/alloc.h>

#include <math.h>
#include <string.h>

json_t *stance_json_text(const char *text)
{
    json_t *json;
    char   *copy;

    if (text == NULL)
        return json_null();
    json = json_string(text);
    if (json != NULL)
        return json;
    copy = stance_strdup(text);
    if (copy == NULL)
        return NULL;
    for (unsigned char *c = (unsigned char *)copy; *c != '\0'; c++)
        if (*c >= 0x80)
            *c = '?';
    json = json_string(copy);
    stance_free(copy);
    return json;
}

json_t *stance_json_finite(double v)
{
    return isfinite(v) ? json_real(v) : json_null();
}

int stance_json_print(json_t *root, struct stance_error *err)
{
    int failed = root == NULL
                 || json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) != 0;

    json_decref(root);
    if (failed) {
        STANCE_FAIL(err, root == NULL ? STANCE_ERR_NOMEM : STANCE_ERR_IO,
                    "JSON on standard output");
        return STANCE_FAILED;
    }
    putchar('\n');
    return 0;
}
