/* SPDX-License-Identifier: MIT */
/*
 * Memo, join, walk.
 *
 * Why a reuse is exact. A walk is a function of (sp, ra, fp), the modules, and the words it reads. For
 * each frame struct mt_frame_words holds the words that were read to reach it, with their addresses.
 * When a new walk arrives at a remembered frame with the same sp, ra and (if it is used further out)
 * fp, and every word read further out still has its value, the new walk would go on exactly as the old
 * one did. So it stops there. Nothing is assumed about what the program did in between.
 *
 * Why a check cannot fault. Words are compared in the order in which a walk reads them, and the first
 * difference ends the comparison. Up to then the walk would have read the same words, so each address
 * that is read is one that a walk from the present registers reads too: a word of a live frame. A stack
 * that was unmapped, or replaced by a shorter one at the same address, differs before its end. The
 * processor runs the loads ahead of the comparisons by itself, which is what makes this fast; loads
 * run ahead never fault. This is why the loops below may not be vectorized or combined.
 *
 * A step that depends on more than such words (registers of an interrupted frame, a guess by frame
 * pointer, a page that could not be read) is marked MT_STEP_NO_REUSE; frames inward of it are walked
 * each time.
 */

#include "unwind/capture.h"

#include "core/mem.h"
#include "core/sys.h"
#include "unwind/rowcache.h"
#include "unwind/step.h"

enum {
	MEMO_SETS = 256,
	MEMO_WAYS = 2,
	MEMO_WORDS = 56,
	NEEDS_FP = 1 << 10, /* fp of this frame is used further out before it is loaded again */
	EXTRA = 1 << 11,    /* more words than ra: fp_at with NEEDS_FP, or cfa_at */
	PUBLIC_FLAGS = MT_FRAME_EXACT_PC | MT_FRAME_BY_FP,
	MIDDLE = MT_DEPTH_MAX, /* words[MIDDLE - k]: fresh frame k; words[MIDDLE + 1 + i]: frame[i] */
	FIRST_PAGE = 4096,
	JOIN_WINDOW = 256,
	JOIN_PAUSE = 2048,
	MEMO_WINDOW = 1024,
	MEMO_PAUSE = 16384,
};

struct memo_entry {
	uintptr_t ra, sp; /* key, with tag; ra 0: free */
	uint64_t tag;
	uintptr_t fp;
	uint32_t epoch; /* of the memo when it was filled: others are free */
	uint32_t token;
	uint32_t span_bytes; /* words lie in [sp, sp + span_bytes) */
	uint16_t count;
	uint16_t needs_fp;
	uint16_t offset[MEMO_WORDS]; /* (address - sp) / 8, in the order of the walk */
	uint64_t value[MEMO_WORDS];
};

struct mt_memo {
	uint32_t epoch;
	uint32_t reserved[15];
	struct memo_entry entry[MEMO_SETS][MEMO_WAYS];
};

/* How a walk went. */
struct outcome {
	uint32_t fresh;    /* frames walked; if joined the last is frame[at] */
	int32_t at;        /* -1: not joined */
	uint32_t end;      /* enum mt_stack_end, if not joined */
	int32_t no_reuse;  /* outermost fresh frame that may not be reused, -1: none */
	uint32_t end_no_reuse;
};

struct mt_unwind mt_unwind;

size_t mt_row_cache_bytes(void)
{
	return sizeof(struct mt_row_cache);
}

size_t mt_memo_bytes(void)
{
	return sizeof(struct mt_memo);
}

void mt_capture_init(struct mt_capture *c, uint32_t depth_max)
{
	c->depth_max = MT_MIN(MT_MAX(depth_max, 1u), (uint32_t)MT_DEPTH_MAX);
	c->reuse_below = UINT32_MAX;
}

static void memo_forget(struct mt_memo *memo)
{
	if (memo && !++memo->epoch) {
		mt_mem_zero(memo->entry, sizeof(memo->entry));
		memo->epoch = 1;
	}
}

void mt_capture_memo_attach(struct mt_capture *c, struct mt_memo *memo)
{
	memo_forget(memo);
	c->memo = memo;
	c->memo_ready = 0;
}

