# SPDX-License-Identifier: MIT
"""
Heap dumps, leak info and malloc_info in check mode, from outside. Names begin with the number of the behaviour in
the specification.

  run_dump.py --build DIR [--libc musl] [-k SUBSTRING]
"""
import os
import re
import sys
import xml.etree.ElementTree

sys.dont_write_bytecode = True
from harness import HERE, run_cases, run_tests

TESTS = []
RECORD = re.compile(r"^z 0  sz (?=.{8})( *\d+)  num    (\d+)  bt((?: [0-9a-f]+)*)$")
INFO = re.compile(r' \{"([^"]*)" ([0-9a-f]+) "([^"]*)" ([0-9a-f]+)\}')
MAP = re.compile(r"^[0-9a-f]+-[0-9a-f]+ [rwxsp-]{4} [0-9a-f]+ [0-9a-f]+:[0-9a-f]+ \d+\s*(.*)$")
HEAP = "backtrace_dump_prefix={folder}/heap"


def test(name, options, case, only="", **how):
    def add(check):
        TESTS.append((name, options, case, check, only, how))
        return check
    return add


class Dump:
    """A dump read by the letter: whatever is out of place is a problem."""

    def __init__(self, r, text, frames):
        self.r, self.records, self.infos = r, [], []
        lines = text.split("\n")
        r.expect("last lines", lines[-2:], ["END", ""])
        r.expect("head", lines[:4], ["Android Native Heap Dump v1.2", "", "Build fingerprint: 'unknown'", ""])
        numbers = [re.fullmatch(name + ": (\\d+)", line) for name, line in
                   zip(("Total memory", "Allocation records", "Backtrace size"), lines[4:7])]
        r.expect("numbers", [bool(n) for n in numbers] + lines[7:8], [True] * 3 + [""])
        self.total, self.count, self.depth = [int(n[1]) if n else -1 for n in numbers]
        end = lines.index("MAPS") if "MAPS" in lines else len(lines)
        for line in lines[8:end]:
            m = RECORD.match(line)
            if m:
                self.records.append((int(m[1]), int(m[2]), [int(f, 16) for f in m[3].split()]))
            elif line.startswith("  bt_info {") and INFO.sub("", line) == "  bt_info":
                self.infos.append(INFO.findall(line))
            else:
                r.problems.append("no line of a dump: %r" % line)
        self.maps = lines[end + 1:-2]
        r.expect("maps", [line for line in self.maps if not MAP.match(line)], [])
        if not any(r.program.real in line for line in self.maps):
            r.problems.append("the program is not in the maps")
        r.expect("frames", self.depth, frames)
        r.expect("records", len(self.records), self.count)
        r.expect("total", sum(s * n for s, n, _ in self.records), self.total)
        if any(len(f) > frames for _, _, f in self.records):
            r.problems.append("more than %d frames" % frames)

    def sizes(self):
        return [(size, num) for size, num, _ in self.records]


def text_of(r, name):
    path = os.path.join(r.folder, name)
    if not os.path.exists(path):
        r.problems.append("there is no %s, only %s" % (name, os.listdir(r.folder)))
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read()


def dump_of(r, frames, suffix=".txt"):
    return Dump(r, text_of(r, "heap.%d%s" % (r.pid, suffix)), frames)


def dumping(r, suffix=".txt"):
    return ["Dumping to file: %s/heap.%d%s" % (r.folder, r.pid, suffix), ""]


def files(r):
    return sorted(name for name in os.listdir(r.folder) if not name.endswith(".mtk"))


@test("C109 a_dump_is_made_by_the_next_call_of_any_kind", "backtrace=4 " + HEAP, "triggers")
def _(r):
    r.expect_said(signal=0, calloc=1, free=1, memalign=1, realloc=1, usable=1)
    r.expect_log(dumping(r) * 5)


@test("C109 so_is_it_by_calls_about_blocks_with_a_guard_page", "backtrace=4 guard_page " + HEAP, "triggers")
def _(r):
    r.expect_said(signal=0, calloc=1, free=1, memalign=1, realloc=1, usable=1)
    r.expect_log(dumping(r) * 5)


@test("C110 three_signals_are_one_dump", "backtrace=4 " + HEAP, "once")
def _(r):
    r.expect_log(dumping(r))


@test("C111 blocks_of_one_stack_are_one_record", "backtrace=4 backtrace_dump_on_exit " + HEAP, "records")
def _(r):
    d = dump_of(r, 4, ".exit.txt")
    mode = os.stat(os.path.join(r.folder, "heap.%d.exit.txt" % r.pid)).st_mode & 0o777
    r.expect("mode", oct(mode), oct(0o600))
    r.expect("sizes", d.sizes(), [(400, 1), (300, 2)])
    r.expect("total", d.total, 1000)
    r.expect("stacks", [len(f) > 1 for _, _, f in d.records], [True, True])
    r.expect_log(dumping(r, ".exit.txt"))


@test("C112 without_the_option_nothing_is_dumped_at_exit", "backtrace " + HEAP, "dump_now")
def _(r):
    r.expect("files", files(r), ["heap.%d.txt" % r.pid])
    r.expect("sizes", dump_of(r, 16).sizes(), [(400, 1), (300, 2)])


@test("C113 a_missing_folder_is_said", "backtrace backtrace_dump_prefix={folder}/missing/heap", "missing_folder")
def _(r):
    r.expect_log(["Unable to create file: %s/missing/heap.%d.txt" % (r.folder, r.pid), "-- goes on"])


@test("C114 blocks_without_a_stack_are_in_the_dump", "backtrace_enable_on_signal " + HEAP, "switched_off")
def _(r):
    d = dump_of(r, 16)
    r.expect("records", [(10, 1, [])], d.records)


