# SPDX-License-Identifier: MIT
"""
The same sources for another libc (musl) and another machine (aarch64 under an emulator), tracked by the
runtime and compared with what they do. Says aloud what it skips when a tool is missing.

  run_foreign.py --build DIR --source DIR musl|aarch64
"""
import argparse
import collections
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
from tap import Tap

SYSROOT = "/usr/aarch64-linux-gnu"
# size -> blocks alive at the end
FAMILIES = {1001: 7 + 3, 1004: 1, 1005: 1, 1006: 1, 1007: 1, 1009: 4, 1088: 1, 40001: 1}
GUEST_FLAGS = ("-std=gnu11 -D_GNU_SOURCE -g -O2 -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector "
               "-fno-exceptions -fasynchronous-unwind-tables -fno-common -ftls-model=initial-exec -fno-math-errno "
               "-U_FORTIFY_SOURCE -fno-tree-loop-distribute-patterns -Wall -Wextra -Wno-unused-parameter "
               "-Wno-sign-compare -Werror").split()
GUEST_LINK = ("-shared -nostdlib -nostartfiles -Wl,-z,defs -Wl,-z,now -Wl,-z,relro -Wl,-z,noexecstack "
              "-Wl,--as-needed").split()


class Skip(Exception):
    """The machine lacks what a test needs."""


class Bench:
    def __init__(self, options):
        self.options = options
        self.emulator = []
        self.lib = os.path.join(options.build, "libmemtrack.so")
        self.flags = ["-g", "-O1", "-fno-builtin", "-D_GNU_SOURCE"]
        if options.machine == "musl":
            self.cc = "musl-gcc"
            self.flags += ["-Wl,--eh-frame-hdr"]
            self.need(self.cc)
        else:
            self.cc, self.cxx = "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"
            self.need(self.cc)
            self.need("qemu-aarch64-static")
            self.emulator = ["qemu-aarch64-static", "-L", SYSROOT]
            self.flags += ["-pthread"]
        self.dir = os.path.join(options.build, "tests", "runtime", options.machine)
        os.makedirs(self.dir, exist_ok=True)
        self.problems = []
        self.work = None

    @staticmethod
    def need(tool):
        if not shutil.which(tool):
            raise Skip("%s is not installed" % tool)

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))

    def compile(self, source, output, flags=(), compiler=None):
        path = os.path.join(self.dir, output)
        command = [compiler or self.cc, os.path.join(HERE, source), "-o", path] + self.flags + list(flags)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError("%s: %s" % (source, done.stderr[:2000]))
        return path

    def cross_build(self):
        """The preload image for the other machine, from the same sources and flags as the native one."""
        src = os.path.join(self.options.source, "src")
        files = [os.path.join(src, "core", "fmt.c")]
        for layer in ("wire", "elf", "unwind", "runtime"):
            files += sorted(glob.glob(os.path.join(src, layer, "*.c")))
        files = [f for f in files if not f.endswith("wrap.c")]
        self.lib = os.path.join(self.dir, "libmemtrack.so")
        command = [self.cc] + GUEST_FLAGS + ["-mno-outline-atomics", "-I", src, "-I",
                                             os.path.join(self.options.source, "include")]
        done = subprocess.run(command + files + GUEST_LINK + ["-o", self.lib], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise RuntimeError("cross build: %s" % done.stderr[:3000])

    def run(self, arguments, timeout=60, **extra):
        """Exit status, stderr and the state files by size of their command line, in order of start."""
        self.work = tempfile.mkdtemp(prefix="memtrack-test-foreign-", dir="/dev/shm")
        ours = dict(LD_PRELOAD=self.lib, MEMTRACK_STATE_DIR=self.work, **extra)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_"))}
        if self.emulator:
            words = [w for k, v in ours.items() for w in ("-E", "%s=%s" % (k, v))]
            command = self.emulator + words + arguments
        else:
            command = arguments
            env.update(ours)
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)
            states = [mtk.State(p) for p in sorted(glob.glob(os.path.join(self.work, "*.mtk")))]
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
        return done, states

    def sizes(self, state):
        return collections.Counter(b.size for b in state.blocks())

    def expect_sizes(self, state, wanted):
        got = self.sizes(state)
        for size, count in wanted.items():
            self.expect("live blocks of %d bytes" % size, got.get(size, 0), count)


def pick(states, is_child):
    found = [s for s in states if bool(s.notes & mtk.NOTE_FORK_CHILD) == is_child]
    return found[0] if len(found) == 1 else None


