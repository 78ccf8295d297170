/* SPDX-License-Identifier: MIT */
/*
 * Who decides whether a process is tracked:
 *
 *   a wish in the environment (MEMTRACK_MODE, MEMTRACK_OPTIONS, LIBC_DEBUG_MALLOC_OPTIONS, the
 *   launcher's variables)       that wish
 *   LD_PRELOAD names us         the configuration file; without one, the defaults
 *   /etc/ld.so.preload does     the configuration file; without one, nobody is tracked
 *   the program is linked       the defaults
 *   more rights than its caller (set-uid and the like): only the file, whose owner is root, in a
 *                               section that says so
 *
 * Any doubt means off, in silence: the file cannot be read, others may write to it, the program's
 * section has a mistake.
 */
#include "runtime/programs.h"

#include <linux/fcntl.h>

#include "core/fmt.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/instances.h"
#include "wire/check_options.h"
#include "wire/programs.h"

#ifndef MT_BUILD_WRAP

#define LOADER_LIST "/etc/ld.so.preload"

enum { LOADER_LIST_MAX = 4096, LINES_MAX = 6, WRITABLE_BY_OTHERS = 022, TAG_SEED = 0x656e };
enum { TYPE_MASK = 0170000, TYPE_REGULAR = 0100000 };

/* Our dynamic section: how the loader's list names us. */
extern const Elf64_Dyn _DYNAMIC[] MT_HIDDEN;

static struct {
	char file[MT_PROGRAMS_FILE_MAX]; /* its pages are touched as far as the text goes */
	const char *path;
	char words[MT_PROGRAMS_VALUE_MAX + 32];
	char check[MT_PROGRAMS_VALUE_MAX + 32];
	char *envp[LINES_MAX + 1];
	uint32_t line, limit, problems, tag;
} programs;

static int has_wish(char **envp)
{
	static const char *const names[] = {"MEMTRACK_MODE", "MEMTRACK_OPTIONS", MT_CHECK_VARIABLE,
					    "MEMTRACK_STATE_DIR", "MEMTRACK_LAUNCHER"};
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++) {
		const char *value = mt_loader_env(envp, names[i]);
		if (value && *value)
			return 1;
	}
	return 0;
}

/* --- how we came into this process --- */

static int ends_entry(char c)
{
	return !c || c == ' ' || c == ':' || c == '\t' || c == '\n' || c == '\r';
}

/* Does a list of libraries have one with this file name? comments: '#' begins one. */
static int has_library(const char *list, struct mt_program_text base, int comments)
{
	while (*list) {
		size_t n = 0, start = 0;
		if (comments && *list == '#') {
			while (*list && *list != '\n')
				list++;
			continue;
		}
		while (!ends_entry(list[n]) && !(comments && list[n] == '#')) {
			if (list[n] == '/')
				start = n + 1;
			n++;
		}
		if (n - start == base.len && base.len &&
		    mt_mem_equal(list + start, base.at, base.len))
			return 1;
		list += n;
		list += *list && *list != '#';
	}
	return 0;
}

/*
 * The text of a file, NUL-terminated: its length, or a negative errno value. most: where it ended a
 * moment ago, or more.
 */
static long read_all(int fd, char *buf, size_t bytes, size_t most)
{
	size_t len = 0;
	while (len < bytes && len < most) {
		long n = mt_sys_read(fd, buf + len, bytes - len);
		if (n == -MT_EINTR)
			continue;
		if (n < 0)
			return n;
		if (!n)
			break;
		len += (size_t)n;
	}
	if (len == bytes)
		return -MT_EFBIG;
	buf[len] = 0;
	return (long)len;
}

enum way { WAY_PRELOAD, WAY_SYSTEM, WAY_LINKED };

