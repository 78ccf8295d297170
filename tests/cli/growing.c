/* SPDX-License-Identifier: MIT */
/*
 * What the tests of time lines run: a program that leaks, fills a cache and has a queue that comes
 * and goes, as much as it is told to on standard input. A number: so many ticks, each with 10
 * leaked blocks of 100 bytes, up to 40 entries of 1000 bytes in the cache until it holds 1200, and
 * 20 blocks of 500 bytes in a queue that is emptied every 9 ticks. "big N": N MiB, touched and
 * leaked. "run N": N ticks, a few ms apart. "label L": the label L from now on. "tidy": all
 * is freed at the end. Each line is answered by "ok".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const char *memtrack_label_set(const char *text) __attribute__((weak));

enum { CACHE = 1200, A_TICK = 40, QUEUE = 180, LEAKS = 10 };

static void *cache[CACHE], *queue[QUEUE];
static void **volatile leaked; /* each has the one before it */
static int cached, queued, ticks, is_tidy;

static void __attribute__((noinline)) leak_here(size_t bytes)
{
	void **block = malloc(bytes);

	memset(block, 1, bytes);
	*block = leaked;
	leaked = block;
}

static void __attribute__((noinline)) fill_cache(void)
{
	for (int i = 0; i < A_TICK && cached < CACHE; i++)
		cache[cached++] = malloc(1000);
}

static void __attribute__((noinline)) use_queue(void)
{
	if (ticks % 9 == 8)
		while (queued)
			free(queue[--queued]);
	for (int i = 0; i < QUEUE / 9 && queued < QUEUE; i++)
		queue[queued++] = malloc(500);
}

static void tick(void)
{
	for (int i = 0; i < LEAKS; i++)
		leak_here(100);
	fill_cache();
	use_queue();
	ticks++;
}

static void tear_down(void)
{
	while (leaked) {
		void **block = leaked;

		leaked = *block;
		free(block);
	}
	while (cached)
		free(cache[--cached]);
	while (queued)
		free(queue[--queued]);
}

int main(void)
{
	const struct timespec pause = {0, 3000000};
	char line[64], label[64];

	setbuf(stdout, NULL);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		int n;

		if (sscanf(line, "big %d", &n) == 1)
			leak_here((size_t)n << 20);
		else if (sscanf(line, "label %63s", label) == 1)
			memtrack_label_set ? memtrack_label_set(label) : NULL;
		else if (!strcmp(line, "tidy\n"))
			is_tidy = 1;
		else if (sscanf(line, "run %d", &n) == 1)
			for (int i = 0; i < n; i++) {
				tick();
				nanosleep(&pause, NULL);
			}
		else if (sscanf(line, "%d", &n) == 1)
			for (int i = 0; i < n; i++)
				tick();
		puts("ok");
	}
	if (is_tidy)
		tear_down();
	return 0;
}
