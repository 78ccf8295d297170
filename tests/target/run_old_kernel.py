#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Commands say the same on a kernel without PAGEMAP_SCAN and PROCMAP_QUERY, of which the first is of 6.7, the second of
6.11: these calls fail in a preloaded library.

  run_old_kernel.py --build DIR [-k WORD]
"""
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
from cases import test

TIMEOUT_S = 60
LOST, BLOCK_BYTES = 200, 3000
# what differs from run to run
TIMES = re.compile(r'"(?:[a-z_]*_)?ns(?:_[a-z_]*)?": \d+')


class Bench(cases.Bench):
    def __init__(self, build):
        super().__init__(build, "old-kernel")
        self.preload = build + "/tests/target/libold_kernel.so"

    def output(self, *args, old):
        env = dict(self.env, LD_PRELOAD=self.preload) if old else self.env
        done = subprocess.run([self.memtrack, *args], env=env, capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False, stdin=subprocess.DEVNULL, cwd=self.dir)
        if done.returncode:
            self.problems.append("%s: status %d: %s" % (args, done.returncode, done.stderr))
        return done.stdout

    def same(self, *args):
        new, old = [TIMES.sub('"time": 0', self.output(*args, "--json", old=old)) for old in (False, True)]
        self.expect(args[0], json.loads(new), json.loads(old))
        return new

    def sparse(self, *environment):
        child = self.start("env", *environment, self.build + "/tests/target/sparse")
        child.stdout.readline()
        return child


@test
def lost_blocks_and_heaps_are_the_same(b):
    child = b.sparse()
    leaks = b.same("leaks", str(child.pid))
    b.expect("what is lost is in it", str(LOST * BLOCK_BYTES) in re.findall(r"\d+", leaks), True)
    b.same("allocators", str(child.pid))


@test
def tracked_processes_are_found(b):
    """Where no directory tells of them."""
    child = b.sparse("LD_PRELOAD=%s/libmemtrack.so" % b.build, "MEMTRACK_STATE_DIR=" + b.dir)
    for old in (False, True):
        rows = [line for line in b.output("ps", old=old).splitlines() if re.search(r"\b%d\b" % child.pid, line)]
        b.expect("rows, old kernel: %s" % old, len(rows), 1)


def main():
    options = cases.parser(__doc__).parse_args()
    return cases.run(options, lambda: Bench(os.path.realpath(options.build)))


if __name__ == "__main__":
    sys.exit(main())
