# SPDX-License-Identifier: MIT
"""
The modes of recording under the real preload, against what the program counts itself.

  run_modes.py --build DIR [--seconds N] [-k SUBSTRING]
"""
import argparse
import glob
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
from control import Controller
from tap import Tap


class Bench:
    def __init__(self, options):
        self.options = options
        self.program = os.path.join(options.build, "tests", "runtime", "modes")
        self.library = os.environ.get("MEMTRACK_LIB", os.path.join(options.build, "libmemtrack.so"))
        self.problems = []

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))

    def start(self, work, words, threads, rounds):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_"))}
        env.update(LD_PRELOAD=self.library, MEMTRACK_STATE_DIR=work, MEMTRACK_OPTIONS=words)
        p = subprocess.Popen([self.program, str(threads), str(rounds)], env=env, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while os.read(p.stdout.fileno(), 1) not in (b"\n", b""): # past "ready", no further
            pass
        return p

    def end(self, work, p):
        """What the program counted, and its state."""
        out, err = p.communicate(timeout=120)
        self.expect("exit status", p.returncode, 0)
        self.expect("stderr", err, "")
        values = {k: int(v) for k, v in (line.split("=", 1) for line in out.splitlines() if "=" in line)}
        return values, mtk.State(glob.glob(os.path.join(work, "%d.*.mtk" % p.pid))[0])

    def run(self, work, words, threads, rounds):
        return self.end(work, self.start(work, words, threads, rounds))


def surplus(values, state):
    """Allocations, frees and usable bytes that the tracker counted beyond the program's own."""
    counted, totals = state.counted(), state.totals()
    samples = sum(s.sampled for s in state.stats)
    return (counted.allocs + totals.allocs - samples - values["allocs"],
            counted.frees + totals.frees - values["frees"])


def check_surplus(bench, values, state, base):
    """Nothing is lost and nothing counted twice: the surplus is that of the libraries in any mode."""
    samples_freed = sum(c.frees for c in state.cell if state.site[c.site].regime)
    allocs, frees = surplus(values, state)
    bench.expect("allocations beyond the program's", allocs, base[0])
    bench.expect("frees beyond the program's", frees - samples_freed, base[1])


def base_of(bench, work, threads):
    """The libraries' own allocations and frees, as full mode sees them."""
    values, state = bench.run(work, "mode=full", threads, 1)
    return surplus(values, state)


def statistics_are_exact(bench, work):
    values, state = bench.run(work, "mode=stats", 4, 50000)
    check_surplus(bench, values, state, base_of(bench, work, 4))
    bench.expect("mode", state.mode, mtk.MODE_STATS)
    bench.expect("reallocs", state.sum("reallocs"), values["reallocs"])
    counted = state.counted()
    few, small = bench.run(work, "mode=stats", 4, 1)
    for field, own in (("bytes", "usable"), ("freed_bytes", "freed_usable")):
        bench.expect(field, getattr(counted, field) - values[own], getattr(small.counted(), field) - few[own])
    bench.expect("sum of live bytes", sum(s.live_bytes for s in state.stats), counted.bytes - counted.freed_bytes)
    bench.expect("sites", len(state.site) - 1, 0)
    bench.expect("blocks", len(state.blocks()), 0)
    bench.expect("lost", {k: v for k, v in state.lost.items() if v}, {})
    bench.expect("big blocks left", state.big, [])


def samples_estimate_the_totals(bench, work):
    values, state = bench.run(work, "mode=sample interval=4K", 4, 100000)
    check_surplus(bench, values, state, base_of(bench, work, 4))
    cells = [(c, s) for c, s in zip(state.cell, state.sampled) if c.site and state.site[c.site].regime]
    got, sd = sum(c.bytes for c, _ in cells), sum(s.bytes_variance for _, s in cells) ** 0.5
    # requested bytes are a little less than usable ones: what the program knows
    if not 0.95 * values["usable"] - 5 * sd < got < values["usable"] + 5 * sd:
        bench.problems.append("estimate %d, sd %d, usable bytes %d" % (got, sd, values["usable"]))
    count, sd = sum(s.count for _, s in cells), sum(s.count_variance for _, s in cells) ** 0.5
    if abs(count - values["allocs"]) > 5 * sd + 100:
        bench.problems.append("estimate of %d allocations, sd %d, were %d" % (count, sd, values["allocs"]))
    bench.expect("live samples", len([b for b in state.blocks() if b.cell]),
                 sum(c.allocs - c.frees for c, _ in cells))
    live = {True: 0, False: 0}
    for b in state.blocks():
        p = 1 if b.size >= 4096 * math.log(100) else -math.expm1(-max(b.size, 1) / 4096)
        live[bool(b.cell)] += (1 - p) * (b.size / p) ** 2
    by_sums = sum(s.bytes_variance - s.freed_bytes_variance for _, s in cells)
    if not abs(by_sums - live[True]) <= 1e-3 * live[True]:
        bench.problems.append("the live samples' variance is %d, by the sums %d" % (live[True], by_sums))
    left = [b for b in state.blocks() if b.size == 12345]
    if not 35 <= len(left) <= 50: # 95 % of each, of 50
        bench.problems.append("%d of the 50 blocks that stay were sampled" % len(left))


REQUESTS = ("mode=full", "mode=stats", "mode=sample interval=512K", "mode=sample interval=4K", "interval=16K",
            "mode=sample interval=1", "mode=sample every=7", "mode=sample interval=64", "reset-peak")


def modes_change_and_nothing_is_lost(bench, work):
    base = base_of(bench, work, 4)
    choice = random.Random(5)
    p = bench.start(work, "mode=full", 4, 0)
    controller = Controller(glob.glob(os.path.join(work, "%d.*.mtk" % p.pid))[0])
    end = time.monotonic() + bench.options.seconds
    asked = 0
    while asked < 100 or time.monotonic() < end:
        text = choice.choice(REQUESTS)
        bench.expect("request '%s'" % text, controller.ask(text), 0)
        asked += 1
        if bench.problems:
            break
        time.sleep(choice.random() * 0.02)
    bench.expect("last request", controller.ask("mode=full"), 0)
    values, state = bench.end(work, p)
    check_surplus(bench, values, state, base)
    bench.expect("lost", {k: v for k, v in state.lost.items() if v and k != "lock"}, {})
    bench.expect("unknown frees", state.sum("unknown_frees"), 0)
    bench.expect("blocks that stay", len([b for b in state.blocks() if b.size == 12345]), 50)
    stay = len([b for b in state.blocks() if b.cell and not state.site[state.cell[b.cell].site].regime])
    totals = state.totals()
    regular = [c for c in state.cell if c.site and not state.site[c.site].regime and state.site[c.site].heap == 0]
    bench.expect("blocks and counters", stay, sum(c.allocs - c.frees for c in regular))
    bench.expect("cells and totals", sum(c.allocs for c in state.cell if state.site[c.site].heap == 0), totals.allocs)
    counted = state.counted()
    bench.expect("live statistics", sum(s.live_bytes for s in state.stats), counted.bytes - counted.freed_bytes)


def a_filter_of_modules_leaves_out_what_it_names(bench, work):
    values, state = bench.run(work, "modules=-modes", 2, 1000)
    program = [m for m in state.module if m.flags & 1][0]
    own = [c for c in state.cell if c.site and program.lo <= state.node[state.site[c.site].node][0] < program.hi]
    bench.expect("allocations of the program that were recorded", sum(c.allocs for c in own), 0)
    filtered = state.totals().allocs - sum(c.allocs for c in state.cell if state.site[c.site].heap == 0)
    bench.expect("filtered", filtered >= values["allocs"], True)
    values, state = bench.run(work, "modules=+mod*,-libnone.so", 2, 1000)
    own = [c for c in state.cell if c.site and program.path == state.module[1].path]
    program = [m for m in state.module if m.flags & 1][0]
    own = [c for c in state.cell if c.site and program.lo <= state.node[state.site[c.site].node][0] < program.hi]
    bench.expect("allocations of the program", sum(c.allocs for c in own) > 0.9 * values["allocs"], True)


def a_killed_controller_changes_nothing(bench, work):
    p = bench.start(work, "mode=full", 2, 0)
    controller = Controller(glob.glob(os.path.join(work, "%d.*.mtk" % p.pid))[0])
    controller.put("mode=stats")
    time.sleep(0.05)
    bench.expect("done", controller.word(360) >> 1, 0)
    values, state = bench.end(work, p)
    bench.expect("mode", state.mode, mtk.MODE_FULL)
    bench.expect("changes", state.change, [])


def a_small_process_is_counted_only(bench, work):
    values, state = bench.run(work, "mode=sample interval=1K min-anon=1G", 2, 2000)
    bench.expect("mode", state.mode, mtk.MODE_STATS)
    bench.expect("sites", len(state.site) - 1, 0)
    values, state = bench.run(work, "mode=sample interval=1K min-anon=3M", 2, 200000)
    bench.expect("mode", state.mode, mtk.MODE_SAMPLE)
    bench.expect("changes", [(c.what, c.before, c.after) for c in state.change], [(1, mtk.MODE_STATS, mtk.MODE_SAMPLE)])
    check_surplus(bench, values, state, base_of(bench, work, 2))


def a_bound_on_processor_time_widens_the_interval(bench, work):
    values, state = bench.run(work, "mode=sample interval=64 max-cpu=1", 2, 200000)
    doubled = [c for c in state.change if c.what == 10]
    bench.expect("doubled", len(doubled) >= 1, True)
    bench.expect("by two each time", [c.after for c in doubled], [64 << n for n in range(1, len(doubled) + 1)])
    check_surplus(bench, values, state, base_of(bench, work, 2))


SCENARIOS = [statistics_are_exact, samples_estimate_the_totals, modes_change_and_nothing_is_lost,
             a_filter_of_modules_leaves_out_what_it_names, a_killed_controller_changes_nothing,
             a_small_process_is_counted_only, a_bound_on_processor_time_widens_the_interval]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    chosen = [s for s in SCENARIOS if options.k in s.__name__]
    tap = Tap()
    for scenario in chosen:
        bench = Bench(options)
        work = tempfile.mkdtemp(prefix="memtrack-modes-")
        try:
            scenario(bench, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        tap.ok(scenario.__name__.replace("_", " "), bench.problems[:20])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
