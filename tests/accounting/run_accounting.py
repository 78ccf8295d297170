#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack maps and meminfo from outside: their figures against the kernel's, on processes of known shape, on many
processes, and on texts that were saved or made up.

  run_accounting.py --build DIR [-k WORD]
"""
import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
import cores
from cases import test

TIMEOUT_S = 60


class Bench(cases.Bench):
    def __init__(self, build):
        super().__init__(build, "accounting")

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


def settled(b, check, tries=20):
    """
    Checks again while there are problems: pages are shared with processes that come and go, and what is private or
    shared, and Pss, moves with them. What is really wrong stays wrong.
    """
    known = len(b.problems)
    for i in range(tries):
        del b.problems[known:]
        check()
        if len(b.problems) == known:
            return
        time.sleep(0.02 * i)


SUMS = {"Rss": "rss_bytes", "Shared_Clean": "shared_clean_bytes", "Shared_Dirty": "shared_dirty_bytes",
        "Private_Clean": "private_clean_bytes", "Private_Dirty": "private_dirty_bytes", "Swap": "swap_bytes",
        "Anonymous": "anonymous_bytes", "Referenced": "referenced_bytes", "LazyFree": "lazy_free_bytes",
        "AnonHugePages": "anon_huge_pages_bytes"}


def moving(kernel):
    """How far Pss may move when one process more maps the same pages: memtrack itself, while it reads."""
    return (kernel["Pss"] - kernel["Private_Clean"] - kernel["Private_Dirty"]) // 2


def check_sums(b, name, kernel, ours, slack=0):
    for theirs, field in SUMS.items():
        if theirs in kernel:
            b.expect("%s: %s" % (name, theirs), ours["total"].get(field), kernel[theirs])
    difference = abs(ours["total"]["pss_bytes"] - kernel["Pss"])
    if difference > 1024 * ours["total"]["mappings"] + slack:
        b.problems.append("%s: Pss differs by %d bytes in %d mappings" % (name, difference, ours["total"]["mappings"]))
    for field, total in ours["total"].items():
        b.expect("%s: sum of rows, %s" % (name, field), sum(row.get(field, 0) for row in ours["rows"]), total)


def agree(b, pid, by):
    """The sums of `memtrack maps` are the kernel's. Returns the last document."""
    documents = []

    def check():
        kernel = rollup(pid)
        documents.append(b.json("maps", pid, "--by=" + by))
        check_sums(b, "process %d %s, by %s" % (pid, documents[-1]["name"], by), kernel, documents[-1])

    settled(b, check)
    return documents[-1]


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
        ours = agree(b, child.pid, "kind")
        b.expect("categories are disjoint", len({row["kind"] for row in ours["rows"]}), len(ours["rows"]))
        b.expect("warnings", ours["warnings"], [])
    for child in children[::7]:
        ours = agree(b, child.pid, "mapping")
        with open("/proc/%d/maps" % child.pid, encoding="utf-8", errors="replace") as f:
            b.expect("mappings of %d" % child.pid, [row["start"] + "-" + row["end"] for row in ours["rows"]],
                     [re.sub(r"\b0+(?=[0-9a-f])", "", line.split()[0]) for line in f])
        agree(b, child.pid, "object")


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


LIBRARIES = "/usr/lib/x86_64-linux-gnu/lib"
ALLOCATORS = {"jemalloc": ("gcc", LIBRARIES + "jemalloc.so.2"), "mimalloc": ("gcc", LIBRARIES + "mimalloc.so.2"),
              "musl": ("musl-gcc", None)}


def check_heap_rows(b, name, rows, addresses):
    for address in addresses:
        row = row_of(rows, address)
        if row["object"] != "[heap]":
            b.expect(name, (row["kind"], row["what"]), ("Native Heap", name.split(",")[0]))


