/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "config/tree.h"

#include <string.h>

/* Bytes of one UTF-8 character, 1 for a stray byte. */
static size_t character(const unsigned char *s, uint32_t *code)
{
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : s[0] >= 0xc0 ? 2 : 1;

    *code = n == 1 ? s[0] : s[0] & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            *code = s[0];
            return 1;
        }
        *code = *code << 6 | (s[i] & 0x3fu);
    }
    return n;
}

static void quoted(const char *text, struct stance_string *out)
{
    stance_string_add(out, "\"");
    for (const unsigned char *s = (const unsigned char *)text; *s != '\0';) {
        uint32_t code;
        size_t   n = character(s, &code);

        if (code == '"' || code == '\\')
            stance_string_add(out, "\\%c", (int)code);
        else if ((code >= 0x20 && code < 0x7f)
                 || (code >= 0xa0 && code < 0xfffe && n > 1 && code != 0x2028 && code != 0x2029
                     && code != 0xfeff)
                 || (code > 0xffff && n == 4))
            stance_string_add(out, "%.*s", (int)n, (const char *)s);
        else if (code < 0x100) /* control characters, and line breaks of YAML 1.1 */
            stance_string_add(out, "\\x%02X", (unsigned)code);
        else
            stance_string_add(out, "\\u%04X", (unsigned)code);
        s += n;
    }
    stance_string_add(out, "\"");
}

/* Words that no YAML reader takes for syntax, in a flow list either. */
static bool plain(const char *text)
{
    static const char after_sign[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    static const char inside[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-+";
    size_t sign = strchr("./-+", text[0]) != NULL; /* also the final zero */

    return text[0] != '\0' && text[sign] != '\0' && strchr(after_sign, text[sign]) != NULL
           && strspn(text, inside) == strlen(text);
}

static bool null_word(const char *text)
{
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0
           || strcmp(text, "Null") == 0 || strcmp(text, "NULL") == 0;
}

static void word(const struct stance_config_node *n, struct stance_string *out)
{
    if (n->kind == STANCE_CONFIG_NULL)
        stance_string_add(out, "%s", n->text[0] != '\0' ? n->text : "null");
    else if (!n->quoted && plain(n->text) && !null_word(n->text))
        stance_string_add(out, "%s", n->text);
    else
        quoted(n->text, out);
}

static void key(const char *text, struct stance_string *out)
{
    if (plain(text) && !null_word(text))
        stance_string_add(out, "%s", text);
    else
        quoted(text, out);
}

static void flow(const struct stance_config_node *n, struct stance_string *out)
{
    if (n->kind != STANCE_CONFIG_LIST && n->kind != STANCE_CONFIG_MAP) {
        word(n, out);
        return;
    }
    stance_string_add(out, n->kind == STANCE_CONFIG_LIST ? "[" : "{");
    for (size_t i = 0; i < n->count; i++) {
        stance_string_add(out, i > 0 ? ", " : "");
        if (n->kind == STANCE_CONFIG_MAP) {
            key(n->child[i]->key, out);
            stance_string_add(out, ": ");
        }
        flow(n->child[i], out);
    }
    stance_string_add(out, n->kind == STANCE_CONFIG_LIST ? "]" : "}");
}

static void origin(const struct stance_config_node *n, struct stance_string *out)
{
    char place[STANCE_CONFIG_PLACE_MAX];

    stance_config_place(n, place);
    for (char *c = place; *c != '\0'; c++) /* a comment ends with its line, and holds no controls */
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f)
            *c = '?';
    if (place[0] != '\0')
        stance_string_add(out, "  # %s", place);
}

static void block(const struct stance_config_node *map, int indent, bool origins,
                  struct stance_string *out)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct stance_config_node *n    = map->child[i];
        bool                             deep = n->kind == STANCE_CONFIG_MAP && n->count > 0;

        stance_string_add(out, "%*s", indent, "");
        key(n->key, out);
        stance_string_add(out, deep ? ":" : ": ");
        if (!deep) {
            flow(n, out);
            if (origins)
                origin(n, out);
        }
        stance_string_add(out, "\n");
        if (deep)
            block(n, indent + 2, origins, out);
    }
}

void stance_config_dump(const struct stance_config_node *node, bool origins,
                        struct stance_string *out)
{
    if (node->kind == STANCE_CONFIG_MAP && node->count > 0) {
        block(node, 0, origins, out);
        return;
    }
    flow(node, out);
    stance_string_add(out, "\n");
}
