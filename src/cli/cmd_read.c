/* SPDX-License-Identifier: MIT */
/* memtrack read: bytes of a process or core file, and what the addresses among them point to. */

#include "cli/any_process.h"
#include "cli/commands.h"
#include "cli/find.h"
#include "cli/output.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/path.h"
#include "base/search.h"
#include "base/units.h"
#include "core/cc.h"
#include "formats/mtk_read.h"
#include "target/image.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_BYTES = 16, WORD_BYTES = 8, BYTES_AT_ONCE = 65536, DEFAULT_BYTES = 256 };

#define RAW_BYTES_MAX ((uint64_t)256 << 30)

struct read_options {
	const char *output;
	int source; /* enum mt_image_source */
};

static const struct read_options defaults;

static const struct mt_option options[] = {
	{.letter = 'o',
	 .name = "output",
	 .argument = "RAWFILE",
	 .kind = MT_OPTION_TEXT,
	 .offset = offsetof(struct read_options, output),
	 .help = "write the bytes themselves to RAWFILE; those that cannot be read are zeros "
		 "there, which is told"},
	{.name = "stop",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct read_options, source),
	 .set_value = MT_IMAGE_STOPPED,
	 .help = "stop the process meanwhile, so that all bytes are of one moment"},
	{.name = "copy",
	 .kind = MT_OPTION_SET,
	 .offset = offsetof(struct read_options, source),
	 .set_value = MT_IMAGE_COPY,
	 .help = "stop it for a moment only, to make a copy, and read that"},
	{0},
};

/* ---- what is looked at ---- */

struct tracked_block {
	uint64_t address, bytes;
	uint32_t cell;
};

struct reading {
	struct mt_image *image;      /* owned */
	struct mt_profile *profile;  /* owned; NULL: not tracked */
	struct tracked_block *block; /* owned; sorted by address */
	size_t block_count;
	uint64_t start, end;
	const struct mt_mapping *shown; /* whose head was written last */
	uint64_t unreadable_bytes, read_bytes;
};

static void reading_done(struct reading *r)
{
	mt_image_close(r->image);
	mt_profile_free(r->profile);
	free(r->block);
}
MT_AUTO_DEFINE_INPLACE(reading, struct reading, reading_done)

static int compare_blocks(const void *va, const void *vb)
{
	const struct tracked_block *a = va, *b = vb;

	return a->address < b->address ? -1 : a->address > b->address;
}

/* The live blocks of a process that is tracked; without them there is less to say. */
static int find_blocks(struct reading *r, pid_t pid, struct mt_err *err)
{
	char operand[16];
	mt_auto(free) char *path = NULL;

	snprintf(operand, sizeof(operand), "%d", (int)pid);
	path = mt_find_file(operand, NULL);
	if (!path || mt_mtk_read_addresses(path, &r->profile, NULL))
		return 0;
	if (r->profile->pid != pid || !r->profile->block_address)
		return 0;
	r->block = mt_alloc_zero((size_t)r->profile->blocks + 1, sizeof(*r->block));
	if (!r->block)
		return mt_err_no_memory(err);
	for (uint64_t i = 0; i < r->profile->blocks; i++)
		r->block[i] = (struct tracked_block){r->profile->block_address[i],
						     r->profile->block[i].size,
						     r->profile->block[i].cell};
	r->block_count = (size_t)r->profile->blocks;
	if (r->block_count)
		qsort(r->block, r->block_count, sizeof(*r->block), compare_blocks);
	return 0;
}

static const struct tracked_block *block_at(const struct reading *r, uint64_t address)
{
	size_t a = MT_SEARCH_UP_TO(r->block, r->block_count, address, address);

	if (!a)
		return NULL;
	return address - r->block[a - 1].address < MT_MAX(r->block[a - 1].bytes, (uint64_t)1)
		       ? &r->block[a - 1]
		       : NULL;
}

