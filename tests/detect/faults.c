/* SPDX-License-Identifier: MIT */
/* The faults in C: variants a and b. Each function is one; what it does wrong hangs on job->fault.
 */
#define _GNU_SOURCE
#include "faults.h"

#include <malloc.h>
#include <sys/mman.h>

/* A text of n characters in a block of its own. */
static char *text(size_t n)
{
	char *s = malloc(n + 1);
	memset(s, 'x', n);
	s[n] = 0;
	return s;
}

/* --- writes behind a block --- */

/* The join of two names has no room for the slash. */
static void overflow_by_one(const struct job *job)
{
	char *folder = text(job->size / 2), *name = text(job->size - job->size / 2 - 1);
	size_t n = strlen(folder), bytes = n + strlen(name) + 1 + !job->fault;
	char *path = malloc(bytes);
	HIDE(path);
	tell(bytes, (long)bytes);
	memcpy(path, folder, n);
	path[n] = '/';
	for (size_t i = 0; i <= strlen(name); i++)
		path[n + 1 + i] = name[i];
	free(path);
	free(folder);
	free(name);
}

/* A trailer is appended to a message that was measured without it. */
static void overflow_by_some(const struct job *job)
{
	size_t bytes = job->size + (job->fault ? 0 : job->far);
	char *message = malloc(bytes);
	HIDE(message);
	tell(bytes, (long)bytes);
	memset(message, 'm', job->size);
	for (size_t i = 0; i < job->far; i++)
		message[job->size + i] = (char)('0' + i % 10);
	free(message);
}

/* An index from outside is believed. */
static void overflow_far(const struct job *job)
{
	char *table = calloc(job->size, 1);
	size_t index = job->size + job->far;
	HIDE(table);
	tell(job->size, (long)index);
	if (job->fault || index < job->size)
		table[index] = 1;
	free(table);
}

struct pixel {
	unsigned short red, green, blue, alpha;
};

/* One row too many is drawn, and of it only one channel. */
static void overflow_with_a_gap(const struct job *job)
{
	size_t width = job->size / sizeof(struct pixel), bytes = width * sizeof(struct pixel);
	struct pixel *row = calloc(width, sizeof(*row));
	HIDE(row);
	tell(bytes, (long)(bytes + 6));
	for (size_t x = 0; x < width + (job->fault ? 1 : 0); x++)
		row[x].alpha = 0x7f7f;
	free(row);
}

/* The length in a packet is believed. */
static void memcpy_past(const struct job *job)
{
	size_t claimed = job->size + job->far;
	char *packet = text(claimed), *copy = malloc(job->fault ? job->size : claimed);
	HIDE(copy);
	tell(job->size, (long)job->size);
	memcpy(copy, packet, claimed);
	free(copy);
	free(packet);
}

/* The size of one structure is used for another. */
static void memset_past(const struct job *job)
{
	char *record = malloc(job->size);
	HIDE(record);
	tell(job->size, (long)job->size);
	memset(record, 0, job->size + (job->fault ? job->far : 0));
	free(record);
}

/* strlen() does not count the end. Our own sources may not call this function. */
static char *(*volatile copy_text)(char *, const char *) = strcpy;

static void strcpy_past(const struct job *job)
{
	char *from = text(job->size), *copy = malloc(strlen(from) + (job->fault ? 0 : 1));
	HIDE(copy);
	tell(job->size, (long)job->size);
	copy_text(copy, from);
	free(copy);
	free(from);
}

/* Rows and columns change places. */
static void calloc_past(const struct job *job)
{
	size_t rows = job->far / 4, columns = job->size / rows / 4;
	int *cell = calloc(rows, columns * sizeof(int));
	HIDE(cell);
	tell(rows * columns * sizeof(int), (long)(rows * columns * sizeof(int)));
	for (size_t i = 0; i < rows * columns + (job->fault ? 3 : 0); i++)
		cell[i] = (int)i + 1;
	free(cell);
}

static void posix_memalign_past(const struct job *job)
{
	void *made = NULL;
	if (posix_memalign(&made, 64, job->size))
		_exit(96);
	char *line = made;
	HIDE(line);
	tell(job->size, (long)job->size);
	for (size_t i = 0; i < job->size + (job->fault ? job->far : 0); i++)
		line[i] = 1;
	free(line);
}