void mt_capture_reset(struct mt_capture *c)
{
	c->count = 0;
	c->token = 0;
	c->reuse_below = UINT32_MAX;
	c->memo_ready = 0;
	c->stack = (struct mt_stack_range){0, 0};
	for (uint32_t i = 0; i < MT_ARRAY_LEN(c->other); i++)
		c->other[i] = (struct mt_stack_range){0, 0};
	memo_forget(c->memo);
}

MT_INLINE uintptr_t word_at(uintptr_t address)
{
	return *(const volatile uintptr_t *)address;
}

MT_INLINE struct mt_frame_words *fresh_words(struct mt_capture *c, uint32_t k)
{
	return &c->words[MIDDLE - k];
}

MT_INLINE struct mt_frame_words *kept_words(struct mt_capture *c)
{
	return &c->words[MIDDLE + 1];
}

MT_INLINE uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
	return hash ^ hash >> 32;
}

static MT_COLD void modules_changed(struct mt_capture *c, const struct mt_module_list *list)
{
	c->generation = list->generation;
	c->count = 0;
	c->token = 0;
	c->memo_ready = 0;
	memo_forget(c->memo);
	mt_row_cache_flush(mt_unwind.rows, list->generation);
}

/* The modules as of now, with every cache brought up to them. NULL: not set up. */
MT_INLINE const struct mt_module_list *modules_now(struct mt_capture *c)
{
	if (mt_unwind.change_count) {
		uint64_t now = __atomic_load_n(mt_unwind.change_count, __ATOMIC_ACQUIRE);
		if (MT_UNLIKELY(now != c->change_seen)) {
			c->change_seen = now;
			if (mt_unwind.on_change)
				mt_unwind.on_change();
		}
	}
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	if (MT_UNLIKELY(!list || !mt_unwind.rows))
		return NULL;
	if (MT_UNLIKELY(list->generation != c->generation))
		modules_changed(c, list);
	return list;
}

/* Makes c->stack the range that holds the word below sp. */
static MT_COLD int stack_switch(struct mt_capture *c, uintptr_t sp)
{
	struct mt_stack_range old = c->stack;
	for (uint32_t i = 0; i < MT_ARRAY_LEN(c->other); i++) {
		if (mt_stack_holds(&c->other[i], sp - 8)) {
			c->stack = c->other[i];
			c->other[i] = old;
			return 0;
		}
	}
	int r = mt_stack_enter(&c->stack, sp - 8);
	if (!r && c->stack.hi != old.hi)
		c->other[c->other_next++ % MT_ARRAY_LEN(c->other)] = old;
	return r;
}

/* ---- memo ---- */

MT_INLINE struct memo_entry *memo_set(struct mt_memo *memo, uintptr_t sp, uintptr_t ra, uint64_t tag)
{
	uint64_t h = (ra ^ (uint64_t)sp << 20 ^ (tag << 7 | tag >> 57)) * 0x9e3779b97f4a7c15u;
	return memo->entry[h >> 56];
}

/* Whether each remembered word still has its value, in the order of the walk. */
MT_INLINE int memo_verify(const struct memo_entry *e, uintptr_t sp)
{
	uint32_t n = e->count, i = 0;
	while (i < n && word_at(sp + (uintptr_t)e->offset[i] * 8) == e->value[i])
		i++;
	return i == n;
}

MT_INLINE uint32_t memo_find(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp,
			     uint64_t tag)
{
	const struct memo_entry *e = memo_set(c->memo, sp, ra, tag);
	for (uint32_t w = 0; w < MEMO_WAYS; w++, e++) {
		if (e->ra != ra || e->sp != sp || e->tag != tag || e->epoch != c->memo->epoch)
			continue;
		if (e->span_bytes > c->stack.hi - sp || (e->needs_fp && e->fp != fp))
			return 0;
		return memo_verify(e, sp) ? e->token : 0;
	}
	return 0;
}

