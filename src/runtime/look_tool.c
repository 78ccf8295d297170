/* SPDX-License-Identifier: MIT */
/*
 * exec makes any process one whose end is told to its parent by SIGCHLD. So a child in between,
 * that only waits which name it and say __WALL see, starts the command and ends: its parent is then
 * another. Both are plain copies of the process, not such that share its memory.
 */
#include "runtime/look_tool.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/rt.h"
#include "runtime/storage.h"

enum {
	WALL = 0x40000000,
	O_READ_WRITE = 2,
	PR_GET_CHILD_SUBREAPER = 37,
};

/* Beside the library, or where an installation has it. 0 or -ENOENT. */
static int find_tool(char *path, size_t bytes)
{
	static const char *const from_lib[] = {"memtrack", "../bin/memtrack", "../../bin/memtrack"};
	const struct mt_state_module *m = mt_storage_base(MT_REGION_MODULES);
	const char *strings = mt_storage_base(MT_REGION_STRINGS), *self = NULL;
	for (uint64_t i = 1; i < mt_rt.region[MT_REGION_MODULES]->used && !self; i++)
		if (m[i].flags & MT_MODULE_SELF)
			self = strings + m[i].path_string;
	size_t dir = self ? mt_str_len(self) : 0;
	while (dir && self[dir - 1] != '/')
		dir--;
	for (size_t i = 0; dir && i < MT_ARRAY_LEN(from_lib); i++) {
		struct mt_fmt f;
		mt_fmt_init(&f, path, bytes);
		if (dir >= bytes)
			break;
		mt_mem_copy(path, self, dir);
		f.at = path + dir;
		mt_fmt_str(&f, from_lib[i]);
		if (!mt_sys_access(path, 1 /* X_OK */))
			return 0;
	}
	return -MT_ENOENT;
}

/* The child. Everything that it needs is on its stack or constant. */
static void become(const char *tool) __attribute__((noreturn));
static void become(const char *tool)
{
	const char *const argv[] = {"memtrack", "leaks", "--answer", mt_rt.state_path, NULL};
	const char *const envp[] = {"PATH=/usr/bin:/bin", NULL};
	long null = mt_sys_open("/dev/null", O_READ_WRITE, 0);
	for (int fd = 0; fd < 3; fd++)
		mt_sys3(__NR_dup3, null, fd, 0);
	mt_sys3(__NR_close_range, 3, ~0u, 0); /* from Linux 5.9 on; else they stay open a while */
	mt_sys3(__NR_execve, tool, argv, envp);
	for (;;)
		mt_sys1(__NR_exit_group, 127);
}

/* 1: orphans become our children. */
static int takes_orphans(void)
{
	int is_subreaper = 0;
	mt_sys2(__NR_prctl, PR_GET_CHILD_SUBREAPER, &is_subreaper);
	return is_subreaper || mt_sys_getpid() == 1;
}

long mt_look_tool_start(void)
{
	uint32_t *shared = &mt_rt.hdr->look_unit; /* with the child in between */
	char tool[MT_PATH_MAX];
	int err = takes_orphans() ? -MT_ENOTSUP : find_tool(tool, sizeof(tool));
	if (err)
		return err;
	*shared = 0;
	uint64_t signals = mt_sys_block_signals(); /* no handler of the program's runs there */
	long between = mt_sys6(__NR_clone, 0, 0, 0, 0, 0, 0);
	if (!between) {
		long pid = mt_sys6(__NR_clone, 0, 0, 0, 0, 0, 0);
		if (!pid)
			become(tool);
		__atomic_store_n(shared, mt_sys_is_error(pid) ? 0 : (uint32_t)pid,
				 __ATOMIC_RELEASE);
		for (;;)
			mt_sys1(__NR_exit_group, 0);
	}
	mt_sys_restore_signals(signals);
	if (mt_sys_is_error(between))
		return between;
	while (mt_sys4(__NR_wait4, between, NULL, WALL, NULL) == -MT_EINTR)
		;
	uint32_t pid = __atomic_load_n(shared, __ATOMIC_ACQUIRE);
	return pid ? (long)pid : -MT_EAGAIN;
}

int mt_look_tool_is_over(long pid)
{
	return mt_sys2(__NR_kill, pid, 0) == -MT_ESRCH;
}
