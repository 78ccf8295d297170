/* SPDX-License-Identifier: MIT */
/*
 * Controllers against a state file that a thread of the test serves as a tracker does: requests
 * arrive whole and none is lost, whoever dies or comes at the same time.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "record/control.h"
#include "support/mtk_builder.h"
#include "target/process.h"

enum { LOG_MAX = 1 << 20, LONG_NS = 2000000000 };

/* A state file of a process that runs, and what a tracker reads in it. */
struct state {
	char path[200];
	struct mt_state_header *header;
	const char *request;
	pthread_t thread;
	int ends;
	uint32_t error; /* what it answers */
	char *log;      /* requests, a line each */
	size_t log_len;
	unsigned taken;
};

static void make_ours(struct mt_state_header *h)
{
	assert_int_equal(mt_process_boot_id(h->boot_id), 0);
#if defined(__aarch64__)
	h->arch = MT_ARCH_AARCH64;
#endif
	h->end_kind = MT_END_RUNNING;
	h->pid = getpid();
	h->proc_start = 0;
}

static void *map_at(const char *path, uint64_t offset)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);

	close(fd);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void start_state(struct state *s)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	const char *dir = getenv("TMPDIR");
	uint64_t offset = 0;

	memset(s, 0, sizeof(*s));
	snprintf(s->path, sizeof(s->path), "%s/mt-test-control-%d.mtk", dir ? dir : "/tmp",
		 (int)getpid());
	make_ours(mtk_builder_header(b));
	mtk_builder_make_controllable(b);
	assert_int_equal(mtk_builder_write_sparse(b, s->path, 5000), 0);
	s->header = map_at(s->path, 0);
	for (unsigned i = 0; i < MT_STATE_REGIONS_MAX; i++)
		if (s->header->region[i].kind == MT_REGION_REQUEST)
			offset = s->header->region[i].offset;
	assert_true(offset > 0);
	s->request = map_at(s->path, offset);
	s->log = calloc(1, LOG_MAX);
}

static void end_state(struct state *s)
{
	munmap(s->header, 4096);
	munmap((void *)s->request, 4096);
	unlink(s->path);
	free(s->log);
}

/* Takes one request over, as src/runtime/control.c does. */
static void take(struct state *s, uint32_t word)
{
	size_t len = strnlen(s->request, MT_REQUEST_BYTES);

	assert_true(s->log_len + len + 2 < LOG_MAX);
	memcpy(s->log + s->log_len, s->request, len);
	s->log_len += len;
	s->log[s->log_len++] = '\n';
	s->taken++;
	s->header->control_error = s->error;
	__atomic_store_n(&s->header->control_done, word, __ATOMIC_RELEASE);
}

static void *serve(void *context)
{
	struct state *s = context;

	while (!__atomic_load_n(&s->ends, __ATOMIC_ACQUIRE)) {
		uint32_t word = __atomic_load_n(&s->header->control, __ATOMIC_ACQUIRE);

		if (word >> 1 != s->header->control_done >> 1)
			take(s, word);
		else
			nanosleep(&(struct timespec){0, 20000}, NULL);
	}
	return NULL;
}

static void start_tracker(struct state *s, uint32_t error)
{
	s->ends = 0;
	s->error = error;
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void end_tracker(struct state *s)
{
	__atomic_store_n(&s->ends, 1, __ATOMIC_RELEASE);
	pthread_join(s->thread, NULL);
}

static void assert_words(const char *const *words, const char *text)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_err err = {0};

	for (; *words; words++)
		if (mt_control_add_word(&out, *words, &err))
			fail_msg("%s", err.text);
	assert_string_equal(mt_buf_text(&out), text);
}

