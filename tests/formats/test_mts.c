/* SPDX-License-Identifier: MIT */
/* Series of snapshots: written, thinned, read again, by several writers, killed ones too. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "formats/mts_read.h"
#include "formats/mts_write.h"

#define MINUTE_NS (60 * 1000000000ull)
enum { SITES = 50 };

static char dir[64], path[128];
static int dir_fd;

static const struct mt_state_header state = {
	.pid = 42, .boot_id = {7}, .proc_start = 5, .mono_start_ns = 1000, .wall_start_ns = 2000};

static int setup(void **unused)
{
	snprintf(dir, sizeof(dir), "/tmp/memtrack-test-mts-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/1.1.mts", dir);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir_fd < 0 ? -1 : 0;
}

static int teardown(void **unused)
{
	char command[128];

	close(dir_fd);
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

static struct mt_mts_place place_of(uint64_t limit_bytes)
{
	return (struct mt_mts_place){.dir_fd = dir_fd,
				     .name = "1.1.mts",
				     .path = path,
				     .state = &state,
				     .limit_bytes = limit_bytes,
				     .owner = geteuid()};
}

static uint64_t random_u64(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005u + 1442695040888963407u;
	return *seed >> 20;
}

/* Noise around a level at every site; the last one grows. */
static void change(struct mt_mts_table *t, uint64_t *seed)
{
	for (uint32_t i = 1; i < t->count; i++) {
		uint64_t allocs = random_u64(seed) % 4000;

		t->site[i].allocs += allocs;
		t->site[i].count = 1000 + random_u64(seed) % 200;
		t->site[i].frees = t->site[i].allocs - t->site[i].count;
		t->site[i].bytes = t->site[i].count * 64 + random_u64(seed) % 4096;
	}
	t->site[t->count - 1].bytes = t->site[t->count - 1].allocs;
}

static struct mt_series_point point_of(uint64_t time_ns, uint64_t live)
{
	return (struct mt_series_point){
		.reason = MT_SERIES_INTERVAL,
		.time_ns = time_ns,
		.wall_ns = 2000 + time_ns,
		.live_bytes = live,
		.live_count = live / 10,
		.allocs = time_ns / 7,
		.frees = time_ns / 8,
		.alloc_bytes = time_ns,
		.freed_bytes = time_ns / 2,
		.rss_bytes = live * 2,
		.pss_bytes = MT_SERIES_UNKNOWN,
		.anon_bytes = live,
		.swap_bytes = 0,
	};
}

static int append(struct mt_mts_writer *w, uint64_t time_ns, struct mt_mts_table *t)
{
	struct mt_mts_place place = place_of(0);
	struct mt_series_point p = point_of(time_ns, t->site[1].bytes);

	return mt_mts_append(w, &place, &p, t, NULL, NULL);
}

/* The first numbers of the series, and that its tables are those that `seed` makes. */
struct expected {
	struct mt_mts_table table;
	uint64_t seed;
	uint32_t points;
};

static int compare(void *user, const struct mt_series_point *p, const struct mt_mts_table *t)
{
	struct expected *e = user;

	change(&e->table, &e->seed);
	e->points++;
	assert_int_equal(p->number, e->points);
	assert_int_equal(p->time_ns, e->points * MINUTE_NS);
	assert_int_equal(p->live_bytes, e->table.site[1].bytes);
	assert_int_equal(p->pss_bytes, MT_SERIES_UNKNOWN);
	assert_int_equal(p->rss_bytes, 2 * p->live_bytes);
	assert_int_equal(t->count, e->table.count);
	assert_memory_equal(t->site, e->table.site, t->count * sizeof(*t->site));
	return 0;
}

static void assert_series(uint32_t points, uint64_t damaged)
{
	struct expected e = {.seed = 1};
	struct mt_mts_info info;

	assert_int_equal(mt_mts_table_grow(&e.table, SITES), 0);
	assert_int_equal(mt_mts_walk(path, true, compare, &e, &info, NULL), 0);
	assert_int_equal(e.points, points);
	assert_int_equal(info.points, points);
	assert_int_equal(info.damaged_bytes, damaged);
	assert_true(mt_mts_is_of(&info.header, &state));
	mt_mts_table_done(&e.table);
}

