#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack maps and meminfo from outside: their figures against the kernel's, on processes of known shape, on many
processes, and on texts that were saved or made up.

  run_accounting.py --build DIR [-k WORD]
"""
import argparse
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

TIMEOUT_S = 60
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Skip(Exception):
    pass


class Bench:
    """A directory of its own for each test; children die with it."""

    def __init__(self, build):
        self.build = build
        self.memtrack = build + "/memtrack"
        self.dir = tempfile.mkdtemp(prefix="memtrack-accounting-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_", "MALLOC_", "GLIBC_TUN"))}
        self.env["LC_ALL"] = "C.UTF-8"
        self.children, self.problems = [], []

    def close(self):
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream:
                    stream.close()
        shutil.rmtree(self.dir, ignore_errors=True)

    def start(self, *command, **more):
        child = subprocess.Popen(command, cwd=self.dir, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, **more)
        self.children.append(child)
        return child

    def shapes(self):
        """A process of known shape: (child, {name: address})."""
        child, said = self.start(self.build + "/tests/accounting/shapes"), {}
        while "ready" not in said:
            name, address = child.stdout.readline().split()
            said[name] = int(address, 16)
        return child, said

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def run(self, *args, **more):
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([self.memtrack, *[str(a) for a in args]], cwd=self.dir, env=self.env, capture_output=True,
                              text=True, errors="replace", timeout=TIMEOUT_S, check=False, **more)

    def good(self, *args, **more):
        done = self.run(*args, **more)
        if done.returncode:
            self.problems.append("%s: status %d: %s" % (args, done.returncode, done.stderr))
        return done

    def json(self, *args):
        return json.loads(self.good(*args, "--json").stdout)

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %.700r, expected %.700r" % (what, got, wanted))

    def expect_in(self, what, part, text):
        if part not in text:
            self.problems.append("%s: no %r in %r" % (what, part, text[-1500:]))


def rollup(pid):
    """The kernel's own sums, in bytes; another reader than the one under test."""
    sums = {}
    with open("/proc/%d/smaps_rollup" % pid, encoding="utf-8", errors="replace") as f:
        for line in f.readlines()[1:]:
            name, value, _ = line.split()
            sums[name[:-1]] = int(value) * 1024
    return sums


def stop(pid):
    """Stops a process, and waits until it has."""
    os.kill(pid, signal.SIGSTOP)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as f:
            if f.read().rsplit(")", 1)[1].split()[0] == "T":
                return
        time.sleep(0.01)
    raise ValueError("process %d does not stop" % pid)


def still(pid, action):
    """action() with the kernel's sums, which were the same before and after it: pages are shared with others who move."""
    for _ in range(20):
        before = rollup(pid)
        result = action()
        if rollup(pid) == before:
            return before, result
    raise Skip("the sums of process %d never stand still" % pid)


SUMS = {"Rss": "rss_bytes", "Shared_Clean": "shared_clean_bytes", "Shared_Dirty": "shared_dirty_bytes",
        "Private_Clean": "private_clean_bytes", "Private_Dirty": "private_dirty_bytes", "Swap": "swap_bytes",
        "Anonymous": "anonymous_bytes", "Referenced": "referenced_bytes", "LazyFree": "lazy_free_bytes",
        "AnonHugePages": "anon_huge_pages_bytes"}


def check_sums(b, name, kernel, ours):
    for theirs, field in SUMS.items():
        if theirs in kernel:
            b.expect("%s: %s" % (name, theirs), ours["total"].get(field), kernel[theirs])
    difference = abs(ours["total"]["pss_bytes"] - kernel["Pss"])
    if difference > 1024 * ours["total"]["mappings"]:
        b.problems.append("%s: Pss differs by %d bytes in %d mappings" % (name, difference, ours["total"]["mappings"]))
    for field, total in ours["total"].items():
        b.expect("%s: sum of rows, %s" % (name, field), sum(row.get(field, 0) for row in ours["rows"]), total)


