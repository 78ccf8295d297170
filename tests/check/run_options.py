# SPDX-License-Identifier: MIT
"""
Check mode's switch, its options, its log, its signals and its end, from outside. Names begin with the number of
the behaviour in the specification where there is one.

  run_options.py --build DIR [--libc musl] [-k SUBSTRING]
"""
import argparse
import fcntl
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from harness import DIVIDER, USAGE, Bench, Frames, Missing, clean_environment, compile_program, log_lines
from tap import Tap

TESTS = []


def test(name, only=""):
    def add(function):
        TESTS.append((name, function, only))
        return function
    return add


class Run:
    """
    One run of options.c: words are what it does, options those of check mode (None: not asked for). env: more of the
    environment. {dir} in words, options and env is a folder of its own.
    """

    def __init__(self, bench, words, options=None, env=(), program=None, **how):
        bench.serial += 1
        self.program = program or bench.options_program
        self.dir = os.path.join(bench.work, "o%d" % bench.serial)
        os.mkdir(self.dir, 0o700)
        self.env = clean_environment()
        self.env.update(LD_PRELOAD=bench.library, MEMTRACK_STATE_DIR=self.dir, MEMTRACK_DIR=self.dir)
        if options is not None:
            self.env["LIBC_DEBUG_MALLOC_OPTIONS"] = self.here(options)
        self.env.update({k: self.here(v) for k, v in dict(env).items()})
        self.words = [self.here(w) for w in words.split()]
        self.how = dict(stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.program.folder)
        self.how.update(how)
        self.problems = []

    def here(self, text):
        return text.replace("{dir}", self.dir)

    def start(self):
        self.child = subprocess.Popen([self.program.name] + self.words, env=self.env, text=True, **self.how)
        self.pid = self.child.pid
        return self

    def end(self, timeout=60, text=None):
        try:
            self.out, self.err = self.child.communicate(text, timeout=timeout)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.out, self.err = self.child.communicate()
            self.problems.append("still running after %s s" % timeout)
        self.status = self.child.returncode
        self.log = log_lines(self.err or "")
        self.said = dict(re.findall(r"^(\w+) (\w+)$", self.out or "", re.M))
        return self

    def all(self, name):
        return re.findall(r"^%s (\w+)$" % name, self.out, re.M)

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %r, expected %r" % (what, got, wanted))

    def expect_log(self, *wanted):
        """Strings are whole lines, Frames take the lines of a stack, patterns must match."""
        rest = list(self.log)
        for w in wanted:
            if isinstance(w, Frames):
                taken, wrong = w.match(rest, self.program)
                self.problems += wrong
                rest = rest[taken:]
                continue
            line = rest.pop(0) if rest else "(end)"
            good = w.fullmatch(line) if isinstance(w, re.Pattern) else w == line
            if not good:
                self.problems.append("line %r, expected %r in %r" % (line, w, self.log))
                return
        if rest:
            self.problems.append("more lines: %r" % rest)

    def leak(self, size, p, i=1, n=1):
        return "+++ %s leaked block of size %d at %s (leak %d of %d)" % (self.program.name, size, p, i, n)

    def line(self, text):
        return "%s: %s" % (self.program.name, text)


def run(bench, words, options=None, env=(), **how):
    return Run(bench, words, options, env, **how).start().end()


# --- options that are refused ---

def refused(name, options, sentence, only=""):
    def check(bench):
        r = run(bench, "malloc 10 exit 3", options)
        r.expect("status", r.status, 3)
        r.expect_log(r.line(sentence), *USAGE)
        r.expect("files", os.listdir(r.dir), [])
        return r
    TESTS.append((name, check, only))


RANGE = {"glibc": "Numerical result out of range", "musl": "Result not representable"}
refused("C002 an unknown option", "backtrace unknown_option", "unknown option unknown_option")
refused("C003 commas separate nothing", "backtrace,leak_track", "unknown option backtrace,leak_track")
refused("C004 an empty name", "=10", "unknown option ")
refused("C005 text behind a number", "backtrace=10front_guard",
        "bad value for option 'backtrace', non space found after option: front_guard")
