/* SPDX-License-Identifier: MIT */
/*
 * memtrack enable: names a program in the configuration file, and puts the library where programs
 * find it. Everything is checked before anything is written; the loader's list, which every program
 * of the machine depends on, is tried before and after, and taken back if anything is wrong.
 */

#include "cli/commands.h"
#include "cli/enable.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/path.h"
#include "core/cc.h"
#include "record/elf_look.h"
#include "record/launch.h"
#include "record/preload_list.h"
#include "record/programs_edit.h"
#include "record/trial.h"
#include "record/unit_file.h"
#include "wire/check_options.h"
#include "wire/words.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MODE_NONE = -1 }; /* else as in mode_words */
static const char *const mode_words[] = {"full", "sample", "stats", "record"};
enum { NO_LIMIT_GIVEN = MT_PROGRAMS_LIMIT_MAX + 1 };

struct enable_options {
	const char *check, *words, *user, *unit, *config, *root, *library;
	int mode;
	uint64_t limit;
	bool all, secure, system_wide, list, force;
};

static const struct enable_options defaults = {.mode = MODE_NONE, .limit = NO_LIMIT_GIVEN};

#define AT(member) offsetof(struct enable_options, member)

static const struct mt_option options[] = {
	{.name = "check",
	 .argument = "OPTIONS",
	 .if_bare = MT_CHECK_USUAL,
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(check),
	 .help = "check mode with these options (default " MT_CHECK_USUAL ")"},
	{.name = "mode",
	 .argument = "MODE",
	 .kind = MT_OPTION_CHOICE,
	 .offset = AT(mode),
	 .choices = "full|sample|stats|record",
	 .help = "how it is tracked: full (default), sample, stats or record, as 'memtrack run' "
		 "does"},
	{.name = "options",
	 .argument = "WORDS",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(words),
	 .help = "more words of MEMTRACK_OPTIONS, separated by blanks, see "
		 "memtrack-environment(7)"},
	{.name = "user",
	 .argument = "USER",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(user),
	 .help = "only processes that this user starts (name or number)"},
	{.name = "limit",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = AT(limit),
	 .max = MT_PROGRAMS_LIMIT_MAX,
	 .help = "track at most N processes of a user at once; 0: no bound (default)"},
	{.name = "secure",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(secure),
	 .help = "also when the program has more rights than its caller (set-uid and the like)"},
	{.name = "all",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(all),
	 .help = "all programs, but those that an earlier section is about"},
	{.name = "unit",
	 .argument = "NAME",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(unit),
	 .help = "load the tracker into a systemd service by a drop-in; without PROGRAM into all "
		 "of its processes, with these options"},
	{.name = "system-wide",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(system_wide),
	 .help = "load the tracker into every program of the machine: into /etc/ld.so.preload, "
		 "after a trial"},
	{.name = "list",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(list),
	 .help = "show what is enabled"},
	{.name = "config",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(config),
	 .help = "change FILE instead of " MT_PROGRAMS_PATH
		 "; the tracker reads it where MEMTRACK_CONFIG names it"},
	{.name = "root",
	 .argument = "DIR",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(root),
	 .help = "change the files below DIR (an image of a system) instead of this machine's"},
	{.name = "library",
	 .argument = "PATH",
	 .kind = MT_OPTION_TEXT,
	 .offset = AT(library),
	 .help = "the library to be loaded (default: the one that belongs to this command)"},
	{.name = "force",
	 .kind = MT_OPTION_FLAG,
	 .offset = AT(force),
	 .help = "load the library also where 32-bit programs, or services that do not see its "
		 "folder, would complain about it"},
	{0},
};

/* All that is prepared before anything is written. */
struct enable {
	const struct enable_options *o;
	struct mt_enable_place place;
	const char *program; /* NULL: none */
	uint32_t user;
	struct mt_buf words;  /* of MEMTRACK_OPTIONS, with the mode */
	char *library;        /* as it is named in files; NULL: not needed */
	char *library_here;   /* the same, as we find it */
	char *unit, *drop_in; /* NULL: none */
};