static enum way way_here(char **envp)
{
	const char *preload = mt_loader_env(envp, "LD_PRELOAD");
	const char *own = mt_loader_name(_DYNAMIC);
	struct mt_program_text base = mt_program_base(own ? own : "");
	char list[LOADER_LIST_MAX];
	if (preload && has_library(preload, base, 0))
		return WAY_PRELOAD;
	long fd = mt_sys_open(LOADER_LIST, MT_O_RDONLY | MT_O_CLOEXEC | O_NONBLOCK, 0);
	if (fd == -MT_ENOENT)
		return WAY_LINKED;
	if (fd < 0)
		return WAY_SYSTEM;
	long n = read_all((int)fd, list, sizeof(list), sizeof(list));
	mt_sys_close((int)fd);
	return n < 0 || !base.len || has_library(list, base, 1) ? WAY_SYSTEM : WAY_LINKED;
}

/* --- the file --- */

/*
 * The length of a plain file that only root (or `owner`) may change; else a negative errno value.
 */
static long trusted_bytes(int fd, uint32_t owner)
{
	struct statx s;
	long err = mt_sys6(__NR_statx, fd, (long)"", AT_EMPTY_PATH,
			   STATX_TYPE | STATX_MODE | STATX_UID | STATX_SIZE, (long)&s, 0);
	if (err < 0)
		return err;
	if ((s.stx_mode & TYPE_MASK) != TYPE_REGULAR || (s.stx_mode & WRITABLE_BY_OTHERS) ||
	    (s.stx_uid && s.stx_uid != owner))
		return -MT_EPERM;
	return s.stx_size >= sizeof(programs.file) ? -MT_EFBIG : (long)s.stx_size;
}