for libc, text in RANGE.items():
    refused("C006 out of range, " + libc, "backtrace=99999999999999999999", "bad value for option 'backtrace': " + text, libc)
    refused("C007 out of range below, " + libc, "backtrace=-99999999999999999999",
            "bad value for option 'backtrace': " + text, libc)
refused("C008 a value for none", "leak_track=12", "value set for option 'leak_track' which does not take a value")
refused("C012 the next word is the value", "backtrace= leak_track", "bad value for option 'backtrace'")
refused("C014 minus zero", "backtrace=-0", "bad value for option 'backtrace', value must be >= 1: 0")
refused("C022 too large a guard", "guard=20000", "bad value for option 'guard', value must be <= 16384: 20000")
refused("no quirks on request", "backtrace aosp_quirks", "unknown option aosp_quirks")
refused("C148 no abort for a wrong option", "abort_on_error unknown_option", "unknown option unknown_option")


@test("C002 nothing of a refused string is active")
def _(bench):
    r = run(bench, "malloc 10 raise 47 exit 3", "backtrace unknown_option")
    r.expect("status", r.status, -47)
    r.expect("dumps", os.listdir(r.dir), [])
    return r


# --- when it is on ---

@test("without a wish nothing is checked")
def _(bench):
    for options in (None, ""):
        r = run(bench, "malloc 10 exit 3", options)
        r.expect("status", r.status, 3)
        r.expect_log()
        r.expect("state files", len(os.listdir(r.dir)), 1)
    return r


@test("MEMTRACK_MODE=check has the usual options")
def _(bench):
    r = run(bench, "malloc 100 damage free exit 3", env={"MEMTRACK_MODE": "check"})
    r.expect("status", r.status, 3)
    r.expect("report", r.log[:2], [DIVIDER, "+++ ALLOCATION %s SIZE 100 HAS A CORRUPTED FRONT GUARD" % r.said.get("p")])
    return r


@test("MEMTRACK_MODE=off is off")
def _(bench):
    r = run(bench, "malloc 100 exit 3", "leak_track verbose", {"MEMTRACK_MODE": "off"})
    r.expect("status", r.status, 3)
    r.expect_log()
    return r


@test("C044 the next word is the prefix")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "backtrace backtrace_dump_prefix= verbose")
    r.expect("status", r.status, 3)
    r.expect_log()
    return r


@test("C046 backtrace_full alone has no signal")
def _(bench):
    r = run(bench, "malloc 10 raise 47 malloc 10", "backtrace_full")
    r.expect("status", r.status, -47)
    r.expect_log()
    return r


@test("C047 not with AddressSanitizer", only="glibc")
def _(bench):
    program = compile_program(bench.build, "options.c", flags=("-O0", "-fsanitize=address"), name="options_asan")
    r = run(bench, "malloc 10 free exit 3", "leak_track verbose",
            {"ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0"}, program=program)
    r.expect("status", r.status, 3)
    r.expect_log("malloc debug cannot be enabled alongside ASAN")
    return r


# --- verbose ---

def verbose(name, options, *signals):
    def check(bench):
        r = run(bench, "malloc 10 free exit 3", options)
        r.expect("status", r.status, 3)
        r.expect_log(*[r.line("Run: 'kill -%d %d' to %s." % (n, r.pid, why)) for n, why in signals],
                     r.line("malloc debug enabled"))
        return r
    TESTS.append((name, check, ""))


SWITCH, DUMP, RECORD = (45, "enable backtracing"), (47, "dump the backtrace"), (46, "dump the allocation records")
STATS, UNREACHABLE = (49, "log allocator stats"), (48, "check for unreachable memory")
verbose("C048 verbose alone", "verbose")
verbose("C049 verbose with stacks on a signal", "verbose backtrace_enable_on_signal", SWITCH, DUMP)
verbose("C050 verbose with unreachable blocks", "verbose check_unreachable_on_signal", UNREACHABLE)
verbose("C051 verbose with the allocator's figures", "verbose log_allocator_stats_on_signal", STATS)
ALL = ("guard backtrace backtrace_enable_on_signal fill expand_alloc free_track leak_track record_allocs verify_pointers "
       "abort_on_error verbose check_unreachable_on_signal log_allocator_stats_on_signal")
