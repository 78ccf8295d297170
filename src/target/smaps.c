/* SPDX-License-Identifier: MIT */
/*
 * Reading maps, smaps and smaps_rollup. A line that begins with an address is a mapping, a line
 * NAME: value belongs to the mapping above it; all else is counted. After a mapping that cannot be
 * understood its fields belong to nobody, never to the mapping before.
 */

#include "target/smaps.h"

#include "base/alloc.h"
#include "base/file.h"
#include "target/image_process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAPPINGS_MAX = 1 << 22, LOOK_LINES = 64 };
static const size_t TEXT_MAX = (size_t)1 << 30;

static const char *const names[MT_SMAPS_FIELDS] = {
	[MT_SMAPS_RSS] = "Rss",
	[MT_SMAPS_PSS] = "Pss",
	[MT_SMAPS_PSS_DIRTY] = "Pss_Dirty",
	[MT_SMAPS_PSS_ANON] = "Pss_Anon",
	[MT_SMAPS_PSS_FILE] = "Pss_File",
	[MT_SMAPS_PSS_SHMEM] = "Pss_Shmem",
	[MT_SMAPS_SHARED_CLEAN] = "Shared_Clean",
	[MT_SMAPS_SHARED_DIRTY] = "Shared_Dirty",
	[MT_SMAPS_PRIVATE_CLEAN] = "Private_Clean",
	[MT_SMAPS_PRIVATE_DIRTY] = "Private_Dirty",
	[MT_SMAPS_REFERENCED] = "Referenced",
	[MT_SMAPS_ANONYMOUS] = "Anonymous",
	[MT_SMAPS_KSM] = "KSM",
	[MT_SMAPS_LAZY_FREE] = "LazyFree",
	[MT_SMAPS_ANON_HUGE] = "AnonHugePages",
	[MT_SMAPS_SHMEM_HUGE] = "ShmemPmdMapped",
	[MT_SMAPS_FILE_HUGE] = "FilePmdMapped",
	[MT_SMAPS_SHARED_HUGETLB] = "Shared_Hugetlb",
	[MT_SMAPS_PRIVATE_HUGETLB] = "Private_Hugetlb",
	[MT_SMAPS_SWAP] = "Swap",
	[MT_SMAPS_SWAP_PSS] = "SwapPss",
	[MT_SMAPS_LOCKED] = "Locked",
	[MT_SMAPS_DUMPED] = "Dumped",
};

/* Sizes that say nothing new: those of addresses and pages. */
static const char *const ignored[] = {"Size", "KernelPageSize", "MMUPageSize"};

const char *mt_smaps_field_name(enum mt_smaps_field field)
{
	return names[field];
}

/* ---- sums ---- */

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

void mt_smaps_sum_add(struct mt_smaps_sum *to, const struct mt_smaps_sum *of)
{
	to->mappings += of->mappings;
	to->size_bytes = add(to->size_bytes, of->size_bytes);
	to->known |= of->known;
	for (int i = 0; i < MT_SMAPS_FIELDS; i++)
		to->bytes[i] = add(to->bytes[i], of->bytes[i]);
}

uint64_t mt_smaps_uss(const struct mt_smaps_sum *s)
{
	return add(s->bytes[MT_SMAPS_PRIVATE_CLEAN], s->bytes[MT_SMAPS_PRIVATE_DIRTY]);
}

uint64_t mt_smaps_shared(const struct mt_smaps_sum *s)
{
	return add(s->bytes[MT_SMAPS_SHARED_CLEAN], s->bytes[MT_SMAPS_SHARED_DIRTY]);
}

uint64_t mt_smaps_file(const struct mt_smaps_sum *s)
{
	uint64_t rss = s->bytes[MT_SMAPS_RSS], anonymous = s->bytes[MT_SMAPS_ANONYMOUS];

	return rss > anonymous ? rss - anonymous : 0;
}

