# SPDX-License-Identifier: MIT
"""
Errors of check mode, from the faulty program to the report: kinds, call stacks with lines, bytes and what they look
like, neighbours; what a leak report says of them; suppressions and the exit status; what survives a kill; what
memtrack ctl, ps and metrics tell of such a process.

  run_errors.py --build DIR [-k SUBSTRING]
"""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

TIMEOUT_S = 120
SOURCE = "faulty.cc"
ON = "backtrace guard free_track"


def marks():
    found = {}
    with open(os.path.join(HERE, SOURCE), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            m = re.search(r"MARK (\w+) (\w+)", line)
            if m:
                found[m[1], m[2]] = number
    return found


# case: (kind, access, offset, bytes, call, alloc_call, found late)
CASES = {
    "overflow": ("overflow", "write", 24, 24, "free", "malloc", True),
    "string_end": ("overflow", "write", 16, 16, "free", "malloc", True),
    "underflow": ("underflow", "write", -8, 40, "realloc", "malloc", True),
    "use_after_free": ("use-after-free", "write", 8, 48, None, "operator new[]", True),
    "double_free": ("double-free", "unknown", 0, 30, "free", "calloc", False),
    "mismatched": ("mismatched-free", "unknown", 0, 20, "free", "operator new[]", False),
}
# first and last changed byte from the block's start, how many, what they look like
BYTES = {
    "overflow": (24, 25, 2, "text", 'the text "hello"'),
    "string_end": (16, 16, 1, "text", 'the zero byte behind the text "sixteen letters."'),
    "underflow": (-8, -5, 4, "integer", "the integer 7 (4 bytes)"),
    "use_after_free": (8, 15, 8, "pointer", None),
}


class Bench:
    def __init__(self, options):
        self.build = options.build
        self.memtrack = os.path.join(options.build, "memtrack")
        self.work = tempfile.mkdtemp(prefix="memtrack-errors-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.states = os.path.join(self.work, "states")
        os.mkdir(self.states, 0o700)
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("MEMTRACK", "LD_", "MALLOC_", "LIBC_DEBUG"))}
        self.env.update(MEMTRACK_STATE_DIR=self.states, XDG_CACHE_HOME=self.work)
        self.problems = []
        self._program = None

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))

    def expect_in(self, what, text, part):
        if part not in text:
            self.problems.append("%s: %r is not in %s" % (what, part, text[-1500:]))

    def program(self):
        path = os.path.join(self.work, "faulty")
        if not self._program:
            done = subprocess.run(["g++", os.path.join(HERE, SOURCE), "-o", path, "-O1", "-g", "-w", "-fno-builtin",
                                   "-fno-inline", "-fno-optimize-sibling-calls"],
                                  capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr[:1000])
            self._program = path
        return self._program

    def tool(self, *words, env=None):
        return subprocess.run([self.memtrack, *words], cwd=self.work, env=dict(self.env, **(env or {})),
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)

    def run(self, *cases, options=ON, run=()):
        """The finished 'memtrack run', whose state is run.mtk."""
        self.forget()
        return self.tool("run", "-o", "run.mtk", *run, self.program(), *cases,
                         env={"LIBC_DEBUG_MALLOC_OPTIONS": options})

    def forget(self):
        for old in glob.glob(os.path.join(self.work, "run*.mtk")):
            os.unlink(old)

    def errors(self, *words):
        done = self.tool("report", "--show=errors", "--json", *words, "run.mtk")
        if done.returncode:
            self.problems.append("report: %s" % done.stderr[:500])
            return [], {}
        told = json.loads(done.stdout)
        return told["errors"], told["check"]

    def line_of(self, actor):
        frames = [f for f in (actor or {}).get("frames", []) if f.get("file", "").endswith("/" + SOURCE)]
        return frames[0]["line"] if frames else None


def options_of(case):
    return "backtrace guard free_track=1" if case == "use_after_free" else ON


def case_is_reported(bench, case):
    done = bench.run(case, options=options_of(case))
    bench.expect("status", done.returncode, 3)
    bench.expect("stdout", done.stdout, "end\n")
    errors, check = bench.errors()
    bench.expect("how many", (len(errors), check.get("errors")), (1, 1))
    for e in errors[:1]:
        got = (e["kind"], e["access"], e.get("offset"), e.get("block_bytes"), e.get("call"), e.get("alloc_call"), e["found_late"])
        bench.expect("facts", got, CASES[case])
        bench.expect("count", e["count"], 1)
        for role in ("use", "alloc", "free"):
            bench.expect("line of " + role, bench.line_of(e.get(role)), marks().get((case, role)))
        if case in BYTES:
            check_bytes(bench, case, e)