/* One word into an entry. 0, or -EINVAL: does not fit. */
MT_INLINE int memo_add(struct memo_entry *e, uintptr_t address, uint64_t value)
{
	uintptr_t offset = address - e->sp;
	if (e->count == MEMO_WORDS || (offset & 7) || offset / 8 > UINT16_MAX)
		return -MT_EINVAL;
	e->offset[e->count] = (uint16_t)(offset / 8);
	e->value[e->count++] = value;
	if (offset + 8 > e->span_bytes)
		e->span_bytes = (uint32_t)offset + 8;
	return 0;
}

static int memo_add_frame(struct memo_entry *e, const struct mt_frame_words *w)
{
	if (w->cfa_at && memo_add(e, w->cfa_at, w->sp))
		return -MT_EINVAL;
	if (memo_add(e, w->ra_at, w->raw))
		return -MT_EINVAL;
	if ((w->flags & NEEDS_FP) && w->fp_at)
		return memo_add(e, w->fp_at, w->fp);
	return 0;
}

static void memo_fill(struct mt_capture *c)
{
	const struct mt_frame_words *w = kept_words(c);
	const struct mt_frame_words *inner = &w[c->count - 1];
	struct memo_entry *e = memo_set(c->memo, inner->sp, inner->ra, c->tag);
	if (e[1].ra == inner->ra && e[1].sp == inner->sp && e[1].tag == c->tag)
		e++;
	else if ((e->ra != inner->ra || e->sp != inner->sp || e->tag != c->tag) &&
		 e->epoch == c->memo->epoch)
		e += c->memo_seen & 1;
	e->ra = 0;
	e->sp = inner->sp;
	e->tag = c->tag;
	e->fp = inner->fp;
	e->needs_fp = (inner->flags & NEEDS_FP) != 0;
	e->epoch = c->memo->epoch;
	e->token = c->token;
	e->span_bytes = 0;
	e->count = 0;
	for (uint32_t i = c->count - 1; i-- > 0;)
		if (memo_add_frame(e, &w[i]))
			return;
	e->ra = inner->ra;
}

void mt_capture_remember(struct mt_capture *c, uint32_t token)
{
	c->token = token;
	if (c->memo && c->memo_ready && c->count && c->reuse_below >= c->count)
		memo_fill(c);
}

/* Counts a look into the memo; pauses it where it does not pay. */
MT_INLINE void memo_account(struct mt_capture *c, uint32_t hit)
{
	c->memo_hits += hit;
	if (MT_UNLIKELY(++c->memo_seen == MEMO_WINDOW)) {
		if (c->memo_hits * 10 < MEMO_WINDOW)
			c->memo_off_for = MEMO_PAUSE;
		c->memo_seen = c->memo_hits = 0;
	}
}

/* ---- walk and join ---- */

/* -1 when every word outward of frame `at` still has its value, else the frame that differs. */
MT_INLINE int32_t verify_outward(const struct mt_frame_words *kept, int32_t at)
{
	int32_t i = at - 1;
	for (; i >= 0; i--) {
		const struct mt_frame_words *w = &kept[i];
		if (MT_UNLIKELY(w->flags & EXTRA)) {
			if (w->cfa_at && word_at(w->cfa_at) != w->sp)
				break;
			if (word_at(w->ra_at) != w->raw)
				break;
			if ((w->flags & NEEDS_FP) && w->fp_at && word_at(w->fp_at) != w->fp)
				break;
		} else if (word_at(w->ra_at) != w->raw) {
			break;
		}
	}
	return i;
}

/*
 * Fresh frame k stands at (sp, ra, fp). Tries to join it to a frame of the last stack at or below
 * index *at, which is moved on. 1: joined at *at.
 */