static void what_is_appended_is_read_again(void **unused)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	uint64_t seed = 1;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	for (uint64_t i = 1; i <= 20; i++) {
		change(&t, &seed);
		assert_int_equal(append(&w, i * MINUTE_NS, &t), 0);
	}
	assert_series(20, 0);
}

static void writers_that_take_turns_lose_nothing(void **unused)
{
	struct mt_mts_writer w[2] = {{0}};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	uint64_t seed = 1;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	for (uint64_t i = 1; i <= 30; i++) {
		change(&t, &seed);
		assert_int_equal(append(&w[i % 5 == 0 || i % 7 == 0], i * MINUTE_NS, &t), 0);
	}
	assert_series(30, 0);
	mt_mts_writer_done(&w[0]);
	mt_mts_writer_done(&w[1]);
}

static void append_many(int times)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	uint64_t seed = (uint64_t)getpid();

	if (mt_mts_table_grow(&t, SITES))
		_exit(2);
	for (int i = 0; i < times; i++) {
		change(&t, &seed);
		if (append(&w, MINUTE_NS, &t))
			_exit(1);
	}
	_exit(0);
}

static void writers_at_once_lose_nothing(void **unused)
{
	enum { WRITERS = 4, TIMES = 50 };
	struct mt_mts_info info;
	int status;

	for (int i = 0; i < WRITERS; i++)
		if (!fork())
			append_many(TIMES);
	for (int i = 0; i < WRITERS; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(mt_mts_walk(path, true, NULL, NULL, &info, NULL), 0);
	assert_int_equal(info.points, WRITERS * TIMES);
	assert_int_equal(info.damaged_bytes, 0);
	assert_int_equal(info.header.lost, 0);
}

/* The bytes of a good series of `points` snapshots. */
static char *make_series(uint32_t points, size_t *ret_len)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	uint64_t seed = 1;
	char *data;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	for (uint64_t i = 1; i <= points; i++) {
		change(&t, &seed);
		assert_int_equal(append(&w, i * MINUTE_NS, &t), 0);
	}
	assert_int_equal(mt_file_read(path, 1 << 20, &data, ret_len, NULL), 0);
	return data;
}

static void a_writer_goes_on_behind_what_a_killed_one_left(void **unused)
{
	size_t len;
	mt_auto(free) char *data = make_series(4, &len);
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	/* whatever was there of the fourth, the fifth follows the third */
	for (size_t cut = 0; cut < len; cut += 61) {
		mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
		struct mt_mts_info before, after;
		int r;

		assert_int_equal(mt_file_write_atomic(path, data, cut, 0600, NULL), 0);
		r = mt_mts_walk_memory(data, cut, "x", true, NULL, NULL, &before, NULL);
		assert_int_equal(r, !cut ? -ENODATA : cut < MT_MTS_HEADER_BYTES ? -EBADMSG : 0);
		assert_int_equal(append(&w, 5 * MINUTE_NS, &t), 0);
		assert_int_equal(mt_mts_walk(path, true, NULL, NULL, &after, NULL), 0);
		assert_int_equal(after.points, r ? 1 : before.points + 1);
		assert_int_equal(after.damaged_bytes, 0);
	}
}

static void one_wrong_byte_ends_the_series_there(void **unused)
{
	size_t len;
	mt_auto(free) char *data = make_series(4, &len);

	for (size_t at = MT_MTS_HEADER_BYTES; at < len; at += 13) {
		struct expected e = {.seed = 1};
		struct mt_mts_info info;

		assert_int_equal(mt_mts_table_grow(&e.table, SITES), 0);
		data[at] ^= 0x20;
		assert_int_equal(mt_mts_walk_memory(data, len, "x", true, compare, &e, &info, NULL),
				 0);
		assert_true(info.points < 4);
		assert_true(info.end <= at && info.end + info.damaged_bytes == len);
		data[at] ^= 0x20;
		mt_mts_table_done(&e.table);
	}
}