@test
def memory_of_other_allocators_is_native_heap(b):
    """The mappings that jemalloc, mimalloc and musl have taken, by their own structures; also in a core file."""
    tried = 0
    for allocator, (compiler, preload) in ALLOCATORS.items():
        if not shutil.which(compiler) or (preload and not os.path.exists(preload)):
            b.notes.append(allocator + " is not here")
            continue
        tried += 1
        program = os.path.join(b.dir, compiler)
        subprocess.run([compiler, "-O1", "-fno-builtin", "-o", program, os.path.join(HERE, "held.c")], check=True)
        child = b.start(*(["env", "LD_PRELOAD=" + preload] if preload else []), program)
        addresses = [int(word, 16) for word in child.stdout.readline().split()[1:]]
        stop(child.pid)
        ours = agree(b, child.pid, "mapping")
        check_heap_rows(b, allocator, ours["rows"], addresses)
        heap = sum(row["rss_bytes"] for row in ours["rows"] if row["kind"] == "Native Heap")
        unknown = sum(row["rss_bytes"] for row in ours["rows"] if row["kind"] == "Unknown")
        if heap < 17 << 20 or unknown > 256 << 10:
            b.problems.append("%s: %d bytes of Native Heap, %d Unknown" % (allocator, heap, unknown))
        if shutil.which("gcore"):
            subprocess.run(["gcore", "-o", os.path.join(b.dir, "core"), str(child.pid)], stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=True)
            core = b.json("maps", "core.%d" % child.pid, "--by=mapping")
            check_heap_rows(b, allocator + ", core file", core["rows"], addresses)
    if not tried:
        raise cases.Skip("none of " + ", ".join(ALLOCATORS))


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
    b.expect("by category", b.good("maps", "saved", "--by=category").stdout.splitlines(), text)
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
            (("maps", b.build + "/tests/accounting/shapes"), 1, "memtrack: '%s/tests/accounting/shapes' is a program or library, and "
             "no core file\n" % b.build),
            (("maps", b.write("elf", b"\x7fELF\2")), 1, "memtrack: '%s/elf' is cut in its first header\n" % b.dir),
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


# ---- core files ----

def check_core(b, core, before, said):
    document = b.json("maps", core, "--by=mapping")
    rows, live = document["rows"], {(r["start"], r["end"]): r for r in before["rows"]}
    for name, kind in SHAPES.items():
        row = row_of(rows, said[name])
        b.expect("%s (%s, %s)" % (name, row["object"], row["what"]), row["kind"], kind)
    for row in rows:
        of = live.get((row["start"], row["end"]))
        if of and of["kind"] != row["kind"]:
            b.problems.append("%s-%s was %s (%s), is %s" % (row["start"], row["end"], of["kind"], of["object"], row["kind"]))
    b.expect("sum", sum(r["dumped_bytes"] for r in rows), document["total"]["dumped_bytes"])
    if document["total"]["dumped_bytes"] < 10 << 20 or document["total"]["dumped_bytes"] > os.path.getsize(b.dir + "/" + core):
        b.problems.append("dumped: %d" % document["total"]["dumped_bytes"])
    b.expect("what is not known", [f for f in ("rss_bytes", "pss_bytes", "swap_bytes") if f in document["total"]], [])
    b.expect_in("said so", "not how much memory was used", document["warnings"][0])


@test
def a_core_file_has_addresses_and_what_it_holds(b):
    child, said = b.shapes()
    before = b.json("maps", child.pid, "--by=mapping")
    b.good("maps", child.pid, "--raw", "-o", "live")
    if shutil.which("gcore"):
        subprocess.run(["gcore", "-o", b.dir + "/gdb", str(child.pid)], capture_output=True, timeout=TIMEOUT_S, check=False,
                       stdin=subprocess.DEVNULL)
        if os.path.exists("%s/gdb.%d" % (b.dir, child.pid)):
            check_core(b, "gdb.%d" % child.pid, before, said)
    core = os.path.basename(cores.by_kernel(b.dir, child))
    check_core(b, core, before, said)
    text = b.good("maps", core).stdout
    b.expect("heads", text.splitlines()[2].split(), ["size", "dumped", "#", "kind", "object"])
    b.expect_in("verdict", "of addresses in", text.splitlines()[0])
    b.expect_in("no sharing", "rw-?", b.good("maps", core, "--by=mapping").stdout)
    b.expect_in("measure", "': size ", b.good("maps", core, "--since=live").stdout.splitlines()[0])
    b.expect_in("same", "dumped grew by 0 B", b.good("maps", core, "--since=" + core).stdout)
    os.truncate(os.path.join(b.dir, core), os.path.getsize(os.path.join(b.dir, core)) - (1 << 20))
    b.expect_in("cut", "is cut: 1.0 MiB of its memory are missing", b.json("maps", core)["warnings"][1])
    b.expect_in("meminfo", "is a core file: it tells addresses, not how much memory is used", b.run("meminfo", core).stderr)


# ---- meminfo ----

FIELDS = ("Rss", "Pss", "Shared_Clean", "Shared_Dirty", "Private_Clean", "Private_Dirty", "Swap", "SwapPss")