MIX = (["sleep", "300"], ["sh", "-c", "read x"], ["cat"], ["tail", "-f", "/dev/null"],
       [sys.executable, "-c", "import json, sys; x = bytearray(3 << 20); sys.stdin.read()"],
       [sys.executable, "-c", "import threading, sys\nfor _ in range(3): threading.Thread(target=sys.stdin.read).start()"],
       ["sqlite3", ":memory:"], ["perl", "-e", "my $x = 'a' x 2000000; <STDIN>"], ["bc"], ["gawk", "{ print }"])


@test
def fifty_processes_agree_with_the_kernel(b):
    """Rss and the private and shared sums exactly, Pss within 1 kB a mapping; every mapping has one category."""
    commands = [c for c in MIX if shutil.which(c[0])]
    children = [b.start(*commands[i % len(commands)]) for i in range(48)]
    children += [b.shapes()[0] for _ in range(2)]
    time.sleep(1) # whatever they have done by then is fine: they are stopped
    for child in children:
        stop(child.pid)
    for child in children:
        pid = child.pid
        kernel, ours = still(pid, lambda: b.json("maps", pid, "--by=kind"))
        check_sums(b, "process %d %s" % (pid, ours["name"]), kernel, ours)
        b.expect("categories are disjoint", len({row["kind"] for row in ours["rows"]}), len(ours["rows"]))
        b.expect("warnings", ours["warnings"], [])
    for child in children[::7]:
        pid = child.pid
        kernel, ours = still(pid, lambda: b.json("maps", pid, "--by=mapping"))
        check_sums(b, "mappings of %d" % pid, kernel, ours)
        with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as f:
            b.expect("mappings of %d" % pid, [row["start"] + "-" + row["end"] for row in ours["rows"]],
                     [re.sub(r"\b0+(?=[0-9a-f])", "", line.split()[0]) for line in f])
        kernel, ours = still(pid, lambda: b.json("maps", pid))
        check_sums(b, "objects of %d" % pid, kernel, ours)


def row_of(rows, address):
    return [row for row in rows if int(row["start"], 16) <= address < int(row["end"], 16)][0]


SHAPES = {"large": "Native Heap", "more": "Native Heap", "small": "Native Heap", "arena": "Native Heap",
          "bss": "Program", "data": "Program", "code": "Program", "libc": ".so mmap", "main_stack": "Stack",
          "thread_stack": "Stack", "memfd": "Shared memory", "shared": "Shared memory", "jit": "JIT"}


@test
def memory_of_every_use_is_in_its_category(b):
    child, said = b.shapes()
    rows = b.json("maps", child.pid, "--by=mapping")["rows"]
    for name, kind in SHAPES.items():
        row = row_of(rows, said[name])
        b.expect("%s (%s, %s)" % (name, row["object"], row["what"]), row["kind"], kind)
    b.expect("large", row_of(rows, said["large"])["what"], "glibc, large blocks")
    b.expect("arena", row_of(rows, said["arena"])["what"], "glibc arena")


@test
def a_saved_text_says_the_same(b):
    child, said = b.shapes()
    stop(child.pid)
    live = b.json("maps", child.pid, "--by=mapping")
    b.good("maps", child.pid, "--raw", "-o", "saved")
    saved = b.json("maps", "saved", "--by=mapping")
    for field in ("size_bytes", "rss_bytes", "anonymous_bytes", "swap_bytes"):
        b.expect(field, saved["total"][field], live["total"][field])
    b.expect("mappings", [(r["start"], r["end"], r["flags"]) for r in saved["rows"]],
             [(r["start"], r["end"], r["flags"]) for r in live["rows"]])
    for name in ("small", "code", "libc", "main_stack", "thread_stack", "memfd", "jit", "arena", "bss"):
        b.expect("by its shape: " + name, row_of(saved["rows"], said[name])["kind"], SHAPES[name])
    rows = list(csv.DictReader(io.StringIO(b.good("maps", "saved", "--csv").stdout)))
    b.expect("CSV", sum(int(r["rss_bytes"]) for r in rows), saved["total"]["rss_bytes"])
    text = b.good("maps", "saved", "--by=kind").stdout.splitlines()
    b.expect("last line", text[-1].split()[-1], "TOTAL")
    b.expect_in("verdict", "Rss ", text[0])