/* "ADDRESS", "ADDRESS..END" or "ADDRESS+LENGTH". */
static int parse_range(const char *text, struct reading *r, struct mt_err *err)
{
	char *end;
	uint64_t bytes = DEFAULT_BYTES;

	errno = 0;
	r->start = strtoull(text, &end, 16);
	if (errno || end == text || *text == '-' || *text == '+')
		return mt_err_set(err, -EINVAL, "'%s' is no address: hexadecimal digits are", text);
	if (!strncmp(end, "..", 2)) {
		char *rest;

		r->end = strtoull(end + 2, &rest, 16);
		if (errno || rest == end + 2 || *rest || r->end <= r->start)
			return mt_err_set(err, -EINVAL,
					  "'%s' is no range: its end is a higher address", text);
		return 0;
	}
	if (*end == '+' && !strncmp(end, "+0x", 3)) {
		bytes = strtoull(end + 3, &end, 16);
		if (errno || *end)
			bytes = 0;
	} else if (*end == '+') {
		if (mt_units_parse_size(end + 1, &bytes))
			bytes = 0;
	} else if (*end) {
		bytes = 0;
	}
	if (!bytes)
		return mt_err_set(err, -EINVAL,
				  "'%s' is no range: ADDRESS, ADDRESS..END or ADDRESS+LENGTH is",
				  text);
	r->end = bytes > UINT64_MAX - r->start ? UINT64_MAX : r->start + bytes;
	return 0;
}

/* ---- what an address is ---- */

static void add_place(struct mt_buf *out, struct mt_image *im, const struct mt_image_module *m,
		      uint64_t address)
{
	uint64_t offset;
	const char *name = mt_image_symbol_at(im, m, address, &offset);

	if (name) {
		mt_escape(out, name);
		if (offset)
			mt_buf_printf(out, "+0x%" PRIx64, offset);
		mt_buf_adds(out, " in ");
		mt_escape(out, mt_path_base(m->path));
	} else {
		mt_escape(out, mt_path_base(m->path));
		mt_buf_printf(out, "+0x%" PRIx64, address - m->bias);
	}
}

/* ", allocated by FUNCTION+0x12 in PROGRAM" */
static void add_site(struct mt_buf *out, struct reading *r, const struct tracked_block *b)
{
	const struct mt_profile *p = r->profile;
	uint32_t site = b->cell ? p->cell[b->cell].site : 0;
	uint64_t pc = site ? p->node[p->site[site].node].pc : 0;
	const struct mt_image_module *m = pc ? mt_image_module_of(r->image, pc - 1) : NULL;

	if (!m)
		return;
	mt_buf_adds(out, ", allocated by ");
	add_place(out, r->image, m, pc);
}

static const struct mt_image_thread *thread_on(struct mt_image *im, const struct mt_mapping *m)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(im, &count);

	for (size_t i = 0; i < count; i++)
		if (t[i].sp >= m->start && t[i].sp < m->end)
			return &t[i];
	return NULL;
}

static void add_flags(struct mt_buf *out, uint32_t flags)
{
	mt_buf_printf(out, "%c%c%c%c", flags & MT_MAPPING_READ ? 'r' : '-',
		      flags & MT_MAPPING_WRITE ? 'w' : '-', flags & MT_MAPPING_EXEC ? 'x' : '-',
		      flags & MT_MAPPING_SHARED ? 's' : 'p');
}

static void add_name(struct mt_buf *out, const struct mt_mapping *m)
{
	if (*m->name)
		mt_escape(out, m->name);
	else
		mt_buf_adds(out, "anonymous memory");
}

/* What an address points to. */
static void add_meaning(struct mt_buf *out, struct reading *r, const struct mt_mapping *m,
			uint64_t address)
{
	const struct mt_image_module *module = mt_image_module_of(r->image, address);
	const struct tracked_block *b = block_at(r, address);
	const struct mt_image_thread *t = thread_on(r->image, m);

	if (b) {
		mt_buf_printf(out, "block of %" PRIu64 " bytes at 0x%" PRIx64, b->bytes,
			      b->address);
		if (address != b->address)
			mt_buf_printf(out, ", +%" PRIu64, address - b->address);
		add_site(out, r, b);
	} else if (module) {
		add_place(out, r->image, module, address);
	} else if (t) {
		mt_buf_printf(out, "stack of thread %d", (int)t->tid);
	} else {
		add_name(out, m);
		mt_buf_addc(out, ' ');
		add_flags(out, m->flags);
	}
}

