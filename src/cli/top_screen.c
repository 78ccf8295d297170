/* SPDX-License-Identifier: MIT */
/*
 * ncurses. Signals are not its business: the caller blocks and reads them, so that no handler of
 * ncurses ever runs. What a crash needs is prepared at the start, for a handler can only write.
 */

#include "cli/top_screen.h"

#include "core/cc.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <term.h>
/* macros of term.h with names that others use */
#undef columns
#undef lines

enum { ESCAPE_MS = 50, LINE_MAX_CHARS = 1024, RESTORE_MAX = 256 };

static SCREEN *screen; /* NULL: the terminal is not ours */
static struct termios modes_before;
static char restore[RESTORE_MAX]; /* leaves the alternate screen, shows the cursor */
static bool utf8;

bool mt_top_screen_is_utf8(void)
{
	return utf8;
}

/* ---- ways out ---- */

static void on_crash(int sig)
{
	if (restore[0]) {
		(void)!write(STDOUT_FILENO, restore, strlen(restore));
		tcsetattr(STDOUT_FILENO, TCSANOW, &modes_before);
	}
	raise(sig); /* SA_RESETHAND: now it ends us */
}

static void catch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
	struct sigaction sa = {.sa_handler = on_crash,
			       .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
	struct sigaction old;

	for (size_t i = 0; i < MT_ARRAY_LEN(signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &sa, NULL);
}

static void add_restore(char *capability)
{
	const char *text = tigetstr(capability);

	if (text && text != (char *)-1 && strlen(restore) + strlen(text) < RESTORE_MAX)
		strncat(restore, text, RESTORE_MAX - 1 - strlen(restore));
}

void mt_top_screen_stop(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
	restore[0] = 0;
}

/* ---- start ---- */

static void set_modes(void)
{
	cbreak();
	noecho();
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_MS);
	curs_set(0);
}

int mt_top_screen_start(struct mt_err *err)
{
	static bool is_registered;
	const char *term = getenv("TERM");

	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return mt_err_set(err, -ENOTTY,
				  "top needs a terminal; 'memtrack top --batch' prints text");
	setlocale(LC_CTYPE, "");
	utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8");
	tcgetattr(STDOUT_FILENO, &modes_before);
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return mt_err_set(err, -ENODEV, "cannot use a terminal of the kind '%s' ($TERM)",
				  term ? term : "");
	add_restore((char *)"rmkx");
	add_restore((char *)"sgr0");
	add_restore((char *)"rmcup");
	add_restore((char *)"cnorm");
	catch_crashes();
	if (!is_registered)
		atexit(mt_top_screen_stop);
	is_registered = true;
	set_modes();
	return 0;
}

void mt_top_screen_suspend(void)
{
	curs_set(1);
	endwin();
}

void mt_top_screen_resume(void)
{
	reset_prog_mode();
	mt_top_screen_resize();
	curs_set(0);
}

void mt_top_screen_resize(void)
{
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row && size.ws_col)
		resizeterm(size.ws_row, size.ws_col);
	clearok(curscr, TRUE);
}

/* ---- keys ---- */

unsigned mt_top_screen_key(void)
{
	static const struct {
		unsigned curses, ours;
	} keys[] = {
		{KEY_UP, MT_TOP_KEY_UP},         {KEY_DOWN, MT_TOP_KEY_DOWN},
		{KEY_LEFT, MT_TOP_KEY_LEFT},     {KEY_RIGHT, MT_TOP_KEY_RIGHT},
		{KEY_PPAGE, MT_TOP_KEY_PAGE_UP}, {KEY_NPAGE, MT_TOP_KEY_PAGE_DOWN},
		{KEY_HOME, MT_TOP_KEY_HOME},     {KEY_END, MT_TOP_KEY_END},
		{KEY_ENTER, MT_TOP_KEY_ENTER},   {KEY_BACKSPACE, MT_TOP_KEY_BACKSPACE},
	};
	wint_t c;
	int kind = get_wch(&c);

	if (kind == ERR)
		return MT_TOP_KEY_NONE;
	for (size_t i = 0; kind == KEY_CODE_YES && i < MT_ARRAY_LEN(keys); i++)
		if (keys[i].curses == c)
			return keys[i].ours;
	if (kind == KEY_CODE_YES)
		return MT_TOP_KEY_OTHER;
	if (c == '\r' || c == '\n')
		return MT_TOP_KEY_ENTER;
	if (c == 0x7f || c == '\b')
		return MT_TOP_KEY_BACKSPACE;
	if (c == 0x1b)
		return MT_TOP_KEY_ESCAPE;
	return c ? c : MT_TOP_KEY_OTHER;
}

