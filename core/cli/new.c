/* SPDX-License-Identifier: Apache-2.0
 *
 * stance new: a project for a plugin of one's own. It is the installed example of the kind, which the tests
 * build and train with, under another name. */
#include "config.h"

#include "base/text.h"
#include "cli/cli.h"

#include <stance/alloc.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROJECT  "stance-examples" /* what configure.ac calls the project */
#define NAME_MAX_ 64
#define FILE_MAX ((size_t)1 << 20)
enum { FILES_MAX = 32 };

static const struct stance_option options[] = {
    { .name = "dir", .kind = STANCE_OPTION_TEXT, .argument = "DIR", .doc = "the new folder (default: KIND_NAME)" },
    { .name = "from", .kind = STANCE_OPTION_TEXT, .argument = "DIR", .doc = "folder of examples (default: the installed one)" },
    { .name = NULL }
};
static const struct stance_option *const tables[] = { options, NULL };

struct project {
    const char *kind, *name, *from;
    char        word[NAME_MAX_];          /* name of the example */
    char        folder[4096];             /* under way: DIR.XXXXXX */
    char        made[FILES_MAX][200];     /* files in it */
    int         n_made;
};

/* ---- text ------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Adds text with a word exchanged, also where it is a part between underscores. */
static void add_exchanged(struct stance_string *out, const char *text, const char *word, const char *name)
{
    size_t len = strlen(word);

    for (const char *c = text, *hit; *c != '\0'; c = hit + len) {
        hit = strstr(c, word);
        if (hit == NULL) {
            stance_string_add(out, "%s", c);
            return;
        }
        stance_string_add(out, "%.*s", (int)(hit - c), c);
        if ((hit > text && is_letter(hit[-1])) || is_letter(hit[len]))
            stance_string_add(out, "%s", word);
        else
            stance_string_add(out, "%s", name);
    }
}

/* Makefile.am without the fragments of the other kinds. */
static void keep_own_fragment(char *text, const char *kind)
{
    char  mine[64];
    char *to = text;

    snprintf(mine, sizeof mine, "include %s.mk\n", kind);
    while (*text != '\0') {
        size_t len = strcspn(text, "\n") + (strchr(text, '\n') != NULL);

        if (strncmp(text, "include ", 8) != 0 || strncmp(text, mine, strlen(mine)) == 0) {
            memmove(to, text, len);
            to += len;
        }
        text += len;
    }
    *to = '\0';
}

static stance_status read_file(const char *path, char **out, struct stance_error *err)
{
    FILE *f    = fopen(path, "r");
    char *text = f != NULL ? stance_calloc(1, FILE_MAX) : NULL;
    size_t n;

    if (f == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(errno));
    if (text == NULL) {
        fclose(f);
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", path);
    }
    n = fread(text, 1, FILE_MAX, f);
    if (ferror(f) || n == FILE_MAX || strlen(text) != n) {
        fclose(f);
        stance_free(text);
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: cannot be read, or is no text", path);
    }
    fclose(f);
    *out = text;
    return STANCE_OK;
}

/* ---- the folder --------------------------------------------------------------------------------- */

static stance_status write_file(struct project *p, const char *name, const char *text, mode_t mode,
                                struct stance_error *err)
{
    char  path[4400];
    FILE *f;
    bool  bad;

    if (p->n_made == FILES_MAX || strlen(name) >= sizeof p->made[0])
        return STANCE_FAIL(err, STANCE_ERR_INTERNAL, "new: too many files in %s", p->from);
    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    f = fopen(path, "wx");
    if (f == NULL)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", path, strerror(errno));
    strcpy(p->made[p->n_made++], name);
    bad = fputs(text, f) == EOF;
    bad = fclose(f) != 0 || bad;
    if (bad || (mode != 0 && chmod(path, mode) != 0))
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", path, strerror(errno));
    return STANCE_OK;
}