static void enable_done(struct enable *e)
{
	mt_enable_place_done(&e->place);
	mt_buf_done(&e->words);
	free(e->library);
	free(e->library_here);
	free(e->unit);
	free(e->drop_in);
}

static int usage(const char *sentence)
{
	mt_complain("enable: %s; see 'memtrack enable --help'", sentence);
	return MT_EXIT_USAGE;
}

static int failed(const struct mt_err *err)
{
	mt_complain("%s", err->text);
	return MT_EXIT_FAILED;
}

/* ---- what is asked for ---- */

static bool has_options(const struct enable_options *o)
{
	return o->check || o->mode != MODE_NONE || o->words;
}

static int check_combination(const struct enable_options *o, int operands)
{
	bool has_program = operands || o->all;

	if (o->list && (has_program || has_options(o) || o->unit || o->system_wide || o->user))
		return usage("--list shows what there is, and changes nothing");
	if (o->list)
		return 0;
	if (operands && o->all)
		return usage("either a program or --all");
	if (!has_program && !o->unit && !o->system_wide)
		return usage("name a program, --all, --unit=NAME or --system-wide");
	if (!has_program && (o->user || o->secure || o->limit != NO_LIMIT_GIVEN))
		return usage("--user, --limit and --secure belong to a program");
	if (!has_program && !o->unit && has_options(o))
		return usage("--check, --mode and --options belong to a program or a unit");
	if (o->check && o->mode != MODE_NONE)
		return usage("--check is a mode of its own: leave --mode out");
	if (o->config && o->config[0] != '/')
		return usage("--config takes an absolute path");
	return 0;
}

static void keep_line(void *context, const char *line)
{
	struct mt_buf *first = context;

	if (!first->len)
		mt_buf_adds(first, line);
}

/* With the parsers of the tracker itself. 0 or an exit status. */
/* Whether one of the words is for sampling or recording alone; copies it. */
static bool has_other_modes_word(const char *words, char *word, size_t bytes)
{
	static const char *const names[] = {
		"mode",     "interval",      "intervals",     "every",    "max-cpu",
		"min-anon", "guard-sampled", "guard-side",    "on-error", "record-limit",
		"on-full",  "record-keep",   "record-buffers"};

	for (size_t len; *(words += strspn(words, " \t\n")); words += len) {
		size_t name = strcspn(words, " \t\n=");

		len = strcspn(words, " \t\n");
		for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
			if (strlen(names[i]) == name && !strncmp(names[i], words, name)) {
				snprintf(word, bytes, "%.*s", (int)len, words);
				return true;
			}
	}
	return false;
}

static int check_options(struct enable *e)
{
	const struct enable_options *o = e->o;
	mt_auto(mt_buf) struct mt_buf line = {0};
	struct mt_check_listener listener = {.program = "--check",
					     .range_text = "number out of range",
					     .say = keep_line,
					     .context = &line};
	struct mt_check_options parsed;
	char word[128];

	if (o->mode != MODE_NONE)
		mt_buf_printf(&e->words, "mode=%s", mode_words[o->mode]);
	if (o->words)
		mt_buf_printf(&e->words, "%s%s", e->words.len ? " " : "", o->words);
	if (e->words.failed) {
		mt_complain("cannot allocate memory");
		return MT_EXIT_FAILED;
	}
	if (mt_words_check(mt_buf_text(&e->words), word, sizeof(word))) {
		mt_complain("enable: the tracker does not understand '%s'; see "
			    "memtrack-environment(7)",
			    word);
		return MT_EXIT_USAGE;
	}
	if (o->check && has_other_modes_word(mt_buf_text(&e->words), word, sizeof(word))) {
		mt_complain("enable: '%s' means nothing in check mode; see "
			    "memtrack-environment(7)",
			    word);
		return MT_EXIT_USAGE;
	}
	if (o->check && mt_check_options_read(o->check, &listener, &parsed)) {
		mt_complain("enable: %s", mt_buf_text(&line));
		return MT_EXIT_USAGE;
	}
	return 0;
}

