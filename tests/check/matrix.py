# SPDX-License-Identifier: MIT
"""
Every option of check mode alone and every pair of options, over one program that uses the whole malloc family in
threads (family.c): it says the same as bare, and the log holds what the options are asked to write, nothing else.

  matrix.py --build DIR [--libc musl|aarch64] [--every N]    N: every Nth pair
"""
import itertools
import re
import sys

sys.dont_write_bytecode = True
from harness import FRAME, run_tests

OPTIONS = ["guard", "front_guard=40", "rear_guard=7", "backtrace=8", "backtrace_enable_on_signal", "backtrace_size=100",
           "backtrace_min_size=50", "backtrace_max_size=1000", "backtrace_dump_on_exit",
           "backtrace_dump_prefix={folder}/heap", "backtrace_full", "fill_on_alloc", "fill_on_free=10", "fill",
           "expand_alloc=64", "free_track=10", "free_track_backtrace_num_frames=3", "leak_track", "record_allocs=1500",
           "record_allocs_file={folder}/records", "record_allocs_on_exit", "verify_pointers", "abort_on_error", "verbose",
           "check_unreachable_on_signal", "log_allocator_stats_on_signal", "log_allocator_stats_on_exit",
           # memtrack's own
           "guard_page=5", "free_track_bytes=20000", "check_heap_every=40", "check_heap_on_signal", "only_min_size=100",
           "only_max_size=300", "only_modules=+family_c",
           "only_sites=family_c*+0x1", "guard_page_sites=0123456789abcdef"]
THREADS, ROUNDS, LEFT = "3", "250", 777
LEAK = re.compile(r"^\+\+\+ (\S+) leaked block of size (\d+) at 0x[0-9a-f]+ \(leak \d+ of \d+\)$")
LONG_FRAME = re.compile(r"^ {10}#\d+  ?pc [0-9a-f]{16}  ")


def names(pair):
    return {word.split("=")[0] for word in pair}


def is_wanted(line, on, result):
    """Whether the options that are on explain a line."""
    if "verbose" in on and line.startswith(result.program.name + ": "):
        return re.search(r": Run: 'kill -(4[5-9]|50) %d' to |: malloc debug enabled$" % result.pid, line) is not None
    if "leak_track" in on and (line == "Backtrace at time of allocation:" or FRAME.match(line) or LONG_FRAME.match(line)):
        return bool({"backtrace", "backtrace_enable_on_signal"} & on)
    if line in ("Dumping to file: %s/heap.%d.exit.txt" % (result.folder, result.pid), "") or \
            re.match(r"Dumping to file: %s/\S+\.%d\.exit\.txt$" % (re.escape(result.folder), result.pid), line):
        return "backtrace_dump_on_exit" in on and bool({"backtrace", "backtrace_enable_on_signal"} & on)
    return "record_allocs" in on and line == "Maximum number of records added, all new operations will be dropped."


def check(bench, program, pair, bare, of_the_loader):
    result = bench.run(program, [THREADS, ROUNDS], " ".join(pair))
    on, leaks = names(pair), []
    result.expect("status", result.status, 0)
    result.expect("standard output", result.out, bare.out)
    log = result.log
    if "log_allocator_stats_on_exit" in on:
        if "Logging allocator stats..." in log:
            at = log.index("Logging allocator stats...")
            log, statistics = log[:at], log[at + 1:]
            result.problems += ["after the statistics: " + line for line in statistics if line.startswith(("+++", "***"))]
        else:
            result.problems.append("no statistics in the log")
    for line in log:
        m = LEAK.match(line)
        if m and "leak_track" in on:
            leaks.append(int(m[2]))
        elif not is_wanted(line, on, result):
            result.problems.append("log: %r" % line)
    if "leak_track" in on:
        result.expect("leaks of the program", [n for n in leaks if n not in of_the_loader], [LEFT])
    return result.problems[:8]


def loaders_blocks(bench, program):
    """Sizes of blocks that the loader keeps for threads that have ended; none is the program's."""
    result = bench.run(program, [THREADS, ROUNDS], "leak_track backtrace")
    sizes, size = set(), None
    for line in result.log:
        m, frame = LEAK.match(line), FRAME.match(line)
        if m:
            size = int(m[2])
        elif frame and int(frame[1]) == 0 and re.search(r"/ld-[^/]*$", frame[3]):
            sizes.add(size)
    return sizes - {LEFT}


def main(bench, tap, options):
    program = bench.program("family.c", flags=("-O1",))
    bare = bench.run(program, [THREADS, ROUNDS])
    tap.ok("bare", [] if bare.status == 0 and set(bare.all("wrong")) == {0} else [bare.status, bare.out])
    kept = loaders_blocks(bench, program)
    for i, one in enumerate(OPTIONS):
        if options.k not in one:
            continue
        problems, count = check(bench, program, [one], bare, kept), 0
        for k, other in itertools.islice(enumerate(OPTIONS), i + 1, None):
            if (i * 5 + k * 3) % options.every == 0:
                count += 1
                problems += ["with %s: %s" % (other, p) for p in check(bench, program, [one, other], bare, kept)]
        tap.ok("%s alone and with %d others" % (one, count), problems[:12])


if __name__ == "__main__":
    sys.exit(run_tests(main, every=1))
