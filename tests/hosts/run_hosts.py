# SPDX-License-Identifier: MIT
"""
Real programs bare and under the tracker: output, errors, exit status, replies and files must be equal,
nothing may be left behind, and the state files must be sound. README.md says what is compared.

  run_hosts.py --build DIR [--all] [-k SUBSTRING] [--twice] [--list]
"""
import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import commands
import languages
import sanitizers
import servers
from ways import ALLOCATORS, Books, Trial, Skip, Way

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from tap import Tap

HOSTS = commands.HOSTS + languages.HOSTS + servers.HOSTS + sanitizers.HOSTS
ERRORS = (subprocess.SubprocessError, RuntimeError, OSError, ValueError, KeyError, IndexError)


class Tools:
    """Copies of the build's products, where any user may read them, and the directories of the runs."""

    def __init__(self, build):
        self.own_shm = bool(os.environ.get("MT_HOSTS_SHM"))
        self.work = tempfile.mkdtemp(prefix="memtrack-hosts-")
        os.chmod(self.work, 0o755)
        self.shm = tempfile.mkdtemp(prefix="memtrack-hosts-", dir="/dev/shm")
        os.chmod(self.shm, 0o755)
        self.library = os.path.join(self.work, "libmemtrack.so")
        self.memtrack = os.path.join(self.work, "memtrack")
        shutil.copy(os.path.join(build, "libmemtrack.so"), self.library)
        shutil.copy(os.path.join(build, "memtrack"), self.memtrack)

    def done(self):
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)


class Runner:
    def __init__(self, tools, options, tap):
        self.tools, self.options, self.tap = tools, options, tap

    def host(self, host):
        try:
            if self.options.modes == "check" and host in sanitizers.HOSTS:
                raise Skip("check mode does not begin beside a sanitizer")
            host.check_needs()
            template = self.prepare(host)
        except Skip as why:
            self.tap.skip(host.name, why)
            return
        bare = self.trial(host, Way("bare"), template)
        ways = [Way("bare")] if self.options.twice else [Way("preload"), Way("run")]
        if self.options.modes:
            ways = [Way("preload", mode=mode) for mode in self.options.modes.split(",")]
        for way in ways:
            self.compare(host, way, bare, template)
        if self.options.modes:
            shutil.rmtree(template)
            return
        for allocator in host.allocators(self.options.all):
            self.with_allocator(host, allocator, bare, template)
        shutil.rmtree(template)

    def prepare(self, host):
        template = os.path.join(self.tools.work, "template")
        shutil.rmtree(template, ignore_errors=True)
        os.mkdir(template, 0o755)
        host.prepare(template)
        return template

    def with_allocator(self, host, allocator, plain, template):
        name = "%s: preloaded, %s" % (host.name, allocator)
        if not os.path.exists(ALLOCATORS[allocator]):
            self.tap.skip(name, "%s is not installed" % ALLOCATORS[allocator])
            return
        bare = self.trial(host, Way("bare", allocator), template)
        if list(bare.outcome.differences(plain.outcome)):
            self.tap.skip(name, "behaves otherwise with %s alone" % allocator)
            return
        self.compare(host, Way("preload", allocator), bare, template)

    def trial(self, host, way, template):
        directory = os.path.join(self.tools.work, "host")
        shutil.rmtree(directory, ignore_errors=True)
        shutil.copytree(template, directory, symlinks=True)
        trial = Trial(self.tools, way, directory)
        began = time.monotonic()
        try:
            host.run(trial)
        except ERRORS as error:
            trial.outcome.add("error", "%s: %s" % (type(error).__name__, error))
        finally:
            trial.kill_all()
            trial.wait_for_orphans()
        trial.seconds = time.monotonic() - began
        trial.left = trial.left_behind()
        return trial

    def compare(self, host, way, bare, template):
        trial = self.trial(host, way, template)
        problems = trial.problems + list(trial.outcome.differences(bare.outcome))
        if trial.left != bare.left:
            problems.append("left behind %s, bare %s" % (trial.left, bare.left))
        if way.kind != "bare":
            problems += self.check_states(host, trial)
        self.tap.ok("%s: %s" % (host.name, way), problems[:12])
        if self.options.verbose:
            self.tap.note("%.1f s, bare %.1f s; %s" % (trial.seconds, bare.seconds, self.summary))

    def check_states(self, host, trial):
        problems = []
        books = Books(self.tools, problems)
        for path in trial.state_files():
            books.check(path)
        self.summary = "%d state files, %d allocations, %d unknown frees, %d nested" % (
            books.files, books.allocs, books.unknown, books.nested)
        if not books.files or not books.allocs:
            problems.append("nothing was recorded")
        if books.unknown and not host.unknown_frees:
            problems.append("%d frees of unknown blocks" % books.unknown)
        return problems

    summary = ""


def own_shm():
    """A /dev/shm of our own, so that everything left in it is ours; needs root."""
    if os.environ.get("MT_HOSTS_SHM") or os.getuid():
        return
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode:
        return
    script = 'mount -t tmpfs -o size=4g,mode=1777 tmpfs /dev/shm && MT_HOSTS_SHM=1 exec "$@"'
    os.execvp("unshare", ["unshare", "-m", "sh", "-c", script, "sh", sys.executable] + sys.argv)


def adopt_orphans():
    """What outlives its parent (python's fork server, say) becomes our child, so that its end can be awaited."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="meson build directory")
    parser.add_argument("--modes", help="these modes of recording (stats,sample,record,check), preloaded, instead of the usual ways")
    parser.add_argument("--all", action="store_true", help="all hosts with all allocators: minutes")
    parser.add_argument("--twice", action="store_true", help="compare bare runs with bare runs")
    parser.add_argument("--list", action="store_true", help="the hosts' names")
    parser.add_argument("-k", dest="filter", default="", help="only hosts whose name contains this")
    parser.add_argument("-v", dest="verbose", action="store_true", help="what was recorded")
    options = parser.parse_args()
    chosen = [h for h in HOSTS if options.filter in h.name and (options.all or options.filter or h.quick)]
    if options.list:
        print("\n".join(h.name for h in chosen))
        return 0
    own_shm()
    adopt_orphans()
    tap = Tap()
    tools = Tools(os.path.abspath(options.build))
    try:
        runner = Runner(tools, options, tap)
        for host in chosen:
            runner.host(host)
    finally:
        tools.done()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
