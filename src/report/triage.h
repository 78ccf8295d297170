/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_TRIAGE_H
#define MT_REPORT_TRIAGE_H

/*
 * A triage as text and JSON (docs/triage.md): what each step found, the verdict in one sentence,
 * the next command. Nothing here prints. Deterministic: same facts, same bytes.
 */

#include "analysis/triage.h"
#include "base/buf.h"

#define MT_TRIAGE_SCHEMA "memtrack-triage-1"

/* Appends it. 0 or -ENOMEM. */
int mt_triage_text(const struct mt_triage_facts *f, struct mt_buf *out);
int mt_triage_json(const struct mt_triage_facts *f, struct mt_buf *out);

/* ---- private to report ---- */

/* The verdict as one sentence, and the command to go on with; without newlines. */
void mt_triage_add_sentence(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			    struct mt_buf *out);
void mt_triage_add_next(const struct mt_triage_facts *f, const struct mt_triage_judgement *j,
			struct mt_buf *out);

/* How a part is called in sentences. */
const char *mt_triage_part_name(enum mt_triage_part part);

#endif
