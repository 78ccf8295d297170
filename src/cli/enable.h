/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_ENABLE_H
#define MT_CLI_ENABLE_H

/* What 'memtrack enable' and 'memtrack disable' share: where the files of the system are. */

#include "record/conf_file.h"
#include "wire/programs.h"

#define MT_ENABLE_LIBRARY "libmemtrack.so"
#define MT_ENABLE_LOADER_LIST "/etc/ld.so.preload"
enum { MT_ENABLE_LIST_MAX = 4000 }; /* bytes of that list: more the library would not read */

struct mt_enable_place {
	char *root;        /* "" or a folder without a slash at its end */
	char *config;      /* path of the configuration file */
	char *loader_list; /* path of ld.so.preload */
	bool is_here;      /* this machine's own files, and not those of an image */
};

/* config: NULL, or as the user gave it. 0; or after a message: the exit status. */
int mt_enable_place_init(struct mt_enable_place *p, const char *root, const char *config);
void mt_enable_place_done(struct mt_enable_place *p);
MT_AUTO_DEFINE_INPLACE(mt_enable_place, struct mt_enable_place, mt_enable_place_done)

/* Locks and reads the configuration file. 0 or an errno value with *err. */
int mt_enable_open(const struct mt_enable_place *p, struct mt_conf_lock *lock,
		   struct mt_conf_file *file, struct mt_err *err);

/* The text of a file that was read. */
struct mt_program_text mt_enable_text(const struct mt_conf_file *file);

/* A user's number: of a name in the place's /etc/passwd, or a number. 0, -EINVAL with *err. */
int mt_enable_user(const struct mt_enable_place *p, const char *user, uint32_t *ret_user,
		   struct mt_err *err);

/* Whether the loader's list of the place names our library; NULL or its path, which the caller
 * frees. */
char *mt_enable_system_library(const struct mt_enable_place *p);

/* The list as it is and whether it has our library; prints. 0 or an exit status. */
int mt_enable_list(const struct mt_enable_place *p);

#endif