MT_INLINE int try_join(struct mt_capture *c, uint32_t k, const struct mt_frame_words *fresh,
		       int32_t *at)
{
	const struct mt_frame_words *kept = kept_words(c);
	int32_t i = *at;
	while (i >= 0 && kept[i].sp < fresh->sp)
		i--;
	*at = i;
	if (i < 0 || kept[i].sp != fresh->sp || kept[i].ra != fresh->ra)
		return 0;
	if ((kept[i].flags & NEEDS_FP) && kept[i].fp != fresh->fp)
		return 0;
	/* A stack that was cut tells nothing about what lies beyond its cut. */
	if ((c->end == MT_STACK_DEPTH && (uint32_t)i + 1 + k < c->depth_max) ||
	    kept[0].sp > c->stack.hi || fresh->sp <= c->stack.lo) {
		*at = -1;
		return 0;
	}
	int32_t differs = verify_outward(kept, i);
	if (differs < 0)
		return 1;
	*at = differs;
	return 0;
}

/* The step out of fresh frame k uses its fp: so does every frame inward that hands it on. */
static void use_fp(struct mt_capture *c, uint32_t k)
{
	for (;; k--) {
		struct mt_frame_words *w = fresh_words(c, k);
		if (w->flags & NEEDS_FP)
			return;
		w->flags |= NEEDS_FP;
		if (w->fp_at) {
			w->flags |= EXTRA;
			return;
		}
		if (!k)
			return;
	}
}

/* The step out of *w by other than a plain row, into *next. 0, or an enum mt_stack_end. */
static MT_NOINLINE int slow_step(struct mt_capture *c, const struct mt_module_list *list, mt_row row,
				 const struct mt_frame_words *w, uintptr_t *lr,
				 struct mt_frame_words *ret_next)
{
	struct mt_step s = {.sp = w->sp, .ra = w->ra, .fp = w->fp, .lr = *lr, .lr_known = *lr != 0,
			    .range = &c->stack};
	int end = mt_step_special(&s, row, list);
	c->counts.fp_steps += !end && (s.flags & MT_FRAME_BY_FP);
	*lr = s.lr_known ? s.lr : 0;
	*ret_next = (struct mt_frame_words){
		.sp = s.sp, .ra = s.ra, .ra_at = s.ra_at, .raw = s.raw, .fp = s.fp,
		.fp_at = s.fp_at, .cfa_at = s.cfa_at, .flags = s.flags | (s.cfa_at ? EXTRA : 0)};
	return end;
}

static MT_NOINLINE mt_row row_miss(struct mt_capture *c, const struct mt_module_list *list,
				   uintptr_t ra)
{
	c->counts.row_misses++;
	return mt_row_cache_fill(mt_unwind.rows, list, &mt_unwind.modules, ra);
}

MT_INLINE mt_row row_of(struct mt_capture *c, const struct mt_module_list *list,
			const struct mt_row_cache *rows, uintptr_t ra)
{
	if (MT_UNLIKELY(ra < FIRST_PAGE))
		return mt_row_special(MT_ROW_NOINFO);
	mt_row row = mt_row_cache_get(rows, ra);
	return MT_LIKELY(row != MT_ROW_MISS) ? row : row_miss(c, list, ra);
}

/* The step out of *w by a plain row. 0, or an enum mt_stack_end. */
MT_INLINE int plain_step(struct mt_capture *c, mt_row row, const struct mt_frame_words *w,
			 struct mt_frame_words *ret_next)
{
	uintptr_t cfa = ((row & MT_ROW_FP) ? w->fp : w->sp) + mt_row_cfa_bytes(row);
	if (MT_UNLIKELY(cfa <= w->sp || cfa > c->stack.hi) &&
	    (cfa <= w->sp || mt_stack_reach(&c->stack, cfa)))
		return MT_STACK_UNREADABLE;
	uintptr_t ra_at = cfa - mt_row_ra_bytes(row), fp_bytes = mt_row_fp_bytes(row);
	uintptr_t fp_at = 0, fp = w->fp;
	if (fp_bytes) {
		fp_at = cfa - fp_bytes;
		if (MT_UNLIKELY(fp_at < c->stack.lo || fp_at > cfa - 8))
			return MT_STACK_UNREADABLE;
		fp = word_at(fp_at);
	}
#if !defined(__x86_64__)
	if (MT_UNLIKELY(ra_at < c->stack.lo))
		return MT_STACK_UNREADABLE;
#endif
	uintptr_t raw = word_at(ra_at);
	ret_next->sp = cfa;
	ret_next->ra = mt_step_strip(raw);
	ret_next->ra_at = ra_at;
	ret_next->raw = raw;
	ret_next->fp = fp;
	ret_next->fp_at = fp_at;
	ret_next->cfa_at = 0;
	ret_next->flags = 0;
	return MT_LIKELY(ret_next->ra != 0) ? 0 : MT_STACK_COMPLETE;
}

