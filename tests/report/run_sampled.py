#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A program with 100 call sites, recorded in full and sampled: the same ranking of the ten widest sites, and the truth
within the stated intervals. Seeds are the tracker's own, so the limits are ones that chance does not reach.

  run_sampled.py --build DIR
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

INTERVAL, RUNS, SITES, TOP = 2048, 4, 100, 10


class Recording:
    def __init__(self, options, work, name, *how):
        self.tool = options.build + "/memtrack"
        self.path = "%s/%s.mtk" % (work, name)
        self.env = dict(os.environ, MEMTRACK_STATE_DIR=work)
        subprocess.run([self.tool, "run", "--quiet", "-o", self.path, *how, "--",
                        options.build + "/tests/report/hundred_sites"], env=self.env, check=True, timeout=120)

    def report(self, *arguments):
        done = subprocess.run([self.tool, "report", self.path, "--json", "--no-symbols", "--stack=0", "--top=0",
                               *arguments], env=self.env, check=True, timeout=120, capture_output=True, text=True)
        return json.loads(done.stdout)


def rows_of(report):
    """What the program's own sites hold, by hash: the few that the C library makes are left out."""
    rows = {row["callstack_hash"]: row for row in report["sites"]}
    assert len(rows) == len(report["sites"]), "a hash stands for two sites"
    return rows


def is_within(row, name, truth):
    if row is None: # no sample at all
        return name == "count" or truth < 3 * INTERVAL
    low, high = row["estimate"][name + "_low"], row["estimate"][name + "_high"]
    return low <= truth and (high is None or truth <= high)


def check_measure(tap, full, samples, show):
    truth = rows_of(full.report("--show=" + show))
    widest = sorted(truth, key=lambda h: -truth[h]["bytes"])[:SITES]
    problems, within, counts, samples_seen = [], 0, 0, []
    for number, sample in enumerate(samples):
        report = sample.report("--show=" + show)
        rows = rows_of(report)
        ranking = sorted(rows, key=lambda h: -rows[h]["bytes"])[:TOP]
        if ranking != widest[:TOP]:
            problems.append("run %d ranks its ten widest sites otherwise" % number)
        hits = sum(is_within(rows.get(h), "bytes", truth[h]["bytes"]) for h in widest)
        counts += sum(is_within(rows.get(h), "count", truth[h]["count"]) for h in widest)
        within += hits
        samples_seen.append(report["sampling"]["samples"])
        tap.note("%s, run %d: %d samples, %d of %d sites within their intervals" %
                 (show, number, samples_seen[-1], hits, SITES))
    # 89 of 100 is more than five deviations below 95 here
    if within < 0.89 * SITES * RUNS:
        problems.append("the bytes of only %d of %d sites lie within their intervals" % (within, SITES * RUNS))
    if counts < 0.89 * SITES * RUNS:
        problems.append("the blocks of only %d of %d sites lie within their intervals" % (counts, SITES * RUNS))
    if within == SITES * RUNS:
        problems.append("all intervals hold: they are too wide to be of 95 %")
    tap.ok("sampled sites rank and lie as the full record says: %s" % show, problems)


def other_counts(report, truth):
    """
    Where the counts are not those of full mode. A free of a block that nobody saw come (the loader's, with
    LD_LIBRARY_PATH) is unknown there; statistics cannot tell it from any other.
    """
    unseen = truth["unknown_frees"]
    wanted = {"total_alloc": truth["total_alloc"], "total_free": truth["total_free"] + unseen,
              "live_count": truth["live_count"] - unseen, "reallocs": truth["reallocs"]}
    return ["%s is %d, not %d" % (name, report[name], value) for name, value in wanted.items() if report[name] != value]


def check_totals(tap, full, samples):
    """Counts are exact; usable bytes are a little more than what was asked for."""
    truth, problems = full.report(), []
    for number, sample in enumerate(samples):
        report = sample.report()
        problems += ["run %d: %s" % (number, p) for p in other_counts(report, truth)]
        for name in ("total_alloc_bytes", "live_bytes", "peak_bytes"):
            if not truth[name] <= report[name] <= 1.5 * truth[name]:
                problems.append("run %d: %s is %d usable bytes for %d" % (number, name, report[name], truth[name]))
        problems += ["run %d: %s" % (number, warning) for warning in report["warnings"]]
    tap.ok("the totals of sampled runs are exact", problems)


def check_statistics(tap, full, counted):
    truth, report = full.report(), counted.report()
    problems = other_counts(report, truth)
    if sum(size["allocs"] for size in report["sizes"]) != truth["total_alloc"]:
        problems.append("the size classes do not add up")
    if sum(thread["allocs"] for thread in report["threads"]) != truth["total_alloc"]:
        problems.append("the threads do not add up")
    if report["top_leak_sites"] or not any("no call stacks" in note for note in report["notes"]):
        problems.append("it is not said that there are no call sites")
    tap.ok("statistics mode counts the same", problems)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options = parser.parse_args()
    tap = Tap()
    with tempfile.TemporaryDirectory() as work:
        full = Recording(options, work, "full")
        samples = [Recording(options, work, "sample%d" % i, "--mode=sample", "--interval=%d" % INTERVAL)
                   for i in range(RUNS)]
        for show in ("live", "total"):
            check_measure(tap, full, samples, show)
        check_totals(tap, full, samples)
        check_statistics(tap, full, Recording(options, work, "counted", "--mode=stats"))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
