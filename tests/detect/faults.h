/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_DETECT_FAULTS_H
#define MT_TESTS_DETECT_FAULTS_H

/*
 * Faulty programs, see run_detect.py. A fault is a function of a job: how large the block is, how
 * far off the access, and whether the fault is made at all: without it the same code is sound.
 * Nothing here allocates.
 */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct job {
	size_t size, far;
	int fault;
};

struct fault {
	const char *name;
	void (*run)(const struct job *job);
	struct job variant[3];
};

/* The compiler no longer knows where a pointer comes from. */
#define HIDE(p) __asm__ volatile("" : "+r"(p))

static volatile unsigned long seen; /* what was read is used */

/* The block that is damaged, and the first byte of it that is, for the judge. */
static inline void tell(size_t size, long at)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "size %zu\nat %ld\n", size, at);
	if (write(1, line, (size_t)n) != n)
		_exit(99);
}

/* Runs a function in a thread of its own to its end. */
static inline void in_thread(void *(*run)(void *), void *argument)
{
	pthread_t t;
	if (pthread_create(&t, NULL, run, argument) || pthread_join(t, NULL))
		_exit(98);
}

/* NAME VARIANT fault|sound: says "end" when it came to its end. 2: there is no such fault here. */
static inline int run_fault(int argc, char **argv, const struct fault *faults, size_t count)
{
	for (size_t i = 0; argc == 4 && i < count; i++)
		if (!strcmp(argv[1], faults[i].name)) {
			struct job job = faults[i].variant[argv[2][0] - 'a'];
			if (!job.size)
				return 2;
			job.fault = !strcmp(argv[3], "fault");
			faults[i].run(&job);
			if (write(1, "end\n", 4) != 4)
				return 97;
			return 0;
		}
	return 2;
}

#endif
