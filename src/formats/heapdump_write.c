/* SPDX-License-Identifier: MIT */
/*
 * Sites whose stacks read the same as text (malloc and calloc at one place, labels) are one stack
 * here: frames are interned by address again, outermost first, as a reader would.
 */
#include "formats/heapdump_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/escape.h"
#include "base/map.h"
#include "core/cc.h"
#include "wire/state.h"

enum { V1_2 = 12, STACK_MAX = 256 };

struct frame {
	uint64_t address;
	uint32_t parent, depth;
	uint32_t node; /* of the profile, one of those with this stack */
};

struct line {
	uint64_t size, count;
	uint32_t frame; /* innermost; 0: none */
	uint32_t depth;
	bool is_app;
};

struct writer {
	const struct mt_profile *p;
	const struct mt_heapdump_options *o;
	struct mt_buf *out;
	struct frame *frame; /* [0]: no frame */
	struct line *line;
	uint32_t *frame_of_site; /* frame + 1, 0: not made yet */
	size_t frames, frame_cap, lines;
	struct mt_map frame_of, addresses;
	uint64_t unplaced;
};

static void writer_done(struct writer *w)
{
	free(w->frame);
	free(w->line);
	free(w->frame_of_site);
	mt_map_done(&w->frame_of);
	mt_map_done(&w->addresses);
}
MT_AUTO_DEFINE_INPLACE(writer, struct writer, writer_done)

/* ---- stacks ---- */

/* Inside the call, as the format has it: a return address is moved back by one instruction. */
static uint64_t address_of(const struct mt_profile *p, const struct mt_profile_node *n)
{
	uint64_t back = n->kind == MT_FRAME_CALL && p->arch == MT_ARCH_AARCH64 ? 4 : 1;

	return n->pc > back ? n->pc - back : n->pc;
}

static int add_frame(struct writer *w, uint32_t parent, uint32_t node, uint32_t *ret_frame)
{
	uint64_t address = address_of(w->p, &w->p->node[node]), *at;
	struct frame *frame;
	bool created;

	at = mt_map_at(&w->addresses, address, &created);
	if (!at)
		return -ENOMEM;
	if (created)
		*at = w->addresses.count;
	at = mt_map_at(&w->frame_of, (uint64_t)parent << 32 | *at, &created);
	if (!at)
		return -ENOMEM;
	if (created) {
		frame = mt_alloc_grow(w->frame, &w->frame_cap, w->frames + 1, sizeof(*frame));
		if (!frame)
			return -ENOMEM;
		w->frame = frame;
		frame[w->frames] = (struct frame){.address = address,
						  .parent = parent,
						  .depth = frame[parent].depth + 1,
						  .node = node};
		*at = w->frames++;
	}
	*ret_frame = (uint32_t)*at;
	return 0;
}

static bool is_own(const struct mt_profile *p, uint32_t node)
{
	uint32_t module = p->node[node].module;

	return module && module < p->module_count && p->module[module].is_self;
}

/* The innermost frame of a site's stack in w->frame. */
static int get_frame(struct writer *w, uint32_t site, uint32_t *ret_frame)
{
	uint32_t node[STACK_MAX], first = 0, frame = 0, count;
	int r = 0;

	if (w->frame_of_site[site]) {
		*ret_frame = w->frame_of_site[site] - 1;
		return 0;
	}
	count = mt_profile_stack(w->p, w->p->site[site].node, node, STACK_MAX);
	while (first < count && is_own(w->p, node[first]))
		first++;
	for (uint32_t i = count; i-- > first && !r;) {
		if (w->p->node[node[i]].kind == MT_FRAME_SOURCE)
			w->unplaced++;
		else
			r = add_frame(w, frame, node[i], &frame);
	}
	w->frame_of_site[site] = frame + 1;
	*ret_frame = frame;
	return r;
}

/* ---- records ---- */

static bool is_app(const struct mt_profile *p, uint32_t site)
{
	uint32_t label = p->site[site].label;

	return p->source == MT_PROFILE_OF_HEAP_DUMP && label && label < p->label_count &&
	       !strcmp(p->label[label], MT_PROFILE_APP);
}

