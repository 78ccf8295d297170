/* SPDX-License-Identifier: MIT */
#include "model/watch.h"

#include <stdlib.h>

void mt_watch_done(struct mt_watch *w)
{
	if (!w)
		return;
	free(w->thread);
	free(w->site);
	free(w->sampled);
	*w = (struct mt_watch){0};
}

bool mt_watch_is_same(const struct mt_watch *a, const struct mt_watch *b)
{
	return a->pid == b->pid && a->proc_start == b->proc_start &&
	       a->wall_start_ns == b->wall_start_ns;
}
