#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack allocators against programs that tell their own live blocks (blocks.c): every live block is found with
its usable size, no freed one is, and the sums are those of mallinfo2() and malloc_info().

  run_heaps.py --build DIR [--seeds N] [-k WORD]
"""
import bisect
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
from cases import Skip, test

TIMEOUT_S = 60
HIDDEN = 6  # blocks that a damaged header may hide
COMPILERS = {"glibc": ["gcc"], "musl": ["musl-gcc"], "glibc-static": ["gcc", "-static"], "musl-static": ["musl-gcc", "-static"]}
PRELOADS = {
    "jemalloc": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "mimalloc": "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0",
    "tcmalloc": "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "scudo": "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so",
}


class Program:
    """A run of blocks.c that waits until it is left."""

    def __init__(self, bench, libc, arguments, env=None, loader=()):
        out, self.held = os.pipe()
        self.run = subprocess.Popen([*loader, bench.program(libc), *map(str, arguments)], stdin=out, stdout=subprocess.PIPE,
                                    env={**bench.env, **(env or {})}, text=True, pass_fds=())
        os.close(out)
        self.live, self.freed, self.number, self.text, self.pid = {}, set(), {}, "", None
        for line in self.run.stdout:
            words = line.split()
            if words[:1] == ["live"]:
                self.live[int(words[1], 0)] = int(words[2])
            elif words[:1] == ["freed"]:
                self.freed.add(int(words[1], 0))
            elif words[:1] == ["ready"]:
                self.pid = int(words[1])
                break
            elif len(words) == 2 and words[1].isdigit():
                self.number.setdefault(words[0], []).append(int(words[1]))
            else:
                self.text += line

    def __enter__(self):
        if self.pid is None:
            self.__exit__()
            raise RuntimeError("the program ended early, status %s" % self.run.returncode)
        return self

    def __exit__(self, *_):
        os.close(self.held)
        try:
            self.run.wait(20)
        except subprocess.TimeoutExpired:
            self.run.kill()
            self.run.wait()
        self.run.stdout.close()


class Bench:
    def __init__(self, build, seeds):
        self.build, self.seeds = build, seeds
        self.memtrack = build + "/memtrack"
        self.dir = tempfile.mkdtemp(prefix="memtrack-heaps-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "MALLOC_", "GLIBC_TUN", "LD_"))}
        self.problems = []

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def program(self, libc):
        """blocks.c, compiled for a C library; anew when its source is newer."""
        compiler = COMPILERS[libc]
        if not shutil.which(compiler[0]):
            raise Skip("%s is not installed" % compiler[0])
        source = os.path.join(HERE, "blocks.c")
        path = os.path.join(self.build, "tests", "heaps", "blocks-" + libc)
        if not os.path.exists(path) or os.path.getmtime(path) < os.path.getmtime(source):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            fresh = "%s.%d" % (path, os.getpid())
            done = subprocess.run([*compiler, source, "-o", fresh, "-D_GNU_SOURCE", "-O1", "-w", "-fno-builtin", "-pthread"],
                                  capture_output=True, text=True, timeout=120, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr[:2000])
            os.rename(fresh, path)
        return path

    def start(self, libc, *arguments, **more):
        return Program(self, libc, arguments, **more)

    def memtrack_run(self, *arguments):
        return subprocess.run([self.memtrack, "allocators", *map(str, arguments)], cwd=self.dir, capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False, env=self.env)

    def good(self, *arguments):
        done = self.memtrack_run(*arguments)
        if done.returncode or done.stderr:
            self.problems.append("allocators %s: status %d: %s" % (" ".join(map(str, arguments)), done.returncode, done.stderr))
        return done.stdout

    def walk(self, *operand):
        return {int(line.split()[0], 0): int(line.split()[1]) for line in self.good("--blocks", *operand).splitlines()}

    def summary(self, *operand):
        text = self.good("--json", *operand)
        return json.loads(text) if text else {"damages": -1, "damage": []}

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))


def hexes(numbers):
    return ", ".join("0x%x" % n for n in sorted(numbers)[:5])


def compare_blocks(b, p, walk, what, threads=1, own=0):
    """The walk has the program's blocks, and no others but `own` of libc and those that it makes for threads."""
    missing = set(p.live) - set(walk)
    wrong = {a for a in p.live if walk.get(a, p.live[a]) != p.live[a]}
    others = set(walk) - set(p.live)
    if missing:
        b.problems.append("%s: %d of %d live blocks are missing: %s" % (what, len(missing), len(p.live), hexes(missing)))
    if wrong:
        b.problems.append("%s: %d blocks have a wrong size: %s" % (what, len(wrong), hexes(wrong)))
    # glibc makes each thread's table of thread-local blocks, and keeps it for the next thread
    tables = {a for a in others if 272 <= walk[a] <= 304}
    if len(others - tables) > own or len(tables) > threads - 1:
        b.problems.append("%s: %d blocks are not the program's: %s" % (what, len(others), hexes(others)))
    if p.freed & set(walk) - tables:
        b.problems.append("%s: freed blocks are live: %s" % (what, hexes(p.freed & set(walk))))
    if not p.live or not p.freed:
        b.problems.append("%s: the program tells nothing" % what)