static void words_are_written_as_the_tracker_reads_them(void **state)
{
	assert_words((const char *const[]){"on", "mode=sample", "interval=1.5M", NULL},
		     "on mode=sample interval=1572864 ");
	assert_words((const char *const[]){"modules=+lib*,-x", "every=7", "reset-peak", NULL},
		     "modules=+lib*,-x every=7 reset-peak ");
	assert_words((const char *const[]){"label=a b%\n\xc3\xa9", "label=", "modules=", NULL},
		     "label=a%20b%25%0a\xc3\xa9 label= modules= ");
}

static void words_that_cannot_be_are_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"onn",
		"mode=",
		"mode=off",
		"interval=0",
		"interval=",
		"interval=2000G",
		"every=0",
		"every=65537",
		"modules=lib",
		"modules=+",
		"modules=+a,",
		"modules=+a,b",
		"modules=+a b",
		"snapshot=1",
	};
	char label[140] = "label=";

	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		mt_auto(mt_buf) struct mt_buf out = {0};
		struct mt_err err = {0};

		if (mt_control_add_word(&out, bad[i], &err) != -EINVAL)
			fail_msg("'%s' was accepted", bad[i]);
		assert_true(err.text[0]);
	}
	memset(label + 6, 'x', 128);
	mt_auto(mt_buf) struct mt_buf out = {0};
	assert_int_equal(mt_control_add_word(&out, label, NULL), -EINVAL);
	label[6 + 127] = 0;
	assert_int_equal(mt_control_add_word(&out, label, NULL), 0);
}

static void a_request_is_taken_over(void **state)
{
	struct mt_err err = {0};
	struct state s;

	start_state(&s);
	start_tracker(&s, 0);
	assert_int_equal(mt_control_send(s.path, "mode=stats ", 60000000000u, &err), 0);
	end_tracker(&s);
	assert_string_equal(s.log, "mode=stats \n");
	assert_int_equal(s.header->request_owner, 0);
	assert_int_equal(s.header->control & 1, 1);
	end_state(&s);
}

static void a_request_that_is_not_taken_stands(void **state)
{
	struct mt_err err = {0};
	struct state s;

	start_state(&s);
	assert_int_equal(mt_control_send(s.path, "mode=stats ", 0, &err), MT_CONTROL_PENDING);
	assert_int_equal(mt_control_send(s.path, "label=x ", 1000000, &err), MT_CONTROL_PENDING);
	assert_int_equal(s.header->request_owner, 0);
	start_tracker(&s, 0);
	assert_int_equal(mt_control_send(s.path, "off ", 60000000000u, &err), 0);
	end_tracker(&s);
	/* nothing is lost, in the order in which it came */
	assert_non_null(strstr(s.log, "mode=stats  label=x "));
	assert_non_null(strstr(s.log, "off "));
	end_state(&s);
}

static void too_many_requests_that_stand_are_refused(void **state)
{
	char text[1100];
	struct mt_err err = {0};
	struct state s;
	int code = MT_CONTROL_PENDING;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	start_state(&s);
	for (int i = 0; i < 3; i++)
		assert_int_equal(mt_control_send(s.path, text, 0, &err), MT_CONTROL_PENDING);
	code = mt_control_send(s.path, text, 0, &err);
	assert_int_equal(code, -E2BIG);
	assert_non_null(strstr(err.text, "has not taken the earlier requests yet"));
	assert_int_equal(strnlen(s.request, 4096), 3 * 1100 - 1);
	assert_int_equal(s.header->control >> 1, 3);
	end_state(&s);
}