/* A writer that is killed at any moment, again and again. */
static void kills_in_the_middle_leave_a_good_series(void **unused)
{
	uint32_t before = 0;

	for (int i = 0; i < 40; i++) {
		struct mt_mts_info info = {0};
		pid_t pid = fork();

		assert_true(pid >= 0);
		if (!pid)
			append_many(1 << 30);
		usleep(500 + (useconds_t)i * 97);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		if (mt_mts_walk(path, true, NULL, NULL, &info, NULL))
			continue; /* not even the header yet */
		assert_true(info.points >= before);
		before = info.points;
	}
	assert_true(before > 0);
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	struct mt_mts_info info;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	assert_int_equal(append(&w, MINUTE_NS, &t), 0);
	assert_int_equal(mt_mts_walk(path, true, NULL, NULL, &info, NULL), 0);
	assert_int_equal(info.points, before + 1);
	assert_int_equal(info.damaged_bytes, 0);
}

static void a_full_disk_is_a_counted_loss(void **unused)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	uint32_t stored = 0, lost = 0;
	struct mt_mts_info info;
	struct mt_err err = {0};
	char big[128];
	uint64_t seed = 1;

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, "size=256k"))
		skip();
	close(dir_fd);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(mt_mts_table_grow(&t, 500), 0);
	for (uint64_t i = 1; i <= 200; i++) {
		struct mt_mts_place place = place_of(0);
		struct mt_series_point p = point_of(i * MINUTE_NS, 5);

		change(&t, &seed);
		if (!mt_mts_append(&w, &place, &p, &t, NULL, &err))
			stored++;
		else
			lost++;
	}
	assert_true(stored > 5 && lost > 5);
	assert_int_equal(err.code, -ENOSPC);
	assert_non_null(strstr(err.text, "1.1.mts': No space left on device"));
	assert_int_equal(mt_mts_walk(path, true, NULL, NULL, &info, NULL), 0);
	assert_int_equal(info.points, stored);
	assert_int_equal(info.header.lost, lost);
	assert_int_equal(info.damaged_bytes, 0);
	/* what others need is left to them */
	struct mt_mts_place place = place_of(0);
	struct mt_series_point p = point_of(500 * MINUTE_NS, 5);

	snprintf(big, sizeof(big), "mount -o remount,size=1m '%s'", dir);
	assert_int_equal(system(big), 0);
	place.reserve_bytes = 4 << 20;
	assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, &err), -ENOSPC);
	/* room again: it goes on */
	assert_int_equal(append(&w, 1000 * MINUTE_NS, &t), 0);
	assert_int_equal(mt_mts_walk(path, true, NULL, NULL, &info, NULL), 0);
	assert_int_equal(info.points, stored + 1);
	close(dir_fd);
	dir_fd = -1;
	umount(dir);
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void a_lock_that_is_held_is_not_waited_for_long(void **unused)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	struct mt_mts_place place = place_of(0);
	struct mt_series_point p = point_of(1, 1);
	struct mt_mts_info info;
	struct mt_err err = {0};
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, &err), -EBUSY);
	assert_non_null(strstr(err.text, "another memtrack is writing it"));
	close(fd);
	assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, &err), 0);
	assert_int_equal(mt_mts_walk(path, false, NULL, NULL, &info, NULL), 0);
	assert_int_equal(info.header.lost, 1);
}

static void series_of_others_and_links_are_refused(void **unused)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	struct mt_state_header other = state;
	struct mt_mts_place place = place_of(0);
	struct mt_series_point p = point_of(1, 1);
	struct mt_err err = {0};
	char target[128];

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	assert_int_equal(append(&w, 1, &t), 0);
	other.proc_start++;
	place.state = &other;
	assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, &err), 0); /* by memory */
	mt_mts_writer_done(&w);
	w = (struct mt_mts_writer){0};
	assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, &err), -EEXIST);
	snprintf(target, sizeof(target), "%s/target", dir);
	assert_int_equal(rename(path, target), 0);
	assert_int_equal(symlink("target", path), 0);
	assert_int_equal(append(&w, 2, &t), -ELOOP);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(link(target, path), 0);
	assert_int_equal(append(&w, 2, &t), -EINVAL);
}

