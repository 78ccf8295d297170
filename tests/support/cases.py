# SPDX-License-Identifier: MIT
"""
The tests of a script: each function that is marked with @test is a test point, named after it, on a bench of its own.
A bench has `problems` (a list of sentences), close(), and perhaps `notes`.
"""
import argparse
import os
import shutil
import subprocess
import tempfile

from tap import Tap

TESTS = []


class Skip(Exception):
    """Raised by a test that cannot be run here; the text says why."""


class Bench:
    """A directory of its own for each test, with programs that die with it; scripts add what they look at."""

    def __init__(self, build, name):
        self.build = build
        self.memtrack = build + "/memtrack"
        self.dir = tempfile.mkdtemp(prefix="memtrack-%s-" % name)
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_", "MALLOC_", "GLIBC_TUN"))}
        self.env["LC_ALL"] = "C.UTF-8"
        self.children, self.problems, self.notes = [], [], []

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

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %.700r, expected %.700r" % (what, got, wanted))

    def expect_in(self, what, part, text):
        if part not in text:
            self.problems.append("%s: no %r in %r" % (what, part, text[-1500:]))


def test(function):
    TESTS.append(function)
    return function


def parser(description):
    """For the options that all such scripts have."""
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", required=True)
    p.add_argument("-k", default="", help="only tests with this word in their name")
    return p


def run(options, make, has_notes=True):
    """Runs the tests on benches that make() gives. Returns the exit status."""
    tap = Tap()
    for function in TESTS:
        name = function.__name__.replace("_", " ")
        if options.k.replace("_", " ") not in name:
            continue
        bench = make()
        try:
            function(bench)
        except Skip as why:
            if not bench.problems:
                tap.skip(name, str(why))
                continue
            bench.problems.append("the rest is skipped: %s" % why)
        except Exception as error: # pylint: disable=broad-except
            bench.problems.append("%s: %s" % (type(error).__name__, error))
        finally:
            bench.close()
        tap.ok(name, bench.problems)
        for note in getattr(bench, "notes", ()) if has_notes else ():
            tap.note(note)
    return tap.done()
