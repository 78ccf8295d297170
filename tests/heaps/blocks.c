/* SPDX-License-Identifier: MIT */
/*
 * Allocates and frees at random, then tells what is live and what was freed, and waits until its
 * standard input ends. Says "live ADDRESS USABLE", "freed ADDRESS", "NAME NUMBER", then "ready
 *PID".
 *
 *	blocks SEED THREADS OPERATIONS [MODE...]
 *
 * fork: a child does the work and tells. sbrk: somebody else moves the break, too. wall: the break
 * cannot grow beyond some point. mapped: more blocks with mappings of their own. seven: seven
 * blocks of one size are freed. stale: two of these are written to afterwards. huge: some blocks of
 * the second thread are, and the first one frees two of them. damage: headers of blocks are
 * overwritten in the end, and told. front: of these the word 16 bytes before the block.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum { SLOTS = 600, FREED = 4096, THREADS_MAX = 64, LIFE_S = 150 };

struct worker {
	uint64_t random;
	unsigned operations, number;
	void *slot[SLOTS];
	void *freed[FREED];
	unsigned freed_count;
};

static struct worker workers[THREADS_MAX];
static int does_sbrk, has_wall, is_mapped, is_damaged, has_seven, is_stale, has_huge, is_front;
static uint64_t huge_count;
static pthread_barrier_t all_done, may_end;

/* ---- output without allocations ---- */

static char text[1 << 16];
static size_t text_len;

static void flush(void)
{
	size_t at = 0;

	while (at < text_len) {
		ssize_t n = write(1, text + at, text_len - at);

		if (n <= 0)
			_exit(3);
		at += (size_t)n;
	}
	text_len = 0;
}

static void say(const char *name, uint64_t first, const uint64_t *second)
{
	char line[100];
	int n = second ? snprintf(line, sizeof(line), "%s 0x%llx %llu\n", name,
				  (unsigned long long)first, (unsigned long long)*second)
		       : snprintf(line, sizeof(line), "%s %llu\n", name, (unsigned long long)first);

	if (text_len + (size_t)n > sizeof(text))
		flush();
	memcpy(text + text_len, line, (size_t)n);
	text_len += (size_t)n;
}

/* ---- work ---- */

static uint64_t next(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random * 0x9e3779b97f4a7c15ull >> 20;
}

static size_t random_size(struct worker *w)
{
	unsigned kind = (unsigned)(next(w) % 1000);
	unsigned bits = kind < 900                       ? 11
			: kind < 970                     ? 14
			: kind < (is_mapped ? 980 : 996) ? 18
							 : 22;

	bits = (unsigned)(next(w) % bits) + 1;
	return (size_t)(next(w) % (1ull << bits)) + 1;
}

/* Data that looks like sizes of chunks, like pointers, or like nothing. */
static void fill(struct worker *w, void *block, size_t bytes)
{
	static const uint64_t words[] = {0x21, 0x31, 0x10, 0x11, 1, 0x291, 0, UINT64_MAX};
	uint64_t word = words[next(w) % 8];

	if (next(w) % 4 == 0)
		word = (uint64_t)(uintptr_t)w->slot[next(w) % SLOTS];
	for (size_t i = 0; i + 8 <= bytes && i < 65536; i += 8)
		memcpy((char *)block + i, &word, 8);
}

static void forget(struct worker *w, void *block)
{
	if (block)
		w->freed[w->freed_count++ % FREED] = block;
}

static void step(struct worker *w)
{
	void **slot = &w->slot[next(w) % SLOTS];
	size_t bytes = random_size(w);
	unsigned kind = (unsigned)(next(w) % 16);

	if (*slot && kind < 3) {
		void *moved = realloc(*slot, bytes);

		if (moved != *slot)
			forget(w, *slot);
		*slot = moved;
	} else if (*slot) {
		forget(w, *slot);
		free(*slot);
		*slot = NULL;
		return;
	} else if (kind == 3) {
		*slot = calloc(1, bytes);
		return;
	} else if (kind == 4) {
		if (posix_memalign(slot, (size_t)16 << next(w) % (bytes > 65536 ? 18 : 9), bytes))
			*slot = NULL;
	} else {
		*slot = malloc(bytes);
	}
	if (*slot)
		fill(w, *slot, bytes);
	if (does_sbrk && next(w) % 1000 == 0 && sbrk((intptr_t)(next(w) % 5000 + 1)) == (void *)-1)
		_exit(4);
}

