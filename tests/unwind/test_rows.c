/* SPDX-License-Identifier: MIT */
/*
 * Every row of every ELF file named, or found below a directory named, against elfutils' libdw. The
 * file is mapped as a loader would. usage: test_rows [-s N] [-x EXCEPTIONS] PATH...
 *   -s N  only files whose name's hash is 0 modulo N
 *   -x    file of lines "CLASS PER_MILLION": rows that are decoded alike but which the unwinder
 * does not evaluate, and rows that libdw refuses. A class that is not listed, more than its share,
 * or (without -s) a listed class that does not occur fails.
 */

#include <dirent.h>
#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwind/row.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_AARCH64 };
#endif

enum { CLASS_CFA, CLASS_RA, CLASS_FP, CLASS_SIGNAL, CLASS_ORACLE, CLASSES, REPORTS_MAX = 20 };
static const char *const class_name[CLASSES] = {"cfa_rule", "ra_rule", "fp_rule", "signal_frame",
						"oracle_refuses"};
static struct {
	uint64_t files, functions, rows, wrong, full, special_end, unsupported[CLASSES];
} total;
static uint32_t sample = 1;

static void report(const char *path, uint64_t pc, const char *what, const struct mt_rule *ours,
		   const struct mt_rule *theirs)
{
	if (total.wrong++ >= REPORTS_MAX)
		return;
	printf("# %s pc 0x%lx: %s: ours cfa %d%+d ra %d%+d fp %d%+d, "
	       "libdw cfa %d%+d ra %d%+d fp %d%+d\n",
	       path, (long)pc, what, ours->cfa, ours->cfa_off, ours->ra, ours->ra_off, ours->fp,
	       ours->fp_off, theirs->cfa, theirs->cfa_off, theirs->ra, theirs->ra_off, theirs->fp,
	       theirs->fp_off);
}

static int is_breg(const Dwarf_Op *op, int reg, int64_t *ret_offset)
{
	if (op->atom == DW_OP_bregx && op->number == (Dwarf_Word)reg)
		*ret_offset = (int64_t)op->number2;
	else if (op->atom == DW_OP_breg0 + reg)
		*ret_offset = (int64_t)op->number;
	else
		return 0;
	return 1;
}

#if defined(__x86_64__)
static int is_plt(const Dwarf_Op *ops, size_t n, int32_t *ret_threshold)
{
	static const uint8_t want[] = {DW_OP_breg7, DW_OP_breg16, DW_OP_lit15, DW_OP_and, 0,
				       DW_OP_ge,    DW_OP_lit3,   DW_OP_shl,   DW_OP_plus};
	if (n != sizeof(want) || ops[0].number != 8 || ops[1].number != 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		if (i != 4 && ops[i].atom != want[i])
			return 0;
	if (ops[4].atom < DW_OP_lit0 || ops[4].atom > DW_OP_lit15)
		return 0;
	*ret_threshold = ops[4].atom - DW_OP_lit0;
	return 1;
}
#endif

/* libdw's answer in our terms. 0, or -1: libdw holds the row invalid. */
static int oracle_cfa(Dwarf_Frame *frame, struct mt_rule *r)
{
	Dwarf_Op *ops;
	size_t n;
	int64_t offset;
	r->cfa = MT_CFA_OTHER;
	if (dwarf_frame_cfa(frame, &ops, &n))
		return -1;
	if (n == 1 && is_breg(&ops[0], MT_REG_SP, &offset)) {
		r->cfa = MT_CFA_SP;
		r->cfa_off = (int32_t)offset;
	} else if (n == 1 && is_breg(&ops[0], MT_REG_FP, &offset)) {
		r->cfa = MT_CFA_FP;
		r->cfa_off = (int32_t)offset;
	}
#if defined(__x86_64__)
	else if (n == 2 && ops[1].atom == DW_OP_deref && is_breg(&ops[0], MT_REG_FP, &offset)) {
		r->cfa = MT_CFA_AT_FP;
		r->cfa_off = (int32_t)offset;
	} else if (n == 2 && ops[1].atom == DW_OP_deref && is_breg(&ops[0], MT_REG_SP, &offset) &&
		   offset == 160) {
		r->cfa = MT_CFA_SIGNAL;
	} else if (is_plt(ops, n, &r->cfa_off)) {
		r->cfa = MT_CFA_PLT;
	}
#endif
	return 0;
}

static uint8_t oracle_reg(Dwarf_Frame *frame, int reg, int32_t *ret_offset)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	int64_t offset = 0;
	*ret_offset = 0;
	if (dwarf_frame_register(frame, reg, mem, &ops, &n))
		return MT_RULE_OTHER;
	if (!n)
		return ops ? MT_RULE_UNDEFINED : MT_RULE_SAME;
	if (ops[0].atom == DW_OP_call_frame_cfa && n == 1)
		return MT_RULE_AT_CFA;
	if (ops[0].atom == DW_OP_call_frame_cfa && n == 2 && ops[1].atom == DW_OP_plus_uconst) {
		*ret_offset = (int32_t)ops[1].number;
		return MT_RULE_AT_CFA;
	}
#if defined(__x86_64__)
	if (n == 2 && ops[0].atom == DW_OP_call_frame_cfa) /* what an expression starts with */
		ops++, n--;
	if (n == 1 && reg == MT_REG_RA && is_breg(&ops[0], MT_REG_SP, &offset) && offset == 168)
		return MT_RULE_SIGNAL;
	if (n == 1 && reg == MT_REG_FP && is_breg(&ops[0], MT_REG_SP, &offset) && offset == 120)
		return MT_RULE_SIGNAL;
	if (n == 1 && reg == MT_REG_FP && is_breg(&ops[0], MT_REG_FP, &offset) && offset == 0)
		return MT_RULE_AT_FP;
#endif
	return MT_RULE_OTHER;
}

