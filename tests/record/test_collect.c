/* SPDX-License-Identifier: MIT */
/* Private directories, and state files that are taken out of them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/path.h"
#include "formats/mtk_read.h"
#include "model/profile.h"
#include "record/collect.h"
#include "record/launch.h"
#include "record/statedir.h"
#include "support/mtk_builder.h"
#include "target/process.h"

static char out[64];
static struct mt_statedir dir;

static int setup(void **state)
{
	char pattern[128];

	snprintf(out, sizeof(out), "/tmp/memtrack-test-collect-XXXXXX");
	if (!mkdtemp(out))
		return -1;
	snprintf(pattern, sizeof(pattern), "%s/%%e.%%p.mtk", out);
	return mt_statedir_create(pattern, &dir, NULL);
}

static int teardown(void **state)
{
	char command[256];

	if (dir.path) {
		snprintf(command, sizeof(command), "rm -rf '%s'", dir.path);
		if (system(command))
			return -1;
	}
	mt_statedir_done(&dir);
	snprintf(command, sizeof(command), "rm -rf '%s'", out);
	return system(command);
}

/* A state file of a process in `folder`; pid 0: ourselves, who run. */
static void add_file_in(const char *folder, const char *name, int pid, uint32_t end_kind,
			uint32_t launcher_pid, uint64_t mono_start_ns)
{
	struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_header *h = mtk_builder_header(b);
	struct mt_process self;
	char path[512];
	uint8_t *data;
	size_t len;

	h->pid = pid;
	h->end_kind = end_kind;
	h->end_code = 0;
	h->tick_mark = h->mono_mark_ns = 0;
	if (!pid || launcher_pid)
		assert_int_equal(mt_process_boot_id(h->boot_id), 0);
	h->launcher_pid = launcher_pid;
	h->mono_start_ns = mono_start_ns;
	if (!pid) {
		assert_int_equal(mt_process_read(getpid(), &self), 0);
		h->pid = getpid();
		h->proc_start = self.start_ticks;
	}
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	data = mtk_builder_bytes(b, &len);
	assert_int_equal(mt_file_write_atomic(path, data, len, 0600, NULL), 0);
	free(data);
	mtk_builder_free(b);
}

static void add_file_of(const char *name, int pid, uint32_t end_kind, uint32_t launcher_pid,
			uint64_t mono_start_ns)
{
	add_file_in(dir.path, name, pid, end_kind, launcher_pid, mono_start_ns);
}

static void add_file(const char *name, int pid, uint32_t end_kind)
{
	add_file_of(name, pid, end_kind, 0, 0);
}

static void collect(const struct mt_collect_end *end, struct mt_collection *ret)
{
	char pattern[128];

	*ret = (struct mt_collection){0};
	snprintf(pattern, sizeof(pattern), "%s/%%e.%%p.mtk", out);
	assert_int_equal(mt_collect_dir(dir.path, pattern, end, ret, NULL), 0);
}

static struct mt_profile *read_out(const char *name)
{
	struct mt_profile *p = NULL;
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", out, name);
	assert_int_equal(mt_mtk_read(path, &p, NULL), 0);
	return p;
}

static bool is_there(const char *base, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", base, name);
	return !access(path, F_OK);
}

enum { DEAD_PID = 4194400 }; /* above the kernel's largest pid */

static void finished_files_move_and_say_how_they_ended(void **state)
{
	struct mt_collect_end end = {DEAD_PID, 7 << 8}; /* exit status 7 */
	struct mt_collection c;
	struct mt_profile *p;

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	collect(&end, &c);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.item[0].kind, MT_COLLECTED);
	assert_string_equal(c.item[0].program, "server");
	assert_false(is_there(dir.path, "4194400.1.mtk"));
	p = read_out("server.4194400.mtk");
	assert_int_equal(p->end_kind, MT_END_EXITED);
	assert_int_equal(p->end_code, 7);
	mt_profile_free(p);
	mt_collection_done(&c);
}

