/* SPDX-License-Identifier: MIT */
/*
 * Writes the seeds of the fuzz corpus of state files into a folder: `make_corpus FOLDER`. The
 * committed ones in tests/fuzz/corpus/mtk_read come from here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "support/mtk_builder.h"

static int write_seed(const char *dir, const char *name, const void *data, size_t len)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return mt_file_write_atomic(path, data, len, 0644, NULL);
}

static int write_builder(const char *dir, const char *name, struct mtk_builder *b)
{
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	return write_seed(dir, name, data, len);
}

static int write_damaged(const char *dir)
{
	size_t len;
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	struct mt_state_header *h = (struct mt_state_header *)data;
	int failed = write_seed(dir, "cut", data, len - 700);
	h->region[MT_REGION_NODES - 1].used = UINT64_MAX;
	h->region[MT_REGION_NODES - 1].capacity = UINT64_MAX;
	h->region[MT_REGION_NODES - 1].committed_bytes = UINT64_MAX;
	h->region[MT_REGION_HISTS - 1].offset = 1;
	struct mt_state_node *n = (struct mt_state_node *)(data + h->region[3].offset);
	n[16].parent = 18; /* a circle */
	return failed | write_seed(dir, "claims", data, len);
}

/* 16 bytes a line; lines of zeros are left out; the last line is the length. */
static int print_dump(void)
{
	static const uint8_t zeros[16];
	size_t len;
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_example();
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	for (size_t at = 0; at < len; at += 16) {
		size_t n = MT_MIN((size_t)16, len - at);
		if (!memcmp(data + at, zeros, n))
			continue;
		printf("%08zx ", at);
		for (size_t i = 0; i < n; i++)
			printf(" %02x", data[at + i]);
		printf("\n");
	}
	printf("%08zx\n", len);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	if (!strcmp(argv[1], "--dump"))
		return print_dump();
	mt_auto(mtk_builder) struct mtk_builder *sample = mtk_builder_sample();
	mt_auto(mtk_builder) struct mtk_builder *bare = mtk_builder_new();
	mt_auto(mtk_builder) struct mtk_builder *sampled = mtk_builder_sampled();
	mt_auto(mtk_builder) struct mtk_builder *counted = mtk_builder_counted();
	mt_auto(mtk_builder) struct mtk_builder *guarded = mtk_builder_guarded();
	mt_auto(mtk_builder) struct mtk_builder *checked = mtk_builder_checked();
	int failed = write_builder(argv[1], "sample", sample);
	failed |= write_builder(argv[1], "bare", bare);
	failed |= write_builder(argv[1], "sampled", sampled);
	failed |= write_builder(argv[1], "counted", counted);
	failed |= write_builder(argv[1], "guarded", guarded);
	failed |= write_builder(argv[1], "checked", checked);
	failed |= write_damaged(argv[1]);
	return failed ? 1 : 0;
}
