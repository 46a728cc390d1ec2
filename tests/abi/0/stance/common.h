/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  What every public header of stance needs: visibility, attributes and C++ guards. */
#ifndef STANCE_COMMON_H
#define STANCE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** @addtogroup common Common to all headers
 *  @{ */

/** Around the declarations of a header, for C++. */
#ifdef __cplusplus
#define STANCE_BEGIN_DECLS extern "C" {
#define STANCE_END_DECLS   } /**< the end of STANCE_BEGIN_DECLS */
#else
#define STANCE_BEGIN_DECLS
#define STANCE_END_DECLS /**< the end of STANCE_BEGIN_DECLS */
#endif

/** Part of the public interface. */
#define STANCE_API          __attribute__((visibility("default")))
/** Argument number @p f is a format of printf, @p a the first that it formats (0: a va_list). */
#define STANCE_PRINTF(f, a) __attribute__((format(printf, f, a)))
/** The result must be looked at. */
#define STANCE_MUST_CHECK   __attribute__((warn_unused_result))

/** @} */

#endif
