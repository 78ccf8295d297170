#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
What Valgrind's memcheck and LeakSanitizer say of scenarios.c, beside memtrack leaks: the table of docs/reachability.md.

  peers.py --build DIR [--table]
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

TIMEOUT_S = 120
FLAGS = ["-O1", "-g", "-w", "-fno-builtin", "-fno-optimize-sibling-calls", "-D_GNU_SOURCE"]
LEAKS = re.compile(r"(definitely|indirectly|possibly) lost: [\d,]+ bytes in ([\d,]+) blocks")


def compile_to(path, source, *flags):
    subprocess.run(["gcc", *FLAGS, os.path.join(HERE, source), "-o", path, *flags, "-pthread", "-ldl"], check=True,
                   timeout=120)
    return path


def clean(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACK") and k != "LD_PRELOAD"}
    return dict(env, **more)


def by_memtrack(build, program, name, library, *args):
    p = subprocess.Popen([program, name, library], env=clean(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         start_new_session=True)
    try:
        lost, inside = map(int, p.stdout.readline().split()[1:])
        done = subprocess.run([build + "/memtrack", "leaks", str(p.pid), "--json", "--no-symbols", *args], check=False,
                              env=clean(), capture_output=True, text=True, timeout=TIMEOUT_S)
        found = json.loads(done.stdout)
        return lost, inside, found["lost"]["count"], found["reachable_by_interior_pointers_only"]["count"]
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.communicate()


def by_valgrind(program, name, library):
    done = subprocess.run(["valgrind", "--leak-check=full", program, name, library, "exit"], env=clean(), check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    count = {what: int(n.replace(",", "")) for what, n in LEAKS.findall(done.stderr)}
    if not count and "no leaks are possible" not in done.stderr:
        return None
    return count.get("definitely", 0) + count.get("indirectly", 0), count.get("possibly", 0)


def by_sanitizer(program, name, library):
    done = subprocess.run([program, name, library, "exit"], env=clean(LSAN_OPTIONS="report_objects=0"), check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S)
    return sum(int(n) for n in re.findall(r"leak of \d+ byte\(s\) in (\d+) object", done.stderr))


def say(lost, inside=0):
    words = ["%d lost" % lost] if lost else []
    words += ["%d inside" % inside] if inside else []
    return ", ".join(words) or "held"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    build, tap, rows = os.path.abspath(options.build), Tap(), []
    folder = tempfile.mkdtemp(prefix="memtrack-peers-")
    try:
        plain = compile_to(folder + "/scenarios", "scenarios.c")
        library = compile_to(folder + "/library.so", "library.c", "-shared", "-fPIC")
        sanitized = compile_to(folder + "/sanitized", "scenarios.c", "-fsanitize=leak")
        names = subprocess.run([plain, "list"], capture_output=True, text=True, check=True).stdout.split()
        for name in names:
            lost, inside, *found = by_memtrack(build, plain, name, library)
            if "library" in name:
                found[1] = inside # what the loader allocates for it
            valgrind = by_valgrind(plain, name, library) if shutil.which("valgrind") else None
            sanitizer = by_sanitizer(sanitized, name, library)
            rows.append((name, say(lost, inside), say(*found), say(*valgrind) if valgrind else "-", say(sanitizer)))
            if not options.table:
                tap.ok(name, [] if tuple(found) == (lost, inside) else ["found %r, made %r" % (found, (lost, inside))])
                tap.note("memcheck: %s; LeakSanitizer: %s" % rows[-1][3:])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if options.table:
        print("| scenario | is | memtrack | memcheck | LeakSanitizer |\n|---|---|---|---|---|")
        for row in rows:
            print("| %s |" % " | ".join(("`%s`" % row[0],) + row[1:]))
        return 0
    return tap.done()


sys.exit(main())
