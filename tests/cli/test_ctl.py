#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack ctl and ps with processes that run: what changes, what is said, and which exit status it gives.

usage: test_ctl.py MEMTRACK MAKE_SAMPLE SUBJECT LIBRARY|-
"""
import errno
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys

from live import MEMTRACK, SUBJECT, Skip, children_of, main, needs_library, test, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from control import Controller  # noqa: E402

OWNER_AT, CONTROL_AT = 368, 32


def settings(b, operand):
    """{"mode": "full", ...} as ctl shows them."""
    done = b.run("ctl", str(operand))
    b.expect("ctl %s" % operand, (done.returncode, done.stderr), (0, ""))
    return dict(re.findall(r"^  (\w+) +(.*)$", done.stdout, re.M)), done.stdout


def state_path(b, pid):
    return re.search(r"(/\S+\.mtk)$", b.run("ctl", str(pid)).stdout.splitlines()[0])[1]


def allocs(b, pid):
    """Allocations and bytes of the report's totals."""
    report = json.loads(b.run("report", "--json", "--no-symbols", str(pid)).stdout)
    return report["total_alloc"]


def row_of_ps(b, pid):
    rows = [line.split() for line in b.run("ps", "--interval=20ms").stdout.splitlines()]
    return next(row for row in rows if row[0] == str(pid))


@test
def words_are_checked_first(b):
    see = "; see 'memtrack ctl --help'"
    b.fails(2, "ctl: missing operand (FILE|PID|name:PROGRAM [WORD...])" + see, "ctl")
    b.fails(2, "ctl: 'frob' is none of on, off, mode=, interval=, intervals=, every=, modules=, label=, reset-peak, snapshot" + see,
            "ctl", "1", "frob")
    b.fails(2, "ctl: 'interval=0' cannot be: a mean distance is 1 byte (everything is recorded) to 1024G" + see, "ctl",
            "1", "on", "interval=0")
    b.fails(2, "ctl: 'mode=fast' is none of mode=full|sample|stats|record" + see, "ctl", "1", "mode=fast")
    b.fails(2, "ctl: 'modules=lib' is no list like +GLOB,-GLOB (without blanks; empty: all modules)" + see, "ctl", "1",
            "modules=lib")
    b.fails(1, "no tracked process is running for '999999999'; 'memtrack ps' lists those that are, "
            "and moves the states of those that ended to files for 'memtrack report FILE'", "ctl", "999999999", "off")
    b.fails(1, "cannot open 'x.mtk': No such file or directory", "ctl", "x.mtk")
    b.fails(1, "cannot open 'x.mtk': No such file or directory", "ctl", "x.mtk", "off")


@test
def finished_processes_are_shown_and_not_changed(b):
    b.pretended()
    os.kill(b.started[-1].pid, signal.SIGKILL)
    b.started[-1].wait()
    path = os.path.join(b.states, "live.mtk")
    found, text = settings(b, path)
    b.expect_in("head", text, "server (pid %d), which " % b.started[-1].pid)
    b.expect("mode", found["mode"], "full")
    b.fails(1, "the process of '%s' (pid %d) does not run any more: nothing can be changed" % (path, b.started[-1].pid),
            "ctl", path, "off")
    done = b.run("ctl", path, "snapshot")
    b.expect("snapshot", (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))


@test
def hostile_states_are_survived(b):
    pid = str(b.pretended("hostile", "hostile"))
    text = settings(b, pid)[1]
    b.expect("controls", re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text), [])
    path = os.path.join(b.states, "hostile.mtk")
    number = 7
    for _ in range(60):
        with open(path, "r+b") as f:
            for _ in range(20):
                number = (number * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                f.seek(360 + (number >> 33) % 1400)
                f.write(bytes([number >> 56]))
        for words in [[], ["mode=stats"]]:
            done = b.run("ctl", "--wait=0", path, *words)
            if done.returncode not in (0, 1) or done.stderr.count("\n") > 1:
                b.problems.append("%s: status %d, %s" % (words, done.returncode, done.stderr[-500:]))
                return


def other_user(b, *command):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    os.chmod(b.dir, 0o755)
    os.chmod(b.states, 0o755)
    copy = os.path.join(b.dir, "memtrack")
    if not os.path.exists(copy):
        shutil.copy(MEMTRACK, copy)
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy, *command], cwd=b.dir,
                          env=b.env, capture_output=True, text=True, check=False)