static int same(const struct mt_rule *a, const struct mt_rule *b)
{
	if (a->cfa != b->cfa || a->ra != b->ra || a->fp != b->fp || a->signal != b->signal)
		return 0;
	int with_offset = a->cfa == MT_CFA_SP || a->cfa == MT_CFA_FP || a->cfa == MT_CFA_AT_FP ||
			  a->cfa == MT_CFA_PLT;
	return (!with_offset || a->cfa_off == b->cfa_off) &&
	       (a->ra != MT_RULE_AT_CFA || a->ra_off == b->ra_off) &&
	       (a->fp != MT_RULE_AT_CFA || a->fp_off == b->fp_off);
}

/* A packed row must say what the rule says. */
static int packed_alike(mt_row row, const struct mt_rule *r)
{
	uint32_t kind = row & 3;
	if ((kind == MT_ROW_SP) != (r->cfa == MT_CFA_SP) ||
	    (kind == MT_ROW_FP) != (r->cfa == MT_CFA_FP))
		return 0;
	if ((int64_t)mt_row_cfa_bytes(row) != r->cfa_off)
		return 0;
	int64_t ra = r->ra == MT_RULE_AT_CFA ? -r->ra_off : 0;
	int64_t fp = r->fp == MT_RULE_AT_CFA ? -r->fp_off : 0;
	return (int64_t)mt_row_ra_bytes(row) == ra && (int64_t)mt_row_fp_bytes(row) == fp;
}

static void count_special(mt_row row, const struct mt_rule *r)
{
	enum mt_row_special kind = mt_row_special_kind(row);
	total.full += kind == MT_ROW_FULL;
	total.special_end += kind == MT_ROW_END;
	if (kind != MT_ROW_UNSUPPORTED)
		return;
	total.unsupported[r->signal                ? CLASS_SIGNAL
			  : r->cfa == MT_CFA_OTHER ? CLASS_CFA
			  : r->fp == MT_RULE_OTHER ? CLASS_FP
						   : CLASS_RA]++;
}

