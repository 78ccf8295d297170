/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_UNIT_FILE_H
#define MT_RECORD_UNIT_FILE_H

/* Drop-ins that give a systemd service variables. */

#include "base/buf.h"
#include "base/err.h"

/*
 * The unit's full name: "nginx" is nginx.service. Heap; caller frees. NULL with *err: it is no name
 * of a service, or no memory.
 */
char *mt_unit_name(const char *name, struct mt_err *err);

/* Path of our drop-in below root ("": the machine's own). Heap; caller frees; NULL: no memory. */
char *mt_unit_drop_in(const char *root, const char *unit);

/*
 * Appends the value of LD_PRELOAD that the unit has already by Environment= lines in its file and
 * its drop-ins, ours excepted; "" when it has none. 0 or -ENOMEM.
 */
int mt_unit_preload(const char *root, const char *unit, struct mt_buf *out);

/* Appends a line Environment="NAME=VALUE", quoted. 0 or -ENOMEM. */
int mt_unit_add_variable(struct mt_buf *out, const char *name, const char *value);

#endif
