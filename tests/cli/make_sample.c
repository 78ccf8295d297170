/* SPDX-License-Identifier: MIT */
/*
 * Writes a state file for the command's tests.
 * usage: make_sample FILE [sample|hostile|missing|version|arch|order|unseen|wide] [PID]
 * With PID the file is as the tracker of that process, which runs now, would have it.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "core/clock.h"
#include "support/mtk_builder.h"
#include "target/process.h"

/* Title of the terminal, a line of its own, bytes that are no UTF-8, CSI in C1, reversed text. */
#define NASTY "\033]0;owned\a\n\r\tFAKE \xff\xc3(\xc2\x9b\x33\x31m\"',;=\x7f\xe2\x80\xae"

static uint32_t name_of(struct mtk_builder *b, const char *before)
{
	char text[256];

	snprintf(text, sizeof(text), "%s%s", before, NASTY);
	return mtk_builder_string(b, text);
}

/* Every string of the format is what an attacker would put there. */
static struct mtk_builder *make_hostile(void)
{
	struct mtk_builder *b = mtk_builder_new();
	struct mt_state_header *h = mtk_builder_header(b);
	struct mt_state_node source = {.parent = 1, .meta = MT_NODE_SOURCE << 20};
	struct mt_state_heap heap = {0};
	struct mt_state_label label = {0};
	uint32_t exe, node, site, thread;

	h->exe_string = name_of(b, "/bin/exe");
	h->cmdline_string = name_of(b, "cmdline");
	h->output_string = name_of(b, "/tmp/output");
	h->options_string = name_of(b, "options");
	h->lost[MT_LOST_UNSEEN_FREE] = 3;
	exe = mtk_builder_module(b, 0x400000, 0x480000, "/bin/exe" NASTY);
	thread = mtk_builder_thread(b, 4243, "th\033[2J\n\xff");
	while (mtk_builder_count(b, MT_REGION_HEAPS) < MT_HEAP_FIRST_CUSTOM)
		mtk_builder_add(b, MT_REGION_HEAPS, &heap);
	heap.name_string = name_of(b, "heap");
	heap.flags = mtk_builder_add(b, MT_REGION_HEAPS, &heap);
	label.name_string = name_of(b, "label");
	label.reserved = mtk_builder_add(b, MT_REGION_LABELS, &label);
	source.pc = (uint64_t)name_of(b, "source.c") << 32 | 7;
	for (uint32_t i = 0; i < 3; i++) {
		node = i == 1 ? mtk_builder_add(b, MT_REGION_NODES, &source)
			      : mtk_builder_node(b, 0x401000 + i, 1, exe);
		site = mtk_builder_site(b, node, MT_CALL_MALLOC);
		struct mt_state_site *s = mtk_builder_at(b, MT_REGION_SITES, site);

		s->heap = i == 2 ? (uint16_t)heap.flags : 0;
		s->call = i == 2 ? MT_CALL_CUSTOM : MT_CALL_MALLOC;
		s->label = label.reserved;
		mtk_builder_alloc(b, thread, site, 0x10000 * (i + 1), 10000);
	}
	return b;
}

/* More libraries that are gone than are named one by one. */
static struct mtk_builder *make_missing(void)
{
	struct mtk_builder *b = mtk_builder_new();

	for (uint32_t i = 0; i < 6; i++) {
		uint64_t lo = 0x400000 + 0x100000 * i;
		uint32_t module, node;
		char path[64];

		snprintf(path, sizeof(path), "/nonexistent/lib%u.so", i);
		module = mtk_builder_module(b, lo, lo + 0x10000, path);
		node = mtk_builder_node(b, lo + 0x1000, 1, module);
		mtk_builder_alloc(b, 1, mtk_builder_site(b, node, MT_CALL_MALLOC),
				  0x10000 * (i + 1), 5000);
	}
	return b;
}

/* A report that is some megabytes long. */
static struct mtk_builder *make_wide(void)
{
	struct mtk_builder *b = mtk_builder_new();

	for (uint32_t i = 0; i < 8000; i++)
		mtk_builder_alloc(
			b, 1,
			mtk_builder_site(b, mtk_builder_node(b, 0x1000 + i, 1, 0), MT_CALL_MALLOC),
			0x10000 * (i + 1), 5000);
	return b;
}

static struct mtk_builder *make(const char *what)
{
	struct mtk_builder *b;

	if (!strcmp(what, "hostile"))
		return make_hostile();
	if (!strcmp(what, "missing"))
		return make_missing();
	if (!strcmp(what, "wide"))
		return make_wide();
	b = mtk_builder_sample();
	if (!strcmp(what, "version"))
		mtk_builder_header(b)->version_major = 9;
	if (!strcmp(what, "arch"))
		mtk_builder_header(b)->arch = 77;
	if (!strcmp(what, "order"))
		mtk_builder_header(b)->byte_order = 0x04030201;
	if (!strcmp(what, "unseen"))
		mtk_builder_header(b)->lost[MT_LOST_UNSEEN_FREE] = 1234;
	return b;
}

/* The header of a process of this machine that runs. */
static int make_live(struct mt_state_header *h, int32_t pid)
{
	struct timespec ts;

	if (mt_process_boot_id(h->boot_id))
		return -1;
#if defined(__aarch64__)
	h->arch = MT_ARCH_AARCH64;
#endif
	clock_gettime(CLOCK_MONOTONIC, &ts);
	h->mono_start_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	h->tick_start = mt_clock_ticks();
	h->tick_mark = 0;
	h->end_kind = MT_END_RUNNING;
	h->proc_start = 0;
	h->pid = pid;
	return 0;
}

int main(int argc, char **argv)
{
	struct mtk_builder *b = make(argc > 2 ? argv[2] : "sample");
	uint8_t *data;
	size_t len;
	int code = 1;

	if (argc > 3) {
		mtk_builder_make_controllable(b);
		code = make_live(mtk_builder_header(b), atoi(argv[3])) ||
		       mtk_builder_write_sparse(b, argv[1], 100000);
		mtk_builder_free(b);
		return code;
	}
	data = mtk_builder_bytes(b, &len);
	if (argc >= 2 && data)
		code = mt_file_write_atomic(argv[1], data, len, 0600, NULL) ? 1 : 0;
	free(data);
	mtk_builder_free(b);
	return code;
}
