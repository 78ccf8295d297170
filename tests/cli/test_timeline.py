#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Snapshots of a run, memtrack timeline, and memtrack diff between snapshots.

usage: test_timeline.py MEMTRACK MAKE_SAMPLE SUBJECT LIBRARY|- GROWING
"""
import csv
import glob
import io
import json
import os
import pty
import re
import signal
import subprocess
import sys

from live import LIBRARY, MEMTRACK, Skip, children_of, main, needs_library, test, wait_until

GROWING = os.path.abspath(sys.argv[5])


class Growing:
    """The program under `memtrack run`, told what to do step by step."""

    def __init__(self, b, *options):
        self.b = b
        self.launcher = b.start("run", "-q", "-o", "g.mtk", *options, GROWING, stdin=subprocess.PIPE)
        self.launcher.stdout.readline()
        self.pid = children_of(self.launcher.pid)[0]
        self.taken = 0

    def do(self, text):
        self.launcher.stdin.write(text + "\n")
        self.launcher.stdin.flush()
        return self.launcher.stdout.readline()

    def timeline(self):
        done = self.b.run("timeline", str(self.pid), "--json", "--no-symbols", "--stack=0")
        return json.loads(done.stdout)["processes"][0] if not done.returncode else None

    def reasons(self):
        line = self.timeline()
        return [s["reason"] for s in line["snapshots"]] if line else []

    def snapshot(self):
        """One more, by the signal; returns when it is in the series."""
        before = len(self.reasons())
        os.kill(self.launcher.pid, signal.SIGUSR2)
        if not wait_until(lambda: len(self.reasons()) > before):
            raise ValueError("the signal took no snapshot")

    def end(self):
        _, err = self.launcher.communicate(timeout=60)
        return err


def first_taken(g):
    return wait_until(lambda: g.reasons())


def sites_by_function(line):
    found = {}
    for site in line["sites"]:
        names = [f.get("function") for f in site["frames"]]
        for name in ("leak_here", "fill_cache", "use_queue"):
            if name in names:
                found[name] = site
    return found


@needs_library
def the_leak_is_the_first_suspect_and_the_cache_is_none(b):
    g = Growing(b, "--snapshot-on=signal")
    first_taken(g)
    for _ in range(45):
        g.do("1")
        g.snapshot()
    b.expect("said", g.end(), "")
    b.expect("files", sorted(os.path.basename(p) for p in glob.glob(b.dir + "/g.*")), ["g.mtk", "g.mts"])
    done = b.run("timeline", "g.mtk", "--json")
    line = json.loads(done.stdout)["processes"][0]
    b.expect("reasons", [s["reason"] for s in line["snapshots"]], ["first"] + ["signal"] * 45 + ["last"])
    b.expect("numbers", [s["number"] for s in line["snapshots"]], list(range(1, 48)))
    b.expect("suspects", line["suspects"], 1)
    sites = sites_by_function(line)
    b.expect("the first", line["sites"][0], sites["leak_here"])
    leak, cache, queue = sites["leak_here"], sites["fill_cache"], sites["use_queue"]
    b.expect("leak", (leak["suspect"], leak["trend"]["verdict"], leak["allocs"], leak["frees"], leak["last_bytes"]),
             (True, "grows", 450, 0, 45000))
    b.expect("leak grew", (leak["trend"]["grew"], leak["trend"]["intervals"]), (45, 45))
    b.expect("cache", (cache["suspect"], cache["trend"]["verdict"], cache["last_bytes"]), (False, "levelled", 1200000))
    b.expect("queue", queue["suspect"], False)
    b.expect("live at last", line["snapshots"][-1]["live_bytes"] >= 45000 + 1200000, True)
    text = b.run("timeline", "g.mtk").stdout
    b.expect_in("head", text, "growing (pid %d): 47 snapshots over " % g.pid)
    b.expect_in("verdict", text, "1 leak suspect; ")
    b.expect_in("reason", text, "grew in 45 of 45 intervals; of 450 blocks allocated meanwhile 100.0 % were never freed; ")
    b.expect_in("cache in words", text, "no suspect: 0 B at first, 1.1 MiB at last; grew and then stays, since ")
    b.expect("the same by report", b.run("report", "g.mtk", "--show=timeline").stdout, text)
    rows = list(csv.DictReader(io.StringIO(b.run("timeline", "g.mtk", "--csv").stdout)))
    b.expect("csv", [int(r["live_bytes"]) for r in rows], [s["live_bytes"] for s in line["snapshots"]])
    b.expect("csv of what is not known", rows[-1]["rss_bytes"], "")


@needs_library
def what_is_freed_at_the_end_is_a_suspect_all_the_same(b):
    g = Growing(b, "--snapshot-on=signal")
    first_taken(g)
    g.do("tidy")
    for _ in range(45):
        g.do("1")
        g.snapshot()
    g.end()
    line = json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]
    leak = sites_by_function(line)["leak_here"]
    b.expect("reason", (line["snapshots"][-1]["reason"], line["snapshots"][-1]["live_bytes"] < 45000), ("last", True))
    b.expect("judged", (line["judged_snapshots"], len(line["snapshots"])), (46, 47))
    b.expect("leak", (line["suspects"], leak["suspect"], leak["trend"]["verdict"], leak["last_bytes"]), (1, True, "grows", 45000))
    text = b.run("timeline", "g.mtk").stdout
    b.expect_in("said", text, "; at its end the process freed 1.")
    b.expect_in("and left out", text, " MiB of it, which is left out here\n")


@needs_library
def a_leak_under_changing_labels_is_one_suspect(b):
    for how in ("program", "ctl"):
        g = Growing(b, "--snapshot-on=signal")
        first_taken(g)
        for i in range(45):
            if how == "program":
                g.do("label tenant-%d" % i)
            else:
                b.expect("ctl", b.run("ctl", "--wait=0", str(g.pid), "label=tenant-%d" % (i // 15)).returncode, 0)
            g.do("1")
            g.snapshot()
        g.end()
        line = json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]
        leak = sites_by_function(line)["leak_here"]
        b.expect(how + " suspects", (line["suspects"], leak["suspect"], leak["trend"]["verdict"]), (1, True, "grows"))
        b.expect(how + " sums", (leak["last_bytes"], leak["last_count"], leak["allocs"], leak["frees"], leak["bytes"][-1],
                                 leak["block_bytes"]), (45000, 450, 450, 0, 45000, 45000))
        b.expect(how + " labels", leak["labels"] >= (45 if how == "program" else 3), True)
        text = b.run("timeline", "g.mtk").stdout
        b.expect_in(how + " verdict", text, "1 leak suspect; ")
        b.expect_in(how + " labels told", text, "    under %d labels together, most of it under 'tenant-" % leak["labels"])
        text = b.run("diff", "g.mtk@2", "g.mtk@last", "--top=0").stdout
        b.expect_in(how + " diff", text, "    label 'tenant-2'\n")


@needs_library
def snapshots_can_be_compared(b):
    g = Growing(b, "--snapshot-on=signal")
    first_taken(g)
    g.do("10")
    g.snapshot()
    g.do("15")
    g.snapshot()
    live = json.loads(b.run("diff", "%d@2" % g.pid, "%d@3" % g.pid, "--json").stdout)
    g.end()
    for old, new in (("2", "3"), ("2", "last"), ("2", "-0s")):
        diff = json.loads(b.run("diff", "g.mtk@" + old, "g.mtk@" + new, "--json").stdout)
        b.expect("sum %s %s" % (old, new), (diff["old_bytes"] > 0, diff["bytes"]), (True, diff["new_bytes"] - diff["old_bytes"]))
        grown = {f["function"]: (row["bytes"], row["count"]) for row in diff["rows"] for f in row["frames"][:1]}
        b.expect("leak %s %s" % (old, new), grown["leak_here"], (15000, 150))
        b.expect("cache %s %s" % (old, new), grown["fill_cache"], (600000, 600))
    b.expect("live", [r["bytes"] for r in live["rows"]], [r["bytes"] for r in diff["rows"]])
    now = json.loads(b.run("diff", "g.mtk@first", "g.mtk", "--json", "--no-builtin-suppressions").stdout)
    total = json.loads(b.run("report", "g.mtk", "--json", "--no-builtin-suppressions").stdout)
    b.expect("against the file", now["new_bytes"], total["live_bytes"])
    grouped = json.loads(b.run("diff", "g.mtk@2", "g.mtk@3", "--json", "--by=function").stdout)
    b.expect("by function", {r["function"]: r["bytes"] for r in grouped["rows"]}["leak_here"], 15000)
    b.fails(1, "'g.mts' has no snapshot 77: they go from first to 4, with gaps where some were thinned out; the nearest "
            "is 4", "diff", "g.mtk@77", "g.mtk")
    for when in ("999s", "-999s"):
        done = b.run("diff", "g.mtk@" + when, "g.mtk")
        b.expect(when, (done.returncode, done.stdout), (1, ""))
        b.expect_in(when, done.stderr, "'g.mts' has nothing at %s: " % when)
    b.fails(1, "'soon' is no snapshot: give a number, a time since the start (90s, 2h), one before the last snapshot "
            "(-10m), first or last", "diff", "g.mtk@soon", "g.mtk")
    for option in ("--show=peak", "--show=total", "--by=thread", "--by=size", "--min-age=1s"):
        b.fails(1, "of a snapshot only live blocks by site, function, module, heap or label are known, whatever their age",
                "diff", "g.mtk@2", "g.mtk", "--no-symbols", option)
    os.rename(b.dir + "/g.mtk", b.dir + "/a@2.mtk")
    b.fails(1, "'a@2.mtk' has no snapshots: there is no file 'a@2.mts'; 'memtrack run --snapshot-every=TIME' takes them",
            "diff", "a@2.mtk@2", "a@2.mtk")
    b.expect("a name with @", b.run("diff", "a@2.mtk", "a@2.mtk", "--no-symbols").returncode, 0)


@needs_library
def snapshots_are_taken_at_every_interval(b):
    g = Growing(b, "--snapshot-every=20ms", "--snapshot-on=signal")
    if not wait_until(lambda: len(g.reasons()) > 10):
        b.problems.append("few snapshots: %r" % g.reasons())
    g.snapshot()
    g.do("5")
    g.end()
    reasons = [s["reason"] for s in json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]["snapshots"]]
    b.expect("first and last", (reasons[0], reasons[-1]), ("first", "last"))
    b.expect("in between", set(reasons[1:-1]), {"interval", "signal"})
    b.expect("by signal", reasons.count("signal"), 1)


@needs_library
def rules_take_snapshots(b):
    g = Growing(b, "--snapshot-on=rss>30M", "--snapshot-on=growth>1M/20s", "--snapshot-on=pss>100G")
    first_taken(g)
    g.do("big 4")
    b.expect("growth", wait_until(lambda: g.reasons() == ["first", "growth"]), True)
    g.do("big 40")
    if not wait_until(lambda: "rss" in g.reasons()):
        b.problems.append("no snapshot for RSS: %r" % g.reasons())
    rss = [s for s in g.timeline()["snapshots"] if s["reason"] == "rss"]
    b.expect("RSS then", [s["rss_bytes"] > 30 << 20 for s in rss], [True])
    b.expect("growth that lasts", g.reasons().count("growth"), 1)
    g.end()


@needs_library
def each_process_of_a_tree_has_its_series(b):
    script = "for i in 1 2; do echo 20 | %s >/dev/null; done; exec %s" % (GROWING, GROWING)
    done = b.run("run", "-o", "%e.%p.mtk", "--report=none", "--snapshot-every=1h", "sh", "-c", script, input="big 1\n")
    b.expect("status", (done.returncode, done.stderr), (0, ""))
    states = sorted(os.path.basename(p)[:-4] for p in glob.glob(b.dir + "/growing.*.mtk"))
    b.expect("states", len(states), 3)
    for name in states:
        line = json.loads(b.run("timeline", name + ".mtk", "--json").stdout)["processes"][0]
        b.expect(name, line["snapshots"][-1]["reason"], "last")
    lasts = [json.loads(b.run("timeline", n + ".mtk", "--json").stdout)["processes"][0]["snapshots"][-1]["live_bytes"] for n in states]
    b.expect("the large one", sum(v > 1 << 20 for v in lasts), 1)


@needs_library
def a_launcher_that_is_killed_leaves_a_good_series(b):
    g = Growing(b, "--snapshot-every=10ms")
    g.do("20")
    if not wait_until(lambda: len(g.reasons()) > 5):
        raise ValueError("no snapshots")
    pid = g.pid
    os.kill(g.launcher.pid, signal.SIGKILL)
    g.launcher.wait()
    line = g.timeline()
    b.expect("readable", (len(line["snapshots"]) > 5, line["damaged_bytes"] < 4096), (True, True))
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not os.path.exists("/proc/%d" % pid) or open("/proc/%d/stat" % pid).read().split(")")[1].split()[0] == "Z")
    b.run("ps")
    b.expect("collected", sorted(os.path.basename(p) for p in glob.glob(b.dir + "/g.*")), ["g.mtk", "g.mts"])
    after = json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]
    b.expect("nothing is lost", after["snapshots"], line["snapshots"])


@needs_library
def a_full_disk_is_told_once_and_counted(b):
    script = """mount -t tmpfs -o size=20M none /dev/shm || exit 99
        mkfifo in; %s run -o g.mtk --report=none --snapshot-on=signal %s <in >out & pid=$!
        exec 9>in
        until grep -q ready out; do sleep 0.05; done
        until ls /dev/shm/*/*.mts >/dev/null 2>&1; do sleep 0.05; done
        dd if=/dev/zero of=/dev/shm/full bs=64k status=none 2>/dev/null
        dd if=/dev/zero of=/dev/shm/full2 bs=1 count=4096 status=none 2>/dev/null
        for i in $(seq 60); do kill -USR2 $pid; sleep 0.02; done
        echo 1 >&9; sleep 0.3; exec 9>&-; wait $pid; echo status $?""" % (MEMTRACK, GROWING)
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=b.dir, env=dict(b.env, TMPDIR=b.dir), timeout=60,
                          capture_output=True, text=True, check=False)
    if "not permitted" in done.stderr or "denied" in done.stderr:
        raise Skip("mount namespaces are not allowed here")
    b.expect_in("status", done.stdout, "status 0")
    said = re.findall(r"memtrack: (\d+) of (\d+) snapshots could not be stored: cannot add to '\d+.1.mts': No space left on device",
                      done.stderr)
    b.expect("told once", len(said), 1)
    line = json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]
    b.expect("counted", (str(line["lost"]), str(line["lost"] + len(line["snapshots"]))), said[0])
    b.expect_in("warned", b.run("timeline", "g.mtk").stdout, "snapshots could not be stored")


@test
def what_cannot_be_is_refused(b):
    rule = "run: --snapshot-on: '%s' is none of rss>SIZE, pss>SIZE, growth>SIZE/TIME and signal; see 'memtrack run --help'"
    for bad in ("rss>", "rss=5M", "growth>5M/", "growth>/5s", "growth>1M/0s", "usr2", ""):
        b.fails(2, rule % bad, "run", "--snapshot-on=" + bad, "true")
    b.fails(2, "run: '--snapshot-every' is too short: 10ms is the least; see 'memtrack run --help'", "run",
            "--snapshot-every=9ms", "true")
    b.fails(2, "run: --snapshot-on: 'growth>1M' lacks the time in which it grows (as growth>1M/10s); see 'memtrack run --help'",
            "run", "--snapshot-on=growth>1M", "true")
    many = ["--snapshot-on=rss>%dM" % i for i in range(9)]
    b.fails(2, "run: --snapshot-on: 'rss>8M' is one rule too many: 8 are possible; see 'memtrack run --help'", "run", *many,
            "true")
    path = os.path.join(b.dir, "sample.mtk")
    subprocess.run([sys.argv[2], path, "sample"], check=True)
    none = "no snapshots were taken: 'memtrack run --snapshot-every=TIME' takes them while a program runs"
    b.fails(1, none, "timeline", "--no-symbols", path)
    b.fails(1, none, "timeline", "--no-symbols", "--json", path)
    with open(os.path.join(b.dir, "sample.mts"), "w", encoding="ascii") as f:
        f.write("something else")
    b.fails(1, "'%s' is not a series of snapshots" % path.replace(".mtk", ".mts"), "timeline", "--no-symbols", path)


@needs_library
def series_of_others_are_refused(b):
    for name in ("a", "b"):
        b.run("run", "-q", "-o", name + ".mtk", "--snapshot-every=1h", GROWING, input="1\n")
    os.rename(b.dir + "/a.mts", b.dir + "/b.mts")
    b.fails(1, "'b.mts' holds snapshots of another process", "timeline", "--no-symbols", "b.mtk")
    b.fails(1, "'b.mts' holds snapshots of another process", "diff", "--no-symbols", "b.mtk@first", "b.mtk")


@needs_library
def two_writers_at_once_lose_nothing(b):
    """The launcher and `memtrack ctl`, several at a time."""
    g = Growing(b, "--snapshot-every=10ms")
    first_taken(g)
    controllers = [b.start("ctl", str(g.pid), "snapshot") for _ in range(12)]
    said = [c.communicate(timeout=60) for c in controllers]
    b.expect("status", [(c.returncode, err) for c, (_, err) in zip(controllers, said)], [(0, "")] * 12)
    b.expect("last word", g.end(), "")
    line = json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]
    b.expect("asked", sorted(s["number"] for s in line["snapshots"] if s["reason"] == "asked"),
             sorted(int(out.split()[-1]) for out, _ in said))
    b.expect("numbers", [s["number"] for s in line["snapshots"]], list(range(1, len(line["snapshots"]) + 1)))
    b.expect("whole", (line["lost"], line["damaged_bytes"]), (0, 0))
    b.fails(1, "cannot take a snapshot of 'g.mtk': its process has ended", "ctl", "g.mtk", "snapshot")


@needs_library
def other_modes_have_time_lines(b):
    for mode in ("sample", "stats"):
        g = Growing(b, "--mode=" + mode, "--snapshot-on=signal")
        first_taken(g)
        for _ in range(20):
            g.do("2")
            g.snapshot()
        g.end()
        line = json.loads(b.run("timeline", "g.mtk", "--json", "--no-symbols").stdout)["processes"][0]
        b.expect(mode + " usable", {s["usable"] for s in line["snapshots"]}, {True})
        b.expect(mode + " allocs", line["snapshots"][-1]["allocs"] - line["snapshots"][0]["allocs"] >= 40 * (10 + 30 + 18), True)
        b.expect(mode + " live", line["snapshots"][-1]["live_bytes"] >= 1200 * 1000 + 400 * 100, True)
        b.expect(mode + " sampled", line["sampled"], mode == "sample")
        diff = b.run("diff", "g.mtk@first", "g.mtk", "--no-symbols")
        b.expect(mode + " compared", diff.returncode, 0 if mode == "sample" else 1)
        b.expect_in(mode, diff.stdout + diff.stderr, "note: of a snapshot only sums are known: " if mode == "sample" else
                    "statistics mode cannot be compared: they know the process as a whole only")
        os.remove(b.dir + "/g.mtk")
        os.remove(b.dir + "/g.mts")


def near(low, value, high, truth):
    """Whether the truth is within three times the interval: by chance it is not once in 10^8."""
    return low <= value <= high and value - 3 * (value - low) <= truth <= value + 3 * (high - value)


@needs_library
def snapshots_of_a_sampled_run_are_compared_with_their_intervals(b):
    g = Growing(b, "--mode=sample", "--interval=4K", "--snapshot-on=signal")
    first_taken(g)
    for _ in range(3):
        g.do("200")
        g.snapshot()
    live = json.loads(b.run("diff", "%d@3" % g.pid, str(g.pid), "--json", "--no-builtin-suppressions").stdout)
    g.do("200")
    g.snapshot()
    g.end()
    widths = {}
    for old, new, ticks in (("2", "3", 200), ("3", "2", -200), ("2", "5", 600), ("first", "last", 800), ("2", "", 600)):
        name = old + " " + new
        diff = json.loads(b.run("diff", "g.mtk@" + old, "g.mtk@" + new if new else "g.mtk", "--json", "--no-builtin-suppressions").stdout)
        rows = {row["frames"][0]["function"]: row for row in diff["rows"]}
        leak = rows["leak_here"]
        for what, truth in (("bytes", ticks * 1000), ("count", ticks * 10)):
            if not near(leak[what + "_low"], leak[what], leak[what + "_high"], truth):
                b.problems.append("%s: %s %r, were %d" % (name, what, leak, truth))
        widths[name] = leak["bytes_high"] - leak["bytes_low"]
        if not near(diff["bytes_low"], diff["bytes"], diff["bytes_high"], diff["bytes"]):
            b.problems.append("%s: sum %r" % (name, diff))
    # what was there before does not count: as wide as 200 ticks are, not as the 600 that are live
    b.expect("narrow", widths["2 3"] < 1.7 * 4 * (4096 * 200000) ** 0.5, True)
    b.expect("backwards", widths["2 3"] / widths["3 2"], 1)
    b.expect("against the end", round(widths["2 5"] / widths["2 "], 3), 1)
    grown = [r for r in live["rows"] if r["frames"][0]["function"] == "leak_here"][0]
    b.expect("a live one", near(grown["bytes_low"], grown["bytes"], grown["bytes_high"], 200000), True)
    text = b.run("diff", "g.mtk@2", "g.mtk@3").stdout
    b.expect_in("text", text, "note: of a snapshot only sums are known: blocks that came and went since the other state may make the "
                "ranges wider than need be, never narrower\n")
    b.expect_in("samples of then", text, "in usable bytes: what the allocator gave")
    line = json.loads(b.run("timeline", "g.mtk", "--json").stdout)["processes"][0]
    leak = sites_by_function(line)["leak_here"]
    e, grown = leak["estimate"], leak["growth"]
    b.expect("timeline", (near(e["bytes_low"], leak["last_bytes"], e["bytes_high"], 800000),
                          near(grown["bytes_low"], leak["last_bytes"] - leak["first_bytes"], grown["bytes_high"], 800000)), (True, True))
    text = b.run("timeline", "g.mtk").stdout
    b.expect_in("note", text, "estimates from samples; in brackets: the ranges that hold the truth in 95 of 100 runs\n")
    b.expect("in words", bool(re.search(r" KiB at last \(95 %: \d+ KiB to [\d.]+ [KM]iB, growth \+\d+ KiB to \+[\d.]+ [KM]iB\); ", text)), True)


@needs_library
def what_an_older_tracker_does_not_tell_is_not_made_up(b):
    g = Growing(b, "--mode=sample", "--interval=4K", "--snapshot-on=signal")
    first_taken(g)
    g.do("50")
    g.snapshot()
    states = glob.glob(os.path.join(b.env.get("MEMTRACK_STATE_DIR", "/dev/shm"), "**", "%d.1.mtk" % g.pid), recursive=True)
    with open(states[0], "r+b") as f: # its minor version: without the variances of what was freed
        f.seek(10)
        f.write(b"\2\0")
    g.snapshot()
    g.end()
    b.fails(1, "this snapshot of a sampled run cannot be compared: an older memtrack took it or tracked the program, and it does not "
            "tell how sure its estimates are; compare two state files, or see 'memtrack timeline'", "diff", "--no-symbols", "g.mtk@2", "g.mtk@3")
    b.expect_in("said", b.run("timeline", "g.mtk").stdout, "estimates from samples; how sure they are the snapshots do not tell\n")


@test
def diff_tells_beforehand_which_snapshots_it_refuses(b):
    b.expect_in("help", " ".join(b.run("diff", "--help").stdout.split()),
                "Snapshots in statistics mode, which know no call sites, cannot be compared, nor those of a sampled run that an older "
                "memtrack took.")


@needs_library
def few_snapshots_are_not_judged(b):
    b.run("run", "-q", "-o", "g.mtk", "--snapshot-every=1h", GROWING, input="50\n")
    text = b.run("timeline", "g.mtk").stdout
    b.expect_in("said", text, "not enough data: ")
    b.expect_in("no verdict", text, "too few snapshots to tell leaks; ")


@needs_library
def a_terminal_gets_lines_of_blocks(b):
    g = Growing(b, "--snapshot-on=signal")
    first_taken(g)
    for _ in range(3):
        g.do("1")
        g.snapshot()
    g.end()
    for charset, letters in (("C.UTF-8", "▁█"), ("C", "_#")):
        master, slave = pty.openpty()
        process = subprocess.Popen([MEMTRACK, "timeline", "g.mtk"], cwd=b.dir, env=dict(b.env, LC_ALL=charset, NO_COLOR="1"),
                                   stdout=slave, stderr=subprocess.DEVNULL)
        os.close(slave)
        text = b""
        while True:
            try:
                part = os.read(master, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        process.wait()
        os.close(master)
        lines = [line for line in text.decode().split("\r\n") if line.startswith("  live  ")]
        b.expect(charset, [line[8] == letters[0] and letters[1] in line for line in lines], [True])


if __name__ == "__main__":
    if LIBRARY != "-" and not os.path.exists(LIBRARY):
        sys.exit("no such file: " + LIBRARY)
    sys.exit(main())