/* One row of libdw, at its first and last pc. */
static void compare_row(const struct mt_module *m, const char *path, Dwarf_Frame *frame,
			uint64_t start, uint64_t end, int signal)
{
	struct mt_rule theirs = {.signal = (uint8_t)signal};
	if (oracle_cfa(frame, &theirs)) {
		total.unsupported[CLASS_ORACLE]++;
		return;
	}
	theirs.ra = oracle_reg(frame, MT_REG_RA, &theirs.ra_off);
	theirs.fp = oracle_reg(frame, MT_REG_FP, &theirs.fp_off);
	uint64_t pcs[2] = {start, end - 1};
	for (int i = 0; i < 2; i++) {
		struct mt_rule ours = {.cfa = 99};
		int r = mt_row_rule(m, m->bias + pcs[i], &ours);
		if (r || !same(&ours, &theirs)) {
			report(path, pcs[i], r ? "not decoded" : "differs", &ours, &theirs);
			return;
		}
		mt_row row = mt_row_decode(m, m->bias + pcs[i]);
		if (!mt_row_is_special(row) && !packed_alike(row, &ours))
			report(path, pcs[i], "packed", &ours, &theirs);
		if (i == 0 && mt_row_is_special(row))
			count_special(row, &ours);
	}
	total.rows++;
}

/* All rows from the function at `pc` up to the next function's. */
static void compare_function(const struct mt_module *m, const char *path, Dwarf_CFI *cfi,
			     uint64_t pc, uint64_t next)
{
	total.functions++;
	while (pc < next) {
		Dwarf_Frame *frame;
		Dwarf_Addr start, end;
		bool signal;
		struct mt_rule none = {.cfa = 99};
		if (dwarf_cfi_addrframe(cfi, pc, &frame)) {
			if (!mt_row_rule(m, m->bias + pc, &none))
				report(path, pc, "libdw knows none", &none, &none);
			return;
		}
		dwarf_frame_info(frame, &start, &end, &signal);
		if (end > next)
			end = next; /* overlapping functions of hand-written code: ours picks by
				       table */
		if (end > pc)
			compare_row(m, path, frame, pc, end, signal);
		free(frame);
		if (end <= pc)
			return;
		pc = end;
	}
}

static void compare_table(const struct mt_module *m, const char *path, Dwarf_CFI *cfi)
{
	const uint8_t *h = m->eh_frame_hdr;
	if (h[0] != 1 || h[2] != 0x03 || h[3] != 0x3b)
		return;
	uint32_t count;
	const int32_t *table = (const int32_t *)(h + 12);
	memcpy(&count, h + 8, 4);
	uint64_t base = (uint64_t)(uintptr_t)h - m->bias;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t pc = base + (uint64_t)(int64_t)table[2 * i];
		uint64_t next =
			i + 1 < count ? base + (uint64_t)(int64_t)table[2 * i + 2] : UINT64_MAX;
		if (pc != next)
			compare_function(m, path, cfi, pc, next);
	}
}

/* The image at some address, or NULL. */
static uint8_t *map_image(int fd, const Elf64_Phdr *ph, uint32_t n, size_t *ret_bytes)
{
	uint64_t lo = UINT64_MAX, hi = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (ph[i].p_type != PT_LOAD)
			continue;
		lo = MT_MIN(lo, ph[i].p_vaddr & ~0xfffull);
		hi = MT_MAX(hi, ph[i].p_vaddr + ph[i].p_memsz);
	}
	if (lo >= hi || hi - lo > 4ull << 30)
		return NULL;
	*ret_bytes = MT_ALIGN_UP(hi - lo, 4096);
	uint8_t *image = mmap(NULL, *ret_bytes, PROT_READ,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image == MAP_FAILED)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t in_page = ph[i].p_vaddr & 0xfff;
		if (ph[i].p_type != PT_LOAD || !ph[i].p_filesz)
			continue;
		mmap(image + (ph[i].p_vaddr - in_page - lo), ph[i].p_filesz + in_page, PROT_READ,
		     MAP_PRIVATE | MAP_FIXED, fd, (off_t)(ph[i].p_offset - in_page));
	}
	return image;
}

static void run_image(const char *path, int fd, Elf *elf, const Elf64_Phdr *ph, uint32_t n)
{
	size_t bytes;
	struct mt_module m;
	uint8_t *image = map_image(fd, ph, n, &bytes);
	if (!image)
		return;
	uint64_t lo = UINT64_MAX;
	for (uint32_t i = 0; i < n; i++)
		if (ph[i].p_type == PT_LOAD)
			lo = MT_MIN(lo, ph[i].p_vaddr & ~0xfffull);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	if (!mt_module_from_phdr(ph, n, (uintptr_t)image - lo, &m) && m.eh_frame_hdr && cfi) {
		total.files++;
		compare_table(&m, path, cfi);
	}
	if (cfi)
		dwarf_cfi_end(cfi);
	munmap(image, bytes);
}