static void what_check_mode_cannot_change_is_refused_before_it_is_written(void **state)
{
	static const char *const refused_words[] = {
		"on", "off", "mode=full", "interval=64K", "intervals=custom:4096", "every=7"};
	struct mt_err err = {0};
	struct state s;

	start_state(&s);
	s.header->mode = MT_MODE_CHECK;
	for (size_t i = 0; i < sizeof(refused_words) / sizeof(refused_words[0]); i++) {
		char text[100];

		snprintf(text, sizeof(text), "label=on %s ", refused_words[i]);
		assert_int_equal(mt_control_send(s.path, text, 0, &err), -EINVAL);
		snprintf(text, sizeof(text), "'%s' cannot be changed while it runs",
			 refused_words[i]);
		assert_non_null(strstr(err.text, text));
		assert_non_null(
			strstr(err.text, "in check mode, in which its blocks have headers"));
	}
	assert_int_equal(s.header->control >> 1, 0);
	assert_int_equal(s.request[0], 0);
	assert_int_equal(s.header->request_owner, 0);
	start_tracker(&s, 0);
	assert_int_equal(
		mt_control_send(s.path, "label=on modules=+mode=x reset-peak ", 60000000000u, &err),
		0);
	end_tracker(&s);
	end_state(&s);
}

static void a_refusal_is_told(void **state)
{
	struct mt_err err = {0};
	struct state s;

	start_state(&s);
	start_tracker(&s, EINVAL);
	assert_int_equal(mt_control_send(s.path, "mode=check ", 60000000000u, &err), -EINVAL);
	assert_non_null(strstr(err.text, "refused 'mode=check': it cannot do that"));
	end_tracker(&s);
	start_tracker(&s, ENOSPC);
	assert_int_equal(mt_control_send(s.path, "label=y ", 60000000000u, &err), -ENOSPC);
	end_tracker(&s);
	end_state(&s);
}

/* Sends many requests from a process of its own; exits with the number that failed. */
static pid_t start_controller(const struct state *s, char name, int count)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	int failed = 0;
	for (int i = 0; i < count; i++) {
		char text[64];

		snprintf(text, sizeof(text), "label=%c%d-%c%d ", name, i, name, i);
		failed += mt_control_send(s->path, text, i % 3 ? LONG_NS : 0, NULL) < 0;
	}
	_exit(failed);
}

/* Every word is one that was sent, and each was seen at least once. */
static void assert_whole(const struct state *s, int controllers, int count)
{
	mt_auto(free) char *seen = calloc(1, (size_t)controllers * (size_t)count);
	mt_auto(free) char *copy = strdup(s->log);
	char *save = NULL;

	for (char *word = strtok_r(copy, " \n", &save); word; word = strtok_r(NULL, " \n", &save)) {
		char name, again;
		int number, second, used = 0;

		if (sscanf(word, "label=%c%d-%c%d%n", &name, &number, &again, &second, &used) !=
			    4 ||
		    word[used] || name != again || number != second || name < 'a' ||
		    name >= 'a' + controllers || number < 0 || number >= count)
			fail_msg("'%s' was never sent", word);
		seen[(name - 'a') * count + number] = 1;
	}
	for (int i = 0; i < controllers * count; i++)
		if (!seen[i])
			fail_msg("request %d of %c was lost", i % count, 'a' + i / count);
}

static void controllers_at_once_lose_nothing(void **state)
{
	enum { CONTROLLERS = 3, COUNT = 60 };
	pid_t pid[CONTROLLERS];
	struct state s;

	start_state(&s);
	for (int i = 0; i < CONTROLLERS; i++)
		pid[i] = start_controller(&s, (char)('a' + i), COUNT);
	start_tracker(&s, 0);
	for (int i = 0; i < CONTROLLERS; i++) {
		int status;

		assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
		assert_int_equal(status, 0);
	}
	while (s.header->control >> 1 !=
	       __atomic_load_n(&s.header->control_done, __ATOMIC_ACQUIRE) >> 1)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	end_tracker(&s);
	assert_whole(&s, CONTROLLERS, COUNT);
	assert_int_equal(s.header->control, 1 + 2 * CONTROLLERS * COUNT);
	assert_int_equal(s.header->request_owner, 0);
	end_state(&s);
}

static void die(void)
{
	kill(getpid(), SIGKILL);
}

