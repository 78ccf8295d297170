/* SPDX-License-Identifier: MIT */
/* Reading /proc/PID/stat: the name may hold any byte, so fields are counted from the last ')'. */

#include "target/process.h"

#include "base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STAT_MAX = 4096, FIELD_START = 22, FIELD_STATE = 3 };

int mt_process_parse_stat(const char *text, struct mt_process *ret_process)
{
	const char *open = strchr(text, '('), *close = strrchr(text, ')');
	struct mt_process p = {0};
	char *end;
	size_t len;
	int used = 0;

	p.pid = (pid_t)strtol(text, &end, 10);
	if (!open || !close || close < open || end == text || p.pid <= 0)
		return -EINVAL;
	len = (size_t)(close - open - 1);
	if (len > sizeof(p.name) - 1)
		len = sizeof(p.name) - 1;
	memcpy(p.name, open + 1, len);
	if (sscanf(close + 1, " %c %d%n", &p.state, &p.ppid, &used) != 2)
		return -EINVAL;
	text = close + 1;
	for (int field = FIELD_STATE; field < FIELD_START; field++) {
		text += strspn(text, " ");
		text += strcspn(text, " ");
	}
	p.start_ticks = strtoull(text, &end, 10);
	if (end == text)
		return -EINVAL;
	*ret_process = p;
	return 0;
}

int mt_process_read(pid_t pid, struct mt_process *ret_process)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	char path[64];
	int err;

	if (pid <= 0)
		return -ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	err = mt_file_read(path, STAT_MAX, &text, &len, NULL);
	if (err == -ENOENT)
		return -ESRCH;
	return err ? err : mt_process_parse_stat(text, ret_process);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int mt_process_boot_id(uint8_t ret_id[16])
{
	mt_auto(free) char *text = NULL;
	size_t len;
	int err = mt_file_read("/proc/sys/kernel/random/boot_id", STAT_MAX, &text, &len, NULL);
	int digits = 0;

	memset(ret_id, 0, 16);
	if (err)
		return err;
	for (const char *c = text; *c && digits < 32; c++) {
		int d = hex_digit(*c);

		if (d < 0)
			continue;
		ret_id[digits / 2] = (uint8_t)(ret_id[digits / 2] << 4 | d);
		digits++;
	}
	return digits == 32 ? 0 : -EINVAL;
}

bool mt_process_is_running(pid_t pid, uint64_t start_ticks, const uint8_t boot_id[16])
{
	static const uint8_t unknown[16];
	struct mt_process p;
	uint8_t now[16];

	if (mt_process_read(pid, &p) || p.state == 'Z' || p.state == 'X')
		return false;
	if (start_ticks && p.start_ticks != start_ticks)
		return false;
	if (!memcmp(boot_id, unknown, sizeof(unknown)) || mt_process_boot_id(now))
		return true;
	return !memcmp(boot_id, now, sizeof(now));
}

int mt_process_compare_pids(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}