def compare_sums(b, p, what, gaps=False):
    """What glibc says of itself."""
    j, n = b.summary(p.pid), {k: v[0] for k, v in p.number.items()}
    b.expect(what + ": damage", (j["damages"], j["damage"]), (0, []))
    held = n["arena"] + n["hblkhd"]
    if j["held_bytes"] != held and not (gaps and j["held_bytes"] < held):
        b.problems.append("%s: %d bytes held, mallinfo2 says %d" % (what, j["held_bytes"], held))
    b.expect(what + ": mapped blocks", j["mapped_blocks"], n["hblks"])
    free_blocks = j["free_blocks"] - j["cached_blocks"]
    free_bytes = j["free_bytes"] - j["cached_bytes"] + 8 * free_blocks
    b.expect(what + ": free", free_bytes + j["top_bytes"], n["fordblks"])
    totals = {m[0]: (int(m[1]), int(m[2])) for m in re.findall(r'<total type="(\w+)" count="(\d+)" size="(\d+)"/>', p.text)[-3:]}
    fast, rest = totals["fast"], totals["rest"]  # the rest has the top of each arena
    b.expect(what + ": chunks by malloc_info", free_blocks + len(j["arenas"]), fast[0] + rest[0])
    in_bins = rest[0] - len(j["arenas"])  # whose sizes it adds with a flag of 1 each
    b.expect(what + ": bytes by malloc_info", free_bytes + j["top_bytes"], fast[1] + rest[1] - in_bins)
    b.expect(what + ": live", j["live_bytes"] >= sum(p.live.values()), True)
    for a in j["arenas"]:
        parts = a["live_bytes"] + a["free_bytes"] + a["top_bytes"]
        if parts > a["held_bytes"]:
            b.problems.append("%s: an arena has more than it holds: %s" % (what, a))


def try_glibc(b, threads, operations, *modes, env=None, libc="glibc", seeds=None):
    for seed in range(1, (seeds or b.seeds) + 1):
        what = " ".join([libc, str(seed), str(threads), *modes, *("%s=%s" % e for e in (env or {}).items())])
        with b.start(libc, seed, threads, operations, *modes, env=env) as p:
            # the loader's part of a static program uses malloc, too
            compare_blocks(b, p, b.walk(p.pid), what, threads, own=8 if libc == "glibc-static" else 0)
            if libc.startswith("glibc"):
                compare_sums(b, p, what, gaps="sbrk" in modes)


@test
def blocks_of_one_thread(b):
    try_glibc(b, 1, 4000)
    try_glibc(b, 1, 20000, "mapped")


@test
def blocks_of_eight_threads(b):
    try_glibc(b, 8, 3000)
    try_glibc(b, 8, 6000, "mapped", seeds=1)


@test
def blocks_of_a_forked_child(b):
    try_glibc(b, 8, 2000, "fork", seeds=1)
    try_glibc(b, 1, 2000, "fork", libc="musl", seeds=1)


