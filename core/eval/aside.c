/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "eval/aside.h"

#include <stance/alloc.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A new file beside the path, with the rights that a file made directly would have. */
static int create_beside(const char *path, char *name, size_t size)
{
    int fd = -1;

    for (unsigned i = 0; fd < 0 && i < 1000; i++) {
        snprintf(name, size, "%s.%ld-%u.tmp", path, (long)getpid(), i);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0 && errno != EEXIST)
            break;
    }
    return fd;
}

stance_status stance_aside_open(struct stance_aside *a, const char *path, struct stance_error *err)
{
    struct stat   at;
    bool          direct = stat(path, &at) == 0 && !S_ISREG(at.st_mode);
    size_t        size   = strlen(path) + 48;
    stance_status status;
    int           fd;

    *a = (struct stance_aside){ .path = stance_strdup(path) };
    if (!direct)
        a->temporary = stance_calloc(size, 1);
    if (a->path == NULL || (!direct && a->temporary == NULL)) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "writing %s", path);
        goto free_names;
    }
    fd = direct ? open(path, O_WRONLY | O_CLOEXEC) : create_beside(path, a->temporary, size);
    if (fd < 0) {
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", path, strerror(errno));
        goto free_names;
    }
    a->file = fdopen(fd, "wb");
    if (a->file == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "writing %s", path);
        close(fd);
        goto remove_file;
    }
    return STANCE_OK;
remove_file:
    if (!direct)
        unlink(a->temporary);
free_names:
    stance_free(a->temporary);
    stance_free(a->path);
    *a = (struct stance_aside){ .file = NULL };
    return status;
}

stance_status stance_aside_close(struct stance_aside *a, stance_status status, struct stance_error *err)
{
    bool whole;

    errno = 0;
    whole = !ferror(a->file) && fflush(a->file) == 0;
    if (whole && a->temporary != NULL && status == STANCE_OK)
        whole = fsync(fileno(a->file)) == 0;
    whole = fclose(a->file) == 0 && whole;
    if (whole && a->temporary != NULL && status == STANCE_OK)
        whole = rename(a->temporary, a->path) == 0;
    if (!whole && status == STANCE_OK)
        status = STANCE_FAIL(err, STANCE_ERR_IO, "%s: %s", a->path,
                             errno != 0 ? strerror(errno) : "it could not be written");
    if (status != STANCE_OK && a->temporary != NULL)
        unlink(a->temporary);
    stance_free(a->temporary);
    stance_free(a->path);
    *a = (struct stance_aside){ .file = NULL };
    return status;
}
