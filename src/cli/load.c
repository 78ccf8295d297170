/* SPDX-License-Identifier: MIT */
/* Reading, naming and suppressing for all commands that report. */

#include "cli/load.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/units.h"
#include "cli/find.h"
#include "cli/look.h"
#include "core/cc.h"
#include "formats/heapdump_read.h"
#include "formats/mtk_read.h"
#include "formats/mts_read.h"
#include "record/recording.h"
#include "wire/state.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile int stop;

static void on_interrupt(int sig)
{
	stop = 1;
}

const volatile int *mt_load_stop(void)
{
	return &stop;
}

void mt_load_catch_interrupt(void)
{
	/* once: a second Ctrl-C ends the command */
	struct sigaction sa = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};

	sigemptyset(&sa.sa_mask);
	sigaction(SIGINT, &sa, NULL);
}

bool mt_load_is_color(FILE *out)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return (!no || !*no) && isatty(fileno(out)) && term && strcmp(term, "dumb");
}

void mt_loaded_done(struct mt_loaded *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->count; i++) {
		mt_symbols_free(l->symbols[i]);
		mt_profile_free((struct mt_profile *)l->profile[i]);
		free(l->path[i]);
		if (l->series)
			mt_series_free(l->series[i]);
	}
	free(l->path);
	free(l->series);
	free(l->profile);
	free(l->symbols);
	*l = (struct mt_loaded){0};
}

int mt_loaded_take(struct mt_loaded *l, struct mt_profile *p)
{
	const struct mt_profile **profile;
	struct mt_symbols **symbols;
	char **path;

	profile = mt_alloc_grow(l->profile, &l->profile_capacity, l->count + 1, sizeof(*profile));
	if (profile)
		l->profile = profile;
	symbols = mt_alloc_grow(l->symbols, &l->symbols_capacity, l->count + 1, sizeof(*symbols));
	if (symbols)
		l->symbols = symbols;
	path = mt_alloc_grow(l->path, &l->path_capacity, l->count + 1, sizeof(*path));
	if (path)
		l->path = path;
	if (!profile || !symbols || !path) {
		mt_profile_free(p);
		return -ENOMEM;
	}
	l->profile[l->count] = p;
	l->path[l->count] = NULL;
	l->symbols[l->count++] = NULL;
	return 0;
}

int mt_load_parse_when(const char *text, struct mt_mtr_when *ret_when, struct mt_err *err)
{
	*ret_when = (struct mt_mtr_when){.kind = MT_MTR_AT_END};
	if (!strcmp(text, "end"))
		return 0;
	ret_when->kind = !strcmp(text, "peak") ? MT_MTR_AT_PEAK : MT_MTR_AT_TIME;
	if (ret_when->kind == MT_MTR_AT_PEAK || !mt_units_parse_time(text, &ret_when->ns))
		return 0;
	return mt_err_set(
		err, -EINVAL,
		"'--at=%s' is neither a time since the start (as 90s or 1m30s), nor peak, "
		"nor end",
		text);
}

static bool is_recording(const char *path)
{
	size_t len = strlen(path);

	return len > 4 && !strcmp(path + len - 4, ".mtr");
}

void mt_recorded_done(struct mt_recorded *r)
{
	if (!r)
		return;
	mt_mtr_close(&r->recording);
	mt_profile_free(r->profile);
	free(r->path);
	*r = (struct mt_recorded){.recording = {.fd = -1}};
}

/* The state file of a recording, or the path itself. Heap; NULL: no memory. */
static char *state_of(const char *path)
{
	char *state = strdup(path);

	if (state && is_recording(path))
		state[strlen(state) - 1] = 'k';
	return state;
}

int mt_recorded_open(struct mt_recorded *r, const char *path, struct mt_err *err)
{
	mt_auto(free) char *state = state_of(path);
	int code;

	r->path = state ? mt_recording_name(state) : NULL;
	if (!r->path)
		return mt_err_no_memory(err);
	code = mt_mtk_read(state, &r->profile, err);
	if (code)
		return code;
	if (access(r->path, F_OK) && r->profile->mode != MT_MODE_RECORD)
		return mt_err_set(err, -ENOENT,
				  "'%s' was not recorded with --mode=record: there is no '%s'",
				  state, r->path);
	if (r->profile->process_alive)
		return mt_err_set(
			err, -EBUSY,
			"the recording of '%s' is complete only when its process has ended", state);
	code = mt_mtr_open(&r->recording, r->path, err);
	if (!code && !mt_mtr_belongs_to(&r->recording, r->profile))
		code = mt_err_set(err, -EINVAL,
				  "the recording '%s' is of another process or program than the "
				  "state file beside it",
				  r->path);
	return code;
}

