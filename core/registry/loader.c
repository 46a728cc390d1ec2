/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening a shared object through libltdl, and the true reason when that fails. */
#include "config.h"

#include "registry/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#ifdef HAVE_DLOPEN
#include <dlfcn.h>
#endif
#ifdef __ELF__
#include <link.h>
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

#ifdef __ELF__
/* A file that a copy has not finished maps well and ends the process with SIGBUS at the first touch
 * of a missing page. The section headers are the last thing in what linkers write. */
static bool is_cut_short(const char *file, off_t size)
{
    ElfW(Ehdr) head;
    FILE *f = fopen(file, "rb");
    bool  cut = false;

    if (f == NULL)
        return false;
    if (fread(&head, sizeof head, 1, f) == 1 && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0
        && head.e_ehsize == sizeof head)
        cut = head.e_shoff > (uint64_t)size
              || (uint64_t)size - head.e_shoff < (uint64_t)head.e_shnum * head.e_shentsize;
    fclose(f);
    return cut;
}
#endif

static stance_status look(const char *file, struct stance_error *err)
{
    struct stat st;

    if (stat(file, &st) != 0)
        return STANCE_FAIL(err, errno == ENOENT ? STANCE_ERR_NOENT : STANCE_ERR_PLUGIN, "%s: %s",
                           file, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: is not a file", file);
#ifdef __ELF__
    if (is_cut_short(file, st.st_size))
        return STANCE_FAIL(err, STANCE_ERR_PLUGIN, "%s: is cut short", file);
#endif
    return STANCE_OK;
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

stance_status stance_loader_open(const char *file, lt_dlhandle *dl,
                                 const struct stance_plugin **plugin, struct stance_error *err)
{
    void         *bound = NULL;
    lt_dladvise   advise;
    lt_dlhandle   handle = NULL;
    stance_status status = look(file, err);

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
