# SPDX-License-Identifier: MIT
"""The ways in which a host is run, and what each leaves behind."""
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import mtk

TIMEOUT_S = 180
BOOKS_BYTES_MAX = 8 << 20 # larger state files are read by the command only: this reader is slow
NOBODY = 65534
LLVM = "/usr/lib/llvm-14/lib/clang/14.0.6/lib/linux"
ALLOCATORS = {
    "jemalloc": "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
    "tcmalloc": "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "mimalloc": "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0",
    "scudo": LLVM + "/libclang_rt.scudo_standalone-x86_64.so",
}
KEPT = ("HOME", "PATH", "USER", "LOGNAME", "CARGO_HOME", "RUSTUP_HOME")


class Skip(Exception):
    """The machine lacks what a host needs."""


class Host:
    """One real program and what it is made to do. unknown_frees: why there may be some."""

    def __init__(self, name, run, prepare=None, needs=(), quick=False, allocators=(), unknown_frees="",
                 takes_allocators=True):
        self.name, self.run, self.quick, self.needs = name, run, quick, needs
        self.prepare = prepare or (lambda directory: None)
        self.quick_allocators, self.unknown_frees = allocators, unknown_frees
        self.takes_allocators = takes_allocators

    def check_needs(self):
        missing = [program for program in self.needs if not shutil.which(program)]
        if missing:
            raise Skip("needs %s" % ", ".join(missing))

    def allocators(self, all_of_them):
        return ALLOCATORS if all_of_them and self.takes_allocators else self.quick_allocators


class Way:
    """Bare, with the library preloaded, or through the command; each perhaps with an allocator."""

    def __init__(self, kind, allocator=None, mode="full"):
        self.kind, self.allocator, self.mode = kind, allocator, mode

    def __str__(self):
        text = {"bare": "bare", "preload": "preloaded", "run": "memtrack run"}[self.kind]
        mode = "" if self.mode == "full" else ", mode " + self.mode
        return text + mode + (", " + self.allocator if self.allocator else "")


class Outcome:
    """What a host showed: bytes by name. Two outcomes are alike or a sentence says where they differ."""

    def __init__(self):
        self.seen = {}

    def add(self, name, value):
        self.seen[name] = value if isinstance(value, bytes) else str(value).encode("utf-8", "replace")

    def differences(self, bare):
        for name in sorted(set(self.seen) | set(bare.seen)):
            got, wanted = self.seen.get(name), bare.seen.get(name)
            if got != wanted:
                yield "%s: %s" % (name, first_difference(got, wanted))


def first_difference(got, wanted):
    if got is None or wanted is None:
        return "only %s: %r" % ("bare" if got is None else "tracked", (got or wanted)[:200])
    got, wanted = got.splitlines(), wanted.splitlines()
    for i, (a, b) in enumerate(zip(got, wanted)):
        if a != b:
            return "line %d is %r, bare %r" % (i + 1, a[:300], b[:300])
    extra = got[len(wanted):] or wanted[len(got):]
    return "%d lines, bare %d: %r" % (len(got), len(wanted), extra[0][:300] if extra else b"line ends")


def digest(directory, skip=None):
    """One line a file: path, kind and a hash of what is in it."""
    lines = []
    for root, dirs, files in os.walk(directory):
        dirs.sort()
        for name in sorted(files):
            path = os.path.join(root, name)
            short = os.path.relpath(path, directory)
            if skip and re.search(skip, short):
                continue
            if os.path.islink(path):
                lines.append("%s -> %s" % (short, os.readlink(path)))
            elif os.path.isfile(path):
                with open(path, "rb") as f:
                    lines.append("%s %s" % (short, hashlib.sha256(f.read()).hexdigest()))
    return "\n".join(lines)


def descriptors(pid):
    """What a process has open, without the numbers that differ from run to run."""
    lines = []
    for name in sorted(os.listdir("/proc/%d/fd" % pid), key=int):
        try:
            target = os.readlink("/proc/%d/fd/%s" % (pid, name))
        except OSError:
            continue
        lines.append("%s %s" % (name, re.sub(r"\[\d+\]|\d{3,}", "[]", target)))
    return "\n".join(lines)


