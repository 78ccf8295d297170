#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What looking costs, printed: memtrack maps --all and meminfo --all on 300 more processes, meminfo --watch of 1 GiB. Fails
only when something is wrong by an order of magnitude: the machine may be busy.

  run_figures.py --build DIR
"""
import argparse
import json
import os
import resource
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

PROCESSES, GIB, WATCH_S = 300, 1 << 30, 20
SLOW_S, MUCH_PERCENT = 10, 5


def measure(*command):
    """(seconds, processor seconds of the command, its output)"""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout)


def lists(tap, memtrack):
    children = [subprocess.Popen(["sleep", "300"]) for _ in range(PROCESSES)]
    try:
        for command in (("maps", "--all"), ("maps", "--all", "--json", "--by=mapping"), ("meminfo", "--all")):
            best = min(measure(memtrack, *command) for _ in range(3))
            tap.note("memtrack %s: %.2f s, %.2f s of a processor" % (" ".join(command), best[0], best[1]))
            tap.ok(" ".join(command), [] if best[0] < SLOW_S else ["it takes %.1f s" % best[0]])
    finally:
        for child in children:
            child.kill()
            child.wait()


def watch(tap, memtrack):
    program = "x = bytearray(%d)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(flush=True)\ninput()" % GIB
    child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        seconds, cpu, out = measure(memtrack, "meminfo", str(child.pid), "--watch=1s", "-n", str(WATCH_S + 1), "--json")
        percent = 100 * cpu / seconds
        rss = json.loads(out.splitlines()[-1])["rss_bytes"]
        tap.note("memtrack meminfo --watch=1s of %.2f GiB: %.3f %% of a processor" % (rss / GIB, percent))
        tap.ok("meminfo --watch", [] if percent < MUCH_PERCENT else ["%.1f %% of a processor" % percent])
    finally:
        child.kill()
        child.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    memtrack = os.path.join(os.path.realpath(parser.parse_args().build), "memtrack")
    tap = Tap()
    lists(tap, memtrack)
    watch(tap, memtrack)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