verbose("C052 verbose with everything", ALL, SWITCH, DUMP, RECORD, STATS, UNREACHABLE)
verbose("verbose with a check of the heap", "verbose check_heap_on_signal", (50, "check the heap"))


@test("C053 not verbose, no line")
def _(bench):
    r = run(bench, "malloc 10 free exit 3", "backtrace leak_track")
    r.expect("status", r.status, 3)
    r.expect_log()
    return r


# --- signals ---

@test("signals begin where check-signals says")
def _(bench):
    r = run(bench, "malloc 10 free raise 54 malloc 20 free exit 3", "verbose log_allocator_stats_on_signal",
            {"MEMTRACK_OPTIONS": "check-signals=50"})
    r.expect("status", r.status, 3)
    r.expect_log(r.line("Run: 'kill -54 %d' to log allocator stats." % r.pid), r.line("malloc debug enabled"),
                 "Logging allocator stats...", re.compile(".+"))
    return r


@test("check-signals=none leaves them to the program")
def _(bench):
    r = run(bench, "malloc 10 free raise 49", "verbose log_allocator_stats_on_signal",
            {"MEMTRACK_OPTIONS": "check-signals=none"})
    r.expect("status", r.status, -49)
    r.expect_log(r.line("malloc debug enabled"))
    return r


@test("an earlier handler is called as well", only="glibc")
def _(bench):
    r = run(bench, "malloc 10 free raise 49 malloc 10 free exit 3", "log_allocator_stats_on_signal", {"EARLY_SIGNAL": "49"},
            program=bench.early_program)
    r.expect("status", r.status, 3)
    r.expect("the library's handler", r.said.get("early"), "49")
    r.expect_log("Logging allocator stats...", re.compile(".+"))
    return r


@test("a later handler takes the signal over")
def _(bench):
    for word in ("handler", "signal"):
        r = run(bench, "malloc 10 free %s 49 raise 49 malloc 10 free exit 3" % word, "verbose log_allocator_stats_on_signal")
        r.expect("status", r.status, 3)
        r.expect("handled", r.said.get("handled"), "49")
        r.expect_log(r.line("Run: 'kill -49 %d' to log allocator stats." % r.pid), r.line("malloc debug enabled"),
                     r.line("The program has taken over the signal to log allocator stats"))
        if r.problems:
            break
    return r


@test("C155 the allocator's figures by a signal")
def _(bench):
    r = run(bench, "malloc 10 raise 49 mark signal malloc 10 free malloc 10 free exit 3", "log_allocator_stats_on_signal")
    r.expect("status", r.status, 3)
    r.expect_log("-- signal", "Logging allocator stats...", re.compile("glibc malloc: bytes in arenas .*|the allocator tells no figures"))
    return r


@test("C156 the allocator's figures at exit")
def _(bench):
    r = run(bench, "malloc 10 mark end exit 3", "log_allocator_stats_on_exit leak_track")
    r.expect("status", r.status, 3)
    r.expect_log("-- end", r.leak(10, r.said["p"]), "Logging allocator stats...", re.compile(".+"))
    return r


def unreachable(name, words, live):
    """Of two blocks the program knows the second; with the guards and the rest around them."""
    def check(bench):
        r = run(bench, "malloc 1000 malloc 20 raise 48 mark signal " + words, "check_unreachable_on_signal backtrace guard")
        r.expect("status", r.status, 3)
        r.expect_log("-- signal", "Starting to check for unreachable memory.",
                     "  1000 bytes unreachable at %s" % r.all("p")[0][2:], Frames("do_argument", "main"),
                     "1000 bytes in 1 allocation unreachable out of " + live, "-- end")
        return r
    test(name)(check)


unreachable("C152 unreachable blocks, asked for once", "malloc 110 malloc 10 mark end exit 3", "1020 bytes in 2 allocations")
unreachable("C152 unreachable blocks, asked for by free", "free mark end exit 3", "1020 bytes in 2 allocations")
unreachable("C154 unreachable blocks, asked for by malloc_usable_size", "usable mark end exit 3", "1020 bytes in 2 allocations")