@test
def files_that_may_not_be_written_are_named(b):
    b.pretended()
    path = os.path.join(b.states, "live.mtk")
    os.chmod(path, 0o644)
    done = other_user(b, "ctl", path, "off")
    b.expect("another user's", (done.returncode, done.stdout, done.stderr),
             (1, "", "memtrack: cannot write '%s': it belongs to user 0, and only that user can control the process\n" % path))
    os.chown(path, 65534, 65534)
    os.chmod(path, 0o444)
    done = other_user(b, "ctl", path, "off")
    b.expect("read-only", (done.returncode, done.stdout, done.stderr),
             (1, "", "memtrack: cannot write '%s', so nothing can be changed: Permission denied\n" % path))
    done = other_user(b, "ctl", path)
    b.expect("can be looked at", done.returncode, 0)
    os.chmod(path, 0)
    done = other_user(b, "ctl", path)
    b.expect("unreadable", (done.returncode, done.stderr), (1, "memtrack: cannot open '%s': Permission denied\n" % path))
    with open(path, "rb") as f:
        b.expect("untouched", struct.unpack("<I", f.read(CONTROL_AT + 4)[CONTROL_AT:])[0], 1)


@test
def a_request_that_nobody_takes_is_said(b):
    pid = str(b.pretended())
    sentence = "memtrack: the program has not taken the request over yet: it does so with its next allocation or free\n"
    done = b.run("ctl", "--wait=10ms", pid, "mode=stats")
    b.expect("pending", (done.returncode, done.stdout, done.stderr), (1, "", sentence))
    b.expect("shown", settings(b, pid)[0]["requests"], "1, the last one is not taken over yet")
    done = b.run("ctl", "--wait=0", pid, "label=two words")
    b.expect("not waited for", (done.returncode, done.stdout, done.stderr), (0, "", sentence))
    with open(os.path.join(b.states, "live.mtk"), "rb") as f:
        b.expect("both", b"mode=stats  label=two%20words \0" in f.read(), True)


# ---- with the tracker ----

@needs_library
def settings_change_while_the_program_runs(b):
    pid = b.tracked(SUBJECT, "grow")
    found, _ = settings(b, pid)
    b.expect("at the start", (found["recording"], found["mode"], found["interval"], found["requests"]), ("on", "full", "-", "0"))
    done = b.run("ctl", str(pid), "mode=sample", "interval=4K", "label=after the upgrade", "modules=+*subject*")
    b.expect("change", (done.returncode, done.stdout, done.stderr), (0, "", ""))
    found, text = settings(b, pid)
    b.expect("mode", found["mode"][:12], "sample, for ")
    b.expect("interval", found["interval"][:31], "4.0 KiB on average (4096 B), fo")
    b.expect("label", found["label"][:17], "after the upgrade")
    b.expect("modules", found["modules"][:10], "+*subject*")
    b.expect_in("changes", text, "  mode sample, before full\n")
    b.expect("requests", found["requests"], "1")
    b.expect("ps", row_of_ps(b, pid)[1:4], ["sample", "4.0", "KiB"])
    b.expect("events", bool(wait_until(lambda: int(row_of_ps(b, pid)[6].replace(",", "")) > 0)), True)
    b.run("ctl", str(pid), "every=10")
    b.expect("every", settings(b, pid)[0]["interval"], "one of every 10 allocations")
    b.run("ctl", str(pid), "mode=stats", "label=", "modules=")
    found, text = settings(b, pid)
    b.expect("back", (found["mode"][:10], found["label"][:2], found["modules"][:2]), ("stats, for", "-,", "-,"))
    b.expect_in("changes", text, "  no label\n")
    few = b.run("ctl", "--changes=1", str(pid)).stdout
    b.expect("--changes", len(few.splitlines()), 9)


@needs_library
def recording_is_switched_off_and_on(b):
    pid = b.tracked(SUBJECT, "grow")
    b.expect("grows", bool(wait_until(lambda: allocs(b, pid) > 100)), True)
    b.expect("off", b.run("ctl", str(pid), "off").returncode, 0)
    b.expect("shown", settings(b, pid)[0]["recording"][:4], "off,")
    b.expect("ps", row_of_ps(b, pid)[1], "off")
    first = allocs(b, pid)
    b.run("ps", "--interval=100ms")
    b.expect("nothing is recorded", allocs(b, pid), first)
    b.expect("on", b.run("ctl", str(pid), "on").returncode, 0)
    b.expect("goes on", bool(wait_until(lambda: allocs(b, pid) > first)), True)
    done = b.run("ctl", str(pid), "reset-peak")
    b.expect("reset-peak", (done.returncode, done.stderr), (0, ""))
    b.expect_in("its change", settings(b, pid)[1], "  peak reset to ")


@needs_library
def a_refused_request_changes_nothing(b):
    pid = b.tracked(SUBJECT, "grow")
    path = state_path(b, pid)
    # a word that this command does not let through, from another controller
    b.expect("refused", Controller(path).ask("label=new mode=check"), errno.EINVAL)
    found, text = settings(b, pid)
    b.expect("nothing", (found["label"], found["mode"], found["requests"]), ("-", "full", "1, the last one was refused"))
    b.expect_in("log", text, "  refused: label=new mode=check")


