/* SPDX-License-Identifier: MIT */
/* From stacks to nodes, sites and cells; labels and source files. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SITE(n) fixture_address(1, 16 * (n) + 1)

static uint32_t cell_of(struct mt_thread *t, uintptr_t ra, uint64_t tag, uint64_t source)
{
	uint32_t cell = mt_capture_stack(&t->capture, 0, ra, 0, mt_site_identity(tag, source));
	return cell ? cell : mt_site_cell(t, tag, source);
}

static uint32_t site_of(struct mt_thread *t, uintptr_t ra, uint64_t tag)
{
	return mt_rt.cells[cell_of(t, ra, tag, 0)].site;
}

static uint64_t used(enum mt_state_region_kind kind)
{
	return mt_rt.region[kind]->used;
}

static void a_stack_seen_again_has_the_same_cell(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint32_t a = cell_of(t, SITE(1), mt_site_tag(1, 0, 0), 0),
		 b = cell_of(t, SITE(2), mt_site_tag(1, 0, 0), 0);
	assert_int_not_equal(a, 0);
	assert_int_not_equal(b, 0);
	assert_int_not_equal(a, b);
	for (int i = 0; i < 10; i++) {
		assert_int_equal(cell_of(t, SITE(1), mt_site_tag(1, 0, 0), 0), a);
		assert_int_equal(cell_of(t, SITE(2), mt_site_tag(1, 0, 0), 0), b);
	}
	assert_int_equal(used(MT_REGION_SITES), 3);
}

static void function_heap_and_label_tell_sites_apart(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint32_t site[4] = {site_of(t, SITE(1), mt_site_tag(1, 0, 0)),
			    site_of(t, SITE(1), mt_site_tag(2, 0, 0)),
			    site_of(t, SITE(1), mt_site_tag(1, 5, 0)),
			    site_of(t, SITE(1), mt_site_tag(1, 0, 9))};
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++)
			assert_int_not_equal(site[i], site[j]);
	assert_int_equal(mt_rt.sites[site[1]].call, 2);
	assert_int_equal(mt_rt.sites[site[2]].heap, 5);
	assert_int_equal(mt_rt.sites[site[3]].label, 9);
	/* one stack: one chain of nodes */
	assert_int_equal(mt_rt.sites[site[0]].node, mt_rt.sites[site[3]].node);
	assert_int_equal(used(MT_REGION_NODES), MT_NODE_ROOTS + 3);
}

static void nodes_lead_from_the_innermost_frame_to_the_root(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint32_t node = mt_rt.sites[site_of(t, SITE(3), mt_site_tag(1, 0, 0))].node;
	assert_true(mt_rt.nodes[node].pc == SITE(3));
	assert_int_equal(mt_rt.nodes[node].meta & 0xfffff, 2); /* module 1 has number 2 */
	node = mt_rt.nodes[node].parent;
	node = mt_rt.nodes[node].parent;
	assert_true(mt_rt.nodes[node].pc == fixture_address(0, 0x10));
	assert_int_equal(mt_rt.nodes[node].parent, MT_STACK_COMPLETE);
}

static void a_source_line_is_the_innermost_node(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint32_t file = mt_site_source_file("a.c");
	uint64_t line10 = (uint64_t)file << 32 | 10, line11 = (uint64_t)file << 32 | 11;
	uint32_t a = mt_rt.cells[cell_of(t, SITE(1), mt_site_tag(1, 0, 0), line10)].site;
	uint32_t b = mt_rt.cells[cell_of(t, SITE(1), mt_site_tag(1, 0, 0), line11)].site;
	assert_int_not_equal(a, b);
	const struct mt_state_node *n = &mt_rt.nodes[mt_rt.sites[a].node];
	assert_true(n->pc == line10);
	assert_int_equal(n->meta >> 20 & 15, MT_NODE_SOURCE);
	assert_int_equal(n->parent, mt_rt.nodes[mt_rt.sites[b].node].parent);
}

/* A library loaded where another was: the same addresses and hash, another stack. */
static void a_module_replaced_at_its_address_gives_another_site(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t tag = mt_site_tag(1, 0, 0);
	uintptr_t ra = fixture_address(2, 0x20);
	uint32_t before = site_of(t, ra, tag), other = site_of(t, SITE(1), tag);
	fixture_replace_module(2);
	uint32_t after = site_of(t, ra, tag);
	assert_int_not_equal(after, before);
	assert_int_equal(mt_rt.nodes[mt_rt.sites[before].node].meta & 0xfffff, 3);
	assert_int_equal(mt_rt.nodes[mt_rt.sites[after].node].meta & 0xfffff, FIXTURE_MODULES + 1);
	/* stacks through the other modules keep theirs */
	assert_int_equal(site_of(t, SITE(1), tag), other);
	/* and so does the new one as long as its module stays */
	fixture_replace_module(3);
	assert_int_equal(site_of(t, ra, tag), after);
}

