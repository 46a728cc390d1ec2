/* SPDX-License-Identifier: Apache-2.0
 *
 * What a person at a terminal sees while a run goes on: one line that is written over, or, where
 * the output is a file or a pipe, a line now and then. */
#ifndef TRAIN_PROGRESS_H
#define TRAIN_PROGRESS_H

#include <stance/log.h>
#include <stance/logger.h>

#include <stdio.h>

/** Filled by stance_meter_init(); the settings may be changed before the first event. The
 *  functions below lock the stream, so that any thread may call them. */
struct stance_meter {
    FILE   *out;       /**< borrowed; NULL: quiet */
    bool    terminal;  /**< write over one line */
    bool    colour;
    int     columns;
    double  interval;  /**< s between two plain lines, and between two redraws (terminal: 0.1) */
    int64_t every;     /**< plain lines also after this many steps; 0: by time alone */
    /* state */
    double  shown_at;
    int64_t shown_step;
    bool    started, open_line;
};

/** Looks at @p out (stderr): whether it is a terminal, its width, $NO_COLOR, $TERM. */
void stance_meter_init(struct stance_meter *m, FILE *out, bool quiet);

/** One finished step. Scalars "loss", "throughput" (images/s) and "loss_scale" of the event are
 *  shown.
 *  @param now  s on any clock that does not go back */
void stance_meter_step(struct stance_meter *m, const struct stance_event *e, double now);

/** A line that stays, e.g. the result of an evaluation. */
void stance_meter_say(struct stance_meter *m, const char *text);

/** Ends the line that is written over, if one is on the terminal: before anything else is printed
 *  there. */
void stance_meter_close_line(struct stance_meter *m);

/** For stance_log_set_sink(): a warning begins on a line of its own. @param meter  a struct
 *  stance_meter; a quiet one shows warnings too, on stderr. */
void stance_meter_log(void *meter, enum stance_log_level level, const char *module,
                      const char *text);

#endif
