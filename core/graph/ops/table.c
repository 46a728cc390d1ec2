/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "graph/ops/table.h"

#include <stdlib.h>
#include <string.h>

static const struct stance_builtin table[] = {
#define ROW(name) { #name, &stance_op_##name },
    STANCE_BUILTIN_OPS(ROW)
#undef ROW
};

static int by_name(const void *name, const void *entry)
{
    return strcmp(name, ((const struct stance_builtin *)entry)->name);
}

const struct stance_op_ops *stance_builtin_op(const char *name)
{
    const struct stance_builtin *e =
        bsearch(name, table, sizeof table / sizeof *table, sizeof *table, by_name);

    return e != NULL ? e->ops : NULL;
}

const struct stance_builtin *stance_builtin_ops(int *count)
{
    *count = sizeof table / sizeof *table;
    return table;
}