/* The profile as it was at l->when. */
static int read_past(const struct mt_loaded *l, const char *path, struct mt_profile **ret_p,
		     struct mt_err *err)
{
	mt_auto(mt_recorded) struct mt_recorded r = {.recording = {.fd = -1}};
	int code = mt_recorded_open(&r, path, err);

	if (!code)
		code = mt_mtr_to_profile(&r.recording, r.profile, l->when, err);
	if (code)
		return code;
	*ret_p = r.profile;
	r.profile = NULL;
	return 0;
}

/* An open heap dump, or -1: path is none, or cannot be opened. */
static int open_dump(const struct mt_loaded *l, const char *path)
{
	mt_auto(free) char *head = mt_alloc(MT_HEAPDUMP_LOOK_BYTES);
	bool is_pipe, is_state;
	struct stat st;
	ssize_t len;
	int fd = -1;

	if (head && !stat(path, &st) && !S_ISDIR(st.st_mode))
		fd = open(path,
			  O_RDONLY | O_CLOEXEC | O_NOCTTY | (l->prefers_dumps ? 0 : O_NONBLOCK));
	if (fd < 0)
		return -1;
	is_pipe = l->prefers_dumps && !S_ISREG(st.st_mode);
	len = is_pipe ? 0 : pread(fd, head, MT_HEAPDUMP_LOOK_BYTES, 0);
	is_state = len >= (ssize_t)sizeof(MT_STATE_MAGIC) - 1 &&
		   !memcmp(head, MT_STATE_MAGIC, sizeof(MT_STATE_MAGIC) - 1);
	if (is_pipe ||
	    (len > 0 && !is_state && (l->prefers_dumps || mt_heapdump_is(head, (size_t)len))))
		return fd;
	close(fd);
	return -1;
}

/* What the recording beside a state file lacks is told with the state, too. 0 or -ENOMEM. */
static int add_losses(const char *state, struct mt_profile *p)
{
	mt_auto(mt_recorded) struct mt_recorded r = {.recording = {.fd = -1}};

	r.path = mt_recording_name(state);
	if (!r.path)
		return -ENOMEM;
	if (p->process_alive || access(r.path, F_OK) || mt_mtr_open(&r.recording, r.path, NULL) ||
	    !mt_mtr_belongs_to(&r.recording, p))
		return 0;
	return mt_mtr_warn_beside(&r.recording, p);
}

static int read_state(const struct mt_loaded *l, const char *state, struct mt_profile **ret_p,
		      struct mt_err *err)
{
	int code = l->looks ? mt_look(state, ret_p, err) : mt_mtk_read(state, ret_p, err);

	if (!code && add_losses(state, *ret_p)) {
		mt_profile_free(*ret_p);
		*ret_p = NULL;
		return mt_err_no_memory(err);
	}
	return code;
}

/* The state file at path, or beside the recording at path; or the heap dump at path. */
static int read_profile(const struct mt_loaded *l, const char *path, struct mt_profile **ret_p,
			struct mt_err *err)
{
	mt_auto(free) char *state = state_of(path);
	mt_auto(close) int dump = l->when || is_recording(path) ? -1 : open_dump(l, path);

	if (dump >= 0)
		return mt_heapdump_read_fd(dump, path, ret_p, err);
	if (!state)
		return mt_err_no_memory(err);
	return l->when ? read_past(l, path, ret_p, err) : read_state(l, state, ret_p, err);
}

int mt_loaded_add(struct mt_loaded *l, const char *path, struct mt_err *err)
{
	struct mt_profile *p = NULL;
	int code = read_profile(l, path, &p, err);

	if (code)
		return code;
	if (mt_loaded_take(l, p))
		return mt_err_no_memory(err);
	l->path[l->count - 1] = strdup(path);
	return l->path[l->count - 1] ? 0 : mt_err_no_memory(err);
}

static int add_operand(struct mt_loaded *l, const char *operand, struct mt_err *err)
{
	mt_auto(free) char *path = mt_find_file(operand, err);
	int code = path ? mt_loaded_add(l, path, err) : err->code;

	/* its launcher has just collected it */
	if (path && (code == -ENOENT || code == -ENODATA) && strcmp(path, operand))
		mt_err_set(err, code, "the process of '%s' has just ended or just started",
			   operand);
	return code;
}

int mt_loaded_add_operands(struct mt_loaded *l, const struct mt_operands *operands,
			   struct mt_err *err)
{
	int code = 0;

	for (int i = 0; i < operands->count && !code; i++)
		code = add_operand(l, operands->text[i], err);
	return code;
}

