#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Reports of a state with many stacks and live blocks stay within limits of memory and instructions.

  run_scale.py --build DIR [--full]

Both are the same on any machine, however loaded. With --full: five million live blocks of 100,000 stacks, as
bench/workloads/many.c makes them; without it a twentieth of that, and instructions of the plain report only.
"""
import argparse
import json
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

STACKS, BLOCKS = 100000, 5000000
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"} # without what makes malloc dearer, as meson sets it
# command: MiB, million instructions (None: not counted) for the whole of it; a part of it may have that part of
# both, 12 MiB and 20 million more
LIMITS = {
    "report": (200, 3600),
    "report --json": (200, None),
    "report --by=size": (200, 4000),
    "report --by=thread": (200, 4000),
    "diff": (340, 7500),
}


def record(options, work, share):
    """The state file of a run of `many`, finished and compacted."""
    path = work + "/many.mtk"
    env = dict(ENVIRONMENT, MEMTRACK_STATE_DIR=work)
    subprocess.run([options.build + "/memtrack", "run", "--quiet", "-o", path, "--", options.build + "/tests/report/many",
                    str(STACKS // share), str(BLOCKS // share)], env=env, check=True, timeout=200)
    return path


def peak_mib(options, command, work):
    """Peak resident memory of a command that must succeed; started by a small program, whose peak it inherits."""
    result = work + "/result"
    subprocess.run([options.build + "/tests/report/runone", "01", "300", result, *command], stdout=subprocess.DEVNULL,
                   env=ENVIRONMENT, check=True)
    with open(result, encoding="ascii") as file:
        measured = json.load(file)
    if measured["status"]:
        raise OSError("%s: exit status %d" % (command, measured["status"]))
    return measured["rss_kib"] / 1024


def million_instructions(command, work):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=" + work + "/count", *command],
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT, timeout=600, check=True)
    return int(re.search(r"Collected : (\d+)", done.stderr)[1]) / 1e6


def check(options, path, work, share, tap):
    for name, (mib, instructions) in LIMITS.items():
        operands = [path, path] if name == "diff" else [path]
        command = [options.build + "/memtrack", *name.split(), "--no-symbols", *operands]
        used, limit = peak_mib(options, command, work), mib / share + (12 if share > 1 else 0)
        tap.ok("memory of " + name, [] if used <= limit else ["%.0f MiB, the limit is %.0f" % (used, limit)])
        tap.note("%.1f of %.0f MiB" % (used, limit))
        if instructions is None or (share > 1 and name != "report"):
            continue # counting takes long
        if not shutil.which("valgrind"):
            tap.skip("instructions of " + name, "valgrind is not installed")
            continue
        used, limit = million_instructions(command, work), instructions / share + (20 if share > 1 else 0)
        tap.ok("instructions of " + name, [] if used <= limit else ["%.0f million, the limit is %.0f" % (used, limit)])
        tap.note("%.0f of %.0f million instructions" % (used, limit))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="meson build directory")
    parser.add_argument("--full", action="store_true", help="all of it")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    tap = Tap()
    share = 1 if options.full else 20
    work = tempfile.mkdtemp(prefix="memtrack-scale-")
    try:
        check(options, record(options, work, share), work, share, tap)
    except (OSError, subprocess.SubprocessError, TypeError) as error:
        tap.ok("scale", [str(error)])
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
