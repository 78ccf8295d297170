/* SPDX-License-Identifier: MIT */
/* Any bytes as a core file: tables are sorted, and all that they name can be asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/account.h"
#include "target/smaps_core.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { LOOKED_AT = 64 };

static void look_at_mappings(struct mt_image *im)
{
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(im, &count);
	uint8_t bytes[40];

	for (size_t i = 0; i < count; i++) {
		if (m[i].start >= m[i].end || (i && m[i].start < m[i - 1].end))
			abort();
		if (mt_image_mapping_of(im, m[i].end - 1) != &m[i])
			abort();
		if (i >= LOOKED_AT)
			continue;
		if (mt_image_read(im, m[i].start, bytes, sizeof(bytes)) > sizeof(bytes))
			abort();
		mt_image_read(im, m[i].end - 8, bytes, sizeof(bytes));
	}
	mt_image_read(im, UINT64_MAX - 8, bytes, sizeof(bytes));
}

static void look_at_modules(struct mt_image *im)
{
	size_t count;
	const struct mt_image_module *m = mt_image_modules(im, &count);

	for (size_t i = 0; i < count && i < LOOKED_AT; i++) {
		uint64_t address, bytes, offset;

		if (!m[i].segment_count || m[i].build_id_bytes > sizeof(m[i].build_id))
			abort();
		if (!mt_image_symbol(im, &m[i], "malloc", &address, &bytes))
			mt_image_symbol_at(im, &m[i], address, &offset);
		mt_image_symbol_at(im, &m[i], m[i].segments[0].start, &offset);
		mt_image_module_of(im, m[i].segments[0].start);
	}
}

/* Each mapping is in one category, and no more of it is in the file than it has addresses. */
static void sort_mappings(struct mt_image *im)
{
	struct mt_vma_facts facts = {.rules = MT_VMA_LINUX};
	struct mt_vma_label *labels;
	struct mt_smaps s;
	struct mt_java java;
	size_t count;

	mt_image_mappings(im, &count);
	if (mt_smaps_of_core(im, &s) || s.count != count || mt_java_find_in(im, &s, &java) ||
	    mt_vma_classify(&s, &facts, &labels))
		abort();
	for (size_t i = 0; i < s.count; i++)
		if (s.mapping[i].sum.bytes[MT_SMAPS_DUMPED] > s.mapping[i].sum.size_bytes ||
		    labels[i].kind >= MT_VMA_KINDS)
			abort();
	free(labels);
	mt_smaps_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct mt_image *im;
	struct mt_err err;
	char path[64];

	if (fd < 0 || write(fd, data, size_bytes) != (ssize_t)size_bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (mt_image_open_core(path, &im, &err)) {
		if (!*err.text)
			abort();
	} else {
		const struct mt_image_thread *t;
		size_t count;

		look_at_mappings(im);
		look_at_modules(im);
		sort_mappings(im);
		t = mt_image_threads(im, &count);
		for (size_t i = 0; i < count; i++)
			if (t[i].vector_bytes > sizeof(t[i].vector))
				abort();
		mt_image_close(im);
	}
	close(fd);
	return 0;
}
