# SPDX-License-Identifier: MIT
"""
Profiles that a program asks for, and its own changes of mode, under the real preload.

  run_profiles.py --build DIR [-k SUBSTRING]
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
from tap import Tap

BY_BYTES, BY_COUNT = 1, 2
MODE, INTERVAL, SWITCH, REFUSED = 1, 2, 4, 8


class Bench:
    def __init__(self, options, work):
        self.options, self.work, self.problems = options, work, []
        self.library = os.environ.get("MEMTRACK_LIB", os.path.join(options.build, "libmemtrack.so"))
        self.out = os.path.join(work, "out")
        self.state = None
        os.mkdir(self.out)

    def program(self, name):
        """Meson builds the one in C."""
        if name == "profiles":
            return os.path.join(self.options.build, "tests", "runtime", name)
        path = os.path.join(self.work, name)
        if not os.path.exists(path):
            subprocess.run(["c++", "-g", "-O1", "-fno-builtin", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-pthread",
                            "-I" + os.path.join(HERE, "..", "..", "include"), os.path.join(HERE, name + ".cc"),
                            "-o", path], check=True, timeout=100)
        return path

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))

    def run(self, *steps, words="profile-rate=0", program="profiles", prefix=(), tracked=True, **more):
        """The lines that the program printed; its state is kept."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_"))}
        states = tempfile.mkdtemp(dir=self.work)
        if tracked:
            env.update(MEMTRACK_STATE_DIR=states, MEMTRACK_OPTIONS=words, **more)
        steps = [step.replace("@", self.out) for step in steps]
        preload = ["env", "LD_PRELOAD=" + self.library] if tracked else []
        done = subprocess.run(list(prefix) + preload + [self.program(program)] + steps, env=env, text=True,
                              capture_output=True, timeout=100, check=False)
        self.expect("exit status", done.returncode, 0)
        self.expect("stderr", done.stderr, "")
        found = [s for s in map(mtk.State, glob.glob(os.path.join(states, "*.mtk"))) if "profiles" in s.exe]
        self.state = next((s for s in found if s.ppid == os.getpid() or len(found) == 1), None)
        return re.sub(r"memtrack-([\w-]+)-\d+-(\d+)\.mtk", r"\1-\2", done.stdout.replace(self.out, "@")).splitlines()

    def files(self):
        return sorted(glob.glob(os.path.join(self.out, "*")))

    def changes(self, *what):
        return [(c.what, c.before, c.after) for c in self.state.change if c.what in what]


def report_names_the_leak(bench, path):
    done = subprocess.run([os.path.join(bench.options.build, "memtrack"), "report", "--show=leaks", path], text=True,
                          capture_output=True, timeout=100, check=False)
    if "leak_here" not in done.stdout:
        bench.problems.append("the report does not name leak_here: %s%s" % (done.stdout[:2000], done.stderr[:500]))


def a_leak_is_sampled_and_the_callback_gets_the_file(bench):
    for program in ("profiles", "profiles_cxx"):
        lines = bench.run("start:200:4096:slow-start:@", "join", "leak:1000", program=program, words="mode=stats")
        bench.expect(program, lines, ["start", "callback NONE 0 @/slow-start-1"])
        path, = bench.files()
        bench.expect("mode of the file", os.stat(path).st_mode & 0o7777, 0o600)
        profile = mtk.State(path)
        bench.expect("mode", profile.mode, mtk.MODE_SAMPLE)
        bench.expect("regimes", [(r.kind, r.interval_bytes) for r in profile.regime[1:]], [(BY_BYTES, 4096)])
        report_names_the_leak(bench, path)
        os.unlink(path)
        bench.expect("mode afterwards", bench.state.mode, mtk.MODE_STATS)
        bench.expect("changes", bench.changes(MODE, INTERVAL, SWITCH),
                     [(MODE, 2, 3), (INTERVAL, 512 << 10, 4096), (MODE, 3, 2), (INTERVAL, 4096, 512 << 10)])


