/* SPDX-License-Identifier: MIT */
/*
 * Looks up addresses of one module with the project's symbolizer, for test_files.py.
 *
 *	look_up [--id=HEX] [--bias=HEX] [--symbols=DIR]... [--root=DIR] [--cache=DIR] [--inode=N]
 *[--debuginfod]
 *		[--threads=N] [--progress=go|stop] PATH <addresses
 *
 * Reads ELF virtual addresses in hexadecimal, one a line. Prints for each a line "@ADDRESS", then a
 *line for each frame, innermost first: function, mangled name, file, line, column, flags (i:
 *inline, n: nearest dynamic), offset or "-", separated by tabs; "?" for what is not known. Warnings
 *follow, each as "!TEXT".
 */
#include "base/alloc.h"
#include "base/arena.h"
#include "model/profile.h"
#include "symbolize/symbolize.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIRS_MAX = 8 };

struct arguments {
	struct mt_profile_module module;
	struct mt_symbolize_options options;
	const char *dir[DIRS_MAX];
};

static bool show_progress(void *context, uint32_t done, uint32_t total)
{
	fprintf(stderr, "progress %u of %u\n", done, total);
	return context == NULL;
}

static const char *value_of(const char *arg, const char *name)
{
	size_t len = strlen(name);
	return strncmp(arg, name, len) ? NULL : arg + len;
}

static void set_id(struct mt_profile_module *m, const char *hex)
{
	unsigned byte;
	for (; sscanf(hex, "%2x", &byte) == 1 && m->build_id_bytes < 32; hex += 2)
		m->build_id[m->build_id_bytes++] = (uint8_t)byte;
}

static void parse(int argc, char **argv, struct arguments *a)
{
	const char *v;
	a->options.no_cache = true;
	a->module.hi = UINT64_MAX;
	for (int i = 1; i < argc; i++) {
		if ((v = value_of(argv[i], "--id="))) {
			set_id(&a->module, v);
		} else if ((v = value_of(argv[i], "--bias="))) {
			a->module.bias = strtoull(v, NULL, 16);
		} else if ((v = value_of(argv[i], "--symbols="))) {
			if (a->options.files.dir_count < DIRS_MAX)
				a->dir[a->options.files.dir_count++] = v;
		} else if ((v = value_of(argv[i], "--root="))) {
			a->options.files.debug_root = v;
		} else if ((v = value_of(argv[i], "--cache="))) {
			a->options.no_cache = false;
			a->options.cache_dir = v;
		} else if ((v = value_of(argv[i], "--inode="))) {
			a->module.file_inode = strtoull(v, NULL, 10);
		} else if ((v = value_of(argv[i], "--threads="))) {
			a->options.threads = (uint32_t)strtoul(v, NULL, 10);
		} else if ((v = value_of(argv[i], "--progress="))) {
			a->options.progress = show_progress;
			a->options.progress_context = strcmp(v, "stop") ? NULL : a;
		} else if (!strcmp(argv[i], "--debuginfod")) {
			a->options.files.debuginfod = true;
		} else {
			a->module.path = argv[i];
		}
	}
	a->options.files.dirs = a->dir;
}

/* A profile of one module and one frame for each address of the input. */
static struct mt_profile *make_profile(const struct arguments *a)
{
	struct mt_profile *p = mt_profile_new();
	size_t cap = 0;
	uint64_t vaddr;
	struct mt_profile_node *node = NULL;
	if (!p)
		exit(2);
	p->module = mt_arena_array(p->arena, 2, sizeof(*p->module));
	p->module[0].path = "";
	p->module[1] = a->module;
	p->module_count = 2;
	while (scanf("%" SCNx64, &vaddr) == 1) {
		node = mt_alloc_grow(node, &cap, p->node_count + 1, sizeof(*node));
		if (!node)
			exit(2);
		node[p->node_count++] = (struct mt_profile_node){
			.pc = vaddr + a->module.bias + 1, .module = 1, .depth = 1};
	}
	p->node = mt_arena_array(p->arena, p->node_count, sizeof(*node));
	if (p->node_count > 1)
		memcpy(p->node + 1, node + 1, (p->node_count - 1) * sizeof(*node));
	free(node);
	return p;
}

static void print_frame(const struct mt_symbol_frame *f)
{
	printf("%s\t%s\t%s\t%u\t%u\t%s%s\t", f->display ? f->display : "?",
	       f->mangled ? f->mangled : "?", f->file ? f->file : "?", f->line, f->column,
	       f->is_inline ? "i" : "", f->nearest_dynamic ? "n" : "");
	if (f->has_offset)
		printf("0x%" PRIx64 "\n", f->offset);
	else
		printf("-\n");
}

int main(int argc, char **argv)
{
	struct arguments a = {.module.path = ""};
	struct mt_err err = {0};
	struct mt_symbols *symbols;
	parse(argc, argv, &a);
	struct mt_profile *p = make_profile(&a);
	if (mt_symbolize_profile(p, &a.options, &symbols, &err)) {
		fprintf(stderr, "look_up: %s\n", err.text);
		return 2;
	}
	for (uint32_t i = 1; i < p->node_count; i++) {
		uint32_t count;
		const struct mt_symbol_frame *f = mt_symbols_node(symbols, i, &count);
		printf("@0x%" PRIx64 "\n", p->node[i].pc - 1 - a.module.bias);
		for (uint32_t k = 0; k < count; k++)
			print_frame(&f[k]);
	}
	if (mt_symbols_stopped(symbols))
		printf("!stopped\n");
	for (uint32_t i = 0; i < mt_symbols_warnings(symbols); i++)
		printf("!%s\n", mt_symbols_warning(symbols, i));
	mt_symbols_free(symbols);
	mt_profile_free(p);
	return 0;
}