def check_bytes(bench, case, e):
    first, last, count, kind, words = BYTES[case]
    changed = e.get("changed", {})
    bench.expect("changed", (changed.get("first_offset"), changed.get("last_offset"), changed.get("count")),
                 (first, last, count))
    looks = e.get("looks_like", {})
    bench.expect("looks like", looks.get("kind"), kind)
    if words:
        bench.expect("looks like", looks.get("words"), words)
    else: # the function whose address was written
        bench.expect_in("looks like", looks.get("words", ""), "to overflow()")
    window = bytes.fromhex(e["window"]["hex"])
    at = int(e["block"], 16) + first - int(e["window"]["address"], 16)
    if not 0 <= at < len(window) or window[at] == changed["expected"]:
        bench.problems.append("the window does not show the changed byte: %s" % e["window"])


def interior_free(bench):
    """The block that holds the address is named."""
    bench.run("interior")
    errors, _ = bench.errors()
    bench.expect("kinds", [(e["kind"], e.get("offset"), e.get("block_bytes")) for e in errors], [("invalid-free", 16, 64), ("invalid-free", 29000, 30000), ("invalid-free", 200000, 300000)])
    for e in errors:
        at = int(e["address"], 16) - int(e["window"]["address"], 16)
        bench.expect("the address is in the window", 0 <= at < len(e["window"]["hex"]) / 2, True)
        bench.expect("line of use", bench.line_of(e.get("use")), marks()["interior", "use"])
        bench.expect("line of alloc", bench.line_of(e.get("alloc")), marks()["interior", "alloc"])


def same_errors_are_one(bench):
    bench.run("loop", "overflow")
    errors, check = bench.errors()
    bench.expect("groups", [(e["kind"], e["count"]) for e in errors], [("overflow", 5), ("overflow", 1)])
    bench.expect("errors", check.get("errors"), 6)
    text = bench.tool("report", "--show=errors", "run.mtk").stdout
    bench.expect_in("text", text, "6 memory errors: 6 heap buffer overflow\n")
    bench.expect_in("text", text, "5 times with the same call stacks")


def a_look_at_the_heap_blames_nobody(bench):
    """check_heap_every finds it in a call that has nothing to do with the block."""
    done = bench.run("kept", "innocent", options=ON + " check_heap_every=20", run=("--report=errors",))
    errors, _ = bench.errors()
    bench.expect("errors", [(e["kind"], e["found_by_look"], e["found_late"], e.get("offset")) for e in errors],
                 [("overflow", True, True, 24)])
    for part in ("   found by a look at the whole heap, in a call of ", "   the block is live; who wrote is not known\n",
                 "%s:%d" % (SOURCE, marks()["kept", "alloc"])):
        bench.expect_in("text", done.stderr, part)
    done = bench.run("kept", "innocent", options=ON + " check_heap_every=20", run=("--report=leaks",))
    bench.expect_in("place", done.stderr, "1 corruption error at kept() (%s:%d)\n" % (
        os.path.join(HERE, SOURCE), marks()["kept", "alloc"]))


def what_nobody_frees_is_looked_at_in_the_end(bench):
    done = bench.run("kept", run=("--report=leaks", "--error-exitcode=55"))
    bench.expect("status", done.returncode, 55)
    bench.expect_in("verdict", done.stderr, "leak report unreliable: 1 corruption error at kept() (%s:%d)\n" % (
        os.path.join(HERE, SOURCE), marks()["kept", "alloc"]))
    errors, _ = bench.errors()
    bench.expect("errors", [(e["kind"], e["found_by_look"], e.get("call"), e.get("changed", {}).get("count")) for e in errors],
                 [("overflow", True, None, 3)])
    text = bench.tool("report", "--show=errors", "run.mtk").stdout
    bench.expect_in("text", text, "   found by a look at the whole heap when the program ended, ")
    # a sound block is no error, and one that was told is not told again
    done = bench.run("leak", run=("--report=errors",))
    bench.expect_in("sound", done.stderr, "0 memory errors\n")
    bench.run("kept", "innocent", options=ON + " check_heap_every=20")
    bench.expect("told once", len(bench.errors()[0]), 1)
    done = bench.run("kept", options=ON + " abort_on_error")
    bench.expect("abort_on_error", done.returncode, -signal.SIGABRT)


def words_say_what_was_done_and_where(bench):
    done = bench.run("overflow", "underflow", "double_free", "realloc_freed", run=("--report=errors",))
    for part in ("4 memory errors: 1 heap buffer overflow, 1 heap buffer underflow, 1 double free, 1 realloc after free\n",
                 "heap buffer overflow: overwritten directly behind a block of 24 bytes\n",
                 "heap buffer underflow: overwritten 8 bytes before a block of 40 bytes\n",
                 "double free: free of an address at the start of a block of 30 bytes\n",
                 "realloc after free: realloc of an address at the start of a block of 30 bytes\n"):
        bench.expect_in("text", done.stderr, part)
    if not re.search(r"   block before: \d+ bytes, ends \d+ bytes before this one begins, freed", done.stderr):
        bench.problems.append("neighbour: %s" % done.stderr)


