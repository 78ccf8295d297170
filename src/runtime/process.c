/* SPDX-License-Identifier: MIT */
/* Life of the tracker in one process: start, forked child, stop; and the module table's upkeep. */
#include "core/clock.h"
#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "core/valgrind.h"
#include "elf/loader.h"
#include "runtime/arena.h"
#include "runtime/check.h"
#include "runtime/check_block.h"
#include "runtime/check_signal.h"
#include "runtime/check_sites.h"
#include "runtime/control.h"
#include "runtime/errors.h"
#include "runtime/exec.h"
#include "runtime/exit_report.h"
#include "runtime/guard.h"
#include "runtime/index.h"
#include "runtime/instances.h"
#include "runtime/last.h"
#include "runtime/light.h"
#include "runtime/lock.h"
#include "runtime/log.h"
#include "runtime/mapping.h"
#include "runtime/modules.h"
#include "runtime/profile.h"
#include "runtime/programs.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "runtime/record_text.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "runtime/stream.h"
#include "runtime/verify.h"

struct mt_rt mt_rt;

/* A page of its own (64 KiB: the largest page size), which the kernel gives a forked child as
 * zeros. */
enum { WIPE_BYTES = 65536, SAME_STACK = 1 << 20 };
volatile uint64_t mt_rt_wipe[WIPE_BYTES / 8] __attribute__((aligned(65536)));

static void arm_wipe(void)
{
	/* an emulator that accepts an advice which no kernel knows keeps none of its promises */
	int emulated = mt_sys_madvise((void *)mt_rt_wipe, WIPE_BYTES, 9999) == 0;
	if (emulated || mt_sys_madvise((void *)mt_rt_wipe, WIPE_BYTES, MT_MADV_WIPEONFORK) != 0)
		mt_rt.compare_pid = 1;
	mt_rt_wipe[0] = !mt_rt.compare_pid;
}

static void fill_strings(const struct mt_start_block *block)
{
	char text[4096];
	struct mt_fmt f;
	long n = mt_sys_readlink("/proc/self/exe", text, sizeof(text) - 1);
	if (n > 0) {
		text[n] = 0;
		mt_rt.hdr->exe_string = mt_storage_string(text);
	}
	mt_fmt_init(&f, text, sizeof(text));
	for (int i = 0; block && i < block->argc && block->argv[i]; i++) {
		mt_fmt_str(&f, i ? " " : "");
		mt_fmt_str(&f, block->argv[i]);
	}
	mt_rt.hdr->cmdline_string = mt_storage_string(text);
	mt_rt.hdr->output_string = mt_storage_string(mt_rt.options.output);
	mt_rt.hdr->options_string = mt_storage_string(mt_rt.options.text);
	struct mt_state_heap *heap = mt_storage_base(MT_REGION_HEAPS);
	heap[MT_HEAP_MALLOC].name_string = mt_storage_string("malloc");
	heap[MT_HEAP_MMAP].name_string = mt_storage_string("mmap");
	heap[MT_HEAP_BRK].name_string = mt_storage_string("brk");
}

/* Several that started at the same moment: see instances.c. */
static int are_too_many(void)
{
#ifdef MT_BUILD_WRAP
	return 0;
#else
	uint32_t limit = mt_rt.options.instance_limit;
	return limit &&
	       mt_instances_count(mt_rt.options.instance_tag, mt_rt.hdr->mono_start_ns) >= limit;
#endif
}

/* Tables, file, unwinder: everything that a process needs of its own. 0 or a negative errno value.
 */
