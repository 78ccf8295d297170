# SPDX-License-Identifier: MIT
"""
Check mode as its specification has it: one test for each case, its name beginning with the case's number. Each
runs a case of check_cases.c (or more_cases.c: beyond the table) and compares the log with the expected lines, exactly: pointers are those that the
program said, stacks must begin with the functions that made them.

  run_check.py --build DIR [--libc musl|aarch64] [--seconds N] [--rounds N] [-k SUBSTRING]

seconds: for cases that could go on for ever; rounds: of C157.
"""
import glob
import os
import signal
import sys

sys.dont_write_bytecode = True
from harness import DIVIDER, NO_FRAMES, USAGE, Frames, run_tests

ENOMEM, EINVAL = 12, 22
TESTS = []


def case(name, options, function=None, status=0, more="", only="", words=()):
    """
    A test: the function of check_cases.c (default: the one that is named as the test) under options. The decorated
    function is given the result, may expect more, and returns the log. only: "glibc", "musl", or both with | between.
    """
    def add(expected):
        TESTS.append((name, options, function or name, status, more, only, list(words), expected))
        return expected
    return add


def silent(name, options, function=None, **more):
    """A test whose log stays empty."""
    def add(expected):
        def both(r):
            expected(r)
            return []
        case(name, options, function, **more)(both)
        return expected
    return add


# --- on and off ---

@silent("C001 blanks switch nothing on", "   ", "c001_nothing_wrong")
def _(r):
    r.expect_said(done=1)


@case("C001 blanks do not make a wild free known", "   ", "c001_wild_free", status=None)
def _(r):
    r.expect("status", r.status, r.bare.status)
    return r.bare.log


@case("C003 a comma does not separate", "backtrace,leak_track", "c001_nothing_wrong")
def _(r):
    r.expect_said(done=1)
    return ["%s: unknown option backtrace,leak_track" % r.program.name, USAGE]


@case("C008 a flag has no value", "leak_track=12", "c001_nothing_wrong")
def _(r):
    r.expect_said(done=1)
    return ["%s: value set for option 'leak_track' which does not take a value" % r.program.name, USAGE]


# --- fill ---

@silent("C054 malloc is filled", "fill_on_alloc", "c054_malloc_is_filled")
def _(r):
    r.expect("usable", r["usable"] >= 1024, True)
    r.expect_said(wrong=0)


@silent("C055 calloc is zero", "fill", "c055_calloc_is_zero")
def _(r):
    r.expect("usable", r["usable"] >= 1024, True)
    r.expect_said(wrong=0)


@silent("C056 memalign is filled", "fill_on_alloc", "c056_memalign_is_filled")
def _(r):
    r.expect("usable", r["usable"] >= 1024, True)
    r.expect_said(wrong=0, misplaced=0)


@silent("C057 shrinking changes no byte", "fill", "c057_shrinking_changes_no_byte")
def _(r):
    r.expect("usable", r["usable"] >= 1024, True)
    r.expect_said(wrong=0)


@silent("C058 freed memory is filled", "fill_on_free free_track free_track_backtrace_num_frames=0",
        "c058_freed_memory_is_filled")
def _(r):
    r.expect("usable", r["usable"] >= 100, True)
    r.expect_said(wrong=0)


@silent("C059 freed memory is filled in part", "fill_on_free=30 free_track free_track_backtrace_num_frames=0",
        "c059_freed_memory_is_filled_in_part")
def _(r):
    r.expect_said(wrong=0, wrong_behind=0)


@case("C060 only the filled part is checked", "fill_on_free=2 free_track=4 free_track_backtrace_num_frames=0",
      "c060_only_the_filled_part_is_checked")
def _(r):
    return [r.used_after_free(r["p"], {0: 0x20, 1: 0x20}), "-- exit"]


# --- expand ---

@silent("C061 usable sizes grow", "expand_alloc=1024", "c061_usable_sizes_grow")
def _(r):
    least = dict(malloc=1034, calloc=1044, memalign=1039, aligned_alloc=1039, realloc_null=1054, realloc=1124)
    for name, size in least.items():
        if r[name] < size:
            r.problems.append("usable size of %s: %d, at least %d expected" % (name, r[name], size))
    r.expect_said(misplaced=0)


