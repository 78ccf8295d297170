/* SPDX-License-Identifier: MIT */
/* The source interface: with the tracker its numbers are right, without it every call is harmless.
 */
#include "memtrack.h"
#include "program.h"

static struct memtrack_stats stats(void)
{
	struct memtrack_stats s = {.struct_bytes = sizeof(s)};
	if (!memtrack_stats_get || memtrack_stats_get(&s)) {
		say("not tracked\n");
		exit(0);
	}
	return s;
}

int main(int argc, char **argv)
{
	struct memtrack_stats a = stats();
	void *p[10];
	for (size_t i = 0; i < 10; i++)
		p[i] = mark(i * 1000 + 777);
	for (size_t i = 0; i < 4; i++)
		free(p[i]);
	p[9] = realloc(p[9], 20777);
	KEEP(p[9]);
	struct memtrack_stats b = stats();
	say("allocs %d frees %d bytes %d freed %d\n", (int)(b.allocs - a.allocs),
	    (int)(b.frees - a.frees), (int)(b.bytes - a.bytes),
	    (int)(b.freed_bytes - a.freed_bytes));
	say("live %d, %d bytes; reallocs %d\n", (int)(b.live_count - a.live_count),
	    (int)(b.live_bytes - a.live_bytes), (int)(b.reallocs - a.reallocs));
	say("heap again %s\n",
	    memtrack_heap_register("one") == memtrack_heap_register("one") ? "same" : "other");
	int error = memtrack_snapshot(argv[1]);
	say("snapshot %d, again %s\n", error, memtrack_snapshot(argv[1]) ? "refused" : "written");
	free(p[5]);
	memtrack_disable();
	mark(30777);
	free(p[6]);
	memtrack_enable();
	mark(31777);
	say("process 4777x1 7777x1 8777x1 20777x1 31777x1\n");
	return 0;
}
