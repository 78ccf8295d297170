#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Core files of real programs, by the kernel and by gdb: they say what the process said while it lived; memtrack read.

  run_core.py --build DIR [-k WORD]
"""
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

import run_image # says where cases is
import cases
import cores
from cases import Skip, test
from run_image import TIMEOUT_S, wait_for_pause

MEMORY_BYTES = 1 << 30 # of addresses, for hostile files
SECONDS = 5

cases.TESTS.clear() # those of run_image


def start_known(b, *flags, **more):
    return b.start(b.compile("known.c", "gcc", flags), cwd=b.dir, **more)


MAKERS = {"gdb": cores.by_gdb, "the kernel": cores.by_kernel}


def check_core(b, maker):
    p = start_known(b)
    wait_for_pause(p)
    address, pthread = p.first.split()[1:]
    live = b.probe("live", p.pid, "symbol", "main", "symbol", "malloc")
    main = live.all("symbol")[0][1]
    malloc = [s[1] for s in live.all("symbol") if s[0] == "malloc" and "libc.so" in s[-1]][0]
    wanted = b.probe("live", p.pid, "read", main, 32, "read", malloc, 32).all("bytes")
    core = MAKERS[maker](b.dir, p)
    said = b.probe("core", core, "read", main, 32, "read", malloc, 32, "read", address, 8, "registers")
    b.same(said.one("error") + said.one("remark"), "", "remark")
    b.same(said.one("pid"), str(p.pid), "pid")
    b.same(said.modules(), live.modules(), "modules")
    b.same(sorted(t[0] for t in said.all("thread")), sorted(t[0] for t in live.all("thread")), "threads")
    b.same(said.all("bytes")[:2], wanted, "code, from the files")
    b.check(int.from_bytes(bytes.fromhex(said.all("bytes")[2][2]), "little") > 1, "the number is not there")
    registers = {int(r[0]): r[1:] for r in said.all("registers")}
    for tid, words in registers.items():
        if tid == p.pid:
            b.same(words[21], pthread, "fs_base of the main thread")
        else:
            b.same((words[0], words[3]), ("5eed00000015", "5eed00000012"), "r15 and r12")
    for row in said.all("vector"):
        if int(row[0]) != p.pid:
            b.same(row[1][2 * (160 + 9 * 16):][:16], "a9000000ed5e0000", "xmm9")
    symbols = b.probe("core", core, "symbol", "known_number").all("symbol")
    b.same([s[1] for s in symbols], [address], "known_number")
    return p, core, main


@test
def a_core_of_gdb_says_what_the_process_said(b):
    check_core(b, "gdb")


@test
def a_core_of_the_kernel_says_what_the_process_said(b):
    check_core(b, "the kernel")


@test
def another_file_in_its_place_is_not_used(b):
    p, core, main = check_core(b, "gdb")
    p.kill()
    p.wait()
    program = os.path.join(b.dir, "program")
    b.compile("known.c", "gcc", ("-DANOTHER", "-O2"), name="program.new")
    os.rename(program + ".new", program)
    said = b.probe("core", core, "read", main, 32)
    b.same(said.all("bytes"), [[main, "0", ""]], "code")
    b.check(int(said.one("unreadable")) >= 4096, "nothing is counted as missing")


@test
def a_core_that_was_cut_says_how_much_is_missing(b):
    p = start_known(b)
    core = cores.by_kernel(b.dir, p)
    bytes_in_all = os.path.getsize(core)
    os.truncate(core, bytes_in_all * 3 // 4)
    said = b.probe("core", core)
    b.check(re.search(r"is cut: [\d.]+ [KM]?i?B of its memory are missing", said.one("remark")), said.one("remark"))
    b.check(int(said.one("unreadable")) >= bytes_in_all // 4, "missing: " + said.one("unreadable"))
    os.truncate(core, 900)
    b.check("is cut" in b.probe("core", core, status=1).one("error"), "a core that ends in its headers")


@test
def what_is_no_core_is_refused(b):
    corpus = os.path.join(run_image.HERE, "..", "fuzz", "corpus", "core")
    for name, words in (("aarch64", "64-bit ARM"), ("bits32", "32 bits"), ("no_core", "no core file"),
                        ("text", "no core file"), ("cut_in_notes", "is cut")):
        said = b.probe("core", os.path.join(corpus, name), status=1)
        b.check(words in said.one("error"), "%s: %s" % (name, said.one("error")))
    b.check("no core file" in b.probe("core", b.dir, status=1).one("error"), "a directory")
    b.check("cannot open" in b.probe("core", b.dir + "/none", status=1).one("error"), "no file")


def of_another_architecture(core, machine, path):
    """The same file with another machine in its header (e_machine)."""
    shutil.copy(core, path)
    with open(path, "r+b") as f:
        f.seek(18)
        f.write(machine.to_bytes(2, "little"))
    return path


@test
def leaks_refuses_what_it_cannot_search(b):
    p = start_known(b)
    core = cores.by_kernel(b.dir, p)
    b.check("can be reached" in memtrack(b, "leaks", core).stdout, "the whole core file is not searched")
    cases_of = [(of_another_architecture(core, 183, b.dir + "/arm"), "is of a 64-bit ARM: only core files of x86-64 are read"),
                (of_another_architecture(core, 243, b.dir + "/riscv"), "is of another architecture (ELF machine 243)")]
    corpus = os.path.join(run_image.HERE, "..", "fuzz", "corpus", "core")
    cases_of += [(os.path.join(corpus, name), words) for name, words in
                 (("bits32", "32 bits: not supported"), ("text", "is no core file"), ("no_core", "and no core file"))]
    size = os.path.getsize(core)
    for part in (0.9, 0.5, 0.1):
        cut = "%s/cut%d" % (b.dir, part * 100)
        shutil.copy(core, cut)
        os.truncate(cut, int(size * part))
        cases_of.append((cut, "is cut"))
    for path, words in cases_of:
        done = memtrack(b, "leaks", path, status=1)
        b.same(done.stdout, "", "what it says of %s" % path)
        b.same(len(done.stderr.splitlines()), 1, "lines of %r" % done.stderr)
        b.check(words in done.stderr, "%s: %s" % (path, done.stderr))


def enlarge_segments(core, memory_bytes, path):
    """The same file whose writable segments claim so much memory, one after the other: (index, path) of each."""
    with open(core, "rb") as f:
        head = bytearray(f.read())
    offset, count = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<H", head, 56)[0]
    for i in range(count):
        at = offset + 56 * i
        kind, flags, _, address, _, in_file = struct.unpack_from("<IIQQQQ", head, at)
        if kind != 1 or not flags & 2 or not in_file or address >> 47:
            continue
        changed = bytearray(head)
        struct.pack_into("<Q", changed, at + 40, memory_bytes)
        with open(path, "wb") as f:
            f.write(changed)
        yield i, path


@test
def addresses_that_a_core_does_not_hold_cost_nothing(b):
    core = cores.by_kernel(b.dir, start_known(b))
    whole, searched = memtrack(b, "leaks", core), 0
    b.check("could not be read" not in whole.stdout, whole.stdout)
    is_sanitized = not os.path.exists(b.build + "/libmemtrack.so") # needs address space without end
    limit = None if is_sanitized else lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    for memory_bytes in (1 << 40, 1 << 52, 1 << 63):
        for i, path in enlarge_segments(core, memory_bytes, b.dir + "/large"):
            start = time.monotonic()
            done = subprocess.run([b.build + "/memtrack", "leaks", "--no-cache", path], capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False, cwd=b.dir, preexec_fn=limit)
            what = "segment %d of %d bytes: %s" % (i, memory_bytes, done.stderr)
            b.check(time.monotonic() - start < SECONDS, "too slow: " + what)
            b.check("allocate memory" not in done.stderr and done.returncode in (0, 1), what)
            if "can be reached" in done.stdout:
                b.check(re.search(r"\d{13,} bytes could not be read", done.stdout), "not counted: " + what + done.stdout)
                searched += 1
    b.check(searched, "no file was searched")


@test
def allocators_says_that_a_core_is_cut(b):
    core = cores.by_kernel(b.dir, start_known(b))
    os.truncate(core, os.path.getsize(core) // 20)
    done = memtrack(b, "allocators", core, status=1)
    b.check("is not known" not in done.stderr and "the core file is cut: " in done.stderr, done.stderr)


# ---- memtrack read ----

def memtrack(b, *args, status=0):
    env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACK")}
    env.update(MEMTRACK_STATE_DIR=b.dir, MEMTRACK_LIB=b.build + "/libmemtrack.so", LC_ALL="C.UTF-8")
    done = subprocess.run([b.build + "/memtrack", *map(str, args)], capture_output=True, text=True, errors="replace",
                          timeout=TIMEOUT_S, check=False, env=env, cwd=b.dir)
    b.same(done.returncode, status, "status of %s (%s)" % (" ".join(map(str, args)), done.stderr))
    return done


@test
def read_shows_bytes_and_what_they_point_to(b):
    p = b.start(b.compile("pointers.c"), cwd=b.dir)
    words = dict(w.split("=") for w in p.first.split()[1:])
    done = memtrack(b, "read", p.pid, "0x%s+64" % words["table"])
    rows = done.stdout.splitlines()
    b.check(re.match(r"0x[0-9a-f]+-0x[0-9a-f]+ rw-p .*/program: table in program$", rows[0]), rows[0])
    b.check("74 61 62 6c 65 20 6f 66  20 77 6f 72 64 73 2e 00  table of words.." in rows[1], rows[1])
    said = {m[1]: m[2] for m in re.finditer(r"^ +0x([0-9a-f]{16})  (.+)$", done.stdout, re.M)}
    b.same(said.get(words["function"].zfill(16)), "pointed_to in program", "a function")
    b.same(said.get("%016x" % (int(words["table"], 16) + 4)), "table+0x4 in program", "a variable")
    b.same(done.stderr, "", "remarks")
    # the same by --stop and --copy, where stacks of threads are known
    for how in ("--stop", "--copy"):
        again = memtrack(b, "read", p.pid, words["table"] + "+64", how)
        b.check("stack of thread %d" % p.pid in again.stdout, "%s: no stack: %s" % (how, again.stdout))
        b.check("stood still for" in again.stderr, "%s: %s" % (how, again.stderr))
    if shutil.which("gcore"):
        core = cores.by_gdb(b.dir, p)
        again = memtrack(b, "read", core, "%s..%x" % (words["table"], int(words["table"], 16) + 64))
        b.check("pointed_to in program" in again.stdout, "core: %s" % again.stdout)


@test
def read_says_what_cannot_be_read(b):
    p = b.start(b.compile("pointers.c"))
    words = dict(w.split("=") for w in p.first.split()[1:])
    hole = int(words["hole"], 16)
    done = memtrack(b, "read", p.pid, "%x+%d" % (hole - 32, 4096 + 64))
    b.check("4096 bytes cannot be read: mapped without the right to read" in done.stdout, done.stdout)
    b.check("4096 of 4160 bytes cannot be read" in done.stderr, done.stderr)
    b.same(len(re.findall(r"before the hole|behind the hole", done.stdout)), 2, "bytes around the hole")
    raw = os.path.join(b.dir, "raw")
    done = memtrack(b, "read", p.pid, "%x+%d" % (hole - 32, 4096 + 64), "-o", raw)
    with open(raw, "rb") as f:
        data = f.read()
    b.same(data[16:32] + data[32 + 4096:][:16], b"before the hole\0behind the hole\0", "raw bytes")
    b.same((len(data), data[32:32 + 4096]), (4160, b"\0" * 4096), "the hole")
    b.check("zeros in the file" in done.stderr, done.stderr)
    done = memtrack(b, "read", p.pid, "10+64", status=1)
    b.check("nothing is mapped there" in done.stdout, done.stdout)


@test
def read_names_the_blocks_of_a_tracked_process(b):
    if not os.path.exists(b.build + "/libmemtrack.so"):
        raise Skip("no library with a sanitizer")
    env = dict(os.environ, MEMTRACK_STATE_DIR=b.dir, MEMTRACK_DIR=b.dir, LD_PRELOAD=b.build + "/libmemtrack.so",
               MEMTRACK_MODE="full")
    p = b.start(b.compile("pointers.c"), env=env, cwd=b.dir)
    words = dict(w.split("=") for w in p.first.split()[1:])
    done = memtrack(b, "read", p.pid, words["table"] + "+64")
    wanted = r"block of 123 bytes at 0x%s, \+5, allocated by main\+0x[0-9a-f]+ in program" % words["block"]
    b.check(re.search(wanted, done.stdout), done.stdout)


@test
def mistakes_are_told(b):
    for range_, words in (("xyz", "is no address"), ("10..5", "is no range"), ("10+", "is no range"),
                          ("10+0", "is no range"), ("10 20", "is no range"), ("-5", "")):
        done = memtrack(b, "read", os.getpid(), range_, status=2)
        b.check(words in done.stderr and done.stderr.count("\n") == 1, "%s: %s" % (range_, done.stderr))
    done = memtrack(b, "read", "/dev/null", "10", status=1)
    b.check("no core file" in done.stderr, done.stderr)
    done = memtrack(b, "read", "/dev/null", "10", "--stop", status=1)
    b.check("is no process" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(run_image.main())
