# SPDX-License-Identifier: MIT
"""
What the command's tests share: a directory for each, and processes that are tracked while they are looked at.

Programs that import it are called with: MEMTRACK MAKE_SAMPLE SUBJECT LIBRARY|-
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import Tap  # noqa: E402

MEMTRACK, MAKE_SAMPLE, SUBJECT, LIBRARY = [os.path.abspath(a) if a != "-" else a for a in sys.argv[1:5]]
TIMEOUT_S = 60
TESTS = []


def test(function):
    TESTS.append(function)
    return function


def needs_library(function):
    function.needs_library = True
    return test(function)


class Skip(Exception):
    """What a test needs is not there."""


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    return None


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


def kill_tree(pid):
    for child in children_of(pid):
        kill_tree(child)
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


class Bench:
    """A directory and processes of its own for each test."""

    def __init__(self, name):
        self.dir = tempfile.mkdtemp(prefix="memtrack-test-%s-" % name[:20])
        self.states = os.path.join(self.dir, "states")  # of processes that are only made to look tracked
        os.mkdir(self.states)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACK") and k != "LD_PRELOAD"}
        self.env["XDG_CACHE_HOME"] = os.path.join(self.dir, "cache")
        self.env["MEMTRACK_DIR"] = self.states
        if LIBRARY != "-":
            self.env["MEMTRACK_LIB"] = LIBRARY
        self.problems = []
        self.started, self.launchers = [], []

    def run(self, *args, **more):
        more.setdefault("env", self.env)
        return subprocess.run([MEMTRACK, *args], cwd=self.dir, capture_output=True, text=True, timeout=TIMEOUT_S,
                              check=False, **more)

    def start(self, *args, **more):
        more.setdefault("env", self.env)
        process = subprocess.Popen([MEMTRACK, *args], cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, **more)
        self.started.append(process)
        if args[0] == "run":
            self.launchers.append(process)
        return process

    def tracked(self, *command, options=()):
        """Starts a tracked program that prints a line when it is ready; returns its pid."""
        launcher = self.start("run", "--report=none", *options, *command)
        launcher.stdout.readline()
        return children_of(launcher.pid)[0]

    def pretended(self, what="sample", name="live"):
        """A process that does nothing, with a state file as if it were tracked; returns its pid."""
        process = subprocess.Popen(["sleep", "600"])
        self.started.append(process)
        subprocess.run([MAKE_SAMPLE, os.path.join(self.states, name + ".mtk"), what, str(process.pid)], check=True)
        return process.pid

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %r, expected %r" % (what, got, wanted))

    def expect_in(self, what, text, part):
        if part not in text:
            self.problems.append("%s: %r is not in %r" % (what, part, text[-1500:]))

    def fails(self, status, sentence, *args, **more):
        """The command ends with status, one sentence on stderr, nothing on stdout."""
        done = self.run(*args, **more)
        self.expect(" ".join(args), (done.returncode, done.stdout, done.stderr), (status, "", "memtrack: " + sentence + "\n"))

    def done(self):
        for process in self.started:
            for pid in children_of(process.pid):  # a launcher collects their states then
                kill_tree(pid)
            try:
                process.wait(5 if process in self.launchers else 0)
            except subprocess.TimeoutExpired:
                process.kill()
            process.wait()
            for pipe in (process.stdout, process.stderr, process.stdin):
                if pipe:
                    pipe.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def main(make_bench=Bench):
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):  # as nohup and shells leave them
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    tap = Tap()
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        if os.environ.get("ONLY", "") not in function.__name__:
            continue
        if LIBRARY == "-" and getattr(function, "needs_library", False):
            tap.skip(name, "libmemtrack.so is not built here")
            continue
        bench = make_bench(function.__name__)
        try:
            function(bench)
            tap.ok(name, bench.problems)
        except Skip as why:
            tap.skip(name, str(why))
        except (OSError, ValueError, KeyError, IndexError, TypeError, subprocess.SubprocessError) as error:
            tap.ok(name, [*bench.problems, "%s: %s" % (type(error).__name__, error)])
        finally:
            bench.done()
    return tap.done()
