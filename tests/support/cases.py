# SPDX-License-Identifier: MIT
"""
The tests of a script: each function that is marked with @test is a test point, named after it, on a bench of its own.
A bench has `problems` (a list of sentences), close(), and perhaps `notes`.
"""
import argparse

from tap import Tap

TESTS = []


class Skip(Exception):
    """Raised by a test that cannot be run here; the text says why."""


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
