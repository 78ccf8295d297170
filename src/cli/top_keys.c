/* SPDX-License-Identifier: MIT */
/* Keys, the line where text is typed, and what other commands of ours do in processes of their own.
 */

#include "cli/top_keys.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/file.h"
#include "cli/top_namer.h"
#include "cli/top_screen.h"
#include "core/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum prompt { PROMPT_NONE, PROMPT_FILTER, PROMPT_EXPORT, PROMPT_CONTROL };
enum { TYPED_MAX = 512, NAMED_MAX = 300, WORDS_MAX = 16 };

struct mt_top_ui {
	struct mt_top *t; /* borrowed */
	bool no_symbols, shows_help;
	enum prompt prompt;
	char typed[TYPED_MAX];
	char filter_before[MT_TOP_FILTER_MAX];
	struct mt_top_namer *namer; /* owned */
	struct mt_site_names quick, full;
	pid_t helper;      /* a command of ours at work; 0: none */
	int helper_output; /* what it says; -1: none */
	char done[TYPED_MAX + 32];
};

struct mt_top_ui *mt_top_ui_new(struct mt_top *t, bool no_symbols)
{
	struct mt_top_ui *ui = mt_alloc_zero(1, sizeof(*ui));

	if (!ui)
		return NULL;
	ui->t = t;
	ui->no_symbols = no_symbols;
	ui->helper_output = -1;
	ui->namer = mt_top_namer_new(no_symbols);
	t->names = &ui->full;
	t->quick_names = &ui->quick;
	if (ui->namer)
		return ui;
	free(ui);
	return NULL;
}

void mt_top_ui_free(struct mt_top_ui *ui)
{
	if (!ui)
		return;
	mt_top_namer_free(ui->namer);
	mt_site_names_done(&ui->quick);
	mt_site_names_done(&ui->full);
	ui->t->names = ui->t->quick_names = NULL;
	if (ui->helper_output >= 0)
		close(ui->helper_output);
	free(ui);
}

int mt_top_ui_fd(const struct mt_top_ui *ui)
{
	return mt_top_namer_fd(ui->namer);
}

static void say(struct mt_top_ui *ui, const char *fmt, ...) MT_PRINTF(2, 3);

/* A sentence for the last line, until the next key. */
static void say(struct mt_top_ui *ui, const char *fmt, ...)
{
	mt_auto(mt_buf) struct mt_buf text = {0}, clean = {0};
	va_list ap;

	va_start(ap, fmt);
	mt_buf_vprintf(&text, fmt, ap);
	va_end(ap);
	mt_escape(&clean, mt_buf_text(&text));
	snprintf(ui->t->message, sizeof(ui->t->message), "%s", mt_buf_text(&clean));
}

/* ---- names ---- */

static bool is_named(const struct mt_top_ui *ui, uint32_t site)
{
	return mt_site_names_get(ui->no_symbols ? &ui->quick : &ui->full, site) != NULL;
}

/* Asks for names of the widest sites that have none. */
static void ask_for_names(struct mt_top_ui *ui)
{
	uint32_t site[NAMED_MAX], count = mt_top_wanted_sites(ui->t, site, NAMED_MAX), unnamed = 0;

	for (uint32_t i = 0; i < count; i++)
		if (!is_named(ui, site[i]))
			site[unnamed++] = site[i];
	if (unnamed)
		mt_top_namer_ask(ui->namer, ui->t->open.path, site, unnamed);
}

void mt_top_ui_named(struct mt_top_ui *ui)
{
	if (mt_top_namer_take(ui->namer, ui->t->open.path, &ui->quick, &ui->full))
		(void)!mt_top_arrange(ui->t);
}

int mt_top_ui_update(struct mt_top_ui *ui)
{
	int code = ui->t->is_paused ? 0 : mt_top_update(ui->t, MT_TOP_READ);

	if (!code)
		ask_for_names(ui);
	return code;
}

static void open_process(struct mt_top_ui *ui)
{
	size_t at = mt_top_cursor(ui->t);

	if (at == SIZE_MAX || mt_top_open(ui->t, (int32_t)ui->t->row[at].key))
		return;
	mt_site_names_done(&ui->quick);
	mt_site_names_done(&ui->full);
}

/* Another view reads other tables. */
static void show(struct mt_top_ui *ui, enum mt_top_view view)
{
	if (view == MT_TOP_PROCESSES)
		mt_top_close(ui->t);
	else
		ui->t->view = view;
	ui->t->names = &ui->full;
	ui->t->quick_names = &ui->quick;
	(void)!mt_top_update(ui->t, MT_TOP_READ);
	ask_for_names(ui);
}

