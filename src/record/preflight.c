/* SPDX-License-Identifier: MIT */
/*
 * The checks before a run. Their order is the order in which the kernel and the loader would
 * stumble: find, permission, format, then what makes the loader ignore or refuse a preload.
 */

#include "record/preflight.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/path.h"
#include "record/elf_look.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#define DEFAULT_SEARCH "/bin:/usr/bin"
enum { SHEBANG_MAX = 256 };

#if defined(__x86_64__)
enum { OUR_MACHINE = EM_X86_64 };
#define OUR_NAME "x86-64"
#else
enum { OUR_MACHINE = EM_AARCH64 };
#define OUR_NAME "aarch64"
#endif

static enum mt_preflight_why refuse(struct mt_err *err, enum mt_preflight_why why, int code,
				    const char *fmt, ...) MT_PRINTF(4, 5);

static enum mt_preflight_why refuse(struct mt_err *err, enum mt_preflight_why why, int code,
				    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	mt_err_vset_at(err, code, MT_ERR_NO_OFFSET, fmt, ap);
	va_end(ap);
	return why;
}

static enum mt_preflight_why no_memory(struct mt_err *err)
{
	mt_err_no_memory(err);
	return MT_PREFLIGHT_FAILED;
}

/* A regular file that we may execute. */
static enum mt_preflight_why check_file(const char *path, struct mt_err *err)
{
	struct stat st;

	if (stat(path, &st)) {
		if (errno == ENOENT || errno == ENOTDIR)
			return refuse(err, MT_PREFLIGHT_NOT_FOUND, -ENOENT,
				      "cannot run '%s': no such program", path);
		return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -errno, "cannot run '%s': %s", path,
			      mt_err_text_of(errno));
	}
	if (S_ISDIR(st.st_mode))
		return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -EISDIR,
			      "cannot run '%s': it is a directory", path);
	if (!S_ISREG(st.st_mode))
		return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -EACCES,
			      "cannot run '%s': it is not a regular file", path);
	if (faccessat(AT_FDCWD, path, X_OK, AT_EACCESS))
		return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -EACCES,
			      "cannot run '%s': it may not be executed (permission denied)", path);
	return MT_PREFLIGHT_OK;
}

/* Walks PATH; remembers the first refusal so that "found but not executable" wins over "not found".
 */
static enum mt_preflight_why search_path(const char *name, const char *search, char **ret_path,
					 struct mt_err *err)
{
	enum mt_preflight_why first = MT_PREFLIGHT_NOT_FOUND;

	for (const char *at = search; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
		size_t len = strcspn(at, ":");
		mt_auto(free) char *dir = len ? strndup(at, len) : strdup(".");
		mt_auto(free) char *path = dir ? mt_path_join(dir, name) : NULL;
		enum mt_preflight_why why;
		struct mt_err here = {0};

		if (!path)
			return no_memory(err);
		why = check_file(path, &here);
		if (why == MT_PREFLIGHT_OK) {
			*ret_path = path;
			path = NULL;
			return MT_PREFLIGHT_OK;
		}
		if (why != MT_PREFLIGHT_NOT_FOUND && first == MT_PREFLIGHT_NOT_FOUND &&
		    here.code != -EISDIR) {
			first = why;
			if (err)
				*err = here;
		}
	}
	if (first == MT_PREFLIGHT_NOT_FOUND)
		refuse(err, first, -ENOENT, "cannot run '%s': no such program in PATH", name);
	return first;
}

static enum mt_preflight_why find(const char *name, const char *search, char **ret_path,
				  struct mt_err *err)
{
	enum mt_preflight_why why;
	char *path;

	if (!*name)
		return refuse(err, MT_PREFLIGHT_NOT_FOUND, -ENOENT,
			      "cannot run '': empty program name");
	if (!strchr(name, '/'))
		return search_path(name, search ? search : DEFAULT_SEARCH, ret_path, err);
	why = check_file(name, err);
	if (why)
		return why;
	path = strdup(name);
	if (!path)
		return no_memory(err);
	*ret_path = path;
	return MT_PREFLIGHT_OK;
}

/* Programs that change privileges start in secure mode: the loader drops our preload silently. */
static enum mt_preflight_why check_privilege(const char *path, struct mt_err *err)
{
	struct stat st;
	struct statvfs fs;

	if (stat(path, &st))
		return MT_PREFLIGHT_OK;
	if (!statvfs(path, &fs) && (fs.f_flag & ST_NOSUID))
		return MT_PREFLIGHT_OK;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return refuse(
			err, MT_PREFLIGHT_NOT_TRACKABLE, -EPERM,
			"'%s' is set-uid: the system ignores LD_PRELOAD for it and nothing would "
			"be recorded; run memtrack as its owner, or track a copy without the "
			"set-uid bit",
			path);
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
		return refuse(
			err, MT_PREFLIGHT_NOT_TRACKABLE, -EPERM,
			"'%s' is set-gid: the system ignores LD_PRELOAD for it and nothing would "
			"be "
			"recorded; track a copy without the set-gid bit",
			path);
	if (getuid() && getxattr(path, "security.capability", NULL, 0) > 0)
		return refuse(
			err, MT_PREFLIGHT_NOT_TRACKABLE, -EPERM,
			"'%s' has file capabilities: the system ignores LD_PRELOAD for it and "
			"nothing "
			"would be recorded; run memtrack as root, or track a copy without them",
			path);
	return MT_PREFLIGHT_OK;
}

