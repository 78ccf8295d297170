/* SPDX-License-Identifier: MIT */
/*
 * The file stays open, so that a later process with the same number is never taken for this one.
 * Readings are at fixed times after the first one; one that comes late does not move the others.
 */

#include "cli/meminfo_watch.h"

#include "base/escape.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/any_process.h"
#include "cli/load.h"
#include "core/clock.h"
#include "report/meminfo.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SPARK = 32, TEXT_MAX = 65536 };
#define SECOND_NS 1000000000ull

struct watch {
	const struct mt_meminfo_watch *w;
	struct mt_smaps_sum first, last, now;
	uint64_t low, high; /* Pss */
	uint64_t begin_ns, now_ns;
	uint64_t count;
	uint64_t recent[SPARK]; /* Pss of the last readings, a ring */
	char name[256];
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = 1;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* 0; -ESRCH: it has ended. */
static int read_sum(int fd, struct mt_smaps_sum *ret, struct mt_err *err)
{
	mt_auto(mt_smaps) struct mt_smaps s = {0};
	mt_auto(free) char *text = NULL;
	size_t len;
	int code;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return mt_err_set_errno(err, errno, "cannot read smaps_rollup");
	code = mt_file_read_fd(fd, "smaps_rollup", TEXT_MAX, &text, &len, err);
	if (!code && !len)
		return -ESRCH;
	if (!code) {
		code = mt_smaps_parse(text, len, "smaps_rollup", &s, err);
		text = NULL;
	}
	if (!code)
		mt_smaps_total(&s, ret);
	return code;
}

/* ---- lines ---- */

static void put_spark(const struct watch *c, bool is_utf8)
{
	uint64_t count = MT_MIN(c->count, (uint64_t)SPARK), low = UINT64_MAX, high = 0;

	for (uint64_t i = 0; i < count; i++) {
		low = MT_MIN(low, c->recent[i]);
		high = MT_MAX(high, c->recent[i]);
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t value = c->recent[(c->count - count + i) % SPARK];
		unsigned level =
			high > low
				? (unsigned)((double)(value - low) / (double)(high - low) * 7.999)
				: 0;

		fputs(mt_meminfo_spark(level, is_utf8), stdout);
	}
}

static void put_text(const struct watch *c)
{
	static const enum mt_account_column said[] = {MT_ACCOUNT_PSS, MT_ACCOUNT_RSS,
						      MT_ACCOUNT_USS, MT_ACCOUNT_SWAP};
	enum mt_spark spark = mt_load_spark(stdout);
	char text[MT_UNITS_TEXT_MAX];

	if (c->count == 1)
		printf("%10s  %10s  %10s  %10s  %10s  %10s\n", "time", "Pss", "+/-", "Rss", "Uss",
		       "swap");
	printf("%8.1f s", (double)((c->now_ns - c->begin_ns) / 1000000) / 1000);
	for (size_t i = 0; i < MT_ARRAY_LEN(said); i++) {
		if (mt_account_has(&c->now, said[i]))
			printf("  %10s", mt_units_size(mt_account_value(&c->now, said[i]), text));
		else
			printf("  %10s", "-");
		if (said[i] == MT_ACCOUNT_PSS)
			printf("  %10s",
			       mt_units_size_signed((int64_t)(c->now.bytes[MT_SMAPS_PSS] -
							      c->last.bytes[MT_SMAPS_PSS]),
						    text));
	}
	if (spark) {
		fputs("  ", stdout);
		put_spark(c, spark == MT_SPARK_UTF8);
	}
	putchar('\n');
}

/* One object a line: a reader needs not wait for the end. */
static void put_json(const struct watch *c)
{
	printf("{\"schema\": \"" MT_MEMINFO_SCHEMA
	       "\", \"show\": \"reading\", \"pid\": %d, \"elapsed_ns\": %" PRIu64,
	       (int)c->w->pid, c->now_ns - c->begin_ns);
	for (int i = MT_ACCOUNT_RSS; i <= MT_ACCOUNT_SWAP; i++)
		if (mt_account_has(&c->now, (enum mt_account_column)i))
			printf(", \"%s_bytes\": %" PRIu64,
			       mt_account_column_name((enum mt_account_column)i),
			       mt_account_value(&c->now, (enum mt_account_column)i));
	puts("}");
}

static void put_csv(const struct watch *c)
{
	if (c->count == 1) {
		printf("pid,elapsed_ns");
		for (int i = MT_ACCOUNT_RSS; i <= MT_ACCOUNT_SWAP; i++)
			printf(",%s_bytes", mt_account_column_name((enum mt_account_column)i));
		putchar('\n');
	}
	printf("%d,%" PRIu64, (int)c->w->pid, c->now_ns - c->begin_ns);
	for (int i = MT_ACCOUNT_RSS; i <= MT_ACCOUNT_SWAP; i++) {
		putchar(',');
		if (mt_account_has(&c->now, (enum mt_account_column)i))
			printf("%" PRIu64, mt_account_value(&c->now, (enum mt_account_column)i));
	}
	putchar('\n');
}

static void put_verdict(const struct watch *c, bool has_ended)
{
	uint64_t pss = c->now.bytes[MT_SMAPS_PSS];
	int64_t change = (int64_t)(pss - c->first.bytes[MT_SMAPS_PSS]);
	char text[MT_UNITS_TEXT_MAX];
	mt_auto(mt_buf) struct mt_buf name = {0};

	mt_escape(&name, c->name);
	printf("process %d (%s)%s: Pss went from %s", (int)c->w->pid, mt_buf_text(&name),
	       has_ended ? " has ended" : "", mt_units_size(c->first.bytes[MT_SMAPS_PSS], text));
	printf(" to %s", mt_units_size(pss, text));
	printf(" (%s)", mt_units_size_signed(change, text));
	printf(" in %s, lowest ", mt_units_time(c->now_ns - c->begin_ns, text));
	printf("%s, highest ", mt_units_size(c->low, text));
	printf("%s  ", mt_units_size(c->high, text));
	put_spark(c, mt_load_spark(stdout) == MT_SPARK_UTF8);
	putchar('\n');
}

/* ---- the loop ---- */

static void take(struct watch *c)
{
	uint64_t pss = c->now.bytes[MT_SMAPS_PSS];

	if (!c->count) {
		c->first = c->last = c->now;
		c->begin_ns = c->now_ns;
		c->low = c->high = pss;
	}
	c->low = MT_MIN(c->low, pss);
	c->high = MT_MAX(c->high, pss);
	c->recent[c->count++ % SPARK] = pss;
}

static void put(const struct watch *c)
{
	if (c->w->format == MT_MAPS_JSON)
		put_json(c);
	else if (c->w->format == MT_MAPS_CSV)
		put_csv(c);
	else
		put_text(c);
	fflush(stdout);
}

static void wait_until(uint64_t ns)
{
	struct timespec t = {(time_t)(ns / SECOND_NS), (long)(ns % SECOND_NS)};

	while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

static int watch(struct watch *c, int fd, struct mt_err *err)
{
	uint64_t due = now_ns();
	struct mt_smaps_sum sum;
	int code = 0;

	while (!stopped && (!c->w->readings || c->count < c->w->readings) && !ferror(stdout)) {
		wait_until(due);
		if (stopped)
			break;
		code = read_sum(fd, &sum, err);
		if (code)
			break;
		c->now = sum;
		c->now_ns = now_ns();
		take(c);
		put(c);
		c->last = c->now;
		due += c->w->every_ns;
		if (due < c->now_ns)
			due += (c->now_ns - due) / c->w->every_ns * c->w->every_ns;
	}
	if (!c->count || (code && code != -ESRCH))
		return code;
	if (c->w->format == MT_MAPS_TEXT)
		put_verdict(c, code == -ESRCH);
	return 0;
}

int mt_meminfo_watch(const struct mt_meminfo_watch *w, struct mt_err *err)
{
	struct sigaction sa = {.sa_handler = stop};
	struct watch c = {.w = w};
	mt_auto(free) char *text = NULL;
	mt_auto(close) int fd = -1;
	char path[64];
	size_t len;
	int code;

	/* says what is wrong, if something is */
	code = mt_smaps_text(w->pid, MT_SMAPS_ROLLUP, &text, &len, err);
	if (code)
		return code;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)w->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", path);
	mt_any_process_name(w->pid, c.name, sizeof(c.name));
	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	return watch(&c, fd, err);
}