@case("C062 the expansion is not counted", "expand_alloc=64 leak_track", "c062_expansion_is_not_counted")
def _(r):
    return r.leaks((10, r["p"]))


@case("C063 the expansion is not counted by realloc", "expand_alloc=64 leak_track",
      "c063_expansion_is_not_counted_by_realloc")
def _(r):
    return r.leaks((20, r["p"]))


# --- guard ---

@silent("C064 front guard", "front_guard=32", "c064_front_guard")
def _(r):
    r.expect_said(wrong=0)


@silent("C065 front guard through realloc", "front_guard=32", "c065_front_guard_through_realloc")
def _(r):
    r.expect_said(wrong=0, last=0)


@silent("C066 rear guard of every alignment", "rear_guard=32", "c066_rear_guard_of_every_alignment")
def _(r):
    r.expect_said(wrong=0, misplaced=0, usable=0)


@case("C067 rear guard overwritten", "rear_guard=32", "c067_rear_guard_overwritten")
def _(r):
    return r.damaged(r["p"], 100, "REAR", {130: 0xbf, 131: 0}, "c067_rear_guard_overwritten", "say_main", "main")


@case("C068 rear guard after shrinking", "rear_guard=32", "c068_rear_guard_after_shrinking")
def _(r):
    r.expect_said(q=r["p"])
    return r.damaged(r["p"], 100, "REAR", {130: 0xbf, 131: 0}, "c068_rear_guard_after_shrinking")


@case("C069 odd rear guard", "rear_guard=7", "c069_odd_rear_guard")
def _(r):
    return r.damaged(r["p"], 13, "REAR", {13: 0, 19: 0}, "c069_odd_rear_guard")


def both_guards(r):
    name = "c070_both_guards_overwritten"
    return [r.damaged(r["p"], 8, "FRONT", {-1: 0}, name), r.damaged(r["p"], 8, "REAR", {8: 0}, name), "-- freed"]


case("C070 both guards overwritten", "guard=16", "c070_both_guards_overwritten")(both_guards)
case("C070 both guards overwritten: the block is freed", "guard=16 leak_track", "c070_both_guards_overwritten")(both_guards)


@silent("C071 front guard alone keeps the usable size", "front_guard", "c071_front_guard_alone_keeps_the_usable_size")
def _(r):
    r.expect_said(wrong=0, grown=1)


@silent("C072 malloc of nothing", "guard", "c072_malloc_of_nothing")
def _(r):
    r.expect_said(got=1, usable=1, behind=0xbb)


@silent("C073 guards are not checked at exit", "guard", "c073_guards_are_not_checked_at_exit")
def _(r):
    pass


# --- limits ---

@silent("C074 calloc of too much", "guard fill_on_free", "c074_calloc_of_too_much")
def _(r):
    r.expect("null", r.all("null"), [1] * 4)
    r.expect("errno", r.all("errno"), [ENOMEM] * 4)


@silent("C075 failed realloc leaves the block", "guard fill_on_free", "c075_failed_realloc_leaves_the_block")
def _(r):
    r.expect_said(null=1, wrong=0)


@silent("C076 posix_memalign refuses alignments", "guard", "c076_posix_memalign_refuses_alignments")
def _(r):
    r.expect_said(eleven=EINVAL, four=EINVAL, errno=77, untouched=1)


@silent("C077 posix_memalign of too much", "guard", "c077_posix_memalign_of_too_much")
def _(r):
    r.expect_said(status=ENOMEM, errno=77, p=0)


@silent("C078 aligned_alloc is strict", "verify_pointers", "c078_aligned_alloc_is_strict")
def _(r):
    r.expect("blocks", r.all("p"), [0] * 3)
    r.expect("errno", r.all("errno"), [EINVAL] * 3)


@silent("C079 memalign rounds the alignment", "verify_pointers", "c079_memalign_rounds_the_alignment")
def _(r):
    r.expect_said(got=1, misplaced=0)


# --- pointers that are none ---