/* Stacks of equal depth, by address from the inside: the same whatever order they came in. */
static int compare_stacks(const struct frame *frame, uint32_t a, uint32_t b)
{
	for (; a != b; a = frame[a].parent, b = frame[b].parent)
		if (frame[a].address != frame[b].address)
			return frame[a].address < frame[b].address ? -1 : 1;
	return 0;
}

static int compare_lines(const void *a, const void *b, void *frame)
{
	const struct line *x = a, *y = b;

	if (x->is_app != y->is_app)
		return x->is_app ? 1 : -1;
	if (x->size != y->size)
		return x->size < y->size ? 1 : -1;
	if (x->depth != y->depth)
		return x->depth < y->depth ? 1 : -1;
	return compare_stacks(frame, x->frame, y->frame);
}

static int make_lines(struct writer *w, const struct mt_records *records)
{
	size_t kept = 0;

	w->frame = mt_alloc_grow(NULL, &w->frame_cap, 1, sizeof(*w->frame));
	w->line = mt_alloc_zero(records->count + 1, sizeof(*w->line));
	w->frame_of_site = mt_alloc_zero(w->p->site_count + 1u, sizeof(*w->frame_of_site));
	if (!w->frame || !w->line || !w->frame_of_site)
		return -ENOMEM;
	w->frame[0] = (struct frame){0};
	w->frames = 1;
	for (size_t i = 0; i < records->count; i++) {
		const struct mt_record *from = &records->record[i];
		struct line *l = &w->line[i];

		*l = (struct line){.size = from->size, .count = from->count};
		if (from->site && get_frame(w, from->site, &l->frame))
			return -ENOMEM;
		l->is_app = from->site && is_app(w->p, from->site);
		l->depth = w->frame[l->frame].depth;
	}
	qsort_r(w->line, records->count, sizeof(*w->line), compare_lines, w->frame);
	for (size_t i = 0; i < records->count; i++) {
		if (kept && !compare_lines(&w->line[kept - 1], &w->line[i], w->frame))
			w->line[kept - 1].count += w->line[i].count;
		else if (w->line[i].count)
			w->line[kept++] = w->line[i];
	}
	w->lines = kept;
	return 0;
}

/* ---- text ---- */

static const struct mt_profile_module *module_of(const struct writer *w, const struct frame *f)
{
	uint32_t module = w->p->node[f->node].module;

	return module && module < w->p->module_count ? &w->p->module[module] : NULL;
}

static void add_info(struct writer *w, const struct frame *f)
{
	const struct mt_profile_module *m = module_of(w, f);
	uint64_t offset = 0;
	const char *name = w->o->function(w->o->context, w->p, f->node, &offset);

	mt_buf_adds(w->out, " {\"");
	mt_escape(w->out, m ? m->path : "");
	mt_buf_printf(w->out, "\" %" PRIx64 " \"", f->address - (m ? m->bias : 0));
	mt_escape(w->out, name ? name : "");
	mt_buf_printf(w->out, "\" %" PRIx64 "}", name ? offset : 0);
}

static void add_line(struct writer *w, const struct line *l)
{
	mt_buf_printf(w->out, "z %d  sz %8" PRIu64 "  num    %" PRIu64 "  bt", l->is_app, l->size,
		      l->count);
	for (uint32_t f = l->frame; f; f = w->frame[f].parent)
		if (w->o->version < V1_2)
			mt_buf_printf(w->out, " %016" PRIx64, w->frame[f].address);
		else
			mt_buf_printf(w->out, " %" PRIx64, w->frame[f].address);
	mt_buf_addc(w->out, '\n');
	if (!l->frame || !w->o->function || w->o->version < V1_2)
		return;
	mt_buf_adds(w->out, "  bt_info");
	for (uint32_t f = l->frame; f; f = w->frame[f].parent)
		add_info(w, &w->frame[f]);
	mt_buf_addc(w->out, '\n');
}