@test
def break_that_somebody_else_moves(b):
    try_glibc(b, 1, 20000, "sbrk")
    try_glibc(b, 4, 8000, "sbrk", seeds=1)


@test
def break_that_cannot_grow(b):
    try_glibc(b, 1, 20000, "wall")
    try_glibc(b, 4, 8000, "wall", "mapped", seeds=1)


@test
def settings_of_the_allocator(b):
    for env in ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}, {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=200"},
                {"GLIBC_TUNABLES": "glibc.malloc.tcache_max=200"}, {"GLIBC_TUNABLES": "glibc.malloc.mxfast=0"},
                {"MALLOC_ARENA_MAX": "1"}, {"MALLOC_ARENA_MAX": "2"}, {"MALLOC_MMAP_THRESHOLD_": "4096"},
                {"MALLOC_MMAP_MAX_": "0"}, {"MALLOC_TOP_PAD_": "4000000"}, {"MALLOC_PERTURB_": "165"}):
        try_glibc(b, 4, 3000, env=env, seeds=1)


@test
def static_programs(b):
    try_glibc(b, 4, 3000, libc="glibc-static", seeds=1)
    try_glibc(b, 4, 3000, libc="musl-static", seeds=1)


@test
def blocks_of_musl(b):
    try_glibc(b, 1, 4000, libc="musl")
    try_glibc(b, 8, 3000, libc="musl")
    try_glibc(b, 8, 6000, "mapped", libc="musl", seeds=1)


@test
def c179_freed_blocks_in_caches_are_not_live(b):
    with b.start("glibc", 1, 1, 0, "seven") as p:
        walk = b.walk(p.pid)
        b.expect("freed", len(p.freed), 7)
        b.expect("freed that are live", p.freed & set(walk), set())
        b.expect("cached", b.summary(p.pid)["cached_blocks"], 7)
        b.expect("live", p.live, {a: n for a, n in walk.items() if a in p.live})


@test
def process_that_stands_still_and_one_that_runs_on(b):
    for way, source in (("--stop", "stopped"), ("--live", "live")):
        with b.start("glibc", 5, 4, 3000) as p:
            compare_blocks(b, p, b.walk(way, p.pid), way, 4)
            b.expect(way, b.summary(way, p.pid)["source"], source)


@test
def core_files(b):
    """Two dumps of the same blocks agree: gdb's gcore, if it is installed."""
    if not shutil.which("gcore"):
        raise Skip("gcore is not installed")
    for libc in ("glibc", "musl"):
        with b.start(libc, 6, 4, 3000) as p:
            core = os.path.join(b.dir, libc)
            subprocess.run(["gcore", "-o", core, str(p.pid)], capture_output=True, timeout=TIMEOUT_S, check=False)
            core += ".%d" % p.pid
            compare_blocks(b, p, b.walk(core), libc, 4)
            of_core, of_process = b.summary(core), b.summary(p.pid)
            b.expect("source", of_core["source"], "core")
            for name in ("held_bytes", "live_bytes", "free_bytes", "cached_bytes", "top_bytes", "mapped_blocks", "damages"):
                b.expect(libc + ": " + name, of_core[name], of_process[name])


@test
def blocks_of_jemalloc(b):
    """Version 5.3.0. The C++ library that it brings has a block, and so has the C library for each thread."""
    if not os.path.exists(PRELOADS["jemalloc"]):
        raise Skip("libjemalloc2 is not installed")
    for threads, operations, *modes in ((1, 4000), (8, 3000), (8, 6000, "mapped"), (4, 2000, "fork")):
        for seed in range(1, b.seeds + 1):
            with b.start("glibc", seed, threads, operations, *modes, env={"LD_PRELOAD": PRELOADS["jemalloc"]}) as p:
                what = "jemalloc %d %d %s" % (seed, threads, " ".join(modes))
                walk = b.walk(p.pid)
                pool = {a for a in walk if a not in p.live and walk[a] == 81920}
                b.expect(what + ": pools", len(pool), 1)
                compare_blocks(b, p, {a: n if a in p.live or n != 320 else 280 for a, n in walk.items() if a not in pool},
                               what, threads)
                j = b.summary(p.pid)
                b.expect(what + ": damage", (j["damages"], j["damage"], j["skipped_bytes"]), (0, [], 0))
                b.expect(what + ": caches", (j["cached_blocks"] > 0, j["own_blocks"]), (True, sum(t % 4 != 3 for t in range(threads))))
                if j["live_bytes"] + j["free_bytes"] + j["own_bytes"] > j["held_bytes"]:
                    b.problems.append(what + ": more than is held")


