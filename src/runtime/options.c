/* SPDX-License-Identifier: MIT */
/* Reads the environment into struct mt_options. Runs once, before the first event; no libc. */
#include "runtime/options.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "wire/state.h"

enum { MAX_BYTES_LEAST = 1 << 20 };

struct word {
	const char *at;
	size_t len;
};

static int word_is(struct word w, const char *s)
{
	return mt_str_len(s) == w.len && mt_mem_equal(w.at, s, w.len);
}

static int copy_word(char *to, size_t bytes, struct word w)
{
	if (w.len >= bytes)
		return -MT_EINVAL;
	mt_mem_copy(to, w.at, w.len);
	to[w.len] = 0;
	return 0;
}

/* Number with an optional K, M or G (1024). */
static int parse_size(struct word w, uint64_t *ret_value)
{
	const char *s = w.at, *end = w.at + w.len;
	uint64_t v, scale = 1;
	if (!w.len || mt_fmt_parse_u64(&s, &v))
		return -MT_EINVAL;
	if (s < end) {
		scale = *s == 'K' ? 1024 : *s == 'M' ? 1 << 20 : *s == 'G' ? 1 << 30 : 0;
		s++;
	}
	if (!scale || s != end || __builtin_mul_overflow(v, scale, &v))
		return -MT_EINVAL;
	*ret_value = v;
	return 0;
}

static int parse_heaps(struct word w, uint32_t *ret_heaps)
{
	static const char *const name[] = {"malloc", "mmap", "brk", "custom"};
	uint32_t heaps = 0;
	if (word_is(w, "all")) {
		*ret_heaps = 15;
		return 0;
	}
	while (w.len) {
		struct word item = {w.at, 0};
		uint32_t i = 0;
		while (item.len < w.len && item.at[item.len] != ',')
			item.len++;
		while (i < MT_ARRAY_LEN(name) && !word_is(item, name[i]))
			i++;
		if (i == MT_ARRAY_LEN(name))
			return -MT_EINVAL;
		heaps |= 1u << i;
		item.len += item.len < w.len;
		w.at += item.len;
		w.len -= item.len;
	}
	*ret_heaps = heaps;
	return heaps ? 0 : -MT_EINVAL;
}

static int set_option(struct mt_options *o, struct word name, struct word value)
{
	uint64_t v = 0;
	int err = 0;
	if (word_is(name, "depth")) {
		err = parse_size(value, &v);
		if (!err && (v < 1 || v > 256))
			err = -MT_EINVAL;
		o->depth = (uint32_t)v;
	} else if (word_is(name, "verify")) {
		err = parse_size(value, &v);
		if (!err && (v < 1 || v > UINT32_MAX))
			err = -MT_EINVAL;
		o->verify = (uint32_t)v;
	} else if (word_is(name, "valgrind")) {
		if (!word_is(value, "track") && !word_is(value, "off"))
			err = -MT_EINVAL;
		o->in_valgrind = word_is(value, "track");
	} else if (word_is(name, "follow")) {
		if (!word_is(value, "all") && !word_is(value, "none"))
			err = -MT_EINVAL;
		o->follow = word_is(value, "all");
	} else if (word_is(name, "heaps")) {
		err = parse_heaps(value, &o->heaps);
	} else if (word_is(name, "min-size")) {
		err = parse_size(value, &o->min_size);
	} else if (word_is(name, "max-size")) {
		err = parse_size(value, &o->max_size);
	} else if (word_is(name, "max-overhead")) {
		err = parse_size(value, &o->max_bytes);
		if (!err && o->max_bytes < MAX_BYTES_LEAST) /* the first tables need this much */
			err = -MT_EINVAL;
	} else if (word_is(name, "leak-threshold")) {
		err = parse_size(value, &o->leak_threshold);
	} else if (word_is(name, "output")) {
		err = value.len ? copy_word(o->output, sizeof(o->output), value) : -MT_EINVAL;
	} else {
		err = -MT_EINVAL;
	}
	return err;
}

static int is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n';
}

static int read_words(const char *s, struct mt_options *o, struct word *ret_bad)
{
	while (*s) {
		struct word all = {s, 0}, name, value = {s, 0};
		while (is_blank(*s))
			s++;
		if (!*s)
			break;
		all.at = name.at = s;
		while (*s && *s != '=' && !is_blank(*s))
			s++;
		name.len = (size_t)(s - name.at);
		if (*s == '=')
			s++;
		value.at = s;
		while (*s && !is_blank(*s))
			s++;
		value.len = (size_t)(s - value.at);
		all.len = (size_t)(s - all.at);
		if (set_option(o, name, value)) {
			*ret_bad = all;
			return -MT_EINVAL;
		}
	}
	return 0;
}

