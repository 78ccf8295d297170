# SPDX-License-Identifier: MIT
"""
Guarded samples, from outside: faulty programs are reported with the right stacks and lines and go on or die as
asked; sound ones, and those with a SIGSEGV handler of their own, behave as without the tracker.

  run_guard.py --build DIR [-k SUBSTRING]
"""
import argparse
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

TIMEOUT_S = 120
EVERY = "interval=1 guard-sampled=64"
# case: (source, side, kind, access, offset, bytes, found late)
CASES = {
    "overflow_by_one": ("faults.c", "end", "overflow", "write", 32, 32, False),
    "overflow_read_by_100": ("faults.c", "end", "overflow", "read", 164, 64, False),
    "overflow_of_odd_size": ("faults.c", "end", "overflow", "write", 20, 20, True),
    "overflow_in_memset": ("faults.c", "end", "overflow", "write", 48, 48, False),
    "underflow_read": ("faults.c", "start", "underflow", "read", -1, 100, False),
    "underflow_late": ("faults.c", "end", "underflow", "write", -3, 100, True),
    "use_after_free_read": ("faults.c", "end", "use-after-free", "read", 10, 50, False),
    "use_after_free_write": ("faults.c", "end", "use-after-free", "write", 3999, 4000, False),
    "double_free": ("faults.c", "end", "double-free", "unknown", 0, 24, False),
    "interior_free": ("faults.c", "end", "invalid-free", "unknown", 16, 80, False),
    "realloc_of_freed": ("faults.c", "end", "double-free", "unknown", 0, 24, False),
    "three_threads": ("faults.c", "end", "use-after-free", "write", 0, 40, False),
    "in_child": ("faults.c", "end", "use-after-free", "read", 32, 33, False),
    "use_after_delete": ("faults.cc", "end", "use-after-free", "read", 0, 4, False),
    "double_delete": ("faults.cc", "end", "double-free", "unknown", 0, 16, False),
    "overflow_of_array": ("faults.cc", "end", "overflow", "write", 32, 32, False),
    "overflow_of_vector": ("faults.cc", "end", "overflow", "read", 128, 128, False),
}


