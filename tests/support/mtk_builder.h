/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_MTK_BUILDER_H
#define MT_TESTS_MTK_BUILDER_H

/*
 * Makes state files for tests: tables by hand, or events from which all counters follow as the
 * tracker would write them. Aborts when memory runs out. The object is deterministic: no clock, no
 * process.
 */

#include "base/cleanup.h"
#include "core/cc.h"
#include "wire/state.h"

struct mtk_builder;

/* An ended, calibrated x86-64 process (pid 4242, 1 unit = 1 ms) with one thread, number 1. */
struct mtk_builder *mtk_builder_new(void);
void mtk_builder_free(struct mtk_builder *b);
MT_AUTO_DEFINE(mtk_builder, struct mtk_builder *, mtk_builder_free)

/* The header; may be changed until the file is made. Its region table is filled in then. */
struct mt_state_header *mtk_builder_header(struct mtk_builder *b);

/*
 * Appends an element (of the kind's size) and returns its number. The tables of statistics, samples
 * and changes begin empty: their first element is number 0.
 */
uint32_t mtk_builder_add(struct mtk_builder *b, uint32_t kind, const void *elem);
/* An element made before; valid until the next one of its kind is added. */
void *mtk_builder_at(struct mtk_builder *b, uint32_t kind, uint32_t number);
uint32_t mtk_builder_count(struct mtk_builder *b, uint32_t kind);

uint32_t mtk_builder_string(struct mtk_builder *b, const char *text);
uint32_t mtk_builder_module(struct mtk_builder *b, uint64_t lo, uint64_t hi, const char *path);
uint32_t mtk_builder_thread(struct mtk_builder *b, uint32_t tid, const char *name);
/* A frame below `parent` (1: complete stack); kind 0, no flags. */
uint32_t mtk_builder_node(struct mtk_builder *b, uint64_t pc, uint32_t parent, uint32_t module);
uint32_t mtk_builder_site(struct mtk_builder *b, uint32_t node, uint8_t call);

/* A way of sampling (enum mt_state_regime_kind); its number is for mt_state_site.regime. */
uint32_t mtk_builder_regime(struct mtk_builder *b, uint32_t kind, uint64_t interval_bytes,
			    uint32_t every);
void mtk_builder_change(struct mtk_builder *b, uint32_t what, uint64_t before, uint64_t after);

/*
 * A block that only the statistics count. 1 MiB and more: it stands in the list of big ones until
 * it is freed.
 */
void mtk_builder_count_alloc(struct mtk_builder *b, uint32_t thread, uint64_t address,
			     uint64_t usable);
void mtk_builder_count_free(struct mtk_builder *b, uint32_t thread, uint64_t address,
			    uint64_t usable);

/*
 * Events, with every counter kept. The time is header.now_unit. At a site with a regime it is a
 * sample, which the statistics count as well, with its size rounded up to 16.
 */
void mtk_builder_alloc(struct mtk_builder *b, uint32_t thread, uint32_t site, uint64_t address,
		       uint64_t size);
void mtk_builder_dealloc(struct mtk_builder *b, uint32_t thread, uint64_t address);

/*
 * From now on live bytes are published as the tracker does with several threads: when at least
 * `step` bytes were held back. 0 (the beginning): each change.
 */
void mtk_builder_publish_in_steps(struct mtk_builder *b, int64_t step);

/* Room for requests, as every state of a process that runs has it. */
void mtk_builder_make_controllable(struct mtk_builder *b);

/* The file's bytes, packed; the caller frees them with free(). */
uint8_t *mtk_builder_bytes(struct mtk_builder *b, size_t *ret_len);
/* The file as it is while its process runs: regions of `capacity` elements, sparse. 0 or -1. */
int mtk_builder_write_sparse(struct mtk_builder *b, const char *path, uint64_t capacity);

/* The sample that several tests use: two threads, four sites, histograms, a large block, a leak. */
struct mtk_builder *mtk_builder_sample(void);

/*
 * Two threads of which some blocks were sampled, at intervals of 4 KiB and, after a guard rail
 * acted, 8 KiB; one site was recorded in full before.
 */
struct mtk_builder *mtk_builder_sampled(void);

/* Two threads that were only counted; big blocks, reallocs, a change of the mode. */
struct mtk_builder *mtk_builder_counted(void);

/* As mtk_builder_sampled(), with a pool of guarded blocks and two errors found there: a write
 * behind 32 bytes, and a second free by the other thread. */
struct mtk_builder *mtk_builder_guarded(void);

/*
 * As mtk_builder_sample(), in check mode, with five errors: two writes of "hello" behind 24 bytes,
 * an address written into freed memory, new[] given to free, a header overwritten with text.
 */
struct mtk_builder *mtk_builder_checked(void);

/* The smallest file with something in it: the worked example of docs/formats/mtk.md. */
struct mtk_builder *mtk_builder_example(void);

#endif
