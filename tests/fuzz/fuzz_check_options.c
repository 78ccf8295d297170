/* SPDX-License-Identifier: MIT */
/* Check mode's options: any text is read or refused, and what was read keeps to its bounds. */
#include "wire/check_options.h"
#include "wire/check_sites.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void count(void *context, const char *line)
{
	if (strlen(line) >= 1024)
		abort();
	++*(unsigned *)context;
}

/* An option's list is empty or one that the runtime reads to its end. */
static int are_sound(const char sites[MT_CHECK_SITES_MAX])
{
	const char *end = memchr(sites, 0, MT_CHECK_SITES_MAX);
	struct mt_check_site s;
	while (end && sites < end)
		if (!mt_check_site_next(&sites, end, &s) || (s.module && !s.module_len))
			return 0;
	return end != NULL;
}

static int is_sound(const struct mt_check_options *o)
{
	return o->frames >= 1 && o->frames <= 256 && o->free_frames <= 256 &&
	       o->front_guard % 16 == 0 && o->front_guard <= 16384 && o->rear_guard <= 16384 &&
	       !(o->flags & MT_CHECK_FRONT_GUARD) == !o->front_guard &&
	       !(o->flags & MT_CHECK_REAR_GUARD) == !o->rear_guard && o->expand <= 16384 &&
	       o->free_track <= 16384 && o->record_entries <= 50000000 &&
	       !(o->flags & MT_CHECK_FREE_TRACK) == !o->free_track &&
	       !(o->flags & MT_CHECK_RECORD_ALLOCS) == !o->record_entries &&
	       memchr(o->record_file, 0, sizeof(o->record_file)) &&
	       memchr(o->dump_prefix, 0, sizeof(o->dump_prefix)) &&
	       memchr(o->only_modules, 0, sizeof(o->only_modules)) && are_sound(o->only_sites) &&
	       are_sound(o->guard_page_sites) && o->guard_page;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	unsigned lines = 0;
	const struct mt_check_listener to = {"program", "too large", count, &lines};
	struct mt_check_options o;
	char *text = malloc(size_bytes + 1);
	if (!text)
		abort();
	memcpy(text, data, size_bytes);
	text[size_bytes] = 0;
	int err = mt_check_options_read(text, &to, &o);
	if (err ? lines != 3 : lines || !is_sound(&o))
		abort();
	free(text);
	return 0;
}
