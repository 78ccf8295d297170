// SPDX-License-Identifier: MIT
/*
 * A program that uses blocks wrongly, one case an argument; "wait" waits for the end of its input, "kill" ends
 * it with SIGKILL. Comments MARK CASE ROLE say in which line what happens.
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static void overflow()
{
	char *block = (char *)malloc(24); /* MARK overflow alloc */
	memcpy(block + 20, "hello", 6);
	free(block); /* MARK overflow use */
}

static void string_end()
{
	char *block = (char *)malloc(16); /* MARK string_end alloc */
	memcpy(block, "sixteen letters.", 17);
	free(block); /* MARK string_end use */
}

static void underflow()
{
	char *block = (char *)malloc(40); /* MARK underflow alloc */
	*(int *)(block - 8) = 7;
	block = (char *)realloc(block, 50); /* MARK underflow use */
	free(block);
}

static void use_after_free()
{
	void *volatile *block = (void **)new char[48]; /* MARK use_after_free alloc */
	delete[] (char *)block;                        /* MARK use_after_free free */
	block[1] = (void *)overflow;
	/* with free_track=1 the next block that is freed drives it out */
	free(malloc(10));
}

static void double_free()
{
	void *block = calloc(3, 10); /* MARK double_free alloc */
	free(block);                 /* MARK double_free free */
	free(block);                 /* MARK double_free use */
}

static void realloc_freed()
{
	void *block = malloc(30);
	free(block);
	block = realloc(block, 60); /* MARK realloc_freed use */
}

static void mismatched()
{
	int *block = new int[5]; /* MARK mismatched alloc */
	free(block);             /* MARK mismatched use */
}

static void free_inside(size_t size, size_t offset)
{
	char *block = (char *)malloc(size); /* MARK interior alloc */
	free(block + offset);               /* MARK interior use */
	free(block);
}

static void interior()
{
	free_inside(64, 16);
	free_inside(30000, 29000);
	free_inside(300000, 200000);
}

static void loop()
{
	for (volatile int i = 0; i < 5; i++) {
		char *block = (char *)malloc(10);
		block[10] = 1;
		free(block); /* MARK loop use */
	}
}

static void leak()
{
	volatile char *block = (char *)malloc(5000);
	(void)block;
}

/* the block stays: only a look at all blocks finds it */
static void kept()
{
	static char *volatile block;
	block = (char *)malloc(24); /* MARK kept alloc */
	memset(block + 24, 1, 3);
}

static void innocent()
{
	for (int i = 0; i < 50; i++)
		free(malloc(10));
}

static const struct {
	const char *name;
	void (*run)();
} cases[] = {
	{"overflow", overflow},
	{"string_end", string_end},
	{"underflow", underflow},
	{"use_after_free", use_after_free},
	{"double_free", double_free},
	{"mismatched", mismatched},
	{"interior", interior},
	{"loop", loop},
	{"leak", leak},
	{"kept", kept},
	{"realloc_freed", realloc_freed},
	{"innocent", innocent},
};

static void do_word(const char *word)
{
	char c;
	if (!strcmp(word, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(word, "wait")) {
		write(1, "ready\n", 6);
		while (read(0, &c, 1) > 0)
			free(malloc(10));
	}
	for (auto &one : cases)
		if (!strcmp(word, one.name))
			one.run();
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		do_word(argv[i]);
	write(1, "end\n", 4);
	return 3;
}
