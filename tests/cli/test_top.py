#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack top: its pages as text, and its screen on a terminal that the test plays.

usage: test_top.py MEMTRACK MAKE_SAMPLE SUBJECT LIBRARY|-
"""
import contextlib
import json
import os
import re
import signal
import sys

from live import MEMTRACK, SUBJECT, main, needs_library, test, wait_until
from screen import Terminal


@contextlib.contextmanager
def top(b, *options, rows=24, columns=80, **env):
    terminal = Terminal([MEMTRACK, "top", "--delay=50ms", *options], rows, columns, dict(b.env, **env), b.dir)
    try:
        yield terminal
    finally:
        b.expect("sequences that the test does not know", terminal.unknown, [])
        terminal.close()


def batch(b, *options):
    done = b.run("top", "--batch", "--delay=10ms", *options)
    b.expect(" ".join(options), (done.returncode, done.stderr), (0, ""))
    return done.stdout


# ---- text ----

@test
def pages_are_printed(b):
    pid = str(b.pretended())
    text = batch(b, pid)
    b.expect("processes", text,
             "memtrack top: 1 process, live 1007 B, 0 allocations/s\n"
             "    PID MODE       *LIVE    GROWTH    ALLOC/S    EVENT/S    LOST  PROGRAM\n"
             "%7s full      1007 B       0 B          0          0       0  server\n" % pid)
    title = "%%s of server (pid %s), full, live 1007 B, peak 1.0 MiB\n" % pid
    b.expect("sites", batch(b, pid, "--view=sites", "--no-symbols", "--rows=2"), title % "sites" +
             "    *LIVE    GROWTH    BLOCKS    ALLOC/S      EVER  SITE\n"
             " 64.0 KiB       0 B         1          0  64.0 KiB  libc.so.6+0xfff\n"
             "   1007 B       0 B        11          0    1007 B  server+0x1fff < server+0xfff\n")
    b.expect("threads", batch(b, pid, "--view=threads"), title % "threads" +
             "    TID     *LIVE        ALLOCS    ALLOC/S    REALLOCS   GROWN/S  THREAD\n"
             "   4242   3.1 KiB            20          -           0         -  main (ended)\n"
             "   4243  -2.1 KiB             2          -           0         -  worker (ended)\n")
    b.expect("sizes", batch(b, pid, "--view=sizes"), title % "sizes" +
             "       ALLOCS    ALLOC/S      BLOCKS      LIVE  SIZE\n"
             "            1          -           -         -  4 B to below 8 B\n"
             "            5          -           -         -  32 B to below 64 B\n"
             "           10          -           -         -  64 B to below 128 B\n"
             "            5          -           -         -  256 B to below 512 B\n"
             "            1          -           -         -  1.0 MiB to below 2.0 MiB\n")
    chart = batch(b, pid, "--view=timeline").splitlines()
    b.expect("time line", (len(chart), chart[1][:12], chart[-2][:12]), (11, "   1007 B ██", "      0 B ██"))


@test
def rates_come_with_the_second_reading(b):
    pid = str(b.pretended())
    pages = batch(b, "-n", "3", pid, "--view=threads").split("\n\n")
    b.expect("pages", len(pages), 3)
    b.expect("rates", re.findall(r"(\S+) +0 +(\S+)  main", pages[2]), [("0", "0")])


@test
def rows_are_sorted(b):
    pid = str(b.pretended())

    def texts(*options):
        return [line.split("  ")[-1].split()[0] for line in batch(b, pid, "--no-symbols", *options).splitlines()[2:]]

    b.expect("threads by name", texts("--view=threads", "--sort=name"), ["main", "worker"])
    b.expect("sites by blocks", texts("--view=sites", "--sort=blocks")[0], "server+0x1fff")
    b.expect("sites by name", texts("--view=sites", "--sort=name"), sorted(texts("--view=sites")))
    b.fails(2, "top: this view cannot be sorted by what --sort says; see 'memtrack top --help'", "top", pid,
            "--view=threads", "--sort=lost")


@test
def what_is_not_there_is_named(b):
    b.fails(1, "no tracked process is running for '999999999'; 'memtrack ps' lists those that are", "top", "-b", "999999999")
    b.fails(1, "no tracked process is running for 'name:no such'; 'memtrack ps' lists those that are", "top",
            "name:no such", "--batch")
    b.fails(2, "top: --view needs one process that it is of; see 'memtrack top --help'", "top", "--view=sites", "-b")
    b.pretended(name="one")
    b.pretended(name="two")
    b.fails(1, "'name:server' names 2 tracked processes; name one by its pid", "top", "name:server", "-b", "--view=sites")
    b.fails(1, "top needs a terminal; 'memtrack top --batch' prints text", "top")


@test
def hostile_names_are_escaped(b):
    pid = str(b.pretended("hostile"))
    for view in ["processes", "sites", "threads", "sizes", "timeline"]:
        text = batch(b, pid, "--view=" + view)
        b.expect(view, re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text), [])
    with top(b, pid) as t:
        b.expect("shown", t.shows("\\x1b]0;owned"), True)
        b.expect("title", b"]0;owned\x07" in t.output, False)
        t.press("q")
        b.expect("end", t.end(), 0)


@test
def a_scribbled_state_is_survived(b):
    pid = str(b.pretended())
    path = os.path.join(b.states, "live.mtk")
    number = 99
    for round_ in range(40):
        with open(path, "r+b") as f:
            for _ in range(30):
                number = (number * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                f.seek(512 + (number >> 33) % 400 if number & 1 << 20 else 4096 + (number >> 33) % 60000)
                f.write(bytes([number >> 56]))
        view = ["sites", "threads", "sizes", "timeline"][round_ % 4]
        done = b.run("top", "--batch", "--delay=1ms", "--view=" + view, pid)
        if done.returncode not in (0, 1) or done.stderr.count("\n") != (done.returncode == 1):
            b.problems.append("%s: status %d, %s" % (view, done.returncode, done.stderr[-500:]))
            return


# ---- the screen ----

@test
def every_size_of_a_terminal_is_used(b):
    pid, wide = str(b.pretended()), str(b.pretended("wide", "wide"))  # not what else runs on this machine
    for rows, columns in [(5, 20), (1, 1), (2, 10), (3, 200), (24, 80), (100, 300)]:
        with top(b, pid, wide, rows=rows, columns=columns) as t:
            b.expect("%dx%d title" % (columns, rows), t.shows("memtrack top"[:columns]), True)
            if rows >= 5 and columns > 7:
                b.expect("%dx%d process" % (columns, rows), t.shows(pid), True)
                b.expect("%dx%d keys" % (columns, rows), bool(t.wait(lambda lines: lines[-1].startswith("q quit  ? help"))), True)
            t.press("\r")
            b.expect("%dx%d sites" % (columns, rows), t.shows("sites of"[:columns]), True)
            for key in "1234":
                t.press(key)
            b.expect("%dx%d time line" % (columns, rows), t.shows("time line"[:columns]), True)
            t.press("q")
            b.expect("%dx%d end" % (columns, rows), (t.end(), t.is_restored()), (0, True))


@test
def a_resized_terminal_is_used(b):
    pid, other = str(b.pretended()), str(b.pretended(name="other"))
    with top(b, pid, other) as t:
        b.expect("first", t.shows(pid), True)
        for rows, columns in [(10, 40), (60, 200), (5, 20), (24, 80)]:
            t.set_size(rows, columns)
            t.process.send_signal(signal.SIGWINCH)
            b.expect("%dx%d" % (columns, rows), bool(t.wait(lambda lines: lines[-1].startswith("q quit") and
                                                            pid in "\n".join(lines))), True)
        t.press("q")
        b.expect("end", (t.end(), t.is_restored()), (0, True))


@test
def keys_do_what_help_says(b):
    pid, other = str(b.pretended()), str(b.pretended("hostile", "hostile"))
    with top(b, "--no-symbols", pid, other, columns=120) as t:
        b.expect("processes", t.shows("PROGRAM"), True)
        t.press("?")
        b.expect("help", t.shows("any key: back"), True)
        t.press("x")
        b.expect("and back", t.shows("PROGRAM"), True)
        t.press("/serv")
        b.expect("filter", t.shows("filter: serv") and t.shows("1 process"), True)
        t.press("x\x7f\r")
        b.expect("filter stays", t.shows(", with 'serv'"), True)
        t.press(" ")
        b.expect("pause", t.shows("[paused]"), True)
        t.press(" ")
        b.expect("goes on", bool(t.wait(lambda lines: "[paused]" not in lines[0])), True)
        t.press("\r")
        b.expect("sites", t.shows("sites of server (pid %s)" % pid), True)
        t.press("/\x15\r")  # the filter is of all views
        b.expect("site", t.shows("server+0x1fff < server+0xfff"), True)
        for key, shown in [("2", "threads of"), ("3", "sizes of"), ("4", "time line of"), ("\t", "sites of"),
                           ("\t", "threads of")]:
            t.press(key)
            b.expect("key " + repr(key), t.shows(shown), True)
        t.press("<")
        b.expect("sort", t.shows("*TID"), True)
        t.press("r")
        b.expect("reverse", t.shows("^TID"), True)
        b.expect("order", bool(t.wait(lambda lines: lines[2].startswith("   4243"))), True)
        t.press("\x1b")
        b.expect("back", t.shows("PROGRAM"), True)
        t.press("z~\x01")  # no keys
        t.press("/zzzz\x1b")
        b.expect("a filter that is given up", bool(t.wait(lambda lines: "with" not in lines[0])), True)
        t.press("q")
        b.expect("end", (t.end(), t.is_restored()), (0, True))


@test
def the_cursor_moves_and_scrolls(b):
    pid = str(b.pretended("wide", "wide"))
    with top(b, pid, "--no-symbols", rows=10, columns=100) as t:
        b.expect("sites", t.shows("sites of"), True)
        b.expect("first", bool(t.wait(lambda lines: "0x" in lines[2])), True)
        first = t.lines()[2]
        t.press("\x1b[6~")  # page down
        b.expect("page down", bool(t.wait(lambda lines: lines[2] != first)), True)
        t.press("\x1b[5~\x1bOH")
        b.expect("page up", bool(t.wait(lambda lines: lines[2] == first)), True)
        t.press("\x1bOF")
        b.expect("end", bool(t.wait(lambda lines: lines[2] != first)), True)
        t.press("q")
        b.expect("status", t.end(), 0)


@test
def the_terminal_is_given_back(b):
    b.pretended()
    for number in [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGSEGV, signal.SIGABRT]:
        with top(b, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0:handle_abort=0") as t:
            b.expect("start", t.shows("PROGRAM"), True)
            t.process.send_signal(number)
            b.expect("%s" % number, (t.end(), t.is_restored()), (-number, True))
    with top(b) as t:
        b.expect("start", t.shows("PROGRAM"), True)
        t.press("\x03")
        b.expect("Ctrl-C", (t.end(), t.is_restored()), (-signal.SIGINT, True))
    with top(b, "-n", "3") as t:
        b.expect("after -n pages", (t.end(), t.is_restored()), (0, True))


def state_of(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


# What a shell does: gives the terminal to a job of its own and waits for the job's end, not for its stops.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if not pid:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
status = os.waitpid(pid, 0)[1]
os.tcsetpgrp(0, os.getpgrp())
print("status", os.waitstatus_to_exitcode(status), flush=True)
signal.pause()
"""


