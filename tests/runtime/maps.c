/* SPDX-License-Identifier: MIT */
/*
 * Random mapping calls in a window of addresses, with the program's own note of each page. At the
 * end the pages that anonymous mappings hold go to the file argv[1], a hexadecimal address a line,
 * and the kernel's list to the file argv[2].
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 300, STEPS = 20000, PAGE = 4096 };
enum { NONE, MINE, OTHERS };

static char *window;
static unsigned char page[PAGES];
static int file;

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void must(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	_exit(97);
}

static void map(uint32_t first, uint32_t count, int is_file)
{
	int flags = MAP_FIXED | MAP_PRIVATE | (is_file ? 0 : MAP_ANONYMOUS);
	void *p = mmap(window + first * PAGE, count * PAGE - 1, PROT_READ, flags,
		       is_file ? file : -1, 0);
	must(p == window + first * PAGE, "mmap");
	memset(page + first, is_file ? OTHERS : MINE, count);
}

static void unmap(uint32_t first, uint32_t count)
{
	must(munmap(window + first * PAGE, count * PAGE) == 0, "munmap");
	memset(page + first, NONE, count);
}

/* What mremap takes: one mapping. Runs of one kind made by one call are; else it refuses, changing
 * nothing. */
static void move(uint32_t from, uint32_t count, uint32_t to, uint32_t new_count, int flags)
{
	unsigned char kind = page[from];
	void *p = mremap(window + from * PAGE, count * PAGE, new_count * PAGE,
			 MREMAP_MAYMOVE | MREMAP_FIXED | flags, window + to * PAGE);
	if (p == MAP_FAILED) {
		/* the kernel may have unmapped the target before it refused */
		unmap(to, new_count);
		return;
	}
	if (!flags)
		memset(page + from, NONE, count);
	memset(page + to, kind, new_count);
}

static void refused_calls(void)
{
	must(munmap(window + 1, PAGE) != 0, "munmap of an odd address succeeded");
	must(munmap(window, 0) != 0, "munmap of nothing succeeded");
	must(munmap(window, (size_t)1 << 60) != 0, "munmap of everything succeeded");
	must(munmap(window, SIZE_MAX) != 0, "munmap of everything succeeded");
	must(mmap(window, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		     MAP_FAILED,
	     "mmap of nothing");
	must(mmap(window, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, -1, 0) == MAP_FAILED,
	     "mmap of no file");
	must(mremap(window + 1, PAGE, PAGE, 0) == MAP_FAILED, "mremap of an odd address");
}

static void random_call(uint64_t r)
{
	uint32_t first = (uint32_t)(r % (PAGES - 20)), count = (uint32_t)(r >> 20) % 12 + 1;
	uint32_t to = (uint32_t)(r >> 30) % (PAGES - 20), new_count = (uint32_t)(r >> 40) % 12 + 1;
	switch (r >> 50 & 7) {
	case 0:
	case 1:
	case 2:
		map(first, count, 0);
		break;
	case 3:
		map(first, count, 1);
		break;
	case 4:
	case 5:
		unmap(first, count);
		break;
	default:
		if (to + new_count <= first || first + count <= to) {
			map(first, count, r >> 60 & 1);
			move(first, count, to, new_count, 0);
		}
	}
}

static void write_pages(const char *path)
{
	FILE *out = fopen(path, "w");
	must(out != NULL, path);
	for (uint32_t i = 0; i < PAGES; i++)
		if (page[i] == MINE)
			fprintf(out, "%jx\n", (uintmax_t)(uintptr_t)(window + i * PAGE));
	fclose(out);
}

static void copy_maps(const char *path)
{
	char buf[4096];
	ssize_t n;
	int in = open("/proc/self/maps", O_RDONLY),
	    out = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
	must(in >= 0 && out >= 0, path);
	while ((n = read(in, buf, sizeof(buf))) > 0)
		must(write(out, buf, (size_t)n) == n, path);
	close(in);
	close(out);
}

int main(int argc, char **argv)
{
	uint64_t seed = 777;
	if (argc != 3)
		return 2;
	file = open("/proc/self/exe", O_RDONLY);
	window = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(window != MAP_FAILED, "mmap");
	memset(page, MINE, sizeof(page));
	for (int i = 0; i < STEPS; i++) {
		random_call(next(&seed));
		if (i % 1000 == 0)
			refused_calls();
	}
	write_pages(argv[1]);
	copy_maps(argv[2]);
	return 0;
}
