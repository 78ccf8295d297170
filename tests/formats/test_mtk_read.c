/* SPDX-License-Identifier: MIT */
/* Reading healthy state files: every field, and the sums that the reader makes. */
#include "fixture.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void header_fields_reach_the_profile(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_header *h = mtk_builder_header(b);
	h->end_kind = MT_END_SIGNALED;
	h->end_code = 9;
	h->notes = MT_NOTE_FORK_CHILD;
	h->lost[MT_LOST_CHILD] = 3;
	h->children_seen = 4;
	h->max_bytes = 1 << 30;
	h->output_string = mtk_builder_string(b, "/tmp/out.mtk");
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->pid, 4242);
	assert_int_equal(p->ppid, 4241);
	assert_int_equal(p->proc_start_ticks, 1000);
	assert_string_equal(p->exe, "/usr/bin/server");
	assert_string_equal(p->cmdline, "server --port 80");
	assert_string_equal(p->output, "/tmp/out.mtk");
	assert_string_equal(p->options, "");
	assert_int_equal(p->arch, MT_ARCH_X86_64);
	assert_int_equal(p->libc, MT_LIBC_GLIBC);
	assert_int_equal(p->door, MT_DOOR_PRELOAD);
	assert_int_equal(p->mode, MT_MODE_FULL);
	assert_int_equal(p->depth, 32);
	assert_int_equal(p->version_major, 1);
	assert_int_equal(p->end_kind, MT_END_SIGNALED);
	assert_int_equal(p->end_code, 9);
	assert_int_equal(p->notes, MT_NOTE_FORK_CHILD);
	assert_int_equal(p->lost[MT_LOST_CHILD], 3);
	assert_int_equal(p->children_seen, 4);
	assert_int_equal(p->threads_seen, 2);
	assert_int_equal(p->state_max_bytes, 1 << 30);
	assert_true(p->recording);
	assert_false(p->process_alive);
}

static void times_follow_from_the_clock_pair(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->time_resolution_ns, 1000000);
	assert_int_equal(p->duration_ns, 10000 * 1000000ull); /* the pair is the newest time seen */
	assert_int_equal(p->site[1].first_ns, 0);
	for (uint64_t i = 0; i < p->blocks; i++)
		if (p->block[i].size == 7)
			assert_int_equal(born_ns(p, i), 2000 * 1000000ull);
	assert_false(p->times_estimated);
}

static void without_clock_pair_times_are_estimates_and_it_is_said(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mtk_builder_header(b)->tick_mark = 0;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_true(p->times_estimated);
	assert_int_equal(p->warning_count, 1);
	assert_non_null(strstr(p->warning[0], "no clock calibration"));
	assert_int_equal(p->time_resolution_ns, 1000000);
}

static void impossible_clock_pair_is_not_used(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mtk_builder_header(b)->tick_mark = 1; /* before the start */
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_true(p->times_estimated);
	assert_int_equal(p->warning_count, 2);
	assert_non_null(strstr(p->warning[0], "clock readings cannot be right"));
}

static void time_units_beyond_32_bits_are_continued(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	struct mt_state_header *h = mtk_builder_header(b);
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 1, 1, 0), MT_CALL_MALLOC);
	h->tick_mark = h->tick_start + (1ull << 21);
	h->mono_mark_ns = h->mono_start_ns + 1000000;
	h->now_unit = 0xfffffff0u;
	mtk_builder_alloc(b, 1, site, 0x1000, 8);
	h->now_unit = 0x100000010u;
	mtk_builder_alloc(b, 1, site, 0x2000, 8);
	h->now_unit = 0x100000005u; /* the newest event is a little ahead of it */
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(born_ns(p, 0), 0xfffffff0u * 1000000ull);
	assert_int_equal(born_ns(p, 1), 0x100000010u * 1000000ull);
	assert_int_equal(p->duration_ns, 0x100000010u * 1000000ull);
}

