/* SPDX-License-Identifier: MIT */
/*
 * Asks for profiles and changes of mode as it is told, one step an argument (`+` stands for a
 * blank), and prints what each answered. Valid C and C++.
 *
 *   leak:COUNT                        leaves blocks of 1000 bytes behind in leak_here()
 *   sample:MS:INTERVAL:TAG:DIR        memtrack_profile()
 *   start:MS:INTERVAL:TAG:DIR         memtrack_profile_async()
 *   snapshot:TAG:DIR                  memtrack_profile(), again for 10 s while one is in progress
 *   join                              leaks until the callback has come, at most 20 s
 *   wait:MODE                         until this is the mode in force, at most 20 s
 *   cancel:TAG   control:WORDS        -
 *   fork:FILE                         a child cancels, leaks, and takes its state
 *   thread:DIR                        a thread dies while its request waits; the program is in full
 * mode limit:BYTES:FILE                  RLIMIT_FSIZE, and memtrack_snapshot() bad requests that no
 * program should make
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memtrack_profile.h>

static void *volatile kept;
static volatile sig_atomic_t called;
static pthread_t main_thread;

__attribute__((noinline)) static void leak_here(long count)
{
	for (long i = 0; i < count; i++)
		kept = malloc(1000);
}

static void print(const char *who, const struct memtrack_profile_result *r)
{
	printf("%s %s %d %s\n", who, memtrack_profile_error_name(r->error), r->errno_value,
	       r->path[0] ? r->path : "-");
}

static void done(const struct memtrack_profile_result *result, void *arg)
{
	sigset_t blocked;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	print((const char *)arg, result);
	if (pthread_equal(pthread_self(), main_thread) || !sigismember(&blocked, SIGTERM))
		puts("the callback's thread is the program's own");
	called = 1;
}

/* Fields of a step: separated by colons, in place. */
static void split(char *text, char *field[6])
{
	for (int i = 0; i < 6; i++) {
		field[i] = text;
		text += strcspn(text, ":");
		if (*text)
			*text++ = 0;
	}
}

static struct memtrack_profile_request request_of(char *field[6])
{
	struct memtrack_profile_request q;
	memset(&q, 0, sizeof(q));
	q.struct_bytes = sizeof(q);
	q.type = MEMTRACK_PROFILE_SAMPLE;
	q.duration_ms = strtoul(field[1], NULL, 10);
	q.interval_bytes = strtoul(field[2], NULL, 10);
	q.tag = field[3];
	q.directory = field[4];
	return q;
}

static void ask(const char *who, const struct memtrack_profile_request *q)
{
	struct memtrack_profile_result r;
	memset(&r, 'x', sizeof(r));
	r.struct_bytes = sizeof(r);
	errno = 77;
	int error = memtrack_profile(q, &r);
	if (error != r.error || errno != 77)
		printf("returned %d, errno %d\n", error, errno);
	print(who, &r);
}

/* Says so before: the callback may come first. */
static void start(const struct memtrack_profile_request *q)
{
	static char name[] = "callback";
	puts("start");
	int error = memtrack_profile_async(q, done, name);
	if (error)
		printf("not started %d\n", error);
}

static void snapshot(const char *tag, const char *directory)
{
	struct memtrack_profile_result r;
	struct memtrack_profile_request q;
	memset(&q, 0, sizeof(q));
	memset(&r, 0, sizeof(r));
	q.struct_bytes = sizeof(q);
	q.type = MEMTRACK_PROFILE_SNAPSHOT;
	q.tag = tag;
	q.directory = directory;
	r.struct_bytes = sizeof(r);
	for (int i = 0; i < 1000 && memtrack_profile(&q, &r) == MEMTRACK_PROFILE_IN_PROGRESS; i++)
		usleep(10000);
	print("snapshot", &r);
}

static void forked(const char *path)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		leak_here(5);
		printf("child cancel %d snapshot ", memtrack_profile_cancel(NULL));
		printf("%d\n", memtrack_snapshot(path));
		fflush(stdout);
		_exit(0);
	}
	int status = -1;
	waitpid(pid, &status, 0);
	printf("child %d\n", status);
}

/* The mode in our state file's header, by its mapping; 0: there is none. */
static unsigned mode_in_force(void)
{
	char line[600];
	unsigned long from = 0;
	FILE *maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, ".mtk") && strstr(line, " 00000000 "))
			from = strtoul(line, NULL, 16);
	if (maps)
		fclose(maps);
	return from ? *(volatile const uint32_t *)(from + 28) : 0;
}

