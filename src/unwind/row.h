/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_ROW_H
#define MT_UNWIND_ROW_H

/*
 * A row says how to step from one frame to its caller at one program counter. It is decoded from
 * the module's .eh_frame when first needed and packed into MT_ROW_BITS bits:
 *
 *   bits 0..1   kind: 0 CFA = SP + 8*cfa, 1 CFA = FP + 8*cfa, 2 special: bits 2.. enum
 * mt_row_special x86-64      bits 2..14 cfa; bits 15..27 fp: caller's FP saved at CFA - 8*fp, 0:
 * not saved here. The return address is at CFA - 8. aarch64     bits 2..10 cfa, bits 11..20 ra:
 * return address at CFA - 8*ra, 0: still in the link register; bits 21..27 fp: caller's FP saved at
 * (place of ra) + 8*(fp - 64), 0: not saved here.
 *
 * What does not fit is MT_ROW_FULL: decoded again, into a struct mt_rule, at each use.
 * Source of the rules: DWARF 5 section 6.4, System V ABI AMD64 section 3.7, AAPCS64.
 */

#include "elf/modules.h"

typedef uint32_t mt_row;

enum { MT_ROW_BITS = 28 };
enum mt_row_kind { MT_ROW_SP = 0, MT_ROW_FP = 1, MT_ROW_SPECIAL = 2 };

enum mt_row_special {
	MT_ROW_END = 0,         /* outermost frame: the return address is undefined */
	MT_ROW_SIGNAL = 1,      /* signal trampoline: registers lie in the ucontext at SP */
	MT_ROW_NOINFO = 2,      /* no unwind information for this pc */
	MT_ROW_UNSUPPORTED = 3, /* a rule that the unwinder does not evaluate, or malformed bytes */
	MT_ROW_FULL = 4,        /* a rule that is too large to pack: mt_row_rule() */
};

/* Registers by DWARF number. */
#if defined(__x86_64__)
enum { MT_REG_FP = 6, MT_REG_SP = 7, MT_REG_RA = 16 };
#else
enum { MT_REG_FP = 29, MT_REG_SP = 31, MT_REG_RA = 30 };
#endif

enum mt_rule_cfa {
	MT_CFA_OTHER = 0, /* not evaluated by us */
	MT_CFA_SP,        /* SP + cfa_off */
	MT_CFA_FP,        /* FP + cfa_off */
	MT_CFA_AT_FP,     /* the word at FP + cfa_off (functions that realign their stack) */
	MT_CFA_PLT,       /* SP + 8, and 8 more when (pc & 15) >= cfa_off (lazy binding stub) */
	MT_CFA_SIGNAL,    /* SP in the ucontext */
};

enum mt_rule_reg {
	MT_RULE_SAME = 0,  /* unchanged: still in its register */
	MT_RULE_AT_CFA,    /* saved at CFA + offset */
	MT_RULE_AT_FP,     /* saved at the present FP (x86-64, functions that realign) */
	MT_RULE_UNDEFINED, /* of the return address: outermost frame */
	MT_RULE_SIGNAL,    /* in the ucontext */
	MT_RULE_OTHER,     /* not evaluated by us */
};

/* A rule in full. cfa is enum mt_rule_cfa, ra and fp are enum mt_rule_reg. Offsets in bytes. */
struct mt_rule {
	uint8_t cfa, ra, fp;
	uint8_t signal; /* the CIE says: this is a signal trampoline */
	int32_t cfa_off, ra_off, fp_off;
};

/*
 * The row that holds at pc. `pc` lies inside the instruction of interest: callers pass the return
 * address minus one for a call, the exact pc for an interrupted frame. Pure: reads only the
 * module's mapped .eh_frame, allocates nothing, checks every length against the segment. A pc
 * without unwind information gives the special row NOINFO; a rule that cannot be evaluated gives
 * UNSUPPORTED.
 */
mt_row mt_row_decode(const struct mt_module *m, uintptr_t pc);

/*
 * The same, unpacked. 0 and *ret_rule set, or -ENOENT (no unwind information) or -EINVAL (malformed
 * or beyond the limits of the decoder).
 */
int mt_row_rule(const struct mt_module *m, uintptr_t pc, struct mt_rule *ret_rule);

/* Packs a rule that mt_row_rule() gave. */
mt_row mt_row_pack(const struct mt_rule *rule);

MT_INLINE mt_row mt_row_special(enum mt_row_special special)
{
	return MT_ROW_SPECIAL | (mt_row)special << 2;
}

MT_INLINE int mt_row_is_special(mt_row row)
{
	return (row & 2) != 0;
}

MT_INLINE enum mt_row_special mt_row_special_kind(mt_row row)
{
	return (enum mt_row_special)(row >> 2);
}

#if defined(__x86_64__)
MT_INLINE uintptr_t mt_row_cfa_bytes(mt_row row)
{
	return (uintptr_t)(row >> 2 & 0x1fff) * 8;
}

MT_INLINE uintptr_t mt_row_ra_bytes(mt_row row)
{
	return 8;
}

/* Where the caller's FP is: CFA minus this; 0: not saved. */
MT_INLINE uintptr_t mt_row_fp_bytes(mt_row row)
{
	return (uintptr_t)(row >> 15) * 8;
}
#else
MT_INLINE uintptr_t mt_row_cfa_bytes(mt_row row)
{
	return (uintptr_t)(row >> 2 & 0x1ff) * 16;
}

/* Where the return address is: CFA minus this; 0: in the link register. */
MT_INLINE uintptr_t mt_row_ra_bytes(mt_row row)
{
	return (uintptr_t)(row >> 11 & 0x3ff) * 8;
}

MT_INLINE uintptr_t mt_row_fp_bytes(mt_row row)
{
	uint32_t fp = row >> 21;
	return fp ? mt_row_ra_bytes(row) + 512 - (uintptr_t)fp * 8 : 0;
}
#endif

#endif