class Trial:
    """One run of one host in one way: starts its programs, collects what they show and leave."""

    def __init__(self, tools, way, directory):
        self.tools, self.way, self.dir = tools, way, directory
        self.outcome = Outcome()
        self.user = None # uid of the programs, if not ours
        self.extra = {}  # environment
        self.clean = [] # (pattern, what to put there): process numbers, times; the order of errors is not compared
        self.started, self.left, self.problems = [], [], []
        self.states = os.path.join(tools.shm if way.kind == "preload" else tools.work, "states")
        self.tmp = os.path.join(tools.work, "tmp")
        for path in self.states, self.tmp:
            shutil.rmtree(path, ignore_errors=True)
            os.mkdir(path, 0o700)
        self.shm_before = set(os.listdir("/dev/shm"))

    def expect(self, true, otherwise):
        if not true:
            self.problems.append(otherwise)

    # ---- starting ----

    def environment(self):
        env = {k: os.environ[k] for k in KEPT if k in os.environ}
        env.update(LC_ALL="C.UTF-8", TZ="UTC", TMPDIR=self.tmp, PYTHONHASHSEED="1", PERL_HASH_SEED="1")
        env.update(self.extra)
        libraries = [self.tools.library] if self.way.kind == "preload" else []
        if self.way.allocator:
            libraries.append(ALLOCATORS[self.way.allocator])
        if libraries:
            env["LD_PRELOAD"] = ":".join(libraries)
        if self.way.kind == "preload":
            env.update(MEMTRACK_MODE=self.way.mode, MEMTRACK_STATE_DIR=self.states, MEMTRACK_DIR=self.states)
            if self.way.mode == "sample":
                env["MEMTRACK_OPTIONS"] = "interval=4K"
            if self.way.mode == "check":
                # a false report would be a line of standard error, for want of the log; a duplicate of
                # that would be seen among the descriptors
                env.update(LIBC_DEBUG_MALLOC_OPTIONS="guard free_track fill verify_pointers backtrace",
                           MEMTRACK_LOG="syslog:" + os.path.join(self.states, "nobody"))
        return env

    def prefix(self):
        if self.way.kind != "run":
            return []
        words = [self.tools.memtrack, "run", "-q", "--report=none", "-o", os.path.join(self.states, "%e.%p.mtk")]
        return words + ["--"]

    def popen(self, argv, stdin=subprocess.DEVNULL, **how):
        if self.user is not None:
            os.chown(self.states, self.user, self.user)
            os.chown(self.tmp, self.user, self.user)
            how.update(user=self.user, group=self.user, extra_groups=[])
        if isinstance(stdin, bytes):
            path = os.path.join(self.tools.work, "stdin")
            with open(path, "wb") as f:
                f.write(stdin)
            stdin = open(path, "rb")
        process = subprocess.Popen(self.prefix() + argv, env=self.environment(), cwd=self.dir, stdin=stdin,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **how)
        if hasattr(stdin, "close"):
            stdin.close()
        self.started.append(process)
        return process

    def finish(self, process, name, timeout=TIMEOUT_S):
        """Waits for the end; output, errors and exit status go into the outcome."""
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.kill(process)
            out, err = process.communicate()
            self.outcome.add(name + ": end", "did not end within %d s" % timeout)
            return out
        for pattern, text in self.clean:
            out, err = re.sub(pattern, text, out), re.sub(pattern, text, err)
        self.outcome.add(name + ": stdout", out)
        self.outcome.add(name + ": stderr", b"\n".join(sorted(err.splitlines())) if self.clean else err)
        self.outcome.add(name + ": status", process.returncode)
        return out

    def run(self, argv, name=None, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S):
        return self.finish(self.popen(argv, stdin), name or os.path.basename(argv[0]), timeout)

    @staticmethod
    def kill(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def kill_all(self):
        for process in self.started:
            if process.poll() is None:
                self.kill(process)
                process.wait()

    def wait_for_orphans(self):
        """Until every process of this trial has ended; kills what does not end by itself."""
        deadline = time.monotonic() + 10
        while self.children(os.getpid()):
            try:
                done, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not done:
                time.sleep(0.01)
            if not done and time.monotonic() > deadline:
                self.outcome.add("outlived its parent", "%d processes" % len(self.children(os.getpid())))
                for pid in self.children(os.getpid()):
                    os.kill(pid, signal.SIGKILL)
        self.collect()

    def collect(self):
        """State of processes that outlived `memtrack run` stays in shared memory until `memtrack ps`."""
        if self.way.kind == "run" and self.tools.own_shm and set(os.listdir("/dev/shm")) - self.shm_before:
            user = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
            subprocess.run([self.tools.memtrack, "ps"], capture_output=True, timeout=TIMEOUT_S, check=False, cwd=self.dir, **user)

    # ---- servers ----

    def server_pid(self, process):
        """The server itself: the child of `memtrack run`, or what was started."""
        if self.way.kind != "run":
            return process.pid
        children = self.children(process.pid)
        return children[0] if children else process.pid

    @staticmethod
    def children(pid):
        try:
            with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
                return [int(word) for word in f.read().split()]
        except OSError:
            return []

    def wait_until(self, what, true, process):
        deadline = time.monotonic() + 60
        while not true():
            if process.poll() is not None:
                raise RuntimeError("ended before %s: %s" % (what, process.stderr.read()[-400:]))
            if time.monotonic() > deadline:
                raise RuntimeError("no %s within 60 s" % what)
            time.sleep(0.02)

    # ---- afterwards ----

    def left_behind(self):
        """Names in /dev/shm and the temporary directory that were not there before."""
        left = set(os.listdir("/dev/shm")) - self.shm_before if self.tools.own_shm else ()
        return sorted(left) + ["tmp/" + name for name in sorted(os.listdir(self.tmp))]

    def state_files(self):
        return sorted(glob.glob(os.path.join(self.states, "*")))


class Books:
    """The state files of a trial: readable, consistent, and open about what they lack."""

    def __init__(self, tools, problems):
        self.tools, self.problems = tools, problems
        self.allocs = self.unknown = self.nested = self.files = 0

    def problem(self, path, text):
        self.problems.append("%s: %s" % (os.path.basename(path), text))

    def check(self, path):
        if path.endswith(".mtr") and os.path.exists(path[:-4] + ".mtk"):
            return # a recording beside its state
        if not path.endswith(".mtk"):
            self.problem(path, "is no state file")
            return
        report = self._report(path)
        if report is None:
            return
        self.files += 1
        self.allocs += report["total_alloc"]
        if mtk.note_of(path) & mtk.NOTE_FORK_CHILD == 0: # a forked child frees what its parent allocated
            self.unknown += report["unknown_frees"]
        if report["total_alloc"] - report["total_free"] != report["live_count"]:
            self.problem(path, "allocations less frees are not what is live: %s" % {
                k: report[k] for k in ("total_alloc", "total_free", "live_count")})
        if os.path.getsize(path) <= BOOKS_BYTES_MAX:
            self._compare(path, report)

    def _report(self, path):
        done = subprocess.run([self.tools.memtrack, "report", "--json", "--no-symbols", path], capture_output=True,
                              timeout=TIMEOUT_S, check=False)
        if done.returncode or done.stderr:
            self.problem(path, "report: exit %d, %r" % (done.returncode, done.stderr[:300]))
            return None
        return json.loads(done.stdout)

    def _compare(self, path, report):
        """A reader that shares no code with the command's finds the same numbers."""
        state = mtk.State(path)
        total = state.totals()
        light = state.mode in (mtk.MODE_STATS, mtk.MODE_SAMPLE)
        told = state.counted() if light else total
        lost = {k: v for k, v in state.lost.items() if v}
        nested = state.sum("nested_allocs")
        self.nested += nested
        if (told.allocs, told.bytes, told.frees) != (report["total_alloc"], report["total_alloc_bytes"],
                                                     report["total_free"]):
            self.problem(path, "the command reports other totals than %s" % (told,))
        told = report["warnings"] + [n for n in report.get("notes", []) if "inside of others" in n]
        if (lost or nested or state.sum("untracked_allocs")) and not told:
            self.problem(path, "lost %s, nested %d, and the report says nothing of it" % (lost, nested))
        if state.sum("verify_wrong"):
            self.problem(path, "%d of %d verified stacks are wrong" % (state.sum("verify_wrong"), state.sum("verified")))
        if lost:
            return
        blocks = state.blocks()
        live = len(blocks), sum(b.size for b in blocks)
        if light: # bytes are estimates
            live, total = (live[0], 0), total._replace(bytes=0, freed_bytes=0)
        if live != (total.allocs - total.frees, total.bytes - total.freed_bytes):
            self.problem(path, "%d blocks of %d bytes in the table, the totals say %d of %d" % (
                live + (total.allocs - total.frees, total.bytes - total.freed_bytes)))
        if len({b.address for b in blocks}) != len(blocks):
            self.problem(path, "an address is live twice")
