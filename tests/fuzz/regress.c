/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target over the files and folders it is given, without a fuzzer: how every test run
 * replays the committed corpus. Prints one TAP point for each argument.
 */
#include <dirent.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { INPUT_BYTES_MAX = 16 << 20 };

/* 0, or -1 when the file cannot be read. */
static int run_file(const char *path)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data = malloc(INPUT_BYTES_MAX);
	size_t size_bytes;

	if (!file || !data) {
		printf("# cannot read '%s'\n", path);
		if (file)
			fclose(file);
		free(data);
		return -1;
	}
	size_bytes = fread(data, 1, INPUT_BYTES_MAX, file);
	fclose(file);
	/* a block of exactly this size, so that a sanitizer sees a read past its end */
	uint8_t *exact = realloc(data, size_bytes ? size_bytes : 1);
	LLVMFuzzerTestOneInput(exact, size_bytes);
	free(exact);
	return 0;
}

/* Number of files run, -1 when one cannot be read. */
static int run_folder(DIR *folder, const char *path)
{
	int count = 0;
	struct dirent *entry;
	char name[4096];

	while ((entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (run_file(name))
			return -1;
		count++;
	}
	return count;
}

int main(int argc, char **argv)
{
	int failed = 0;

	printf("1..%d\n", argc);
	/* the empty input is part of every corpus */
	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	puts("ok 1 - empty input");
	for (int i = 1; i < argc; i++) {
		DIR *folder = opendir(argv[i]);
		int count = folder ? run_folder(folder, argv[i]) : run_file(argv[i]) ? -1 : 1;

		if (folder)
			closedir(folder);
		failed |= count < 0;
		printf("%s %d - %s (%d files)\n", count < 0 ? "not ok" : "ok", i + 1, argv[i],
		       count);
		fflush(stdout);
	}
	return failed;
}