static int read_mode(const char *s, struct mt_options *o)
{
	if (mt_str_equal(s, "full") || mt_str_equal(s, "leak_report")) {
		o->mode = MT_MODE_FULL;
		o->exit_report = *s == 'l';
		return 0;
	}
	o->mode = MT_MODE_OFF;
	return mt_str_equal(s, "off") ? 0 : -MT_EINVAL;
}

/* Where finished files go when no launcher says so: MEMTRACK_DIR, cwd, TMPDIR, /tmp. */
static void choose_output(char **envp, struct mt_options *o)
{
	char cwd[MT_PATH_MAX];
	const char *dir = mt_loader_env(envp, "MEMTRACK_DIR");
	struct mt_fmt f;
	long n = mt_sys2(__NR_getcwd, cwd, sizeof(cwd));
	if (n <= 0 || cwd[0] != '/')
		cwd[0] = 0;
	if (!dir && cwd[0] && mt_sys_access(cwd, 2) == 0)
		dir = cwd;
	if (!dir || !*dir)
		dir = mt_loader_env(envp, "TMPDIR");
	if (!dir || !*dir)
		dir = "/tmp";
	mt_fmt_init(&f, o->output, sizeof(o->output));
	if (*dir != '/') {
		mt_fmt_str(&f, cwd);
		mt_fmt_str(&f, "/");
	}
	mt_fmt_str(&f, dir);
	mt_fmt_str(&f, "/memtrack.%e.%p.mtk");
}

static void complain(char *error, size_t bytes, const char *what, struct word w)
{
	char copy[128];
	struct mt_fmt f;
	w.len = MT_MIN(w.len, sizeof(copy) - 1);
	mt_mem_copy(copy, w.at, w.len);
	copy[w.len] = 0;
	mt_fmt_init(&f, error, bytes);
	mt_fmt_str(&f, "memtrack: cannot understand '");
	mt_fmt_str(&f, copy);
	mt_fmt_str(&f, "' in ");
	mt_fmt_str(&f, what);
	mt_fmt_str(&f, ": nothing is tracked\n");
}

static void describe(struct mt_options *o)
{
	struct mt_fmt f;
	mt_fmt_init(&f, o->text, sizeof(o->text));
	mt_fmt_str(&f, "depth=");
	mt_fmt_u64(&f, o->depth);
	mt_fmt_str(&f, o->follow ? " follow=all" : " follow=none");
	if (o->verify) {
		mt_fmt_str(&f, " verify=");
		mt_fmt_u64(&f, o->verify);
	}
	if (o->min_size) {
		mt_fmt_str(&f, " min-size=");
		mt_fmt_u64(&f, o->min_size);
	}
	if (o->max_size != UINT64_MAX) {
		mt_fmt_str(&f, " max-size=");
		mt_fmt_u64(&f, o->max_size);
	}
	if (o->heaps != 15) {
		mt_fmt_str(&f, " heaps=");
		mt_fmt_str(&f, o->heaps & 1 ? "malloc," : "");
		mt_fmt_str(&f, o->heaps & 2 ? "mmap," : "");
		mt_fmt_str(&f, o->heaps & 4 ? "brk," : "");
		mt_fmt_str(&f, o->heaps & 8 ? "custom," : "");
		f.at[-1] = 0;
	}
}

int mt_options_read(char **envp, struct mt_options *ret_options, char *error, size_t bytes)
{
	struct mt_options *o = ret_options;
	const char *mode = mt_loader_env(envp, "MEMTRACK_MODE");
	const char *words = mt_loader_env(envp, "MEMTRACK_OPTIONS");
	const char *dir = mt_loader_env(envp, "MEMTRACK_STATE_DIR");
	const char *launcher = mt_loader_env(envp, "MEMTRACK_LAUNCHER");
	struct word bad;
	uint64_t v;

	mt_mem_zero(o, sizeof(*o));
	o->mode = MT_MODE_FULL;
	o->depth = 64;
	o->follow = 1;
	o->heaps = 15;
	o->max_size = UINT64_MAX;
	o->leak_threshold = 4096;
	if (mode && *mode && read_mode(mode, o)) {
		complain(error, bytes, "MEMTRACK_MODE", (struct word){mode, mt_str_len(mode)});
		return -MT_EINVAL;
	}
	if (words && read_words(words, o, &bad)) {
		complain(error, bytes, "MEMTRACK_OPTIONS", bad);
		return -MT_EINVAL;
	}
	if (!(o->heaps & 1))
		o->min_size = UINT64_MAX; /* the malloc heap is counted, not recorded */
	if (dir && mt_str_len(dir) < sizeof(o->state_dir))
		mt_mem_copy(o->state_dir, dir, mt_str_len(dir) + 1);
	if (launcher && !mt_fmt_parse_u64(&launcher, &v))
		o->launcher_pid = (uint32_t)v;
	if (!o->output[0])
		choose_output(envp, o);
	describe(o);
	return 0;
}