def marks(source):
    """{(case, role): line} of a source."""
    found = {}
    with open(os.path.join(HERE, source), encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            m = re.search(r"MARK (\w+) (\w+)", line)
            if m:
                found[m[1], m[2]] = number
    return found


class Bench:
    def __init__(self, options):
        self.bin = os.path.join(options.build, "guard")
        self.library = os.environ.get("MEMTRACK_LIB", os.path.join(options.build, "libmemtrack.so"))
        self.memtrack = os.path.join(options.build, "memtrack")
        self.work = tempfile.mkdtemp(prefix="memtrack-guard-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        self.serial = 0
        self.problems = []

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))

    def program(self, source, musl=False):
        """Path of the compiled program; compiled when its source is newer."""
        compiler = ["musl-gcc", "-Wl,--eh-frame-hdr"] if musl else ["g++"] if source.endswith(".cc") else ["gcc"]
        path = os.path.join(self.bin, source.replace(".", "_") + "_musl" * musl)
        source = os.path.join(HERE, source)
        if os.path.exists(path) and os.path.getmtime(path) >= max(map(os.path.getmtime, (source, __file__))):
            return path
        os.makedirs(self.bin, exist_ok=True)
        fresh = "%s.%d" % (path, os.getpid())
        done = subprocess.run(compiler + [source, "-o", fresh, "-D_GNU_SOURCE", "-O1", "-g", "-fno-builtin", "-pthread", "-w"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            raise RuntimeError("%s: %s" % (source, done.stderr[:1000]))
        os.rename(fresh, path)
        return path

    def run(self, command, words=None):
        """The finished process, and the folder of its states (words None: bare, no folder)."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_", "MALLOC_"))}
        folder = None
        if words is not None:
            self.serial += 1
            folder = os.path.join(self.work, str(self.serial))
            os.mkdir(folder, 0o700)
            env.update(LD_PRELOAD=self.library, MEMTRACK_MODE="sample", MEMTRACK_STATE_DIR=folder, MEMTRACK_DIR=folder,
                       MEMTRACK_OPTIONS=words)
        done = subprocess.run(command, env=env, cwd=self.work, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=TIMEOUT_S, check=False)
        return done, folder

    def report(self, folder):
        """The errors and the pool of all states of a folder."""
        done = subprocess.run([self.memtrack, "report", "--show=errors", "--json", "--no-cache"] +
                              sorted(glob.glob(folder + "/*.mtk")),
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            self.problems.append("report: %s" % done.stderr[:500])
            return [], {}
        told = json.loads(done.stdout)
        return told["errors"], told["guard"]

    def compare(self, name, command, words, clean=lambda text: text):
        """As bare: status, output, errors. The errors and the pool."""
        (bare, _), (guarded, folder) = self.run(command), self.run(command, words)
        self.expect(name + ": status", guarded.returncode, bare.returncode)
        for what in ("stdout", "stderr"):
            got, wanted = clean(getattr(guarded, what)), clean(getattr(bare, what))
            if got != wanted:
                self.problems.append("%s: %s %r, bare %r" % (name, what, got[-1500:], wanted[-1500:]))
        return self.report(folder)

    def check_stack(self, error, role, case, source):
        line = marks(source).get((case, role))
        actor = error.get(role)
        if line is None:
            if role == "free" and actor:
                self.problems.append("%s: freed, which it was not" % case)
            return
        frames = [f for f in (actor or {}).get("frames", []) if f.get("file", "").endswith("/" + source)]
        got = frames[0].get("line") if frames else None
        if got != line:
            self.problems.append("%s: the line of %s is %s, expected %s; stack %s" % (
                case, role, got, line, [f.get("function") for f in (actor or {}).get("frames", [])]))


def in_lines(bench, case, musl=False):
    """An error is reported once, with its stacks, and the program goes on."""
    source, side, kind, access, offset, size, late = CASES[case]
    done, folder = bench.run([bench.program(source, musl), case], EVERY + " guard-side=" + side)
    bench.expect("status", done.returncode, 0)
    bench.expect("stdout", done.stdout, b"end\n")
    bench.expect("stderr", done.stderr, b"")
    errors, pool = bench.report(folder)
    bench.expect("errors", [e["kind"] for e in errors], [kind])
    bench.expect("errors counted", pool.get("errors"), 1)
    for e in errors[:1]:
        got = e["access"], e.get("offset"), e.get("block_bytes"), e["found_late"], e["fatal"]
        bench.expect("access, offset, bytes, found late, fatal", got, (access, offset, size, late, False))
        bench.expect("inherited", e["inherited"], case == "in_child")
        for role in ("use", "alloc", "free"):
            bench.check_stack(e, role, case, source)
        if case == "three_threads":
            bench.expect("threads", len({e[r]["tid"] for r in ("use", "alloc", "free")}), 3)


def with_musl(bench):
    if not shutil.which("musl-gcc"):
        return "musl-gcc is missing"
    for case in ("overflow_by_one", "underflow_late", "use_after_free_write", "double_free", "three_threads", "in_child"):
        in_lines(bench, case, musl=True)
    return None


def dies(bench, case):
    """The same ends the program as its own fault would, or as the allocator does; what it did is on record."""
    source, side, kind, _, _, _, late = CASES[case]
    binary = bench.program(source)
    done, folder = bench.run([binary, case], EVERY + " on-error=die guard-side=" + side)
    status = -signal.SIGABRT if late or "free" in kind and kind != "use-after-free" else -signal.SIGSEGV
    bench.expect("status", done.returncode, status)
    bench.expect("stdout", done.stdout, b"")
    errors, _ = bench.report(folder)
    bench.expect("errors", [(e["kind"], e["fatal"], e["count"]) for e in errors], [(kind, True, 1)])


def sound_programs_have_no_errors(bench):
    for binary in ("faults.c", "faults.cc"):
        for side in ("end", "start", "either"):
            errors, pool = bench.compare("%s %s" % (binary, side), [bench.program(binary), "no_error"],
                                         EVERY + " on-error=die guard-side=" + side)
            bench.expect("errors", errors, [])
            if pool.get("placed", 0) < 50:
                bench.problems.append("%s: only %s samples were placed" % (binary, pool))


def storm(bench, words):
    done, folder = bench.run([bench.program("storm.c"), "4", "4000"], words)
    bench.expect("status", done.returncode, 0)
    bench.expect("stdout", done.stdout, b"wrong: 0\n")
    bench.expect("stderr", done.stderr, b"")
    errors, pool = bench.report(folder)
    bench.expect("errors", errors, [])
    if pool.get("placed", 0) < 100:
        bench.problems.append("only %s samples were placed" % pool)


def every_error_of_four_threads_is_found(bench):
    """Bare it crashes; each of 3 * 20 errors a thread must be reported once, and none do harm."""
    done, folder = bench.run([bench.program("faulty_storm.c"), "60"], "interval=1 guard-sampled=1024 guard-side=end")
    bench.expect("status and output", (done.returncode, done.stdout, done.stderr), (0, b"end\n", b""))
    errors, _ = bench.report(folder)
    kinds = [(e["kind"], e["access"]) for e in errors for _ in range(e["count"])]
    for kind in (("overflow", "write"), ("use-after-free", "read"), ("use-after-free", "write")):
        bench.expect("errors %s" % (kind,), kinds.count(kind), 80)
    bench.expect("errors", len(kinds), 240)
    bench.expect("errors without a stack of the access", sum("frames" not in e["use"] for e in errors), 0)


def own_handlers_run_as_bare(bench):
    for how in ("", "raise", "ignored", "handler", "once"):
        errors, _ = bench.compare("host " + how, [bench.program("host.c"), how], EVERY)
        bench.expect("errors", errors, [])


def own_handler_ends_a_program_that_is_to_die(bench):
    done, folder = bench.run([bench.program("caught.c")], EVERY + " on-error=die")
    bench.expect("status and output", (done.returncode, done.stdout), (4, b"own handler\n"))
    errors, _ = bench.report(folder)
    bench.expect("errors", [(e["kind"], e["fatal"]) for e in errors], [("use-after-free", True)])
    done, _ = bench.run([bench.program("caught.c")], EVERY)
    bench.expect("status and output when it goes on", (done.returncode, done.stdout), (0, b"end\n"))


def faulthandler_of_python(bench):
    python = "/usr/bin/python3"
    if not os.path.exists(python):
        return "%s is missing" % python
    code = "import faulthandler, ctypes; faulthandler.enable(); print('on', flush=True); ctypes.string_at(8)"

    def clean(text):
        return re.sub(rb"0x[0-9a-f]+", b"ADDRESS", text)
    errors, _ = bench.compare("faulthandler", [python, "-c", code], "interval=4096 guard-sampled", clean)
    bench.expect("errors", errors, [])
    return None


def java_machine(bench):
    java, javac = shutil.which("java"), shutil.which("javac")
    if not java or not javac:
        return "java and javac are missing"
    subprocess.run([javac, "-d", bench.work, os.path.join(HERE, "Errors.java")], check=True, timeout=TIMEOUT_S,
                   capture_output=True)
    for how in ("-Xint", "-Xcomp", "-Xcheck:jni"):
        more = ["-XX:CompileCommand=quiet", "-XX:CompileOnly=Errors"] if how == "-Xcomp" else []
        errors, _ = bench.compare("java " + how, [java, how] + more + ["-Xmx64m", "-cp", bench.work, "Errors"],
                                  "interval=4096 guard-sampled")
        # SafeFetch reads where it may not, on purpose, and handles the fault: -Xcheck:jni looks beside handles so
        errors = [e for e in errors if not any(f.get("function", "").startswith("SafeFetch") for f in e["use"].get("frames", []))]
        bench.expect("errors", errors, [])
    return None


def run_names_errors_first(bench):
    def run(*options):
        return subprocess.run([bench.memtrack, "run", "-o", bench.work + "/run.mtk", "--mode=sample", "--interval=1",
                               "--guard-sampled", "--guard-side=end", *options, bench.program("faults.c"), "use_after_free_read"],
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    done = run("--error-exitcode=55")
    bench.expect("status", done.returncode, 55)
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("note:", "memtrack:"))]
    bench.expect("first line", lines[:1], ["1 memory error: 1 use after free"])
    for text in ("use after free: read, 10 bytes from the start of a block of 50 bytes", "freed by thread", "allocated by thread",
                 "in a pool of 64 slots that takes 256 KiB at most"):
        if text not in done.stderr:
            bench.problems.append("the report lacks '%s'" % text)
    done = run("--kv", "--report=summary", "--error-exitcode=55")
    if "[STATS] memory_error_count=1" not in done.stderr:
        bench.problems.append("key=value: %s" % done.stderr[-500:])
    bench.expect("status of die", run("--on-error=die").returncode, -signal.SIGSEGV)
    bench.expect("status of die, asked for", run("--on-error=die", "--error-exitcode=55").returncode, 55)
    done = subprocess.run([bench.memtrack, "run", "--guard-sampled=5", "true"], capture_output=True, text=True, check=False)
    bench.expect("full mode", (done.returncode, "--guard-sampled belongs to --mode=sample" in done.stderr), (2, True))


def other_allocators_have_no_pool(bench):
    allocator = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(allocator):
        return "%s is missing" % allocator
    bench.library += ":" + allocator
    done, folder = bench.run([bench.program("faults.c"), "no_error"], EVERY)
    bench.expect("status", done.returncode, 0)
    state = glob.glob(folder + "/*.mtk")[0]
    told = subprocess.run([bench.memtrack, "report", state], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if "--guard-sampled had no effect" not in told.stdout:
        bench.problems.append("not said: %s" % told.stdout[:300])
    return None


def tests():
    for case in CASES:
        yield "%s is reported and let through" % case, in_lines, (case,)
    for case in ("overflow_by_one", "underflow_late", "use_after_free_write", "double_free", "interior_free", "double_delete"):
        yield "%s ends the program" % case, dies, (case,)
    yield "programs with musl", with_musl, ()
    yield "sound programs have no errors", sound_programs_have_no_errors, ()
    yield "four threads, every block a sample", storm, (EVERY,)
    yield "four threads, eight slots, samples", storm, ("interval=512 guard-sampled=8",)
    yield "every error of four threads is found", every_error_of_four_threads_is_found, ()
    yield "own handlers run as bare", own_handlers_run_as_bare, ()
    yield "own handler ends a program that is to die", own_handler_ends_a_program_that_is_to_die, ()
    yield "faulthandler of python", faulthandler_of_python, ()
    yield "java machine", java_machine, ()
    yield "run names errors first", run_names_errors_first, ()
    yield "other allocators have no pool", other_allocators_have_no_pool, ()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap = Tap()
    for name, function, arguments in tests():
        if options.k not in name:
            continue
        bench = Bench(options)
        try:
            why = function(bench, *arguments)
        finally:
            shutil.rmtree(bench.work, ignore_errors=True)
        if why:
            tap.skip(name, why)
        else:
            tap.ok(name, bench.problems)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
