/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "train/folder.h"

#include "base/build.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* mkdir -p */
static stance_status make_path(const char *path, struct stance_error *err)
{
    char part[4200];

    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "%s: name is too long", path);
    for (char *c = part + 1;; c++) {
        if (*c == '/' || *c == '\0') {
            char was = *c;

            *c = '\0';
            if (mkdir(part, 0777) != 0 && errno != EEXIST)
                return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", part, strerror(errno));
            *c = was;
            if (was == '\0')
                return STANCE_OK;
        }
    }
}

/* Opens FOLDER/NAME for writing. */
static FILE *start_file(const char *folder, const char *name, struct stance_error *err)
{
    char  path[4400];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    f = fopen(path, "w");
    if (f == NULL)
        STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", path, strerror(errno));
    return f;
}

static stance_status end_file(FILE *f, const char *name, struct stance_error *err)
{
    int bad = ferror(f);

    if (fclose(f) != 0 || bad)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", name, strerror(errno));
    return STANCE_OK;
}

static stance_status write_environment(const struct stance_setup *s, const char *folder, struct stance_error *err)
{
    const struct stance_instance *used[] = { &s->model.backbone, &s->model.head, &s->model.loss, &s->optimizer, &s->schedule };
    struct utsname                u;
    FILE                         *f = start_file(folder, "environment.txt", err);

    if (f == NULL)
        return err != NULL ? err->status : STANCE_ERR_IO;
    fprintf(f, "stance: %s (plugin ABI %d)\n", PACKAGE_VERSION, STANCE_PLUGIN_ABI);
    if (uname(&u) == 0)
        fprintf(f, "system: %s %s %s\n", u.sysname, u.release, u.machine);
    fprintf(f, "processors: %ld\n", sysconf(_SC_NPROCESSORS_ONLN));
    fprintf(f, "precision: %s\n", stance_policy_word(s->policy));
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        fprintf(f, "%s: %s %s\n", stance_kind_word(used[i]->plugin->kind), used[i]->plugin->name, used[i]->plugin->version);
    fprintf(f, "device: %s %s\n", s->device->plugin->name, s->device->plugin->version);
    if (STANCE_HAS(s->device->ops, describe))
        fprintf(f, "%s", s->device->ops->describe(s->device->state));
    return end_file(f, "environment.txt", err);
}

stance_status stance_folder_make(const struct stance_setup *setup, const char *work_dir, struct stance_folder *out,
                                 struct stance_error *err)
{
    char          stamp[32];
    time_t        now = time(NULL);
    struct tm     tm;
    FILE         *f;
    stance_status status;

    if (snprintf(out->work, sizeof out->work, "%s%s", work_dir != NULL ? work_dir : "work_dirs/",
                 work_dir != NULL ? "" : setup->recipe->name) >= (int)sizeof out->work)
        return STANCE_FAIL(err, STANCE_ERR_RANGE, "work folder: name is too long");
    status = make_path(out->work, err);
    if (status != STANCE_OK)
        return status;
    localtime_r(&now, &tm);
    strftime(stamp, sizeof stamp, "%Y%m%d_%H%M%S", &tm);
    /* Two starts within a second get folders of their own. */
    for (int i = 0;; i++) {
        snprintf(out->start, sizeof out->start, i == 0 ? "%s/%s" : "%s/%s-%d", out->work, stamp, i);
        if (mkdir(out->start, 0777) == 0)
            break;
        if (errno != EEXIST || i == 1000)
            return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", out->start, strerror(errno));
    }
    f = start_file(out->start, "recipe.yaml", err);
    if (f == NULL)
        return err != NULL ? err->status : STANCE_ERR_IO;
    status = stance_recipe_dump(setup->recipe, f, false, err);
    if (status != STANCE_OK) {
        fclose(f);
        return status;
    }
    status = end_file(f, "recipe.yaml", err);
    return status == STANCE_OK ? write_environment(setup, out->start, err) : status;
}

stance_status stance_folder_last(const struct stance_folder *f, const char *checkpoint, struct stance_error *err)
{
    char          from[4400], to[4400];
    FILE         *file = start_file(f->work, "last_checkpoint.tmp", err);
    stance_status status;

    if (file == NULL)
        return err != NULL ? err->status : STANCE_ERR_IO;
    fprintf(file, "%s\n", checkpoint);
    status = end_file(file, "last_checkpoint", err);
    snprintf(from, sizeof from, "%s/last_checkpoint.tmp", f->work);
    snprintf(to, sizeof to, "%s/last_checkpoint", f->work);
    if (status == STANCE_OK && rename(from, to) != 0)
        return STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", to, strerror(errno));
    return status;
}
