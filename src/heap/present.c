/* SPDX-License-Identifier: MIT */
#include "heap/present.h"

void mt_present_open(struct mt_present *p, const struct mt_image_facts *facts)
{
	pid_t pid = facts->source == MT_IMAGE_CORE ? 0 : facts->pid;

	mt_pagemap_open(&p->map, pid, facts->page_bytes, MT_PAGEMAP_BEST);
}

void mt_present_close(struct mt_present *p)
{
	if (p)
		mt_pagemap_close(&p->map);
}

uint64_t mt_present_next(struct mt_present *p, uint64_t address, uint64_t end)
{
	return mt_pagemap_next(&p->map, address, end);
}
