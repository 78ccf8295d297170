/* SPDX-License-Identifier: MIT */
/* /proc/PID/status and smaps_rollup: lines of a key, a colon, a number and kB. */

#include "target/memory.h"

#include "base/file.h"
#include "base/lines.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 65536 };

uint64_t mt_memory_parse(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line && *line; line = mt_line_behind(line)) {
		uint64_t kib;
		char unit[4];

		if (strncmp(line, key, len) || line[len] != ':')
			continue;
		if (sscanf(line + len + 1, " %" SCNu64 " %3s", &kib, unit) != 2 ||
		    strcmp(unit, "kB") || kib > UINT64_MAX / 1024 - 1)
			return MT_MEMORY_UNKNOWN;
		return kib * 1024;
	}
	return MT_MEMORY_UNKNOWN;
}

static char *read_text(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return mt_file_text(path, TEXT_MAX);
}

void mt_memory_read(pid_t pid, struct mt_memory *ret_memory)
{
	mt_auto(free) char *text = read_text(pid, "status");

	*ret_memory = (struct mt_memory){
		.rss_bytes = mt_memory_parse(text, "VmRSS"),
		.anon_bytes = mt_memory_parse(text, "RssAnon"),
		.swap_bytes = mt_memory_parse(text, "VmSwap"),
		.pss_bytes = MT_MEMORY_UNKNOWN,
	};
}

void mt_memory_read_pss(pid_t pid, struct mt_memory *ret_memory)
{
	mt_auto(free) char *text = read_text(pid, "smaps_rollup");

	mt_memory_read(pid, ret_memory);
	ret_memory->pss_bytes = mt_memory_parse(text, "Pss");
}
