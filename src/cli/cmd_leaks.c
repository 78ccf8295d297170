/* SPDX-License-Identifier: MIT */
/* memtrack leaks: blocks of a process or a core file that nothing can reach any more. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/leak_search.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/report_options.h"
#include "cli/run_looks.h"

#include "base/alloc.h"
#include "base/map.h"
#include "core/cc.h"
#include "report/leaks.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

struct leaks_options {
	int is_json, roots, tagged;
	uint64_t top, stack, error_exitcode;
	bool contents, no_interior, unaligned;
	bool no_symbols, no_cache, debuginfod, no_builtin_suppressions, verbose, answer;
	struct mt_text_list symbol_dirs, suppressions;
	const char *output, *state;
};

static const struct leaks_options defaults = {.top = UINT64_MAX, .stack = UINT64_MAX};

enum { ROOTS_ALL, ROOTS_STRICT, ANSWER_S = 40 };
enum { LOOKS_MAX = 3 }; /* where the heap seems to be damaged */
enum { TAGGED_NONE, TAGGED_TOP, TAGGED_LOW, TAGGED_BOTH };

static const struct mt_option options[] = {
	{.name = "top",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct leaks_options, top),
	 .max = 1000000000,
	 .help = "leaks to list; 0 lists all (default 20 in text, all in JSON)"},
	{.name = "limit",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct leaks_options, top),
	 .max = 1000000000,
	 .is_synonym = true,
	 .help = "the same as --top=N"},
	{.name = "contents",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct leaks_options, contents),
	 .help = "show the first 32 bytes of each leak"},
	{.name = "roots",
	 .argument = "WHICH",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct leaks_options, roots),
	 .choices = "all|strict",
	 .help = "where pointers count: all (the default; also mappings that the program made "
		 "itself), or strict (globals, stacks, registers and thread-local memory, as "
		 "LeakSanitizer)"},
	{.name = "no-interior",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct leaks_options, no_interior),
	 .help = "only pointers to the start of a block hold it"},
	{.name = "tagged",
	 .argument = "BITS",
	 .kind = MT_OPTION_CHOICE,
	 .offset = offsetof(struct leaks_options, tagged),
	 .choices = "none|top|low|both",
	 .help = "pointers may hold something else in their top byte, in their low three bits, "
		 "or in both (default none)"},
	{.name = "unaligned",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct leaks_options, unaligned),
	 .help = "pointers may lie at any address, not at multiples of 8 only; slower"},
	{.name = "state",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct leaks_options, state),
	 .help = "what was recorded of the process of a core file: exact sizes, and call stacks"},
	{.name = "stack",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct leaks_options, stack),
	 .max = MT_REPORT_STACK_MAX,
	 .help = "frames of each call stack to show (default 16 in text, all in JSON)"},
	MT_SYMBOL_OPTION_ENTRIES(struct leaks_options, ),
	{.name = "suppressions",
	 .argument = "FILE",
	 .kind = MT_OPTION_LIST,
	 .offset = offsetof(struct leaks_options, suppressions),
	 .help = "leave out leaks that match, in LeakSanitizer's or Valgrind's format; may be "
		 "given again"},
	{.name = "no-builtin-suppressions",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct leaks_options, no_builtin_suppressions),
	 .help = "list also memory that libc and libstdc++ lose by design"},
	{.name = "error-exitcode",
	 .argument = "N",
	 .kind = MT_OPTION_NUMBER,
	 .offset = offsetof(struct leaks_options, error_exitcode),
	 .max = 255,
	 .help = "exit with N when a block is lost"},
	{.name = "json",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct leaks_options, is_json),
	 .set_value = 1,
	 .help = "write JSON"},
	{.name = "answer",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct leaks_options, answer),
	 .help = "the operand is the state file of a process that waits for this search: store the "
		 "result there and print nothing; libmemtrack calls this"},
	{.letter = 'v',
	 .name = "verbose",
	 .kind = MT_OPTION_FLAG,
	 .offset = offsetof(struct leaks_options, verbose),
	 .help = "list all files whose symbols cannot be used"},
	{.letter = 'o',
	 .name = "output",
	 .argument = "FILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct leaks_options, output),
	 .help = "write to FILE instead of standard output"},
	{0},
};

/* All that the command needs. */
struct search {
	const struct leaks_options *o;
	const char *operand;
	struct mt_leak_search s;
	/* contents of leaks, copied: the process does not stand still for the symbols */
	uint8_t (*contents)[MT_LEAKS_CONTENTS_MAX]; /* owned */
	struct mt_leaks_site *sites;                /* owned */
	size_t site_count;
	struct mt_map contents_at; /* address -> index in contents + 1 */
};