@test
def jemalloc_is_not_read_while_it_works(b):
    if not os.path.exists(PRELOADS["jemalloc"]):
        raise Skip("libjemalloc2 is not installed")
    with b.start("glibc", 1, 1, 10, env={"LD_PRELOAD": PRELOADS["jemalloc"]}) as p:
        done = b.memtrack_run("--live", p.pid)
        b.expect("status", (done.returncode, done.stdout), (1, ""))
        b.expect("reason", "without the registers of threads" in done.stderr, True)


def preloaded(name):
    if not os.path.exists(PRELOADS[name]):
        raise Skip("%s is not installed" % PRELOADS[name])
    return {"LD_PRELOAD": PRELOADS[name]}


# Blocks that the allocator's library and the C++ library have, by size: how many.
TABLES = (288, 320)  # of threads
LIBRARIES_OWN = {"mimalloc": {}, "scudo": {56: 1}, "tcmalloc": {8: 1, 16: 1, 73728: 1}}


def compare_slots(b, p, walk, what, own, name="mimalloc"):
    """Where an aligned block begins in its slot is not recorded: each block of the program ends where one of the walk ends,
    and there are no others but `own`, of the C library for threads."""
    starts = sorted(walk)

    def slot_of(address):
        i = bisect.bisect_right(starts, address) - 1
        return starts[i] if i >= 0 and address < starts[i] + walk[starts[i]] else None

    slots = {slot_of(a) for a, n in p.live.items() if slot_of(a) is not None and a + n == slot_of(a) + walk[slot_of(a)]}
    if len(slots) != len(p.live):
        b.problems.append("%s: %d of %d live blocks are not there" % (what, len(p.live) - len(slots), len(p.live)))
    others = set(walk) - slots
    sizes = [walk[a] for a in others if walk[a] not in TABLES]
    if len(others) - len(sizes) > own or any(sizes.count(n) > LIBRARIES_OWN[name].get(n, 0) for n in sizes):
        b.problems.append("%s: %d blocks are not the program's: %s" % (what, len(others), hexes(others)))
    freed = {a for a in p.freed if slot_of(a) is not None and slot_of(a) not in slots | others}
    if freed:
        b.problems.append("%s: freed blocks are live: %s" % (what, hexes(freed)))
    if not p.live or not p.freed:
        b.problems.append("%s: the program tells nothing" % what)


def compare_with_slots(b, name, rounds, more=None):
    env = {**preloaded(name), **(more or {})}
    for threads, operations, *modes in rounds:
        for seed in range(1, b.seeds + 1):
            with b.start("glibc", seed, threads, operations, *modes, env=env) as p:
                what = "%s %d %d %s" % (name, seed, threads, " ".join(modes))
                compare_slots(b, p, b.walk(p.pid), what, threads - 1, name)
                j = b.summary(p.pid)
                b.expect(what + ": damage", (j["damages"], j["damage"], j["skipped_bytes"]), (0, [], 0))
                for a in j["arenas"]:
                    if a["live_bytes"] + a["free_bytes"] + a["top_bytes"] + a["own_bytes"] > a["held_bytes"]:
                        b.problems.append("%s: an arena has more than it holds: %s" % (what, a))
                if name == "tcmalloc":
                    b.expect(what + ": caches", j["cached_blocks"] > 0, True)
                elif name == "mimalloc" and j["mapped_blocks"] != p.number["huge"][0]:
                    b.problems.append("%s: %d huge blocks" % (what, j["mapped_blocks"]))


