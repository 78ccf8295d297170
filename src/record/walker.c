/* SPDX-License-Identifier: MIT */
/*
 * The modules of a process are read from /proc/PID/maps and kept until the process says that they
 * may have changed; the words of its stack come in blocks. Debug files are not looked for: what the
 * loaded files say must be enough, as it is for us.
 */

#include "record/walker.h"

#include "base/alloc.h"
#include "base/path.h"
#include "core/cc.h"

#include <elfutils/libdwfl.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

enum { PROCESSES = 24, BLOCK_BYTES = 4096, BLOCKS = 16 };

struct block {
	uint64_t at; /* 0: nothing */
	uint8_t byte[BLOCK_BYTES];
};

/* One program in one process. libdw keeps a pointer to it: it does not move while dwfl is there. */
struct process {
	Dwfl *dwfl; /* NULL: not in use */
	pid_t pid;
	uint64_t start_ns, modules, used_at;
	const struct mt_verify_slot *slot; /* of the walk under way */
	struct block block[BLOCKS];
	bool is_unreadable; /* the memory could not be read */
};

struct mt_walker {
	struct process process[PROCESSES];
	uint64_t clock;
};

struct mt_walker *mt_walker_new(void)
{
	return mt_alloc_zero(1, sizeof(struct mt_walker));
}

static void forget(struct process *p)
{
	if (p->dwfl)
		dwfl_end(p->dwfl);
	*p = (struct process){0};
}

void mt_walker_free(struct mt_walker *w)
{
	for (size_t i = 0; w && i < PROCESSES; i++)
		forget(&w->process[i]);
	free(w);
}

static const struct block *read_block(struct process *p, uint64_t at)
{
	struct block *b = &p->block[at / BLOCK_BYTES % BLOCKS];
	struct iovec local = {b->byte, BLOCK_BYTES}, remote = {(void *)(uintptr_t)at, BLOCK_BYTES};

	if (b->at == at)
		return b;
	b->at = 0;
	if (process_vm_readv(p->pid, &local, 1, &remote, 1, 0) != BLOCK_BYTES) {
		p->is_unreadable |= errno != EFAULT;
		return NULL;
	}
	b->at = at;
	return b;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret, void *arg)
{
	struct process *p = arg;

	for (size_t done = 0; done < sizeof(*ret);) {
		uint64_t at = addr + done, from = at % BLOCK_BYTES;
		size_t len = MT_MIN(sizeof(*ret) - done, BLOCK_BYTES - from);
		const struct block *b = read_block(p, at - from);

		if (!b)
			return false;
		memcpy((char *)ret + done, b->byte + from, len);
		done += len;
	}
	return true;
}

static pid_t next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	struct process *p = arg;
	pid_t tid = *thread_arg ? 0 : p->pid;

	*thread_arg = p;
	return tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	*thread_arg = arg;
	return true;
}

/* Registers that a function need not keep for its caller are not known, and not needed. */
static bool set_registers(Dwfl_Thread *thread, void *thread_arg)
{
	const struct process *p = thread_arg;
	Dwarf_Word reg[MT_VERIFY_REGISTERS];

	for (int i = 0; i < MT_VERIFY_REGISTERS; i++)
		reg[i] = p->slot->reg[i];
#if defined(__x86_64__)
	reg[16] = p->slot->pc;
	if (!dwfl_thread_state_registers(thread, 0, 17, reg))
		return false;
#else
	if (!dwfl_thread_state_registers(thread, 0, 32, reg))
		return false;
#endif
	dwfl_thread_state_register_pc(thread, p->slot->pc);
	return true;
}

static int no_debug_file(Dwfl_Module *mod, void **userdata, const char *name, Dwarf_Addr base,
			 const char *file_name, const char *link, GElf_Word crc, char **ret_name)
{
	return -1;
}