static void a_killed_child_keeps_its_signal(void **state)
{
	struct mt_collect_end end = {DEAD_PID, SIGSEGV};
	struct mt_collection c;
	struct mt_profile *p;

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	collect(&end, &c);
	p = read_out("server.4194400.mtk");
	assert_int_equal(p->end_kind, MT_END_SIGNALED);
	assert_int_equal(p->end_code, SIGSEGV);
	mt_profile_free(p);
	mt_collection_done(&c);
}

static void programs_that_exec_get_numbers(void **state)
{
	struct mt_collect_end end = {DEAD_PID, 0};
	struct mt_collection c;
	struct mt_profile *p;

	add_file("4194400.2.mtk", DEAD_PID, MT_END_RUNNING);
	add_file("4194400.10.mtk", DEAD_PID, MT_END_RUNNING);
	collect(&end, &c);
	assert_int_equal(c.count, 2);
	p = read_out("server.4194400.mtk");
	assert_int_equal(p->end_kind, MT_END_EXEC);
	mt_profile_free(p);
	p = read_out("server.4194400-2.mtk");
	assert_int_equal(p->end_kind, MT_END_EXITED);
	mt_profile_free(p);
	mt_collection_done(&c);
}

static void other_processes_ended_unseen(void **state)
{
	struct mt_collect_end end = {DEAD_PID + 1, 0};
	struct mt_collection c;
	struct mt_profile *p;

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	collect(&end, &c);
	p = read_out("server.4194400.mtk");
	assert_int_equal(p->end_kind, MT_END_UNKNOWN);
	mt_profile_free(p);
	mt_collection_done(&c);
}

static void running_processes_keep_their_file(void **state)
{
	struct mt_collection c;
	char name[64];

	snprintf(name, sizeof(name), "%d.1.mtk", (int)getpid());
	add_file(name, 0, MT_END_RUNNING);
	collect(NULL, &c);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.item[0].kind, MT_RUNNING);
	assert_int_equal(c.item[0].pid, getpid());
	assert_true(is_there(dir.path, name));
	mt_collection_done(&c);
}

static void a_file_that_is_being_started_is_not_finished(void **state)
{
	struct mt_collection c;
	char path[256], name[64];

	snprintf(name, sizeof(name), "%d.1.mtk", (int)getpid());
	snprintf(path, sizeof(path), "%s/%s", dir.path, name);
	assert_int_equal(mt_file_write_atomic(path, "", 0, 0600, NULL), 0);
	collect(NULL, &c);
	assert_int_equal(c.item[0].kind, MT_RUNNING);
	assert_true(is_there(dir.path, name));
	mt_collection_done(&c);
}

static void empty_files_of_dead_processes_go(void **state)
{
	struct mt_collection c;
	char path[256];

	snprintf(path, sizeof(path), "%s/4194400.1.mtk", dir.path);
	assert_int_equal(mt_file_write_atomic(path, "", 0, 0600, NULL), 0);
	collect(NULL, &c);
	assert_int_equal(c.count, 0);
	assert_false(is_there(dir.path, "4194400.1.mtk"));
	mt_collection_done(&c);
}

static void files_that_cannot_be_moved_stay(void **state)
{
	struct mt_collection c = {0};

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	assert_int_equal(mt_collect_dir(dir.path, "/nonexistent-dir/%p.mtk", NULL, &c, NULL), 0);
	assert_int_equal(c.item[0].kind, MT_KEPT);
	assert_string_equal(c.item[0].why, "cannot create '/nonexistent-dir/4194400.mtk': No such "
					   "file or directory");
	assert_true(is_there(dir.path, "4194400.1.mtk"));
	mt_collection_done(&c);
}

/* ---- one by one, while the run goes on ---- */

static int collect_ended(const char *name, const char *pattern, bool is_replaced, pid_t program,
			 struct mt_collection *c)
{
	struct mt_collect_ended f = {.dir = dir.path,
				     .shown = dir.path,
				     .name = name,
				     .is_replaced = is_replaced,
				     .program = program};
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", out, pattern);
	return mt_collect_ended(&f, path, c);
}

