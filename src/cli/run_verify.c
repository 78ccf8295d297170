/* SPDX-License-Identifier: MIT */
/* What the verification of call stacks found, for people. */
#include "cli/run_verify.h"

#include "cli/command.h"

#include <inttypes.h>
#include <string.h>

static void tell_stacks(const char *text)
{
	for (size_t len; *text; text += len + (text[len] != 0)) {
		len = strcspn(text, "\n");
		mt_complain("%.*s", (int)len, text);
	}
}

void mt_run_verify_tell(struct mt_verifier *verifier, bool is_verbose)
{
	struct mt_verifier_result v;
	const uint64_t *n = v.verdicts;

	mt_verifier_stop(verifier, &v);
	if (n[MT_VERIFY_WRONG]) {
		mt_complain("%" PRIu64 " of %" PRIu64 " verified call stacks are wrong; the first:",
			    n[MT_VERIFY_WRONG], n[MT_VERIFY_WRONG] + n[MT_VERIFY_SAME]);
		tell_stacks(mt_buf_text(&v.wrong));
	}
	if (n[MT_VERIFY_GAVE_UP] && is_verbose) {
		mt_complain("%" PRIu64 " call stacks could not be verified by libdw; the first:",
			    n[MT_VERIFY_GAVE_UP]);
		tell_stacks(mt_buf_text(&v.gave_up));
	}
	mt_buf_done(&v.wrong);
	mt_buf_done(&v.gave_up);
}