static int open_process(struct process *p, const struct mt_verify_slot *slot)
{
	static const Dwfl_Callbacks files = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debug_file,
		.section_address = dwfl_offline_section_address,
	};
	static const Dwfl_Thread_Callbacks threads = {
		.next_thread = next_thread,
		.get_thread = get_thread,
		.memory_read = read_word,
		.set_initial_registers = set_registers,
	};

	*p = (struct process){
		.pid = slot->pid, .start_ns = slot->start_ns, .modules = slot->modules};
	p->dwfl = dwfl_begin(&files);
	if (!p->dwfl)
		return -ENOMEM;
	if (dwfl_linux_proc_report(p->dwfl, p->pid) || dwfl_report_end(p->dwfl, NULL, NULL) ||
	    !dwfl_attach_state(p->dwfl, NULL, p->pid, &threads, p)) {
		forget(p);
		return -ESRCH;
	}
	return 0;
}

/* The process, looked at anew when its modules may be others. NULL: cannot be read. */
static struct process *find_process(struct mt_walker *w, const struct mt_verify_slot *slot,
				    bool fresh)
{
	struct process *p = NULL, *oldest = &w->process[0];

	for (size_t i = 0; i < PROCESSES && !p; i++) {
		struct process *at = &w->process[i];

		if (at->dwfl && at->pid == slot->pid)
			p = at;
		if (at->used_at < oldest->used_at)
			oldest = at;
	}
	if (!p || fresh || p->start_ns != slot->start_ns || p->modules != slot->modules) {
		p = p ? p : oldest;
		forget(p);
		if (open_process(p, slot))
			return NULL;
	}
	p->used_at = ++w->clock;
	return p;
}

struct collector {
	struct process *p;
	struct mt_walk *walk;
	bool guessing; /* the last frame was in no module: where it leads is a guess */
};

static int collect(Dwfl_Frame *frame, void *arg)
{
	struct collector *c = arg;
	struct mt_walk *walk = c->walk;
	bool is_exact = false;
	Dwarf_Addr pc = 0;

	if (walk->count == MT_WALKER_FRAMES) {
		walk->is_cut = true;
		return DWARF_CB_ABORT;
	}
	if (!dwfl_frame_pc(frame, &pc, &is_exact))
		return DWARF_CB_ABORT;
	bool has_module = dwfl_addrmodule(c->p->dwfl, pc - !is_exact) != NULL;

	walk->frame[walk->count++] = (struct mt_walker_frame){
		.pc = pc,
		.is_exact = is_exact,
		.has_module = has_module && !c->guessing,
	};
	c->guessing = !has_module;
	return DWARF_CB_OK;
}

int mt_walker_walk(struct mt_walker *w, const struct mt_verify_slot *slot, bool fresh,
		   struct mt_walk *ret_walk)
{
	struct process *p = find_process(w, slot, fresh);
	struct collector c = {p, ret_walk, false};

	if (!p)
		return -ESRCH;
	ret_walk->count = 0;
	ret_walk->is_cut = ret_walk->gave_up = false;
	ret_walk->why[0] = 0;
	p->slot = slot;
	p->is_unreadable = false;
	for (size_t i = 0; i < BLOCKS; i++)
		p->block[i].at = 0;
	if (dwfl_getthread_frames(p->dwfl, p->pid, collect, &c) < 0) {
		ret_walk->gave_up = true;
		snprintf(ret_walk->why, sizeof(ret_walk->why), "%s", dwfl_errmsg(-1));
	}
	p->slot = NULL;
	return p->is_unreadable ? -EPERM : 0;
}

char *mt_walker_place(struct mt_walker *w, const struct mt_verify_slot *slot, uint64_t pc,
		      char *buf, size_t bytes)
{
	struct process *p = find_process(w, slot, /* fresh */ false);
	Dwfl_Module *mod = p ? dwfl_addrmodule(p->dwfl, pc) : NULL;
	const char *name = "";
	Dwarf_Addr start = 0;

	if (mod)
		name = dwfl_module_info(mod, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	if (mod && name)
		snprintf(buf, bytes, "%s+0x%jx", mt_path_base(name), (uintmax_t)(pc - start));
	else
		snprintf(buf, bytes, "0x%jx", (uintmax_t)pc);
	return buf;
}