/* ---- rows ---- */

static void add_head(struct mt_buf *out, struct reading *r, const struct mt_mapping *m,
		     uint64_t address)
{
	mt_buf_printf(out, "%s0x%" PRIx64 "-0x%" PRIx64 " ", r->shown ? "\n" : "", m->start,
		      m->end);
	add_flags(out, m->flags);
	mt_buf_adds(out, " ");
	add_name(out, m);
	if (mt_image_module_of(r->image, address) || block_at(r, address) ||
	    thread_on(r->image, m)) {
		mt_buf_adds(out, ": ");
		add_meaning(out, r, m, address);
	}
	mt_buf_addc(out, '\n');
	r->shown = m;
}

/* The words of a row that are addresses. */
static void add_words(struct mt_buf *out, struct reading *r, uint64_t address, const uint8_t *data,
		      size_t bytes)
{
	for (size_t at = (size_t)(-address % WORD_BYTES); at + WORD_BYTES <= bytes;
	     at += WORD_BYTES) {
		const struct mt_mapping *m;
		uint64_t word;

		memcpy(&word, data + at, sizeof(word));
		m = mt_image_mapping_of(r->image, word);
		if (!m)
			continue;
		mt_buf_printf(out, "%16s0x%016" PRIx64 "  ", "", word);
		add_meaning(out, r, m, word);
		mt_buf_addc(out, '\n');
	}
}

/* Up to ROW_BYTES bytes that do not cross a multiple of that. */
static void add_row(struct mt_buf *out, struct reading *r, uint64_t address, const uint8_t *data,
		    size_t bytes)
{
	size_t before = (size_t)(address % ROW_BYTES);

	mt_buf_printf(out, "%016" PRIx64 " ", address - before);
	for (size_t i = 0; i < ROW_BYTES; i++) {
		if (i % WORD_BYTES == 0)
			mt_buf_addc(out, ' ');
		if (i < before || i >= before + bytes)
			mt_buf_adds(out, "   ");
		else
			mt_buf_printf(out, "%02x ", data[i - before]);
	}
	mt_buf_addc(out, ' ');
	mt_buf_pad(out, ' ', before);
	for (size_t i = 0; i < bytes; i++)
		mt_buf_addc(out, data[i] >= ' ' && data[i] < 0x7f ? (char)data[i] : '.');
	mt_buf_addc(out, '\n');
	add_words(out, r, address, data, bytes);
}

static void add_rows(struct mt_buf *out, struct reading *r, uint64_t address, const uint8_t *data,
		     size_t bytes)
{
	for (size_t at = 0; at < bytes;) {
		size_t n = MT_MIN(bytes - at, ROW_BYTES - (size_t)((address + at) % ROW_BYTES));
		const struct mt_mapping *m = mt_image_mapping_of(r->image, address + at);

		if (m && m != r->shown)
			add_head(out, r, m, address + at);
		add_row(out, r, address + at, data + at, n);
		at += n;
	}
}

/* ---- what cannot be read ---- */

/* Where reading may go on behind an address that cannot be read. */
static uint64_t end_of_gap(const struct reading *r, uint64_t address)
{
	uint64_t page = mt_image_facts(r->image)->page_bytes, end = r->end;
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(r->image, &count);

	for (size_t i = 0; i < count; i++) {
		if (address >= m[i].start && address < m[i].end)
			return MT_MIN(r->end, m[i].in_image ? MT_ALIGN_DOWN(address, page) + page
							    : m[i].end);
		if (m[i].start > address)
			return MT_MIN(end, m[i].start);
	}
	return end;
}