static void modules_nodes_and_stacks_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	((struct mt_state_module *)mtk_builder_at(b, MT_REGION_MODULES, 1))->flags =
		MT_MODULE_PROGRAM | MT_MODULE_PROVIDER;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->module_count, 3);
	assert_string_equal(p->module[0].path, "");
	assert_string_equal(p->module[1].path, "/usr/bin/server");
	assert_int_equal(p->module[1].lo, 0x400000);
	assert_int_equal(p->module[1].hi, 0x480000);
	assert_int_equal(p->module[1].build_id_bytes, 20);
	assert_int_equal(p->module[1].build_id[2], '/' + 2);
	assert_true(p->module[1].is_program);
	assert_true(p->module[1].is_provider);
	assert_false(p->module[1].is_loader);
	uint32_t nodes[8];
	assert_int_equal(mt_profile_stack(p, p->site[1].node, nodes, 8), 3);
	assert_int_equal(p->node[nodes[0]].pc, 0x402000);
	assert_int_equal(p->node[nodes[0]].module, 1);
	assert_int_equal(p->node[nodes[0]].depth, 3);
	assert_int_equal(p->node[nodes[1]].pc, 0x401000);
	assert_int_equal(p->node[nodes[2]].pc, 0x7f0000001000);
	assert_int_equal(p->node[nodes[2]].module, 2);
	assert_int_equal(p->node[nodes[0]].end, MT_PROFILE_END_COMPLETE);
	assert_int_equal(p->node[nodes[0]].kind, MT_FRAME_CALL);
}

static void frame_kinds_and_flags_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	uint32_t file = mtk_builder_string(b, "pool.c");
	struct mt_state_node exact = {.pc = 5, .parent = 4, .meta = 1u << 20 | 2u << 24};
	struct mt_state_node source = {
		.pc = (uint64_t)file << 32 | 77, .parent = 16, .meta = 2u << 20};
	mtk_builder_add(b, MT_REGION_NODES, &exact);
	mtk_builder_add(b, MT_REGION_NODES, &source);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->node[16].kind, MT_FRAME_EXACT);
	assert_true(p->node[16].by_frame_pointer);
	assert_null(p->node[16].source_file);
	assert_int_equal(p->node[17].kind, MT_FRAME_SOURCE);
	assert_string_equal(p->node[17].source_file, "pool.c");
	assert_int_equal(p->node[17].source_line, 77);
	assert_int_equal(p->node[17].pc, 0);
	assert_int_equal(p->node[17].depth, 2);
	assert_int_equal(p->node[17].end, MT_PROFILE_END_UNSUPPORTED);
}

static void sites_are_sums_over_their_cells(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	const struct mt_profile_site *leak = &p->site[1], *busy = &p->site[2], *big = &p->site[3];
	assert_int_equal(p->site_count, 5);
	assert_int_equal(leak->counts.allocs, 11);
	assert_int_equal(leak->counts.bytes, 1007);
	assert_int_equal(leak->counts.frees, 0);
	assert_int_equal(leak->live_count, 11);
	assert_int_equal(leak->live_bytes, 1007);
	assert_int_equal(leak->cell_count, 2);
	assert_int_equal(busy->counts.allocs, 10);
	assert_int_equal(busy->counts.bytes, 2400);
	assert_int_equal(busy->counts.frees, 10);
	assert_int_equal(busy->counts.freed_bytes, 2400);
	assert_int_equal(busy->live_count, 0);
	assert_int_equal(big->call, MT_CALL_CALLOC);
	assert_int_equal(big->counts.bytes, 1 << 20);
	for (uint32_t i = 0; i < leak->cell_count; i++)
		assert_int_equal(p->cell[p->cell_by_site[leak->first_cell + i]].site, 1);
	assert_int_equal(p->cell[p->cell_by_site[leak->first_cell]].live_bytes, 1000);
	assert_int_equal(p->cell[p->cell_by_site[leak->first_cell + 1]].live_bytes, 7);
}

