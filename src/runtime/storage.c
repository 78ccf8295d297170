/* SPDX-License-Identifier: MIT */
/*
 * The state file: a sparse file in the launcher's directory or in one of our own in /dev/shm,
 * mapped shared. Regions have fixed places and capacities; storage is asked from the kernel in
 * growing steps with MADV_POPULATE_WRITE, which reports a full file system instead of killing us
 * and needs no descriptor; kernels without it (before 5.14) get fallocate through a descriptor that
 * is opened for the moment.
 */
#include "runtime/storage.h"

#include "core/clock.h"
#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/lock.h"
#include "wire/stream.h"

struct plan {
	uint32_t kind;
	uint32_t elem_bytes;
	uint32_t least;    /* capacity below which there is no point in starting */
	uint64_t capacity; /* when nothing limits us */
};

static const struct plan plan[] = {
	{MT_REGION_HEAPS, sizeof(struct mt_state_heap), MT_HEAPS_MAX, MT_HEAPS_MAX},
	{MT_REGION_STRINGS, 1, 16384, 16 << 20},
	{MT_REGION_MODULES, sizeof(struct mt_state_module), 256, 16384},
	{MT_REGION_LABELS, sizeof(struct mt_state_label), 64, 65535},
	{MT_REGION_THREADS, sizeof(struct mt_state_thread), 64, 65535},
	{MT_REGION_NODES, sizeof(struct mt_state_node), 2048, 16 << 20},
	{MT_REGION_SITES, sizeof(struct mt_state_site), 512, 2 << 20},
	{MT_REGION_CELLS, sizeof(struct mt_state_cell), 512, 4 << 20},
	{MT_REGION_HISTS, sizeof(struct mt_state_hist), 64, 1 << 20},
	{MT_REGION_LARGE, sizeof(struct mt_state_large), 512, 4 << 20},
	{MT_REGION_LIVE, sizeof(struct mt_state_live), 8192, 128ull << 20},
	{MT_REGION_STATS, sizeof(struct mt_state_stats), 64, 65535},
	{MT_REGION_BIG, sizeof(struct mt_state_big), 1, MT_BIG_SLOTS},
	{MT_REGION_REGIMES, sizeof(struct mt_state_regime), 16, MT_REGIMES_MAX},
	{MT_REGION_SAMPLED, sizeof(struct mt_state_sampled), 512, 4 << 20},
	{MT_REGION_CHANGES, sizeof(struct mt_state_change), 64, MT_CHANGES_MAX},
	{MT_REGION_REQUEST, 1, MT_REQUEST_BYTES, MT_REQUEST_BYTES},
	{MT_REGION_ERRORS, sizeof(struct mt_state_error), 16, MT_ERRORS_MAX},
	{MT_REGION_DAMAGE, sizeof(struct mt_state_damage), 16, MT_ERRORS_MAX},
	{MT_REGION_UNREACHED, sizeof(struct mt_state_unreached), 1, MT_UNREACHED_MAX},
	/* as many as the options say */
	{MT_REGION_STREAM, sizeof(struct mt_stream_buffer), 4, 0},
};

enum { GROW_LEAST = 16384, GROW_MOST = 1 << 20, LIMIT_SHARE = 8, LIMITED = -4096 };

/* Bytes that the limits leave for the file. */
static uint64_t size_limit(void)
{
	struct mt_rlimit64 as = {UINT64_MAX, 0}, fsize = {UINT64_MAX, 0};
	mt_sys_getrlimit(MT_RLIMIT_AS, &as);
	mt_sys_getrlimit(MT_RLIMIT_FSIZE, &fsize);
	return MT_MIN(as.cur / LIMIT_SHARE, fsize.cur);
}

static uint64_t wanted(const struct plan *p)
{
	return p->kind == MT_REGION_STREAM ? mt_rt.options.record_buffers / p->elem_bytes + 1
					   : p->capacity;
}