static void memalign_past(const struct job *job)
{
	char *page = memalign(job->size > 1000 ? 4096 : 256, job->size);
	HIDE(page);
	tell(job->size, (long)job->size);
	memset(page, 3, job->size);
	if (job->fault)
		page[job->size] = 4;
	free(page);
}

static void aligned_alloc_before(const struct job *job)
{
	char *vector = aligned_alloc(32, job->size);
	HIDE(vector);
	tell(job->size, -(long)job->far);
	for (long i = job->fault ? -(long)job->far : 0; i < (long)job->size; i++)
		vector[i] = 5;
	free(vector);
}

struct list_of_numbers {
	size_t used, room;
	long *number;
};

static void append(struct list_of_numbers *list, long number, int fault)
{
	if (fault ? list->used > list->room : list->used >= list->room) {
		list->room = list->room ? list->room * 2 : 4;
		list->number = realloc(list->number, list->room * sizeof(long));
		HIDE(list->number);
	}
	list->number[list->used++] = number;
}

/* The list grows one element too late. */
static void grown_too_late(const struct job *job)
{
	struct list_of_numbers list = {0, 4, malloc(4 * sizeof(long))};
	size_t room = 4;
	while (room * sizeof(long) < job->size)
		room *= 2;
	HIDE(list.number);
	for (size_t i = 0; i + 1 < room; i++)
		append(&list, (long)i, 0);
	append(&list, 1, 0);
	tell(room * sizeof(long), (long)(room * sizeof(long)));
	append(&list, 2, job->fault);
	free(list.number);
}

/* The block was made smaller, its length kept. */
static void past_the_shrunk_end(const struct job *job)
{
	size_t kept = job->size - job->far;
	char *buffer = text(job->size);
	if (job->fault)
		buffer = realloc(buffer, kept);
	HIDE(buffer);
	tell(kept, (long)kept);
	for (size_t i = 0; i < job->size; i++)
		buffer[i] = 'y';
	free(buffer);
}

struct stack_of_names {
	int used, room;
	char name[][4];
};

static void vector_off_by_one(const struct job *job)
{
	int room = (int)job->size;
	size_t bytes = sizeof(struct stack_of_names) + 4 * job->size;
	struct stack_of_names *stack = malloc(bytes);
	HIDE(stack);
	tell(bytes, (long)bytes);
	stack->used = 0;
	stack->room = room;
	while (stack->used < room + (job->fault ? 1 : 0))
		memcpy(stack->name[stack->used++], "abc", 4);
	free(stack);
}

/* The byte behind an odd size lies in what the allocator rounds up. */
static void into_the_rounding(const struct job *job)
{
	char *odd = malloc(job->size);
	HIDE(odd);
	tell(job->size, (long)job->size);
	for (size_t i = 0; i < job->size + (job->fault ? job->far : 0); i++)
		odd[i] = 1;
	free(odd);
}

/* --- writes before a block --- */

/* The last character of an empty line is cut off. */
static void underflow_by_one(const struct job *job)
{
	char *line = malloc(job->size);
	HIDE(line);
	tell(job->size, -1);
	line[0] = 0;
	size_t n = strlen(line);
	if (job->fault || n)
		line[(long)n - 1] = 0;
	free(line);
}

/* More is taken from a stack than was on it. */
static void underflow_by_some(const struct job *job)
{
	int *stack = calloc(job->size / 4, 4);
	long top = 0, steps = (long)job->far / 4;
	HIDE(stack);
	tell(job->size / 4 * 4, -(long)(steps * 4));
	for (long i = 0; i < steps && (job->fault || top > 0); i++)
		stack[--top] = 0x01020304;
	free(stack);
}

/* The remainder of a negative number is negative. */
static void underflow_far(const struct job *job)
{
	char *ring = calloc(job->size, 1);
	long at = -(long)job->far;
	HIDE(ring);
	tell(job->size, at);
	if (!job->fault)
		at = (at % (long)job->size + (long)job->size) % (long)job->size;
	ring[at] = 1;
	free(ring);
}

/* --- reads outside of a block --- */

static void read_by_one(const struct job *job)
{
	size_t n = job->size / sizeof(long);
	long *number = calloc(n, sizeof(long));
	HIDE(number);
	tell(n * sizeof(long), (long)(n * sizeof(long)));
	for (size_t i = 0; job->fault ? i <= n : i < n; i++)
		seen += (unsigned long)number[i];
	free(number);
}

