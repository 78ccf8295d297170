#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Recordings of real programs and of traffic.c, compared with the state files beside them, whose counters never
miss an event, and replayed.

  run_recording.py --build DIR [-k WORD] [-v]
"""
import csv
import glob
import io
import json
import os
import re
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
import cases
from cases import Skip, test

TIMEOUT_S = 120
BYTES_AN_EVENT = 1.2 # on disk; for recordings that are long enough
ENOUGH_EVENTS = 100000
ALLOCATORS = ("libc.so.6", "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")
SAME = ("total_alloc", "total_alloc_bytes", "total_free", "total_free_bytes", "live_count", "live_bytes",
        "leak_sites", "leak_count", "leak_bytes", "temporaries", "reallocs", "top_leak_sites")


def ungroup(text):
    """Numbers in sentences are grouped: 1,234."""
    return re.sub(r"(?<=\d),(?=\d{3})", "", text)


class Bench:
    """A directory of its own for each test."""

    def __init__(self, build):
        self.build = build
        self.memtrack = build + "/memtrack"
        self.traffic = build + "/tests/recording/traffic"
        self.dir = tempfile.mkdtemp(prefix="memtrack-recording-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACK") and k != "LD_PRELOAD"}
        self.env["MEMTRACK_LIB"] = build + "/libmemtrack.so"
        self.problems = []
        self.notes = []

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def run(self, *args, **more):
        more.setdefault("env", self.env)
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([self.memtrack, *args], cwd=self.dir, capture_output=True, text=True,
                              errors="replace", timeout=TIMEOUT_S, check=False, **more)

    def record(self, *program, options=(), status=0, **more):
        done = self.run("run", "-q", "--mode=record", *options, "--", *program, **more)
        if done.returncode != status:
            self.problems.append("%s: status %d: %s" % (program[0], done.returncode, done.stderr[-500:]))
        return done

    def start(self, *args, **more):
        more.setdefault("env", self.env)
        return subprocess.Popen([self.memtrack, *args], cwd=self.dir, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def find(self, pattern):
        return sorted(glob.glob(os.path.join(self.dir, pattern)))

    def one(self, pattern):
        found = self.find(pattern)
        if len(found) != 1:
            self.problems.append("%s: %d files, not one: %s" % (pattern, len(found), os.listdir(self.dir)))
            raise IndexError(pattern)
        return found[0]

    def report(self, path, *args):
        done = self.run("report", path, "--json", "--no-symbols", "--no-builtin-suppressions", *args)
        if done.returncode:
            self.problems.append("report %s: %s" % (os.path.basename(path), done.stderr))
            return {}
        document = json.loads(done.stdout)
        document["warnings"] = [ungroup(warning) for warning in document["warnings"]]
        return document

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %r, expected %r" % (what, got, wanted))

    def compare(self, name, end, state):
        """Everything but peaks, which the state file knows within a bound when there are threads."""
        for key in SAME:
            if leave_peaks(end[key]) != leave_peaks(state[key]):
                self.problems.append("%s: %s: %.300r, by the state file %.300r" % (name, key, end[key], state[key]))

    def check(self, recording):
        """The recording tells the same as the state file; its report."""
        name = os.path.basename(recording)
        state = self.report(recording[:-1] + "k")
        end = self.report(recording, "--at=end")
        peak = self.report(recording, "--at=peak")
        if not (state and end and peak):
            return end
        self.expect(name + ": warnings", end["warnings"], state["warnings"])
        self.compare(name, end, state)
        if abs(end["peak_bytes"] - state["peak_bytes"]) > state["peak_bound_bytes"]:
            self.problems.append("%s: peak %d, by the state file %d within %d" % (
                name, end["peak_bytes"], state["peak_bytes"], state["peak_bound_bytes"]))
        self.expect(name + ": live at the peak", peak["live_bytes"], end["peak_bytes"])
        self.expect(name + ": bound of the peak", end["peak_bound_bytes"], 0)
        return end

    def check_size(self, recording, end):
        """Of a real program: traffic.c is as random as can be."""
        events = end["total_alloc"] + end["total_free"]
        size = os.path.getsize(recording)
        self.notes.append("%s: %d events, %.3f bytes each" % (os.path.basename(recording), events, size / events))
        if events >= ENOUGH_EVENTS and size > events * BYTES_AN_EVENT:
            self.problems.append("%d bytes for %d events" % (size, events))

    def replay(self, recording, peak):
        """The same calls with every allocator that there is."""
        libraries = ["--allocator=" + path for name in ALLOCATORS
                     for path in glob.glob("/lib/x86_64-linux-gnu/" + name) + glob.glob("/lib/aarch64-linux-gnu/" + name)]
        done = self.run("replay", recording, "--json", *libraries)
        if done.returncode:
            self.problems.append("replay: " + done.stderr)
            return
        got = json.loads(done.stdout)
        self.expect("allocators", len(got["allocators"]), max(1, len(libraries)))
        for one in got["allocators"]:
            self.expect(os.path.basename(one["library"]) + ": peak", one["peak_bytes"], peak)
            self.expect(os.path.basename(one["library"]) + ": refused", one["refused"], 0)
            if one["peak_rss_bytes"] < peak / 2:
                self.problems.append("%s: RSS of %d bytes for %d" % (one["library"], one["peak_rss_bytes"], peak))
        self.notes.append(", ".join("%s %.0f ms %.1f MiB" % (
            os.path.basename(one["library"]), one["time_ns"] / 1e6, one["peak_rss_bytes"] / 2**20)
            for one in got["allocators"]))

    def program(self, *program, **more):
        if not shutil.which(program[0]):
            raise Skip(program[0] + " is not installed")
        self.record(shutil.which(program[0]), *program[1:], **more)

    def check_and_replay(self, pattern):
        recording = self.one(pattern)
        end = self.check(recording)
        if end:
            self.replay(recording, end["peak_bytes"])
        return recording, end


def leave_peaks(value):
    if isinstance(value, list):
        return [{k: v for k, v in row.items() if "peak" not in k} for row in value]
    return value


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


def wait_until(condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


# ---- programs ----

@test
def sqlite3_is_recorded_and_replayed(b):
    b.program("sqlite3", ":memory:", "create table t(a, b); with recursive c(x) as (select 1 union all select x+1 from c "
              "where x < 8000) insert into t select x, hex(x * 7919) from c; create index i on t(b); "
              "select count(*) from t where b like '%AA%'; delete from t where a % 3 = 0; select sum(length(b)) from t;")
    b.check_size(*b.check_and_replay("*sqlite3*.mtr"))


@test
def python3_is_recorded_and_replayed(b):
    env = dict(b.env, PYTHONMALLOC="malloc", PYTHONHASHSEED="1")
    python = subprocess.run(["python3", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True,
                            check=True).stdout.strip()
    b.record(python, "-S", "-c", "import json; d = [{'a': i, 'b': str(i) * 3} for i in range(15000)]; "
             "e = json.loads(json.dumps(d)); print(len(e))", env=env)
    b.check_size(*b.check_and_replay("*python3*.mtr"))


@test
def clang_is_recorded_and_replayed(b):
    source = os.path.join(b.dir, "source.c")
    with open(source, "w", encoding="ascii") as f:
        for i in range(400):
            f.write("struct s%d { int a, b[%d]; };\nint f%d(struct s%d *s, int n) { int t = 0; for (int i = 0; i < n; i++) "
                    "t += s[i].a * s[i].b[i %% %d]; return t + %d; }\n" % (i, i + 1, i, i, i + 1, i * 7))
    b.program("clang", "-cc1", "-O1", "-S", source, "-o", "/dev/null")
    b.check_size(*b.check_and_replay("*clang*.mtr"))


# ---- traffic ----

@test
def one_thread_is_exact(b):
    b.record(b.traffic, "plain", "100000")
    recording = b.one("*.mtr")
    end = b.check(recording)
    b.expect("peak", end["peak_bytes"], b.report(recording[:-1] + "k")["peak_bytes"])
    b.replay(recording, end["peak_bytes"])
    # the end is not before the program has been looked at: half of the time may be behind the last allocation
    for part in range(1, 11):
        past = b.report(recording, "--at=%dns" % (end["duration_ns"] >> part))
        if past["total_alloc"] < end["total_alloc"]:
            break
    if not 0 < past["total_alloc"] < end["total_alloc"] or past["peak_bytes"] > end["peak_bytes"]:
        b.problems.append("on the way: %d of %d allocations" % (past["total_alloc"], end["total_alloc"]))
    if "was running when this snapshot was taken" not in b.run("report", recording, "--at=peak").stdout:
        b.problems.append("the report does not say that it is of a moment")
    late = b.run("report", recording, "--at=999s")
    b.expect("after the end", (late.returncode, late.stdout), (1, ""))
    if "has nothing at 999.000 s: it lasts from 0 to %d." % (end["duration_ns"] // 10**9) not in late.stderr:
        b.problems.append(late.stderr)
    b.expect("before the start", b.report(recording, "--at=0")["live_bytes"] <= end["peak_bytes"], True)


@test
def threads_that_free_each_others_blocks_are_exact(b):
    b.record(b.traffic, "threads", "20000")
    b.check_and_replay("*.mtr")


@test
def activity_of_threads_adds_up(b):
    b.record(b.traffic, "threads", "100000")
    recording = b.one("*.mtr")
    end = b.report(recording, "--at=end")
    for args in ([], ["--step=2ms"]):
        done = b.run("export", recording, "--format=activity", *args)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        sums = {key: sum(int(row[key]) for row in rows) for key in ("allocs", "bytes", "frees", "freed_bytes")}
        b.expect("sums", list(sums.values()), [end["total_alloc"], end["total_alloc_bytes"], end["total_free"],
                                               end["total_free_bytes"]])
        b.expect("live", int(rows[-1]["process_live_bytes"]), end["live_bytes"])
        b.expect("threads", len({row["tid"] for row in rows}), 5)
        times = [int(row["begin_ns"]) for row in rows]
        b.expect("order", times, sorted(times))
        if len(set(times)) < 4:
            b.problems.append("%d steps" % len(set(times)))


@test
def every_function_is_replayed_and_exported(b):
    b.record(b.traffic, "kinds", "500")
    b.check_and_replay("*.mtr")
    recording = b.one("*.mtr")
    done = b.run("export", recording, "--format=record_allocs")
    lines = done.stdout.splitlines()
    counts = {}
    live = {}
    peak = now = 0
    for line in lines:
        tid, what, pointer, *rest = line.replace(":", "").split()
        counts[what] = counts.get(what, 0) + 1
        if what == "free":
            now -= live.pop(pointer)
            continue
        if what == "thread_done":
            continue
        if what == "realloc" and rest[0] != "0x0":
            now -= live.pop(rest[0])
        if pointer in live:
            b.problems.append("twice: " + line)
        sizes = [int(n, 0) for n in rest[:-2]]
        live[pointer] = sizes[0] * sizes[1] if what == "calloc" else sizes[-1]
        if what == "memalign" and int(pointer, 16) % sizes[0]:
            b.problems.append("not aligned: " + line)
        now += live[pointer]
        peak = max(peak, now)
        if len({*rest[-2:]}) != 1 or not tid.isdigit():
            b.problems.append("times: " + line)
    end = b.report(recording, "--at=end")
    b.expect("live", (len(live), now, peak), (end["live_count"], end["live_bytes"], end["peak_bytes"]))
    with open(os.path.join(b.dir, "allocs.txt"), "w", encoding="ascii") as file:
        file.write(done.stdout)
    sums = json.loads(b.run("view", "--json", "allocs.txt").stdout)
    b.expect("sums", (sums["lines"], sums["live_bytes"], sums["peak_bytes"], sums["lost_blocks"], sums["unknown_frees"]),
             (len(lines), now, peak, 0, 0))
    for what, least in {"calloc": 500, "memalign": 2000, "realloc": 1500, "malloc": 1000, "free": 3500}.items():
        if counts.get(what, 0) < least:
            b.problems.append("%d lines of %s" % (counts.get(what, 0), what))


@test
def children_have_recordings_of_their_own(b):
    b.record(b.traffic, "forks", "24")
    found = b.find("*.mtr")
    b.expect("recordings", len(found), 25)
    b.expect("hidden ones", b.find(".*.mtr"), [])
    for recording in found:
        b.check(recording)


# ---- accidents ----

@test
def a_killed_program_loses_nothing(b):
    b.record(b.traffic, "killed", "60000", status=-signal.SIGKILL)
    b.check(b.one("*.mtr"))


@test
def a_killed_launcher_loses_nothing(b):
    p = b.start("run", "-q", "--mode=record", "--", b.traffic, "slow", "20000")
    b.expect("ready", p.stdout.readline(), "ready\n")
    p.kill()
    p.wait()
    p.stdin.write("abcdefgh") # the program goes on, and writes by itself when the buffers are full
    p.stdin.close()
    p.stdout.read()
    wait_until(lambda: b.run("ps").returncode == 0 and b.find("*.mtr"))
    b.check(b.one("*.mtr"))
    b.expect("hidden ones", b.find(".*.mtr"), [])


@test
def without_a_launcher_the_program_writes_by_itself(b):
    env = dict(b.env, LD_PRELOAD=b.env["MEMTRACK_LIB"], MEMTRACK_MODE="record", MEMTRACK_DIR=b.dir)
    subprocess.run([b.traffic, "threads", "60000"], env=env, cwd=b.dir, check=True, timeout=TIMEOUT_S)
    b.expect("hidden ones", len(b.find(".*.mtr")), 1)
    wait_until(lambda: b.run("ps").returncode == 0 and b.find("*.mtr"))
    recording = b.one("*.mtr")
    b.expect("hidden ones", b.find(".*.mtr"), [])
    # the program does not compress; what is collected at the end is
    end = b.report(recording, "--at=end")
    b.expect("warnings", end["warnings"], [])
    b.compare("collected", end, b.report(recording[:-1] + "k"))


@test
def a_limit_holds_without_a_launcher(b):
    for kib in (64, 200):
        env = dict(b.env, LD_PRELOAD=b.env["MEMTRACK_LIB"], MEMTRACK_MODE="record", MEMTRACK_DIR=b.dir,
                   MEMTRACK_OPTIONS="record-limit=%dK" % kib)
        subprocess.run([b.traffic, "plain", "100000"], env=env, cwd=b.dir, check=True, timeout=TIMEOUT_S)
        written = os.path.getsize(b.one(".*.mtr")) if b.find(".*.mtr") else 0
        wait_until(lambda: b.run("ps").returncode == 0 and b.find("*.mtr"))
        recording = b.one("*.mtr")
        size = os.path.getsize(recording)
        b.expect("%dK: in bounds: %d, %d" % (kib, written, size), max(written, size) <= kib * 1024, True)
        losses(b, recording)
        for path in b.find("*.mt?"):
            os.unlink(path)


def losses(b, recording):
    """Sentence of the report, allocations and frees that are missing, of how many."""
    end = b.report(recording, "--at=end")
    text = [w for w in end["warnings"] if w.startswith("the recording lacks")]
    if len(text) != 1:
        b.problems.append("no loss is told: %r" % end["warnings"])
        return [0, 0, 0, 0]
    numbers = [int(word) for word in text[0].replace(":", "").split() if word.isdigit()]
    state = b.report(recording[:-1] + "k")
    b.expect("all", (numbers[1], numbers[3]), (state["total_alloc"], state["total_free"]))
    b.expect("missing", (numbers[1] - end["total_alloc"], numbers[0]), (numbers[0], numbers[0]))
    return numbers


def told_beside(b, recording, numbers, why):
    """The report on the state file says what its recording lacks, with the same numbers."""
    sentence = "the recording beside this state lacks %d of %d allocations and %d of %d frees, as %s; this report " \
        "counts them all" % (*numbers, why)
    b.expect("told", [w for w in b.report(recording[:-1] + "k")["warnings"] if "recording" in w], [sentence])
    for show in ("leaks", "coverage"):
        text = b.run("report", recording[:-1] + "k", "--no-symbols", "--show=" + show).stdout
        b.expect(show, "warning: " + sentence in ungroup(text), True)
    dropped = [w for w in b.report(recording, "--at=end")["warnings"] if "could not keep up" in w]
    b.expect("the writer is blamed", len(dropped), int("keep up" in why))


@test
def a_slow_writer_costs_events_which_are_counted(b):
    p = b.start("run", "-q", "--mode=record", "--record-buffers=256K", "--", b.traffic, "slow", "30000")
    b.expect("ready", p.stdout.readline(), "ready\n")
    p.send_signal(signal.SIGSTOP)
    p.stdin.write("abcdefghijklmnopqrstuvwx") # one round of events each
    p.stdin.flush()
    time.sleep(0.5)
    p.send_signal(signal.SIGCONT)
    p.stdin.close()
    p.stdout.read()
    p.wait()
    missing = losses(b, b.one("*.mtr"))
    if not missing[0]:
        b.problems.append("nothing was lost")
    told_beside(b, b.one("*.mtr"), missing, "the writer could not keep up")
    b.expect("replay", b.run("replay", b.one("*.mtr")).returncode, 0)


@test
def a_program_that_waits_loses_nothing(b):
    p = b.start("run", "-q", "--mode=record", "--record-buffers=256K", "--on-full=wait:60s", "--", b.traffic, "slow",
                "30000")
    b.expect("ready", p.stdout.readline(), "ready\n")
    p.send_signal(signal.SIGSTOP)
    p.stdin.write("abcdefghijkl")
    p.stdin.flush()
    time.sleep(0.5)
    p.send_signal(signal.SIGCONT)
    p.stdin.close()
    p.stdout.read()
    p.wait()
    b.check(b.one("*.mtr"))


@test
def a_limit_ends_the_recording_and_is_told(b):
    b.record(b.traffic, "plain", "400000", options=["--record-limit=200K"])
    recording = b.one("*.mtr")
    if os.path.getsize(recording) > 200 * 1024:
        b.problems.append("%d bytes" % os.path.getsize(recording))
    told_beside(b, recording, losses(b, recording), "it reached its size limit")
    warnings = b.report(recording, "--at=end")["warnings"]
    b.expect("limit told", "the recording reached its size limit" in warnings, True)


LIVE = ("live_count", "live_bytes", "leak_count", "leak_bytes", "leak_sites")


def compare_live(b, recording):
    """A recording without its begin still knows what is live."""
    state, end = b.report(recording[:-1] + "k"), b.report(recording, "--at=end")
    for key in LIVE:
        b.expect(key, end[key], state[key])
    for row, wanted in zip(end["top_leak_sites"], state["top_leak_sites"]):
        b.expect("site", [row[k] for k in ("callstack_hash", "live_count", "live_bytes")],
                 [wanted[k] for k in ("callstack_hash", "live_count", "live_bytes")])
    told = [w for w in end["warnings"] if w.startswith("the recording begins later than the program")]
    b.expect("told", len(told), 1)
    if end["total_alloc"] >= state["total_alloc"]:
        b.problems.append("nothing was cut: %d allocations" % end["total_alloc"])
    b.replay(recording, end["peak_bytes"])


@test
def at_a_limit_the_begin_may_give_way(b):
    p = b.start("run", "-q", "--mode=record", "--record-limit=600K", "--record-keep=last", "--", b.traffic, "slow", "50000")
    b.expect("ready", p.stdout.readline(), "ready\n")
    for c in "abcdefghijklmnop":
        p.stdin.write(c)
        p.stdin.flush()
        time.sleep(0.05)
    p.stdin.close()
    p.stdout.read()
    p.wait()
    recording = b.one("*.mtr")
    compare_live(b, recording)
    with open(recording, "rb") as f:
        f.seek(64)
        if not struct.unpack("<Q", f.read(8))[0]:
            b.problems.append("no block gave way")
    if os.path.getsize(recording) > 600 * 1024:
        b.problems.append("%d bytes" % os.path.getsize(recording))
    done = b.run("report", "--at=1us", recording)
    b.expect("before what is left", (done.returncode, done.stdout, "its begin gave way" in done.stderr), (1, "", True))


def largest_of_recordings(b, p):
    """Of all files that are there at one time, while the program runs."""
    most = looks = 0
    while p.poll() is None:
        now = 0
        with os.scandir(b.dir) as entries:
            for entry in entries:
                if ".mtr" in entry.name:
                    try:
                        now += entry.stat().st_size
                    except FileNotFoundError:
                        pass
        most = max(most, now)
        looks += 1
        time.sleep(0.0005)
    return most, looks


@test
def a_limit_is_a_bound_whatever_is_kept(b):
    for kib in (64, 256, 1024):
        limit = kib * 1024
        p = b.start("run", "-q", "--mode=record", "--record-limit=%dK" % kib, "--record-keep=last", "--on-full=wait:60s", "--",
                    b.traffic, "plain", "400000")
        most, looks = largest_of_recordings(b, p)
        b.expect("status", (p.returncode, p.stderr.read(), looks > 10), (0, "", True))
        recording = b.one("*.mtr")
        size = os.path.getsize(recording)
        b.notes.append("%dK: %d bytes, at most %d of %d looks" % (kib, size, most, looks))
        b.expect("%dK: in bounds: %d, at most %d" % (kib, size, most), max(size, most) <= limit, True)
        state, end = b.report(recording[:-1] + "k"), b.report(recording, "--at=end")
        told = " ".join(end["warnings"])
        b.expect("%dK: something is left, and something gave way" % kib,
                 (end["total_alloc"] > 0, end["total_alloc"] < state["total_alloc"]), (True, True))
        counted = [int(n) for n in re.findall(r"(\d+) of %d allocations" % state["total_alloc"], told)]
        b.expect("%dK: told and counted: %s" % (kib, told), ("begin gave way" in told, len(counted),
                 all(0 < n < state["total_alloc"] for n in counted)), (True, 1, True))
        if "there was no room for their list" in told:
            b.expect("%dK: listed" % kib, kib == 64 and end["live_bytes"] < state["live_bytes"], True)
        else:
            for key in LIVE:
                b.expect("%dK: %s" % (kib, key), end[key], state[key])
        b.expect("%dK: replay" % kib, b.run("replay", recording).returncode, 0)
        for path in b.find("*.mt?"):
            os.unlink(path)


@test
def recording_may_begin_while_the_program_runs(b):
    p = b.start("run", "-q", "--", b.traffic, "slow", "20000")
    b.expect("ready", p.stdout.readline(), "ready\n")
    pid = children_of(p.pid)
    done = b.run("ctl", str(pid[0]), "mode=record", "--wait=1ms")
    b.expect("ctl", (done.returncode, "not taken" in done.stderr), (1, True))  # its next event is the first
    p.stdin.write("ab")
    p.stdin.flush()
    time.sleep(0.3)
    done = b.run("ctl", str(pid[0]), "mode=record", "--wait=0")
    b.expect("ctl again", done.returncode, 0)
    p.stdin.write("cdef")
    p.stdin.close()
    p.stdout.read()
    p.wait()
    compare_live(b, b.one("*.mtr"))


@test
def a_pause_of_the_recording_is_told(b):
    p = b.start("run", "-q", "--", b.traffic, "slow", "20000")
    b.expect("ready", p.stdout.readline(), "ready\n")
    pid = str(children_of(p.pid)[0])
    for mode in ("record", "full", "record"): # each is taken over with the events behind it
        b.run("ctl", pid, "mode=" + mode, "--wait=1ms")
        p.stdin.write("ab")
        p.stdin.flush()
        time.sleep(0.2)
        b.run("ctl", pid, "mode=" + mode, "--wait=1ms")
    p.stdin.close()
    p.stdout.read()
    p.wait()
    warnings = b.report(b.one("*.mtr"), "--at=end")["warnings"]
    b.expect("told", len([w for w in warnings if w.endswith("events are missing in between")]), 1)


@test
def what_another_mode_counts_is_in_no_moment_of_the_recording(b):
    for mode in ("sample", "stats"):
        p = b.start("run", "-q", "-o", mode + ".mtk", "--mode=record", "--", b.traffic, "slow", "20000")
        b.expect("ready", p.stdout.readline(), "ready\n")
        b.run("ctl", str(children_of(p.pid)[0]), "mode=" + mode, "interval=64K", "--wait=1ms")
        p.stdin.write("abcd")
        p.stdin.close()
        p.stdout.read()
        p.wait()
        state = b.report(mode + ".mtk")
        b.expect(mode + ": counted in the state", state["usable_allocs"], 80000)
        for when in ("end", "peak", "1ms"):
            past = b.report(mode + ".mtk", "--at=" + when)
            what = "%s at %s" % (mode, when)
            b.expect(what + ": sampled or counted", [k for k in ("sampling", "usable_allocs") if past.get(k)], [])
            b.expect(what + ": estimates", [s for s in past["top_leak_sites"] if "estimate" in s], [])
            b.expect(what + ": allocations", past["total_alloc"] > 20001, False)
            sizes = json.loads(b.run("report", mode + ".mtk", "--at=" + when, "--show=sizes", "--json").stdout)
            b.expect(what + ": sizes", sum(s["allocs"] for s in sizes["sizes"]), past["total_alloc"])
            told = " ".join(past["warnings"])
            b.expect(what + ": told", "80000 allocations and " in told and "left out" in told, True)
            b.expect(what + ": no estimate is a count", re.findall(r"lacks (\d+ of \d+) allocations", told), ["0 of 20001"])
        b.expect(mode + ": changes", [c["what"] for c in past.get("changes", [])], [])


@test
def a_full_disk_keeps_the_state_and_is_told(b):
    """Where a file system can be mounted: in a name space of its own."""
    small = os.path.join(b.dir, "small")
    os.mkdir(small)
    script = ("mount -t tmpfs -o size=256k none small && cd small && head -c 200000 /dev/zero > rest && "
              "%s run --report=none --mode=record -o %%e.%%p.mtk -- %s plain 400000; echo status $?; ls; rm rest; "
              "umount -l . ; true" % (b.memtrack, b.traffic))
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=b.dir, env=b.env, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    if "status" not in done.stdout:
        raise Skip("cannot mount: " + done.stderr.strip()[-100:])
    b.expect("status", "status 1" in done.stdout, True)
    if "stays in" not in done.stderr or "No space left" not in done.stderr:
        b.problems.append("not told: " + done.stderr)
    b.expect("nothing half done", [n for n in done.stdout.split() if n.endswith((".mtk", ".mtr"))], [])
    # there is room again elsewhere: nothing was lost
    kept = done.stderr.split("stays in '")[-1].split("'")[0]
    shutil.rmtree(os.path.dirname(kept), ignore_errors=True)


@test
def damage_is_told_and_costs_its_blocks_only(b):
    b.record(b.traffic, "plain", "200000")
    recording = b.one("*.mtr")
    size = os.path.getsize(recording)
    with open(recording, "r+b") as f:
        f.seek(size // 2)
        f.write(b"damage" * 20)
    losses(b, recording)
    with open(recording, "r+b") as f:
        f.truncate(size // 3)
    losses(b, recording)
    b.expect("replay", b.run("replay", recording).returncode, 0)


@test
def files_that_do_not_belong_together_are_refused(b):
    b.record(b.traffic, "plain", "100")
    recording = b.one("*.mtr")
    with open(recording, "r+b") as f:
        f.seek(20)
        f.write(struct.pack("<i", 1))
    for args in (["report", recording, "--at=peak"], ["replay", recording], ["export", recording, "--format=record_allocs"]):
        done = b.run(*args)
        b.expect(args[0], done.returncode, 1)
        if "of another process" not in done.stderr:
            b.problems.append(args[0] + ": " + done.stderr)
    os.unlink(recording)
    done = b.run("replay", recording)
    if done.returncode != 1 or "No such file" not in done.stderr:
        b.problems.append("without recording: " + done.stderr)
    b.run("run", "-q", "-o", "full.mtk", "--", "true")
    done = b.run("report", "full.mtk", "--at=peak")
    if done.returncode != 1 or "was not recorded with --mode=record" not in done.stderr:
        b.problems.append("full mode: " + done.stderr)


@test
def options_are_checked(b):
    for args, sentence in ((["run", "--mode=record", "--on-full=hope", "true"], "neither drop nor wait[:TIME]"),
                           (["run", "--record-limit=1M", "true"], "--record-limit belongs to --mode=record"),
                           (["run", "--mode=record", "--record-buffers=2G", "true"], "1G at most"),
                           (["report", "--at=never", "x.mtr"], "neither a time"),
                           (["export", "x.mtr"], "--format is missing")):
        done = b.run(*args)
        if done.returncode != 2 or sentence not in done.stderr:
            b.problems.append("%s: %d %s" % (" ".join(args), done.returncode, done.stderr))
    b.record("/bin/true")
    done = b.run("replay", b.one("*.mtr"), "--allocator=libz-or-nothing.so")
    if done.returncode != 1 or "was not used" not in done.stderr:
        b.problems.append("allocator: " + done.stderr)


def main():
    parser = cases.parser(__doc__)
    parser.add_argument("-v", action="store_true", help="figures")
    options = parser.parse_args()
    return cases.run(options, lambda: Bench(os.path.abspath(options.build)), has_notes=options.v)


if __name__ == "__main__":
    sys.exit(main())