static void sizes_and_lifetimes_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(sizes_of(p, 1, 7), 10); /* 100 bytes */
	assert_int_equal(sizes_of(p, 1, 3), 1);  /* 7 bytes */
	assert_int_equal(sizes_of(p, 2, 6), 5);  /* 40 bytes, in a histogram of its own */
	assert_int_equal(sizes_of(p, 2, 9), 5);  /* 440 bytes */
	assert_int_equal(sizes_of(p, 3, 21), 1);
	assert_int_equal(sizes_missing(p, 1), 0);
	/* ages 1100 to 2000 units: all in [4^5, 4^6) */
	assert_int_equal(lives_of(p, 2, 6), 10);
}

static void sizes_of_a_refused_histogram_are_missing(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, 1);
	c->size_known = 2;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(sizes_missing(p, 1), 10);
	assert_int_equal(sizes_of(p, 1, 7), 0);
}

static void process_totals_are_sums_over_threads(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->totals.allocs, 22);
	assert_int_equal(p->totals.bytes, 1007 + 2400 + (1 << 20));
	assert_int_equal(p->totals.frees, 11);
	assert_int_equal(p->totals.freed_bytes, 2400 + (1 << 20));
	assert_int_equal(p->live_count, 11);
	assert_int_equal(p->live_bytes, 1007);
	assert_int_equal(p->block_count, 11);
	assert_int_equal(p->block_bytes, 1007);
	assert_int_equal(p->thread_count, 3);
	assert_string_equal(p->thread[2].name, "worker");
	assert_int_equal(p->thread[2].tid, 4243);
	assert_int_equal(p->thread[2].heap[MT_CLASS_MALLOC].frees, 6);
	assert_int_equal(p->thread[2].heap[MT_CLASS_MMAP].bytes, 65536);
}

static void heaps_are_counted_apart(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_heap pool = {.name_string = mtk_builder_string(b, "pool")};
	uint32_t heap = mtk_builder_add(b, MT_REGION_HEAPS, &pool);
	uint32_t site = mtk_builder_site(b, 17, MT_CALL_CUSTOM);
	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->heap = (uint16_t)heap;
	mtk_builder_alloc(b, 1, site, 0x99000, 333);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->heap_count, 4);
	assert_string_equal(p->heap[0].name, "malloc");
	assert_string_equal(p->heap[1].name, "mmap");
	assert_string_equal(p->heap[2].name, "brk");
	assert_string_equal(p->heap[3].name, "pool");
	assert_int_equal(p->heap[0].live_bytes, 1007);
	assert_int_equal(p->heap[1].counts.bytes, 65536);
	assert_int_equal(p->heap[1].live_count, 1);
	assert_int_equal(p->heap[3].counts.allocs, 1);
	assert_int_equal(p->heap[3].live_bytes, 333);
	assert_int_equal(p->live_bytes, 1007); /* the process total is the malloc heap's */
}

static void blocks_without_cell_are_kept_as_unknown(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_live e = {.place = 0x77000, .size = 50};
	struct mt_state_thread *t = mtk_builder_at(b, MT_REGION_THREADS, 1);
	mtk_builder_add(b, MT_REGION_LIVE, &e);
	t->totals[0].allocs++;
	t->totals[0].bytes += 50;
	t->unplaced_allocs++;
	t->unplaced_bytes += 50;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	uint64_t unknown = 0;
	for (uint64_t i = 0; i < p->blocks; i++)
		unknown += p->block[i].cell ? 0 : p->block[i].size;
	assert_int_equal(unknown, 50);
	assert_int_equal(p->site[0].live_count, 0);
	assert_int_equal(p->block_bytes, 1057);
}

static uint64_t blocks_of_size(const struct mt_profile *p, uint64_t size)
{
	uint64_t n = 0;
	for (uint64_t i = 0; i < p->blocks; i++)
		n += p->block[i].size == size;
	return n;
}