@test("C153 unreachable blocks, the check fails")
def _(bench):
    lonely = os.path.join(bench.work, "lonely")
    os.makedirs(lonely, exist_ok=True)
    shutil.copy(os.path.realpath(bench.library), lonely + "/libmemtrack.so")
    r = run(bench, "malloc 10 raise 48 mark signal free mark end exit 3", "check_unreachable_on_signal",
            {"LD_PRELOAD": lonely + "/libmemtrack.so"})
    r.expect("status", r.status, 3)
    r.expect_log("-- signal", "Starting to check for unreachable memory.",
                 "Unreachable check failed, the command memtrack is not where the library expects it.", "-- end")
    return r


@test("a signal switches stacks")
def _(bench):
    r = run(bench, "malloc 1 raise 45 malloc 2 raise 45 malloc 3 exit 3", "backtrace_enable_on_signal leak_track")
    r.expect("status", r.status, 3)
    p = r.all("p")
    r.expect_log(r.leak(3, p[2], 1, 3), r.leak(2, p[1], 2, 3), "Backtrace at time of allocation:", Frames("do_argument", "main"),
                 r.leak(1, p[0], 3, 3))
    return r


@test("a signal has the heap checked")
def _(bench):
    r = run(bench, "malloc 100 spoil free spoil mark before raise 50 malloc 1 mark after _exit 3",
            "free_track free_track_backtrace_num_frames=0 check_heap_on_signal")
    r.expect("status", r.status, 3)
    p = r.all("p")[0]
    r.expect("the log", r.log[:4], ["-- before", DIVIDER, "+++ ALLOCATION %s USED AFTER FREE" % p,
                                    "  allocation[0] = 0x00 (expected 0xef)"])
    r.expect("reports", r.log.count("+++ ALLOCATION %s USED AFTER FREE" % p), 1)
    return r


@test("what a parent was asked for is not its child's work")
def _(bench):
    r = run(bench, "malloc 10 raise 49 fork malloc 10 mark child _exit 3", "log_allocator_stats_on_signal")
    r.expect("status", r.status, 3)
    r.expect_log("-- child")
    return r


def linked_program(bench):
    """options.c with the library inside, without a loader."""
    library = os.path.join(bench.build, "libmemtrack-wrap.a")
    made = os.path.join(bench.build, "check", bench.libc, "options_linked")
    if os.path.exists(made) and os.path.getmtime(made) < os.path.getmtime(library):
        os.unlink(made)
    wrapped = ["-Wl,--wrap=" + name for name in ("malloc", "calloc", "realloc", "free")]
    return compile_program(bench.build, "options.c", bench.libc, flags=("-O0", "-static", *wrapped),
                           libs=(library, "-pthread"), name="options_linked")


@test("signals of a program that the library is linked into")
def _(bench):
    program = linked_program(bench)
    r = run(bench, "malloc 1 raise 45 malloc 20 raise 45 raise 46 raise 47 malloc 30 mark dumped raise 49 malloc 40 spoil free spoil "
            "mark before raise 50 malloc 50 exit 3",
            "backtrace_enable_on_signal backtrace_dump_prefix={dir}/heap record_allocs record_allocs_file={dir}/records "
            "free_track free_track_backtrace_num_frames=0 log_allocator_stats_on_signal check_heap_on_signal verbose", program=program)
    r.expect("status", r.status, 3)
    p, dump = r.all("p"), "%s/heap.%d.txt" % (r.dir, r.pid)
    for number, what in ((45, "enable backtracing"), (46, "dump the allocation records"), (47, "dump the backtrace"),
                         (49, "log allocator stats"), (50, "check the heap")):
        r.expect("said of %d" % number, r.line("Run: 'kill -%d %d' to %s." % (number, r.pid, what)) in r.log, True)
    told = [line for line in r.log if line.startswith(("--", "Dumping", "Logging", "+++"))]
    r.expect("log", told, ["Dumping to file: " + dump, "-- dumped", "Logging allocator stats...", "-- before",
                           "+++ ALLOCATION %s USED AFTER FREE" % p[3]])
    with open(dump, encoding="ascii") as f:
        text = f.read()
    r.expect("records of the dump", re.findall(r"^z 0  sz +(\d+)  num +1  bt (.*)$", text, re.M)[:1] != [] and
             sorted(re.findall(r"^z 0  sz +(20|1)  num ", text, re.M)), ["1", "20"])
    with open(os.path.join(r.dir, "records"), encoding="ascii") as f:
        r.expect("recorded", "malloc %s 20" % p[1] in f.read(), True)
    return r


