/* SPDX-License-Identifier: MIT */
/*
 * gHotSpotVMStructs points to an array of fields: names of type and field, offset or address. Its
 * layout is told by variables of their own. Universe::_collectedHeap -> CollectedHeap::_reserved,
 * a MemRegion of a start and a number of words. Anything may be in the memory that is read.
 */

#include "target/java.h"

#include "base/path.h"
#include "core/cc.h"
#include "target/smaps.h"

#include <errno.h>
#include <string.h>

enum { FIELDS_MAX = 16384, NAME_MAX_BYTES = 64, STRIDE_MAX = 1024, WORD = 8 };

struct vm {
	struct mt_image *im;
	const struct mt_image_module *module;
	uint64_t fields, stride;
	uint64_t type_at, name_at, offset_at, address_at; /* in a field */
};

bool mt_java_is_vm(const char *name)
{
	return !strcmp(mt_path_base(name), "libjvm.so");
}

bool mt_java_is_heap_file(const char *name)
{
	static const char file[] = "/memfd:java_heap";

	return !strncmp(name, file, sizeof(file) - 1);
}

static bool read_word(struct mt_image *im, uint64_t address, uint64_t *ret)
{
	return !mt_image_read_all(im, address, ret, sizeof(*ret));
}

/* The value of a variable of the VM. */
static bool read_variable(const struct vm *v, const char *name, uint64_t *ret)
{
	uint64_t address;

	return !mt_image_symbol(v->im, v->module, name, &address, NULL) &&
	       read_word(v->im, address, ret);
}

static bool read_layout(struct vm *v)
{
	return read_variable(v, "gHotSpotVMStructs", &v->fields) &&
	       read_variable(v, "gHotSpotVMStructEntryArrayStride", &v->stride) &&
	       read_variable(v, "gHotSpotVMStructEntryTypeNameOffset", &v->type_at) &&
	       read_variable(v, "gHotSpotVMStructEntryFieldNameOffset", &v->name_at) &&
	       read_variable(v, "gHotSpotVMStructEntryOffsetOffset", &v->offset_at) &&
	       read_variable(v, "gHotSpotVMStructEntryAddressOffset", &v->address_at) &&
	       v->stride && v->stride <= STRIDE_MAX;
}

/* Whether the text at an address, which is that of a pointer at `at`, is `wanted`. */
static bool is_text(const struct vm *v, uint64_t at, const char *wanted)
{
	char text[NAME_MAX_BYTES];
	uint64_t address;
	size_t len = strlen(wanted) + 1;

	return read_word(v->im, at, &address) && mt_image_read(v->im, address, text, len) == len &&
	       !memcmp(text, wanted, len);
}

/* The word of a field's description that lies at word_at: its offset, or its address. */
static bool find_field(const struct vm *v, const char *type, const char *name, uint64_t word_at,
		       uint64_t *ret)
{
	uint64_t at = v->fields, first;

	for (int i = 0; i < FIELDS_MAX; i++, at += v->stride) {
		if (!read_word(v->im, at + v->type_at, &first) || !first)
			return false;
		if (is_text(v, at + v->name_at, name) && is_text(v, at + v->type_at, type))
			return read_word(v->im, at + word_at, ret);
	}
	return false;
}

static int find_region(const struct vm *v, uint64_t *ret_start, uint64_t *ret_end,
		       struct mt_err *err)
{
	static const char none[] = "the Java VM does not describe where its heap is";
	uint64_t page = mt_image_facts(v->im)->page_bytes;
	uint64_t universe, heap, reserved, start_at, words_at, start, words, bytes, end;

	if (!find_field(v, "Universe", "_collectedHeap", v->address_at, &universe) ||
	    !find_field(v, "CollectedHeap", "_reserved", v->offset_at, &reserved) ||
	    !find_field(v, "MemRegion", "_start", v->offset_at, &start_at) ||
	    !find_field(v, "MemRegion", "_word_size", v->offset_at, &words_at))
		return mt_err_set(err, -ENOTSUP, "%s", none);
	if (!read_word(v->im, universe, &heap) || !heap)
		return mt_err_set(err, -EAGAIN, "the Java VM has not made its heap yet");
	if (!read_word(v->im, heap + reserved + start_at, &start) ||
	    !read_word(v->im, heap + reserved + words_at, &words))
		return mt_err_set(err, -ENOTSUP, "%s", none);
	if (!start || !words || start % page || __builtin_mul_overflow(words, WORD, &bytes) ||
	    bytes % page || __builtin_add_overflow(start, bytes, &end) ||
	    !mt_image_mapping_of(v->im, start) || !mt_image_mapping_of(v->im, end - 1))
		return mt_err_set(err, -ENOTSUP,
				  "the Java VM describes a heap that is not there: a collector "
				  "that keeps it elsewhere");
	*ret_start = start;
	*ret_end = end;
	return 0;
}

int mt_java_heap(struct mt_image *im, uint64_t *ret_start, uint64_t *ret_end, struct mt_err *err)
{
	struct vm v = {.im = im};
	size_t count;
	const struct mt_image_module *m = mt_image_modules(im, &count);

	for (size_t i = 0; i < count && !v.module; i++)
		if (mt_java_is_vm(m[i].path))
			v.module = &m[i];
	if (!v.module)
		return mt_err_set(err, -ENOENT, "there is no Java VM in the process");
	if (!read_layout(&v))
		return mt_err_set(err, -ENOTSUP,
				  "the Java VM has no description of its structures");
	return find_region(&v, ret_start, ret_end, err);
}

/* ---- a process ---- */

size_t mt_java_heap_views(const struct mt_smaps *s)
{
	const struct mt_mapping *first = NULL;
	size_t views = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct mt_mapping *m = &s->mapping[i].m;

		if (!mt_java_is_heap_file(m->name))
			continue;
		first = first ? first : m;
		views += m->offset == first->offset; /* of each view the same parts are mapped */
	}
	return views;
}

/* What the mappings alone say; whether the VM is to be asked. */
static bool look_at_mappings(const struct mt_smaps *s, struct mt_java *ret_java)
{
	*ret_java = (struct mt_java){0};
	for (size_t i = 0; i < s->count && !ret_java->is_there; i++)
		ret_java->is_there = mt_java_is_vm(s->mapping[i].m.name);
	return ret_java->is_there && !mt_java_heap_views(s);
}

static int ask(struct mt_image *im, struct mt_java *java)
{
	int code = mt_java_heap(im, &java->start, &java->end, &java->why);

	return code == -ENOMEM ? code : 0;
}

int mt_java_find_in(struct mt_image *im, const struct mt_smaps *s, struct mt_java *ret_java)
{
	return look_at_mappings(s, ret_java) ? ask(im, ret_java) : 0;
}

int mt_java_find(pid_t pid, const struct mt_smaps *s, struct mt_java *ret_java)
{
	struct mt_image *im;
	int code;

	if (!look_at_mappings(s, ret_java))
		return 0;
	code = mt_image_open_process(pid, MT_IMAGE_LIVE, &im, &ret_java->why);
	if (code)
		return code == -ENOMEM ? code : 0;
	mt_err_clear(&ret_java->why);
	code = ask(im, ret_java);
	mt_image_close(im);
	return code;
}