@test
def it_can_be_stopped_and_goes_on(b):
    b.pretended()
    t = Terminal([sys.executable, "-c", SHELL, MEMTRACK, "top", "--delay=50ms"], env=b.env, cwd=b.dir)
    try:
        b.expect("start", t.shows("PROGRAM"), True)
        with open("/proc/%d/task/%d/children" % (t.process.pid, t.process.pid), encoding="ascii") as f:
            pid = int(f.read().split()[0])
        for _ in range(2):
            os.kill(pid, signal.SIGTSTP)
            b.expect("stopped", bool(wait_until(lambda: state_of(pid) == "T")), True)
            t.read()
            b.expect("restored meanwhile", t.is_restored(), True)
            t.set_size(24, 80)
            os.kill(pid, signal.SIGCONT)
            b.expect("shown again", t.shows("PROGRAM"), True)
        os.kill(pid, signal.SIGSTOP)
        wait_until(lambda: state_of(pid) == "T")
        t.set_size(24, 80)
        os.kill(pid, signal.SIGCONT)
        b.expect("shown after SIGSTOP", t.shows("PROGRAM"), True)
        t.press("q")
        b.expect("end", t.shows("status 0"), True)
        b.expect("restored", t.is_restored(), True)
    finally:
        t.close()


@test
def a_terminal_that_goes_away_ends_it(b):
    b.pretended()
    with top(b) as t:
        b.expect("start", t.shows("PROGRAM"), True)
        os.close(t.master)
        t.master = os.open("/dev/null", os.O_RDONLY)
        b.expect("end", t.process.wait(30) in (-signal.SIGHUP, 1), True)