/*
 * Regions begin at the largest page size that a kernel may have, so that each can be unmapped by
 * itself. Under a limit there is no room for that; x86-64 has pages of 4 KiB only.
 */
static uint64_t alignment(unsigned shift)
{
#if defined(__x86_64__)
	return shift ? 4096 : 65536;
#else
	(void)shift;
	return 65536;
#endif
}

/*
 * Lays the regions out with capacities divided by 2^shift; returns the file's size. Threads lose
 * least: without a row none of a thread's events would be in any total.
 */
static uint64_t lay_out(struct mt_state_region *region, unsigned shift)
{
	uint64_t at = MT_STATE_HEADER_BYTES;
	for (size_t i = 0; i < MT_ARRAY_LEN(plan); i++) {
		struct mt_state_region *r = &region[i];
		r->kind = plan[i].kind;
		r->elem_bytes = plan[i].elem_bytes;
		unsigned by = plan[i].kind == MT_REGION_THREADS ? shift / 2 : shift;
		r->capacity = MT_MAX(wanted(&plan[i]) >> by, plan[i].least);
		r->offset = at;
		at = MT_ALIGN_UP(at + r->capacity * r->elem_bytes, alignment(shift));
	}
	return at;
}

/* Directory and file name; the directory is made when no launcher gave one. */
static int make_directory(const char *parent)
{
	uint64_t random = 0;
	struct mt_fmt f;
	if (mt_sys_getrandom(&random, sizeof(random)) != sizeof(random))
		random = mt_clock_ticks() * 0x9e3779b97f4a7c15u ^ (uintptr_t)&random;
	if (mt_rt.options.instance_limit) /* instances are counted by it, see instances.h */
		random = (uint64_t)mt_rt.options.instance_tag << 32 | (uint32_t)random;
	mt_fmt_init(&f, mt_rt.state_dir, sizeof(mt_rt.state_dir));
	mt_fmt_str(&f, parent);
	mt_fmt_str(&f, "/memtrack-");
	mt_fmt_u64(&f, (uint64_t)mt_sys0(__NR_geteuid));
	mt_fmt_str(&f, "-");
	mt_fmt_u64(&f, mt_rt.options.launcher_pid); /* it finds the directory by its name */
	mt_fmt_str(&f, "-");
	mt_fmt_hex(&f, random, 16);
	return (int)mt_sys3(__NR_mkdirat, MT_AT_FDCWD, mt_rt.state_dir, 0700);
}

static int open_in_directory(void)
{
	for (uint64_t sequence = 1; sequence < 10000; sequence++) {
		struct mt_fmt f;
		mt_fmt_init(&f, mt_rt.state_path, sizeof(mt_rt.state_path));
		mt_fmt_str(&f, mt_rt.state_dir);
		mt_fmt_str(&f, "/");
		mt_fmt_u64(&f, (uint64_t)mt_rt.pid);
		mt_fmt_str(&f, ".");
		mt_fmt_u64(&f, sequence);
		mt_fmt_str(&f, ".mtk");
		long fd = mt_sys_open(mt_rt.state_path,
				      MT_O_RDWR | MT_O_CREAT | MT_O_EXCL | MT_O_CLOEXEC, 0600);
		if (fd != -MT_EEXIST)
			return (int)fd;
	}
	return -MT_EEXIST;
}

/* Storage for [at, at + bytes) of the mapping. 0 or a negative errno value. */
static int populate(uint64_t at, uint64_t bytes)
{
	long err = -MT_EINVAL;
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS)
		return -MT_ENOSPC;
	if (!mt_rt.compare_pid) /* an emulator accepts every advice and does nothing */
		err = mt_sys_madvise((char *)mt_rt.hdr + at, bytes, MT_MADV_POPULATE_WRITE);
	if (err != -MT_EINVAL)
		return (int)err;
	long fd = mt_sys_open(mt_rt.state_path, MT_O_RDWR | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return (int)fd;
	err = mt_sys_fallocate((int)fd, 0, (int64_t)at, (int64_t)bytes);
	mt_sys_close((int)fd);
	return (int)err;
}

