#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Every stack of real programs, checked twice. With verify_preload.c: each capture against a walk without
any shortcut and against libunwind. With `memtrack run --verify=1`: each stack in the tables against libdw, from
outside. Prints TAP.

usage: run_verify.py VERIFY_LIBRARY|- MEMTRACK|- [--every-stack]
-: not built (no libunwind; a sanitizer). MEMTRACK: beside its libmemtrack.so. --every-stack: libunwind is asked for each one, and slow
programs run too; else it is asked for the first 20000 of each thread and every 16th one after.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "oracle")]
sys.dont_write_bytecode = True
import mtk
import run_oracle
from tap import Tap

TIMEOUT_S = 200
CAPTURES_MIN = 1000
SAMPLE_FIRST, SAMPLE_EVERY = 20000, 16
PROGRAMS_MIN = 4

# How libunwind may differ, the closed list: {program: {class: how many stacks at most}}. The classes
# are those of verify_preload.c. One that does not occur is stale, and fails.
ALLOWED = {}
NODE_LOOPS = 30000

PYTHON = """
import ctypes, json
json.loads(json.dumps({i: [str(i)] * 3 for i in range(300)}))
json.loads("[" * 300 + "]" * 300) # deeper than the depth limit
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 60)(*[i * 37 % 61 for i in range(60)])
ctypes.CDLL(None).qsort(numbers, 60, 4, compare(lambda x, y: len(str([x[0]])) and x[0] - y[0]))
"""


class Case:
    def __init__(self, name, command, prepare=None, environment=None, slow=False, step=1):
        """step: every how many stacks libdw is asked, unless --every-stack."""
        self.step = step
        self.name, self.command, self.prepare, self.slow = name, command, prepare, slow
        self.environment = environment or {}


CASES = [
    Case("sqlite3", ["/usr/bin/sqlite3", "-batch", ":memory:", ".read script.sql"], run_oracle.prepare_sql),
    Case("python3", ["/usr/bin/python3", "-s", "-S", "-c", PYTHON], environment={"PYTHONMALLOC": "malloc"},
         step=5),
    Case("perl", ["/usr/bin/perl", "-e",
                  "my %h; $h{$_ % 97} .= \"x$_\" for 1..4000; print sort(map { length } %h);"]),
    Case("git log", ["/usr/bin/git", "-c", "core.pager=cat", "log", "--patch", "--stat"], run_oracle.prepare_git),
    Case("jq", ["/usr/bin/jq", "-c", "group_by(.name) | map({(.[0].name): length})", "doc.json"],
         run_oracle.prepare_json),
    Case("gawk", ["/usr/bin/gawk", "{ s[$3] = $2 s[$3 - 1] } length(s[$3]) > 300 { s[$3] = \"\" }", "words.txt"],
         run_oracle.prepare_text),
    Case("cc1", [run_oracle.cc1(), "-quiet", "-fpreprocessed", "-O1", "-O1", "unit.i", "-o", "/dev/null"], run_oracle.prepare_c,
         step=5),
    Case("clang", ["/usr/bin/clang", "-O2", "-c", "unit.i", "-o", "/dev/null"], run_oracle.prepare_c, step=5),
    Case("ruby", ["/usr/bin/ruby", "-e", "(1..300).map { |i| i.to_s * 3 }"], slow=True),
    Case("gdb", ["/usr/bin/gdb", "-nx", "-batch", "-ex", "info files", "/bin/true"], slow=True),
    Case("node", ["/usr/bin/node", "-e", "for (let i = 0, s = 0; i < %d; i++) s += JSON.stringify({i}).length" %
                  NODE_LOOPS], slow=True),
]


