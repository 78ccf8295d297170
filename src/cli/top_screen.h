/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TOP_SCREEN_H
#define MT_CLI_TOP_SCREEN_H

/*
 * The terminal of top. There is one; it gets back its modes on every way out: by stop(), by exit()
 * and when a signal such as SIGSEGV ends the program.
 */

#include <stdbool.h>

#include "base/err.h"
#include "cli/top.h"

/* Keys that are no characters. */
enum mt_top_key {
	MT_TOP_KEY_NONE = 0,
	MT_TOP_KEY_UP = 0x110000,
	MT_TOP_KEY_DOWN,
	MT_TOP_KEY_LEFT,
	MT_TOP_KEY_RIGHT,
	MT_TOP_KEY_PAGE_UP,
	MT_TOP_KEY_PAGE_DOWN,
	MT_TOP_KEY_HOME,
	MT_TOP_KEY_END,
	MT_TOP_KEY_ENTER,
	MT_TOP_KEY_BACKSPACE,
	MT_TOP_KEY_ESCAPE,
	MT_TOP_KEY_OTHER, /* nothing that we know */
	MT_TOP_KEY_GONE,  /* the terminal was hung up */
};

/* Takes over the terminal of standard input and output. 0 or a negative errno value with *err. */
int mt_top_screen_start(struct mt_err *err);
/* Gives it back; may be started again. */
void mt_top_screen_stop(void);

/* Before the program is stopped (SIGTSTP), and after it went on. */
void mt_top_screen_suspend(void);
void mt_top_screen_resume(void);

/* The terminal's size has changed. */
void mt_top_screen_resize(void);

/* Whether it shows UTF-8. */
bool mt_top_screen_is_utf8(void);

/* The next key, or MT_TOP_KEY_NONE at once when there is none. Characters are Unicode points. */
unsigned mt_top_screen_key(void);

/* Paints the view; `prompt` (NULL: none) replaces the last line, with the cursor behind it. */
void mt_top_screen_paint(struct mt_top *t, const char *prompt);

/* Paints lines of help instead, until the next paint. */
void mt_top_screen_paint_help(const char *const *lines);

/* Rows that a page shows, at least 1. */
unsigned mt_top_screen_rows(void);

#endif
