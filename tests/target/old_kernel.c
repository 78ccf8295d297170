/* SPDX-License-Identifier: MIT */
/* To be preloaded: the two calls on files of /proc fail as on a kernel that does not have them. */
#include <errno.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROC_GROUP = 'f', PAGEMAP_SCAN = 16, PROCMAP_QUERY = 17 };

int ioctl(int fd, unsigned long request, ...)
{
	unsigned long group = request >> 8 & 0xff, number = request & 0xff;
	va_list list;
	void *argument;

	va_start(list, request);
	argument = va_arg(list, void *);
	va_end(list);
	if (group == PROC_GROUP && (number == PAGEMAP_SCAN || number == PROCMAP_QUERY)) {
		errno = ENOTTY;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, argument);
}
