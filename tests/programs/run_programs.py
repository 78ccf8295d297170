# SPDX-License-Identifier: MIT
"""
Behaviour programs: each is run bare and with the tracker preloaded. Output, errors and exit status
must be equal, and the state files must hold what the program says it did (program.h: marks).

  run_programs.py --build DIR [--part N/M] [-k SUBSTRING]
"""
import argparse
import collections
import glob
import json
import os
import platform
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
import sites
from tap import Tap

TIMEOUT_S = 300
ALLOCATORS = {
    "jemalloc": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "tcmalloc": "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "mimalloc": "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0",
    "scudo": "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo_standalone-x86_64.so",
}
OLD_SCUDO = "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux/libclang_rt.scudo-x86_64.so"
TESTS = []


class Skip(Exception):
    """The machine lacks what a test needs."""


def test(function):
    TESTS.append((function.__name__, function, ()))
    return function


def test_each(*cases):
    """One test point for each case, which is the function's second argument."""
    def add(function):
        for case in cases:
            TESTS.append(("%s: %s" % (function.__name__, case), function, (case,)))
        return function
    return add


class Run:
    def __init__(self, done, states):
        self.stdout, self.stderr, self.status, self.states = done.stdout, done.stderr, done.returncode, states


class Bench:
    """What a test function gets: programs, bare and tracked runs, and the list of problems."""

    def __init__(self, options, name):
        self.options, self.problems, self.note = options, [], ""
        self.lib = os.path.join(options.build, "libmemtrack.so")
        self.lib = os.environ.get("MEMTRACK_LIB", self.lib)
        self.bin = os.path.join(options.build, "programs")
        slug = re.sub(r"\W+", "-", name)
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.work = tempfile.mkdtemp(prefix="memtrack-test-%s-" % slug, dir=parent)
        self.cwd = os.path.join(self.bin, "cwd-" + slug)
        os.makedirs(self.cwd, exist_ok=True)
        self.serial = 0

    def done(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def problem(self, text):
        self.problems.append(text)

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problem("%s: %s, expected %s" % (what, got, wanted))

    # ---- programs ----

    def build(self, source, output=None, flags=(), compiler=None):
        """Path of the compiled program; compiled when a source is newer."""
        name = output or os.path.splitext(os.path.basename(source))[0]
        path = os.path.join(self.bin, name)
        inputs = [os.path.join(HERE, source), os.path.join(HERE, "program.h"), os.path.abspath(__file__)]
        if os.path.exists(path) and os.path.getmtime(path) >= max(map(os.path.getmtime, inputs)):
            return path
        compiler = compiler or ("g++" if source.endswith(".cc") else "gcc")
        fresh = "%s.%d" % (path, os.getpid())
        common = ["-D_GNU_SOURCE", "-O1", "-g", "-fno-builtin", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]
        done = subprocess.run([compiler, inputs[0], "-o", fresh] + common + list(flags), capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise RuntimeError("%s: %s" % (source, done.stderr[:1000]))
        os.rename(fresh, path)
        return path

    def library(self, source, output, flags=()):
        """A shared library, also linked into the working directory."""
        path = self.build(os.path.join("lib", source), output, ["-shared", "-fPIC"] + list(flags))
        link = os.path.join(self.cwd, output)
        if not os.path.exists(link):
            os.symlink(path, link)
        return path

    # ---- runs ----

    def environment(self, tracked, preload_before=(), preload_after=(), **extra):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_", "MALLOC_"))}
        env["MT_TEST_WORD"] = "unchanged"
        libraries = list(preload_before) + ([self.lib] if tracked else []) + list(preload_after)
        if libraries:
            env["LD_PRELOAD"] = ":".join(libraries)
        if tracked:
            self.serial += 1
            directory = os.path.join(self.work, "state%d" % self.serial)
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, 0o700)
            env.update(MEMTRACK_MODE="full", MEMTRACK_DIR=directory, MEMTRACK_STATE_DIR=directory)
        env.update(extra)
        return {k: v for k, v in env.items() if v is not None}

    def run(self, command, tracked, limits=(), cwd=None, prefix=(), **how):
        env = self.environment(tracked, **how)

        def before():
            for what, value in limits:
                resource.setrlimit(what, (value, value))
        done = subprocess.run(list(prefix) + command, env=env, cwd=cwd or self.cwd, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=TIMEOUT_S, check=False,
                              preexec_fn=before if limits else None)
        paths = sorted(glob.glob(os.path.join(env.get("MEMTRACK_STATE_DIR", "/nonexistent"), "*.mtk")))
        return Run(done, [mtk.State(p) for p in paths])

    def both(self, command, marks=True, same_errors=True, books=True, **how):
        """Bare and tracked; compares what the host shows and what the marks say. The tracked Run."""
        bare, tracked = self.run(command, False, **how), self.run(command, True, **how)
        self.expect("exit status", tracked.status, bare.status)
        if tracked.stdout != bare.stdout:
            self.problem("stdout %r, bare %r" % (tracked.stdout[-300:], bare.stdout[-300:]))
        if same_errors and tracked.stderr != bare.stderr:
            self.problem("stderr %r, bare %r" % (tracked.stderr[:300], bare.stderr[:300]))
        if marks:
            self.compare_marks(tracked)
        for state in tracked.states if books else ():
            self.check_books(state)
        return tracked

    def compare_marks(self, run):
        """The program's `process` lines against the marks in the state files."""
        wanted = collections.Counter()
        for line in run.stdout.decode("utf-8", "replace").splitlines():
            if line.split(" ")[0] == "process":
                wanted[" ".join(sorted(line.split()[1:]))] += 1
        got = collections.Counter(marks_of(state) for state in run.states)
        if got != wanted:
            self.problem("state files hold %s, expected %s" % (dict(got - wanted), dict(wanted - got)))
            for state in run.states:
                self.problem("  pid %d %s: %s, lost %s" % (state.pid, state.cmdline[:60], marks_of(state),
                                                           {k: v for k, v in state.lost.items() if v}))

    def check_books(self, state, slack=0):
        """Counters, cells and blocks of one file must agree, unless it says what it lost."""
        if state.lost["live_full"] or state.lost["storage"] or state.lost["site_full"]:
            return
        t = state.totals()
        live = t.allocs - t.frees, t.bytes - t.freed_bytes
        blocks = state.blocks()
        held = len(blocks), sum(b.size for b in blocks)
        if abs(live[0] - held[0]) > slack:
            self.problem("%s: totals say %s live, the block table %s" % (os.path.basename(state.path), live, held))
        in_cells = sum(c.allocs for c in state.cell if state.site[c.site].heap == mtk.MALLOC)
        if abs(in_cells + state.sum("unplaced_allocs") - t.allocs) > slack:
            self.problem("%s: cells hold %d allocations, totals %d" % (os.path.basename(state.path), in_cells, t.allocs))
        places = collections.Counter(b.address for b in blocks)
        if places and max(places.values()) > 1:
            self.problem("%s: an address is live twice" % os.path.basename(state.path))


def marks_of(state):
    marks = collections.Counter(b.size for b in state.blocks() if b.size % 1000 == 777)
    return " ".join(sorted("%dx%d" % item for item in marks.items()))


def main_state(run):
    pids = {s.pid for s in run.states}
    return next(s for s in run.states if s.ppid not in pids)


# ---- processes ---------------------------------------------------------------------------------

@test_each("fork", "vfork", "spawn", "clone_raw", "clone_vm", "exec_chain", "atfork")
def processes(bench, name):
    bench.both([bench.build(name + ".c")])


@test_each("full", "stats", "sample interval=1", "sample interval=1M", "check")
def fork_handler_allocates(bench, mode):
    """A child that allocates before fork() returns in it has one state, with all that it did."""
    how = {"MEMTRACK_OPTIONS": "mode=" + mode} if mode != "check" else {"LIBC_DEBUG_MALLOC_OPTIONS": "guard"}
    has_marks = mode in ("full", "sample interval=1", "check")
    run = bench.both([bench.build("atfork_allocates.c")], marks=has_marks, books=mode == "full", **how)
    pids = {s.pid for s in run.states}
    bench.expect("state files", len(run.states), 2)
    for state in run.states:
        counts = state.counted() if mode.startswith("s") else state.totals()
        wanted = (150, 100) if state.ppid in pids else (1, 1)
        bench.expect("allocations, frees", counts[:2], wanted)
        bench.expect("unknown frees", state.sum("unknown_frees"), 0)


@test
def fork_under_load(bench):
    bench.both([bench.build("fork_threads.c", flags=["-pthread"])])


def _exec_targets(bench):
    leaf = bench.build("leaf.c")
    script = os.path.join(bench.cwd, "script.sh")
    with open(script, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\n%s one two\nexit $?\n" % leaf)
    os.chmod(script, 0o755)
    return leaf, script


@test_each("dynamic", "script", "missing", "no interpreter", "not executable", "env -i", "static", "static-pie",
           "32-bit static", "32-bit dynamic", "musl", "musl static", "set-uid", "not a program")
def exec_kinds(bench, kind):
    """Whatever is started: the same output, the same status, nothing on stderr."""
    leaf, script = _exec_targets(bench)
    marks = None
    if kind == "dynamic":
        command, marks = [leaf], ["60777x1"] + 3 * ["61777x1"]
    elif kind == "script":
        command, marks = [script], ["60777x1"] + 3 * ["61777x1"]
    elif kind == "env -i":
        command, marks = ["/usr/bin/env", "-i", leaf], ["60777x1"] + 3 * ["61777x1"]
    elif kind == "missing":
        command, marks = ["/nonexistent/program"], ["60777x1"]
    else:
        command = _odd_program(bench, kind, leaf)
    run = bench.both([bench.build("exec_of.c")] + command, marks=False)
    if marks:
        got = [m for m in sorted(marks_of(s) for s in run.states) if m]
        bench.expect("marks", got, marks)
    elif "60777x1" not in [marks_of(s) for s in run.states]:
        bench.problem("the starter's own state is missing")


def _odd_program(bench, kind, leaf):
    def compiled(name, compiler, flags):
        try:
            return [bench.build("leaf.c", name, flags, compiler)]
        except (RuntimeError, FileNotFoundError) as error:
            raise Skip("cannot build: %s" % str(error).splitlines()[0][:100]) from error
    if kind == "static":
        return compiled("leaf-static", "gcc", ["-static"])
    if kind == "static-pie":
        return compiled("leaf-static-pie", "gcc", ["-static-pie"])
    if kind == "musl":
        return compiled("leaf-musl", "musl-gcc", [])
    if kind == "musl static":
        return compiled("leaf-musl-static", "musl-gcc", ["-static"])
    if kind == "32-bit static":
        return [_build_32(bench, "leaf-32", ["-static"])]
    if kind == "32-bit dynamic":
        libc = "/lib32/libc.so.6"
        if not os.path.exists(libc):
            raise Skip("no 32-bit libc")
        return [_build_32(bench, "leaf-32-dynamic", ["-Wl,-dynamic-linker,/lib/ld-linux.so.2", libc])]
    path = os.path.join(bench.cwd, "odd-" + re.sub(r"\W+", "-", kind))
    shutil.copy(leaf, path)
    os.chmod(path, 0o755)
    if kind == "set-uid":
        if os.getuid():
            raise Skip("needs root")
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
    elif kind == "not executable":
        os.chmod(path, 0o644)
    elif kind == "no interpreter":
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/nonexistent/interpreter\n")
    else:
        with open(path, "wb") as f:
            f.write(b"\x7fELF" + bytes(100))
    return [path]


def _build_32(bench, name, flags):
    """A 32-bit program without libc's headers: start code of our own, write and exit."""
    source = os.path.join(bench.bin, name + ".c")
    with open(source, "w", encoding="ascii") as f:
        f.write('void _start(void)\n{\n__asm__ volatile("int $0x80" :: "a"(4), "b"(1), "c"("leaf\\n"), "d"(5));\n'
                '__asm__ volatile("int $0x80" :: "a"(1), "b"(13));\n__builtin_unreachable();\n}\n')
    path = os.path.join(bench.bin, name)
    done = subprocess.run(["gcc", "-m32", "-O1", "-nostdlib", "-fno-pie", "-no-pie", source, "-o", path] + flags,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise Skip("cannot build 32-bit programs")
    return path


@test
def file_capabilities(bench):
    """A program that gains rights by them loads no library: refused, in words, for whoever gains any."""
    if os.getuid():
        raise Skip("needs root")
    path = os.path.join(bench.cwd, "capable")
    shutil.copy(bench.build("leaf.c"), path)
    try:
        os.setxattr(path, "security.capability", struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0))
    except OSError as error:
        raise Skip("file capabilities cannot be set: %s" % error.strerror) from error
    if os.statvfs(path).f_flag & os.ST_NOSUID:
        raise Skip("the build directory is mounted nosuid")
    os.chmod(bench.work, 0o777)
    command = [os.path.join(bench.options.build, "memtrack"), "run", "-o", os.path.join(bench.work, "x.mtk"), "--", path]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, user=65534, group=65534, extra_groups=[])
    except PermissionError as error:
        raise Skip("the build directory is not for everybody") from error
    bench.expect("exit status", run.returncode, 1)
    bench.expect("lines on stderr", run.stderr.count("\n"), 1)
    if "has file capabilities" not in run.stderr:
        bench.problem("stderr %r" % run.stderr)


# ---- descriptors, limits, places -----------------------------------------------------------------

@test
def closes_every_descriptor(bench):
    bench.both([bench.build("close_all.c")])


@test_each("RLIMIT_AS 1 GiB", "RLIMIT_AS 192 MiB", "RLIMIT_AS 64 MiB", "RLIMIT_FSIZE 0", "RLIMIT_FSIZE 1 MiB",
           "RLIMIT_NOFILE 3", "RLIMIT_CORE and STACK", "RLIMIT_MEMLOCK 0")
def limits(bench, kind):
    values = {
        "RLIMIT_AS 1 GiB": [(resource.RLIMIT_AS, 1 << 30)],
        "RLIMIT_AS 192 MiB": [(resource.RLIMIT_AS, 192 << 20)],
        "RLIMIT_AS 64 MiB": [(resource.RLIMIT_AS, 64 << 20)],
        "RLIMIT_FSIZE 0": [(resource.RLIMIT_FSIZE, 0)],
        "RLIMIT_FSIZE 1 MiB": [(resource.RLIMIT_FSIZE, 1 << 20)],
        "RLIMIT_NOFILE 3": [(resource.RLIMIT_NOFILE, 3)],
        "RLIMIT_CORE and STACK": [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_STACK, 1 << 20)],
        "RLIMIT_MEMLOCK 0": [(resource.RLIMIT_MEMLOCK, 0)],
    }[kind]
    # RLIMIT_NOFILE must not stop the loader itself: it needs one descriptor
    if kind == "RLIMIT_NOFILE 3":
        command = ["/bin/sh", "-c", "exec 0<&-; ulimit -n 3; exec %s" % bench.build("churn.c")]
        run = bench.both(command, marks=False)
    else:
        run = bench.both([bench.build("churn.c")], marks=False, limits=values)
    full = "RLIMIT_CORE and STACK", "RLIMIT_MEMLOCK 0", "RLIMIT_AS 1 GiB", "RLIMIT_NOFILE 3"
    _nothing_hidden(bench, run, must_be_whole=kind in full)


