/* SPDX-License-Identifier: MIT */
/* Any bytes as a series of snapshots; hashes are made right, so that what is behind is reached. */
#include <stdlib.h>
#include <string.h>

#include "core/hash.h"
#include "formats/mts_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void repair_hashes(uint8_t *data, size_t len)
{
	for (size_t at = MT_MTS_HEADER_BYTES; len - at >= MT_MTS_FRAME_FIXED;) {
		struct mt_mts_frame f;
		memcpy(&f, data + at, sizeof(f));
		if (f.frame_bytes < sizeof(f) || f.frame_bytes > len - at)
			return;
		f.hash = mt_hash_bytes(data + at + 16, f.frame_bytes - 16, 0);
		memcpy(data + at, &f, sizeof(f));
		at += f.frame_bytes;
	}
}

/* Growth of sums that may be anything: an interval all the same. */
static void look_at_samples(const struct mt_series *s)
{
	const struct mt_sampling how = {.kind = MT_SAMPLING_POISSON, .interval_bytes = 4096};
	for (uint32_t i = 0; s->first_sampled && i < MT_MIN(s->site_count, 1000u); i++) {
		struct mt_flow first = mt_series_flow(&s->first[i], &s->first_sampled[i], &how);
		struct mt_flow last = mt_series_flow(&s->last[i], &s->last_sampled[i], &how);
		struct mt_estimate came, went;
		struct mt_interval bytes;
		mt_flow_between(&first, &last, &came, &went);
		bytes = mt_estimate_growth_bytes(&came, &went);
		if (!(came.bytes_variance >= 0) || !(went.count_variance >= 0) ||
		    !(bytes.low <= bytes.high))
			abort();
	}
}

static void look(const struct mt_series *s)
{
	uint64_t sum = 0;
	if (!s->point_count || !s->site_count || s->column[s->column_count - 1] >= s->point_count)
		abort();
	for (uint32_t i = 1; i < s->point_count; i++)
		if (s->point[i].number <= s->point[i - 1].number ||
		    s->point[i].time_ns < s->point[i - 1].time_ns)
			abort();
	for (uint32_t i = 0; i < MT_MIN(s->site_count, 1000u); i++)
		for (uint32_t c = 0; c < s->column_count; c++)
			sum += s->bytes[(size_t)i * s->column_count + c] + s->first[i].bytes +
			       s->last[i].count;
	if (sum == 0x1234567)
		abort(); /* so that it is looked at */
	look_at_samples(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	uint8_t *copy = malloc(size_bytes + 1);
	struct mt_series *s = NULL;
	struct mt_err err = {0};
	if (!copy)
		abort();
	memcpy(copy, data, size_bytes);
	if (size_bytes > MT_MTS_HEADER_BYTES)
		repair_hashes(copy, size_bytes);
	if (!mt_mts_load_memory(copy, size_bytes, "fuzz", 16, &s, NULL, &err))
		look(s);
	else if (!err.code || !err.text[0])
		abort();
	mt_series_free(s);
	free(copy);
	return 0;
}
