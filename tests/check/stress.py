# SPDX-License-Identifier: MIT
"""
Four threads for a time with everything on (stress.c): no block loses a byte, and nothing is reported.

  stress.py --build DIR [--libc musl|aarch64] [--seconds N]
"""
import sys

sys.dont_write_bytecode = True
from harness import run_tests, without_loaders_leaks

EVERYTHING = "guard backtrace free_track=1000 fill expand_alloc=16 verify_pointers leak_track"
SETS = {"everything": EVERYTHING, "everything and records": EVERYTHING + " record_allocs=100000 abort_on_error"}
SIGNAL_SECONDS = 6
FULL = "Maximum number of records added, all new operations will be dropped."


def main(bench, tap, options):
    program = bench.program("stress.c", flags=("-O1",))
    for name, words in SETS.items():
        result = bench.run(program, ["4", str(options.seconds)], words, timeout=60 + 2 * options.seconds)
        result.expect("status", result.status, 0)
        result.expect("wrong bytes", result["wrong"], 0)
        if result["calls"] < 1000 * options.seconds:
            result.problems.append("only %d calls" % result["calls"])
        log = [line for line in result.log if line != FULL or "record_allocs" not in words]
        result.problems += ["log: %r" % line for line in without_loaders_leaks(log)][:20]
        tap.note("%s: %d calls, %d blocks handed over" % (name, result["calls"], result["handed"]))
        tap.ok("four threads with " + name, result.problems)
    # a lock is held for longer than anybody waits for it: what is missed then is no error
    result = bench.run(program, ["16", str(SIGNAL_SECONDS), "80"], "guard verify_pointers abort_on_error", timeout=60)
    result.expect("status", result.status, 0)
    result.expect("wrong bytes", result["wrong"], 0)
    result.problems += ["log: %r" % line for line in without_loaders_leaks(result.log)][:20]
    tap.ok("sixteen threads whose signal handlers sleep", result.problems)


if __name__ == "__main__":
    sys.exit(run_tests(main, seconds=3))
