/* SPDX-License-Identifier: Apache-2.0
 *
 * The globals a weight file may name. */
#ifndef IO_PICKLE_GLOBALS_H
#define IO_PICKLE_GLOBALS_H

#include "io/pickle.h"

enum {
    STANCE_GLOBAL_DICT, STANCE_GLOBAL_TENSOR, STANCE_GLOBAL_PARAMETER, STANCE_GLOBAL_SIZE,
    STANCE_GLOBAL_INERT,  /**< "calling" it makes a value that nobody looks at */
    STANCE_GLOBAL_STORAGE /**< this plus the type of the elements */
};

/** -1 when it is not on the list. */
int stance_pickle_global(struct stance_pickle_text module, struct stance_pickle_text name);
bool stance_pickle_is_storage(int global);
enum stance_dtype stance_pickle_storage_type(int global);

#endif
