#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The command from outside: usage errors, bad input, exit statuses, signals, output files, live processes.

usage: test_cli.py MEMTRACK MAKE_SAMPLE SUBJECT LIBRARY|-
"""
import csv
import glob
import io
import json
import os
import pty
import random
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import live
from live import LIBRARY, MAKE_SAMPLE, MEMTRACK, SUBJECT, TIMEOUT_S, Skip, children_of, main, needs_library, test, wait_until


class Bench(live.Bench):
    """Also samples of state files, and the files that a run left in the directory."""

    def __init__(self, name):
        super().__init__(name)
        del self.env["MEMTRACK_DIR"] # no state of another place is looked at

    def sample(self, what="sample"):
        path = os.path.join(self.dir, what + ".mtk")
        subprocess.run([MAKE_SAMPLE, path, what], check=True)
        return path

    def files(self):
        return sorted(os.path.basename(p) for p in glob.glob(os.path.join(self.dir, "*.mtk")))


# ---- usage ----

@test
def help_lists_the_commands(b):
    done = b.run("help")
    b.expect("status", done.returncode, 0)
    names = ["run", "report", "diff", "timeline", "ctl", "ps", "top", "replay", "export", "view", "maps", "read", "meminfo", "leaks", "allocators", "triage", "metrics", "enable", "disable", "help"]
    b.expect("commands", re.findall(r"^  (\w+) ", done.stdout, re.M), names)
    b.expect("--help", b.run("--help").stdout, done.stdout)
    bare = b.run()
    b.expect("without a command", (bare.returncode, bare.stderr), (2, done.stdout))
    for name in names:
        a = b.run("help", name)
        b.expect(name + " --help", b.run(name, "--help").stdout, a.stdout)
        b.expect_in(name, a.stdout, "usage: memtrack %s " % name)
        if name == "run":
            b.expect_in("what README names", a.stdout, "--dump-at-max")
        b.expect(name + " width", [line for line in a.stdout.splitlines() if len(line) > 80 and "usage" not in line], [])


@test
def version_is_printed(b):
    b.expect_in("version", b.run("--version").stdout, "memtrack 0.")


@test
def usage_errors_name_what_was_wrong(b):
    see = "; see 'memtrack report --help'"
    b.fails(2, "unknown command 'rpeort', did you mean 'report'?", "rpeort")
    b.fails(2, "unknown command 'attach'; 'memtrack help' lists them", "attach")
    b.fails(2, "unknown option '--frob'; see 'memtrack help'", "--frob")
    b.fails(2, "report: unknown option '--shwo', did you mean '--show'?" + see, "report", "--shwo=x", "f")
    b.fails(2, "report: unknown option '--frobnicate'" + see, "report", "--frobnicate", "f")
    b.fails(2, "report: unknown option '-z'" + see, "report", "-z", "f")
    b.fails(2, "report: missing operand (FILE|PID|name:PROGRAM...)" + see, "report")
    b.fails(2, "report: '--top' needs a value (N)" + see, "report", "f", "--top")
    b.fails(2, "report: '--json' takes no value" + see, "report", "--json=1", "f")
    b.fails(2, "report: '--top=x' is no number from 0 to 1000000000" + see, "report", "--top=x", "f")
    b.fails(2, "report: '--stack=257' is no number from 0 to 256" + see, "report", "--stack=257", "f")
    b.fails(2, "report: '--min-age=soon' is no time (examples: 500ms, 10s, 5m, 1h)" + see, "report",
            "--min-age=soon", "f")
    b.fails(2, "report: '--leak-threshold=big' is no size (examples: 4096, 64K, 1.5M)" + see, "report",
            "--leak-threshold=big", "f")
    b.fails(2, "report: '--by=colour' is none of site|function|module|thread|size|heap|label" + see, "report",
            "--by=colour", "f")
    b.fails(2, "diff: unexpected operand 'c'; see 'memtrack diff --help'", "diff", "a", "b", "c")
    b.fails(2, "ps: unexpected operand '1'; see 'memtrack ps --help'", "ps", "1")
    b.fails(2, "metrics: --listen and --textfile exclude each other; see 'memtrack metrics --help'", "metrics",
            "--listen=0", "--textfile=x")
    b.fails(2, "metrics: --every needs --textfile; see 'memtrack metrics --help'", "metrics", "--every=1s")
    for command, option, least in [("metrics", "every", "1ms"), ("top", "delay", "1ms"), ("export", "step", "1ns")]:
        b.fails(2, "%s: '--%s=0' is too short: %s is the least; see 'memtrack %s --help'" % (command, option, least, command),
                command, "--" + option + "=0")
    b.fails(2, "help: --man needs a command; see 'memtrack help --help'", "help", "--man")
    b.fails(2, "unknown command 'rnu', did you mean 'run'?", "help", "rnu")
    see = "; see 'memtrack run --help'"
    b.fails(2, "run: missing operand ([--] PROGRAM [ARGUMENT...])" + see, "run", "-q")
    b.fails(2, "run: '--mode=some' is none of full|sample|stats|record|check" + see, "run", "--mode=some", "true")
    man = "; see 'man memtrack-check'"
    b.fails(2, "run: --check: unknown option bogus" + man, "run", "--check=backtrace bogus", "true")
    b.fails(2, "run: --check: bad value for option 'backtrace': Numerical result out of range" + man, "run",
            "--check=backtrace=99999999999999999999", "true")
    b.fails(2, "run: --check: no value after 'record_allocs record_allocs_file='" + man, "run",
            "--check=record_allocs record_allocs_file=", "true")
    b.fails(2, "run: --check is a mode of its own (--mode=check)" + see, "run", "--check", "--mode=stats", "true")
    b.fails(2, "run: '--depth=0' is no number from 1 to 256" + see, "run", "--depth=0", "true")
    b.fails(2, "run: --error-exitcode needs a mode that finds leaks or memory errors, --mode=stats does not" + see, "run",
            "--mode=stats", "--error-exitcode=9", "true")
    b.fails(2, "run: --report=none leaves nothing to write to --report-file" + see, "run", "--report=none", "--report-file=x", "true")
    for words in ["--interval=4K"], ["--mode=stats", "--interval=4K"], ["--check", "--interval=4K"], ["--mode=record", "--interval=4K"]:
        b.fails(2, "run: --interval belongs to --mode=sample" + see, "run", *words, "true")
    for option in ["intervals=0-64:8M", "every=3", "max-cpu=5", "min-anon=1M"]:
        b.fails(2, "run: --%s belongs to --mode=sample" % option.split("=")[0] + see, "run", "--" + option, "true")
    b.fails(2, "run: ranges of 'intervals=0-64:8M,64-128:1' overlap: two have blocks of 64 bytes (both ends belong to a range)" + see,
            "run", "--mode=sample", "--intervals=0-64:8M,64-128:1", "true")
    for other in ["interval=4K", "intervals=0-64:8M"]:
        b.fails(2, "run: --every takes the place of --interval and --intervals: give one of them" + see, "run", "--mode=sample",
                "--every=3", "--" + other, "true")
    b.fails(2, "run: '--heaps=malloc,foo' names an unknown heap (known: malloc, mmap, brk, custom, all)" + see, "run",
            "--heaps=malloc,foo", "true")
    b.fails(2, "run: '%q' has an unknown conversion '%q' (known: %e %p %h %t)" + see, "run", "-o", "%q", "true")
    b.fails(2, "run: the output path is empty" + see, "run", "-o", "", "true")


@test
def man_pages_are_valid(b):
    for name in ["run", "report", "diff", "timeline", "ctl", "ps", "top", "replay", "export", "metrics", "enable", "disable", "help"]:
        page = b.run("help", "--man", name).stdout
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"]:
            b.expect_in(name, page, "\n.SH " + section + "\n")
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-z"], input=page, capture_output=True, text=True,
                                  check=False)
            b.expect(name + ": groff", done.stderr, "")


@test
def completion_is_valid_bash(b):
    script = b.run("help", "--completion").stdout
    ask = script + """
