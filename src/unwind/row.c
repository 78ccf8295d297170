/* SPDX-License-Identifier: MIT */
/*
 * Decodes .eh_frame. Every byte is read through a cursor that knows its end, so hostile bytes give
 * a wrong or no row but never a read outside the segment that holds them; every loop consumes input
 * or counts down. Expressions are not evaluated in general: the few that compilers, linkers and
 * libcs emit for the three registers we follow are recognized byte by byte, the rest is "other".
 */

#include "unwind/row.h"

#include "core/sys.h"

enum {
	ENC_OMIT = 0xff,
	ENC_TABLE = 0x3b,      /* datarel, sdata4: what linkers write */
	STATES_MAX = 8,        /* nested remember_state; compilers use 1 */
	RECORDS_MAX = 1 << 16, /* of a search without a table */
	CIE_AUGMENTATION_MAX = 16,
};

struct cursor {
	const uint8_t *at, *end;
	int bad; /* a read passed the end: all values since are 0 */
};

struct segment {
	const uint8_t *lo, *hi;
};

struct cie {
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_reg;
	uint8_t fde_enc;
	uint8_t signal;
	uint8_t has_length; /* of augmentation data in the FDEs */
	struct cursor program;
};

struct fde {
	uintptr_t pc, pc_end;
	struct cursor program;
};

struct machine {
	const struct cie *cie;
	uintptr_t pc;
	struct mt_rule now, initial;
	struct mt_rule saved[STATES_MAX];
	uint32_t saved_count;
};

static const uint8_t *take(struct cursor *c, size_t bytes)
{
	if ((size_t)(c->end - c->at) < bytes) {
		c->bad = 1;
		c->at = c->end;
		return NULL;
	}
	const uint8_t *p = c->at;
	c->at += bytes;
	return p;
}