static void read_boot_id(uint8_t *ret_id)
{
	char text[40];
	long fd = mt_sys_open("/proc/sys/kernel/random/boot_id", MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return;
	long n = mt_sys_read((int)fd, text, sizeof(text));
	mt_sys_close((int)fd);
	unsigned digits = 0;
	for (long i = 0; i < n && digits < 32; i++) {
		int c = text[i], v = c >= 'a' ? c - 'a' + 10 : c - '0';
		if (v < 0 || v > 15)
			continue;
		ret_id[digits / 2] = (uint8_t)(ret_id[digits / 2] << 4 | v);
		digits++;
	}
}

/* Field 22 is the start time; the name in field 2 may hold blanks and brackets. */
uint64_t mt_storage_process_start(const char *stat_path)
{
	char text[1024];
	long fd = mt_sys_open(stat_path, MT_O_RDONLY | MT_O_CLOEXEC, 0);
	if (fd < 0)
		return 0;
	long n = mt_sys_read((int)fd, text, sizeof(text) - 1);
	mt_sys_close((int)fd);
	if (n <= 0)
		return 0;
	text[n] = 0;
	const char *s = text + n;
	while (s > text && *s != ')')
		s--;
	for (int field = 2; field < 22; field++) {
		while (*s && *s != ' ')
			s++;
		while (*s == ' ')
			s++;
	}
	uint64_t v = 0;
	mt_fmt_parse_u64(&s, &v);
	return v;
}

/* Both clocks at one moment: a pair between whose readings the thread had to wait is a bad one. */
static void read_clocks(uint64_t *ret_ticks, uint64_t *ret_mono_ns)
{
	enum { TRIES = 4, CLOSE_TICKS = 10000 };
	uint64_t best = UINT64_MAX, ticks = 0, mono_ns = 0;
	for (int i = 0; i < TRIES && best > CLOSE_TICKS; i++) {
		uint64_t from = mt_clock_ticks(), ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
		uint64_t took = mt_clock_ticks() - from;
		if (took >= best)
			continue;
		best = took;
		ticks = from + took / 2;
		mono_ns = ns;
	}
	*ret_ticks = ticks;
	*ret_mono_ns = mono_ns;
}

static void fill_header(struct mt_state_header *h)
{
	mt_mem_copy(h->magic, MT_STATE_MAGIC, sizeof(h->magic));
	h->version_major = MT_STATE_VERSION_MAJOR;
	h->version_minor = MT_STATE_VERSION_MINOR;
	h->byte_order = MT_STATE_BYTE_ORDER;
	h->header_bytes = MT_STATE_HEADER_BYTES;
	h->page_bytes = 4096;
	h->arena_address = (uintptr_t)mt_rt.arena;
	h->arena_bytes = mt_rt.arena_bytes;
	h->pointer_bytes = sizeof(void *);
#if defined(__x86_64__)
	h->arch = MT_ARCH_X86_64;
#else
	h->arch = MT_ARCH_AARCH64;
#endif
	h->control = 1;
	h->pid = mt_rt.pid;
	h->ppid = mt_sys_getppid();
	h->depth = mt_rt.options.depth;
	h->launcher_pid = mt_rt.options.launcher_pid;
	h->max_bytes = mt_rt.options.max_bytes;
	h->peak_bound_bytes = MT_PEAK_STEP;
	h->peak_epoch = 1; /* cells start with 0: "no state saved" */
	read_clocks(&h->tick_start, &h->mono_start_ns);
	h->wall_start_ns = mt_sys_clock_ns(MT_CLOCK_REALTIME);
	h->unit_shift = mt_clock_unit_shift();
	h->proc_start = mt_storage_process_start("/proc/self/stat");
	read_boot_id(h->boot_id);
}

static int map_file(int fd)
{
	struct mt_state_region region[MT_STATE_REGIONS_MAX];
	uint64_t limit = size_limit(), size;
	unsigned shift = 0;
	mt_mem_zero(region, sizeof(region));
	while ((size = lay_out(region, shift)) > limit && shift < 20)
		shift++;
	if (size > limit)
		return -MT_ENOMEM;
	int err = (int)mt_sys_ftruncate(fd, (int64_t)size);
	if (err < 0)
		return err;
	long at = mt_sys_mmap(NULL, size, MT_PROT_READ | MT_PROT_WRITE, MT_MAP_SHARED, fd, 0);
	if (mt_sys_is_error(at))
		return (int)at;
	mt_rt.hdr = (struct mt_state_header *)at;
	mt_rt.file_bytes = size;
	mt_rt.region_align = alignment(shift);
	mt_sys_madvise(mt_rt.hdr, size, MT_MADV_DONTDUMP);
	err = populate(0, MT_STATE_HEADER_BYTES);
	if (err)
		return err;
	fill_header(mt_rt.hdr);
	if (shift)
		mt_rt.hdr->notes |= MT_NOTE_REDUCED_BY_LIMIT;
	mt_mem_copy(mt_rt.hdr->region, region, sizeof(region));
	for (size_t i = 0; i < MT_ARRAY_LEN(plan); i++)
		mt_rt.region[plan[i].kind] = &mt_rt.hdr->region[i];
	return 0;
}

static int first_elements(void)
{
	/* element 0 means "none" everywhere; nodes 0..15 are the stack tree's roots */
	static const uint8_t kinds[] = {MT_REGION_STRINGS, MT_REGION_MODULES, MT_REGION_THREADS,
					MT_REGION_SITES,   MT_REGION_CELLS,   MT_REGION_HISTS,
					MT_REGION_LIVE,    MT_REGION_LARGE,   MT_REGION_LABELS,
					MT_REGION_REGIMES, MT_REGION_CHANGES};
	for (size_t i = 0; i < MT_ARRAY_LEN(kinds); i++) {
		mt_storage_take(kinds[i], 1);
		if (mt_rt.region[kinds[i]]->used != 1 || !mt_rt.region[kinds[i]]->committed_bytes)
			return -MT_ENOSPC;
	}
	mt_storage_take(MT_REGION_NODES, MT_NODE_ROOTS);
	mt_storage_take(MT_REGION_HEAPS, MT_HEAP_FIRST_CUSTOM);
	mt_storage_cover(MT_REGION_REQUEST, MT_REQUEST_BYTES - 1);
	return mt_rt.no_storage ? -MT_ENOSPC : 0;
}

static void set_bases(void)
{
	mt_rt.live = mt_storage_base(MT_REGION_LIVE);
	mt_rt.cells = mt_storage_base(MT_REGION_CELLS);
	mt_rt.hists = mt_storage_base(MT_REGION_HISTS);
	mt_rt.sites = mt_storage_base(MT_REGION_SITES);
	mt_rt.nodes = mt_storage_base(MT_REGION_NODES);
	mt_rt.large = mt_storage_base(MT_REGION_LARGE);
	mt_rt.threads = mt_storage_base(MT_REGION_THREADS);
	mt_rt.tick_start = mt_rt.hdr->tick_start;
	mt_rt.unit_shift = mt_rt.hdr->unit_shift;
}

/* A complete file in mt_rt.state_dir. 0, or a negative errno value and nothing is left. */
static int create_in_directory(void)
{
	int fd = open_in_directory();
	if (fd < 0)
		return fd;
	int err = map_file(fd);
	mt_sys_close(fd);
	if (!err) {
		set_bases();
		err = first_elements();
	}
	if (!err)
		return 0;
	mt_sys_unlink(mt_rt.state_path);
	if (mt_rt.hdr)
		mt_sys_munmap(mt_rt.hdr, mt_rt.file_bytes);
	mt_rt.hdr = NULL;
	mt_rt.no_storage = 0;
	return err;
}

int mt_storage_create(void)
{
	static const char *const parents[] = {"/dev/shm", "/tmp"};
	int err = -MT_ENOENT;
	struct mt_fmt f;
	if (!mt_rt.state_dir[0] &&
	    mt_rt.options.state_dir[0]) { /* else a forked child: the parent's */
		mt_fmt_init(&f, mt_rt.state_dir, sizeof(mt_rt.state_dir));
		mt_fmt_str(&f, mt_rt.options.state_dir);
	}
	if (mt_rt.state_dir[0])
		err = create_in_directory();
	for (size_t i = 0; err && i < MT_ARRAY_LEN(parents); i++) { /* missing, full, not ours */
		err = make_directory(parents[i]);
		if (err)
			continue;
		err = create_in_directory();
		if (err)
			mt_sys3(__NR_unlinkat, MT_AT_FDCWD, mt_rt.state_dir,
				0x200 /* AT_REMOVEDIR */);
	}
	return err;
}

void mt_storage_unlink(void)
{
	mt_sys_unlink(mt_rt.state_path);
	if (!mt_rt.options.state_dir[0]) /* our own directory: goes when it is empty */
		mt_sys3(__NR_unlinkat, MT_AT_FDCWD, mt_rt.state_dir, 0x200 /* AT_REMOVEDIR */);
}

void mt_storage_withdraw(void)
{
	mt_storage_unlink();
	mt_sys_munmap(mt_rt.hdr, mt_rt.file_bytes);
	mt_rt.hdr = NULL;
}

/* End of a region's address space, as an offset in the mapping. */
static uint64_t region_end(const struct mt_state_region *r)
{
	return MT_ALIGN_UP(r->offset + r->capacity * r->elem_bytes, mt_rt.region_align);
}

void mt_storage_trim(uint64_t keep_bytes)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(plan); i++) {
		struct mt_state_region *r = &mt_rt.hdr->region[i];
		/* blocks are what a program has most of */
		uint64_t part = r->kind == MT_REGION_LIVE ? keep_bytes / 2 : keep_bytes / 20;
		uint64_t share = MT_MAX(r->committed_bytes * 2, part);
		uint64_t end = region_end(r);
		uint64_t keep = MT_ALIGN_UP(r->offset + share, mt_rt.region_align);
		if (keep >= end)
			continue;
		/* capacity first: nobody may be handed what is going */
		__atomic_store_n(&r->capacity, (keep - r->offset) / r->elem_bytes,
				 __ATOMIC_RELEASE);
		mt_sys_munmap((char *)mt_rt.hdr + keep, end - keep);
		mt_rt_note(MT_NOTE_REDUCED_BY_LIMIT);
	}
}