def made(*mappings, without=()):
    """A text of smaps: (line, kB of each of FIELDS)."""
    return "".join(line + "\n" + "".join("%s: %d kB\n" % (f, n) for f, n in zip(FIELDS, numbers) if f not in without)
                   for line, *numbers in mappings)


MADE = (("400000-500000 r-xp 0 8:1 5  /usr/bin/prog", 100, 40, 60, 0, 30, 10, 0, 0),
        ("500000-600000 rw-p 0 0:0 0  [heap]", 200, 200, 0, 0, 4, 196, 8, 8),
        ("700000-800000 rw-s 0 0:1 9  /dev/shm/x", 80, 40, 0, 80, 0, 0, 16, 4),
        ("7ffc00000000-7ffc00100000 rw-p 0 0:0 0  [stack]", 20, 20, 0, 0, 8, 12, 0, 0))


def table(text):
    """Rows of the first table of meminfo: {name: cells}."""
    rows = {}
    for line in text.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if len(cells) == 8:
            rows[cells[0]] = cells[1:]
    return rows


@test
def C183_the_table_and_its_total(b):
    """The total of Pss has SwapPss in it, and the column is called so."""
    text = b.good("meminfo", b.write("smaps", made(*MADE))).stdout
    b.expect("heads", re.split(r" {2,}", text.splitlines()[1].strip()),
             ["Pss", "private dirty", "private clean", "shared dirty", "shared clean", "SwapPss", "Rss"])
    b.expect("rows", list(table(text)), ["Native Heap", "Stack", "Shared memory", "Program", "TOTAL"])
    b.expect("heap", table(text)["Native Heap"], ["200 KiB", "196 KiB", "4.0 KiB", "0", "0", "8.0 KiB", "200 KiB"])
    b.expect("total", table(text)["TOTAL"], ["312 KiB", "218 KiB", "42.0 KiB", "80.0 KiB", "60.0 KiB", "12.0 KiB", "400 KiB"])
    b.expect_in("summary", "TOTAL SWAP PSS  12.0 KiB", text)
    text = b.good("meminfo", b.write("old", made(*MADE, without=("SwapPss",)))).stdout
    b.expect("heads", re.split(r" {2,}", text.splitlines()[1].strip())[5], "Swap")
    b.expect("total", table(text)["TOTAL"][0], "300 KiB")
    b.expect("TOTAL SWAP", bool(re.search(r"^TOTAL SWAP +24\.0 KiB$", text, re.M)), True)


@test
def C184_the_summary(b):
    """Private Other is all private memory but that of the rows above it, System the rest of the total Pss."""
    document = b.json("meminfo", b.write("smaps", made(*MADE)))
    rows = {row["name"]: row["pss_bytes"] >> 10 for row in document["summary"]["rows"]}
    b.expect("rows", rows, {"Native Heap": 196, "Code": 40, "Stack": 12, "Graphics": 0,
                            "Private Other": 260 - 196 - 40 - 12, "System": 312 - 260})
    b.expect("total", document["summary"]["total_pss_bytes"], 312 << 10)
    b.expect("rss", sum(row.get("rss_bytes", 0) for row in document["summary"]["rows"]), 400 << 10)
    android = b.json("meminfo", b.write("a", made(("1000-2000 rw-p 0 0:0 0  [anon:dalvik-main space]", 30, 30, 0, 0, 10, 20, 0, 0))))
    b.expect("Java", [(r["name"], r["pss_bytes"] >> 10) for r in android["summary"]["rows"]][:2],
             [("Java Heap", 20), ("Native Heap", 0)])


@test
def a_process_by_category(b):
    child, _ = b.shapes()
    stop(child.pid)
    documents = []

    def check():
        kernel = rollup(child.pid)
        documents.append(b.json("meminfo", child.pid))
        check_sums(b, "process", kernel, {"total": documents[-1]["total"], "rows": documents[-1]["categories"]},
                   moving(kernel))

    settled(b, check)
    ours = documents[-1]
    b.expect("summary", sum(row["pss_bytes"] for row in ours["summary"]["rows"]), ours["summary"]["total_pss_bytes"])
    b.expect("threads", ours["status"]["threads"], 2)
    with open("/proc/%d/status" % child.pid, encoding="utf-8") as f:
        status = dict(line.split(":", 1) for line in f)
    b.expect("page tables", ours["status"]["page_tables_bytes"], int(status["VmPTE"].split()[0]) << 10)
    b.expect("gpu", (ours["gpu"]["regions"], ours["gpu"]["dmabufs"]), ([], 0))
    text = b.good("meminfo", child.pid).stdout
    b.expect_in("verdict", "process %d (shapes): Pss " % child.pid, text.splitlines()[0])
    b.expect_in("verdict", "most of it: Native Heap", text.splitlines()[0])
    b.expect_in("status", "\nthreads 2, page tables ", text)
    b.good("maps", child.pid, "--raw", "-o", "saved")
    b.expect("saved", b.json("meminfo", "saved")["total"]["rss_bytes"], ours["total"]["rss_bytes"])
    rows = list(csv.DictReader(io.StringIO(b.good("meminfo", child.pid, "--csv").stdout)))
    b.expect("CSV", (rows[-1]["kind"], int(rows[-1]["rss_bytes"])), ("TOTAL", ours["total"]["rss_bytes"]))