def stale_is_told(b, name):
    """Freed blocks that were written to: told, and no live block is missing but those counted as skipped."""
    for seed in range(1, 2 * b.seeds + 1):
        with b.start("glibc", seed, 1 + seed % 3, 2000, "stale", env=preloaded(name)) as p:
            walk, j = b.walk(p.pid), b.summary(p.pid)
            if not j["damages"] or not j["damage"]:
                b.problems.append("%s, seed %d: what was written to freed blocks was not noticed" % (name, seed))
            missing = [a for a in p.live if not any(s <= a < s + n for s, n in walk.items())]
            if sum(p.live[a] for a in missing) > j["skipped_bytes"]:
                b.problems.append("%s, seed %d: %d blocks are missing that were not skipped" % (name, seed, len(missing)))


@test
def blocks_of_mimalloc(b):
    """Version 2.0.9: blocks that other threads freed, segments of threads that ended, large blocks."""
    compare_with_slots(b, "mimalloc", ((1, 4000), (8, 3000), (8, 6000, "mapped"), (4, 2000, "fork"), (4, 2000, "huge")))


@test
def blocks_of_tcmalloc(b):
    """gperftools 2.10: blocks of spans, of lists between threads and of caches of threads are free."""
    compare_with_slots(b, "tcmalloc", ((1, 4000), (8, 3000), (8, 6000, "mapped"), (4, 2000, "fork"), (4, 2000, "huge")))


@test
def blocks_of_scudo(b):
    """Standalone, of LLVM 14: the state of each block is in its header; sizes are those that were asked for."""
    compare_with_slots(b, "scudo", ((1, 4000), (8, 3000), (8, 6000, "mapped"), (4, 2000, "fork"), (4, 2000, "huge")))
    # blocks that GWP-ASan samples are elsewhere
    sampled = {"SCUDO_OPTIONS": "GWP_ASAN_SampleRate=30:GWP_ASAN_MaxSimultaneousAllocations=100"}
    compare_with_slots(b, "scudo", ((1, 4000), (8, 3000)), sampled)


@test
def damage_in_scudo_is_told(b):
    for seed in range(1, 2 * b.seeds + 1):
        with b.start("glibc", seed, 1 + seed % 3, 2000, "front", env=preloaded("scudo")) as p:
            walk, j = b.walk(p.pid), b.summary(p.pid)
            damaged = set(p.number["damaged"])
            b.expect("seed %d: damages" % seed, j["damages"], len(damaged))
            b.expect("seed %d: missing" % seed, set(p.live) - set(walk), damaged)


@test
def ways_to_read_scudo(b):
    ways_to_read(b, "scudo", has_core=False)  # gcore takes minutes for its 180 GiB of addresses


@test
def damage_in_mimalloc_is_told(b):
    stale_is_told(b, "mimalloc")


@test
def damage_in_tcmalloc_is_told(b):
    stale_is_told(b, "tcmalloc")


def ways_to_read(b, name, has_core=True):
    env = preloaded(name)
    for way in ("--stop", "--live"):
        with b.start("glibc", 5, 4, 3000, env=env) as p:
            compare_slots(b, p, b.walk(way, p.pid), way, 3, name)
    if not has_core:
        return
    if not shutil.which("gcore"):
        raise Skip("gcore is not installed")
    with b.start("glibc", 6, 4, 3000, env=env) as p:
        core = os.path.join(b.dir, name)
        subprocess.run(["gcore", "-o", core, str(p.pid)], capture_output=True, timeout=TIMEOUT_S, check=False)
        compare_slots(b, p, b.walk("%s.%d" % (core, p.pid)), "core", 3, name)


@test
def ways_to_read_mimalloc(b):
    ways_to_read(b, "mimalloc")


@test
def ways_to_read_tcmalloc(b):
    ways_to_read(b, "tcmalloc")


@test
def another_tcmalloc_is_refused(b):
    """A copy of the library that says that it is another version."""
    with open(preloaded("tcmalloc")["LD_PRELOAD"], "rb") as f:
        data = f.read()
    b.expect("places of the version", data.count(b"gperftools 2.10\0"), 1)
    path = os.path.join(b.dir, "libtcmalloc_minimal.so.4")
    with open(path, "wb") as f:
        f.write(data.replace(b"gperftools 2.10\0", b"gperftools 2.15\0"))
    with b.start("glibc", 1, 1, 10, env={"LD_PRELOAD": path}) as p:
        done = b.memtrack_run(p.pid)
        b.expect("refused", (done.returncode, done.stdout, done.stderr),
                 (1, "", "memtrack: '%s' is tcmalloc, but not that of gperftools 2.10 for x86-64: the layout of its heap is not "
                  "known\n" % path))


