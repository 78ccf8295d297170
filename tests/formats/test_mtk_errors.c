/* SPDX-License-Identifier: MIT */
/* Files that are refused, each with its reason, and damaged ones that are read in part. */
#include "fixture.h"

#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/arena.h"

struct sample {
	uint8_t *data;
	size_t len;
	struct mt_state_header *h;
};

static int setup(void **state)
{
	struct mtk_builder *b = mtk_builder_sample();
	struct sample *s = calloc(1, sizeof(*s));
	s->data = mtk_builder_bytes(b, &s->len);
	s->h = (struct mt_state_header *)s->data;
	mtk_builder_free(b);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct sample *s = *state;
	free(s->data);
	free(s);
	return 0;
}

static void *elem(struct sample *s, uint32_t kind, uint32_t number)
{
	const struct mt_state_region *r = &s->h->region[kind - 1];
	return s->data + r->offset + (size_t)number * r->elem_bytes;
}

static struct mt_profile *read_sample(struct sample *s)
{
	struct mt_profile *p = NULL;
	struct mt_err err;
	if (mt_mtk_read_memory(s->data, s->len, "x.mtk", &p, &err))
		fail_msg("%s", err.text);
	return p;
}

static void assert_warning(const struct mt_profile *p, const char *part)
{
	for (uint32_t i = 0; i < p->warning_count; i++)
		if (strstr(p->warning[i], part))
			return;
	fail_msg("no warning with '%s' among %u, first: %s", part, p->warning_count,
		 p->warning_count ? p->warning[0] : "none");
}

static void empty_file_is_refused(void **state)
{
	struct mt_err err = read_error("", 0);
	assert_int_equal(err.code, -ENODATA);
	assert_non_null(strstr(err.text, "'x.mtk' is empty"));
}

static void file_without_header_yet_is_refused(void **state)
{
	static const uint8_t zeros[8192];
	struct mt_err err = read_error(zeros, sizeof(zeros));
	assert_int_equal(err.code, -ENODATA);
	assert_non_null(strstr(err.text, "holds nothing"));
}

static void other_files_are_refused_with_their_first_bytes(void **state)
{
	struct mt_err err = read_error("\177ELF\2\1\1\0\0\0\0\0", 12);
	assert_int_equal(err.code, -EBADMSG);
	assert_int_equal(err.offset, 0);
	assert_string_equal(err.text,
			    "'x.mtk' is not a memtrack state file: it begins with '.ELF....', "
			    "not 'MEMTRACK'");
}

static void cut_header_is_refused(void **state)
{
	struct sample *s = *state;
	struct mt_err err = read_error(s->data, 1000);
	assert_int_equal(err.code, -EBADMSG);
	assert_int_equal(err.offset, 1000);
	assert_string_equal(err.text,
			    "'x.mtk' is cut: it ends after 1000 of the 4096 bytes of its header");
	err = read_error(s->data, 5);
	assert_non_null(strstr(err.text, "is not a memtrack state file"));
}

static void other_major_version_is_refused(void **state)
{
	struct sample *s = *state;
	s->h->version_major = 2;
	struct mt_err err = read_error(s->data, s->len);
	assert_int_equal(err.code, -EPROTONOSUPPORT);
	assert_int_equal(err.offset, 8);
	assert_string_equal(err.text,
			    "'x.mtk' has state file version 2.4, this program reads version 1; "
			    "use the memtrack that wrote it or a newer one");
}

static void other_byte_order_is_refused(void **state)
{
	struct sample *s = *state;
	s->h->byte_order = 0x04030201;
	struct mt_err err = read_error(s->data, s->len);
	assert_int_equal(err.code, -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "the other byte order"));
	s->h->byte_order = 5;
	err = read_error(s->data, s->len);
	assert_int_equal(err.code, -EBADMSG);
	assert_non_null(strstr(err.text, "byte order mark is 0x00000005"));
}

static void other_pointer_size_and_header_size_are_refused(void **state)
{
	struct sample *s = *state;
	s->h->pointer_bytes = 4;
	struct mt_err err = read_error(s->data, s->len);
	assert_int_equal(err.code, -EPROTONOSUPPORT);
	assert_non_null(strstr(err.text, "32-bit addresses"));
	s->h->pointer_bytes = 8;
	s->h->header_bytes = 8192;
	err = read_error(s->data, s->len);
	assert_int_equal(err.code, -EBADMSG);
	assert_non_null(strstr(err.text, "claims 8192 bytes"));
}

