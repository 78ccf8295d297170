/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_HEAPS_FAKE_IMAGE_H
#define MT_TESTS_HEAPS_FAKE_IMAGE_H

/*
 * An image from a file of ranges, for tests and fuzzing of what reads heaps: the functions of
 * target/image.h that these use. Included by one source of a program, in place of the real ones.
 *
 *	"MTHEAP1\0", u32 ranges, u32 threads (1 or 0), u64 thread pointer, then for each range
 *	u64 start, u32 bytes, u32 kept (bytes that follow for it; the rest is zero), u32 flags, u32
 *0, then the bytes of all ranges.
 *
 * flags: as of mappings, FAKE_MODULE: part of the one module, FAKE_MUSL: which is musl's,
 * FAKE_MIMALLOC: which is mimalloc's, and the module begins with the code of mi_version();
 * FAKE_TCMALLOC: tcmalloc's, and it begins with the address of its list of caches;
 * FAKE_SCUDO: scudo's.
 */

#include "target/image.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	FAKE_MODULE = 16,
	FAKE_MUSL = 32,
	FAKE_MIMALLOC = 64,
	FAKE_TCMALLOC = 128,
	FAKE_SCUDO = 256,
	FAKE_RANGES_MAX = 64,
	FAKE_BYTES_MAX = 64 << 20
};

struct mt_image {
	struct mt_mapping mapping[FAKE_RANGES_MAX];
	const uint8_t *data[FAKE_RANGES_MAX];
	size_t kept[FAKE_RANGES_MAX];
	size_t count;
	struct mt_image_segment segment[FAKE_RANGES_MAX];
	struct mt_image_module module;
	struct mt_image_thread thread;
	size_t thread_count;
	struct mt_image_facts facts;
	bool is_musl, is_mimalloc, is_tcmalloc, is_scudo;
};

/* Ranges that follow each other are one segment. */
static void fake_image_add_segment(struct mt_image *im, const struct mt_mapping *m)
{
	struct mt_image_segment *s = &im->segment[im->module.segment_count];

	if (im->module.segment_count && s[-1].end == m->start && s[-1].flags == m->flags) {
		s[-1].end = m->end;
		return;
	}
	*s = (struct mt_image_segment){m->start, m->end, m->flags};
	im->module.segment_count++;
}

/* 0, or -EINVAL. data is borrowed. */
static int fake_image_open(struct mt_image *im, const uint8_t *data, size_t bytes)
{
	uint32_t head[2], range[6];
	size_t at = 24, body;

	*im = (struct mt_image){
		.facts = {.source = MT_IMAGE_CORE, .program = "fake", .page_bytes = 4096},
		.module = {.path = "fake", .is_libc = true, .segments = im->segment},
	};
	if (bytes < at || memcmp(data, "MTHEAP1", 8))
		return -EINVAL;
	memcpy(head, data + 8, sizeof(head));
	memcpy(&im->thread.thread_pointer, data + 16, 8);
	im->thread_count = head[1] & 1;
	if (head[0] > FAKE_RANGES_MAX || bytes - at < head[0] * sizeof(range))
		return -EINVAL;
	body = at + head[0] * sizeof(range);
	for (uint32_t i = 0; i < head[0]; i++, at += sizeof(range)) {
		struct mt_mapping *m = &im->mapping[im->count];
		uint64_t start;

		memcpy(range, data + at, sizeof(range));
		memcpy(&start, range, 8);
		if (range[2] > FAKE_BYTES_MAX || range[3] > range[2] || range[3] > bytes - body ||
		    start & 4095 || range[2] & 4095 || !range[2] || start > UINT64_MAX / 2 ||
		    (im->count && start < m[-1].end))
			return -EINVAL;
		*m = (struct mt_mapping){.start = start,
					 .end = start + range[2],
					 .flags = range[4] & 15,
					 .in_image = true,
					 .name = ""};
		im->data[im->count] = data + body;
		im->kept[im->count++] = range[3];
		body += range[3];
		im->is_musl |= (range[4] & FAKE_MUSL) != 0;
		im->is_mimalloc |= (range[4] & FAKE_MIMALLOC) != 0;
		im->is_tcmalloc |= (range[4] & FAKE_TCMALLOC) != 0;
		im->is_scudo |= (range[4] & FAKE_SCUDO) != 0;
		if (range[4] & FAKE_MODULE)
			fake_image_add_segment(im, m);
	}
	return 0;
}

const struct mt_image_facts *mt_image_facts(const struct mt_image *im)
{
	return &im->facts;
}

int mt_image_is_there(const struct mt_image *im, struct mt_err *err)
{
	return 0;
}

const struct mt_mapping *mt_image_mappings(const struct mt_image *im, size_t *ret_count)
{
	*ret_count = im->count;
	return im->mapping;
}

const struct mt_image_thread *mt_image_threads(const struct mt_image *im, size_t *ret_count)
{
	*ret_count = im->thread_count;
	return &im->thread;
}

const struct mt_image_module *mt_image_modules(const struct mt_image *im, size_t *ret_count)
{
	*ret_count = 1;
	return &im->module;
}

const struct mt_mapping *mt_image_mapping_of(const struct mt_image *im, uint64_t address)
{
	for (size_t i = 0; i < im->count; i++)
		if (address >= im->mapping[i].start && address < im->mapping[i].end)
			return &im->mapping[i];
	return NULL;
}

const struct mt_image_module *mt_image_module_of(const struct mt_image *im, uint64_t address)
{
	for (uint32_t i = 0; i < im->module.segment_count; i++)
		if (address >= im->segment[i].start && address < im->segment[i].end)
			return &im->module;
	return NULL;
}

size_t mt_image_read(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		const struct mt_mapping *m = mt_image_mapping_of(im, address + done);
		size_t i = m ? (size_t)(m - im->mapping) : 0, at, part;

		if (!m)
			break;
		at = (size_t)(address + done - m->start);
		part = (size_t)(m->end - m->start) - at;
		part = part < bytes - done ? part : bytes - done;
		memset((uint8_t *)to + done, 0, part);
		if (at < im->kept[i])
			memcpy((uint8_t *)to + done, im->data[i] + at,
			       part < im->kept[i] - at ? part : im->kept[i] - at);
		done += part;
	}
	return done;
}

int mt_image_read_all(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	return mt_image_read(im, address, to, bytes) == bytes ? 0 : -EFAULT;
}

int mt_image_symbol(struct mt_image *im, const struct mt_image_module *m, const char *name,
		    uint64_t *ret_address, uint64_t *ret_bytes)
{
	const char *const wanted = im->is_mimalloc   ? "mi_"
				   : im->is_tcmalloc ? "tc_malloc"
				   : im->is_scudo    ? "__scudo_print_stats"
				   : im->is_musl     ? "__malloc_context"
						     : "gnu_get_libc_version";

	if (im->is_tcmalloc && strstr(name, "thread_heaps_"))
		return mt_image_read_all(im, im->segment[0].start, ret_address, 8);
	if (strncmp(name, wanted, strlen(wanted)) != 0)
		return -ENOENT;
	*ret_address = im->segment[0].start;
	return 0;
}

#endif
