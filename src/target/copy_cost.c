/* SPDX-License-Identifier: MIT */
/* The measurement is what the process itself goes through: a child shares pages that are written
 * to. */

#include "target/copy_cost.h"

#include "core/cc.h"
#include "core/sys.h"
#include "target/smaps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, PAGES = 256 /* one half for each kind */ };

/* The mean time of the first write to each of some pages. */
static uint64_t time_writes(volatile uint8_t *pages, size_t count)
{
	uint64_t start = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);

	for (size_t i = 0; i < count; i++)
		pages[i * PAGE_BYTES] = 2;
	return (mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - start) / count;
}

static void measure(uint8_t *pages, struct mt_copy_cost *cost)
{
	int hold[2], status;
	pid_t child;
	char c;

	if (pipe(hold))
		return;
	child = fork();
	if (!child) {
		close(hold[1]);
		while (read(hold[0], &c, 1) < 0 && errno == EINTR)
			continue;
		_exit(0);
	}
	close(hold[0]);
	if (child > 0)
		cost->copied_ns = time_writes(pages, PAGES / 2);
	close(hold[1]); /* lets it end */
	if (child < 0)
		return;
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	cost->kept_ns = time_writes(pages + PAGES / 2 * PAGE_BYTES, PAGES / 2);
}

void mt_copy_cost_measure(struct mt_copy_cost *cost)
{
	const size_t bytes = (size_t)PAGES * PAGE_BYTES;
	uint8_t *pages =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return;
	madvise(pages, bytes, MADV_NOHUGEPAGE); /* most heaps are of small pages */
	memset(pages, 1, bytes);
	measure(pages, cost);
	munmap(pages, bytes);
}

/*
 * What the copy shares with nobody was written to by the process, or given back by it: the faults
 * that it had say how much was written to at most. Mapping by mapping, as pages of shared memory
 * that only the copy has looked at are its own, too, and none of them was copied.
 */
void mt_copy_cost_count(struct mt_copy_cost *cost, const struct mt_image_facts *facts)
{
	mt_auto(mt_smaps) struct mt_smaps s = {0};
	uint64_t anonymous = 0, own = 0;

	if (facts->source != MT_IMAGE_COPY || mt_smaps_read(facts->copy, MT_SMAPS_FULL, &s, NULL))
		return;
	for (size_t i = 0; i < s.count; i++) {
		const uint64_t *bytes = s.mapping[i].sum.bytes;

		anonymous += bytes[MT_SMAPS_ANONYMOUS];
		own += MT_MIN(bytes[MT_SMAPS_PRIVATE_DIRTY], bytes[MT_SMAPS_ANONYMOUS]);
	}
	cost->copied_bytes = MT_MIN(own, facts->faults_since * facts->page_bytes);
	cost->kept_bytes = anonymous - own;
	cost->is_known = true;
}
