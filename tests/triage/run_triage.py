#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack triage on real programs, each of which does one thing to its memory: verdict, evidence, the next command, and
that nothing in the program changes.

  run_triage.py --build DIR [-k WORD]
"""
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
from cases import test

TIMEOUT_S, AT_ONCE = 90, 9
KEPT_LINES = ("TracerPid", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "FDSize")
SLEEPS = ("230 ", "35 ") # clock_nanosleep, nanosleep of x86-64

# kind: (verdict, part or None, a word of the sentence, the start of the next command)
EXPECTED = {
    "leak": ("lost", "heap", "can be reached by no pointer", "memtrack leaks "),
    "slow": ("lost", "heap", "the native heap grew", "memtrack leaks "),
    "container": ("live", "heap", "still points to them", "memtrack run --mode=sample -- "),
    "mmap": ("anonymous", "anonymous", "the program maps it itself", "memtrack run "),
    "threads": ("stacks", "stacks", "more than at first", "memtrack maps "),
    "file": ("files", "files", "mapped.data", "memtrack maps "),
    "shm": ("shared", "shared", "/dev/shm/memtrack-triage-", "memtrack maps "),
    "tmpfs": ("buffers", "buffers", "/dev/shm/memtrack-triage-", "ls -l /proc/"),
    "memfd": ("buffers", "buffers", "/memfd:frame", "ls -l /proc/"),
    "descriptors": ("descriptors", None, "no memory grows", "ls -l /proc/"),
    "addresses": ("mappings", None, "taken and not used", "memtrack maps "),
    "fragmented": ("fragmented", "heap", "are live blocks", "memtrack allocators "),
    "cache": ("steady", None, "no block is lost", "memtrack triage "),
    "lost": ("lost", "heap", "nothing grows now", "memtrack leaks "),
    "beside": ("live", "heap", "MiB in 30,7", "memtrack run --mode=sample -- "),
    "decoy": ("steady", None, "no block is lost", "memtrack triage "),
    "steady": ("steady", None, "nothing grew", "memtrack triage "),
    "damaged": ("damaged", None, "do not agree in 1 place", "memtrack run --mode=check -- "),
}
LONGER = {"slow": "4s"}


class Bench(cases.Bench):
    def __init__(self, build):
        super().__init__(build, "triage")
        self.env["MEMTRACK_STATE_DIR"] = self.dir
        with open(self.dir + "/mapped.data", "wb") as f:
            f.truncate(64 * 16 * 4096)

    def scenario(self, kind, *before):
        """(child, pid of the program)"""
        child = self.start(*before, self.build + "/tests/triage/scenarios", kind)
        word, pid = child.stdout.readline().split()
        assert word == "ready"
        return child, int(pid)

    def triage(self, pid, *args):
        done = subprocess.run([self.memtrack, "triage", str(pid), *args], cwd=self.dir, env=self.env, capture_output=True,
                              text=True, errors="replace", timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL)
        if done.returncode or done.stderr:
            self.problems.append("triage %s: status %d: %s" % (args, done.returncode, done.stderr))
        return done.stdout

    def json(self, pid, *args):
        return json.loads(self.triage(pid, "--json", *args))

    def begin(self, pid, *args):
        """Starts a triage; returns when its first reading is done."""
        child = self.start(self.memtrack, "triage", str(pid), "--json", *args)
        end = time.monotonic() + TIMEOUT_S
        while time.monotonic() < end:
            with open("/proc/%d/syscall" % child.pid, encoding="utf-8") as f:
                if f.read().startswith(SLEEPS):
                    return child
            time.sleep(0.005)
        raise ValueError("triage does not begin to wait")

    def end(self, child):
        return json.loads(child.communicate(timeout=TIMEOUT_S)[0])


def part(facts, name):
    return [p for p in facts["parts"] if p["part"] == name][0]


def look_at(build, kind):
    b = Bench(build)
    try:
        child, pid = b.scenario(kind)
        facts = b.json(pid, "--for=" + LONGER.get(kind, "2s"))
        if child.poll() is not None:
            b.problems.append("the program ended")
        return facts, b.problems
    finally:
        b.close()


def check(b, kind, facts):
    verdict, of, word, following = EXPECTED[kind]
    told = "%s: %s (%s)" % (kind, facts["sentence"], facts["next"])
    b.expect("verdict of " + told, facts["verdict"], verdict)
    b.expect("part of " + told, facts["part"], of)
    b.expect_in(told, word, facts["sentence"])
    if not facts["next"].startswith(following):
        b.problems.append("next of " + told)
    b.expect("readings of " + kind, len(facts["at_ns"]) in (3, 5), True)
    b.notes.append(told)


@test
def each_scenario_has_its_verdict(b):
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        looks = {kind: pool.submit(look_at, b.build, kind) for kind in EXPECTED}
    for kind, look in looks.items():
        facts, problems = look.result()
        b.problems += problems
        check(b, kind, facts)
        if kind in ("leak", "container", "fragmented", "damaged"):
            b.expect(kind + ": allocator", facts["allocator"]["step"], "done")
            if not facts["allocator"]["stop_ns"]:
                b.problems.append(kind + ": no time for which it stood still")
        if kind in ("threads", "file", "memfd"):
            b.expect(kind + ": the allocator is left alone", facts["allocator"]["step"], "not_needed")
    beside = looks["beside"].result()[0]["reachability"]
    if not beside["lost_bytes"] >= 30720000 or abs(beside["lost_bytes"] - beside["before_lost_bytes"]) > 128 << 10:
        b.problems.append("the old leak beside what grows: %r" % beside)
    leak = looks["leak"].result()[0]["reachability"]
    if leak["lost_bytes"] < leak["before_lost_bytes"] + (128 << 10):
        b.problems.append("the leak in the last half: %r" % leak)
    b.expect("damages, decoy", looks["decoy"].result()[0]["allocator"]["damages"], 0)
    b.expect("damages", looks["damaged"].result()[0]["allocator"]["damages"], 1)


@test
def the_heaps_of_other_allocators_are_heaps(b):
    found = [path for path in glob.glob("/usr/lib/*-linux-gnu/lib*") if re.search(r"/lib(jemalloc|mimalloc)\.so\.2$", path)]
    if not found:
        raise cases.Skip("neither libjemalloc2 nor libmimalloc2.0 is installed")
    for path in found:
        for kind in "leak", "container":
            _, pid = b.scenario(kind, "env", "LD_PRELOAD=" + path)
            check(b, kind, b.json(pid, "--for=2s"))


@test
def what_fills_and_stays_is_levelled(b):
    child, pid = b.scenario("filling")
    triage = b.begin(pid, "--for=3s")
    child.stdin.write("x")
    child.stdin.flush()
    facts = b.end(triage)
    b.expect("verdict: " + facts["sentence"], facts["verdict"], "levelled")
    if part(facts, "heap")["growth_bytes"] < 19 << 20:
        b.problems.append("growth: %r" % part(facts, "heap"))


@test
def a_process_that_ends_is_told(b):
    child, pid = b.scenario("steady")
    triage = b.begin(pid, "--for=8s")
    child.kill()
    child.wait()
    facts = b.end(triage)
    b.expect("verdict", (facts["verdict"], facts["has_ended"]), ("ended", True))
    if facts["watched_ns"] > 7.9e9:
        b.problems.append("it waited to the end")


@test
def a_tracked_process_names_its_call_site(b):
    _, pid = b.scenario("container", b.memtrack, "run", "--report=none", "-o", b.dir + "/x.mtk", "--")
    facts = b.json(pid, "--for=2s")
    sites = facts["tracker"]["sites"]
    b.expect("verdict: " + facts["sentence"], facts["verdict"], "live")
    b.expect("mode", facts["tracker"]["mode"], "full")
    if not sites or "filled" not in sites[0]["site"] or sites[0]["growth_bytes"] < 128 << 10:
        b.problems.append("sites: %r" % sites)
    b.expect_in("sentence", "filled", facts["sentence"])
    b.expect("next", facts["next"], "memtrack report %d --show=live" % pid)
    b.expect_in("text", "tracked in mode full", b.triage(pid, "--for=200ms"))


NEW = """
#include <cstdio>
#include <unistd.h>
static char *volatile last;
__attribute__((noinline)) void take_order() { for (int i = 0; i < 50; i++) last = new char[300]; }
int main() { alarm(20); printf("%d\\n", getpid()); fflush(stdout); for (;;) { take_order(); usleep(5000); } }
"""


@test
def a_site_of_new_is_named_by_who_wrote_new(b):
    with open(b.dir + "/new.cc", "w", encoding="ascii") as f:
        f.write(NEW)
    subprocess.run(["g++", "-g", "-O1", "-w", "new.cc", "-o", "new"], cwd=b.dir, check=True)
    child = b.start(b.memtrack, "run", "--report=none", "-o", b.dir + "/new.mtk", "--", "./new")
    facts = b.json(int(child.stdout.readline()), "--for=1s")
    b.expect_in("site", "take_order()  new.cc:5", facts["tracker"]["sites"][0]["site"])


@test
def nothing_in_the_process_changes(b):
    def state():
        with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
            maps = f.read()
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:
            return maps, [line for line in f if line.startswith(KEPT_LINES)]

    child, pid = b.scenario("lost")
    before, descriptors = state(), sorted(os.listdir("/proc/%d/fd" % pid))
    facts = b.json(pid, "--for=1s")
    b.expect("it was looked into", facts["reachability"]["step"], "done")
    b.expect("maps and status", state(), before)
    b.expect("descriptors", sorted(os.listdir("/proc/%d/fd" % pid)), descriptors)
    child.stdin.close()
    b.expect("status at its end", child.wait(timeout=20), 0)


@test
def no_stop_leaves_out_what_takes_a_copy(b):
    _, pid = b.scenario("leak")
    facts = b.json(pid, "--for=1s", "--no-stop")
    b.expect("steps", (facts["allocator"]["step"], facts["reachability"]["step"]), ("refused", "refused"))
    b.expect("stood still for", facts["allocator"]["stop_ns"], 0)
    b.expect("verdict", facts["verdict"], "heap")
    b.expect_in("sentence", "could not be asked", facts["sentence"])


@test
def the_text_has_each_step_the_verdict_and_the_next_command(b):
    _, pid = b.scenario("leak")
    lines = b.triage(pid, "--for=1s").splitlines()
    for begin in ("process %d (scenarios), watched for " % pid, "1 what grows ", "2 where ", "3 allocator ", "4 whose ",
                  "5 reachable ", "6 damage ", "verdict: leak: ", "next:    memtrack leaks %d" % pid):
        if not any(line.startswith(begin) for line in lines):
            b.problems.append("no line %r in %r" % (begin, lines))


PYTHON = """
import time
kept = []
print("ready", flush=True)
while True:
    kept.extend(bytes(1000) + b"%d" % len(kept) for _ in range(64))
    time.sleep(0.01)
