/* SPDX-License-Identifier: MIT */
#ifndef MEMTRACK_PROFILE_H
#define MEMTRACK_PROFILE_H

/*
 * memtrack_profile() without waiting: a detached thread of the program's own makes the profile and
 * calls back. The runtime itself makes no thread. For C and C++; see memtrack.h.
 *
 *     static void done(const struct memtrack_profile_result *result, void *arg)
 *     {
 *             if (result->error == MEMTRACK_PROFILE_NONE)
 *                     upload(result->path);
 *     }
 *     struct memtrack_profile_request request = {sizeof(request), MEMTRACK_PROFILE_SAMPLE,
 *                                                10000, 65536, "slow-start", "/var/tmp"};
 *     memtrack_profile_async(&request, done, NULL);
 */

#include <pthread.h>
#include <signal.h>

#include <memtrack.h>

typedef void (*memtrack_profile_callback)(const struct memtrack_profile_result *result, void *arg);

struct memtrack_profile_job {
	struct memtrack_profile_request request;
	memtrack_profile_callback callback;
	void *arg;
};

static inline void *memtrack_profile_thread(void *p)
{
	struct memtrack_profile_job *job = (struct memtrack_profile_job *)p;
	struct memtrack_profile_result result;
	memset(&result, 0, sizeof(result));
	result.struct_bytes = sizeof(result);
	(void)memtrack_profile(&job->request, &result);
	job->callback(&result, job->arg);
	(free)(job);
	return NULL;
}

/* The job with copies of its strings behind it, or NULL. */
static inline struct memtrack_profile_job *memtrack_profile_job(
	const struct memtrack_profile_request *request)
{
	size_t tag = request->tag ? strlen(request->tag) + 1 : 0;
	size_t directory = request->directory ? strlen(request->directory) + 1 : 0;
	struct memtrack_profile_job *job =
		(struct memtrack_profile_job *)(malloc)(sizeof(*job) + tag + directory);
	if (!job)
		return NULL;
	char *text = (char *)(job + 1);
	job->request = *request;
	if (tag)
		job->request.tag = (const char *)memcpy(text, request->tag, tag);
	if (directory)
		job->request.directory =
			(const char *)memcpy(text + tag, request->directory, directory);
	return job;
}

/*
 * Copies *request and returns; callback is called with the result and arg in a thread of its own,
 * with all signals blocked, whatever becomes of the request. 0, or a positive errno value and
 * callback is never called: EINVAL: request->struct_bytes is wrong; ENOMEM, EAGAIN: no memory, no
 * thread.
 */
__attribute__((unused)) static inline int memtrack_profile_async(
	const struct memtrack_profile_request *request, memtrack_profile_callback callback,
	void *arg)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;
	if (request->struct_bytes != sizeof(*request) || !callback)
		return 22; /* EINVAL */
	struct memtrack_profile_job *job = memtrack_profile_job(request);
	if (!job || pthread_attr_init(&attributes)) {
		(free)(job);
		return 12; /* ENOMEM */
	}
	job->callback = callback;
	job->arg = arg;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int err = pthread_create(&thread, &attributes, memtrack_profile_thread, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (err)
		(free)(job);
	return err;
}

#endif
