/* SPDX-License-Identifier: MIT */
/*
 * The uncommon steps. Nothing is read before the stack range or the kernel says that it may be; the
 * bytes before a guessed return address are copied by the kernel.
 */

#include "unwind/step.h"

#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "unwind/rowcache.h"

enum {
	FP_REACH = 1 << 20, /* a frame pointer further above SP than this is not believed */
	CHAIN_MAX = 256,    /* frame records that are looked at ahead */
#if defined(__x86_64__)
	RED_ZONE = 128, /* bytes below SP that the kernel keeps for interrupted code */
#else
	RED_ZONE = 0,
#endif
};

static void clear_sources(struct mt_step *s)
{
	s->ra_at = s->raw = s->fp_at = s->cfa_at = 0;
	s->flags = 0;
}

#if defined(__x86_64__)
enum { CALL_BYTES = 7 };

/* Whether the bytes before `end` are a call: e8 rel32, or ff /2 in each of its lengths. */
static int is_call(const uint8_t *end)
{
	if (end[-5] == 0xe8)
		return 1;
	for (int len = 2; len <= CALL_BYTES; len++) {
		uint8_t modrm = end[1 - len], mod = modrm >> 6, rm = modrm & 7;
		if (end[-len] != 0xff || (modrm >> 3 & 7) != 2)
			continue;
		int want = 2 + (mod == 1 ? 1 : mod == 2 ? 4 : 0);
		if (mod != 3 && rm == 4) {
			want += 1;
			if (mod == 0 && (end[2 - len] & 7) == 5)
				want += 4;
		} else if (mod == 0 && rm == 5) {
			want += 4;
		}
		if (want == len)
			return 1;
	}
	return 0;
}
#else
enum { CALL_BYTES = 4 };

static int is_call(const uint8_t *end)
{
	uint32_t op;
	mt_mem_copy(&op, end - CALL_BYTES, sizeof(op));
	return (op & 0xfc000000) == 0x94000000 || /* bl */
	       (op & 0xfffffc1f) == 0xd63f0000 || /* blr */
	       (op & 0xfefff800) == 0xd63f0800;   /* blraa, blrab and their z forms */
}
#endif

/* Registers of the interrupted code. The frame reached is known by its exact pc, stored as pc + 1.
 */
static int step_signal(struct mt_step *s)
{
	uintptr_t pc, sp, fp, lr = 0;
#if defined(__x86_64__)
	uintptr_t uc = s->sp;
	int r = mt_stack_word(s->range, uc + 168, &pc);
	r = r ? r : mt_stack_word(s->range, uc + 160, &sp);
	r = r ? r : mt_stack_word(s->range, uc + 120, &fp);
#else
	uintptr_t regs = s->sp + 312; /* siginfo 128, ucontext: mcontext at 176, fault address 8 */
	int r = mt_stack_word(s->range, regs + 32 * 8, &pc);
	r = r ? r : mt_stack_word(s->range, regs + 31 * 8, &sp);
	r = r ? r : mt_stack_word(s->range, regs + 29 * 8, &fp);
	r = r ? r : mt_stack_word(s->range, regs + 30 * 8, &lr);
#endif
	clear_sources(s);
	s->flags = MT_STEP_NO_REUSE;
	if (r || mt_stack_enter(s->range, sp))
		return MT_STACK_UNREADABLE;
	s->ra = pc + 1;
	s->sp = sp;
	s->fp = fp;
	s->lr = mt_strip_code(lr);
	s->lr_known = 1;
	s->flags |= MT_FRAME_EXACT_PC;
	return 0;
}

static uint32_t known_of(const struct mt_step *s, const struct mt_module_list *list,
			 uintptr_t address)
{
	return s->rows && list ? mt_row_cache_link(s->rows, address, list->generation) : 0;
}

static void learn(const struct mt_step *s, const struct mt_module_list *list, uintptr_t address,
		  uint32_t verdict)
{
	if (s->rows && list)
		mt_row_cache_learn_link(s->rows, address, list->generation, verdict);
}