static void a_large_block_at_a_small_ones_address_was_freed_out_of_sight(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	uint32_t module = mtk_builder_module(b, 0x1000, 0x2000, "/bin/program");
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 0x1100, 1, module), MT_CALL_MALLOC);
	mtk_builder_alloc(b, 1, site, 0x700000, 50000);
	mtk_builder_alloc(b, 1, site, 0x700000, 40);
	mtk_builder_alloc(b, 1, site, 0x800000, 60000);
	mtk_builder_alloc(b, 1, site, 0x900000, 50);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(blocks_of_size(p, 50000), 0);
	assert_int_equal(blocks_of_size(p, 40), 1);
	assert_int_equal(blocks_of_size(p, 60000), 1);
	assert_int_equal(blocks_of_size(p, 50), 1);
	assert_int_equal(p->lost[MT_LOST_UNSEEN_FREE], 1);
	assert_no_warnings(p);
}

static void peak_of_one_thread_is_exact(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 1, 1, 0), MT_CALL_MALLOC);
	for (unsigned i = 0; i < 5; i++)
		mtk_builder_alloc(b, 1, site, 0x1000 * (i + 1), 1000);
	mtk_builder_header(b)->now_unit = 50;
	for (unsigned i = 0; i < 4; i++)
		mtk_builder_dealloc(b, 1, 0x1000 * (i + 1));
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->peak_bytes, 5000);
	assert_int_equal(p->peak_bound_bytes, 0);
	assert_int_equal(p->peak_ns, 0);
	assert_int_equal(p->site[1].peak_bytes, 5000);
	assert_int_equal(p->site[1].peak_bound_bytes, 0);
	assert_int_equal(p->site[1].at_peak_bytes, 5000);
	assert_int_equal(p->site[1].at_peak_count, 5);
	assert_int_equal(p->site[1].live_bytes, 1000);
}

static void site_that_did_not_change_since_the_peak_was_then_what_it_is(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->site[1].at_peak_bytes, 1000); /* 7 came later */
	assert_int_equal(p->site[1].at_peak_count, 10);
	assert_int_equal(p->site[2].at_peak_bytes, 2400);
	assert_int_equal(p->site[3].at_peak_bytes, 1 << 20);
	assert_int_equal(p->site[4].at_peak_bytes, 0); /* came later */
}

/* Blocks of one site made in thread 1 and freed in thread 2, published late as the tracker does. */
static struct mtk_builder *shared_site(int64_t published_peak, int64_t held_back)
{
	struct mtk_builder *b = mtk_builder_new();
	uint32_t other = mtk_builder_thread(b, 5, "other");
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 1, 1, 0), MT_CALL_MALLOC);
	for (unsigned i = 0; i < 10; i++)
		mtk_builder_alloc(b, 1, site, 0x100000 * (i + 1), 1 << 20);
	for (unsigned i = 0; i < 9; i++)
		mtk_builder_dealloc(b, other, 0x100000 * (i + 1));
	struct mt_state_site *s = mtk_builder_at(b, MT_REGION_SITES, site);
	s->peak_published = published_peak;
	mtk_builder_header(b)->peak_bytes = published_peak;
	struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, 1);
	c->published -= held_back;
	struct mt_state_thread *t = mtk_builder_at(b, MT_REGION_THREADS, 1);
	t->published -= held_back;
	return b;
}

static void peak_of_several_threads_has_a_bound_that_holds(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = shared_site((10 << 20) - 70000, 0);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->site[1].peak_bytes, (10 << 20) - 70000);
	/* up: at most the sum of the threads' peaks; down: two steps */
	assert_int_equal(p->site[1].peak_bound_bytes, 2 * 65536);
	assert_true(p->site[1].peak_bytes + p->site[1].peak_bound_bytes >= 10 << 20);
	assert_int_equal(p->peak_bytes, (10 << 20) - 70000);
	assert_int_equal(p->peak_bound_bytes, 2 * 65536);
}

static void peak_is_never_below_what_is_live(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = shared_site(1000, 0);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->live_bytes, 1 << 20);
	assert_int_equal(p->site[1].peak_bytes, 1 << 20);
	assert_int_equal(p->peak_bytes, 1 << 20);
}

static void bound_grows_with_what_a_thread_held_back(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = shared_site(5 << 20, 4 << 20);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->peak_bytes, 5 << 20);
	assert_int_equal(p->peak_bound_bytes, (4 << 20) + 65536);
}

