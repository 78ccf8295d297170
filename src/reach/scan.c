/* SPDX-License-Identifier: MIT */
/*
 * Threads take pieces one after the other; each piece has its own list of edges, so that the
 * result does not depend on who was first. Most words are no pointers: those that may be are
 * collected, so that the memory that the answers for many of them lie in is fetched at once: first
 * the entries of the map, then the ranges that these lead to.
 */

#include "reach/scan.h"

#include "base/alloc.h"
#include "core/cc.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, WORD_BYTES = 8, THREADS_MAX = 4 };
enum { BATCH = 128, STRIDE = 64 }; /* candidates that are looked up at once; words between counts */
#define TOP_BYTE_MASK (UINT64_MAX >> 8)
#define LOW_BITS_MASK 7u

void mt_scan_done(struct mt_scan *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->pieces; i++) {
		free(s->piece[i].edge);
		free(s->piece[i].end);
	}
	free(s->piece);
	mt_blockmap_done(&s->map);
	*s = (struct mt_scan){0};
}

/* ---- pieces ---- */

enum kind { ROOTS, CODE, BLOCKS };

static struct mt_mark_piece *add_piece(struct mt_scan *s, const struct mt_range *range,
				       enum kind kind)
{
	struct mt_mark_piece *grown =
		mt_alloc_grow(s->piece, &s->capacity, s->pieces + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	s->piece = grown;
	grown += s->pieces++;
	*grown = (struct mt_mark_piece){
		.range = range,
		.is_blocks = kind == BLOCKS,
		.is_unaligned = kind == CODE || s->in->flags & MT_MARK_UNALIGNED,
		.from = range->start,
		.to = range->start,
	};
	return grown;
}

/* Bytes of [at, end) for a piece that has room for `left`: all, or whole words. */
static uint64_t share(uint64_t at, uint64_t end, uint64_t left)
{
	if (end - at <= left)
		return end - at;
	return MT_ALIGN_DOWN(at + left, (uint64_t)WORD_BYTES) - at;
}

/*
 * Cuts ranges into pieces of about MT_SCAN_PIECE_BYTES. Where words may lie anywhere a piece goes
 * so far that the words that begin in it are whole.
 */
static int cut(struct mt_scan *s, const struct mt_range *range, size_t count, enum kind kind)
{
	uint64_t left = 0;
	struct mt_mark_piece *p = NULL;

	for (size_t i = 0; i < count; i++) {
		for (uint64_t at = range[i].start; at < range[i].end;) {
			uint64_t bytes;

			if (left < WORD_BYTES || p->ranges == MT_SCAN_PIECE_RANGES) {
				p = add_piece(s, &range[i], kind);
				if (!p)
					return -ENOMEM;
				p->first = (uint32_t)i;
				p->from = at;
				left = MT_SCAN_PIECE_BYTES;
			}
			p->ranges = (uint32_t)(i - p->first) + 1;
			bytes = share(at, range[i].end, left);
			at += bytes;
			left = at < range[i].end ? 0 : left - bytes;
			p->to = MT_MIN(at + (p->is_unaligned ? WORD_BYTES - 1 : 0), range[i].end);
		}
	}
	return 0;
}

/* ---- words ---- */

/* What a word in block i, or in none, counts as. */
static uint32_t edge_of(const struct mt_blockmap *m, uint32_t i, uint64_t word, uint32_t flags)
{
	if (i == MT_BLOCKMAP_NONE || word == m->block[i].start)
		return i;
	if (flags & MT_MARK_LOW_BITS && (word & ~(uint64_t)LOW_BITS_MASK) == m->block[i].start)
		return i;
	return flags & MT_MARK_INTERIOR ? i | MT_SCAN_INSIDE : (uint32_t)MT_BLOCKMAP_NONE;
}

uint32_t mt_scan_word(const struct mt_blockmap *m, uint64_t word, uint32_t flags)
{
	if (flags & MT_MARK_TOP_BYTE)
		word &= TOP_BYTE_MASK;
	if (!mt_blockmap_may_be(m, word))
		return MT_BLOCKMAP_NONE;
	return edge_of(m, mt_blockmap_find(m, word), word, flags);
}

struct scanner {
	struct mt_scan *scan;
	pthread_mutex_t *lock; /* guards next, has_failed */
	size_t *next;
	bool *has_failed; /* no memory: all stop */
	uint8_t *window;  /* owned; MT_SCAN_WINDOW_BYTES */
	/* words of the present piece that may be pointers, and the ranges in it that they lie in */
	uint64_t candidate[BATCH + STRIDE];
	uint32_t place[BATCH + STRIDE];
	size_t candidates;
	uint32_t range; /* whose edges are listed at present */
	uint32_t last;  /* the last one of these */
};

static int add_edge(struct mt_mark_piece *p, uint32_t edge)
{
	uint32_t *grown;

	if (p->edges == p->capacity) {
		grown = mt_alloc_grow(p->edge, &p->capacity, p->edges + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		p->edge = grown;
	}
	p->edge[p->edges++] = edge;
	return 0;
}

/* The edges of all ranges before this one are complete. */
static void enter_range(struct scanner *s, struct mt_mark_piece *p, uint32_t range)
{
	for (; s->range < range; s->range++) {
		if (p->is_blocks)
			p->end[s->range] = (uint32_t)p->edges;
		s->last = MT_BLOCKMAP_NONE;
	}
}

/* Where the answers for the collected words lie, and fetches what they lead to. */
static void fetch(const struct scanner *s, const uint32_t *entry[BATCH + STRIDE])
{
	static const uint32_t none = 0;
	const struct mt_blockmap *m = &s->scan->map;

	for (size_t i = 0; i < s->candidates; i++) {
		entry[i] = mt_blockmap_entry(m, s->candidate[i]);
		if (!entry[i])
			entry[i] = &none;
		__builtin_prefetch(entry[i]);
	}
	for (size_t i = 0; i < s->candidates; i++)
		if (*entry[i]) {
			__builtin_prefetch(&m->block[*entry[i] - 1]);
			__builtin_prefetch(&m->block[*entry[i] - 1 + MT_BLOCKMAP_COUNTED - 1].end);
		}
}

/* Looks the collected words up. */
static int look_up(struct scanner *s, struct mt_mark_piece *p)
{
	const struct mt_blockmap *m = &s->scan->map;
	const uint32_t *entry[BATCH + STRIDE];

	fetch(s, entry);
	for (size_t i = 0; i < s->candidates; i++) {
		uint64_t word = s->candidate[i];
		uint32_t edge =
			edge_of(m, mt_blockmap_seek(m, *entry[i], word), word, s->scan->in->flags);

		enter_range(s, p, s->place[i]);
		if (edge == MT_BLOCKMAP_NONE || edge == s->last)
			continue;
		/* a block does not hold itself */
		if (p->is_blocks && (edge & ~MT_SCAN_INSIDE) == p->first + s->place[i])
			continue;
		if (add_edge(p, edge))
			return -ENOMEM;
		s->last = edge;
	}
	s->candidates = 0;
	return 0;
}

/* `words` words, of those that begin `step` bytes apart: whether one may be a pointer is chance. */
static void collect(struct scanner *s, const uint8_t *data, size_t words, size_t step,
		    uint64_t mask, uint32_t range)
{
	uint64_t low = s->scan->map.low, span = s->scan->map.span, word;
	size_t n = s->candidates;

	for (size_t i = 0; i < words; i++) {
		memcpy(&word, data + i * step, sizeof(word));
		word &= mask;
		s->candidate[n] = word;
		s->place[n] = range;
		n += word - low < span;
	}
	s->candidates = n;
}

/* All words of `bytes` bytes of a range. */
static int scan_bytes(struct scanner *s, struct mt_mark_piece *p, const uint8_t *data, size_t bytes,
		      uint32_t range)
{
	size_t step = p->is_unaligned ? 1 : WORD_BYTES;
	uint64_t mask = s->scan->in->flags & MT_MARK_TOP_BYTE ? TOP_BYTE_MASK : UINT64_MAX;
	size_t words = bytes < WORD_BYTES ? 0
		       : p->is_unaligned  ? bytes - WORD_BYTES + 1
					  : bytes / WORD_BYTES;

	for (size_t at = 0; at < words; at += STRIDE) {
		collect(s, data + at * step, MT_MIN(words - at, (size_t)STRIDE), step, mask, range);
		if (s->candidates >= BATCH && look_up(s, p))
			return -ENOMEM;
	}
	return 0;
}

/* ---- windows ---- */

/* The present window of a piece: what was read, and how far. */
struct walk {
	struct mt_mark_piece *p;
	uint32_t range; /* the one that is scanned */
	uint64_t at;    /* in it: scanned up to here */
};

static uint64_t align_of(const struct mt_mark_piece *p)
{
	return p->is_unaligned ? 1 : WORD_BYTES;
}

static uint64_t start_of(const struct mt_mark_piece *p, uint32_t range)
{
	return range ? p->range[range].start : p->from;
}

static uint64_t end_of(const struct mt_mark_piece *p, uint32_t range)
{
	return range + 1 == p->ranges ? p->to : p->range[range].end;
}

/* Bytes to read from w->at: to the end of this range, and of those close behind that fit whole. */
static size_t window_bytes(const struct walk *w)
{
	const struct mt_mark_piece *p = w->p;
	uint64_t end = end_of(p, w->range);

	for (uint32_t i = w->range + 1; i < p->ranges; i++) {
		if (start_of(p, i) - end > MT_SCAN_GAP_BYTES ||
		    end_of(p, i) - w->at > MT_SCAN_WINDOW_BYTES)
			break;
		end = end_of(p, i);
	}
	return (size_t)MT_MIN(end - w->at, (uint64_t)MT_SCAN_WINDOW_BYTES);
}

static void begin_range(struct walk *w, uint64_t align)
{
	uint64_t start = start_of(w->p, w->range);

	w->at = MT_MIN(MT_ALIGN_UP(start, align), end_of(w->p, w->range));
}

static void end_range(struct walk *w, uint64_t align)
{
	if (++w->range < w->p->ranges)
		begin_range(w, align);
}

/*
 * Scans ranges as far as [window, window + got), read from address `base`, goes. A word that the
 * window cuts is left to the next one.
 */
static int scan_window(struct scanner *s, struct walk *w, uint64_t base, size_t got)
{
	uint64_t align = align_of(w->p), limit = base + got;

	while (w->range < w->p->ranges && w->at < limit) {
		uint64_t end = end_of(w->p, w->range), stop = MT_MIN(end, limit);

		if (scan_bytes(s, w->p, s->window + (w->at - base), (size_t)(stop - w->at),
			       w->range))
			return -ENOMEM;
		if (stop == end) {
			w->p->scanned_bytes += end - w->at;
			end_range(w, align);
			continue;
		}
		stop = w->p->is_unaligned ? MT_MAX(stop - (WORD_BYTES - 1), w->at)
					  : MT_ALIGN_DOWN(stop, (uint64_t)WORD_BYTES);
		w->p->scanned_bytes += stop - w->at;
		w->at = stop;
		break;
	}
	return 0;
}

/* Leaves out the page that cannot be read and holds w->at, with all ranges that end in it. */
static void skip_page(struct walk *w, uint64_t bad, uint64_t align)
{
	uint64_t next = MT_ALIGN_DOWN(bad, (uint64_t)PAGE_BYTES) + PAGE_BYTES;

	while (w->range < w->p->ranges && w->at < next) {
		uint64_t end = end_of(w->p, w->range);

		w->p->skipped_bytes += MT_MIN(end, next) - w->at;
		if (end > next) {
			w->at = next;
			return;
		}
		end_range(w, align);
	}
}

static int scan_piece(struct scanner *s, struct mt_mark_piece *p)
{
	const struct mt_mark_input *in = s->scan->in;
	uint64_t align = align_of(p);
	struct walk w = {.p = p};

	if (p->is_blocks) {
		p->end = mt_alloc_zero(p->ranges, sizeof(*p->end));
		if (!p->end)
			return -ENOMEM;
	}
	s->candidates = 0;
	s->range = 0;
	s->last = MT_BLOCKMAP_NONE;
	begin_range(&w, align);
	while (w.range < p->ranges) {
		uint64_t base = w.at;
		size_t bytes = window_bytes(&w), got = 0;

		if (bytes)
			got = in->read(in->context, base, s->window, bytes);
		if (scan_window(s, &w, base, got))
			return -ENOMEM;
		if (bytes && got < bytes)
			skip_page(&w, base + got, align);
		else if (!bytes)
			end_range(&w, align);
	}
	if (look_up(s, p))
		return -ENOMEM;
	enter_range(s, p, p->ranges);
	return 0;
}

/* ---- threads ---- */

static struct mt_mark_piece *next_piece(struct scanner *s)
{
	struct mt_mark_piece *p = NULL;

	pthread_mutex_lock(s->lock);
	if (!*s->has_failed && *s->next < s->scan->pieces)
		p = &s->scan->piece[(*s->next)++];
	pthread_mutex_unlock(s->lock);
	return p;
}

/* Gives back what the list has too much. */
static void shrink(struct mt_mark_piece *p)
{
	uint32_t *less;

	if (p->capacity - p->edges < p->capacity / 4)
		return;
	less = mt_alloc_resize(p->edge, p->edges * sizeof(*less));
	if (less) {
		p->edge = less;
		p->capacity = p->edges;
	}
}

static void *scan_pieces(void *user)
{
	struct scanner *s = user;
	struct mt_mark_piece *p;

	while ((p = next_piece(s))) {
		if (scan_piece(s, p)) {
			pthread_mutex_lock(s->lock);
			*s->has_failed = true;
			pthread_mutex_unlock(s->lock);
		}
		shrink(p);
	}
	return NULL;
}

static size_t thread_count(const struct mt_scan *s)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t wanted = s->in->threads ? s->in->threads : (size_t)MT_MAX(processors, 1);

	return MT_MAX(MT_MIN(MT_MIN(wanted, (size_t)THREADS_MAX), s->pieces), 1u);
}

static int scan_all(struct mt_scan *s)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct scanner scanner[THREADS_MAX];
	pthread_t thread[THREADS_MAX];
	size_t next = 0, wanted = thread_count(s), ready = 0, started = 1;
	bool has_failed = false;

