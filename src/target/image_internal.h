/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_INTERNAL_H
#define MT_TARGET_IMAGE_INTERNAL_H

/* What the files image*.c share. */

#include "base/arena.h"
#include "base/map.h"
#include "target/image.h"
#include "target/image_file.h"

#include <elf.h>
#include <pthread.h>

enum { MT_IMAGE_WINDOWS = 64, MT_IMAGE_WINDOW_BYTES = 16384 };

struct mt_image;
struct mt_keeper;
struct mt_core;
struct mt_image_absent;
struct mt_image_apart;

/* Where bytes come from. */
struct mt_image_ops {
	/* As mt_image_read(); [address, address + bytes) does not wrap. */
	size_t (*read)(struct mt_image *im, uint64_t address, void *to, size_t bytes);
};

/* Symbols of a module, sorted by address. */
struct mt_image_symbols {
	struct mt_image_name *name; /* owned by the arena */
	size_t count;
	bool is_read;
};

struct mt_image_name {
	uint64_t address, bytes;
	const char *text;
	bool is_weak_name; /* local or weak: another name of the address is the better one */
	bool is_old;       /* a version that is not the default one */
};

/* Bytes that were read a moment ago, of an image that does not change. */
struct mt_image_window {
	uint64_t start; /* UINT64_MAX: empty */
	size_t bytes;   /* known, from start on; all in [n, n + 1) * MT_IMAGE_WINDOW_BYTES */
	uint8_t data[MT_IMAGE_WINDOW_BYTES];
};

struct mt_image {
	struct mt_image_facts facts;
	struct mt_arena *arena; /* owns what the tables below point to */
	const struct mt_image_ops *ops;
	struct mt_mapping *mapping;
	size_t mapping_count;
	struct mt_image_thread *thread;
	size_t thread_count;
	struct mt_image_module *module;
	struct mt_image_symbols *symbols; /* one for each module */
	size_t module_count;
	Elf64_auxv_t *auxv;
	size_t auxv_count;
	struct mt_image_window *window; /* owned; NULL: reads are not remembered */
	pthread_mutex_t lock; /* guards the next one, and unreadable_bytes, while threads read */
	struct mt_map unreadable_pages;
	char root[32]; /* where the process's paths are looked up: "/proc/PID/root", or "" */

	/* a process */
	pid_t read_pid;                 /* whose memory is read: the process or its copy */
	int mem_fd;                     /* /proc/PID/mem, -1: process_vm_readv() is used */
	struct mt_image_absent *absent; /* LIVE: pages that are not there; NULL: all are read */
	struct mt_keeper *keeper;
	uint64_t began_ns, faults_then;
	struct mt_image_apart *apart; /* owned; sorted: what the copy lacks */
	size_t apart_count, apart_cap;
	uint64_t apart_taken; /* bytes */

	struct mt_core *core;
};

/* An image with nothing in it, or NULL. */
struct mt_image *mt_image_new(const struct mt_image_ops *ops);

/*
 * Fills the table of mappings from the text of /proc/PID/maps: lines that cannot be understood, or
 * that overlap what came before (the text of a running process is of several moments), are left
 * out. 0 or -ENOMEM.
 */
int mt_image_parse_maps(struct mt_image *im, const char *text);

/* Fills the tables of modules; mappings and auxv are there. 0 or -ENOMEM. */
int mt_image_find_modules(struct mt_image *im);

/* Reads remember from now on what lies around: the image does not change any more. 0, -ENOMEM. */
int mt_image_remember(struct mt_image *im);

/* Bytes of [address, address + bytes) count as unreadable, page by page and once. */
void mt_image_note_unreadable(struct mt_image *im, uint64_t address, uint64_t bytes);

/*
 * Opens the file of a module if its build-id is the module's, or, where that has none and inode is
 * not 0, if it is this very file. 0 or a negative errno value.
 */
int mt_image_open_file(const struct mt_image *im, const struct mt_image_module *m,
		       struct mt_image_file *ret_file);

#endif
