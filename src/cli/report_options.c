/* SPDX-License-Identifier: MIT */
/* From options to a report. */

#include "cli/report_options.h"

#include "core/cc.h"

#include <errno.h>

int mt_report_options_apply(const struct mt_report_options *o, struct mt_loaded *loaded,
			    struct mt_suppress_context *suppress, struct mt_report *ret_report,
			    struct mt_err *err)
{
	bool is_text = o->format == MT_REPORT_TEXT;
	struct mt_load_symbols symbols = {
		.dirs = &o->symbol_dirs,
		.no_cache = o->no_cache,
		.debuginfod = o->debuginfod,
		.warnings = o->verbose ? MT_LOAD_WARN_ALL : MT_LOAD_WARN_SOME,
	};
	int code = 0;

	if (!mt_show_is_table((enum mt_show)o->show) && o->by != MT_BY_SITE)
		return mt_err_set(err, -EINVAL, "--show=%s is not grouped by %s; leave --by out",
				  mt_show_name((enum mt_show)o->show),
				  mt_by_name((enum mt_by)o->by));
	suppress->suppressions =
		mt_load_suppressions(&o->suppressions, o->no_builtin_suppressions, err);
	if (!suppress->suppressions)
		return err->code;
	if (!o->no_symbols)
		code = mt_loaded_symbolize(loaded, &symbols, err);
	if (code)
		return code;
	suppress->names = &loaded->names;
	*ret_report = (struct mt_report){
		.profiles = loaded->profile,
		.profile_count = (uint32_t)loaded->count,
		.show = (enum mt_show)o->show,
		.by = (enum mt_by)o->by,
		.sort = (enum mt_sort)o->sort,
		.top = o->top != UINT64_MAX ? (uint32_t)o->top
		       : is_text            ? MT_REPORT_TOP_DEFAULT
					    : 0,
		.stack = o->stack != UINT64_MAX ? (uint32_t)o->stack
			 : is_text              ? MT_REPORT_STACK_DEFAULT
						: MT_REPORT_STACK_MAX,
		.min_age_ns = o->min_age_ns,
		.modules = o->modules,
		.leak_threshold_bytes = o->leak_threshold_bytes,
		.color = is_text && !o->output && mt_load_is_color(stdout),
		.names = &loaded->names,
		.series = (const struct mt_series *const *)loaded->series,
		.spark = is_text && !o->output ? mt_load_spark(stdout) : MT_SPARK_NONE,
		.is_suppressed = mt_load_is_suppressed,
		.is_error_suppressed = mt_load_is_error_suppressed,
		.suppress_context = suppress,
		.stop = mt_load_stop(),
	};
	return 0;
}