def a_snapshot_is_the_state_as_it_is(bench):
    bench.expect("lines", bench.run("leak:10", "snapshot:a_b:@", "snapshot:a_b:@"),
                 ["snapshot NONE 0 @/a_b-1", "snapshot NONE 0 @/a_b-2"])
    profile = mtk.State(bench.files()[0])
    bench.expect("mode", profile.mode, mtk.MODE_FULL)
    bench.expect("blocks", len([b for b in profile.blocks() if b.size == 1000]), 10)
    bench.expect("changes", bench.state.change, [])


def what_was_before_comes_back(bench):
    bench.run("control:off", "sample:1:64:x:@", words="mode=sample every=7 profile-rate=0")
    bench.expect("switch", [c[1:] for c in bench.changes(SWITCH)], [(1, 0), (0, 1), (1, 0)])
    bench.expect("recording", bench.state.control & 1, 0)
    bench.expect("mode", bench.state.mode, mtk.MODE_SAMPLE)
    bench.expect("regimes", [(r.kind, r.every, r.interval_bytes) for r in bench.state.regime[1:]], [(BY_COUNT, 7, 0), (BY_BYTES, 0, 64)])
    lines = bench.run("start:20000:4096:y:@", "wait:3", "control:mode=stats", "cancel:y", "join", words="mode=full")
    bench.expect("lines", lines, ["start", "control 0", "cancel 0", "callback CANCELED 0 -"])
    bench.expect("what was asked for meanwhile stays", bench.state.mode, mtk.MODE_STATS)


def the_words_of_a_controller_are_taken_at_once(bench):
    lines = bench.run("control:mode=sample+interval=64K", "control:mode=stats+jump", "control:", "control:label=a%20b",
                      "control:mode=full+reset-peak", "leak:3")
    bench.expect("lines", lines, ["control 0", "control -22", "control 0", "control 0", "control 0"])
    bench.expect("mode", bench.state.mode, mtk.MODE_FULL)
    bench.expect("label", "a b" in bench.state.label, True)
    bench.expect("refused", [bench.state.string(c[2]) for c in bench.changes(REFUSED)], ["mode=stats jump"])


def one_request_at_a_time_and_it_can_be_canceled(bench):
    lines = bench.run("cancel:x", "start:60000:4096:x:@", "wait:3", "sample:1:1:z:@", "cancel:y", "cancel:x", "join",
                      "cancel:x", "sample:1:1:z:@")
    bench.expect("lines", lines, ["cancel -2", "start", "sample IN_PROGRESS 0 -", "cancel -2", "cancel 0",
                                  "callback CANCELED 0 -", "cancel -2", "sample NONE 0 @/z-2"])
    bench.expect("mode", bench.state.mode, mtk.MODE_FULL)


def a_thread_that_dies_leaves_nothing_behind(bench):
    bench.expect("lines", bench.run("thread:@", "snapshot:after:@"), ["snapshot NONE 0 @/after-2"])
    bench.expect("mode", bench.state.mode, mtk.MODE_FULL)


def requests_are_limited_in_their_rate(bench):
    lines = bench.run("sample:1:0:a:/nonexistent", "sample:1:0:a:@", "sample:1:0:a:@", "snapshot:b:@", words="")
    bench.expect("lines", lines, ["sample FAILED 2 -", "sample NONE 0 @/a-1", "sample RATE_LIMITED 0 -",
                                  "snapshot RATE_LIMITED 0 -"])
    bench.expect("files", len(bench.files()), 1)


def bad_requests_are_refused(bench):
    bench.expect("lines", bench.run("bad"), ["1 1 left alone 1 22 1 1 1 1 1 22 -22"])
    tags = ["", "a/b", "..", "a b", "\u00e9", "t" * 65]
    for tag in tags:
        bench.expect("tag %r" % tag, bench.run("sample:1:1:%s:@" % tag), ["sample INVALID_REQUEST 22 -"])
    bench.expect("longest tag", bench.run("sample:1:1:%s:@" % ("t" * 64)), ["sample NONE 0 @/%s-1" % ("t" * 64)])
    bench.expect("no directory", bench.run("sample:1:1:a:"), ["sample INVALID_REQUEST 22 -"])
    bench.expect("no time", bench.run("sample:0:1:a:@"), ["sample INVALID_REQUEST 22 -"])
    bench.expect("changes", bench.state.change, [])