uint64_t mt_smaps_huge(const struct mt_smaps_sum *s)
{
	static const enum mt_smaps_field parts[] = {MT_SMAPS_ANON_HUGE, MT_SMAPS_SHMEM_HUGE,
						    MT_SMAPS_FILE_HUGE, MT_SMAPS_SHARED_HUGETLB,
						    MT_SMAPS_PRIVATE_HUGETLB};
	uint64_t sum = 0;

	for (size_t i = 0; i < MT_ARRAY_LEN(parts); i++)
		sum = add(sum, s->bytes[parts[i]]);
	return sum;
}

void mt_smaps_total(const struct mt_smaps *s, struct mt_smaps_sum *ret_sum)
{
	*ret_sum = (struct mt_smaps_sum){0};
	for (size_t i = 0; i < s->count; i++)
		mt_smaps_sum_add(ret_sum, &s->mapping[i].sum);
}

/* ---- words of a line; `at` never passes `end` ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static char *skip_blanks(char *at, const char *end)
{
	while (at < end && is_blank(*at))
		at++;
	return at;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* The byte behind a number, or NULL: there is none, or it does not fit. */
static char *take_number(char *at, const char *end, unsigned base, uint64_t *ret)
{
	const char *begin = at;
	uint64_t n = 0;

	for (; at < end && digit_of(*at) < (int)base; at++)
		if (__builtin_mul_overflow(n, base, &n) ||
		    __builtin_add_overflow(n, (uint64_t)digit_of(*at), &n))
			return NULL;
	*ret = n;
	return at > begin ? at : NULL;
}

/* The byte behind the number and the blanks that must follow it. */
static char *take_word(char *at, const char *end, unsigned base, uint64_t *ret)
{
	at = take_number(at, end, base, ret);
	return at && at < end && is_blank(*at) ? skip_blanks(at, end) : NULL;
}

/* Whether a line wants to be a mapping: hexadecimal digits and a dash. */
static bool looks_like_mapping(const char *at, const char *end)
{
	const char *begin = at;

	while (at < end && digit_of(*at) < 16)
		at++;
	return at > begin && at < end && *at == '-';
}

/* ---- a mapping ---- */

static char *take_flags(char *at, const char *end, uint32_t *ret)
{
	static const char letters[] = "rwxs";
	uint32_t flags = 0;

	if (end - at < 5 || !is_blank(at[4]))
		return NULL;
	for (unsigned i = 0; i < 4; i++) {
		if (at[i] == letters[i])
			flags |= 1u << i;
		else if (at[i] != (i < 3 ? '-' : 'p'))
			return NULL;
	}
	*ret = flags;
	return skip_blanks(at + 4, end);
}

/* "7f00-7f10 r-xp 00001000 08:01 1234   /lib/x.so": -EINVAL when it is not that. */
static int take_mapping(char *at, char *end, struct mt_smaps_mapping *ret)
{
	struct mt_smaps_mapping v = {.vm_flags = "", .thp_eligible = -1};
	uint64_t major, minor;

	at = take_number(at, end, 16, &v.m.start);
	if (!at || at == end || *at != '-')
		return -EINVAL;
	at = take_word(at + 1, end, 16, &v.m.end);
	at = at ? take_flags(at, end, &v.m.flags) : NULL;
	at = at ? take_word(at, end, 16, &v.m.offset) : NULL;
	at = at ? take_number(at, end, 16, &major) : NULL;
	if (!at || at == end || *at != ':' || v.m.start >= v.m.end)
		return -EINVAL;
	at = take_word(at + 1, end, 16, &minor);
	at = at ? take_number(at, end, 10, &v.m.inode) : NULL;
	if (!at || (at < end && !is_blank(*at)) || major > 0xfff || minor > 0xfffff)
		return -EINVAL;
	*end = 0;
	v.m.device = (uint32_t)(major << 20 | minor);
	v.m.name = skip_blanks(at, end);
	v.sum.mappings = 1;
	v.sum.size_bytes = v.m.end - v.m.start;
	*ret = v;
	return 0;
}

/* ---- a field ---- */

struct parser {
	struct mt_smaps *s;
	struct mt_smaps_mapping *now; /* whose fields come; NULL: nobody's */
	uint64_t line;
	uint32_t guess; /* the field that comes next: they always have the same order */
};