@needs_library
def a_stopped_program_takes_it_when_it_goes_on(b):
    pid = b.tracked(SUBJECT, "grow")
    os.kill(pid, signal.SIGSTOP)
    done = b.run("ctl", "--wait=50ms", str(pid), "mode=stats")
    b.expect("status", done.returncode, 1)
    b.expect_in("said", done.stderr, "has not taken the request over yet")
    b.expect("still", settings(b, pid)[0]["mode"], "full")
    os.kill(pid, signal.SIGCONT)
    b.expect("then", bool(wait_until(lambda: settings(b, pid)[0]["mode"].startswith("stats"))), True)


@needs_library
def a_controller_killed_in_the_middle_blocks_nobody(b):
    pid = b.tracked(SUBJECT, "grow")
    path = state_path(b, pid)
    os.kill(pid, signal.SIGSTOP)
    first = b.start("ctl", "--wait=1m", str(pid), "label=first")

    def owner():
        with open(path, "rb") as f:
            return struct.unpack("<I", f.read(OWNER_AT + 4)[OWNER_AT:])[0]

    b.expect("it has the lock", bool(wait_until(lambda: owner() == first.pid)), True)
    second = b.run("ctl", "--wait=0", str(pid), "mode=stats")
    b.expect("another one", (second.returncode, second.stdout, second.stderr),
             (1, "", "memtrack: another controller (pid %d) is changing the process of '%s': try again\n" % (first.pid, path)))
    first.kill()
    b.expect("killed", wait_until(lambda: b.run("ctl", "--wait=0", str(pid), "mode=stats").returncode == 0), True)
    os.kill(pid, signal.SIGCONT)
    b.expect("both requests came", bool(wait_until(lambda: settings(b, pid)[0]["mode"].startswith("stats"))), True)
    b.expect("the first", settings(b, pid)[0]["label"][:6], "first,")
    b.expect("the lock is free", owner(), 0)


@needs_library
def controllers_at_once_are_all_heard(b):
    pid = b.tracked(SUBJECT, "grow")
    started = [b.start("ctl", "--wait=30s", str(pid), "label=n%d" % i) for i in range(12)]
    results = [(p.communicate(timeout=60), p.returncode) for p in started]
    busy = sum("another controller" in err for (_, err), _ in results)
    b.expect("failures that are told", [r for r in results if r[1] and "another controller" not in r[0][1]], [])
    text = b.run("ctl", "--changes=1000", str(pid)).stdout
    b.expect("labels", len(set(re.findall(r"label (n\d+)$", text, re.M))), 12 - busy)
    b.expect("the program lives", os.path.exists("/proc/%d" % pid), True)


@needs_library
def a_program_that_ends_meanwhile_is_named(b):
    pid = b.tracked(SUBJECT, "grow")
    path = state_path(b, pid)
    os.kill(pid, signal.SIGSTOP)
    waiting = b.start("ctl", "--wait=1m", path, "mode=stats")
    wait_until(lambda: struct.unpack("<I", open(path, "rb").read(CONTROL_AT + 4)[CONTROL_AT:])[0] > 1)
    os.kill(pid, signal.SIGKILL)
    _, stderr = waiting.communicate(timeout=60)
    b.expect("ended", (waiting.returncode, stderr),
             (1, "memtrack: the process of '%s' (pid %d) ended before it took the request\n" % (path, pid)))


@needs_library
def snapshots_are_numbered(b):
    pid = b.tracked(SUBJECT, "grow")
    for number in (1, 2):
        done = b.run("ctl", str(pid), "snapshot")
        b.expect("snapshot %d" % number, (done.returncode, done.stdout, done.stderr), (0, "snapshot %d\n" % number, ""))
    done = b.run("ctl", str(pid), "snapshot", "mode=stats")
    b.expect("with a request", (done.returncode, done.stdout, done.stderr), (0, "snapshot 3\n", ""))
    b.expect("mode", settings(b, pid)[0]["mode"][:5], "stats")


@needs_library
def children_are_controlled_on_their_own(b):
    launcher = b.start("run", "--report=none", "sh", "-c", "%s grow & exec %s grow" % (SUBJECT, SUBJECT))
    launcher.stdout.readline()
    launcher.stdout.readline()
    parent = children_of(launcher.pid)[0]
    child = children_of(parent)[0]
    b.expect("change", b.run("ctl", str(child), "mode=stats").returncode, 0)
    b.expect("child", settings(b, child)[0]["mode"][:5], "stats")
    b.expect("parent", settings(b, parent)[0]["mode"], "full")
    done = b.run("ctl", "name:subject", "off")
    b.expect("several", done.returncode, 1)
    b.expect_in("named", done.stderr, "tracked processes; name one by its pid: ")


sys.exit(main())
