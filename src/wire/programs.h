/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_PROGRAMS_H
#define MT_WIRE_PROGRAMS_H

/*
 * The configuration file that names programs to be tracked wherever they are started, as
 * docs/man/memtrack.conf.5 describes it. Read inside every process that the library is loaded into
 * (runtime/programs.c) and by 'memtrack enable' (record/programs_edit.c). Nothing here calls libc,
 * allocates, writes to the text or trusts it; work is linear in the text, but for globs of at most
 * MT_PROGRAMS_NAME_MAX bytes.
 */

#include "core/cc.h"

#define MT_PROGRAMS_PATH "/etc/memtrack/programs.conf"

enum {
	MT_PROGRAMS_FILE_MAX = 65536, /* a longer file is not read */
	MT_PROGRAMS_NAME_MAX = 255,
	MT_PROGRAMS_VALUE_MAX = 1000,
	MT_PROGRAMS_LIMIT_MAX = 1000,
	MT_PROGRAMS_NAMES = 3,
};

/* A part of the text; not NUL-terminated. */
struct mt_program_text {
	const char *at; /* NULL: not given */
	size_t len;
};

/* A section. */
struct mt_program {
	struct mt_program_text name; /* exact or with * and ?; len 0: none, it matches nothing */
	struct mt_program_text check, options; /* the values of these keys */
	uint32_t line;                         /* of the header */
	uint32_t user;                         /* with has_user */
	uint32_t limit;                        /* instances, 0: no bound */
	uint8_t has_user;
	uint8_t is_disabled;
	uint8_t is_secure;   /* also where the system says that the program got more rights */
	const char *problem; /* what makes it unusable, a constant; NULL: nothing */
	uint32_t problem_line;
	size_t begin, end; /* bytes of the section in the text: from its header on */
};

/* A place in the text. Begin with the text in `text` and all else zero. */
struct mt_programs {
	struct mt_program_text text;
	size_t at;
	uint32_t line;
};

/*
 * Reads the next section: 1, or 0 at the end of the text. Lines before the first header that say
 * anything are a section without a name, with a problem.
 */
int mt_programs_next(struct mt_programs *p, struct mt_program *ret_section);

/* A line of a section, for who edits it. */
struct mt_program_line {
	size_t begin, end; /* bytes in the text, its newline included */
	enum mt_program_line_kind {
		MT_PROGRAM_LINE_BLANK,
		MT_PROGRAM_LINE_COMMENT,
		MT_PROGRAM_LINE_HEADER,
		MT_PROGRAM_LINE_KEY,
		MT_PROGRAM_LINE_WRONG,
	} kind;
	struct mt_program_text name, value; /* HEADER: name; KEY: both */
	const char *problem;                /* WRONG; a constant */
};

/* Reads the line that begins at byte `at`, which must be below text.len. */
void mt_program_line(struct mt_program_text text, size_t at, struct mt_program_line *ret_line);

/* 1 when the name (without folders) fits the pattern. */
int mt_program_fits(struct mt_program_text pattern, struct mt_program_text name);

/* A process as it asks for its section. */
struct mt_program_process {
	struct mt_program_text name[MT_PROGRAMS_NAMES]; /* base names; len 0: not known */
	uint32_t user;
	uint8_t is_secure;
};

/* What the file says of a process. */
enum mt_program_verdict {
	MT_PROGRAM_UNKNOWN, /* not in the file */
	MT_PROGRAM_OFF,     /* disabled, not for secure processes, or its section has a problem */
	MT_PROGRAM_TRACKED,
};

/*
 * The first section that fits name and user decides. It is in *ret_section unless the verdict is
 * UNKNOWN. *ret_problems: sections before it that could not be used.
 */
enum mt_program_verdict mt_programs_find(struct mt_program_text text,
					 const struct mt_program_process *process,
					 struct mt_program *ret_section, uint32_t *ret_problems);

/* The part of a path behind its last '/', without the " (deleted)" that the kernel may append. */
struct mt_program_text mt_program_base(const char *path);

#endif