/* The signal trampoline of a libc or kernel that gives it no unwind information. */
static int at_sigreturn(const struct mt_step *s, const struct mt_module_list *list, uintptr_t pc)
{
#if defined(__x86_64__)
	static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
#else
	static const uint8_t code[] = {0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4};
#endif
	enum { OTHER_CODE = 7 };
	uintptr_t key = pc ^ 1; /* apart from what is known of pc as a return address */
	uint8_t found[sizeof(code)];
	if (known_of(s, list, key) == OTHER_CODE)
		return 0;
	if (mt_unwind.no_calls || !pc || mt_loader_read((const void *)pc, found, sizeof(found)))
		return 0;
	if (mt_mem_equal(found, code, sizeof(code)))
		return 1;
	learn(s, list, key, OTHER_CODE);
	return 0;
}

/* The word at address, which must be in the frame or further out. 0, or -EFAULT. */
static int frame_word(struct mt_step *s, uintptr_t address, uintptr_t *ret_word)
{
	return address < s->sp ? -MT_EFAULT : mt_stack_word(s->range, address, ret_word);
}

/*
 * The word where FP was saved. Code interrupted behind the pops of its epilogue has it in the red
 * zone, where nothing tells later that it is still the same.
 */
static int saved_fp(struct mt_step *s, int interrupted, uintptr_t address, uintptr_t *ret_fp)
{
	if (!interrupted || address >= s->sp || s->sp - address > RED_ZONE)
		return frame_word(s, address, ret_fp);
	s->flags |= MT_STEP_NO_REUSE;
	return mt_stack_enter(s->range, address) || mt_stack_word(s->range, address, ret_fp)
		       ? -MT_EFAULT
		       : 0;
}

/* Reads ra and fp where the rule says, relative to cfa, and moves there. */
static int load_caller(struct mt_step *s, const struct mt_rule *r, uintptr_t cfa, int interrupted)
{
	uintptr_t fp = s->fp, ra_at = 0, fp_at = 0, raw = s->lr;
	if (r->ra == MT_RULE_AT_CFA) {
		ra_at = cfa + (uintptr_t)(intptr_t)r->ra_off;
#if defined(__x86_64__)
		if (mt_stack_word(s->range, ra_at, &raw)) /* cfa > sp: at most the word below sp */
#else
		if (frame_word(s, ra_at, &raw))
#endif
			return MT_STACK_UNREADABLE;
	} else if (!s->lr_known) {
		return MT_STACK_UNSUPPORTED;
	}
	if (r->fp == MT_RULE_AT_FP)
		s->flags |= MT_STEP_USED_FP;
	if (r->fp == MT_RULE_AT_CFA || r->fp == MT_RULE_AT_FP) {
		fp_at = r->fp == MT_RULE_AT_FP ? s->fp : cfa + (uintptr_t)(intptr_t)r->fp_off;
		if (fp_at > cfa - 8 || saved_fp(s, interrupted, fp_at, &fp))
			return MT_STACK_UNREADABLE;
		if (fp_at < s->sp) /* not there any more when it is compared */
			fp_at = 0;
	}
	s->ra_at = ra_at;
	s->raw = raw;
	s->fp_at = fp_at;
	s->ra = mt_strip_code(raw);
	s->fp = fp;
	s->sp = cfa;
	if (!ra_at)
		s->flags |= MT_STEP_NO_REUSE;
	s->lr_known = 0;
	return s->ra ? 0 : MT_STACK_COMPLETE;
}

int mt_step_rule(struct mt_step *s, const struct mt_rule *r)
{
	uintptr_t cfa, offset = (uintptr_t)(intptr_t)r->cfa_off, pc = s->ra - 1;
	int interrupted = (s->flags & MT_FRAME_EXACT_PC) != 0;
	clear_sources(s);
	switch ((enum mt_rule_cfa)r->cfa) {
	case MT_CFA_SP:
		cfa = s->sp + offset;
		break;
	case MT_CFA_FP:
		s->flags |= MT_STEP_USED_FP;
		cfa = s->fp + offset;
		break;
	case MT_CFA_AT_FP:
		s->flags |= MT_STEP_USED_FP;
		if (frame_word(s, s->fp + offset, &cfa)) {
			s->flags |= MT_STEP_NO_REUSE;
			return MT_STACK_UNREADABLE;
		}
		s->cfa_at = s->fp + offset;
		break;
	case MT_CFA_PLT:
		cfa = s->sp + 8 + ((pc & 15) >= offset ? 8 : 0);
		break;
	default:
		return MT_STACK_UNSUPPORTED;
	}
	int same_place = cfa == s->sp && r->ra == MT_RULE_SAME; /* aarch64 leaf */
	int end = cfa > s->sp || same_place ? load_caller(s, r, cfa, interrupted)
					    : MT_STACK_UNREADABLE;
	if (end && end != MT_STACK_UNSUPPORTED)
		s->flags |= MT_STEP_NO_REUSE;
	return end;
}