static const char *why_not(const struct reading *r, uint64_t address)
{
	const struct mt_mapping *m = mt_image_mapping_of(r->image, address);
	enum mt_image_source source = mt_image_facts(r->image)->source;

	if (!m)
		return source == MT_IMAGE_CORE ? "not in the core file" : "nothing is mapped there";
	if (!(m->flags & MT_MAPPING_READ))
		return "mapped without the right to read";
	if (source == MT_IMAGE_CORE)
		return "not in the core file, and its file is not here";
	return m->in_image ? "it has no page, as behind the end of a file, or is gone"
			   : "memory of the kernel or of a device, or left out of the copy";
}

static void add_gap(struct mt_buf *out, struct reading *r, uint64_t from, uint64_t to)
{
	const struct mt_mapping *m = mt_image_mapping_of(r->image, from);

	if (m && m != r->shown)
		add_head(out, r, m, from);
	mt_buf_printf(out, "%016" PRIx64 "  %" PRIu64 " bytes cannot be read: %s\n", from,
		      to - from, why_not(r, from));
}

static void pad(struct mt_buf *out, uint64_t bytes)
{
	for (uint64_t n; bytes && !out->failed; bytes -= n) {
		n = MT_MIN(bytes, (uint64_t)BYTES_AT_ONCE);
		mt_buf_pad(out, 0, (size_t)n);
	}
}

/* Bytes or rows, and what is between them. */
static int write_range(struct reading *r, bool is_raw, struct mt_buf *out, struct mt_err *err)
{
	mt_auto(free) uint8_t *data = mt_alloc(BYTES_AT_ONCE);

	if (!data)
		return mt_err_no_memory(err);
	for (uint64_t at = r->start; at < r->end && !out->failed;) {
		size_t want = (size_t)MT_MIN(r->end - at, (uint64_t)BYTES_AT_ONCE);
		size_t n = mt_image_read(r->image, at, data, want);
		uint64_t next = at + n;

		if (n && is_raw)
			mt_buf_add(out, data, n);
		else if (n)
			add_rows(out, r, at, data, n);
		r->read_bytes += n;
		if (n < want) {
			uint64_t from = next;

			next = end_of_gap(r, from);
			if (!is_raw)
				add_gap(out, r, from, next);
			else
				pad(out, next - from);
			r->unreadable_bytes += next - from;
		}
		at = next;
	}
	return out->failed ? mt_err_no_memory(err) : 0;
}

/* ---- the command ---- */

static int open_image(const char *operand, const struct read_options *o, struct reading *r,
		      struct mt_err *err)
{
	pid_t pid;
	int code = mt_any_process(operand, &pid, err);

	if (code < 0)
		return code;
	if (!code && o->source != MT_IMAGE_LIVE)
		return mt_err_set(err, -EINVAL, "'%s' is no process, and cannot be stopped",
				  operand);
	if (!code)
		return mt_image_open_core(operand, &r->image, err);
	code = mt_image_open_process(pid, (enum mt_image_source)o->source, &r->image, err);
	return code ? code : find_blocks(r, pid, err);
}

static void tell(const struct reading *r, const struct read_options *o, const struct mt_err *remark)
{
	const struct mt_image_facts *f = mt_image_facts(r->image);
	char text[MT_UNITS_TEXT_MAX];

	if (*remark->text && f->source == MT_IMAGE_STOPPED)
		mt_complain("process %d was stopped, for there is no copy of it: %s", (int)f->pid,
			    remark->text);
	else if (*remark->text)
		mt_complain("%s", remark->text);
	if (f->stop_ns)
		mt_complain("process %d stood still for %s", (int)f->pid,
			    mt_units_time(f->stop_ns, text));
	if (r->unreadable_bytes)
		mt_complain("%" PRIu64 " of %" PRIu64 " bytes cannot be read%s",
			    r->unreadable_bytes, r->unreadable_bytes + r->read_bytes,
			    o->output && r->read_bytes ? ": they are zeros in the file" : "");
}

