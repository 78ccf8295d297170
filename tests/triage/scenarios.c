/* SPDX-License-Identifier: MIT */
/*
 * A process whose memory does one thing: scenarios KIND. Prints "ready PID" when it does, then goes
 * on until its input ends, or an alarm. Steps are small and often: every reading sees some.
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIFE_S = 120, PAGE = 4096, STEP_MS = 10, KEPT = 1 << 20 };

static void *kept[KEPT]; /* what the program still points to */
static size_t keeps;
static pthread_attr_t attributes;
static char shm_name[64];

static void fail(const char *what)
{
	perror(what);
	exit(3);
}

/* Keeps a pointer; the table is bounded by the program's life. */
static void keep(void *p)
{
	if (!p || keeps == KEPT)
		fail("keep");
	kept[keeps++] = p;
}

static void *filled(size_t bytes)
{
	void *p = malloc(bytes);

	if (!p)
		fail("malloc");
	return memset(p, 1, bytes);
}

/* ---- steps ---- */

static void step_nothing(unsigned round)
{
}

__attribute__((noinline)) static void step_leak(unsigned round)
{
	for (int i = 0; i < 64; i++)
		*(volatile char *)filled(1000) = (char)round;
}

static void step_slow(unsigned round)
{
	*(volatile char *)filled(1500) = (char)round;
}

__attribute__((noinline)) static void step_container(unsigned round)
{
	for (int i = 0; i < 64; i++)
		keep(filled(1000));
}

static void step_mmap(unsigned round)
{
	/* not next to each other, so that the kernel does not make one of them */
	char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + 15 * PAGE, PAGE, PROT_NONE))
		fail("mmap");
	memset(p, 1, 15 * PAGE);
}

static void *wait_for_ever(void *opaque)
{
	char used[64 << 10];

	memset(used, 1, sizeof(used));
	__asm__ volatile("" : : "r"(used) : "memory");
	for (;;)
		pause();
	return NULL;
}

static void step_threads(unsigned round)
{
	pthread_t thread;

	if (round % 4 == 0 && round < 1600 &&
	    pthread_create(&thread, &attributes, wait_for_ever, NULL))
		fail("pthread_create");
}

static void step_file(unsigned round)
{
	static int fd = -1;
	char *p;

	if (fd < 0)
		fd = open("mapped.data", O_RDWR);
	p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd,
		 (off_t)(round % 64) * 16 * PAGE);
	if (p == MAP_FAILED)
		fail("mmap of a file");
	memset(p, 1, 16 * PAGE); /* copied on write */
}

static void step_shm(unsigned round)
{
	static char *at;
	static size_t size;
	int fd;

	if (!at) {
		/* mapped once, the descriptor is closed: it grows only as pages are touched */
		fd = shm_open(shm_name, O_CREAT | O_EXCL | O_RDWR, 0600);
		if (fd < 0 || ftruncate(fd, 1 << 30))
			fail("shm_open");
		at = mmap(NULL, 1 << 30, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		shm_unlink(shm_name);
		close(fd);
		if (at == MAP_FAILED)
			fail("mmap of shm");
	}
	memset(at + size, 1, 16 * PAGE);
	size += 16 * PAGE;
}

static void step_tmpfs(unsigned round)
{
	static int fd = -1;
	char bytes[64 << 10];

	if (fd < 0) {
		fd = shm_open(shm_name, O_CREAT | O_EXCL | O_RDWR, 0600);
		shm_unlink(shm_name);
	}
	memset(bytes, 1, sizeof(bytes));
	if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
		fail("write to tmpfs");
}

static void step_memfd(unsigned round)
{
	int fd = round < 500 ? memfd_create("frame", 0) : 0;
	char *p;

	if (!fd) /* enough */
		return;
	if (fd < 0 || ftruncate(fd, 16 * PAGE))
		fail("memfd_create");
	p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		fail("mmap of a memfd");
	memset(p, 1, 16 * PAGE);
	munmap(p, 16 * PAGE); /* only the descriptor holds it */
}

static void step_descriptors(unsigned round)
{
	if (round < 500 && dup(0) < 0)
		fail("dup");
}

/* ---- beginnings ---- */

/* A heap of which little is live, in every page of it. */
static void begin_fragmented(void)
{
	enum { BLOCKS = 48 << 10, BYTES = 1000 };

	for (int i = 0; i < BLOCKS; i++)
		keep(filled(BYTES));
	for (int i = 0; i < BLOCKS; i++)
		if (i % 10)
			free(kept[i]);
	for (int i = 0; i < BLOCKS; i++)
		kept[i] = i % 10 ? NULL : kept[i];
}

/* Full before anybody looks. */
static void begin_cache(void)
{
	for (int i = 0; i < 30 << 10; i++)
		keep(filled(1000));
}

static void begin_lost(void)
{
	for (int i = 0; i < 30 << 10; i++)
		*(volatile char *)filled(1000) = (char)i;
}

/* An old leak that stands still, larger than what will grow. */
static void begin_beside(void)
{
	begin_lost();
	begin_cache();
}

/* Blocks with mappings of their own, and below them memory that looks like one more. */
static void begin_decoy(void)
{
	size_t *p;

	begin_cache();
	for (int i = 0; i < 4; i++)
		keep(filled((300 << 10) + (size_t)i * 8 * PAGE));
	p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	p[1] = 48 * PAGE + 2;
}

/* Entries come and go: nothing grows. */
static void step_cache(unsigned round)
{
	for (int i = 0; i < 16; i++) {
		size_t at = (round * 16u + (unsigned)i) % keeps;

		free(kept[at]);
		kept[at] = filled(1000);
	}
}

/* Fills when it is told to, then stands still. */
static void fill(void)
{
	for (int i = 0; i < 20 << 10; i++)
		keep(filled(1000));
}

/* Addresses alone. */
static void step_addresses(unsigned round)
{
	char *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p, PAGE, PROT_NONE))
		fail("mmap");
}