@test
def terminals_that_cannot_be_used_are_named(b):
    with top(b, TERM="no-such-terminal") as t:
        b.expect("status", t.end(), 1)
        b.expect_in("sentence", t.output.decode(), "memtrack: cannot use a terminal of the kind 'no-such-terminal' ($TERM)")
    pid = str(b.pretended("hostile"))
    with top(b, pid, LC_ALL="C", columns=200) as t:
        b.expect("without UTF-8", t.shows("owned"), True)
        t.press("4")
        b.expect("a plain chart", t.shows("@@@@@@"), True)
        t.read()
        b.expect("bytes", max(t.output) < 0x80, True)
        t.press("q")
        b.expect("end", t.end(), 0)


@test
def a_report_is_exported(b):
    pid = b.pretended()
    with top(b, str(pid), columns=120) as t:
        b.expect("sites", t.shows("sites of"), True)
        t.press("e")
        b.expect("asked for a name", t.shows("export to file: memtrack-%d.txt" % pid), True)
        t.press("\x15r.json\r")
        b.expect("written", t.shows("wrote 'r.json'"), True)
        with open(os.path.join(b.dir, "r.json"), encoding="utf-8") as f:
            b.expect("live", json.load(f)["live_bytes"], 1007)
        t.press("e\r")
        b.expect("as text", t.shows("wrote 'memtrack-%d.txt'" % pid), True)
        t.press("e\x15/nonexistent/x\r")
        b.expect("not written", t.shows("cannot create '/nonexistent/x': "), True)
        t.press("q")
        b.expect("end", t.end(), 0)