static void the_cell_map_grows_with_the_sites_of_a_thread(void **state)
{
	enum { MANY = 4000 };
	static uint32_t cell[MANY];
	struct mt_thread *t = fixture_thread();
	for (uint32_t i = 0; i < MANY; i++) {
		cell[i] = cell_of(t, SITE(i), mt_site_tag(1, 0, 0), 0);
		assert_int_not_equal(cell[i], 0);
	}
	for (uint32_t i = 0; i < MANY; i++) {
		assert_int_equal(cell_of(t, SITE(i), mt_site_tag(1, 0, 0), 0), cell[i]);
		assert_true(mt_rt.nodes[mt_rt.sites[mt_rt.cells[cell[i]].site].node].pc == SITE(i));
	}
	assert_int_equal(used(MT_REGION_SITES), MANY + 1);
	assert_int_equal(used(MT_REGION_CELLS), MANY + 1);
}

/* --- many threads at the same stacks --------------------------------------------------------- */

enum { THREADS = 8, SHARED_SITES = 1500 };
static uint32_t seen[THREADS][SHARED_SITES];
static pthread_barrier_t barrier;

static void *visit_all(void *argument)
{
	uint32_t *sites = argument;
	struct mt_thread *t = fixture_thread();
	pthread_barrier_wait(&barrier);
	for (uint32_t i = 0; i < SHARED_SITES; i++)
		sites[i] = site_of(t, SITE(i), mt_site_tag(1, 0, 0));
	return NULL;
}

static void threads_that_meet_at_a_new_stack_agree_on_its_site(void **state)
{
	pthread_t thread[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, visit_all, seen[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 1; i < THREADS; i++)
		assert_memory_equal(seen[i], seen[0], sizeof(seen[0]));
	assert_int_equal(used(MT_REGION_SITES), SHARED_SITES + 1);
	assert_int_equal(used(MT_REGION_CELLS), SHARED_SITES * THREADS + 1);
	for (uint32_t s = 1; s <= SHARED_SITES; s++) {
		assert_int_equal(mt_rt.sites[s].cell_count, THREADS);
		assert_int_equal(mt_rt.sites[s].shared, 1);
	}
	assert_int_equal(mt_rt.hdr->lost[MT_LOST_LOCK], 0);
}

/* --- labels and files ------------------------------------------------------------------------ */

static const char *label_text(uint32_t number)
{
	const struct mt_state_label *label = mt_storage_base(MT_REGION_LABELS);
	return (const char *)mt_storage_base(MT_REGION_STRINGS) + label[number].name_string;
}

static void a_label_has_one_number_whoever_holds_its_text(void **state)
{
	char text[16] = "parser", again[16] = "parser";
	uint32_t a = mt_site_label(text);
	assert_int_not_equal(a, 0);
	assert_int_equal(mt_site_label(again), a);
	assert_int_not_equal(mt_site_label("lexer"), a);
	assert_string_equal(label_text(a), "parser");
}

static void thousands_of_labels_keep_their_numbers(void **state)
{
	char text[32];
	for (uint32_t round = 0; round < 2; round++)
		for (uint32_t i = 0; i < 5000; i++) {
			snprintf(text, sizeof(text), "label %u", i);
			assert_int_equal(mt_site_label(text), i + 1);
		}
}

static void a_label_without_room_for_its_text_is_refused_each_time(void **state)
{
	static char text[70000];
	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 10; i++)
		assert_int_equal(mt_site_label(text), 0);
	assert_int_equal(used(MT_REGION_LABELS), 1);
}

static void a_file_name_is_stored_once_for_a_literal(void **state)
{
	static char name[16] = "src/one.c";
	uint32_t a = mt_site_source_file(name), before = (uint32_t)used(MT_REGION_STRINGS);
	assert_int_equal(mt_site_source_file(name), a);
	assert_int_equal(used(MT_REGION_STRINGS), before);
	snprintf(name, sizeof(name),
		 "src/two.c"); /* another library's literal at the same address */
	uint32_t b = mt_site_source_file(name);
	assert_int_not_equal(b, a);
	assert_string_equal((const char *)mt_storage_base(MT_REGION_STRINGS) + b, "src/two.c");
}

#define WITH_TABLES(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLES(a_stack_seen_again_has_the_same_cell),
		WITH_TABLES(function_heap_and_label_tell_sites_apart),
		WITH_TABLES(nodes_lead_from_the_innermost_frame_to_the_root),
		WITH_TABLES(a_source_line_is_the_innermost_node),
		WITH_TABLES(a_module_replaced_at_its_address_gives_another_site),
		WITH_TABLES(the_cell_map_grows_with_the_sites_of_a_thread),
		WITH_TABLES(threads_that_meet_at_a_new_stack_agree_on_its_site),
		WITH_TABLES(a_label_has_one_number_whoever_holds_its_text),
		WITH_TABLES(thousands_of_labels_keep_their_numbers),
		WITH_TABLES(a_label_without_room_for_its_text_is_refused_each_time),
		WITH_TABLES(a_file_name_is_stored_once_for_a_literal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
