/* SPDX-License-Identifier: MIT */
/* Any bytes as a zip file: what covers an offset lies around it, or there is nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbolize/zip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	static const uint64_t offsets[] = {0, 4096, 8192, 0xfffff000};
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	char path[64];

	if (fd < 0 || write(fd, data, size_bytes) != (ssize_t)size_bytes)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
		struct mt_zip_member m;

		if (mt_zip_find(path, offsets[i], &m))
			continue;
		if (!m.name || offsets[i] < m.offset || offsets[i] - m.offset >= m.bytes)
			abort();
		free(m.name);
	}
	close(fd);
	return 0;
}
