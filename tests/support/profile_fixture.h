/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_PROFILE_FIXTURE_H
#define MT_TESTS_PROFILE_FIXTURE_H

/*
 * A profile made in memory, for tests of analysis and report. A program of 10 s with two threads:
 *
 *	site 1  main -> load -> (memtrack)   malloc   4 blocks of 1 MiB, one a quarter     thread 1
 *	site 2  main -> parse                calloc   3 allocations of 100, 1 live         thread 1
 *	site 3  worker -> parse              malloc   10 blocks of 500, born at 9 s        thread 2
 *	site 4  main -> map                  mmap     1 mapping of 64 KiB                  thread 1
 *	site 5  main -> parse, label "boot"  calloc   2 allocations of 50, none live       thread 1
 *
 * Function names are those above, given by fixture_names. Aborts without memory.
 */

#include "analysis/names.h"
#include "model/profile.h"

enum { UNIT_NS = 1000000 }; /* of its clock */

struct fixture_options {
	uint64_t slide;       /* added to every address: another run under address randomization */
	uint32_t pid;         /* 0: 100 */
	const char *program;  /* path; NULL: /opt/app/server */
	uint8_t build_id;     /* first byte of the program's build-id; 0: none */
	uint64_t extra_bytes; /* added to the size of site 3's blocks */
};

struct mt_profile *fixture_profile(const struct fixture_options *o);

/* Node of site 1 to 5 in every fixture profile. */
uint32_t fixture_node(const struct mt_profile *p, uint32_t site);

extern const struct mt_names fixture_names;

#endif