@test
def growth_is_found_where_it_happened(b):
    child, _ = b.shapes()
    b.good("maps", child.pid, "--raw", "-o", "before")
    for _ in range(5):
        child.stdin.write("x\n")
        child.stdin.flush()
        child.stdout.readline()
    grown = b.json("maps", child.pid, "--since=before", "--by=kind")
    row = [r for r in grown["rows"] if r["kind"] == "Native Heap"][0]
    growth = row["rss_bytes"] - row["old"]["rss_bytes"]
    if not 20 << 20 <= growth <= 21 << 20:
        b.problems.append("the heap grew by %d, expected 20 MiB" % growth)
    b.expect("order", grown["rows"][0]["kind"], "Native Heap")
    whole = grown["total"]["rss_bytes"] - grown["old_total"]["rss_bytes"]
    b.expect("sum of rows", sum(r.get("rss_bytes", 0) - r.get("old", {}).get("rss_bytes", 0) for r in grown["rows"]), whole)
    text = b.good("maps", child.pid, "--since=before").stdout
    if not re.match(r"process \d+ \(shapes\): Rss grew by 20\.\d MiB since 'before', most in \[anon: glibc, large "
                    r"blocks\] \(\+20\.\d MiB\)\n", text):
        b.problems.append("verdict: %r" % text[:300])
    same = b.good("maps", "before", "--since=before").stdout
    b.expect_in("nothing", "Rss grew by 0 B", same)
    gone = b.json("maps", b.write("less", "1000-2000 rw-p 0 0:0 0 /a\nRss: 4 kB\n"), "--since="
                  + b.write("more", "1000-2000 rw-p 0 0:0 0 /a\nRss: 4 kB\n3000-5000 rw-p 0 0:0 0 /b\nRss: 8 kB\n"))
    b.expect("gone", [(r["object"], r["rss_bytes"], r["old"]["rss_bytes"], r.get("change")) for r in gone["rows"]],
             [("/a", 4096, 4096, None), ("/b", 0, 8192, "gone")])


@test
def all_processes_are_listed(b):
    child, _ = b.shapes()
    everything = b.json("maps", "--all", "--by=kind")
    mine = [p for p in everything["processes"] if p["pid"] == child.pid]
    b.expect("name", [p["name"] for p in mine], ["shapes"])
    for p in everything["processes"]:
        b.expect("sum of %d" % p["pid"], sum(r.get("rss_bytes", 0) for r in p["rows"]), p["total"].get("rss_bytes", 0))
    text = b.good("maps", "--all").stdout
    b.expect_in("text", "process %d (shapes): Rss" % child.pid, text)
    if not re.search(r"^\d+ processes", text, re.M):
        b.problems.append("no count of processes: %r" % text[-200:])
    rows = list(csv.DictReader(io.StringIO(b.good("maps", "--all", "--csv", "--by=kind").stdout)))
    b.expect("CSV", {r["kind"] for r in rows if r["pid"] == str(child.pid)} >= {"Native Heap", "Stack"}, True)


HOSTILE = (b"1000-2000 rw-p 00000000 00:00 0   /tmp/\x1b[31mred\\012Rss: 9 kB\xff (deleted)\n"
           b"Rss:\t  4 kB\nRss: 8 kB\nTomorrow: 7 kB\nPss: x kB\n"
           b"3000-2000 rw-p 00000000 00:00 0\nRss: 1000 kB\n"
           b"2000-3000 rw-p 00000000 00:00 0  a,\"b\"\nRss: 12 kB\nPss: 1")


