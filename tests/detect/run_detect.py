# SPDX-License-Identifier: MIT
"""
Faulty programs and who finds the fault. Each fault has three variants that differ in size, distance and language,
and each of these also comes without its fault.

  run_detect.py --build DIR [-k SUBSTRING]         memtrack alone: finds what it promises, and is silent otherwise
  run_detect.py --build DIR --table [--rounds N]   all tools, as the Markdown of docs/detection.md
  run_detect.py --build DIR --peers                all tools, as a test: nobody finds more than memtrack but where it says so
"""
import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "check"))
sys.dont_write_bytecode = True
import harness
import judge
from judge import BAD, DOUBLE, KINDS, LEAK
from tap import Tap

TIMEOUT_S = 60
CHECK = "guard free_track fill verify_pointers backtrace leak_track"
FAR = ("overflow_far", "underflow_far")  # behind the guard
READS = (judge.READ_PAST, judge.READ_BEFORE, judge.FREED_READ)
LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/lib/x86_64-linux-gnu", "/usr/lib64")


def library(name):
    found = [os.path.join(d, name) for d in LIBRARIES if os.path.exists(os.path.join(d, name))]
    return found[0] if found else None


class Run:
    """A program under a tool: what it said, how it ended, and what it cost."""

    def __init__(self, meter, command, env, folder):
        names = {n: os.path.join(folder, n) for n in ("out", "err", "cost")}
        env = dict(env)
        if "LD_PRELOAD" in env:
            env["METER_PRELOAD"] = env.pop("LD_PRELOAD")
        with open(names["out"], "wb") as o, open(names["err"], "wb") as e:
            child = subprocess.Popen([meter, names["cost"]] + command, env=env, cwd=folder, stdin=subprocess.DEVNULL,
                                     stdout=o, stderr=e, start_new_session=True)
            try:
                child.wait(TIMEOUT_S)
                self.hung = False
            except subprocess.TimeoutExpired:
                self.hung = True
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
        self.seconds, self.rss_kib, self.status = TIMEOUT_S, 0, -signal.SIGKILL
        if not self.hung:
            with open(names["cost"], encoding="ascii") as file:
                took, self.rss_kib, self.status = map(int, file.read().split())
            self.seconds = took / 1e6
        with open(names["out"], encoding="utf-8", errors="replace") as file:
            self.out = file.read()
        with open(names["err"], encoding="utf-8", errors="replace") as file:
            self.err = file.read()

    def died(self):
        return self.status < 0 or self.hung or self.status in (132, 134, 139)

    def told(self, name):
        m = re.search(r"^%s (-?\d+)$" % name, self.out, re.M)
        return int(m[1]) if m else None


class Tool:
    """missing(): why it cannot be used here; version(): for the table."""
    name, flavour = "", "plain"

    def __init__(self, build):
        self.build = os.path.abspath(build)

    def missing(self):
        return None

    def version(self):
        return ""

    def env(self, folder):
        return harness.clean_environment()

    def command(self, words):
        return words

    def read(self, run, program):
        return judge.glibc(run.err)


class Bare(Tool):
    name = "bare"

    def version(self):
        return "glibc %s, nothing preloaded" % os.confstr("CS_GNU_LIBC_VERSION").split()[-1]


class Memtrack(Tool):
    name, options = "memtrack", CHECK

    def missing(self):
        path = os.path.join(self.build, "libmemtrack.so")
        return None if os.path.exists(path) else "%s is missing" % path

    def version(self):
        return "`LIBC_DEBUG_MALLOC_OPTIONS=\"%s\"`" % self.options

    def env(self, folder):
        env = harness.clean_environment()
        env.update(LD_PRELOAD=os.path.join(self.build, "libmemtrack.so"), LIBC_DEBUG_MALLOC_OPTIONS=self.options,
                   MEMTRACK_STATE_DIR=folder, MEMTRACK_DIR=folder)
        return env

    def read(self, run, program):
        others = "\n".join(line for line in run.err.splitlines() if not line.startswith(harness.PREFIX))
        return judge.memtrack(harness.log_lines(run.err), program, harness.FRAME) or judge.glibc(others)


class MemtrackPages(Memtrack):
    name, options = "memtrack, guard_page", "guard_page=1 " + CHECK

    def env(self, folder):
        return dict(super().env(folder), MEMTRACK_OPTIONS="guard-side=end")


class Memcheck(Tool):
    name = "memcheck"

    def missing(self):
        return None if shutil.which("valgrind") else "valgrind is not installed"

    def version(self):
        return subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=False).stdout.strip()

    def command(self, words):
        return ["valgrind", "--leak-check=full", "--show-leak-kinds=all", "--num-callers=8"] + words

    def read(self, run, program):
        return judge.memcheck(run.err)