def changes(text):
    """Rows of the first table of meminfo --since: {name: cells}."""
    rows = {}
    for line in text.splitlines():
        cells = re.split(r" {2,}", line.strip())
        if len(cells) == 11:
            rows[cells[0]] = cells[1:]
    return rows


BEFORE = (("400000-500000 r-xp 0 8:1 5  /usr/bin/prog", 100, 40, 60, 0, 30, 10, 0, 0),
          ("500000-600000 rw-p 0 0:0 0  [heap]", 150, 150, 0, 0, 4, 146, 8, 6),
          ("900000-a00000 rw-s 0 0:1 9  /dev/dri/card0", 8, 8, 0, 0, 0, 8, 0, 0),
          ("7ffc00000000-7ffc00100000 rw-p 0 0:0 0  [stack]", 20, 20, 0, 0, 8, 12, 0, 0))


@test
def categories_are_compared_with_an_earlier_moment(b):
    now, before = b.write("now", made(*MADE)), b.write("before", made(*BEFORE))
    text = b.good("meminfo", now, "--since=before").stdout
    b.expect("verdict", text.splitlines()[0], "'%s': Pss grew by 82.0 KiB since 'before', most in Native Heap (+50.0 KiB)" % now)
    rows = changes(text)
    b.expect("rows", list(rows), ["Native Heap", "Stack", "Shared memory (new)", "Gfx dev (gone)", "Program", "TOTAL"])
    b.expect("heap", rows["Native Heap"], ["200 KiB", "+50.0 KiB", "196 KiB", "+50.0 KiB", "4.0 KiB", "0", "8.0 KiB",
                                           "+2.0 KiB", "200 KiB", "+50.0 KiB"])
    b.expect("total, with SwapPss", rows["TOTAL"][:2], ["312 KiB", "+88.0 KiB"])
    if not re.search(r"^Native Heap +196 KiB +\+50\.0 KiB +200 KiB +\+50\.0 KiB$", text, re.M):
        b.problems.append("summary: %r" % text)
    if not re.search(r"^TOTAL SWAP PSS +12\.0 KiB +\+6\.0 KiB$", text, re.M):
        b.problems.append("swap: %r" % text)
    document = b.json("meminfo", now, "--since=before")
    b.expect("since", document["since"], "before")
    b.expect("change", {r["kind"]: r.get("change") for r in document["categories"] if "change" in r},
             {"Shared memory": "new", "Gfx dev": "gone"})
    total = document["total"]["pss_bytes"] - document["old_total"]["pss_bytes"]
    b.expect("rows add up", sum(r["pss_bytes"] - r.get("old", {}).get("pss_bytes", 0) for r in document["categories"]), total)
    b.expect("summary", sum(r["old_pss_bytes"] for r in document["summary"]["rows"]), document["summary"]["old_total_pss_bytes"])
    rows = list(csv.DictReader(io.StringIO(b.good("meminfo", now, "--since=before", "--csv").stdout)))
    b.expect("CSV", [(r["kind"], r["rss_bytes"], r["old_rss_bytes"]) for r in rows][0], ("Native Heap", str(200 << 10), str(150 << 10)))
    same = b.good("meminfo", now, "--since=now").stdout
    b.expect("nothing", same.splitlines()[0], "'%s': Pss grew by 0 B since 'now'" % now)
    older = b.good("meminfo", now, "--since=" + b.write("older", made(*BEFORE, without=("Pss", "SwapPss")))).stdout
    b.expect("no Pss then", (older.splitlines()[0].split(": ")[1], changes(older)["TOTAL"][:2]),
             ("Rss grew by 122 KiB since '%s/older', most in Shared memory (+80.0 KiB)" % b.dir, ["312 KiB", "-"]))