@test
def another_mimalloc_is_refused_by_name(b):
    """A copy of the library whose function tells another version."""
    with open(preloaded("mimalloc")["LD_PRELOAD"], "rb") as f:
        data = f.read()
    code = b"\xb8\xd1\0\0\0\xc3"  # mov eax, 209; ret
    b.expect("places of the version", data.count(code), 1)
    path = os.path.join(b.dir, "libmimalloc.so.2.0")
    for fake, wanted in ((b"\xb8\xd4\0\0\0\xc3", "mimalloc 2.1.2, the layout of whose heap is not known; known is 2.0.9"),
                         (b"\x31\xc0\xb0\xd1\xc3\x90", "mimalloc, but not 2.0.9 for x86-64: ")):
        with open(path, "wb") as f:
            f.write(data.replace(code, fake))
        with b.start("glibc", 1, 1, 10, env={"LD_PRELOAD": path}) as p:
            done = b.memtrack_run(p.pid)
            b.expect("status", (done.returncode, done.stdout), (1, ""))
            if not done.stderr.startswith("memtrack: '%s' is %s" % (path, wanted)):
                b.problems.append(done.stderr)


@test
def other_allocators_are_named(b):
    """By a symbol that only they have; here a library that has nothing else of them."""
    source = os.path.join(b.dir, "other.c")
    for symbol, name in (("rpmalloc", "rpmalloc"), ("sn_malloc", "snmalloc"), ("MallocExtension_Internal_GetStats", "tcmalloc")):
        with open(source, "w", encoding="ascii") as f:
            f.write("#include <stddef.h>\nstatic char memory[64 << 20]; static size_t used;\nvoid %s(void) {}\n"
                    "void *malloc(size_t n) { char *p = memory + used; used += (n + 31) & ~15ul; return p; }\n"
                    "void free(void *p) {}\n"
                    "void *calloc(size_t n, size_t m) { return malloc(n * m); }\n"
                    "void *realloc(void *p, size_t n) { return malloc(n); }\n"
                    "int posix_memalign(void **p, size_t a, size_t n) { used = (used + a - 1) & -a; *p = malloc(n); return 0; }\n"
                    "size_t malloc_usable_size(void *p) { return 0; }\n" % symbol)
        library = os.path.join(b.dir, name + ".so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", source, "-o", library], check=True, timeout=120)
        with b.start("glibc", 1, 1, 10, env={"LD_PRELOAD": library}) as p:
            done = b.memtrack_run(p.pid)
            b.expect(name, (done.returncode, done.stdout, done.stderr),
                     (1, "", "memtrack: malloc is that of %s ('%s'), whose heap cannot be read from outside\n" % (name, library)))


@test
def other_versions_are_refused(b):
    """A copy of the C library that says that it is another version."""
    library = re.search(r"libc\.so\.6 => (/\S+)", subprocess.run(["ldd", b.program("glibc")], capture_output=True, text=True,
                                                                check=True).stdout)[1]
    with open(library, "rb") as f:
        data = f.read()
    for version in (b"2.99", b"2.12"):
        fake, count = re.subn(rb"(GNU C Library \([^\n)]*\) stable release version )2\.\d\d", rb"\g<1>" + version, data)
        b.expect("places of the version", count, 1)
        with open(os.path.join(b.dir, "libc.so.6"), "wb") as f:
            f.write(fake)
        with b.start("glibc", 1, 1, 10, env={"LD_LIBRARY_PATH": b.dir}) as p:
            done = b.memtrack_run(p.pid)
            b.expect(version, (done.returncode, done.stdout), (1, ""))
            if not re.match(r"memtrack: '/\S+' is glibc %s, the layout of whose heap is not known; known are 2.27 to 2.41\n$" %
                            version.decode(), done.stderr):
                b.problems.append(done.stderr)