@test("a later handler of a program that the library is linked into")
def _(bench):
    r = run(bench, "malloc 10 handler 47 raise 47 malloc 11 exit 3", "backtrace backtrace_dump_prefix={dir}/heap",
            program=linked_program(bench))
    r.expect("status", r.status, 3)
    r.expect("handled", r.said.get("handled"), "47")
    r.expect("dumps", [f for f in os.listdir(r.dir) if f.startswith("heap")], [])
    return r


@test("signals at any moment, and the end while threads are at work")
def _(bench):
    options = ("guard fill free_track=50 verify_pointers backtrace_enable_on_signal record_allocs=1000 "
               "record_allocs_file={dir}/records backtrace_dump_prefix={dir}/heap check_unreachable_on_signal "
               "log_allocator_stats_on_signal check_heap_on_signal leak_track abort_on_error")
    r = Run(bench, "malloc 1 work 3 wait exit 3", options, {"MEMTRACK_LOG": "file:{dir}/log"}, stdin=subprocess.PIPE).start()
    r.child.stdout.readline()
    for i in range(120):
        os.kill(r.pid, 45 + i % 6)
        time.sleep(0.005) # not a wait for something: so many moments
    r.end(text="")
    r.expect("status", r.status, 3)
    with open(os.path.join(r.dir, "log"), encoding="ascii") as f:
        lines = log_lines(f.read())
    r.expect("errors", [line for line in lines if line.startswith("+++ ALLOC")], [])
    for line in ("Starting to check for unreachable memory.", "Logging allocator stats..."):
        r.expect(line, line in lines, True)
    return r


# --- errors that end the program ---

@test("C146 a wrong free aborts when it has been told")
def _(bench):
    r = run(bench, "malloc 10 twice mark not_reached exit 3", "abort_on_error verify_pointers")
    r.expect("status", r.status, -signal.SIGABRT)
    r.expect_log(DIVIDER, "+++ ALLOCATION %s UNKNOWN POINTER (free)" % r.said["p"], "Backtrace at time of failure:",
                 Frames("double_free", "do_word", "main"), DIVIDER)
    return r


