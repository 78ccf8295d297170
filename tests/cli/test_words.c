/* SPDX-License-Identifier: MIT */
/* Words for numbers of the state file: analysis may not see wire/, so the pairs are checked here.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "analysis/names.h"
#include "analysis/table.h"
#include "core/cc.h"
#include "model/profile.h"
#include "wire/state.h"

_Static_assert((int)MT_HIST_BUCKETS == (int)MT_SIZE_BUCKETS, "size buckets");
_Static_assert((int)MT_LIFE_HIST_BUCKETS == (int)MT_LIFE_BUCKETS, "lifetime buckets");

static void calls_have_their_names(void **state)
{
	assert_string_equal(mt_words_call(MT_CALL_MALLOC), "malloc");
	assert_string_equal(mt_words_call(MT_CALL_CALLOC), "calloc");
	assert_string_equal(mt_words_call(MT_CALL_REALLOC), "realloc");
	assert_string_equal(mt_words_call(MT_CALL_ALIGNED), "aligned allocation");
	assert_string_equal(mt_words_call(MT_CALL_NEW), "operator new");
	assert_string_equal(mt_words_call(MT_CALL_NEW_ARRAY), "operator new[]");
	assert_string_equal(mt_words_call(MT_CALL_MMAP), "mmap");
	assert_string_equal(mt_words_call(MT_CALL_MREMAP), "mremap");
	assert_string_equal(mt_words_call(MT_CALL_SBRK), "sbrk");
	assert_string_equal(mt_words_call(MT_CALL_CUSTOM), "custom heap");
	assert_string_equal(mt_words_call(MT_CALL_STRDUP), "strdup");
	assert_string_equal(mt_words_call(200), "allocation");
}

static void modes_have_their_names(void **state)
{
	assert_string_equal(mt_words_mode(MT_MODE_FULL), "full");
	assert_string_equal(mt_words_mode(MT_MODE_OFF), "off");
	assert_string_equal(mt_words_mode(MT_MODE_STATS), "stats");
	assert_string_equal(mt_words_mode(MT_MODE_SAMPLE), "sample");
	assert_string_equal(mt_words_mode(MT_MODE_RECORD), "record");
	assert_string_equal(mt_words_mode(99), "unknown");
}

static void losses_have_their_sentences(void **state)
{
	assert_non_null(strstr(mt_words_lost(MT_LOST_NESTED), "at work in the same thread"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_LIVE_FULL), "block table full"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_SITE_FULL), "site table full"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_THREAD_FULL), "thread table full"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_STORAGE), "no storage"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_MAPPING_FULL), "mapping table full"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_CHILD), "child"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_LOCK), "lock"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_MODULE_FULL), "module table full"));
	assert_non_null(
		strstr(mt_words_lost(MT_LOST_BEFORE_START), "before the tracker was ready"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_HIST_FULL), "histograms"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_UNSEEN_FREE), "freed out of sight"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_JUMP), "jumped"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_LABEL_FULL), "label table full"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_STRING_FULL), "name table full"));
	assert_non_null(strstr(mt_words_lost(MT_LOST_HEAP_FULL), "heap table full"));
	assert_non_null(mt_words_lost(15));
}

/* The compiler refuses a new kind of loss or note that is not listed here (-Wswitch). */
static bool is_kind_of_loss(enum mt_state_lost kind)
{
	switch (kind) {
	case MT_LOST_NESTED:
	case MT_LOST_LIVE_FULL:
	case MT_LOST_SITE_FULL:
	case MT_LOST_THREAD_FULL:
	case MT_LOST_STORAGE:
	case MT_LOST_MAPPING_FULL:
	case MT_LOST_CHILD:
	case MT_LOST_LOCK:
	case MT_LOST_MODULE_FULL:
	case MT_LOST_BEFORE_START:
	case MT_LOST_HIST_FULL:
	case MT_LOST_UNSEEN_FREE:
	case MT_LOST_JUMP:
	case MT_LOST_LABEL_FULL:
	case MT_LOST_STRING_FULL:
	case MT_LOST_HEAP_FULL:
		return true;
	}
	return false;
}