static void labels_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_label l = {.name_string = mtk_builder_string(b, "startup")};
	uint32_t label = mtk_builder_add(b, MT_REGION_LABELS, &l);
	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, 2))->label = label;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->label_count, 2);
	assert_string_equal(p->label[0], "");
	assert_string_equal(p->label[p->site[2].label], "startup");
}

static void elements_of_a_newer_minor_version_may_be_longer(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	size_t len;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	struct mt_state_header *h = (struct mt_state_header *)data;
	struct mt_state_region *r = &h->region[MT_REGION_LABELS - 1];
	struct mt_state_region *threads = &h->region[MT_REGION_THREADS - 1];
	mt_auto(free) uint8_t *longer = calloc(1, len + 4096);
	memcpy(longer, data, len);
	/* threads move to the end, 520 bytes each */
	uint64_t at = MT_ALIGN_UP(len, (size_t)64);
	for (unsigned i = 0; i < 3; i++)
		memcpy(longer + at + i * 520, data + threads->offset + i * 512, 512);
	h = (struct mt_state_header *)longer;
	h->version_minor = 9;
	h->region[MT_REGION_THREADS - 1].offset = at;
	h->region[MT_REGION_THREADS - 1].elem_bytes = 520;
	h->region[MT_REGION_THREADS - 1].committed_bytes = 3 * 520;
	h->region[11] = *r; /* and a kind that is not known yet */
	h->region[11].kind = 99;
	struct mt_profile *p;
	assert_int_equal(mt_mtk_read_memory(longer, len + 4096, "newer", &p, NULL), 0);
	assert_no_warnings(p);
	assert_string_equal(p->thread[2].name, "worker");
	assert_int_equal(p->totals.allocs, 22);
	mt_profile_free(p);
}

static void sparse_file_of_many_gigabytes_reads_like_the_packed_one(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("sparse.mtk");
	mt_auto(mt_profile) struct mt_profile *packed = read_builder(b);
	struct mt_profile *p = NULL;
	struct stat st;
	assert_int_equal(mtk_builder_write_sparse(b, path, 20000000), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 15ll << 30);
	assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
	unlink(path);
	assert_no_warnings(p);
	assert_same_blocks(p, packed);
	assert_same_sites(p, packed);
	assert_same_threads(p, packed);
	assert_int_equal(p->totals.bytes, packed->totals.bytes);
	assert_int_equal(p->peak_bytes, packed->peak_bytes);
	mt_profile_free(p);
}

static void holes_between_blocks_are_skipped(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("holes.mtk");
	struct mt_profile *p = NULL;
	assert_int_equal(mtk_builder_write_sparse(b, path, 20000000), 0);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	struct mt_state_header h;
	struct mt_state_live e = {.place = 0x123450, .size = 11, .cell = 1};
	assert_int_equal(mt_file_pread(fd, &h, sizeof(h), 0), sizeof(h));
	struct mt_state_region *r = &h.region[MT_REGION_LIVE - 1];
	r->used = 19000000;
	r->committed_bytes = r->used * sizeof(e);
	assert_int_equal(mt_file_pwrite(fd, &h, sizeof(h), 0), 0);
	assert_int_equal(mt_file_pwrite(fd, &e, sizeof(e), r->offset + 18000000ull * sizeof(e)), 0);
	close(fd);
	assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
	unlink(path);
	assert_int_equal(p->blocks, 13);
	assert_int_equal(p->site[1].live_bytes, 1018);
	mt_profile_free(p);
}

static void running_process_is_seen_and_its_clock_is_calibrated(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("live.mtk");
	struct mt_profile *p = NULL;
	make_ours(mtk_builder_header(b));
	struct timespec until = {.tv_nsec = 20000000}; /* time itself is what is measured */
	clock_nanosleep(CLOCK_MONOTONIC, 0, &until, NULL);
	assert_int_equal(mtk_builder_write_sparse(b, path, 1000), 0);
	assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
	unlink(path);
	assert_no_warnings(p);
	assert_true(p->process_alive);
	assert_int_equal(p->end_kind, MT_END_RUNNING);
	assert_false(p->times_estimated);
	assert_true(p->duration_ns >= 20000000);
	assert_in_range(p->time_resolution_ns, 100000, 20000000);
	mt_profile_free(p);
}