static int add_side(struct mt_loaded *l, const char *operand, struct mt_err *err)
{
	const char *at = strrchr(operand, '@');
	mt_auto(mt_mts_table) struct mt_mts_table table = {0};
	mt_auto(free) char *file = NULL, *series = NULL;
	struct mt_series_point point;
	struct mt_mts_header header;
	struct mt_state_header state;
	bool is_sampled;
	int code;

	if (!at || at == operand || !access(operand, F_OK))
		return add_operand(l, operand, err);
	file = strndup(operand, (size_t)(at - operand));
	code = file ? add_operand(l, file, err) : mt_err_no_memory(err);
	if (code)
		return code;
	series = mt_mts_path(l->path[l->count - 1]);
	code = series ? mt_mts_find(series, at + 1, l->profile[l->count - 1]->duration_ns, &point,
				    &table, &header, err)
		      : mt_err_no_memory(err);
	if (code == -ENOENT && access(series, F_OK))
		return mt_err_set(err, code,
				  "'%s' has no snapshots: there is no file '%s'; 'memtrack run "
				  "--snapshot-every=TIME' takes them",
				  file, series);
	if (!code)
		code = mt_mtk_read_header(l->path[l->count - 1], &state, err);
	if (!code && !mt_mts_is_of(&header, &state))
		code = mt_err_set(err, -EINVAL, "'%s' holds snapshots of another process", series);
	is_sampled = !code && mt_profile_is_sampled(l->profile[l->count - 1]);
	if (is_sampled && !table.knows_samples)
		code = mt_err_set(err, -EINVAL,
				  "this snapshot of a sampled run cannot be compared: an older "
				  "memtrack took it or tracked the program, and it does not tell "
				  "how sure its estimates are; compare two state files, or see "
				  "'memtrack timeline'");
	if (!code && (point.is_counted || (point.is_usable && !is_sampled)))
		code = mt_err_set(err, -EINVAL,
				  "snapshots in statistics mode cannot be compared: they know the "
				  "process as a whole only; 'memtrack timeline' shows them");
	if (!code)
		mt_mts_apply((struct mt_profile *)l->profile[l->count - 1], &point, &table);
	return code;
}

int mt_loaded_add_sides(struct mt_loaded *l, const struct mt_operands *operands, struct mt_err *err)
{
	int code = 0;

	for (int i = 0; i < operands->count && !code; i++)
		code = add_side(l, operands->text[i], err);
	return code;
}

enum { SERIES_COLUMNS = 512 };

static int add_series(struct mt_loaded *l, size_t at, struct mt_err *err)
{
	mt_auto(free) char *path = mt_mts_path(l->path[at]);
	struct mt_mts_header header;
	struct mt_state_header state;
	int code;

	if (!path)
		return mt_err_no_memory(err);
	if (access(path, F_OK))
		return 0;
	code = mt_mts_load(path, SERIES_COLUMNS, &l->series[at], &header, err);
	if (!code)
		code = mt_mtk_read_header(l->path[at], &state, err);
	if (!code && !mt_mts_is_of(&header, &state))
		code = mt_err_set(err, -EINVAL, "'%s' holds snapshots of another process", path);
	return code == -ENODATA ? 0 : code;
}

int mt_loaded_add_series(struct mt_loaded *l, struct mt_err *err)
{
	int code = 0;

	l->series = mt_alloc_zero(l->count + 1, sizeof(*l->series));
	if (!l->series)
		return mt_err_no_memory(err);
	for (size_t i = 0; i < l->count && !code; i++)
		code = l->path[i] ? add_series(l, i, err) : 0;
	return code;
}

enum mt_spark mt_load_spark(FILE *out)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
	const char *value = NULL;

	if (!isatty(fileno(out)))
		return MT_SPARK_NONE;
	for (size_t i = 0; i < MT_ARRAY_LEN(names) && (!value || !*value); i++)
		value = getenv(names[i]);
	return value && (strcasestr(value, "utf-8") || strcasestr(value, "utf8")) ? MT_SPARK_UTF8
										  : MT_SPARK_ASCII;
}

static uint32_t name_frames(void *context, const struct mt_profile *p, uint32_t node,
			    struct mt_name *ret, uint32_t max)
{
	const struct mt_loaded *l = context;
	const struct mt_symbol_frame *frame;
	uint32_t count = 0;
	size_t at = 0;

	while (at < l->count && l->profile[at] != p)
		at++;
	if (at == l->count || !l->symbols[at])
		return 0;
	frame = mt_symbols_node(l->symbols[at], node, &count);
	count = MT_MIN(count, max);
	for (uint32_t i = 0; i < count; i++)
		ret[i] = (struct mt_name){
			.function = frame[i].display ? frame[i].display : frame[i].function,
			.mangled = frame[i].mangled,
			.file = frame[i].file,
			.line = frame[i].line,
			.is_inlined = frame[i].is_inline,
		};
	return count;
}

