#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What looking costs, printed: memtrack maps --all and meminfo --all on 300 more processes (1 s at most on a quiet machine), and a
minute of meminfo --watch=1s of 1 GiB, python3, redis-server and java (0.5 % of a processor at most). Wall times fail only when
they are wrong by an order of magnitude: the machine may be busy. Processor times fail at twice the bound.

  run_figures.py --build DIR
"""
import argparse
import concurrent.futures
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

PROCESSES, INTERPRETERS, GIB, WATCH_S = 300, 50, 1 << 30, 60
SLOW_S, MUCH_S, MUCH_PERCENT = 10, 2, 1


def measure(*command):
    """(seconds, processor seconds of the command, its output)"""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (time.monotonic() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout)


def lists(tap, memtrack):
    """Of the processes 50 are python3, with a hundred mappings each."""
    children = [subprocess.Popen(["sleep", "300"]) for _ in range(PROCESSES - INTERPRETERS)]
    children += [subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(300)"]) for _ in range(INTERPRETERS)]
    try:
        time.sleep(2) # all of them have started
        for command in (("maps", "--all"), ("maps", "--all", "--json", "--by=mapping"), ("meminfo", "--all")):
            best = min(measure(memtrack, *command) for _ in range(3))
            tap.note("memtrack %s: %.2f s, %.2f s of a processor" % (" ".join(command), best[0], best[1]))
            tap.ok(" ".join(command), ["it takes %.1f s, %.1f s of a processor" % best[:2]]
                   if best[0] > SLOW_S or best[1] > MUCH_S else [])
    finally:
        for child in children:
            child.kill()
            child.wait()


LARGE = "x = bytearray(%d)\nfor i in range(0, len(x), 4096): x[i] = 1\nprint(flush=True)\ninput()" % GIB
BUSY = """
import time
kept = {}
print(flush=True)
while True:
    for i in range(2000):
        kept[i] = str(i) * 10
    time.sleep(0.05)
"""
JAVA = """
import java.util.*;
public class Busy {
    public static void main(String[] args) throws Exception {
        Map<Integer, byte[]> kept = new HashMap<>();
        System.out.println();
        for (int i = 0; ; i++) {
            kept.put(i % 5000, new byte[10000]);
            if (i % 50 == 0)
                Thread.sleep(10);
        }
    }
}
"""


def watched(directory):
    """{name: command}; each says a line when it is ready."""
    with open(directory + "/Busy.java", "w", encoding="utf-8") as f:
        f.write(JAVA)
    commands = {"1 GiB": [sys.executable, "-c", LARGE], "python3": [sys.executable, "-c", BUSY],
                "redis-server": ["redis-server", "--port", "0", "--save", "", "--unixsocket", directory + "/redis"],
                "java": ["java", "-Xmx256m", directory + "/Busy.java"]}
    return {name: command for name, command in commands.items() if shutil.which(command[0])}


def watch(tap, memtrack):
    with tempfile.TemporaryDirectory(prefix="memtrack-figures-") as directory:
        children = {name: subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=directory)
                    for name, command in watched(directory).items()}
        try:
            for child in children.values():
                child.stdout.readline()
            with concurrent.futures.ThreadPoolExecutor() as pool:
                looks = {name: pool.submit(watch_one, memtrack, child.pid) for name, child in children.items()}
            for name, look in looks.items():
                percent, rss, walks, readings = look.result()
                tap.note("memtrack meminfo --watch=1s of %s (%.0f MiB) for %d s: %.3f %% of a processor, Pss in %d of %d readings"
                         % (name, rss / 2**20, WATCH_S, percent, walks, readings))
                tap.ok("meminfo --watch of " + name, [] if percent < MUCH_PERCENT else ["%.1f %% of a processor" % percent])
        finally:
            for child in children.values():
                child.kill()
                child.communicate()


def watch_one(memtrack, pid):
    """(per cent of a processor, Rss, readings with Pss, readings)"""
    begin = time.monotonic()
    child = subprocess.Popen([memtrack, "meminfo", str(pid), "--watch=1s", "-n", str(WATCH_S + 1), "--json"],
                             stdout=subprocess.PIPE)
    lines = child.stdout.read().splitlines()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    seconds = time.monotonic() - begin
    if status:
        raise ValueError("meminfo --watch ends with status %d" % status)
    readings = [json.loads(line) for line in lines]
    return (100 * (usage.ru_utime + usage.ru_stime) / seconds, readings[-1]["rss_bytes"],
            sum("pss_bytes" in r for r in readings), len(readings))


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
