/* SPDX-License-Identifier: MIT */
/* Writes the sample state file of tests/support to the path given. */

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "support/mtk_builder.h"

int main(int argc, char **argv)
{
	struct mtk_builder *b = mtk_builder_sample();
	uint8_t *data;
	size_t len;
	int code = 1;

	data = mtk_builder_bytes(b, &len);
	if (argc == 2 && data)
		code = mt_file_write_atomic(argv[1], data, len, 0600, NULL) ? 1 : 0;
	free(data);
	mtk_builder_free(b);
	return code;
}