static void things_that_are_no_files_are_refused(void **state)
{
	struct mt_profile *p = NULL;
	struct mt_err err;
	assert_int_equal(mt_mtk_read("/proc/self", &p, &err), -EISDIR);
	assert_non_null(strstr(err.text, "'/proc/self' is a directory"));
	assert_int_equal(mt_mtk_read("/dev/null", &p, &err), -EINVAL);
	assert_string_equal(err.text, "'/dev/null' is not a regular file");
	assert_int_equal(mt_mtk_read("/nonexistent/x.mtk", &p, &err), -ENOENT);
	assert_string_equal(err.text,
			    "cannot open '/nonexistent/x.mtk': No such file or directory");
	const char *pipe_path = temp_path("pipe");
	assert_int_equal(mkfifo(pipe_path, 0600), 0);
	assert_int_equal(mt_mtk_read(pipe_path, &p, &err), -EINVAL); /* and does not wait */
	unlink(pipe_path);
}

static void null_error_is_allowed(void **state)
{
	struct mt_profile *p = NULL;
	assert_int_equal(mt_mtk_read_memory("x", 1, "x", &p, NULL), -EBADMSG);
	assert_int_equal(mt_mtk_read("/nonexistent/x", &p, NULL), -ENOENT);
}

static void cut_body_gives_what_is_there(void **state)
{
	struct sample *s = *state;
	s->len = s->h->region[MT_REGION_LIVE - 1].offset + 24 * 2;
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_warning(p,
		       "the file is cut: of 22 elements of the table of live blocks 2 are there");
	assert_int_equal(p->blocks, 1);
	assert_int_equal(p->totals.allocs, 22);
}

static void claims_of_huge_counts_cost_nothing(void **state)
{
	struct sample *s = *state;
	for (uint32_t i = 0; i < MT_REGION_LABELS; i++) {
		s->h->region[i].used = UINT64_MAX - i;
		s->h->region[i].capacity = UINT64_MAX;
		s->h->region[i].committed_bytes = UINT64_MAX;
	}
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_warning(p, "the file is cut");
	assert_true(mt_arena_bytes(p->arena) < 16 << 20);
}

static void huge_counts_in_a_sparse_file_cost_nothing(void **state)
{
	struct sample *s = *state;
	const char *path = temp_path("claims.mtk");
	struct mt_profile *p = NULL;
	for (uint32_t i = 0; i < MT_REGION_LABELS; i++) {
		s->h->region[i].used = UINT64_MAX;
		s->h->region[i].capacity = UINT64_MAX;
		s->h->region[i].committed_bytes = UINT64_MAX;
	}
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_int_equal(mt_file_write(fd, s->data, s->len), 0);
	assert_int_equal(ftruncate(fd, 1ll << 40), 0);
	assert_int_equal(mt_mtk_read_fd(fd, "claims", &p, NULL), 0);
	close(fd);
	unlink(path);
	assert_warning(p, "elements in a file that stores far fewer");
	assert_true(mt_arena_bytes(p->arena) < 512 << 20);
	mt_profile_free(p);
}

static void damaged_region_table_leaves_that_table_out(void **state)
{
	struct sample *s = *state;
	s->h->region[MT_REGION_HISTS - 1].offset = 4096 + 3;
	s->h->region[MT_REGION_LABELS - 1].elem_bytes = 4;
	s->h->region[MT_REGION_LARGE - 1].kind = MT_REGION_LIVE;
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_warning(p, "the table of size histograms is left out: it begins at byte 4099");
	assert_warning(p, "the table of labels is left out: its elements have 4 bytes");
	assert_warning(p, "a second table of live blocks is left out");
	assert_warning(p, "counters with a size histogram that is not in the file");
	assert_int_equal(sizes_missing(p, 2), 10);
	assert_int_equal(p->site[2].counts.allocs, 10);
}

