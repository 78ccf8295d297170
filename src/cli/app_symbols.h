/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_APP_SYMBOLS_H
#define MT_CLI_APP_SYMBOLS_H

#include "cli/command.h"
#include "model/profile.h"

/*
 * Modules of a heap dump that are packages of an application (zip files that are found in one of
 * `dirs` by their path there or by name, or at their path here) become the libraries in them that
 * were mapped: PACKAGE!/LIBRARY. Packages that cannot be read stay as they are. 0 or -ENOMEM.
 */
int mt_app_symbols_open_packages(struct mt_profile *p, const struct mt_text_list *dirs);

#endif
