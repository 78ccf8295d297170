#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack leaks on large heaps (large.c): how long the process stands still, how fast the search is, what it takes in
memory, of running processes and of core files. Bounds are those of docs/reachability.md. Where that is allowed, all runs
at real-time priority, and the best of some rounds counts: other programs take the processors away. They slow the memory
down, too, so that where a fork of the same process takes longer than the bound the stop is held against that.

  run_large.py --build DIR [-k WORD] [--mib N]
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
import cores
from cases import Skip, test

TIMEOUT_S = 280
LOST, LOST_BYTES = 7, 7 * 792  # what glibc gives for 777
ROUNDS = 7
STOP_MS_MAX_GIB, STOP_MS_BESIDE_FORK, GIB_S_MIN = 25, 4, 2
CORE_MIB, CORE_S_MAX, CORE_MEMORY_MAX = 2040, 15, 1.5


class Bench(cases.Bench):
    def __init__(self, build, mib):
        super().__init__(build, "large")
        self.mib = mib
        self.before = ["chrt", "-f", "50"] if shutil.which("chrt") and not os.geteuid() else []
        self.program = self.dir + "/large"
        subprocess.run(["gcc", "-O1", "-g", "-w", HERE + "/large.c", "-o", self.program], check=True, timeout=TIMEOUT_S)

    def begin(self, mib, every=8, **more):
        p = self.start(*self.before, self.program, str(mib), str(every), **more)
        if not p.stdout.readline().startswith("ready"):
            raise RuntimeError("large did not begin")
        return p

    def leaks(self, what):
        """The JSON, the seconds and the most KiB that the search took."""
        began = time.monotonic()
        p = subprocess.Popen([*self.before, self.memtrack, "leaks", str(what), "--json"], env=self.env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
        out, errors = p.stdout.read(), p.stderr.read()
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = os.waitstatus_to_exitcode(status)
        p.stdout.close()
        p.stderr.close()
        if p.returncode:
            raise RuntimeError(errors)
        return json.loads(out), time.monotonic() - began, usage.ru_maxrss

    def expect_only_seeded(self, found):
        self.expect("lost", found["lost"], {"count": LOST, "bytes": LOST_BYTES})
        self.expect("warnings", found["warnings"], [])


def check_live(b, every, must_be_fast):
    p = b.begin(b.mib, every)
    stops, rates, forks = [], [], []
    for _ in range(ROUNDS):
        found, seconds, kib = b.leaks(p.pid)
        b.expect_only_seeded(found)
        b.expect("source", found["source"], "copy")
        stops.append(found["stop_ns"] / 1e6)
        rates.append(found["scanned_bytes"] / found["scan_ns"] * 1e9 / 2**30)
        p.send_signal(signal.SIGUSR1)
        forks.append(int(p.stdout.readline().split()[1]) / 1e6)
    stop, rate, cost = statistics.median(stops), statistics.median(rates), found["copy_on_write"]
    b.notes.append("%d MiB, one word in %d a pointer: stopped %.1f ms (%.1f to %.1f; a fork %.1f to %.1f), scanned %.1f GiB/s (%.1f to %.1f), "
                   "%.1f s in all, %d MiB of memory; %d ns for a page that is copied, %d ns later" %
                   (b.mib, every, stop, min(stops), max(stops), min(forks), max(forks), rate, min(rates), max(rates), seconds, kib / 1024,
                    cost["ns_per_copied_page"], cost["ns_per_kept_page"]))
    if min(stops) > max(STOP_MS_MAX_GIB * max(b.mib / 1024, 0.2), min(forks) + STOP_MS_BESIDE_FORK):
        b.problems.append("it stood still for %.1f ms" % min(stops))
    if must_be_fast and max(rates) < GIB_S_MIN:
        b.problems.append("%.1f GiB/s were scanned" % max(rates))
    b.expect("copied pages are few", cost["copied_bytes"] < 1 << 20, True)


@test
def a_process_with_a_large_heap_stands_still_for_a_moment(b):
    check_live(b, 8, must_be_fast=True)


@test
def a_heap_with_few_pointers_is_searched_as_fast_as_it_can_be_read(b):
    check_live(b, 64, must_be_fast=True)


@test
def a_heap_with_very_many_pointers_is_searched_too(b):
    check_live(b, 3, must_be_fast=False)


def check_core(b, maker, *args, mib=CORE_MIB):
    if shutil.disk_usage(b.dir).free < 3 * mib << 20:
        raise Skip("too little room for a core file")
    p = b.begin(mib, *args)
    core = maker(b.dir, p)
    size = os.path.getsize(core)
    p.kill()
    found, seconds, kib = b.leaks(core)
    b.expect_only_seeded(found)
    b.notes.append("core of %d MiB: %.1f s, %d MiB of memory (%.2f times its size)" %
                   (size >> 20, seconds, kib >> 10, kib * 1024 / size))
    if seconds > CORE_S_MAX:
        b.problems.append("it took %.1f s" % seconds)
    if kib * 1024 > CORE_MEMORY_MAX * size:
        b.problems.append("it took %d MiB of memory" % (kib >> 10))
    return core, size


@test
def a_large_core_of_gdb_is_searched_in_seconds(b):
    check_core(b, cores.by_gdb)


@test
def a_large_core_of_the_kernel_is_searched_in_seconds(b):
    core, size = check_core(b, cores.by_kernel)
    os.truncate(core, size // 2)
    done = subprocess.run([b.memtrack, "leaks", core], env=b.env, capture_output=True, text=True, timeout=TIMEOUT_S,
                          check=False)
    b.expect("status of a core that was cut", done.returncode, 1)
    b.expect("output", done.stdout, "")
    b.expect_in("what it says", "is cut", done.stderr)


@test
def a_core_of_nothing_but_the_smallest_blocks_fits_too(b):
    check_core(b, cores.by_gdb, "tiny", mib=512)


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("--mib", type=int, default=1024)
    options = parser.parse_args()
    return cases.run(options, lambda: Bench(os.path.abspath(options.build), options.mib))


if __name__ == "__main__":
    sys.exit(main())
