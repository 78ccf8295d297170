/* SPDX-License-Identifier: MIT */
/* Counters of /proc/PID/status, and sums of smaps_rollup for lists. */

#include "target/status.h"

#include "base/file.h"
#include "target/memory.h"
#include "target/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 20 };

static const char *const names[MT_STATUS_FIELDS] = {
	[MT_STATUS_VM_SIZE] = "VmSize",     [MT_STATUS_VM_PEAK] = "VmPeak",
	[MT_STATUS_RSS] = "VmRSS",          [MT_STATUS_RSS_PEAK] = "VmHWM",
	[MT_STATUS_RSS_ANON] = "RssAnon",   [MT_STATUS_RSS_FILE] = "RssFile",
	[MT_STATUS_RSS_SHMEM] = "RssShmem", [MT_STATUS_SWAP] = "VmSwap",
	[MT_STATUS_PAGE_TABLES] = "VmPTE",  [MT_STATUS_LOCKED] = "VmLck",
};

const char *mt_status_name(enum mt_status_field field)
{
	return names[field];
}

void mt_status_parse(const char *text, struct mt_status *ret_status)
{
	const char *threads = strstr(text, "\nThreads:");

	*ret_status = (struct mt_status){0};
	for (int i = 0; i < MT_STATUS_FIELDS; i++)
		ret_status->bytes[i] = mt_memory_parse(text, names[i]);
	if (threads)
		ret_status->threads = strtoull(threads + strlen("\nThreads:"), NULL, 10);
}

int mt_status_read(pid_t pid, struct mt_status *ret_status)
{
	mt_auto(free) char *text = NULL;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	if (mt_file_read(path, TEXT_MAX, &text, &len, NULL))
		return -ESRCH;
	mt_status_parse(text, ret_status);
	return 0;
}

static void set(struct mt_smaps_sum *sum, enum mt_smaps_field field, uint64_t bytes)
{
	if (bytes == MT_MEMORY_UNKNOWN)
		return;
	sum->bytes[field] = bytes;
	sum->known |= 1u << field;
}

void mt_usage_of_status(const struct mt_status *st, struct mt_smaps_sum *ret_sum)
{
	*ret_sum = (struct mt_smaps_sum){.mappings = 0};
	if (st->bytes[MT_STATUS_VM_SIZE] != MT_MEMORY_UNKNOWN)
		ret_sum->size_bytes = st->bytes[MT_STATUS_VM_SIZE];
	set(ret_sum, MT_SMAPS_RSS, st->bytes[MT_STATUS_RSS]);
	set(ret_sum, MT_SMAPS_ANONYMOUS, st->bytes[MT_STATUS_RSS_ANON]);
	set(ret_sum, MT_SMAPS_SWAP, st->bytes[MT_STATUS_SWAP]);
}

/* Words of the command line, separated by blanks. */
static void read_name(pid_t pid, char *name, size_t bytes)
{
	mt_auto(free) char *text = NULL;
	struct mt_process p;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	if (!mt_file_read(path, TEXT_MAX, &text, &len, NULL) && len && *text) {
		while (len && !text[len - 1])
			len--;
		for (size_t i = 0; i < len; i++)
			text[i] = text[i] ? text[i] : ' ';
		snprintf(name, bytes, "%s", text);
		return;
	}
	snprintf(name, bytes, "[%s]", mt_process_read(pid, &p) ? "?" : p.name);
}

int mt_usage_read(pid_t pid, struct mt_usage *ret_usage)
{
	mt_auto(mt_smaps) struct mt_smaps s = {0};
	struct mt_usage u = {.pid = pid};
	struct mt_status st;
	int code = mt_smaps_read(pid, MT_SMAPS_ROLLUP, &s, NULL);

	if (code == -ENOENT || code == -EINVAL)
		code = mt_smaps_read(pid, MT_SMAPS_FULL, &s, NULL);
	if (code == -ENOMEM || code == -ESRCH)
		return code;
	if (mt_status_read(pid, &st) || st.bytes[MT_STATUS_VM_SIZE] == MT_MEMORY_UNKNOWN)
		return -ESRCH;
	if (code) {
		mt_usage_of_status(&st, &u.sum);
		u.is_partial = true;
	} else {
		mt_smaps_total(&s, &u.sum);
		u.sum.size_bytes = st.bytes[MT_STATUS_VM_SIZE];
	}
	read_name(pid, u.name, sizeof(u.name));
	*ret_usage = u;
	return 0;
}
