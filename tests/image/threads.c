/* SPDX-License-Identifier: MIT */
/* Threads that start threads and end, for ever: about eight at each moment. */

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *next(void *arg)
{
	pthread_attr_t detached;
	pthread_t t;

	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	usleep(200);
	while (pthread_create(&t, &detached, next, NULL))
		usleep(1000);
	return arg;
}

int main(void)
{
	for (int i = 0; i < 8; i++)
		next(NULL);
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