static void ended_files_move_one_by_one(void **state)
{
	struct mt_collection c = {0};
	struct mt_profile *p;

	add_file("4194402.1.mtk", DEAD_PID + 2, MT_END_RUNNING);
	add_file("4194401.1.mtk", DEAD_PID + 1, MT_END_RUNNING);
	add_file("1.1.mtk", 0, MT_END_RUNNING);
	assert_int_equal(collect_ended("4194402.1.mtk", "%e.%p.mtk", false, 1, &c), 0);
	assert_int_equal(collect_ended("4194401.1.mtk", "%e.%p.mtk", true, 1, &c), 0);
	assert_int_equal(collect_ended("1.1.mtk", "%e.%p.mtk", false, 2, &c), -EBUSY);
	assert_int_equal(c.count, 2);
	mt_collection_sort(&c);
	assert_int_equal(c.item[0].pid, DEAD_PID + 1);
	assert_int_equal(c.item[1].pid, DEAD_PID + 2);
	assert_true(is_there(dir.path, "1.1.mtk"));
	assert_false(is_there(dir.path, "4194401.1.mtk"));
	p = read_out("server.4194401.mtk");
	assert_int_equal(p->end_kind, MT_END_EXEC);
	mt_profile_free(p);
	p = read_out("server.4194402.mtk");
	assert_int_equal(p->end_kind, MT_END_UNKNOWN);
	mt_profile_free(p);
	mt_collection_done(&c);
}

static void the_first_name_is_left_for_the_program(void **state)
{
	struct mt_collection c = {0};

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	add_file("4194401.1.mtk", DEAD_PID + 1, MT_END_RUNNING);
	add_file("4194402.1.mtk", DEAD_PID + 2, MT_END_RUNNING);
	assert_int_equal(collect_ended("4194401.1.mtk", "%e.mtk", false, DEAD_PID, &c), 0);
	assert_int_equal(collect_ended("4194400.1.mtk", "%e.mtk", false, DEAD_PID, &c), 0);
	assert_int_equal(collect_ended("4194402.1.mtk", "x.%%p.mtk", false, DEAD_PID, &c), 0);
	assert_string_equal(mt_path_base(c.item[0].path), "server-2.mtk");
	assert_string_equal(mt_path_base(c.item[1].path), "server.mtk");
	assert_string_equal(mt_path_base(c.item[2].path), "x.%p.mtk"); /* no program is there */
	mt_collection_done(&c);
}

static void what_cannot_be_moved_stays_for_the_end(void **state)
{
	struct mt_collection c = {0};
	char path[128];

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	assert_int_equal(collect_ended("4194400.1.mtk", "gone/%p.mtk", false, 1, &c), -ENOENT);
	assert_int_equal(c.count, 0);
	assert_true(is_there(dir.path, "4194400.1.mtk"));
	snprintf(path, sizeof(path), "%s/4194401.1.mtk", dir.path);
	assert_int_equal(mt_file_write_atomic(path, "", 0, 0600, NULL), 0);
	assert_int_equal(collect_ended("4194401.1.mtk", "%p.mtk", false, 1, &c), 0);
	assert_int_equal(c.count, 0);
	assert_false(is_there(dir.path, "4194401.1.mtk")); /* it never began */
	mt_collection_done(&c);
}

/* The number of a file that was taken is used again: the order in which they began counts. */
static void a_lower_number_may_be_the_later_file(void **state)
{
	struct mt_collection c;

	add_file_of("4194400.2.mtk", DEAD_PID, MT_END_RUNNING, 1, 1000);
	add_file_of("4194400.1.mtk", DEAD_PID, MT_END_RUNNING, 1, 2000);
	collect(NULL, &c);
	assert_int_equal(c.count, 2);
	struct mt_profile *first = read_out("server.4194400.mtk");
	struct mt_profile *second = read_out("server.4194400-2.mtk");
	assert_int_equal(first->end_kind, MT_END_EXEC);
	assert_int_equal(second->end_kind, MT_END_UNKNOWN);
	mt_profile_free(first);
	mt_profile_free(second);
	mt_collection_done(&c);
}