static void note_bad(struct parser *p, const char *at, const char *end)
{
	struct mt_smaps_doubts *d = &p->s->doubts;

	if (d->bad_lines++)
		return;
	d->first_bad_line = p->line;
	snprintf(d->first_bad_text, sizeof(d->first_bad_text), "%.*s",
		 (int)MT_MIN(end - at, (ptrdiff_t)sizeof(d->first_bad_text)), at);
}

/* "   123 kB": bytes. */
static int take_kib(char *at, const char *end, uint64_t *ret_bytes)
{
	uint64_t kib;

	at = take_word(skip_blanks(at, end), end, 10, &kib);
	if (!at || end - at < 2 || memcmp(at, "kB", 2) || skip_blanks(at + 2, end) != end ||
	    __builtin_mul_overflow(kib, 1024u, ret_bytes))
		return -EINVAL;
	return 0;
}

static bool is_word(const char *name, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(name, word, len);
}

static int find_field(struct parser *p, const char *name, size_t len)
{
	for (uint32_t i = 0; i < MT_SMAPS_LINES; i++) {
		uint32_t at = (p->guess + i) % MT_SMAPS_LINES;

		if (is_word(name, len, names[at])) {
			p->guess = at + 1;
			return (int)at;
		}
	}
	return -ENOENT;
}

static bool is_ignored(const char *name, size_t len)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(ignored); i++)
		if (is_word(name, len, ignored[i]))
			return true;
	return false;
}

/* The lines that are no sizes. 0; -EINVAL: broken; -ENOENT: another name. */
static int take_other(struct mt_smaps_mapping *v, const char *name, size_t len, char *at, char *end)
{
	uint64_t number;

	at = skip_blanks(at, end);
	if (is_word(name, len, "VmFlags")) {
		*end = 0;
		v->vm_flags = at;
		return 0;
	}
	if (is_ignored(name, len))
		return take_kib(at, end, &number);
	if (!is_word(name, len, "THPeligible") && !is_word(name, len, "ProtectionKey"))
		return -ENOENT;
	at = take_number(at, end, 10, &number);
	if (!at || skip_blanks(at, end) != end)
		return -EINVAL;
	if (*name == 'T')
		v->thp_eligible = number != 0;
	return 0;
}

static void note_unknown(struct parser *p, const char *name, size_t len)
{
	struct mt_smaps_doubts *d = &p->s->doubts;

	if (!d->unknown_fields++)
		snprintf(d->first_unknown_name, sizeof(d->first_unknown_name), "%.*s",
			 (int)MT_MIN(len, sizeof(d->first_unknown_name)), name);
}

/* Letters, digits and underlines up to a colon. 0: no name. */
static size_t field_name_len(const char *at, const char *end)
{
	const char *begin = at;

	while (at < end && (digit_of(*at) < 10 || *at == '_' || (*at >= 'a' && *at <= 'z') ||
			    (*at >= 'A' && *at <= 'Z')))
		at++;
	return at < end && *at == ':' ? (size_t)(at - begin) : 0;
}

static void take_field(struct parser *p, char *at, char *end)
{
	size_t len = field_name_len(at, end);
	struct mt_smaps_sum *sum;
	uint64_t bytes;
	int field, code;

	if (!len || !p->now) {
		note_bad(p, at, end);
		return;
	}
	field = find_field(p, at, len);
	if (field < 0) {
		code = take_other(p->now, at, len, at + len + 1, end);
		if (code == -ENOENT)
			note_unknown(p, at, len);
		else if (code)
			note_bad(p, at, end);
		return;
	}
	sum = &p->now->sum;
	if (take_kib(at + len + 1, end, &bytes)) {
		note_bad(p, at, end);
	} else if (sum->known >> field & 1) {
		p->s->doubts.repeated_fields++;
	} else {
		sum->known |= 1u << field;
		sum->bytes[field] = bytes;
	}
}

/* ---- the text ---- */