/* ---- the library ---- */

/* The folder without links, and the name as it is: "libmemtrack.so" outlives an update. */
static char *plain_path(const char *path)
{
	mt_auto(free) char *folder = mt_path_dir(path);
	mt_auto(free) char *real = folder ? realpath(folder, NULL) : NULL;

	return real ? mt_path_join(real, mt_path_base(path)) : NULL;
}

static int find_library(struct enable *e, struct mt_err *err)
{
	const char *asked = e->o->library;
	mt_auto(free) char *found = NULL;

	if (!e->place.is_here) {
		e->library = strdup(asked ? asked : MT_LIBDIR "/" MT_ENABLE_LIBRARY);
		if (!e->library ||
		    asprintf(&e->library_here, "%s%s", e->place.root, e->library) < 0) {
			e->library_here = NULL;
			return mt_err_no_memory(err);
		}
	} else {
		found = asked ? strdup(asked) : mt_launch_find_library(MT_LIBDIR, err);
		if (!found)
			return err->code ? err->code : mt_err_no_memory(err);
		e->library = plain_path(found);
		e->library_here = e->library ? strdup(e->library) : NULL;
		if (!e->library_here)
			return mt_err_set(err, -ENOENT, "cannot find '%s'", found);
	}
	if (e->library[0] != '/' || strpbrk(e->library, " \t\n:#$"))
		return mt_err_set(err, -EINVAL,
				  "cannot use '%s': the loader needs an absolute path without "
				  "blanks, colons, # and $",
				  e->library);
	if (strcmp(mt_path_base(e->library), MT_ENABLE_LIBRARY) != 0)
		return mt_err_set(err, -EINVAL, "cannot use '%s': its name must be %s", e->library,
				  MT_ENABLE_LIBRARY);
	return 0;
}

/* Folders that systemd and others hide from some services, whose loader would complain. */
static bool is_hidden_from_some(const char *path)
{
	static const char *const folders[] = {"/home", "/root", "/tmp", "/var/tmp", "/run", "/dev"};

	for (size_t i = 0; i < MT_ARRAY_LEN(folders); i++) {
		size_t len = strlen(folders[i]);

		if (!strncmp(path, folders[i], len) && path[len] == '/')
			return true;
	}
	return false;
}

static int check_library(const struct enable *e, struct mt_err *err)
{
#if defined(__x86_64__)
	const uint16_t machine = EM_X86_64;
#else
	const uint16_t machine = EM_AARCH64;
#endif
	struct mt_elf_look look;
	int code = mt_conf_check_safe(e->library_here, !e->place.is_here, err);

	if (!code && is_hidden_from_some(e->library) && !e->o->force)
		code = mt_err_set(err, -EINVAL,
				  "'%s' lies in a folder that some services cannot see, and their "
				  "programs would complain; install it below /usr, or use --force",
				  e->library);
	if (!code)
		code = mt_elf_look(e->library_here, &look, err);
	if (!code &&
	    (look.elf_class != ELFCLASS64 || look.machine != machine || look.type != ET_DYN))
		code = mt_err_set(err, -ENOEXEC, "'%s' is no library for this machine",
				  e->library_here);
	return code;
}

/* A loader of 32-bit programs, which would print a line about the library in each of them. */
static const char *find_small_loader(const struct mt_enable_place *p)
{
	static const char *const loaders[] = {"/lib/ld-linux.so.2", "/lib/ld-linux-armhf.so.3",
					      "/libx32/ld-linux-x32.so.2"};

	for (size_t i = 0; i < MT_ARRAY_LEN(loaders); i++) {
		mt_auto(free) char *path = NULL;

		if (asprintf(&path, "%s%s", p->root, loaders[i]) < 0)
			path = NULL;
		if (path && !access(path, F_OK))
			return loaders[i];
	}
	return NULL;
}

/* ---- trials ---- */