static void run_file(const char *path)
{
	Elf64_Ehdr eh;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (pread(fd, &eh, sizeof(eh), 0) == sizeof(eh) && !memcmp(eh.e_ident, ELFMAG, SELFMAG) &&
	    eh.e_ident[EI_CLASS] == ELFCLASS64 && eh.e_machine == MACHINE && eh.e_phnum &&
	    eh.e_phentsize == sizeof(Elf64_Phdr) && (eh.e_type == ET_DYN || eh.e_type == ET_EXEC)) {
		Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
		Elf64_Phdr *ph = calloc(eh.e_phnum, sizeof(*ph));
		if (elf && ph && pread(fd, ph, eh.e_phnum * sizeof(*ph), (off_t)eh.e_phoff) > 0)
			run_image(path, fd, elf, ph, eh.e_phnum);
		free(ph);
		elf_end(elf);
	}
	close(fd);
}

static int in_sample(const char *name)
{
	uint32_t h = 2166136261u;
	for (; *name; name++)
		h = (h ^ (uint8_t)*name) * 16777619u;
	return (h >> 8) % sample == 0;
}

static void run_path(const char *path, int given)
{
	struct stat st;
	if (lstat(path, &st))
		return;
	if (S_ISLNK(st.st_mode) && given) {
		run_file(path);
	} else if (S_ISREG(st.st_mode)) {
		if (given || in_sample(strrchr(path, '/')))
			run_file(path);
	} else if (S_ISDIR(st.st_mode)) {
		DIR *dir = opendir(path);
		struct dirent *e;
		char name[4096];
		while (dir && (e = readdir(dir))) {
			if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
				continue;
			snprintf(name, sizeof(name), "%s/%s", path, e->d_name);
			run_path(name, 0);
		}
		if (dir)
			closedir(dir);
	}
}

/* Number of classes out of their bounds. */
static int check_exceptions(const char *path)
{
	double cap[CLASSES] = {0};
	int listed[CLASSES] = {0}, bad = 0;
	char line[256], name[64];
	FILE *f = path ? fopen(path, "r") : NULL;
	while (f && fgets(line, sizeof(line), f)) {
		double share;
		if (line[0] == '#' || sscanf(line, "%63s %lf", name, &share) != 2)
			continue;
		for (int i = 0; i < CLASSES; i++) {
			if (!strcmp(name, class_name[i])) {
				cap[i] = share;
				listed[i] = 1;
			}
		}
	}
	if (f)
		fclose(f);
	for (int i = 0; i < CLASSES; i++) {
		double share = (double)total.unsupported[i] * 1e6 / (double)MT_MAX(total.rows, 1u);
		printf("# %-16s %8lu rows, %.1f of a million, at most %.1f\n", class_name[i],
		       (long)total.unsupported[i], share, cap[i]);
		if (share > cap[i] || (sample == 1 && listed[i] && !total.unsupported[i])) {
			printf("# out of bounds: %s\n", class_name[i]);
			bad++;
		}
	}
	return bad;
}

int main(int argc, char **argv)
{
	const char *exceptions = NULL;
	int opt;
	while ((opt = getopt(argc, argv, "s:x:")) > 0) {
		if (opt == 's')
			sample = (uint32_t)MT_MAX(atoi(optarg), 1);
		else if (opt == 'x')
			exceptions = optarg;
		else
			return 2;
	}
	printf("1..3\n");
	elf_version(EV_CURRENT);
	for (int i = optind; i < argc; i++)
		run_path(argv[i], 1);
	printf("# %lu files, %lu functions, %lu rows, %lu of them too large to pack, "
	       "%lu outermost\n",
	       (long)total.files, (long)total.functions, (long)total.rows, (long)total.full,
	       (long)total.special_end);
	printf("%s 1 - rows_were_compared\n", total.rows ? "ok" : "not ok");
	printf("%s 2 - every_row_is_as_libdw_decodes_it (%lu differ)\n",
	       total.wrong ? "not ok" : "ok", (long)total.wrong);
	int bad = check_exceptions(exceptions);
	printf("%s 3 - rows_not_evaluated_are_listed\n", bad ? "not ok" : "ok");
	return total.wrong || bad || !total.rows;
}
