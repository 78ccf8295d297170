/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_H
#define MT_TARGET_IMAGE_H

/*
 * The memory of a process at one moment: mappings, bytes, threads with their registers, modules.
 * It comes from a running process (bytes may change while they are read), from a process that is
 * stopped, from a copy of a process that runs on, or from a core file. Readers of heaps and of
 * reachability know no other source. One thread at a time.
 */

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum mt_image_source {
	MT_IMAGE_LIVE,    /* the process runs on: each read is of its own moment; no registers */
	MT_IMAGE_STOPPED, /* all threads are stopped until mt_image_close() */
	MT_IMAGE_COPY, /* a copy-on-write copy; the process was stopped for stop_ns, and runs on */
	MT_IMAGE_CORE,
};

enum mt_image_arch { MT_IMAGE_X86_64, MT_IMAGE_AARCH64 };

enum { MT_MAPPING_READ = 1, MT_MAPPING_WRITE = 2, MT_MAPPING_EXEC = 4, MT_MAPPING_SHARED = 8 };

/* A line of /proc/PID/maps, or a segment of a core file. Sorted by address, disjoint. */
struct mt_mapping {
	uint64_t start, end;
	uint64_t offset;  /* in its file, bytes */
	uint64_t inode;   /* 0: no file */
	uint32_t device;  /* major << 20 | minor */
	uint32_t flags;   /* MT_MAPPING_... */
	bool in_image;    /* its bytes can be read: a core file, or a copy, leaves some out */
	const char *name; /* as the kernel says, "" without; a trailing " (deleted)" stays */
};

enum { MT_IMAGE_REGISTERS_MAX = 40, MT_IMAGE_VECTOR_BYTES_MAX = 4096 };

/*
 * Of a process that runs on (MT_IMAGE_LIVE) pc and sp are those of a thread that waits in a system
 * call, as far as /proc tells them, and is_missing is set.
 */
struct mt_image_thread {
	pid_t tid;
	uint64_t pc, sp, fp;
	uint64_t thread_pointer;                    /* fs_base, tpidr_el0 */
	uint64_t registers[MT_IMAGE_REGISTERS_MAX]; /* all general ones, as in NT_PRSTATUS */
	uint32_t register_count;
	uint32_t vector_bytes; /* floating point and SIMD state, as the kernel gives it */
	uint8_t vector[MT_IMAGE_VECTOR_BYTES_MAX];
	bool is_missing; /* it could not be stopped: nothing but its tid is known, see above */
};

struct mt_image_segment {
	uint64_t start, end; /* [p_vaddr, p_vaddr + p_memsz) where it lies */
	uint32_t flags;      /* MT_MAPPING_... */
};

/* A program, library, loader or vdso. */
struct mt_image_module {
	const char *path;
	uint64_t bias;      /* added to the file's addresses */
	uint64_t dynamic;   /* address of its dynamic section, 0: none */
	uint64_t tls_bytes; /* p_memsz of PT_TLS, 0: none */
	uint64_t tls_align;
	uint8_t build_id[32];
	uint32_t build_id_bytes;
	uint32_t segment_count;
	const struct mt_image_segment *segments;
	bool is_main, is_loader;
	bool is_libc; /* holds malloc: libc.so, musl's loader, or a static program */
};

struct mt_image_facts {
	enum mt_image_source source;
	enum mt_image_arch arch;
	pid_t pid;
	const char *program; /* path of the executable, "" when not known */
	uint64_t page_bytes;
	uint64_t stop_ns;          /* how long the process stood still, up to now; 0: it did not */
	uint64_t cut_bytes;        /* CORE: that the file should hold, and does not */
	uint64_t unreadable_bytes; /* of mappings that should be readable, as far as was noticed */
	uint64_t apart_bytes;      /* COPY: memory that the copy lacks, and that was not read */
	/* COPY: minor faults of the process since it runs on: what the copy costs it, and its own
	 */
	uint64_t faults_since;
	pid_t copy; /* COPY: its process, 0: none */
};

struct mt_image;

/*
 * Opens a process. wanted: COPY falls back on STOPPED, STOPPED does not fall back; facts.source
 * says what came about, and *err, if filled with code 0, the reason for a fallback. 0 or a negative
 * errno value with *err filled.
 */
int mt_image_open_process(pid_t pid, enum mt_image_source wanted, struct mt_image **ret_image,
			  struct mt_err *err);

/*
 * Opens a core file of this machine's architecture. One that was cut is opened, too: what is
 * missing counts as unreadable, and *err, with code 0, says how much. As above.
 */
int mt_image_open_core(const char *path, struct mt_image **ret_image, struct mt_err *err);

/*
 * Whether all is still there that was read up to now: a process may end meanwhile, and its copy be
 * killed because memory runs out, and what was read since is nothing. 0, or -ESRCH with *err. Of
 * core files always 0.
 */
int mt_image_is_there(const struct mt_image *im, struct mt_err *err);

/* Lets the process go on, ends the copy. NULL is fine. */
void mt_image_close(struct mt_image *im);

/* As they are now; valid until mt_image_close(). */
const struct mt_image_facts *mt_image_facts(const struct mt_image *im);
const struct mt_mapping *mt_image_mappings(const struct mt_image *im, size_t *ret_count);
const struct mt_image_thread *mt_image_threads(const struct mt_image *im, size_t *ret_count);
const struct mt_image_module *mt_image_modules(const struct mt_image *im, size_t *ret_count);

/* The mapping that holds an address, or NULL. */
const struct mt_mapping *mt_image_mapping_of(const struct mt_image *im, uint64_t address);

/* The module one of whose segments holds an address, or NULL. */
const struct mt_image_module *mt_image_module_of(const struct mt_image *im, uint64_t address);

/* The value of an entry of the auxiliary vector (AT_PHDR, ...), 0: it has none. */
uint64_t mt_image_auxv(const struct mt_image *im, uint64_t type);

/* Copies bytes; how many of them, from the first on, could be read. */
size_t mt_image_read(struct mt_image *im, uint64_t address, void *to, size_t bytes);

/*
 * The same for large parts of an image that does not change (not MT_IMAGE_LIVE): nothing is
 * remembered. Any number of threads may call it at the same time, but no other function meanwhile.
 */
size_t mt_image_read_at_once(struct mt_image *im, uint64_t address, void *to, size_t bytes);

/* All of them: 0, or -EFAULT. */
int mt_image_read_all(struct mt_image *im, uint64_t address, void *to, size_t bytes);

/*
 * A symbol that the module defines, dynamic or from its .symtab (in the file, if it is the same by
 * build-id). ret_bytes may be NULL. 0, -ENOENT.
 */
int mt_image_symbol(struct mt_image *im, const struct mt_image_module *m, const char *name,
		    uint64_t *ret_address, uint64_t *ret_bytes);

/*
 * The symbol of a module that holds an address, or NULL; *ret_offset is the distance from its
 * start. Borrowed until mt_image_close().
 */
const char *mt_image_symbol_at(struct mt_image *im, const struct mt_image_module *m,
			       uint64_t address, uint64_t *ret_offset);

#endif
