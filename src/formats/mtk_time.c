/* SPDX-License-Identifier: MIT */
/*
 * Time in state files. The target stores raw counter values only; the rate is found here. A unit is
 * between half a millisecond and some milliseconds, so 32 bits last for weeks and are then
 * continued by the 64-bit header.now_unit.
 */
#include "formats/mtk_time.h"

#include <string.h>

#include "base/file.h"
#include "core/clock.h"
#include "core/sys.h"

enum { SHIFT_ASSUMED = 21, SHIFT_MAX = 40, MARK_SHORT_NS = 1000000000 };

#if defined(__x86_64__)
enum { OWN_ARCH = MT_ARCH_X86_64 };
#else
enum { OWN_ARCH = MT_ARCH_AARCH64 };
#endif

uint64_t mt_mtk_time_mono_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "xxxxxxxx-xxxx-..." to 16 bytes; false when it is something else. */
static bool parse_uuid(const char *text, uint8_t *id)
{
	unsigned digits = 0;
	for (; *text && *text != '\n' && digits < 32; text++) {
		if (*text == '-')
			continue;
		int d = hex_digit(*text);
		if (d < 0)
			return false;
		id[digits / 2] = (uint8_t)(digits % 2 ? id[digits / 2] | d : d << 4);
		digits++;
	}
	return digits == 32;
}

bool mt_mtk_time_is_own(const struct mt_state_header *h)
{
	static const uint8_t unknown[16];
	uint8_t own[16] = {0};
	mt_auto(free) char *text = NULL;
	size_t len;
	if (h->arch != OWN_ARCH || !memcmp(h->boot_id, unknown, sizeof(unknown)))
		return false;
	if (mt_file_read("/proc/sys/kernel/random/boot_id", 256, &text, &len, NULL))
		return false;
	return parse_uuid(text, own) && !memcmp(own, h->boot_id, sizeof(own));
}

/* Counters run at 1 MHz to 100 GHz; anything else is no pair of readings. */
static bool plausible(uint64_t ns, uint64_t ticks)
{
	return ns && ticks && ticks / 100 <= ns && ns / 1000 <= ticks;
}

static bool take_pair(struct mt_mtk_time *t, const struct mt_state_header *h, uint64_t mono_ns,
		      uint64_t ticks)
{
	if (mono_ns <= h->mono_start_ns || ticks <= h->tick_start ||
	    !plausible(mono_ns - h->mono_start_ns, ticks - h->tick_start))
		return false;
	t->clock.mono_delta_ns = mono_ns - h->mono_start_ns;
	t->clock.tick_delta = ticks - h->tick_start;
	return true;
}

/*
 * Whether the pair is of the first moments of a process that ran on: what it was late by would be
 * multiplied. Else it stays, so that every reading of a file tells the same times.
 */
static bool is_early(const struct mt_mtk_time *t, const struct mt_state_header *h)
{
	return t->mark_ns < MARK_SHORT_NS &&
	       h->now_unit >> 1 > t->clock.tick_delta >> t->clock.unit_shift;
}

void mt_mtk_time_init(struct mt_mtk_time *t, const struct mt_state_header *h, bool own_machine)
{
	*t = (struct mt_mtk_time){.clock = {.now_unit = h->now_unit, .unit_shift = h->unit_shift}};
	if (t->clock.unit_shift > SHIFT_MAX) {
		t->clock.unit_shift = SHIFT_ASSUMED;
		t->damaged = true;
	}
	if (h->tick_mark) {
		if (take_pair(t, h, h->mono_mark_ns, h->tick_mark)) {
			t->mark_ns = t->clock.mono_delta_ns;
			if (own_machine && is_early(t, h))
				take_pair(t, h, mt_mtk_time_mono_ns(), mt_clock_ticks());
			return;
		}
		t->damaged = true;
	}
	if (own_machine && take_pair(t, h, mt_mtk_time_mono_ns(), mt_clock_ticks()))
		return;
	/* a unit is about a millisecond on every machine: see mt_clock_unit_shift() */
	t->estimated = true;
	t->clock.mono_delta_ns = 1000000;
	t->clock.tick_delta = 1ull << t->clock.unit_shift;
}