/* Region by region: what was trimmed may belong to the program by now. */
void mt_storage_unmap(struct mt_state_header *hdr)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(plan); i++) {
		const struct mt_state_region *r = &hdr->region[i];
		if (r->kind)
			mt_sys_munmap((char *)hdr + r->offset, region_end(r) - r->offset);
	}
	mt_sys_munmap(hdr, MT_STATE_HEADER_BYTES);
}

static void make_private(char *at, uint64_t bytes)
{
	long got = mt_sys_mmap(at, bytes, MT_PROT_READ | MT_PROT_WRITE,
			       MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_FIXED | MT_MAP_NORESERVE,
			       -1, 0);
	if (mt_sys_is_error(got)) /* strict overcommit: unreachable is as good as private */
		mt_sys_mmap(at, bytes, MT_PROT_READ,
			    MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_FIXED, -1, 0);
}

void mt_storage_detach(void)
{
	if (!mt_rt.hdr)
		return;
	for (size_t i = 0; i < MT_ARRAY_LEN(plan); i++) {
		const struct mt_state_region *r = &mt_rt.hdr->region[i];
		make_private((char *)mt_rt.hdr + r->offset, region_end(r) - r->offset);
	}
	make_private((char *)mt_rt.hdr, MT_STATE_HEADER_BYTES);
}

