/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_UNREACHABLE_H
#define MT_RUNTIME_CHECK_UNREACHABLE_H

/* check_unreachable_on_signal: lost blocks in the log of check mode. Guard held. */
void mt_check_unreachable(void);

#endif
