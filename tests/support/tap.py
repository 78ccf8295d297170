# SPDX-License-Identifier: MIT
"""Test Anything Protocol output, one test point a line, for meson's protocol 'tap'."""
import sys


class Tap:
    def __init__(self):
        self.number = 0
        self.failed = 0
        self.skipped = 0

    def _line(self, text):
        sys.stdout.write(text + "\n")
        sys.stdout.flush()

    def note(self, text):
        for line in str(text).splitlines():
            self._line("# " + line)

    def ok(self, name, problems=()):
        """Passed when problems is empty; each problem is a sentence shown below the point."""
        self.number += 1
        if problems:
            self.failed += 1
        self._line("%s %d - %s" % ("not ok" if problems else "ok", self.number, name.replace("#", "_")))
        for problem in problems:
            self.note("  " + str(problem))
        if problems:  # meson shows a failed test's stderr only
            print("%s:\n%s" % (name, "\n".join("  " + str(p) for p in problems)), file=sys.stderr, flush=True)

    def skip(self, name, why):
        self.number += 1
        self.skipped += 1
        self._line("ok %d - %s # SKIP %s" % (self.number, name.replace("#", "_"), why))

    def done(self):
        """Prints the plan; returns the exit status."""
        self._line("1..%d" % self.number)
        return 1 if self.failed else 0