static bool is_note(enum mt_state_notes note)
{
	switch (note) {
	case MT_NOTE_STORAGE_ENDED:
	case MT_NOTE_PROVIDER_IN_PROGRAM:
	case MT_NOTE_NO_WIPEONFORK:
	case MT_NOTE_NO_NOTIFIER:
	case MT_NOTE_PEAK_BOUNDED:
	case MT_NOTE_REDUCED_BY_LIMIT:
	case MT_NOTE_FORK_CHILD:
	case MT_NOTE_LIMIT_REACHED:
	case MT_NOTE_STATS_GAP:
	case MT_NOTE_NO_SIZES:
	case MT_NOTE_NO_GUARD:
		return true;
	}
	return false;
}

static void every_kind_of_loss_and_every_note_has_a_sentence_of_its_own(void **state)
{
	const char *unknown = mt_words_lost(UINT32_MAX);
	const struct mt_state_header h = {0};

	for (uint32_t i = 0; i < MT_ARRAY_LEN(h.lost); i++) {
		if (is_kind_of_loss((enum mt_state_lost)i))
			assert_string_not_equal(mt_words_lost(i), unknown);
		else
			assert_string_equal(mt_words_lost(i), unknown);
		for (uint32_t k = 0; k < i && is_kind_of_loss((enum mt_state_lost)i); k++)
			assert_string_not_equal(mt_words_lost(i), mt_words_lost(k));
	}
	for (uint32_t bit = 0; bit < 32; bit++)
		assert_true(is_note((enum mt_state_notes)(1u << bit)) ==
			    (mt_words_note(bit) != NULL));
}

static const char *note(uint64_t bit)
{
	return mt_words_note((uint32_t)__builtin_ctzll(bit));
}

static void notes_have_their_sentences(void **state)
{
	assert_non_null(strstr(note(MT_NOTE_STORAGE_ENDED), "no storage"));
	assert_non_null(strstr(note(MT_NOTE_PROVIDER_IN_PROGRAM), "own malloc"));
	assert_non_null(strstr(note(MT_NOTE_NO_NOTIFIER), "noticed late"));
	assert_non_null(strstr(note(MT_NOTE_REDUCED_BY_LIMIT), "resource limit"));
	assert_non_null(strstr(note(MT_NOTE_FORK_CHILD), "fork"));
	assert_non_null(strstr(note(MT_NOTE_LIMIT_REACHED), "--max-overhead"));
	assert_non_null(strstr(note(MT_NOTE_STATS_GAP), "counting was off"));
	assert_non_null(strstr(note(MT_NOTE_NO_SIZES), "usable sizes"));
	assert_non_null(strstr(note(MT_NOTE_PEAK_BOUNDED), "within a bound"));
	assert_non_null(strstr(note(MT_NOTE_NO_WIPEONFORK), "comparing process ids"));
	assert_null(mt_words_note(63));
	assert_true(mt_words_note_is_warning(0));
	assert_true(mt_words_note_is_warning(6));
	assert_false(mt_words_note_is_warning(2));
	assert_false(mt_words_note_is_warning(4));
	assert_false(mt_words_note_is_warning(63));
}

static void ends_have_their_sentences(void **state)
{
	char text[128];

	assert_string_equal(mt_words_end(MT_END_RUNNING, 0, text, sizeof(text)), "is running");
	assert_string_equal(mt_words_end(MT_END_EXITED, 3, text, sizeof(text)),
			    "exited with status 3");
	assert_string_equal(mt_words_end(MT_END_SIGNALED, SIGSEGV, text, sizeof(text)),
			    "was killed by signal 11 (SIGSEGV)");
	assert_string_equal(mt_words_end(MT_END_SIGNALED, 99, text, sizeof(text)),
			    "was killed by signal 99");
	assert_string_equal(mt_words_end(MT_END_EXEC, 0, text, sizeof(text)),
			    "became another program (exec)");
	assert_string_equal(mt_words_end(MT_END_UNKNOWN, 0, text, sizeof(text)),
			    "ended, nobody saw how");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_have_their_names),
		cmocka_unit_test(modes_have_their_names),
		cmocka_unit_test(losses_have_their_sentences),
		cmocka_unit_test(every_kind_of_loss_and_every_note_has_a_sentence_of_its_own),
		cmocka_unit_test(notes_have_their_sentences),
		cmocka_unit_test(ends_have_their_sentences),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