static uint64_t fixed(struct cursor *c, size_t bytes)
{
	const uint8_t *p = take(c, bytes);
	uint64_t v = 0;
	for (size_t i = 0; p && i < bytes; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

static uint64_t uleb(struct cursor *c)
{
	uint64_t v = 0;
	for (uint32_t shift = 0; shift < 70; shift += 7) {
		const uint8_t *p = take(c, 1);
		if (!p)
			return 0;
		if (shift < 64)
			v |= (uint64_t)(*p & 0x7f) << shift;
		if (!(*p & 0x80))
			return v;
	}
	c->bad = 1;
	return 0;
}

static int64_t sleb(struct cursor *c)
{
	uint64_t v = 0;
	for (uint32_t shift = 0; shift < 70; shift += 7) {
		const uint8_t *p = take(c, 1);
		if (!p)
			return 0;
		if (shift < 64)
			v |= (uint64_t)(*p & 0x7f) << shift;
		if (*p & 0x80)
			continue;
		if (shift + 7 < 64 && (*p & 0x40))
			v |= ~0ull << (shift + 7);
		return (int64_t)v;
	}
	c->bad = 1;
	return 0;
}

/* A value in one of the DW_EH_PE encodings; indirect and text-relative ones are refused. */
static uint64_t encoded(struct cursor *c, uint8_t enc, const uint8_t *data_base)
{
	uint64_t pos = (uint64_t)(uintptr_t)c->at, v;
	switch (enc & 15) {
	case 0x00:
	case 0x04:
	case 0x0c:
		v = fixed(c, 8);
		break;
	case 0x01:
		v = uleb(c);
		break;
	case 0x02:
		v = fixed(c, 2);
		break;
	case 0x03:
		v = fixed(c, 4);
		break;
	case 0x09:
		v = (uint64_t)sleb(c);
		break;
	case 0x0a:
		v = (uint64_t)(int64_t)(int16_t)fixed(c, 2);
		break;
	case 0x0b:
		v = (uint64_t)(int64_t)(int32_t)fixed(c, 4);
		break;
	default:
		c->bad = 1;
		return 0;
	}
	switch (enc & 0xf0) {
	case 0x00:
		return v;
	case 0x10:
		return v + pos;
	case 0x30:
		return v + (uint64_t)(uintptr_t)data_base;
	default:
		c->bad = 1;
		return 0;
	}
}

/* The loaded segment that holds p. */
static struct segment segment_of(const struct mt_module *m, const uint8_t *p)
{
	struct segment s = {NULL, NULL};
	uintptr_t a = (uintptr_t)p;
	for (uint32_t i = 0; m->phdr && i < m->phnum; i++) {
		const Elf64_Phdr *ph = &m->phdr[i];
		uintptr_t lo = m->bias + ph->p_vaddr;
		if (ph->p_type != PT_LOAD || a < lo || a - lo >= ph->p_memsz)
			continue;
		s.lo = (const uint8_t *)lo;
		s.hi = s.lo + ph->p_memsz;
		return s;
	}
	if (!m->phdr && a >= m->lo && a < m->hi) {
		s.lo = (const uint8_t *)m->lo;
		s.hi = (const uint8_t *)m->hi;
	}
	return s;
}

/* A record's body after its length; 0, or -EINVAL; length 0 (terminator) gives an empty body. */
static int record_at(const struct segment *seg, const uint8_t *p, struct cursor *ret_body)
{
	if (p < seg->lo || p >= seg->hi)
		return -MT_EINVAL;
	struct cursor c = {p, seg->hi, 0};
	uint64_t len = fixed(&c, 4);
	if (len == 0xffffffff)
		len = fixed(&c, 8);
	if (c.bad || len > (uint64_t)(c.end - c.at))
		return -MT_EINVAL;
	c.end = c.at + len;
	*ret_body = c;
	return 0;
}

/* The letters after 'z' and their data; an unknown one ends the list (its data has a length). */
static void cie_augmentation(struct cie *cie, const uint8_t *letters, struct cursor data)
{
	for (const uint8_t *a = letters; *a; a++) {
		uint8_t enc;
		switch (*a) {
		case 'R':
			cie->fde_enc = (uint8_t)fixed(&data, 1);
			break;
		case 'L':
			fixed(&data, 1);
			break;
		case 'P':
			enc = (uint8_t)fixed(&data, 1);
			encoded(&data, enc & 0x7f & ~0x70, NULL);
			break;
		case 'S':
			cie->signal = 1;
			break;
		case 'B':
		case 'G':
			break;
		default:
			return;
		}
	}
}

static int cie_parse(struct cursor c, struct cie *ret_cie)
{
	struct cie cie = {.fde_enc = 0};
	if (fixed(&c, 4) != 0)
		return -MT_EINVAL;
	uint64_t version = fixed(&c, 1);
	const uint8_t *letters = c.at;
	uint32_t n = 0;
	while (fixed(&c, 1) && n < CIE_AUGMENTATION_MAX)
		n++;
	if (c.bad || n == CIE_AUGMENTATION_MAX || (version != 1 && version != 3 && version != 4))
		return -MT_EINVAL;
	if (version == 4)
		fixed(&c, 2); /* address and segment size */
	cie.code_align = uleb(&c);
	cie.data_align = sleb(&c);
	cie.ra_reg = version == 1 ? fixed(&c, 1) : uleb(&c);
	if (letters[0] == 'z') {
		uint64_t len = uleb(&c);
		struct cursor data = c;
		if (!take(&c, len))
			return -MT_EINVAL;
		data.end = c.at;
		cie.has_length = 1;
		cie_augmentation(&cie, letters + 1, data);
	} else if (letters[0]) {
		return -MT_EINVAL;
	}
	if (c.bad || cie.ra_reg != MT_REG_RA)
		return -MT_EINVAL;
	cie.program = c;
	*ret_cie = cie;
	return 0;
}

/* 0; -ENOENT when the record at p is a CIE or a terminator; -EINVAL when it is malformed. */
static int fde_parse(const struct mt_module *m, const struct segment *seg, const uint8_t *p,
		     struct cie *ret_cie, struct fde *ret_fde)
{
	struct cursor c, cie_body;
	if (record_at(seg, p, &c))
		return -MT_EINVAL;
	if (c.at == c.end)
		return -MT_ENOENT;
	const uint8_t *id_at = c.at;
	uint64_t id = fixed(&c, 4);
	if (!id)
		return -MT_ENOENT;
	if (c.bad || id > (uint64_t)(id_at - seg->lo) || record_at(seg, id_at - id, &cie_body) ||
	    cie_parse(cie_body, ret_cie))
		return -MT_EINVAL;
	struct fde fde = {.pc = encoded(&c, ret_cie->fde_enc, m->eh_frame_hdr)};
	fde.pc_end = fde.pc + encoded(&c, ret_cie->fde_enc & 15, NULL);
	if (ret_cie->has_length)
		take(&c, uleb(&c));
	if (c.bad)
		return -MT_EINVAL;
	fde.program = c;
	*ret_fde = fde;
	return 0;
}

/* The linker's sorted table: pairs of (function, FDE), both relative to the header. */
static const uint8_t *table_search(const struct mt_module *m, struct cursor table, uint64_t count,
				   uintptr_t pc)
{
	int64_t want = (int64_t)(pc - (uintptr_t)m->eh_frame_hdr);
	uint64_t a = 0, b = MT_MIN(count, (uint64_t)(table.end - table.at) / 8);
	while (a < b) {
		uint64_t mid = (a + b) / 2;
		struct cursor c = {table.at + mid * 8, table.end, 0};
		if ((int32_t)fixed(&c, 4) <= want)
			a = mid + 1;
		else
			b = mid;
	}
	if (!a)
		return NULL;
	struct cursor c = {table.at + (a - 1) * 8 + 4, table.end, 0};
	return m->eh_frame_hdr + (int32_t)fixed(&c, 4);
}

/* Without a table that we know: all records in order. */
static int linear_search(const struct mt_module *m, const uint8_t *p, uintptr_t pc,
			 struct cie *ret_cie, struct fde *ret_fde)
{
	struct segment seg = segment_of(m, p);
	struct cursor body;
	for (uint32_t i = 0; seg.lo && i < RECORDS_MAX && !record_at(&seg, p, &body); i++) {
		if (body.at == body.end)
			break;
		if (!fde_parse(m, &seg, p, ret_cie, ret_fde) && pc >= ret_fde->pc &&
		    pc < ret_fde->pc_end)
			return 0;
		p = body.end;
	}
	return -MT_ENOENT;
}

static int find_fde(const struct mt_module *m, uintptr_t pc, struct cie *ret_cie,
		    struct fde *ret_fde)
{
	if (!m->eh_frame_hdr || m->eh_frame_hdr_bytes < 4)
		return -MT_ENOENT;
	const uint8_t *h = m->eh_frame_hdr;
	struct cursor c = {h + 4, h + m->eh_frame_hdr_bytes, 0};
	if (h[0] != 1)
		return -MT_ENOENT;
	const uint8_t *frames = NULL;
	uint64_t count = 0;
	if (h[1] != ENC_OMIT)
		frames = (const uint8_t *)(uintptr_t)encoded(&c, h[1], h);
	if (h[2] != ENC_OMIT)
		count = encoded(&c, h[2], h);
	if (c.bad)
		return -MT_ENOENT;
	if (h[2] == ENC_OMIT || h[3] != ENC_TABLE)
		return linear_search(m, frames, pc, ret_cie, ret_fde);
	const uint8_t *p = table_search(m, c, count, pc);
	struct segment seg = segment_of(m, p);
	if (!p || !seg.lo)
		return -MT_ENOENT;
	int r = fde_parse(m, &seg, p, ret_cie, ret_fde);
	if (r)
		return r;
	return pc >= ret_fde->pc && pc < ret_fde->pc_end ? 0 : -MT_ENOENT;
}

/* Whether an expression is `breg reg, offset` and then exactly the bytes of tail. */
static int is_breg(struct cursor expr, uint8_t reg, int64_t *ret_offset, const uint8_t *tail,
		   size_t tail_bytes)
{
	if (fixed(&expr, 1) != 0x70u + reg)
		return 0;
	int64_t offset = sleb(&expr);
	if (expr.bad || (size_t)(expr.end - expr.at) != tail_bytes)
		return 0;
	for (size_t i = 0; i < tail_bytes; i++)
		if (expr.at[i] != tail[i])
			return 0;
	*ret_offset = offset;
	return 1;
}

#if defined(__x86_64__)
enum { UC_RSP = 160, UC_RIP = 168, UC_RBP = 120 };

/* breg7 8; breg16 0; lit15; and; litN; ge; lit3; shl; plus: N, or -1. */
static int plt_threshold(struct cursor expr)
{
	static const uint8_t head[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a},
			     tail[] = {0x2a, 0x33, 0x24, 0x22};
	if (expr.end - expr.at != 11)
		return -1;
	for (size_t i = 0; i < sizeof(head); i++)
		if (expr.at[i] != head[i])
			return -1;
	for (size_t i = 0; i < sizeof(tail); i++)
		if (expr.at[7 + i] != tail[i])
			return -1;
	return expr.at[6] >= 0x30 && expr.at[6] < 0x40 ? expr.at[6] - 0x30 : -1;
}

static void cfa_expression(struct mt_rule *r, struct cursor expr)
{
	static const uint8_t deref[] = {0x06};
	int64_t offset;
	int threshold = plt_threshold(expr);
	r->cfa = MT_CFA_OTHER;
	if (threshold >= 0) {
		r->cfa = MT_CFA_PLT;
		r->cfa_off = threshold;
	} else if (is_breg(expr, MT_REG_FP, &offset, deref, 1) && offset == (int32_t)offset) {
		r->cfa = MT_CFA_AT_FP;
		r->cfa_off = (int32_t)offset;
	} else if (is_breg(expr, MT_REG_SP, &offset, deref, 1) && offset == UC_RSP) {
		r->cfa = MT_CFA_SIGNAL;
	}
}

static void reg_expression(struct mt_rule *r, uint64_t reg, struct cursor expr)
{
	int64_t offset;
	if (reg == MT_REG_RA)
		r->ra = is_breg(expr, MT_REG_SP, &offset, NULL, 0) && offset == UC_RIP
				? MT_RULE_SIGNAL
				: MT_RULE_OTHER;
	if (reg != MT_REG_FP)
		return;
	r->fp = MT_RULE_OTHER;
	if (is_breg(expr, MT_REG_FP, &offset, NULL, 0) && offset == 0)
		r->fp = MT_RULE_AT_FP;
	else if (is_breg(expr, MT_REG_SP, &offset, NULL, 0) && offset == UC_RBP)
		r->fp = MT_RULE_SIGNAL;
}
#else
static void cfa_expression(struct mt_rule *r, struct cursor expr)
{
	int64_t offset;
	r->cfa = MT_CFA_OTHER;
	(void)is_breg(expr, MT_REG_SP, &offset, NULL, 0);
}

static void reg_expression(struct mt_rule *r, uint64_t reg, struct cursor expr)
{
	if (reg == MT_REG_RA)
		r->ra = MT_RULE_OTHER;
	if (reg == MT_REG_FP)
		r->fp = MT_RULE_OTHER;
}
#endif

static void set_cfa_offset(struct mt_rule *r, int64_t offset)
{
	r->cfa_off = (int32_t)offset;
	if (offset != r->cfa_off)
		r->cfa = MT_CFA_OTHER;
}

static void set_cfa_register(struct mt_rule *r, uint64_t reg)
{
	r->cfa = reg == MT_REG_SP ? MT_CFA_SP : reg == MT_REG_FP ? MT_CFA_FP : MT_CFA_OTHER;
}

static void set_reg(struct mt_rule *r, uint64_t reg, enum mt_rule_reg kind, int64_t offset)
{
	if (offset != (int32_t)offset)
		kind = MT_RULE_OTHER;
	if (reg == MT_REG_RA) {
		r->ra = (uint8_t)kind;
		r->ra_off = (int32_t)offset;
	} else if (reg == MT_REG_FP) {
		r->fp = (uint8_t)kind;
		r->fp_off = (int32_t)offset;
	}
}

static void restore_reg(struct machine *v, uint64_t reg)
{
	if (reg == MT_REG_RA)
		set_reg(&v->now, reg, v->initial.ra, v->initial.ra_off);
	else if (reg == MT_REG_FP)
		set_reg(&v->now, reg, v->initial.fp, v->initial.fp_off);
}

static int64_t scaled(const struct cie *cie, int64_t factored)
{
	int64_t r;
	return __builtin_mul_overflow(factored, cie->data_align, &r) ? INT64_MIN : r;
}

static struct cursor block(struct cursor *c)
{
	struct cursor b = {c->at, c->at, 0};
	uint64_t len = uleb(c);
	b.at = c->at;
	b.end = take(c, len) ? c->at : b.at;
	return b;
}

/* The operations that concern the CFA. 0, or -EINVAL: not one of them. */
static int run_cfa_op(struct machine *v, uint8_t op, struct cursor *c)
{
	struct mt_rule *r = &v->now;
	switch (op) {
	case 0x0c: /* def_cfa */
		set_cfa_register(r, uleb(c));
		set_cfa_offset(r, (int64_t)uleb(c));
		return 0;
	case 0x12: /* def_cfa_sf */
		set_cfa_register(r, uleb(c));
		set_cfa_offset(r, scaled(v->cie, sleb(c)));
		return 0;
	case 0x0d: /* def_cfa_register */
		set_cfa_register(r, uleb(c));
		return 0;
	case 0x0e: /* def_cfa_offset */
		set_cfa_offset(r, (int64_t)uleb(c));
		return 0;
	case 0x13: /* def_cfa_offset_sf */
		set_cfa_offset(r, scaled(v->cie, sleb(c)));
		return 0;
	case 0x0f: /* def_cfa_expression */
		cfa_expression(r, block(c));
		return 0;
	default:
		return -MT_EINVAL;
	}
}

/* The operations that concern registers, states and nothing. 0, or -EINVAL: unknown. */
static int run_reg_op(struct machine *v, uint8_t op, struct cursor *c)
{
	struct mt_rule *r = &v->now;
	uint64_t reg;
	switch (op) {
	case 0x00: /* nop */
	case 0x2c: /* AARCH64_negate_ra_state_with_pc: signatures are stripped from every address */
	case 0x2d: /* AARCH64_negate_ra_state, GNU_window_save */
		return 0;
	case 0x2e: /* GNU_args_size */
		uleb(c);
		return 0;
	case 0x05: /* offset_extended */
		reg = uleb(c);
		set_reg(r, reg, MT_RULE_AT_CFA, scaled(v->cie, (int64_t)uleb(c)));
		return 0;
	case 0x11: /* offset_extended_sf */
		reg = uleb(c);
		set_reg(r, reg, MT_RULE_AT_CFA, scaled(v->cie, sleb(c)));
		return 0;
	case 0x2f: /* GNU_negative_offset_extended */
		reg = uleb(c);
		set_reg(r, reg, MT_RULE_AT_CFA, scaled(v->cie, -(int64_t)uleb(c)));
		return 0;
	case 0x06: /* restore_extended */
		restore_reg(v, uleb(c));
		return 0;
	case 0x07: /* undefined */
		set_reg(r, uleb(c), MT_RULE_UNDEFINED, 0);
		return 0;
	case 0x08: /* same_value */
		set_reg(r, uleb(c), MT_RULE_SAME, 0);
		return 0;
	case 0x09: /* register */
	case 0x14: /* val_offset */
		set_reg(r, uleb(c), MT_RULE_OTHER, 0);
		uleb(c);
		return 0;
	case 0x15: /* val_offset_sf */
		set_reg(r, uleb(c), MT_RULE_OTHER, 0);
		sleb(c);
		return 0;
	case 0x10: /* expression */
		reg = uleb(c);
		reg_expression(r, reg, block(c));
		return 0;
	case 0x16: /* val_expression */
		set_reg(r, uleb(c), MT_RULE_OTHER, 0);
		block(c);
		return 0;
	case 0x0a: /* remember_state */
		if (v->saved_count == STATES_MAX)
			return -MT_EINVAL;
		v->saved[v->saved_count++] = v->now;
		return 0;
	case 0x0b: /* restore_state */
		if (!v->saved_count)
			return -MT_EINVAL;
		v->now = v->saved[--v->saved_count];
		return 0;
	default:
		return -MT_EINVAL;
	}
}

/* If op moves the location: 1, and *ret_pc. */
static int run_advance(const struct machine *v, uint8_t op, struct cursor *c, uintptr_t *ret_pc)
{
	size_t bytes;
	if ((op & 0xc0) == 0x40) {
		*ret_pc = v->pc + (op & 63) * v->cie->code_align;
		return 1;
	}
	switch (op) {
	case 0x01:
		*ret_pc = encoded(c, v->cie->fde_enc, NULL);
		return 1;
	case 0x02:
		bytes = 1;
		break;
	case 0x03:
		bytes = 2;
		break;
	case 0x04:
		bytes = 4;
		break;
	case 0x1d:
		bytes = 8;
		break;
	default:
		return 0;
	}
	*ret_pc = v->pc + fixed(c, bytes) * v->cie->code_align;
	return 1;
}

/* Runs a program up to pc. 0, or -EINVAL. */
static int run(struct machine *v, struct cursor c, uintptr_t pc)
{
	while (c.at < c.end && !c.bad) {
		uint8_t op = *c.at++;
		uintptr_t next;
		int r = 0;
		if (run_advance(v, op, &c, &next)) {
			if (c.bad || next < v->pc)
				return -MT_EINVAL;
			if (next > pc)
				return 0;
			v->pc = next;
		} else if ((op & 0xc0) == 0x80) {
			set_reg(&v->now, op & 63, MT_RULE_AT_CFA,
				scaled(v->cie, (int64_t)uleb(&c)));
		} else if ((op & 0xc0) == 0xc0) {
			restore_reg(v, op & 63);
		} else {
			r = run_cfa_op(v, op, &c);
			if (r)
				r = run_reg_op(v, op, &c);
		}
		if (r)
			return r;
	}
	return c.bad ? -MT_EINVAL : 0;
}

int mt_row_rule(const struct mt_module *m, uintptr_t pc, struct mt_rule *ret_rule)
{
	struct cie cie;
	struct fde fde;
	int r = find_fde(m, pc, &cie, &fde);
	if (r)
		return r;
	struct machine v;
	v.cie = &cie;
	v.saved_count = 0;
	v.now = (struct mt_rule){.cfa = MT_CFA_OTHER, .signal = cie.signal};
	v.initial = v.now;
	v.pc = 0;
	r = run(&v, cie.program, UINTPTR_MAX);
	if (r)
		return r;
	v.initial = v.now;
	v.pc = fde.pc;
	r = run(&v, fde.program, pc);
	if (r)
		return r;
	*ret_rule = v.now;
	return 0;
}

#if defined(__x86_64__)
static mt_row pack_plain(const struct mt_rule *r)
{
	uint32_t fp = 0;
	if (r->ra != MT_RULE_AT_CFA || r->ra_off != -8)
		return mt_row_special(MT_ROW_UNSUPPORTED);
	if (r->fp == MT_RULE_AT_CFA) {
		if (r->fp_off >= 0 || (r->fp_off & 7) || r->fp_off < -8 * 0x1fff)
			return mt_row_special(MT_ROW_FULL);
		fp = (uint32_t)-r->fp_off / 8;
	}
	if (r->cfa_off < 0 || (r->cfa_off & 7) || r->cfa_off > 8 * 0x1fff)
		return mt_row_special(MT_ROW_FULL);
	return (r->cfa == MT_CFA_FP ? MT_ROW_FP : MT_ROW_SP) | (uint32_t)r->cfa_off / 8 << 2 |
	       fp << 15;
}
#else
static mt_row pack_plain(const struct mt_rule *r)
{
	uint32_t ra = 0, fp = 0;
	if (r->cfa_off < 0 || (r->cfa_off & 15) || r->cfa_off > 16 * 0x1ff)
		return mt_row_special(MT_ROW_FULL);
	if (r->ra == MT_RULE_AT_CFA) {
		if (r->ra_off >= 0 || (r->ra_off & 7) || r->ra_off < -8 * 0x3ff)
			return mt_row_special(MT_ROW_FULL);
		ra = (uint32_t)-r->ra_off / 8;
	}
	if (r->fp == MT_RULE_AT_CFA) {
		int32_t apart = r->fp_off - r->ra_off;
		if (!ra || r->fp_off >= 0 || (apart & 7) || apart < -8 * 63 || apart > 8 * 63)
			return mt_row_special(MT_ROW_FULL);
		fp = (uint32_t)(apart / 8 + 64);
	}
	return (r->cfa == MT_CFA_FP ? MT_ROW_FP : MT_ROW_SP) | (uint32_t)r->cfa_off / 16 << 2 |
	       ra << 11 | fp << 21;
}
#endif

mt_row mt_row_pack(const struct mt_rule *r)
{
	if (r->signal) {
#if defined(__x86_64__)
		if (r->cfa != MT_CFA_SIGNAL || r->ra != MT_RULE_SIGNAL || r->fp != MT_RULE_SIGNAL)
			return mt_row_special(MT_ROW_UNSUPPORTED);
#endif
		return mt_row_special(MT_ROW_SIGNAL);
	}
	if (r->ra == MT_RULE_UNDEFINED)
		return mt_row_special(MT_ROW_END);
	if (r->cfa == MT_CFA_OTHER || r->cfa == MT_CFA_SIGNAL || r->ra == MT_RULE_OTHER ||
	    r->ra == MT_RULE_SIGNAL || r->fp == MT_RULE_OTHER || r->fp == MT_RULE_SIGNAL)
		return mt_row_special(MT_ROW_UNSUPPORTED);
	if (r->cfa == MT_CFA_AT_FP || r->cfa == MT_CFA_PLT || r->fp == MT_RULE_AT_FP) {
#if defined(__x86_64__)
		if (r->ra != MT_RULE_AT_CFA || r->ra_off != -8)
			return mt_row_special(MT_ROW_UNSUPPORTED);
#endif
		return mt_row_special(MT_ROW_FULL);
	}
	return pack_plain(r);
}

mt_row mt_row_decode(const struct mt_module *m, uintptr_t pc)
{
	struct mt_rule rule;
	int r = mt_row_rule(m, pc, &rule);
	if (r)
		return mt_row_special(r == -MT_ENOENT ? MT_ROW_NOINFO : MT_ROW_UNSUPPORTED);
	return mt_row_pack(&rule);
}
