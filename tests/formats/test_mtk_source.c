/* SPDX-License-Identifier: MIT */
/* Bounds of regions and walks over them. */
#include "fixture.h"

#include <string.h>

#include "formats/mtk_source.h"

struct walked {
	uint64_t first[8], count[8], elements;
	unsigned runs;
	int result; /* of the visitor */
};

static int visit(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct walked *w = user;
	if (w->runs < 8) {
		w->first[w->runs] = first;
		w->count[w->runs] = count;
	}
	w->runs++;
	w->elements += count;
	return w->result;
}

static void open_sample(struct mt_mtk_source *s, struct mtk_builder *b, uint8_t **ret_data)
{
	size_t len;
	*ret_data = mtk_builder_bytes(b, &len);
	assert_int_equal(mt_mtk_source_memory(s, *ret_data, len, "x", NULL), 0);
}

static void regions_are_found_by_kind(void **state)
{
	struct mt_mtk_source s;
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(free) uint8_t *data = NULL;
	open_sample(&s, b, &data);
	assert_int_equal(s.region_count, 11);
	const struct mt_mtk_region *r = mt_mtk_source_region(&s, MT_REGION_SITES);
	assert_int_equal(r->kind, MT_REGION_SITES);
	assert_int_equal(r->count, 5);
	assert_int_equal(r->elem_bytes, 64);
	assert_int_equal(mt_mtk_source_region(&s, 20)->count, 0);
	assert_int_equal(mt_mtk_source_region(&s, 4000000000u)->count, 0);
	assert_int_equal(mt_mtk_elem_bytes(MT_REGION_CELLS), 128);
	assert_int_equal(mt_mtk_elem_bytes(99), 0);
	assert_string_equal(mt_mtk_kind_name(MT_REGION_LIVE), "live blocks");
	assert_string_equal(mt_mtk_kind_name(0), "unknown");
}

static void elements_without_storage_do_not_count(void **state)
{
	struct mt_mtk_source s;
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	struct mt_state_region *r = &((struct mt_state_header *)data)->region[MT_REGION_SITES - 1];
	r->committed_bytes = 3 * 64 + 63;
	r->used = 4;
	assert_int_equal(mt_mtk_source_memory(&s, data, len, "x", NULL), 0);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_SITES)->count, 3);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_SITES)->used, 4);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_SITES)->fault, MT_MTK_FAULT_NONE);
}

static void walk_over_memory_visits_all_and_ends_when_told(void **state)
{
	struct mt_mtk_source s;
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(free) uint8_t *data = NULL;
	open_sample(&s, b, &data);
	struct walked w = {.result = 0};
	const struct mt_mtk_region *r = mt_mtk_source_region(&s, MT_REGION_NODES);
	assert_int_equal(mt_mtk_source_walk(&s, r, visit, &w), 0);
	assert_int_equal(w.elements, r->count);
	w.result = -77;
	assert_int_equal(mt_mtk_source_walk(&s, r, visit, &w), -77);
	assert_int_equal(mt_mtk_source_walk(&s, mt_mtk_source_region(&s, 20), visit, &w), 0);
}

static void walk_leaves_holes_out_and_covers_elements_at_their_edges(void **state)
{
	struct mt_mtk_source s;
	struct walked w = {.result = 0};
	const char *path = temp_path("walk");
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	assert_int_equal(mtk_builder_write_sparse(b, path, 1000000), 0);
	mt_auto(close) int fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	struct mt_state_header h;
	assert_int_equal(mt_file_pread(fd, &h, sizeof(h), 0), sizeof(h));
	struct mt_state_region *r = &h.region[MT_REGION_LIVE - 1];
	r->used = 500000;
	r->committed_bytes = 24 * 500000;
	assert_int_equal(mt_file_pwrite(fd, &h, sizeof(h), 0), 0);
	/* one block in the middle of a page far out */
	assert_int_equal(mt_file_pwrite(fd, "x", 1, r->offset + 24 * 300000), 0);
	assert_int_equal(mt_mtk_source_fd(&s, fd, "x", NULL), 0);
	const struct mt_mtk_region *live = mt_mtk_source_region(&s, MT_REGION_LIVE);
	assert_int_equal(mt_mtk_source_walk(&s, live, visit, &w), 0);
	if (w.elements == 500000)
		skip(); /* a file system that does not tell its holes */
	assert_int_equal(w.runs, 2);
	assert_int_equal(w.first[0], 0);
	assert_true(w.first[1] <= 300000 && w.first[1] + w.count[1] > 300000);
	assert_true(w.elements < 10000);
}

static void walk_of_a_file_cut_meanwhile_says_so(void **state)
{
	struct mt_mtk_source s;
	struct walked w = {.result = 0};
	const char *path = temp_path("walk");
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	assert_int_equal(mtk_builder_write_sparse(b, path, 1000), 0);
	mt_auto(close) int fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	assert_int_equal(mt_mtk_source_fd(&s, fd, "x", NULL), 0);
	const struct mt_mtk_region *r = mt_mtk_source_region(&s, MT_REGION_THREADS);
	assert_int_equal(ftruncate(fd, (off_t)r->offset + 512 + 100), 0);
	assert_int_equal(mt_mtk_source_walk(&s, r, visit, &w), -ENODATA);
	assert_int_equal(w.elements, 1);
	mt_mtk_source_refresh(&s, MT_REGION_THREADS);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_THREADS)->count, 1);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_THREADS)->fault, MT_MTK_FAULT_CUT);
}

static void refresh_takes_new_counts_but_no_other_place(void **state)
{
	struct mt_mtk_source s;
	const char *path = temp_path("refresh");
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	assert_int_equal(mtk_builder_write_sparse(b, path, 1000), 0);
	mt_auto(close) int fd = open(path, O_RDWR | O_CLOEXEC);
	unlink(path);
	assert_int_equal(mt_mtk_source_fd(&s, fd, "x", NULL), 0);
	struct mt_state_header h = s.header;
	h.region[MT_REGION_SITES - 1].used = 9;
	h.region[MT_REGION_CELLS - 1].used = 9;
	h.region[MT_REGION_CELLS - 1].offset += 4096;
	assert_int_equal(mt_file_pwrite(fd, &h, sizeof(h), 0), 0);
	uint64_t cells = mt_mtk_source_region(&s, MT_REGION_CELLS)->count;
	mt_mtk_source_refresh(&s, MT_REGION_SITES);
	mt_mtk_source_refresh(&s, MT_REGION_CELLS);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_SITES)->count, 9);
	assert_int_equal(mt_mtk_source_region(&s, MT_REGION_CELLS)->count, cells);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(regions_are_found_by_kind),
		cmocka_unit_test(elements_without_storage_do_not_count),
		cmocka_unit_test(walk_over_memory_visits_all_and_ends_when_told),
		cmocka_unit_test(walk_leaves_holes_out_and_covers_elements_at_their_edges),
		cmocka_unit_test(walk_of_a_file_cut_meanwhile_says_so),
		cmocka_unit_test(refresh_takes_new_counts_but_no_other_place),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