static void read_by_some(const struct job *job)
{
	char *key = text(job->size - 1), *other = text(job->size + job->far);
	HIDE(key);
	tell(job->size, (long)job->size);
	for (size_t i = 0; i < job->size + (job->fault ? job->far : 0); i++)
		seen += key[i] != other[i];
	free(key);
	free(other);
}

static void read_far(const struct job *job)
{
	char *table = calloc(job->size, 1);
	size_t index = job->size + job->far;
	HIDE(table);
	tell(job->size, (long)index);
	if (job->fault || index < job->size)
		seen += (unsigned char)table[index];
	free(table);
}

static void read_before(const struct job *job)
{
	char *line = text(job->size - 1);
	long at = 0;
	HIDE(line);
	tell(job->size, -(long)job->far);
	for (size_t i = 0; i < job->far && (job->fault || at > 0); i++)
		seen += (unsigned char)line[--at];
	free(line);
}

static void memcpy_from_past(const struct job *job)
{
	char *from = text(job->size - 1), *to = malloc(job->size + job->far);
	HIDE(from);
	tell(job->size, (long)job->size);
	memcpy(to, from, job->size + (job->fault ? job->far : 0));
	seen += (unsigned char)to[0];
	free(from);
	free(to);
}

/* --- use after free --- */

struct visitor {
	struct visitor *next;
	unsigned requests;
	char name[];
};

static struct visitor *visitor_new(struct visitor *next, size_t size)
{
	struct visitor *s = calloc(1, size);
	s->next = next;
	HIDE(s);
	return s;
}

__attribute__((noinline)) static void drop(void *p)
{
	free(p);
}

static void use_after_free_write(const struct job *job)
{
	char *block = (char *)visitor_new(NULL, job->size);
	tell(job->size, (long)job->far);
	if (job->fault)
		drop(block);
	block[job->far] = 'w';
	if (!job->fault)
		drop(block);
}

static void use_after_free_write_late(const struct job *job)
{
	char *block = (char *)visitor_new(NULL, job->size);
	tell(job->size, (long)job->far);
	if (job->fault)
		drop(block);
	for (size_t i = 0; i < 50; i++)
		drop(text(job->size + 40 + i % 9));
	block[job->far] = 'w';
	if (!job->fault)
		drop(block);
}

static void use_after_free_memset(const struct job *job)
{
	char *block = (char *)visitor_new(NULL, job->size);
	tell(job->size, 0);
	if (job->fault)
		drop(block);
	memset(block, 0, job->size);
	if (!job->fault)
		drop(block);
}

static void use_after_free_read(const struct job *job)
{
	struct visitor *s = visitor_new(NULL, job->size);
	tell(job->size, 8);
	if (job->fault)
		drop(s);
	seen += s->requests;
	if (!job->fault)
		drop(s);
}

static void use_after_free_copy(const struct job *job)
{
	char *name = text(job->size - 1), copy[4096];
	HIDE(name);
	tell(job->size, 0);
	if (job->fault)
		drop(name);
	memcpy(copy, name, job->size);
	seen += (unsigned char)copy[0];
	if (!job->fault)
		drop(name);
}

/* A list is freed by its own next pointers. */
static void use_after_free_in_a_list(const struct job *job)
{
	struct visitor *list = NULL, *next;
	for (int i = 0; i < 3; i++)
		list = visitor_new(list, job->size);
	tell(job->size, 0);
	/* with fill_on_free the pointer that is read is no list's: it stops there */
	for (int i = 0; i < 3 && list && (uintptr_t)list != 0xefefefefefefefef; i++, list = next) {
		next = list->next;
		drop(list);
		if (job->fault)
			next = list->next;
		seen += (uintptr_t)next;
		if (job->fault && i == 0)
			break;
	}
}

/* A pointer into a block outlives its growth. */
static void use_after_realloc(const struct job *job)
{
	char *buffer = text(job->size - 1), *word = buffer + job->far, *grown, *fence = malloc(100);
	HIDE(word);
	HIDE(fence);
	tell(job->size, (long)job->far);
	grown = realloc(buffer, job->size * 40 + 8000);
	*(job->fault ? word : grown + job->far) = 'w';
	drop(grown);
	drop(fence);
}

static void *drop_in_thread(void *p)
{
	drop(p);
	return NULL;
}

