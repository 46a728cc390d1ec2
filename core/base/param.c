/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stance/param.h>

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct stance_param *stance_param_find(const struct stance_param *table, const char *name)
{
    for (const struct stance_param *p = table; p != NULL && p->name != NULL; p++)
        if (strcmp(p->name, name) == 0)
            return p;
    return NULL;
}

static stance_status out_of_range(const struct stance_param *p, const char *text,
                                  struct stance_error *err)
{
    return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: %s is outside [%.10g, %.10g]%s%s", p->name, text,
                       p->min, p->max, strcmp(p->unit, "1") != 0 ? " " : "",
                       strcmp(p->unit, "1") != 0 ? p->unit : "");
}

static stance_status parse_bool(const struct stance_param *p, bool *at, const char *text,
                                struct stance_error *err)
{
    /* YAML 1.2 core schema: these two words are the booleans; Python's spelling is taken too. */
    if (strcmp(text, "true") == 0 || strcmp(text, "True") == 0)
        *at = true;
    else if (strcmp(text, "false") == 0 || strcmp(text, "False") == 0)
        *at = false;
    else
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is neither true nor false", p->name, text);
    return STANCE_OK;
}

static stance_status parse_i64(const struct stance_param *p, int64_t *at, const char *text,
                               struct stance_error *err)
{
    char     *end;
    long long v;

    errno = 0;
    v     = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        /* 1e3 and 512. are integers to those who write recipes. */
        double d = strtod(text, &end);

        if (end == text || *end != '\0' || d != floor(d) || fabs(d) > 9e15)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not an integer", p->name, text);
        v     = (long long)d;
        errno = 0;
    }
    if (errno == ERANGE || (double)v < p->min || (double)v > p->max)
        return out_of_range(p, text, err);
    *at = v;
    return STANCE_OK;
}

static stance_status parse_f64(const struct stance_param *p, double *at, const char *text,
                               struct stance_error *err)
{
    double v;

    if (!stance_text_f64(text, &v))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not a number", p->name, text);
    /* Written so that a NaN, which compares false with everything, is refused. */
    if (!(v >= p->min && v <= p->max))
        return out_of_range(p, text, err);
    *at = v;
    return STANCE_OK;
}

static stance_status parse_enum(const struct stance_param *p, int *at, const char *text,
                                struct stance_error *err)
{
    char   known[256] = "";
    size_t used       = 0;

    for (int i = 0; p->choices[i] != NULL; i++) {
        if (strcmp(text, p->choices[i]) == 0) {
            *at = i;
            return STANCE_OK;
        }
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                     p->choices[i]);
    }
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not one of %s", p->name, text, known);
}

/* Calls one for each element of "[a, b]" or "a,b"; an empty list has none. */
static stance_status each_element(const struct stance_param *p, const char *text, void *list,
                                  stance_status (*one)(const struct stance_param *, void *, int,
                                                       const char *, struct stance_error *),
                                  int32_t *count, struct stance_error *err)
{
    const char *c = text + strspn(text, " ");
    bool        bracket = *c == '[';
    int32_t     n = 0;

    c += bracket;
    c += strspn(c, " ");
    while (*c != '\0' && *c != ']') {
        char          word[64];
        size_t        len = strcspn(c, ",] ");
        stance_status status;

        if (len == 0 || len >= sizeof word)
            return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: '%s' is not a list", p->name, text);
        if (n == STANCE_LIST_MAX)
            return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: more than %d elements", p->name, STANCE_LIST_MAX);
        memcpy(word, c, len);
        word[len] = '\0';
        status = one(p, list, n, word, err);
        if (status != STANCE_OK)
            return status;
        n++;
        c += len;
        c += strspn(c, " ");
        if (*c == ',')
            c += 1 + strspn(c + 1, " ");
    }
    if (bracket != (*c == ']') || (bracket && c[1 + strspn(c + 1, " ")] != '\0'))
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: brackets of '%s' do not match", p->name, text);
    *count = n;
    return STANCE_OK;
}

static stance_status one_i64(const struct stance_param *p, void *list, int i, const char *text,
                             struct stance_error *err)
{
    return parse_i64(p, &((struct stance_list_i64 *)list)->v[i], text, err);
}

static stance_status one_f64(const struct stance_param *p, void *list, int i, const char *text,
                             struct stance_error *err)
{
    return parse_f64(p, &((struct stance_list_f64 *)list)->v[i], text, err);
}

static bool is_null(const char *text)
{
    return strcmp(text, "null") == 0 || strcmp(text, "~") == 0 || strcmp(text, "None") == 0;
}

static stance_status parse(const struct stance_param *p, void *config, const char *text,
                           struct stance_error *err)
{
    void *at = (char *)config + p->offset;

