/* SPDX-License-Identifier: MIT */
/*
 * A small order service with three leaks, for `./x demo`. It reads orders, keeps the latest ones in
 * a cache and prints totals; it works, and it grows:
 *   1. cache_put() overwrites a slot and forgets the order there, with its name  (two call sites)
 *   2. order_parse() returns early for a malformed line and forgets its buffer
 *   3. settings_load() never gives back the name it copied                     (once, harmless)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_SLOTS = 64, ORDERS = 5000, NOTE_BYTES = 200 };

struct order {
	int number;
	int cents;
	char *customer;
	char note[NOTE_BYTES];
};

static struct order *cache[CACHE_SLOTS];
static char *service_name;

static void *must(void *memory)
{
	if (!memory) {
		perror("leaky");
		exit(1);
	}
	return memory;
}

static char *copy_text(const char *text)
{
	size_t size_bytes = strlen(text) + 1;

	return memcpy(must(malloc(size_bytes)), text, size_bytes);
}

static void settings_load(void)
{
	service_name = copy_text("orders, default settings");
	service_name = copy_text("orders"); /* leak 3: the default name is lost */
}

static void order_free(struct order *o)
{
	if (!o)
		return;
	free(o->customer);
	free(o);
}

static struct order *order_parse(const char *line)
{
	char *fields = copy_text(line);
	char *customer = strchr(fields, ';');
	struct order *o;

	if (!customer)
		return NULL; /* leak 2: fields */
	*customer++ = '\0';
	o = must(calloc(1, sizeof(*o)));
	o->number = atoi(fields);
	o->cents = o->number % 97 * 10;
	o->customer = copy_text(customer);
	free(fields);
	return o;
}

static void cache_put(struct order *o)
{
	cache[o->number % CACHE_SLOTS] = o; /* leak 1: the order that was here */
}

static int handle_line(const char *line)
{
	struct order *o = order_parse(line);
	int cents;

	if (!o)
		return 0;
	cents = o->cents;
	cache_put(o);
	return cents;
}

static long serve(void)
{
	long total_cents = 0;
	char line[80];

	for (int i = 0; i < ORDERS; i++) {
		if (i % 25 == 24)
			snprintf(line, sizeof(line), "%d malformed order without a customer", i);
		else
			snprintf(line, sizeof(line), "%d;customer-%d", i, i % 300);
		total_cents += handle_line(line);
	}
	return total_cents;
}

int main(void)
{
	long total_cents;

	settings_load();
	total_cents = serve();
	printf("%s: %ld.%02ld taken\n", service_name, total_cents / 100, total_cents % 100);
	for (int i = 0; i < CACHE_SLOTS; i++)
		order_free(cache[i]);
	free(service_name);
	return 0;
}