	for (; ready < wanted; ready++) {
		scanner[ready] = (struct scanner){
			.scan = s, .lock = &lock, .next = &next, .has_failed = &has_failed};
		scanner[ready].window = mt_alloc(MT_SCAN_WINDOW_BYTES);
		if (!scanner[ready].window)
			break;
	}
	/* fewer threads are slower, and no error */
	while (started < ready &&
	       !pthread_create(&thread[started], NULL, scan_pieces, &scanner[started]))
		started++;
	if (ready)
		scan_pieces(&scanner[0]);
	for (size_t i = 1; i < started && ready; i++)
		pthread_join(thread[i], NULL);
	for (size_t i = 0; i < ready; i++)
		free(scanner[i].window);
	return has_failed || !ready ? -ENOMEM : 0;
}

int mt_scan_run(struct mt_scan *ret_scan, const struct mt_mark_input *in, struct mt_err *err)
{
	struct mt_scan s = {.in = in};
	int code = mt_blockmap_init(&s.map, in->block, in->blocks);

	if (!code)
		code = cut(&s, in->root, in->roots, ROOTS);
	if (!code)
		code = cut(&s, in->code, in->codes, CODE);
	if (!code)
		code = cut(&s, in->block, in->blocks, BLOCKS);
	if (!code)
		code = scan_all(&s);
	if (code == -E2BIG)
		mt_err_set(err, code, "the process has more than %u live blocks",
			   (unsigned)MT_BLOCKMAP_BLOCKS_MAX);
	else if (code == -EINVAL)
		mt_err_set(err, code, "the list of live blocks is not in order");
	else if (code)
		mt_err_no_memory(err);
	if (code) {
		mt_scan_done(&s);
		return code;
	}
	*ret_scan = s;
	return 0;
}