/* Where tracked programs of a trial leave their states. */
static void remove_states(const char *folder)
{
	DIR *dir = opendir(folder);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(folder);
}

/* Programs under the library: left alone, and tracked with these options. */
static int try_library(const struct enable *e, const char *others, struct mt_err *err)
{
	mt_auto(mt_buf) struct mt_buf preload = {0}, words = {0}, check = {0}, states = {0};
	char folder[] = "/tmp/memtrack-trial-XXXXXX";
	char *off[] = {"PATH=/usr/bin:/bin", NULL, "MEMTRACK_MODE=off", NULL};
	char *on[] = {"PATH=/usr/bin:/bin", NULL, NULL, NULL, NULL, NULL};
	size_t n = 1;
	int code;

	mt_buf_printf(&preload, "LD_PRELOAD=%s%s%s", e->library_here, *others ? ":" : "", others);
	off[1] = on[n++] = preload.data;
	code = preload.failed ? mt_err_no_memory(err) : mt_trial_run(off, err);
	if (code)
		return code;
	if (!mkdtemp(folder))
		return mt_err_set_errno(err, errno, "cannot make a folder for the trial");
	mt_buf_printf(&states, "MEMTRACK_STATE_DIR=%s", folder);
	mt_buf_printf(&words, "MEMTRACK_OPTIONS=%s", mt_buf_text(&e->words));
	mt_buf_printf(&check, "%s=%s", MT_CHECK_VARIABLE, e->o->check ? e->o->check : "");
	on[n++] = states.data;
	on[n++] = words.data;
	if (e->o->check)
		on[n++] = check.data;
	code = states.failed || words.failed || check.failed ? mt_err_no_memory(err)
							     : mt_trial_run(on, err);
	remove_states(folder);
	return code;
}

/* ---- the loader's list ---- */

/* Puts the old list back. */
static void take_back(const struct enable *e, const struct mt_conf_file *old)
{
	struct mt_err err = {0};
	int code = old->text ? mt_conf_replace(e->place.loader_list, old, old->text, old->len, &err)
			     : mt_conf_remove(e->place.loader_list, &err);

	if (code)
		mt_complain("%s: remove the line of %s from it by hand", err.text,
			    MT_ENABLE_LIBRARY);
}

static int write_list(const struct enable *e, const struct mt_conf_file *old, struct mt_err *err)
{
	char *plain[] = {"PATH=/usr/bin:/bin", NULL};
	mt_auto(mt_buf) struct mt_buf list = {0};
	int code = mt_preload_list_add(old->text ? old->text : "", e->library, &list);

	if (code)
		return mt_err_no_memory(err);
	if (list.len > MT_ENABLE_LIST_MAX)
		return mt_err_set(err, -EINVAL, "'%s' would become too long", e->place.loader_list);
	code = mt_conf_replace(e->place.loader_list, old, list.data, list.len, err);
	if (code || !e->place.is_here)
		return code;
	/* now it is real */
	code = mt_trial_run(plain, err);
	if (code)
		take_back(e, old);
	return code;
}

static int enable_system(const struct enable *e, struct mt_err *err)
{
	mt_auto(mt_conf_file) struct mt_conf_file old = {0};
	mt_auto(mt_buf) struct mt_buf others = {0};
	const char *small = find_small_loader(&e->place);
	int code = mt_conf_read(e->place.loader_list, MT_ENABLE_LIST_MAX, &old, err);

	if (code)
		return code;
	if (old.text && mt_preload_list_has(old.text, e->library)) {
		printf("'%s' names '%s' already\n", e->place.loader_list, e->library);
		return 0;
	}
	if (small && !e->o->force)
		return mt_err_set(err, -ENOEXEC,
				  "this system has 32-bit programs ('%s'), and each of them would "
				  "print a line about the library; --force does it all the same",
				  small);
	/* an image's other libraries are not ours to load */
	if (old.text && e->place.is_here && mt_preload_list_join(old.text, &others))
		return mt_err_no_memory(err);
	code = try_library(e, mt_buf_text(&others), err);
	if (!code)
		code = write_list(e, &old, err);
	if (!code)
		printf("'%s' names '%s' now: every program that is started from here on loads it\n",
		       e->place.loader_list, e->library);
	return code;
}