static void other_files_are_refused_with_a_sentence(void **unused)
{
	size_t len;
	mt_auto(free) char *data = make_series(1, &len);
	struct mt_mts_header *h = (struct mt_mts_header *)data;
	struct mt_err err = {0};

	assert_int_equal(mt_mts_walk_memory("MEMTRACK", 8, "x", false, NULL, NULL, NULL, &err),
			 -EBADMSG);
	assert_string_equal(err.text, "'x' is not a series of snapshots");
	assert_int_equal(mt_mts_walk_memory(data, 100, "x", false, NULL, NULL, NULL, &err),
			 -EBADMSG);
	assert_string_equal(err.text, "'x' is cut inside its header");
	h->version_major = 3;
	assert_int_equal(mt_mts_walk_memory(data, len, "x", false, NULL, NULL, NULL, &err),
			 -EPROTONOSUPPORT);
	assert_string_equal(err.text,
			    "'x' is a series of version 3.0, this program reads versions 1 to 2");
	h->version_major = 0;
	assert_int_equal(mt_mts_walk_memory(data, len, "x", false, NULL, NULL, NULL, &err),
			 -EPROTONOSUPPORT);
	h->version_major = 2;
	h->byte_order = 0x04030201;
	assert_int_equal(mt_mts_walk_memory(data, len, "x", false, NULL, NULL, NULL, &err),
			 -EPROTONOSUPPORT);
}

static void a_series_is_loaded_with_first_last_and_columns(void **unused)
{
	size_t len;
	mt_auto(free) char *data = make_series(9, &len);
	struct mt_mts_table t = {0};
	struct mt_series *s = NULL;
	uint64_t seed = 1;

	assert_int_equal(mt_mts_load_memory(data, len, "x", 5, &s, NULL, NULL), 0);
	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	assert_int_equal(s->point_count, 9);
	assert_int_equal(s->site_count, SITES);
	assert_int_equal(s->column_count, 5);
	for (uint32_t i = 0, c = 0; i < 9; i++) {
		change(&t, &seed);
		assert_int_equal(s->point[i].number, i + 1);
		if (!i)
			assert_memory_equal(s->first, t.site, SITES * sizeof(*t.site));
		if (i % 2)
			continue;
		assert_int_equal(s->column[c], i);
		assert_int_equal(s->bytes[(SITES - 1) * 5 + c], t.site[SITES - 1].bytes);
		c++;
	}
	assert_memory_equal(s->last, t.site, SITES * sizeof(*t.site));
	mt_series_free(s);
	mt_mts_table_done(&t);
}

static void memory_that_runs_out_is_an_error_like_others(void **unused)
{
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	size_t len;
	mt_auto(free) char *data = make_series(3, &len);
	struct mt_series *s = NULL;
	int r = -ENOMEM;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	for (size_t n = 1; r; n++) {
		mt_alloc_fail_from_for_test(n);
		r = mt_mts_load_memory(data, len, "x", 5, &s, NULL, NULL);
		mt_alloc_fail_from_for_test(0);
		assert_true(!r || r == -ENOMEM);
		assert_true(n < 1000);
	}
	mt_series_free(s);
	r = -ENOMEM;
	for (size_t n = 1; r; n++) {
		mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};

		mt_alloc_fail_from_for_test(n);
		r = append(&w, 10 * MINUTE_NS, &t);
		mt_alloc_fail_from_for_test(0);
		assert_true(!r || r == -ENOMEM);
		assert_true(n < 1000);
	}
}

/* ---- samples ---- */

#define INTERVAL 524288.0

