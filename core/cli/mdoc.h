/* SPDX-License-Identifier: Apache-2.0
 *
 * Pieces of man pages in mdoc(7), printed on standard output from the tables that the program itself
 * works with. doc/manual puts them between the prose of doc/man. */
#ifndef CLI_MDOC_H
#define CLI_MDOC_H

#include "cli/cli.h"

/** Prints @p text with what roff would take for its own escaped: for the middle of a line. */
void stance_mdoc_word(const char *text);
/** Prints @p text as lines of prose: a sentence ends with its line, a full stop is added at the end
 *  where punctuation is missing, the first letter is made a capital where the first word is plain. */
void stance_mdoc_text(const char *text);

/** From the title to SYNOPSIS, of `stance-VERB.1`. @param date  for .Dd */
void stance_mdoc_head(const struct stance_verb *verb, const char *date);
/** Lists of its options. */
void stance_mdoc_options(const struct stance_verb *verb);
/** The list of all verbs with their summaries, and the references to their pages. */
void stance_mdoc_verbs(void);
void stance_mdoc_see_also(void);
/** The environment variables. */
void stance_mdoc_environment(void);
/** The exit statuses. */
void stance_mdoc_statuses(void);

#endif