/* ---- the unit ---- */

static int write_unit(const struct enable *e, struct mt_err *err)
{
	mt_auto(mt_buf) struct mt_buf text = {0}, preload = {0}, others = {0};
	mt_auto(mt_conf_file) struct mt_conf_file old = {0};
	mt_auto(free) char *folder = mt_path_dir(e->drop_in);
	int code;

	if (mt_unit_preload(e->place.root, e->unit, &others) || !folder)
		return mt_err_no_memory(err);
	mt_buf_printf(&preload, "%s%s%s", e->library, others.len ? ":" : "", mt_buf_text(&others));
	mt_buf_adds(&text, "# written by 'memtrack enable', removed by 'memtrack disable'\n"
			   "[Service]\n");
	mt_unit_add_variable(&text, "LD_PRELOAD", mt_buf_text(&preload));
	if (e->program && e->o->config)
		mt_unit_add_variable(&text, "MEMTRACK_CONFIG", e->o->config);
	if (!e->program && (e->words.len || !e->o->check))
		mt_unit_add_variable(&text, "MEMTRACK_OPTIONS",
				     e->words.len ? mt_buf_text(&e->words) : "mode=full");
	if (!e->program && e->o->check)
		mt_unit_add_variable(&text, MT_CHECK_VARIABLE, e->o->check);
	if (text.failed || preload.failed)
		return mt_err_no_memory(err);
	code = mt_path_make_dirs(folder, 0755, err);
	if (!code)
		code = mt_conf_read(e->drop_in, 65536, &old, err);
	if (!code)
		code = mt_conf_replace(e->drop_in, &old, text.data, text.len, err);
	if (!code)
		printf("wrote '%s'; to make it count: systemctl daemon-reload && systemctl restart "
		       "%s\n",
		       e->drop_in, e->unit);
	return code;
}

/* ---- the program ---- */

static int write_program(const struct enable *e, struct mt_conf_file *file, struct mt_err *err)
{
	const struct enable_options *o = e->o;
	struct mt_programs_wish wish = {
		.name = e->program,
		.has_user = o->user != NULL,
		.user = e->user,
		.check = o->check,
		.options = e->words.len ? mt_buf_text(&e->words) : NULL,
		.has_limit = o->limit != NO_LIMIT_GIVEN,
		.limit = (uint32_t)o->limit,
		.is_secure = o->secure,
	};
	mt_auto(mt_buf) struct mt_buf text = {0};
	int code;

	if (file->text && (file->mode & 022))
		return mt_err_set(err, -EPERM,
				  "others may write to '%s', so the tracker does not read it: "
				  "'chmod go-w' it first",
				  e->place.config);
	code = mt_programs_enable(mt_enable_text(file), &wish, &text, err);
	if (!code)
		code = mt_conf_replace(e->place.config, file, text.data, text.len, err);
	if (!code)
		printf("'%s' names '%s' now\n", e->place.config, e->program);
	return code;
}

/* A name in a file is of no use where nobody reads it. */
static void tell_loading(const struct enable *e)
{
	mt_auto(free) char *library = mt_enable_system_library(&e->place);

	if (!e->program || e->unit)
		return;
	if (library) {
		if (e->o->config)
			printf("the tracker reads '%s' only where MEMTRACK_CONFIG=%s is in a "
			       "program's environment\n",
			       e->o->config, e->o->config);
		return;
	}
	printf("nothing loads the tracker yet: start the program with LD_PRELOAD=%s%s%s in its "
	       "environment, or see --unit and --system-wide\n",
	       e->library ? e->library : MT_ENABLE_LIBRARY,
	       e->o->config ? " and MEMTRACK_CONFIG=" : "", e->o->config ? e->o->config : "");
}

/* ---- all of it ---- */

