/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_CONTROL_H
#define MT_RECORD_CONTROL_H

/*
 * Requests to a tracked process that runs: how it records is changed by writing into its state file
 * (docs/formats/mtk.md, Control). No signal, no socket; the process takes a request over with its
 * next allocation or free.
 */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * Appends a word that a person wrote to the text of a request, as the tracker reads it: on, off,
 * mode=M, interval=SIZE, intervals=LIST, every=N, modules=+-GLOB,..., label=TEXT, reset-peak. 0; or
 * -EINVAL with *err (one sentence without the name of a command) when it is none or its value
 * cannot be; -ENOMEM.
 */
int mt_control_add_word(struct mt_buf *text, const char *word, struct mt_err *err);

enum mt_control_result {
	MT_CONTROL_TAKEN = 0,
	MT_CONTROL_PENDING = 1, /* it stands, and is taken over with the next event */
};

/*
 * Sends a request to the process of a state file and waits at most wait_ns until it is taken over.
 * A request that still stands is not lost: the new one is added behind it. One of enum
 * mt_control_result, or a negative errno value with *err: -ESRCH when the process has ended,
 * -EBUSY when another controller is at work all the time, -EACCES and others when the file cannot
 * be written, -EPROTONOSUPPORT for states without control (of older trackers), -E2BIG for a text
 * that does not fit, -EINVAL for what cannot change in check mode, -EINVAL and others when the
 * tracker refused it; then nothing has changed.
 */
int mt_control_send(const char *path, const char *text, uint64_t wait_ns, struct mt_err *err);

/* Test entry: what the controller that has the lock does before it writes anything. */
extern void (*mt_control_locked_for_test)(void);

#endif
