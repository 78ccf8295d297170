/* SPDX-License-Identifier: MIT */
/* The text of /proc/PID/maps: START-END PERMISSIONS OFFSET MAJOR:MINOR INODE   NAME */

#include "target/image_internal.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The number at *text in this base, which must have a digit; *text is behind it then. */
static bool take_number(const char **text, unsigned base, uint64_t *ret_number)
{
	uint64_t number = 0;
	const char *at = *text;

	for (;; at++) {
		unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
				 : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10
							    : 16;

		if (digit >= base)
			break;
		if (number > (UINT64_MAX - digit) / base)
			return false;
		number = number * base + digit;
	}
	if (at == *text)
		return false;
	*text = at;
	*ret_number = number;
	return true;
}

static bool take_char(const char **text, char c)
{
	if (**text != c)
		return false;
	++*text;
	return true;
}

static bool take_flags(const char **text, uint32_t *ret_flags)
{
	static const char letters[] = "rwx";
	uint32_t flags = 0;

	for (unsigned i = 0; i < 3; i++) {
		if (**text == letters[i])
			flags |= 1u << i;
		else if (**text != '-')
			return false;
		++*text;
	}
	if (**text == 's' || **text == 'S')
		flags |= MT_MAPPING_SHARED;
	else if (**text != 'p')
		return false;
	++*text;
	*ret_flags = flags;
	return true;
}

/* A line without its name: where the name begins, or NULL. */
static const char *parse_line(const char *line, struct mt_mapping *m)
{
	uint64_t major, minor;

	if (!take_number(&line, 16, &m->start) || !take_char(&line, '-') ||
	    !take_number(&line, 16, &m->end) || !take_char(&line, ' ') ||
	    !take_flags(&line, &m->flags) || !take_char(&line, ' ') ||
	    !take_number(&line, 16, &m->offset) || !take_char(&line, ' ') ||
	    !take_number(&line, 16, &major) || !take_char(&line, ':') ||
	    !take_number(&line, 16, &minor) || !take_char(&line, ' ') ||
	    !take_number(&line, 10, &m->inode))
		return NULL;
	if (m->start >= m->end || (*line && *line != ' ' && *line != '\n'))
		return NULL;
	m->device = (uint32_t)major << 20 | ((uint32_t)minor & 0xfffff);
	return line + strspn(line, " ");
}

/* Bytes that no reader of another process gets: the kernel's own, and memory of devices. */
static bool is_out_of_reach(const char *name)
{
	static const char *const memory[] = {"/dev/shm/", "/dev/zero", "/dev/hugepages/"};

	for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
		if (!strncmp(name, memory[i], strlen(memory[i])))
			return false;
	return !strncmp(name, "/dev/", 5) || !strncmp(name, "[vvar", 5) ||
	       !strcmp(name, "[vsyscall]");
}

int mt_image_parse_maps(struct mt_image *im, const char *text)
{
	struct mt_mapping *list = NULL;
	size_t count = 0, cap = 0;

	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n');
		struct mt_mapping m = {0}, *grown;
		const char *name = parse_line(line, &m);
		bool is_good = name && name <= end && (!count || m.start >= list[count - 1].end);

		line = end + (*end == '\n');
		if (!is_good)
			continue;
		m.name = mt_arena_strndup(im->arena, name, (size_t)(end - name));
		grown = mt_alloc_grow(list, &cap, count + 1, sizeof(*list));
		if (grown)
			list = grown;
		if (!grown || !m.name) {
			free(list);
			return -ENOMEM;
		}
		m.in_image = m.flags & MT_MAPPING_READ && !is_out_of_reach(m.name);
		list[count++] = m;
	}
	if (list && mt_arena_adopt(im->arena, list)) {
		free(list);
		return -ENOMEM;
	}
	im->mapping = list;
	im->mapping_count = count;
	return 0;
}