#if defined(__aarch64__)
/*
 * A frame record does not tell its function's SP. The row of the function reached does: by FP, or
 * by where it says the record lies.
 */
static int sp_from_record(struct mt_step *s, const struct mt_module *m)
{
	struct mt_rule r;
	if (mt_row_rule(m, s->ra - 1, &r))
		return 0;
	if (r.cfa == MT_CFA_SP && r.fp == MT_RULE_AT_CFA && r.ra == MT_RULE_AT_CFA &&
	    r.ra_off == r.fp_off + 8)
		s->sp = s->fp - (uintptr_t)(intptr_t)r.fp_off - (uintptr_t)(intptr_t)r.cfa_off;
	else if (r.cfa != MT_CFA_FP && r.ra != MT_RULE_UNDEFINED)
		return 0;
	return 1;
}
#endif

/* Whether a frame record may lie there: further out, but not far. */
static int may_be_record(uintptr_t record, uintptr_t sp)
{
	return record >= sp && record - sp <= FP_REACH && !(record & 7);
}

/*
 * The return addresses of up to MT_LOADER_READ_MAX frame records from *record on, and where to go
 * on. Pages are asked for anew in each capture: a guessed address may lie where a stack once was.
 */
static uint32_t read_records(struct mt_stack_asked *asked, uintptr_t *sp, uintptr_t *record,
			     uintptr_t *ret_ra)
{
	uint32_t n = 0;
	while (n < MT_LOADER_READ_MAX && may_be_record(*record, *sp)) {
		uintptr_t at = *record, end = at + 2 * sizeof(uintptr_t);
		if (!mt_stack_probe_bytes(asked, at, end))
			break;
		ret_ra[n] = mt_strip_code(((const volatile uintptr_t *)at)[1]);
		*record = ((const volatile uintptr_t *)at)[0];
		*sp = end;
		n++;
	}
	return n;
}

/* What a return address says of the chain that leads to it. */
enum link { LINK_BROKEN = 1, LINK_GENERATED, LINK_MODULE, LINK_LANDED };

static enum link judge_link(const struct mt_module_list *list, uintptr_t ra, const uint8_t *code)
{
	const struct mt_module *m = mt_module_list_find(list, ra - 1);
	struct mt_rule rule;
	if (!is_call(code + CALL_BYTES) || (m && (ra < m->text_lo + CALL_BYTES || ra > m->text_hi)))
		return LINK_BROKEN;
	if (!m)
		return LINK_GENERATED;
	return mt_row_rule(m, ra - 1, &rule) == -MT_ENOENT ? LINK_MODULE : LINK_LANDED;
}

/* Judges n return addresses in a row; after a broken one nothing matters. */
static void judge_links(const struct mt_step *s, const struct mt_module_list *list,
			const uintptr_t *ra, uint32_t n, enum link *ret_link)
{
	uint8_t code[MT_LOADER_READ_MAX * CALL_BYTES];
	uintptr_t unknown[MT_LOADER_READ_MAX];
	uint8_t at[MT_LOADER_READ_MAX];
	uint32_t asked = 0, got = 0;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t known = known_of(s, list, ra[i]);
		ret_link[i] = known ? (enum link)known : LINK_BROKEN;
		at[asked] = (uint8_t)i;
		unknown[asked] = ra[i] - CALL_BYTES;
		asked += !known;
	}
	if (asked)
		got = mt_loader_read_each(unknown, asked, code, CALL_BYTES);
	for (uint32_t i = 0; i < got; i++) {
		enum link link = judge_link(list, ra[at[i]], code + i * CALL_BYTES);
		ret_link[at[i]] = link;
		if (link != LINK_BROKEN) /* what is no call now may become one */
			learn(s, list, ra[at[i]], link);
	}
}