void mt_loaded_set_symbols(struct mt_loaded *l, size_t at, struct mt_symbols *symbols)
{
	mt_symbols_free(l->symbols[at]);
	l->symbols[at] = symbols;
	l->names = (struct mt_names){.frames = name_frames, .context = l};
}

static bool show_progress(void *context, uint32_t done, uint32_t total)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\rmemtrack: reading symbols, %u of %u modules\033[K", done, total);
	*(bool *)context = true;
	return !stop;
}

/* Libraries are common to the processes of a tree: each sentence is told once. */
static void tell_warnings(const struct mt_loaded *l, enum mt_load_warnings how)
{
	mt_auto(mt_strings) struct mt_strings told = {0};
	uint32_t count = 0, number;

	for (size_t i = 0; i < l->count && how != MT_LOAD_WARN_NONE; i++)
		for (uint32_t k = 0; l->symbols[i] && k < mt_symbols_warnings(l->symbols[i]); k++) {
			const char *text = mt_symbols_warning(l->symbols[i], k);

			if (mt_strings_intern(&told, text, strlen(text), &number) ||
			    number <= count)
				continue;
			count = number;
			if (how == MT_LOAD_WARN_ALL || count <= MT_LOAD_WARNINGS_SHOWN)
				mt_complain("%s", text);
		}
	if (how == MT_LOAD_WARN_SOME && count > MT_LOAD_WARNINGS_SHOWN)
		mt_complain("%" PRIu32 " more files without symbols (-v lists them)",
			    count - MT_LOAD_WARNINGS_SHOWN);
}

static void tell_no_server(const struct mt_load_symbols *o)
{
	const char *urls = getenv("DEBUGINFOD_URLS");

	if (o->debuginfod && o->warnings != MT_LOAD_WARN_NONE && (!urls || !*urls))
		mt_complain("--debuginfod has no effect: $DEBUGINFOD_URLS names no server");
}

int mt_loaded_symbolize(struct mt_loaded *l, const struct mt_load_symbols *o, struct mt_err *err)
{
	bool has_shown = false;
	struct mt_symbolize_options options = {
		.files = {.dirs = o->dirs->text,
			  .dir_count = o->dirs->count,
			  .debuginfod = o->debuginfod},
		.no_cache = o->no_cache,
		.progress = show_progress,
		.progress_context = &has_shown,
	};
	int code = 0;

	tell_no_server(o);
	for (size_t i = 0; i < l->count && !code && !stop; i++)
		code = mt_symbolize_profile(l->profile[i], &options, &l->symbols[i], err);
	if (has_shown && isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	tell_warnings(l, o->warnings);
	l->names = (struct mt_names){.frames = name_frames, .context = l};
	return code;
}

/* Buffers of stdio and the emergency pool of libstdc++: kept until the end by design. */
static const char default_suppressions[] = "leak:_IO_file_doallocate\n"
					   "{\n"
					   "   libstdc++ emergency exception pool\n"
					   "   Memcheck:Leak\n"
					   "   fun:malloc\n"
					   "   obj:*libstdc++.so*\n"
					   "   obj:*/ld-*\n"
					   "   ...\n"
					   "}\n";

struct mt_suppressions *mt_load_suppressions(const struct mt_text_list *files, bool no_defaults,
					     struct mt_err *err)
{
	struct mt_suppressions *s = mt_suppressions_new();
	int code = s ? 0 : mt_err_no_memory(err);

	if (!code && !no_defaults)
		code = mt_suppressions_read(s, "built-in", default_suppressions,
					    strlen(default_suppressions), err);
	for (uint32_t i = 0; i < files->count && !code; i++)
		code = mt_suppressions_read_file(s, files->text[i], err);
	if (!code && mt_suppressions_skipped(s))
		mt_complain("%" PRIu32 " suppressions are of other tools or kinds than "
			    "Memcheck's Leak, Addr and Free and not used",
			    mt_suppressions_skipped(s));
	if (code) {
		mt_suppressions_free(s);
		return NULL;
	}
	return s;
}

bool mt_load_is_suppressed(void *context, const struct mt_profile *p, uint32_t site)
{
	struct mt_suppress_context *c = context;
	uint32_t rule = 0;

	return !mt_suppressions_match_site(c->suppressions, p, site, c->names, &rule) && rule;
}

bool mt_load_is_error_suppressed(void *context, const struct mt_profile *p,
				 const struct mt_profile_error *e)
{
	struct mt_suppress_context *c = context;
	uint32_t rule = 0;

	return !mt_suppressions_match_error(c->suppressions, p, e, c->names, &rule) && rule;
}
