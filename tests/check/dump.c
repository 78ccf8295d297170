/* SPDX-License-Identifier: MIT */
/* Blocks for heap dumps and what else tells of live blocks. Nothing else in here allocates. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>

#include <memtrack.h>

#include "say.h"

#define TOGGLE_SIGNAL (SIGRTMAX - 19)
#define DUMP_SIGNAL (SIGRTMAX - 17)

#ifdef NO_GLIBC
int malloc_info(int options, FILE *stream) __attribute__((weak)); /* ours */
#endif

static void *kept[16];

/* Two places that allocate; the blocks stay. */
__attribute__((noinline)) void *take_here(size_t size)
{
	void *volatile p = malloc(size);
	return p;
}

__attribute__((noinline)) void *take_there(size_t size)
{
	void *volatile p = malloc(size);
	return p;
}

/* A stack of `depth` frames more. */
__attribute__((noinline)) void *take_deep(size_t size, int depth)
{
	void *volatile p = depth ? take_deep(size, depth - 1) : take_here(size);
	return p;
}

static int is_dumped(void)
{
	char name[512];
	snprintf(name, sizeof(name), "%s/heap.%d.txt", getenv("MEMTRACK_DIR"), (int)getpid());
	return !access(name, F_OK);
}

static void remove_dump(void)
{
	char name[512];
	snprintf(name, sizeof(name), "%s/heap.%d.txt", getenv("MEMTRACK_DIR"), (int)getpid());
	unlink(name);
}

static void triggers(void)
{
	void *p = malloc(10);
	raise(DUMP_SIGNAL);
	say("signal", (unsigned long)is_dumped());
	kept[0] = calloc(1, 20);
	say("calloc", (unsigned long)is_dumped());
	remove_dump();
	raise(DUMP_SIGNAL);
	free(p);
	say("free", (unsigned long)is_dumped());
	remove_dump();
	raise(DUMP_SIGNAL);
	kept[1] = memalign(64, 20);
	say("memalign", (unsigned long)is_dumped());
	remove_dump();
	raise(DUMP_SIGNAL);
	kept[1] = realloc(kept[1], 200);
	say("realloc", (unsigned long)is_dumped());
	remove_dump();
	raise(DUMP_SIGNAL);
	malloc_usable_size(kept[1]);
	say("usable", (unsigned long)is_dumped());
}

static void once(void)
{
	for (int i = 0; i < 3; i++)
		raise(DUMP_SIGNAL);
	kept[0] = malloc(10);
	kept[1] = malloc(20);
}

/* 300 and 300 from one stack, 400 from another. */
static void records(void)
{
	for (int i = 0; i < 2; i++)
		kept[i] = take_here(300);
	kept[2] = take_there(400);
}

static void freed_block(void)
{
	void *p = malloc(7777);
	say_pointer("block", p);
	raise(DUMP_SIGNAL);
	free(p);
}

static void dump_now(void)
{
	records();
	raise(DUMP_SIGNAL);
	kept[3] = malloc(10);
}

static void missing_folder(void)
{
	raise(DUMP_SIGNAL);
	kept[0] = malloc(10);
	mark("goes on");
}

static void switched_off(void)
{
	kept[0] = take_here(10);
	raise(DUMP_SIGNAL);
	kept[1] = malloc(20);
}

static void *many[100000];

static void many_blocks(void)
{
	for (int i = 0; i < 100000; i++)
		many[i] = take_here(24);
	raise(DUMP_SIGNAL);
	kept[0] = malloc(1);
}

/* Blocks of two stacks of one depth, in turn. */
static void in_turn(void)
{
	for (int i = 0; i < 100; i++)
		many[i] = i % 2 ? take_here(56) : take_there(56);
	raise(DUMP_SIGNAL);
	kept[0] = malloc(1);
}

/* --- what programs ask --------------------------------------------------------------------- */

static void write_info(void)
{
	records();
	say("before", 1);
	int ok = memtrack_write_malloc_leak_info(1);
	say("after", (unsigned long)ok);
	errno = 0;
	say("closed", (unsigned long)memtrack_write_malloc_leak_info(999));
	say("errno", (unsigned long)errno);
}

static void write_nothing(void)
{
	errno = 0;
	int ok = memtrack_write_malloc_leak_info(1);
	say("result", (unsigned long)ok);
	say("errno", (unsigned long)errno);
}

static void no_parameters(void)
{
	uint8_t *info;
	size_t overall, each, total, frames;
	memtrack_malloc_leak_info(NULL, &overall, &each, &total, &frames);
	memtrack_malloc_leak_info(&info, NULL, &each, &total, &frames);
	memtrack_malloc_leak_info(&info, &overall, NULL, &total, &frames);
	memtrack_malloc_leak_info(&info, &overall, &each, NULL, &frames);
	memtrack_malloc_leak_info(&info, &overall, &each, &total, NULL);
	mark("all");
	memtrack_malloc_leak_info(&info, &overall, &each, &total, &frames);
	say_pointer("info", info);
	say("overall", overall);
	memtrack_free_malloc_leak_info(info);
}

