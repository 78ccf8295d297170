/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_DEBUGFILE_H
#define MT_SYMBOLIZE_DEBUGFILE_H

/*
 * Which file describes a module: the module itself, checked against the recorded build-id, and its
 * separate debug file. Nothing here asks the network unless mt_debugfile_options.debuginfod is set.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct mt_debugfile_options {
	/*
	 * By build-id and by path suffix; borrowed. Asked before the recorded path when nothing
	 * tells whether the file there is the right one.
	 */
	const char *const *dirs;
	uint32_t dir_count;
	const char *debug_root; /* NULL: /usr/lib/debug */
	bool debuginfod;        /* ask the servers in $DEBUGINFOD_URLS */
	const int *stop;        /* atomic; not 0: what is being fetched is given up; NULL: never */
};

enum mt_debugfile_state {
	MT_DEBUGFILE_OK = 0,
	MT_DEBUGFILE_NO_PATH, /* no file at all: "", "[heap]", "[vdso]" */
	MT_DEBUGFILE_MISSING, /* cannot be opened: deleted, no permission */
	MT_DEBUGFILE_NOT_ELF, /* not a regular file with an ELF header */
	MT_DEBUGFILE_CHANGED, /* another build-id (or inode) than recorded */
};

/* An opened file and its identity on disk. */
struct mt_debugfile {
	char *path; /* NULL: none */
	int fd;     /* -1: none */
	struct stat stat;
};

/* What identifies a module; pointers are borrowed. */
struct mt_debugfile_key {
	const char *path;
	const uint8_t *build_id;
	uint32_t build_id_bytes; /* 0: not recorded, the file at path is taken as it is */
	uint64_t inode;          /* compared when there is no build-id; 0: unknown */
};

/*
 * Opens the file that holds the module's code or at least its build-id: the recorded path, then the
 * option's directories, then the debug root; without a build-id and an inode the directories come
 * first. *ret_state says what was wrong with the recorded path
 * even when another file was found. 0, -ENOENT when there is none, -ENOMEM. Any thread.
 */
int mt_debugfile_open_main(const struct mt_debugfile_options *options,
			   const struct mt_debugfile_key *key, struct mt_debugfile *ret_file,
			   enum mt_debugfile_state *ret_state);

/*
 * Finds the separate debug file of `main` (which has no DWARF of its own): by build-id, by
 * .gnu_debuglink with its checksum, then debuginfod. 0, -ENOENT, -ENOMEM. Any thread.
 */
int mt_debugfile_open_debug(const struct mt_debugfile_options *options,
			    const struct mt_debugfile_key *key, const struct mt_debugfile *main,
			    struct mt_debugfile *ret_file);

/*
 * Finds the file that `user`'s .gnu_debugaltlink names (made by dwz). 0, -ENOENT, -ENOMEM. Any
 * thread.
 */
int mt_debugfile_open_alt(const struct mt_debugfile_options *options,
			  const struct mt_debugfile *user, struct mt_debugfile *ret_file);

/* A part of a file that is loaded, and where. */
struct mt_debugfile_segment {
	uint64_t offset, file_bytes, vaddr;
};

/*
 * The loaded segments of an ELF file in the order of its table: *ret_count of them, at most max.
 * Files that hold debug information only have none with file_bytes.
 */
void mt_debugfile_segments(const struct mt_debugfile *file, struct mt_debugfile_segment *ret,
			   uint32_t max, uint32_t *ret_count);

/*
 * The ELF virtual address of an offset in a file with these segments. Where none has contents there
 * (debug information alone), `from_base`, the distance from where offset 0 was mapped, tells it.
 */
uint64_t mt_debugfile_vaddr(const struct mt_debugfile_segment *segment, uint32_t count,
			    uint64_t offset, uint64_t from_base);

/* 1 when the file has a .debug_info section with contents, 0 when not, -ENOMEM. */
int mt_debugfile_has_dwarf(const struct mt_debugfile *file);

/* Closes and frees what *file holds and makes it empty; an empty one is allowed. */
void mt_debugfile_done(struct mt_debugfile *file);

#define MT_DEBUGFILE_NONE ((struct mt_debugfile){.fd = -1})

#endif
