#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Writes the heap of a waiting process as a file that fake_image.h reads: what tests/fuzz/corpus/heap holds.

  take_image.py FILE PROGRAM [ARGUMENT...]     PROGRAM says "ready PID" and waits (tiny.c)

With LD_PRELOAD=libmimalloc.so.2 (libtcmalloc_minimal.so.4, libclang_rt.scudo_standalone-x86_64.so) the heap is that of mimalloc
(tcmalloc, scudo).
"""
import os
import re
import struct
import subprocess
import sys

PAGE = 4096
READ, WRITE, EXEC, SHARED, MODULE, MUSL, MIMALLOC, TCMALLOC, SCUDO = 1, 2, 4, 8, 16, 32, 64, 128, 256
LIBC = re.compile(r"/(libc\.so[^/]*|ld-musl[^/]*)$")
OTHERS = {MIMALLOC: "libmimalloc", TCMALLOC: "libtcmalloc", SCUDO: "scudo_standalone"}
CACHES = "_ZN8tcmalloc11ThreadCache13thread_heaps_E"


def other_of(pid):
    """The allocator that is not libc's, or 0."""
    with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
        text = f.read()
    return next((flag for flag, name in OTHERS.items() if name in text), 0)


def version_of(pid, other):
    """What the fake module begins with."""
    if other == MIMALLOC:
        return b"\xb8\xd1\0\0\0\xc3"  # mi_version(): mov eax, 209; ret
    if other == SCUDO:
        return b"scudo"
    with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
        base, path = next((int(line.split("-")[0], 16), line.split()[-1]) for line in f if OTHERS[TCMALLOC] in line)
    names = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    return struct.pack("<Q", base + int(re.search(r"(\w+) B " + CACHES, names)[1], 16)) + b"gperftools 2.10\0"


def ranges_of(pid):
    """(start, bytes, flags) of the heap's mappings and of what libc can write."""
    found, last_libc, last_file, other = [], 0, 0, other_of(pid)
    with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"([0-9a-f]+)-([0-9a-f]+) (....) \S+ \S+ (\d+) *(.*)", line)
            start, end, mode, inode, name = int(m[1], 16), int(m[2], 16), m[3], int(m[4]), m[5]
            is_bss_of_any = not name and start == last_file
            last_file = end if inode else 0
            if mode[:2] != "rw":
                continue
            is_libc = OTHERS[other] in name if other else bool(LIBC.search(name))
            is_bss = not name and start == last_libc
            if is_libc:
                last_libc = end
            if other and is_bss_of_any and not is_bss:
                continue
            if is_libc or is_bss or name == "[heap]" or (not inode and not name) or os.path.basename(name).startswith("tiny"):
                flags = READ | WRITE
                if is_libc or is_bss:
                    flags |= MODULE | other | (MUSL if "musl" in name or is_musl(pid) else 0)
                found.append((start, end - start, flags))
    return found


def without_zeros(data):
    """Parts, each with its offset: a new one begins behind many pages of zeros."""
    begin, zeros = 0, 0
    for at in range(0, len(data), PAGE):
        if not data[at:at + PAGE].strip(b"\0"):
            zeros += 1
            continue
        if zeros > 8:
            yield begin, data[begin:at]
            begin = at
        zeros = 0
    yield begin, data[begin:]


def is_musl(pid):
    with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
        return "musl" in f.read()


def main():
    target, command = sys.argv[1], sys.argv[2:]
    run = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = next(int(line.split()[1]) for line in run.stdout if line.startswith("ready "))
    heads, bodies = [], []
    with open("/proc/%d/mem" % pid, "rb") as memory:
        for start, size, flags in ranges_of(pid):
            memory.seek(start)
            data = memory.read(size)
            for at, part in without_zeros(data):
                heads.append((start + at, len(part), len(part.rstrip(b"\0")), flags))
                bodies.append(part.rstrip(b"\0"))
    other = other_of(pid)
    if other:
        bodies.insert(0, version_of(pid, other))
        heads.insert(0, (0x10000, PAGE, len(bodies[0]), READ | MODULE))
    elif not is_musl(pid):
        text = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\n"
        heads.insert(0, (0x10000, PAGE, len(text), READ | MODULE))
        bodies.insert(0, text)
    with open(target, "wb") as f:
        f.write(struct.pack("<8sIIQ", b"MTHEAP1", len(heads), 0, 0))
        for head in heads:
            f.write(struct.pack("<QIIII", *head, 0))
        f.write(b"".join(bodies))
    run.stdin.close()
    run.stdout.close()
    run.wait()


if __name__ == "__main__":
    main()
