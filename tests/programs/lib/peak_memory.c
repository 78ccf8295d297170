/* SPDX-License-Identifier: MIT */
/* Writes the program's highest resident memory, in KiB, to the file $PEAK_FILE when it ends. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((destructor)) static void write_peak(void)
{
	static char text[8192];
	int in = open("/proc/self/status", O_RDONLY),
	    out = open(getenv("PEAK_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t n = read(in, text, sizeof(text) - 1);
	char *at = n > 0 ? strstr(text, "VmHWM:") : NULL, *end = at ? strchr(at, 'k') : NULL;
	if (!end || write(out, at + 6, (size_t)(end - at - 6)) < 0)
		_exit(99);
	close(in);
	close(out);
}