static void search_done(struct search *s)
{
	mt_leak_search_done(&s->s);
	mt_map_done(&s->contents_at);
	free(s->contents);
	free(s->sites);
}
MT_AUTO_DEFINE_INPLACE(search, struct search, search_done)

/* ---- what is looked at ---- */

static int choose(struct search *s, struct mt_err *err)
{
	int code = mt_any_process(s->operand, &s->s.pid, err);

	if (code < 0)
		return code;
	if (!code) {
		s->s.core = s->operand;
		s->s.state = s->o->state ? strdup(s->o->state) : NULL;
		return s->o->state && !s->s.state ? mt_err_no_memory(err) : 0;
	}
	if (s->o->state)
		return mt_err_set(err, -EINVAL, "--state is for core files only");
	return mt_live_state_of(s->s.pid, &s->s.state, err);
}

/* ---- the search ---- */

static uint32_t flags_of(const struct leaks_options *o)
{
	return (o->no_interior ? 0 : MT_MARK_INTERIOR) | (o->unaligned ? MT_MARK_UNALIGNED : 0) |
	       (o->tagged == TAGGED_TOP || o->tagged == TAGGED_BOTH ? MT_MARK_TOP_BYTE : 0) |
	       (o->tagged == TAGGED_LOW || o->tagged == TAGGED_BOTH ? MT_MARK_LOW_BITS : 0);
}

static int copy_contents(struct search *s)
{
	const struct mt_fold *fold = &s->s.find.fold;

	s->contents = mt_alloc_zero(fold->leaks, sizeof(*s->contents));
	if (!s->contents)
		return -ENOMEM;
	for (size_t i = 0; i < fold->leaks; i++) {
		uint64_t at = s->s.find.block[fold->leak[i].block].start;

		if (mt_image_read(s->s.im, at, s->contents[i], MT_LEAKS_CONTENTS_MAX) &&
		    mt_map_set(&s->contents_at, at, i + 1))
			return -ENOMEM;
	}
	return 0;
}

static size_t read_contents(void *context, uint64_t address, void *to, size_t bytes)
{
	struct search *s = context;
	uint64_t at;

	if (!mt_map_get(&s->contents_at, address, &at))
		return 0;
	memcpy(to, s->contents[at - 1], bytes);
	return bytes;
}

static int look(struct search *s, struct mt_err *err)
{
	int code = mt_leak_search_open(&s->s, err);

	if (!code && s->s.note.text[0])
		mt_complain("%s", s->s.note.text);
	if (code)
		return code;
	return mt_leak_search_run(&s->s, flags_of(s->o), s->o->roots == ROOTS_STRICT, err);
}

static int find_leaks(struct search *s, struct mt_err *err)
{
	int code;

	s->s.wants_cost = true;
	code = look(s, err);
	for (int n = 1; !code && n < LOOKS_MAX && mt_leak_search_is_doubtful(&s->s); n++) {
		mt_leak_search_again(&s->s);
		code = look(s, err);
	}
	if (!code && s->o->contents && copy_contents(s))
		code = mt_err_no_memory(err);
	if (!code)
		mt_leak_search_let_go(&s->s);
	return code;
}

/* ---- the report ---- */

struct suppressing {
	struct mt_suppress_context context;
	const struct mt_profile *profile;
};

static bool is_suppressed(void *context, uint64_t stack)
{
	struct suppressing *s = context;

	return stack < s->profile->site_count &&
	       mt_load_is_suppressed(&s->context, s->profile, (uint32_t)stack);
}

static int name_sites(struct search *s, struct mt_report *ret_sites, struct mt_err *err)
{
	const struct leaks_options *o = s->o;
	struct mt_load_symbols symbols = {
		.dirs = &o->symbol_dirs,
		.no_cache = o->no_cache,
		.debuginfod = o->debuginfod,
		.warnings = o->verbose ? MT_LOAD_WARN_ALL : MT_LOAD_WARN_SOME,
	};
	mt_auto(mt_suppressions) struct mt_suppressions *rules = NULL;
	struct suppressing suppressing = {.profile = s->s.loaded.profile[0]};
	int code = o->no_symbols ? 0 : mt_loaded_symbolize(&s->s.loaded, &symbols, err);

	if (code)
		return code;
	rules = mt_load_suppressions(&o->suppressions, o->no_builtin_suppressions, err);
	if (!rules)
		return err->code;
	suppressing.context =
		(struct mt_suppress_context){.suppressions = rules, .names = &s->s.loaded.names};
	if (mt_find_suppress(&s->s.find, is_suppressed, &suppressing))
		return mt_err_no_memory(err);
	*ret_sites = (struct mt_report){
		.profiles = s->s.loaded.profile,
		.profile_count = 1,
		.stack = o->stack != UINT64_MAX ? (uint32_t)o->stack
			 : o->is_json           ? MT_REPORT_STACK_MAX
						: MT_REPORT_STACK_DEFAULT,
		.color = !o->is_json && !o->output && mt_load_is_color(stdout),
		.names = &s->s.loaded.names,
	};
	return 0;
}