def run(case, directory, library, variables):
    """Runs the program with the library. A sentence when it failed, else None."""
    env = {"PATH": "/usr/bin:/bin", "HOME": directory, "LC_ALL": "C"}
    if library:
        env["LD_PRELOAD"] = library
    env.update(case.environment)
    env.update(variables)
    try:
        done = subprocess.run(case.command, cwd=directory, env=env, stdin=subprocess.DEVNULL, text=True,
                              errors="replace", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        return "did not end within %d s" % TIMEOUT_S
    return "exit status %d: %s" % (done.returncode, done.stderr[-500:]) if done.returncode else None


def read_counts(path):
    """Sums over the processes, and the lines that show stacks that differ."""
    counts, shown = {}, []
    with open(path, encoding="utf-8", errors="replace") as f:
        for line in f.read().splitlines():
            if line.startswith("#"):
                shown.append(line)
                continue
            for word in line.split()[1:]:
                name, _, value = word.partition("=")
                counts[name] = counts.get(name, 0) + int(value)
    return counts, shown


CLASSES = ("capture_wrong", "stack_wrong", "libunwind_stops", "no_info", "by_fp")


def judge(case, counts):
    """What is wrong with the counts of a program."""
    problems = []
    allowed = ALLOWED.get(case.name, {})
    for name in CLASSES:
        if counts[name] > allowed.get(name, 0):
            problems.append("%s: %d of %d stacks" % (name, counts[name], counts["compared"]))
        if not counts[name] and name in allowed:
            problems.append("%s did not occur: take it out of the list" % name)
    if min(counts["captures"], counts["compared"]) <= CAPTURES_MIN:
        problems.append("only %d captures" % counts["captures"])
    for name in "memo_hits", "joined", "complete":
        if not counts[name]:
            problems.append("%s is 0: this path was not tested" % name)
    if counts["unread_lists"]:
        problems.append("the list of modules could not be read %d times" % counts["unread_lists"])
    return problems


def with_library(tap, case, library, every_stack):
    name = "%s: against a plain walk and libunwind" % case.name
    with tempfile.TemporaryDirectory() as directory:
        if case.prepare:
            case.prepare(directory)
        output = os.path.join(directory, "verify.out")
        problem = run(case, directory, library, {
            "VERIFY_OUTPUT": output, "VERIFY_FIRST": str(SAMPLE_FIRST),
            "VERIFY_EVERY": "1" if every_stack else str(SAMPLE_EVERY)})
        if not problem and not os.path.exists(output):
            problem = "nothing was written"
        if problem:
            tap.ok(name, [problem])
            return
        counts, shown = read_counts(output)
        problems = judge(case, counts)
        tap.ok(name, problems + shown if problems else [])
        tap.note("%(captures)d captures, of them %(compared)d compared with libunwind; %(complete)d complete, "
                 "%(cut)d cut, %(memo_hits)d from the memo, %(joined)d joined; wrong: " % counts +
                 ", ".join("%s %d" % (c, counts[c]) for c in CLASSES))


def read_states(directory):
    """Number of processes, stacks verified, of them wrong, those not verified by reason."""
    states = [mtk.State(path) for path in glob.glob(os.path.join(directory, "*.mtk"))]
    verified, wrong = (sum(state.sum(field) for state in states) for field in ("verified", "verify_wrong"))
    return len(states), verified, wrong, [sum(t.verify_unsure[i] for s in states for t in s.thread) for i in range(3)]


def with_tracker(tap, case, memtrack, every_stack):
    name = "%s: memtrack run --verify" % case.name
    with tempfile.TemporaryDirectory() as directory:
        if case.prepare:
            case.prepare(directory)
        step = "1" if every_stack else str(case.step)
        launched = Case(case.name, [memtrack, "run", "-q", "--verify=" + step, "-o", directory + "/%e.%p.mtk", "--"] +
                        case.command, environment=case.environment)
        problem = run(launched, directory, None, {})
        if problem:
            tap.ok(name, [problem])
            return
        count, verified, wrong, unsure = read_states(directory)
        problems = []
        if verified <= CAPTURES_MIN:
            problems.append("only %d stacks were verified" % verified)
        if wrong:
            problems.append("%d of %d stacks are wrong" % (wrong, verified))
        if sum(unsure):
            problems.append("not verified (no answer, unreadable, libdw gave up): %s" % unsure)
        tap.ok(name, problems)
        tap.note("%d processes, %d stacks verified, %d wrong" % (count, verified, wrong))


def without_answer(tap, memtrack):
    """A launcher that dies while it verifies: the program goes on after a bounded time, and counts."""
    name = "a launcher that is killed holds nobody up"
    with tempfile.TemporaryDirectory() as directory:
        script = "kill -KILL $PPID; exec perl -e '$h{$_} = \"x$_\" for 1..20000; open(F, q(>done)); close(F)'"
        env = {"PATH": "/usr/bin:/bin", "HOME": directory, "TMPDIR": directory}
        began = time.monotonic()
        subprocess.run([memtrack, "run", "-q", "--verify=1", "--", "/bin/sh", "-c", script], cwd=directory, env=env,
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        while not os.path.exists(directory + "/done") and time.monotonic() - began < TIMEOUT_S:
            time.sleep(0.1)
        took = time.monotonic() - began
        # collects what the dead launcher left
        subprocess.run([memtrack, "ps"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        # two waits of 2 s in each of the two programs; the rest is for a slow machine
        tap.ok(name, [] if took < 60 else ["it took %.0f s" % took])
        tap.note("the program ended after %.1f s" % took)


def without_launcher(tap, memtrack):
    name = "without a launcher nothing is verified, and that is counted"
    with tempfile.TemporaryDirectory() as directory:
        library = os.path.join(os.path.dirname(memtrack), "libmemtrack.so")
        env = {"MEMTRACK_MODE": "full", "MEMTRACK_OPTIONS": "verify=2", "MEMTRACK_STATE_DIR": directory}
        problem = run(Case("ls", ["/bin/ls"]), directory, library, env)
        _, verified, _, unsure = read_states(directory)
        tap.ok(name, [problem] if problem else [] if not verified and unsure[0] and not sum(unsure[1:]) else
               ["verified %d, not verified %s" % (verified, unsure)])


def main():
    verify, memtrack = (os.path.abspath(path) if path != "-" else None for path in sys.argv[1:3])
    every_stack = "--every-stack" in sys.argv[3:]
    if not verify and not memtrack:
        print("1..0 # SKIP neither libunwind nor a tracker without sanitizer")
        return 0
    tap = Tap()
    cases = [case for case in CASES if shutil.which(case.command[0]) and (every_stack or not case.slow)]
    if len(cases) < PROGRAMS_MIN:
        tap.skip("real programs", "only %d of the programs are installed" % len(cases))
        return tap.done()
    if not every_stack:
        tap.note("libunwind is asked for the first %d stacks of each thread, then for every %dth" %
                 (SAMPLE_FIRST, SAMPLE_EVERY))
    for case in cases:
        if verify:
            with_library(tap, case, verify, every_stack)
        else:
            tap.skip("%s: against a plain walk and libunwind" % case.name,
                     "verify_preload is not built: no libunwind, or not x86-64")
        if memtrack:
            with_tracker(tap, case, memtrack, every_stack)
        else:
            tap.skip("%s: memtrack run --verify" % case.name, "the tracker is not built")
    if memtrack:
        without_launcher(tap, memtrack)
        without_answer(tap, memtrack)
    return tap.done()


sys.exit(main())