static int prepare(struct enable *e, struct mt_err *err)
{
	const struct enable_options *o = e->o;
	bool needs_library = o->unit || o->system_wide;
	int code = 0;

	if (o->user)
		code = mt_enable_user(&e->place, o->user, &e->user, err);
	if (!code && o->unit) {
		e->unit = mt_unit_name(o->unit, err);
		code = e->unit ? 0 : err->code;
		e->drop_in = e->unit ? mt_unit_drop_in(e->place.root, e->unit) : NULL;
		if (!code && !e->drop_in)
			code = mt_err_no_memory(err);
	}
	if (!code && (needs_library || o->library)) {
		code = find_library(e, err);
		if (!code)
			code = check_library(e, err);
	} else if (!code) {
		struct mt_err ignored = {0}; /* only to be named in a message */

		(void)!find_library(e, &ignored);
	}
	return code;
}

static int write_all(struct enable *e, struct mt_err *err)
{
	mt_auto(mt_conf_lock) struct mt_conf_lock lock = {.fd = -1};
	mt_auto(mt_conf_file) struct mt_conf_file file = {0};
	int code = mt_enable_open(&e->place, &lock, &file, err);

	if (!code && e->program)
		code = write_program(e, &file, err);
	if (!code && e->unit)
		code = write_unit(e, err);
	if (!code && e->o->system_wide)
		code = enable_system(e, err);
	return code;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	struct enable e __attribute__((cleanup(enable_done))) = {.o = opaque};
	struct mt_err err = {0};
	int code = check_combination(e.o, operands->count);

	if (!code)
		code = mt_enable_place_init(&e.place, e.o->root, e.o->config);
	if (code)
		return code;
	if (e.o->list)
		return mt_enable_list(&e.place);
	e.program = operands->count ? operands->text[0] : e.o->all ? "*" : NULL;
	code = check_options(&e);
	if (code)
		return code;
	if (prepare(&e, &err) || write_all(&e, &err))
		return failed(&err);
	tell_loading(&e);
	return MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack enable nginx --check --user=www-data --limit=2",
	"names nginx: up to two processes that www-data starts are checked for memory errors",
	"memtrack enable --system-wide",
	"loads the tracker into every program from now on; only those that are named are tracked",
	"memtrack enable --unit=nginx --mode=sample",
	"samples all processes of a systemd service, after its next restart",
	"memtrack enable --list",
	"shows what is named, and what is wrong with it",
	NULL,
};

const struct mt_command mt_cmd_enable = {
	.name = "enable",
	.summary = "track a program by its name wherever it is started",
	.operands = "[PROGRAM]",
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct enable_options),
	.defaults = &defaults,
	.description =
		"Names PROGRAM in " MT_PROGRAMS_PATH " (memtrack.conf(5)): the file name of an "
		"executable or a script, or a pattern with * and ?. A process of this name is "
		"tracked from its start wherever the library is loaded: by LD_PRELOAD in its "
		"environment, by a systemd drop-in (--unit), or in all programs of the machine "
		"(--system-wide). Other programs are left alone by the library, which then costs "
		"each of them some 90 system calls at its start, and nothing but a jump in each "
		"allocation.\n\n"
		"A program that is named already keeps what is not given again: 'memtrack enable "
		"PROGRAM' alone enables it as it was. Options are understood, or refused, by the "
		"tracker's own parsers; the file is replaced as a whole, and comments stay.\n\n"
		"Where states go, and how to look at them: 'memtrack ps'.\n\n"
		"--system-wide changes /etc/ld.so.preload, on which every program depends. The "
		"library must belong to root, in folders that only root can change. Small "
		"programs must run under it as they do without, tracked and untracked, before "
		"the file is written and after; else it is put back. Set-uid programs load it, "
		"too, and are left alone unless --secure was given for them. Programs that run "
		"already, static ones, and those of another C library or machine are not "
		"concerned. 'memtrack disable --system-wide' ends it.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-disable(1), memtrack-ps(1), memtrack.conf(5), "
		    "memtrack-environment(7), ld.so(8)",
	.run = run,
};
