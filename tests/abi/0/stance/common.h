/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  What every public header of stance needs: visibility, attributes and C++ guards. */
#ifndef STANCE_COMMON_H
#define STANCE_COMMON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define STANCE_BEGIN_DECLS extern "C" {
#define STANCE_END_DECLS   }
#else
#define STANCE_BEGIN_DECLS
#define STANCE_END_DECLS
#endif

#define STANCE_API          __attribute__((visibility("default")))
#define STANCE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define STANCE_MUST_CHECK   __attribute__((warn_unused_result))

#endif