def built_for(b, root):
    """blocks.c, linked with the C library below a directory and started by its loader; and the library's minor version."""
    library, loader = (next(iter(sorted(glob.glob(root + "/**/" + name, recursive=True), key=len, reverse=True)), None)
                       for name in ("libc.so.6", "ld-linux-x86-64.so.2"))
    if not library or not loader:
        raise RuntimeError("%s has no libc.so.6 and ld-linux-x86-64.so.2" % root)
    with open(library, "rb") as f:
        minor = int(re.search(rb"GNU C Library \([^\n)]*\) stable release version 2\.(\d+)", f.read())[1])
    directory, program = os.path.dirname(library), os.path.join(b.dir, "blocks-2.%d" % minor)
    threads = glob.glob(directory + "/libpthread.so.0") if minor < 34 else []
    subprocess.run(["gcc", os.path.join(HERE, "blocks.c"), "-o", program, "-D_GNU_SOURCE", "-O1", "-w", "-fno-builtin", "-pthread",
                    *(["-DNO_TOTALS"] if minor < 33 else []), "-nodefaultlibs", library, *threads, "-l:libc_nonshared.a", "-lgcc",
                    "-Wl,--allow-shlib-undefined", "-Wl,-rpath," + directory, "-Wl,--dynamic-linker=" + loader],
                   check=True, timeout=120)
    return program, minor


@test
def other_glibcs(b):
    """Of a directory of libc6_*.deb files, or of directories with one unpacked each."""
    where = os.environ.get("MEMTRACK_TEST_GLIBCS")
    if not where:
        raise Skip("MEMTRACK_TEST_GLIBCS names no directory of libc6_*.deb files")
    roots = [p for p in sorted(glob.glob(where + "/*")) if os.path.isdir(p)]
    for package in sorted(glob.glob(where + "/libc6_*.deb")):
        roots.append(os.path.join(b.dir, os.path.basename(package)[:-4]))
        subprocess.run(["dpkg-deb", "-x", package, roots[-1]], check=True, timeout=120)
    b.expect("there are some", bool(roots), True)
    for root in roots:
        program, minor = built_for(b, root)
        b.program = lambda _, program=program: program
        for threads, operations, *modes in ((1, 4000), (1, 20000, "mapped"), (8, 3000), (8, 2000, "fork"), (1, 20000, "sbrk"),
                                            (4, 8000, "wall", "mapped")):
            what = "2.%d, %s" % (minor, (threads, operations, *modes))
            for seed in range(1, b.seeds + 1):
                with b.start("glibc", seed, threads, operations, *modes) as p:
                    if not 27 <= minor <= 41:
                        done = b.memtrack_run(p.pid)
                        b.expect(what, (done.returncode, done.stdout), (1, ""))
                        b.expect(what, "is glibc 2.%d, the layout of whose heap is not known; known are 2.27 to 2.41" % minor
                                 in done.stderr, True)
                        continue
                    compare_blocks(b, p, b.walk(p.pid), what, threads)
                    if minor >= 33:
                        compare_sums(b, p, what, gaps="sbrk" in modes)


@test
def tracked_programs_are_read_like_others(b):
    with b.start("glibc", 1, 1, 2000, env={"LD_PRELOAD": b.build + "/libmemtrack.so", "MEMTRACK_DIR": b.dir,
                                               "MEMTRACK_STATE_DIR": b.dir}) as p:
        compare_blocks(b, p, b.walk(p.pid), "tracked")


