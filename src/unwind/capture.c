/* SPDX-License-Identifier: MIT */
/*
 * Memo, join, walk.
 *
 * Why a reuse is exact. A walk is a function of (sp, ra, fp), the modules, and the words it reads.
 * For each frame struct mt_frame_words holds the words that were read to reach it, with their
 * addresses. When a new walk arrives at a remembered frame with the same sp, ra and (if it is used
 * further out) fp, and every word read further out still has its value, the new walk would go on
 * exactly as the old one did. So it stops there. Nothing is assumed about what the program did in
 * between.
 *
 * Why a check cannot fault. Words are compared in the order in which a walk reads them, and the
 * first difference ends the comparison. Up to then the walk would have read the same words, so each
 * address that is read is one that a walk from the present registers reads too: a word of a live
 * frame. A stack that was unmapped, or replaced by a shorter one at the same address, differs
 * before its end. The processor runs the loads ahead of the comparisons by itself, which is what
 * makes this fast; loads run ahead never fault. This is why the loops below may not be vectorized
 * or combined.
 *
 * A step that depends on more than such words (registers of an interrupted frame, a guess by frame
 * pointer, a page that could not be read) is marked MT_STEP_NO_REUSE; frames inward of it are
 * walked each time.
 */

#include "unwind/capture.h"

#include "core/mem.h"
#include "core/sys.h"
#include "unwind/rowcache.h"
#include "unwind/step.h"

enum {
	NEEDS_FP = 1 << 10, /* fp of this frame is used further out before it is loaded again */
	EXTRA = 1 << 11,    /* more words than ra: fp_at with NEEDS_FP, or cfa_at */
	PUBLIC_FLAGS = MT_FRAME_EXACT_PC | MT_FRAME_BY_FP,
	MIDDLE = MT_DEPTH_MAX, /* words[MIDDLE - k]: fresh frame k; words[MIDDLE + 1 + i]: frame[i]
				*/
	JOIN_WINDOW = 256,
	JOIN_PAUSE = 2048,
	MEMO_WINDOW = 1024,
	MEMO_PAUSE = 16384,
};