@test
def wrong_requests_are_told(b):
    pid = b.pretended()
    with top(b, str(pid), columns=160) as t:
        b.expect("sites", t.shows("sites of"), True)
        t.press("m")
        b.expect("asked", t.shows("change (as memtrack ctl): mode="), True)
        t.press("fast\r")
        b.expect("refused", t.shows("ctl: 'mode=fast' is none of mode=full|"), True)
        t.press("m\x15\r")  # nothing is asked for
        b.expect("keys again", t.shows("q quit"), True)
        t.press("m\x15label=x\r")
        b.expect("nobody takes it", t.shows("the program has not taken the request over yet"), True)
        t.press("q")
        b.expect("end", t.end(), 0)


@needs_library
def modes_are_switched_and_snapshots_taken(b):
    pid = b.tracked(SUBJECT, "grow")
    with top(b, str(pid), columns=160) as t:
        b.expect("full", t.shows("(pid %d), full," % pid), True)
        t.press("mstats\r")
        b.expect("stats", t.shows("(pid %d), stats," % pid) and t.shows("done: mode=stats"), True)
        t.press("3")
        b.expect("sizes have live blocks", bool(t.wait(lambda lines: re.search(r"[1-9][\d,]* +\S+ KiB  ", "\n".join(lines)))),
                 True)
        t.press("m\x15mode=sample interval=4K\r")
        b.expect("sample", t.shows("(pid %d), sample every 4.0 KiB," % pid), True)
        t.press("n")
        b.expect("snapshot", t.shows("snapshot 1"), True)
        t.press("o")
        b.expect("off", t.shows("(pid %d), off" % pid), True)
        b.expect("said", t.shows("done: off"), True)
        t.press("o")
        b.expect("on", t.shows("(pid %d), sample" % pid), True)
        t.press("q")
        b.expect("end", (t.end(), t.is_restored()), (0, True))


@test
def a_process_that_ends_stays_on_the_screen(b):
    pid = b.pretended()
    with top(b, str(pid), columns=120) as t:
        b.expect("sites", t.shows("sites of"), True)
        os.kill(pid, signal.SIGKILL)
        b.started[-1].wait()
        b.expect("said so", t.shows(", has ended"), True)
        b.expect("numbers", t.shows("1007 B"), True)
        t.press("\x1b")
        b.expect("gone from the list", t.shows("no process is tracked"), True)
        t.press("q")
        b.expect("end", t.end(), 0)


@needs_library
def names_and_growth_of_a_tracked_program_appear(b):
    pid = b.tracked(SUBJECT, "grow")
    with top(b, str(pid), columns=150) as t:
        b.expect("name", t.shows("grow_here subject.c:"), True)
        b.expect("growth", bool(t.wait(lambda lines: re.search(r"\+[\d.]+ [KM]iB .*grow_here", "\n".join(lines)))), True)
        b.expect("rate", bool(t.wait(lambda lines: re.search(r" [1-9][\d,]* +\S+ \S+  grow_here", "\n".join(lines)))), True)
        t.press("2")
        b.expect("thread", bool(t.wait(lambda lines: re.search(r"^ *%d .* subject$" % pid, "\n".join(lines), re.M))), True)
        t.press("q")
        b.expect("end", t.end(), 0)


sys.exit(main())
