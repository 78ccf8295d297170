/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_COMMAND_H
#define MT_CLI_COMMAND_H

/*
 * Commands as tables. Parsing, --help, the man page and shell completion all come from struct
 * mt_command; a command's file holds one such table and a run function.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum mt_option_kind {
	MT_OPTION_FLAG,   /* bool: set to `flag_value` */
	MT_OPTION_TEXT,   /* const char *: last one wins */
	MT_OPTION_LIST,   /* struct mt_text_list: may be given again */
	MT_OPTION_SIZE,   /* uint64_t bytes, suffixes K M G */
	MT_OPTION_TIME,   /* uint64_t nanoseconds */
	MT_OPTION_NUMBER, /* uint64_t between min and max */
	MT_OPTION_CHOICE, /* int: index in `choices` (words separated by '|') */
	MT_OPTION_SET, /* int: the value `set_value`, without an argument: --json for --format=json
			*/
};

struct mt_text_list {
	const char *text[64];
	uint32_t count;
};

struct mt_option {
	char letter;          /* 0: none */
	const char *name;     /* without dashes */
	const char *argument; /* placeholder in help; NULL: takes none */
	const char *if_bare;  /* the value of --name alone, which then takes no other word */
	enum mt_option_kind kind;
	size_t offset;       /* of the variable in the command's options */
	const char *choices; /* CHOICE: "leaks|live|..." */
	uint64_t min, max;   /* NUMBER; SIZE and TIME: min only, and how it is said */
	const char *least;
	int set_value;    /* SET and FLAG: the value; FLAG 0 means true */
	bool is_synonym;  /* accepted, listed in the man page only */
	const char *help; /* one sentence, lower case, no full stop */
};

struct mt_operands {
	char **text;
	int count;
};

struct mt_command {
	const char *name;
	const char *summary;  /* one line, lower case, no full stop */
	const char *operands; /* as in the synopsis: "FILE...", "[--] PROGRAM [ARGUMENT...]" */
	int operands_min, operands_max;  /* max -1: any number */
	bool stops_at_operand;           /* options end at the first operand */
	const struct mt_option *options; /* ends with a NULL name */
	size_t options_bytes;            /* of the struct that `defaults` points to */
	const void *defaults;
	/* paragraphs for the man page and --help, separated by empty lines */
	const char *description;
	const char *exit_status;     /* NULL: the common text */
	const char *const *examples; /* command line, explanation, ..., NULL */
	const char *see_also;        /* "memtrack-report(1), mtk(5)" */
	const char *operand_words;   /* for completion, separated by blanks; NULL: files */
	/* Returns the exit status. `options` is of options_bytes. */
	int (*run)(const void *options, const struct mt_operands *operands);
};

enum { MT_EXIT_OK = 0, MT_EXIT_FAILED = 1, MT_EXIT_USAGE = 2 };

/* All commands in the order of help; NULL at the end. */
extern const struct mt_command *const mt_commands[];

/* The command of this name, or NULL. */
const struct mt_command *mt_command_find(const char *name);

/* The command of the table nearest to a mistyped name, or NULL when none is near. */
const char *mt_command_nearest(const char *name);

/*
 * Parses argv[1..] and runs the command. Returns the exit status: MT_EXIT_USAGE with one sentence
 * on stderr for what cannot be understood.
 */
int mt_command_run(const struct mt_command *c, int argc, char **argv);

/*
 * Edit distance of two words, transpositions counted once; for "did you mean".
 */
unsigned mt_command_distance(const char *a, const char *b);

/* "memtrack: " + sentence + newline on stderr; see mt_escape() for what names in it may hold. */
void mt_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Writers of help in its three forms, from the table. */
void mt_help_overview(FILE *out);
void mt_help_command(const struct mt_command *c, FILE *out);
void mt_help_man(const struct mt_command *c, FILE *out);
void mt_help_completion(FILE *out); /* bash */

#endif
