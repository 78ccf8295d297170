/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_ELF_LOOK_H
#define MT_RECORD_ELF_LOOK_H

/* The few facts about an ELF file that decide whether a preload works in it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct mt_elf_look {
	uint8_t elf_class; /* ELFCLASS32, ELFCLASS64 */
	uint8_t elf_data;  /* ELFDATA2LSB ... */
	uint16_t machine;  /* EM_* */
	uint16_t type;     /* ET_* */
	bool has_interpreter;
	bool is_loader; /* the dynamic loader itself, run as a program */
	/* A static program that our tracker is linked into. Only looked at without an interpreter.
	 */
	bool has_runtime;
	char interpreter[256];
	char sanitizer[32]; /* "AddressSanitizer" ...; "": none */
};

/*
 * Reads an ELF file of our own class and byte order; of a foreign one only the first four fields
 * are filled. 0; -ENOEXEC: not ELF or damaged; other negative errno: could not be read. *err is
 * filled.
 */
int mt_elf_look(const char *path, struct mt_elf_look *ret_look, struct mt_err *err);

#endif
