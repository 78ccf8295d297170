# SPDX-License-Identifier: MIT
"""
record_allocs from outside: what the file holds, line by line, when it is written, and what is said of it. Names
begin with the number of the behaviour in the specification.

  run_record.py --build DIR [--libc musl] [-k SUBSTRING]
"""
import os
import re
import sys

sys.dont_write_bytecode = True
from harness import run_cases, run_tests

TESTS = []
LINE = re.compile(r"^(\d+): (\w+) (0x[0-9a-f]+)((?: (?:0x[0-9a-f]+|\d+))*)$")
DATA = {"malloc": 1, "calloc": 2, "memalign": 2, "realloc": 2, "free": 0, "thread_done": 0}
FULL = "Maximum number of records added, all new operations will be dropped."
NONE = "No alloc entries to write."


def test(name, options, case, only=""):
    def add(check):
        TESTS.append((name, options, case, check, only, {}))
        return check
    return add


class Line:
    """One line of the file: tid, what (without times), times, present."""

    def __init__(self, result, text):
        m = LINE.match(text)
        if not m or m[2] not in DATA:
            result.problems.append("no line of record_allocs: %r" % text)
            self.tid, self.what, self.times, self.present = 0, text, [], None
            return
        numbers = m[4].split()
        data = numbers[:DATA[m[2]]]
        rest = [int(n, 0) for n in numbers[DATA[m[2]]:]]
        self.tid, self.what = int(m[1]), " ".join([m[2], m[3], *data])
        self.times, self.present = rest[:2], rest[2] if len(rest) > 2 else None
        if m[2] == "thread_done":
            wrong = len(rest) > 1
        else:
            wrong = len(rest) == 1 or len(rest) > 3 or (self.present is not None and m[2] not in ("free", "realloc"))
            wrong = wrong or (len(rest) > 1 and rest[1] < rest[0])
        if wrong:
            result.problems.append("times of %r" % text)


def lines_of(result, name="rec"):
    path = os.path.join(result.folder, name)
    if not os.path.exists(path):
        result.problems.append("there is no file %s, only %s" % (name, os.listdir(result.folder)))
        return []
    with open(path, encoding="ascii") as file:
        return [Line(result, line.rstrip("\n")) for line in file]


def own_lines(result, name="rec"):
    """Those of the main thread but for what libc allocates for a thread."""
    return [line.what for line in lines_of(result, name) if line.tid == result.pid]


def hexes(result):
    """Texts of the blocks that the program names; "?" for those that it did not come to."""
    return ["0x%x" % p for p in result.all("block")] + ["?"] * (8 - len(result.all("block")))


def expect_family(r):
    a, b, c, d, e, f, g, h = hexes(r)
    lines = lines_of(r)
    r.expect("lines", [line.what for line in lines], [
        "malloc %s 10" % a, "free %s" % a, "calloc %s 20 1" % b, "free %s" % b, "realloc %s 0x0 30" % c,
        "realloc %s %s 2048" % (d, c), "realloc 0x0 %s 0" % d, "memalign %s 16 40" % f, "free %s" % f,
        "memalign %s 32 64" % g, "free %s" % g, "memalign %s 32 50" % h, "free %s" % h])
    r.expect("realloc to 0", e, "0x0")
    r.expect("threads", {line.tid for line in lines}, {r.pid})
    r.expect("lines without times", [line.what for line in lines if len(line.times) != 2], [])
    starts = [line.times[0] for line in lines]
    r.expect("order", starts, sorted(starts))
    r.expect_log([])


@test("C126 each_call_has_its_line", "record_allocs record_allocs_file={folder}/rec", "family")
def _(r):
    expect_family(r)


@test("C127 pointers_are_those_of_the_program", "record_allocs front_guard record_allocs_file={folder}/rec", "family")
def _(r):
    expect_family(r)


@test("blocks_that_are_held_back_are_freed_in_the_file", "record_allocs free_track guard record_allocs_file={folder}/rec",
      "family")