@test
def of_hostile_texts_nothing_is_believed_or_lost(b):
    path = b.write("hostile", HOSTILE)
    done = b.good("maps", path, "--by=mapping")
    b.expect("control bytes", [c for c in done.stdout if c < " " and c != "\n"], [])
    for part in ("4 lines could not be understood, first line 5: 'Pss: x kB'", "the last line has no end",
                 "1 field is given twice", "1 line of fields that are not known here, as 'Tomorrow'"):
        b.expect_in("warnings", part, done.stdout)
    document = b.json("maps", path, "--by=mapping", "--sort=rss")
    b.expect("rows", [r["rss_bytes"] for r in document["rows"]], [12 << 10, 4 << 10])
    rows = list(csv.DictReader(io.StringIO(b.good("maps", path, "--csv").stdout)))
    b.expect("CSV", sorted(r["object"] for r in rows)[1], "a,\"b\"")
    android = b.json("maps", b.write("a", "1000-2000 rw-p 0 0:0 0  [anon:dalvik-main space]\r\nRss: 4 kB\r\n"))
    b.expect("Android", (android["rules"], android["rows"][0]["kind"]), ("android", "Dalvik Heap"))
    b.expect("rules", b.json("maps", "a", "--rules=linux")["rows"][0]["kind"], "Unknown")
    only = b.json("maps", b.write("m", "1000-2000 rw-p 00000000 00:00 0  [heap]\n"))
    b.expect("maps", ("rss_bytes" in only["total"], only["total"]["size_bytes"]), (False, 4096))
    b.expect_in("maps", "not how much memory is used", only["warnings"][0])


def belongs_to_the_kernel(pid):
    """And smaps may be opened, as root may."""
    try:
        with open("/proc/%s/smaps" % pid, "rb") as smaps, open("/proc/%s/status" % pid, "rb") as status:
            return not smaps.read(1) and b"\nKthread:\t1" in status.read()
    except OSError:
        return False


@test
def what_cannot_be_done_is_told(b):
    for args, status, why in (
            (("maps", "4194400"), 1, "memtrack: there is no process 4194400\n"),
            (("maps", "99999999999"), 1, "memtrack: there is no process 99999999999\n"),
            (("maps", "name:no such program"), 1, "memtrack: no process named 'no such program' is running\n"),
            (("maps", "nofile"), 1, "memtrack: cannot open 'nofile': No such file or directory\n"),
            (("maps", b.write("prose", "two\nlines\n")), 1,
             "memtrack: '%s/prose', line 1: 'two' is no line of maps, smaps or smaps_rollup\n" % b.dir),
            (("maps", b.write("empty", "")), 1, "memtrack: '%s/empty' is empty: there is no mapping in it\n" % b.dir),
            (("maps", "prose", "--raw"), 1, "memtrack: --raw is for processes: 'prose' is a file already\n"),
            (("maps",), 2, "memtrack: maps: missing operand (PID|FILE), or --all; see 'memtrack maps --help'\n"),
            (("maps", "1", "--all"), 2, "memtrack: maps: --all takes no operand; see 'memtrack maps --help'\n")):
        done = b.run(*args)
        b.expect(args, (done.returncode, done.stdout, done.stderr), (status, "", why))
    kernel = [p for p in os.listdir("/proc") if p.isdigit() and belongs_to_the_kernel(p)]
    if kernel:
        done = b.run("maps", kernel[0])
        b.expect("kernel thread", done.returncode, 1)
        b.expect_in("kernel thread", "has no memory of its own", done.stderr)


@test
def names_find_processes(b):
    name = os.path.join(b.dir, "only-one-of-this")
    shutil.copy(b.build + "/tests/accounting/shapes", name)
    other = b.start(name)
    other.stdout.readline()
    document = b.json("maps", "name:only-one-of-this")
    b.expect("pid", (document["pid"], document["name"]), (other.pid, "only-one-of-this"))
    again = b.start(name)
    again.stdout.readline()
    done = b.run("maps", "name:only-one-of-this")
    b.expect("two", done.stderr, "memtrack: 'only-one-of-this' names 2 processes; name one by its pid: %d, %d\n"
             % tuple(sorted((other.pid, again.pid))))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="", help="only tests with this word in their name")
    options = parser.parse_args()
    tap = Tap()
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        if options.k.replace("_", " ") not in name:
            continue
        b = Bench(os.path.realpath(options.build))
        try:
            function(b)
        except Skip as why:
            if not b.problems:
                tap.skip(name, str(why))
                continue
            b.problems.append("the rest is skipped: %s" % why)
        except (IndexError, KeyError, TypeError, OSError, ValueError, subprocess.SubprocessError) as error:
            b.problems.append("%s: %s" % (type(error).__name__, error))
        finally:
            b.close()
        tap.ok(name, b.problems)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
