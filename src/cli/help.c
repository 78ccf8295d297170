/* SPDX-License-Identifier: MIT */
/* Help texts, man pages and shell completion, written from the command tables. */

#include "cli/command.h"

#include <ctype.h>
#include <string.h>

enum { HELP_COLUMN = 30, HELP_WIDTH = 80 };

/* ---- plain text ---- */

/*
 * Wraps text at HELP_WIDTH; the cursor stands at `column`, further lines begin at `indent`. An
 * empty line in the text begins a paragraph.
 */
static void wrap(FILE *out, const char *text, unsigned column, unsigned indent)
{
	bool is_first = true;

	while (*text) {
		size_t blanks = strspn(text, " \n");
		bool is_paragraph = memmem(text, blanks, "\n\n", 2) != NULL;
		size_t len;

		text += blanks;
		len = strcspn(text, " \n");
		if (!len)
			break;
		if (!is_first && (is_paragraph || column + 1 + len > HELP_WIDTH)) {
			fprintf(out, is_paragraph ? "\n\n%*s" : "\n%*s", (int)indent, "");
			column = indent;
		} else if (!is_first) {
			fputc(' ', out);
			column++;
		}
		fwrite(text, 1, len, out);
		column += (unsigned)len;
		text += len;
		is_first = false;
	}
	fputc('\n', out);
}

void mt_help_overview(FILE *out)
{
	fputs("usage: memtrack COMMAND [OPTIONS] [OPERANDS]\n\n"
	      "Finds where a program's memory goes: every allocation, its call stack, its "
	      "size.\n\n",
	      out);
	for (const struct mt_command *const *c = mt_commands; *c; c++)
		fprintf(out, "  %-8s  %s\n", (*c)->name, (*c)->summary);
	fputs("\n'memtrack help COMMAND' and 'memtrack COMMAND --help' describe a command,\n"
	      "'memtrack --version' prints the version.\n",
	      out);
}

static void write_option(const struct mt_option *o, FILE *out)
{
	char head[128];
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	snprintf(head, sizeof(head), "  %s--%s%s%s%s", letter, o->name,
		 o->if_bare    ? "[="
		 : o->argument ? "="
			       : "",
		 o->argument ? o->argument : "", o->if_bare ? "]" : "");
	if (strlen(head) + 2 > HELP_COLUMN)
		fprintf(out, "%s\n%*s", head, HELP_COLUMN, "");
	else
		fprintf(out, "%-*s", HELP_COLUMN, head);
	wrap(out, o->help, HELP_COLUMN, HELP_COLUMN);
}

void mt_help_command(const struct mt_command *c, FILE *out)
{
	fprintf(out, "usage: memtrack %s [OPTIONS]%s%s\n\n", c->name, *c->operands ? " " : "",
		c->operands);
	wrap(out, c->description, 0, 0);
	if (c->options->name)
		fputs("\noptions:\n", out);
	for (const struct mt_option *o = c->options; o->name; o++)
		if (!o->is_synonym)
			write_option(o, out);
	if (c->options->name)
		fprintf(out, "%-*s%s\n", HELP_COLUMN, "  -h, --help", "show this text");
}

/* ---- man pages ---- */

/* Text of a man page: leading dots and quotes and all dashes are protected. */
static void write_roff(FILE *out, const char *text)
{
	bool is_start = true;

	for (; *text; text++) {
		if (is_start && (*text == '.' || *text == '\''))
			fputs("\\&", out);
		if (*text == '-')
			fputs("\\-", out);
		else if (*text == '\\')
			fputs("\\e", out);
		else if (*text == '\n' && text[1] == '\n')
			fputs("\n.PP", out);
		else
			fputc(*text, out);
		is_start = *text == '\n';
	}
}

static void write_upper(FILE *out, const char *text)
{
	for (; *text; text++)
		fputc(toupper((unsigned char)*text), out);
}

static void write_man_option(const struct mt_option *o, FILE *out)
{
	fputs(".TP\n.B ", out);
	if (o->letter)
		fprintf(out, "\\-%c\\fR, \\fB", o->letter);
	fputs("\\-\\-", out);
	write_roff(out, o->name);
	if (o->argument) {
		fputs(o->if_bare ? "\\fR[\\fB=\\fI" : "=\\fI", out);
		write_roff(out, o->argument);
		fputs(o->if_bare ? "\\fR]" : "\\fR", out);
	}
	fputc('\n', out);
	write_roff(out, o->help);
	fputs(".\n", out);
}

