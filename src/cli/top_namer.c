/* SPDX-License-Identifier: MIT */
/* One question and one answer at a time; both belong to whoever holds the lock. */

#include "cli/top_namer.h"

#include "base/alloc.h"
#include "core/cc.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { SITES_MAX = 400 };

struct mt_top_namer {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t asked;
	int fd;
	bool no_symbols;
	/* guarded by lock */
	bool ends;
	char *path; /* owned; of the question; NULL: none */
	uint32_t site[SITES_MAX], count;
	char *answer_path; /* owned; NULL: nothing to take */
	struct mt_site_names quick, full;
	/* the thread's own; stop is set by others */
	volatile int stop;
	char *busy_path; /* owned; guarded by lock */
};

/* Puts what was found where the asker takes it. */
static void give(struct mt_top_namer *n, struct mt_site_names *found, struct mt_site_names *to)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&n->lock);
	if (!n->stop) {
		mt_site_names_done(to);
		*to = *found;
		*found = (struct mt_site_names){0};
		free(n->answer_path);
		n->answer_path = strdup(n->busy_path);
		(void)!write(n->fd, &one, sizeof(one));
	}
	pthread_mutex_unlock(&n->lock);
	mt_site_names_done(found);
}

static void find(struct mt_top_namer *n, const uint32_t *site, uint32_t count)
{
	struct mt_site_naming how = {
		.site = site, .count = count, .no_symbols = true, .stop = &n->stop};
	struct mt_site_names found = {0};

	if (!mt_site_names_add(&found, n->busy_path, &how))
		give(n, &found, &n->quick);
	mt_site_names_done(&found);
	how.no_symbols = false;
	if (!n->no_symbols && !mt_site_names_add(&found, n->busy_path, &how))
		give(n, &found, &n->full);
	mt_site_names_done(&found);
}

static void *work(void *context)
{
	struct mt_top_namer *n = context;
	uint32_t site[SITES_MAX], count;

	pthread_mutex_lock(&n->lock);
	while (!n->ends) {
		if (!n->path) {
			pthread_cond_wait(&n->asked, &n->lock);
			continue;
		}
		n->busy_path = n->path;
		n->path = NULL;
		count = n->count;
		memcpy(site, n->site, count * sizeof(*site));
		n->stop = 0;
		pthread_mutex_unlock(&n->lock);
		find(n, site, count);
		pthread_mutex_lock(&n->lock);
		free(n->busy_path);
		n->busy_path = NULL;
	}
	pthread_mutex_unlock(&n->lock);
	return NULL;
}

struct mt_top_namer *mt_top_namer_new(bool no_symbols)
{
	struct mt_top_namer *n = mt_alloc_zero(1, sizeof(*n));

	if (!n)
		return NULL;
	n->no_symbols = no_symbols;
	n->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->asked, NULL);
	if (n->fd >= 0 && !pthread_create(&n->thread, NULL, work, n))
		return n;
	if (n->fd >= 0)
		close(n->fd);
	free(n);
	return NULL;
}

void mt_top_namer_free(struct mt_top_namer *n)
{
	if (!n)
		return;
	pthread_mutex_lock(&n->lock);
	n->ends = true;
	n->stop = 1;
	pthread_cond_signal(&n->asked);
	pthread_mutex_unlock(&n->lock);
	pthread_join(n->thread, NULL);
	free(n->path);
	free(n->answer_path);
	mt_site_names_done(&n->quick);
	mt_site_names_done(&n->full);
	pthread_cond_destroy(&n->asked);
	pthread_mutex_destroy(&n->lock);
	close(n->fd);
	free(n);
}

void mt_top_namer_ask(struct mt_top_namer *n, const char *path, const uint32_t *site,
		      uint32_t count)
{
	pthread_mutex_lock(&n->lock);
	if (n->busy_path && !strcmp(n->busy_path, path)) {
		pthread_mutex_unlock(&n->lock);
		return;
	}
	if (n->busy_path)
		n->stop = 1;
	free(n->path);
	n->path = strdup(path);
	n->count = MT_MIN(count, (uint32_t)SITES_MAX);
	memcpy(n->site, site, n->count * sizeof(*site));
	pthread_cond_signal(&n->asked);
	pthread_mutex_unlock(&n->lock);
}

/* Moves names over; those of the same site are replaced. */
static void merge(struct mt_site_names *to, struct mt_site_names *from)
{
	for (size_t i = 0; i < from->count; i++)
		(void)!mt_site_names_put(to, &from->item[i]);
	mt_site_names_done(from);
}

bool mt_top_namer_take(struct mt_top_namer *n, const char *path, struct mt_site_names *quick,
		       struct mt_site_names *full)
{
	uint64_t count;
	bool is_ours;

	(void)!read(n->fd, &count, sizeof(count));
	pthread_mutex_lock(&n->lock);
	is_ours = path && n->answer_path && !strcmp(n->answer_path, path);
	if (is_ours) {
		merge(quick, &n->quick);
		merge(full, &n->full);
	} else {
		mt_site_names_done(&n->quick);
		mt_site_names_done(&n->full);
	}
	free(n->answer_path);
	n->answer_path = NULL;
	pthread_mutex_unlock(&n->lock);
	return is_ours;
}

int mt_top_namer_fd(const struct mt_top_namer *n)
{
	return n->fd;
}