def _nothing_hidden(bench, run, must_be_whole=False):
    """Either the mark is in a state file, or that file (if there is one) says what it lost."""
    for state in run.states:
        if "churn" not in state.exe or state.end_kind == mtk.END_EXEC:
            continue
        lost = sum(state.lost.values()) or state.notes & mtk.NOTE_STORAGE_ENDED
        if marks_of(state) != "1777x1" and not lost:
            bench.problem("mark missing and nothing is said to be lost")
    if must_be_whole and "1777x1" not in [marks_of(s) for s in run.states]:
        bench.problem("mark missing")


def _needs_address_space(bench, program):
    """The least RLIMIT_AS, in MiB, with which a bare run succeeds."""
    for mib in range(4, 64):
        if not bench.run([program], False, limits=[(resource.RLIMIT_AS, mib << 20)]).status:
            return mib
    raise RuntimeError("no address space is enough")


@test_each("RLIMIT_AS", "RLIMIT_FSIZE", "RLIMIT_NOFILE")
def limit_edges(bench, kind):
    """Limits around those at which the start or a growth of the tables fails: the program sees no difference,
    and what there is can be read."""
    program = bench.build("churn.c")
    if kind == "RLIMIT_AS": # the tracker takes up to 3/16 of it, and its library's size
        least = _needs_address_space(bench, program)
        values = [mib << 20 for mib in (6, 7, 8, 10, 14)]
        values += [(least + more << 20) + (least + more << 20) // 4 for more in (2, 4, 10)]
    elif kind == "RLIMIT_FSIZE":
        values = [0, 4096] + [kib << 10 for kib in (800, 832, 848, 896, 1536, 2560)]
    else:
        values = [4, 5]
    for value in values:
        run = bench.both([program], marks=False, limits=[(getattr(resource, kind), value)])
        _nothing_hidden(bench, run)
        for state in run.states:
            _is_readable(bench, state.path)
        if bench.problems:
            bench.problem("at %s %d" % (kind, value))
            return


def _is_readable(bench, path):
    memtrack = os.path.join(bench.options.build, "memtrack")
    done = subprocess.run([memtrack, "report", path, "--json"], capture_output=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        bench.problem("report of %s: exit %d, %r" % (path, done.returncode, done.stderr[:200]))
        return {}


@test_each("setuid", "chroot")
def rights_dropped(bench, how):
    """The parent's books go on; the child is followed or counted as lost."""
    if os.getuid():
        raise Skip("needs root")
    run = bench.both([bench.build("drop_rights.c"), how], marks=False)
    marks = [marks_of(s) for s in run.states]
    if "1777x1 2777x1" not in marks:
        bench.problem("state files hold %s" % marks)
    lost = sum(s.lost["child"] for s in run.states)
    followed = marks.count("3777x1") + _children_elsewhere(run.states)
    bench.expect("children followed or lost", followed + lost, 1)


def _children_elsewhere(parents):
    """State files of children in a directory that the new user had to make; removes them."""
    count = 0
    for directory in glob.glob("/dev/shm/memtrack-65534-*"):
        for path in glob.glob(directory + "/*.mtk"):
            state = mtk.State(path)
            if state.ppid in [p.pid for p in parents]:
                count += marks_of(state) == "3777x1"
                shutil.rmtree(directory)
    return count


@test
def inside_valgrind(bench):
    """Valgrind's own findings and exit status stay as they are; the program is its, not ours."""
    if not shutil.which("valgrind"):
        raise Skip("needs valgrind")
    command = ["valgrind", "-q", "--error-exitcode=9", bench.build("churn.c")]
    tracked = bench.both(command, marks=False)
    bench.expect("state files of the program inside", [s.cmdline for s in tracked.states if "churn" in s.exe], [])


@test
def memory_is_locked(bench):
    """Under a memory limit, so that a failure of this test costs the machine nothing."""
    if os.getuid():
        raise Skip("needs root")
    run = _in_memory_group(bench, bench.build("lock_memory.c"), 512 << 20)
    bench.expect("status", run.status, 0)
    bench.expect("stdout", run.stdout, b"locked 0\nprocess 1777x1 2777x1\n")
    bench.compare_marks(run)


@test_each("2 MiB", "200 KiB", "0 free")
def full_shm(bench, size):
    """A small tmpfs on /dev/shm in a mount namespace of its own."""
    _private_mounts(bench, "mount -t tmpfs -o size=%s tmpfs /dev/shm%s" % (
        {"2 MiB": "2m", "200 KiB": "200k", "0 free": "64k"}[size],
        " && (cat /dev/zero >/dev/shm/filler 2>/dev/null || :)" if size == "0 free" else ""))


@test_each("2 MiB", "4 MiB")
def shm_full_in_the_middle(bench, size):
    """The program itself fills the state files' place, and empties it again."""
    run = _private_mounts(bench, "mount -t tmpfs -o size=%sm tmpfs /dev/shm" % size.split()[0], source="fill_shm.c",
                          arguments=["/dev/shm"])
    state = run.states[0]
    bench.expect("mark from before", "1777x1" in marks_of(state).split(), True)
    bench.expect("storage ended", (state.lost["storage"] > 0, state.notes & mtk.NOTE_STORAGE_ENDED), (True, 1))
    bench.expect("lost blocks", state.lost["live_full"], state.sum("untracked_allocs"))
    bench.expect("allocations", state.totals().allocs, 2000 + 60 * 61 // 2 + 100000 + 5 + 1000 + 3)


@test
def missing_shm(bench):
    """Nothing can be made in /dev/shm: the state file is in /tmp, complete."""
    _private_mounts(bench, "mount -t tmpfs -o ro tmpfs /dev/shm", whole=True)


@test
def read_only_cwd(bench):
    _private_mounts(bench, "mount -t tmpfs -o ro tmpfs /mnt && cd /mnt && mount -t tmpfs tmpfs /dev/shm", whole=True)


@test
def strict_overcommit(bench):
    """Where reserved memory counts as used, little is reserved. The kernel's settings are given by other files."""
    _need_mounts()
    texts = {"overcommit": "2\n", "meminfo": "MemTotal: 9 kB\nCommitLimit:    1048576 kB\nCommitted_AS:   524288 kB\n"}
    for name, text in texts.items():
        with open(os.path.join(bench.work, name), "w", encoding="ascii") as f:
            f.write(text)
    start = 'exec env LD_PRELOAD="$TRACK" "$0"'
    strict = "mount --bind %s/overcommit /proc/sys/vm/overcommit_memory && mount --bind %s/meminfo /proc/meminfo && " % (
        bench.work, bench.work)

    def reserved_mib(script):
        command = ["unshare", "-m", "sh", "-c", script, bench.build("reserved.c")]
        run = bench.run(command, True, TRACK=bench.lib, LD_PRELOAD=None)
        bench.expect("exit status, stderr", (run.status, run.stderr), (0, b""))
        bench.compare_marks(run)
        return int(run.stdout.split()[1])
    bench.expect("8 GiB are reserved where it costs nothing", reserved_mib(start) > 8000, True)
    bench.expect("less than 64 MiB are reserved with 512 MiB to commit", reserved_mib(strict + start) < 64, True)


def _need_mounts():
    if os.getuid() or subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        raise Skip("needs root and mount namespaces")


def _private_mounts(bench, setup, whole=False, source="churn.c", arguments=()):
    """Runs a program after `setup` in mounts of its own; /tmp is empty there, too."""
    _need_mounts()
    if bench.bin.startswith("/tmp/"):
        raise Skip("the build directory would be hidden by the mount on /tmp")
    out = os.path.join(bench.cwd, "out")
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    # the state file is copied out before the mount is gone
    script = ("mount -t tmpfs tmpfs /tmp && %s; env LD_PRELOAD=\"$TRACK\" \"$0\" \"$@\"; status=$?; "
              "cp --sparse=always /dev/shm/memtrack-*/*.mtk /tmp/memtrack-*/*.mtk %s 2>/dev/null; "
              "exit $status" % (setup, out))
    command = ["unshare", "-m", "sh", "-c", script, bench.build(source)] + list(arguments)
    bare = bench.run(command, False, TRACK="")
    shutil.rmtree(out)
    os.makedirs(out)
    tracked = bench.run(command, True, MEMTRACK_STATE_DIR=None, MEMTRACK_DIR=None, TRACK=bench.lib, LD_PRELOAD=None)
    for what in "stdout", "stderr", "status":
        bench.expect(what, getattr(tracked, what), getattr(bare, what))
    tracked.states = [mtk.State(path) for path in glob.glob(out + "/*.mtk")]
    bench.expect("state files", len(tracked.states), 1)
    _nothing_hidden(bench, tracked, must_be_whole=whole)
    for state in tracked.states:
        _is_readable(bench, state.path)
    return tracked


# ---- threads, signals, stacks --------------------------------------------------------------------

@test
def small_stacks(bench):
    bench.both([bench.build("small_stacks.c", flags=["-pthread"])])


@test
def ten_thousand_threads(bench):
    run = bench.both([bench.build("many_threads.c", flags=["-pthread"])])
    if run.states:
        bench.expect("threads without a row", run.states[0].lost["thread_full"], 0)


@test
def thousand_idle_threads(bench):
    program = bench.build("idle_threads.c", flags=["-pthread"])

    def memory_kib(tracked):
        path = os.path.join(bench.work, "status")
        run = bench.run([program, path], tracked)
        bench.expect("exit status", run.status, 0)
        with open(path, encoding="ascii") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)), run
    bare, _ = memory_kib(False)
    tracked, run = memory_kib(True)
    # the program alone, without threads, has a fixed price that is not the threads'
    fixed_bare = _rss_of_one(bench, program, False)
    fixed = _rss_of_one(bench, program, True) - fixed_bare
    extra = tracked - bare - max(0, fixed)
    if extra > 16384:
        bench.problem("1000 idle threads cost %d KiB (tracked %d, bare %d, fixed %d)" % (extra, tracked, bare, fixed))
    bench.expect("state files", len(run.states), 1)
    if run.states:
        bench.expect("threads seen", run.states[0].threads_seen >= 1000, True)


def _rss_of_one(bench, program, tracked):
    """Peak RSS of a small program, KiB."""
    del program
    leaf = bench.build("leaf.c")
    script = ("import os,resource,subprocess,sys; subprocess.run([sys.argv[1]], stdout=subprocess.DEVNULL); "
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    env = bench.environment(tracked)
    track = env.pop("LD_PRELOAD", "")
    env["TRACK"] = track
    script = script.replace("[sys.argv[1]]", "['env', 'LD_PRELOAD=' + os.environ['TRACK'], sys.argv[1]]")
    return int(subprocess.run([sys.executable, "-c", script, leaf], env=env, capture_output=True, check=True).stdout)


@test
def timer_storm(bench):
    """What the handler allocates while it interrupts the tracker is not recorded, but counted."""
    run = bench.both([bench.build("timer_storm.c")], marks=False)
    bench.expect("state files", len(run.states), 1)
    for state in run.states:
        marks = sum(1 for b in state.blocks() if b.size == 1777)
        bench.expect("marks and missed allocations", marks + state.sum("nested_allocs"), 500)
        bench.expect("mappings left", state.totals(mtk.MMAP).allocs - state.totals(mtk.MMAP).frees, 0)


@test_each("prctl", "syscall", "libseccomp")
def sandbox(bench, how):
    """A filter that kills for mmap, madvise and futex, whoever installs it: the program lives, and what
    finds no room in the storage taken before is counted."""
    program = bench.build("sandbox.c", flags=["-ldl"])
    if bench.run([program, how, "1000"], False).status == 77:
        raise Skip("needs libseccomp.so.2")
    run = bench.both([program, how, "50000"])
    bench.expect("losses", {k: v for k, v in main_state(run).lost.items() if v}, {})
    if how != "syscall": # once is enough
        return
    run = bench.both([program, how, "400000"], marks=False)
    _nothing_hidden(bench, run)
    bench.expect("lost blocks", main_state(run).sum("untracked_allocs"), main_state(run).lost["live_full"])


STEPPED = "small", "large", "resized", "cleared", "aligned", "mapped", "fresh stack", "fresh thread"


def _every_step(bench, action, call):
    """State file of the program, what it counted, and the run."""
    if platform.machine() != "x86_64":
        raise Skip("needs the trap flag of x86-64")
    program, path = bench.build("every_step.c", flags=["-pthread"]), os.path.join(bench.work, "counts")
    stride = 3 if action == "fork" and not bench.options.long else 1 # a fork takes milliseconds
    run = bench.both([program, action, call, path, str(stride)], marks=False, books=action == "touch")
    with open(path, encoding="ascii") as f:
        counts = {k: int(v) for k, v in (line.split("=") for line in f)}
    if counts["acted"] < 200 / stride:
        bench.problem("only %d signals inside the tracker" % counts["acted"])
    return main_state(run), counts, run


@test_each(*STEPPED)
def handler_at_every_instruction(bench, call):
    """A handler that allocates, frees, resizes and maps at each instruction of the tracker: what is not in
    the totals is counted, one for one."""
    state, counts, _ = _every_step(bench, "touch", call)
    totals, nested = state.totals(), state.sum("nested_allocs")
    # a thread's creation allocates in libc
    extra = int(call == "fresh thread")
    bench.expect("allocations missed", counts["allocs"] + extra - totals.allocs, nested)
    bench.expect("live blocks", len(state.blocks()), totals.allocs - totals.frees)
    # a block is freed in the handler while its own thread has the lock of that block's table
    unseen = counts["frees"] - totals.frees - nested
    bench.expect("frees missed", 0 <= unseen <= state.lost["lock"], True)
    bench.expect("frees given up", state.sum("nested_frees"), 0)
    maps = state.totals(mtk.MMAP)
    bench.expect("mappings missed", 2 * (counts["maps"] - maps.allocs), state.lost["nested"])
    bench.expect("mappings left", maps.allocs - maps.frees, 0)
    bench.expect("other losses", {k: v for k, v in state.lost.items() if v and k not in ("nested", "lock", "unseen_free")}, {})
    if nested < 400 and call != "mapped":
        bench.problem("only %d nested allocations" % nested)


@test_each("small", "resized", "mapped", "fresh stack", "fresh thread")
def fork_at_every_instruction(bench, call):
    """The child goes on where the handler interrupted the tracker, and lives; it is followed or counted."""
    state, counts, run = _every_step(bench, "fork", call)
    bench.expect("children", state.children_seen, counts["acted"])
    extra = len(state.blocks())
    bench.expect("allocations missed", counts["allocs"] + extra - state.totals().allocs, 0)
    bench.expect("frees missed", counts["frees"] - state.totals().frees, 0)
    bench.expect("children followed or lost", len(run.states) - 1 + state.lost["child"], counts["acted"])


@test_each("small", "large", "resized", "aligned", "mapped", "fresh stack")
def jump_at_every_instruction(bench, call):
    """A handler that jumps out of the tracker: the program lives, tracking goes on, and what may be half
    recorded is counted."""
    state, counts, _ = _every_step(bench, "jump", call)
    jumps = state.lost["jump"]
    if not 0.5 * counts["acted"] <= jumps <= counts["acted"]:
        bench.problem("%d jumps out of the tracker, %d counted" % (counts["acted"], jumps))
    bench.expect("nested", state.sum("nested_allocs") <= jumps, True)
    for what in "allocs", "frees":
        off = abs(counts[what] - getattr(state.totals(), what))
        if off > 3 * counts["acted"]:
            bench.problem("%s: %d off after %d jumps" % (what, off, counts["acted"]))


@test_each("alternate_stack", "coroutines", "tsd", "cancel", "environment", "seccomp")
def stacks_and_signals(bench, name):
    bench.both([bench.build(name + ".c", flags=["-pthread"])])


# seconds, forks, bytes of each thread's stack (0: the least there may be), signals
STORM = {"all families": (2, 30, 1 << 20, 0), "32 KiB stacks": (1, 10, 32768, 0), "signals": (1, 10, 1 << 20, 1),
         "signals, 32 KiB stacks": (1, 10, 32768, 1), "signals, least stacks": (1, 10, 0, 1)}


@test_each(*STORM)
def storm(bench, kind):
    """Threads, all families, forks, signals in the tracker: totals are the program's own, to the last byte."""
    seconds, forks, stack, signals = STORM[kind]
    if bench.options.long:
        seconds, forks = 60, 1000
    include = "-I" + os.path.join(HERE, "..", "..", "include")
    program = bench.build("storm.cc", flags=["-pthread", include])
    path = os.path.join(bench.work, "counts")
    bare = bench.run([program, "0", "2", str(stack), str(signals), path], False)
    run = bench.run([program, str(seconds), str(forks), str(stack), str(signals), path], True)
    for what in "status", "stdout", "stderr":
        bench.expect(what, getattr(run, what), getattr(bare, what))
    with open(path, encoding="ascii") as f:
        counts = {k: int(v) for k, v in (line.split("=") for line in f)}
    state = main_state(run)
    _storm_totals(bench, state, counts)
    _storm_children(bench, state, [s for s in run.states if s is not state], counts)
    if signals and counts["inside"] < 100 * seconds:
        bench.problem("only %d signals inside the tracker" % counts["inside"])
    bench.note = "%(allocs)d allocations, %(forks)d forks, %(inside)d signals in the tracker, %(outside)d elsewhere" % counts


def _own_sites(state):
    """Numbers of the program's sites of the malloc heap; the loader's for its threads are not among them."""
    own = set()
    for number, site in enumerate(state.site):
        frames, _ = state.frames(site.node)
        modules = [state.module[f[1]] for f in frames]
        if site.heap == mtk.MALLOC and any(m.flags & 1 for m in modules) and not modules[0].flags & 16:
            own.add(number)
    return own


def _storm_totals(bench, state, counts):
    own = _own_sites(state)
    cells = [c for c in state.cell if c.site in own]
    got = {k: sum(getattr(c, k) for c in cells) for k in ("allocs", "bytes", "frees", "freed_bytes")}
    nested, given_up, locks = state.sum("nested_allocs"), state.sum("nested_frees"), state.lost["lock"]

    def within(what, value, least, most):
        if not least <= value <= most:
            bench.problem("%s: %d, expected %d to %d" % (what, value, least, most))
    # A lock is not free: its owner has no processor for 50 ms, or is the thread that the handler interrupted.
    # What is lost then is counted, one event a lock.
    within("locks that were not free", locks, 0, 100 + counts["inside"] // 20)
    within("allocations missed", counts["allocs"] - got["allocs"] - nested, 0, locks)
    # more handlers than one call of the tracker can keep: while it waits for a lock
    within("frees given up", given_up, 0, 5 + counts["inside"] // 1000)
    live = [b for b in state.blocks() if b.cell and state.cell[b.cell].site in own]
    least = got["allocs"] - got["frees"] - given_up
    within("live blocks", len(live), least - locks, least + locks)
    if not locks and not given_up:
        bench.expect("live bytes", sum(b.size for b in live), got["bytes"] - got["freed_bytes"])
    if not locks and not counts["inside"]:
        bench.expect("bytes, frees, freed bytes", [got[k] for k in ("bytes", "frees", "freed_bytes")],
                     [counts[k] for k in ("bytes", "frees", "freed_bytes")])
    maps, pool = state.totals(mtk.MMAP), state.totals(mtk.CUSTOM)
    missed = sum(counts[a] - got for a, got in (("maps", maps.allocs), ("unmaps", maps.frees),
                                                ("pool_allocs", pool.allocs), ("pool_frees", pool.frees)))
    within("mapping and pool calls missed", missed - state.lost["nested"], -2 * locks, 2 * locks)
    for what, value in state.lost.items():
        if what not in ("nested", "child", "lock"):
            within("lost: " + what, value, 0, locks)
    within("unplaced and untracked", state.sum("unplaced_allocs") + state.sum("untracked_allocs"), 0, locks)


def _storm_children(bench, state, children, counts):
    """Each child made the same calls; one that a handler forked may have begun in the middle of one."""
    bench.expect("children", state.children_seen, counts["forks"])
    bench.expect("children followed or lost", len(children) + state.lost["child"], counts["forks"])
    for child in children:
        totals, blocks = child.totals(), child.blocks()
        exact = (totals.allocs, totals.frees) == (80, 60) and sum(b.size for b in blocks) == totals.bytes - totals.freed_bytes
        if not exact and not counts["inside"] or not 80 <= totals.allocs <= 82:
            bench.problem("child %d: %s, %d blocks" % (child.pid, totals, len(blocks)))
        bench.expect("losses of child %d" % child.pid, {k: v for k, v in child.lost.items() if v}, {})


@test
def jump_storm(bench):
    """A handler that jumps out of the tracker: the program is unharmed, tracking goes on, and what may be
    half recorded is counted."""
    run = bench.both([bench.build("jump_storm.c")], marks=False, books=False)
    bench.expect("marks", [marks_of(state) for state in run.states], ["1777x100"])
    bench.expect("jumps are counted", main_state(run).lost["jump"] > 0, True)


@test
def exceptions(bench):
    bench.both([bench.build("exceptions.cc")])


@test
def thread_names(bench):
    run = bench.both([bench.build("thread_names.c", flags=["-pthread"])])
    names = {t.name for s in run.states for t in s.thread}
    if "named-early" not in names:
        bench.problem("threads are called %s" % sorted(names))


@test
def peak_is_exact(bench):
    """One thread: the peak, and what each site held at that moment, are the program's own numbers."""
    run = bench.both([bench.build("peak.c")], marks=False)
    bench.expect("state files", len(run.states), 1)
    if not run.states:
        return
    state, words = run.states[0], run.stdout.split()
    bench.expect("peak", state.peak_bytes, int(words[1]))
    live = state.totals()
    bench.expect("live", live.bytes - live.freed_bytes, int(words[3]))
    cells = [c for c in state.cell if state.site[c.site].heap == mtk.MALLOC]
    bench.expect("at peak, all", sum(state.at_peak(c) for c in cells), state.peak_bytes)
    held = collections.Counter()
    for cell in cells:
        call = mtk.CALLS[state.site[cell.site].call]
        held[call] += state.at_peak(cell)
        bench.expect("a cell's peak is at least what it held at the process's", cell.peak_bytes >= state.at_peak(cell), True)
        bench.expect("lifetimes are those of the frees", sum(cell.lifetimes), cell.frees)
    bench.expect("at peak", [held[k] for k in ("malloc", "calloc", "aligned", "realloc")], [int(w) for w in words[6:10]])


@test
def peak_of_threads_is_within_its_bound(bench):
    run = bench.both([bench.build("peak_threads.c", flags=["-pthread"])])
    for state in run.states:
        bound = state.peak_bound_bytes * state.threads_seen
        if not 4000000 - bound <= state.peak_bytes <= 4000000 + bound + 4096: # 4096: what pthread allocates
            bench.problem("peak %d of 4000000, bound %d" % (state.peak_bytes, bound))


@test
def report_of_a_running_process(bench):
    """The command reads a process that allocates as fast as it can: every time a sound report that grows."""
    memtrack = os.path.join(bench.options.build, "memtrack")
    program = bench.build("killable.c", flags=["-pthread"])
    env = bench.environment(True)
    process = subprocess.Popen([program, os.path.join(bench.work, "counts")], env=env, cwd=bench.cwd)
    try:
        paths, deadline = [], time.monotonic() + 10
        while not paths and time.monotonic() < deadline:
            paths = glob.glob(os.path.join(env["MEMTRACK_STATE_DIR"], "*.mtk"))
        before = 0
        for i in range(15):
            subject = str(process.pid) if i % 2 else paths[0]
            done = subprocess.run([memtrack, "report", subject, "--show=live", "--json"], env=env, capture_output=True,
                                  check=False)
            if done.returncode:
                bench.problem("report %d: exit %d, %s" % (i, done.returncode, done.stderr[:300]))
                break
            report = json.loads(done.stdout)
            bench.expect("report %d grows" % i, report["total_alloc"] >= before, True)
            before = report["total_alloc"]
            if report["live_count"] > 3 * 50 + 50:
                bench.problem("report %d: %d blocks live, the program holds 150 at most" % (i, report["live_count"]))
    finally:
        process.kill()
        process.wait()


# ---- loading -------------------------------------------------------------------------------------

@test
def libraries_that_reuse_addresses(bench):
    bench.library("twin.c", "libtwin_a.so", ["-DNAME=twin_alpha"])
    bench.library("twin.c", "libtwin_b.so", ["-DNAME=twin_gamma"])
    run = bench.both([bench.build("dl_loops.c")])
    for size, function, library in ((1777, "twin_alpha", "libtwin_a.so"), (2777, "twin_gamma", "libtwin_b.so")):
        _expect_frame(bench, run, size, function, library)


@test
def libraries_come_and_go_under_load(bench):
    bench.library("twin.c", "libtwin_a.so", ["-DNAME=twin_alpha"])
    bench.library("twin.c", "libtwin_b.so", ["-DNAME=twin_gamma"])
    run = bench.both([bench.build("dl_threads.c", flags=["-pthread"])])
    _expect_frame(bench, run, 1777, "twin_alpha", "libtwin_a.so")
    _expect_frame(bench, run, 2777, "twin_gamma", "libtwin_b.so")


@test
def own_allocator_in_the_program(bench):
    run = bench.both([bench.build("own_malloc.c")], marks=False)
    for state in run.states:
        bench.expect("note", state.notes & mtk.NOTE_PROVIDER_IN_PROGRAM, mtk.NOTE_PROVIDER_IN_PROGRAM)
        bench.expect("blocks", len(state.blocks()), 0)


def _expect_frame(bench, run, size, function, library):
    """All live blocks of this size: their innermost frame is this function of this library."""
    if not run.states:
        return
    state = main_state(run)
    found, _ = sites.from_state(state.path)
    mine = [s for s in found if s.count and s.bytes == s.count * size]
    wrong = [s for s in mine if s.frames[0].function != function or
             os.path.basename(os.path.realpath(s.frames[0].module)) != library]
    for site in wrong[:2]:
        bench.problem("blocks of %d bytes: %s, expected %s of %s" % (size, site, function, library))


@test
def deepbind(bench):
    bench.library("binder.c", "libbinder.so")
    bench.both([bench.build("deepbind.c")])


@test_each("before", "after")
def wrapper_preloaded(bench, where):
    wrapper = bench.library("wrapper.c", "libwrapper.so")
    bench.both([bench.build("wrapped.c")], **{"preload_" + where: [wrapper]})


@test_each("glibc", "musl")
def early_and_late(bench, libc):
    """From .preinit_array (musl has none) to exit handlers."""
    if libc == "glibc":
        run = bench.both([bench.build("early.c")])
    else:
        if not shutil.which("musl-gcc"):
            raise Skip("needs musl-gcc")
        run = bench.both([bench.build("early.c", "early-musl", ["-DNO_PREINIT", "-Wl,--eh-frame-hdr"], "musl-gcc")])
    bench.expect("unknown frees", [s.sum("unknown_frees") for s in run.states], [0])


@test_each("static", "tls", "address", "throw_and_load", "alone")
def surroundings(bench, name):
    if name == "static":
        command = [bench.build("statics.cc")]
    elif name == "address":
        command = [bench.build("address.c", flags=["-fno-pic", "-no-pie", "-Wl,-z,lazy"])]
    elif name == "throw_and_load":
        bench.library("twin.c", "libtwin_a.so", ["-DNAME=twin_alpha"])
        command = [bench.build("throw_and_load.cc", flags=["-pthread"])]
    else:
        bench.library("tls.c", "libtls.so")
        command = [bench.build(name + ".c", flags=["-pthread"])]
    run = bench.both(command)
    bench.expect("unknown frees", [s.sum("unknown_frees") for s in run.states], [0])


@test_each("O0", "O2")
def vfork_optimized(bench, level):
    bench.both([bench.build("vfork.c", "vfork-" + level, ["-" + level])])


@test_each("glibc", "musl")
def loaded_late(bench, libc):
    """dlopen of the library in a program with threads. musl refuses its thread-local storage, and says so."""
    if libc == "musl" and not shutil.which("musl-gcc"):
        raise Skip("needs musl-gcc")
    program = bench.build("late.c", "late-" + libc, ["-pthread"], "musl-gcc" if libc == "musl" else None)
    environment = {"MEMTRACK_STATE_DIR": bench.work, "MEMTRACK_MODE": "full"}
    bare = bench.run([program], False)
    run = bench.run([program, bench.lib], False, **environment)
    loaded = b"yes" if libc == "glibc" else b"no"
    bench.expect("stdout", run.stdout, bare.stdout.replace(b"loaded yes", b"loaded " + loaded))
    bench.expect("stderr", run.stderr, b"")
    bench.expect("exit status", run.status, 0)


@test
def preloaded_twice(bench):
    """Two copies of the library: each has its books, the program does not mind."""
    twin = os.path.join(bench.work, "libtwin.so")
    shutil.copy(bench.lib, twin)
    bench.both([bench.build("fork.c")], marks=False, preload_after=[twin])


@test
def preloaded_by_a_relative_path(bench):
    """The path is that of the start: a program that changes its directory still hands it on."""
    link = os.path.join(bench.cwd, "relative.so")
    if not os.path.islink(link):
        os.symlink(bench.lib, link)
    command = ["sh", "-c", "cd / && \"$0\"; cd /tmp && env -i \"$0\"", bench.build("leaf.c")]
    bare = bench.run(command, False)
    run = bench.run(command, True, LD_PRELOAD="./relative.so")
    for what in "stdout", "stderr", "status":
        bench.expect(what, getattr(run, what), getattr(bare, what))
    bench.expect("leaves followed", [marks_of(s) for s in run.states if s.exe.endswith("/leaf")], ["61777x1"] * 2)


@test_each("glibc", *ALLOCATORS)
def operators(bench, allocator):
    """Each of the 22 forms of operator new and delete."""
    command = [bench.build("operators.cc")] + (["no-oom"] if allocator in ("scudo", "mimalloc") else [])
    run = bench.both(command, marks=False, preload_after=_allocator(allocator))
    kept = [sorted(b.size // 1000 for b in s.blocks() if 2777 <= b.size < 9900) for s in run.states]
    bench.expect("kept blocks by their thousands", kept, [[2, 3, 4, 5, 6, 7, 8, 9]])
    bench.expect("unknown frees", [s.sum("unknown_frees") for s in run.states], [0])


@test
def errno_is_preserved(bench):
    run = bench.both([bench.build("errno.c", flags=["-Wno-alloc-size-larger-than"])])
    if run.states:
        bench.expect("failed allocations", main_state(run).sum("failed_allocs"), 5)


# ---- endings -------------------------------------------------------------------------------------

@test_each("return", "exit-in-thread", "main-exits", "_exit", "quick_exit", "abort", "segv", "kill", "term")
def endings(bench, how):
    program = bench.build("endings.c", flags=["-pthread"])
    command = [program, how]
    bare = bench.run(command, False, limits=[(resource.RLIMIT_CORE, 0)])
    run = bench.run(command, True, limits=[(resource.RLIMIT_CORE, 0)])
    for what in "stdout", "stderr", "status":
        bench.expect(what, getattr(run, what), getattr(bare, what))
    bench.compare_marks(run)
    for state in run.states:
        bench.check_books(state, slack=1)


@test_each("return", "exit-in-thread", "_exit", "abort", "segv", "kill", "term")
def endings_under_the_command(bench, how):
    """`memtrack run` ends as its program ended, and says how in the file it leaves."""
    memtrack = os.path.join(bench.options.build, "memtrack")
    command = [bench.build("endings.c", flags=["-pthread"]), how]
    no_core = [(resource.RLIMIT_CORE, 0)]
    bare = bench.run(command, False, limits=no_core)
    pattern = os.path.join(bench.work, "%e.%p.mtk")
    run = bench.run([memtrack, "run", "--report=none", "-o", pattern, "--"] + command, False, limits=no_core)
    for what in "stdout", "stderr", "status":
        bench.expect(what, getattr(run, what), getattr(bare, what))
    run.states = [mtk.State(path) for path in glob.glob(os.path.join(bench.work, "*.mtk"))]
    bench.compare_marks(run)
    for state in run.states:
        ended = (mtk.END_SIGNALED, -bare.status) if bare.status < 0 else (mtk.END_EXITED, bare.status)
        bench.expect("end in the state file", (state.end_kind, state.end_code), ended)


# mode: what the options say
QUIET = {"full": "mode=full", "sample": "mode=sample interval=1", "record": "mode=record"}
# name: mode, whether under `memtrack run`
QUIET_RUNS = {"%s, %s" % (mode, "run" if launched else "preload"): (mode, launched)
              for mode in QUIET for launched in (True, False)}
LATE_S = 0.15


def _start_quiet(bench, name):
    mode, launched = QUIET_RUNS[name]
    env, command = bench.environment(True), [bench.build("quiet.c")]
    directory = env["MEMTRACK_DIR"]
    if launched:
        env = dict(bench.environment(False), MEMTRACK_LIB=bench.lib, MEMTRACK_STATE_DIR=directory)
        command = [os.path.join(bench.options.build, "memtrack"), "run", "-q", "-o", os.path.join(directory, "q.mtk"),
                   *("--" + word for word in QUIET[mode].split()), "--", *command]
    else:
        env.update(MEMTRACK_OPTIONS=QUIET[mode])
    return directory, subprocess.Popen(command, env=env, cwd=bench.cwd, stdin=subprocess.DEVNULL, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _memtrack_text(bench, *words):
    return subprocess.run([os.path.join(bench.options.build, "memtrack"), *words], capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=True, env=bench.environment(False)).stdout


def _late_by(bench, directory, said):
    """By how many seconds the times of a quiet program are wrong at most."""
    at = {int(w[1]): int(w[2]) for w in said if w[0] == "at"}
    end, lived = (next(int(w[1]) for w in said if w[0] == word) for word in ("end", "lived"))
    path = min(glob.glob(os.path.join(directory, "*.mt[kr]"))) # the state file
    rows = json.loads(_memtrack_text(bench, "report", "--json", "--show=live", "--by=size", path))["rows"]
    # their sizes are in classes of their own
    ages = {int(row["size"].split(".")[0]): row["oldest_age_ns"] for row in rows}
    wrong = [abs(end - when - ages[1 << size.bit_length() - 1]) for size, when in at.items()]
    for row in json.loads(_memtrack_text(bench, "report", "--json", "--show=lifetimes", path))["lifetimes"]:
        if row["frees"] and row["from_ns"] > 500000000:
            wrong.append(max(0, row["from_ns"] - lived))
    if len(wrong) != len(at) + 1: # no block lived for seconds, it says
        wrong.append(lived)
    if glob.glob(os.path.join(directory, "*.mtr")):
        text = _memtrack_text(bench, "export", "--format=record_allocs", path)
        times = {int(words[3]): int(words[-1]) for words in map(str.split, text.splitlines()) if words[1] == "malloc"}
        first = min(at)
        wrong += [abs(times[size] - times[first] - (at[size] - at[first])) for size in at]
    return max(wrong) / 1e9


@test
def times_of_a_quiet_program(bench):
    """The first event after a pause has the right time, though the clock is not read at each event."""
    names = list(QUIET_RUNS)
    for attempt in range(4): # a host or launcher may have had to wait for a processor
        started = [(name, *_start_quiet(bench, name)) for name in names]
        late = {}
        for name, directory, process in started:
            said = [line.split() for line in process.communicate(timeout=TIMEOUT_S)[0].splitlines()]
            if process.returncode:
                raise RuntimeError("%s: exit status %d" % (name, process.returncode))
            late[name] = _late_by(bench, directory, said)
        names = [name for name in names if late[name] > LATE_S]
        if not names:
            return
    bench.problem("times are wrong by %s" % {name: "%.3f s" % late[name] for name in names})


@test
def kill_at_random(bench):
    """After kill -9 the books agree with the program's own to within the one event in flight a thread."""
    program = bench.build("killable.c", flags=["-pthread"])
    seed = int(os.environ.get("MT_TEST_SEED", "0")) or random.randrange(1 << 30)
    generator = random.Random(seed)
    rounds = 20
    for i in range(rounds):
        counts_path = os.path.join(bench.work, "counts")
        if os.path.exists(counts_path):
            os.unlink(counts_path)
        env = bench.environment(True)
        process = subprocess.Popen([program, counts_path], env=env, cwd=bench.cwd)
        time.sleep(generator.uniform(0.01, 0.25))
        process.send_signal(signal.SIGKILL)
        process.wait()
        problem = _compare_killed(bench, env["MEMTRACK_STATE_DIR"], counts_path)
        if problem:
            bench.problem("round %d of seed %d: %s" % (i, seed, problem))


def _compare_killed(bench, directory, counts_path):
    paths = glob.glob(os.path.join(directory, "*.mtk"))
    if not os.path.exists(counts_path) or os.path.getsize(counts_path) < 4096:
        return None # killed before main
    if len(paths) != 1:
        return "state files: %s" % paths
    state = mtk.State(paths[0])
    with open(counts_path, "rb") as f:
        words = struct.unpack("<24Q", f.read(192))
    begun, ended = sum(words[0::8]), sum(words[1::8])
    frees_begun, frees_ended = sum(words[2::8]), sum(words[3::8])
    marks = sum(1 for b in state.blocks() if b.size == 1777)
    if not ended - frees_begun <= marks <= begun - frees_ended + 3:
        return "%d marks live, expected %d to %d" % (marks, ended - frees_begun, begun - frees_ended)
    cells = [c for c in state.cell if c.allocs > 2 and abs(c.bytes - c.allocs * 1777) <= 1777]
    allocs, frees = sum(c.allocs for c in cells), sum(c.frees for c in cells)
    if not ended - 3 <= allocs <= begun + 3:
        return "%d allocations recorded, the program made %d to %d" % (allocs, ended, begun)
    if not frees_ended - 3 <= frees <= frees_begun + 3:
        return "%d frees recorded, the program made %d to %d" % (frees, frees_ended, frees_begun)
    bench.check_books(state, slack=6)
    memtrack = os.path.join(bench.options.build, "memtrack")
    if os.path.exists(memtrack):
        done = subprocess.run([memtrack, "report", paths[0], "--json"], capture_output=True, check=False)
        if done.returncode or done.stderr:
            return "report: exit %d, %s" % (done.returncode, done.stderr[:200])
    return None


@test
def oom_kill_in_cgroup(bench):
    """The kernel kills the program in its memory group; what it had allocated is in the state file."""
    run = _in_memory_group(bench, bench.build("hungry.c"), 64 << 20)
    if run.status != -signal.SIGKILL:
        raise Skip("the kernel did not kill it (status %d)" % run.status)
    bench.expect("stdout", run.stdout, b"hungry\n")
    blocks = sum(1 for s in run.states for b in s.blocks() if b.size == 100777)
    if not 200 <= blocks <= 700:
        bench.problem("%d blocks of about 640 recorded" % blocks)


def _in_memory_group(bench, program, limit_bytes):
    """A tracked run in a memory cgroup of its own."""
    group = "/sys/fs/cgroup/memory/memtrack-test-%d" % os.getpid()
    try:
        os.mkdir(group)
    except OSError as error:
        raise Skip("no writable memory cgroup (v1): %s" % error.strerror) from error
    try:
        with open(group + "/memory.limit_in_bytes", "w", encoding="ascii") as f:
            f.write(str(limit_bytes))
        command = ["sh", "-c", "echo $$ > %s/cgroup.procs && exec env LD_PRELOAD=\"$TRACK\" %s" % (group, program)]
        return bench.run(command, True, LD_PRELOAD=None, TRACK=bench.lib)
    finally:
        deadline = time.monotonic() + 5
        while os.path.isdir(group) and time.monotonic() < deadline:
            try:
                os.rmdir(group)
            except OSError:
                time.sleep(0.05)


# ---- allocators ----------------------------------------------------------------------------------

@test_each("glibc", *ALLOCATORS)
def usable_size(bench, allocator):
    bench.both([bench.build("usable.c")], preload_after=_allocator(allocator))


@test_each("glibc", *ALLOCATORS)
def resized_blocks(bench, allocator):
    """An allocator whose realloc, or operator delete, frees by the name that is hooked: each block goes once."""
    include = "-I" + os.path.join(HERE, "..", "..", "include")
    program, operators_program = bench.build("resize.c", flags=[include]), bench.build("operators.cc")
    frees = {}
    for words in "mode=full", "mode=stats", "mode=sample interval=1", "mode=sample interval=4K":
        how = {"MEMTRACK_OPTIONS": words, "preload_after": _allocator(allocator)}
        run = bench.run([program], True, **how)
        said = [line.split() for line in run.stdout.decode().splitlines()]
        bench.expect(words + ", exit status, what was counted", (run.status, [line[0] for line in said]),
                     (0, ["realloc:", "reallocarray:"]))
        for line in said: # realloc to size 0 may give a block
            bench.expect("%s, %s" % (words, line[0]), (int(line[2]) - 1001 in (0, line[0] != "realloc:"), line[3:]),
                         (True, ["frees", line[2], "live", "0", "in", "0"]))
        runs = [run, bench.run([operators_program, "no-oom"], True, **how)]
        counts = [(s.totals() if words == "mode=full" else s.counted()).frees for r in runs for s in r.states]
        bench.expect(words + ", frees", counts, frees.setdefault("full", counts))


@test_each("glibc", *ALLOCATORS)
def sizes_of_first_blocks(bench, allocator):
    """Blocks that come before the allocator's constructor, when it may not know sizes yet, count with theirs."""
    library = bench.library("first.c", "libfirst.so")
    program = bench.build("first_blocks.c", flags=["-Wl,--no-as-needed", library])
    for words in "mode=stats", "mode=sample interval=1", "mode=sample interval=4K":
        got = []
        for blocks in 0, 400:
            run = bench.run([program], True, MEMTRACK_OPTIONS=words, FIRST_BLOCKS=str(blocks),
                            preload_after=_allocator(allocator))
            bench.expect("%s, exit status" % words, run.status, 0)
            state, all_sizes = run.states[0], run.states[0].counted()
            bench.expect("%s, missed" % words, (state.lost["before_start"], state.sum("unknown_frees")), (0, 0))
            got.append((all_sizes.allocs, all_sizes.frees, all_sizes.bytes - all_sizes.freed_bytes))
        count, live = map(int, run.stdout.split())
        bench.expect("%s, allocations, frees, live bytes" % words, tuple(b - a for a, b in zip(*got)),
                     (400, 400 - count, live))


@test_each("full", "sample interval=1", "sample interval=1 guard-sampled=64")
def frees_by_realloc(bench, mode):
    """realloc to size 0 frees: it resizes nothing."""
    program = bench.build("resize.c", flags=["-I" + os.path.join(HERE, "..", "..", "include")])
    run = bench.run([program], True, MEMTRACK_OPTIONS="mode=" + mode)
    bench.expect("resized blocks", [state.sum("reallocs") for state in run.states], [2000])


@test_each("mi mimalloc", "tc tcmalloc")
def prefixed_names(bench, case):
    """An allocator's own names, by a program that is linked with it."""
    prefix, name = case.split()
    library = _allocator(name)[0]
    bench.both([bench.build("prefixed_%s.c" % prefix, flags=["-Wl,--no-as-needed", library])])


def _allocator(name):
    if name == "glibc":
        return []
    path = ALLOCATORS[name]
    if name == "scudo" and not os.path.exists(path):
        path = OLD_SCUDO
    if not os.path.exists(path):
        raise Skip(path + " is not installed")
    return [path]


@test_each("glibc", *ALLOCATORS)
def random_against_own_map(bench, allocator):
    """The program's map of live blocks and ours are equal: every address, every size."""
    program = bench.build("random_map.c", flags=["-pthread"])
    path = os.path.join(bench.work, "map")
    run = bench.run([program, path], True, preload_after=_allocator(allocator))
    bench.expect("exit status", run.status, 0)
    bench.expect("stderr", run.stderr, b"")
    bench.expect("state files", len(run.states), 1)
    with open(path, encoding="ascii") as f:
        wanted = {(int(a, 16), int(s)) for a, s in (line.split() for line in f)}
    for state in run.states:
        bench.check_books(state)
        got = {(b.address, b.size) for b in state.blocks() if _module_of(state, b) == program}
        bench.expect("live blocks", len(got), len(wanted))
        if got != wanted:
            bench.problem("recorded only: %s; in the program only: %s" % (
                ["%x+%d" % b for b in sorted(got - wanted)[:5]], ["%x+%d" % b for b in sorted(wanted - got)[:5]]))


def _module_of(state, block):
    """Path of the module that made the call."""
    frames, _ = state.frames(state.site[state.cell[block.cell].site].node)
    return os.path.realpath(state.module[frames[0][1]].path) if frames else ""


# ---- without the command -------------------------------------------------------------------------

@test
def leak_report_mode(bench):
    program = bench.build("wrapped.c")
    run = bench.run([program], True, MEMTRACK_MODE="leak_report", MEMTRACK_STATE_DIR=None)
    text = run.stderr.decode("utf-8", "replace")
    bench.expect("exit status", run.status, 0)
    bench.expect("stdout", run.stdout, b"process 1777x20\n")
    if "35540" not in text: # 20 blocks of 1777 bytes
        bench.problem("no site of 35540 bytes in %r" % text[:600])
    for word in "[LEAK]", "[LEAK-SUMMARY]", "wrapped":
        if word not in text:
            bench.problem("'%s' is missing in %r" % (word, text[:600]))


def _stats_of(text):
    return dict(re.findall(r"^\[STATS\] (\w+)=(\d+)$", text, re.M))


@test_each("mode=sample interval=1", "mode=sample interval=4K", "mode=stats")
def leak_report_of_light_modes(bench, words):
    """The totals are those of a full run, and it is said what the leaks rest on."""
    program = bench.build("wrapped.c")
    texts = [bench.run([program], True, MEMTRACK_MODE="leak_report", MEMTRACK_OPTIONS=options,
                       MEMTRACK_STATE_DIR=None).stderr.decode("utf-8", "replace") for options in ("mode=full", words)]
    full, light = map(_stats_of, texts)
    for name in "total_alloc_count", "total_free_count":
        bench.expect(name, light.get(name), full[name])
    for name in "total_alloc_bytes", "current_alloc_bytes", "peak_alloc_bytes":
        if not int(full[name]) <= int(light[name]) <= 1.5 * int(full[name]):
            bench.problem("%s is %s in usable bytes, %s in full mode" % (name, light[name], full[name]))
    bench.expect("usable_alloc_count", light.get("usable_alloc_count"), full["total_alloc_count"])
    if not texts[1].startswith("[NOTE] "):
        bench.problem("no note in front of %r" % texts[1][:300])
    if words == "mode=stats" and "[LEAK-SUMMARY] 0 leak suspects" not in texts[1]:
        bench.problem("leaks without call stacks in %r" % texts[1][:300])
    if words.endswith("=1") and "count=20   total_bytes=35540 " not in texts[1]:
        bench.problem("no 20 blocks of 35540 bytes in %r" % texts[1][:600])


@test_each("depth=many", "nonsense=1", "depth", "=")
def bad_options(bench, words):
    """One line on stderr that names the option; the program runs, nothing is recorded."""
    run = bench.run([bench.build("wrapped.c")], True, MEMTRACK_OPTIONS=words)
    bench.expect("exit status", run.status, 0)
    bench.expect("stdout", run.stdout, b"process 1777x20\n")
    bench.expect("lines on stderr", run.stderr.count(b"\n"), 1)
    if not run.stderr.startswith(b"memtrack: ") or words.encode() not in run.stderr:
        bench.problem("stderr %r" % run.stderr)
    bench.expect("state files", len(run.states), 0)


@test
def bad_mode(bench):
    run = bench.run([bench.build("wrapped.c")], True, MEMTRACK_MODE="everything")
    bench.expect("exit status", run.status, 0)
    bench.expect("lines on stderr", run.stderr.count(b"\n"), 1)
    bench.expect("state files", len(run.states), 0)


@test
def source_interface(bench):
    include = "-I" + os.path.join(HERE, "..", "..", "include")
    program = bench.build("interface.c", flags=[include])
    path = os.path.join(bench.work, "snapshot.mtk")
    bench.expect("bare output", bench.run([program, path], False).stdout, b"not tracked\n")
    run = bench.run([program, path], True)
    bench.expect("output", run.stdout.decode().splitlines()[:5], [
        "allocs 11 frees 5 bytes 73547 freed 18885", "live 6, 54662 bytes; reallocs 1", "heap again same",
        "snapshot 0, again refused", "process 4777x1 7777x1 8777x1 20777x1 31777x1"])
    bench.compare_marks(run)
    snapshot = mtk.State(path)
    bench.expect("snapshot", marks_of(snapshot), "20777x1 4777x1 5777x1 6777x1 7777x1 8777x1")
    bench.check_books(snapshot)


@test
def source_counters(bench):
    """The counters that a program reads are exact in all modes."""
    include = "-I" + os.path.join(HERE, "..", "..", "include")
    program = bench.build("counters.c", flags=[include])
    for words, bytes_of in (("mode=full", "requests"), ("mode=stats", "usable sizes"),
                            ("mode=sample interval=4K", "usable sizes"), ("mode=sample interval=1", "usable sizes"),
                            ("mode=sample every=10", "usable sizes")):
        run = bench.run([program], True, MEMTRACK_OPTIONS=words)
        bench.expect(words, run.stdout.decode(), "allocs 1000 frees 500 live 500\n"
                     "bytes of %s, freed too, live too, peak too\n" % bytes_of)


@test
def source_profile_in_check_mode(bench):
    """Blocks have headers: no request of the program's may end check mode."""
    include = "-I" + os.path.join(HERE, "..", "..", "include")
    program = bench.build("counters.c", flags=[include])
    for check in ("guard free_track fill backtrace", "verify_pointers"):
        run = bench.run([program, "profile"], True, LIBC_DEBUG_MALLOC_OPTIONS=check)
        bench.expect("with " + check, (run.status, run.stdout.decode(), run.stderr.decode()),
                     (0, "profile unsupported\nallocs 1000 frees 500 live 500\n"
                      "bytes of requests, freed too, live too, peak too\n", ""))


MODES = (("full", {"MEMTRACK_OPTIONS": "mode=full"}), ("stats", {"MEMTRACK_OPTIONS": "mode=stats"}),
         ("sample", {"MEMTRACK_OPTIONS": "mode=sample interval=4K"}),
         ("check with guards", {"LIBC_DEBUG_MALLOC_OPTIONS": "guard free_track abort_on_error"}),
         ("check without headers", {"LIBC_DEBUG_MALLOC_OPTIONS": "verify_pointers backtrace abort_on_error"}))


@test
def handler_forks_inside_hooks(bench):
    """The child of a handler that interrupted a hook goes on in it: in each mode it lives."""
    program = bench.build("handler_forks.c")
    for mode, how in MODES:
        run = bench.run([program, "100"], True, **how)
        bench.expect(mode, (run.status, run.stdout, run.stderr), (0, b"bad 0\n", b""))


@test
def child_reallocates_what_it_inherited(bench):
    """Also where children are not followed: then nobody knows the block but its header."""
    program = bench.build("child_realloc.c")
    for mode, how in MODES:
        for follow in ("all", "none"):
            given = dict(how, MEMTRACK_OPTIONS=how.get("MEMTRACK_OPTIONS", "") + " follow=" + follow)
            run = bench.run([program], True, **given)
            bench.expect("%s, follow=%s" % (mode, follow), (run.status, run.stdout, run.stderr), (0, b"status 0\n", b""))


@test
def deepbind_in_check_mode(bench):
    """Its own malloc and free would know nothing of headers, so that the library is bound like any other."""
    bench.library("binder.c", "libbinder.so")
    program = bench.build("deepbind.c")
    said = (b"malloc_debug: Libraries are loaded without RTLD_DEEPBIND, "
            b"which would let them free blocks past malloc debug.\n")
    for check in ("guard free_track fill backtrace", "verify_pointers", "guard_page backtrace"):
        run = bench.run([program], True, LIBC_DEBUG_MALLOC_OPTIONS=check)
        bench.expect("with " + check, (run.status, run.stdout, run.stderr), (0, b"lines 700\nprocess 1777x1\n", said))


@test
def huge_sparse_block_stays_sparse(bench):
    """Neither a fill nor the quarantine makes memory of gigabytes that nobody touched."""
    program = bench.build("sparse.c")
    for check in ("guard free_track", "fill verify_pointers", "free_track fill backtrace"):
        run = bench.run([program], True, LIBC_DEBUG_MALLOC_OPTIONS=check)
        bench.expect("with " + check, (run.status, run.stdout, run.stderr), (0, b"fine\n", b""))


# ---- bounds: what the tracker may take, and what it says at each ----

MIB = 1 << 20
BLOCK_COST, FIXED_COST = 48, 16 * MIB # bytes for each live block of 64 to 128 bytes, and in all
LIVE_BLOCKS = [(1, 1000000, 64), (4, 1000000, 128)]
LONG_LIVE_BLOCKS = [(threads, count, size) for count in (1000000, 2000000, 5000000) for size in (64, 100, 128)
                    for threads in (1, 8)]


def memory_of(bench, command, tracked, **how):
    """The run, and what the program took of memory at its end, in bytes: the last argument is its file."""
    path = os.path.join(bench.work, "memory")
    run = bench.run(command + [path], tracked, **how)
    bench.expect("exit status", run.status, 0)
    with open(path, encoding="ascii") as f:
        return run, int(f.read()) * 1024


def bounded_report(bench, run, sentences, show="leaks"):
    """The report names what is missing."""
    memtrack = os.path.join(bench.options.build, "memtrack")
    done = subprocess.run([memtrack, "report", "--no-symbols", "--show=" + show] + [s.path for s in run.states],
                          capture_output=True, text=True, check=False)
    bench.expect("report's exit status", done.returncode, 0)
    for sentence in sentences:
        if not re.search(sentence, done.stdout):
            bench.problem("the report does not say '%s': %s" % (sentence, done.stdout[:1500]))


@test
def bound_cost_of_live_blocks(bench):
    program = bench.build("live_blocks.c", flags=["-pthread"])
    notes = []
    for threads, count, size in LONG_LIVE_BLOCKS if bench.options.long else LIVE_BLOCKS:
        command = [program, str(threads), str(count), str(size)]
        extra = memory_of(bench, command, True)[1] - memory_of(bench, command, False)[1]
        notes.append("%d x %d by %d: %.1f" % (count, size, threads, extra / count))
        if extra > BLOCK_COST * count + FIXED_COST:
            bench.problem("%d blocks of %d bytes by %d threads cost %d bytes" % (count, size, threads, extra))
        shutil.rmtree(bench.work)
        os.mkdir(bench.work)
    bench.note = "bytes for each block, all in all: " + "; ".join(notes)


@test
def bound_stacks(bench):
    """--max-overhead holds for stacks that never repeat; counters go on, blocks stay known."""
    program = bench.build("many_stacks.c")
    command, bound = [program, "60000", "5000"], 8 * MIB
    bare = memory_of(bench, command, False)[1]
    run, took = memory_of(bench, command, True, MEMTRACK_OPTIONS="max-overhead=%d" % bound)
    did = [int(word) for word in run.stdout.split()[1:]]
    state = run.states[0]
    total = state.totals()
    bench.note = "%.1f MiB of %d" % ((took - bare) / MIB, bound / MIB)
    if took - bare > bound + 4 * MIB: # what the tracker needs to begin with
        bench.problem("it took %d bytes" % (took - bare))
    bench.expect("allocations, frees, bytes", [total.allocs, total.frees, total.bytes], did[:3])
    bench.expect("live", [total.allocs - total.frees, total.bytes - total.freed_bytes], did[3:])
    bench.expect("live blocks", [len(state.blocks()), sum(b.size for b in state.blocks())], did[3:])
    placed = sum(c.allocs for c in state.cell if state.site[c.site].heap == mtk.MALLOC)
    bench.expect("in sites or counted as in none", placed + state.sum("unplaced_allocs"), did[0])
    bench.expect("some of both", placed > 1000 and state.sum("unplaced_allocs") > 1000, True)
    bench.expect("lost for want of storage", state.lost["storage"], 0)
    bounded_report(bench, run, ["allocations counted in the totals only", "--max-overhead is used up"])


@test_each("few samples", "many samples")
def bound_widens_the_interval(bench, samples):
    """The interval is doubled by memory that is in use, not by a page map that few blocks spread over."""
    bound, few = 8 * MIB, samples == "few samples"
    if few: # of 1500 blocks of 30000 bytes one in 35
        program = bench.build("late_threads.c", flags=["-pthread"])
        run, took = bench.run([program, "1500", "30000"], True,
                              MEMTRACK_OPTIONS="mode=sample interval=1M max-overhead=%d" % bound), 0
    else:
        command = [bench.build("many_stacks.c"), "100000", "2000"]
        bare = memory_of(bench, command, False)[1]
        run, took = memory_of(bench, command, True, MEMTRACK_OPTIONS="mode=sample interval=64 max-overhead=%d" % bound)
        took -= bare
    state = run.states[0]
    doubled = [c for c in state.change if c.what == 9] # MT_CHANGE_MEMORY_RAIL
    bench.expect("exit status", run.status, 0)
    bench.expect("few samples", 10 < state.totals().allocs < 200, few)
    bench.expect("not doubled", not doubled, few)
    if took > bound + 4 * MIB:
        bench.problem("it took %d bytes" % took)
    bench.note = "%d samples, %d times doubled, %.1f MiB" % (state.totals().allocs, len(doubled), took / MIB)


@test
def bound_leaves_room_for_samples(bench):
    """However small the bound is for a program that only grows: no sample is missing, as the interval rises in time."""
    count, size = 1000000, 64
    command = [bench.build("live_blocks.c", flags=["-pthread"]), "1", str(count), str(size)]
    bench.note = ""
    for bound in (1 * MIB, 2 * MIB, 6 * MIB):
        run, _ = memory_of(bench, command, True, MEMTRACK_OPTIONS="mode=sample interval=64 max-overhead=%d" % bound)
        state = run.states[0]
        missing = sum(s.no_block + s.no_site for s in state.stats)
        bench.expect("missing samples at %d MiB" % (bound // MIB), missing, 0)
        bench.expect("doubled at %d MiB" % (bound // MIB), [c.after for c in state.change if c.what == 9] != [], True)
        cells = [(c, s) for c, s in zip(state.cell, state.sampled) if c.site and state.site[c.site].regime]
        got, sd = sum(c.bytes for c, _ in cells), sum(s.bytes_variance for _, s in cells) ** 0.5
        if abs(got - count * size) > 5 * sd + 0.01 * count * size:
            bench.problem("estimate %d of %d bytes, sd %d, bound %d" % (got, count * size, sd, bound))
        bench.note += "%d MiB: %.1f MiB +- %.1f; " % (bound // MIB, got / MIB, sd / MIB)
        shutil.rmtree(bench.work)
        os.mkdir(bench.work)


@test
def bound_blocks(bench):
    """No room for more live blocks: allocations and bytes go on; what became of the rest is not guessed."""
    program = bench.build("many_stacks.c")
    run, _ = memory_of(bench, [program, "60000", "40000"], True, MEMTRACK_OPTIONS="max-overhead=1M")
    did = [int(word) for word in run.stdout.split()[1:]]
    state = run.states[0]
    total = state.totals()
    bench.expect("allocations, bytes", [total.allocs, total.bytes], [did[0], did[2]])
    bench.expect("frees, known and unknown", total.frees + state.sum("unknown_frees"), did[1])
    bench.expect("some without record", 0 < state.sum("untracked_allocs") == state.lost["live_full"], True)
    held = len(state.blocks())
    if not 500 < held <= did[3] or sum(b.size for b in state.blocks()) > did[4]:
        bench.problem("%d blocks are held of %d" % (held, did[3]))
    bounded_report(bench, run, [r"live .* in %s blocks that are recorded" % "{:,}".format(held),
                                r"at most .* in %s blocks: .* not followed" % "{:,}".format(did[3]),
                                "not as live blocks", "--max-overhead is used up"])


@test_each("small blocks", "large blocks")
def bound_before_new_threads(bench, kind):
    """Threads that come when the tables are full are in the totals like any other."""
    program = bench.build("late_threads.c", flags=["-pthread"])
    command = [program, "60000", "64"] if kind == "small blocks" else [program, "15000", "40000"]
    run = bench.run(command, True, MEMTRACK_OPTIONS="max-overhead=1M")
    bench.expect("exit status", run.status, 0)
    did = [int(word) for word in run.stdout.split()[1:]]
    state, own = run.states[0], 100 * 3
    total = state.totals()
    bench.expect("table full", state.lost["live_full"] > 0, True)
    bench.expect("threads without a row", (state.lost["thread_full"], state.threads_seen), (0, own + 1))
    # the C library allocates for a thread what it keeps of each, once and for stacks that are new
    if not did[0] <= total.allocs <= did[0] + own or total.bytes < did[2]:
        bench.problem("%s recorded of %s" % (total, did))
    late = sum(t.totals[mtk.MALLOC].allocs for t in state.thread[2:])
    bench.expect("allocations of the threads", late, own * 50)
    bounded_report(bench, run, ["not as live blocks"])


@test
def bound_of_all_stacks(bench):
    """Without --max-overhead the stack tree's own bound holds: 16 M frames, then only counters."""
    if not bench.options.long:
        raise Skip("--long")
    program = bench.build("many_stacks.c")
    command = [program, "700000", "100000"]
    bare = memory_of(bench, command, False)[1]
    run, took = memory_of(bench, command, True)
    did = [int(word) for word in run.stdout.split()[1:]]
    state = run.states[0]
    total = state.totals()
    bench.note = "%.0f MiB" % ((took - bare) / MIB)
    bench.expect("allocations, frees, bytes", [total.allocs, total.frees, total.bytes], did[:3])
    bench.expect("live blocks", [len(state.blocks()), sum(b.size for b in state.blocks())], did[3:])
    bench.expect("stacks full", state.sum("unplaced_allocs") > 0, True)
    if took - bare > 1024 * MIB:
        bench.problem("it took %d MiB" % ((took - bare) / MIB))
    bounded_report(bench, run, ["allocations counted in the totals only"])


SMALL_FILE = 6 * MIB # RLIMIT_FSIZE with which the tables are so small that they fill up at once


def _fill(bench, what, count, *words, limit=SMALL_FILE):
    """Fills a table; the program sees no difference. Its state, its run and [allocs, frees, bytes] that it did."""
    include = "-I" + os.path.join(HERE, "..", "..", "include")
    program = bench.build("fill_tables.c", flags=["-pthread", include])
    run = bench.both([program, what, str(count), *words], marks=False, books=False,
                     limits=[(resource.RLIMIT_FSIZE, limit)])
    state, = run.states
    _is_readable(bench, state.path)
    return state, run, [int(word) for word in run.stdout.split()[1:]]


def _expect_totals(bench, state, did):
    total = state.totals()
    bench.expect("allocations, frees, bytes", [total.allocs, total.frees + state.sum("unknown_frees"), total.bytes],
                 did)


def _capacity(state, kind):
    """Elements that the table holds; element 0 is none."""
    return state.capacity[kind] - 1


@test
def bound_modules(bench):
    """More libraries at once than the module table holds: each that has no row is counted, once."""
    library, count = bench.library("twin.c", "libfill.so", ["-DNAME=twin_alpha"]), 300
    directory = os.path.join(bench.work, "libraries")
    os.mkdir(directory)
    for i in range(count):
        shutil.copy(library, "%s/%d.so" % (directory, i))
    state, run, did = _fill(bench, "modules", count, directory)
    bench.expect("modules", len(state.module) - 1, _capacity(state, mtk.MODULES))
    own = sum(m.path.startswith(directory) for m in state.module)
    bench.expect("recorded and lost", own + state.lost["module_full"], count)
    bench.expect("some of both", own > 0 < state.lost["module_full"], True)
    bench.expect("marks", marks_of(state), "1777x%d" % count)
    if state.totals().allocs < did[0]: # the loader allocates, too
        bench.problem("%s, did %s" % (state.totals(), did))
    bench.check_books(state)
    bounded_report(bench, run, [r"%d modules not recorded \(module table full\)" % state.lost["module_full"]])


@test
def bound_labels(bench):
    state, run, did = _fill(bench, "labels", 300)
    _expect_totals(bench, state, did)
    capacity = _capacity(state, mtk.LABELS)
    bench.expect("labels", len(set(state.label)) - 1, capacity)
    bench.expect("set in vain", state.lost["label_full"], 300 - capacity)
    bench.expect("names lost", state.lost["string_full"], 0)
    labelled = sum(c.allocs for c in state.cell[1:] if state.site[c.site].label)
    bench.expect("blocks with a label, marks", (labelled, marks_of(state)), (capacity, "1777x300"))
    bounded_report(bench, run, ["%d times a label was set in vain" % (300 - capacity)])


@test
def bound_names(bench):
    """The string table is full before the label table."""
    state, run, did = _fill(bench, "names", 60)
    _expect_totals(bench, state, did)
    labels = len(set(state.label)) - 1
    bench.expect("some labels, not all", 10 < labels < 60, True)
    bench.expect("names, labels lost", (state.lost["string_full"], state.lost["label_full"]), (60 - labels, 60 - labels))
    bench.expect("marks", marks_of(state), "1777x60")
    bounded_report(bench, run, ["%d times a name could not be recorded" % (60 - labels), "a label was set in vain"])


@test
def bound_heaps(bench):
    state, run, did = _fill(bench, "heaps", 300)
    _expect_totals(bench, state, did)
    heaps = sum(name.startswith("heap ") for name in state.heap)
    bench.expect("heaps", heaps, 255 - 3)
    bench.expect("registered in vain", state.lost["heap_full"], 300 - heaps)
    bench.expect("blocks in heaps", state.totals(mtk.CUSTOM)[:3], (heaps, 0, 8 * heaps))
    bounded_report(bench, run, ["%d times a heap was registered in vain" % (300 - heaps)])


@test
def bound_large_blocks(bench):
    """Large blocks have a table of their own: small ones are followed when it is full."""
    count = 5000
    state, run, did = _fill(bench, "large", count)
    _expect_totals(bench, state, did)
    capacity = _capacity(state, mtk.LARGE)
    without = state.lost["live_full"]
    bench.expect("without record", (without, state.sum("untracked_allocs")), (count - capacity + 1,) * 2)
    bench.expect("unknown frees", state.sum("unknown_frees"), without // 2)
    bench.expect("recorded frees", state.totals().frees, count // 2 - without // 2)
    bench.expect("held", len([b for b in state.blocks() if b.size == 40777]), capacity - 1 - state.totals().frees)
    bounded_report(bench, run, ["%s allocations counted in the totals but not as live" % "{:,}".format(without)])


@test
def bound_threads(bench):
    """More threads at once than there are rows: their events are counted, those of the others exact. A limit
    that leaves room for more rows has all of them."""
    each, count = 50, 300
    state, _, did = _fill(bench, "threads", count)
    bench.expect("all have a row", (state.lost["thread_full"], state.threads_seen), (0, count + 1))
    bench.expect("marks", marks_of(state), "1777x%d" % did[0])
    count = 700
    state, run, did = _fill(bench, "threads", count, limit=1 * MIB)
    rows = _capacity(state, mtk.THREADS)
    # threads without a row that still free at their end may get that of one that is gone
    bench.expect("rows", (len(state.thread) - 1, state.threads_seen >= rows), (rows, True))
    recorded = sum(t.totals[mtk.MALLOC].allocs for t in state.thread[2:])
    bench.expect("allocations of threads with a row", recorded, (rows - 1) * each)
    lost = state.lost["thread_full"]
    if lost < (count - rows + 1) * each: # the C library allocates and frees in a thread, too
        bench.problem("%d events lost of %d threads" % (lost, count - rows + 1))
    bounded_report(bench, run, [r"%s events of threads without a row" % "{:,}".format(lost)])


STACK_COST, FRAME_COST = 640, 27 # bytes for each new stack, and each frame that no other stack shares


def peak_of(bench, command, tracked, **how):
    """Highest resident memory of a run, in bytes, and the run."""
    path = os.path.join(bench.work, "peak")
    run = bench.run(command, tracked, preload_after=[bench.library("peak_memory.c", "libpeak.so")], PEAK_FILE=path, **how)
    bench.expect("exit status", run.status, 0)
    with open(path, encoding="ascii") as f:
        return int(f.read()) * 1024, run


@test_each("no bound", "max-overhead")
def bound_random_sizes_and_stacks(bench, kind):
    """The benchmark's mb: what it costs has a bound, and nothing is missing in the totals."""
    pairs, live = (2000000, 100000) if bench.options.long else (300000, 50000)
    program = bench.build("../../bench/workloads/mb.c", flags=["-pthread"])
    counter = bench.library("counter.c", "libcounter.so")
    command, bound = [program, "own", "1", str(pairs), str(live)], 6 * MIB
    path = os.path.join(bench.work, "counts")
    bench.run(command, False, preload_before=[counter], COUNTER_FILE=path)
    with open(path, encoding="ascii") as f:
        did = [int(word) for word in f.read().split()]
    bare, _ = peak_of(bench, command, False)
    options = {} if kind == "no bound" else {"MEMTRACK_OPTIONS": "max-overhead=%d" % bound}
    took, run = peak_of(bench, command, True, **options)
    state, = run.states
    total = state.totals()
    bench.expect("allocations, frees, bytes", [total.allocs, total.frees + state.sum("unknown_frees"), total.bytes],
                 did)
    stacks, frames = len(state.site), len(state.node)
    bench.note = "%.1f MiB; %d stacks, %d frames" % ((took - bare) / MIB, stacks, frames)
    most = BLOCK_COST * live + FIXED_COST + STACK_COST * stacks + FRAME_COST * frames
    if kind == "no bound":
        bench.expect("live", len(state.blocks()), total.allocs - total.frees)
        bench.expect("lost", sum(state.lost.values()), 0)
    else:
        most = min(most, bound + 4 * MIB) # what the tracker needs to begin with
        bench.expect("something was left out", state.lost["live_full"] + state.lost["site_full"] > 0, True)
        bounded_report(bench, run, ["--max-overhead is used up"])
    if took - bare > most:
        bench.problem("it took %d bytes of %d" % (took - bare, most))


@test
def mode_off(bench):
    run = bench.run([bench.build("wrapped.c")], True, MEMTRACK_MODE="off")
    bench.expect("exit status, stderr", (run.status, run.stderr), (0, b""))
    bench.expect("state files", len(run.states), 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="meson build directory")
    parser.add_argument("--part", default="0/1", help="every Mth test, beginning with N")
    parser.add_argument("--long", action="store_true", help="storms of 60 s and 1000 forks")
    parser.add_argument("-k", dest="filter", default="", help="only tests whose name contains this")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    os.makedirs(os.path.join(options.build, "programs"), exist_ok=True)
    part, parts = map(int, options.part.split("/"))
    tap = Tap()
    for name, function, arguments in TESTS[part::parts]:
        if options.filter not in name:
            continue
        bench = Bench(options, name)
        began = time.monotonic()
        try:
            function(bench, *arguments)
        except Skip as why:
            tap.skip(name, why)
            continue
        except (subprocess.TimeoutExpired, RuntimeError, OSError, ValueError, KeyError, IndexError,
                AttributeError) as error:
            bench.problem("%s: %s" % (type(error).__name__, error))
        finally:
            bench.done()
        tap.ok(name, bench.problems[:20])
        if bench.note:
            tap.note(bench.note)
        took = time.monotonic() - began
        if took > 5:
            tap.note("%.1f s" % took)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
