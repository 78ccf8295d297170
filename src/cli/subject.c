/* SPDX-License-Identifier: MIT */
/* Mappings from wherever they come, and rows of them. */

#include "cli/subject.h"

#include "base/alloc.h"
#include "base/file.h"
#include "cli/any_process.h"
#include "target/smaps_core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

void mt_subject_done(struct mt_subject *u)
{
	if (!u)
		return;
	mt_account_done(&u->account);
	mt_vma_process_done(&u->process);
	mt_smaps_done(&u->s);
	mt_heap_ranges_done(&u->heap);
	mt_image_close(u->core);
}

int mt_subject_open_process(struct mt_subject *u, pid_t pid, struct mt_err *err)
{
	int code;

	u->pid = pid;
	mt_any_process_name(pid, u->name, sizeof(u->name));
	mt_vma_process_init(&u->process, pid);
	code = mt_smaps_read(pid, MT_SMAPS_FULL, &u->s, err);
	if (code)
		return code;
	return mt_vma_process_find_java(&u->process, &u->s) ? mt_err_no_memory(err) : 0;
}

bool mt_subject_is_core(const char *path)
{
	mt_auto(close) int fd = -1;
	char magic[SELFMAG];
	struct stat st;

	/* who writes into a pipe must not see it opened and closed */
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	return fd >= 0 && mt_file_pread(fd, magic, sizeof(magic), 0) == (ssize_t)sizeof(magic) &&
	       !memcmp(magic, ELFMAG, SELFMAG);
}

static int open_core(struct mt_subject *u, const char *path, struct mt_err *err)
{
	int code = mt_image_open_core(path, &u->core, &u->core_note);

	if (code) {
		*err = u->core_note;
		return code;
	}
	if (mt_smaps_of_core(u->core, &u->s) || mt_java_find_in(u->core, &u->s, &u->process.java))
		return mt_err_no_memory(err);
	return 0;
}

int mt_subject_open_file(struct mt_subject *u, const char *path, struct mt_err *err)
{
	snprintf(u->name, sizeof(u->name), "%s", path);
	return mt_subject_is_core(path) ? open_core(u, path, err)
					: mt_smaps_read_file(path, &u->s, err);
}

int mt_subject_find_heap(struct mt_subject *u, struct mt_err *err)
{
	int code = u->core  ? mt_heap_ranges_of(u->core, &u->heap)
		   : u->pid ? mt_heap_ranges_of_process(u->pid, &u->s, &u->heap)
			    : 0;

	if (code)
		return mt_err_no_memory(err);
	mt_heap_ranges_give(&u->heap, &u->process.facts);
	return 0;
}

/* ---- rows ---- */

static int make_account(struct mt_subject *u, const struct mt_subject_rows *how,
			const struct mt_vma_facts *facts, struct mt_err *err)
{
	mt_auto(free) struct mt_vma_label *labels = NULL;
	struct mt_vma_facts f = *facts;

	f.rules = mt_vma_rules_of(&u->s, how->rules);
	if (mt_vma_classify(&u->s, &f, &labels) ||
	    mt_account_make(&u->s, labels, f.rules, how->by, &u->account))
		return mt_err_no_memory(err);
	mt_account_summary(&u->s, labels, &u->app);
	return 0;
}

static size_t read_core(void *context, uint64_t address, void *to, size_t bytes)
{
	return mt_image_read(context, address, to, bytes);
}

/* The account of a core file, which tells of threads and heaps itself. */
static int make_core_account(struct mt_subject *u, const struct mt_subject_rows *how,
			     struct mt_err *err)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(u->core, &count);
	mt_auto(free) uint64_t *sp = mt_alloc_zero(count + 1, sizeof(*sp));
	const char *program = mt_image_facts(u->core)->program;
	struct mt_vma_facts f = {
		.program = *program == '/' ? program : NULL,
		.sp = sp,
		.sp_count = count,
		.java_start = u->process.java.start,
		.java_end = u->process.java.end,
		.read = read_core,
		.context = u->core,
	};

	if (!sp)
		return mt_err_no_memory(err);
	mt_heap_ranges_give(&u->heap, &f);
	for (size_t i = 0; i < count; i++)
		sp[i] = t[i].sp;
	return make_account(u, how, &f, err);
}

static const struct mt_mapping *find_named(const struct mt_smaps *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->mapping[i].m.name, name))
			return &s->mapping[i].m;
	return NULL;
}

/*
 * Whether a saved text is of this very process: program and stack at the same random addresses.
 * What is known of the process then holds for the text, too.
 */
static bool is_same_process(const struct mt_subject *u, const struct mt_smaps *old)
{
	const struct mt_mapping *program = find_named(&u->s, u->process.program);
	const struct mt_mapping *old_program = find_named(old, u->process.program);
	const struct mt_mapping *stack = find_named(&u->s, "[stack]");
	const struct mt_mapping *old_stack = find_named(old, "[stack]");

	return u->pid && program && old_program && program->start == old_program->start && stack &&
	       old_stack && stack->end == old_stack->end;
}

static int make_one(struct mt_subject *u, const struct mt_subject_rows *how,
		    const struct mt_vma_facts *facts, struct mt_err *err)
{
	return u->core ? make_core_account(u, how, err) : make_account(u, how, facts, err);
}

int mt_subject_make_rows(struct mt_subject *u, struct mt_subject *old,
			 const struct mt_subject_rows *how, struct mt_err *err)
{
	const struct mt_vma_facts none = {0};
	const struct mt_vma_facts *facts = u->pid ? &u->process.facts : &none;
	int code = 0;

	if (old) {
		if (!is_same_process(u, &old->s))
			facts = &none;
		code = make_one(old, how, facts, err);
	}
	if (!code)
		code = make_one(u, how, facts, err);
	if (!code && old && mt_account_compare(&u->account, &old->account))
		code = mt_err_no_memory(err);
	return code;
}
