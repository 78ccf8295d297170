# SPDX-License-Identifier: MIT
"""
Programs under check mode, from outside: compiles them, runs them with options, reads what they said and what
the log says, and compares the log line by line with what is expected.

A program says "NAME NUMBER" on standard output (say.h). On standard error are the log's lines and the program's
marks "-- NAME". What is expected is a list of lines, of Frames and of lists of these.
"""
import argparse
import bisect
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

PREFIX = "malloc_debug: "
DIVIDER = " ".join(["***"] * 16)
USAGE = ["For malloc debug option descriptions go to:",
         "  https://android.googlesource.com/platform/bionic/+/main/libc/malloc_debug/README.md"]
FRAME = re.compile(r"^ {10}#(\d\d)  pc ([0-9a-f]{16})  (\S+)(?: \(offset 0x[0-9a-f]+\))?(?: \((.+)\+(\d+)\))?$")
NO_FRAMES = "  Backtrace failed to get any frames."
TIMEOUT_S = 60
OURS = ("MEMTRACK", "LD_", "MALLOC_", "LIBC_DEBUG", "GLIBC_TUNABLES")


def clean_environment():
    return {k: v for k, v in os.environ.items() if not k.startswith(OURS)}


class Frames:
    """The lines of one stack. names: functions of the program, innermost first, that it begins with."""

    def __init__(self, *names, most=256):
        self.names, self.most = names, most

    def __repr__(self):
        return "a stack that begins with %s" % (", ".join(self.names) or "anything")

    def match(self, lines, program):
        """(lines taken, what is wrong)"""
        taken = []
        for line in lines:
            m = FRAME.match(line)
            if not m or int(m[1]) != len(taken):
                break
            taken.append(m)
        if not taken:
            return 0, ["a stack is missing: %r" % (lines[:1],)]
        wrong = []
        if len(taken) > self.most:
            wrong.append("%d frames, at most %d expected" % (len(taken), self.most))
        own = [(m, program.function(int(m[2], 16))) for m in taken if os.path.realpath(m[3]) == program.real]
        got = [name for _, name in own]
        if tuple(got[:len(self.names)]) != self.names:
            wrong.append("the program's functions in the stack are %s, expected %s" % (got, list(self.names)))
        for m, name in own:
            if m[4] and m[4] != name:
                wrong.append("frame %s says %s, the symbol table %s" % (m[1], m[4], name))
        return len(taken), wrong


class Program:
    """A compiled program. name: argv[0], as messages have it."""

    def __init__(self, path, nm="nm"):
        self.nm = nm
        self.folder, base = os.path.split(path)
        self.name, self.real = "./" + base, os.path.realpath(path)
        self._symbols = None

    def function(self, address):
        if self._symbols is None:
            done = subprocess.run([self.nm, "-n", "--defined-only", self.real], capture_output=True, text=True, check=True)
            found = [line.split() for line in done.stdout.splitlines()]
            self._symbols = [(int(f[0], 16), f[2]) for f in found if len(f) == 3 and f[1] in "tTwW"]
        at = bisect.bisect_right(self._symbols, (address, "\x7f")) - 1
        return self._symbols[at][1] if at >= 0 else "?"


class Missing(Exception):
    """The machine lacks what a test needs."""


COMPILERS = {"glibc": ["gcc"], "musl": ["musl-gcc", "-Wl,--eh-frame-hdr"], "aarch64": ["aarch64-linux-gnu-gcc"]}