static int begin(const struct mt_start_block *block)
{
	int err = mt_storage_create();
	if (err)
		return err;
	if (block && are_too_many()) {
		mt_storage_withdraw();
		return -MT_EBUSY;
	}
	err = mt_index_init(mt_check.state == MT_CHECK_ON ? mt_layout_granule()
							  : mt_provider.granule_shift);
	if (err)
		return err;
	mt_unwind.rows = mt_arena_take(mt_row_cache_bytes());
	if (!mt_unwind.rows)
		return -MT_ENOMEM;
	mt_unwind.on_change = mt_modules_refresh;
	mt_unwind.modules = NULL;
	mt_modules_refresh();
	if (!mt_unwind.modules)
		return -MT_ENOMEM;
	mt_rt.hdr->libc = (uint8_t)mt_provider.libc;
#ifdef MT_BUILD_WRAP
	mt_rt.hdr->door = MT_DOOR_WRAP;
#else
	mt_rt.hdr->door = MT_DOOR_PRELOAD;
#endif
	if (mt_provider.program_exports_malloc)
		mt_rt_note(MT_NOTE_PROVIDER_IN_PROGRAM);
	if (mt_rt.compare_pid)
		mt_rt_note(MT_NOTE_NO_WIPEONFORK);
	if (!mt_rt.notifier_patched)
		mt_rt_note(MT_NOTE_NO_NOTIFIER);
	if (mt_rt.no_sizes)
		mt_rt_note(MT_NOTE_NO_SIZES);
	fill_strings(block);
	if (mt_sys_getrandom(&mt_rt.seed, sizeof(mt_rt.seed)) != sizeof(mt_rt.seed))
		mt_rt.seed = mt_clock_ticks() * 0x9e3779b97f4a7c15u;
	mt_verify_open();
	if (mt_check.state == MT_CHECK_ON) /* a forked child */
		mt_errors_begin();
	return mt_control_begin();
}

/*
 * What this process is to do: by its environment, or by the configuration file, which then takes
 * the environment's place in *block. 0; -EINVAL: nothing, and *error is what there is to say. Most
 * processes of a system that loads us everywhere end here: nothing is looked up before.
 */
static int read_wishes(struct mt_start_block *block, char *error, size_t bytes)
{
	int err = 0, is_listed = 0;
	error[0] = 0;
#ifdef MT_BUILD_WRAP
	/* a program with more rights than its caller does not believe the caller's variables */
	if (mt_loader_is_secure(block->auxv))
		err = -MT_EINVAL;
#else
	enum mt_programs_say say = mt_programs_ask(block, error, bytes);
	is_listed = say == MT_PROGRAMS_LISTED;
	if (is_listed)
		block->envp = mt_programs_envp();
	if (say == MT_PROGRAMS_OFF)
		err = -MT_EINVAL;
#endif
	if (!err)
		err = mt_options_read(block->envp, &mt_rt.options, error, bytes);
	if (is_listed) /* a program that others have listed does not print their mistakes */
		error[0] = 0;
#ifndef MT_BUILD_WRAP
	if (!err && is_listed)
		mt_programs_finish(&mt_rt.options);
#endif
	if (!err && mt_rt.options.wishes.mode == MT_MODE_OFF)
		err = -MT_EINVAL;
	return err;
}

/* The originals. -EBUSY: by another path another copy is here, as by LD_PRELOAD and
 * /etc/ld.so.preload, and does what there is to do. */
static int find_originals(void)
{
	int err = mt_provider_resolve();
	return !err && mt_provider.is_second ? -MT_EBUSY : err;
}

/* What is asked for by LIBC_DEBUG_MALLOC_OPTIONS. 0, or a negative errno value: it is wrong. */
static int choose_check(const struct mt_start_block *block, struct mt_check_options *ret_check)
{
	const char *program = block->argc && block->argv[0] ? block->argv[0] : "";
	int wanted = mt_check_read_environment(block->envp, program, ret_check);
	if (wanted <= 0)
		return wanted;
	mt_rt.options.wishes.mode = MT_MODE_CHECK;
	mt_rt.options.depth = MT_MAX(ret_check->frames, ret_check->free_frames);
	mt_rt.options.depth = MT_MAX(mt_rt.options.depth, mt_check_sites_depth(ret_check));
	return 0;
}