@test
def growth_of_a_process_is_in_its_category(b):
    child, _ = b.shapes()
    b.good("maps", child.pid, "--raw", "-o", "before")
    with open("/proc/%d/smaps_rollup" % child.pid, "rb") as f:
        b.write("rollup", f.read())
    for _ in range(3):
        child.stdin.write("x\n")
        child.stdin.flush()
        child.stdout.readline()
    document = b.json("meminfo", child.pid, "--since=before")
    growth = {r["kind"]: r["private_dirty_bytes"] - r["old"]["private_dirty_bytes"] for r in document["categories"] if "old" in r}
    if not 12 << 20 <= growth["Native Heap"] <= 13 << 20:
        b.problems.append("the heap grew by %d, expected 12 MiB" % growth["Native Heap"])
    b.expect("all else", [kind for kind, n in growth.items() if kind != "Native Heap" and abs(n) > 64 << 10], [])
    text = b.good("meminfo", child.pid, "--since=rollup").stdout
    b.expect_in("sums alone", "sums alone are compared: one side has no mappings", text)
    b.expect("rows", list(changes(text)), ["TOTAL"])
    if not 12 <= float(changes(text)["TOTAL"][9][1:].split()[0]) < 13:
        b.problems.append("total: %r" % changes(text))


JAVA = """
public class Objects {
    public static void main(String[] args) throws Exception {
        byte[][] kept = new byte[400][];
        for (int i = 0; i < kept.length; i++)
            kept[i] = new byte[100000];
        System.out.println("ready");
        System.in.read();
        System.out.println(kept.length);
    }
}
"""
COLLECTORS = ("Serial", "Parallel", "G1", "Shenandoah", "Z")


def views_of(pid):
    """How often ZGC's file is mapped: three times with Java 17, once with later ones that have generations."""
    with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
        offsets = [line.split()[2] for line in f if "/memfd:java_heap" in line]
    return offsets.count(offsets[0]) if offsets else 0


def java(b, collector):
    child = b.start("java", "-XX:+Use%sGC" % collector, "-Xms48m", "-Xmx256m", "-XX:TieredStopAtLevel=1", b.dir + "/Objects.java")
    if child.stdout.readline().strip() != "ready":
        b.notes.append("no collector %s here" % collector)
        return None
    return child


@test
def java_objects_have_a_category(b):
    if not shutil.which("java"):
        raise cases.Skip("java is not installed")
    b.write("Objects.java", JAVA)
    children = {collector: java(b, collector) for collector in COLLECTORS}
    if not any(children.values()):
        raise cases.Skip("java does not run here, or cannot compile")
    for collector, child in children.items():
        if not child:
            continue
        document = b.json("meminfo", child.pid)
        row = ([r for r in document["categories"] if r["kind"] == "Java Heap"] or [{"pss_bytes": 0}])[0]
        if not 40000000 <= row["pss_bytes"] <= 220 << 20:
            b.problems.append("%s: Java Heap has %d bytes, of 40 MB of objects" % (collector, row["pss_bytes"]))
        b.expect(collector + ": summary", document["summary"]["rows"][0]["name"], "Java Heap")
        views = views_of(child.pid)
        b.expect(collector + ": in a file", views > 0, collector == "Z")
        b.expect(collector + ": warnings", document["warnings"], [] if views <= 1 else [
            "the Java heap is mapped %d times (ZGC): Rss counts its pages each time and calls them shared, Pss counts them once"
            % views])
        rows = b.json("maps", child.pid, "--by=mapping")["rows"]
        b.expect(collector + ": mappings", any(r["kind"] == "Java Heap" and r["rss_bytes"] for r in rows), True)
        b.good("maps", child.pid, "--raw", "-o", "before")
        text = b.good("maps", child.pid, "--since=before", "--by=kind").stdout
        b.expect(collector + ": both sides by the VM", "(gone)" in text or "(new)" in text, False)