def wait_for_write(r):
    """Until the program waits for the reader of its log: writev is call 20 of x86-64."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with open("/proc/%d/syscall" % r.pid) as f:
            if f.read().startswith("20 "):
                return
        time.sleep(0.01)
    r.problems.append("it never waited for its log")


@test("the look at all live blocks at exit ends after 2 s and says so")
def _(bench):
    words = "malloc 100 damage keep 5000 malloc 50 damage %s exit 3"
    damaged = "+++ ALLOCATION %s SIZE %d HAS A CORRUPTED FRONT GUARD"
    r = run(bench, words % "", "guard")
    first, last = r.all("p")
    r.expect("with time enough", [x for x in r.log if x.startswith(("+++", "Not"))],
             [damaged % (first, 100), damaged % (last, 50)])
    if not os.path.exists("/proc/self/syscall"):
        return r
    s = Run(bench, words % "stuff 2", "guard").start()
    wait_for_write(s)
    time.sleep(2.1)
    s.end()
    s.log = log_lines(s.err.lstrip("\0"))
    s.expect("status", s.status, 3)
    s.expect("what there was time for", [x for x in s.log if x.startswith(("+++", "Not"))],
             [damaged % (s.all("p")[0], 100), "Not all live blocks were looked at, in 2 s."])
    s.problems += r.problems
    return s


@test("the look at all live blocks at exit while threads are at work")
def _(bench):
    r = run(bench, "malloc 100 overrun keep 3000 malloc 50 damage keep 40 work 2 exit 3", "guard")
    first, last = r.all("p")
    r.expect("errors", [x for x in r.log if x.startswith(("+++", "Not"))],
             ["+++ ALLOCATION %s SIZE 100 HAS A CORRUPTED REAR GUARD" % first,
              "+++ ALLOCATION %s SIZE 50 HAS A CORRUPTED FRONT GUARD" % last])
    r.expect("status", r.status, 3)
    return r


@test("C147 a damaged tag of a freed block aborts at exit")
def _(bench):
    r = run(bench, "malloc 10 free damage mark end exit 3",
            "abort_on_error free_track=100 free_track_backtrace_num_frames=0 rear_guard leak_track")
    r.expect("status", r.status, -signal.SIGABRT)
    r.expect_log("-- end", DIVIDER, "+++ ALLOCATION %s HAS CORRUPTED HEADER TAG 0x1cc7dc00 AFTER FREE" % r.said["p"], DIVIDER)
    return r


@test("errno is what it was behind a report")
def _(bench):
    r = run(bench, "malloc 10 twice exit 3", "verify_pointers")
    r.expect("status", r.status, 3)
    r.expect("errno", r.said.get("errno"), "77")
    return r


# --- the end ---

@test("the buffer of standard output is no leak")
def _(bench):
    r = run(bench, "print malloc 10 exit 3", "leak_track")
    r.expect("status", r.status, 3)
    r.expect("printed", "printed\n" in r.out, True)
    r.expect_log(r.leak(10, r.said["p"]))
    return r


@test("the long form of stacks")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "leak_track backtrace=2 backtrace_full")
    r.expect("status", r.status, 3)
    r.expect_log(r.leak(10, r.said["p"]), "Backtrace at time of allocation:",
                 re.compile(r" {10}#0  pc [0-9a-f]{16}  %s" % re.escape(r.program.real)), # static: has no dynamic symbol
                 re.compile(r" {10}#1  pc [0-9a-f]{16}  %s \(main\+\d+\)" % re.escape(r.program.real)))
    r.expect("messages", r.err.count("malloc_debug: "), 4)
    return r


@test("what a library's destructor frees is no leak")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "leak_track", program=bench.early_program)
    r.expect("status", r.status, 3)
    r.expect_log(r.leak(10, r.said["p"]))
    return r


@test("C107 _exit tells nothing")
def _(bench):
    r = run(bench, "malloc 10 _exit 3", "leak_track log_allocator_stats_on_exit")
    r.expect("status", r.status, 3)
    r.expect_log()
    return r


@test("C141 no records, no file")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "record_allocs_on_exit record_allocs_file={dir}/records")
    r.expect("status", r.status, 3)
    r.expect("files", [f for f in os.listdir(r.dir) if not f.endswith(".mtk")], [])
    r.expect_log()
    return r


# --- the log ---

@test("no descriptor but one with a high number")
def _(bench):
    bare = run(bench, "next exit 3", env={"LD_PRELOAD": ""})
    r = run(bench, "malloc 10 next wait exit 3", "leak_track", stdin=subprocess.PIPE)
    r.expect("next descriptor", r.said.get("descriptor"), bare.said.get("descriptor"))
    s = Run(bench, "malloc 10 wait exit 3", "leak_track", stdin=subprocess.PIPE).start()
    s.child.stdout.readline()
    r.expect("descriptors", sorted(int(f) for f in os.listdir("/proc/%d/fd" % s.pid) if int(f) < 900), [0, 1, 2])
    r.expect("high ones", len([f for f in os.listdir("/proc/%d/fd" % s.pid) if int(f) >= 900]), 1)
    s.end(text="")
    return r


@test("C159 standard error is closed")
def _(bench):
    r = run(bench, "malloc 10 close 2 exit 3", "leak_track")
    r.expect("status", r.status, 3)
    r.expect_log(r.leak(10, r.said["p"]))
    return r


@test("nothing is written to files that took our descriptors' place")
def _(bench):
    r = run(bench, "malloc 10 takeall {dir}/file exit 3", "leak_track log_allocator_stats_on_exit")
    r.expect("status", r.status, 3)
    r.expect("the file", os.path.getsize(os.path.join(r.dir, "file")), 0)
    r.expect_log()
    return r


@test("a daemon does not hold its parent's standard error")
def _(bench):
    r = Run(bench, "malloc 10 daemon", "leak_track").start()
    begin = time.monotonic()
    r.end(timeout=30)
    r.expect("status", r.status, 0)
    r.expect("seconds until the pipe was closed", time.monotonic() - begin < 30, True)
    os.kill(int(r.said["child"]), signal.SIGKILL)
    return r


@test("the log as a file, one of each process")
def _(bench):
    r = run(bench, "malloc 10 fork malloc 11 exit 3", "leak_track", {"MEMTRACK_LOG": "file:{dir}/log.%p"})
    r.expect("status", r.status, 3)
    r.expect_log()
    child = r.said.get("child")
    logs = sorted(f for f in os.listdir(r.dir) if f.startswith("log"))
    r.expect("logs", logs, sorted("log.%s" % pid for pid in (r.pid, child)))
    with open(os.path.join(r.dir, "log.%s" % child), encoding="ascii") as f:
        text = f.read()
    r.expect("the child's leak", "leaked block of size 11 at " in text, True)
    r.expect("mode", os.stat(os.path.join(r.dir, "log.%s" % child)).st_mode & 0o777, 0o600)
    return r


@test("the file of the log grows, its directory may be left")
def _(bench):
    r = Run(bench, "malloc 10 exit 3", "leak_track", {"MEMTRACK_LOG": "file:log"})
    path = os.path.join(r.dir, "log")
    with open(path, "w", encoding="ascii") as f:
        f.write("first\n")
    r.how["cwd"] = r.dir
    r.how["executable"] = r.program.real
    r.start().end()
    r.expect("status", r.status, 3)
    r.expect_log()
    with open(path, encoding="ascii") as f:
        r.expect("file", f.read(), "first\nmalloc_debug: %s\n" % r.leak(10, r.said["p"]))
    return r


@test("the log does not follow a link")
def _(bench):
    r = Run(bench, "malloc 10 exit 3", "leak_track", {"MEMTRACK_LOG": "file:{dir}/link"})
    os.symlink(os.path.join(r.dir, "target"), os.path.join(r.dir, "link"))
    r.start().end()
    r.expect("status", r.status, 3)
    r.expect("target", os.path.exists(os.path.join(r.dir, "target")), False)
    r.expect_log("cannot use 'file:%s/link' in MEMTRACK_LOG" % r.dir, r.leak(10, r.said["p"]))
    return r


@test("the log goes to the system's")
def _(bench):
    r = Run(bench, "malloc 10 exit 3", "leak_track verbose", {"MEMTRACK_LOG": "syslog:{dir}/log"})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(os.path.join(r.dir, "log"))
        s.settimeout(20)
        r.start().end()
        r.expect("status", r.status, 3)
        r.expect_log()
        got = [s.recv(4096).decode() for _ in range(2)]
    r.expect("messages", got, ["<14>malloc_debug[%d]: %s" % (r.pid, r.line("malloc debug enabled")),
                               "<11>malloc_debug[%d]: %s" % (r.pid, r.leak(10, r.said["p"]))])
    return r


@test("without a system log it goes to standard error")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "leak_track", {"MEMTRACK_LOG": "syslog:{dir}/nobody"})
    r.expect("status", r.status, 3)
    r.expect_log(r.leak(10, r.said["p"]))
    return r


@test("what stands before a line")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "leak_track verbose", {"MEMTRACK_LOG_PREFIX": "time,level,tid,pid,tag"})
    now = time.strftime("%Y-%m-%dT%H:", time.gmtime())
    pattern = r"%s[0-5]\d:[0-5]\d\.\d{3}Z (.) %d %d malloc_debug: (.*)\n" % (now[:-3] + r"\d\d:", r.pid, r.pid)
    found = re.findall(pattern, r.err)
    r.expect("lines", found, [("I", r.line("malloc debug enabled")), ("E", r.leak(10, r.said["p"]))])
    s = run(bench, "malloc 10 exit 3", "leak_track", {"MEMTRACK_LOG_PREFIX": "none"})
    r.expect("without", s.err, s.leak(10, s.said["p"]) + "\n")
    return r


@test("a prefix that is none")
def _(bench):
    r = run(bench, "malloc 10 exit 3", "leak_track", {"MEMTRACK_LOG_PREFIX": "tag,pids"})
    r.expect_log("cannot use 'tag,pids' in MEMTRACK_LOG_PREFIX", r.leak(10, r.said["p"]))
    s = run(bench, "malloc 10 exit 3", "leak_track", {"MEMTRACK_LOG": "nowhere"})
    s.expect_log("cannot use 'nowhere' in MEMTRACK_LOG", s.leak(10, s.said["p"]))
    r.problems += s.problems
    return r


@test("a pipe without a reader ends no program")
def _(bench):
    reader, writer = os.pipe()
    r = Run(bench, "malloc 10 malloc 11 exit 3", "leak_track log_allocator_stats_on_exit", stderr=writer).start()
    os.close(writer)
    os.close(reader)
    r.end()
    r.expect("status", r.status, 3)
    return r


@test("a full pipe holds the program for a second at most")
def _(bench):
    reader, writer = os.pipe()
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    r = Run(bench, "fill 2 " + "malloc 9 " * 40 + "exit 3", "leak_track", stderr=writer).start()
    begin = time.monotonic()
    r.end()
    r.expect("status", r.status, 3)
    r.expect("long", time.monotonic() - begin < 20, True)
    os.close(writer)
    os.close(reader)
    return r


# --- the launcher ---

@test("memtrack run --check", only="glibc")
def _(bench):
    def start(*words):
        r = Run(bench, "")
        for name in ("LD_PRELOAD", "MEMTRACK_STATE_DIR"):
            del r.env[name]
        r.env["MEMTRACK_LIB"] = bench.library
        done = subprocess.run([os.path.join(bench.build, "memtrack"), "run", "-o", os.path.join(r.dir, "x.mtk"), "--report=none",
                               *words], cwd=r.program.folder, env=r.env, capture_output=True, text=True, timeout=60, check=False)
        r.out, r.err, r.status = done.stdout, done.stderr, done.returncode
        r.log, r.said = log_lines(r.err), dict(re.findall(r"^(\w+) (\w+)$", r.out, re.M))
        return r
    program = bench.options_program.name
    r = start("--check=leak_track", program, "malloc", "10", "exit", "3")
    r.expect("status", r.status, 3)
    r.expect_log(r.leak(10, r.said.get("p")))
    usual = start("--check", program, "malloc", "10", "damage", "free", "exit", "3")
    usual.expect("status", usual.status, 3)
    usual.expect("report", usual.log[:1], [DIVIDER])
    wrong = start("--check=leak_track nothing", program, "malloc", "10", "exit", "3")
    wrong.expect("status", wrong.status, 2)
    wrong.expect("said", (wrong.out, wrong.err), ("", "memtrack: run: --check: unknown option nothing; see 'man memtrack-check'\n"))
    mode = start("--mode=check", program, "malloc", "10", "damage", "free", "exit", "3")
    mode.expect("report", mode.log[:1], [DIVIDER])
    plain = start(program, "malloc", "10", "exit", "3")
    plain.expect_log()
    r.problems += usual.problems + wrong.problems + mode.problems + plain.problems
    return r


def early_program(bench):
    """options.c with a library that it depends on."""
    library = compile_program(bench.build, "early.c", bench.libc, flags=("-O0", "-shared", "-fPIC"), name="libearly.so")
    return compile_program(bench.build, "options.c", bench.libc, flags=("-O0", "-Wl,--no-as-needed", library.real,
                                                                       "-Wl,-rpath," + library.folder), name="options_early")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--libc", default="glibc", choices=["glibc", "musl"])
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap = Tap()
    bench = Bench(options.build, options.libc)
    try:
        bench.options_program = bench.program("options.c", name="options")
        bench.early_program = early_program(bench)
        for name, function, only in TESTS:
            if options.k not in name or (only and only != options.libc):
                continue
            try:
                tap.ok(name, function(bench).problems)
            except Missing as why:
                tap.skip(name, str(why))
            except (OSError, LookupError, ValueError) as why: # something that should be there is not
                tap.ok(name, [repr(why)])
    except Missing as why:
        tap.skip("options of check mode", why)
    finally:
        bench.close()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
