/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a text of smaps, maps or smaps_rollup, and as the memory of its process: categories
 * are complete, rows add up, all three formats can be written.
 */
#include "report/meminfo.h"
#include "target/account.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

struct input {
	const uint8_t *data;
	size_t size;
};

static void must(int holds)
{
	if (!holds)
		abort();
}

/* The same bytes everywhere. */
static size_t read_bytes(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct input *in = context;
	size_t at = in->size ? (size_t)(address / 4096 % in->size) : 0;
	size_t len = MT_MIN(bytes, in->size - at);

	memcpy(to, in->data + at, len);
	return len;
}

static void must_add_up(const struct mt_account *a)
{
	struct mt_smaps_sum sum = {0};
	uint64_t mappings = 0;

	for (size_t i = 0; i < a->count; i++) {
		mt_smaps_sum_add(&sum, &a->row[i].now);
		mappings += a->row[i].now.mappings;
		must(a->row[i].label.kind < MT_VMA_KINDS && a->row[i].label.group < MT_VMA_GROUPS);
		must(a->row[i].name && a->row[i].label.what);
	}
	must(mappings == a->total.mappings && sum.size_bytes == a->total.size_bytes);
	must(!memcmp(sum.bytes, a->total.bytes, sizeof(sum.bytes)) && sum.known == a->total.known);
}

static void write_all(const struct mt_smaps *s, const struct mt_account *a, bool has_old)
{
	for (int format = MT_MAPS_TEXT; format <= MT_MAPS_CSV; format++) {
		struct mt_buf out = {0};
		struct mt_maps_view v = {
			.name = "x", .old_name = has_old ? "y" : NULL, .s = s, .a = a, .top = 3};

		must(!mt_maps_write(&v, (enum mt_maps_format)format, &out));
		must(out.len && out.data[out.len - 1] == '\n');
		mt_buf_done(&out);
	}
}

/* The same as categories with a summary. */
static void write_meminfo(const struct mt_smaps *s, const struct mt_account *a,
			  const struct mt_account_app *app, bool has_old)
{
	struct mt_smaps_sum total;

	mt_smaps_total(s, &total);
	for (int format = MT_MAPS_TEXT; format <= MT_MAPS_CSV; format++) {
		struct mt_buf out = {0};
		struct mt_meminfo_view v = {.name = "x", .a = a, .app = app, .total = &total};

		if (has_old) {
			v.old_name = "y";
			v.old_app = app;
			v.old_total = &total;
		}
		must(!mt_meminfo_process(&v, (enum mt_maps_format)format, &out));
		must(out.len && out.data[out.len - 1] == '\n');
		mt_buf_done(&out);
	}
}

static void account(const struct mt_smaps *s, const struct mt_vma_facts *f, enum mt_account_by by)
{
	struct mt_vma_label *labels;
	struct mt_account a, old;
	struct mt_account_app app;

	must(!mt_vma_classify(s, f, &labels));
	must(!mt_account_make(s, labels, mt_vma_rules_of(s, f->rules), by, &a));
	must_add_up(&a);
	mt_account_sort(&a, MT_ACCOUNT_RSS);
	write_all(s, &a, false);
	mt_account_summary(s, labels, &app);
	if (by == MT_ACCOUNT_KIND)
		write_meminfo(s, &a, &app, false);
	must(!mt_account_make(s, labels, mt_vma_rules_of(s, f->rules), by, &old));
	must(!mt_account_compare(&a, &old));
	mt_account_sort(&a, MT_ACCOUNT_PSS);
	write_all(s, &a, true);
	if (by == MT_ACCOUNT_KIND)
		write_meminfo(s, &a, &app, true);
	mt_account_done(&a);
	mt_account_done(&old);
	free(labels);
}

static void ignore(void *context, const char *sentence)
{
	must(*sentence != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct input in = {data, size_bytes};
	uint64_t sp[] = {size_bytes * 4096, 0x7ffc00000100};
	struct mt_vma_facts facts[] = {
		{.rules = MT_VMA_AUTO},
		{.rules = MT_VMA_ANDROID},
		{.rules = MT_VMA_LINUX,
		 .sp = sp,
		 .sp_count = MT_ARRAY_LEN(sp),
		 .java_start = 0x7f0000000000,
		 .java_end = 0x7f0000000000 + (size_bytes << 12),
		 .read = read_bytes,
		 .context = &in},
	};
	char *text = malloc(size_bytes + 1);
	struct mt_smaps s;
	struct mt_err err = {0};

	must(text != NULL);
	memcpy(text, data, size_bytes);
	text[size_bytes] = 0;
	mt_smaps_is_text(text, size_bytes);
	if (mt_smaps_parse(text, size_bytes, "x", &s, &err)) {
		must(err.code && err.text[0]);
		return 0;
	}
	must(s.count > 0);
	mt_smaps_tell_doubts(&s, ignore, NULL);
	must(mt_java_heap_views(&s) <= s.count);
	for (size_t i = 0; i < MT_ARRAY_LEN(facts); i++)
		for (int by = MT_ACCOUNT_OBJECT; by <= MT_ACCOUNT_KIND; by++)
			account(&s, &facts[i], (enum mt_account_by)by);
	mt_smaps_done(&s);
	return 0;
}
