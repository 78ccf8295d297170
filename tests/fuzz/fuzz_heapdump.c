/* SPDX-License-Identifier: MIT */
/* Any bytes as a native heap dump; what was read is written, read again, and must be the same. */
#include <stdlib.h>
#include <string.h>

#include "formats/heapdump_read.h"
#include "formats/heapdump_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static const char *name_of(void *context, const struct mt_profile *p, uint32_t node,
			   uint64_t *ret_offset)
{
	*ret_offset = node;
	return p->given_name ? p->given_name[node] : NULL;
}

static void look(const struct mt_profile *p)
{
	uint64_t bytes = 0, count = 0;

	for (uint64_t i = 0; i < p->groups; i++) {
		const struct mt_profile_site *s = &p->site[p->cell[p->group[i].cell].site];

		if (s->node >= p->node_count || s->label >= p->label_count)
			abort();
		bytes += p->group[i].size * p->group[i].count;
		count += p->group[i].count;
	}
	if (bytes != p->live_bytes || count != p->live_count)
		abort();
	for (uint32_t i = 1; i < p->node_count; i++)
		if (p->node[i].module >= p->module_count || p->node[i].parent >= i ||
		    p->node[i].depth != p->node[p->node[i].parent].depth + 1)
			abort();
}

static char *write_text(const struct mt_profile *p, size_t *ret_len)
{
	struct mt_heapdump_options o = {.version = 12, .function = name_of};
	mt_auto(mt_records) struct mt_records records = {0};
	struct mt_buf out = {0};

	if (mt_records_make(p, &records) || mt_heapdump_write(p, &records, &o, &out, NULL))
		abort();
	return mt_buf_steal(&out, ret_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct mt_profile *p = NULL, *again = NULL;
	struct mt_err err = {0};
	size_t len = 0;
	char *text;

	mt_heapdump_is((const char *)data, size_bytes);
	if (mt_heapdump_read_memory(data, size_bytes, "fuzz", &p, &err)) {
		if (!err.code || !err.text[0])
			abort();
		return 0;
	}
	look(p);
	text = write_text(p, &len);
	if (!text || mt_heapdump_read_memory(text, len, "fuzz", &again, &err))
		abort();
	look(again);
	if (again->live_bytes != p->live_bytes || again->live_count != p->live_count)
		abort();
	free(text);
	mt_profile_free(again);
	mt_profile_free(p);
	return 0;
}
