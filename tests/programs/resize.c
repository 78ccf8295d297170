/* SPDX-License-Identifier: MIT */
/* Blocks that move when they are resized: the counters of the program against its own. */
#include "memtrack.h"
#include "program.h"

static struct memtrack_stats stats(void)
{
	struct memtrack_stats s = {.struct_bytes = sizeof(s)};
	if (!memtrack_stats_get || memtrack_stats_get(&s))
		fail("memtrack_stats_get");
	return s;
}

static void say_since(const char *what, const struct memtrack_stats *a)
{
	struct memtrack_stats b = stats();
	say("%s: allocs %d frees %d live %d in %d\n", what, (int)(b.allocs - a->allocs),
	    (int)(b.frees - a->frees), (int)(b.live_count - a->live_count),
	    (int)(b.live_bytes - a->live_bytes));
}

int main(void)
{
	struct memtrack_stats a = stats();
	char *p = malloc(100);
	for (int i = 0; i < 1000; i++) {
		p = realloc(p, i & 1 ? 100 : 50000);
		KEEP(p);
	}
	free(p);
	say_since("realloc", &a);
	a = stats();
	p = malloc(100);
	for (int i = 0; i < 1000; i++) {
		p = reallocarray(p, i & 1 ? 10 : 5000, 10);
		KEEP(p);
	}
	p = realloc(p, 0);
	KEEP(p);
	free(p);
	say_since("reallocarray", &a);
	return 0;
}
