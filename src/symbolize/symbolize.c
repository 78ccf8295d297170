/* SPDX-License-Identifier: MIT */
/*
 * From a profile's nodes to frames: one job for each distinct module, done by a few threads. A job
 * belongs to one thread at a time; the counters between the threads are guarded by pool.lock. The
 * caller's thread only waits and reports progress.
 */
#include "symbolize/symbolize.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "model/profile.h"
#include "symbolize/demangle.h"
#include "symbolize/symcache.h"
#include "symbolize/symmod.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	THREADS_DEFAULT_MAX = 8,
	THREADS_MAX = 64,
	PROGRESS_AFTER_MS = 1000,
	PROGRESS_EVERY_MS = 200,
};

struct job {
	struct mt_debugfile_key key;
	uint64_t *vaddr; /* owned; distinct once run */
	/* addresses are offsets in the file until it is there; base_delta: from where its begin is
	 * mapped */
	bool by_offset;
	uint64_t base_delta;
	struct mt_debugfile_segment *segment; /* by_offset: of the file, once run; owned */
	uint32_t segments;
	size_t count, cap;
	struct mt_symset set;
	struct mt_symbol_frame *frame; /* arena; one for each of set.frame */
	enum mt_debugfile_state state;
	int result;
};

struct node_ref {
	const struct mt_symbol_frame *frame;
	uint32_t count;
};

struct mt_symbols {
	const struct mt_profile *profile;
	struct mt_arena *arena;
	struct job *job; /* owned */
	size_t jobs, job_cap;
	uint32_t *job_of_module; /* arena; job number + 1, 0: none */
	struct node_ref *node;   /* arena */
	char **warning;          /* owned array, arena strings */
	size_t warnings, warning_cap;
	bool stopped;
};

struct pool {
	struct mt_symbols *s;
	const struct mt_symbolize_options *options;
	struct mt_debugfile_options files; /* the options' ones, with our stop */
	const char *cache_dir;             /* NULL: no cache */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t next, done; /* guarded by lock */
	bool stored;       /* guarded by lock: the cache has grown */
	int stop;          /* atomic */
};

/* ---- jobs ---- */

static uint64_t lookup_address(const struct mt_profile *p, uint32_t node)
{
	const struct mt_profile_node *n = &p->node[node];
	return n->pc - 1 - p->module[n->module].bias;
}

static bool has_address(const struct mt_profile *p, uint32_t node)
{
	const struct mt_profile_node *n = &p->node[node];
	return n->kind != MT_FRAME_SOURCE && n->depth && n->module && n->module < p->module_count &&
	       !p->module[n->module].is_vdso;
}

/* What an offset in the file lacks to be the distance from where the file's begin is mapped. */
static uint64_t base_delta(const struct mt_profile_module *m)
{
	return m->base ? m->bias - m->base : 0;
}

/* The same file loaded twice, or again, is one job. */
static int job_name(const struct mt_profile_module *m, struct mt_strings *names,
		    uint32_t *ret_number)
{
	mt_auto(mt_buf) struct mt_buf b = {0};
	for (uint32_t i = 0; i < m->build_id_bytes && i < sizeof(m->build_id); i++)
		mt_buf_printf(&b, "%02x", m->build_id[i]);
	mt_buf_printf(&b, ":%llu:%s", (unsigned long long)m->file_inode, m->path);
	if (m->by_offset)
		mt_buf_printf(&b, "\n%llx", (unsigned long long)base_delta(m));
	if (b.failed)
		return -ENOMEM;
	return mt_strings_intern(names, mt_buf_text(&b), b.len, ret_number);
}

static int job_for_module(struct mt_symbols *s, uint32_t module, struct mt_strings *names)
{
	const struct mt_profile_module *m = &s->profile->module[module];
	uint32_t number;
	int r = job_name(m, names, &number);
	if (r)
		return r;
	if (number > s->jobs) {
		struct job *job = mt_alloc_grow(s->job, &s->job_cap, number, sizeof(*job));
		if (!job)
			return -ENOMEM;
		s->job = job;
		job[s->jobs++] = (struct job){
			.by_offset = m->by_offset,
			.base_delta = m->by_offset ? base_delta(m) : 0,
			.key = {.path = m->path,
				.build_id = m->build_id,
				.build_id_bytes = MT_MIN(m->build_id_bytes, sizeof(m->build_id)),
				.inode = m->file_inode}};
	}
	s->job_of_module[module] = number;
	return 0;
}

