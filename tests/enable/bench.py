# SPDX-License-Identifier: MIT
"""What the tests of this folder share: programs under the library, and what became of their state."""
import argparse
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

DEFAULT = "/etc/memtrack/programs.conf"
TIMEOUT = 30


def clean_environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_", "LIBC_DEBUG"))}
    env.update(more)
    return env


class Result:
    def __init__(self, pid, status, out, err):
        self.pid, self.status, self.out, self.err = pid, status, out, err

    def value(self, name):
        for line in self.out.splitlines():
            if line.startswith(name + "="):
                return line.split("=", 1)[1]
        return None


class Bench:
    """One test: a folder of its own, programs, and sentences about what was wrong."""
    def __init__(self, options, work):
        self.options, self.work, self.problems, self.started = options, work, [], []
        self.began = os.path.getmtime(work)
        self.lib = os.path.join(options.build, "libmemtrack.so")
        self.tool = os.path.join(options.build, "memtrack")
        self.subject = os.path.join(options.build, "tests", "enable", "enable_subject")
        self.static = os.path.join(options.build, "tests", "enable", "enable_static")

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %r, expected %r" % (what, got, wanted))

    def expect_in(self, what, part, text):
        if part not in text:
            self.problems.append("%s: %r is not in %r" % (what, part, text))

    def path(self, name):
        return os.path.join(self.work, name)

    def write(self, name, text, mode=0o644):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        os.chmod(path, mode)
        return path

    def start(self, argv, config=None, preload=True, env=None, **more):
        add = dict(env or {})
        if preload:
            add["LD_PRELOAD"] = self.lib
        if config:
            add["MEMTRACK_CONFIG"] = config
        p = subprocess.Popen(argv, env=clean_environment(**add), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, **more)
        self.started.append(p)
        return p

    def end(self, p):
        try:
            out, err = p.communicate("", timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            p.kill()
            out, err = p.communicate()
            self.problems.append("%s: no end after %d s" % (p.args, TIMEOUT))
        return Result(p.pid, p.returncode, out, err)

    def run(self, argv, config=None, **more):
        return self.end(self.start(argv, config, **more))

    def wait_for_line(self, p, name):
        """Reads the program's output until a line NAME=VALUE."""
        for line in p.stdout:
            if line.startswith(name + "="):
                return line.strip().split("=", 1)[1]
        self.problems.append("%s: no line '%s='" % (p.args, name))
        return None

    def files_of(self, pid):
        """Its states; not those that an earlier process with the same number left behind."""
        found = glob.glob("/dev/shm/memtrack-*/%d.*.mtk" % pid) + glob.glob("/tmp/memtrack-*/%d.*.mtk" % pid)
        return sorted(path for path in found if os.path.getmtime(path) >= self.began)

    def state_of(self, pid):
        files = self.files_of(pid)
        return mtk.State(files[0]) if files else None

    def is_tracked(self, pid):
        return bool(self.files_of(int(pid)))

    def expect_tracked(self, what, pid, wanted):
        self.expect(what + ": tracked", self.is_tracked(pid), wanted)

    def done(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
            p.communicate()
        for folder in {os.path.dirname(f) for p in self.started for f in self.files_of(p.pid)}:
            if os.path.basename(folder).startswith("memtrack-"):
                shutil.rmtree(folder, ignore_errors=True)


class Skip(Exception):
    """A test that cannot be done here, and why."""


def main(tests):
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    tap = Tap()
    for test in tests:
        name = test.__name__.replace("_", " ")
        if options.k not in test.__name__:
            continue
        with tempfile.TemporaryDirectory() as work:
            os.chmod(work, 0o755)
            bench = Bench(options, work)
            try:
                test(bench)
                tap.ok(name, bench.problems)
            except Skip as why:
                tap.skip(name, str(why))
            except (OSError, ValueError, subprocess.SubprocessError) as error:
                tap.ok(name, bench.problems + ["%s: %s" % (type(error).__name__, error)])
            finally:
                bench.done()
    return tap.done()
