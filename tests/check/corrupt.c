/* SPDX-License-Identifier: MIT */
/*
 * Damages its own heap, again and again: corrupt ROUNDS SEED FRONT REAR KEPT HEADER, as the options
 * say how large the guards are, how many freed blocks are kept and whether blocks have a header. Of
 * each round standard output tells what was done, before it is done:
 *
 *   NUMBER KIND CALL POINTER SIZE TAG INDEX=BYTE...
 *
 * and a mark in the log where it begins. TAG is the four bytes of the header's tag as they are
 * then.
 */
#define _GNU_SOURCE
#include <malloc.h>

#include "random.h"
#include "say.h"

enum { HEADER = 32, DAMAGES = 4 };
enum kind { SOUND, REAR, FRONT, BOTH, TAG, HEAD, FREED, FREED_TAG, FREED_EDGE, KINDS };

static const char *const kind_name[] = {"sound", "rear",  "front",     "both",      "tag",
					"head",  "freed", "freed_tag", "freed_edge"};
static const char *const call_name[] = {"free", "realloc", "realloc_0", "malloc_usable_size"};

struct damage {
	long index;
	unsigned char byte;
};

static uint64_t state;
static long front, rear, kept, header;

static int is_possible(enum kind kind)
{
	switch (kind) {
	case REAR:
		return rear > 0;
	case FRONT:
		return front > 0;
	case BOTH:
		return rear > 0 && front > 0;
	case TAG:
	case HEAD:
		return header != 0;
	case FREED:
		return kept > 0;
	case FREED_TAG:
	case FREED_EDGE:
		return header && kept;
	default:
		return 1;
	}
}

/* Ends the block's life, or asks for its size. */
__attribute__((noinline)) static void let_go(unsigned char *p, int call, size_t size)
{
	switch (call) {
	case 1:
		free(realloc(p, size * 2 + 100));
		break;
	case 2:
		realloc(p, 0);
		break;
	case 3:
		malloc_usable_size(p);
		break;
	default:
		free(p);
	}
}

static unsigned char *make(size_t size)
{
	unsigned char *p;
	switch (below(&state, 4)) {
	case 0:
		p = calloc(1, size);
		break;
	case 1:
		p = memalign((size_t)16 << below(&state, 9), size);
		break;
	case 2:
		p = realloc(malloc(size / 2 + 1), size);
		break;
	default:
		p = malloc(size);
	}
	memset(p, 0x11, size);
	return p;
}

/* What lies at an index of a block that was made, or freed, as it should. */
static int pattern_at(enum kind kind, long index, long size)
{
	static const unsigned char live[] = {0x0d, 0xd0, 0xe7, 0x1e},
				   freed[] = {0xcd, 0xdc, 0xc7, 0x1c};
	long in_header = index + front + HEADER;
	if (kind == TAG || kind == FREED_TAG)
		return (kind == TAG ? live : freed)[in_header];
	return kind == FREED ? 0xef : index < 0 ? 0xaa : index >= size ? 0xbb : 0;
}

/* Distinct indexes between from and to (without), with bytes that are not the pattern. */
static int choose(struct damage *damage, int at, enum kind kind, long size, long from, long to)
{
	int count = 1 + (int)below(&state, DAMAGES / 2);
	for (int i = 0; i < count; i++) {
		long index = from + (long)below(&state, (uint32_t)(to - from));
		int taken = 0;
		for (int k = 0; k < at; k++)
			taken |= damage[k].index == index;
		if (taken)
			continue;
		damage[at].index = index;
		damage[at++].byte = (unsigned char)(pattern_at(kind, index, size) + 1 +
						    (int)below(&state, 255));
	}
	return at;
}

/* What is to be damaged in a round. */
static int plan(enum kind kind, struct damage *damage, size_t size)
{
	long n = (long)size, tag = -front - HEADER;
	int count = 0;
	if (kind == FRONT || kind == BOTH)
		count = choose(damage, count, kind, n, -front, 0);
	if (kind == REAR || kind == BOTH)
		count = choose(damage, count, kind, n, n, n + rear);
	if (kind == TAG || kind == FREED_TAG)
		count = choose(damage, count, kind, n, tag, tag + 4);
	if (kind == HEAD)
		count = choose(damage, count, kind, n, tag + 4, tag + 28);
	if (kind == FREED)
		count = choose(damage, count, kind, n, 0, n);
	if (kind == FREED_EDGE) /* of the header, or of the guards */
		count = choose(damage, count, kind, n, tag + 4, 0);
	return count;
}

static void inflict(unsigned char *p, const struct damage *damage, int count)
{
	for (int i = 0; i < count; i++)
		p[damage[i].index] = damage[i].byte;
}

static void report(long number, enum kind kind, int call, const unsigned char *p, size_t size,
		   const struct damage *damage, int count)
{
	char line[256];
	uint32_t tag = kind >= FREED ? 0x1cc7dccd : 0x1ee7d00d;
	int n = 0;
	for (int i = 0; i < count; i++) { /* what the tag will be */
		long at = damage[i].index + front + HEADER;
		if (at >= 0 && at < 4)
			memcpy((unsigned char *)&tag + at, &damage[i].byte, 1);
	}
	n = snprintf(line, sizeof(line), "%ld %s %s 0x%lx %zu %x", number, kind_name[kind],
		     call_name[call], (unsigned long)(uintptr_t)p, size, tag);
	for (int i = 0; i < count; i++)
		n += snprintf(line + n, sizeof(line) - (size_t)n, " %ld=%d", damage[i].index,
			      damage[i].byte);
	line[n++] = '\n';
	if (write(1, line, (size_t)n) != n)
		_exit(99);
}

/* Everything that is kept now is checked and given back. */
static void flush(void)
{
	for (long i = 0; i <= kept; i++)
		free(malloc(24));
}

static void one_round(long number)
{
	struct damage damage[2 * DAMAGES];
	enum kind kind;
	char name[32];
	size_t size = 1 + below(&state, below(&state, 4) ? 300 : 5000);
	unsigned char *p = make(size);
	do
		kind = (enum kind)below(&state, KINDS);
	while (!is_possible(kind));
	int call = (int)below(&state, kind == TAG ? 4 : kind >= FREED ? 1 : 3);
	int count = plan(kind, damage, size);

	snprintf(name, sizeof(name), "%ld", number);
	mark(name);
	report(number, kind, call, p, size, damage, count);
	if (kind >= FREED) {
		let_go(p, call, size);
		inflict(p, damage, count);
		flush();
		return;
	}
	unsigned char tag[4];
	memcpy(tag, header ? p - front - HEADER : p, 4);
	inflict(p, damage, count);
	let_go(p, call, size);
	if (kind == TAG) { /* nothing was done to the block */
		memcpy(p - front - HEADER, tag, 4);
		free(p);
	}
}

int main(int argc, char **argv)
{
	if (argc != 7)
		return 2;
	state = strtoull(argv[2], NULL, 10);
	front = atol(argv[3]);
	rear = atol(argv[4]);
	kept = atol(argv[5]);
	header = atol(argv[6]);
	for (long i = 1; i <= atol(argv[1]); i++)
		one_round(i);
	flush();
	mark("end");
	return 0;
}