/* A page where the break would go. */
static void build_wall(void)
{
	uintptr_t end = ((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095;

	for (int i = 0; i < 64; i++)
		if (mmap((void *)(end + ((uintptr_t)i << 12) + (256 << 10)), 4096, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED)
			return;
	_exit(5);
}

/* Slots 0 and 3 are among those that the first thread frees. */
static void take_huge(struct worker *w)
{
	static const size_t bytes[] = {20 << 20, 17 << 20, 3ull << 30, 90 << 20, 1 << 20};

	for (unsigned i = 0; i < 5; i++) {
		free(w->slot[i]);
		if (i < 4)
			w->slot[i] = malloc(bytes[i]);
		else if (posix_memalign(&w->slot[i], 64 << 20, bytes[i]))
			w->slot[i] = NULL;
		if (w->slot[i])
			fill(w, w->slot[i], bytes[i]);
		huge_count += w->slot[i] && i % 3;
	}
}

static void *work(void *opaque)
{
	struct worker *w = opaque;

	for (unsigned i = 0; i < w->operations; i++) {
		step(w);
		if (has_wall && !w->number && i == w->operations / 4)
			build_wall();
	}
	if (has_huge && w->number == 1)
		take_huge(w);
	if (w->number % 4 == 3)
		return NULL; /* a thread that ends gives its cache back */
	pthread_barrier_wait(&all_done);
	pthread_barrier_wait(&may_end);
	return NULL;
}

/* ---- telling ---- */

static int by_value(const void *a, const void *b)
{
	uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;

	return (x > y) - (x < y);
}

static uintptr_t live[SLOTS * THREADS_MAX];
static size_t live_count;

static void tell_blocks(unsigned threads)
{
	for (unsigned t = 0; t < threads; t++)
		for (unsigned i = 0; i < SLOTS; i++)
			if (workers[t].slot[i]) {
				uint64_t usable = malloc_usable_size(workers[t].slot[i]);

				live[live_count++] = (uintptr_t)workers[t].slot[i];
				say("live", (uintptr_t)workers[t].slot[i], &usable);
			}
	say("huge", huge_count, NULL);
	qsort(live, live_count, sizeof(live[0]), by_value);
	for (unsigned t = 0; t < threads; t++)
		for (unsigned i = 0; i < FREED; i++) {
			uintptr_t p = (uintptr_t)workers[t].freed[i];
			uint64_t zero = 0;

			if (p && !bsearch(&p, live, live_count, sizeof(p), by_value))
				say("freed", p, &zero);
		}
}

static void tell_totals(void)
{
#if defined(__GLIBC__) && !defined(NO_TOTALS)
	struct mallinfo2 m = mallinfo2();

	say("arena", m.arena, NULL);
	say("hblks", m.hblks, NULL);
	say("hblkhd", m.hblkhd, NULL);
	say("uordblks", m.uordblks, NULL);
	say("fordblks", m.fordblks, NULL);
	say("fsmblks", m.fsmblks, NULL);
	flush();
	malloc_info(0, stdout);
	fflush(stdout);
#endif
}

/* Bytes before a block that its allocator relies on. */
static void damage_headers(void)
{
	struct worker *w = &workers[0];

	for (unsigned i = 0, done = 0; i < 1000 && done < 2; i++) {
		char *block = w->slot[next(w) % SLOTS];
		uint64_t word;

		if (!block || malloc_usable_size(block) > 60000)
			continue;
		if (is_front) {
			block[-16] = (char)(block[-16] ^ (1 << next(w) % 8));
			say("damaged", (uintptr_t)block, NULL);
			done++;
			continue;
		}
		memcpy(&word, block - 8, 8);
#ifdef __GLIBC__
		switch (next(w) % 4) {
		case 0: /* a text that went too far */
			memcpy(block - 16, "overwritten text", 16);
			break;
		case 1: /* the flags */
			word ^= (uint64_t)1 << next(w) % 3;
			memcpy(block - 8, &word, 8);
			break;
		case 2: /* no multiple of what sizes are */
			word ^= 8;
			memcpy(block - 8, &word, 8);
			break;
		default:
			word = next(w) << 20;
			memcpy(block - 8, &word, 8);
		}
#else
		if ((uintptr_t)block & 15)
			continue;
		block[-3] = (char)(block[-3] ^ (1 << next(w) % 5)); /* which slot it is */
#endif
		say("damaged", (uintptr_t)block, NULL);
		done++;
	}
}

static void free_seven(void)
{
	struct worker *w = &workers[0];
	void *block[9];

	for (int i = 0; i < 9; i++)
		block[i] = malloc(200);
	w->slot[0] = block[0];
	w->slot[1] = block[8];
	for (int i = 1; i < 8; i++) {
		forget(w, block[i]);
		free(block[i]);
	}
}

/* As a program does that goes on to use what it freed. */
static void write_to_freed(void)
{
	struct worker *w = &workers[0];

	for (unsigned i = 1; i <= 2; i++) {
		uint64_t *block = w->freed[(w->freed_count - i) % FREED];

		*block = 0x6f6c206f6c6c6568;
		say("damaged", (uintptr_t)block, NULL);
	}
}

static void wait_for_the_end(void)
{
	char c;

	say("ready", (uint64_t)getpid(), NULL);
	flush();
	while (read(0, &c, 1) > 0)
		;
}

static void run(unsigned threads)
{
	pthread_t id[THREADS_MAX];
	unsigned waiting = 1;

	for (unsigned t = 1; t < threads; t++)
		waiting += t % 4 != 3;
	pthread_barrier_init(&all_done, NULL, waiting);
	pthread_barrier_init(&may_end, NULL, waiting);
	for (unsigned t = 1; t < threads; t++)
		if (pthread_create(&id[t], NULL, work, &workers[t]))
			_exit(6);
	for (unsigned i = 0; i < workers[0].operations; i++) {
		step(&workers[0]);
		if (has_wall && i == workers[0].operations / 4)
			build_wall();
	}
	for (unsigned t = 3; t < threads; t += 4)
		pthread_join(id[t], NULL);
	pthread_barrier_wait(&all_done);
	/* the blocks of others, freed here */
	for (unsigned t = 1; t < threads; t++)
		for (unsigned i = 0; i < SLOTS; i += 3) {
			forget(&workers[t], workers[t].slot[i]);
			free(workers[t].slot[i]);
			workers[t].slot[i] = NULL;
		}
	if (has_seven)
		free_seven();
	tell_blocks(threads);
	tell_totals();
	if (is_damaged)
		damage_headers();
	if (is_stale)
		write_to_freed();
	wait_for_the_end();
	if (is_damaged || is_stale)
		_exit(0);
	pthread_barrier_wait(&may_end);
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	int forks = 0;

	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(LIFE_S);
	if (argc < 4 || threads < 1 || threads > THREADS_MAX)
		return 2;
	for (int i = 4; i < argc; i++) {
		forks |= !strcmp(argv[i], "fork");
		does_sbrk |= !strcmp(argv[i], "sbrk");
		has_wall |= !strcmp(argv[i], "wall");
		is_mapped |= !strcmp(argv[i], "mapped");
		is_damaged |= !strcmp(argv[i], "damage");
		is_front |= !strcmp(argv[i], "front");
		is_damaged |= is_front || !strcmp(argv[i], "damage");
		is_stale |= !strcmp(argv[i], "stale");
		has_huge |= !strcmp(argv[i], "huge");
		has_seven |= is_stale || !strcmp(argv[i], "seven");
	}
	for (unsigned t = 0; t < threads; t++)
		workers[t] = (struct worker){
			.random = strtoull(argv[1], NULL, 0) * 1000003 + t + 1,
			.operations = (unsigned)atoi(argv[3]),
			.number = t,
		};
	if (forks) {
		pid_t pid;

		for (unsigned i = 0; i < 2000; i++)
			step(&workers[0]);
		pid = fork();
		if (pid < 0)
			return 7;
		if (pid)
			return waitpid(pid, NULL, 0) == pid ? 0 : 8;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(LIFE_S);
	}
	run(threads);
	return 0;
}
