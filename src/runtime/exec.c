/* SPDX-License-Identifier: MIT */
/*
 * exec and posix_spawn: a followed child gets the tracker's variables even from a program that
 * clears its environment; a child that could not load the runtime (another class or machine, or
 * --follow=none) gets an environment without it, so that the loader prints nothing. The environment
 * of this process is never changed: the callee gets a copy of the array.
 *
 * May run in a vfork child, on its parent's memory: the copy lies in a buffer of the thread, which
 * the next exec of the thread uses again.
 */
#include <elf.h>
#include <stdarg.h>

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/arena.h"
#include "runtime/exec.h"
#include "runtime/program_errno.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "wire/check_options.h"

#ifndef MT_BUILD_WRAP

extern char **__environ __attribute__((weak));

enum { SCRIPT_LEVELS = 4, FOLLOW_BYTES = 8192, FOLLOW_LINES = 8, ARGS_MAX = 65536 };

static const char *const names[] = {"MEMTRACK_MODE",      "MEMTRACK_OPTIONS",  "MEMTRACK_DIR",
				    "MEMTRACK_STATE_DIR", "MEMTRACK_LAUNCHER", "MEMTRACK_CONFIG",
				    MT_CHECK_VARIABLE};
enum { PRELOAD_NAME_BYTES = 11 }; /* LD_PRELOAD= */

/* The tracker's variables as this process got them; our own path as the loader knows it. */
static struct {
	char text[FOLLOW_BYTES];
	uint32_t line[FOLLOW_LINES];
	uint32_t lines, used;
	char self[1024];     /* as LD_PRELOAD has it; "" when we did not come by it */
	char absolute[1024]; /* the same, for a program that is started elsewhere */
} follow;

static void keep_line(const char *name, const char *value)
{
	struct mt_fmt f;
	size_t need = mt_str_len(name) + mt_str_len(value) + 2;
	if (follow.lines == FOLLOW_LINES || follow.used + need > FOLLOW_BYTES)
		return;
	mt_fmt_init(&f, follow.text + follow.used, FOLLOW_BYTES - follow.used);
	mt_fmt_str(&f, name);
	mt_fmt_str(&f, "=");
	mt_fmt_str(&f, value);
	follow.line[follow.lines++] = follow.used;
	follow.used += (uint32_t)need;
}

static int is_word(const char *text, size_t len, const char *word)
{
	return mt_str_len(word) == len && mt_mem_equal(text, word, len);
}

/* Does the list (separated by blanks or colons) name us? Returns the entry, its length in *ret_len.
 */
static const char *find_self(const char *list, size_t *ret_len)
{
	while (*list) {
		size_t n = 0;
		while (list[n] && list[n] != ':' && list[n] != ' ')
			n++;
		if (is_word(list, n, follow.self) || is_word(list, n, follow.absolute)) {
			*ret_len = n;
			return list;
		}
		list += n + (list[n] != 0);
	}
	return NULL;
}

/* A path with a slash is relative to where we are now; a bare name is searched for anywhere. */
static void make_absolute(void)
{
	struct mt_fmt f;
	char here[512];
	int has_slash = 0;
	for (const char *c = follow.self; *c; c++)
		has_slash |= *c == '/';
	mt_fmt_init(&f, follow.absolute, sizeof(follow.absolute));
	if (has_slash && follow.self[0] != '/' && mt_sys2(__NR_getcwd, here, sizeof(here)) > 0) {
		mt_fmt_str(&f, here);
		mt_fmt_str(&f, "/");
	}
	mt_fmt_str(&f, follow.self);
}

void mt_exec_remember(char **envp)
{
	const struct mt_module_list *list = mt_unwind.modules;
	const struct mt_module *self = list ? mt_module_list_find(list, (uintptr_t)&mt_rt) : NULL;
	const char *preload = mt_loader_env(envp, "LD_PRELOAD");
	struct mt_fmt f;
	size_t len;
	if (!self || !preload)
		return;
	mt_fmt_init(&f, follow.self, sizeof(follow.self));
	mt_fmt_str(&f, self->name);
	if (!find_self(preload, &len)) {
		follow.self[0] = 0;
		return;
	}
	make_absolute();
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++) {
		const char *value = mt_loader_env(envp, names[i]);
		if (value)
			keep_line(names[i], value);
	}
}

enum loads { LOADS_US, LOADS_NOT, LOADS_UNKNOWN };