static void a_state_that_stays_tells_how_its_process_ended(void **state)
{
	struct mt_collect_end end = {DEAD_PID, 7 << 8};
	struct mt_collection c = {0};
	struct mt_profile *p = NULL;

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	assert_int_equal(mt_collect_dir(dir.path, "/nonexistent/%p.mtk", &end, &c, NULL), 0);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.item[0].kind, MT_KEPT);
	assert_int_equal(mt_mtk_read(c.item[0].path, &p, NULL), 0);
	assert_int_equal(p->end_kind, MT_END_EXITED);
	assert_int_equal(p->end_code, 7);
	mt_profile_free(p);
	mt_collection_done(&c);
}

static void a_directory_is_attended_while_its_maker_lives(void **state)
{
	char path[128];

	assert_true(mt_statedir_is_attended(dir.path));
	snprintf(path, sizeof(path), "%s", dir.path);
	close(dir.lock_fd);
	dir.lock_fd = -1;
	assert_false(mt_statedir_is_attended(path));
	assert_false(mt_statedir_is_attended(out));
}

static void damaged_files_stay(void **state)
{
	struct mt_collection c;
	char path[256];

	snprintf(path, sizeof(path), "%s/4194400.1.mtk", dir.path);
	assert_int_equal(mt_file_write_atomic(path, "not a state file", 16, 0600, NULL), 0);
	collect(NULL, &c);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.item[0].kind, MT_KEPT);
	assert_true(is_there(dir.path, "4194400.1.mtk"));
	mt_collection_done(&c);
}

static void foreign_names_are_left_alone(void **state)
{
	struct mt_collection c;
	char path[256];

	snprintf(path, sizeof(path), "%s/notes.mtk", dir.path);
	assert_int_equal(mt_file_write_atomic(path, "x", 1, 0600, NULL), 0);
	collect(NULL, &c);
	assert_int_equal(c.count, 0);
	assert_true(is_there(dir.path, "notes.mtk"));
	mt_collection_done(&c);
}