static int add_mapping(struct parser *p, const struct mt_smaps_mapping *v)
{
	struct mt_smaps *s = p->s;
	struct mt_smaps_mapping *grown;

	if (s->count == MAPPINGS_MAX)
		return -E2BIG;
	grown = mt_alloc_grow(s->mapping, &s->capacity, s->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->mapping = grown;
	if (s->count && v->m.start < grown[s->count - 1].m.end)
		s->doubts.disordered++;
	p->now = &grown[s->count];
	p->guess = 0;
	grown[s->count++] = *v;
	return 0;
}

/* `end` is the newline, or the NUL behind the text: it may be overwritten. */
static int take_line(struct parser *p, char *at, char *end)
{
	struct mt_smaps_mapping v;

	p->line++;
	if (end > at && end[-1] == '\r') /* saved by a terminal, as adb's */
		*--end = 0;
	if (at == end)
		return 0;
	if (memchr(at, 0, (size_t)(end - at))) {
		p->now = looks_like_mapping(at, end) ? NULL : p->now;
		note_bad(p, at, end);
	} else if (!looks_like_mapping(at, end)) {
		take_field(p, at, end);
	} else if (!take_mapping(at, end, &v)) {
		return add_mapping(p, &v);
	} else {
		p->now = NULL;
		note_bad(p, at, end);
	}
	return 0;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Names that only Android gives. */
static bool is_android_name(const char *name)
{
	static const char *const marks[] = {
		"/apex/",        "/system/lib",        "/system/bin/",
		"/system/etc/",  "/system/framework/", "/dev/__properties__",
		"[anon:dalvik-", "[anon:libc_malloc]", "[anon:stack_and_tls:"};

	for (size_t i = 0; i < MT_ARRAY_LEN(marks); i++)
		if (begins(name, marks[i]))
			return true;
	return false;
}

static void finish(struct mt_smaps *s)
{
	uint32_t known = 0;

	for (size_t i = 0; i < s->count; i++) {
		known |= s->mapping[i].sum.known;
		s->is_android |= is_android_name(s->mapping[i].m.name);
		if (!strcmp(s->mapping[i].m.name, "[rollup]")) {
			s->kind = MT_SMAPS_ROLLUP;
			s->mapping[i].sum.size_bytes = 0; /* its addresses span what lies between */
		}
	}
	if (known && s->kind == MT_SMAPS_MAPS)
		s->kind = MT_SMAPS_FULL;
	for (size_t i = 0; i < s->count; i++)
		s->doubts.incomplete += s->mapping[i].sum.known != known;
}

static int parse(struct mt_smaps *s, size_t len)
{
	struct parser p = {.s = s};
	char *at = s->text, *end = at + len;

	while (at < end) {
		char *line_end = memchr(at, '\n', (size_t)(end - at));
		uint64_t bad = s->doubts.bad_lines;
		size_t count = s->count;
		char *stop = line_end ? line_end : end;
		int code = take_line(&p, at, stop);

		if (code)
			return code;
		if (!line_end)
			s->doubts.is_cut = bad != s->doubts.bad_lines || count != s->count;
		at = stop + 1;
	}
	finish(s);
	return 0;
}

int mt_smaps_parse(char *text, size_t len, const char *name, struct mt_smaps *ret_smaps,
		   struct mt_err *err)
{
	struct mt_smaps s = {.text = text};
	int code = parse(&s, len);

	if (code == -E2BIG)
		mt_err_set(err, code, "cannot read '%s': it has more than %d mappings", name,
			   (int)MAPPINGS_MAX);
	else if (code)
		mt_err_no_memory(err);
	else if (!s.count && s.doubts.bad_lines)
		code = mt_err_set(err, -EINVAL,
				  "'%s', line %" PRIu64
				  ": '%s' is no line of maps, smaps or smaps_rollup",
				  name, s.doubts.first_bad_line, s.doubts.first_bad_text);
	else if (!s.count)
		code = mt_err_set(err, -EINVAL, "'%s' is empty: there is no mapping in it", name);
	if (code)
		mt_smaps_done(&s);
	else
		*ret_smaps = s;
	return code;
}

void mt_smaps_done(struct mt_smaps *s)
{
	if (!s)
		return;
	free(s->mapping);
	free(s->text);
	*s = (struct mt_smaps){0};
}

/* ---- where texts come from ---- */

static int explain(pid_t pid, const char *path, int code, struct mt_err *err)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "/proc/%d", (int)pid);
	if (code == -ESRCH || (code == -ENOENT && access(folder, F_OK)))
		return mt_err_set(err, -ESRCH, "there is no process %d", (int)pid);
	if (code == -EACCES || code == -EPERM)
		return mt_err_set(err, -EACCES,
				  "the memory of process %d may not be looked at: that takes its "
				  "user, or root",
				  (int)pid);
	if (code == -ENOENT)
		return mt_err_set(err, code, "this kernel has no '%s'", path);
	return code == -ENOMEM ? mt_err_no_memory(err)
			       : mt_err_set_errno(err, code, "cannot read '%s'", path);
}