/* Regions that grow with the number of different call stacks. */
enum {
	STACK_KINDS = 1 << MT_REGION_NODES | 1 << MT_REGION_SITES | 1 << MT_REGION_CELLS |
		      1 << MT_REGION_HISTS | 1 << MT_REGION_SAMPLED,
};

static int grows_with_stacks(uint32_t kind)
{
	return STACK_KINDS >> kind & 1;
}

uint64_t mt_storage_stacks(void)
{
	uint64_t bytes = 0;
	for (uint32_t kind = 0; kind < MT_REGIONS; kind++)
		if (grows_with_stacks(kind) && mt_rt.region[kind])
			bytes += mt_rt.region[kind]->committed_bytes;
	return bytes;
}

uint64_t mt_storage_stacks_most(void)
{
	return mt_rt.hdr->max_bytes / 2;
}

/*
 * Whether max-overhead leaves room for `more` bytes of a region. Threads have it always: without a
 * row none of their events would be in any total. Stacks get half of it: what is live should be
 * known when they run out.
 */
static int is_within_limit(const struct mt_state_region *r, uint64_t more)
{
	const struct mt_state_header *h = mt_rt.hdr;
	uint64_t tables = __atomic_load_n(&mt_rt.table_bytes, __ATOMIC_RELAXED);
	uint64_t all = h->committed_bytes + tables + more;
	if (!h->max_bytes || r->kind == MT_REGION_THREADS || r->kind == MT_REGION_STATS)
		return 1;
	return all <= h->max_bytes && (!grows_with_stacks(r->kind) ||
				       mt_storage_stacks() + more <= mt_storage_stacks_most());
}