def _(r):
    lines = [line.what.split()[0] for line in lines_of(r)]
    r.expect("frees", lines.count("free"), 5)
    r.expect_log([])


@test("zero_sizes_are_written_as_they_were_asked_for", "record_allocs record_allocs_file={folder}/rec", "zero_sizes")
def _(r):
    a, b, c = hexes(r)[:3]
    r.expect("lines", own_lines(r), ["malloc %s 0" % a, "calloc %s 0 7" % b, "memalign %s 64 1" % c])


@test("C128 a_thread_that_ends_says_so", "record_allocs=5 record_allocs_file={folder}/rec", "thread")
def _(r):
    tid, block = r["thread"], hexes(r)[0]
    lines = [line for line in lines_of(r) if line.tid == tid]
    r.expect("lines", [line.what for line in lines], ["malloc %s 100" % block, "free %s" % block, "thread_done 0x0"])
    r.expect("end time", len(lines[-1].times) if lines else 0, 1)
    if len(lines) == 3 and lines[2].times[0] < lines[1].times[1]:
        r.problems.append("the thread ended before its free")


@test("each_thread_says_so", "record_allocs record_allocs_file={folder}/rec", "two_threads")
def _(r):
    done = [line.tid for line in lines_of(r) if line.what == "thread_done 0x0"]
    r.expect("ends", done, r.all("thread"))


@test("frees_of_a_threads_destructors_come_before_its_end", "record_allocs record_allocs_file={folder}/rec", "value_of_thread")
def _(r):
    tid, block = r["thread"], hexes(r)[0]
    r.expect("lines", [line.what for line in lines_of(r) if line.tid == tid],
             ["malloc %s 100" % block, "free %s" % block, "thread_done 0x0"])


@test("C129 who_recorded_nothing_does_not_end", "record_allocs record_allocs_on_exit record_allocs_file={folder}/rec",
      "idle_thread")
def _(r):
    lines = [line.what.split()[0] for line in lines_of(r, "rec.%d" % r.pid)]
    r.expect("ends", lines.count("thread_done"), 0)
    r.expect("lines", own_lines(r, "rec.%d" % r.pid)[-1:], ["malloc %s 8" % hexes(r)[0]])


@test("C130 entries_stay_when_there_is_no_file", "record_allocs=5 record_allocs_file={folder}/rec", "no_file")
def _(r):
    block = hexes(r)[0]
    r.expect("lines", own_lines(r), ["malloc %s 10" % block, "free %s" % block])
    r.expect_log(["Cannot create record alloc file %s/rec: Too many levels of symbolic links" % r.folder, "-- removed"])


@test("C131 what_was_written_is_not_written_again", "record_allocs record_allocs_file={folder}/rec", "twice")
def _(r):
    r.expect("lines", own_lines(r), ["malloc %s 10" % hexes(r)[0]])
    r.expect_log([NONE])


@test("a_full_array_says_so_and_goes_on_after_a_write", "record_allocs=3 record_allocs_file={folder}/rec", "fill_up")
def _(r):
    sizes = [[line.what.split()[2] for line in lines_of(r, name)] for name in ("first", "rec")]
    r.expect("sizes", sizes, [["10", "11", "12"]] * 2)
    r.expect_log([FULL, "-- written", FULL, "-- written"])


@test("C132 signals_come_at_any_moment", "record_allocs record_allocs_file={folder}/rec", "signal_storm")
def _(r):
    r.expect("went on", r["went_on"], 1)
    r.expect("last line", own_lines(r)[-1:], ["malloc %s 77" % hexes(r)[0]])
    r.expect_log([], log=[line for line in r.log if line != NONE])


@test("C132 signals_come_at_any_moment_with_guards", "record_allocs backtrace guard free_track record_allocs_file={folder}/rec",
      "signal_storm")
def _(r):
    r.expect("went on", r["went_on"], 1)
    r.expect_log([], log=[line for line in r.log if line != NONE])


@test("C133 at_exit_the_file_has_the_process_in_its_name",
      "record_allocs record_allocs_on_exit record_allocs_file={folder}/rec", "leave_blocks")
