/* SPDX-License-Identifier: MIT */
/*
 * Names of frames with and without a symbolizer, and words for the state file's numbers. The
 * numbers are part of the file format and never change; tests/cli compares them with wire/state.h.
 */

#include "analysis/names.h"

#include "analysis/ends.h"
#include "core/cc.h"
#include "model/profile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *mt_names_base(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *base = slash && slash[1] ? slash + 1 : path;
	return *base ? base : "?";
}

uint32_t mt_names_frames(const struct mt_names *names, const struct mt_profile *p, uint32_t node,
			 struct mt_name *ret, uint32_t max)
{
	const struct mt_profile_node *n = &p->node[node];
	uint32_t count = 0;

	if (!max || node >= p->node_count)
		return 0;
	if (n->kind == MT_FRAME_SOURCE) {
		ret[0] = (struct mt_name){.file = n->source_file, .line = n->source_line};
		return 1;
	}
	if (names && names->frames)
		count = MT_MIN(names->frames(names->context, p, node, ret, max), max);
	if (count || !p->given_name || !p->given_name[node])
		return count;
	ret[0] = (struct mt_name){.function = p->given_name[node]};
	return 1;
}

char *mt_names_place(const struct mt_profile *p, uint32_t node, bool full_path, char *buf,
		     size_t len)
{
	const struct mt_profile_node *n = &p->node[node];

	if (n->kind == MT_FRAME_SOURCE) {
		snprintf(buf, len, "%s:%" PRIu32, n->source_file ? n->source_file : "?",
			 n->source_line);
	} else if (n->module && n->module < p->module_count) {
		const struct mt_profile_module *m = &p->module[n->module];
		const char *path = full_path && *m->path ? m->path : mt_names_base(m->path);

		/* pc - 1 lies inside the calling instruction, which is what a symbolizer wants */
		snprintf(buf, len, "%s+0x%" PRIx64, path, n->pc - 1 - m->bias);
	} else {
		snprintf(buf, len, "0x%" PRIx64, n->pc ? n->pc - 1 : 0);
	}
	return buf;
}

char *mt_names_function(const struct mt_names *names, const struct mt_profile *p, uint32_t node,
			char *buf, size_t len)
{
	struct mt_name name[MT_NAMES_MAX];
	uint32_t count = mt_names_frames(names, p, node, name, MT_NAMES_MAX);

	if (count && name[0].function)
		snprintf(buf, len, "%s", name[0].function);
	else if (count && name[0].file)
		snprintf(buf, len, "%s:%" PRIu32, name[0].file, name[0].line);
	else
		mt_names_place(p, node, false, buf, len);
	return buf;
}

static const char *word(const char *const *words, size_t count, uint32_t at, const char *otherwise)
{
	return at < count && words[at] ? words[at] : otherwise;
}

const char *mt_words_call(uint32_t call)
{
	static const char *const words[] = {
		[1] = "malloc",
		[2] = "calloc",
		[3] = "realloc",
		[4] = "aligned allocation",
		[5] = "operator new",
		[6] = "operator new[]",
		[7] = "mmap",
		[8] = "mremap",
		[9] = "sbrk",
		[10] = "custom heap",
		[11] = "strdup",
		[12] = "free",
		[13] = "operator delete",
		[14] = "operator delete[]",
		[15] = "malloc_usable_size",
	};
	return word(words, MT_ARRAY_LEN(words), call, "allocation");
}

const char *mt_words_mode(uint32_t mode)
{
	static const char *const words[] = {[0] = "off",    [1] = "full",  [2] = "stats",
					    [3] = "sample", [4] = "check", [5] = "record"};
	return word(words, MT_ARRAY_LEN(words), mode, "unknown");
}

const char *mt_words_error(uint32_t kind)
{
	static const char *const words[] = {
		[1] = "heap buffer overflow", [2] = "heap buffer underflow",
		[3] = "use after free",       [4] = "double free",
		[5] = "invalid free",         [6] = "wild access",
		[7] = "mismatched free",      [8] = "overwritten block header",
	};
	return word(words, MT_ARRAY_LEN(words), kind, "unknown error");
}

const char *mt_words_error_key(uint32_t kind)
{
	static const char *const keys[] = {
		[1] = "overflow",        [2] = "underflow",    [3] = "use-after-free",
		[4] = "double-free",     [5] = "invalid-free", [6] = "wild-access",
		[7] = "mismatched-free", [8] = "header",
	};
	return word(keys, MT_ARRAY_LEN(keys), kind, "unknown");
}

