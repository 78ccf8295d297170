# SPDX-License-Identifier: MIT
"""
Guard pages of check mode: blocks of up to 1 MiB lie against an inaccessible page, and what touches it is told at once.

  run_pages.py --build DIR [--libc musl|aarch64] [-k SUBSTRING]

What cannot be seen where an emulator runs the program: whether an access read or wrote (the emulator tells handlers
nothing of that), and a limit on address space (the emulator's own memory counts).
"""
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from harness import run_tests

SIZES = [1, 100, 4096, 4097, 5008, 16384, 16385, 65537, 200000, 262145, 1 << 20]
ERROR = re.compile(r"\+\+\+ ALLOCATION 0x([0-9a-f]+) SIZE (\d+) ([A-Z ]+?)(?: \((\w+)\))? at allocation\[(-?\d+)\]$")
TESTS = []


def test(name, case, options="guard_page backtrace", more="guard-side=end"):
    def add(function):
        TESTS.append((name, case, options, more, function))
        return function
    return add


def errors(r):
    """[(block, size, what, access, offset)]"""
    return [(int(m[1], 16), int(m[2]), m[3], m[4], int(m[5])) for m in map(ERROR.match, r.log) if m]


def expect_errors(r, bench, wanted):
    if bench.emulator:
        wanted = [(p, n, what, None, offset) for p, n, what, _, offset in wanted]
    r.expect("errors", errors(r), wanted)


def report(r, bench, *words):
    [state] = glob.glob(r.folder + "/*.mtk")
    return subprocess.run([os.path.join(bench.build, "memtrack"), "report", *words, state], capture_output=True, text=True,
                          timeout=60, check=True).stdout


def behind(p, size):
    return (p + size + 15) // 16 * 16 - p


@test("an access behind a block of any size", "overflow")
def _(r, bench):
    r.expect("wrong", set(r.all("wrong")), {0})
    expect_errors(r, bench, [(p, n, "OVERFLOW", "read", behind(p, n)) for p, n in zip(r.all("p"), SIZES)])


@test("an access before the pages of a block of any size", "underflow")
def _(r, bench):
    r.expect("wrong", set(r.all("wrong")), {0})
    blocks = list(zip(r.all("p"), SIZES))
    if bench.emulator: # its places are of 64 KiB and more, all of which can be written
        blocks = [b for b in blocks if b[1] == 1 << 20]
    expect_errors(r, bench, [(p, n, "UNDERFLOW", "write", -(p % 4096) - 1) for p, n in blocks])


@test("blocks at the start of their pages", "underflow", more="guard-side=start")
def _(r, bench):
    r.expect("wrong", set(r.all("wrong")), {0})
    expect_errors(r, bench, [(p, n, "UNDERFLOW", "write", -1) for p, n in zip(r.all("p"), SIZES)])


@test("a use of a freed block of any size is told once", "use_after_free")
def _(r, bench):
    expect_errors(r, bench, [(p, n, "USED AFTER FREE", "read", n // 2) for p, n in zip(r.all("p"), SIZES)])


for _side in ("end", "start", "either"):
    for _options in ("guard_page", "guard_page=2 guard free_track fill backtrace expand_alloc"):
        @test("contents and alignment stay: %s, %s" % (_options, _side), "resize", _options, "guard-side=" + _side)
        def _(r, bench):
            r.expect_said(bad=0)
            r.expect_log([])


@test("bytes beside a large block", "damage_beside")
def _(r, bench):
    told = [line for line in r.log if line.startswith("+++")]
    r.expect("told", told, ["+++ ALLOCATION 0x%x SIZE 70010 OVERFLOW (bytes beside the block were changed) at allocation[70012]" % r["p"]])


@test("what finds no room is counted and told", "more_than_there_is_room_for", "guard_page")
def _(r, bench):
    r.expect("wrong", set(r.all("wrong")), {0})
    r.expect_log([])
    text = report(r, bench)
    line = re.search(r"  guarded .*", text)
    # x86-64's sizes of places, and those of other machines
    pool = r"1\D?120 slots that takes 112(?:\.0)?" if bench.emulator else r"1\D?504 slots that takes 64(?:\.0)?"
    m = re.search(r"  guarded +(\d+) blocks, in a pool of %s MiB at most; (\d+) more found no free slot$" % pool,
                  line[0] if line else "")
    r.expect("line %r" % (line and line[0],), bool(m), True)
    # what the C library allocates has a place of its own, too, but not 1 MiB
    r.expect("refused", m and int(m[2]), 8)
    r.expect("placed", m and int(m[1]) >= 33, True)


@test("threads", "threads", "guard_page")
def _(r, bench):
    r.expect_said(done=1, bad=-1)
    r.expect_log([])




@test("a limit on address space is the program's", "threads", "guard_page")
def _(r, bench):
    """MiB: blocks of a page alone, or all."""
    for limit, sizes in ((300, [n for n in SIZES if n <= 4096]), (700, SIZES)):
        s = bench.run(r.program, ["overflow_in_little_space", str(limit)], "guard_page", "guard-side=end")
        r.expect("status", s.status, 0)
        r.expect("sizes under %d MiB" % limit, [e[1] for e in errors(s)], sizes)


def main(bench, tap, options):
    program = bench.program("pages.c", name="pages")
    for name, case, words, more, check in TESTS:
        if options.k not in name:
            continue
        if bench.emulator and name.startswith("a limit on address space"):
            tap.skip(name, "the emulator's own memory counts, too")
        else:
            r = bench.run(program, [case], words, more)
            r.expect("status", r.status, 0)
            check(r, bench)
            tap.ok(name, r.problems)


if __name__ == "__main__":
    sys.exit(run_tests(main))