COMP_WORDS=(memtrack report --sh); COMP_CWORD=2; _memtrack; echo "${COMPREPLY[@]}"
COMP_WORDS=(memtrack repo); COMP_CWORD=1; _memtrack; echo "${COMPREPLY[@]}"
COMP_WORDS=(memtrack report --show = pe); COMP_CWORD=4; _memtrack; echo "${COMPREPLY[@]}"
COMP_WORDS=(memtrack ctl 4711 inter); COMP_CWORD=3; _memtrack; echo "${COMPREPLY[@]}"
COMP_WORDS=(memtrack ctl 4711 --w); COMP_CWORD=3; _memtrack; echo "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", "compopt() { :; }\n" + ask], capture_output=True, text=True, check=False)
    b.expect("completions", done.stdout.splitlines(), ["--show=", "report", "peak", "interval=", "--wait="])
    b.expect("stderr", done.stderr, "")


# ---- bad input ----

@test
def input_that_cannot_be_read_is_named(b):
    with open(os.path.join(b.dir, "text"), "w", encoding="ascii") as f:
        f.write("this is not a state file\n" * 400)
    open(os.path.join(b.dir, "empty"), "w", encoding="ascii").close()
    b.fails(1, "cannot open 'missing.mtk': No such file or directory", "report", "missing.mtk")
    b.fails(1, "no tracked process is running for '999999999'; 'memtrack ps' lists those that are, "
            "and moves the states of those that ended to files for 'memtrack report FILE'", "report", "999999999")
    b.fails(1, "no tracked process is running for 'name:no such'; 'memtrack ps' lists those that are, "
            "and moves the states of those that ended to files for 'memtrack report FILE'", "report", "name:no such")
    for path in ["text", "empty", "."]:
        done = b.run("report", path)
        b.expect(path, (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        b.expect_in(path, done.stderr, "'%s'" % path)
    path = b.sample()
    whole = open(path, "rb").read()
    for cut in [0, 1, 100, 4095, 4096, 5000, len(whole) - 1]:
        with open(path, "wb") as f:
            f.write(whole[:cut])
        done = b.run("report", "--no-symbols", path)
        if done.returncode not in (0, 1) or (done.returncode and not done.stderr.startswith("memtrack: ")):
            b.problems.append("cut at %d: status %d, %s" % (cut, done.returncode, done.stderr[:200]))
        if not done.returncode and "warning: " not in done.stdout:
            b.problems.append("cut at %d: no warning" % cut)


@test
def states_of_other_kinds_are_named(b):
    sentences = {
        "version": "'version.mtk' has state file version 9.4, this program reads version 1",
        "order": "'order.mtk'",
        "arch": "",
    }
    for what, part in sentences.items():
        path = os.path.basename(b.sample(what))
        for command in [["report", path], ["diff", path, path]]:
            done = b.run(*command, "--no-symbols")
            if what == "arch":  # an unknown machine's addresses are as good as any
                b.expect(what, done.returncode, 0)
                continue
            b.expect(what, (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
            b.expect_in(what, done.stderr, part)


@test
def files_that_may_not_be_read_are_named(b):
    path = b.sample()
    os.chmod(path, 0)
    command, prefix = MEMTRACK, []
    if os.getuid() == 0:
        if not shutil.which("setpriv"):
            raise Skip("needs setpriv")
        os.chmod(b.dir, 0o755)
        command = shutil.copy(MEMTRACK, os.path.join(b.dir, "memtrack"))
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = subprocess.run([*prefix, command, "report", "sample.mtk"], cwd=b.dir, env=b.env, capture_output=True,
                          text=True, check=False)
    b.expect("unreadable", (done.returncode, done.stdout, done.stderr),
             (1, "", "memtrack: cannot open 'sample.mtk': Permission denied\n"))
    os.mkfifo(os.path.join(b.dir, "fifo"))
    done = b.run("report", "fifo")
    b.expect("fifo", (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))


@test
def suppressions_are_checked_before_anything_else(b):
    path = b.sample()
    bad = {
        "leak:\n": "'bad:1': expected a pattern",
        "# fine\nleak:ok\nrace:x y\nnonsense\n": "'bad:3': ",
        "{\n   name\n   Memcheck:Leak\n   fun:malloc\n": "'bad:",
        "{\n   name\n   Memcheck:Leak\n   what:malloc\n}\n": "'bad:4': expected 'fun:', 'obj:'",
    }
    for text, part in bad.items():
        with open(os.path.join(b.dir, "bad"), "w", encoding="ascii") as f:
            f.write(text)
        commands = [["report", path, "--suppressions=bad", "--no-symbols"]]
        if LIBRARY != "-":
            commands.append(["run", "--suppressions=bad", "touch", "ran"])
        for command in commands:
            done = b.run(*command)
            b.expect("%s %r" % (command[0], text), (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
            b.expect_in(command[0], done.stderr, part)
    b.expect("the program did not run", os.path.exists(os.path.join(b.dir, "ran")), False)
    if LIBRARY != "-":
        b.fails(1, "cannot open 'gone.supp': No such file or directory", "run", "--suppressions=gone.supp", "touch", "ran")
        b.expect("the program did not run", os.path.exists(os.path.join(b.dir, "ran")), False)


@test
def options_that_do_not_go_together_are_refused(b):
    path = b.sample()
    b.fails(1, "no snapshots were taken: 'memtrack run --snapshot-every=TIME' takes them while a program runs", "report",
            "--show=timeline", "--no-symbols", path)
    b.fails(1, "--show=peak is not known by thread; use another --by", "report", "--show=peak", "--by=thread",
            "--no-symbols", path)
    for show in ["errors", "sizes", "threads", "coverage"]:
        b.fails(1, "--show=%s is not grouped by thread; leave --by out" % show, "report", "--show=" + show, "--by=thread",
                "--no-symbols", path)
    b.fails(1, "--show=threads cannot be compared; use leaks, live, peak, total, temporary, large or modules", "diff",
            "--show=threads", "--no-symbols", path, path)
    done = b.run("report", path, "--no-symbols", "-o", "/nonexistent/x")
    b.expect("output status", done.returncode, 1)
    b.expect_in("output", done.stderr, "/nonexistent/x")
    done = b.run("report", path, "--suppressions=missing.supp")
    b.expect("suppressions status", done.returncode, 1)
    b.expect_in("suppressions", done.stderr, "missing.supp")


# ---- reports ----

CONTROLS = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]")


def strings_of(value):
    if isinstance(value, dict):
        return [s for v in value.values() for s in strings_of(v)]
    if isinstance(value, list):
        return [s for v in value for s in strings_of(v)]
    return [value] if isinstance(value, str) else []


@test
def hostile_names_do_not_reach_the_terminal(b):
    path = b.sample("hostile")
    shows = ["leaks", "live", "peak", "total", "temporary", "large", "sizes", "lifetimes", "threads", "modules", "heaps",
             "coverage"]
    commands = [["report", path, "--show=" + show] for show in shows]
    commands += [["report", path, "--by=" + by] for by in ["function", "module", "thread", "size", "heap", "label"]]
    commands += [["report", path, path], ["diff", path, b.sample()], ["diff", b.sample(), path, "--by=label"]]
    lines = {}
    for command in commands:
        for form in [[], ["--csv"], ["--kv"], ["--json"], ["--no-symbols"]]:
            done = subprocess.run([MEMTRACK, *command, *form], cwd=b.dir, env=b.env, capture_output=True, check=False)
            name = " ".join(os.path.basename(word) for word in command + form)
            if done.returncode and b"\nmemtrack: --show=" not in b"\n" + done.stderr:
                b.problems.append("%s: status %d, %s" % (name, done.returncode, done.stderr[:300]))
            for stream, text in [("stdout", done.stdout), ("stderr", done.stderr)]:
                found = CONTROLS.search(text)
                if found and form != ["--json"]:
                    b.problems.append("%s: %s has %r" % (name, stream, text[max(found.start() - 20, 0):found.end() + 20]))
                text = text.decode("utf-8")  # raises ValueError when it is none
                if "\nFAKE" in text or "\n\tFAKE" in text:
                    b.problems.append("%s: a name made a line of its own" % name)
            lines[name] = done.stdout
            if form == ["--json"] and not done.returncode:
                report = json.loads(done.stdout)
                lines[name + " strings"] = strings_of(report)
    b.expect_in("path in text", lines["report hostile.mtk --show=leaks"].decode(),
                r"exe\x1b]0;owned\x07\n\r\tFAKE \xff\xc3(\u{9b}31m" + "\"'" + r",;=\x7f\u{202e}")
    for part in [b"label\\x1b]0;", b"source.c\\x1b]0;", b"heap\\x1b]0;"]:
        if part not in lines["report hostile.mtk --show=leaks"]:
            b.problems.append("%r is not in the text" % part)
    b.expect_in("thread", lines["report hostile.mtk --show=threads"].decode(), r"th\x1b[2J\n\xff")
    exact = "/bin/exe\033]0;owned\a\n\r\tFAKE \ufffd\ufffd(\x9b31m\"',;=\x7f\u202e"
    if exact not in lines["report hostile.mtk --show=leaks --json strings"]:
        b.problems.append("JSON does not have the exact path")
    rows = list(csv.DictReader(io.StringIO(lines["report hostile.mtk --show=leaks --csv"].decode())))
    b.expect("csv rows", (len(rows), sum(r["stack"].startswith("source.c\\x1b]0;owned") for r in rows)), (2, 1))


@test
def hostile_names_are_harmless_in_messages(b):
    name = "no\033[31m\n\udcff"
    done = subprocess.run([MEMTRACK, "report", name], cwd=b.dir, env=b.env, capture_output=True, check=False)
    b.expect("status", done.returncode, 1)
    b.expect("stderr", done.stderr, rb"memtrack: cannot open 'no\x1b[31m\n\xff': No such file or directory" + b"\n")


@test
def symbol_warnings_are_few_unless_asked_for(b):
    path = b.sample("missing")
    some = ["memtrack: cannot open '/nonexistent/lib%d.so': no symbols from it" % i for i in range(6)]
    for command in [["report", path], ["report", path, "--json"], ["report", path, path], ["diff", path, path]]:
        done = b.run(*command)
        lines = done.stderr.splitlines()
        b.expect(" ".join(command), (done.returncode, len(lines), set(lines[:3]) <= set(some), lines[3:]),
                 (0, 4, True, ["memtrack: 3 more files without symbols (-v lists them)"]))
        b.expect("-v", sorted(b.run(*command, "-v").stderr.splitlines()), some)
        b.expect("--no-symbols", b.run(*command, "--no-symbols").stderr, "")


@test
def the_network_is_asked_only_when_allowed(b):
    path = b.sample("missing")
    done = b.run("report", path, "--debuginfod", "--json")
    b.expect_in("no server", done.stderr, "memtrack: --debuginfod has no effect: $DEBUGINFOD_URLS names no server\n")
    b.expect("status", done.returncode, 0)
    env = dict(b.env, DEBUGINFOD_URLS="file:///nonexistent")
    b.expect("server", "--debuginfod" in b.run("report", path, "--debuginfod", env=env).stderr, False)


@test
def frees_out_of_sight_are_told(b):
    path = b.sample("unseen")
    sentence = "blocks were freed out of sight; found when their address was handed out again"
    b.expect_in("text", b.run("report", path, "--no-symbols").stdout, "warning: 1,234 %s\n" % sentence)
    report = json.loads(b.run("report", path, "--no-symbols", "--json").stdout)
    b.expect("warnings", "1,234 " + sentence in report["warnings"], True)
    report = json.loads(b.run("report", path, "--no-symbols", "--json", "--show=coverage").stdout)
    b.expect("lost", report["coverage"]["lost"], [{"reason": 11, "what": sentence, "count": 1234}])
    b.expect("exact", report["coverage"]["exact"], False)
    b.expect_in("coverage", b.run("report", path, "--no-symbols", "--show=coverage").stdout, "1,234  " + sentence)


@test
def machine_formats_agree_with_each_other(b):
    path = b.sample()
    report = json.loads(b.run("report", path, "--json", "--no-symbols", "--leak-threshold=0").stdout)
    kv = dict(re.findall(r"\[STATS\] (\w+)=(\d+)", b.run("report", path, "--kv", "--no-symbols").stdout))
    for ours, theirs in [("total_alloc", "total_alloc_count"), ("total_alloc_bytes", "total_alloc_bytes"),
                         ("peak_bytes", "peak_alloc_bytes"), ("live_bytes", "current_alloc_bytes"),
                         ("total_free", "total_free_count"), ("total_free_bytes", "total_free_bytes")]:
        b.expect(theirs, int(kv[theirs]), report[ours])
    rows = list(csv.DictReader(io.StringIO(b.run("report", path, "--csv", "--no-symbols").stdout)))
    b.expect("csv rows", [(r["callstack_hash"], int(r["bytes"]), int(r["rank"])) for r in rows],
             [(s["callstack_hash"], s["bytes"], s["rank"]) for s in report["top_leak_sites"]])
    b.expect("leak_bytes", report["leak_bytes"], sum(s["bytes"] for s in report["top_leak_sites"]))
    b.expect("--stat-output", json.loads(b.run("report", path, "--stat-output", "--no-symbols",
                                               "--leak-threshold=0").stdout), report)
    b.expect("two runs", b.run("report", path, "--json", "--no-symbols").stdout,
             b.run("report", path, "--json", "--no-symbols").stdout)


@test
def every_show_and_grouping_works(b):
    path = b.sample()
    for show in ["leaks", "live", "peak", "total", "temporary", "large", "modules"]:
        for by in ["site", "function", "module", "thread", "size", "heap", "label"]:
            for sort in ["bytes", "growth"]:
                done = b.run("report", path, "--no-symbols", "--show=" + show, "--by=" + by, "--sort=" + sort)
                known = not (show == "peak" and by in ("size", "thread") or show == "temporary" and by == "size")
                if done.returncode != (0 if known else 1):
                    b.problems.append("%s by %s: status %d %s" % (show, by, done.returncode, done.stderr[:200]))
        b.expect(show + " is that", json.loads(b.run("report", path, "--show=" + show, "--json",
                                                     "--no-symbols").stdout)["show"], show)
    for show in ["sizes", "lifetimes", "threads", "heaps", "coverage"]:
        b.expect(show, b.run("report", path, "--show=" + show, "--no-symbols").returncode, 0)
        b.expect(show + " is that", json.loads(b.run("report", path, "--show=" + show, "--json",
                                                     "--no-symbols").stdout)["show"], show)


@test
def output_goes_to_a_file_and_colours_only_to_a_terminal(b):
    path = b.sample()
    done = b.run("report", path, "--no-symbols", "-o", "out.txt")
    b.expect("stdout", done.stdout, "")
    with open(os.path.join(b.dir, "out.txt"), encoding="utf-8") as f:
        b.expect("file", f.read(), b.run("report", path, "--no-symbols").stdout)
    if not shutil.which("script"):
        raise Skip("needs script(1)")
    for no_color, has in [(None, True), ("1", False)]:
        env = dict(b.env, TERM="xterm")
        env.pop("NO_COLOR", None)
        if no_color:
            env["NO_COLOR"] = no_color
        done = subprocess.run(["script", "-qec", "%s report --no-symbols %s" % (MEMTRACK, path), "/dev/null"], env=env,
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        b.expect("colours with NO_COLOR=%s" % no_color, "\033[" in done.stdout, has)


@test
def devices_and_pipes_are_written_not_replaced(b):
    path = b.sample()
    expected = b.run("report", path, "--no-symbols").stdout
    os.mkfifo(os.path.join(b.dir, "pipe"))
    reader = subprocess.Popen(["cat", "pipe"], cwd=b.dir, stdout=subprocess.PIPE, text=True)
    done = b.run("report", path, "--no-symbols", "-o", "pipe")
    b.expect("pipe", (done.returncode, reader.communicate(timeout=TIMEOUT_S)[0]), (0, expected))
    b.expect("still a pipe", os.stat(os.path.join(b.dir, "pipe")).st_mode & 0o170000, 0o010000)
    with open(os.path.join(b.dir, "target"), "w", encoding="ascii") as f:
        f.write("x" * 100000)
    os.symlink("target", os.path.join(b.dir, "link"))
    b.expect("link", b.run("report", path, "--no-symbols", "-o", "link").returncode, 0)
    b.expect("still a link", os.readlink(os.path.join(b.dir, "link")), "target")
    with open(os.path.join(b.dir, "target"), encoding="utf-8") as f:
        b.expect("through the link", f.read(), expected)
    b.expect("/dev/stdout", b.run("report", path, "--no-symbols", "-o", "/dev/stdout").stdout, expected)
    os.symlink("/dev/full", os.path.join(b.dir, "full"))
    b.fails(1, "cannot write 'full': No space left on device", "report", path, "--no-symbols", "-o", "full")


@test
def long_reports_are_written_while_they_are_made(b):
    path = b.sample("wide")
    text = b.run("report", path, "--json").stdout
    b.expect("rows", len(json.loads(text)["top_leak_sites"]), 8000)
    b.expect("to a file", b.run("report", path, "--json", "-o", "file").returncode, 0)
    with open(os.path.join(b.dir, "file"), encoding="utf-8") as f:
        b.expect("the same", f.read() == text, True)
    b.expect("in place", b.run("report", path, "--json", "-o", "/dev/stdout").stdout == text, True)
    os.mkdir(os.path.join(b.dir, "closed"), 0o500)
    if os.getuid():
        b.fails(1, "cannot create 'closed/file': Permission denied", "report", path, "--json", "-o", "closed/file")
    with subprocess.Popen([MEMTRACK, "report", path, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as p:
        p.stdout.readline()
        p.stdout.close()
        b.expect("a reader that goes away", (p.stderr.read(), p.wait(TIMEOUT_S)), (b"", 0))
    b.expect("nothing else is left", [name for name in os.listdir(b.dir) if name.startswith("file")], ["file"])


@test
def a_full_disk_is_an_error(b):
    for path in b.sample(), b.sample("wide"):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([MEMTRACK, "report", "--json", "--no-symbols", path], stdout=full,
                                  stderr=subprocess.PIPE, text=True, check=False)
        b.expect("status", done.returncode, 1)
        b.expect("stderr", done.stderr, "memtrack: cannot write to standard output: No space left on device\n")
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([MEMTRACK, "help"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    b.expect("help status", done.returncode, 1)


# ---- run: refusals ----

@test
def run_refuses_before_the_program_starts(b):
    marker = os.path.join(b.dir, "ran")
    script = os.path.join(b.dir, "script")
    with open(script, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\ntouch %s\n" % marker)
    b.fails(126, "cannot run '%s': it may not be executed (permission denied)" % script, "run", script)
    os.chmod(script, 0o755)
    b.fails(127, "cannot run 'no-such-program': no such program in PATH", "run", "no-such-program")
    b.fails(127, "cannot run './nothing': no such program", "run", "./nothing")
    b.fails(126, "cannot run '/tmp': it is a directory", "run", "/tmp")
    b.fails(1, "cannot write to the output directory '/nonexistent': No such file or directory", "run", "-o",
            "/nonexistent/%p.mtk", script)
    b.fails(1, "cannot write to the output directory '/nonexistent': No such file or directory", "run",
            "--report-file=/nonexistent/report", script)
    env = dict(b.env, MEMTRACK_LIB="/nonexistent/lib.so")
    b.fails(1, "cannot use '/nonexistent/lib.so' (from MEMTRACK_LIB): No such file or directory", "run", script,
            env=env)
    if os.path.exists(marker):
        b.problems.append("the program ran")
    b.expect("files", b.files(), [])


@test
def run_explains_programs_that_change_privileges(b):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    os.chmod(b.dir, 0o755)
    program = os.path.join(b.dir, "setuid")
    shutil.copy("/bin/true", program)
    # a place from which nobody can run our command
    command = os.path.join(b.dir, "memtrack")
    shutil.copy(MEMTRACK, command)
    for mode, word in [(0o4755, "set-uid"), (0o2755, "set-gid")]:
        os.chmod(program, mode)
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", command, "run", program],
                              cwd=b.dir, capture_output=True, text=True, check=False)
        if os.statvfs(b.dir).f_flag & os.ST_NOSUID:
            raise Skip("/tmp is mounted nosuid")
        b.expect(word + " status", done.returncode, 1)
        b.expect_in(word, done.stderr, "'%s' is %s: the system ignores LD_PRELOAD for it" % (program, word))
    for user, mode, status in [(65534, 0o4755, 1), (0, 0o4755, 0)]:  # root gives rights up, or does not
        os.chown(program, user, 0)
        os.chmod(program, mode)
        if status == 0 and LIBRARY == "-":  # nothing to track with in a sanitizer's build
            continue
        b.expect("root, set-uid to %d" % user, b.run("run", "--report=none", program).returncode, status)


# ---- run: with the tracker ----

@needs_library
def run_ends_as_the_program(b):
    for status in [0, 1, 77, 255]:
        b.expect("exit %d" % status, b.run("run", "--report=none", SUBJECT, "exit", str(status)).returncode, status)
    for number in [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGUSR1, signal.SIGINT]:
        b.expect(number.name, b.run("run", "--report=none", SUBJECT, "kill", str(int(number))).returncode, -number)
    b.expect("no cores of ours", [n for n in os.listdir(b.dir) if "core" in n and "memtrack" in n], [])


@needs_library
def run_reports_the_leak_with_its_line(b):
    done = b.run("run", SUBJECT, "exit", "5")
    b.expect("status", done.returncode, 5)
    b.expect("stdout", done.stdout, "")
    b.expect_in("verdict", done.stderr, "1 site holds ")
    b.expect_in("row", done.stderr, "1. 19.5 KiB (20,000 B), ")
    b.expect_in("stack", done.stderr, "#0  leak_here  ")
    b.expect_in("file", done.stderr, "subject.c:")
    b.expect_in("end", done.stderr, "exited with status 5")
    b.expect("files", len(b.files()), 1)
    b.expect_in("wrote", done.stderr, "memtrack: wrote '%s/%s'" % (os.path.realpath(b.dir), b.files()[0]))
    report = json.loads(b.run("report", b.files()[0], "--json").stdout)
    b.expect("leak_bytes", report["leak_bytes"], 20000)
    b.expect("exit_status", report["processes"][0]["exit_status"], 5)
    b.expect("function", report["top_leak_sites"][0]["frames"][0]["function"], "leak_here")


@needs_library
def a_program_rebuilt_since_is_told_without_asking(b):
    program = os.path.join(b.dir, "prog")
    shutil.copy(SUBJECT, program)
    b.run("run", "--report=none", "-o", "p.mtk", program)
    os.unlink(program)
    shutil.copy(MAKE_SAMPLE, program)
    warning = "memtrack: '%s' has changed since the recording: build-id differs\n" % os.path.realpath(program)
    b.expect("report", b.run("report", "p.mtk").stderr, warning)
    b.expect("json", b.run("report", "p.mtk", "--json").stderr, warning)
    b.expect("diff, once", b.run("diff", "p.mtk", "p.mtk").stderr, warning)
    cached = os.path.join(b.dir, "cache", "memtrack")
    shutil.rmtree(cached, ignore_errors=True)
    b.run("report", "p.mtk", "--no-cache")
    b.expect("--no-cache", os.path.exists(cached), False)


@needs_library
def what_counts_when_sampling_begins_is_told(b):
    for option in ["depth=3", "modules=+x", "min-anon=1M", "max-cpu=5"]:
        done = b.run("run", "--mode=stats", "--report=none", "--" + option, SUBJECT, "free")
        b.expect(option, (done.returncode, done.stderr), (0, "memtrack: --%s counts in --mode=stats only once sampling begins, by memtrack "
                 "ctl or a profile that the program asks for\n" % option.split("=")[0]))
    done = b.run("run", "--mode=stats", "-q", "--depth=3", SUBJECT, "free")
    b.expect("quiet", (done.returncode, done.stderr), (0, ""))


@needs_library
def error_exitcode_tells_leaks(b):
    b.expect("leaks", b.run("run", "--report=none", "-o", "leaks.mtk", "--error-exitcode=99", SUBJECT, "exit", "3").returncode, 99)
    b.expect("none", b.run("run", "--report=none", "--error-exitcode=99", SUBJECT, "free").returncode, 0)
    b.expect("higher threshold", b.run("run", "--report=none", "--error-exitcode=99", "--leak-threshold=20001", SUBJECT,
                                       "exit", "3").returncode, 3)
    b.expect("killed", b.run("run", "--report=none", "--error-exitcode=99", SUBJECT, "kill", "15").returncode, -15)
    with open(os.path.join(b.dir, "s"), "w", encoding="ascii") as f:
        f.write("leak:leak_here\n")
    b.expect("suppressed", b.run("run", "--report=none", "--error-exitcode=99", "--suppressions=s", SUBJECT, "exit",
                                 "3").returncode, 3)
    done = b.run("run", "--suppressions=s", SUBJECT)
    b.expect_in("suppressed report", done.stderr, "suppressed: 1 site, 19.5 KiB (20,000 B) in 20 blocks")
    b.expect("report", b.run("report", "--error-exitcode=7", "leaks.mtk").returncode, 7)


@needs_library
def suppressions_in_both_notations_work_with_run_and_report(b):
    valgrind = "{\n   ours\n   Memcheck:Leak\n   match-leak-kinds: definite\n   fun:malloc\n   fun:leak_*\n   ...\n}\n"
    for name, text in [("lsan", "# ours\nleak:^leak_here$\n"), ("source", "leak:subject.c\n"), ("valgrind", valgrind),
                       ("both", "leak:nothing_of_this\n" + valgrind)]:
        with open(os.path.join(b.dir, name), "w", encoding="ascii") as f:
            f.write(text)
        done = b.run("run", "-o", name + ".mtk", "--suppressions=" + name, "--error-exitcode=9", SUBJECT)
        b.expect(name + " run", done.returncode, 0)
        b.expect_in(name, done.stderr, "suppressed: 1 site, 19.5 KiB (20,000 B) in 20 blocks")
        done = b.run("report", name + ".mtk", "--suppressions=" + name, "--error-exitcode=9", "--json")
        report = json.loads(done.stdout)
        b.expect(name + " report", (done.returncode, report["suppressed"], report["leak_bytes"]),
                 (0, {"rows": 1, "count": 20, "bytes": 20000}, 0))
        b.expect(name + " live", json.loads(b.run("report", name + ".mtk", "--suppressions=" + name, "--json",
                                                  "--show=live").stdout)["bytes"], 20000)


@needs_library
def quiet_and_none_print_nothing(b):
    for option in ["-q", "--report=none"]:
        done = b.run("run", option, SUBJECT)
        b.expect(option, (done.stdout, done.stderr), ("", ""))
    b.expect("files", len(b.files()), 2)
    done = b.run("run", "-q", "-v", SUBJECT)
    b.expect_in("verbose", done.stderr, "memtrack: state files are made in '/")


@needs_library
def reports_go_where_they_are_asked(b):
    done = b.run("run", "--report-file=r.json", "--json", SUBJECT)
    b.expect_in("stderr", done.stderr, "memtrack: wrote ")
    with open(os.path.join(b.dir, "r.json"), encoding="utf-8") as f:
        b.expect("leak_bytes", json.load(f)["leak_bytes"], 20000)
    with open(os.path.join(b.dir, "r.json"), "w", encoding="ascii") as f:
        f.write("old")
    done = b.run("run", "-q", "--report-file=r.json", "--json", SUBJECT)
    b.expect("quiet", (done.stdout, done.stderr), ("", ""))
    with open(os.path.join(b.dir, "r.json"), encoding="utf-8") as f:
        b.expect("leak_bytes of a quiet run", json.load(f)["leak_bytes"], 20000)
    done = b.run("run", "--report=summary", SUBJECT)
    b.expect_in("summary", done.stderr, "  live       19.5 KiB (20,000 B) in 20 blocks")
    b.expect("no rows", "#0" in done.stderr, False)


@needs_library
def names_that_exist_are_numbered(b):
    for _ in range(3):
        b.run("run", "--report=none", "-o", "out.mtk", SUBJECT)
    b.expect("files", b.files(), ["out-2.mtk", "out-3.mtk", "out.mtk"])
    for name in b.files():
        b.expect(name, os.stat(os.path.join(b.dir, name)).st_mode & 0o7777, 0o600)


@needs_library
def children_are_reported_together(b):
    done = b.run("run", "-o", "%p.mtk", SUBJECT, "fork")
    b.expect_in("head", done.stderr, "  processes  2, listed below")
    b.expect_in("sum", done.stderr, "  live       39.1 KiB (40,000 B) in 40 blocks")
    b.expect("files", len(b.files()), 2)
    done = b.run("run", "-o", "one.mtk", "--follow=none", SUBJECT, "fork")
    b.expect("follow none", [n for n in b.files() if n.startswith("one")], ["one.mtk"])


def running_tree(b, *options, script=""):
    """A shell whose children have ended: the launcher, and the directory of the states."""
    launcher = b.start("run", *options, "sh", "-c", script + "echo ready; read x; exit 5", stdin=subprocess.PIPE)
    b.expect("ready", launcher.stdout.readline(), "ready\n")
    pid = children_of(launcher.pid)[0]
    with open("/proc/%d/environ" % pid, encoding="utf-8", errors="replace") as f:
        return launcher, pid, re.search("MEMTRACK_STATE_DIR=([^\0]+)", f.read())[1]


def states_in(directory):
    return sorted(name for name in os.listdir(directory) if name.endswith(".mtk"))


SIX = "for i in 1 2 3 4 5 6; do /bin/true; done; (exec /bin/true); "


@needs_library
def states_of_the_ended_do_not_stay_in_memory(b):
    launcher, pid, states = running_tree(b, "-o", "%e.%p.mtk", "--report=none", script=SIX)
    b.expect("while it runs", wait_until(lambda: states_in(states) == ["%d.1.mtk" % pid]), True)
    b.expect("files", sorted(set(f.split(".")[0] for f in b.files())), ["dash", "true"] if "dash" in str(b.files()) else ["true"])
    listed = [line for line in b.run("ps").stdout.splitlines() if states in line]
    b.expect("ps", (len(listed), "left behind" in str(listed)), (1, False))
    out, err = launcher.communicate("x\n", timeout=TIMEOUT_S)
    b.expect("end", (launcher.returncode, out, err, os.path.exists(states)), (5, "", "", False))
    b.expect("true", len([f for f in b.files() if f.startswith("true.")]), 7)


@needs_library
def the_program_s_own_state_has_the_plain_name(b):
    with open(os.path.join(b.dir, "out.mtk"), "w", encoding="ascii"):
        pass  # of an earlier run
    launcher, pid, states = running_tree(b, "-o", "out.mtk", "--json", script=SIX)
    b.expect("while it runs", wait_until(lambda: len(states_in(states)) == 1), True)
    _, err = launcher.communicate("x\n", timeout=TIMEOUT_S)
    b.expect("files", b.files(), sorted(["out.mtk"] + ["out-%d.mtk" % i for i in range(2, len(b.files()) + 1)]))
    report = json.loads(err[err.index("{"):err.rindex("}") + 1])
    pids = [p["pid"] for p in report["processes"]]
    b.expect("order", pids, sorted(pids))
    own = json.loads(b.run("report", "--json", "out-2.mtk").stdout)["processes"][0]
    b.expect("own", own["pid"], pid)


@needs_library
def a_process_that_execs_again_and_again_is_followed(b):
    chain = os.path.join(b.dir, "chain")
    with open(chain, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nread x\n[ $1 -gt 0 ] && exec /bin/sh %s $(($1 - 1))\necho over\nread x\n" % chain)
    launcher = b.start("run", "--report=none", "-o", "%e.%p.mtk", "sh", "-c", "sh %s 4; exit 3" % chain,
                       stdin=subprocess.PIPE)
    for _ in range(5):
        launcher.stdin.write("x\n")
        launcher.stdin.flush()
        time.sleep(0.05)  # time to take the file of the program that was replaced: its number is free again
    b.expect("over", launcher.stdout.readline(), "over\n")
    out, err = launcher.communicate("x\n", timeout=TIMEOUT_S)
    b.expect("end", (launcher.returncode, out, err), (3, "", ""))
    ends = [b.run("report", f).stdout for f in b.files()]
    b.expect("ends", (len(ends), sum("became another program" in end for end in ends)), (6, 4))


@needs_library
def a_launcher_that_is_killed_has_lost_no_state(b):
    """In the middle of collecting: the rest is left for ps."""
    launcher = b.start("run", "--report=none", "-o", "%e.%p.mtk", "sh", "-c",
                       "i=0; while [ $i -lt 60 ]; do i=$((i+1)); /bin/true; done; read x", stdin=subprocess.PIPE)
    b.expect("some", bool(wait_until(lambda: len(b.files()) > 10)), True)
    launcher.kill()
    launcher.stdin.write("x\n")
    launcher.communicate(timeout=TIMEOUT_S)  # its pipes are the program's, too: that has ended as well
    wait_until(lambda: b.run("ps") and len(whole_states(b)) >= 61, 10)
    b.expect("all", len(whole_states(b)), 61)


def whole_states(b):
    """By process: the name that was reserved when the launcher was killed is empty, and its state may be there twice."""
    paths = [os.path.join(b.dir, f) for f in b.files()]
    return {re.sub(r"-\d+\.mtk$", ".mtk", path) for path in paths if os.path.getsize(path)}


@needs_library
def a_program_that_execs_leaves_two_files(b):
    done = b.run("run", "-o", "e.mtk", SUBJECT, "exec")
    b.expect("status", done.returncode, 9)
    b.expect("files", b.files(), ["e-2.mtk", "e.mtk"])
    b.expect_in("first", done.stderr, "became another program (exec)")
    b.expect_in("second", done.stderr, "exited with status 9")


@needs_library
def signals_are_passed_on(b):
    for number in [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2]:
        p = b.start("run", "--report=none", SUBJECT, "signal")
        b.expect("ready", p.stdout.readline(), "ready\n")
        p.send_signal(number)
        out, err = p.communicate(timeout=TIMEOUT_S)
        b.expect(number.name, (p.returncode, out, err), (40, "signal %d\n" % number, ""))


@needs_library
def ctrl_c_is_the_program_s_alone(b):
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(b.dir)
        os.execve(MEMTRACK, [MEMTRACK, "run", "--report=summary", "--report-file=r", SUBJECT, "signal"], b.env)
    text = b""
    while b"ready" not in text:
        text += os.read(terminal, 1000)
    os.write(terminal, b"\x03")
    while True:
        try:
            part = os.read(terminal, 1000)
        except OSError:
            break
        if not part:
            break
        text += part
    b.expect("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 40)
    b.expect_in("program", text.decode(), "signal 2\r\n")
    with open(os.path.join(b.dir, "r"), encoding="utf-8") as f:
        b.expect_in("report", f.read(), "exited with status 40")
    os.close(terminal)


@needs_library
def other_users_can_track_their_programs(b):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    for name, path in [("memtrack", MEMTRACK), ("lib.so", LIBRARY), ("subject", SUBJECT)]:
        shutil.copy(path, os.path.join(b.dir, name))
    os.chmod(b.dir, 0o777)
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "./memtrack", "run", "-o",
                           "%p.mtk", "./subject"], cwd=b.dir, env=dict(b.env, MEMTRACK_LIB="./lib.so", HOME="/nonexistent"),
                          capture_output=True, text=True, check=False)
    b.expect("status", done.returncode, 0)
    b.expect_in("report", done.stderr, "19.5 KiB (20,000 B)")
    b.expect("owner", [os.stat(os.path.join(b.dir, n)).st_uid for n in b.files()], [65534])


@needs_library
def programs_that_give_up_root_are_reported(b):
    if os.getuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv")
    for name, path in [("lib.so", LIBRARY), ("subject", SUBJECT)]:
        shutil.copy(path, os.path.join(b.dir, name))
    os.chmod(b.dir, 0o755)
    os.chmod(os.path.join(b.dir, "lib.so"), 0o755)
    before = set(glob.glob("/dev/shm/memtrack-65534-*"))
    done = b.run("run", "-o", "%e.mtk", "--json", "--report-file=r", "sh", "-c",
                 "setpriv --reuid=65534 --regid=65534 --clear-groups ./subject; exit 3",
                 env=dict(b.env, MEMTRACK_LIB=os.path.join(b.dir, "lib.so")))
    b.expect("status", done.returncode, 3)
    b.expect("files", "subject.mtk" in b.files(), True)
    b.expect("owner", os.stat(os.path.join(b.dir, "subject.mtk")).st_uid, 0)
    with open(os.path.join(b.dir, "r"), encoding="utf-8") as f:
        report = json.load(f)
    b.expect("in the report", [p["exe"].endswith("/subject") for p in report["processes"]].count(True), 1)
    leaks = [s for s in report["top_leak_sites"] if s["bytes"] == 20000]
    b.expect("leak", [s["frames"][0]["function"] for s in leaks], ["leak_here"])
    left = set(glob.glob("/dev/shm/memtrack-65534-*")) - before
    b.expect("nothing of it is left", [d for d in left if any(b"subject" in open(f, "rb").read(1 << 20) for f in
                                                             glob.glob(d + "/*.mtk"))], [])


def in_own_dev_shm(b, script, size="100%"):
    script = "mount -t tmpfs -o size=%s none /dev/shm || exit 99; %s" % (size, script)
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=b.dir, env=dict(b.env, TMPDIR=b.dir),
                          capture_output=True, text=True, check=False)
    if "not permitted" in done.stderr or "denied" in done.stderr:
        raise Skip("mount namespaces are not allowed here")
    return done


@needs_library
def a_small_dev_shm_is_not_used(b):
    done = in_own_dev_shm(b, "exec %s run -v --report=none %s" % (MEMTRACK, SUBJECT), "1M")
    b.expect("status", done.returncode, 0)
    b.expect_in("reason", done.stderr, "memtrack: /dev/shm is not used: only 1.0 MiB are free in '/dev/shm'")
    b.expect_in("place", done.stderr, "memtrack: state files are made in '%s/memtrack-" % b.dir)
    b.expect("files", len(b.files()), 1)


@needs_library
def a_run_collects_some_of_what_others_left(b):
    """At most 8 of 30 directories, for the start must stay short; ps collects all."""
    left = "left=$(ls /dev/shm | wc -l); echo $left; "
    done = in_own_dev_shm(b, "for i in $(seq 30); do LD_PRELOAD=%s /bin/true; done; %s %s run -v --report=none true; %s"
                          "%s ps; %s" % (LIBRARY, left, MEMTRACK, left, MEMTRACK, left))
    counts = [int(line) for line in done.stdout.splitlines() if line.isdigit()]
    b.expect("counts", (len(counts), counts[:1], counts[-1:]), (3, [30], [0]))
    b.expect("left by run", 22 <= counts[1] <= 30, True)
    b.expect_in("said", done.stderr, "more directories of states lie around than a run looks at; 'memtrack ps' looks at all")
    b.expect("files", len(b.files()), 31)
    ps = subprocess.run(["sh", "-c", "for i in $(seq 5); do LD_PRELOAD=%s MEMTRACK_OPTIONS=output=%s/%%p.mtk /bin/true; done" %
                         (LIBRARY, b.dir)], env=b.env, check=False)
    b.expect("five", ps.returncode, 0)
    told = b.run("ps").stderr
    b.expect("one line of the first", told.count("true (pid "), 1)
    b.expect_in("and a count", told, "4 more processes of true have ended, with their states in that directory, too")


@needs_library
def a_run_leaves_a_large_state_and_names_it(b):
    grow = "dd if=/dev/zero of=$(ls /dev/shm/*/*.mtk) bs=1M count=5 oflag=append conv=notrunc status=none; "
    done = in_own_dev_shm(b, "LD_PRELOAD=%s /bin/true; %s %s run -o run.mtk true; ls /dev/shm | sed 's/^/left: /'; %s ps" %
                          (LIBRARY, grow, MEMTRACK, MEMTRACK))
    b.expect_in("named", done.stderr, "which ended before, lies in '/dev/shm/memtrack-%d-0-" % os.getuid())
    b.expect("stays", done.stdout.count("left: memtrack-%d-0-" % os.getuid()), 1)
    b.expect_in("moved", done.stderr, "has ended: its state is now in '%s/" % b.dir)
    b.expect("files", len(b.files()), 2)


@needs_library
def a_pipe_among_the_states_stops_nobody(b):
    done = in_own_dev_shm(b, "d=/dev/shm/memtrack-%d-aaa; mkdir -m 700 $d; mkfifo $d/output $d/99999.1.mtk; "
                          "touch $d/99998.1.mtk; timeout 20 %s run -q echo hi; echo $?; timeout 20 %s ps; echo $?" %
                          (os.getuid(), MEMTRACK, MEMTRACK))
    b.expect("output", done.stdout.splitlines()[:2], ["hi", "0"])
    b.expect("ps", done.stdout.splitlines()[-1], "0")


@needs_library
def a_limit_on_file_sizes_is_named(b):
    for blocks, said in (("0", "cannot write '/dev/shm/memtrack-"), ("100", "files may have 50.0 KiB at most")):
        done = in_own_dev_shm(b, "(ulimit -f %s; %s run echo hi) 2>&1 | cat; echo left: $(ls /dev/shm)" % (blocks, MEMTRACK))
        b.expect_in(blocks, done.stdout, said)
        b.expect("left behind", done.stdout.splitlines()[-1], "left:")


@needs_library
def a_stopped_program_goes_on(b):
    p = b.start("run", "--report=none", SUBJECT, "signal")
    p.stdout.readline()
    child = int(subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True, check=False).stdout.split()[0])
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.1)
    b.expect("still waiting", p.poll(), None)
    os.kill(child, signal.SIGCONT)
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=TIMEOUT_S)
    b.expect("status", p.returncode, 40)


def read_until(terminal, part, seconds=20):
    """What the terminal shows up to part; ValueError when it does not come."""
    text, end = "", time.monotonic() + seconds
    while part not in text:
        if not select.select([terminal], [], [], max(end - time.monotonic(), 0))[0]:
            raise ValueError("%r did not come: %r" % (part, text[-300:]))
        try:
            text += os.read(terminal, 1000).decode()
        except OSError:
            raise ValueError("%r did not come: %r" % (part, text[-300:])) from None
    return text


@needs_library
def ctrl_z_stops_and_fg_goes_on(b):
    # a shell that controls jobs: the run is a job of its own, and fg brings it back
    script = "set -m; %s run --report=none %s signal; echo stopped $?; fg; echo ended $?" % (MEMTRACK, SUBJECT)
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(b.dir)
        os.execve("/bin/bash", ["bash", "-c", script], b.env)
    try:
        read_until(terminal, "ready")
        os.write(terminal, b"\x1a")
        b.expect_in("stopped", read_until(terminal, "stopped "), "stopped ")
        wait_until(lambda: os.tcgetpgrp(terminal) != pid, 20)  # fg has given the terminal to the job
        os.write(terminal, b"\x03")
        text = read_until(terminal, "ended 40")
        b.expect_in("the program got the signal", text, "signal 2\r\n")
    finally:
        os.close(terminal)
        if os.waitpid(pid, os.WNOHANG)[0] == 0 and not wait_until(lambda: os.waitpid(pid, os.WNOHANG)[0], 5):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@needs_library
def processes_can_be_looked_at_while_they_end(b):
    sentences = {}
    shuffle = random.Random(1)
    for at in range(40):
        duration = shuffle.randrange(0, 60)
        if at % 2:
            env = dict(b.env, LD_PRELOAD=LIBRARY, MEMTRACK_MODE="full", MEMTRACK_STATE_DIR=b.dir)
            p = subprocess.Popen([SUBJECT, "churn", str(duration)], env=env)
            pid = p.pid
        else:
            p = subprocess.Popen([MEMTRACK, "run", "-q", "-o", "%p.mtk", SUBJECT, "churn", str(duration)], cwd=b.dir,
                                 env=b.env)
            pid = 0
            wait_until(lambda: p.poll() is not None or children_of(p.pid))
            pid = (children_of(p.pid) or [p.pid])[0]
        time.sleep(shuffle.uniform(0, 0.03))
        if at % 4 == 3:
            p.kill()
        done = b.run("report", str(pid), "--json", "--no-symbols")
        if done.returncode == 0:
            r = json.loads(done.stdout)
            if not (0 <= r["live_bytes"] <= r["total_alloc_bytes"] and r["live_bytes"] <= r["peak_bytes"] +
                    r["peak_bound_bytes"] + 65536 and r["total_free"] <= r["total_alloc"]):
                b.problems.append("totals: %s" % {k: v for k, v in r.items() if isinstance(v, int)})
        elif done.returncode != 1 or done.stdout or done.stderr.count("\n") != 1:
            b.problems.append("status %d: %s" % (done.returncode, done.stderr[:300]))
        sentence = re.sub(r"'[^']*'", "''", re.sub(r"\d+", "N", done.stderr))
        sentences[sentence] = sentences.get(sentence, 0) + 1
        p.wait()
    if os.environ.get("VERBOSE"):
        print("#", sentences)
    if sentences.get("", 0) < 5:
        b.problems.append("few processes were caught alive: %s" % sentences)


@needs_library
def a_running_process_can_be_looked_at(b):
    name, link = "subj%d" % os.getpid(), "link%d" % os.getpid()
    shutil.copy(SUBJECT, os.path.join(b.dir, name))
    os.symlink(name, os.path.join(b.dir, link))
    p = b.start("run", "--report=none", os.path.join(b.dir, link), "signal")
    p.stdout.readline()
    listing = b.run("ps", "--interval=10ms").stdout
    row = [line.split() for line in listing.splitlines() if name in line]
    b.expect("rows", len(row), 1)
    if row:
        b.expect("mode", row[0][1], "full")
        b.expect("interval", row[0][2], "-")
        b.expect("live with the buffer of stdout", row[0][3:5], ["23.5", "KiB"])
        for operand in [row[0][0], "name:" + name, "name:" + link]:
            report = json.loads(b.run("report", "--json", operand).stdout)
            b.expect(operand, (report["processes"][0]["running"], report["top_leak_sites"][0]["bytes"]), (True, 20000))
        b.expect("diff", b.run("diff", row[0][0], row[0][0]).returncode, 0)
    p.send_signal(signal.SIGTERM)
    p.communicate(timeout=TIMEOUT_S)
    b.expect("gone", name in b.run("ps").stdout, False)


@needs_library
def processes_that_outlive_the_launcher_are_collected_later(b):
    done = b.run("run", "-o", "%p.mtk", SUBJECT, "daemon", "2", stdin=subprocess.DEVNULL)
    b.expect_in("notice", done.stderr, " is still running; 'memtrack report ")
    b.expect("files at once", len(b.files()), 1)
    if not wait_until(lambda: b.run("ps").returncode == 0 and len(b.files()) == 2):
        b.problems.append("the daemon's file did not come: %s" % b.files())


@needs_library
def the_name_by_which_it_was_started_is_told(b):
    for name, wanted in (("server", ", started as server)"), ("subject-2", ")")):
        os.symlink(SUBJECT, os.path.join(b.dir, name))
        done = b.run("run", "--report=summary", "-o", "%p.mtk", "./" + name)
        line = re.search(r"^  process    subject \(pid \d+(.*?\))", done.stderr, re.M)
        b.expect(name, line and line[1], wanted)


@needs_library
def the_launcher_may_be_killed(b):
    p = b.start("run", "-o", "%p.mtk", SUBJECT, "signal")
    p.stdout.readline()
    child = int(subprocess.run(["pgrep", "-P", str(p.pid)], capture_output=True, text=True, check=False).stdout.split()[0])
    p.kill()
    p.wait()
    b.expect("alive", b.run("report", str(child), "--no-symbols").returncode, 0)
    os.kill(child, signal.SIGKILL)
    if not wait_until(lambda: b.run("ps").returncode == 0 and b.files() == ["%d.mtk" % child]):
        b.problems.append("the file did not come: %s" % b.files())
    p.stdout.close()
    p.stderr.close()


@needs_library
def a_full_output_directory_loses_nothing(b):
    os.mkdir(os.path.join(b.dir, "gone"))
    script = "rm -r gone; exec %s" % SUBJECT
    done = b.run("run", "-o", "gone/%p.mtk", "sh", "-c", script)
    b.expect_in("message", done.stderr, "stays in '/")
    b.expect_in("report all the same", done.stderr, "(20,000 B)")
    b.expect("status", done.returncode, 1)
    kept = kept_states(done.stderr)
    b.expect("kept", len(kept), 3)
    for path in kept:
        b.expect(path, b.run("report", path).returncode, 0)
        os.unlink(path)
    b.run("ps")


def kept_states(stderr):
    """Of one run: all lie in one directory."""
    path = re.search(r" stays in '([^']+)' until 'memtrack ps' can move it\n", stderr)
    return sorted(glob.glob(os.path.join(os.path.dirname(path[1]), "*.mtk"))) if path else []


@needs_library
def a_full_disk_keeps_the_states_and_is_an_error(b):
    os.mkdir(os.path.join(b.dir, "full"))
    run = "%s run -q -o full/x.mtk --report-file=r --json sh -c '/bin/true; /bin/true; exit %d'"
    script = ("mount -t tmpfs -o size=16k none full && dd if=/dev/zero of=full/fill bs=4k count=3 status=none; "
              "%s; echo $?; %s; echo $?; rm full/fill; umount full; mount -t tmpfs -o size=9M none full; %s ps; ls full | wc -l; "
              "%s report full/x.mtk" % (run % (MEMTRACK, 0), run % (MEMTRACK, 3), MEMTRACK, MEMTRACK))
    done = in_own_dev_shm(b, script)
    lines = done.stdout.splitlines()
    told = done.stderr.splitlines()
    b.expect("statuses, and files at the end", lines[:2] + [line for line in lines[2:] if line == "6"], ["1", "3", "6"])
    b.expect("why", told[0].startswith("memtrack: cannot write '%s/full/x.mtk': No space left on device: the state of " % b.dir),
             True)
    b.expect("where", re.search(r"\) stays in '/dev/shm/memtrack-\S+\.mtk' until 'memtrack ps' can move it$", told[0]) is not None,
             True)
    b.expect_in("the others", told[1], "so do 2 more states, the last one in '/dev/shm/memtrack-")
    b.expect("lines", [line for line in told[2:4] if "ps' can move it" not in line and "so do" not in line], [])
    b.expect("how it ended is known", re.search(r"exited with status [03]", done.stdout) is not None, True)
    with open(os.path.join(b.dir, "r"), encoding="utf-8") as f:
        b.expect("the report is whole", len(json.load(f)["processes"]), 3)


@needs_library
def a_state_without_a_launcher_is_left_behind(b):
    env = dict(b.env, LD_PRELOAD=LIBRARY, MEMTRACK_MODE="full", MEMTRACK_OPTIONS="output=%s/gone/%%p.mtk" % b.dir)
    env.pop("MEMTRACK_STATE_DIR", None)
    child = subprocess.Popen([SUBJECT], env=env, cwd=b.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    child.wait(TIMEOUT_S)
    for _ in range(2): # the first one tries to move it
        lines = [line for line in b.run("ps").stdout.splitlines() if "/%d.1.mtk" % child.pid in line]
        b.expect("listed", [line.endswith("(left behind)") for line in lines], [True])
    os.mkdir(os.path.join(b.dir, "gone"))
    b.run("ps")
    b.expect("moved", os.path.exists(os.path.join(b.dir, "gone", "%d.mtk" % child.pid)), True)


@needs_library
def states_that_stay_for_one_reason_are_told_once(b):
    kept = []
    for gone in "gone1", "gone2", "gone3":
        os.mkdir(os.path.join(b.dir, gone))
        done = b.run("run", "--report=none", "-o", gone + "/%p.mtk", "sh", "-c", "rm -r %s; exec %s" % (gone, SUBJECT))
        kept += kept_states(done.stderr)
    done = b.run("ps") # others of this machine may be among them
    told = [line for line in done.stderr.splitlines() if "stays in" in line and "No such file or directory" in line]
    more = re.search(r"(\d+) more states stay where they are for the same reason", done.stderr)
    b.expect("told", (len(told), more is not None and int(more[1]) >= len(kept) - 1), (1, True))
    b.expect("listed", [path for path in kept if path + " (left behind)" not in done.stdout], [])
    for path in kept:
        os.unlink(path)
    b.run("ps")


@needs_library
def skipped_suppressions_are_counted(b):
    with open(os.path.join(b.dir, "s"), "w", encoding="ascii") as f:
        f.write("{\n a\n Memcheck:Cond\n fun:x\n}\n{\n b\n Helgrind:Race\n fun:y\n}\nleak:zzz\n")
    done = b.run("report", "--suppressions=s", b.sample())
    b.expect("stderr", done.stderr.count("2 suppressions are of other tools or kinds than Memcheck's Leak"), 1)


@needs_library
def user_preloads_and_strange_paths_work(b):
    odd = os.path.join(b.dir, "a b%p")
    os.mkdir(odd)
    done = subprocess.run([MEMTRACK, "run", "--report=none", SUBJECT], cwd=odd, env=b.env, capture_output=True, text=True,
                          check=False)
    b.expect("stderr", done.stderr, "")
    b.expect("files", len(os.listdir(odd)), 1)
    env = dict(b.env, LD_PRELOAD="libpthread.so.0")
    done = b.run("run", "--report=none", "sh", "-c", "echo $LD_PRELOAD", env=env)
    b.expect("LD_PRELOAD", done.stdout, os.path.realpath(LIBRARY) + ":libpthread.so.0\n")


@needs_library
def diff_finds_growth_between_two_runs(b):
    b.run("run", "--report=none", "-o", "old.mtk", SUBJECT, "free")
    b.run("run", "--report=none", "-o", "new.mtk", SUBJECT)
    done = json.loads(b.run("diff", "old.mtk", "new.mtk", "--json").stdout)
    b.expect("bytes", (done["bytes"], done["count"], done["same_build"]), (20000, 20, True))
    total = json.loads(b.run("diff", "old.mtk", "new.mtk", "--show=total", "--json").stdout)
    b.expect("matched", [r["bytes"] for r in total["rows"] if r["old_bytes"] == 20000], [0])


sys.exit(main(Bench))
