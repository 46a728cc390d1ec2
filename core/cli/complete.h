/* SPDX-License-Identifier: Apache-2.0
 *
 * Words that may come next on a command line. */
#ifndef CLI_COMPLETE_H
#define CLI_COMPLETE_H

#include <stance/error.h>

/** Prints what the last of @p words, of a command line without its program, may become: first ":files",
 *  ":folders" or ":words", for what the shell adds of its own, then each word with a tab and its meaning.
 *  A word that is not finished ends in '=', ':' or '/'.
 *  @return STANCE_OK, also where nothing is known; STANCE_ERR_NOMEM */
stance_status stance_complete(int n, char *const *words, struct stance_error *err);

#endif
