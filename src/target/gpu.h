/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_GPU_H
#define MT_TARGET_GPU_H

/*
 * Buffers of graphics devices that a process holds by its descriptors, as /proc/PID/fdinfo tells
 * them: memory of drm drivers by region, and dma-bufs. Not thread-safe.
 */

#include "base/cleanup.h"
#include "base/map.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { MT_GPU_ROWS_MAX = 64, MT_GPU_WORD_MAX = 32 };

/* Memory of one driver, device and region, of all clients (open devices). */
struct mt_gpu_row {
	char driver[MT_GPU_WORD_MAX], device[MT_GPU_WORD_MAX], region[MT_GPU_WORD_MAX];
	uint64_t bytes; /* resident; of drivers that do not tell that: all */
};

struct mt_gpu {
	struct mt_gpu_row row[MT_GPU_ROWS_MAX];
	size_t count;
	uint64_t dmabufs, dmabuf_bytes;
	bool is_cut;            /* more rows than there is room for */
	struct mt_strings seen; /* clients and buffers: several descriptors may be of one */
};

void mt_gpu_done(struct mt_gpu *g);
MT_AUTO_DEFINE_INPLACE(mt_gpu, struct mt_gpu, mt_gpu_done)

/* Adds what a text of fdinfo tells; most tell nothing. 0 or -ENOMEM. */
int mt_gpu_add(struct mt_gpu *g, const char *text);

/* All descriptors of a process. 0; -EACCES: they may not be looked at; -ENOMEM. */
int mt_gpu_read(pid_t pid, struct mt_gpu *g);

#endif