def _(r):
    name = "rec.%d" % r.pid
    r.expect("lines", [" ".join(line.split()[::2]) for line in own_lines(r, name)], ["malloc 100", "malloc 200", "malloc 400"])
    r.expect("file", os.path.exists(os.path.join(r.folder, "rec")), False)
    r.expect("mode", os.stat(os.path.join(r.folder, name)).st_mode & 0o777, 0o600)


@test("C134 frees_tell_what_was_in_memory", "record_allocs record_allocs_on_exit record_allocs_file={folder}/rec", "present")
def _(r):
    present = [(line.what.split()[0], line.present) for line in lines_of(r, "rec.%d" % r.pid) if line.present is not None]
    r.expect("present bytes", present, list(zip(("free", "realloc"), r.all("usable"))))


@test("C135 pages_that_were_given_back_do_not_count", "record_allocs record_allocs_on_exit record_allocs_file={folder}/rec",
      "present_pages", only="glibc")
def _(r):
    # the usable size may reach into one more page
    present = [line.present for line in lines_of(r, "rec.%d" % r.pid) if line.what.startswith("free")]
    if len(present) != 1 or not 3 * r["page"] <= present[0] <= 3 * r["page"] + 32:
        r.problems.append("present bytes %s, pages of %d" % (present, r["page"]))


@test("C139 a_free_of_nothing_is_no_call", "record_allocs record_allocs_file={folder}/rec", "nothing_freed")
def _(r):
    r.expect("lines", own_lines(r), ["malloc %s 1" % hexes(r)[0]])


@test("C140 a_failed_call_has_no_pointer", "record_allocs record_allocs_file={folder}/rec", "too_much")
def _(r):
    block = hexes(r)[0]
    lines = lines_of(r)
    r.expect("lines", [line.what for line in lines],
             ["malloc 0x0 %d" % (2**64 - 1), "calloc 0x0 %d 16" % (2**64 - 1), "malloc %s 10" % block,
              "realloc 0x0 %s %d" % (block, (2**64 - 1) // 2)])
    r.expect("times", [len(line.times) for line in lines[:2]], [0, 0])
    r.expect("errno", r["errno"], 12)
    r.expect("results", r.all("failed"), [0, 0, 0])


@test("C141 without_record_allocs_there_is_no_file", "record_allocs_on_exit record_allocs_file={folder}/rec", "leave_blocks")
def _(r):
    r.expect("files", [name for name in os.listdir(r.folder) if name.startswith("rec")], [])
    r.expect_log([])


@test("a_free_that_is_refused_leaves_no_line", "record_allocs verify_pointers record_allocs_file={folder}/rec", "freed_twice")
def _(r):
    block = hexes(r)[0]
    r.expect("lines", own_lines(r), ["malloc %s 10" % block, "free %s" % block])
    r.expect("reports", sum("UNKNOWN POINTER" in line for line in r.log), 1)


@test("a_limit_on_files_does_not_end_the_program", "record_allocs record_allocs_file={folder}/rec", "limited")
def _(r):
    r.expect("bytes", os.path.getsize(os.path.join(r.folder, "rec")), 1000)
    r.expect_log(["Failed to write record alloc information: File too large", "-- goes on", NONE])


@test("a_child_writes_its_parents_calls_as_well", "record_allocs record_allocs_on_exit record_allocs_file={folder}/rec", "forked")
def _(r):
    block = hexes(r)[0]
    child = [line.what for line in lines_of(r, "rec.%d" % r["child"])]
    r.expect("child", [w for w in child if block in w], ["malloc %s 10" % block, "free %s" % block])
    r.expect("parent", [w for w in own_lines(r, "rec.%d" % r.pid) if block in w], ["malloc %s 10" % block])
    r.expect("status", r["status"], 0)


def main(bench, tap, options):
    run_cases(bench, tap, options, bench.program("record.c"), TESTS)


if __name__ == "__main__":
    sys.exit(run_tests(main))