/* One file of the example under its new name. */
static stance_status copy(struct project *p, const char *name, struct stance_error *err)
{
    struct stance_string project = { 0 }, file = { 0 }, target = { 0 }, text[4] = { { 0 } };
    struct stat   st;
    char          path[4400], *read = NULL;
    stance_status status;

    snprintf(path, sizeof path, "%s/%s", p->from, name);
    status = read_file(path, &read, err);
    if (status != STANCE_OK)
        return status;
    if (strcmp(name, "Makefile.am") == 0)
        keep_own_fragment(read, p->kind);
    stance_string_add(&project, "stance-%s-%s", p->kind, p->name);
    stance_string_add(&file, "%s_%s", p->kind, p->name);
    add_exchanged(&text[0], read, PROJECT, project.failed ? "" : project.s);
    add_exchanged(&text[1], text[0].s != NULL ? text[0].s : "", "@FILE@", file.failed ? "" : file.s);
    add_exchanged(&text[2], text[1].s != NULL ? text[1].s : "", "@KIND@", p->kind);
    add_exchanged(&text[3], text[2].s != NULL ? text[2].s : "", p->word, p->name);
    if (strcmp(name, "README.project") == 0)
        stance_string_add(&target, "README.md");
    else
        add_exchanged(&target, name, p->word, p->name);
    if (project.failed || file.failed || target.failed || text[0].failed || text[1].failed || text[2].failed
        || text[3].failed)
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", path);
    else
        status = write_file(p, target.s, text[3].s != NULL ? text[3].s : "",
                            stat(path, &st) == 0 && (st.st_mode & S_IXUSR) != 0 ? 0755 : 0, err);
    for (int i = 0; i < 4; i++)
        stance_string_free(&text[i]);
    stance_string_free(&project);
    stance_string_free(&file);
    stance_string_free(&target);
    stance_free(read);
    return status;
}

static bool ends_in(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

/* The example of the kind: KIND_WORD.c. */
static stance_status find_example(struct project *p, struct stance_error *err)
{
    DIR           *dir = opendir(p->from);
    struct dirent *d;
    size_t         len = strlen(p->kind);

    if (dir == NULL)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "new: the examples of %s cannot be read: %s", p->from, strerror(errno));
    while (p->word[0] == '\0' && (d = readdir(dir)) != NULL) {
        const char *word = d->d_name + len + 1;

        /* "backbone_softclip.c" belongs to the op of that name: only KIND.mk's own is the example. */
        if (strncmp(d->d_name, p->kind, len) == 0 && d->d_name[len] == '_' && ends_in(word, ".c")
            && strlen(word) - 2 < sizeof p->word) {
            char mk[4400], line[160], *text;
            bool own;

            snprintf(p->word, sizeof p->word, "%.*s", (int)strlen(word) - 2, word);
            snprintf(mk, sizeof mk, "%s/%s.mk", p->from, p->kind);
            snprintf(line, sizeof line, "%s_%s.la", p->kind, p->word);
            if (read_file(mk, &text, err) != STANCE_OK) {
                closedir(dir);
                return err->status;
            }
            own = strstr(text, line) != NULL;
            stance_free(text);
            if (!own)
                p->word[0] = '\0';
        }
    }
    closedir(dir);
    if (p->word[0] == '\0')
        return STANCE_FAIL(err, STANCE_ERR_UNSUPPORTED, "new: there is no example of a %s in %s", p->kind, p->from);
    return STANCE_OK;
}

