/* SPDX-License-Identifier: MIT */
/* Lines of fdinfo: "drm-driver:\ti915", "drm-memory-vram:\t1234 KiB", "exp_name:\tsystem". */

#include "target/gpu.h"

#include "base/file.h"
#include "core/cc.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 65536, REGIONS_MAX = 16 };

/* Names of sizes, the best one first: what is resident, the same by its old name, all of it. */
static const char *const sizes[] = {"drm-resident-", "drm-memory-", "drm-total-"};

struct client {
	char driver[MT_GPU_WORD_MAX], device[MT_GPU_WORD_MAX], id[MT_GPU_WORD_MAX];
	char exporter[MT_GPU_WORD_MAX], size[MT_GPU_WORD_MAX], inode[MT_GPU_WORD_MAX];
	struct {
		char name[MT_GPU_WORD_MAX];
		uint64_t bytes;
		size_t rank; /* in sizes */
	} region[REGIONS_MAX];
	size_t regions;
	bool is_cut;
};

void mt_gpu_done(struct mt_gpu *g)
{
	if (g)
		mt_strings_done(&g->seen);
}

/* "12 KiB", "3 MiB", "4096": bytes; false: no size. */
static bool parse_size(const char *text, uint64_t *ret)
{
	static const char *const units[] = {"", "KiB", "MiB", "GiB"};
	char *end;
	uint64_t number = strtoull(text, &end, 10);

	if (end == text)
		return false;
	while (*end == ' ' || *end == '\t')
		end++;
	for (unsigned i = 0; i < MT_ARRAY_LEN(units); i++)
		if (!strcmp(end, units[i]))
			return !__builtin_mul_overflow(number, 1ull << (10 * i), ret);
	return false;
}

static void set_word(char *to, const char *value)
{
	snprintf(to, MT_GPU_WORD_MAX, "%s", value);
}

static void set_region(struct client *c, const char *name, size_t rank, const char *value)
{
	uint64_t bytes;
	size_t at = 0;

	/* drm-total-cycles-ENGINE is no memory */
	if (!*name || !strncmp(name, "cycles-", 7) || !parse_size(value, &bytes))
		return;
	while (at < c->regions && strncmp(c->region[at].name, name, MT_GPU_WORD_MAX - 1) != 0)
		at++;
	if (at == REGIONS_MAX) {
		c->is_cut = true;
		return;
	}
	if (at == c->regions)
		c->region[c->regions++].rank = SIZE_MAX;
	if (rank < c->region[at].rank) {
		set_word(c->region[at].name, name);
		c->region[at].bytes = bytes;
		c->region[at].rank = rank;
	}
}

static void take_line(struct client *c, const char *name, const char *value)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(sizes); i++)
		if (!strncmp(name, sizes[i], strlen(sizes[i]))) {
			set_region(c, name + strlen(sizes[i]), i, value);
			return;
		}
	if (!strcmp(name, "drm-driver"))
		set_word(c->driver, value);
	else if (!strcmp(name, "drm-pdev"))
		set_word(c->device, value);
	else if (!strcmp(name, "drm-client-id"))
		set_word(c->id, value);
	else if (!strcmp(name, "exp_name"))
		set_word(c->exporter, value);
	else if (!strcmp(name, "size"))
		set_word(c->size, value);
	else if (!strcmp(name, "ino"))
		set_word(c->inode, value);
}

static void parse(struct client *c, char *text)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *colon = strchr(line, ':');

		if (!colon)
			continue;
		*colon = 0;
		take_line(c, line, colon + 1 + strspn(colon + 1, " \t"));
	}
}

/* Whether this is seen for the first time; negative: no memory. Without a name all are. */
static int is_new(struct mt_gpu *g, const char *kind, const char *a, const char *b, const char *id)
{
	char key[4 * MT_GPU_WORD_MAX];
	uint32_t number, known = g->seen.count;

	if (!*id)
		return 1;
	snprintf(key, sizeof(key), "%s %s %s %s", kind, a, b, id);
	if (mt_strings_intern(&g->seen, key, strlen(key), &number))
		return -ENOMEM;
	return number > known;
}

static void add_bytes(uint64_t *to, uint64_t bytes)
{
	if (__builtin_add_overflow(*to, bytes, to))
		*to = UINT64_MAX;
}

static void add_region(struct mt_gpu *g, const struct client *c, size_t region)
{
	size_t at = 0;

	while (at < g->count && (strcmp(g->row[at].driver, c->driver) != 0 ||
				 strcmp(g->row[at].device, c->device) != 0 ||
				 strcmp(g->row[at].region, c->region[region].name) != 0))
		at++;
	if (at == MT_GPU_ROWS_MAX) {
		g->is_cut = true;
		return;
	}
	if (at == g->count) {
		set_word(g->row[at].driver, c->driver);
		set_word(g->row[at].device, c->device);
		set_word(g->row[at].region, c->region[region].name);
		g->count++;
	}
	add_bytes(&g->row[at].bytes, c->region[region].bytes);
}

int mt_gpu_add(struct mt_gpu *g, const char *text)
{
	mt_auto(free) char *copy = strdup(text);
	struct client c = {.regions = 0};
	uint64_t bytes;
	int fresh;

	if (!copy)
		return -ENOMEM;
	parse(&c, copy);
	if (*c.driver) {
		fresh = is_new(g, "drm", c.driver, c.device, c.id);
		if (fresh <= 0)
			return fresh;
		for (size_t i = 0; i < c.regions; i++)
			add_region(g, &c, i);
		g->is_cut |= c.is_cut;
	} else if (*c.exporter && parse_size(c.size, &bytes)) {
		fresh = is_new(g, "dmabuf", c.exporter, "", c.inode);
		if (fresh <= 0)
			return fresh;
		g->dmabufs++;
		add_bytes(&g->dmabuf_bytes, bytes);
	}
	return 0;
}

int mt_gpu_read(pid_t pid, struct mt_gpu *g)
{
	char path[300];
	DIR *d;
	int code = 0;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", (int)pid);
	d = opendir(path);
	if (!d)
		return -EACCES;
	for (struct dirent *e; !code && (e = readdir(d));) {
		mt_auto(free) char *text = NULL;
		size_t len;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)pid, e->d_name);
		if (!mt_file_read(path, TEXT_MAX, &text, &len, NULL))
			code = mt_gpu_add(g, text);
	}
	closedir(d);
	return code;
}