static void add_head(struct writer *w)
{
	uint64_t total = 0;
	uint32_t depth = w->p->depth;

	for (size_t i = 0; i < w->lines; i++) {
		total += w->line[i].size * w->line[i].count;
		if (!w->p->depth)
			depth = MT_MAX(depth, w->line[i].depth);
	}
	mt_buf_printf(w->out, "Android Native Heap Dump v%u.%u\n\n", w->o->version / 10,
		      w->o->version % 10);
	if (w->o->version >= V1_2)
		mt_buf_adds(w->out, "Build fingerprint: 'unknown'\n\n");
	mt_buf_printf(w->out,
		      "Total memory: %" PRIu64 "\nAllocation records: %zu\nBacktrace size: %u\n\n",
		      total, w->lines, depth);
}

/* ---- modules ---- */

static int compare_modules(const void *a, const void *b)
{
	const struct mt_profile_module *x = *(const struct mt_profile_module *const *)a;
	const struct mt_profile_module *y = *(const struct mt_profile_module *const *)b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Those that are mapped, by address; what was unloaded has no address of its own any more. */
static size_t list_modules(const struct mt_profile *p, const struct mt_profile_module **list)
{
	size_t count = 0;

	for (uint32_t i = 1; i < p->module_count; i++)
		if (p->module[i].lo < p->module[i].hi && *p->module[i].path &&
		    !p->module[i].unloaded_ns)
			list[count++] = &p->module[i];
	qsort(list, count, sizeof(*list), compare_modules);
	return count;
}

/* What a map line cannot tell: the distance of addresses from the file's own, the build-id. */
static void add_module(const struct mt_profile_module *m, struct mt_buf *out)
{
	mt_buf_printf(out, "module %" PRIx64 "-%" PRIx64 " bias %" PRIx64 " id ", m->lo, m->hi,
		      m->bias);
	for (uint32_t i = 0; i < MT_MIN(m->build_id_bytes, sizeof(m->build_id)); i++)
		mt_buf_printf(out, "%02x", m->build_id[i]);
	mt_buf_adds(out, m->build_id_bytes ? " " : "- ");
	mt_escape(out, m->path);
	mt_buf_addc(out, '\n');
}

/* As if the file were mapped in one piece, unless it is known how it is. */
static void add_map(const struct mt_profile_module *m, struct mt_buf *out)
{
	size_t before = out->len;

	mt_buf_printf(out, "%" PRIx64 "-%" PRIx64 " r-xp %08" PRIx64 " 00:00 0 ", m->lo, m->hi,
		      m->by_offset ? m->lo - m->bias : 0);
	if (out->len > before && out->len - before < 73)
		mt_buf_pad(out, ' ', 73 - (out->len - before));
	mt_escape(out, m->path);
	mt_buf_addc(out, '\n');
}

static int add_modules(struct writer *w)
{
	mt_auto(free) const struct mt_profile_module **list =
		mt_alloc_zero(w->p->module_count, sizeof(*list));
	size_t count;

	if (!list)
		return -ENOMEM;
	count = list_modules(w->p, list);
	for (size_t i = 0; i < count && w->o->version >= V1_2; i++)
		if (!list[i]->by_offset)
			add_module(list[i], w->out);
	mt_buf_adds(w->out, "MAPS\n");
	if (w->o->maps)
		mt_buf_adds(w->out, w->o->maps);
	for (size_t i = 0; i < count && !w->o->maps; i++)
		add_map(list[i], w->out);
	mt_buf_adds(w->out, "END\n");
	return 0;
}

int mt_heapdump_write(const struct mt_profile *p, const struct mt_records *records,
		      const struct mt_heapdump_options *options, struct mt_buf *out,
		      uint64_t *ret_unplaced)
{
	mt_auto(writer) struct writer w = {.p = p, .o = options, .out = out};
	int r = make_lines(&w, records);

	if (r)
		return r;
	add_head(&w);
	for (size_t i = 0; i < w.lines; i++)
		add_line(&w, &w.line[i]);
	r = add_modules(&w);
	if (ret_unplaced)
		*ret_unplaced = w.unplaced;
	return r ? r : out->failed ? -ENOMEM : 0;
}
