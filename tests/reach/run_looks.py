#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Lost and reachable blocks at the end of memtrack run, and in memtrack report of a running process.

  run_looks.py --build DIR [--libc glibc|musl] [-k WORD]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
from cases import Skip, test

TIMEOUT_S = 120
LOST, LOST_BYTES, HELD, HELD_BYTES = 8, 13000, 4, 12000


class Bench(cases.Bench):
    def __init__(self, build, libc):
        super().__init__(build, "looks")
        self.libc = libc
        self.program = self.compile("ends")

    def compile(self, name):
        compiler = {"glibc": "gcc", "musl": "musl-gcc"}[self.libc]
        subprocess.run([compiler, "-g", "-O1", "-w", "-Wl,--eh-frame-hdr", "-pthread", "-DENABLE_MEMTRACK",
                        "-I" + os.path.join(HERE, "..", "..", "include"), os.path.join(HERE, name + ".c"),
                        "-o", os.path.join(self.dir, name)], check=True, timeout=TIMEOUT_S)
        return os.path.join(self.dir, name)

    def preloaded(self, *command, **more):
        """What a program says that is tracked without memtrack run."""
        env = {**self.env, "LD_PRELOAD": self.build + "/libmemtrack.so", "MEMTRACK_MODE": "full", "MEMTRACK_DIR": self.dir,
               "MEMTRACK_STATE_DIR": self.dir, **more}
        return subprocess.run(command, cwd=self.dir, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout

    def run(self, *words, options=(), show="text", program=None):
        """(status, standard error, reports) of a run; reports by program as JSON."""
        done = subprocess.run([self.memtrack, "run", "--leak-threshold=0", "-o", self.dir + "/%e.%p.mtk", *options, "--",
                               program or self.program, *words], cwd=self.dir, env=self.env, capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        files = sorted(f for f in os.listdir(self.dir) if f.endswith(".mtk"))
        return done, [self.report(self.dir + "/" + f) for f in files]

    def report(self, operand, *options):
        text = subprocess.run([self.memtrack, "report", "--json", "--leak-threshold=0", operand, *options], cwd=self.dir, env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
        return json.loads(text)

    def expect_sums(self, what, j, lost=(LOST, LOST_BYTES), held=(HELD, HELD_BYTES), others=2):
        """others: blocks of the C library's that may be held as well."""
        self.expect(what + ": lost", (j.get("lost_count"), j.get("lost_bytes")), lost)
        count, size = j.get("reachable_count", -1), j.get("reachable_bytes", -1)
        if not held[0] <= count <= held[0] + others or size < held[1]:
            self.problems.append("%s: reachable %s in %s blocks, expected %s" % (what, size, count, held))

    def look(self, j):
        return j["processes"][0].get("look", {})


@test
def at_its_end_lost_blocks_are_told_from_others(b):
    done, (j,) = b.run()
    b.expect("status", done.returncode, 0)
    b.expect_sums("json", j)
    b.expect("look", b.look(j)["made"], True)
    b.expect_in("text", "  lost       12.7 KiB (13,000 B) in 8 blocks: nothing points to them any more\n", done.stderr)
    b.expect_in("text", "; 12.7 KiB of it is lost", done.stderr)
    b.expect_in("a site that is lost", "3 blocks of 1000 B on average, all lost, ", done.stderr)
    b.expect_in("a site that is held", "4 blocks of 2.9 KiB on average, reachable, ", done.stderr)
    rows = {r["bytes"]: (r["lost_count"], r["lost_bytes"], r["reachable_count"]) for r in j["top_leak_sites"]}
    b.expect("rows", [rows.get(n) for n in (3000, 10000, 12000)], [(3, 3000, 0), (5, 10000, 0), (0, 0, 4)])


@test
def with_threads_at_work(b):
    for _ in range(5):
        _, reports = b.run("threads")
        j = reports[-1]
        b.expect_sums("json", j, others=20)


@test
def two_hundred_thousand_blocks(b):
    _, (j,) = b.run("many")
    b.expect_sums("json", j, lost=(LOST + 200000, LOST_BYTES + 8000000))


@test
def children_are_looked_at_when_asked_for(b):
    def looked(options):
        _, reports = b.run("fork", options=options)
        for f in os.listdir(b.dir):
            if f.endswith(".mtk"):
                os.unlink(b.dir + "/" + f)
        return sorted((j.get("lost_count", -1), b.look(j)["made"]) for j in reports)
    b.expect("main", looked([]), [(-1, False), (LOST, True)])
    b.expect("all", looked(["--lost=all"]), [(7, True), (LOST, True)])
    b.expect("none", looked(["--lost=none"]), [(-1, False), (-1, False)])
    done, _ = b.run("fork")
    b.expect_in("text", "; 1 of 2 processes were looked at\n", done.stderr)


@test
def without_a_look_the_report_says_so(b):
    for words, wanted in ((("signal",), "nobody looked at its memory before it ended"),
                          (("_exit",), "nobody looked at its memory before it ended"),
                          (("exec", "/bin/true"), "nobody looked at its memory before it ended")):
        done, _ = b.run(*words)
        b.expect_in(words[0], "  lost       not known: %s ('memtrack leaks PID' does while it runs)\n" % wanted, done.stderr)
        for f in os.listdir(b.dir):
            if f.endswith(".mtk"):
                os.unlink(b.dir + "/" + f)


def lookers(pid):
    """Processes that serve the tracked process."""
    with open("/proc/%d/environ" % pid, "rb") as f:
        word = re.search(rb"looker=(\d+)", f.read())
    return [int(word.group(1))]


def is_running(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError: # gone, perhaps between opening and reading
        return False


@test
def nobody_waits_long_for_a_looker_that_does_not_answer(b):
    for what in (signal.SIGSTOP, signal.SIGKILL):
        child = b.start(b.memtrack, "run", "-q", "-o", b.dir + "/%p.mtk", "--", b.program, "wait")
        pid = int(child.stdout.readline().split()[1])
        looker = lookers(pid)
        os.kill(looker[0], what)
        began = time.monotonic()
        child.stdin.write("\n")
        child.stdin.flush()
        while is_running(pid):
            if time.monotonic() - began > 30:
                b.problems.append("%s: it did not end" % what.name)
                break
            time.sleep(0.01)
        waited = time.monotonic() - began
        if waited > 10:
            b.problems.append("%s: it ended after %.1f s" % (what.name, waited))
        if what == signal.SIGSTOP:
            os.kill(looker[0], signal.SIGCONT)
        b.expect("status", child.wait(60), 0)
        j = b.report(b.dir + "/%d.mtk" % pid)
        b.expect("look", b.look(j)["made"], False)
        b.expect_in("why", "in the time that a process waits at its end", b.look(j)["why_not"])


@test
def a_running_process_is_looked_at_by_report(b):
    child = b.start(b.memtrack, "run", "-q", "-o", b.dir + "/%p.mtk", "--", b.program, "wait", "wait")
    pid = child.stdout.readline().split()[1]
    b.expect_sums("json", b.report(pid))
    text = subprocess.run([b.memtrack, "report", pid], env=b.env, capture_output=True, text=True, timeout=TIMEOUT_S, check=True).stdout
    b.expect_in("text", "; it stood still for ", text)
    j = b.report(pid, "--lost=no")
    b.expect("left alone", (b.look(j)["made"], "lost_count" in j), (False, False))
    for show in ("peak", "total"):
        b.expect(show, b.look(b.report(pid, "--show=" + show))["made"], False)
    child.stdin.write("\n\n")
    child.stdin.flush()
    b.expect("status", child.wait(60), 0)
    b.expect_sums("at its end", b.report(b.dir + "/%s.mtk" % pid))


@test
def other_modes_do_not_ask(b):
    for mode in ("sample", "stats"):
        done, reports = b.run(options=["--mode=" + mode])
        b.expect(mode, (done.returncode, "lost_count" in reports[-1], "look" in reports[-1]["processes"][0]), (0, False, False))
        for f in os.listdir(b.dir):
            if f.endswith(".mtk"):
                os.unlink(b.dir + "/" + f)
    for options in (["--mode=record"], ["--check=backtrace guard"]):
        _, reports = b.run(options=options)
        b.expect(options[0], (reports[-1].get("lost_count"), reports[-1].get("lost_bytes")), (LOST, LOST_BYTES))
        for f in os.listdir(b.dir):
            if f.endswith((".mtk", ".mtr")):
                os.unlink(b.dir + "/" + f)


@test
def a_program_asks_for_its_lost_blocks(b):
    asks = b.compile("asks")
    done, _ = b.run("5", program=asks)
    b.expect("under run", done.stdout, "0 77 5 5000 1 1000 4\n")
    done, _ = b.run("0", program=asks)
    b.expect("none", done.stdout, "0 77 0 0 0 0 0\n")
    done, _ = b.run("5", program=asks, options=["--mode=stats"])
    b.expect("statistics", done.stdout, "-95 77 0 0 0 0 0\n")
    b.expect("untracked", subprocess.run([asks, "5"], capture_output=True, text=True, check=True, env=b.env).stdout, "-38 77 0 0 0 0 0\n")
    # neither its SIGCHLD nor what it waits for knows of the command that searches
    b.expect("preloaded", b.preloaded(asks, "5", "signals"), "0 77 5 5000 1 1000 4\n1 7 1 1\n")


@test
def without_the_command_the_program_is_told(b):
    lonely = b.dir + "/lonely"
    os.mkdir(lonely)
    shutil.copy(os.path.realpath(b.build + "/libmemtrack.so"), lonely + "/libmemtrack.so")
    b.expect("no command", b.preloaded(b.compile("asks"), "5", LD_PRELOAD=lonely + "/libmemtrack.so"), "-2 77 0 0 0 0 0\n")


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("--libc", choices=["glibc", "musl"], default="glibc")
    options = parser.parse_args()
    return cases.run(options, lambda: Bench(os.path.abspath(options.build), options.libc))


if __name__ == "__main__":
    sys.exit(main())