static void wait_for(unsigned mode)
{
	int i = 0;
	for (; i < 2000 && mode_in_force() != mode; i++)
		usleep(10000);
	if (i == 2000)
		printf("mode %u in vain\n", mode);
}

static void *dying(void *directory)
{
	char minute[] = "60000", interval[] = "4096", tag[] = "dying";
	char *field[6] = {NULL, minute, interval, tag, (char *)directory, NULL};
	struct memtrack_profile_request q = request_of(field);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	ask("dying", &q);
	return NULL;
}

static void thread(char *directory)
{
	pthread_t other;
	pthread_create(&other, NULL, dying, directory);
	wait_for(3);
	pthread_cancel(other);
	pthread_join(other, NULL);
}

static void limit(const char *bytes, const char *path)
{
	struct rlimit l;
	l.rlim_cur = l.rlim_max = strtoul(bytes, NULL, 10);
	setrlimit(RLIMIT_FSIZE, &l);
	printf("snapshot %d %s\n", memtrack_snapshot(path),
	       access(path, F_OK) ? "no file" : "file");
}

static void bad(void)
{
	struct memtrack_profile_request q;
	struct memtrack_profile_result r;
	memset(&q, 0, sizeof(q));
	memset(&r, 0, sizeof(r));
	q.struct_bytes = sizeof(q);
	printf("%d ", memtrack_profile(&q, NULL));
	printf("%d ", memtrack_profile(&q, &r));
	printf("%s ", r.error || r.errno_value ? "touched" : "left alone");
	r.struct_bytes = sizeof(r);
	printf("%d ", memtrack_profile(NULL, &r));
	printf("%d ", r.errno_value);
	q.tag = "tag";
	q.directory = "/tmp";
	q.type = 3;
	printf("%d ", memtrack_profile(&q, &r));
	q.type = MEMTRACK_PROFILE_SNAPSHOT;
	q.interval_bytes = 1;
	printf("%d ", memtrack_profile(&q, &r));
	q.type = MEMTRACK_PROFILE_SAMPLE;
	q.duration_ms = 86400001;
	printf("%d ", memtrack_profile(&q, &r));
	q.duration_ms = 1;
	q.interval_bytes = ((uint64_t)1 << 40) + 1;
	printf("%d ", memtrack_profile(&q, &r));
	q.interval_bytes = 0;
	q.struct_bytes--;
	printf("%d ", memtrack_profile(&q, &r));
	printf("%d %d\n", memtrack_profile_async(&q, done, NULL), memtrack_control(NULL));
}

static void join(void)
{
	for (int i = 0; i < 20000 && !called; i++) {
		leak_here(10);
		usleep(1000);
	}
	if (!called)
		puts("no callback came");
	called = 0;
}

static void step(char *text)
{
	char *field[6];
	split(text, field);
	struct memtrack_profile_request q = request_of(field);
	if (!strcmp(field[0], "leak"))
		leak_here(atol(field[1]));
	else if (!strcmp(field[0], "sample"))
		ask("sample", &q);
	else if (!strcmp(field[0], "start"))
		start(&q);
	else if (!strcmp(field[0], "snapshot"))
		snapshot(field[1], field[2]);
	else if (!strcmp(field[0], "wait"))
		wait_for((unsigned)atoi(field[1]));
	else if (!strcmp(field[0], "join"))
		join();
	else if (!strcmp(field[0], "cancel"))
		printf("cancel %d\n", memtrack_profile_cancel(field[1]));
	else if (!strcmp(field[0], "control"))
		printf("control %d\n", memtrack_control(field[1]));
	else if (!strcmp(field[0], "fork"))
		forked(field[1]);
	else if (!strcmp(field[0], "thread"))
		thread(field[1]);
	else if (!strcmp(field[0], "limit"))
		limit(field[1], field[2]);
	else if (!strcmp(field[0], "bad"))
		bad();
	else
		puts("no such step");
}

int main(int argc, char **argv)
{
	static char buffer[8192];
	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	main_thread = pthread_self();
	for (int i = 1; i < argc; i++) {
		for (char *c = argv[i]; *c; c++)
			if (*c == '+')
				*c = ' ';
		step(argv[i]);
	}
	return 0;
}