def what_cannot_be_written_is_said(bench):
    open(os.path.join(bench.work, "plain"), "w", encoding="ascii").close()
    bench.expect("a file", bench.run("sample:1:1:a:%s/plain" % bench.work), ["sample FAILED 20 -"])
    bench.expect("too long", bench.run("sample:1:1:a:/" + "d" * 1000), ["sample FAILED 36 -"])
    lines = bench.run("sample:1:1:a:/proc")
    bench.expect("not writable", lines in (["sample FAILED 13 -"], ["sample FAILED 2 -"]), True)
    bench.expect("mode", bench.state.mode, mtk.MODE_FULL)
    lines = bench.run("limit:1048576:@/limited", "leak:1")
    bench.expect("file size limit", lines, ["snapshot -27 no file"])


def a_full_disk_leaves_no_file(bench):
    disk = os.path.join(bench.work, "disk")
    os.mkdir(disk)
    mount = "mount -t tmpfs -o size=32k none '%s' && ls '%s' && " % (disk, disk)
    may = subprocess.run(["unshare", "-m", "sh", "-c", mount + "true"], capture_output=True, check=False)
    if may.returncode:
        return "a tmpfs of its own cannot be mounted here"
    script = mount + '"$@" && ls -A \'%s\'' % disk
    lines = bench.run("leak:5000", "sample:1:4096:a:" + disk, prefix=["unshare", "-m", "sh", "-c", script, "sh"])
    bench.expect("lines", lines, ["sample NO_SPACE 28 -"])
    return None


def a_forked_child_has_no_request(bench):
    lines = bench.run("start:60000:4096:x:@", "wait:3", "fork:@/child", "cancel:x", "join")
    bench.expect("lines", lines,
                 ["start", "child cancel -2 snapshot 0", "child 0", "cancel 0", "callback CANCELED 0 -"])
    child = mtk.State(os.path.join(bench.out, "child"))
    bench.expect("mode of the child", child.mode, mtk.MODE_FULL)
    bench.expect("its blocks", len([b for b in child.blocks() if b.size == 1000]), 5)


def without_tracking_it_is_unsupported(bench):
    steps = ("sample:1:1:a:@", "start:1:1:a:@", "join", "cancel:a", "control:mode=stats")
    wanted = ["sample UNSUPPORTED 38 -", "start", "callback UNSUPPORTED 38 -", "cancel -38", "control -38"]
    for program in ("profiles", "profiles_cxx"):
        bench.expect("bare", bench.run(*steps, tracked=False, program=program), wanted)
        bench.expect("off", bench.run(*steps, program=program, MEMTRACK_MODE="off"), wanted)
    bench.expect("files", bench.files(), [])


SCENARIOS = [a_leak_is_sampled_and_the_callback_gets_the_file, a_snapshot_is_the_state_as_it_is,
             what_was_before_comes_back, the_words_of_a_controller_are_taken_at_once,
             one_request_at_a_time_and_it_can_be_canceled, a_thread_that_dies_leaves_nothing_behind,
             requests_are_limited_in_their_rate, bad_requests_are_refused, what_cannot_be_written_is_said,
             a_full_disk_leaves_no_file, a_forked_child_has_no_request, without_tracking_it_is_unsupported]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap = Tap()
    for scenario in (s for s in SCENARIOS if options.k in s.__name__):
        name = scenario.__name__.replace("_", " ")
        with tempfile.TemporaryDirectory(prefix="memtrack-profiles-") as work:
            bench = Bench(options, work)
            skipped = scenario(bench)
        if skipped:
            tap.skip(name, skipped)
        else:
            tap.ok(name, bench.problems[:20])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
