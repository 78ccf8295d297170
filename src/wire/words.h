/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_WORDS_H
#define MT_WIRE_WORDS_H

/*
 * The words of MEMTRACK_OPTIONS as the tracked process will read them, for commands that store them
 * for later: the runtime's own parser (runtime/options.c), compiled for the tool side. No layer
 * includes runtime/, so its declaration stands here.
 */

#include "core/cc.h"

/*
 * 0; or -EINVAL: the tracker would not understand a word, which is in `word` (at most bytes,
 * NUL-terminated, cut).
 */
int mt_words_check(const char *words, char *word, size_t bytes);

#endif
