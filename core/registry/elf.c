/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin's descriptor as its file holds it: looked at before the file is mapped by the linker, which
 * would run the constructors in it, and would tell of a function that only a later stance has where the
 * plugin ABI is the matter. Format: System V ABI, chapters 4 and 5. */
#include "config.h"

#include "registry/internal.h"

#include <string.h>

#ifdef __ELF__
#include <link.h>

struct image { const unsigned char *data; size_t size; };

static bool get(const struct image *f, uint64_t at, void *out, size_t n)
{
    if (at > f->size || n > f->size - at)
        return false;
    memcpy(out, f->data + at, n);
    return true;
}

static bool get_header(const struct image *f, ElfW(Ehdr) *h)
{
    static const uint16_t one = 1;
    unsigned char         order = *(const unsigned char *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;

    return get(f, 0, h, sizeof *h) && memcmp(h->e_ident, ELFMAG, SELFMAG) == 0
           && h->e_ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32)
           && h->e_ident[EI_DATA] == order && h->e_ehsize == sizeof *h;
}

static bool get_section(const struct image *f, const ElfW(Ehdr) *h, size_t i, ElfW(Shdr) *s)
{
    return h->e_shentsize == sizeof *s && i < h->e_shnum && h->e_shoff <= f->size
           && get(f, h->e_shoff + i * sizeof *s, s, sizeof *s);
}

/* Where the file holds what is mapped at an address. */
static bool place_of(const struct image *f, const ElfW(Ehdr) *h, uint64_t address, size_t n, uint64_t *at)
{
    for (size_t i = 0; i < h->e_phnum && h->e_phentsize == sizeof(ElfW(Phdr)); i++) {
        ElfW(Phdr) p;

        if (h->e_phoff > f->size || !get(f, h->e_phoff + i * sizeof p, &p, sizeof p))
            return false;
        if (p.p_type == PT_LOAD && address >= p.p_vaddr && address - p.p_vaddr <= p.p_filesz
            && n <= p.p_filesz - (address - p.p_vaddr) && p.p_offset <= f->size) {
            *at = p.p_offset + (address - p.p_vaddr);
            return true;
        }
    }
    return false;
}

static bool is_called(const struct image *f, const ElfW(Shdr) *names, uint64_t name, const char *symbol)
{
    size_t len = strlen(symbol) + 1;

    return names->sh_offset <= f->size && names->sh_size <= f->size - names->sh_offset
           && name <= names->sh_size && len <= names->sh_size - name
           && memcmp(f->data + names->sh_offset + name, symbol, len) == 0;
}

bool stance_elf_is_cut_short(const void *data, size_t size)
{
    struct image f = { data, size };
    ElfW(Ehdr)   h;

    return get_header(&f, &h)
           && (h.e_shoff > size || size - h.e_shoff < (uint64_t)h.e_shnum * h.e_shentsize);
}

bool stance_elf_read(const void *data, size_t size, const char *symbol, void *out, size_t n)
{
    struct image f = { data, size };
    ElfW(Ehdr)   h;
    ElfW(Shdr)   table, names;

    if (!get_header(&f, &h))
        return false;
    for (size_t i = 0; get_section(&f, &h, i, &table); i++) {
        if (table.sh_type != SHT_DYNSYM || table.sh_entsize != sizeof(ElfW(Sym))
            || !get_section(&f, &h, table.sh_link, &names) || table.sh_offset > size)
            continue;
        for (uint64_t k = 0; k < table.sh_size / table.sh_entsize; k++) {
            ElfW(Sym) s;
            uint64_t  at;

            if (!get(&f, table.sh_offset + k * sizeof s, &s, sizeof s))
                break;
            if (s.st_shndx != SHN_UNDEF && is_called(&f, &names, s.st_name, symbol))
                return place_of(&f, &h, s.st_value, n, &at) && get(&f, at, out, n);
        }
    }
    return false;
}

#else

bool stance_elf_is_cut_short(const void *data, size_t size)
{
    (void)data;
    (void)size;
    return false;
}

bool stance_elf_read(const void *data, size_t size, const char *symbol, void *out, size_t n)
{
    (void)data;
    (void)size;
    (void)symbol;
    (void)out;
    (void)n;
    return false;
}

#endif
