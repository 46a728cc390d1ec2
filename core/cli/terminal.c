/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/environment.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { NARROWEST = 20 };

int stance_columns(void)
{
    struct winsize size;
    const char    *text;
    long           n;

    if (isatty(STDOUT_FILENO))
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= NARROWEST
                   ? size.ws_col
                   : STANCE_COLUMNS_HELP;
    text = stance_env(STANCE_ENV_COLUMNS);
    n    = text != NULL ? strtol(text, NULL, 10) : 0;
    return n >= NARROWEST && n <= 10000 ? (int)n : 0;
}

void stance_print_pad(int at, int to)
{
    printf("%*s", to > at ? to - at : 1, "");
}

void stance_print_wrapped(const char *text, int at, int indent, int columns)
{
    bool fresh = true; /* nothing of the text stands in this line yet */

    if (columns > 0 && indent > columns - NARROWEST)
        indent = columns > 2 * NARROWEST ? columns - NARROWEST : 2;
    while (*text != '\0') {
        int len = (int)strcspn(text, " ");

        if (columns > 0 && at + !fresh + len > columns && (!fresh || at > indent)) {
            printf("\n%*s", indent, "");
            at    = indent;
            fresh = true;
        }
        printf("%s%.*s", fresh ? "" : " ", len, text);
        at += !fresh + len;
        fresh = false;
        text += len;
        text += strspn(text, " ");
    }
}