static void process_that_is_gone_without_a_word_ended_unknown(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("gone.mtk");
	struct mt_profile *p = NULL;
	make_ours(mtk_builder_header(b));
	pid_t child = fork();
	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	mtk_builder_header(b)->pid = child;
	assert_int_equal(mtk_builder_write_sparse(b, path, 1000), 0);
	assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
	unlink(path);
	assert_false(p->process_alive);
	assert_int_equal(p->end_kind, MT_END_UNKNOWN);
	mt_profile_free(p);
}

static void disagreeing_tables_are_reported(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	((struct mt_state_cell *)mtk_builder_at(b, MT_REGION_CELLS, 1))->allocs += 1000;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->warning_count, 1);
	assert_string_equal(p->warning[0],
			    "the sites hold 1,022 allocations, the threads counted 22");
}

static void header_and_strings_can_be_read_alone(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *path = temp_path("alone.mtk");
	struct mt_state_header h;
	char text[16], cut[7];
	assert_int_equal(mtk_builder_write_sparse(b, path, 1000), 0);
	assert_int_equal(mt_mtk_read_header(path, &h, NULL), 0);
	assert_int_equal(h.pid, 4242);
	assert_int_equal(mt_mtk_read_string(path, h.exe_string, text, sizeof(text), NULL), 0);
	assert_string_equal(text, "/usr/bin/server");
	assert_int_equal(mt_mtk_read_string(path, h.exe_string, cut, sizeof(cut), NULL), 0);
	assert_string_equal(cut, "/usr/b");
	assert_int_equal(mt_mtk_read_string(path, 1 << 30, text, sizeof(text), NULL), 0);
	assert_string_equal(text, "");
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_fields_reach_the_profile),
		cmocka_unit_test(times_follow_from_the_clock_pair),
		cmocka_unit_test(without_clock_pair_times_are_estimates_and_it_is_said),
		cmocka_unit_test(impossible_clock_pair_is_not_used),
		cmocka_unit_test(time_units_beyond_32_bits_are_continued),
		cmocka_unit_test(modules_nodes_and_stacks_are_read),
		cmocka_unit_test(frame_kinds_and_flags_are_read),
		cmocka_unit_test(sites_are_sums_over_their_cells),
		cmocka_unit_test(sizes_and_lifetimes_are_read),
		cmocka_unit_test(sizes_of_a_refused_histogram_are_missing),
		cmocka_unit_test(process_totals_are_sums_over_threads),
		cmocka_unit_test(heaps_are_counted_apart),
		cmocka_unit_test(blocks_without_cell_are_kept_as_unknown),
		cmocka_unit_test(a_large_block_at_a_small_ones_address_was_freed_out_of_sight),
		cmocka_unit_test(peak_of_one_thread_is_exact),
		cmocka_unit_test(site_that_did_not_change_since_the_peak_was_then_what_it_is),
		cmocka_unit_test(peak_of_several_threads_has_a_bound_that_holds),
		cmocka_unit_test(peak_is_never_below_what_is_live),
		cmocka_unit_test(bound_grows_with_what_a_thread_held_back),
		cmocka_unit_test(labels_are_read),
		cmocka_unit_test(elements_of_a_newer_minor_version_may_be_longer),
		cmocka_unit_test(sparse_file_of_many_gigabytes_reads_like_the_packed_one),
		cmocka_unit_test(holes_between_blocks_are_skipped),
		cmocka_unit_test(running_process_is_seen_and_its_clock_is_calibrated),
		cmocka_unit_test(process_that_is_gone_without_a_word_ended_unknown),
		cmocka_unit_test(disagreeing_tables_are_reported),
		cmocka_unit_test(header_and_strings_can_be_read_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