@case("C080 invalid tag of malloc_usable_size", "rear_guard=32", "c080_invalid_tag_of_malloc_usable_size")
def _(r):
    r.expect_said(usable=0)
    return r.bad_pointer(r["p"], "HAS INVALID TAG 1ee7d000", "malloc_usable_size", "c080_invalid_tag_of_malloc_usable_size")


@case("C081 invalid tag of realloc and free", "rear_guard=32", "c081_invalid_tag_of_realloc_and_free")
def _(r):
    name, what = "c081_invalid_tag_of_realloc_and_free", "HAS INVALID TAG 1ee7d000"
    r.expect_said(realloc=0)
    return [r.bad_pointer(r["p"], what, "realloc", name), r.bad_pointer(r["p"], what, "free", name), "-- mended"]


@case("C082 double free", "verify_pointers", "c082_double_free")
def _(r):
    r.expect_said(errno=77)
    return [r.bad_pointer(r["p"], "UNKNOWN POINTER", "free", "c082_double_free"), "-- goes on"]


@case("C083 no frames", "verify_pointers", "c083_no_frames")
def _(r):
    return [DIVIDER, "+++ ALLOCATION 0x%x UNKNOWN POINTER (free)" % r["p"], "Backtrace at time of failure:", NO_FRAMES,
            DIVIDER, "-- goes on"]


@case("C084 realloc after free", "free_track=100 rear_guard", "c084_realloc_after_free")
def _(r):
    name = "c084_realloc_after_free"
    r.expect_said(realloc=0)
    return [r.bad_pointer(r["p"], "USED AFTER FREE", "realloc", name, freed_in=("first_free", name)), "-- exit"]


@case("C085 double free with header", "free_track=100 rear_guard", "c085_double_free_with_header")
def _(r):
    name = "c085_double_free_with_header"
    return [r.bad_pointer(r["p"], "USED AFTER FREE", "free", name, freed_in=("first_free", name)), "-- exit"]


@case("C085 one entry in quarantine", "free_track=2 rear_guard", "c085_one_entry_in_quarantine")
def _(r):
    r.expect_said(reused=0)
    return r.log


@case("C086 double free without header", "free_track", "c086_double_free_without_header")
def _(r):
    name = "c086_double_free_without_header"
    return [r.bad_pointer(r["p"], "UNKNOWN POINTER", "free", name, freed_in=("first_free", name)), "-- exit"]


@case("C087 double free without stacks", "free_track free_track_backtrace_num_frames=0", "c087_double_free_without_stacks")
def _(r):
    return [r.bad_pointer(r["p"], "UNKNOWN POINTER", "free", "c086_double_free_without_header"), "-- exit"]


@case("C088 free of a variable", "leak_track", "c088_free_of_a_variable")
def _(r):
    return [r.bad_pointer(r["p"], "UNKNOWN POINTER", "free", "c088_free_of_a_variable"), "-- goes on"]


@case("C089 free inside a block", "leak_track", "c089_free_inside_a_block")
def _(r):
    return [r.bad_pointer(r["p"] + 1, "UNKNOWN POINTER", "free", "c089_free_inside_a_block"), "-- exit",
            r.leaks((100, r["p"]))]


@case("C090 free of a small number", "guard", "c090_free_of_a_small_number")
def _(r):
    return [r.bad_pointer(16, "UNKNOWN POINTER", "free", "c090_free_of_a_small_number"), "-- goes on"]


@silent("C091 free of an early block", "verify_pointers", "c091_free_of_an_early_block", only="glibc")
def _(r):
    r.expect_said(early=1)


@silent("C091 free of the blocks of libc", "guard verify_pointers free_track fill", "c091_free_of_an_early_block")
def _(r):
    pass


@silent("C092 free after a failed realloc", "verify_pointers", "c092_free_after_a_failed_realloc")
def _(r):
    r.expect_said(realloc=0, errno=ENOMEM)


# --- freed blocks ---

@silent("C093 freed blocks untouched", "free_track=5 free_track_backtrace_num_frames=0", "c093_freed_blocks_untouched")
def _(r):
    pass


@case("C094 freed block overwritten", "free_track=100 free_track_backtrace_num_frames=0", "c094_freed_block_overwritten")
def _(r):
    return ["-- exit", r.used_after_free(r["p"], {56: 0x91})]