static int start(void)
{
	struct mt_start_block block;
	static struct mt_check_options check; /* too large for small stacks */
	char error[256];
	int err = mt_loader_start_block(&block);
	if (err)
		return err;
	char **environment MT_UNUSED = block.envp;
	err = read_wishes(&block, error, sizeof(error));
	if (err && !error[0])
		return err;
	int unfit = find_originals();
	if (unfit)
		return unfit;
	if (err) {
		mt_sys_write(2, error, mt_str_len(error));
		return err;
	}
	err = choose_check(&block, &check);
	if (err)
		return err;
	if (!mt_rt.options.in_valgrind &&
	    mt_under_valgrind()) /* it counts by itself, and would report how we ask for readable
				    pages */
		return -MT_EINVAL;
	mt_record_set_plain();
	mt_loader_init(&block, mt_rt.pid);
	mt_exit_report_init();
	err = mt_arena_reserve();
	if (err)
		return err;
	arm_wipe();
	mt_rt.notifier_patched = (uint64_t)mt_modules_patch_notifier();
	err = begin(&block);
	int is_secure = mt_loader_is_secure(block.auxv);
#ifndef MT_BUILD_WRAP
	if (!err && !is_secure) /* what such a caller wants is handed on to nobody */
		mt_exec_remember(environment);
#endif
	if (!err && mt_rt.options.wishes.mode == MT_MODE_CHECK) {
		mt_check_choose_paths(block.envp, is_secure ? mt_rt.state_dir : NULL, &check);
		err = mt_check_begin(&check, block.argc ? block.argv[0] : "");
	}
	if (!err) {
		mt_guard_begin();
		mt_guard_describe();
	}
	if (!err && mt_check.state == MT_CHECK_ON) {
		mt_record_text_open(&check);
		mt_check_signals_begin();
	}
	if (!err && (mt_check.state == MT_CHECK_ON || mt_rt.options.lost))
		mt_last_begin();
	return err;
}

/* A sandbox may kill for it. */
static uint64_t block_signals(void)
{
	return mt_rt.sandboxed ? 0 : mt_sys_block_signals();
}

static void restore_signals(uint64_t signals)
{
	if (!mt_rt.sandboxed)
		mt_sys_restore_signals(signals);
}

/* What other threads did meanwhile passed by. */
static void begun(enum mt_rt_phase phase)
{
	__atomic_store_n(&mt_rt.phase, phase, __ATOMIC_RELEASE);
	uint64_t missed = __atomic_exchange_n(&mt_rt.before_start, 0, __ATOMIC_RELAXED);
	if (phase == MT_RT_ON)
		__atomic_fetch_add(&mt_rt.hdr->lost[MT_LOST_BEFORE_START], missed,
				   __ATOMIC_RELAXED);
}

