/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 *  Parameter tables: how a plugin tells its settings to the recipe reader, to the command line,
 *  to `stance inspect` and to the man page, once. */
#ifndef STANCE_PARAM_H
#define STANCE_PARAM_H

#include <stance/error.h>

STANCE_BEGIN_DECLS

/** @addtogroup param Parameter tables
 *  @{ */

#define STANCE_TEXT_MAX 512 /**< bytes of a text parameter, with its final zero */
#define STANCE_LIST_MAX 64  /**< elements of a list parameter */

/** A text setting, held inline so that a config is one block without owners. */
struct stance_text {
    char s[STANCE_TEXT_MAX]; /**< zero-terminated */
};
/** A list of integers, held inline. */
struct stance_list_i64 {
    int32_t n;                  /**< elements in use */
    int64_t v[STANCE_LIST_MAX]; /**< the elements */
};
/** A list of numbers, held inline. */
struct stance_list_f64 {
    int32_t n;                  /**< elements in use */
    double  v[STANCE_LIST_MAX]; /**< the elements */
};

/** C type of a field, and the form of its text. */
enum stance_param_type {
    STANCE_PARAM_TYPE_BOOL,     /**< bool; "true" or "false" */
    STANCE_PARAM_TYPE_I64,      /**< int64_t */
    STANCE_PARAM_TYPE_F64,      /**< double */
    STANCE_PARAM_TYPE_ENUM,     /**< int: index into choices */
    STANCE_PARAM_TYPE_TEXT,     /**< struct stance_text */
    STANCE_PARAM_TYPE_LIST_I64, /**< struct stance_list_i64; text form "[1, 2]" or "1,2" */
    STANCE_PARAM_TYPE_LIST_F64  /**< struct stance_list_f64 */
};

/** Flags of a setting. */
enum {
    STANCE_PARAM_NULLABLE = 1 /**< a number may be "null": INT64_MIN, or NaN */
};

/** One setting. A table ends with an entry whose name is NULL. Made by the macros below, which give the
 *  offset from the field itself and leave what they do not name 0. */
struct stance_param {
    const char            *name;     /**< key in the recipe, lower_snake */
    enum stance_param_type type;     /**< of the field */
    uint32_t               flags;    /**< STANCE_PARAM_... */
    size_t                 offset;   /**< of the field in the config struct */
    const char            *dflt;     /**< parsed by the same code as the user's text */
    double                 min;      /**< smallest number, or element of a list */
    double                 max;      /**< largest one */
    const char *const     *choices;  /**< NULL-ended; enums only */
    const char            *unit;     /**< "px", "steps", "1" for pure numbers */
    const char            *doc;      /**< one line; cites the paper where it has one */
    const void            *more;     /**< NULL; room, because the elements of an array cannot grow */
};

/** Offset of a field. The _Generic makes a table that names a field of the wrong C type fail to compile, instead of
 * writing a double over an int at run time. */
#define STANCE_FIELD(T, field, ctype) _Generic(((T *)0)->field, ctype: offsetof(T, field))

/** Any row: also one that is called otherwise than its field. */
#define STANCE_PARAM_ROW(key, T, field_, ctype, type_, flags_, dflt_, min_, max_, choices_, unit_, doc_)     \
    { .name = (key), .type = (type_), .flags = (flags_), .offset = STANCE_FIELD(T, field_, ctype),         \
      .dflt = (dflt_), .min = (min_), .max = (max_), .choices = (choices_), .unit = (unit_), .doc = (doc_) }

/** A field of type bool. @param T  the config struct @param field  its field, and the key in the recipe
 *  @param dflt  default as text, as a user would write it @param doc  one line */
