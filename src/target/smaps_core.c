/* SPDX-License-Identifier: MIT */
/*
 * A core file names files only. Where the kernel puts the heap that grows by brk() and its own
 * data, and how they begin, tells which mappings these are.
 */

#include "target/smaps_core.h"

#include "base/alloc.h"
#include "core/cc.h"
#include "target/image_core.h"

#include <errno.h>
#include <string.h>

/* The kernel leaves up to so much between the program and the heap, at random; x86-64, arm64. */
#define BRK_GAP_BYTES (1ull << 30)
enum { PREVIOUS_IN_USE = 1, CHUNK_ALIGN = 16, VVAR_MAX = 64 << 10 };

/* Where x86-64 has it in each process. */
#define VSYSCALL_ADDRESS 0xffffffffff600000ull

/* The index behind the last mapping of the program, 0: it is not known which that is. */
static size_t behind_program(const struct mt_image *im, const struct mt_smaps *s)
{
	size_t count, behind = 0;
	const struct mt_image_module *module = mt_image_modules(im, &count);

	for (size_t i = 0; i < count; i++) {
		if (!module[i].is_main)
			continue;
		for (size_t k = 0; k < s->count; k++)
			if (mt_image_module_of(im, s->mapping[k].m.start) == &module[i] ||
			    (*module[i].path && !strcmp(s->mapping[k].m.name, module[i].path)))
				behind = k + 1;
	}
	return behind;
}

/* Whether glibc's first block is at an address. */
static bool has_first_chunk(struct mt_image *im, const struct mt_mapping *m)
{
	uint64_t head[2];

	if (mt_image_read_all(im, m->start, head, sizeof(head)))
		return false;
	return head[1] & PREVIOUS_IN_USE && (head[1] & ~7ull) % CHUNK_ALIGN == 0 &&
	       (head[1] & ~7ull) >= 2 * CHUNK_ALIGN && (head[1] & ~7ull) <= m->end - m->start;
}

static void name_heap(struct mt_image *im, struct mt_smaps *s)
{
	size_t at = behind_program(im, s);
	uint64_t end = at ? s->mapping[at - 1].m.end : 0;

	for (; at && at < s->count; at++) {
		struct mt_mapping *m = &s->mapping[at].m;

		if (*m->name || m->start - end > BRK_GAP_BYTES)
			return;
		if ((m->flags & MT_MAPPING_WRITE) && has_first_chunk(im, m)) {
			m->name = "[heap]";
			return;
		}
	}
}

/* The kernel's data for [vdso] lies right below it and is only read. */
static void name_kernel(struct mt_smaps *s)
{
	for (size_t i = 0; i < s->count; i++) {
		if (s->mapping[i].m.start == VSYSCALL_ADDRESS && !*s->mapping[i].m.name)
			s->mapping[i].m.name = "[vsyscall]";
		if (strcmp(s->mapping[i].m.name, "[vdso]") != 0)
			continue;
		for (size_t k = i; k > 0; k--) {
			struct mt_smaps_mapping *v = &s->mapping[k - 1];

			if (*v->m.name || v->m.end != s->mapping[k].m.start ||
			    v->m.flags != MT_MAPPING_READ || v->sum.size_bytes > VVAR_MAX)
				break;
			v->m.name = "[vvar]";
		}
	}
}

int mt_smaps_of_core(struct mt_image *im, struct mt_smaps *ret_smaps)
{
	struct mt_smaps s = {.kind = MT_SMAPS_CORE};
	const struct mt_mapping *m = mt_image_mappings(im, &s.count);

	s.mapping = mt_alloc_zero(s.count + 1, sizeof(*s.mapping));
	if (!s.mapping)
		return -ENOMEM;
	s.capacity = s.count + 1;
	for (size_t i = 0; i < s.count; i++) {
		struct mt_smaps_mapping *v = &s.mapping[i];

		*v = (struct mt_smaps_mapping){.m = m[i], .vm_flags = "", .thp_eligible = -1};
		v->sum.mappings = 1;
		v->sum.size_bytes = m[i].end - m[i].start;
		v->sum.known = 1u << MT_SMAPS_DUMPED;
		v->sum.bytes[MT_SMAPS_DUMPED] = mt_core_held_bytes(im, i);
	}
	name_heap(im, &s);
	name_kernel(&s);
	*ret_smaps = s;
	return 0;
}