static void indexes_out_of_range_are_counted_and_left_out(void **state)
{
	struct sample *s = *state;
	((struct mt_state_site *)elem(s, MT_REGION_SITES, 1))->node = 1 << 30;
	((struct mt_state_site *)elem(s, MT_REGION_SITES, 1))->label = 5;
	((struct mt_state_site *)elem(s, MT_REGION_SITES, 2))->heap = 99;
	((struct mt_state_cell *)elem(s, MT_REGION_CELLS, 1))->site = 7777;
	((struct mt_state_cell *)elem(s, MT_REGION_CELLS, 2))->thread = 7777;
	((struct mt_state_node *)elem(s, MT_REGION_NODES, 16))->meta = 0xfffff;
	((struct mt_state_live *)elem(s, MT_REGION_LIVE, 1))->cell = UINT32_MAX;
	((struct mt_state_module *)elem(s, MT_REGION_MODULES, 1))->path_string = UINT32_MAX;
	s->h->exe_string = UINT32_MAX;
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_warning(p, "1 sites with a stack that is not in the file");
	assert_warning(p, "1 sites with a label that is not in the file");
	assert_warning(p, "1 sites or blocks of a heap that is not in the file");
	assert_warning(p, "1 counters of a site that is not in the file");
	assert_warning(p, "1 counters of a thread that is not in the file");
	assert_warning(p, "1 stack frames in a module that is not in the file");
	assert_warning(p, "1 live blocks with counters that are not in the file");
	assert_warning(p, "2 names or paths that are not in the file");
	assert_int_equal(p->site[1].node, 0);
	assert_string_equal(p->exe, "");
	assert_string_equal(p->module[1].path, "");
}

static void circles_and_strays_in_the_stack_tree_are_cut(void **state)
{
	struct sample *s = *state;
	struct mt_state_node *n = elem(s, MT_REGION_NODES, 0);
	n[16].parent = 18; /* 18 -> 17 -> 16 -> 18 */
	n[19].parent = 1 << 20;
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	uint32_t nodes[64];
	assert_warning(p, "4 stack frames without a way to the outermost frame");
	assert_int_equal(mt_profile_stack(p, 18, nodes, 64), 1);
	assert_int_equal(p->node[18].end, MT_PROFILE_END_UNKNOWN);
}

static void string_that_runs_to_the_end_of_the_table_is_ended_there(void **state)
{
	struct sample *s = *state;
	struct mt_state_region *r = &s->h->region[MT_REGION_STRINGS - 1];
	s->h->exe_string = (uint32_t)r->used - 4;
	memcpy(s->data + r->offset + r->used - 4, "abcd", 4);
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_string_equal(p->exe, "abcd");
}

static void peaks_that_cannot_be_are_bounded(void **state)
{
	struct sample *s = *state;
	struct mt_state_cell *c = elem(s, MT_REGION_CELLS, 1);
	struct mt_state_site *site = elem(s, MT_REGION_SITES, 1);
	c->peak_bytes = INT64_MAX;
	c->at_peak_bytes = INT64_MIN;
	c->at_peak_epoch = s->h->peak_epoch;
	c->published = INT64_MIN;
	site->peak_published = INT64_MAX;
	s->h->peak_bytes = INT64_MIN;
	s->h->peak_bound_bytes = UINT64_MAX;
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_true(p->site[1].peak_bytes <= p->site[1].counts.bytes);
	assert_int_equal(p->site[1].at_peak_bytes, 0);
	assert_int_equal(p->peak_bytes, p->live_bytes);
}

static void every_allocation_may_fail(void **state)
{
	struct sample *s = *state;
	struct mt_profile *p = NULL;
	struct mt_err err = {0};
	size_t failed = 0;
	for (size_t n = 1;; n++) {
		mt_alloc_fail_from_for_test(n);
		int r = mt_mtk_read_memory(s->data, s->len, "x", &p, &err);
		mt_alloc_fail_from_for_test(0);
		if (!r)
			break;
		assert_int_equal(r, -ENOMEM);
		assert_string_equal(err.text, "cannot read 'x': Cannot allocate memory");
		failed++;
	}
	assert_true(failed > 20);
	assert_int_equal(p->totals.allocs, 22);
	mt_profile_free(p);
}

/* Reads what may be anything: it must end, and what comes out must be in range. */
static void read_anything(const uint8_t *data, size_t len)
{
	struct mt_profile *p = NULL;
	uint32_t nodes[256];
	mt_auto(free) uint8_t *exact = malloc(len ? len : 1); /* sanitizers see its end */
	memcpy(exact, data, len);
	if (mt_mtk_read_memory(exact, len, "x", &p, NULL))
		return;
	assert_true(mt_arena_bytes(p->arena) < 64 << 20);
	for (uint32_t i = 0; i < p->site_count; i++) {
		assert_true(p->site[i].node < p->node_count && p->site[i].heap < p->heap_count &&
			    p->site[i].label < p->label_count);
		mt_profile_stack(p, p->site[i].node, nodes, 256);
	}
	for (uint64_t i = 0; i < p->blocks; i++)
		assert_true(p->block[i].cell < p->cell_count && p->block[i].heap < p->heap_count &&
			    cell_of(p, i)->site < p->site_count &&
			    cell_of(p, i)->thread < p->thread_count);
	mt_profile_free(p);
}