/* Reads programs.path: the length, or a negative errno value. A symbolic link is not followed. */
static long read_file(uint32_t owner)
{
	long fd = mt_sys_open(programs.path,
			      MT_O_RDONLY | MT_O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd;
	long n = trusted_bytes((int)fd, owner);
	if (n >= 0)
		n = read_all((int)fd, programs.file, sizeof(programs.file), (size_t)n);
	mt_sys_close((int)fd);
	return n;
}

static void complain(long err, char *error, size_t bytes)
{
	struct mt_fmt f;
	mt_fmt_init(&f, error, bytes);
	mt_fmt_str(&f, "memtrack: cannot use the file that MEMTRACK_CONFIG names");
	mt_fmt_str(&f, err == -MT_EPERM    ? ": it is no plain file, or others may change it"
		       : err == -MT_ENOENT ? ": there is none"
					   : "");
	mt_fmt_str(&f, ": nothing is tracked\n");
}

/* --- this process --- */

/*
 * Names by which it may be known: the path that was executed, the file behind it (an interpreter,
 * the target of a link), and what the caller says, whom a program with more rights does not
 * believe.
 */
static void know_process(const struct mt_start_block *block, int secure, char *exe, size_t bytes,
			 struct mt_program_process *process)
{
	const char *executed = (const char *)mt_loader_auxv(block->auxv, AT_EXECFN);
	long n = mt_sys_readlink("/proc/self/exe", exe, bytes - 1);
	exe[n > 0 ? n : 0] = 0;
	mt_mem_zero(process, sizeof(*process));
	process->name[0] = mt_program_base(exe);
	if (!secure) {
		process->name[1] = mt_program_base(executed ? executed : "");
		process->name[2] = mt_program_base(block->argc > 0 ? block->argv[0] : "");
	}
	process->user = (uint32_t)mt_loader_auxv(block->auxv, AT_UID);
	process->is_secure = (uint8_t)secure;
}

static void set_line(char *buf, size_t bytes, const char *name, struct mt_program_text value)
{
	struct mt_fmt f;
	mt_fmt_init(&f, buf, bytes);
	mt_fmt_str(&f, name);
	mt_mem_copy(f.at, value.at, value.len); /* VALUE_MAX and the name fit */
	f.at[value.len] = 0;
}

/* A line of the environment as it is, or NULL. */
static char *line_of(char **envp, const char *name)
{
	const char *value = mt_loader_env(envp, name);
	return value ? (char *)value - mt_str_len(name) - 1 : NULL;
}

static void make_environment(const struct mt_program *section, char **envp, int secure)
{
	static const char *const names[] = {"MEMTRACK_DIR", "TMPDIR", "MEMTRACK_LOG",
					    "MEMTRACK_LOG_PREFIX"};
	uint32_t n = 0;
	if (section->options.len) {
		set_line(programs.words, sizeof(programs.words),
			 "MEMTRACK_OPTIONS=", section->options);
		programs.envp[n++] = programs.words;
	}
	if (section->check.len) {
		set_line(programs.check, sizeof(programs.check), MT_CHECK_VARIABLE "=",
			 section->check);
		programs.envp[n++] = programs.check;
	}
	for (size_t i = 0; !secure && i < MT_ARRAY_LEN(names); i++) {
		char *line = line_of(envp, names[i]);
		if (line)
			programs.envp[n++] = line;
	}
	programs.envp[n] = NULL;
}

static void say_nothing(void *context, const char *line)
{
}

/* Check mode would print what is wrong with its options. */
static int has_good_check(void)
{
	static struct mt_check_options options; /* too large for small stacks */
	const struct mt_check_listener listener = {"", "", say_nothing, NULL};
	const char *value = mt_loader_env(programs.envp, MT_CHECK_VARIABLE);
	return !value || !mt_check_options_read(value, &listener, &options);
}

static enum mt_programs_say look_up(long len, const struct mt_start_block *block, int secure)
{
	char exe[MT_PATH_MAX];
	struct mt_program_process process;
	struct mt_program section;
	know_process(block, secure, exe, sizeof(exe), &process);
	if (mt_programs_find((struct mt_program_text){programs.file, (size_t)len}, &process,
			     &section, &programs.problems) != MT_PROGRAM_TRACKED)
		return MT_PROGRAMS_OFF;
	programs.line = section.line;
	programs.limit = section.limit;
	programs.tag = (uint32_t)mt_hash_bytes(section.name.at, section.name.len, TAG_SEED);
	if (programs.limit && mt_instances_count(programs.tag, 0) >= programs.limit)
		return MT_PROGRAMS_OFF;
	make_environment(&section, block->envp, secure);
	return has_good_check() ? MT_PROGRAMS_LISTED : MT_PROGRAMS_OFF;
}

enum mt_programs_say mt_programs_ask(const struct mt_start_block *block, char *error, size_t bytes)
{
	int secure = mt_loader_is_secure(block->auxv);
	enum way way = WAY_SYSTEM;
	const char *asked = NULL;
	*error = 0;
	if (!secure) {
		if (has_wish(block->envp))
			return MT_PROGRAMS_ENVIRONMENT;
		way = way_here(block->envp);
		if (way == WAY_LINKED)
			return MT_PROGRAMS_ENVIRONMENT;
		asked = mt_loader_env(block->envp, "MEMTRACK_CONFIG");
	}
	programs.path = asked && *asked ? asked : MT_PROGRAMS_PATH;
	long len = read_file(asked && *asked ? (uint32_t)mt_loader_auxv(block->auxv, AT_EUID) : 0);
	if (len == -MT_ENOENT && way == WAY_PRELOAD && !(asked && *asked))
		return MT_PROGRAMS_ENVIRONMENT;
	if (len < 0 && asked && *asked)
		complain(len, error, bytes);
	return len < 0 ? MT_PROGRAMS_OFF : look_up(len, block, secure);
}

char **mt_programs_envp(void)
{
	return programs.envp;
}

void mt_programs_finish(struct mt_options *options)
{
	size_t len = mt_str_len(options->text);
	struct mt_fmt f;
	options->instance_limit = programs.limit;
	options->instance_tag = programs.tag;
	mt_fmt_init(&f, options->text + len, sizeof(options->text) - len);
	mt_fmt_str(&f, " config=");
	mt_fmt_str(&f, programs.path);
	mt_fmt_str(&f, ":");
	mt_fmt_u64(&f, programs.line);
	if (programs.problems) {
		mt_fmt_str(&f, " config-problems=");
		mt_fmt_u64(&f, programs.problems);
	}
}
#endif
