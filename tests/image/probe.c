/* SPDX-License-Identifier: MIT */
/*
 * What an image says of a process or core file, for tests: lines of words.
 *
 *	probe live|stop|copy|core PID|FILE [WORD [ARGUMENTS]]...
 *	words: hold SECONDS, read ADDRESS BYTES, symbol NAME, registers, sum, there
 */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "target/copy_cost.h"
#include "target/image.h"

static void print_facts(struct mt_image *im)
{
	static const char *const source[] = {"live", "stop", "copy", "core"};
	const struct mt_image_facts *f = mt_image_facts(im);

	printf("source %s\npid %d\nprogram %s\nstop_ns %" PRIu64 "\nunreadable %" PRIu64
	       "\nfaults %" PRIu64 "\n",
	       source[f->source], (int)f->pid, f->program, f->stop_ns, f->unreadable_bytes,
	       f->faults_since);
}

static void print_tables(struct mt_image *im)
{
	const struct mt_mapping *m;
	const struct mt_image_module *module;
	const struct mt_image_thread *t;
	size_t count;

	m = mt_image_mappings(im, &count);
	for (size_t i = 0; i < count; i++)
		printf("mapping %" PRIx64 " %" PRIx64 " %x %" PRIx64 " %" PRIu64 " %d %s\n",
		       m[i].start, m[i].end, m[i].flags, m[i].offset, m[i].inode, m[i].in_image,
		       m[i].name);
	module = mt_image_modules(im, &count);
	for (size_t i = 0; i < count; i++) {
		printf("module %" PRIx64 " %" PRIx64 " %" PRIu64 " %" PRIu64 " ", module[i].bias,
		       module[i].dynamic, module[i].tls_bytes, module[i].tls_align);
		for (uint32_t k = 0; k < module[i].build_id_bytes; k++)
			printf("%02x", module[i].build_id[k]);
		printf("- %s%s%s- %s\n", module[i].is_main ? "main," : "",
		       module[i].is_loader ? "loader," : "", module[i].is_libc ? "libc," : "",
		       module[i].path);
	}
	t = mt_image_threads(im, &count);
	for (size_t i = 0; i < count; i++)
		printf("thread %d %d %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIu32 " %" PRIu32 "\n",
		       (int)t[i].tid, t[i].is_missing, t[i].pc, t[i].sp, t[i].thread_pointer,
		       t[i].register_count, t[i].vector_bytes);
}

static void print_bytes(struct mt_image *im, uint64_t address, size_t bytes)
{
	uint8_t *data = malloc(bytes + 1);
	size_t n = data ? mt_image_read(im, address, data, bytes) : 0;

	printf("bytes %" PRIx64 " %zu ", address, n);
	for (size_t i = 0; i < n; i++)
		printf("%02x", data[i]);
	putchar('\n');
	free(data);
}

/* Every module that defines it. */
static void print_symbol(struct mt_image *im, const char *name)
{
	size_t count;
	const struct mt_image_module *m = mt_image_modules(im, &count);

	for (size_t i = 0; i < count; i++) {
		uint64_t address, bytes, offset = 0;
		const char *back;

		if (mt_image_symbol(im, &m[i], name, &address, &bytes))
			continue;
		back = mt_image_symbol_at(im, &m[i], address, &offset);
		printf("symbol %s %" PRIx64 " %" PRIu64 " %s %s\n", name, address, bytes,
		       back ? back : "-", m[i].path);
	}
}

/* General registers, then the vector state, of each thread. */
static void print_registers(struct mt_image *im)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(im, &count);

	for (size_t i = 0; i < count; i++) {
		printf("registers %d", (int)t[i].tid);
		for (uint32_t k = 0; k < t[i].register_count; k++)
			printf(" %" PRIx64, t[i].registers[k]);
		printf("\nvector %d ", (int)t[i].tid);
		for (uint32_t k = 0; k < t[i].vector_bytes; k++)
			printf("%02x", t[i].vector[k]);
		putchar('\n');
	}
}

/* All that can be read, as one number. */
static void print_sum(struct mt_image *im)
{
	static uint8_t data[1 << 20];
	uint64_t sum = 0, total = 0;
	struct timespec a, b;
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(im, &count);

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (size_t i = 0; i < count; i++) {
		if (!m[i].in_image)
			continue;
		for (uint64_t at = m[i].start; at < m[i].end; at += sizeof(data)) {
			uint64_t left = m[i].end - at;
			size_t want = left < sizeof(data) ? (size_t)left : sizeof(data);
			size_t n = mt_image_read(im, at, data, want);

			for (size_t k = 0; k < n; k += 64)
				sum = sum * 31 + data[k];
			total += n;
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &b);
	printf("sum %" PRIx64 " %" PRIu64 " %" PRId64 "\n", sum, total,
	       (int64_t)(b.tv_sec - a.tv_sec) * 1000000000 + (b.tv_nsec - a.tv_nsec));
}

static int open_image(char **argv, struct mt_image **ret_image, struct mt_err *err)
{
	static const char *const source[] = {"live", "stop", "copy"};
	int at = 0;

	if (!strcmp(argv[1], "core"))
		return mt_image_open_core(argv[2], ret_image, err);
	while (at < 3 && strcmp(argv[1], source[at]))
		at++;
	return mt_image_open_process(atoi(argv[2]), (enum mt_image_source)at, ret_image, err);
}

int main(int argc, char **argv)
{
	struct mt_image *im;
	struct mt_err err = {0};

	if (argc < 3)
		return 2;
	if (open_image(argv, &im, &err)) {
		printf("error %s\n", err.text);
		return 1;
	}
	if (*err.text)
		printf("remark %s\n", err.text);
	print_tables(im);
	for (int i = 3; i < argc; i++) {
		if (!strcmp(argv[i], "hold") && i + 1 < argc) {
			struct timespec t = {.tv_sec = atoi(argv[++i])};

			puts("holding");
			fflush(stdout);
			nanosleep(&t, NULL);
		} else if (!strcmp(argv[i], "read") && i + 2 < argc) {
			uint64_t address = strtoull(argv[++i], NULL, 16);

			print_bytes(im, address, strtoull(argv[++i], NULL, 10));
		} else if (!strcmp(argv[i], "symbol") && i + 1 < argc) {
			print_symbol(im, argv[++i]);
		} else if (!strcmp(argv[i], "there")) {
			int code = mt_image_is_there(im, &err);

			printf("there %d %s\n", code, code ? err.text : "");
		} else if (!strcmp(argv[i], "registers")) {
			print_registers(im);
		} else if (!strcmp(argv[i], "cost")) {
			struct mt_copy_cost c = {0};

			mt_copy_cost_count(&c, mt_image_facts(im));
			printf("cost %d %" PRIu64 " %" PRIu64 "\n", c.is_known, c.copied_bytes,
			       c.kept_bytes);
		} else if (!strcmp(argv[i], "sum")) {
			print_sum(im);
		}
	}
	print_facts(im);
	mt_image_close(im);
	return 0;
}