@test
def saved_sums_and_machines(b):
    child, _ = b.shapes()
    stop(child.pid)
    with open("/proc/%d/smaps_rollup" % child.pid, "rb") as f:
        document = b.json("meminfo", b.write("rollup", f.read()))
    b.expect_in("no size", ", size not known\n", b.good("maps", "rollup").stdout)
    rows = b.json("maps", "rollup")
    b.expect("no size", ["size_bytes" in rows["total"], "size_bytes" in rows["rows"][0], rows["total"]["rss_bytes"]],
             [False, False, rollup(child.pid)["Rss"]])
    b.expect("CSV", [r["size_bytes"] for r in csv.DictReader(io.StringIO(b.good("maps", "rollup", "--csv").stdout))], [""])
    b.expect("rss", document["total"]["rss_bytes"], rollup(child.pid)["Rss"])
    b.expect("no categories", ("categories" in document, document["warnings"]),
             (False, ["this is a smaps_rollup text: sums, without mappings"]))
    text = "".join("%s:   %d kB\n" % line for line in (
        ("MemTotal", 1000), ("MemFree", 300), ("MemAvailable", 600), ("Buffers", 10), ("Cached", 250), ("SwapCached", 1),
        ("SwapTotal", 99), ("Shmem", 50), ("AnonPages", 200), ("SReclaimable", 30), ("SUnreclaim", 20)))
    document = b.json("meminfo", b.write("machine", text))
    parts = {name: value >> 10 for name, value in document["parts"].items()}
    b.expect("parts", parts, {"free_bytes": 300, "anon_bytes": 200, "page_cache_bytes": 200, "buffers_bytes": 10, "shmem_bytes": 50,
                              "swap_cached_bytes": 1, "slab_reclaimable_bytes": 30, "slab_unreclaimable_bytes": 20})
    b.expect("rest", document["rest_bytes"] >> 10, 1000 - 811)
    b.expect_in("text", "60.0 % of memory is available", b.good("meminfo", "machine").stdout)
    live = b.json("meminfo", "--system")
    b.expect("live", sum(live["parts"].values()) + live["rest_bytes"], live["total_bytes"])
    b.expect_in("csv", "\nfree_bytes,", b.good("meminfo", "--system", "--csv").stdout)


@test
def the_list_of_all_processes(b):
    child, _ = b.shapes()
    stop(child.pid)
    kernel, ours = rollup(child.pid), b.json("meminfo", "--all")
    mine = [p for p in ours["processes"] if p["pid"] == child.pid][0]
    b.expect("rss", mine["rss_bytes"], kernel["Rss"])
    # these move with others that map the same pages
    b.expect("pss, uss", [abs(mine["pss_bytes"] - kernel["Pss"]) <= (64 << 10) + moving(kernel),
                          abs(mine["uss_bytes"] - kernel["Private_Clean"] - kernel["Private_Dirty"]) <= 64 << 10], [True] * 2)
    b.expect("command", mine["command"], b.build + "/tests/accounting/shapes")
    pss = [p.get("pss_bytes", 0) for p in ours["processes"]]
    b.expect("order", pss, sorted(pss, reverse=True))
    b.expect("total", sum(pss), ours["total"]["pss_bytes"])
    text = b.good("meminfo", "--all", "--top=1", "--sort=rss").stdout.splitlines()
    b.expect("lines", [line.split()[-1] for line in text[-3:-1]], ["more)", "TOTAL"])
    b.expect_in("machine", "RAM: ", text[-1])
    rows = list(csv.DictReader(io.StringIO(b.good("meminfo", "--all", "--csv").stdout)))
    b.expect("CSV", [r["rss_bytes"] for r in rows if r["pid"] == str(child.pid)], [str(kernel["Rss"])])


@test
def control_groups(b):
    child, _ = b.shapes()
    below = os.path.join(b.dir, "v2", "below")
    os.makedirs(below)
    os.mkdir(os.path.join(b.dir, "v1"))
    for name, text in (("v2/memory.current", "1048576\n"), ("v2/memory.peak", "2097152\n"), ("v2/memory.max", "max\n"),
                       ("v2/memory.stat", "anon 524288\nfile 400000\nshmem 100000\nkernel_stack 4096\nslab_reclaimable 8192\n"),
                       ("v2/memory.events", "low 0\noom_kill 2\n"), ("v2/cgroup.procs", "0\n"),
                       ("v2/below/cgroup.procs", "%d\n" % child.pid),
                       ("v1/memory.usage_in_bytes", "1000000\n"), ("v1/memory.limit_in_bytes", "4194304\n"),
                       ("v1/memory.stat", "cache 1\ntotal_cache 500000\ntotal_rss 300000\ntotal_shmem 200000\n"),
                       ("v1/memory.kmem.usage_in_bytes", "150000\n"), ("v1/cgroup.procs", "")):
        b.write(name, text)
    v2 = b.json("meminfo", "--cgroup=v2")
    b.expect("v2", (v2["version"], v2["total_bytes"], v2["parts"]), (2, 1048576, {
        "anon_bytes": 524288, "page_cache_bytes": 300000, "shmem_bytes": 100000, "slab_reclaimable_bytes": 8192,
        "kernel_stack_bytes": 4096}))
    b.expect("rest", v2["rest_bytes"], 1048576 - 524288 - 400000 - 12288)
    b.expect("facts", v2["facts"], {"peak_bytes": 2097152, "oom_kills": 2})
    b.expect("processes", [p["pid"] for p in v2["processes"]], [child.pid])
    v1 = b.json("meminfo", "--cgroup=v1")
    b.expect("v1", (v1["version"], v1["parts"], v1["rest_bytes"], v1["facts"], v1["processes"]), (1, {
        "anon_bytes": 300000, "page_cache_bytes": 300000, "shmem_bytes": 200000, "kernel_bytes": 150000}, 50000,
        {"limit_bytes": 4194304}, []))
    text = b.good("meminfo", "--cgroup=v2").stdout
    b.expect_in("verdict", "control group 'v2': 1.0 MiB, without a limit; 2 processes were killed for memory; most is "
                "anonymous (50.0 %)", text.splitlines()[0])
    b.expect_in("verdict", "977 KiB of 4.0 MiB", b.good("meminfo", "--cgroup=v1").stdout)