"""


@test
def python_that_grows_is_a_container(b):
    child = b.start(sys.executable, "-c", PYTHON)
    child.stdout.readline()
    facts = b.json(child.pid, "--for=2s")
    b.expect("verdict: " + facts["sentence"], (facts["verdict"], facts["part"]), ("live", "heap"))


JAVA = """
import java.nio.ByteBuffer;
import java.util.*;
public class Grow {
    public static void main(String[] args) throws Exception {
        List<Object> kept = new ArrayList<>();
        boolean isNative = args[0].equals("native");
        for (int i = 0; ; i++) {
            for (int k = 0; k < 8; k++)
                kept.add(isNative ? (Object)ByteBuffer.allocateDirect(16384) : (Object)new byte[16384]);
            if (i == 100)
                System.out.println("ready");
            Thread.sleep(10);
        }
    }
}
"""


def java(b, kind, collector="Serial"):
    if not shutil.which("java"):
        raise cases.Skip("java is not installed")
    with open(b.dir + "/Grow.java", "w", encoding="utf-8") as f:
        f.write(JAVA)
    child = b.start("java", "-XX:+Use%sGC" % collector, "-Xms64m", "-Xmx1g", "-XX:TieredStopAtLevel=1", b.dir + "/Grow.java", kind)
    if child.stdout.readline().strip() != "ready":
        raise cases.Skip("java does not run here, or cannot compile")
    return b.json(child.pid, "--for=2s")


@test
def java_objects_are_told_from_native_memory(b):
    facts = java(b, "java")
    b.expect("java heap", facts["why_no_java_heap"], "")
    b.expect("verdict: " + facts["sentence"], (facts["verdict"], facts["part"]), ("java", "java"))
    b.expect_in("next", "jcmd ", facts["next"])


@test
def java_objects_of_zgc_count_once(b):
    facts = java(b, "java", "Z")
    b.expect("java heap", facts["why_no_java_heap"], "")
    b.expect("verdict: " + facts["sentence"], (facts["verdict"], facts["part"]), ("java", "java"))
    now = part(facts, "java")["bytes"][-1]
    # 128 KiB each 10 ms or more: since the start, and garbage of the compiler
    if not 13 << 20 <= now <= 128 << 20:
        b.problems.append("Java heap: %d bytes" % now)
    b.expect("its file is no buffer", part(facts, "buffers")["bytes"][-1] < 1 << 20, True)


@test
def native_memory_of_a_java_program_is_the_heaps(b):
    facts = java(b, "native")
    b.expect("verdict: " + facts["sentence"], (facts["verdict"], facts["part"]), ("live", "heap"))


@test
def what_cannot_be_watched_is_refused(b):
    for operand, said in (("4194304999", "process"), (b.dir, "is no process"), ("name:no-such-program", "no process named")):
        done = subprocess.run([b.memtrack, "triage", operand], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        b.expect(operand, (done.returncode, done.stdout), (1, ""))
        b.expect_in(operand, said, done.stderr)


def main():
    options = cases.parser(__doc__).parse_args()
    return cases.run(options, lambda: Bench(os.path.realpath(options.build)))


if __name__ == "__main__":
    sys.exit(main())
