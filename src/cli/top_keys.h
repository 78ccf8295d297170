/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TOP_KEYS_H
#define MT_CLI_TOP_KEYS_H

/* What the keys of top do: between the screen and what it shows. */

#include "cli/top.h"

struct mt_top_ui;

/* t is borrowed. NULL: no memory or no thread. */
struct mt_top_ui *mt_top_ui_new(struct mt_top *t, bool no_symbols);
/* NULL is allowed. */
void mt_top_ui_free(struct mt_top_ui *ui);
MT_AUTO_DEFINE(mt_top_ui, struct mt_top_ui *, mt_top_ui_free)

/* Handles the keys that were pressed; whether they end the program. */
bool mt_top_ui_keys(struct mt_top_ui *ui);

/* Reads the processes again unless it is paused; 0 or -ENOMEM. */
int mt_top_ui_update(struct mt_top_ui *ui);

/* Names were found: mt_top_ui_fd() is readable. */
void mt_top_ui_named(struct mt_top_ui *ui);
int mt_top_ui_fd(const struct mt_top_ui *ui);

/* A child ended: an export may be done. */
void mt_top_ui_reap(struct mt_top_ui *ui);

void mt_top_ui_paint(struct mt_top_ui *ui);

#endif