/* Every third site is sampled: some blocks came, some of those that were there went. */
static void change_samples(struct mt_mts_table *t, uint64_t *seed)
{
	assert_int_equal(mt_mts_table_grow_sampled(t), 0);
	t->knows_samples = true;
	for (uint32_t i = 1; i < t->count; i += 3) {
		struct mt_series_sampled *s = &t->sampled[i];
		double size = 100.0 * i, weight = 1 / -expm1(-size / INTERVAL);
		double share = 1 - 1 / weight;
		uint64_t came = random_u64(seed) % 20;
		uint64_t went = random_u64(seed) % (s->live.samples + came + 1);

		s->live.samples += came - went;
		s->freed.samples += went;
		s->live.seen_bytes = s->live.samples * (uint64_t)size;
		s->freed.seen_bytes = s->freed.samples * (uint64_t)size;
		s->freed_bytes = (uint64_t)((double)s->freed.samples * size * weight);
		s->live.bytes_variance =
			(double)s->live.samples * share * size * weight * size * weight;
		s->freed.bytes_variance =
			(double)s->freed.samples * share * size * weight * size * weight;
		s->live.count_variance = (double)s->live.samples * share * weight * weight;
		s->freed.count_variance = (double)s->freed.samples * share * weight * weight;
	}
}

static void assert_variance(double v, double expected, double one)
{
	assert_true(fabs(v - expected) <= one / 64 + 1);
}

static void assert_sampled(struct mt_series_sampled is, const struct mt_series_sampled *should)
{
	uint64_t samples = should->live.samples + should->freed.samples;
	double all = should->live.bytes_variance + should->freed.bytes_variance;
	double one = samples ? all / (double)samples : 0;

	assert_int_equal(is.live.samples, should->live.samples);
	assert_int_equal(is.freed.samples, should->freed.samples);
	assert_int_equal(is.live.seen_bytes, should->live.seen_bytes);
	assert_int_equal(is.freed.seen_bytes, should->freed.seen_bytes);
	assert_int_equal(is.freed_bytes, should->freed_bytes);
	assert_variance(is.live.bytes_variance, should->live.bytes_variance, one);
	assert_variance(is.freed.bytes_variance, should->freed.bytes_variance, one);
	all = should->live.count_variance + should->freed.count_variance;
	one = samples ? all / (double)samples : 0;
	assert_variance(is.live.count_variance, should->live.count_variance, one);
	assert_variance(is.freed.count_variance, should->freed.count_variance, one);
}

enum { SAMPLED_POINTS = 40 };

/* The tables that a series should have, from the last that was not compared yet. */
struct sampled_series {
	struct mt_mts_table table[SAMPLED_POINTS + 1]; /* by number */
	uint32_t points;
};

static int compare_samples(void *user, const struct mt_series_point *p,
			   const struct mt_mts_table *t)
{
	struct sampled_series *s = user;
	const struct mt_mts_table *should = &s->table[p->number];

	s->points++;
	assert_memory_equal(t->site, should->site, t->count * sizeof(*t->site));
	assert_int_equal(t->knows_samples, should->knows_samples);
	for (uint32_t i = 1; i < t->count && should->knows_samples; i++)
		assert_sampled(mt_mts_table_sampled(t, i), &should->sampled[i]);
	assert_true(should->knows_samples || !t->sampled_count);
	return 0;
}

/* As many snapshots, by two writers in turns; every seventh knows nothing of samples. */
static void write_samples(struct sampled_series *s, uint64_t limit_bytes)
{
	struct mt_mts_writer w[2] = {{0}};
	struct mt_mts_place place = place_of(limit_bytes);
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	uint64_t seed = 1;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	for (uint32_t i = 1; i <= SAMPLED_POINTS; i++) {
		struct mt_series_point p = point_of(i * MINUTE_NS, t.site[1].bytes);
		struct mt_mts_table *copy = &s->table[i];

		change(&t, &seed);
		change_samples(&t, &seed);
		assert_int_equal(mt_mts_table_copy(copy, &t), 0);
		if (i % 7 == 0) {
			copy->knows_samples = false;
			copy->sampled_count = 0;
		}
		assert_int_equal(mt_mts_append(&w[i % 5 == 0], &place, &p, copy, NULL, NULL), 0);
	}
	mt_mts_writer_done(&w[0]);
	mt_mts_writer_done(&w[1]);
}

