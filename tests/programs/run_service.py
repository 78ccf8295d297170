#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
A service that leaks 1 % a day, sampled and watched for a long time; a day is 1440 seconds, one for each minute.

usage: run_service.py MEMTRACK LIBRARY SERVICE [--seconds N]

The leak must be the first suspect, the cache that filled and the table that only changes must be none; the tracker's
memory and files stay within their bounds.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
from support.tap import Tap  # noqa: E402

MIB = 1 << 20
STATE_MOST, SERIES_MOST = 48 * MIB, 8 * MIB


def storage(path):
    try:
        return os.stat(path).st_blocks * 512
    except OSError:
        return 0


def child_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            return (f.read().split() or ["none"])[0]
    except OSError:
        return "none"


def watch(process):
    """Most storage that the service's state file and series took, looked at once a second."""
    most = {".mtk": 0, ".mts": 0}
    while process.poll() is None:
        for end in most:
            found = glob.glob("/dev/shm/memtrack-*/%s.*%s" % (child_of(process.pid), end))
            most[end] = max([most[end], *map(storage, found)])
        time.sleep(1)
    return most


def run(options, work):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACK") and k != "LD_PRELOAD"}
    env.update(MEMTRACK_LIB=options.library, XDG_CACHE_HOME=work + "/cache")
    process = subprocess.Popen(
        [options.memtrack, "run", "-q", "--mode=sample", "--interval=4K", "--snapshot-every=1s", "-o", work + "/s.mtk",
         "--", options.service, str(options.seconds)], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    most = watch(process)
    out, err = process.communicate()
    if process.returncode:
        raise OSError("status %d: %s" % (process.returncode, err[-500:]))
    done = subprocess.run([options.memtrack, "timeline", work + "/s.mtk", "--json"], env=env, capture_output=True, text=True,
                          check=True, timeout=300)
    return out, most, json.loads(done.stdout)["processes"][0]


def judge(out, most, line, seconds):
    problems, notes = [], []
    leaked = int(out.split("leaked=")[1])
    names = [[f.get("function", "?") for f in s["frames"]] for s in line["sites"]]
    first = line["sites"][0]
    notes.append("%d snapshots in %d s; leaked %d bytes; first: %s, %r" % (
        len(line["snapshots"]), seconds, leaked, names[0][:2], first.get("trend")))
    notes.append("most storage of a state file %.1f MiB, of the series %.2f MiB" % (most[".mtk"] / MIB, most[".mts"] / MIB))
    if not first["suspect"] or "leak_here" not in names[0][:3]:
        problems.append("the first site is %r, suspect: %s" % (names[0][:3], first["suspect"]))
    for site, functions in zip(line["sites"], names):
        if site["suspect"] and "leak_here" not in functions:
            problems.append("called without being a leak: %r: %r" % (functions[:3], site.get("trend")))
    if most[".mtk"] > STATE_MOST or not most[".mtk"]:
        problems.append("a state file took %d bytes" % most[".mtk"])
    if most[".mts"] > SERIES_MOST or not most[".mts"]:
        problems.append("the series took %d bytes" % most[".mts"])
    if len(line["snapshots"]) < min(100, seconds / 2):
        problems.append("%d snapshots" % len(line["snapshots"]))
    return problems, notes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("memtrack")
    parser.add_argument("library")
    parser.add_argument("service")
    parser.add_argument("--seconds", type=int, default=1800)
    options = parser.parse_args()
    options.memtrack, options.library, options.service = map(os.path.abspath, (options.memtrack, options.library, options.service))
    tap = Tap()
    work = tempfile.mkdtemp(prefix="memtrack-test-service-")
    try:
        problems, notes = judge(*run(options, work), options.seconds)
        for note in notes:
            tap.note(note)
        tap.ok("a leak of 1 % a day is called, a cache is not", problems)
    except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as error:
        tap.ok("a leak of 1 % a day is called, a cache is not", ["%s: %s" % (type(error).__name__, error)])
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