/* From the fresh frame 0, which is filled in. */
static MT_NOINLINE void walk(struct mt_capture *c, const struct mt_module_list *list, int32_t at,
			   struct outcome *ret)
{
	const struct mt_row_cache *rows = mt_unwind.rows;
	uint32_t k = 0;
	uintptr_t lr = 0;
	*ret = (struct outcome){.at = -1, .no_reuse = -1};
	for (;; k++) {
		struct mt_frame_words *w = fresh_words(c, k);
		if (at >= 0 && try_join(c, k, w, &at)) {
			ret->at = at;
			if (kept_words(c)[at].flags & NEEDS_FP)
				use_fp(c, k);
			break;
		}
		mt_row row = row_of(c, list, rows, w->ra);
		if (MT_UNLIKELY(k + 1 == c->depth_max)) {
			ret->end = row == mt_row_special(MT_ROW_END) ? MT_STACK_COMPLETE :
								       MT_STACK_DEPTH;
			break;
		}
		int end;
		if (MT_UNLIKELY(mt_row_is_special(row) || !mt_row_ra_bytes(row))) {
			if (!mt_row_is_special(row))
				row = mt_row_special(MT_ROW_FULL);
			end = slow_step(c, list, row, w, &lr, w - 1);
			if (w[-1].flags & MT_STEP_USED_FP)
				use_fp(c, k);
			if (MT_UNLIKELY(w[-1].flags & MT_STEP_NO_REUSE)) {
				ret->no_reuse = (int32_t)k + 1;
				ret->end_no_reuse = 1;
			}
		} else {
			if (row & MT_ROW_FP)
				use_fp(c, k);
			end = plain_step(c, row, w, w - 1);
			ret->end_no_reuse = end != 0;
			lr = 0;
		}
		if (MT_UNLIKELY(end)) {
			ret->end = (uint32_t)end;
			break;
		}
		ret->end_no_reuse = 0;
	}
	ret->fresh = k + 1;
}

/* Writes frame i; *hash runs. A node stays if everything from the root to here is as it was. */
MT_INLINE void put_frame(struct mt_capture *c, uint32_t i, uint32_t old_count,
			 const struct mt_frame_words *w, uint64_t *hash)
{
	struct mt_frame *f = &c->frame[i];
	uint32_t flags = w->flags & PUBLIC_FLAGS;
	uint64_t h = mix(*hash, w->ra ^ (uint64_t)flags << 56);
	if (i >= old_count || f->hash != h || f->ra != w->ra)
		f->node = 0;
	f->slot = w->flags & MT_STEP_NO_REUSE ? 0 : w->sp - 8;
	f->ra = w->ra;
	f->hash = h;
	f->flags = flags;
	kept_words(c)[i] = *w;
	*hash = h;
}

/* Makes c's last stack the one that the walk found. */
static void place(struct mt_capture *c, const struct outcome *o)
{
	uint32_t at = o->at < 0 ? 0 : (uint32_t)o->at, old_count = c->count, k = o->fresh;
	uint32_t total = at + k, drop = total > c->depth_max ? total - c->depth_max : 0;
	uint32_t base = at - drop; /* index of the outermost fresh frame */
	uint64_t hash;
	struct mt_frame_words *kept = kept_words(c);
	if (o->at >= 0 && !drop) {
		kept[at] = *fresh_words(c, --k);
		hash = c->frame[at].hash;
	} else {
		c->end = drop ? MT_STACK_DEPTH : o->end;
		hash = mix(0x6d656d747261636bu, c->end);
		for (uint32_t i = 0; i < base; i++)
			put_frame(c, i, old_count, &kept[i + drop], &hash);
	}
	for (uint32_t j = k; j-- > 0;)
		put_frame(c, base + o->fresh - 1 - j, old_count, fresh_words(c, j), &hash);
	c->count = total - drop;
	c->hash = hash;
	c->reuse_below = UINT32_MAX;
	if (o->no_reuse >= 0)
		c->reuse_below = base + o->fresh - 1 - MT_MIN((uint32_t)o->no_reuse, o->fresh - 1);
	if (o->at < 0 && o->end_no_reuse)
		c->reuse_below = 0;
}