/* "#! interpreter": its path into *path (bytes long). 0 or -EINVAL. */
static int interpreter_of(const char *line, size_t len, char *path, size_t bytes)
{
	size_t at = 2, n = 0;
	while (at < len && (line[at] == ' ' || line[at] == '\t'))
		at++;
	while (at < len && line[at] != ' ' && line[at] != '\t' && line[at] != '\n' && n + 1 < bytes)
		path[n++] = line[at++];
	path[n] = 0;
	return n ? 0 : -MT_EINVAL;
}

/* Would the kernel start something at this path whose loader can load this library? */
static enum loads look_at(int dir, const char *path)
{
	char head[256], next[256];
	for (int level = 0; level <= SCRIPT_LEVELS; level++) {
		long fd = mt_sys4(__NR_openat, dir, path, MT_O_RDONLY | MT_O_CLOEXEC, 0);
		if (fd < 0)
			return LOADS_UNKNOWN;
		long n = mt_sys_read((int)fd, head, sizeof(head));
		mt_sys_close((int)fd);
		if (n > 2 && head[0] == '#' && head[1] == '!') {
			if (interpreter_of(head, (size_t)n, next, sizeof(next)))
				return LOADS_UNKNOWN;
			path = next;
			dir = MT_AT_FDCWD;
			continue;
		}
		const Elf64_Ehdr *e = (const Elf64_Ehdr *)head;
		if (n < (long)sizeof(*e) || !mt_mem_equal(head, ELFMAG, SELFMAG))
			return LOADS_UNKNOWN;
#if defined(__x86_64__)
		int machine = EM_X86_64;
#else
		int machine = EM_AARCH64;
#endif
		return e->e_ident[EI_CLASS] == ELFCLASS64 && e->e_machine == machine ? LOADS_US
										     : LOADS_NOT;
	}
	return LOADS_UNKNOWN;
}

/* The file that a PATH search finds, as execvp would; the name itself when it has a slash. */
static const char *search_path(const char *file, char *buf, size_t bytes)
{
	const char *path = &__environ ? mt_loader_env(__environ, "PATH") : NULL;
	for (const char *c = file; *c; c++)
		if (*c == '/')
			return file;
	if (!path)
		path = "/bin:/usr/bin";
	while (*path || *file) {
		struct mt_fmt f;
		size_t n = 0;
		while (path[n] && path[n] != ':')
			n++;
		if (n + mt_str_len(file) + 3 < bytes) {
			mt_mem_copy(buf, path, n);
			mt_fmt_init(&f, buf + n, bytes - n);
			mt_fmt_str(&f, n ? "/" : "./");
			mt_fmt_str(&f, file);
			if (mt_sys_access(buf, 1) == 0)
				return buf;
		}
		if (!path[n])
			break;
		path += n + 1;
	}
	return file;
}

static int is_ours(const char *line)
{
	if (mt_str_starts(line, "LD_PRELOAD="))
		return 1;
	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
		if (mt_str_starts(line, names[i]) && line[mt_str_len(names[i])] == '=')
			return 1;
	return 0;
}