@case("C095 freed block with header overwritten", "free_track=100 rear_guard", "c095_freed_block_with_header_overwritten")
def _(r):
    return ["-- exit", r.used_after_free(r["p"], {101: 0xab}, "first_free", "c095_freed_block_with_header_overwritten")]


@silent("C096 freed blocks are kept", "free_track=3", "c096_freed_blocks_are_kept")
def _(r):
    r.expect_said(first=1, others=0)


@case("C097 moved block is kept", "free_track=5 rear_guard", "c097_moved_block_is_kept")
def _(r):
    r.expect_said(moved=1)
    return ["-- exit", r.used_after_free(r["p"], {0: 0x41}, "c097_moved_block_is_kept")]


@case("C098 report at exit aborts", "free_track=5 abort_on_error free_track_backtrace_num_frames=0",
      "c098_report_at_exit_aborts", status=-signal.SIGABRT)
def _(r):
    return ["-- exit", r.used_after_free(r["p"], {56: 0x91})]


# --- leaks ---

@case("C099 leaks by size", "leak_track", "c099_leaks_by_size")
def _(r):
    return r.leaks((1024, r["p3"]), (200, r["p1"]), (128, r["p2"]))


@case("C100 leaks with stacks", "leak_track backtrace", "c100_leaks_with_stacks")
def _(r):
    name = "c100_leaks_with_stacks"
    return r.leaks((1024, r["p3"], "large_site", name), (128, r["p2"], "middle_site", name),
                   (100, r["p1"], "small_site", name))


@case("C101 leaks do not abort", "leak_track abort_on_error", "c101_leaks_do_not_abort", status=3)
def _(r):
    return r.leaks((64, r["p"]))


@case("C102 equal leaks", "leak_track", "c102_equal_leaks")
def _(r):
    return r.leaks(*((64, p) for p in sorted(r.all("p"))))


def deeper_first(r):
    return r.leaks((64, r["deep"], *["deep"] * 6), (64, r["shallow"], *["deep"] * 3, r.function))


case("C103 deeper stack first", "leak_track backtrace", "c103_deeper_stack_first")(deeper_first)
case("C103 deeper stack first again", "leak_track backtrace", "c103_deeper_stack_first_again")(deeper_first)


def with_stacks(*sizes):
    """Leaks in descending sizes, those of the named sizes with a stack."""
    def expected(r):
        said = {120: (119, 120, 121), 1000: (1000, 1001, 5000), 50: (49, 50, 1000, 1001)}[sizes[0]]
        blocks = sorted(zip(said, r.all("p")), reverse=True)
        return r.leaks(*((n, p, *(["leak_sizes"] if n in sizes else [])) for n, p in blocks))
    return expected


case("C104 one size has a stack", "leak_track backtrace backtrace_size=120", "c104_one_size_has_a_stack")(with_stacks(120))
case("C105 small sizes have a stack", "leak_track backtrace backtrace_max_size=1000",
     "c105_small_sizes_have_a_stack")(with_stacks(1000))
case("C106 a range of sizes has a stack", "leak_track backtrace backtrace_min_size=50 backtrace_max_size=1000",
     "c106_a_range_of_sizes_has_a_stack")(with_stacks(50, 1000))


@silent("C107 leaks of a program that ends at once", "leak_track", "c107_leaks_of_a_program_that_ends_at_once")
def _(r):
    pass


def shrunk(r):
    return r.leaks((40, r["p"]))


case("C108 leak of a shrunk block", "leak_track", "c108_leak_of_a_shrunk_block")(shrunk)
case("C108 leak of a shrunk block with a rear guard", "leak_track rear_guard", "c108_leak_of_a_shrunk_block")(shrunk)


# --- the end ---

@case("C157 exit while threads allocate", "verbose backtrace", "c157_exit_while_threads_allocate", status=30)
def _(r):
    for _ in range(r.rounds):
        again = r.again()
        if again.status != 30:
            r.expect("status of a later run", (again.status, again.log), (30, r.log))
            break
    return ["%s: Run: 'kill -47 %d' to dump the backtrace." % (r.program.name, r.pid),
            "%s: malloc debug enabled" % r.program.name]