/* Counts a walk; pauses joining where it does not pay. */
static void join_account(struct mt_capture *c, const struct outcome *o)
{
	uint32_t walked = o->fresh - (o->at >= 0);
	c->counts.joined += o->at >= 0;
	c->counts.frames_walked += walked;
	if (c->join_off_for) {
		c->join_off_for--;
		return;
	}
	c->join_done += o->at >= 0;
	c->join_walked += walked;
	c->join_frames += c->count;
	if (++c->join_seen < JOIN_WINDOW)
		return;
	if (c->join_done < JOIN_WINDOW / 2 || c->join_walked > c->join_frames / 2)
		c->join_off_for = JOIN_PAUSE;
	c->join_seen = c->join_done = c->join_walked = c->join_frames = 0;
}

/* No modules yet: the one frame that the caller named. */
static MT_COLD uint32_t capture_nothing(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uint64_t tag)
{
	struct mt_frame_words w = {.sp = sp, .ra = ra, .flags = MT_STEP_NO_REUSE};
	uint64_t hash = mix(0x6d656d747261636bu, MT_STACK_NO_INFO);
	c->end = MT_STACK_NO_INFO;
	put_frame(c, 0, 0, &w, &hash);
	c->count = 1;
	c->tag = tag;
	c->hash = mix(hash, tag);
	c->token = 0;
	c->reuse_below = 0;
	c->memo_ready = 0;
	c->counts.ends[MT_STACK_NO_INFO]++;
	return 0;
}

static MT_NOINLINE uint32_t capture_walk(struct mt_capture *c, const struct mt_module_list *list,
					 uintptr_t sp, uintptr_t ra, uintptr_t fp, uint64_t tag)
{
	struct outcome o;
	uint32_t old_count = c->count;
	int32_t at = (int32_t)MT_MIN(c->count, c->reuse_below) - 1;
	*fresh_words(c, 0) = (struct mt_frame_words){
		.sp = sp, .ra = ra, .fp = fp, .raw = ra,
#if defined(__x86_64__)
		.ra_at = sp - 8,
#endif
	};
	walk(c, list, c->join_off_for ? -1 : at, &o);
	if (o.at >= 0 && o.fresh == 1 && (uint32_t)o.at + 1 == old_count) {
		c->counts.same_as_last++;
		if (c->tag == tag && c->token) {
			join_account(c, &o);
			return c->token;
		}
	}
	place(c, &o);
	join_account(c, &o);
	c->counts.ends[c->end]++;
	c->tag = tag;
	c->hash = mix(c->hash, tag);
	c->token = 0;
	return 0;
}

uint32_t mt_capture_stack(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp, uint64_t tag)
{
	const struct mt_module_list *list = modules_now(c);
	ra = mt_step_strip(ra);
	c->counts.captures++;
	if (MT_UNLIKELY(!list) || (MT_UNLIKELY(!mt_stack_holds(&c->stack, sp - 8)) && stack_switch(c, sp)))
		return capture_nothing(c, sp, ra, tag);
	c->memo_ready = 0;
	if (MT_UNLIKELY(c->memo_off_for)) {
		c->memo_off_for--;
	} else if (MT_LIKELY(c->memo != NULL)) {
		uint32_t token = memo_find(c, sp, ra, fp, tag);
		memo_account(c, token != 0);
		if (token) {
			c->counts.memo_hits++;
			return token;
		}
		c->memo_ready = 1;
	}
	return capture_walk(c, list, sp, ra, fp, tag);
}
