# SPDX-License-Identifier: MIT
"""
How far call stacks reach, and whether they are right, in real programs at work (workloads.py). Of all
allocations of all their processes at least 99.9 % must have a stack that ends at the thread's or
program's entry, those aside whose stack ends in code made at run time (JIT); libdw, asked from outside about every
Nth stack, must find none wrong; and the report must count as this second reader of state files does. Prints TAP.

usage: run_coverage.py MEMTRACK [--all] [-k SUBSTRING]
--all: every workload; else those that need neither a server, a JIT nor much time.
"""
import collections
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support")]
sys.dont_write_bytecode = True
import mtk
import workloads
from tap import Tap

COMPLETE_MIN = 0.999
VERIFY_EVERY = 23 # no divisor of anybody's period
END = {0: "not recorded", 1: "complete", 2: "cut at the depth limit", 3: "code without unwind information",
       4: "unwind rule not supported", 5: "next frame outside the stack"}
GENERATED = "code made at run time (JIT), in no file"
SHOWN = 6
OPTIONS = ["--depth=256", "--verify=%d" % VERIFY_EVERY]


def count_ends(states):
    """Allocations by how their stack ends, and by (how, place) for those that stop before the entry."""
    ends, places = collections.Counter(), collections.Counter()
    for state in states:
        for cell in state.cell[1:]:
            if not cell.allocs:
                continue
            frames, root = state.frames(state.site[cell.site].node)
            module = frames[-1][1] if frames else 0
            end = GENERATED if root == 3 and frames and not module else END[root]
            ends[end] += cell.allocs
            if root > 2 and module:
                places[end, "%s+0x%x" % (os.path.basename(state.module[module].path),
                                         frames[-1][0] - 1 - state.module[module].bias)] += cell.allocs
    return ends, places


def judge(states, ends):
    problems = []
    for state in states:
        lost = sum(t.unplaced_allocs for t in state.thread)
        if lost:
            problems.append("%d allocations of %s have no site" % (lost, state.exe))
    wanted = sum(ends.values()) - ends[GENERATED]
    if not wanted or ends["complete"] < COMPLETE_MIN * wanted:
        problems.append("only %d of %d stacks outside generated code are complete" % (ends["complete"], wanted))
    wrong = sum(s.sum("verify_wrong") for s in states)
    if wrong:
        problems.append("%d of %d stacks are wrong" % (wrong, sum(s.sum("verified") for s in states)))
    if not sum(s.sum("verified") for s in states):
        problems.append("no stack was verified")
    return problems


def compare_report(memtrack, paths, ends):
    """What the report says of the ends, against our own count."""
    done = subprocess.run([memtrack, "report", "--json", "--show=coverage", "--no-symbols", *paths], check=False,
                          capture_output=True, text=True, timeout=workloads.TIMEOUT_S)
    if done.returncode:
        return ["report: " + done.stderr[-300:]]
    reported = {e["end"]: e["count"] for e in json.loads(done.stdout)["coverage"]["stack_ends"]}
    mine = {end: count for end, count in ends.items() if count}
    return [] if reported == mine else ["the report counts %s, we count %s" % (reported, mine)]


def show(tap, states, ends, places):
    total = sum(ends.values())
    unsure = [sum(t.verify_unsure[i] for s in states for t in s.thread) for i in range(3)]
    tap.note("%d processes, %d allocations: %s" % (len(states), total, ", ".join(
        "%s %.4f %%" % (end, 100 * count / max(total, 1)) for end, count in ends.most_common())))
    tap.note("%d stacks verified, %d wrong; not verified: no answer %d, unreadable %d, libdw gave up %d" %
             (sum(s.sum("verified") for s in states), sum(s.sum("verify_wrong") for s in states), *unsure))
    for (end, place), count in places.most_common(SHOWN):
        tap.note("  %d at %s: %s" % (count, place, end))


def check(tap, memtrack, workload):
    directory = tempfile.mkdtemp(prefix="memtrack-coverage-")
    os.chmod(directory, 0o755)
    tracked = workloads.Tracked(memtrack, directory, OPTIONS)
    try:
        workload.function(tracked)
        paths = sorted(glob.glob(tracked.states + "/*.mtk"))
        states = [mtk.State(path) for path in paths]
        ends, places = count_ends(states)
        tap.ok(workload.name, judge(states, ends) + compare_report(memtrack, paths, ends))
        show(tap, states, ends, places)
    except (workloads.Failed, OSError, subprocess.SubprocessError) as error:
        tap.ok(workload.name, ["%s: %s" % (type(error).__name__, error)])
    finally:
        tracked.stop_all()
        shutil.rmtree(directory, ignore_errors=True)


def main():
    memtrack = os.path.abspath(sys.argv[1])
    wanted = sys.argv[sys.argv.index("-k") + 1] if "-k" in sys.argv else ""
    tap = Tap()
    for workload in workloads.WORKLOADS:
        if wanted not in workload.name or not (workload.quick or wanted or "--all" in sys.argv):
            continue
        missing = workload.missing()
        if missing:
            tap.skip(workload.name, "not installed: " + ", ".join(missing))
        else:
            check(tap, memtrack, workload)
    return tap.done()


sys.exit(main())