static void a_controller_that_died_is_replaced(void **state)
{
	struct mt_err err = {0};
	struct state s;
	int status;

	start_state(&s);
	pid_t pid = fork();
	if (!pid) {
		mt_control_locked_for_test = die;
		mt_control_send(s.path, "mode=stats ", 0, NULL);
		_exit(1);
	}
	/* still a zombie: its number is its own */
	assert_int_equal(waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
	assert_int_equal(s.header->request_owner, pid);
	start_tracker(&s, 0);
	assert_int_equal(mt_control_send(s.path, "off ", 60000000000u, &err), 0);
	waitpid(pid, &status, 0);
	end_tracker(&s);
	assert_true(WIFSIGNALED(status));
	assert_string_equal(s.log, "off \n"); /* nothing of the other's */
	end_state(&s);
}

static void another_process_with_the_owners_number_does_not_hold_it(void **state)
{
	struct mt_err err = {0};
	struct state s;
	pid_t pid;

	start_state(&s);
	pid = fork();
	if (!pid) {
		execlp("sleep", "sleep", "60", (char *)NULL);
		_exit(1);
	}
	s.header->request_owner = (uint32_t)pid;
	/* until it is another program, it has the file mapped */
	for (int code = -EBUSY; code == -EBUSY;)
		code = mt_control_send(s.path, "off ", 0, &err);
	assert_int_equal(s.header->control >> 1, 1);
	s.header->request_owner = (uint32_t)getpid(); /* of one before us */
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), MT_CONTROL_PENDING);
	s.header->request_owner = (uint32_t)-5;
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), MT_CONTROL_PENDING);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	end_state(&s);
}

static void another_controller_at_work_is_named(void **state)
{
	struct mt_err err = {0};
	char wanted[64];
	struct state s;

	start_state(&s);
	pid_t pid = fork();
	if (!pid) { /* has the file mapped */
		pause();
		_exit(0);
	}
	s.header->request_owner = (uint32_t)pid;
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), -EBUSY);
	snprintf(wanted, sizeof(wanted), "another controller (pid %d) is changing", (int)pid);
	assert_non_null(strstr(err.text, wanted));
	assert_int_equal(s.header->control, 1);
	assert_int_equal(s.header->request_owner, pid);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	end_state(&s);
}

static void what_cannot_be_controlled_is_named(void **state)
{
	struct mt_err err = {0};
	struct state s;

	start_state(&s);
	for (unsigned i = 0; i < MT_STATE_REGIONS_MAX; i++)
		if (s.header->region[i].kind == MT_REGION_REQUEST)
			s.header->region[i].kind = 99;
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), -EPROTONOSUPPORT);
	for (unsigned i = 0; i < MT_STATE_REGIONS_MAX; i++)
		if (s.header->region[i].kind == 99) { /* outside of the file */
			s.header->region[i].kind = MT_REGION_REQUEST;
			s.header->region[i].offset = 1ull << 50;
		}
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), -EPROTONOSUPPORT);
	s.header->end_kind = MT_END_EXITED;
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), -ESRCH);
	assert_non_null(strstr(err.text, "does not run any more"));
	s.header->magic[0] = 'x';
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), -EBADMSG);
	end_state(&s);
	assert_int_equal(mt_control_send(s.path, "off ", 0, &err), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_are_written_as_the_tracker_reads_them),
		cmocka_unit_test(words_that_cannot_be_are_refused),
		cmocka_unit_test(a_request_is_taken_over),
		cmocka_unit_test(a_request_that_is_not_taken_stands),
		cmocka_unit_test(too_many_requests_that_stand_are_refused),
		cmocka_unit_test(what_check_mode_cannot_change_is_refused_before_it_is_written),
		cmocka_unit_test(a_refusal_is_told),
		cmocka_unit_test(controllers_at_once_lose_nothing),
		cmocka_unit_test(a_controller_that_died_is_replaced),
		cmocka_unit_test(another_process_with_the_owners_number_does_not_hold_it),
		cmocka_unit_test(another_controller_at_work_is_named),
		cmocka_unit_test(what_cannot_be_controlled_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
