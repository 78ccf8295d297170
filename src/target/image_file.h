/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_FILE_H
#define MT_TARGET_IMAGE_FILE_H

/*
 * ELF files beside an image: their build-id and sections. The file may hold anything; it is read by
 * pread(), so that one that shrinks meanwhile does no harm.
 */

#include "base/cleanup.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mt_image_file {
	int fd;
	uint64_t bytes;
	uint64_t inode;
	uint32_t device; /* major << 20 | minor */
	Elf64_Ehdr head;
};

/* Opens a regular ELF file of 64 bits. 0 or a negative errno value. */
int mt_image_file_open(const char *path, struct mt_image_file *ret_file);
void mt_image_file_done(struct mt_image_file *f);
MT_AUTO_DEFINE_INPLACE(mt_image_file, struct mt_image_file, mt_image_file_done)

/* All of [offset, offset + bytes). 0 or a negative errno value. */
int mt_image_file_read(const struct mt_image_file *f, uint64_t offset, void *to, size_t bytes);

/* The build-id into id[32]; how many bytes it has, 0: none. */
uint32_t mt_image_file_build_id(const struct mt_image_file *f, uint8_t id[32]);

/* Symbols of a file and their names. Owned. */
struct mt_image_file_symbols {
	Elf64_Sym *symbol;
	size_t count;
	char *text; /* with a NUL behind it */
	size_t text_bytes;
};

/* Those of the section .symtab. 0, -ENOENT: there is none, or another negative errno value. */
int mt_image_file_symbols(const struct mt_image_file *f, struct mt_image_file_symbols *ret);
void mt_image_file_symbols_done(struct mt_image_file_symbols *s);
MT_AUTO_DEFINE_INPLACE(mt_image_file_symbols, struct mt_image_file_symbols,
		       mt_image_file_symbols_done)

/* The build-id in the notes of a PT_NOTE segment. How many bytes it has, 0: none. */
uint32_t mt_image_note_build_id(const uint8_t *notes, size_t bytes, uint64_t align, uint8_t id[32]);

#endif