static void file_cut_anywhere_is_read_or_refused(void **state)
{
	struct sample *s = *state;
	for (size_t len = 0; len < s->len; len += len < 64 ? 1 : 29)
		read_anything(s->data, len);
}

static void each_flipped_bit_of_the_header_is_read_or_refused(void **state)
{
	struct sample *s = *state;
	/* behind the region table are only reserved bytes */
	size_t used =
		offsetof(struct mt_state_header, region) + 12 * sizeof(struct mt_state_region);
	for (size_t bit = 0; bit < used * 8; bit++) {
		s->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		read_anything(s->data, s->len);
		s->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static uint64_t next_random(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	*x ^= *x << 17;
	return *x;
}

static void scribbled_bodies_are_read(void **state)
{
	struct sample *s = *state;
	uint64_t x = 88172645463325252u;
	mt_auto(free) uint8_t *copy = malloc(s->len);
	for (unsigned round = 0; round < 1500; round++) {
		memcpy(copy, s->data, s->len);
		unsigned changes = 1 + next_random(&x) % 40;
		for (unsigned i = 0; i < changes; i++) {
			size_t at = 4096 + next_random(&x) % (s->len - 4096);
			copy[at] = (uint8_t)(next_random(&x) >> 8);
		}
		read_anything(copy, s->len);
	}
}

static void grown_file_reads_as_before(void **state)
{
	struct sample *s = *state;
	mt_auto(mt_profile) struct mt_profile *before = read_sample(s);
	s->data = realloc(s->data, s->len + 100000);
	memset(s->data + s->len, 0xa5, 100000);
	s->len += 100000;
	s->h = (struct mt_state_header *)s->data;
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_no_warnings(p);
	assert_int_equal(p->blocks, before->blocks);
	assert_int_equal(p->totals.bytes, before->totals.bytes);
}

#define WITH_SAMPLE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void tables_of_zeros_are_named(void **state)
{
	struct sample *s = *state;
	for (uint32_t i = 1; i <= 2; i++)
		memset(elem(s, MT_REGION_THREADS, i), 0, sizeof(struct mt_state_thread));
	mt_auto(mt_profile) struct mt_profile *p = read_sample(s);
	assert_warning(p, "2 threads whose counters are not in the file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_file_is_refused),
		cmocka_unit_test(file_without_header_yet_is_refused),
		cmocka_unit_test(other_files_are_refused_with_their_first_bytes),
		WITH_SAMPLE(cut_header_is_refused),
		WITH_SAMPLE(other_major_version_is_refused),
		WITH_SAMPLE(other_byte_order_is_refused),
		WITH_SAMPLE(other_pointer_size_and_header_size_are_refused),
		cmocka_unit_test(things_that_are_no_files_are_refused),
		cmocka_unit_test(null_error_is_allowed),
		WITH_SAMPLE(cut_body_gives_what_is_there),
		WITH_SAMPLE(claims_of_huge_counts_cost_nothing),
		WITH_SAMPLE(huge_counts_in_a_sparse_file_cost_nothing),
		WITH_SAMPLE(damaged_region_table_leaves_that_table_out),
		WITH_SAMPLE(indexes_out_of_range_are_counted_and_left_out),
		WITH_SAMPLE(circles_and_strays_in_the_stack_tree_are_cut),
		WITH_SAMPLE(string_that_runs_to_the_end_of_the_table_is_ended_there),
		WITH_SAMPLE(peaks_that_cannot_be_are_bounded),
		WITH_SAMPLE(every_allocation_may_fail),
		WITH_SAMPLE(file_cut_anywhere_is_read_or_refused),
		WITH_SAMPLE(each_flipped_bit_of_the_header_is_read_or_refused),
		WITH_SAMPLE(scribbled_bodies_are_read),
		WITH_SAMPLE(grown_file_reads_as_before),
		WITH_SAMPLE(tables_of_zeros_are_named),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