@test("a_free_that_makes_the_dump_is_not_done_yet", "backtrace=4 " + HEAP, "freed_block")
def _(r):
    r.expect("sizes", dump_of(r, 4).sizes(), [(7777, 1)])


@test("C118 many_blocks_of_one_stack_are_one_record", "backtrace " + HEAP, "many_blocks")
def _(r):
    r.expect("sizes", dump_of(r, 16).sizes(), [(24, 100000)])


@test("C119 two_stacks_in_turn_are_two_records", "backtrace " + HEAP, "in_turn")
def _(r):
    r.expect("sizes", dump_of(r, 16).sizes(), [(56, 50), (56, 50)])


@test("C117 a_dump_has_its_form_and_names", "backtrace backtrace_full " + HEAP, "dump_now")
def _(r):
    d = dump_of(r, 16)
    r.expect("records with names", len(d.infos), len(d.records))
    for info, (_, _, frames) in zip(d.infos, d.records):
        r.expect("names a frame", len(info), len(frames))
        place, relative, function, offset = info[0]
        r.expect("place", os.path.realpath(place), r.program.real)
        r.expect("function", function, r.program.function(int(relative, 16)))
        if not 0 < int(offset, 16) < 200:
            r.problems.append("offset %s in %s" % (offset, function))
    r.expect("functions", [info[0][2] for info in d.infos], ["take_there", "take_here"])


@test("C115 a_program_has_its_dump_written", "backtrace=16", "write_info")
def _(r):
    before, text = r.out.split("before 1\n")
    text, after = text.split("after 1\n")
    r.expect("before", before, "")
    r.expect("sizes", Dump(r, text, 16).sizes(), [(400, 1), (300, 2)])
    r.expect("bad descriptor", after, "closed 0\nerrno 9\n")
    r.expect_log([])


@test("C116 without_stacks_there_is_no_dump", "fill", "write_nothing")
def _(r):
    r.expect("first line", r.out.split("\n")[0].startswith("Native heap dump not available. To enable, "), True)
    r.expect_said(result=0, errno=95)
    r.expect_log([])


BAD = "get_malloc_leak_info: At least one invalid parameter."


@test("C120 leak_info_needs_its_parameters", "fill", "no_parameters")
def _(r):
    r.expect_log([BAD] * 5 + ["-- all", "get_malloc_leak_info: Allocations not being tracked, to enable set the "
                              "option 'backtrace'."])
    r.expect_said(info=0, overall=0)


@test("without_the_option_leak_info_is_silent", None, "write_nothing")
def _(r):
    r.expect_said(result=0)
    r.expect_log([])


@test("C121 leak_info_is_sorted_and_cut", "backtrace=16", "sizes")
def _(r):
    r.expect("sizes", list(zip(r.all("size"), r.all("num"))), [(9000, 1), (4100, 1), (500, 1)])
    r.expect_said(total=13600, frames=16, bad_record=-1)
    r.expect("depth", r.all("depth")[1], 16)
    if not 0 < r.all("depth")[2] < 16:
        r.problems.append("depths %s" % r.all("depth"))


@test("C122 equal_blocks_are_one_record", "backtrace=4", "equal_blocks")
def _(r):
    r.expect("sizes", list(zip(r.all("size"), r.all("num"))), [(100, 1), (10, 3)])
    r.expect_said(total=130)


@test("C124 blocks_whose_stack_was_not_found_are_told", "backtrace=4 backtrace_min_size=1000", "four_blocks")
def _(r):
    r.expect("records", list(zip(r.all("size"), r.all("num"), r.all("depth"))), [(100, 4, 0)])
    r.expect_said(total=400)


@test("C125 blocks_made_while_it_was_off_are_left_out", "backtrace_enable_on_signal=20", "toggled")
def _(r):
    r.expect("records", r.all("records"), [0, 1, 0])
    r.expect("totals", r.all("total"), [0, 100, 0])
    r.expect("frames", r.all("frames"), [0, 20, 0])
    r.expect("depth", r.all("depth"), [20])


def xml_of(r):
    text = r.out[r.out.find("<"):r.out.rfind(">") + 1]
    return xml.etree.ElementTree.fromstring(text or "<nothing/>")


@test("C149 malloc_info_tells_what_is_live", "verify_pointers", "info_of_sizes")
def _(r):
    root = xml_of(r)
    sizes = [(int(a.get("nr")), int(a.find("size").text), int(a.find("total").text)) for a in root]
    r.expect("root", (root.tag, root.get("version")), ("malloc", "debug-malloc-1"))
    r.expect("sizes", sizes, [(0, 1200, 1), (1, 1000, 2), (2, 500, 1)])


@test("C150 without_tracking_malloc_info_is_the_allocators", "fill", "info_of_sizes", only="glibc")
def _(r):
    r.expect("root", xml_of(r).get("version"), "1")


@test("C151 other_calls_are_passed_on", "guard", "other_calls", only="glibc")
def _(r):
    r.expect_said(grown=1, option=1, known_option=1)
    r.expect_log([])


@test("C162 others_allocate_meanwhile", "backtrace guard", "while_others_allocate")
def _(r):
    r.expect_said(good=30, calls=1)
    r.expect_log([])


@test("others_allocate_while_names_are_looked_up", "backtrace=32 backtrace_full", "while_others_allocate")
def _(r):
    r.expect_said(good=30, calls=1)
    r.expect_log([])


def main(bench, tap, options):
    flags = ("-O0", "-I" + os.path.join(HERE, "..", "..", "include")) + ("-DNO_GLIBC",) * (options.libc == "musl")
    run_cases(bench, tap, options, bench.program("dump.c", flags=flags), TESTS)


if __name__ == "__main__":
    sys.exit(run_tests(main))