MT_COLD void mt_rt_start(void)
{
	uint32_t cold = MT_RT_COLD;
	if (!__atomic_compare_exchange_n(&mt_rt.phase, &cold, MT_RT_STARTING, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	mt_rt.pid = mt_sys_getpid();
	int err = start();
	if (err)
		mt_arena_give_up();
	if (mt_check.state != MT_CHECK_ON)
		mt_check_is_not_wanted();
	begun(err ? MT_RT_OFF : MT_RT_ON);
}

MT_COLD void mt_rt_start_early(void)
{
	if (mt_rt.phase != MT_RT_COLD)
		return;
	uint64_t signals = block_signals();
	mt_rt_start();
	restore_signals(signals);
}

void mt_rt_stop(void)
{
	__atomic_store_n(&mt_rt.phase, MT_RT_OFF, __ATOMIC_RELEASE);
}

static void forget_all(void)
{
	mt_arena_drop(mt_thread_self(), mt_thread_bytes());
	mt_threads_forget();
	mt_sites_forget();
	mt_large_forget();
	mt_record_forget();
	mt_mapping_forget();
	mt_modules_forget();
	mt_profile_forget();
	mt_control_forget();
	mt_check_forget();
	mt_thread_set_self(NULL);
	mt_rt.modules_lock = mt_rt.names_lock = mt_rt.search_lock = 0;
	mt_rt.no_storage = mt_rt.limited = 0;
	mt_rt.single = 0;
}

MT_COLD void mt_rt_child(void)
{
	struct mt_thread *t = mt_thread_self();
	int nested = t && (t->depth || t->fork_inside);
	mt_fault_forget();
	if (mt_rt.phase == MT_RT_FORKED) { /* child of a child that recorded nothing */
		mt_rt.pid = mt_sys_getpid();
		mt_loader_set_process(mt_rt.pid, MT_LOADER_CAREFUL);
		mt_rt_wipe[0] = !mt_rt.compare_pid;
	}
	mt_log_forked();
	if (mt_rt.phase != MT_RT_ON || !mt_rt.hdr)
		return;
	__atomic_store_n(&mt_rt.phase, MT_RT_STARTING, __ATOMIC_RELEASE);
	mt_rt.pid = mt_sys_getpid();
	mt_rt_wipe[0] = !mt_rt.compare_pid;
	mt_loader_set_process(mt_rt.pid, mt_rt.sandboxed ? MT_LOADER_CAREFUL : MT_LOADER_TRY);
	if (nested || !mt_rt.options.follow) {
		/*
		 * The interrupted hook of the parent's life goes on in this process when its signal
		 * handler returns: the tables stay mapped, as private zeros, and nothing is
		 * recorded.
		 */
		mt_storage_detach();
		mt_rt_stop();
		mt_thread_set_self(NULL);
		return;
	}
	if (mt_rt.inherited_state != MT_INHERITED_READY) /* not by fork(): as it is by now */
		mt_light_sum_up();
	if (mt_rt.inherited_state == MT_INHERITED_READY)
		mt_rt.inherited_state = MT_INHERITED_DUE;
	/* stays mapped until this child has a file of its own: so that a failure can be counted
	 * there */
	mt_rt.parent_hdr = mt_rt.hdr;
	mt_rt.hdr = NULL;
	forget_all();
	/* many children exec at once and record nothing: their file waits for their first event */
	__atomic_store_n(&mt_rt.phase, MT_RT_FORKED, __ATOMIC_RELEASE);
}

MT_COLD static void begin_child(void)
{
	uint32_t forked = MT_RT_FORKED;
	if (!__atomic_compare_exchange_n(&mt_rt.phase, &forked, MT_RT_STARTING, 0, __ATOMIC_ACQ_REL,
					 __ATOMIC_ACQUIRE))
		return;
	int err = begin(NULL);
	if (!err) {
		mt_rt_note(MT_NOTE_FORK_CHILD);
		mt_guard_describe();
	}
	if (err && mt_rt.parent_hdr)
		__atomic_fetch_add(&mt_rt.parent_hdr->lost[MT_LOST_CHILD], 1, __ATOMIC_RELAXED);
	if (mt_rt.parent_hdr)
		mt_storage_unmap(mt_rt.parent_hdr);
	mt_rt.parent_hdr = NULL;
	begun(err ? MT_RT_OFF : MT_RT_ON);
}

/* 0: a forked child that has not been noticed yet. */
static int is_own_process(void)
{
	return mt_rt.compare_pid ? mt_sys_getpid() == mt_rt.pid : mt_rt_wipe[0] != 0;
}

/* With signals blocked: a handler that came in between would find things half made. */
static struct mt_thread *enter_new(uintptr_t sp)
{
	if (mt_rt.phase == MT_RT_COLD)
		mt_rt_start();
	if (mt_rt.phase != MT_RT_ON && mt_rt.phase != MT_RT_FORKED)
		return NULL;
	if (!is_own_process())
		mt_rt_child();
	if (mt_rt.phase == MT_RT_FORKED)
		begin_child();
	if (mt_rt.phase != MT_RT_ON)
		return NULL;
	struct mt_thread *t = mt_thread_self();
	if (!t)
		t = mt_thread_make();
	if (t) {
		t->depth = sp;
		mt_control_take(t);
	}
	return t;
}

/*
 * The guard is taken: is the hook that took it still at work? Every call that it makes, and every
 * handler that interrupts it, stands deeper in the stack. So an entry from the same place or above
 * tells that it was left by a jump. On an alternate signal stack addresses tell nothing, and
 * neither do they far away, which may be another stack.
 */
static int was_left(const struct mt_thread *t, uintptr_t sp)
{
	return sp >= t->depth && sp - t->depth < SAME_STACK && !mt_rt.sandboxed &&
	       !mt_sys_on_signal_stack();
}

MT_COLD enum mt_enter mt_enter_slow(struct mt_thread **ret_thread, uintptr_t sp)
{
	struct mt_thread *t = mt_thread_self();
	*ret_thread = NULL;
	if (mt_rt.phase == MT_RT_OFF)
		return MT_ENTER_PASS;
	if (mt_rt.phase == MT_RT_STARTING) {
		__atomic_fetch_add(&mt_rt.before_start, 1, __ATOMIC_RELAXED);
		return MT_ENTER_PASS;
	}
	int same = is_own_process();
	if (t && same && (t->depth || mt_rt.compare_pid)) {
		int left = t->depth && was_left(t, sp);
		*ret_thread = t;
		if (t->depth && !left)
			return MT_ENTER_NESTED;
		t->depth = sp;
		MT_SIGNAL_FENCE();
		if (left)
			mt_thread_renew(t);
		return MT_ENTER_TRACK;
	}
	uint64_t signals = block_signals();
	*ret_thread = t = enter_new(sp);
	restore_signals(signals);
	return t ? MT_ENTER_TRACK : MT_ENTER_PASS;
}

/* --- fork: no frame of ours is needed, but the child must leave the parent's tables at once
 * -------- */

#ifndef MT_BUILD_WRAP
/* A thread that jumped out of a hook is not in it any more: its child is followed. */
MT_INLINE void notice_jump(void)
{
	struct mt_thread *t = mt_thread_self();
	if (MT_UNLIKELY(t && t->depth) && mt_enter(&t) == MT_ENTER_TRACK)
		mt_leave(t);
}

/* 1: the stack goes through one of our functions, or may do so in what a handler interrupted. Guard
 * held. */
static int is_inside_hook(struct mt_thread *t, const struct mt_caller *caller)
{
	struct mt_capture *c = &t->capture;
	struct mt_capture_counts counts = c->counts;
	uint32_t depth = mt_capture_set_depth(c, MT_DEPTH_MAX), in_handler = 0;
	int inside = 0;
	mt_capture_stack(c, caller->sp, caller->ra, caller->fp, 0);
	const struct mt_module_list *list = __atomic_load_n(&mt_unwind.modules, __ATOMIC_ACQUIRE);
	const struct mt_module *ours =
		list ? mt_module_list_find(list, (uintptr_t)mt_rt_child) : NULL;
	for (uint32_t i = 0; ours && i < c->count; i++) {
		inside |= mt_module_list_find(list, c->frame[i].ra - 1) == ours;
		in_handler |= c->frame[i].flags & MT_FRAME_EXACT_PC;
	}
	if (in_handler && c->end != MT_STACK_COMPLETE) /* what it interrupted is not known */
		inside = 1;
	c->counts = counts;
	mt_capture_set_depth(c, depth);
	return inside;
}

/*
 * A jump left behind, what a child inherits, and whether a signal handler forks that has
 * interrupted a hook: those of the light modes hold no guard, so the stack has to tell. The
 * thread's fork_inside as it was.
 */
static uint32_t before_fork(const struct mt_caller *caller)
{
	struct mt_thread *t = NULL;
	notice_jump();
	if (MT_LIKELY(!mt_rt.counting) || mt_rt.phase != MT_RT_ON)
		return 0;
	mt_light_sum_up();
	if (mt_enter(&t) != MT_ENTER_TRACK)
		return t ? t->fork_inside : 0;
	uint32_t before = t->fork_inside;
	t->fork_inside = (uint32_t)is_inside_hook(t, caller);
	mt_leave(t);
	return before;
}

static int after_fork(int pid, uint32_t before)
{
	if (pid && mt_rt.inherited_state == MT_INHERITED_READY)
		mt_rt.inherited_state = MT_INHERITED_NONE;
	/* unless a handler of pthread_atfork() has allocated, and the child recorded it */
	if (pid == 0 && !is_own_process()) {
		uint64_t signals = block_signals();
		mt_rt_child();
		restore_signals(signals);
	} else if (pid > 0 && mt_rt.phase == MT_RT_ON) {
		const struct mt_thread *t = mt_thread_self();
		__atomic_fetch_add(&mt_rt.hdr->children_seen, 1, __ATOMIC_RELAXED);
		if (t && (t->depth || t->fork_inside) &&
		    mt_rt.options.follow) /* forked inside a hook: see mt_rt_child() */
			mt_rt_lost(MT_LOST_CHILD);
	}
	struct mt_thread *t = mt_thread_self();
	if (t)
		t->fork_inside = before;
	return pid;
}

MT_PUBLIC int fork(void);
MT_PUBLIC int fork(void)
{
	if (!MT_PROVIDER_HAS(mt_system.fork))
		return -1;
	struct mt_caller caller = MT_CALLER();
	uint32_t before = before_fork(&caller);
	return after_fork(mt_system.fork(), before);
}

MT_PUBLIC int _Fork(void);
MT_PUBLIC int _Fork(void)
{
	if (!MT_PROVIDER_HAS(mt_system.fork_plain))
		return -1;
	struct mt_caller caller = MT_CALLER();
	uint32_t before = before_fork(&caller);
	return after_fork(mt_system.fork_plain(), before);
}

enum { DEEP_BIND = 8 }; /* RTLD_DEEPBIND */

/* Module changes where the loader's notifier could not be patched: jumps, no frame of ours. */
#define NOTE_CHANGE(name) \
	do { \
		if (!mt_rt.notifier_patched) \
			mt_modules_expect_change(); \
		if (!mt_system.name) \
			mt_provider_need((void **)&mt_system.name); \
	} while (0)

/*
 * A library that is bound deep allocates and frees with the allocator's own functions, also what
 * getline() gave it. Guarded samples end then. The blocks of check mode have headers and cannot
 * change: the library is bound like any other.
 */
MT_COLD static int without_deep_bind(int mode)
{
	static uint32_t told;
	if (!mt_check_is_on()) {
		mt_guard_stop();
		return mode;
	}
	if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		mt_log(MT_LOG_INFO, "Libraries are loaded without RTLD_DEEPBIND, which would let "
				    "them free blocks past malloc debug.");
	return mode & ~DEEP_BIND;
}

MT_PUBLIC void *dlopen(const char *file, int mode);
MT_PUBLIC void *dlopen(const char *file, int mode)
{
	NOTE_CHANGE(dlopen);
	if (MT_UNLIKELY(mode & DEEP_BIND))
		mode = without_deep_bind(mode);
	return mt_system.dlopen(file, mode);
}

MT_PUBLIC void *dlmopen(long space, const char *file, int mode);
MT_PUBLIC void *dlmopen(long space, const char *file, int mode)
{
	NOTE_CHANGE(dlmopen);
	if (MT_UNLIKELY(mode & DEEP_BIND))
		mode = without_deep_bind(mode);
	return mt_system.dlmopen(space, file, mode);
}

MT_PUBLIC int dlclose(void *handle);
MT_PUBLIC int dlclose(void *handle)
{
	NOTE_CHANGE(dlclose);
	return mt_system.dlclose(handle);
}
#endif

/* Starts early even in a program that never allocates, and reports late. */
__attribute__((constructor)) static void at_load(void)
{
	mt_rt_start_early();
}

__attribute__((destructor)) static void at_exit(void)
{
	struct mt_thread *t;
	if (mt_rt.phase != MT_RT_ON || (!mt_rt_wipe[0] && !mt_rt.compare_pid))
		return;
	if (mt_enter(&t) == MT_ENTER_TRACK) { /* what the last captures did not see */
		mt_modules_refresh();
		mt_thread_tick(t);
		mt_storage_mark_time();
		mt_leave(t);
	}
	mt_exit_report();
	mt_last_destructor();
}