void mt_help_man(const struct mt_command *c, FILE *out)
{
	fputs(".\\\" made by `memtrack help --man`\n.TH MEMTRACK\\-", out);
	write_upper(out, c->name);
	fputs(" 1 \"\" \"memtrack " MT_VERSION "\" \"memtrack manual\"\n.SH NAME\nmemtrack\\-",
	      out);
	fprintf(out, "%s \\- ", c->name);
	write_roff(out, c->summary);
	fprintf(out, "\n.SH SYNOPSIS\n.B memtrack %s\n[\\fIOPTIONS\\fR] ", c->name);
	write_roff(out, c->operands);
	fputs("\n.SH DESCRIPTION\n", out);
	write_roff(out, c->description);
	if (c->options->name)
		fputs("\n.SH OPTIONS\n", out);
	for (const struct mt_option *o = c->options; o->name; o++)
		write_man_option(o, out);
	if (c->options->name)
		fputs(".TP\n.B \\-h\\fR, \\fB\\-\\-help\nshow a summary of the options.\n", out);
	fputs("\n.SH EXIT STATUS\n", out);
	write_roff(out,
		   c->exit_status
			   ? c->exit_status
			   : "0: success.\n\n1: what was asked for could not be done; one sentence "
			     "on standard error "
			     "says why.\n\n2: the command line was not understood.");
	if (c->examples)
		fputs("\n.SH EXAMPLES\n", out);
	for (const char *const *e = c->examples; e && *e; e += 2) {
		fputs(".TP\n.B ", out);
		write_roff(out, e[0]);
		fputc('\n', out);
		write_roff(out, e[1]);
		fputs(".\n", out);
	}
	fputs("\n.SH SEE ALSO\n", out);
	write_roff(out, c->see_also);
	fputc('\n', out);
}

/* ---- completion ---- */

static void write_cases(const struct mt_command *c, FILE *out)
{
	for (const struct mt_option *o = c->options; o->name; o++) {
		if (o->kind != MT_OPTION_CHOICE)
			continue;
		fprintf(out, "\t%s:--%s) words='", c->name, o->name);
		for (const char *t = o->choices; *t; t++)
			fputc(*t == '|' ? ' ' : *t, out);
		fputs("' ;;\n", out);
	}
}

void mt_help_completion(FILE *out)
{
	fputs("# bash completion for memtrack, made by `memtrack help --completion`\n"
	      "_memtrack() {\n"
	      "\tlocal cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} before words=\n"
	      "\tCOMPREPLY=()\n"
	      "\tif [ \"$COMP_CWORD\" -eq 1 ]; then\n\t\twords='",
	      out);
	for (const struct mt_command *const *c = mt_commands; *c; c++)
		fprintf(out, "%s ", (*c)->name);
	fputs("--version --help'\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n\t\treturn\n\tfi\n"
	      "\tbefore=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tif [ \"$cur\" = '=' ]; then cur=\n"
	      "\telif [ \"$before\" = '=' ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
	      "\tcase $command:$before in\n",
	      out);
	for (const struct mt_command *const *c = mt_commands; *c; c++)
		write_cases(*c, out);
	fputs("\tesac\n\tif [ -n \"$words\" ]; then\n"
	      "\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n\t\treturn\n\tfi\n"
	      "\tcase $command in\n",
	      out);
	for (const struct mt_command *const *c = mt_commands; *c; c++) {
		fprintf(out, "\t%s) words='", (*c)->name);
		for (const struct mt_option *o = (*c)->options; o->name; o++)
			fprintf(out, "--%s%s ", o->name, o->argument && !o->if_bare ? "=" : "");
		fputs("--help' ;;\n", out);
	}
	fputs("\tesac\n", out);
	for (const struct mt_command *const *c = mt_commands; *c; c++)
		if ((*c)->operand_words)
			fprintf(out,
				"\tif [ \"$command\" = %s ] && [[ $cur != -* ]]; then\n"
				"\t\tmapfile -t COMPREPLY < <(compgen -f -W '%s' -- \"$cur\")\n"
				"\t\t[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n"
				"\t\treturn\n\tfi\n",
				(*c)->name, (*c)->operand_words);
	fputs("\tcase $cur in\n"
	      "\t-*)\n\t\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	      "\t\t[[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace\n\t\t;;\n"
	      "\tesac\n}\n"
	      "complete -o default -F _memtrack memtrack\n",
	      out);
}
