/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "io/map.h"

#include <stance/alloc.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static stance_status read_all(int fd, const char *path, struct stance_map *out,
                              struct stance_error *err)
{
    void  *data     = NULL;
    size_t capacity = 0, size = 0;

    for (;;) {
        ssize_t n;

        if (!stance_grow(&data, &capacity, size + 4096 + STANCE_MAP_PAD, 1)) {
            stance_free(data);
            return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: reading it", path);
        }
        n = read(fd, (char *)data + size, capacity - size - STANCE_MAP_PAD);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int reason = errno;

            stance_free(data);
            return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(reason));
        }
        if (n == 0)
            break;
        size += (size_t)n;
    }
    *out = (struct stance_map){ data, size, 0 };
    return STANCE_OK;
}

/* The file is laid over the beginning of an anonymous mapping that is a page longer: the pages
 * behind the file are then ours and zero, also when its size is a multiple of the page size. */
static stance_status map_regular(int fd, size_t size, const char *path, struct stance_map *out,
                                 struct stance_error *err)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room;
    void  *base;

    if (size > SIZE_MAX / 2 || page < STANCE_MAP_PAD)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: mapping it", path);
    room = (size + page - 1) / page * page + page;
    base = mmap(NULL, room, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s: mapping it: %s", path, strerror(errno));
    if (size > 0 && mmap(base, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED) {
        int reason = errno;

        munmap(base, room);
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(reason));
    }
    *out = (struct stance_map){ base, size, room };
    return STANCE_OK;
}

stance_status stance_map_open(const char *path, struct stance_map *out, struct stance_error *err)
{
    stance_status status;
    struct stat   st;
    int           fd;

    do
        fd = open(path, O_RDONLY | O_CLOEXEC);
    while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0)
        status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        status = STANCE_FAIL(err, STANCE_ERR_INPUT, "%s: is a folder, not a file", path);
    else if (S_ISREG(st.st_mode))
        status = map_regular(fd, (size_t)st.st_size, path, out, err);
    else
        status = read_all(fd, path, out, err);
    close(fd);
    return status;
}

stance_status stance_map_copy(const void *data, size_t size, struct stance_map *out,
                              struct stance_error *err)
{
    unsigned char *copy = NULL;

    if (size <= SIZE_MAX - STANCE_MAP_PAD)
        copy = stance_calloc(size + STANCE_MAP_PAD, 1);
    if (copy == NULL)
        return STANCE_FAIL(err, STANCE_ERR_NOMEM, "copy of %zu bytes", size);
    if (size > 0)
        memcpy(copy, data, size);
    *out = (struct stance_map){ copy, size, 0 };
    return STANCE_OK;
}

void stance_map_forget(const struct stance_map *m, size_t from, size_t to)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    from = (from + page - 1) / page * page;
    to   = to / page * page;
    if (m->mapped != 0 && from < to && to <= m->mapped) {
        int reason = errno;

        /* Advice: where it is not taken, memory is only used longer. */
        (void)madvise((char *)m->data + from, to - from, MADV_DONTNEED);
        errno = reason;
    }
}

void stance_map_close(struct stance_map *m)
{
    if (m->mapped != 0)
        munmap((void *)m->data, m->mapped);
    else
        stance_free((void *)m->data);
    *m = (struct stance_map){ 0 };
}