/* Overwrites the header of a block, as an overflow does. */
static void begin_damaged(void)
{
	size_t *p;

	begin_cache();
	p = kept[1000];
	p[1000 / sizeof(*p)] = 0x4141414141414141; /* the size of the next one */
}

static const struct scenario {
	const char *name;
	void (*begin)(void);
	void (*step)(unsigned round);
	void (*told)(void); /* at each byte of input */
} scenarios[] = {
	{.name = "steady", .step = step_nothing},
	{.name = "leak", .step = step_leak},
	{.name = "slow", .step = step_slow},
	{.name = "container", .step = step_container},
	{.name = "mmap", .step = step_mmap},
	{.name = "threads", .step = step_threads},
	{.name = "file", .step = step_file},
	{.name = "shm", .step = step_shm},
	{.name = "tmpfs", .step = step_tmpfs},
	{.name = "memfd", .step = step_memfd},
	{.name = "descriptors", .step = step_descriptors},
	{.name = "fragmented", .begin = begin_fragmented, .step = step_nothing},
	{.name = "cache", .begin = begin_cache, .step = step_cache},
	{.name = "decoy", .begin = begin_decoy, .step = step_nothing},
	{.name = "filling", .step = step_nothing, .told = fill},
	{.name = "addresses", .step = step_addresses},
	{.name = "beside", .begin = begin_beside, .step = step_container},
	{.name = "lost", .begin = begin_lost, .step = step_nothing},
	{.name = "damaged", .begin = begin_damaged, .step = step_nothing},
};

static void go_on(const struct scenario *s)
{
	struct pollfd in = {.fd = 0, .events = POLLIN};
	char byte;

	if (s->begin)
		s->begin();
	s->step(0);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	for (unsigned round = 1;; round++) {
		if (poll(&in, 1, STEP_MS) > 0) {
			if (read(0, &byte, 1) <= 0)
				return;
			if (s->told)
				s->told();
		}
		s->step(round);
	}
}

int main(int argc, char **argv)
{
	alarm(LIFE_S);
	/* without page faults of its own later: what grows is what the scenario does */
	if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, 1 << 20))
		fail("begin");
	memset(kept, 1, sizeof(kept));
	memset(kept, 0, sizeof(kept));
	snprintf(shm_name, sizeof(shm_name), "/memtrack-triage-%d", (int)getpid());
	for (size_t i = 0; argc == 2 && i < sizeof(scenarios) / sizeof(*scenarios); i++)
		if (!strcmp(argv[1], scenarios[i].name)) {
			go_on(&scenarios[i]);
			return 0;
		}
	fprintf(stderr, "usage: scenarios KIND\n");
	return 2;
}