static const char *machine_name(uint16_t machine)
{
	switch (machine) {
	case EM_386:
		return "x86 (32-bit)";
	case EM_X86_64:
		return "x86-64";
	case EM_ARM:
		return "arm (32-bit)";
	case EM_AARCH64:
		return "aarch64";
	case EM_RISCV:
		return "riscv";
	case EM_PPC64:
		return "powerpc64";
	case EM_S390:
		return "s390";
	default:
		return "another architecture";
	}
}

static enum mt_preflight_why check_elf(const char *path, struct mt_err *err)
{
	struct mt_elf_look look;
	int code = mt_elf_look(path, &look, err);

	if (code == -ENOEXEC)
		return MT_PREFLIGHT_NOT_EXECUTABLE;
	if (code)
		return MT_PREFLIGHT_FAILED;
	if (look.elf_class != ELFCLASS64 || look.machine != OUR_MACHINE ||
	    look.elf_data != ELFDATA2LSB)
		return refuse(err, MT_PREFLIGHT_NOT_TRACKABLE, -ENOEXEC,
			      "'%s' is a program for %s; this memtrack tracks " OUR_NAME
			      " (64-bit) programs",
			      path, machine_name(look.machine));
	if (look.type != ET_EXEC && look.type != ET_DYN)
		return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -ENOEXEC,
			      "cannot run '%s': it is an ELF object or core file, not a program",
			      path);
	if (!look.has_interpreter && !look.is_loader && !look.has_runtime)
		return refuse(
			err, MT_PREFLIGHT_NOT_TRACKABLE, -ENOEXEC,
			"'%s' is statically linked: LD_PRELOAD has no effect in it; link it with "
			"$(pkg-config --libs memtrack-wrap), or include memtrack.h",
			path);
	if (look.sanitizer[0])
		return refuse(
			err, MT_PREFLIGHT_NOT_TRACKABLE, -ENOEXEC,
			"'%s' is built with %s, which brings its own malloc and must be loaded "
			"first; "
			"build it without the sanitizer to track it",
			path, look.sanitizer);
	return check_privilege(path, err);
}

/* The interpreter of a `#!` line, or NULL with *ret_code 0 (no script) or negative. Caller frees.
 */
static char *read_shebang(const char *path, int *ret_code)
{
	mt_auto(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char line[SHEBANG_MAX + 1];
	ssize_t got = fd < 0 ? -errno : mt_file_pread(fd, line, SHEBANG_MAX, 0);
	char *at, *interpreter;

	*ret_code = got < 0 ? (int)got : 0;
	if (got < 2 || line[0] != '#' || line[1] != '!')
		return NULL;
	line[got] = 0;
	line[strcspn(line, "\n")] = 0;
	at = line + 2 + strspn(line + 2, " \t");
	at[strcspn(at, " \t")] = 0;
	*ret_code = *at ? 0 : -ENOEXEC;
	interpreter = *at ? strdup(at) : NULL;
	if (*at && !interpreter)
		*ret_code = -ENOMEM;
	return interpreter;
}

static bool is_elf(const char *path)
{
	mt_auto(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	char magic[SELFMAG];

	return fd >= 0 && mt_file_pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
	       !memcmp(magic, ELFMAG, SELFMAG);
}

static enum mt_preflight_why check_program(const char *path, int level, struct mt_err *err)
{
	int code;
	mt_auto(free) char *interpreter = read_shebang(path, &code);
	enum mt_preflight_why why;

	/* a program that may be executed but not read is the kernel's to judge */
	if (code == -EACCES)
		return check_privilege(path, err);
	if (code == -ENOMEM)
		return no_memory(err);
	if (code)
		return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, code, "cannot run '%s': %s", path,
			      code == -ENOEXEC ? "its #! line names no interpreter"
					       : mt_err_text_of(code));
	if (interpreter) {
		if (level >= MT_PREFLIGHT_SCRIPT_LEVELS)
			return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -ELOOP,
				      "cannot run '%s': more than %d interpreters of scripts", path,
				      MT_PREFLIGHT_SCRIPT_LEVELS);
		why = check_file(interpreter, err);
		if (why == MT_PREFLIGHT_NOT_FOUND)
			return refuse(err, MT_PREFLIGHT_NOT_EXECUTABLE, -ENOENT,
				      "cannot run '%s': its interpreter '%s' does not exist", path,
				      interpreter);
		return why ? why : check_program(interpreter, level + 1, err);
	}
	if (!is_elf(path))
		return refuse(
			err, MT_PREFLIGHT_NOT_EXECUTABLE, -ENOEXEC,
			"cannot run '%s': it is neither an ELF program nor a script with a #! line",
			path);
	return check_elf(path, err);
}

enum mt_preflight_why mt_preflight(const char *name, const char *search, char **ret_path,
				   struct mt_err *err)
{
	mt_auto(free) char *path = NULL;
	enum mt_preflight_why why = find(name, search, &path, err);

	if (why)
		return why;
	why = check_program(path, 0, err);
	if (why)
		return why;
	*ret_path = path;
	path = NULL;
	return MT_PREFLIGHT_OK;
}

int mt_preflight_exit_status(enum mt_preflight_why why)
{
	switch (why) {
	case MT_PREFLIGHT_OK:
		return 0;
	case MT_PREFLIGHT_NOT_FOUND:
		return 127;
	case MT_PREFLIGHT_NOT_EXECUTABLE:
		return 126;
	default:
		return 1;
	}
}
