/* SPDX-License-Identifier: MIT */
/* The parser of MEMTRACK_OPTIONS for the tool side: see wire/words.h. Not part of the library. */
#include "wire/words.h"

#include "core/fmt.h"
#include "core/sys.h"
#include "runtime/options.h"

enum { LINE_BYTES = 4096 };

/* The part of a message between its first two quotes. */
static void copy_quoted(const char *message, char *word, size_t bytes)
{
	size_t n = 0;
	while (*message && *message != '\'')
		message++;
	for (message += *message != 0; *message && *message != '\'' && n + 1 < bytes; message++)
		word[n++] = *message;
	word[n] = 0;
}

int mt_words_check(const char *words, char *word, size_t bytes)
{
	static const char name[] = "MEMTRACK_OPTIONS=";
	char line[LINE_BYTES], error[256];
	char *envp[] = {line, NULL};
	struct mt_options options;
	struct mt_fmt f;
	mt_fmt_init(&f, line, sizeof(line));
	mt_fmt_str(&f, name);
	mt_fmt_str(&f, words);
	if (!mt_options_read(envp, &options, error, sizeof(error)))
		return 0;
	copy_quoted(error, word, bytes);
	return -MT_EINVAL;
}
