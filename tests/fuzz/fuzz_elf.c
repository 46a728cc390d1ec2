/* SPDX-License-Identifier: Apache-2.0
 *
 * The look into a shared object before the linker gets it. The seed is the smallest one that has a
 * descriptor, made on the spot. Built with clang -fsanitize=fuzzer,address and -DSTANCE_FUZZ by hand; make
 * check replays the seed, cut at each byte and with each bit changed. */
#include "config.h"

#include "registry/internal.h"

#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#define SYMBOL "scaler_x_LTX_stance_plugin"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct stance_plugin_head head;

    stance_elf_is_cut_short(data, size);
    stance_elf_read(data, size, SYMBOL, &head, sizeof head);
    return 0;
}

#ifndef STANCE_FUZZ
struct image {
    ElfW(Ehdr) head;
    ElfW(Phdr) load;
    ElfW(Sym)  symbols[2];
    char       names[64];
    struct stance_plugin_head descriptor;
    ElfW(Shdr) sections[3]; /* last, as linkers write them */
};

static const uint16_t one = 1;

static void make(struct image *f)
{
    memset(f, 0, sizeof *f);
    memcpy(f->head.e_ident, ELFMAG, SELFMAG);
    f->head.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    f->head.e_ident[EI_DATA]  = *(const unsigned char *)&one == 1 ? ELFDATA2LSB : ELFDATA2MSB;
    f->head.e_ehsize          = sizeof f->head;
    f->head.e_phoff           = offsetof(struct image, load);
    f->head.e_phentsize       = sizeof f->load;
    f->head.e_phnum           = 1;
    f->head.e_shoff           = offsetof(struct image, sections);
    f->head.e_shentsize       = sizeof f->sections[0];
    f->head.e_shnum           = 3;
    f->load.p_type            = PT_LOAD;
    f->load.p_vaddr           = 0x1000;
    f->load.p_filesz          = sizeof *f;
    f->symbols[1].st_name     = 1;
    f->symbols[1].st_shndx    = 1;
    f->symbols[1].st_value    = 0x1000 + offsetof(struct image, descriptor);
    strcpy(f->names + 1, SYMBOL);
    f->descriptor = (struct stance_plugin_head){ 7, 8, 9, STANCE_KIND_SCALER };
    f->sections[1].sh_type    = SHT_DYNSYM;
    f->sections[1].sh_entsize = sizeof f->symbols[0];
    f->sections[1].sh_size    = sizeof f->symbols;
    f->sections[1].sh_offset  = offsetof(struct image, symbols);
    f->sections[1].sh_link    = 2;
    f->sections[2].sh_type    = SHT_STRTAB;
    f->sections[2].sh_offset  = offsetof(struct image, names);
    f->sections[2].sh_size    = sizeof f->names;
}

int main(void)
{
    struct stance_plugin_head head = { 0 };
    struct image              f;
    uint8_t                  *copy = malloc(sizeof f); /* where the sanitizer sees a step too far */

    if (copy == NULL)
        return 1;
    make(&f);
    memcpy(copy, &f, sizeof f);
    if (!stance_elf_read(copy, sizeof f, SYMBOL, &head, sizeof head) || head.abi != 7 || head.kind != STANCE_KIND_SCALER
        || stance_elf_is_cut_short(copy, sizeof f))
        return 1;
    for (size_t n = 0; n < sizeof f; n++) {
        uint8_t *cut = malloc(n + 1);

        if (cut == NULL)
            return 1;
        memcpy(cut + 1, &f, n);
        LLVMFuzzerTestOneInput(cut + 1, n);
        free(cut);
    }
    for (size_t i = 0; i < sizeof f; i++)
        for (int bit = 0; bit < 8; bit++) {
            copy[i] ^= (uint8_t)(1 << bit);
            LLVMFuzzerTestOneInput(copy, sizeof f);
            copy[i] ^= (uint8_t)(1 << bit);
        }
    free(copy);
    return 0;
}
#endif
