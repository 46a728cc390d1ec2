/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for people: as wide as their terminal. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stance/common.h>

enum { STANCE_COLUMNS_HELP = 80 /* of help that goes to no terminal */ };

/** Columns of standard output: those of its terminal; else $COLUMNS; else 0, which means that lines
 *  are not broken (a pipe into grep). */
int stance_columns(void);

/** Prints @p text on standard output, from column @p at on, broken at blanks so that no line is longer
 *  than @p columns (0: not broken); further lines begin in column @p indent. No newline at the end. */
void stance_print_wrapped(const char *text, int at, int indent, int columns);

/** Prints blanks up to column @p to from column @p at; at least one. */
void stance_print_pad(int at, int to);

#endif