static void free_samples(struct sampled_series *s)
{
	for (uint32_t i = 0; i <= SAMPLED_POINTS; i++)
		mt_mts_table_done(&s->table[i]);
}

static void samples_are_read_as_they_were_written(void **unused)
{
	struct sampled_series s = {0};

	write_samples(&s, 0);
	assert_int_equal(mt_mts_walk(path, true, compare_samples, &s, NULL, NULL), 0);
	assert_int_equal(s.points, SAMPLED_POINTS);
	free_samples(&s);
}

static void thinning_keeps_samples_as_they_are(void **unused)
{
	struct sampled_series s = {0};
	struct mt_mts_info info;

	write_samples(&s, 20000);
	assert_int_equal(mt_mts_walk(path, true, compare_samples, &s, &info, NULL), 0);
	assert_true(info.header.thinned > 5 && s.points > 5);
	assert_int_equal(s.points + info.header.thinned, SAMPLED_POINTS);
	free_samples(&s);
}

static void what_is_not_sampled_takes_no_room_for_samples(void **unused)
{
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	mt_auto(mt_buf) struct mt_buf without = {0}, with = {0};
	struct mt_series_point p = point_of(1, 1);
	uint64_t seed = 1;

	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	change(&t, &seed);
	assert_int_equal(mt_mts_encode(&p, NULL, &t, &without), 0);
	t.knows_samples = true;
	assert_int_equal(mt_mts_table_grow_sampled(&t), 0);
	assert_int_equal(mt_mts_encode(&p, NULL, &t, &with), 0);
	assert_int_equal(with.len, without.len);
}

static void a_series_with_samples_has_them_at_both_ends(void **unused)
{
	struct sampled_series s = {0};
	struct mt_series *series = NULL;

	write_samples(&s, 0);
	assert_int_equal(mt_mts_load(path, 5, &series, NULL, NULL), 0);
	assert_non_null(series->first_sampled);
	for (uint32_t i = 1; i < SITES; i++) {
		assert_sampled(series->first_sampled[i], &s.table[1].sampled[i]);
		assert_sampled(series->last_sampled[i], &s.table[SAMPLED_POINTS].sampled[i]);
	}
	mt_series_free(series);
	free_samples(&s);
}

/* Units have to hold a sample of any interval, and any number of them. */
static void variances_of_any_size_are_kept(void **unused)
{
	for (int lg = -2; lg < 120; lg++) {
		mt_auto(mt_mts_table) struct mt_mts_table t = {0}, back = {0};
		mt_auto(mt_buf) struct mt_buf out = {0};
		struct mt_series_point p = point_of(1, 1);
		struct mt_series_sampled *s;
		struct mt_mts_frame f;

		p.number = 1;
		assert_int_equal(mt_mts_table_grow(&t, 2), 0);
		assert_int_equal(mt_mts_table_grow_sampled(&t), 0);
		t.knows_samples = true;
		s = &t.sampled[1];
		s->live.samples = 3;
		s->freed.samples = 1u << 30;
		s->live.bytes_variance = ldexp(3, lg);
		s->freed.bytes_variance = ldexp(1u << 30, lg);
		mt_mts_table_choose_units(&t, NULL);
		assert_int_equal(mt_mts_encode(&p, NULL, &t, &out), 0);
		assert_true(mt_mts_frame((uint8_t *)out.data, out.len, &f) > 0);
		assert_int_equal(mt_mts_decode(&f, (uint8_t *)out.data + sizeof(f), &back), 0);
		assert_variance(back.sampled[1].live.bytes_variance, ldexp(3, lg), ldexp(1, lg));
		assert_variance(back.sampled[1].freed.bytes_variance, ldexp(1u << 30, lg),
				ldexp(1, lg));
	}
}