static int add_address(struct job *job, uint64_t vaddr)
{
	uint64_t *list = mt_alloc_grow(job->vaddr, &job->cap, job->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	job->vaddr = list;
	list[job->count++] = vaddr;
	return 0;
}

static int make_jobs(struct mt_symbols *s)
{
	const struct mt_profile *p = s->profile;
	mt_auto(mt_strings) struct mt_strings names = {0};
	int r = 0;
	for (uint32_t i = 0; i < p->node_count && !r; i++) {
		if (!has_address(p, i))
			continue;
		uint32_t module = p->node[i].module;
		if (!s->job_of_module[module])
			r = job_for_module(s, module, &names);
		if (!r)
			r = add_address(&s->job[s->job_of_module[module] - 1],
					lookup_address(p, i));
	}
	return r;
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

static void make_distinct(struct job *job)
{
	size_t kept = 0;
	qsort(job->vaddr, job->count, sizeof(*job->vaddr), compare_u64);
	for (size_t i = 0; i < job->count; i++)
		if (!i || job->vaddr[i] != job->vaddr[i - 1])
			job->vaddr[kept++] = job->vaddr[i];
	job->count = kept;
}

/* ---- one job, in a worker ---- */

/* What the cache does not know, moved to the front of job->vaddr; returns how many. */
static size_t drop_known(struct job *job, const struct mt_symset *cached)
{
	size_t kept = 0;
	for (size_t i = 0; i < job->count; i++)
		if (!mt_symset_find(cached, job->vaddr[i]))
			job->vaddr[kept++] = job->vaddr[i];
	return kept;
}

static int store(struct pool *pool, const struct mt_symcache_key *key, const struct job *job,
		 const struct mt_symset *fresh)
{
	int r = mt_symcache_store(pool->cache_dir, key, &job->set);
	if (r == -EFBIG) /* too much came together over time: begin again with what is in use */
		r = mt_symcache_store(pool->cache_dir, key, fresh);
	if (!r) {
		pthread_mutex_lock(&pool->lock);
		pool->stored = true;
		pthread_mutex_unlock(&pool->lock);
	}
	return r;
}

static int resolve(struct pool *pool, struct job *job, struct mt_symmod *m)
{
	const struct mt_symcache_key key = {.build_id = job->key.build_id,
					    .build_id_bytes = job->key.build_id_bytes,
					    .identity = mt_symmod_identity(m)};
	const bool use_cache = pool->cache_dir && key.build_id_bytes;
	mt_auto(mt_symset) struct mt_symset fresh = {0};
	bool cacheable;
	if (use_cache && mt_symcache_load(pool->cache_dir, &key, &job->set) == -ENOMEM)
		return -ENOMEM;
	size_t count = drop_known(job, &job->set);
	if (!count)
		return 0;
	int r = mt_symmod_resolve(m, job->vaddr, count, &pool->stop, &fresh, &cacheable);
	if (r && r != -ECANCELED)
		return r;
	int e = mt_symset_merge(&job->set, &fresh);
	if (!e && !r && use_cache && cacheable)
		store(pool, &key, job, &fresh); /* a cache that cannot be written is no failure */
	return e ? e : r;
}

static bool is_stopped(const struct pool *pool)
{
	return __atomic_load_n(&pool->stop, __ATOMIC_RELAXED);
}

static uint64_t to_vaddr(const struct job *job, uint64_t address)
{
	return job->by_offset ? mt_debugfile_vaddr(job->segment, job->segments, address,
						   address + job->base_delta)
			      : address;
}

/* Takes the addresses that are offsets in the file as what they are in its own terms. */
static int place(struct job *job, const struct mt_symmod *m)
{
	const struct mt_debugfile_segment *segment = mt_symmod_segments(m, &job->segments);
	if (!job->by_offset)
		return 0;
	job->segment = mt_alloc_zero(job->segments + 1u, sizeof(*segment));
	if (!job->segment)
		return -ENOMEM;
	memcpy(job->segment, segment, job->segments * sizeof(*segment));
	for (size_t i = 0; i < job->count; i++)
		job->vaddr[i] = to_vaddr(job, job->vaddr[i]);
	return 0;
}

static void run_job(struct pool *pool, struct job *job)
{
	struct mt_symmod *m = NULL;
	job->result = mt_symmod_open(&pool->files, &job->key, &m, &job->state);
	if (!job->result)
		job->result = place(job, m);
	make_distinct(job);
	if (!job->result)
		job->result = resolve(pool, job, m);
	else if (job->result == -ENOENT && is_stopped(pool)) /* nobody looked everywhere */
		job->result = -ECANCELED;
	mt_symmod_close(m);
}

static void *work(void *arg)
{
	struct pool *pool = arg;
	pthread_mutex_lock(&pool->lock);
	while (pool->next < pool->s->jobs && !is_stopped(pool)) {
		struct job *job = &pool->s->job[pool->next++];
		pthread_mutex_unlock(&pool->lock);
		run_job(pool, job);
		pthread_mutex_lock(&pool->lock);
		pool->done++;
		pthread_cond_signal(&pool->changed);
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

/* ---- the pool, in the caller's thread ---- */

static struct timespec after_ms(int64_t ms)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ms % 1000 * 1000000;
	t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

static void wait_for_jobs(struct pool *pool)
{
	const struct mt_symbolize_options *o = pool->options;
	const uint32_t total = (uint32_t)pool->s->jobs;
	struct timespec next = after_ms(PROGRESS_AFTER_MS);
	pthread_mutex_lock(&pool->lock);
	while (pool->done < total && !pool->stop) {
		if (!o->progress) {
			pthread_cond_wait(&pool->changed, &pool->lock);
			continue;
		}
		if (pthread_cond_timedwait(&pool->changed, &pool->lock, &next) != ETIMEDOUT)
			continue;
		const uint32_t done = (uint32_t)pool->done;
		pthread_mutex_unlock(&pool->lock);
		if (!o->progress(o->progress_context, done, total))
			__atomic_store_n(&pool->stop, 1, __ATOMIC_RELAXED);
		next = after_ms(PROGRESS_EVERY_MS);
		pthread_mutex_lock(&pool->lock);
	}
	pthread_mutex_unlock(&pool->lock);
}

static size_t thread_count(const struct mt_symbolize_options *options, size_t jobs)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	size_t count = options->threads;
	if (!count)
		count = MT_MIN(online > 0 ? (size_t)online : 1, (size_t)THREADS_DEFAULT_MAX);
	return MT_MIN(MT_MIN(count, (size_t)THREADS_MAX), jobs);
}

/* Workers get the stack that demangling long names needs; it is only touched when it is used. */
static size_t start_threads(struct pool *pool, pthread_t *thread, size_t count)
{
	pthread_attr_t attr;
	size_t started = 0;
	if (pthread_attr_init(&attr))
		return 0;
	if (!pthread_attr_setstacksize(&attr, MT_DEMANGLE_STACK_BYTES + (1 << 20)))
		while (started < count && !pthread_create(&thread[started], &attr, work, pool))
			started++;
	pthread_attr_destroy(&attr);
	return started;
}

static int init_pool(struct pool *pool)
{
	pthread_condattr_t attr;
	if (pthread_condattr_init(&attr))
		return -ENOMEM;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	int r = pthread_cond_init(&pool->changed, &attr);
	pthread_condattr_destroy(&attr);
	if (r)
		return -ENOMEM;
	pthread_mutex_init(&pool->lock, NULL);
	return 0;
}

static int run_jobs(struct mt_symbols *s, const struct mt_symbolize_options *options,
		    struct mt_err *err)
{
	pthread_t thread[THREADS_MAX];
	mt_auto(free) char *cache_dir =
		options->no_cache ? NULL : mt_symcache_dir(options->cache_dir);
	struct pool pool = {
		.s = s, .options = options, .files = options->files, .cache_dir = cache_dir};
	pool.files.stop = &pool.stop;
	if (!s->jobs)
		return 0;
	if (init_pool(&pool))
		return mt_err_no_memory(err);
	size_t started = start_threads(&pool, thread, thread_count(options, s->jobs));
	if (started)
		wait_for_jobs(&pool);
	for (size_t i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	pthread_cond_destroy(&pool.changed);
	pthread_mutex_destroy(&pool.lock);
	if (!started)
		return mt_err_set_errno(err, EAGAIN, "cannot start a thread to read symbols");
	s->stopped = pool.next < s->jobs;
	for (size_t i = 0; i < s->jobs; i++)
		s->stopped |= s->job[i].result == -ECANCELED;
	if (pool.stored)
		mt_symcache_prune(cache_dir, MT_SYMCACHE_TOTAL_MAX);
	return 0;
}

/* ---- results ---- */

static int add_warning(struct mt_symbols *s, const char *before, const char *path,
		       const char *after)
{
	char **list = mt_alloc_grow(s->warning, &s->warning_cap, s->warnings + 1, sizeof(*list));
	char *text = mt_arena_printf(s->arena, "%s'%s'%s", before, path, after);
	if (list)
		s->warning = list;
	if (!list || !text)
		return -ENOMEM;
	list[s->warnings++] = text;
	return 0;
}

static int warn_of_job(struct mt_symbols *s, const struct job *job)
{
	const char *path = job->key.path;
	if (job->result == -EIO)
		return add_warning(s, "cannot read the symbols of ", path, ": damaged file");
	if (job->result != -ENOENT)
		return 0;
	switch (job->state) {
	case MT_DEBUGFILE_CHANGED:
		return add_warning(
			s, "", path,
			job->key.build_id_bytes
				? " has changed since the recording: build-id differs"
				: " has changed since the recording: it is another file");
	case MT_DEBUGFILE_MISSING:
		return add_warning(s, "cannot open ", path, ": no symbols from it");
	case MT_DEBUGFILE_NOT_ELF:
		return add_warning(s, "", path, " is not a readable ELF file: no symbols from it");
	case MT_DEBUGFILE_OK:
	case MT_DEBUGFILE_NO_PATH:
		break;
	}
	return 0;
}

static const char *text_or_null(const struct mt_symset *set, uint32_t number)
{
	return number ? mt_strings_get(&set->strings, number) : NULL;
}

static int publish_frames(struct mt_symbols *s, struct job *job)
{
	job->frame = mt_arena_array(s->arena, job->set.frames + 1, sizeof(*job->frame));
	if (!job->frame)
		return -ENOMEM;
	for (size_t i = 0; i < job->set.frames; i++) {
		const struct mt_symset_frame *f = &job->set.frame[i];
		struct mt_symbol_frame *to = &job->frame[i];
		*to = (struct mt_symbol_frame){
			.function = text_or_null(&job->set, f->function),
			.mangled = text_or_null(&job->set, f->mangled),
			.file = text_or_null(&job->set, f->file),
			.line = f->line,
			.column = f->column,
			.offset = f->offset,
			.has_offset = f->flags & MT_SYMSET_HAS_OFFSET,
			.is_inline = f->flags & MT_SYMSET_INLINE,
			.nearest_dynamic = f->flags & MT_SYMSET_NEAREST_DYNAMIC,
		};
		to->display = to->function;
		if (to->nearest_dynamic && to->function)
			to->display = mt_arena_printf(s->arena, "~%s+0x%llx", to->function,
						      (unsigned long long)to->offset);
		if (to->function && !to->display)
			return -ENOMEM;
	}
	return 0;
}

static void publish_nodes(struct mt_symbols *s)
{
	const struct mt_profile *p = s->profile;
	for (uint32_t i = 0; i < p->node_count; i++) {
		uint32_t number = has_address(p, i) ? s->job_of_module[p->node[i].module] : 0;
		if (!number)
			continue;
		const struct job *job = &s->job[number - 1];
		const uint64_t vaddr = to_vaddr(job, lookup_address(p, i));
		const struct mt_symset_entry *e = mt_symset_find(&job->set, vaddr);
		if (e && e->count)
			s->node[i] = (struct node_ref){.frame = &job->frame[e->first],
						       .count = e->count};
	}
}

static int publish(struct mt_symbols *s, struct mt_err *err)
{
	for (size_t i = 0; i < s->jobs; i++)
		if (s->job[i].result == -ENOMEM || publish_frames(s, &s->job[i]) ||
		    warn_of_job(s, &s->job[i]))
			return mt_err_no_memory(err);
	publish_nodes(s);
	return 0;
}

int mt_symbolize_profile(const struct mt_profile *profile,
			 const struct mt_symbolize_options *options,
			 struct mt_symbols **ret_symbols, struct mt_err *err)
{
	mt_auto(mt_symbols) struct mt_symbols *s = mt_alloc_zero(1, sizeof(*s));
	if (!s)
		return mt_err_no_memory(err);
	s->profile = profile;
	s->arena = mt_arena_new();
	if (!s->arena)
		return mt_err_no_memory(err);
	s->job_of_module = mt_arena_array(s->arena, profile->module_count + 1, sizeof(uint32_t));
	s->node = mt_arena_array(s->arena, (size_t)profile->node_count + 1, sizeof(*s->node));
	if (!s->job_of_module || !s->node || make_jobs(s))
		return mt_err_no_memory(err);
	int r = run_jobs(s, options, err);
	if (!r)
		r = publish(s, err);
	if (r)
		return r;
	*ret_symbols = s;
	s = NULL;
	return 0;
}

void mt_symbols_free(struct mt_symbols *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->jobs; i++) {
		free(s->job[i].vaddr);
		free(s->job[i].segment);
		mt_symset_done(&s->job[i].set);
	}
	free(s->job);
	free(s->warning);
	mt_arena_free(s->arena);
	free(s);
}

const struct mt_symbol_frame *mt_symbols_node(const struct mt_symbols *s, uint32_t node,
					      uint32_t *ret_count)
{
	if (node >= s->profile->node_count) {
		*ret_count = 0;
		return NULL;
	}
	*ret_count = s->node[node].count;
	return s->node[node].frame;
}

uint32_t mt_symbols_warnings(const struct mt_symbols *s)
{
	return (uint32_t)s->warnings;
}

const char *mt_symbols_warning(const struct mt_symbols *s, uint32_t index)
{
	return index < s->warnings ? s->warning[index] : "";
}

bool mt_symbols_stopped(const struct mt_symbols *s)
{
	return s->stopped;
}