static void tell_info(void)
{
	uint8_t *info;
	size_t overall, each, total, frames;
	memtrack_malloc_leak_info(&info, &overall, &each, &total, &frames);
	say("records", each ? overall / each : 0);
	say("total", total);
	say("frames", frames);
	if (each && each != (2 + frames) * sizeof(size_t))
		say("bad_record", each);
	for (size_t at = 0; at < overall; at += each) {
		size_t size, num, depth = 0;
		uintptr_t frame;
		memcpy(&size, info + at, sizeof(size));
		memcpy(&num, info + at + sizeof(size), sizeof(num));
		for (; depth < frames; depth++) {
			memcpy(&frame, info + at + (2 + depth) * sizeof(size), sizeof(frame));
			if (!frame)
				break;
		}
		say("size", size);
		say("num", num);
		say("depth", depth);
	}
	memtrack_free_malloc_leak_info(info);
}

static void sizes(void)
{
	kept[0] = take_here(500);
	kept[1] = take_deep(4100, 20);
	kept[2] = take_there(9000);
	tell_info();
}

static void equal_blocks(void)
{
	for (int i = 0; i < 4; i++)
		kept[i] = take_here(i < 3 ? 10 : 100);
	tell_info();
}

static void four_blocks(void)
{
	for (int i = 0; i < 4; i++)
		kept[i] = malloc(100);
	tell_info();
}

static void toggled(void)
{
	void *p = malloc(10);
	tell_info();
	raise(TOGGLE_SIGNAL);
	free(p);
	p = take_deep(100, 30);
	tell_info();
	raise(TOGGLE_SIGNAL);
	free(p);
	kept[0] = malloc(200);
	tell_info();
}

static void info_of_sizes(void)
{
	kept[0] = malloc(1000);
	kept[1] = malloc(1000);
	kept[2] = malloc(500);
	kept[3] = malloc(1200);
	static char buffer[4096];
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	say("result", (unsigned long)malloc_info(0, stdout));
	fflush(stdout);
	puts("");
}

#ifndef NO_GLIBC
static void other_calls(void)
{
	struct mallinfo2 before = mallinfo2();
	kept[0] = malloc(1000);
	struct mallinfo2 after = mallinfo2();
	say("grown", after.uordblks - before.uordblks >= 1000);
	say("option", (unsigned long)mallopt(-1000, 1));
	say("known_option", (unsigned long)mallopt(M_ARENA_MAX, 4));
}
#else
static void other_calls(void)
{
}
#endif

/* --- while others allocate ----------------------------------------------------------------- */

static volatile int done;
static int at_work;

static void *churn(void *nothing)
{
	void *p[64] = {0};
	unsigned long n = 0;
	for (; !done; n++) {
		free(p[n % 64]);
		p[n % 64] = take_deep(16 + n % 500, (int)(n % 7));
		if (n == 100)
			__atomic_add_fetch(&at_work, 1, __ATOMIC_RELAXED);
	}
	for (int i = 0; i < 64; i++)
		free(p[i]);
	return (void *)n;
}

static void while_others_allocate(void)
{
	pthread_t thread[3];
	unsigned long calls = 0;
	int fd = open("/dev/null", O_WRONLY), good = 0;
	for (int i = 0; i < 3; i++)
		if (pthread_create(&thread[i], NULL, churn, NULL))
			_exit(1);
	while (__atomic_load_n(&at_work, __ATOMIC_RELAXED) < 3)
		usleep(1000);
	for (int i = 0; i < 30; i++) {
		good += memtrack_write_malloc_leak_info(fd);
		uint8_t *info;
		size_t overall, each, total, frames;
		memtrack_malloc_leak_info(&info, &overall, &each, &total, &frames);
		memtrack_free_malloc_leak_info(info);
	}
	done = 1;
	for (int i = 0; i < 3; i++) {
		void *n;
		pthread_join(thread[i], &n);
		calls += (unsigned long)n;
	}
	say("good", (unsigned long)good);
	say("calls", calls > 0);
}

static const struct say_case cases[] = {
	{"triggers", triggers},
	{"once", once},
	{"records", records},
	{"freed_block", freed_block},
	{"dump_now", dump_now},
	{"missing_folder", missing_folder},
	{"switched_off", switched_off},
	{"many_blocks", many_blocks},
	{"in_turn", in_turn},
	{"write_info", write_info},
	{"write_nothing", write_nothing},
	{"no_parameters", no_parameters},
	{"sizes", sizes},
	{"equal_blocks", equal_blocks},
	{"four_blocks", four_blocks},
	{"toggled", toggled},
	{"info_of_sizes", info_of_sizes},
	{"other_calls", other_calls},
	{"while_others_allocate", while_others_allocate},
};

int main(int argc, char **argv)
{
	return say_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
