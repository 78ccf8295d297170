/* SPDX-License-Identifier: MIT */
/*
 * usage: sqlite_run SCRIPT - runs an SQL script in a database in memory, as a program with SQLite
 * inside does. Prints the number of rows and a checksum of them.
 *
 * SQLite serves small short-lived blocks from slots of its own ("lookaside"); some builds of the
 * library, Debian's among them, leave that out and call malloc seventeen times as often. Here freed
 * blocks of two sizes are used again instead, so that every build calls malloc about as often as
 * one with slots.
 */
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In front of each block. */
union head {
	size_t bytes;     /* of the block behind it, while that is in use */
	union head *next; /* while it is kept */
	max_align_t align;
};

struct kept {
	size_t bytes; /* of each block; smaller ones are made as large */
	unsigned count, most;
	union head *first;
};

static struct kept kept[] = {{.bytes = 128, .most = 93}, {.bytes = 1000, .most = 30}};
enum { SIZES = sizeof(kept) / sizeof(kept[0]) };

struct rows {
	unsigned long count, sum;
};

/* Where blocks of this size are kept, or NULL. */
static struct kept *kept_of(size_t bytes)
{
	for (int i = 0; i < SIZES; i++)
		if (bytes <= kept[i].bytes)
			return &kept[i];
	return NULL;
}

static void *memory_malloc(int bytes)
{
	struct kept *k = kept_of((size_t)bytes);
	size_t size = k ? k->bytes : (size_t)bytes;
	union head *h = k ? k->first : NULL;

	if (h) {
		k->first = h->next;
		k->count--;
	} else {
		h = malloc(sizeof(*h) + size);
	}
	if (!h)
		return NULL;
	h->bytes = size;
	return h + 1;
}

static void memory_free(void *block)
{
	union head *h = block ? (union head *)block - 1 : NULL;
	struct kept *k = h ? kept_of(h->bytes) : NULL;

	if (!k || k->count == k->most) {
		free(h);
		return;
	}
	h->next = k->first;
	k->first = h;
	k->count++;
}

static int memory_size(void *block)
{
	return block ? (int)((union head *)block - 1)->bytes : 0;
}

static void *memory_realloc(void *block, int bytes)
{
	int have = memory_size(block);
	void *bigger;

	if (bytes <= have && kept_of((size_t)have))
		return block;
	if (!kept_of((size_t)have)) {
		union head *h = realloc((union head *)block - 1, sizeof(*h) + (size_t)bytes);

		if (!h)
			return NULL;
		h->bytes = (size_t)bytes;
		return h + 1;
	}
	bigger = memory_malloc(bytes);
	if (!bigger)
		return NULL;
	memcpy(bigger, block, (size_t)have);
	memory_free(block);
	return bigger;
}

static int memory_roundup(int bytes)
{
	return (bytes + 7) & ~7;
}

static int memory_init(void *unused)
{
	(void)unused;
	return SQLITE_OK;
}

static void memory_shutdown(void *unused)
{
	(void)unused;
}

static int add_row(void *context, int columns, char **value, char **name)
{
	struct rows *rows = context;

	(void)name;
	rows->count++;
	for (int i = 0; i < columns; i++)
		for (const char *c = value[i] ? value[i] : ""; *c; c++)
			rows->sum = rows->sum * 33 + (unsigned char)*c;
	return 0;
}

/* The file's text, or NULL. */
static char *read_text(const char *path)
{
	FILE *f = fopen(path, "rb");
	char *text = NULL;
	long bytes;

	if (!f)
		return NULL;
	if (!fseek(f, 0, SEEK_END) && (bytes = ftell(f)) >= 0) {
		rewind(f);
		text = malloc((size_t)bytes + 1);
		if (text)
			text[fread(text, 1, (size_t)bytes, f)] = 0;
	}
	fclose(f);
	return text;
}

int main(int argc, char **argv)
{
	sqlite3_mem_methods memory = {.xMalloc = memory_malloc,
				      .xFree = memory_free,
				      .xRealloc = memory_realloc,
				      .xSize = memory_size,
				      .xRoundup = memory_roundup,
				      .xInit = memory_init,
				      .xShutdown = memory_shutdown};
	char *script = argc == 2 ? read_text(argv[1]) : NULL, *error = NULL;
	struct rows rows = {0, 5381};
	sqlite3 *db = NULL;

	if (!script) {
		fprintf(stderr, "usage: sqlite_run SCRIPT\n");
		return 2;
	}
	if (sqlite3_config(SQLITE_CONFIG_MALLOC, &memory) || sqlite3_open(":memory:", &db) ||
	    sqlite3_exec(db, script, add_row, &rows, &error)) {
		fprintf(stderr, "sqlite_run: %s\n", error ? error : "cannot open a database");
		return 1;
	}
	sqlite3_close(db);
	free(script);
	printf("%lu rows, sum %lx\n", rows.count, rows.sum);
	return 0;
}
