/* SPDX-License-Identifier: MIT */
/*
 * The file stays open, so that a later process with the same number is never taken for this one.
 * Readings are at fixed times after the first one; one that comes late does not move the others.
 * The kernel walks the page tables for smaps_rollup: where that would take more than half a per
 * cent of a processor, readings between two walks have the counters of status alone, without Pss
 * and Uss.
 */

#include "cli/meminfo_watch.h"

#include "base/escape.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/any_process.h"
#include "cli/load.h"
#include "core/clock.h"
#include "core/sys.h"
#include "report/meminfo.h"
#include "target/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SPARK = 32, TEXT_MAX = 65536 };
enum { REST = 220 }; /* time between two walks, in times of what a walk takes: 0.45 % */
#define SECOND_NS 1000000000ull

struct watch {
	const struct mt_meminfo_watch *w;
	int rollup, status;                   /* descriptors */
	struct mt_smaps_sum first, last, now; /* last: the one before with Pss */
	uint64_t low, high;                   /* Pss */
	uint64_t begin_ns, now_ns, walk_ns;   /* walk: not before then */
	uint64_t count, walks;
	uint64_t recent[SPARK]; /* Pss of the last walks, a ring */
	char name[256];
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	stopped = 1;
}

static uint64_t now_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

/* The text of an open file of /proc; -ESRCH: the process has ended. */
static int read_again(int fd, char **ret_text, size_t *ret_len, struct mt_err *err)
{
	int code;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return mt_err_set_errno(err, errno, "cannot read the process's figures again");
	code = mt_file_read_fd(fd, "smaps_rollup", TEXT_MAX, ret_text, ret_len, err);
	if (!code && !*ret_len) {
		free(*ret_text);
		*ret_text = NULL;
		code = -ESRCH;
	}
	return code;
}

static int read_rollup(struct watch *c, struct mt_smaps_sum *ret, struct mt_err *err)
{
	uint64_t begin = mt_sys_clock_ns(MT_CLOCK_THREAD_CPU);
	struct mt_smaps s;
	char *text;
	size_t len;
	int code = read_again(c->rollup, &text, &len, err);

	if (!code)
		code = mt_smaps_parse(text, len, "smaps_rollup", &s, err);
	if (code)
		return code;
	mt_smaps_total(&s, ret);
	mt_smaps_done(&s);
	c->walk_ns = now_ns() + (mt_sys_clock_ns(MT_CLOCK_THREAD_CPU) - begin) * REST;
	return 0;
}

static int read_status(struct watch *c, struct mt_smaps_sum *ret, struct mt_err *err)
{
	mt_auto(free) char *text = NULL;
	struct mt_status st;
	size_t len;
	int code = read_again(c->status, &text, &len, err);

	if (code)
		return code;
	mt_status_parse(text, &st);
	if (st.bytes[MT_STATUS_RSS] == MT_MEMORY_UNKNOWN)
		return -ESRCH; /* a zombie */
	mt_usage_of_status(&st, ret);
	return 0;
}

/* ---- lines ---- */

static void put_spark(const struct watch *c, bool is_utf8)
{
	uint64_t count = MT_MIN(c->walks, (uint64_t)SPARK), low = UINT64_MAX, high = 0;

	for (uint64_t i = 0; i < count; i++) {
		low = MT_MIN(low, c->recent[i]);
		high = MT_MAX(high, c->recent[i]);
	}
	for (uint64_t i = 0; i < count; i++) {
		uint64_t value = c->recent[(c->walks - count + i) % SPARK];
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
		if (said[i] == MT_ACCOUNT_PSS && !mt_smaps_has(&c->now, MT_SMAPS_PSS))
			printf("  %10s", "-");
		else if (said[i] == MT_ACCOUNT_PSS)
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
	uint64_t pss = c->last.bytes[MT_SMAPS_PSS];
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

	if (!c->count++) {
		c->first = c->last = c->now;
		c->begin_ns = c->now_ns;
		c->low = c->high = pss;
	}
	if (!mt_smaps_has(&c->now, MT_SMAPS_PSS))
		return;
	c->low = MT_MIN(c->low, pss);
	c->high = MT_MAX(c->high, pss);
	c->recent[c->walks++ % SPARK] = pss;
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

/* One reading, shown. */
static int step(struct watch *c, struct mt_err *err)
{
	struct mt_smaps_sum sum;
	int code = c->count && now_ns() < c->walk_ns ? read_status(c, &sum, err)
						     : read_rollup(c, &sum, err);

	if (code)
		return code;
	c->now = sum;
	c->now_ns = now_ns();
	take(c);
	put(c);
	if (mt_smaps_has(&sum, MT_SMAPS_PSS))
		c->last = sum;
	return 0;
}

static int watch(struct watch *c, struct mt_err *err)
{
	uint64_t due = now_ns();
	int code = 0;

	while (!stopped && (!c->w->readings || c->count < c->w->readings) && !ferror(stdout)) {
		wait_until(due);
		if (stopped)
			break;
		code = step(c, err);
		if (code)
			break;
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

static int open_file(pid_t pid, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

/* Fills *err with the reason why a process cannot be watched. */
static int explain(pid_t pid, struct mt_err *err)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	int code = mt_smaps_text(pid, MT_SMAPS_ROLLUP, &text, &len, err);

	return code ? code : mt_err_set(err, -ESRCH, "process %d has just ended", (int)pid);
}

int mt_meminfo_watch(const struct mt_meminfo_watch *w, struct mt_err *err)
{
	struct sigaction sa = {.sa_handler = stop};
	mt_auto(close) int rollup = open_file(w->pid, "smaps_rollup");
	mt_auto(close) int status = open_file(w->pid, "status");
	struct watch c = {.w = w, .rollup = rollup, .status = status};
	int code = -ESRCH;

	if (rollup >= 0 && status >= 0) {
		mt_any_process_name(w->pid, c.name, sizeof(c.name));
		sigaction(SIGINT, &sa, NULL);
		sigaction(SIGTERM, &sa, NULL);
		code = watch(&c, err);
	}
	return code == -ESRCH ? explain(w->pid, err) : code;
}