#define STANCE_PARAM_BOOL(T, field, dflt, doc) \
    STANCE_PARAM_ROW(#field, T, field, bool, STANCE_PARAM_TYPE_BOOL, 0, dflt, 0, 1, NULL, "", doc)
/** A field of type int64_t within [min, max]. @param unit  "px", "steps", "1" for pure numbers; the
 *  others as in STANCE_PARAM_BOOL() */
#define STANCE_PARAM_I64(T, field, dflt, min, max, unit, doc) \
    STANCE_PARAM_ROW(#field, T, field, int64_t, STANCE_PARAM_TYPE_I64, 0, dflt, min, max, NULL, unit, doc)
/** A field of type double within [min, max]. */
#define STANCE_PARAM_F64(T, field, dflt, min, max, unit, doc) \
    STANCE_PARAM_ROW(#field, T, field, double, STANCE_PARAM_TYPE_F64, 0, dflt, min, max, NULL, unit, doc)
/** As STANCE_PARAM_I64(); "null" is INT64_MIN. */
#define STANCE_PARAM_I64_OR_NULL(T, field, dflt, min, max, unit, doc) \
    STANCE_PARAM_ROW(#field, T, field, int64_t, STANCE_PARAM_TYPE_I64, STANCE_PARAM_NULLABLE, dflt, min, max, NULL, unit, doc)
/** As STANCE_PARAM_F64(); "null" is NaN. */
#define STANCE_PARAM_F64_OR_NULL(T, field, dflt, min, max, unit, doc) \
    STANCE_PARAM_ROW(#field, T, field, double, STANCE_PARAM_TYPE_F64, STANCE_PARAM_NULLABLE, dflt, min, max, NULL, unit, doc)
/** A field of type int: the index into @p choices, NULL-ended, whose words users write. */
#define STANCE_PARAM_ENUM(T, field, dflt, choices, doc) \
    STANCE_PARAM_ROW(#field, T, field, int, STANCE_PARAM_TYPE_ENUM, 0, dflt, 0, 0, choices, "", doc)
/** A field of type struct stance_text. */
#define STANCE_PARAM_TEXT(T, field, dflt, doc) \
    STANCE_PARAM_ROW(#field, T, field, struct stance_text, STANCE_PARAM_TYPE_TEXT, 0, dflt, 0, 0, NULL, "", doc)
/** A field of type struct stance_list_i64, each element within [min, max]. */
#define STANCE_PARAM_LIST_I64(T, field, dflt, min, max, unit, doc) \
    STANCE_PARAM_ROW(#field, T, field, struct stance_list_i64, STANCE_PARAM_TYPE_LIST_I64, 0, dflt, min, max, NULL, unit, doc)
/** A field of type struct stance_list_f64, each element within [min, max]. */
#define STANCE_PARAM_LIST_F64(T, field, dflt, min, max, unit, doc) \
    STANCE_PARAM_ROW(#field, T, field, struct stance_list_f64, STANCE_PARAM_TYPE_LIST_F64, 0, dflt, min, max, NULL, unit, doc)
/** Ends a table. */
#define STANCE_PARAM_END { .name = NULL }

/** Fills @p config with the defaults of @p table (NULL: nothing to set).
 *  @return STANCE_OK, or the status of the first default that does not parse. */
STANCE_API stance_status stance_param_defaults(const struct stance_param *table, void *config,
                                               struct stance_error *err);

/** Sets one field from text.
 *  @return STANCE_OK; STANCE_ERR_INVAL (no such name, with the nearest one offered; or not of the
 *          type); STANCE_ERR_RANGE (outside [min, max]). @p config is unchanged on failure. */
STANCE_API stance_status stance_param_set(const struct stance_param *table, void *config,
                                          const char *name, const char *text,
                                          struct stance_error *err);

/** Writes the value of one field as text that stance_param_set() reads back to the same value.
 *  @return false when @p size is too small. */
STANCE_API bool stance_param_text(const struct stance_param *p, const void *config, char *text,
                                  size_t size);

/** The entry called @p name, or NULL. */
STANCE_API const struct stance_param *stance_param_find(const struct stance_param *table,
                                                        const char *name);

/** @} */

STANCE_END_DECLS
#endif
