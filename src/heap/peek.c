/* SPDX-License-Identifier: MIT */
/* A direct-mapped cache of lines. What lies behind the unreadable part of a line is read without.
 */

#include "heap/peek.h"

#include "base/alloc.h"

#include <errno.h>
#include <string.h>

enum { LINE_BYTES = 16384, LINES = 256 };

struct mt_peek_line {
	uint64_t address; /* of its first byte; 1: empty */
	size_t valid;     /* bytes from there on that could be read */
	uint8_t data[LINE_BYTES];
};

int mt_peek_init(struct mt_peek *p, struct mt_image *im)
{
	*p = (struct mt_peek){.im = im, .line = mt_alloc(LINES * sizeof(struct mt_peek_line))};
	if (!p->line)
		return -ENOMEM;
	for (size_t i = 0; i < LINES; i++)
		p->line[i].address = 1;
	return 0;
}

void mt_peek_done(struct mt_peek *p)
{
	if (p)
		free(p->line);
}

static const struct mt_peek_line *line_of(struct mt_peek *p, uint64_t address)
{
	struct mt_peek_line *l = &p->line[address / LINE_BYTES % LINES];

	address = MT_ALIGN_DOWN(address, (uint64_t)LINE_BYTES);
	if (l->address != address) {
		l->valid = mt_image_read(p->im, address, l->data, LINE_BYTES);
		l->address = address;
	}
	return l;
}

int mt_peek(struct mt_peek *p, uint64_t address, void *to, size_t bytes)
{
	uint8_t *out = to;

	if (address + bytes < address)
		return -EFAULT;
	while (bytes) {
		const struct mt_peek_line *l = line_of(p, address);
		size_t at = (size_t)(address - l->address), part = MT_MIN(bytes, LINE_BYTES - at);

		if (at + part <= l->valid)
			memcpy(out, l->data + at, part);
		else if (mt_image_read_all(p->im, address, out, part))
			return -EFAULT;
		address += part;
		out += part;
		bytes -= part;
	}
	return 0;
}