def families(bench):
    """Every allocating function, threads, fork and a library, counted exactly."""
    program = bench.compile("families.c", "families")
    library = bench.compile("soak_lib.c", "libsoak.so", ["-shared", "-fPIC"])
    done, states = bench.run([program, library])
    bench.expect("exit status", done.returncode, 0)
    bench.expect("stderr", done.stderr, "")
    parent, child = pick(states, False), pick(states, True)
    if not parent or not child:
        bench.problems.append("%d state files" % len(states))
        return
    bench.expect_sizes(parent, {**FAMILIES, 1011: 3, 1010: 0})
    bench.expect_sizes(child, {1010: 5, 1001: 0})
    bench.expect("nested", parent.sum("nested_allocs") + parent.sum("nested_frees"), 0)
    bench.expect("failed", parent.sum("failed_allocs"), 1)
    bench.expect("unknown frees", parent.sum("unknown_frees"), 0)
    bench.expect("threads", len([t for t in parent.thread if t.totals[0].allocs]), 5)
    for thread in parent.thread[2:]:
        bench.expect("allocations of thread %d" % thread.tid, thread.totals[0].allocs, 101)
    bench.expect("mapped", sum(b.size for b in parent.blocks(mtk.MMAP)), 4 * 65536)
    innermost = [parent.frames(parent.site[parent.cell[b.cell].site].node)[0][0] for b in parent.blocks()
                 if b.size == 1011]
    bench.expect("modules of the library's blocks", [os.path.basename(parent.module[f[1]].path) for f in innermost],
                 ["libsoak.so"] * 3)
    names = [os.path.basename(m.path) for m in parent.module if m.flags & 1]
    bench.expect("programs among the modules", names, ["families"])
    bench.expect("vdso's name", [m.path for m in parent.module if m.flags & 4][:1] in ([], ["[vdso]"]), True)


def stacks(bench):
    """The frames of the program are in the stacks, with the right modules."""
    program = bench.compile("families.c", "families")
    _, states = bench.run([program])
    parent = pick(states, False)
    cells = [c for c in parent.cell if c.allocs == 7 and c.bytes == 7007]
    bench.expect("sites of seven blocks of 1001 bytes", len(cells), 1)
    frames, _ = parent.frames(parent.site[cells[0].site].node)
    own = [f for f in frames if parent.module[f[1]].flags & 1]
    bench.expect("frames of the program at least two (plain, main)", len(own) >= 2, True)


def report(bench):
    """A program that reports about itself."""
    program = bench.compile("families.c", "families")
    done, states = bench.run([program], MEMTRACK_MODE="leak_report", MEMTRACK_OPTIONS="leak-threshold=1")
    bench.expect("exit status", done.returncode, 0)
    bench.expect("state files left", len(states), 0)
    for line in ("count=7   total_bytes=7007", "count=4   total_bytes=4036", "count=5   total_bytes=5050",
                 "[LEAK-SUMMARY]", "[STATS] total_alloc_count="):
        bench.expect("'%s' in the report" % line, line in done.stderr, True)


def execs(bench):
    """glibc -> musl -> glibc by exec: all are tracked and the loader says nothing."""
    foreign = bench.compile("families.c", "families")
    native = os.path.join(bench.dir, "families-native")
    subprocess.run(["gcc", "-O1", "-fno-builtin", "-D_GNU_SOURCE", "-pthread", os.path.join(HERE, "families.c"), "-o", native],
                   check=True)
    done, states = bench.run([native, "exec", foreign, "exec", native, "exec", "/bin/true"])
    bench.expect("exit status", done.returncode, 0)
    bench.expect("stderr", done.stderr, "")
    bench.expect("programs with their block", [bench.sizes(s)[1012] for s in states[:3]], [1, 1, 1])
    bench.expect("programs", [os.path.basename(s.exe) for s in states][:3], ["families-native", "families", "families-native"])


def operators(bench):
    """operator new and delete, and an exception past the hooks."""
    program = bench.compile("operators.cc", "operators", compiler=bench.cxx)
    done, states = bench.run([program])
    bench.expect("exit status", done.returncode, 0)
    bench.expect("stderr", done.stderr, "")
    bench.expect("state files", len(states), 1)
    bench.expect_sizes(states[0], {1013: 4, 1014: 2, 1015: 1, 4: 0, 4000: 0})


TESTS = {"musl": (families, stacks, report, execs), "aarch64": (families, stacks, report, operators)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("machine", choices=sorted(TESTS))
    options = parser.parse_args()
    tap = Tap()
    for function in TESTS[options.machine]:
        name = "%s: %s" % (options.machine, function.__name__)
        try:
            bench = Bench(options)
            if options.machine == "aarch64" and function is TESTS["aarch64"][0]:
                bench.cross_build()
            elif options.machine == "aarch64":
                bench.lib = os.path.join(bench.dir, "libmemtrack.so")
            function(bench)
            tap.ok(name, bench.problems[:20])
        except Skip as skip:
            tap.skip(name, skip)
        except (RuntimeError, OSError, IndexError, subprocess.SubprocessError) as error:
            tap.ok(name, ["%s: %s" % (type(error).__name__, error)])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
