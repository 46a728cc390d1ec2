/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a shared object through libltdl, and the true reason when that fails. */
#include "config.h"

#include "registry/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_DLOPEN
#include <dlfcn.h>
#endif

#define SYMBOL "stance_plugin"

/* Counted by libltdl; never undone, because the last lt_dlexit() drops the records of the modules
 * that were made resident while they stay mapped. */
stance_status stance_loader_start(struct stance_error *err)
{
    if (lt_dlinit() != 0)
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "libltdl does not start: %s", lt_dlerror());
    return STANCE_OK;
}

/* What the file itself says, before anything in it can run. */
static stance_status look_inside(const char *file, const char *stem, const void *data, size_t size,
                                 struct stance_error *err)
{
    struct stance_plugin_head head;
    char                      symbol[STANCE_STEM_MAX + sizeof "_LTX_" SYMBOL];
    enum stance_kind          kind;
    const char               *name;
    stance_status             status;

    if (stance_elf_is_cut_short(data, size))
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: is cut short", file);
    snprintf(symbol, sizeof symbol, "%s_LTX_" SYMBOL, stem);
    if (!stance_stem_split(stem, &kind, &name) || !stance_elf_read(data, size, symbol, &head, sizeof head))
        return STANCE_OK; /* the linker will say what is the matter with it */
    status = stance_plugin_check_head(&head, kind, err);
    return status == STANCE_OK ? status : stance_error_prefix(err, status, "%s", file);
}

static stance_status look(const char *file, const char *stem, struct stance_error *err)
{
    int           fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat   st;
    void         *data;
    stance_status status;

    if (fd < 0)
        return STANCE_FAIL(err, errno == ENOENT ? STANCE_ERR_NOENT : STANCE_ERR_PLUGIN, "%s: %s",
                           file, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: is not a file", file);
    }
    data = st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    close(fd);
    if (data == MAP_FAILED)
        return STANCE_OK;
    status = look_inside(file, stem, data, (size_t)st.st_size, err);
    munmap(data, (size_t)st.st_size);
    return status;
}

/* Maps the file with every symbol bound. Libltdl binds at the first call, so that a missing
 * function would end the process in the middle of a run, and it says "file not found" whatever
 * happened, because its loaders overwrite each other's reasons. While this handle is held,
 * libltdl's own is the same mapping. */
static stance_status bind_now(const char *file, void **handle, struct stance_error *err)
{
#ifdef HAVE_DLOPEN
    const char *why;

    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (*handle != NULL)
        return STANCE_OK;
    why = dlerror();
    if (why == NULL)
        why = "does not open";
    if (strstr(why, file) != NULL) /* the linker names the file, or the library that is missing */
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s", why);
    return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: %s", file, why);
#else
    (void)file;
    (void)err;
    *handle = NULL;
    return STANCE_OK;
#endif
}

static void unbind(void *handle)
{
#ifdef HAVE_DLOPEN
    if (handle != NULL)
        dlclose(handle);
#else
    (void)handle;
#endif
}

stance_status stance_loader_open(const char *file, const char *stem, lt_dlhandle *dl,
                                 const struct stance_plugin **plugin, struct stance_error *err)
{
    void         *bound = NULL;
    lt_dladvise   advise;
    lt_dlhandle   handle = NULL;
    stance_status status = look(file, stem, err);

    if (status == STANCE_OK)
        status = bind_now(file, &bound, err);
    if (status != STANCE_OK)
        return status;
    if (lt_dladvise_init(&advise) != 0) {
        status = STANCE_FAIL(err, STANCE_ERR_NOMEM, "%s", file);
        goto unbind;
    }
    if (lt_dladvise_ext(&advise) == 0 && lt_dladvise_local(&advise) == 0)
        handle = lt_dlopenadvise(file, advise);
    lt_dladvise_destroy(&advise);
    if (handle == NULL) {
        status = STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: %s", file, lt_dlerror());
        goto unbind;
    }
    *plugin = lt_dlsym(handle, SYMBOL);
    if (*plugin == NULL) {
        const lt_dlinfo *info = lt_dlgetinfo(handle);

        status = STANCE_FAIL(err, STANCE_ERR_PLUGIN,
                             "%s: is not a plugin of stance: it has no symbol %s_LTX_" SYMBOL, file,
                             info != NULL && info->name != NULL ? info->name : "");
        lt_dlclose(handle);
        goto unbind;
    }
    *dl = handle;
unbind:
    unbind(bound);
    return status;
}

bool stance_loader_open_builtin(const char *stem, lt_dlhandle *dl,
                                const struct stance_plugin **plugin)
{
    lt_dladvise advise;
    lt_dlhandle handle = NULL;

    if (lt_dladvise_init(&advise) != 0)
        return false;
    if (lt_dladvise_preload(&advise) == 0)
        handle = lt_dlopenadvise(stem, advise);
    lt_dladvise_destroy(&advise);
    if (handle == NULL)
        return false;
    *plugin = lt_dlsym(handle, SYMBOL);
    if (*plugin == NULL) {
        lt_dlclose(handle);
        return false;
    }
    *dl = handle;
    return true;
}

/* lt_dlpreload_open() passes its callback nothing but the handle; the lock of the registry, which
 * the caller holds, guards this. */
static struct {
    stance_status (*found)(void *ctx, const char *stem);
    void         *ctx;
    stance_status status;
} walk;

static int each_preloaded(lt_dlhandle handle)
{
    const lt_dlinfo *info = lt_dlgetinfo(handle);
    enum stance_kind kind;
    const char      *name;

    if (walk.status == STANCE_OK && info != NULL && info->name != NULL
        && stance_stem_split(info->name, &kind, &name) && lt_dlsym(handle, SYMBOL) != NULL)
        walk.status = walk.found(walk.ctx, info->name);
    lt_dlclose(handle);
    return 0;
}

stance_status stance_loader_each_builtin(stance_status (*found)(void *ctx, const char *stem),
                                         void *ctx)
{
    walk.found  = found;
    walk.ctx    = ctx;
    walk.status = STANCE_OK;
    lt_dlpreload_open(NULL,
                      each_preloaded); /* fails when nothing was preloaded: then there is nothing */
    return walk.status;
}