static void end_region(const struct mt_state_region *r)
{
	uint32_t kinds = grows_with_stacks(r->kind) ? STACK_KINDS : 1u << r->kind;
	__atomic_fetch_or(&mt_rt.limited, kinds, __ATOMIC_RELAXED);
	mt_rt_note(MT_NOTE_LIMIT_REACHED);
}

static void mark_time_locked(void)
{
	if (!mt_rt.sandboxed && !mt_rt.no_ticks)
		read_clocks(&mt_rt.hdr->tick_mark, &mt_rt.hdr->mono_mark_ns);
}

MT_COLD void mt_storage_mark_time(void)
{
	if (!mt_lock(&mt_rt.hdr->grow_lock))
		return;
	mark_time_locked();
	mt_unlock(&mt_rt.hdr->grow_lock);
}

/* Of what max-overhead leaves a 16th: what one region has in hand, no other gets. */
static uint64_t step_most(void)
{
	enum { SHARE = 16 };
	const struct mt_state_header *h = mt_rt.hdr;
	uint64_t used = h->committed_bytes + __atomic_load_n(&mt_rt.table_bytes, __ATOMIC_RELAXED);
	uint64_t left = h->max_bytes - MT_MIN(h->max_bytes, used);
	return !h->max_bytes ? GROW_MOST : MT_MAX(MT_MIN(left / SHARE, GROW_MOST), GROW_LEAST);
}

