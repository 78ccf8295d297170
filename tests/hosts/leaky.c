/* SPDX-License-Identifier: MIT */
/*
 * Seeded leaks for real servers, in one library: a module of redis with a command that leaks, a
 * function that python calls, and an accept4 that leaks for each connection of nginx, when
 * preloaded. Each also fills a cache that ends.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { CACHE = 400 };

static void *volatile last;
static void *cache[CACHE];
static int cached;

static void __attribute__((noinline)) leak_here(void)
{
	last = malloc(333);
	memset(last, 1, 333);
}

static void __attribute__((noinline)) fill_cache(void)
{
	if (cached < CACHE)
		cache[cached++] = malloc(5000);
}

void leaky_step(void);
void leaky_step(void)
{
	leak_here();
	fill_cache();
	__asm__ volatile("" ::: "memory"); /* it stays on the stack of both */
}

/* ---- redis: its interface is handed over in the context, see redismodule.h ---- */

typedef int command(void *ctx, void **argv, int argc);
static int (*reply_with_number)(void *ctx, long long number);

static int on_command(void *ctx, void **argv, int argc)
{
	leaky_step();
	return reply_with_number(ctx, cached);
}

int RedisModule_OnLoad(void *ctx, void **argv, int argc);
int RedisModule_OnLoad(void *ctx, void **argv, int argc)
{
	int (*get_api)(const char *name, void *ret);
	void (*set_attributes)(void *ctx, const char *name, int version, int api);
	int (*create)(void *ctx, const char *name, command *run, const char *flags, int first,
		      int last_key, int step);

	memcpy(&get_api, ctx, sizeof(get_api));
	if (get_api("RedisModule_SetModuleAttribs", &set_attributes) ||
	    get_api("RedisModule_CreateCommand", &create) ||
	    get_api("RedisModule_ReplyWithLongLong", &reply_with_number))
		return 1;
	set_attributes(ctx, "leaky", 1, 1);
	return create(ctx, "leaky.step", on_command, "", 0, 0, 0);
}

/* ---- nginx ---- */

int accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
	static int (*real)(int fd, struct sockaddr *address, socklen_t *len, int flags);
	int got;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "accept4");
	got = real(fd, address, len, flags);
	if (got >= 0)
		leaky_step();
	return got;
}