def leak_report_is_called_unreliable(bench):
    done = bench.run("overflow", "mismatched", "leak")
    first = next((line for line in done.stderr.splitlines() if "memory error" in line), "")
    bench.expect("first", first, "2 memory errors: 1 heap buffer overflow, 1 mismatched free")
    bench.expect_in("verdict", done.stderr, "leak report unreliable: 1 corruption error at overflow() (%s:%d)\n" % (
        os.path.join(HERE, SOURCE), marks()["overflow", "alloc"]))
    bench.expect_in("how to see them", done.stderr, "memtrack report --show=errors")
    bench.expect_in("count", done.stderr, "frees by a function that does not go with the allocation")
    kv = bench.tool("report", "--kv", "run.mtk").stdout
    bench.expect_in("key=value", kv, "[STATS] memory_error_count=2\n[STATS] mismatched_free_count=1\n")
    done = bench.run("leak")
    if "unreliable" in done.stderr or "memory error" in done.stderr:
        bench.problems.append("a sound program: %s" % done.stderr)
    done = bench.run("mismatched", "leak")
    if "unreliable" in done.stderr:
        bench.problems.append("nothing was overwritten: %s" % done.stderr)


def without_stacks(bench):
    """Blocks without stacks are in no site; nothing is wrong with that."""
    done = bench.run("overflow", "leak", options="guard")
    errors, _ = bench.errors()
    bench.expect("errors", [(e["kind"], "alloc" in e) for e in errors], [("overflow", False)])
    bench.expect("line of use", bench.line_of(errors[0].get("use")) if errors else None, marks()["overflow", "use"])
    if "warning" in done.stderr:
        bench.problems.append("a warning: %s" % done.stderr)


def places_are_the_programs(bench):
    """Not the inside of operator new."""
    done = bench.run("use_after_free", options=options_of("use_after_free"))
    bench.expect_in("place", done.stderr, "1 corruption error at use_after_free() (%s:%d)\n" % (
        os.path.join(HERE, SOURCE), marks()["use_after_free", "alloc"]))


def run_shows_errors_whole(bench):
    done = bench.run("use_after_free", options=options_of("use_after_free"), run=("--report=errors",))
    for part in ("use after free: overwritten 8 bytes from the start of a block of 48 bytes", "who wrote is not known", "allocated with operator new[] by thread",
                 "freed by thread", "%s:%d" % (SOURCE, marks()["use_after_free", "free"]),
                 "changed 8 bytes at offsets 8 to 15, where 0xef was to be; looks like a pointer, 0x",
                 "bytes there, changed ones in brackets:"):
        bench.expect_in("text", done.stderr, part)


def exit_status_tells(bench):
    bench.expect("errors", bench.run("double_free", run=("--report=none", "--error-exitcode=55")).returncode, 55)
    bench.expect("none", bench.run(run=("--report=none", "--error-exitcode=55")).returncode, 3)
    # a signal does not hide an error; what is live then is no leak
    bench.expect("killed", bench.run("overflow", "kill", run=("--report=none", "--error-exitcode=55")).returncode, 55)
    bench.expect("aborted", bench.run("double_free", options=ON + " abort_on_error",
                                      run=("--report=none", "--error-exitcode=55")).returncode, 55)
    bench.expect("killed, no error", bench.run("leak", "kill", run=("--report=none", "--error-exitcode=55",
                                                                    "--leak-threshold=0")).returncode, -signal.SIGKILL)
    bench.run("double_free")
    bench.expect("report", bench.tool("report", "--error-exitcode=56", "run.mtk").returncode, 56)


def suppressions_are_counted_aloud(bench):
    path = os.path.join(bench.work, "rules.supp")
    with open(path, "w", encoding="ascii") as file:
        file.write("mismatched-free:^mismatched()$\n{\n known\n Memcheck:Free\n fun:free\n fun:_ZL11double_freev\n}\n")
    done = bench.run("double_free", "mismatched", run=("--suppressions=" + path, "--error-exitcode=55"))
    bench.expect("status", done.returncode, 3)
    bench.expect_in("run", done.stderr, "0 memory errors\n  suppressed and not shown: 2 errors\n")
    errors, check = bench.errors("--suppressions=" + path)
    bench.expect("JSON", (errors, check.get("errors"), check.get("errors_suppressed")), ([], 0, 2))
    done = bench.run("double_free", "overflow", run=("--suppressions=" + path, "--error-exitcode=55"))
    bench.expect("status", done.returncode, 55)