/* ---- what other commands do ---- */

/* The process that is meant: the open one, or that under the cursor. */
static const struct mt_watched *chosen_process(const struct mt_top *t)
{
	size_t at = mt_top_cursor(t);

	if (t->open.path)
		return &t->open;
	for (size_t i = 0; at != SIZE_MAX && i < t->list.count; i++)
		if ((uint64_t)t->list.item[i].now.pid == t->row[at].key)
			return &t->list.item[i];
	return NULL;
}

/* Starts `memtrack ...`, whose words go to `output`; the screen goes on meanwhile. 0 or negative.
 */
static int spawn(struct mt_top_ui *ui, char **argv, int output)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none;
	int code;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	code = posix_spawn(&ui->helper, "/proc/self/exe", &actions, &attributes, argv, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	if (code)
		ui->helper = 0;
	return -code;
}

/* Runs a command of ours; `done` is said when it succeeds and says nothing itself. */
static void run_command(struct mt_top_ui *ui, char **argv, const char *done)
{
	int fds[2], code;

	if (ui->helper) {
		say(ui, "the last command is still under way");
		return;
	}
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK)) {
		say(ui, "cannot do it: %s", strerror(errno));
		return;
	}
	code = spawn(ui, argv, fds[1]);
	close(fds[1]);
	if (code) {
		close(fds[0]);
		say(ui, "cannot do it: %s", strerror(-code));
		return;
	}
	ui->helper_output = fds[0];
	snprintf(ui->done, sizeof(ui->done), "%s", done);
}

static const char *format_of(const char *path)
{
	static const char *const formats[][2] = {
		{".json", "--json"}, {".csv", "--csv"}, {".kv", "--kv"}};
	size_t len = strlen(path);

	for (size_t i = 0; i < MT_ARRAY_LEN(formats); i++) {
		size_t end = strlen(formats[i][0]);

		if (len > end && !strcmp(path + len - end, formats[i][0]))
			return formats[i][1];
	}
	return "--show=leaks"; /* text is the default */
}

static void export_to(struct mt_top_ui *ui, const char *to)
{
	const struct mt_watched *w = chosen_process(ui->t);
	char output[TYPED_MAX + 16], done[TYPED_MAX + 16];
	char *argv[] = {(char *)"memtrack",
			(char *)"report",
			(char *)format_of(to),
			output,
			(char *)"--",
			w ? w->path : NULL,
			NULL};

	if (!w || !*to)
		return;
	snprintf(output, sizeof(output), "--output=%s", to);
	snprintf(done, sizeof(done), "wrote '%s'", to);
	say(ui, "writing '%s'", to);
	run_command(ui, argv, done);
}

/* Words as of `memtrack ctl`; a value may hold blanks when it is the last. */
static void control(struct mt_top_ui *ui, const char *text)
{
	const struct mt_watched *w = chosen_process(ui->t);
	char copy[TYPED_MAX], done[TYPED_MAX + 32], *save = NULL;
	char *argv[4 + WORDS_MAX + 1] = {(char *)"memtrack", (char *)"ctl", (char *)"--",
					 w ? w->path : NULL};
	unsigned count = 4;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *word = strtok_r(copy, " ", &save); word && count < 4 + WORDS_MAX;
	     word = strtok_r(NULL, " ", &save))
		argv[count++] = word;
	if (!w || count == 4)
		return;
	snprintf(done, sizeof(done), "done: %s", text);
	say(ui, "asking for: %s", text);
	run_command(ui, argv, done);
}

/* Switches recording of the process off or on. */
static void toggle(struct mt_top_ui *ui)
{
	const struct mt_watched *w = chosen_process(ui->t);

	if (w)
		control(ui, w->now.is_recording ? "off" : "on");
}

static char *last_line(char *text)
{
	size_t len = strlen(text);
	char *before;

	while (len && text[len - 1] == '\n')
		text[--len] = 0;
	before = strrchr(text, '\n');
	return before ? before + 1 : text;
}

