# SPDX-License-Identifier: MIT
"""
Options of check mode that name call sites (only_sites, guard_page_sites): a site that a log or a report of one run
shows is the same in the next, wherever the modules lie then.

  run_sites.py --build DIR [--libc musl] [-k SUBSTRING]
"""
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
from harness import FRAME, run_tests

TESTS = []
SIZE = 100


def test(name):
    def add(function):
        TESTS.append((name, function))
        return function
    return add


class Sites:
    """What runs of sites.c say of its two places."""

    def __init__(self, bench):
        self.bench, self.program = bench, bench.program("sites.c", name="sites")
        self.places = {}
        for line in self.run("keep", "backtrace leak_track").log:
            m = FRAME.match(line)
            function = self.program.function(int(m[2], 16)) if m and os.path.realpath(m[3]) == self.program.real else ""
            self.places.setdefault(function, []).append(int(m[2], 16) if m else 0)

    def run(self, case, options, more=""):
        r = self.bench.run(self.program, [case], options, more)
        r.expect("status", r.status, 0)
        return r

    def place(self, function, module="sites", more=0):
        """A frame in a function, as reports print it. more: bytes behind."""
        return "%s+0x%x" % (module, self.places[function][0] + more)

    def sites_of(self, case, options):
        """{function: (callstack_hash, frame)} of the blocks, as a report of such a run tells. options "": full mode."""
        r = self.run(case, options)
        [state] = glob.glob(r.folder + "/*.mtk")
        out = subprocess.run([os.path.join(self.bench.build, "memtrack"), "report", "--no-symbols", "--show=total", state],
                             capture_output=True, text=True, timeout=60, check=True).stdout
        found = re.findall(r"callstack_hash (0x[0-9a-f]{16})\n +#0  sites\S+\n +#1  (sites\+0x[0-9a-f]+)\n", out)
        return {self.program.function(int(frame.split("+")[1], 16)): (key, frame) for key, frame in found}


def expect_damaged(s, options, *names, case="damage_both"):
    r = s.run(case, "rear_guard " + options)
    told = [line for line in r.log if line.startswith("+++")]
    r.expect("told with " + options, told, ["+++ ALLOCATION 0x%x SIZE %d HAS A CORRUPTED REAR GUARD" % (r[n], SIZE) for n in names])
    return r.problems


@test("a site of a log is checked in the next run, and no other")
def _(s):
    return expect_damaged(s, "only_sites=" + s.place("first"), "first") + \
        expect_damaged(s, "only_sites=" + s.place("second"), "second") + \
        expect_damaged(s, "only_sites=%s,%s" % (s.place("second"), s.place("first")), "first", "second")


@test("a frame that both have is a site of both, one that none has of none")
def _(s):
    return expect_damaged(s, "only_sites=" + s.place("make"), "first", "second") + \
        expect_damaged(s, "only_sites=" + s.place("first", more=-2)) + \
        expect_damaged(s, "only_sites=" + s.place("first", "other"))


@test("a return address is as good as the address before it")
def _(s):
    step = 4 if s.bench.libc == "aarch64" else 1
    return expect_damaged(s, "only_sites=" + s.place("first", more=step), "first")


@test("modules by a pattern or a whole path")
def _(s):
    return expect_damaged(s, "only_sites=" + s.place("first", "s*e?"), "first") + \
        expect_damaged(s, "only_sites=" + s.place("first", s.program.real), "first") + \
        expect_damaged(s, "only_sites=" + s.place("first", "/nowhere/sites"))


@test("what a report without symbols shows is a site")
def _(s):
    problems = []
    for options in ("backtrace", "backtrace=3", ""):
        found = s.sites_of("damage_both", options)
        if sorted(found) != ["first", "second"]:
            problems.append("sites with %r: %r" % (options, found))
        for name, (key, frame) in found.items():
            for entry in (frame, key, key[2:]):
                problems += expect_damaged(s, "%s only_sites=%s" % (options, entry), name)
    return problems


@test("a site is looked for in the first sixteen frames")
def _(s):
    r = s.run("damage_both_deep", "rear_guard backtrace=20 only_sites=" + s.place_of_deep)
    r.expect("told", [line.split()[2] for line in r.log if line.startswith("+++")], ["0x%x" % r.all("deep")[0]])
    return r.problems


@test("a site is one in other threads and in children")
def _(s):
    option = "only_sites=" + s.place("first")
    return expect_damaged(s, option, "first", case="damage_both_in_a_thread") + \
        expect_damaged(s, option, "first", case="damage_both_in_a_child")


@test("only a site's blocks are held back, without a guard, too")
def _(s):
    problems = []
    for options in ("free_track", "free_track guard", "free_track backtrace fill"):
        r = s.run("use_both_after_free", "%s only_sites=%s" % (options, s.place("second")))
        told = [line for line in r.log if line.startswith("+++")]
        r.expect("told with " + options, told, ["+++ ALLOCATION 0x%x USED AFTER FREE" % r["second"]])
        problems += r.problems
    return problems


@test("only a site's blocks are filled")
def _(s):
    r = s.run("fill_both", "fill only_sites=" + s.place("first"))
    r.expect_said(first_filled=SIZE - 1, second_filled=0)
    r.expect_log([])
    return r.problems


@test("blocks that are left out grow and shrink")
def _(s):
    problems = []
    for options in ("guard fill free_track", "free_track", "fill", "guard_page", "guard backtrace expand_alloc"):
        r = s.run("move_both", "%s only_sites=%s" % (options, s.place("second")))
        r.expect_said(kept=2)
        r.expect_log([])
        problems += r.problems
    return problems


def expect_pages(s, options, most, *names):
    """Reads behind the ends of these blocks are told, of so many blocks."""
    r = s.run("read_behind_both", options, "guard-side=end")
    places = {p: n for n in ("first", "second") for p in r.all(n)}
    told = re.findall(r"\+\+\+ ALLOCATION 0x([0-9a-f]+) SIZE %d OVERFLOW(?: \(read\))? at" % SIZE, "\n".join(r.log))
    r.expect("told with " + options, (len(told), {places.get(int(t, 16)) for t in told}), (most, set(names)))
    return r.problems


@test("a site's blocks lie against inaccessible pages")
def _(s):
    first, second = s.place("first"), s.place("second")
    return expect_pages(s, "guard_page_sites=" + first, 6, "first") + \
        expect_pages(s, "guard_page_sites=" + second, 6, "second") + \
        expect_pages(s, "guard backtrace guard_page=3 guard_page_sites=" + second, 2, "second") + \
        expect_pages(s, "guard_page only_sites=" + first, 6, "first") + \
        expect_pages(s, "guard_page_sites=%s only_sites=%s" % (first, second), 0)


def main(bench, tap, options):
    s = Sites(bench)
    r = s.run("damage_both_deep", "rear_guard backtrace=20")
    found = [FRAME.match(line) for line in r.log]
    deep = [int(m[2], 16) for m in found if m and s.program.function(int(m[2], 16)) == "first_deep"]
    s.place_of_deep = "sites+0x%x" % deep[0]
    for name, function in TESTS:
        if options.k in name:
            tap.ok(name, function(s))


if __name__ == "__main__":
    sys.exit(run_tests(main))
