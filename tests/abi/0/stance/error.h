/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Status codes, and the error object that carries the sentence behind one. */
#ifndef STANCE_ERROR_H
#define STANCE_ERROR_H

#include <stance/common.h>

STANCE_BEGIN_DECLS

/** @addtogroup error Failures
 *  @{ */

/** Every status with its meaning and the exit status of the program that ends with it: the one
 *  list, so that the enum, stance_status_string() and stance_exit_status() cannot drift apart.
 *  Append only: the numbers are ABI. */
#define STANCE_STATUS_MAP(X)                                                  \
    X(NOMEM, 1, "out of memory")                                              \
    X(INVAL, 2, "invalid argument")                                           \
    X(RANGE, 2, "value out of range")                                         \
    X(SHAPE, 2, "tensor shapes do not agree")                                 \
    X(FORMAT, 2, "file is damaged or not of the expected format")             \
    X(INPUT, 2, "an input file cannot be read")                               \
    X(NOENT, 3, "no such plugin, device or op")                               \
    X(ABI, 3, "plugin built for another version of stance")                   \
    X(PLUGIN, 3, "plugin could not be opened or is malformed")                \
    X(UNSUPPORTED, 3, "the device or plugin cannot do this")                  \
    X(DEVICE, 1, "the device library reported a failure")                     \
    X(IO, 1, "writing failed")                                                \
    X(DIVERGED, 4, "training diverged")                                       \
    X(INTERRUPTED, 1, "stopped by a signal")                                  \
    X(INTERNAL, 1, "an error in stance itself")

/** What a call came to: STANCE_OK (0), or STANCE_ERR_x for each x of STANCE_STATUS_MAP. */
typedef enum stance_status {
    STANCE_OK, /**< done */
#define STANCE_STATUS_ENUM(id, exit, text) STANCE_ERR_##id, /**< makes the enumerators */
    STANCE_STATUS_MAP(STANCE_STATUS_ENUM)
#undef STANCE_STATUS_ENUM
    STANCE_STATUS_COUNT /**< moves when a status is appended */
} stance_status;

/** The sentence behind a failure. It lives on the caller's stack and holds its text inline, so
 *  that reporting "out of memory" allocates nothing, and two threads never share one. */
struct stance_error {
    stance_status status; /**< STANCE_OK until something fails */
    const char   *file; /**< where in stance the failure was first noticed */
    int           line;       /**< in that file */
    char          text[1000]; /**< the sentence, without a full stop; cut where it is longer */
};

/** Initialiser of an error object: nothing has failed. */
#define STANCE_ERROR_INIT { .status = STANCE_OK, .text = "" }

/** Meaning of a status, e.g. "out of memory"; never NULL, safe in any thread. */
STANCE_API const char *stance_status_string(stance_status status);

/** Exit status of a program that ends with @p status: 0 done, 1 failed at run time, 2 input
 *  wrong, 3 a plugin or device is missing, 4 diverged. */
STANCE_API int stance_exit_status(stance_status status);

/** Records a failure where it is first noticed and returns @p status, so that one line both
 *  reports and leaves: `return STANCE_FAIL(err, STANCE_ERR_RANGE, "...", ...)`.
 *  @param err  may be NULL: the caller wants the status only. */
#define STANCE_FAIL(err, status, ...) \
    stance_fail((err), (status), __FILE__, __LINE__, __VA_ARGS__)

/** Behind STANCE_FAIL(), which adds the place.
 *  @param err  may be NULL.
 *  @param file  kept by address: a constant.
 *  @return @p status */
STANCE_API stance_status stance_fail(struct stance_error *err, stance_status status,
                                     const char *file, int line, const char *fmt, ...)
    STANCE_PRINTF(5, 6);

/** Puts context in front of a failure that came from below: "scaler 'dynamic': ...". Keeps the
 *  status and the place. @param err  may be NULL. @return @p status */
STANCE_API stance_status stance_error_prefix(struct stance_error *err, stance_status status,
                                             const char *fmt, ...) STANCE_PRINTF(3, 4);

/** @} */

STANCE_END_DECLS
#endif