void mt_top_ui_reap(struct mt_top_ui *ui)
{
	char text[4096] = "", *sentence;
	bool is_done;
	int status;

	if (!ui->helper || waitpid(ui->helper, &status, WNOHANG) != ui->helper)
		return;
	ui->helper = 0;
	(void)!read(ui->helper_output, text, sizeof(text) - 1);
	close(ui->helper_output);
	ui->helper_output = -1;
	sentence = last_line(text); /* warnings come before it */
	if (!strncmp(sentence, "memtrack: ", 10))
		sentence += 10;
	is_done = WIFEXITED(status) && !WEXITSTATUS(status);
	/* of a report that was written only warnings are left */
	if (is_done && (!*sentence || !strncmp(ui->done, "wrote ", 6)))
		say(ui, "%s", ui->done);
	else
		say(ui, "%s", *sentence ? sentence : "it failed");
}

/* ---- typed text ---- */

static void start_prompt(struct mt_top_ui *ui, enum prompt prompt)
{
	const struct mt_watched *w = chosen_process(ui->t);

	ui->prompt = prompt;
	ui->typed[0] = 0;
	if (prompt == PROMPT_FILTER) {
		snprintf(ui->typed, sizeof(ui->typed), "%s", ui->t->filter);
		memcpy(ui->filter_before, ui->t->filter, sizeof(ui->filter_before));
	} else if (!w) {
		ui->prompt = PROMPT_NONE;
		say(ui, "choose a process first");
	} else if (prompt == PROMPT_EXPORT) {
		snprintf(ui->typed, sizeof(ui->typed), "memtrack-%" PRId32 ".txt", w->now.pid);
	} else {
		snprintf(ui->typed, sizeof(ui->typed), "mode=");
	}
}

/* Appends a character, or takes the last one away. */
static void type(struct mt_top_ui *ui, unsigned key)
{
	size_t len = strlen(ui->typed);
	char bytes[4];
	size_t count = 0;

	if (key == MT_TOP_KEY_BACKSPACE) {
		while (len && ((unsigned char)ui->typed[--len] & 0xc0) == 0x80)
			;
		ui->typed[len] = 0;
		return;
	}
	if (key == 'U' - '@') { /* as in a shell */
		ui->typed[0] = 0;
		return;
	}
	if (key < ' ' || key >= MT_TOP_KEY_UP)
		return;
	if (key < 0x80) {
		bytes[count++] = (char)key;
	} else {
		unsigned more = key < 0x800 ? 1 : key < 0x10000 ? 2 : 3;
		static const unsigned char head[] = {0, 0xc0, 0xe0, 0xf0};

		bytes[count++] = (char)(head[more] | key >> 6 * more);
		while (more--)
			bytes[count++] = (char)(0x80 | (key >> 6 * more & 0x3f));
	}
	if (len + count < sizeof(ui->typed)) {
		memcpy(ui->typed + len, bytes, count);
		ui->typed[len + count] = 0;
	}
}

static void set_filter(struct mt_top_ui *ui, const char *text)
{
	snprintf(ui->t->filter, sizeof(ui->t->filter), "%s", text);
	(void)!mt_top_arrange(ui->t);
	ask_for_names(ui);
}

static void key_in_prompt(struct mt_top_ui *ui, unsigned key)
{
	enum prompt prompt = ui->prompt;

	if (key == MT_TOP_KEY_ESCAPE) {
		ui->prompt = PROMPT_NONE;
		if (prompt == PROMPT_FILTER)
			set_filter(ui, ui->filter_before);
		return;
	}
	if (key == MT_TOP_KEY_ENTER) {
		ui->prompt = PROMPT_NONE;
		if (prompt == PROMPT_EXPORT)
			export_to(ui, ui->typed);
		if (prompt == PROMPT_CONTROL)
			control(ui, ui->typed);
		return;
	}
	type(ui, key);
	if (prompt == PROMPT_FILTER)
		set_filter(ui, ui->typed);
}

/* ---- keys ---- */

static const char *const help[] = {
	"Up Down j k        choose a row",
	"PgUp PgDn Home End choose further away",
	"Enter              call sites of the chosen process",
	"1 2 3 4            sites, threads, sizes, time line of the open process",
	"Tab                the next of these",
	"Esc Left           back to the processes",
	"< > , .            sort by another column (* marks it)",
	"r                  the other way round",
	"/                  only rows that hold a text; empty: all",
	"Space              pause, go on",
	"m                  switch mode, interval and whatever memtrack ctl changes",
	"o                  switch recording off or on",
	"n                  take a snapshot",
	"e                  export a report of the process to a file (.txt .json .csv .kv)",
	"? h                this list",
	"q                  quit",
	"",
	"GROWTH is since top began (processes) or since the process was opened (sites).",
	NULL,
};

