/* SPDX-License-Identifier: MIT */
/* A library that does nothing: what LD_PRELOAD alone costs. */
extern int mt_empty;
int mt_empty = 1;
