/* SPDX-License-Identifier: MIT */
/* Buffered text to a descriptor; see text_file.h. */
#include "runtime/text_file.h"

#include "core/sys.h"

enum {
	PIPE_BIT = 1 << 12,      /* SIGPIPE */
	FILE_SIZE_BIT = 1 << 24, /* SIGXFSZ */
	RAISED = PIPE_BIT | FILE_SIZE_BIT,
};

static void hold_signals(struct mt_text_file *t)
{
	t->signals = mt_sys_block_signals();
	t->pending = 0;
	mt_sys2(__NR_rt_sigpending, &t->pending, sizeof(t->pending));
}

static void release_signals(struct mt_text_file *t)
{
	struct mt_timespec none = {0, 0};
	uint64_t raised = RAISED & ~t->pending;
	if (t->err)
		while (mt_sys4(__NR_rt_sigtimedwait, &raised, 0, &none, sizeof(raised)) > 0)
			;
	mt_sys_restore_signals(t->signals);
}

void mt_text_file_use(struct mt_text_file *t, int fd)
{
	t->fd = fd;
	t->err = 0;
	mt_fmt_init(&t->f, t->text, sizeof(t->text));
	hold_signals(t);
}

int mt_text_file_open(struct mt_text_file *t, const char *name, int access, int mode)
{
	int fd = (int)mt_sys_open(
		name, access | MT_O_CREAT | MT_O_TRUNC | MT_O_NOFOLLOW | MT_O_CLOEXEC, mode);
	if (fd < 0)
		return fd;
	mt_text_file_use(t, fd);
	return 0;
}

static void put(struct mt_text_file *t, const char *at, const char *end)
{
	while (at < end && !t->err) {
		long n = mt_sys_write(t->fd, at, (size_t)(end - at));
		if (n == -MT_EINTR)
			continue;
		if (n <= 0)
			t->err = n ? (int)n : -MT_ENOSPC;
		else
			at += n;
	}
}

static void flush(struct mt_text_file *t)
{
	put(t, t->text, t->f.at);
	mt_fmt_init(&t->f, t->text, sizeof(t->text));
}

struct mt_fmt *mt_text_file_room(struct mt_text_file *t, size_t bytes)
{
	if ((size_t)(t->f.end - t->f.at) < bytes)
		flush(t);
	return &t->f;
}

int mt_text_file_copy(struct mt_text_file *t, const char *name)
{
	int fd = (int)mt_sys_open(name, MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	flush(t);
	long n;
	while ((n = mt_sys_read(fd, t->text, sizeof(t->text))) > 0 || n == -MT_EINTR)
		if (n > 0)
			put(t, t->text, t->text + n);
	mt_fmt_init(&t->f, t->text, sizeof(t->text));
	mt_sys_close(fd);
	return 0;
}

int mt_text_file_leave(struct mt_text_file *t)
{
	flush(t);
	release_signals(t);
	return t->err;
}

int mt_text_file_close(struct mt_text_file *t)
{
	flush(t);
	mt_sys_close(t->fd);
	release_signals(t);
	return t->err;
}