/* ---- painting ---- */

struct painter {
	unsigned line, height;
};

/* As much of text as fits into the width; returns how many columns it took. */
static int put_text(const char *text, int columns)
{
	wchar_t wide[LINE_MAX_CHARS];
	mbstate_t state = {0};
	size_t used = 0;
	int width = 0;

	while (*text && used + 1 < LINE_MAX_CHARS) {
		size_t len = mbrtowc(&wide[used], text, MB_CUR_MAX, &state);
		int w;

		if (len == (size_t)-1 || len == (size_t)-2) { /* the terminal is not for UTF-8 */
			memset(&state, 0, sizeof(state));
			len = 1;
			while (((unsigned char)text[len] & 0xc0) == 0x80)
				len++;
			wide[used] = L'?';
		}
		w = wcwidth(wide[used]);
		if (w < 0) {
			wide[used] = L'?';
			w = 1;
		}
		if (width + w > columns)
			break;
		width += w;
		used++;
		text += len;
	}
	addnwstr(wide, (int)used);
	return width;
}

static attr_t attribute_of(enum mt_top_kind kind)
{
	switch (kind) {
	case MT_TOP_TITLE:
		return A_BOLD;
	case MT_TOP_HEAD:
		return A_UNDERLINE;
	case MT_TOP_CHOSEN:
	case MT_TOP_FOOT:
		return A_REVERSE;
	case MT_TOP_ROW:
	case MT_TOP_CHART:
		return A_NORMAL;
	}
	return A_NORMAL;
}

static void paint_line(void *context, enum mt_top_kind kind, const char *text)
{
	struct painter *p = context;
	unsigned line = kind == MT_TOP_FOOT ? p->height - 1 : p->line++;
	int width;

	if (line >= p->height)
		return;
	move((int)line, 0);
	attrset((int)attribute_of(kind));
	width = put_text(text, COLS);
	/* the bar of the chosen row reaches the edge */
	if (attribute_of(kind) == A_REVERSE && width < COLS)
		hline(' ' | A_REVERSE, COLS - width);
	attrset(A_NORMAL);
}

static void paint_prompt(const char *prompt)
{
	size_t len = strlen(prompt), columns = (size_t)MT_MAX(COLS - 1, 1);

	move(LINES - 1, 0);
	clrtoeol();
	/* its end is what is being typed */
	while (len > columns) {
		prompt++;
		len--;
	}
	while (((unsigned char)*prompt & 0xc0) == 0x80)
		prompt++;
	put_text(prompt, (int)columns);
}

void mt_top_screen_paint(struct mt_top *t, const char *prompt)
{
	struct painter p = {0, (unsigned)LINES};

	erase();
	mt_top_page(t, (unsigned)COLS, (unsigned)LINES, paint_line, &p);
	if (prompt)
		paint_prompt(prompt);
	curs_set(prompt != NULL);
	refresh();
}

void mt_top_screen_paint_help(const char *const *lines)
{
	struct painter p = {0, (unsigned)LINES};

	erase();
	for (; *lines && p.line + 1 < p.height; lines++)
		paint_line(&p, MT_TOP_ROW, *lines);
	paint_line(&p, MT_TOP_FOOT, "any key: back");
	refresh();
}

unsigned mt_top_screen_rows(void)
{
	return LINES > 4 ? (unsigned)LINES - 3 : 1;
}