static void use_after_free_by_a_thread(const struct job *job)
{
	char *block = (char *)visitor_new(NULL, job->size);
	tell(job->size, (long)job->far);
	if (job->fault)
		in_thread(drop_in_thread, block);
	block[job->far] = 'w';
	if (!job->fault)
		in_thread(drop_in_thread, block);
}

/* --- wrong frees --- */

static void double_free(const struct job *job)
{
	char *name = text(job->size - 1);
	HIDE(name);
	tell(job->size, 0);
	drop(name);
	if (job->fault)
		free(name);
}

/* In between the block has become somebody else's. */
static void double_free_late(const struct job *job)
{
	char *name = text(job->size - 1), *other;
	HIDE(name);
	tell(job->size, 0);
	drop(name);
	other = text(job->size - 1);
	HIDE(other);
	if (job->fault)
		free(name);
	memset(other, 'o', job->size);
	if (!job->fault || other != name)
		free(other);
}

static void double_free_by_a_thread(const struct job *job)
{
	char *name = text(job->size - 1);
	HIDE(name);
	tell(job->size, 0);
	in_thread(drop_in_thread, name);
	if (job->fault)
		drop(name);
}

static void realloc_after_free(const struct job *job)
{
	char *name = text(job->size - 1), *grown;
	HIDE(name);
	tell(job->size, 0);
	if (job->fault)
		drop(name);
	grown = realloc(name, job->size + job->far);
	HIDE(grown);
	if (grown)
		free(grown);
}

static void free_of_a_variable(const struct job *job)
{
	char small[256] __attribute__((aligned(16))), *name = small;
	if (!job->fault)
		name = malloc(job->size);
	name[0] = 0;
	HIDE(name);
	free(name + (job->fault ? job->far : 0));
}

static char names[8][64] __attribute__((aligned(16)));

static void free_of_a_global(const struct job *job)
{
	char *name = job->fault ? names[job->far % 8] : malloc(job->size);
	HIDE(name);
	free(name);
}

/* The pointer was moved on while the text was read. */
static void free_inside_a_block(const struct job *job)
{
	char *line = text(job->size - 1), *start = line;
	line += job->far;
	HIDE(line);
	seen += (unsigned char)*line;
	if (job->fault)
		free(line);
	free(start);
}

/* An element of an array is freed as if it had been made alone. */
static void free_of_an_element(const struct job *job)
{
	struct pixel *array = calloc(job->size / sizeof(*array), sizeof(*array));
	struct pixel *one = &array[job->far / sizeof(*array)];
	HIDE(one);
	one->red = 1;
	if (job->fault)
		free(one);
	free(array);
}

static void free_of_a_number(const struct job *job)
{
	union {
		void *pointer;
		uintptr_t number;
	} value = {NULL};
	if (job->fault)
		value.number = 0x10000000 + job->far;
	HIDE(value.pointer);
	free(value.pointer);
}

