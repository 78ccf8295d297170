/* SPDX-License-Identifier: MIT */
#include "cli/look.h"

#include "cli/command.h"
#include "cli/leak_search.h"
#include "formats/mtk_read.h"
#include "wire/state.h"

#include <errno.h>
#include <string.h>

static bool is_worth_it(const struct mt_state_header *h)
{
	bool is_full =
		h->mode == MT_MODE_FULL || h->mode == MT_MODE_RECORD || h->mode == MT_MODE_CHECK;

	return is_full && h->first_mode == h->mode && mt_mtk_process_alive(h);
}

/* 0: *ret_profile is marked. Else nothing is there; *err says why. */
static int search(const struct mt_state_header *h, const char *state,
		  struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(mt_leak_search) struct mt_leak_search s = {.pid = h->pid, .state = strdup(state)};
	int code = s.state ? mt_leak_search_open(&s, err) : mt_err_no_memory(err);

	if (!code && !s.is_table)
		code = mt_err_set(err, -ENOTSUP, "not every block is recorded");
	if (!code)
		code = mt_leak_search_run(&s, MT_MARK_INTERIOR, false, err);
	if (code)
		return code;
	mt_leak_search_let_go(&s);
	if (mt_leak_search_mark(&s))
		return mt_err_no_memory(err);
	*ret_profile = mt_leak_search_take(&s);
	return 0;
}

int mt_look(const char *state, struct mt_profile **ret_profile, struct mt_err *err)
{
	struct mt_state_header h;
	struct mt_err why = {0};

	if (mt_mtk_read_header(state, &h, NULL) || !is_worth_it(&h))
		return mt_mtk_read(state, ret_profile, err);
	if (!search(&h, state, ret_profile, &why))
		return 0;
	if (mt_mtk_process_alive(&h)) /* else it has just ended */
		mt_complain("which blocks are lost is not known: %s", why.text);
	return mt_mtk_read(state, ret_profile, err);
}