/* Memory for the copy: the thread's buffer, made larger if need be; without a thread, a mapping. */
static void *copy_memory(size_t bytes)
{
	struct mt_thread *t = mt_thread_self();
	if (t && t->exec_bytes >= bytes)
		return t->exec_buffer;
	if (t && mt_rt.phase == MT_RT_ON) {
		void *made = mt_arena_take(MT_ALIGN_UP(bytes, 16384));
		if (made) {
			t->exec_buffer = made;
			t->exec_bytes = (uint32_t)MT_ALIGN_UP(bytes, 16384);
			return made;
		}
	}
	long at = mt_sys_mmap(NULL, bytes, MT_PROT_READ | MT_PROT_WRITE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	return mt_sys_is_error(at) ? NULL : (void *)at;
}

/* LD_PRELOAD for the child, into f: the caller's value with or without us. 1 when anything is left.
 */
static int write_preload(struct mt_fmt *f, const char *value, int with_us)
{
	size_t len = 0;
	const char *us = value ? find_self(value, &len) : NULL;
	const char *start = f->at;
	mt_fmt_str(f, "LD_PRELOAD=");
	const char *after_name = f->at;
	if (with_us && !us) {
		mt_fmt_str(f, follow.absolute);
		mt_fmt_str(f, value && *value ? ":" : "");
	}
	for (const char *c = value; c && *c;) {
		if (c == us) {
			mt_fmt_str(f, with_us ? follow.absolute : "");
			c += len + (!with_us && c[len]); /* skip one separator, too */
			us = NULL;
			continue;
		}
		char one[2] = {*c++, 0};
		mt_fmt_str(f, one);
	}
	while (f->at > after_name && !with_us && (f->at[-1] == ':' || f->at[-1] == ' '))
		*--f->at = 0;
	if (f->at > after_name)
		return 1;
	f->at = (char *)start;
	return 0;
}

static size_t count_lines(char *const *envp, size_t *ret_preload_bytes)
{
	size_t n = 0;
	*ret_preload_bytes = 0;
	for (; envp && envp[n]; n++)
		if (mt_str_starts(envp[n], "LD_PRELOAD="))
			*ret_preload_bytes = mt_str_len(envp[n]);
	return n;
}

/* A copy of envp that names us or does not. The original when there is no memory. */
static char *const *edit(char *const *envp, int with_us)
{
	size_t preload_bytes, lines = count_lines(envp, &preload_bytes), n = 0;
	size_t text_bytes = preload_bytes + sizeof(follow.absolute) + PRELOAD_NAME_BYTES + 16;
	char **copy = copy_memory((lines + FOLLOW_LINES + 2) * sizeof(*copy) + text_bytes);
	if (!copy)
		return envp;
	struct mt_fmt f;
	char *text = (char *)(copy + lines + FOLLOW_LINES + 2);
	mt_fmt_init(&f, text, text_bytes);
	for (size_t i = 0; i < lines; i++)
		if (!is_ours(envp[i]))
			copy[n++] = envp[i];
	if (write_preload(&f, mt_loader_env((char **)envp, "LD_PRELOAD"), with_us))
		copy[n++] = text;
	for (uint32_t i = 0; with_us && i < follow.lines; i++)
		copy[n++] = follow.text + follow.line[i];
	copy[n] = NULL;
	return copy;
}

/* Are all of our variables there as they were given to us? */
static int is_complete(char *const *envp)
{
	size_t len;
	const char *preload = mt_loader_env((char **)envp, "LD_PRELOAD");
	const char *us = preload ? find_self(preload, &len) : NULL;
	if (!us || !is_word(us, len, follow.absolute))
		return 0;
	for (uint32_t i = 0; i < follow.lines; i++) {
		const char *line = follow.text + follow.line[i];
		char *const *e = envp;
		while (*e && !mt_str_equal(*e, line))
			e++;
		if (!*e)
			return 0;
	}
	return 1;
}

/* What the callee's environment shall be. */
static char *const *child_environment(int dir, const char *path, char *const *envp)
{
	static char *const none[] = {NULL};
	if (!follow.self[0])
		return envp;
	if (!envp) /* the kernel takes NULL for an empty environment */
		envp = none;
	enum loads loads = look_at(dir, path);
	int with_us = mt_rt.options.follow && loads != LOADS_NOT;
	size_t len;
	const char *preload = mt_loader_env((char **)envp, "LD_PRELOAD");
	if (with_us ? is_complete(envp) : !(preload && find_self(preload, &len)))
		return envp;
	return edit(envp, with_us);
}

/* The program is about to become another one; taken back when the call returns. A vfork child is
   not the program. */
static void note_exec(uint32_t pending)
{
	if (mt_rt.phase == MT_RT_ON && mt_sys_getpid() == mt_rt.pid)
		mt_rt.hdr->exec_pending = pending;
}

static int not_here(void)
{
	mt_errno_set(MT_ENOSYS);
	return -1;
}

#define NEED(name) \
	do { \
		if (!MT_PROVIDER_HAS(mt_system.name)) \
			return not_here(); \
	} while (0)

MT_PUBLIC int execve(const char *path, char *const *argv, char *const *envp);
MT_PUBLIC int execve(const char *path, char *const *argv, char *const *envp)
{
	NEED(execve);
	note_exec(1);
	int err = mt_system.execve(path, argv, child_environment(MT_AT_FDCWD, path, envp));
	note_exec(0);
	return err;
}

MT_PUBLIC int execv(const char *path, char *const *argv);
MT_PUBLIC int execv(const char *path, char *const *argv)
{
	return execve(path, argv, __environ);
}

MT_PUBLIC int execvpe(const char *file, char *const *argv, char *const *envp);
MT_PUBLIC int execvpe(const char *file, char *const *argv, char *const *envp)
{
	char buf[1024];
	NEED(execvpe);
	note_exec(1);
	const char *path = follow.self[0] ? search_path(file, buf, sizeof(buf)) : file;
	int err = mt_system.execvpe(file, argv, child_environment(MT_AT_FDCWD, path, envp));
	note_exec(0);
	return err;
}

MT_PUBLIC int execvp(const char *file, char *const *argv);
MT_PUBLIC int execvp(const char *file, char *const *argv)
{
	return execvpe(file, argv, __environ);
}

MT_PUBLIC int fexecve(int fd, char *const *argv, char *const *envp);
MT_PUBLIC int fexecve(int fd, char *const *argv, char *const *envp)
{
	char path[64];
	struct mt_fmt f;
	NEED(fexecve);
	mt_fmt_init(&f, path, sizeof(path));
	mt_fmt_str(&f, "/proc/self/fd/");
	mt_fmt_u64(&f, (uint64_t)fd);
	note_exec(1);
	int err = mt_system.fexecve(fd, argv, child_environment(MT_AT_FDCWD, path, envp));
	note_exec(0);
	return err;
}

MT_PUBLIC int execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags);
MT_PUBLIC int execveat(int dir, const char *path, char *const *argv, char *const *envp, int flags)
{
	NEED(execveat);
	note_exec(1);
	int err = mt_system.execveat(dir, path, argv, child_environment(dir, path, envp), flags);
	note_exec(0);
	return err;
}