static int run(const void *opaque, const struct mt_operands *operands)
{
	const struct read_options *o = opaque;
	mt_auto(reading) struct reading r = {0};
	mt_auto(mt_output) struct mt_output out;
	struct mt_err err = {0}, remark = {0};
	int code;

	mt_output_init(&out, o->output);
	if (parse_range(operands->text[1], &r, &err)) {
		mt_complain("read: %s; see 'memtrack read --help'", err.text);
		return MT_EXIT_USAGE;
	}
	if (o->output && r.end - r.start > RAW_BYTES_MAX) {
		mt_complain("read: more than %" PRIu64 " GiB are too much for one file",
			    RAW_BYTES_MAX >> 30);
		return MT_EXIT_USAGE;
	}
	code = open_image(operands->text[0], o, &r, &err);
	if (!code) {
		remark = err;
		mt_err_clear(&err);
		code = write_range(&r, o->output != NULL, &out.text, &err);
	}
	if (!code) {
		tell(&r, o, &remark);
		if (r.read_bytes || !o->output)
			code = mt_output_finish(&out, &err);
	}
	if (code)
		mt_complain("%s", err.text);
	return code || !r.read_bytes ? MT_EXIT_FAILED : MT_EXIT_OK;
}

static const char *const examples[] = {
	"memtrack read 4711 7f3c5a1d6ce0",
	"256 bytes from this address on",
	"memtrack read name:server 0x55d0c8a412a0+4K",
	"a page, of a process found by its name",
	"memtrack read core.4711 7ffc14867000..7ffc14868000",
	"a part of a stack in a core file",
	"memtrack read 4711 55d0c8a41000+16M --copy -o heap.raw",
	"bytes of one moment, for other tools",
	NULL,
};

const struct mt_command mt_cmd_read = {
	.name = "read",
	.summary = "show memory of a process or core file, and what its words point to",
	.operands = "PID|name:PROGRAM|CORE ADDRESS[..END|+LENGTH]",
	.operands_min = 2,
	.operands_max = 2,
	.options = options,
	.options_bytes = sizeof(struct read_options),
	.defaults = &defaults,
	.description =
		"Shows bytes of any process, tracked or not, or of a core file: in rows of 16, as "
		"hexadecimal digits and as text. Below a row stand those of its words that are "
		"addresses, with what they point to: a block and the call site that allocated it, "
		"if the process is tracked; a symbol and the distance from its start; the stack "
		"of a thread; else the mapping. A line in front tells the mapping that the "
		"bytes are of.\n\nADDRESS and END are hexadecimal, with or without 0x in front; "
		"LENGTH is a size (64, 4K, 0x100). Without END and LENGTH 256 bytes are shown. "
		"What cannot be read is said, with the reason, and the rest is shown.\n\nThe "
		"process is neither stopped nor changed, and bytes are of slightly different "
		"moments. --stop stops all of its threads meanwhile. --copy stops them only "
		"until the kernel has made a copy-on-write copy, a few milliseconds for each "
		"GiB that is in memory, and reads that; where none can be made the process is "
		"stopped instead, which is said. The process does not notice: system calls that "
		"were interrupted go on, signals arrive, and it gets no child. Memory that is "
		"shared with other processes is not copied. Both need x86-64 for all of that: "
		"on 64-bit ARM no copy is made, and epoll_wait and the like may return EINTR "
		"after a stop.\n\nCore files are those of the kernel and of gdb, of x86-64. "
		"What they leave out is taken from the files that were mapped, if they have the "
		"same build-id and the process cannot have changed it. A core file that was cut "
		"is read as far as it goes.",
	.exit_status = "0: bytes were read, all or some; standard error says how many were "
		       "not.\n\n1: none could be read; one sentence on standard error says "
		       "why.\n\n2: the command line was not understood.",
	.examples = examples,
	.see_also = "memtrack(1), memtrack-maps(1), process_vm_readv(2), core(5), gcore(1)",
	.run = run,
};