static stance_status fill(struct project *p, struct stance_error *err)
{
    static const char *const common[] = { "Makefile.am", "README.project", "configure.ac", "test.h", "tiny.yaml", "train" };
    char           name[200];
    DIR           *dir;
    struct dirent *d;
    stance_status  status = STANCE_OK;

    for (size_t i = 0; status == STANCE_OK && i < sizeof common / sizeof *common; i++)
        status = copy(p, common[i], err);
    snprintf(name, sizeof name, "%s.mk", p->kind);
    if (status == STANCE_OK)
        status = copy(p, name, err);
    snprintf(name, sizeof name, "%s.yaml", p->kind);
    if (status == STANCE_OK)
        status = copy(p, name, err);
    snprintf(name, sizeof name, "_%s.c", p->word);
    dir = status == STANCE_OK ? opendir(p->from) : NULL;
    while (dir != NULL && status == STANCE_OK && (d = readdir(dir)) != NULL)
        if (ends_in(d->d_name, name))
            status = copy(p, d->d_name, err);
    if (dir != NULL)
        closedir(dir);
    return status;
}

static void discard(struct project *p)
{
    char path[4400];

    for (int i = 0; i < p->n_made; i++) {
        snprintf(path, sizeof path, "%s/%s", p->folder, p->made[i]);
        unlink(path);
    }
    rmdir(p->folder);
}

/* Written aside and renamed: there is a whole project, or none. */
static stance_status make(struct project *p, const char *to, struct stance_error *err)
{
    struct stat   st;
    mode_t        mask = umask(0);
    stance_status status;

    umask(mask);
    if (lstat(to, &st) == 0)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "new: %s exists already; --dir names another folder", to);
    if (snprintf(p->folder, sizeof p->folder, "%s.XXXXXX", to) >= (int)sizeof p->folder)
        return STANCE_FAIL(err, STANCE_ERR_INVAL, "new: the path is too long");
    if (mkdtemp(p->folder) == NULL)
        return STANCE_FAIL(err, STANCE_ERR_IO, "new: %s: %s", to, strerror(errno));
    status = fill(p, err);
    if (status == STANCE_OK && (chmod(p->folder, 0777 & ~mask) != 0 || rename(p->folder, to) != 0))
        status = STANCE_FAIL(err, STANCE_ERR_IO, "new: %s: %s", to, strerror(errno));
    if (status != STANCE_OK)
        discard(p);
    return status;
}

static int run(const struct stance_command *c, struct stance_error *err)
{
    static struct project p;
    const char           *to = stance_command_text(c, "dir");
    char                  own[200];

    p.kind = c->args[0];
    p.name = c->args[1];
    p.from = stance_command_text(c, "from") != NULL ? stance_command_text(c, "from") : STANCE_EXAMPLE_DIR;
    if (stance_kind_of(p.kind) == STANCE_KIND_COUNT) {
        STANCE_FAIL(err, STANCE_ERR_INVAL, "new: '%s' is not a kind of plugin; `stance list` shows them", p.kind);
        return STANCE_FAILED;
    }
    if (*p.name == '\0' || p.name[strspn(p.name, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0'
        || strlen(p.name) >= NAME_MAX_) {
        STANCE_FAIL(err, STANCE_ERR_INVAL, "new: '%s' cannot be the name of a plugin: letters a-z, digits and _ make one",
                    p.name);
        return STANCE_FAILED;
    }
    snprintf(own, sizeof own, "%s_%s", p.kind, p.name);
    if (to == NULL)
        to = own;
    if (strlen(p.from) >= sizeof p.folder) {
        STANCE_FAIL(err, STANCE_ERR_INVAL, "new: --from: the path is too long");
        return STANCE_FAILED;
    }
    if (find_example(&p, err) != STANCE_OK || make(&p, to, err) != STANCE_OK)
        return STANCE_FAILED;
    printf("%s: a project for the %s '%s'\n    cd %s && autoreconf -i && ./configure && make check\n", to, p.kind, p.name,
           to);
    return 0;
}

const struct stance_verb stance_verb_new = {
    .name      = "new",
    .summary   = "Write a project for a plugin of your own",
    .arguments = "KIND NAME",
    .min_args  = 2,
    .max_args  = 2,
    .options   = tables,
    .doc       = "It is the installed example of that kind under your name: a source, a test, a recipe, configure.ac and "
                 "Makefile.am. It builds and passes its tests as it stands.",
    .run       = run,
};
