/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_MEMINFO_H
#define MT_REPORT_MEMINFO_H

/*
 * Memory by category, of a list of processes, of the machine and of a control group, as text, JSON
 * and CSV (docs/meminfo.md). Nothing here prints.
 */

#include "report/maps.h"
#include "target/gpu.h"
#include "target/machine.h"
#include "target/status.h"

#define MT_MEMINFO_SCHEMA "memtrack-meminfo-1"

/* One process, or a saved text of one. Everything borrowed. */
struct mt_meminfo_view {
	pid_t pid; /* 0: a file */
	const char *name;
	const struct mt_account *a;       /* by category; NULL: there are sums only */
	const struct mt_account_app *app; /* with `a` */
	const struct mt_smaps_sum *total;
	/* the same at an earlier moment, with which `a` was compared; NULL: there is none */
	const char *old_name;
	const struct mt_account_app *old_app; /* with `a` and `old_name` */
	const struct mt_smaps_sum *old_total;
	const struct mt_status *status; /* NULL: not known, as the next one */
	const struct mt_gpu *gpu;
	const char *const *warning;
	size_t warnings;
};

/* 0 or -ENOMEM, as all below. */
int mt_meminfo_process(const struct mt_meminfo_view *v, enum mt_maps_format format,
		       struct mt_buf *out);

/* A table of processes, in the order given; machine NULL: no line of it. */
int mt_meminfo_list(const struct mt_usage *usage, size_t count, const struct mt_whole *machine,
		    size_t top, enum mt_maps_format format, struct mt_buf *out);

int mt_meminfo_machine(const struct mt_whole *w, const char *name, enum mt_maps_format format,
		       struct mt_buf *out);

/* The group and its processes. */
int mt_meminfo_cgroup(const struct mt_cgroup *g, const struct mt_usage *usage, size_t count,
		      size_t top, enum mt_maps_format format, struct mt_buf *out);

/* Characters for a level of 0 to 7. */
const char *mt_meminfo_spark(unsigned level, bool is_utf8);

/* ---- private to report ---- */

void mt_meminfo_add_list(const struct mt_usage *usage, size_t count, size_t top,
			 struct mt_buf *out);
void mt_meminfo_json_list(const struct mt_usage *usage, size_t count, size_t top,
			  struct mt_json *j);

#endif