@test
def pages_with_little_on_them_are_told_by_call_site(b):
    for options, is_table in (("", True), ("mode=sample", False)):
        env = {"LD_PRELOAD": b.build + "/libmemtrack.so", "MEMTRACK_STATE_DIR": b.dir, "MEMTRACK_OPTIONS": options}
        with b.start("glibc", 3, 1, 4000, env=env) as p:
            env_before, b.env = b.env, {**b.env, "MEMTRACK_STATE_DIR": b.dir}
            live = {}
            for address, size in b.walk(p.pid).items():
                for page in range(address // 4096, (address + size - 1) // 4096 + 1):
                    live[page] = live.get(page, 0) + min(address + size, (page + 1) * 4096) - max(address, page * 4096)
            little = [n for n in live.values() if n <= 2048]
            pinned, text = b.summary("--top=0", p.pid)["pinned"], b.good("--top=1", p.pid)
            b.env = env_before
            # pages at the ends of the heap are not the allocator's as a whole
            if not 0 <= len(little) * 4096 - pinned["page_bytes"] <= 4 * 4096 or not pinned["page_bytes"]:
                b.problems.append("%s: %d bytes of pages, expected %d" % (options, pinned["page_bytes"], len(little) * 4096))
            b.expect(options + ": sentence", "\npages at most half of which is live: " in text, True)
            b.expect(options + ": why no sites", "not every block is recorded" in text, not is_table)
            if not is_table:
                b.expect("sites", "sites" in pinned, False)
                continue
            b.expect("sites in all", pinned["site_count"], len(pinned["sites"]))
            b.expect("the most first", [s["page_bytes"] for s in pinned["sites"]],
                     sorted((s["page_bytes"] for s in pinned["sites"]), reverse=True))
            b.expect("live bytes", sum(s["live_bytes"] for s in pinned["sites"]), pinned["live_bytes"])
            b.expect("function", any("step" == f.get("function") for s in pinned["sites"][:3] for f in s.get("stack", [])), True)
            b.expect("more", "(--top=0 lists all)" in text and "  step " in text, True)


@test
def text_says_where_the_rest_is(b):
    with b.start("glibc", 1, 8, 3000) as p:
        text = b.good(p.pid)
        b.expect("source", "read from  a copy of the process at one moment (it stood still for " in text, True)
        head = re.search(r"^[\d.]+ MiB held by glibc for [\d.]+ MiB live in [\d,]+ blocks: \d+ % of the rest ", text, re.M)
        b.expect("sentence", bool(head), True)
        b.expect("arenas", len(re.findall(r"^  0x[0-9a-f]+", text, re.M)), len(b.summary(p.pid)["arenas"]))
        b.expect("sum", len(re.findall(r"^  all ", text, re.M)), 1)


@test
def what_cannot_be_read_is_told(b):
    for operand, wanted in (("999999999", "memtrack: "), (b.dir + "/none", "memtrack: ")):
        done = b.memtrack_run(operand)
        b.expect(operand, (done.returncode, done.stdout, done.stderr.count("\n"), done.stderr.startswith(wanted)), (1, "", 1, True))


def damage_is_told(b, libc):
    for seed in range(1, 4 * b.seeds + 1):
        with b.start(libc, seed, 1 + seed % 3, 2000, "damage") as p:
            began = time.monotonic()
            walk, j = b.walk(p.pid), b.summary(p.pid)
            if time.monotonic() - began > 20:
                b.problems.append("seed %d: it takes long" % seed)
            damaged = set(p.number["damaged"])
            if not j["damages"] or not j["damage"]:
                b.problems.append("%s, seed %d: damage at %s was not noticed" % (libc, seed, hexes(damaged)))
            missing = set(p.live) - set(walk) - damaged
            # behind a damaged header the walk may go on at what an older chunk has left inside a block
            if sum(p.live[a] for a in missing) > j["skipped_bytes"] and len(missing) > HIDDEN * len(damaged):
                b.problems.append("%s, seed %d: %d blocks are missing that were not skipped" % (libc, seed, len(missing)))
            if len(missing) > len(p.live) / 2:
                b.problems.append("%s, seed %d: %d of %d blocks are missing" % (libc, seed, len(missing), len(p.live)))
            wrong = {a for a in walk if walk[a] != p.live.get(a, walk[a])} - damaged
            if wrong:
                b.problems.append("%s, seed %d: wrong sizes: %s" % (libc, seed, hexes(wrong)))


@test
def damage_in_glibc_is_told(b):
    damage_is_told(b, "glibc")


@test
def damage_in_musl_is_told(b):
    damage_is_told(b, "musl")


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    return cases.run(options, lambda: Bench(os.path.realpath(options.build), options.seeds))


if __name__ == "__main__":
    sys.exit(main())