/* Arguments of the variadic forms as an array; the terminating NULL is included. */
static char **collect(const char *first, va_list *args, size_t *ret_count)
{
	va_list again;
	size_t n = 1;
	va_copy(again, *args);
	while (n < ARGS_MAX && va_arg(again, const char *))
		n++;
	va_end(again);
	long at = mt_sys_mmap(NULL, (n + 1) * sizeof(char *), MT_PROT_READ | MT_PROT_WRITE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	if (mt_sys_is_error(at))
		return NULL;
	char **argv = (char **)at;
	argv[0] = (char *)first;
	for (size_t i = 1; first && i <= n; i++)
		argv[i] = va_arg(*args, char *);
	*ret_count = n + 1;
	return argv;
}

enum form { FORM_PATH, FORM_SEARCH, FORM_ENVIRONMENT };

static int exec_list(enum form form, const char *path, const char *first, va_list *args)
{
	size_t count = 0;
	char **argv = collect(first, args, &count);
	if (!argv) {
		mt_errno_set(MT_ENOMEM);
		return -1;
	}
	char *const *envp = form == FORM_ENVIRONMENT ? va_arg(*args, char *const *) : __environ;
	int err = form == FORM_SEARCH ? execvpe(path, argv, envp) : execve(path, argv, envp);
	mt_sys_munmap(argv, count * sizeof(char *));
	return err;
}

#define DEFINE_EXEC_LIST(name, form) \
	MT_PUBLIC int name(const char *path, const char *first, ...); \
	MT_PUBLIC int name(const char *path, const char *first, ...) \
	{ \
		va_list args; \
		va_start(args, first); \
		int err = exec_list(form, path, first, &args); \
		va_end(args); \
		return err; \
	}

DEFINE_EXEC_LIST(execl, FORM_PATH)
DEFINE_EXEC_LIST(execlp, FORM_SEARCH)
DEFINE_EXEC_LIST(execle, FORM_ENVIRONMENT)

MT_PUBLIC int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes,
			  char *const *argv, char *const *envp);
MT_PUBLIC int posix_spawn(int *pid, const char *path, const void *actions, const void *attributes,
			  char *const *argv, char *const *envp)
{
	NEED(posix_spawn);
	return mt_system.posix_spawn(pid, path, actions, attributes, argv,
				     child_environment(MT_AT_FDCWD, path, envp));
}

MT_PUBLIC int posix_spawnp(int *pid, const char *file, const void *actions, const void *attributes,
			   char *const *argv, char *const *envp);
MT_PUBLIC int posix_spawnp(int *pid, const char *file, const void *actions, const void *attributes,
			   char *const *argv, char *const *envp)
{
	char buf[1024];
	NEED(posix_spawnp);
	const char *path = follow.self[0] ? search_path(file, buf, sizeof(buf)) : file;
	return mt_system.posix_spawnp(pid, file, actions, attributes, argv,
				      child_environment(MT_AT_FDCWD, path, envp));
}
#endif