static void move_cursor(struct mt_top_ui *ui, unsigned key)
{
	long page = (long)mt_top_screen_rows(), end = (long)ui->t->row_count;

	switch (key) {
	case MT_TOP_KEY_UP:
	case 'k':
		mt_top_move(ui->t, -1);
		return;
	case MT_TOP_KEY_DOWN:
	case 'j':
		mt_top_move(ui->t, 1);
		return;
	case MT_TOP_KEY_PAGE_UP:
		mt_top_move(ui->t, -page);
		return;
	case MT_TOP_KEY_PAGE_DOWN:
		mt_top_move(ui->t, page);
		return;
	case MT_TOP_KEY_HOME:
		mt_top_move(ui->t, -end);
		return;
	case MT_TOP_KEY_END:
		mt_top_move(ui->t, end);
		return;
	default:
		return;
	}
}

static void sort_key(struct mt_top_ui *ui, unsigned key)
{
	struct mt_top *t = ui->t;

	if (key == '<' || key == ',')
		mt_top_next_sort(t, -1);
	else if (key == '>' || key == '.')
		mt_top_next_sort(t, 1);
	else
		t->is_reversed[t->view] = !t->is_reversed[t->view];
	(void)!mt_top_arrange(t);
}

/* Keys of the process that is open. */
static void view_key(struct mt_top_ui *ui, unsigned key)
{
	enum mt_top_view view = ui->t->view;

	if (view == MT_TOP_PROCESSES)
		return;
	if (key >= '1' && key <= '4')
		show(ui, (enum mt_top_view)(MT_TOP_SITES + key - '1'));
	else if (key == '\t')
		show(ui, view + 1 == MT_TOP_VIEWS ? MT_TOP_SITES : view + 1);
	else
		show(ui, MT_TOP_PROCESSES);
}

/* true: the program ends. */
static bool plain_key(struct mt_top_ui *ui, unsigned key)
{
	struct mt_top *t = ui->t;

	switch (key) {
	case 'q':
	case MT_TOP_KEY_GONE:
		return true;
	case '?':
	case 'h':
		ui->shows_help = true;
		return false;
	case ' ':
		t->is_paused = !t->is_paused;
		return false;
	case '/':
		start_prompt(ui, PROMPT_FILTER);
		return false;
	case 'e':
		start_prompt(ui, PROMPT_EXPORT);
		return false;
	case 'm':
		start_prompt(ui, PROMPT_CONTROL);
		return false;
	case 'o':
		toggle(ui);
		return false;
	case 'n':
		control(ui, "snapshot");
		return false;
	case '<':
	case '>':
	case ',':
	case '.':
	case 'r':
		sort_key(ui, key);
		return false;
	case MT_TOP_KEY_ENTER:
	case MT_TOP_KEY_RIGHT:
		if (t->view == MT_TOP_PROCESSES) {
			open_process(ui);
			show(ui, t->view);
		}
		return false;
	case '1':
	case '2':
	case '3':
	case '4':
	case '\t':
	case MT_TOP_KEY_ESCAPE:
	case MT_TOP_KEY_LEFT:
	case MT_TOP_KEY_BACKSPACE:
		view_key(ui, key);
		return false;
	default:
		move_cursor(ui, key);
		return false;
	}
}

bool mt_top_ui_keys(struct mt_top_ui *ui)
{
	unsigned key;

	while ((key = mt_top_screen_key()) != MT_TOP_KEY_NONE) {
		if (ui->shows_help) {
			ui->shows_help = false;
			continue;
		}
		ui->t->message[0] = 0;
		if (ui->prompt)
			key_in_prompt(ui, key);
		else if (plain_key(ui, key))
			return true;
	}
	return false;
}

void mt_top_ui_paint(struct mt_top_ui *ui)
{
	static const char *const label[] = {[PROMPT_FILTER] = "filter: ",
					    [PROMPT_EXPORT] = "export to file: ",
					    [PROMPT_CONTROL] = "change (as memtrack ctl): "};
	mt_auto(mt_buf) struct mt_buf prompt = {0};

	if (ui->shows_help) {
		mt_top_screen_paint_help(help);
		return;
	}
	if (ui->prompt) {
		mt_buf_adds(&prompt, label[ui->prompt]);
		mt_escape(&prompt, ui->typed);
	}
	mt_top_screen_paint(ui->t, ui->prompt ? mt_buf_text(&prompt) : NULL);
}
