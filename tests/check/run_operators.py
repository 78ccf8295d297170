#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
operator new and delete in check mode: what goes together is not reported, with each allocator that defines them or
does not.

  run_operators.py --build DIR
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, os.path.join(HERE, "..", "hosts"))
sys.dont_write_bytecode = True
from tap import Tap
from ways import ALLOCATORS

OWN = (1, 3, 4, 5, 12, 15) # own_operators.cc
CHOICES = ("guard", "backtrace", "guard backtrace free_track fill verify_pointers", "guard_page=2 backtrace")


def run(options, work, choice, allocator):
    """Exit status and standard error; choice: None, bare."""
    preload = [options.build + "/libmemtrack.so"] if choice else []
    env = dict(os.environ, MEMTRACK_STATE_DIR=work, MEMTRACK_DIR=work,
               LD_PRELOAD=":".join(preload + ([allocator] if allocator else [])))
    if choice:
        env["LIBC_DEBUG_MALLOC_OPTIONS"] = choice
    done = subprocess.run([options.program], env=env, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def compare(options, work, choice, allocator):
    """Not every allocator throws when there is no memory: some end the program."""
    bare, tracked = run(options, work, None, allocator), run(options, work, choice, allocator)
    problems = ["exit %d, bare %d" % (tracked[0], bare[0])] if tracked[0] != bare[0] else []
    return problems + [line for line in tracked[1].splitlines() if "malloc_debug" in line][:6]


def build(source, program, *flags):
    subprocess.run(["g++", "-std=c++17", "-g", "-w", "-fno-builtin", *flags, os.path.join(HERE, source), "-o", program],
                   check=True, timeout=120)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options = parser.parse_args()
    tap = Tap()
    if not shutil.which("g++"):
        tap.skip("operators", "g++ is not installed")
        return tap.done()
    with tempfile.TemporaryDirectory() as work:
        options.program = work + "/operators"
        build("operators.cc", options.program)
        for name, allocator in [("glibc", None)] + sorted(ALLOCATORS.items()):
            for choice in CHOICES:
                text = "operators with %s: %s" % (name, choice)
                if allocator and not os.path.exists(allocator):
                    tap.skip(text, "%s is not installed" % allocator)
                else:
                    tap.ok(text, compare(options, work, choice, allocator))
        for own in OWN:
            options.program = work + "/own"
            build("own_operators.cc", options.program, "-O2", "-DOWN=%d" % own)
            for choice in CHOICES:
                tap.ok("own operators %d: %s" % (own, choice), compare(options, work, choice, None))
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