EXIT_ORDER = "free_track leak_track record_allocs record_allocs_file={folder}/records record_allocs_on_exit backtrace " \
             "backtrace_dump_on_exit backtrace_dump_prefix={folder}/heap log_allocator_stats_on_exit"


@case("C158 order at exit", EXIT_ORDER, "c158_order_at_exit")
def _(r):
    name = "c158_order_at_exit"
    dump, records = "%s/heap.%d.exit.txt" % (r.folder, r.pid), "%s/records.%d" % (r.folder, r.pid)
    for path in (dump, records):
        r.expect(path + " is there", os.path.exists(path) and os.path.getsize(path) > 0, True)
    if not r.problems:
        r.expect("records before the dump", os.stat(records).st_mtime_ns <= os.stat(dump).st_mtime_ns, True)
    at = r.log.index("Logging allocator stats...") if "Logging allocator stats..." in r.log else len(r.log)
    return ["-- exit", r.used_after_free(r["p"], {7: 7}, "first_free", name, made_in=[name]), r.leaks((400, r["q"], name)),
            "Dumping to file: " + dump, "", "Logging allocator stats...", r.log[at + 1:]]


@case("C159 standard error is closed", "leak_track", "c159_standard_error_is_closed")
def _(r):
    return r.leaks((64, r["p"]))


# --- threads ---

@silent("C160 unwinding while allocating", "verify_pointers", "c160_unwinding_while_allocating", only="glibc")
def _(r):
    r.expect_said(frames=1)


@silent("C161 forks while allocating", "backtrace", "c161_forks_while_allocating")
def _(r):
    r.expect_said(forks=1, bad=0)


@silent("C161 forks while allocating with everything", "backtrace guard fill free_track=10 verify_pointers",
        "c161_forks_while_allocating")
def _(r):
    r.expect_said(forks=1, bad=0)


@case("C162 dump of a live program", "backtrace guard backtrace_dump_prefix={folder}/heap", "c162_dump_of_a_live_program")
def _(r):
    name = "%s/heap.%d.txt" % (r.folder, r.pid)
    r.expect("files", glob.glob(r.folder + "/heap.*"), [name])
    return [["Dumping to file: " + name, ""]] * 5


# --- beyond the table ---

@silent("a dump at exit without stacks is none", "backtrace_dump_on_exit guard", "c073_guards_are_not_checked_at_exit")
def _(r):
    r.expect("files", glob.glob(r.folder + "/*.txt"), [])


@case("realloc with guards and an expansion", "guard expand_alloc=64 leak_track", "x_shrinking_by_less_than_the_expansion")
def _(r):
    r.expect_said(usable=59, wrong=0, wrong_grown=0)
    return r.leaks((60, r["p"]))


@case("realloc checks the guards", "guard", "x_realloc_checks_the_guards")
def _(r):
    name = "x_realloc_checks_the_guards"
    r.expect_said(last=0)
    return [r.damaged(r["p"], 40, "REAR", {41: 1}, name), "-- moved", r.damaged(r["q"], 5000, "REAR", {5000: 2}, name)]


@case("only blocks of some sizes are checked", "guard free_track fill only_min_size=50 only_max_size=150",
      "x_damage_of_many_sizes")
def _(r):
    return r.damaged(r["p"], 100, "REAR", {100: 1}, "x_damage_of_many_sizes")


@silent("no block of a module that is left out is checked", "guard fill only_modules=-*_cases*", "x_damage_of_many_sizes")
def _(r):
    pass


@case("only blocks of a module are checked", "guard only_modules=+*_cases* only_max_size=110 only_min_size=30",
      "x_damage_of_many_sizes")
def _(r):
    return r.damaged(r["p"], 100, "REAR", {100: 1}, "x_damage_of_many_sizes")


# musl has no unwind information for who called its strdup
@case("what libc allocates for a module is the module's", "guard only_modules=+*_cases*", "x_damage_behind_a_copied_string",
      only="glibc")
def _(r):
    return r.damaged(r["p"], 8, "REAR", {8: 1}, "x_damage_behind_a_copied_string")


@silent("it is left out with the module", "guard only_modules=-*_cases*", "x_damage_behind_a_copied_string", only="glibc")
def _(r):
    pass


