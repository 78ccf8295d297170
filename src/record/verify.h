/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_VERIFY_H
#define MT_RECORD_VERIFY_H

/*
 * Answers the questions of tracked processes whether a call stack is right (run --verify=N), in a
 * thread of its own, with another unwinder (record/walker.h). Processes never wait long: they go on
 * by themselves when nobody answers.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "wire/verify.h"

struct mt_verifier;

enum { MT_VERIFIER_SHOWN = 3 }; /* wrong stacks that are described, the first ones */

struct mt_verifier_result {
	uint64_t verdicts[MT_VERIFY_VERDICTS]; /* by enum mt_verify_verdict */
	struct mt_buf wrong; /* lines that show the first wrong stacks, and libdw's; "" when none */
	struct mt_buf gave_up; /* the same of stacks that libdw could not judge */
};

/* Makes the board in the state directory `dir`; answers from now on. 0, or an errno with *err. */
int mt_verifier_start(const char *dir, struct mt_verifier **ret_verifier, struct mt_err *err);

/* Stops answering, removes the board, frees the verifier; *ret_result's buffers are the caller's.
 * NULL is allowed: then *ret_result is zeros. */
void mt_verifier_stop(struct mt_verifier *v, struct mt_verifier_result *ret_result);

/* Private, for tests: what libdw's walk says of the recorded stack. */
struct mt_walk;
enum mt_verify_verdict mt_verify_compare(const struct mt_verify_slot *slot,
					 const struct mt_walk *walk);

#endif