    switch (p->type) {
    case STANCE_PARAM_TYPE_BOOL: return parse_bool(p, at, text, err);
    case STANCE_PARAM_TYPE_ENUM: return parse_enum(p, at, text, err);
    case STANCE_PARAM_TYPE_I64:
        if ((p->flags & STANCE_PARAM_NULLABLE) && is_null(text)) {
            *(int64_t *)at = INT64_MIN;
            return STANCE_OK;
        }
        return parse_i64(p, at, text, err);
    case STANCE_PARAM_TYPE_F64:
        if ((p->flags & STANCE_PARAM_NULLABLE) && is_null(text)) {
            *(double *)at = NAN;
            return STANCE_OK;
        }
        return parse_f64(p, at, text, err);
    case STANCE_PARAM_TYPE_TEXT:
        if (strlen(text) >= STANCE_TEXT_MAX)
            return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: longer than %d bytes", p->name, STANCE_TEXT_MAX - 1);
        memset(at, 0, STANCE_TEXT_MAX);
        strcpy(at, text);
        return STANCE_OK;
    case STANCE_PARAM_TYPE_LIST_I64: {
        struct stance_list_i64 list = { 0 };
        stance_status status = each_element(p, text, &list, one_i64, &list.n, err);

        if (status == STANCE_OK)
            *(struct stance_list_i64 *)at = list;
        return status;
    }
    case STANCE_PARAM_TYPE_LIST_F64: {
        struct stance_list_f64 list = { 0 };
        stance_status status = each_element(p, text, &list, one_f64, &list.n, err);

        if (status == STANCE_OK)
            *(struct stance_list_f64 *)at = list;
        return status;
    }
    }
    return STANCE_FAIL(err, STANCE_ERR_ABI, "%s: parameter type %d is unknown", p->name, (int)p->type);
}

stance_status stance_param_defaults(const struct stance_param *table, void *config,
                                    struct stance_error *err)
{
    for (const struct stance_param *p = table; p != NULL && p->name != NULL; p++) {
        stance_status status = parse(p, config, p->dflt, err);

        if (status != STANCE_OK)
            return stance_error_prefix(err, status, "default");
    }
    return STANCE_OK;
}

stance_status stance_param_set(const struct stance_param *table, void *config, const char *name,
                               const char *text, struct stance_error *err)
{
    const struct stance_param *p    = stance_param_find(table, name);
    const char                *near = NULL;
    int                        best = 3; /* further away is another word, not a slip */

    if (p != NULL)
        return parse(p, config, text, err);
    for (p = table; p != NULL && p->name != NULL; p++) {
        int d = stance_text_distance(name, p->name);

        if (d < best) {
            best = d;
            near = p->name;
        }
    }
    if (near != NULL)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown key; did you mean '%s'?", name, near);
    return STANCE_FAIL(err, STANCE_ERR_INVAL, "%s: unknown key", name);
}

/* Appends to a fixed buffer; used counts on past the end, so that the caller sees a lack of room. */
static void put(char *text, size_t size, size_t *used, const char *piece)
{
    size_t len = strlen(piece);

    if (*used + len < size)
        memcpy(text + *used, piece, len + 1);
    *used += len;
}

bool stance_param_text(const struct stance_param *p, const void *config, char *text, size_t size)
{
    const void *at   = (const char *)config + p->offset;
    size_t      used = 0;
    char        word[64];

    if (size == 0)
        return false;
    text[0] = '\0';
    switch (p->type) {
    case STANCE_PARAM_TYPE_BOOL: put(text, size, &used, *(const bool *)at ? "true" : "false"); break;
    case STANCE_PARAM_TYPE_ENUM: put(text, size, &used, p->choices[*(const int *)at]); break;
    case STANCE_PARAM_TYPE_TEXT: put(text, size, &used, ((const struct stance_text *)at)->s); break;
    case STANCE_PARAM_TYPE_I64:
        if ((p->flags & STANCE_PARAM_NULLABLE) && *(const int64_t *)at == INT64_MIN)
            strcpy(word, "null");
        else
            snprintf(word, sizeof word, "%" PRId64, *(const int64_t *)at);
        put(text, size, &used, word);
        break;
    case STANCE_PARAM_TYPE_F64:
        if ((p->flags & STANCE_PARAM_NULLABLE) && isnan(*(const double *)at))
            strcpy(word, "null");
        else
            stance_text_of_f64(*(const double *)at, word, sizeof word);
        put(text, size, &used, word);
        break;
    case STANCE_PARAM_TYPE_LIST_I64:
    case STANCE_PARAM_TYPE_LIST_F64: {
        const struct stance_list_i64 *a = at;
        const struct stance_list_f64 *b = at;
        int32_t n = p->type == STANCE_PARAM_TYPE_LIST_I64 ? a->n : b->n;

        put(text, size, &used, "[");
        for (int32_t i = 0; i < n; i++) {
            if (p->type == STANCE_PARAM_TYPE_LIST_I64)
                snprintf(word, sizeof word, "%" PRId64, a->v[i]);
            else
                stance_text_of_f64(b->v[i], word, sizeof word);
            put(text, size, &used, i > 0 ? ", " : "");
            put(text, size, &used, word);
        }
        put(text, size, &used, "]");
        break;
    }
    }
    return used < size;
}