const char *mt_words_stack_end(uint32_t end)
{
	static const char *const words[] = {
		[MT_PROFILE_END_COMPLETE] = "complete",
		[MT_PROFILE_END_DEPTH] = "cut at the depth limit",
		[MT_PROFILE_END_NO_INFO] = "code without unwind information",
		[MT_PROFILE_END_UNSUPPORTED] = "unwind rule not supported",
		[MT_PROFILE_END_UNREADABLE] = "next frame outside the stack",
		[MT_END_GENERATED] = "code made at run time (JIT), in no file",
	};
	return word(words, MT_ARRAY_LEN(words), end, "not recorded");
}

const char *mt_words_lost(uint32_t index)
{
	static const char *const words[] = {
		[0] = "events made while the tracker was at work in the same thread",
		[1] = "allocations counted in the totals but not as live blocks (block table "
		      "full): what is called live is an upper bound",
		[2] = "allocations counted in the totals only (stack or site table full)",
		[3] = "events of threads without a row (thread table full): they are in no total",
		[4] = "allocations not recorded because the system gave no storage",
		[5] = "mappings not recorded (mapping table full)",
		[6] = "child processes that could not be followed",
		[7] = "events dropped because a lock was not free in time",
		[8] = "modules not recorded (module table full)",
		[9] = "allocations before the tracker was ready",
		[10] = "size histograms not kept (table full)",
		[11] = ("blocks were freed out of sight; found when their address was handed "
			"out again"),
		[12] = "events that may be half recorded: a signal handler jumped out of them",
		[13] = "times a label was set in vain (label table full): what followed has none",
		[14] = "times a name could not be recorded (name table full)",
		[15] = "times a heap was registered in vain (heap table full): its blocks are "
		       "missing",
	};
	return word(words, MT_ARRAY_LEN(words), index,
		    "events lost for a reason this version does not know");
}

const char *mt_words_note(uint32_t bit)
{
	static const char *const words[] = {
		[0] = "recording of new blocks stopped early: no storage was left for the "
		      "tracker's tables",
		[1] = "the program has its own malloc inside: calls it makes to it directly are "
		      "not seen",
		[2] = "forks are noticed by comparing process ids, because the kernel does not "
		      "clear memory in children",
		[3] = "modules that libc loads by itself may have been noticed late",
		[4] = "more than one thread allocated: peaks are known within a bound",
		[5] = "a resource limit (RLIMIT_AS or RLIMIT_FSIZE) made the tracker's tables "
		      "smaller",
		[6] = "started by fork: blocks inherited from the parent process are not known "
		      "here",
		[7] = "--max-overhead is used up: the tracker's tables do not grow any more",
		[8] = "counting was off for a time: live numbers of the statistics lack what "
		      "passed meanwhile",
		[9] = "--guard-sampled had no effect: the allocator is not the C library's own, or "
		      "there was no memory for the pool",
		[10] = "the allocator may not be asked for usable sizes (AddressSanitizer): "
		       "statistics count blocks, but no bytes",
	};
	return word(words, MT_ARRAY_LEN(words), bit, NULL);
}

bool mt_words_note_is_warning(uint32_t bit)
{
	enum { NO_WIPEONFORK = 2, PEAK_BOUNDED = 4 };

	return mt_words_note(bit) && bit != NO_WIPEONFORK && bit != PEAK_BOUNDED;
}

char *mt_words_end(uint32_t end_kind, int32_t end_code, char *buf, size_t len)
{
	const char *abbrev;

	switch (end_kind) {
	case 0:
		snprintf(buf, len, "is running");
		break;
	case 1:
		snprintf(buf, len, "exited with status %" PRId32, end_code);
		break;
	case 2:
		abbrev = sigabbrev_np(end_code);
		if (abbrev)
			snprintf(buf, len, "was killed by signal %" PRId32 " (SIG%s)", end_code,
				 abbrev);
		else
			snprintf(buf, len, "was killed by signal %" PRId32, end_code);
		break;
	case 3:
		snprintf(buf, len, "became another program (exec)");
		break;
	case 5:
		snprintf(buf, len, "was running when this snapshot was taken");
		break;
	default:
		snprintf(buf, len, "ended, nobody saw how");
	}
	return buf;
}