static void the_directory_is_private(void **state)
{
	struct stat st;

	assert_int_equal(stat(dir.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_true(is_there(dir.path, "output"));
}

static void a_living_launcher_keeps_others_out(void **state)
{
	struct mt_statedir other = {.lock_fd = -1};
	char *pattern = NULL;

	assert_int_equal(mt_statedir_adopt(dir.path, &other, &pattern), -EAGAIN);
	close(dir.lock_fd);
	dir.lock_fd = -1;
	assert_int_equal(mt_statedir_adopt(dir.path, &other, &pattern), 0);
	assert_non_null(strstr(pattern, "/%e.%p.mtk"));
	free(pattern);
	mt_statedir_remove(&other);
	assert_int_equal(access(dir.path, F_OK), -1);
}

/* Between the making of `output` and its lock nobody may take the directory for an abandoned one.
 */
static void a_launcher_that_just_starts_keeps_others_out(void **state)
{
	struct mt_statedir other = {.lock_fd = -1};
	mt_auto(free) char *output = mt_path_join(dir.path, "output");
	struct timespec long_ago[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
	char *pattern = NULL;

	close(dir.lock_fd);
	dir.lock_fd = -1;
	assert_int_equal(truncate(output, 0), 0);
	assert_int_equal(mt_statedir_adopt(dir.path, &other, &pattern), -EAGAIN);
	assert_true(is_there(dir.path, "output"));
	assert_int_equal(utimensat(AT_FDCWD, output, long_ago, 0), 0);
	assert_int_equal(mt_statedir_adopt(dir.path, &other, &pattern), 0);
	free(pattern);
	mt_statedir_remove(&other);
}

static void abandoned_directories_are_collected(void **state)
{
	struct mt_collection c = {0};

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	mt_collect_abandoned(NULL, &c);
	assert_true(is_there(dir.path, "4194400.1.mtk")); /* we hold the lock */
	close(dir.lock_fd);
	dir.lock_fd = -1;
	mt_collect_abandoned(NULL, &c);
	assert_true(is_there(out, "server.4194400.mtk"));
	assert_int_equal(access(dir.path, F_OK), -1);
	mt_collection_done(&c);
}

/* ---- many directories ---- */

enum { MANY = 300, PATH_BYTES = 96 };

static char many[MANY][PATH_BYTES]; /* "": none */
static int watch_fd = -1;

static int many_done(void **state)
{
	char command[PATH_BYTES + 16];

	for (int i = 0; i < MANY; i++) {
		snprintf(command, sizeof(command), "rm -rf '%.*s'", PATH_BYTES, many[i]);
		if (*many[i] && !access(many[i], F_OK) && system(command))
			return -1;
		*many[i] = 0;
	}
	if (watch_fd >= 0)
		close(watch_fd);
	watch_fd = -1;
	return teardown(state);
}

/* A directory that a process left which had this launcher (0: none), and its state file. */
static void make_folder(int at, pid_t launcher)
{
	char name[64], path[PATH_BYTES + 16], pattern[128];

	snprintf(many[at], PATH_BYTES, "/dev/shm/memtrack-%u-%d-%016x", (unsigned)getuid(),
		 (int)launcher, 0x7e57 + at);
	assert_int_equal(mkdir(many[at], 0700), 0);
	snprintf(path, sizeof(path), "%.*s/output", PATH_BYTES, many[at]);
	snprintf(pattern, sizeof(pattern), "%s/%%e.%%p.mtk", out);
	if (!launcher)
		assert_int_equal(mt_file_write_atomic(path, pattern, strlen(pattern), 0600, NULL),
				 0);
	snprintf(name, sizeof(name), "%d.1.mtk", DEAD_PID + at);
	add_file_in(many[at], name, DEAD_PID + at, MT_END_RUNNING, (uint32_t)launcher, 2000);
}

/* What is opened in them from now on is noticed. */
static void watch_folders(int count)
{
	watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	assert_true(watch_fd >= 0);
	for (int i = 0; i < count; i++)
		if (!access(many[i], F_OK))
			assert_true(inotify_add_watch(watch_fd, many[i], IN_OPEN | IN_ONESHOT) > 0);
}

/* The number of folders that were opened since. */
static int count_opened(void)
{
	_Alignas(struct inotify_event) char events[65536];
	ssize_t got;
	int count = 0;

	while ((got = read(watch_fd, events, sizeof(events))) > 0)
		for (char *at = events; at < events + got;) {
			const struct inotify_event *e = (const struct inotify_event *)at;

			assert_false(e->mask & IN_Q_OVERFLOW);
			count += (e->mask & IN_OPEN) != 0;
			at += sizeof(*e) + e->len;
		}
	close(watch_fd);
	watch_fd = -1;
	return count;
}

static int count_left(int count)
{
	int left = 0;

	for (int i = 0; i < count; i++)
		left += !access(many[i], F_OK);
	return left;
}

enum { TRIES = 5000 }; /* others may have directories where mount namespaces are not allowed */

static void a_budget_bounds_what_is_looked_at(void **state)
{
	enum { STEPS = 10 };
	int tries = 0, left = MANY;
	bool all = false;

	for (int i = 0; i < MANY; i++)
		make_folder(i, 0);
	for (; left && tries < TRIES; tries++) {
		struct mt_collect_budget budget = {(size_t)tries * 37, STEPS, 1 << 20, UINT64_MAX};
		struct mt_collection c = {0};

		watch_folders(MANY);
		all = mt_collect_abandoned(&budget, &c);
		assert_in_range(count_opened(), 0, STEPS);
		assert_in_range(c.count, 0, STEPS);
		mt_collection_done(&c);
		/* a directory and a file each */
		assert_in_range(left - count_left(MANY), 0, STEPS / 2);
		left = count_left(MANY);
		assert_false(all && left);
	}
	assert_int_equal(left, 0);
	assert_true(tries >= MANY / (STEPS / 2));
}

static void what_cannot_be_collected_does_not_block_the_rest(void **state)
{
	enum { LOCKED = 30, ALL = 35 };
	struct mt_statedir taken[LOCKED];
	int tries = 0;

	for (int i = 0; i < ALL; i++)
		make_folder(i, 0);
	for (int i = 0; i < LOCKED; i++) { /* their launchers live */
		char *pattern = NULL;

		assert_int_equal(mt_statedir_adopt(many[i], &taken[i], &pattern), 0);
		free(pattern);
	}
	for (; count_left(ALL) > LOCKED && tries < TRIES; tries++) {
		struct mt_collect_budget budget = {(size_t)tries, 4, 1 << 20, UINT64_MAX};
		struct mt_collection c = {0};

		assert_false(mt_collect_abandoned(&budget, &c));
		mt_collection_done(&c);
	}
	assert_int_equal(count_left(ALL), LOCKED);
	for (int i = 0; i < LOCKED; i++)
		mt_statedir_done(&taken[i]);
}

static void bad_files_do_not_block_a_good_one(void **state)
{
	enum { BAD = 20 };
	char path[256], good[64];
	int tries = 0;

	for (int i = 0; i < BAD; i++) {
		snprintf(path, sizeof(path), "%s/%d.1.mtk", dir.path, DEAD_PID + i);
		assert_int_equal(mt_file_write_atomic(path, "not a state file", 16, 0600, NULL), 0);
	}
	snprintf(good, sizeof(good), "%d.1.mtk", DEAD_PID + BAD);
	add_file(good, DEAD_PID + BAD, MT_END_RUNNING);
	close(dir.lock_fd);
	dir.lock_fd = -1;
	for (; is_there(dir.path, good) && tries < TRIES; tries++) {
		struct mt_collect_budget budget = {(size_t)tries, 4, 1 << 20, UINT64_MAX};
		struct mt_collection c = {0};

		assert_false(mt_collect_abandoned(&budget, &c));
		assert_in_range(c.count, 0, 3);
		mt_collection_done(&c);
	}
	assert_true(is_there(out, "server.4194420.mtk"));
}

static size_t count_of(const struct mt_collection *c, enum mt_collect_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < c->count; i++)
		count += c->item[i].kind == kind;
	return count;
}

static void large_files_are_left_and_named(void **state)
{
	struct mt_collect_budget budget = {0, 1000, 0, UINT64_MAX};
	struct mt_collection c = {0};

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	close(dir.lock_fd);
	dir.lock_fd = -1;
	mt_collect_abandoned(&budget, &c);
	assert_true(count_of(&c, MT_LARGE) >= 1);
	assert_int_equal(count_of(&c, MT_COLLECTED), 0);
	mt_collection_done(&c);
	assert_true(is_there(dir.path, "4194400.1.mtk"));
	mt_collect_abandoned(NULL, &c);
	assert_true(is_there(out, "server.4194400.mtk"));
	mt_collection_done(&c);
}

static void after_its_time_one_file_is_still_collected(void **state)
{
	struct mt_collect_budget budget = {0, 1000, 1 << 20, 1};
	struct mt_collection c = {0};
	bool all;

	for (int i = 0; i < 3; i++)
		make_folder(i, 0);
	all = mt_collect_abandoned(&budget, &c);
	assert_int_equal(c.count, 1);
	assert_false(all);
	mt_collection_done(&c);
	assert_true(count_left(3) >= 2);
}

static void strays_are_found_without_opening_the_rest(void **state)
{
	struct mt_collect_launcher us = {.pid = getpid(), .since_ns = 1000};
	struct mt_collection c = {0};
	char pattern[128];

	for (int i = 0; i < MANY; i++)
		make_folder(i, i % 100 ? i % 3 ? 0 : us.pid * 10 : us.pid);
	snprintf(pattern, sizeof(pattern), "%s/%%p.mtk", out);
	watch_folders(MANY);
	assert_int_equal(mt_collect_strays(&us, pattern, NULL, &c, NULL), 0);
	assert_int_equal(count_opened(), MANY / 100);
	assert_int_equal(count_of(&c, MT_COLLECTED), MANY / 100);
	assert_int_equal(count_left(MANY), MANY - MANY / 100);
	mt_collection_done(&c);
}

/* ---- strays ---- */

/* A directory as a process makes it that cannot write to the one of its launcher, us. */
static int setup_stray(void **state)
{
	char path[PATH_BYTES];

	if (setup(state))
		return -1;
	mt_statedir_remove(&dir);
	snprintf(path, sizeof(path), "/dev/shm/memtrack-%u-%d-0123456789abcdef", (unsigned)getuid(),
		 (int)getpid());
	dir.path = strdup(path);
	return dir.path ? mkdir(path, 0700) : -1;
}

static void files_of_the_tree_that_lie_elsewhere_are_found(void **state)
{
	struct mt_collect_launcher us = {.pid = getpid(), .since_ns = 1000};
	struct mt_collect_end end = {0};
	struct mt_collection c = {0};
	char pattern[128], path[256];

	snprintf(pattern, sizeof(pattern), "%s/%%p.mtk", out);
	add_file_of("4194401.1.mtk", DEAD_PID + 1, MT_END_RUNNING, (uint32_t)us.pid, 2000);
	add_file_of("4194402.1.mtk", DEAD_PID + 2, MT_END_RUNNING, (uint32_t)us.pid + 1, 2000);
	add_file_of("4194403.1.mtk", DEAD_PID + 3, MT_END_RUNNING, (uint32_t)us.pid, 999);
	add_file("4194404.1.mtk", DEAD_PID + 4, MT_END_RUNNING);
	snprintf(path, sizeof(path), "%s/4194405.1.mtk", dir.path);
	assert_int_equal(symlink("4194401.1.mtk", path), 0);
	assert_int_equal(mt_collect_strays(&us, pattern, &end, &c, NULL), 0);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.item[0].kind, MT_COLLECTED);
	assert_int_equal(c.item[0].pid, DEAD_PID + 1);
	assert_true(is_there(out, "4194401.mtk"));
	assert_false(is_there(dir.path, "4194401.1.mtk"));
	assert_true(is_there(dir.path, "4194402.1.mtk"));
	assert_true(is_there(dir.path, "4194403.1.mtk"));
	assert_true(is_there(dir.path, "4194404.1.mtk"));
	mt_collection_done(&c);
}

static void only_private_directories_are_searched(void **state)
{
	struct mt_collect_launcher us = {.pid = getpid()};
	struct mt_collection c = {0};

	add_file_of("4194401.1.mtk", DEAD_PID + 1, MT_END_RUNNING, (uint32_t)us.pid, 1);
	assert_int_equal(chmod(dir.path, 0750), 0);
	assert_int_equal(mt_collect_strays(&us, "/nonexistent/%p.mtk", NULL, &c, NULL), 0);
	assert_int_equal(c.count, 0);
	assert_int_equal(chmod(dir.path, 0700), 0);
	assert_int_equal(mt_collect_strays(&us, "/nonexistent/%p.mtk", NULL, &c, NULL), 0);
	assert_int_equal(c.count, 1);
	assert_int_equal(c.item[0].kind, MT_KEPT);
	mt_collection_done(&c);
}

static void a_stray_that_stays_is_named(void **state)
{
	struct mt_collect_launcher us = {.pid = getpid()};
	struct mt_collection c = {0};

	add_file_of("4194401.1.mtk", DEAD_PID + 1, MT_END_RUNNING, (uint32_t)us.pid, 1);
	assert_int_equal(mt_collect_strays(&us, "/nonexistent/%p.mtk", NULL, &c, NULL), 0);
	assert_int_equal(c.count, 1);
	/* the name that the user can find it by */
	assert_memory_equal(c.item[0].path, dir.path, strlen(dir.path));
	mt_collection_done(&c);
}

static void a_directory_with_files_is_not_removed(void **state)
{
	char *path = strdup(dir.path);

	add_file("4194400.1.mtk", DEAD_PID, MT_END_RUNNING);
	mt_statedir_remove(&dir);
	assert_true(is_there(path, "4194400.1.mtk"));
	dir.path = path; /* for teardown */
}

static void the_environment_has_the_contract(void **state)
{
	static char *env[] = {(char *)"A=1",
			      (char *)"LD_PRELOAD=/x.so",
			      (char *)"MEMTRACK_MODE=off",
			      (char *)"B=2",
			      (char *)"LIBC_DEBUG_MALLOC_OPTIONS=fill",
			      NULL};
	struct mt_launch l = {
		.library = "/lib/m.so", .state_dir = "/dev/shm/d", .options = "depth=3"};
	char **got = mt_launch_environment(&l, env, 99);
	static const char *const want[] = {"A=1",
					   "B=2",
					   "LD_PRELOAD=/lib/m.so:/x.so",
					   "MEMTRACK_MODE=full",
					   "MEMTRACK_OPTIONS=depth=3",
					   "MEMTRACK_STATE_DIR=/dev/shm/d",
					   "MEMTRACK_LAUNCHER=99"};

	for (size_t i = 0; i < 7; i++)
		assert_string_equal(got[i], want[i]);
	assert_null(got[7]);
	free(got);
	env[1] = (char *)"LD_PRELOAD=";
	got = mt_launch_environment(&l, env, 99);
	assert_string_equal(got[2], "LD_PRELOAD=/lib/m.so");
	free(got);
	env[1] = (char *)"LD_PRELOAD=/lib/m.so:/x.so";
	got = mt_launch_environment(&l, env, 99);
	assert_string_equal(got[2], "LD_PRELOAD=/lib/m.so:/x.so");
	free(got);
	env[1] = (char *)"LD_PRELOAD=/lib/m.so2";
	got = mt_launch_environment(&l, env, 99);
	assert_string_equal(got[2], "LD_PRELOAD=/lib/m.so:/lib/m.so2");
	free(got);
	l.check = "guard fill";
	got = mt_launch_environment(&l, env, 99);
	assert_string_equal(got[7], "LIBC_DEBUG_MALLOC_OPTIONS=guard fill");
	assert_null(got[8]);
	free(got);
}

/* A /dev/shm of our own, where that is allowed: what others have there is not ours to collect. */
static int hide_others(void **state)
{
	if (!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		(void)!mount("none", "/dev/shm", "tmpfs", 0, NULL);
	return 0;
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define TEST_MANY(f) cmocka_unit_test_setup_teardown(f, setup, many_done)
#define TEST_STRAY(f) cmocka_unit_test_setup_teardown(f, setup_stray, teardown)
	const struct CMUnitTest tests[] = {
		TEST(finished_files_move_and_say_how_they_ended),
		TEST(a_killed_child_keeps_its_signal),
		TEST(programs_that_exec_get_numbers),
		TEST(other_processes_ended_unseen),
		TEST(running_processes_keep_their_file),
		TEST(a_file_that_is_being_started_is_not_finished),
		TEST(empty_files_of_dead_processes_go),
		TEST(files_that_cannot_be_moved_stay),
		TEST(ended_files_move_one_by_one),
		TEST(the_first_name_is_left_for_the_program),
		TEST(what_cannot_be_moved_stays_for_the_end),
		TEST(a_lower_number_may_be_the_later_file),
		TEST(a_state_that_stays_tells_how_its_process_ended),
		TEST(a_directory_is_attended_while_its_maker_lives),
		TEST(damaged_files_stay),
		TEST(foreign_names_are_left_alone),
		TEST(the_directory_is_private),
		TEST(a_living_launcher_keeps_others_out),
		TEST(a_launcher_that_just_starts_keeps_others_out),
		TEST(abandoned_directories_are_collected),
		TEST_MANY(a_budget_bounds_what_is_looked_at),
		TEST_MANY(what_cannot_be_collected_does_not_block_the_rest),
		TEST_MANY(after_its_time_one_file_is_still_collected),
		TEST_MANY(strays_are_found_without_opening_the_rest),
		TEST(bad_files_do_not_block_a_good_one),
		TEST(large_files_are_left_and_named),
		TEST_STRAY(files_of_the_tree_that_lie_elsewhere_are_found),
		TEST_STRAY(a_stray_that_stays_is_named),
		TEST_STRAY(only_private_directories_are_searched),
		TEST(a_directory_with_files_is_not_removed),
		cmocka_unit_test(the_environment_has_the_contract),
	};
	return cmocka_run_group_tests(tests, hide_others, NULL);
}