static void free_of_a_mapping(const struct job *job)
{
	char *map =
		mmap(NULL, job->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	HIDE(map);
	map[0] = 1;
	if (job->fault)
		free(map + job->far);
	else
		munmap(map, job->size);
}

/* --- leaks --- */

static void leak_lost(const struct job *job)
{
	for (size_t i = 0; i < job->far; i++) {
		char *s = text(job->size - 1);
		HIDE(s);
		seen += (unsigned char)s[0];
		if (!job->fault)
			free(s);
	}
}

static void leak_of_a_cycle(const struct job *job)
{
	struct visitor *a = visitor_new(NULL, job->size), *b = visitor_new(a, job->size);
	a->next = b;
	if (!job->fault) {
		free(a);
		free(b);
	}
}

static struct visitor *still_there;

static void leak_still_reachable(const struct job *job)
{
	still_there = visitor_new(NULL, job->size);
	if (!job->fault) {
		free(still_there);
		still_there = NULL;
	}
}

/* The only pointer is overwritten by what a failing realloc returns. */
static void leak_by_realloc(const struct job *job)
{
	char *s = text(job->size - 1), *before = s;
	size_t much = SIZE_MAX / 2 - job->far;
	__asm__ volatile("" : "+r"(much));
	s = realloc(s, much);
	HIDE(s);
	if (!job->fault)
		free(before);
	before = NULL;
	HIDE(before);
}

static pthread_key_t key;

static void *in_leak_of_a_thread(void *job_of_thread)
{
	const struct job *job = job_of_thread;
	pthread_setspecific(key, text(job->size - 1));
	return NULL;
}

static void leak_of_a_thread(const struct job *job)
{
	if (pthread_key_create(&key, job->fault ? NULL : free))
		_exit(96);
	in_thread(in_leak_of_a_thread, (void *)job);
}

/* Of a block only the middle is known. */
static char *middle;

static void leak_with_inner_pointer(const struct job *job)
{
	char *s = text(job->size - 1);
	middle = s + job->far;
	HIDE(s);
	if (!job->fault)
		free(s);
	s = NULL;
	HIDE(s);
}

/* clang-format off */
static const struct fault faults[] = {
#define FAULT(name, size_a, far_a, size_b, far_b) \
	{ #name, name, { { size_a, far_a, 0 }, { size_b, far_b, 0 } } }
	FAULT(overflow_by_one, 24, 1, 5000, 1),
	FAULT(overflow_by_some, 40, 8, 3001, 31),
	FAULT(overflow_far, 64, 200, 2000, 5000),
	FAULT(overflow_with_a_gap, 64, 6, 8000, 6),
	FAULT(memcpy_past, 32, 4, 1500, 24),
	FAULT(memset_past, 48, 8, 700, 16),
	FAULT(strcpy_past, 16, 1, 999, 1),
	FAULT(calloc_past, 96, 16, 4800, 48),
	FAULT(posix_memalign_past, 64, 1, 1000, 20),
	FAULT(memalign_past, 100, 1, 6000, 1),
	FAULT(aligned_alloc_before, 64, 1, 4096, 16),
	FAULT(grown_too_late, 64, 8, 4096, 8),
	FAULT(past_the_shrunk_end, 100, 20, 3000, 32),
	FAULT(vector_off_by_one, 6, 4, 500, 4),
	FAULT(into_the_rounding, 13, 3, 1021, 2),
	FAULT(underflow_by_one, 80, 1, 2048, 1),
	FAULT(underflow_by_some, 64, 8, 4000, 32),
	FAULT(underflow_far, 64, 200, 3000, 2500),
	FAULT(read_by_one, 32, 8, 4000, 8),
	FAULT(read_by_some, 30, 10, 2000, 32),
	FAULT(read_far, 64, 300, 3000, 5000),
	FAULT(read_before, 50, 1, 1200, 24),
	FAULT(memcpy_from_past, 64, 6, 2500, 30),
	FAULT(use_after_free_write, 40, 17, 6000, 5000),
	FAULT(use_after_free_write_late, 100, 99, 1500, 40),
	FAULT(use_after_free_memset, 64, 0, 1000, 0),
	FAULT(use_after_free_read, 48, 8, 9000, 8),
	FAULT(use_after_free_copy, 64, 0, 2000, 0),
	FAULT(use_after_free_in_a_list, 32, 0, 600, 0),
	FAULT(use_after_realloc, 64, 20, 3000, 1700),
	FAULT(use_after_free_by_a_thread, 56, 30, 2500, 2000),
	FAULT(double_free, 32, 0, 5000, 0),
	FAULT(double_free_late, 80, 0, 1800, 0),
	FAULT(double_free_by_a_thread, 64, 0, 3000, 0),
	FAULT(realloc_after_free, 64, 10, 2000, 5000),
	FAULT(free_of_a_variable, 64, 0, 200, 32),
	FAULT(free_of_a_global, 64, 3, 64, 5),
	FAULT(free_inside_a_block, 64, 3, 4000, 1777),
	FAULT(free_of_an_element, 128, 16, 8000, 4000),
	FAULT(free_of_a_number, 1, 16, 1, 0x12345),
	FAULT(free_of_a_mapping, 8192, 0, 65536, 32),
	FAULT(leak_lost, 40, 1, 3000, 5),
	FAULT(leak_of_a_cycle, 32, 0, 700, 0),
	FAULT(leak_still_reachable, 64, 0, 5000, 0),
	FAULT(leak_by_realloc, 50, 0, 4000, 100),
	FAULT(leak_of_a_thread, 60, 0, 2000, 0),
	FAULT(leak_with_inner_pointer, 100, 10, 1000, 600),
};
/* clang-format on */

int main(int argc, char **argv)
{
	return run_fault(argc, argv, faults, sizeof(faults) / sizeof(faults[0]));
}
