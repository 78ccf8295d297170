/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_ROW_H
#define MT_UNWIND_ROW_H

/*
 * A row says how to step from one frame to its caller at one program counter. It is decoded from the
 * module's .eh_frame when first needed and packed into 27 bits:
 *
 *   bits 0..1   kind: 0 CFA = SP + 8*cfa, 1 CFA = FP + 8*cfa, 2 special (see enum mt_row_special)
 *   bits 2..14  cfa  (special: the special kind in bits 2..5, its operand in bits 6..14)
 *   bits 15..26 fp: caller's frame pointer saved at CFA - 8*fp; 0 = not saved here
 *
 * x86-64: the return address is at CFA - 8. aarch64: at CFA - 8*ra, see row.c for how ra is packed.
 * Source of the rules: DWARF 5 section 6.4, System V ABI AMD64 section 3.7, AAPCS64.
 */

#include "elf/modules.h"

typedef uint32_t mt_row;

/*
 * The row that holds at pc. `pc` lies inside the instruction of interest: callers pass the return
 * address minus one for a call, the exact pc for an interrupted frame. Pure: reads only the module's
 * mapped .eh_frame, allocates nothing, checks every length against the section. A pc without unwind
 * information gives the special row NOINFO; a rule that the format cannot hold gives UNSUPPORTED.
 */
mt_row mt_row_decode(const struct mt_module *m, uintptr_t pc);

#endif