static int write_report(struct search *s, struct mt_buf *out, struct mt_err *err)
{
	const struct leaks_options *o = s->o;
	struct mt_report sites;
	struct mt_leaks_report r = {
		.find = &s->s.find,
		.facts = &s->s.facts,
		.cost = &s->s.cost,
		.name = s->operand,
		.is_table = s->s.is_table,
		.top = o->top != UINT64_MAX ? o->top
		       : o->is_json         ? 0
					    : MT_REPORT_TOP_DEFAULT,
		.is_strict = o->roots == ROOTS_STRICT,
		.read = o->contents ? read_contents : NULL,
		.context = s,
	};
	int code = 0;

	if (s->s.loaded.count) {
		code = name_sites(s, &sites, err);
		r.sites = &sites;
	}
	if (!code && mt_leak_search_sites(&s->s, &s->sites, &s->site_count))
		code = mt_err_no_memory(err);
	r.lost_site = s->sites;
	r.lost_sites = s->site_count;
	if (code)
		return code;
	if (o->is_json ? mt_leaks_json(&r, out) : mt_leaks_text(&r, out))
		return mt_err_no_memory(err);
	return 0;
}

/* The library starts us with signals blocked, and nobody waits longer than that. */
static int answer(const char *state)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	alarm(ANSWER_S);
	return mt_looker_answer(state, mt_run_look) ? MT_EXIT_FAILED : MT_EXIT_OK;
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct leaks_options *o = opaque;
	mt_auto(search) struct search s = {.o = o, .operand = operands->text[0]};
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0};
	int code;

	mt_output_init(&out, o->output);
	if (o->answer)
		return answer(operands->text[0]);
	code = choose(&s, &err);
	if (!code)
		code = find_leaks(&s, &err);
	if (!code)
		code = write_report(&s, &out.text, &err);
	if (!code)
		code = mt_output_finish(&out, &err);
	if (code) {
		mt_complain("%s", err.text);
		return MT_EXIT_FAILED;
	}
	return o->error_exitcode && s.s.find.fold.lost_count ? (int)o->error_exitcode : MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack leaks 4711",
	"blocks of process 4711 that nothing points to any more",
	"memtrack leaks name:server --contents --top=5",
	"the five widest leaks of a tracked process, with their first bytes",
	"memtrack leaks core.4711 --json",
	"the same of a core file, for other programs",
	"memtrack leaks 4711 --roots=strict --error-exitcode=9",
	"as LeakSanitizer would see it; status 9 when there is a leak",
	NULL,
};

const struct mt_command mt_cmd_leaks = {
	.name = "leaks",
	.summary = "find blocks that nothing can reach any more",
	.operands = "PID|name:PROGRAM|CORE",
	.operands_min = 1,
	.operands_max = 1,
	.options = options,
	.options_bytes = sizeof(struct leaks_options),
	.defaults = &defaults,
	.description =
		"Looks for blocks of a running process, or of a core file, that are lost: no chain "
		"of pointers leads to them from where a program can hold one. The process need not "
		"be tracked: its live blocks are then those that its allocator's structures tell, "
		"and an allocator that is not known is refused with the reason. Of a tracked "
		"process the blocks are those of the tracker's table, with the size that was asked "
		"for and the call stack; what the heap holds besides counts as a place where "
		"pointers may be. Of a process that is sampled the heap tells what is lost, and "
		"what each call site lost of it is estimated, with an interval.\n\n"
		"The process stands still only while a copy of its memory is made, and the report "
		"says for how long; where no copy can be made it stands still until all is read. "
		"Nothing in it is changed.\n\n"
		"Marking is conservative: a word that could be a pointer counts as one. Pointers "
		"are looked for in writable segments of programs and libraries, in the used part "
		"of each stack, in registers, in thread-local memory and in other private writable "
		"mappings; never in free memory of the heap. A pointer into the middle of a block "
		"holds it, and the report says how many blocks are held in no other way. Not seen "
		"are pointers that are stored changed, in the kernel, in another process, or in "
		"memory that is shared through files.\n\n"
		"A leak that is listed is a block that no other lost block points to, or the first "
		"block of a cycle; all else that is lost hangs on these and is summed there as "
		"'referencing'. Leaks with the same call stack are one entry ('similar'). Damage "
		"of the heap is named first: it makes the rest unreliable.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-report(1), memtrack-run(1)",
	.run = run,
};