/* A file of version 1 is one of today without what it did not know. */
static void an_older_series_is_read_and_gone_on_with(void **unused)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	size_t len;
	mt_auto(free) char *data = make_series(4, &len);
	struct mt_series *s = NULL;
	struct mt_mts_info info;
	uint64_t seed = 1;

	((struct mt_mts_header *)data)->version_major = 1;
	assert_int_equal(mt_file_write_atomic(path, data, len, 0600, NULL), 0);
	assert_series(4, 0);
	assert_int_equal(mt_mts_load(path, 5, &s, NULL, NULL), 0);
	assert_null(s->first_sampled);
	mt_series_free(s);
	assert_int_equal(mt_mts_table_grow(&t, SITES), 0);
	for (int i = 0; i < 5; i++)
		change(&t, &seed);
	change_samples(&t, &(uint64_t){1});
	assert_int_equal(append(&w, 5 * MINUTE_NS, &t), 0);
	assert_series(5, 0);
	assert_int_equal(mt_mts_walk(path, false, NULL, NULL, &info, NULL), 0);
	assert_int_equal(info.header.version_major, 2);
	assert_int_equal(mt_mts_load(path, 5, &s, NULL, NULL), 0);
	assert_null(s->first_sampled); /* the first knows nothing */
	mt_series_free(s);
}

/* ---- thinning ---- */

struct week {
	uint32_t points, asked;
	uint64_t first_ns, last_ns, max_live, min_live, max_gap_ns, last_day_gap_ns, at_ns;
	uint64_t live_at_extreme;
};

static int look_at_week(void *user, const struct mt_series_point *p, const struct mt_mts_table *t)
{
	struct week *w = user;
	uint64_t gap = w->points ? p->time_ns - w->at_ns : 0;

	if (!w->points)
		w->first_ns = p->time_ns;
	w->points++;
	w->asked += p->reason == MT_SERIES_ASKED;
	w->max_live = MT_MAX(w->max_live, p->live_bytes);
	w->min_live = w->min_live ? MT_MIN(w->min_live, p->live_bytes) : p->live_bytes;
	w->max_gap_ns = MT_MAX(w->max_gap_ns, gap);
	if (p->time_ns > (7 * 24 * 60 - 60) * MINUTE_NS)
		w->last_day_gap_ns = MT_MAX(w->last_day_gap_ns, gap);
	w->at_ns = w->last_ns = p->time_ns;
	if (t->site[t->count - 1].bytes != t->site[t->count - 1].allocs)
		w->live_at_extreme++; /* a table that is not the one written */
	return 0;
}

/* Seven days at one snapshot a minute, with a compressed clock. */
static void live_a_week(uint32_t sites, bool is_sampled, uint64_t limit_bytes)
{
	enum { MINUTES = 7 * 24 * 60, HIGH_AT = 1234, LOW_AT = 2345 };
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	struct mt_mts_place place = place_of(limit_bytes);
	uint64_t seed = 1, largest = 0;
	struct week week = {0};
	struct mt_mts_info info;
	struct stat st;

	assert_int_equal(mt_mts_table_grow(&t, sites), 0);
	for (uint32_t i = 1; i <= MINUTES; i++) {
		struct mt_series_point p = point_of(i * MINUTE_NS, 1000000 + i);

		p.live_bytes = i == HIGH_AT ? 9000000 : i == LOW_AT ? 77 : p.live_bytes;
		p.reason = i % 1000 ? MT_SERIES_INTERVAL : MT_SERIES_ASKED;
		change(&t, &seed);
		if (is_sampled)
			change_samples(&t, &seed);
		assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, NULL), 0);
		assert_int_equal(stat(path, &st), 0);
		largest = MT_MAX(largest, (uint64_t)st.st_size);
	}
	assert_true(largest <= limit_bytes);
	assert_int_equal(mt_mts_walk(path, true, look_at_week, &week, &info, NULL), 0);
	assert_int_equal(info.damaged_bytes, 0);
	assert_int_equal(info.header.thinned + week.points, MINUTES);
	print_message("%u sites%s: %u of %d snapshots kept, at most %llu bytes, gaps up to %llu "
		      "min, %llu min in the last hour\n",
		      sites, is_sampled ? ", sampled" : "", week.points, MINUTES,
		      (unsigned long long)largest,
		      (unsigned long long)(week.max_gap_ns / MINUTE_NS),
		      (unsigned long long)(week.last_day_gap_ns / MINUTE_NS));
	assert_true(week.points > 250);
	assert_int_equal(week.first_ns, MINUTE_NS);
	assert_int_equal(week.last_ns, MINUTES * MINUTE_NS);
	assert_int_equal(week.max_live, 9000000);
	assert_int_equal(week.min_live, 77);
	assert_int_equal(week.asked, MINUTES / 1000);
	assert_int_equal(week.live_at_extreme, 0);
	assert_true(week.max_gap_ns < (is_sampled ? 24 : 6) * 60 * MINUTE_NS);
	assert_true(week.last_day_gap_ns <= 2 * MINUTE_NS);
}