def readings(text):
    return [json.loads(line) for line in text.splitlines()]


@test
def a_process_is_watched(b):
    child, _ = b.shapes()
    watch = b.start(b.memtrack, "meminfo", str(child.pid), "--watch=20ms", "--json")
    first = json.loads(watch.stdout.readline())
    child.stdin.write("x\n")
    child.stdin.flush()
    child.stdout.readline()
    end = time.monotonic() + TIMEOUT_S
    now = first
    while time.monotonic() < end and now.get("pss_bytes", 0) < first["pss_bytes"] + (4 << 20):
        now = json.loads(watch.stdout.readline())
    b.expect("it grew", now["anon_bytes"] >= first["anon_bytes"] + (4 << 20), True)
    b.expect("time", now["elapsed_ns"] > first["elapsed_ns"], True)
    child.stdin.close() # it ends, and so does the watch
    rest, _ = watch.communicate(timeout=TIMEOUT_S)
    b.expect("status", watch.returncode, 0)
    readings(rest)


@test
def a_watch_costs_little(b):
    """Readings without Pss come between, as often as was asked for."""
    child = b.start(sys.executable, "-c", "x = bytearray(64 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\n"
                    "print(flush=True)\ninput()")
    child.stdout.readline()
    got = readings(b.good("meminfo", child.pid, "--watch=10ms", "-n", 30, "--json").stdout)
    b.expect("readings", len(got), 30)
    walks = [r for r in got if "pss_bytes" in r]
    if not 1 <= len(walks) <= 10 or "pss_bytes" not in got[0]:
        b.problems.append("%d of 30 readings walked the page tables" % len(walks))
    b.expect("rss", [r["rss_bytes"] >= 64 << 20 for r in got], [True] * 30)
    rows = b.good("meminfo", child.pid, "--watch=10ms", "-n", 3).stdout.splitlines()
    b.expect("dashes", rows[2].split()[2:4], ["-", "-"])


@test
def a_watch_ends_as_it_is_told(b):
    child, _ = b.shapes()
    done = b.good("meminfo", child.pid, "--watch=10ms", "-n", 3)
    lines = done.stdout.splitlines()
    b.expect("lines", (len(lines), lines[0].split()), (5, ["time", "Pss", "+/-", "Rss", "Uss", "swap"]))
    if not re.match(r"process \d+ \(shapes\): Pss went from .* to .* in .*, lowest .*, highest .*  [_.,=+*#-]{1,3}$", lines[-1]):
        b.problems.append("verdict: %r" % lines[-1])
    rows = list(csv.DictReader(io.StringIO(b.good("meminfo", child.pid, "--watch=10ms", "-n", 2, "--csv").stdout)))
    b.expect("CSV", [int(r["pid"]) for r in rows], [child.pid] * 2)
    watch = b.start(b.memtrack, "meminfo", str(child.pid), "--watch=20ms")
    for _ in range(2):
        watch.stdout.readline()
    watch.send_signal(signal.SIGINT)
    rest, _ = watch.communicate(timeout=TIMEOUT_S)
    b.expect("interrupted", watch.returncode, 0)
    b.expect_in("verdict", "Pss went from", rest.splitlines()[-1])
    watch = b.start(b.memtrack, "meminfo", str(child.pid), "--watch=20ms")
    watch.stdout.readline()
    child.kill()
    rest, _ = watch.communicate(timeout=TIMEOUT_S)
    b.expect("ended", watch.returncode, 0)
    b.expect_in("verdict", "(shapes) has ended: Pss went from", rest.splitlines()[-1])


