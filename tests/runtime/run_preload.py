# SPDX-License-Identifier: MIT
"""
Programs under the real preload, compared with what they count themselves.

  run_preload.py --build DIR [--seconds N] [-k SUBSTRING]
"""
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
from tap import Tap

PAGE = 4096


class Bench:
    def __init__(self, options):
        self.options = options
        self.bin = os.path.join(options.build, "tests", "runtime")
        self.lib = os.environ.get("MEMTRACK_LIB", os.path.join(options.build, "libmemtrack.so"))
        self.problems = []

    def expect(self, what, got, wanted):
        if got != wanted:
            self.problems.append("%s: %s, expected %s" % (what, got, wanted))

    def run(self, work, arguments, timeout):
        """The program's output as a dictionary of NAME=VALUE lines, and its state files by pid."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACK", "LD_"))}
        env.update(LD_PRELOAD=self.lib, MEMTRACK_STATE_DIR=work)
        with subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
            try:
                out, err = p.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                p.kill()
                out, err = p.communicate()
                self.problems.append("no end after %d s" % timeout)
            self.expect("exit status", p.returncode, 0)
            self.expect("stderr", err, "")
            values = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        states = sorted(glob.glob(os.path.join(work, "*.mtk")))
        own = [s for s in states if os.path.basename(s).startswith("%d." % p.pid)]
        return values, mtk.State(own[0]) if len(own) == 1 else None, states


def program_sites(state):
    """Numbers of the sites whose innermost frame lies in the program."""
    sites = set()
    for number, site in enumerate(state.site):
        frames, _ = state.frames(site.node)
        if frames and state.module[frames[0][1]].flags & 1:
            sites.add(number)
    return sites


def soak(bench, work):
    seconds = bench.options.seconds
    values, state, states = bench.run(work, [os.path.join(bench.bin, "soak"), str(seconds),
                                             os.path.join(bench.bin, "libsoak_lib.so")], seconds + 60)
    if not state or not values:
        bench.problems.append("no output or no state file")
        return
    value = {k: int(v) for k, v in values.items()}
    ours = program_sites(state)
    cells = [c for c in state.cell if c.site in ours and state.site[c.site].heap == mtk.MALLOC]
    for field in ("allocs", "bytes", "frees", "freed_bytes"):
        bench.expect(field, sum(getattr(c, field) for c in cells), value[field])
    live = [b for b in state.blocks() if b.cell and state.cell[b.cell].site in ours]
    bench.expect("live blocks", len(live), value["allocs"] - value["frees"])
    bench.expect("live bytes", sum(b.size for b in live), value["bytes"] - value["freed_bytes"])
    bench.expect("addresses", len(set(b.address for b in live)), len(live))
    totals = state.totals()
    bench.expect("cells and totals", sum(c.allocs for c in state.cell if state.site[c.site].heap == mtk.MALLOC),
                 totals.allocs - state.sum("unplaced_allocs"))
    bench.expect("nested frees", state.sum("nested_frees"), 0)
    bench.expect("reallocs", state.sum("reallocs") >= value["reallocs"], True)
    bench.expect("untracked", state.sum("untracked_allocs"), 0)
    bench.expect("children", state.children_seen, value["children"])
    bench.expect("child files", len(states) - 1, value["children"] - state.lost["child"])
    mapped = state.totals(mtk.MMAP)
    missed = state.lost["nested"]
    bench.expect("handler's mappings", value["handler_calls"] - missed <= mapped.allocs <= value["handler_calls"] + 16, True)
    # a lock's owner that gets no processor for long makes others give up: what they lose is counted
    others = {k: v for k, v in state.lost.items() if v and k not in ("nested", "child", "lock")}
    if state.lost["lock"] < 1000:
        others = {k: v for k, v in others.items() if v > state.lost["lock"]}
    bench.expect("lost events", others, {})
    for path in states[:200]:
        child = mtk.State(path)
        if child.pid != state.pid:
            bench.expect("allocations of child %d" % child.pid, child.totals().allocs, 50)
            bench.expect("live blocks of child %d" % child.pid, len(child.blocks()), 50)
    bench.note = "%d allocations, %d children, %d signals, %d nested, %d waits given up" % (
        value["allocs"], value["children"], value["handler_calls"], missed + state.sum("nested_allocs"),
        state.lost["lock"])


def maps(bench, work):
    pages, kernel = os.path.join(work, "pages"), os.path.join(work, "maps")
    _, state, _ = bench.run(work, [os.path.join(bench.bin, "maps"), pages, kernel], 60)
    if not state:
        bench.problems.append("no state file")
        return
    with open(pages, encoding="ascii") as f:
        wanted = set(int(line, 16) for line in f)
    got = []
    for block in state.blocks(mtk.MMAP):
        got += range(block.address, block.address + block.size, PAGE)
    bench.expect("pages in two records", len(got) - len(set(got)), 0)
    bench.expect("pages not recorded", len(wanted - set(got)), 0)
    mapped = set()
    with open(kernel, encoding="utf-8") as f:
        for line in f:
            lo, hi = (int(x, 16) for x in line.split()[0].split("-"))
            if hi - lo < 1 << 30:
                mapped.update(range(lo, hi, PAGE))
    bench.expect("pages recorded that the kernel does not have", len(set(got) - mapped), 0)
    bench.expect("pages recorded that the program does not have", len(set(got) - wanted), 0)
    totals = state.totals(mtk.MMAP)
    bench.expect("bytes", totals.bytes - totals.freed_bytes, len(wanted) * PAGE)
    bench.note = "%d pages, %d mappings made" % (len(wanted), totals.allocs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap = Tap()
    for function in (maps, soak):
        if options.k not in function.__name__:
            continue
        bench = Bench(options)
        bench.note = ""
        parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        work = tempfile.mkdtemp(prefix="memtrack-test-preload-", dir=parent)
        try:
            function(bench, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        tap.note(bench.note)
        tap.ok(function.__name__, bench.problems[:20])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
