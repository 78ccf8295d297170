#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Instructions that tracking adds to one pair of malloc and free, against the numbers of instructions.txt.

  run_instructions.py --build DIR [--compiler 'gcc 12.2.0 x86_64']

Counted by callgrind in the second half of bench/workloads/mb.c's pairs, tracked and bare; the difference is
divided by the number of pairs. Unlike a time, the result is the same on any machine, however loaded.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

COMMITTED = os.path.join(HERE, "instructions.txt")
RETRIES = 3 # of a number that is too high: how many pairs are sampled is chance
ABOVE, BELOW = 1.01, 0.95 # what a number may grow to; what must become the new number
CHECK = "check:" # then: options of check mode
# name: options of the tracker, arguments of mb (kind, threads, pairs, live blocks)
CASES = {"hot": ("mode=full", ("hot", 1, 40000, 16)),
         "diverse": ("mode=full", ("own", 1, 60000, 1000)),
         "stats": ("mode=stats", ("hot", 1, 40000, 16)),
         "sample": ("mode=sample interval=512K", ("hot", 1, 40000, 16)),
         "record": ("mode=record", ("hot", 1, 40000, 16)),
         "record_diverse": ("mode=record", ("own", 1, 60000, 1000)),
         "backtrace": (CHECK + "backtrace", ("hot", 1, 40000, 16)),
         "guard": (CHECK + "guard", ("hot", 1, 40000, 16)),
         "fill": (CHECK + "free_track fill", ("hot", 1, 40000, 16)),
         "check": (CHECK + "guard free_track fill verify_pointers backtrace", ("hot", 1, 40000, 16))}


def read_committed():
    """The compiler and {case: instructions} of instructions.txt."""
    with open(COMMITTED, encoding="utf-8") as file:
        words = [line.split(None, 1) for line in file if line.strip() and not line.startswith("#")]
    values = {name: value.strip() for name, value in words}
    return values.pop("compiler"), {name: float(value) for name, value in values.items()}


def count(program, arguments, preload, words):
    """Instructions between the program's calls of counting_starts() and counting_ends()."""
    work = tempfile.mkdtemp(prefix="memtrack-count-")
    # the addresses of the stack take part in hashes: they may not depend on the length of a path
    env = {"PATH": "/usr/bin:/bin", "PADDING": "x" * (2000 - len(work) * (3 if preload else 1))}
    if preload:
        env.update(LD_PRELOAD=work + "/library.so", MEMTRACK_STATE_DIR=work, MEMTRACK_OPTIONS="valgrind=track "
                   + ("" if words.startswith(CHECK) else words))
        if words.startswith(CHECK):
            env["LIBC_DEBUG_MALLOC_OPTIONS"] = words.removeprefix(CHECK)
    try:
        os.symlink(program, work + "/program")
        os.symlink(preload or "/dev/null", work + "/library.so")
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--zero-before=counting_starts", "--dump-before=counting_ends",
             "--callgrind-out-file=" + work + "/count", work + "/program", *map(str, arguments)],
            env=env, cwd=work, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise OSError("valgrind's exit status is %d: %s" % (done.returncode, done.stderr[-500:]))
        if bool(preload) != bool(glob.glob(work + "/*.mtk")):
            raise OSError("tracked or not: not as it should be")
        with open(work + "/count.1", encoding="utf-8", errors="replace") as file:
            return int(re.search(r"^totals: (\d+)", file.read(), re.M)[1])
    finally:
        shutil.rmtree(work, ignore_errors=True)


def compare(name, added, wanted):
    """Sentences about what is wrong with the number of one case."""
    if added > wanted * ABOVE:
        return ["%.1f instructions added to a pair, %.1f allowed by instructions.txt: %+.1f %%"
                % (added, wanted, (added / wanted - 1) * 100)]
    if added < wanted * BELOW:
        return ["%.1f instructions added to a pair, %.1f in instructions.txt: lower the committed number: "
                "write `%s %.0f`" % (added, wanted, name, added)]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="meson build directory")
    parser.add_argument("--compiler", help="that of the build directory; no comparison without it")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    program, library = build + "/tests/runtime/mb", build + "/libmemtrack.so"
    tap = Tap()
    compiler, committed = read_committed()
    if not shutil.which("valgrind"):
        tap.skip("instructions", "valgrind is not installed")
        return tap.done()
    if options.compiler and options.compiler != compiler:
        tap.skip("instructions", "built with %s; the numbers are for %s" % (options.compiler, compiler))
        return tap.done()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {name: [pool.submit(count, program, arguments, preload, words) for preload in (library, None)]
                for name, (words, arguments) in CASES.items()}
    for name, (tracked, bare) in runs.items():
        try:
            added = (tracked.result() - bare.result()) / (CASES[name][1][2] / 2)
            for _ in range(RETRIES if added > committed[name] * ABOVE else 0):
                added = min(added, (count(program, CASES[name][1], library, CASES[name][0]) - bare.result())
                            / (CASES[name][1][2] / 2))
            tap.ok("instructions " + name, compare(name, added, committed[name]) if options.compiler else ())
            tap.note("%s: %.1f instructions added to a pair, committed are %.1f" % (name, added, committed[name]))
        except (OSError, subprocess.SubprocessError, TypeError) as error:
            tap.ok("instructions " + name, [str(error)])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