def errors_survive_a_kill(bench):
    done = bench.run("overflow", "double_free", "mismatched", "kill")
    bench.expect("status", done.returncode, -signal.SIGKILL)
    errors, _ = bench.errors()
    bench.expect("errors", [e["kind"] for e in errors], ["overflow", "double-free", "mismatched-free"])
    bench.expect("line", bench.line_of(errors[0].get("use")) if errors else None, marks()["overflow", "use"])
    bench.expect("bytes", errors[0].get("looks_like", {}).get("words") if errors else None, 'the text "hello"')


def rows_for_programs(bench):
    bench.run("overflow", "double_free")
    csv = bench.tool("report", "--show=errors", "--csv", "run.mtk").stdout.splitlines()
    bench.expect("CSV", [line.split(",")[1:4] for line in csv],
                 [["kind", "count", "access"], ["overflow", "1", "write"], ["double-free", "1", "unknown"]])
    kv = bench.tool("report", "--show=errors", "--kv", "run.mtk").stdout
    for part in ("[ERROR] kind=overflow\n", '[ERROR] looks_like=the text "hello"\n', "[STATS] memory_error_count=2\n"):
        bench.expect_in("key=value", kv, part)


def a_process_in_check_mode(bench):
    """It cannot be told to go on otherwise; watchers name its mode and count its errors."""
    env = dict(bench.env, LIBC_DEBUG_MALLOC_OPTIONS=ON)
    bench.forget()
    with subprocess.Popen([bench.memtrack, "run", "-o", "run.mtk", "--report=none", bench.program(), "overflow",
                           "wait"], cwd=bench.work, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        try:
            bench.expect("started", process.stdout.readline(), "ready\n")
            for word in ("off", "on", "mode=full", "interval=4096", "every=2"):
                done = bench.tool("ctl", "name:faulty", word)
                bench.expect("status of " + word, done.returncode, 1)
                bench.expect_in(word, done.stderr, "in check mode, in which its blocks have headers: '%s' cannot be changed" % word)
            for word in ("label=x", "reset-peak", "modules=-libfoo*"):
                bench.expect(word, bench.tool("ctl", "--wait=0", "name:faulty", word).returncode, 0)
            bench.expect_in("ctl", bench.tool("ctl", "name:faulty").stdout, "mode       check")
            ps = [line for line in bench.tool("ps").stdout.splitlines() if "faulty" in line]
            bench.expect("ps", [" check " in line for line in ps], [True])
            text = bench.tool("metrics", "--textfile=-").stdout
            bench.expect("metrics", len(re.findall(r'memtrack_mode{[^}]*program="faulty",mode="check"} 1', text)), 1)
            bench.expect("errors", re.findall(r'memtrack_memory_errors_total{[^}]*program="faulty",kind="overflow"} (\d+)', text),
                         ["1"])
            process.stdin.write("x")
            process.stdin.close()
            bench.expect("status", process.wait(TIMEOUT_S), 3)
        finally:
            process.kill()
    errors, _ = bench.errors()
    bench.expect("errors", [e["kind"] for e in errors], ["overflow"])


def tests():
    for case in CASES:
        yield "%s is reported with lines and bytes" % case, case_is_reported, (case,)
    yield "free of an address inside of a block", interior_free, ()
    yield "same errors are one", same_errors_are_one, ()
    yield "a look at the heap blames nobody", a_look_at_the_heap_blames_nobody, ()
    yield "what nobody frees is looked at in the end", what_nobody_frees_is_looked_at_in_the_end, ()
    yield "words say what was done and where", words_say_what_was_done_and_where, ()
    yield "a leak report is called unreliable", leak_report_is_called_unreliable, ()
    yield "blocks without stacks", without_stacks, ()
    yield "places are the program's", places_are_the_programs, ()
    yield "run shows errors whole", run_shows_errors_whole, ()
    yield "the exit status tells", exit_status_tells, ()
    yield "suppressions are counted aloud", suppressions_are_counted_aloud, ()
    yield "errors survive a kill", errors_survive_a_kill, ()
    yield "rows for programs", rows_for_programs, ()
    yield "a process in check mode", a_process_in_check_mode, ()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap, bench = Tap(), Bench(options)
    try:
        for name, function, arguments in tests():
            if options.k not in name:
                continue
            bench.problems = []
            if not shutil.which("g++"):
                tap.skip(name, "g++ is not installed")
                continue
            function(bench, *arguments)
            tap.ok(name, bench.problems)
    finally:
        shutil.rmtree(bench.work, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