/* Commits storage up to `need` bytes of the region. 0, a negative errno value, or LIMITED. */
static MT_COLD int grow(struct mt_state_region *r, uint64_t need)
{
	if (mt_rt.no_storage)
		return -MT_ENOSPC;
	if (!mt_lock(&mt_rt.hdr->grow_lock))
		return -MT_EINTR;
	int err = 0;
	uint64_t have = r->committed_bytes;
	if (have < need) {
		uint64_t step = MT_MIN(MT_MAX(have / 2, GROW_LEAST), step_most());
		uint64_t end = MT_MAX(MT_ALIGN_UP(need, 4096), MT_ALIGN_UP(have + step, 4096));
		end = MT_MIN(end, MT_ALIGN_UP(r->capacity * r->elem_bytes, 4096));
		if (!is_within_limit(r, end - have)) /* the last bit of what there is */
			end = MT_ALIGN_UP(need, 4096);
		if (!is_within_limit(r, end - have)) {
			end_region(r);
			mt_unlock(&mt_rt.hdr->grow_lock);
			return LIMITED;
		}
		err = populate(r->offset + have, end - have);
		if (!err) {
			__atomic_fetch_add(&mt_rt.hdr->committed_bytes, end - have,
					   __ATOMIC_RELAXED);
			__atomic_store_n(&r->committed_bytes, end, __ATOMIC_RELEASE);
		} else if (err != -MT_EINTR) {
			mt_rt.no_storage = 1;
			mt_rt_note(MT_NOTE_STORAGE_ENDED);
		}
		mark_time_locked();
	}
	mt_unlock(&mt_rt.hdr->grow_lock);
	return err;
}

void mt_storage_reserve(void)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(plan); i++) {
		struct mt_state_region *r = &mt_rt.hdr->region[i];
		uint64_t more = r->kind == MT_REGION_LIVE ? 8 << 20 : r->elem_bytes * 4096;
		uint64_t most = r->capacity * r->elem_bytes;
		grow(r, MT_MIN(r->committed_bytes + more, most));
	}
}

uint32_t mt_storage_take(enum mt_state_region_kind kind, uint32_t count)
{
	struct mt_state_region *r = mt_rt.region[kind];
	if (!r ||
	    ((mt_rt.no_storage || (mt_rt.limited >> kind & 1)) &&
	     __atomic_load_n(&r->used, __ATOMIC_RELAXED) * r->elem_bytes >= r->committed_bytes))
		goto refused;
	uint64_t at = __atomic_fetch_add(&r->used, count, __ATOMIC_RELAXED);
	if (at + count > r->capacity)
		goto refused;
	uint64_t need = (at + count) * r->elem_bytes;
	if (need > __atomic_load_n(&r->committed_bytes, __ATOMIC_ACQUIRE)) {
		int err = grow(r, need);
		if (err) {
			if (err != LIMITED)
				mt_rt_lost(MT_LOST_STORAGE);
			goto refused;
		}
	}
	return (uint32_t)at;
refused:
	if (r)
		__atomic_fetch_add(&r->refused, count, __ATOMIC_RELAXED);
	return 0;
}

int mt_storage_cover(enum mt_state_region_kind kind, uint32_t index)
{
	struct mt_state_region *r = mt_rt.region[kind];
	uint64_t used = __atomic_load_n(&r->used, __ATOMIC_RELAXED);
	uint64_t need = (index + (uint64_t)1) * r->elem_bytes;
	int err = 0;
	if (index >= r->capacity)
		err = -MT_ENOSPC;
	else if (need > __atomic_load_n(&r->committed_bytes, __ATOMIC_ACQUIRE))
		err = mt_rt.limited >> kind & 1 ? LIMITED : grow(r, need);
	if (err) {
		if (err != LIMITED)
			mt_rt_lost(MT_LOST_STORAGE);
		__atomic_fetch_add(&r->refused, 1, __ATOMIC_RELAXED);
		return err;
	}
	while (used <= index && !__atomic_compare_exchange_n(&r->used, &used, index + (uint64_t)1,
							     0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	return 0;
}

uint32_t mt_storage_string(const char *s)
{
	size_t len = s ? mt_str_len(s) : 0;
	if (!len || len > 65535)
		return 0;
	uint32_t at = mt_storage_take(MT_REGION_STRINGS, (uint32_t)len + 1);
	if (at)
		mt_mem_copy((char *)mt_storage_base(MT_REGION_STRINGS) + at, s, len + 1);
	else
		mt_rt_lost(MT_LOST_STRING_FULL);
	return at;
}
