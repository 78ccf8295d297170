/* SPDX-License-Identifier: MIT */
/* The text dump of check mode; see heap_dump.h. */
#include "runtime/heap_dump.h"

#include "core/hash.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/error_text.h"
#include "runtime/frames.h"
#include "runtime/lock.h"
#include "runtime/log.h"
#include "runtime/text_file.h"

enum {
	FRAMES_MAX = 256,
	LINE_BYTES = 128,
	FRAME_BYTES = 24,
	INFO_BYTES = 5120, /* a path and a name at their longest */
	SIZE_COLUMNS = 8,
	DUMP_MODE = 0600,
};

static struct mt_text_file out; /* guarded by dump_lock */
static uint32_t dump_lock;

void mt_heap_dump_forget(void)
{
	dump_lock = 0;
}

/* --- records ------------------------------------------------------------------------------- */

/* What is seen of a stack; trees may hold more of it than the options ask for. */
static uint64_t stack_hash(const struct mt_leak *l)
{
	const struct mt_state_node *frame[FRAMES_MAX];
	uint32_t n = mt_frame_chain(l->node, frame, MT_MIN(l->frames, (uint32_t)FRAMES_MAX));
	uint64_t h = n;
	for (uint32_t i = 0; i < n; i++)
		h = mt_hash_bytes(&frame[i]->pc, sizeof(frame[i]->pc), h);
	return h;
}

static int is_same(const struct mt_leak *a, const struct mt_leak *b)
{
	return a->size == b->size && a->frames == b->frames && a->place == b->place;
}

int mt_heap_records_make(int at_exit, struct mt_leak_list *ret_records)
{
	uint64_t made = 0, n;
	int err = mt_leak_list_make(at_exit, ret_records);
	if (err)
		return err;
	struct mt_leak *l = ret_records->leak;
	for (uint64_t i = 0; i < ret_records->count; i++)
		l[i].place = stack_hash(&l[i]);
	mt_leak_sort(l, ret_records->count);
	for (uint64_t i = 0; i < ret_records->count; i += n) {
		struct mt_leak first = l[i];
		for (n = 1; i + n < ret_records->count && is_same(&first, &l[i + n]);)
			n++;
		first.place = n;
		l[made++] = first;
	}
	ret_records->count = made;
	return 0;
}

/* --- text ---------------------------------------------------------------------------------- */

static void put_line_of(const char *before, uint64_t number)
{
	struct mt_fmt *f = mt_text_file_room(&out, LINE_BYTES);
	mt_fmt_str(f, before);
	mt_fmt_u64(f, number);
	mt_fmt_str(f, "\n");
}

static void put_head(const struct mt_leak_list *records)
{
	uint64_t total = 0;
	for (uint64_t i = 0; i < records->count; i++)
		total += records->leak[i].size * records->leak[i].place;
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES),
		   "Android Native Heap Dump v1.2\n\nBuild fingerprint: 'unknown'\n\n");
	put_line_of("Total memory: ", total);
	put_line_of("Allocation records: ", records->count);
	put_line_of("Backtrace size: ", mt_check.options.frames);
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "\n");
}

static void put_size(struct mt_fmt *f, uint64_t size)
{
	int digits = 1;
	for (uint64_t v = size; v >= 10; v /= 10)
		digits++;
	for (; digits < SIZE_COLUMNS; digits++)
		mt_fmt_str(f, " ");
	mt_fmt_u64(f, size);
}

static void put_info(const struct mt_state_node *node, struct mt_frame_memo *memo)
{
	struct mt_frame_place place = mt_frame_find(node, memo);
	struct mt_fmt *f = mt_text_file_room(&out, INFO_BYTES);
	mt_fmt_str(f, " {\"");
	mt_fmt_str(f, place.module ? place.module : place.file ? place.file : "");
	mt_fmt_str(f, "\" ");
	mt_fmt_hex(f, place.relative, 1);
	mt_fmt_str(f, " \"");
	if (place.function)
		mt_frame_put_function(f, &place);
	mt_fmt_str(f, "\" ");
	mt_fmt_hex(f, place.function ? place.offset : 0, 1);
	mt_fmt_str(f, "}");
}