class Asan(Tool):
    name, flavour = "ASan", "asan"

    def version(self):
        done = subprocess.run(["gcc", "-dumpfullversion"], capture_output=True, text=True, check=False)
        return "gcc %s -fsanitize=address" % done.stdout.strip()

    def env(self, folder):
        return dict(harness.clean_environment(), ASAN_OPTIONS="detect_leaks=1:alloc_dealloc_mismatch=1:allocator_may_return_null=1")

    def read(self, run, program):
        return judge.asan(run.err)


class Preloaded(Tool):
    """A library that replaces the allocator."""
    file, more, package = "", {}, ""

    def missing(self):
        return None if library(self.file) else "%s is not installed" % self.package

    def version(self):
        done = subprocess.run(["dpkg-query", "-W", "-f=${Version}", self.package], capture_output=True, text=True, check=False)
        words = " ".join("%s=%s" % i for i in self.more.items() if "BANNER" not in i[0])
        return "%s %s, %s" % (self.package, done.stdout.strip(), words)

    def env(self, folder):
        return dict(harness.clean_environment(), LD_PRELOAD=library(self.file), **self.more)


class Efence(Preloaded):
    name, file, package = "electric-fence", "libefence.so.0.0", "electric-fence"
    more = {"EF_DISABLE_BANNER": "1", "EF_ALLOW_MALLOC_0": "1", "EF_PROTECT_FREE": "1"}

    def read(self, run, program):
        return judge.efence(run.err)


class Duma(Preloaded):
    name, file, package = "DUMA", "libduma.so.0.0.0", "duma"
    more = {"DUMA_DISABLE_BANNER": "1", "DUMA_ALLOW_MALLOC_0": "1", "DUMA_MALLOC_0_STRATEGY": "1"}

    def read(self, run, program):
        return judge.duma(run.err)


class MallocCheck(Preloaded):
    name, file, package = "MALLOC_CHECK_", "libc_malloc_debug.so.0", "libc6"
    more = {"MALLOC_CHECK_": "3", "GLIBC_TUNABLES": "glibc.malloc.check=3"}


TOOLS = [Bare, Memtrack, MemtrackPages, Memcheck, Asan, Efence, Duma, MallocCheck]


