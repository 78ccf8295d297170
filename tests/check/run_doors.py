# SPDX-License-Identifier: MIT
"""
An allocator's blocks under its other names (je_, mi_, tc_, mallocx) in check mode: what the bare program may mix is
no error, and nothing crashes.

  run_doors.py --build DIR [-k SUBSTRING]
"""
import os
import sys

sys.dont_write_bytecode = True
from harness import HERE, run_tests

sys.path.insert(0, os.path.join(HERE, "..", "hosts"))
from ways import ALLOCATORS

OPTIONS = ("guard", "free_track fill verify_pointers", "backtrace", "guard free_track fill backtrace leak_track",
           "guard_page=2 backtrace", "front_guard expand_alloc")


def main(bench, tap, options):
    program = bench.program("doors.c", libs=("-ldl",))
    for name, library in sorted(ALLOCATORS.items()):
        text = "blocks under other names, " + name
        if not os.path.exists(library):
            tap.skip(text, "%s is not installed" % library)
            continue
        bare = bench.run(program, [library], None, preload=library)
        for words in OPTIONS:
            if options.k not in text + words:
                continue
            r = bench.run(program, [library], words, preload=library)
            r.expect("status", (r.status, bare.status), (0, 0))
            r.expect("standard output", r.out, bare.out)
            r.expect_said(bad=0)
            r.expect("told", [line for line in r.log if line.startswith("+++") and " leaked block " not in line][:4], [])
            tap.ok("%s: %s" % (text, words), r.problems)


if __name__ == "__main__":
    sys.exit(run_tests(main))