@silent("a block that grew is filled behind", "fill guard", "x_fill_behind_a_grown_block")
def _(r):
    r.expect_said(old=0, fresh=0)


@silent("nothing is wrong with NULL", "guard verify_pointers free_track", "x_nothing_for_null")
def _(r):
    r.expect_said(usable=0, errno=77)


@case("a report keeps errno", "guard", "x_free_keeps_errno")
def _(r):
    r.expect_said(errno=77)
    return r.damaged(r["p"], 10, "REAR", {10: 0}, "x_free_keeps_errno")


@case("buffers of standard streams are no leaks", "leak_track", "x_buffers_of_standard_streams")
def _(r):
    return r.leaks((64, r["p"]))


@silent("blocks that are freed while the program exits are no leaks", "leak_track", "x_blocks_freed_while_exiting")
def _(r):
    pass


for _options in ("guard", "front_guard=17", "rear_guard=7", "expand_alloc=13", "fill free_track=3", "backtrace leak_track",
                 "guard expand_alloc free_track fill backtrace verify_pointers leak_track record_allocs=1000"):
    @silent("every function has its alignment: " + _options, _options, "x_every_function_has_its_alignment")
    def _(r):
        r.expect_said(bad=0)


@case("blocks of a parent", "guard", "x_blocks_of_a_parent")
def _(r):
    r.expect_said(status=7)
    return [r.damaged(r["p"], 100, "REAR", {100: 0}, "x_blocks_of_a_parent"), "-- parent"]


def each_told_once(may_be_overwritten):
    """Of two threads one frees the block, the other is told; the allocator may have written over the header by then."""
    def expected(r):
        told = [line for line in r.log if line.startswith("+++")]
        r.expect("reports", len(told), 200)
        r.problems += [line for line in told if not line.endswith((" UNKNOWN POINTER (free)", " USED AFTER FREE (free)"))
                       and not (may_be_overwritten and " HAS INVALID TAG " in line)][:3]
        return r.log
    return expected


for _options in ("guard free_track=1000", "free_track=1000", "verify_pointers", "guard"):
    case("two threads free at once: " + _options, _options, "x_two_threads_free_at_once")(each_told_once(_options == "guard"))


# the emulator knows no RLIMIT_AS
@case("what is held back is given up for a request", "guard free_track free_track_bytes=1G", "x_memory_that_is_held_back",
      only="glibc|musl")
def _(r):
    r.expect_said(got=50, too_much=0)
    return r.used_after_free(r["p"], {7: 1}, "x_memory_that_is_held_back")


@case("large blocks", "guard free_track=2", "x_large_blocks")
def _(r):
    name, size = "x_large_blocks", 5 << 20
    r.expect_said(wrong=0, wrong_grown=0)
    return [r.damaged(r["p"], size, "FRONT", {-1: 1}, name), r.damaged(r["p"], size, "REAR", {size + 2: 2}, name), "-- written",
            r.used_after_free(r["q"], {size - 3: 3}, name)]


@silent("calls keep errno", "guard free_track=3 fill backtrace expand_alloc verify_pointers", "x_calls_keep_errno")
def _(r):
    r.expect_said(bad=0)


def run_test(bench, program, test, options):
    name, words, function, status, more, only, extra, expected = test
    if only and options.libc not in only.split("|"):
        return "with %s alone" % only, None

    def run(asked=words):
        r = bench.run(program, [function, str(options.seconds)] + extra, asked, more, timeout=60 + 2 * options.seconds)
        r.function, r.rounds, r.again = function, options.rounds, run
        return r
    r = run()
    if status is None:
        r.bare = run(None)
    else:
        r.expect("status", r.status, status)
    r.expect_log(expected(r))
    return None, r.problems


def main(bench, tap, options):
    cases, more = bench.program("check_cases.c"), bench.program("more_cases.c")
    for test in TESTS:
        if options.k not in test[0]:
            continue
        why, problems = run_test(bench, more if test[2].startswith("x_") else cases, test, options)
        if why:
            tap.skip(test[0], why)
        else:
            tap.ok(test[0], problems)


if __name__ == "__main__":
    sys.exit(run_tests(main, seconds=1, rounds=25))