class Bench:
    def __init__(self, build):
        self.bin = os.path.join(build, "detect")
        self.work = tempfile.mkdtemp(prefix="memtrack-detect-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.programs = {}

    def close(self):
        shutil.rmtree(self.work, ignore_errors=True)

    def program(self, source, flavour):
        """The compiled program of a source: plain, or with ASan."""
        if (source, flavour) in self.programs:
            return self.programs[source, flavour]
        path = os.path.join(self.bin, flavour + "_" + os.path.basename(source).replace(".", "_"))
        inputs = [os.path.join(HERE, f) for f in (source, "faults.h", "run_detect.py")]
        if not os.path.exists(path) or os.path.getmtime(path) < max(map(os.path.getmtime, inputs)):
            os.makedirs(self.bin, exist_ok=True)
            fresh = "%s.%d" % (path, os.getpid())
            command = ["g++", "-std=c++17"] if source.endswith(".cc") else ["gcc"]
            command += ["-fsanitize=address"] if flavour == "asan" else []
            done = subprocess.run(command + [inputs[0], "-o", fresh, "-O1", "-g", "-fno-builtin", "-w", "-pthread", "-D_GNU_SOURCE"],
                                  capture_output=True, text=True, timeout=180, check=False)
            if done.returncode:
                raise RuntimeError("%s: %s" % (source, done.stderr[:2000]))
            os.rename(fresh, path)
        self.programs[source, flavour] = harness.Program(path)
        return self.programs[source, flavour]

    def run_program(self, tool, source, words):
        program, meter = self.program(source, tool.flavour), self.program("meter.c", "plain")
        for name in os.listdir(self.work):
            os.unlink(os.path.join(self.work, name))
        run = Run(meter.real, tool.command([program.real] + words), tool.env(self.work), self.work)
        return run, tool.read(run, program)

    def run(self, tool, fault, variant, how):
        """(Run, what the tool found)"""
        source = "faults.cc" if variant == "c" or KINDS[fault] == judge.MISMATCH else "faults.c"
        return self.run_program(tool, source, [fault, variant, how])


# --- memtrack alone ---

def promised(fault):
    return fault not in FAR and KINDS[fault] not in READS


def expect_named(problems, what, fault, run, found):
    """Found once, and named with its size, its first byte and the function that did it."""
    kind = KINDS[fault]
    if {f.kind for f in found} != {kind}:
        problems.append("%s: found %s, expected %s; status %s; %s" % (what, found, kind, run.status, run.err[-1500:]))
        return
    first = found[0]
    if first.size is not None and kind != LEAK and first.size != run.told("size"):
        problems.append("%s: size %s, expected %s" % (what, first.size, run.told("size")))
    if first.at is not None and kind not in (BAD, DOUBLE) and first.at != run.told("at"):
        problems.append("%s: index %s, expected %s" % (what, first.at, run.told("at")))
    if not any(fault in function for f in found for _, function in f.frames):
        problems.append("%s: no stack has %s: %s" % (what, fault, found))


def check_fault(bench, fault):
    problems, tool, bare = [], Memtrack(bench.build), Bare(bench.build)
    for variant in "abc":
        what = "variant " + variant
        run, found = bench.run(tool, fault, variant, "sound")
        if run.status or run.out.splitlines()[-1:] != ["end"] or found:
            problems.append("%s, sound: status %s, found %s: %s" % (what, run.status, found, run.err[-1000:]))
        plain, _ = bench.run(bare, fault, variant, "sound")
        if (plain.status, plain.out) != (run.status, run.out):
            problems.append("%s, sound: %r, bare %r" % (what, (run.status, run.out), (plain.status, plain.out)))
        run, found = bench.run(tool, fault, variant, "fault")
        if promised(fault):
            expect_named(problems, what, fault, run, found)
            if run.status or run.out.splitlines()[-1:] != ["end"]:
                problems.append("%s: the program did not go on: status %s" % (what, run.status))
    return problems


# What guard_page=1 promises besides, of blocks that fit into a page: the access itself.
PAGES = {"read_by_one": "abc", "read_by_some": "abc", "memcpy_from_past": "abc", "use_after_free_read": "ac",
         "use_after_free_copy": "abc", "use_after_free_in_a_list": "abc", "overflow_far": "ac"}


def check_pages(bench, fault):
    problems, tool = [], MemtrackPages(bench.build)
    for variant in PAGES[fault]:
        what = "variant " + variant
        run, found = bench.run(tool, fault, variant, "sound")
        if run.status or found:
            problems.append("%s, sound: status %s, found %s: %s" % (what, run.status, found, run.err[-1000:]))
        run, found = bench.run(tool, fault, variant, "fault")
        named = [f for f in found if f.kind == KINDS[fault]]
        if not named or named[0].size != run.told("size"):
            problems.append("%s: found %s, expected %s of size %s" % (what, found, KINDS[fault], run.told("size")))
        elif not any(fault in function for f in named for _, function in f.frames):
            problems.append("%s: no stack has %s: %s" % (what, fault, named))
    return problems


def tests(options):
    tap = Tap()
    bench = Bench(options.build)
    bench.build = options.build
    try:
        for fault in KINDS:
            if options.k in fault:
                tap.ok("%s: %s" % (KINDS[fault], fault), check_fault(bench, fault))
        for fault in PAGES:
            if options.k in fault:
                tap.ok("%s with guard pages: %s" % (KINDS[fault], fault), check_pages(bench, fault))
    finally:
        bench.close()
    return tap.done()


# --- all tools, as a table ---

def more_than_memtrack(verdicts, tools):
    """{fault: names of tools} where a tool names more variants than memtrack does, with or without guard pages."""
    def count(tool, fault):
        return sum(v == "named" for v in verdicts[tool][fault])
    ours = [t for t in tools if isinstance(t, Memtrack)]
    more = {}
    for fault in KINDS:
        best = max(count(t, fault) for t in ours)
        names = [t.name for t in tools if t not in ours and count(t, fault) > best]
        if names:
            more[fault] = names
    return more


def peers(options):
    """A fault that memtrack promises to find is named by no other tool more often."""
    tools = [t for t in (kind(options.build) for kind in TOOLS) if not t.missing()]
    tap, bench = Tap(), Bench(options.build)
    for tool in (kind(options.build) for kind in TOOLS):
        if tool.missing():
            tap.skip(tool.name, tool.missing())
    try:
        verdicts, costs = measure(bench, tools, 1)
    finally:
        bench.close()
    more = more_than_memtrack(verdicts, tools)
    for fault in KINDS:
        tap.note("%s: %s" % (fault, ", ".join("%s %s" % (t.name, verdicts[t][fault]) for t in tools)))
        if promised(fault):
            tap.ok(fault, ["%s names more" % n for n in more.get(fault, [])])
    for tool in tools:
        if isinstance(tool, Memtrack):
            tap.ok("%s says nothing of sound programs" % tool.name, ["%d reports" % costs[tool][2]] if costs[tool][2] else [])
    return tap.done()


WORK = ("../check/family.c", ["1", "60000"]) # allocates, resizes, checks and frees


def measure_work(bench, tool, rounds):
    """(seconds, KiB) of a program that does something; None: it does not come to its end."""
    runs = [bench.run_program(tool, *WORK)[0] for _ in range(rounds)]
    if any("wrong 0\n" not in r.out for r in runs):
        return None
    return statistics.median(r.seconds for r in runs), statistics.median(r.rss_kib for r in runs)


SIGNS = {"named": "**named**", "other": "other", "crash": "crash", "missed": "–"}


def measure(bench, tools, rounds):
    """{tool: {fault: [verdicts]}}, and {tool: (seconds, KiB, false reports)} of the sound programs."""
    verdicts, costs = {t: {} for t in tools}, {}
    for tool in tools:
        seconds, rss, wrong = [], [], 0
        for fault, kind in KINDS.items():
            verdicts[tool][fault] = []
            for variant in "abc":
                run, found = bench.run(tool, fault, variant, "fault")
                verdicts[tool][fault].append(judge.verdict(kind, found, run.died()))
                times = []
                for _ in range(rounds):
                    run, found = bench.run(tool, fault, variant, "sound")
                    times.append(run.seconds)
                wrong += bool(found) or bool(run.status)
                seconds.append(statistics.median(times))
                rss.append(run.rss_kib)
        costs[tool] = statistics.median(seconds), statistics.median(rss), wrong
        sys.stderr.write("%s: done\n" % tool.name)
    return verdicts, costs


def cell(three):
    return SIGNS[three[0]] if len(set(three)) == 1 else ", ".join(SIGNS[v] for v in three)


def table(options):
    tools = [t(options.build) for t in TOOLS]
    for tool in [t for t in tools if t.missing()]:
        sys.stderr.write("%s is left out: %s\n" % (tool.name, tool.missing()))
    tools = [t for t in tools if not t.missing()]
    bench = Bench(options.build)
    try:
        verdicts, costs = measure(bench, tools, options.rounds)
        work = {tool: measure_work(bench, tool, max(3, options.rounds)) for tool in tools}
    finally:
        bench.close()
    print_table(tools, verdicts, costs, work)
    return 0


HEAD = """<!-- SPDX-License-Identifier: MIT -->
# Who finds what

%d faulty programs (`tests/detect/`), each in three variants that differ in size, distance and language: two in C, one
in C++. The judge reads what each tool says. **named**: the right kind of fault; other: something was said, but not
that; crash: the program died without a word (with page guards at the faulty instruction, which a debugger shows);
–: missed. One word stands for all three variants. Leaks are blocks that are live at exit, still reachable ones too.
Made by `./x detect`.
"""


def row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |")


def print_table(tools, verdicts, costs, work):
    print(HEAD % len(KINDS))
    row("fault", "kind", *(t.name for t in tools))
    row(*["---"] * (len(tools) + 2))
    for fault, kind in KINDS.items():
        row(fault.replace("_", " "), kind, *(cell(verdicts[t][fault]) for t in tools))
    print()
    row("of %d" % (3 * len(KINDS)), *(t.name for t in tools))
    row(*["---"] * (len(tools) + 1))
    for what in ("named", "other", "crash", "missed"):
        row(what, *(sum(v == what for three in verdicts[t].values() for v in three) for t in tools))
    row("reports of the same programs without the fault", *(costs[t][2] for t in tools))
    row("their median time, ms", *("%.1f" % (costs[t][0] * 1000) for t in tools))
    row("their median peak memory, MiB", *("%.1f" % (costs[t][1] / 1024) for t in tools))
    row("time of a program that allocates, ms", *("%.0f" % (work[t][0] * 1000) if work[t] else "fails" for t in tools))
    row("its peak memory, MiB", *("%.1f" % (work[t][1] / 1024) if work[t] else "fails" for t in tools))
    print("\nThe programs without the fault take no time of their own: it is what a tool costs at start and end. The one that\n"
          "allocates is `tests/check/family.c`, %s calls in one thread, a few of them for more memory than there is.\n" % WORK[1][1])
    for tool in tools:
        print("- %s: %s" % (tool.name, tool.version()))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    return table(options) if options.table else peers(options) if options.peers else tests(options)


if __name__ == "__main__":
    sys.exit(main())