static void a_week_of_a_few_sites_stays_below_its_limit(void **unused)
{
	live_a_week(200, false, 2 << 20);
}

static void a_sampled_week_of_a_few_sites_stays_below_its_limit(void **unused)
{
	live_a_week(200, true, 4 << 20);
}

static void a_week_of_10000_sites_stays_below_64_mib(void **unused)
{
	live_a_week(10000, false, MT_MTS_LIMIT_BYTES);
}

static void a_sampled_week_of_10000_sites_stays_below_64_mib(void **unused)
{
	live_a_week(10000, true, MT_MTS_LIMIT_BYTES);
}

static void a_snapshot_that_cannot_fit_is_refused(void **unused)
{
	mt_auto(mt_mts_writer) struct mt_mts_writer w = {0};
	mt_auto(mt_mts_table) struct mt_mts_table t = {0};
	struct mt_mts_place place = place_of(4096);
	struct mt_series_point p = point_of(1, 1);
	uint64_t seed = 1;
	struct mt_err err = {0};

	assert_int_equal(mt_mts_table_grow(&t, 10000), 0);
	change(&t, &seed);
	assert_int_equal(mt_mts_append(&w, &place, &p, &t, NULL, &err), -EFBIG);
	assert_non_null(strstr(err.text, "more than half of its limit"));
}

int main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_appended_is_read_again),
		TEST(writers_that_take_turns_lose_nothing),
		TEST(writers_at_once_lose_nothing),
		TEST(a_writer_goes_on_behind_what_a_killed_one_left),
		TEST(one_wrong_byte_ends_the_series_there),
		TEST(kills_in_the_middle_leave_a_good_series),
		TEST(a_lock_that_is_held_is_not_waited_for_long),
		TEST(series_of_others_and_links_are_refused),
		TEST(other_files_are_refused_with_a_sentence),
		TEST(a_series_is_loaded_with_first_last_and_columns),
		TEST(memory_that_runs_out_is_an_error_like_others),
		TEST(samples_are_read_as_they_were_written),
		TEST(thinning_keeps_samples_as_they_are),
		TEST(what_is_not_sampled_takes_no_room_for_samples),
		TEST(a_series_with_samples_has_them_at_both_ends),
		TEST(variances_of_any_size_are_kept),
		TEST(an_older_series_is_read_and_gone_on_with),
		TEST(a_week_of_a_few_sites_stays_below_its_limit),
		TEST(a_sampled_week_of_a_few_sites_stays_below_its_limit),
		TEST(a_snapshot_that_cannot_fit_is_refused),
		TEST(a_full_disk_is_a_counted_loss), /* last: it hides /tmp's mounts */
	};
	const struct CMUnitTest slow[] = {
		TEST(a_week_of_10000_sites_stays_below_64_mib),
		TEST(a_sampled_week_of_10000_sites_stays_below_64_mib),
	};

	if (argc > 1)
		return cmocka_run_group_tests(slow, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