int mt_smaps_text(pid_t pid, enum mt_smaps_kind kind, char **ret_text, size_t *ret_len,
		  struct mt_err *err)
{
	static const char *const files[] = {"maps", "smaps", "smaps_rollup"};
	char path[64];
	int code;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, files[kind]);
	code = pid > 0 ? mt_file_read(path, TEXT_MAX, ret_text, ret_len, NULL) : -ESRCH;
	if (code)
		return explain(pid, path, code, err);
	if (!*ret_len) {
		free(*ret_text);
		*ret_text = NULL;
		if (mt_image_refuse_headless(pid, err))
			return -ESRCH;
		return mt_err_set(err, -ESRCH,
				  "process %d has no memory of its own: it has ended, or belongs "
				  "to the kernel",
				  (int)pid);
	}
	return 0;
}

int mt_smaps_read(pid_t pid, enum mt_smaps_kind kind, struct mt_smaps *ret_smaps,
		  struct mt_err *err)
{
	char name[64], *text;
	size_t len;
	int code = mt_smaps_text(pid, kind, &text, &len, err);

	if (code)
		return code;
	snprintf(name, sizeof(name), "process %d", (int)pid);
	return mt_smaps_parse(text, len, name, ret_smaps, err);
}

int mt_smaps_read_file(const char *path, struct mt_smaps *ret_smaps, struct mt_err *err)
{
	char *text;
	size_t len;
	int code = mt_file_read(path, TEXT_MAX, &text, &len, err);

	return code ? code : mt_smaps_parse(text, len, path, ret_smaps, err);
}

bool mt_smaps_is_text(const char *text, size_t len)
{
	const char *end = text + len;

	for (int i = 0; i < LOOK_LINES && text < end; i++) {
		const char *line_end = memchr(text, '\n', (size_t)(end - text));

		if (looks_like_mapping(text, line_end ? line_end : end))
			return true;
		text = line_end ? line_end + 1 : end;
	}
	return false;
}

/* ---- doubts ---- */

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void tell_lines(const struct mt_smaps_doubts *d,
		       void (*emit)(void *context, const char *sentence), void *context)
{
	char text[256];

	if (d->bad_lines) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " line%s could not be understood, first line %" PRIu64 ": '%s'",
			 d->bad_lines, plural(d->bad_lines), d->first_bad_line, d->first_bad_text);
		emit(context, text);
	}
	if (d->is_cut)
		emit(context, "the last line has no end: the text was cut");
	if (d->repeated_fields) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " field%s given twice for a mapping: the first one counts",
			 d->repeated_fields, d->repeated_fields == 1 ? " is" : "s are");
		emit(context, text);
	}
}

void mt_smaps_tell_doubts(const struct mt_smaps *s,
			  void (*emit)(void *context, const char *sentence), void *context)
{
	const struct mt_smaps_doubts *d = &s->doubts;
	char text[256];

	tell_lines(d, emit, context);
	if (d->unknown_fields) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " line%s of fields that are not known here, as '%s'",
			 d->unknown_fields, plural(d->unknown_fields), d->first_unknown_name);
		emit(context, text);
	}
	if (d->incomplete) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " mapping%s fields that others have, which count as 0 there",
			 d->incomplete, d->incomplete == 1 ? " lacks" : "s lack");
		emit(context, text);
	}
	if (d->disordered) {
		snprintf(text, sizeof(text),
			 "%" PRIu64 " mapping%s before the end of the one above: texts of several "
			 "processes, or a changed one",
			 d->disordered, d->disordered == 1 ? " begins" : "s begin");
		emit(context, text);
	}
}
