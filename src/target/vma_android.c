/* SPDX-License-Identifier: MIT */
/* Android's categories: the rules of its libmeminfo, in their order. */

#include "target/vma_kind.h"

#include <string.h>

struct name {
	const char *text;
	size_t len; /* without " (deleted)" */
};

static bool begins(struct name n, const char *with)
{
	size_t len = strlen(with);

	return n.len >= len && !memcmp(n.text, with, len);
}

static bool ends(struct name n, const char *with)
{
	size_t len = strlen(with);

	return n.len >= len && !memcmp(n.text + n.len - len, with, len);
}

static bool contains(struct name n, const char *part)
{
	return memmem(n.text, n.len, part, strlen(part)) != NULL;
}

static struct mt_vma_label label(enum mt_vma_kind kind, enum mt_vma_group group, const char *what)
{
	return (struct mt_vma_label){kind, group, what};
}

static bool is_of_boot(struct name n)
{
	return contains(n, "@boot") || contains(n, "/boot") || contains(n, "/apex");
}

static struct mt_vma_label dalvik(struct name n)
{
	static const struct {
		const char *name;
		enum mt_vma_kind kind;
		enum mt_vma_group group;
		const char *what;
	} rules[] = {
		{"LinearAlloc", MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_OTHER, ".LinearAlloc"},
		{"alloc space", MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, ".Heap"},
		{"main space", MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, ".Heap"},
		{"large object space", MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, ".LOS"},
		{"free list large object space", MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, ".LOS"},
		{"non moving space", MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, ".NonMoving"},
		{"zygote space", MT_VMA_DALVIK_HEAP, MT_VMA_GROUP_JAVA, ".Zygote"},
		{"indirect ref", MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_OTHER, ".IndirectRef"},
		{"jit-code-cache", MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_CODE, ".AppJIT"},
		{"data-code-cache", MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_CODE, ".AppJIT"},
		{"CompilerMetadata", MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_OTHER, ".CompilerMetadata"},
	};
	const size_t skip = strlen("[anon:dalvik-");
	struct name rest = {n.text + skip, n.len - skip};

	for (size_t i = 0; i < MT_ARRAY_LEN(rules); i++)
		if (begins(rest, rules[i].name))
			return label(rules[i].kind, rules[i].group, rules[i].what);
	return label(MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_OTHER, ".GC");
}

static struct mt_vma_label device(struct name n)
{
	if (contains(n, "kgsl-3d0"))
		return label(MT_VMA_GFX, MT_VMA_GROUP_GRAPHICS, "");
	if (begins(n, "/dev/ashmem/CursorWindow"))
		return label(MT_VMA_CURSOR, MT_VMA_GROUP_OTHER, "");
	if (begins(n, "/dev/ashmem/jit-zygote-cache"))
		return label(MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_CODE, ".ZygoteJIT");
	if (begins(n, "/dev/ashmem"))
		return label(MT_VMA_SHARED, MT_VMA_GROUP_OTHER, "");
	return label(MT_VMA_OTHER_DEV, MT_VMA_GROUP_OTHER, "");
}

/* Files by the end of their names. False: by none. */
static bool by_suffix(struct name n, struct mt_vma_label *ret)
{
	if (ends(n, ".so"))
		*ret = label(MT_VMA_SO, MT_VMA_GROUP_CODE, "");
	else if (ends(n, ".jar"))
		*ret = label(MT_VMA_JAR, MT_VMA_GROUP_CODE, "");
	else if (ends(n, ".apk"))
		*ret = label(MT_VMA_APK, MT_VMA_GROUP_CODE, "");
	else if (ends(n, ".ttf"))
		*ret = label(MT_VMA_TTF, MT_VMA_GROUP_CODE, "");
	else if (ends(n, ".odex") || (n.len > 4 && contains(n, ".dex")))
		*ret = label(MT_VMA_DEX, MT_VMA_GROUP_CODE, "App dex");
	else if (ends(n, ".vdex"))
		*ret = label(MT_VMA_DEX, MT_VMA_GROUP_CODE,
			     is_of_boot(n) ? "Boot vdex" : "App vdex");
	else if (ends(n, ".oat"))
		*ret = label(MT_VMA_OAT, MT_VMA_GROUP_CODE, "");
	else if (ends(n, ".art") || ends(n, ".art]"))
		*ret = label(MT_VMA_ART, MT_VMA_GROUP_JAVA, is_of_boot(n) ? "Boot art" : "App art");
	else
		return false;
	return true;
}

struct mt_vma_label mt_vma_android(const struct mt_mapping *m, const struct mt_mapping *prev,
				   enum mt_vma_kind prev_kind)
{
	struct name n = {m->name, mt_vma_name_len(m->name)};
	struct mt_vma_label l;

	if (begins(n, "[heap]") || begins(n, "[anon:libc_malloc]") || begins(n, "[anon:scudo:") ||
	    begins(n, "[anon:GWP-ASan"))
		return label(MT_VMA_NATIVE_HEAP, MT_VMA_GROUP_NATIVE, "");
	if (begins(n, "[stack") || begins(n, "[anon:stack_and_tls:"))
		return label(MT_VMA_STACK, MT_VMA_GROUP_STACK, "");
	if (by_suffix(n, &l))
		return l;
	if (begins(n, "/dev/"))
		return device(n);
	if (begins(n, "/memfd:jit-cache"))
		return label(MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_CODE, ".AppJIT");
	if (begins(n, "/memfd:jit-zygote-cache"))
		return label(MT_VMA_DALVIK_OTHER, MT_VMA_GROUP_CODE, ".ZygoteJIT");
	if (begins(n, "[anon:dalvik-"))
		return dalvik(n);
	if (begins(n, "[anon:"))
		return label(MT_VMA_UNKNOWN, MT_VMA_GROUP_OTHER, "");
	if (n.len)
		return label(MT_VMA_OTHER_MMAP, MT_VMA_GROUP_OTHER, "");
	if (prev && prev->end == m->start && prev_kind == MT_VMA_SO)
		return label(MT_VMA_SO, MT_VMA_GROUP_CODE, "bss");
	return label(MT_VMA_UNKNOWN, MT_VMA_GROUP_OTHER, "");
}
