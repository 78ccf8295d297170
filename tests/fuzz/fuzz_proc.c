/* SPDX-License-Identifier: MIT */
/* Any bytes as texts of meminfo, status, limits, cgroup, mountinfo, fdinfo, a thread's syscall. */
#include "report/meminfo.h"
#include "target/descriptors.h"
#include "target/gpu.h"
#include "target/machine.h"
#include "target/status.h"
#include "target/vma_kind.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void must(int holds)
{
	if (!holds)
		abort();
}

static void machine(const char *text)
{
	struct mt_whole w;
	struct mt_err err = {0};
	uint64_t sum;

	if (mt_machine_parse(text, "x", &w, &err)) {
		must(err.code && err.text[0]);
		return;
	}
	sum = (uint64_t)w.rest_bytes;
	for (size_t i = 0; i < w.parts; i++)
		sum += w.part[i].bytes;
	must(sum == w.bytes);
	for (int format = MT_MAPS_TEXT; format <= MT_MAPS_CSV; format++) {
		struct mt_buf out = {0};

		must(!mt_meminfo_machine(&w, "x", (enum mt_maps_format)format, &out));
		mt_buf_done(&out);
	}
}

static void triage(const char *text)
{
	struct mt_map mounts = {0};
	char path[64];

	if (mt_cgroup_parse_path(text, path, sizeof(path)))
		must(path[0] == '/' && strlen(path) < sizeof(path));
	must(!mt_descriptors_tmpfs(text, &mounts));
	(void)!mt_map_get(&mounts, mt_descriptors_mount(text), NULL);
	(void)mt_limits_parse(text, "Max open files");
	mt_map_done(&mounts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	char *text = malloc(size_bytes + 1);
	struct mt_gpu g = {.count = 0};
	struct mt_status st;
	struct mt_smaps_sum sum;
	uint64_t sp;

	must(text != NULL);
	memcpy(text, data, size_bytes);
	text[size_bytes] = 0;
	machine(text);
	triage(text);
	mt_status_parse(text, &st);
	mt_usage_of_status(&st, &sum);
	(void)!mt_vma_parse_syscall(text, &sp);
	must(!mt_gpu_add(&g, text) && !mt_gpu_add(&g, text));
	must(g.count <= MT_GPU_ROWS_MAX);
	mt_gpu_done(&g);
	free(text);
	return 0;
}