@test
def what_meminfo_cannot_do_is_told(b):
    for args, status, why in (
            (("4194400",), 1, "memtrack: there is no process 4194400\n"),
            (("4194400", "--watch=1s"), 1, "memtrack: there is no process 4194400\n"),
            ((b.write("maps", "1000-2000 rw-p 0 0:0 0 /a\n"),), 1, "memtrack: '%s/maps' is a maps text: it tells addresses, not "
             "how much memory is used; 'memtrack maps' shows it\n" % b.dir),
            (("maps", "--watch=1s"), 1, "memtrack: --watch is for processes: 'maps' is a file\n"),
            (("--cgroup=/no/such/group",), 1, "memtrack: there is no control group '/no/such/group' with the memory controller, "
             "neither as a folder nor below /sys/fs/cgroup\n"),
            (("--cgroup=.",), 1, "memtrack: '.' is no control group with the memory controller: it has neither memory.current nor "
             "memory.usage_in_bytes\n"),
            ((), 2, "memtrack: meminfo: missing operand (PID|FILE), or --all, --cgroup or --system; see 'memtrack meminfo --help'\n"),
            (("1", "--all"), 2, "memtrack: meminfo: an operand, --all, --cgroup and --system exclude each other; see "
             "'memtrack meminfo --help'\n"),
            (("--all", "--watch=1s"), 2, "memtrack: meminfo: --watch is for one process; see 'memtrack meminfo --help'\n"),
            (("1", "--watch=1ms"), 2, "memtrack: meminfo: --watch needs 10ms or more; see 'memtrack meminfo --help'\n"),
            (("--all", "--since=x"), 2, "memtrack: meminfo: --since is for one process or FILE, and goes not with --watch; see "
             "'memtrack meminfo --help'\n"),
            (("maps", "--since=maps"), 1, "memtrack: '%s' is a maps text: it tells addresses, not how much memory is used; "
             "'memtrack maps' shows it\n" % "maps"),
            ((b.write("ram", "MemTotal: 9 kB\nMemFree: 1 kB\n"), "--since=maps"), 1, "memtrack: --since compares processes: '%s/ram' "
             "is a text of /proc/meminfo\n" % b.dir),
            (("1", "--readings=3"), 2, "memtrack: meminfo: --readings is for --watch; see 'memtrack meminfo --help'\n")):
        done = b.run("meminfo", *args)
        b.expect(args, (done.returncode, done.stdout, done.stderr), (status, "", why))


LOOKS = (("maps",), ("meminfo",), ("allocators", "--live"), ("triage", "--for=1s", "--no-stop"))


def idle_processes(b):
    """Processes whose libraries have pages that nobody touched: {name: pid}."""
    sock = os.path.join(b.dir, "s")
    commands = {"python3": [sys.executable, "-c", "import json, ssl\nopen('up', 'w').close()\ninput()"]}
    if shutil.which("redis-server"):
        commands["redis-server"] = ["redis-server", "--port", "0", "--unixsocket", sock, "--save", "", "--dir", b.dir]
    found = {name: b.start(*command).pid for name, command in commands.items()}
    end = time.monotonic() + 20
    while not all(os.path.exists(path) for path in [b.dir + "/up", sock][:len(found)]) and time.monotonic() < end:
        time.sleep(0.02)
    return found


def settled_rss(pid):
    """When it has not moved for a while: what a process does after its start is done then."""
    known, same = -1, 0
    for _ in range(100):
        now = rollup(pid)["Rss"]
        same = same + 1 if now == known else 0
        if same == 5:
            break
        known = now
        time.sleep(0.1)
    return known


@test
def a_look_makes_a_process_no_larger(b):
    for name, pid in idle_processes(b).items():
        for look in LOOKS:
            before = settled_rss(pid)
            b.run(look[0], pid, *look[1:])
            b.expect("Rss of %s after %s" % (name, " ".join(look)), rollup(pid)["Rss"], before)
        if name == "redis-server":
            with open("/proc/%d/maps" % pid, encoding="utf-8", errors="replace") as f:
                is_jemalloc = "/libjemalloc" in f.read()
            rows = b.json("maps", pid)["rows"]
            b.expect("jemalloc is found", any("jemalloc" in r["object"] and "/" not in r["object"] for r in rows), is_jemalloc)


def main():
    options = cases.parser(__doc__).parse_args()
    return cases.run(options, lambda: Bench(os.path.realpath(options.build)))


if __name__ == "__main__":
    sys.exit(main())