/*
 * How many frame records from FP on are believed. Code in no module (V8's, say) may not keep the
 * chain, so its records are believed only if they lead to code of a module: each record lies above
 * the one before, each return address comes after a call.
 */
static uint32_t check_chain(const struct mt_step *s, const struct mt_module_list *list)
{
	enum link link[MT_LOADER_READ_MAX];
	uintptr_t sp = s->sp, record = s->fp, ra[MT_LOADER_READ_MAX];
	uint32_t believed = 0, seen = 0, n = MT_LOADER_READ_MAX;
	while (seen < CHAIN_MAX && n == MT_LOADER_READ_MAX) {
		n = read_records(s->asked, &sp, &record, ra);
		judge_links(s, list, ra, n, link);
		for (uint32_t i = 0; i < n; i++) {
			if (link[i] == LINK_BROKEN)
				return believed;
			seen++;
			if (link[i] != LINK_GENERATED)
				believed = seen;
			if (link[i] == LINK_LANDED)
				return believed;
		}
	}
	return believed;
}

/* The frame record at FP, if all that can be checked speaks for it. */
static int step_by_fp(struct mt_step *s, const struct mt_module_list *list, uint32_t checked)
{
	uintptr_t record = s->fp, fp, raw, ra;
	if (!may_be_record(record, s->sp))
		return MT_STACK_NO_INFO;
	s->flags |= MT_STEP_NO_REUSE;
	checked = checked ? checked : check_chain(s, list);
	if (!checked || mt_stack_word(s->range, record, &fp) ||
	    mt_stack_word(s->range, record + 8, &raw))
		return MT_STACK_NO_INFO;
	ra = mt_strip_code(raw);
	s->ra = ra;
	s->raw = raw;
	s->ra_at = record + 8;
	s->fp = fp;
	s->fp_at = record;
	s->sp = record + 16;
	s->lr_known = 0;
	s->flags |= MT_FRAME_BY_FP | (checked - 1) << MT_STEP_CHECKED;
#if defined(__aarch64__)
	const struct mt_module *m = mt_module_list_find(list, ra - 1);
	if (m && !sp_from_record(s, m))
		return MT_STACK_NO_INFO;
#endif
	return 0;
}

/*
 * Code without unwind information. A libc built without it (musl) marks its outermost frame by FP
 * 0, as the ABI asks. Code outside every module may change under us: nothing here is reused.
 * before: flags of the frame; one that was reached by FP returns to where it was called.
 */
static int step_noinfo(struct mt_step *s, const struct mt_module_list *list, uint32_t before)
{
	const struct mt_module *m = mt_module_list_find(list, s->ra - 1);
	if (!(before & MT_FRAME_BY_FP) && at_sigreturn(s, list, s->ra))
		return step_signal(s);
	s->flags |= MT_STEP_USED_FP | (m ? 0 : MT_STEP_NO_REUSE);
	if (m && !s->fp)
		return MT_STACK_COMPLETE;
	return step_by_fp(s, list, before >> MT_STEP_CHECKED);
}

/* before: flags of the frame. */
static int step_full(struct mt_step *s, const struct mt_module_list *list, uint32_t before)
{
	struct mt_rule rule;
	const struct mt_module *m = mt_module_list_find(list, s->ra - 1);
	if (!m || mt_row_rule(m, s->ra - 1, &rule))
		return MT_STACK_UNSUPPORTED;
	s->flags = before;
	return mt_step_rule(s, &rule);
}

int mt_step_special(struct mt_step *s, mt_row row, const struct mt_module_list *list)
{
	uint32_t before = s->flags;
	clear_sources(s);
	switch (mt_row_special_kind(row)) {
	case MT_ROW_END:
		return MT_STACK_COMPLETE;
	case MT_ROW_SIGNAL:
		return step_signal(s);
	case MT_ROW_FULL:
		return step_full(s, list, before);
	case MT_ROW_NOINFO:
		return step_noinfo(s, list, before);
	case MT_ROW_UNSUPPORTED:
		break;
	}
	return MT_STACK_UNSUPPORTED;
}