/* How a walk went. */
struct outcome {
	uint32_t fresh;   /* frames walked; if joined the last is frame[at] */
	int32_t at;       /* -1: not joined */
	uint32_t end;     /* enum mt_stack_end, if not joined */
	int32_t no_reuse; /* outermost fresh frame that may not be reused, -1: none */
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

/* Starts a new window in which the memo is judged. */
static void memo_window(struct mt_capture *c)
{
	c->memo_since = c->counts.captures;
	c->memo_misses_before = c->counts.memo_misses;
}

void mt_capture_memo_attach(struct mt_capture *c, struct mt_memo *memo)
{
	mt_memo_forget(memo);
	c->memo = c->memo_in_use = memo;
	c->memo_ready = 0;
	memo_window(c);
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
	mt_memo_forget(c->memo);
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

#if defined(__x86_64__)
MT_INLINE uintptr_t ra_place(const struct mt_frame_words *w)
{
	return w->sp - 8;
}

MT_INLINE uintptr_t ra_word(const struct mt_frame_words *w)
{
	return w->ra;
}
#else
MT_INLINE uintptr_t ra_place(const struct mt_frame_words *w)
{
	return w->ra_at;
}

MT_INLINE uintptr_t ra_word(const struct mt_frame_words *w)
{
	return w->raw;
}
#endif

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
	mt_memo_forget(c->memo);
	mt_row_cache_flush(mt_unwind.rows, list->generation);
}

/*
 * 0, or what on_change() returned: the list from before the change may name a module that is gone,
 * so there is better none, and the next capture asks again.
 */
static MT_COLD int ask_for_change(struct mt_capture *c, uint64_t now)
{
	int r = mt_unwind.on_change ? mt_unwind.on_change() : 0;
	if (!r)
		c->change_seen = now;
	return r;
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

static int memo_add_frame(struct mt_memo_entry *e, const struct mt_frame_words *w)
{
	if (w->cfa_at && mt_memo_add(e, w->cfa_at, w->sp))
		return -MT_EINVAL;
	if (mt_memo_add(e, ra_place(w), ra_word(w)))
		return -MT_EINVAL;
	if ((w->flags & NEEDS_FP) && w->fp_at)
		return mt_memo_add(e, w->fp_at, w->fp);
	return 0;
}

static void memo_fill(struct mt_capture *c)
{
	const struct mt_frame_words *w = kept_words(c);
	const struct mt_frame_words *inner = &w[c->count - 1];
	struct mt_memo_entry *e =
		mt_memo_begin(c->memo, inner->sp, inner->ra, inner->fp,
			      (inner->flags & NEEDS_FP) != 0, c->tag, (uint32_t)c->counts.captures);
	for (uint32_t i = c->count - 1; i-- > 0;)
		if (memo_add_frame(e, &w[i]))
			return;
	mt_memo_end(e, inner->ra, c->token);
}

void mt_capture_remember(struct mt_capture *c, uint32_t token)
{
	c->token = token;
	if (!c->memo || !c->memo_ready || !c->count || c->reuse_below < c->count)
		return;
	const struct mt_frame_words *inner = &kept_words(c)[c->count - 1];
	if (mt_memo_missed(c->memo, inner->sp, inner->ra, c->hash, (uint32_t)c->counts.memo_misses))
		memo_fill(c);
}

/* Once a window: pauses the memo where it does not pay. */
static MT_COLD void memo_judge(struct mt_capture *c)
{
	uint64_t seen = c->counts.captures - c->memo_since;
	uint64_t missed = c->counts.memo_misses - c->memo_misses_before;
	if (missed * 10 > seen * 9) {
		c->memo_off_for = MEMO_PAUSE;
		c->memo_in_use = NULL;
	}
	memo_window(c);
}

/* The memo has no answer to this capture; 1: it is to be told. */
static int memo_missed(struct mt_capture *c)
{
	if (!c->memo)
		return 0;
	if (!c->memo_in_use) {
		if (!--c->memo_off_for) {
			c->memo_in_use = c->memo;
			memo_window(c);
		}
		return 0;
	}
	if (MT_UNLIKELY(c->counts.captures - c->memo_since >= MEMO_WINDOW))
		memo_judge(c);
	return c->memo_in_use != NULL;
}

/* ---- walk and join ---- */

/* Where a walk stands, and what it read to get there. */
struct place {
	uintptr_t sp, ra, fp, fp_at, cfa_at;
	uint64_t flags;
#if !defined(__x86_64__)
	uintptr_t ra_at, raw;
	uintptr_t lr; /* the link register, 0: not known */
#endif
};

/* The outermost frame inward of which (from `at` on) words differ, or first - 1: all are the same.
 */
MT_INLINE const struct mt_frame_words *verify_outward(const struct mt_frame_words *first,
						      const struct mt_frame_words *at)
{
	const struct mt_frame_words *w = at - 1;
	for (; w >= first; w--) {
		if (MT_UNLIKELY(w->flags & EXTRA)) {
			if (w->cfa_at && word_at(w->cfa_at) != w->sp)
				break;
			if (word_at(ra_place(w)) != ra_word(w))
				break;
			if ((w->flags & NEEDS_FP) && w->fp_at && word_at(w->fp_at) != w->fp)
				break;
		} else if (word_at(ra_place(w)) != ra_word(w)) {
			break;
		}
	}
	return w;
}

/*
 * Fresh frame k stands at (sp, ra, fp). Tries to join it to the frame *at of the last stack or one
 * outward of it; *at is moved on, to first - 1 when there is none. 1: joined at *at.
 */
MT_INLINE int try_join(struct mt_capture *c, uint32_t k, const struct place *fresh,
		       const struct mt_frame_words **at)
{
	const struct mt_frame_words *first = kept_words(c), *w = *at;
	while (w >= first && w->sp < fresh->sp)
		w--;
	*at = w;
	if (w < first || w->sp != fresh->sp || w->ra != fresh->ra)
		return 0;
	if ((w->flags & NEEDS_FP) && w->fp != fresh->fp)
		return 0;
	/* A stack that was cut tells nothing about what lies beyond its cut. */
	if (MT_UNLIKELY(
		    (c->end == MT_STACK_DEPTH && (uint32_t)(w - first) + 1 + k < c->depth_max) ||
		    first->sp > c->stack.hi || fresh->sp <= c->stack.lo)) {
		*at = first - 1;
		return 0;
	}
	const struct mt_frame_words *differs = verify_outward(first, w);
	if (differs < first)
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

#if defined(__x86_64__)
MT_INLINE uintptr_t place_lr(const struct place *at)
{
	return 0;
}

MT_INLINE void place_set_ra(struct place *at, uintptr_t ra_at, uintptr_t raw, uintptr_t lr)
{
	at->ra = raw;
}

MT_INLINE void place_ra_word(const struct place *at, struct mt_frame_words *w)
{
}
#else
MT_INLINE uintptr_t place_lr(const struct place *at)
{
	return at->lr;
}

MT_INLINE void place_set_ra(struct place *at, uintptr_t ra_at, uintptr_t raw, uintptr_t lr)
{
	at->ra = mt_strip_code(raw);
	at->ra_at = ra_at;
	at->raw = raw;
	at->lr = lr;
}

MT_INLINE void place_ra_word(const struct place *at, struct mt_frame_words *w)
{
	w->ra_at = at->ra_at;
	w->raw = at->raw;
}
#endif

/* The step out of *at by other than a plain row. 0, or an enum mt_stack_end. */
static MT_NOINLINE int slow_step(struct mt_capture *c, const struct mt_module_list *list,
				 mt_row row, struct place *at)
{
	uintptr_t lr = place_lr(at);
	struct mt_step s = {.sp = at->sp,
			    .ra = at->ra,
			    .fp = at->fp,
			    .flags = (uint32_t)at->flags,
			    .lr = lr,
			    .lr_known = lr != 0,
			    .range = &c->stack,
			    .asked = &c->asked,
			    .rows = mt_unwind.rows};
	if (c->asked.capture != c->counts.captures)
		c->asked = (struct mt_stack_asked){.capture = c->counts.captures};
	int end = mt_step_special(&s, row, list);
	c->counts.fp_steps += !end && (s.flags & MT_FRAME_BY_FP);
	*at = (struct place){.sp = s.sp,
			     .fp = s.fp,
			     .fp_at = s.fp_at,
			     .cfa_at = s.cfa_at,
			     .flags = s.flags | (s.cfa_at ? EXTRA : 0)};
	place_set_ra(at, s.ra_at, s.raw, s.lr_known ? s.lr : 0);
	at->ra = s.ra;
	return end;
}

static MT_NOINLINE mt_row row_miss(struct mt_capture *c, const struct mt_module_list *list,
				   uintptr_t ra)
{
	c->counts.row_misses++;
	return mt_row_cache_fill(mt_unwind.rows, list, &mt_unwind.modules, ra);
}

MT_INLINE mt_row row_of(struct mt_capture *c, const struct mt_module_list *list, uintptr_t ra)
{
	mt_row row = mt_row_cache_get(mt_unwind.rows, ra);
	return MT_LIKELY(row != MT_ROW_MISS) ? row : row_miss(c, list, ra);
}

/* The step out of *at by a plain row. 0, or an enum mt_stack_end. */
MT_INLINE int plain_step(struct mt_capture *c, mt_row row, struct place *at)
{
	uintptr_t cfa = ((row & MT_ROW_FP) ? at->fp : at->sp) + mt_row_cfa_bytes(row);
	uintptr_t fp_bytes = mt_row_fp_bytes(row), fp_at = 0;
	if (MT_UNLIKELY(cfa <= at->sp || cfa > c->stack.hi) &&
	    (cfa <= at->sp || mt_stack_reach(&c->stack, cfa)))
		return MT_STACK_UNREADABLE;
	if (fp_bytes) {
		fp_at = cfa - fp_bytes;
		if (MT_UNLIKELY(fp_at < at->sp || fp_at > cfa - 8))
			return MT_STACK_UNREADABLE;
		at->fp = word_at(fp_at);
	}
	at->fp_at = fp_at;
	uintptr_t ra_at = cfa - mt_row_ra_bytes(row);
#if !defined(__x86_64__)
	if (MT_UNLIKELY(ra_at < at->sp))
		return MT_STACK_UNREADABLE;
#endif
	place_set_ra(at, ra_at, word_at(ra_at), 0);
	at->sp = cfa;
	at->cfa_at = 0;
	at->flags = 0;
	return MT_LIKELY(at->ra != 0) ? 0 : MT_STACK_COMPLETE;
}

/* How the walk out of fresh frame k by an uncommon row goes. 0, or an enum mt_stack_end. */
static MT_NOINLINE int uncommon_step(struct mt_capture *c, const struct mt_module_list *list,
				     mt_row row, uint32_t k, struct place *at, struct outcome *ret)
{
	if (row == mt_row_special(MT_ROW_END))
		return MT_STACK_COMPLETE;
	/* aarch64: the return address is in the link register; x86-64: FP is in the red zone */
	if (!mt_row_is_special(row))
		row = mt_row_special(MT_ROW_FULL);
	int end = slow_step(c, list, row, at);
	if (at->flags & MT_STEP_USED_FP)
		use_fp(c, k);
	if (at->flags & MT_STEP_NO_REUSE) {
		ret->no_reuse = (int32_t)k + 1;
		ret->end_no_reuse = end != 0;
	}
	return end;
}

/* How a stack ends whose outermost frame is the last that the limit permits. */
MT_INLINE uint32_t end_at_limit(mt_row row)
{
	return row == mt_row_special(MT_ROW_END) ? MT_STACK_COMPLETE : MT_STACK_DEPTH;
}

/* Walks from *at until it ends, is cut, or joins the last stack at or below index `join`. */
static void walk(struct mt_capture *c, const struct mt_module_list *list, struct place at,
		 int32_t join, struct outcome *ret)
{
	const struct mt_row_cache *rows = mt_unwind.rows;
	struct mt_frame_words *w = fresh_words(c, 0), *last = fresh_words(c, c->depth_max - 1);
	const struct mt_frame_words *first = w, *kept = kept_words(c), *candidate = kept + join;
	uint32_t end = 0;
	*ret = (struct outcome){.at = -1, .no_reuse = -1};
	for (;; w--) {
		w->sp = at.sp;
		w->ra = at.ra;
		w->fp = at.fp;
		w->fp_at = at.fp_at;
		w->cfa_at = at.cfa_at;
		w->flags = at.flags;
		place_ra_word(&at, w);
		if (candidate >= kept && try_join(c, (uint32_t)(first - w), &at, &candidate)) {
			ret->at = (int32_t)(candidate - kept);
			if (candidate->flags & NEEDS_FP)
				use_fp(c, (uint32_t)(first - w));
			break;
		}
		mt_row row = mt_row_cache_get(rows, at.ra);
		if (MT_UNLIKELY(row == MT_ROW_MISS))
			row = row_miss(c, list, at.ra);
		if (MT_UNLIKELY(w == last)) {
			end = end_at_limit(row);
			break;
		}
		if (MT_LIKELY(!mt_row_is_special(row) && mt_row_ra_bytes(row))) {
			if (row & MT_ROW_FP)
				use_fp(c, (uint32_t)(first - w));
			end = (uint32_t)plain_step(c, row, &at);
			if (MT_LIKELY(!end))
				continue;
			if (end != MT_STACK_UNREADABLE || !(at.flags & MT_FRAME_EXACT_PC)) {
				ret->end_no_reuse = 1;
				break;
			} /* interrupted: its frame may be gone already */
		}
		struct place next = at; /* keeps `at` in registers */
		end = (uint32_t)uncommon_step(c, list, row, (uint32_t)(first - w), &next, ret);
		at = next;
		if (end)
			break;
	}
	ret->end = end;
	ret->fresh = (uint32_t)(first - w) + 1;
}

/*
 * Writes one frame over the one that stood there in the last stack (known: there was one). The node
 * stays if everything from the root to here is as it was. The running hash is returned.
 */
MT_INLINE uint64_t put_frame(struct mt_frame *f, const struct mt_frame_words *w, uint64_t hash,
			     int known)
{
	uint32_t flags = (uint32_t)w->flags & PUBLIC_FLAGS;
	uintptr_t ra = w->ra;
	hash = mix(hash, ra ^ (uint64_t)flags << 56);
	if (!known || f->hash != hash || f->ra != ra)
		f->node = 0;
	uintptr_t slot = MT_LIKELY(!(w->flags & MT_STEP_NO_REUSE)) ? w->sp - 8 : 0;
	f->slot = slot;
	f->ra = ra;
	f->hash = hash;
	f->flags = flags;
	return hash;
}

/* Makes c's last stack the one that the walk found. */
static void place(struct mt_capture *c, const struct mt_module_list *list, const struct outcome *o)
{
	uint32_t at = o->at < 0 ? 0 : (uint32_t)o->at, old_count = c->count, k = o->fresh;
	uint32_t total = at + k, drop = total > c->depth_max ? total - c->depth_max : 0;
	uint32_t base = at - drop; /* index of the outermost fresh frame */
	struct mt_frame_words *to = kept_words(c), *from = fresh_words(c, k - 1);
	struct mt_frame *f = c->frame, *known_end = f + old_count;
	uint32_t end = o->at < 0 ? o->end : c->end;
	uint64_t hash;
	if (MT_UNLIKELY(o->at >= 0 && total >= c->depth_max))
		end = end_at_limit(row_of(c, list, (at > drop ? to[drop] : *from).ra));
	if (o->at >= 0 && !drop && end == c->end) {
		to += at;
		f += at;
		hash = f->hash;
		*to++ = *from++;
		f++;
		k--;
	} else {
		c->end = end;
		hash = mix(0x6d656d747261636bu, c->end);
		for (uint32_t i = 0; i < base; i++, to++, f++) {
			hash = put_frame(f, to + drop, hash, f < known_end);
			*to = to[drop];
		}
	}
	for (; k; k--, from++, to++, f++) {
		hash = put_frame(f, from, hash, f < known_end);
		*to = *from;
	}
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
static MT_COLD uint32_t capture_nothing(struct mt_capture *c, uintptr_t sp, uintptr_t ra,
					uint64_t tag)
{
	struct mt_frame_words w = {.sp = sp, .ra = ra, .flags = MT_STEP_NO_REUSE};
	uint64_t hash = mix(0x6d656d747261636bu, MT_STACK_NO_INFO);
	c->end = MT_STACK_NO_INFO;
	hash = put_frame(&c->frame[0], &w, hash, 0);
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
	struct place start = {.sp = sp, .ra = ra, .fp = fp};
	walk(c, list, start, c->join_off_for ? -1 : at, &o);
	if (o.at >= 0 && o.fresh == 1 && (uint32_t)o.at + 1 == old_count) {
		c->counts.same_as_last++;
		if (c->tag == tag && c->token) {
			join_account(c, &o);
			if (c->memo_ready && c->reuse_below >= c->count)
				memo_fill(c); /* seen twice: the memo tells it at half the cost */
			return c->token;
		}
	}
	place(c, list, &o);
	join_account(c, &o);
	c->counts.ends[c->end]++;
	c->tag = tag;
	c->hash = mix(c->hash, tag);
	c->token = 0;
	return 0;
}

uint32_t mt_capture_unknown(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp,
			    uint64_t tag)
{
	uint64_t now = __atomic_load_n(&mt_unwind.change_count, __ATOMIC_ACQUIRE);
	uint32_t asked = 1; /* the memo was, with the state as it is */
	ra = mt_strip_code(ra);
	c->counts.memo_misses++;
	if (MT_UNLIKELY(now != c->change_seen)) {
		if (ask_for_change(c, now))
			return capture_nothing(c, sp, ra, tag);
		asked = 0;
	}
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	if (MT_UNLIKELY(!list || !mt_unwind.rows))
		return capture_nothing(c, sp, ra, tag);
	if (MT_UNLIKELY(list->generation != c->generation))
		modules_changed(c, list);
	if (MT_UNLIKELY(sp < c->stack.lo + 8 || sp > c->stack.hi)) {
		if (stack_switch(c, sp))
			return capture_nothing(c, sp, ra, tag);
		asked = 0;
	}
	if (MT_UNLIKELY(!asked) && c->memo_in_use) {
		const struct mt_memo_entry *e =
			mt_memo_find(c->memo_in_use, sp, ra, fp, tag, c->stack.hi);
		if (e) {
			c->counts.memo_misses--;
			return e->token;
		}
	}
	c->memo_ready = (uint32_t)memo_missed(c);
	return capture_walk(c, list, sp, ra, fp, tag);
}