static void put_record(const struct mt_leak *l, struct mt_frame_memo *memo)
{
	const struct mt_state_node *frame[FRAMES_MAX];
	uint32_t n = mt_frame_chain(l->node, frame, MT_MIN(l->frames, (uint32_t)FRAMES_MAX));
	struct mt_fmt *f = mt_text_file_room(&out, LINE_BYTES);
	mt_fmt_str(f, "z 0  sz ");
	put_size(f, l->size);
	mt_fmt_str(f, "  num    ");
	mt_fmt_u64(f, l->place);
	mt_fmt_str(f, "  bt");
	for (uint32_t i = 0; i < n; i++) {
		f = mt_text_file_room(&out, FRAME_BYTES);
		mt_fmt_str(f, " ");
		mt_fmt_hex(f, mt_frame_pc(frame[i]), 1);
	}
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "\n");
	if (!n || !(mt_check.options.flags & MT_CHECK_BACKTRACE_FULL))
		return;
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "  bt_info");
	for (uint32_t i = 0; i < n; i++)
		put_info(frame[i], memo);
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "\n");
}

static void put_all(const struct mt_leak_list *records)
{
	struct mt_frame_memo *memo = NULL;
	long at = -1;
	if (mt_check.options.flags & MT_CHECK_BACKTRACE_FULL)
		at = mt_sys_mmap(NULL, sizeof(*memo), MT_PROT_READ | MT_PROT_WRITE,
				 MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	if (!mt_sys_is_error(at))
		memo = (struct mt_frame_memo *)at;
	put_head(records);
	for (uint64_t i = 0; i < records->count && !out.err; i++)
		put_record(&records->leak[i], memo);
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "MAPS\n");
	if (mt_text_file_copy(&out, "/proc/self/maps"))
		mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "Could not open /proc/self/maps\n");
	mt_fmt_str(mt_text_file_room(&out, LINE_BYTES), "END\n");
	if (memo)
		mt_sys_munmap(memo, sizeof(*memo));
}

/* --- files --------------------------------------------------------------------------------- */

static void say(const char *before, const char *name, int err, const char *after)
{
	char text[MT_CHECK_PATH_MAX + 128];
	struct mt_fmt f;
	mt_fmt_init(&f, text, sizeof(text));
	mt_fmt_str(&f, before);
	mt_fmt_str(&f, name);
	if (err) {
		mt_fmt_str(&f, ": ");
		mt_error_text(&f, err);
	}
	mt_fmt_str(&f, after);
	mt_log(MT_LOG_ERROR, text);
}

static void dump_to_file(int at_exit)
{
	char name[MT_CHECK_PATH_MAX + 32];
	struct mt_leak_list records;
	struct mt_fmt f;
	mt_fmt_init(&f, name, sizeof(name));
	mt_fmt_str(&f, mt_check.options.dump_prefix);
	mt_fmt_str(&f, ".");
	mt_fmt_u64(&f, (uint64_t)mt_sys_getpid());
	mt_fmt_str(&f, at_exit ? ".exit.txt" : ".txt");
	int err = mt_heap_records_make(at_exit, &records);
	if (err) {
		say("Unable to list the live blocks for ", name, err, "");
		return;
	}
	if (mt_text_file_open(&out, name, MT_O_RDWR, DUMP_MODE)) {
		say("Unable to create file: ", name, 0, "");
	} else {
		say("Dumping to file: ", name, 0, "\n");
		put_all(&records);
		err = mt_text_file_close(&out);
		if (err)
			say("Unable to write file: ", name, err, "");
	}
	mt_leak_list_done(&records);
}

/* Who comes while another dump is written goes without one. */
void mt_heap_dump_on_signal(void)
{
	if (!mt_lock(&dump_lock))
		return;
	dump_to_file(/* at_exit */ 0);
	mt_unlock(&dump_lock);
}

void mt_heap_dump_on_exit(void)
{
	if (!mt_lock(&dump_lock))
		return;
	dump_to_file(/* at_exit */ 1);
	mt_unlock(&dump_lock);
}

int mt_heap_dump_to(int fd)
{
	struct mt_leak_list records;
	if (!mt_lock(&dump_lock))
		return -MT_EBUSY;
	int err = mt_heap_records_make(/* at_exit */ 0, &records);
	if (!err) {
		mt_text_file_use(&out, fd);
		put_all(&records);
		err = mt_text_file_leave(&out);
		mt_leak_list_done(&records);
	}
	mt_unlock(&dump_lock);
	return err;
}