def compile_program(build, source, libc="glibc", flags=("-O0",), libs=("-pthread",), name=None):
    """The program of a source beside this file; compiled when its source is newer. name: of the program."""
    source = os.path.join(HERE, source)
    compiler = COMPILERS[libc]
    if not shutil.which(compiler[0]):
        raise Missing("%s is not installed" % compiler[0])
    folder = os.path.join(build, "check", libc)
    path = os.path.join(folder, name or os.path.basename(source).replace(".", "_"))
    newest = max(os.path.getmtime(os.path.join(HERE, f)) for f in (source, __file__, "say.h", "random.h"))
    if not os.path.exists(path) or os.path.getmtime(path) < newest:
        os.makedirs(folder, exist_ok=True)
        fresh = "%s.%d" % (path, os.getpid())
        done = subprocess.run(compiler + [source, "-o", fresh, "-D_GNU_SOURCE", "-g", "-w", "-fno-builtin", "-rdynamic",
                                          "-I", HERE, *flags, *libs],
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            raise RuntimeError("%s: %s" % (source, done.stderr[:2000]))
        os.rename(fresh, path)
    return Program(path, "aarch64-linux-gnu-nm" if libc == "aarch64" else "nm")


class _CrossOptions:
    machine = "aarch64"

    def __init__(self, build):
        self.build, self.source = build, os.path.join(HERE, "..", "..")


def cross_library(build):
    """The preload for aarch64, compiled anew, and the words that run a program of that machine."""
    sys.path.insert(0, os.path.join(HERE, "..", "runtime"))
    import run_foreign
    try:
        bench = run_foreign.Bench(_CrossOptions(build))
    except run_foreign.Skip as why:
        raise Missing(str(why)) from why
    bench.dir = os.path.join(build, "check", "aarch64")
    os.makedirs(bench.dir, exist_ok=True)
    bench.cross_build()
    return bench.lib, bench.emulator


def log_lines(text):
    """The lines of the log, without the prefix, and the program's marks."""
    return [line[len(PREFIX):] if line.startswith(PREFIX) else line for line in text.splitlines()]


def without_loaders_leaks(lines):
    """
    The log without the leaks whose blocks the loader made (with stacks): what libc keeps for the next thread, which it
    gives back to nobody. Numbers of leaks count them too.
    """
    kept, leak = [], []
    for line in list(lines) + [""]:
        if leak and (line == "Backtrace at time of allocation:" or FRAME.match(line)):
            leak.append(line)
            continue
        first = FRAME.match(leak[2]) if len(leak) > 2 else None
        if leak and not (first and re.search(r"/ld-[^/]*$", first[3])):
            kept += leak
        leak = [line] if re.match(r"\+\+\+ .* leaked block of size ", line) else []
        if not leak:
            kept.append(line)
    return kept[:-1]


def flatten(expected):
    for e in expected:
        if isinstance(e, (list, tuple)):
            yield from flatten(e)
        else:
            yield e


class Result:
    """A finished run."""

    def __init__(self, program, status, out, err, folder, pid):
        self.program, self.status, self.folder, self.pid = program, status, folder, pid
        self.out, self.err = out, err
        self.log = log_lines(err)
        self.said = []  # (name, number)
        self.problems = []
        for line in out.splitlines():
            m = re.match(r"^(\w+) (0x[0-9a-f]+|\d+)$", line)
            if m:
                self.said.append((m[1], int(m[2], 0)))

    def __getitem__(self, name):
        """The number that was said last under a name; -1: none was."""
        found = [n for said, n in self.said if said == name]
        return found[-1] if found else -1

    def all(self, name):
        return [n for said, n in self.said if said == name]

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %r, expected %r" % (what, got, wanted))

    def expect_said(self, **numbers):
        for name, wanted in numbers.items():
            self.expect(name, self[name], wanted)

    def expect_log(self, expected, log=None):
        """The log is exactly what is expected."""
        rest, before = list(self.log if log is None else log), len(self.problems)
        for e in flatten(expected):
            if isinstance(e, Frames):
                taken, wrong = e.match(rest, self.program)
                self.problems += wrong
                rest = rest[taken:]
                if not taken:
                    break
            elif not rest or rest[0] != e:
                self.problems.append("line %r of the log, expected %r" % (rest[0] if rest else "(end)", e))
                break
            else:
                rest = rest[1:]
        else:
            if rest:
                self.problems.append("%d more lines in the log: %r" % (len(rest), rest[:6]))
        if len(self.problems) > before:
            self.problems.append("the whole log: %s" % self.err[-3000:])

    # What the log says of it. functions: of the program, innermost first, in which it was found. made_in: those
    # that made the block: said when there are stacks of allocations.

    @staticmethod
    def allocation(made_in):
        return ["Backtrace at time of allocation:", Frames(*made_in)] if made_in else []

    def damaged(self, p, size, side, wrong, *functions, made_in=()):
        """wrong: {index: byte}"""
        pattern = 0xaa if side == "FRONT" else 0xbb
        return [DIVIDER, "+++ ALLOCATION 0x%x SIZE %d HAS A CORRUPTED %s GUARD" % (p, size, side),
                ["  allocation[%d] = 0x%02x (expected 0x%02x)" % (i, wrong[i], pattern) for i in sorted(wrong)],
                self.allocation(made_in), "Backtrace at time of failure:", Frames(*functions), DIVIDER]

    def bad_pointer(self, p, what, call, *functions, freed_in=(), made_in=()):
        first = self.allocation(made_in) + (["Backtrace of original free:", Frames(*freed_in)] if freed_in else [])
        return [DIVIDER, "+++ ALLOCATION 0x%x %s (%s)" % (p, what, call), first, "Backtrace at time of failure:",
                Frames(*functions), DIVIDER]

    def used_after_free(self, p, wrong, *functions, made_in=()):
        last = self.allocation(made_in) + (["Backtrace at time of free:", Frames(*functions)] if functions else [])
        return [DIVIDER, "+++ ALLOCATION 0x%x USED AFTER FREE" % p,
                ["  allocation[%d] = 0x%02x (expected 0xef)" % (i, wrong[i]) for i in sorted(wrong)], last, DIVIDER]

    def leak(self, size, p, number, total, *functions):
        last = ["Backtrace at time of allocation:", Frames(*functions, most=16)] if functions else []
        return ["+++ %s leaked block of size %d at 0x%x (leak %d of %d)" % (self.program.name, size, p, number, total), last]

    def leaks(self, *blocks):
        """blocks: (size, pointer, functions...) in the log's order"""
        return [self.leak(b[0], b[1], i + 1, len(blocks), *b[2:]) for i, b in enumerate(blocks)]


class Bench:
    """Where programs run: a folder of its own, the library, and which libc."""

    def __init__(self, build, libc="glibc"):
        self.build, self.libc, self.emulator = os.path.abspath(build), libc, []
        self.library = os.environ.get("MEMTRACK_LIB", os.path.join(self.build, "libmemtrack.so"))
        if libc == "aarch64":
            self.library, self.emulator = cross_library(self.build)
        self.work = tempfile.mkdtemp(prefix="memtrack-check-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.serial = 0

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def program(self, source, **how):
        return compile_program(self.build, source, self.libc, **how)

    def run(self, program, words, options=None, more="", timeout=TIMEOUT_S, preload=""):
        """
        options None: bare. more: for MEMTRACK_OPTIONS. {folder} in options is that of the run. preload: a library
        behind ours.
        """
        self.serial += 1
        folder = os.path.join(self.work, str(self.serial))
        os.mkdir(folder, 0o700)
        ours = {}
        if options is not None:
            ours = dict(LD_PRELOAD=self.library, LIBC_DEBUG_MALLOC_OPTIONS=options.replace("{folder}", folder),
                        MEMTRACK_STATE_DIR=folder, MEMTRACK_DIR=folder)
            if more:
                ours["MEMTRACK_OPTIONS"] = more
        if preload:
            ours["LD_PRELOAD"] = ":".join(filter(None, [ours.get("LD_PRELOAD"), preload]))
        env, command = dict(clean_environment(), **ours), [program.name] + list(words)
        executable = program.real
        if self.emulator: # static: it hands on what is meant for the program
            command = self.emulator + command
            executable = shutil.which(command[0])
        child = subprocess.Popen(command, executable=executable, cwd=program.folder, env=env, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        try:
            out, err = child.communicate(timeout=timeout)
            status = child.returncode
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            out, err = child.communicate()
            status = "still running after %d s" % timeout
        said = err.decode(errors="replace")
        if self.emulator: # it says so itself when a signal ends the program
            said = re.sub(r"^qemu: uncaught target signal .*\n", "", said, flags=re.M)
        return Result(program, status, out.decode(errors="replace"), said, folder, child.pid)


def run_cases(bench, tap, options, program, tests):
    """
    Test points of a program's cases, each (name, options of check mode, case, function, libc or "", how): the function
    looks at the result, how are more arguments of the run.
    """
    for name, words, case, check, only, how in tests:
        if options.k in name and only in ("", options.libc):
            r = bench.run(program, [case], words, **how)
            r.expect("exit status", r.status, 0)
            check(r)
            tap.ok(name, r.problems)


def run_tests(function, **numbers):
    """
    A script of this folder: its options are --build, --libc, -k and the named numbers. function(bench, tap, options)
    makes the test points. Returns the exit status.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--libc", default="glibc", choices=list(COMPILERS))
    parser.add_argument("-k", default="")
    for name, default in numbers.items():
        parser.add_argument("--" + name, type=int, default=default)
    options = parser.parse_args()
    tap, bench = Tap(), None
    try:
        bench = Bench(options.build, options.libc)
        function(bench, tap, options)
    except Missing as why:
        tap.skip("check mode, %s" % options.libc, why)
    finally:
        if bench:
            bench.close()
    return tap.done()
