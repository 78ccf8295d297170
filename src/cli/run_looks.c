/* SPDX-License-Identifier: MIT */
/*
 * A process that ends waits only until there is a copy of its memory; the search goes on in the
 * copy. Others wait for the result.
 */
#include "cli/run_looks.h"

#include "base/alloc.h"
#include "cli/leak_search.h"
#include "core/cc.h"
#include "target/status.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static enum mt_state_look why_of(int code)
{
	switch (code) {
	case -EPERM:
	case -EACCES:
		return MT_LOOK_REFUSED;
	case -ENOMEM:
	case -ENOSPC:
	case -E2BIG:
		return MT_LOOK_NO_MEMORY;
	default:
		return MT_LOOK_FAILED;
	}
}

static int by_place(const void *a, const void *b)
{
	const struct mt_state_unreached *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static void count_leaks(const struct mt_find *f, struct mt_state_unreached *lost, uint64_t count)
{
	for (size_t i = 0; i < f->fold.leaks; i++) {
		const struct mt_fold_leak *l = &f->fold.leak[i];
		struct mt_state_unreached key = {.place = f->block[l->block].start}, *at;

		at = l->is_first ? bsearch(&key, lost, count, sizeof(key), by_place) : NULL;
		if (at)
			at->leaks = (uint32_t)MT_MIN(l->similar_count + 1, (uint64_t)UINT32_MAX);
	}
}

/* The lost blocks of a marked profile; *ret_count of them. Caller frees; NULL: no memory. */
static struct mt_state_unreached *list_lost(const struct mt_leak_search *s, uint64_t *ret_count)
{
	const struct mt_profile *p = s->tracked;
	struct mt_state_unreached *lost;
	uint64_t n = 0;

	for (uint64_t i = 0; i < p->blocks; i++)
		n += p->block_mark[i] == MT_BLOCK_LOST;
	lost = mt_alloc_zero(n + 1, sizeof(*lost));
	if (!lost)
		return NULL;
	*ret_count = n;
	n = 0;
	for (uint64_t i = 0; i < p->blocks; i++)
		if (p->block_mark[i] == MT_BLOCK_LOST)
			lost[n++] = (struct mt_state_unreached){.place = p->block_address[i],
								.unit = p->block[i].born};
	qsort(lost, n, sizeof(*lost), by_place);
	count_leaks(&s->find, lost, n);
	return lost;
}

static int give(const char *path, struct mt_state_header *h, const struct mt_leak_search *s)
{
	const struct mt_profile_look *look = &s->tracked->look;
	const struct mt_looker_found found = {
		.flags = (look->has_heap ? 0 : MT_LOOK_NO_HEAP) |
			 (look->is_heap_damaged ? MT_LOOK_HEAP_DAMAGED : 0),
		.unit = (uint32_t)__atomic_load_n(&h->now_unit, __ATOMIC_RELAXED),
		.stop_ns = look->stop_ns,
		.count = look->count,
		.bytes = look->bytes,
	};
	uint64_t count;
	mt_auto(free) struct mt_state_unreached *lost = list_lost(s, &count);

	return lost ? mt_looker_give(path, h, lost, count, &found) : -ENOMEM;
}

static void let_go(void *header)
{
	mt_looker_let_go(header);
}

/* With one thread, which waits for us, nothing changes meanwhile. */
static bool is_alone(pid_t pid)
{
	struct mt_status status;

	return !mt_status_read(pid, &status) && status.threads == 1;
}

void mt_run_look(const char *path, struct mt_state_header *h)
{
	mt_auto(mt_leak_search) struct mt_leak_search s = {
		.pid = h->pid,
		.state = strdup(path),
		.is_quiet = is_alone(h->pid),
		.on_image = h->look_why == MT_LOOK_AT_EXIT ? let_go : NULL,
		.context = h,
	};
	int code = s.state ? mt_leak_search_open(&s, NULL) : -ENOMEM;

	if (!code && !s.is_table) {
		mt_looker_refuse(h, MT_LOOK_NO_BLOCKS);
		return;
	}
	if (!code)
		code = mt_leak_search_run(&s, MT_MARK_INTERIOR, false, NULL);
	if (!code) {
		mt_leak_search_let_go(&s);
		code = mt_leak_search_mark(&s);
	}
	if (!code)
		code = give(path, h, &s);
	if (code == -ESRCH && h->look_done != h->look_asked)
		return; /* it gave up waiting, and says so */
	if (code)
		mt_looker_refuse(h, why_of(code));
}
