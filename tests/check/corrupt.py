# SPDX-License-Identifier: MIT
"""
Corruption at random places, round after round (corrupt.c): in guards, headers and freed memory. What the options
promise to find is found and named, byte for byte; of the rest nothing is said but of that block; and nothing
damages the runtime itself: the program goes on to its end.

  corrupt.py --build DIR [--libc musl|aarch64] [--rounds N] [--seed N]
"""
import re
import sys

sys.dont_write_bytecode = True
from harness import DIVIDER, Frames, run_tests

FREED_TAG = 0x1cc7dccd
# name: (options, front guard, rear guard, blocks kept, header, share of the rounds)
SETS = {
    "everything": ("front_guard=48 rear_guard=21 free_track=8 fill verify_pointers backtrace", 48, 21, 8, 1, 0.4),
    "rear guard": ("rear_guard=32 free_track=3", 0, 32, 3, 1, 0.2),
    "front guard": ("front_guard=16 free_track=5 expand_alloc=24", 16, 0, 5, 1, 0.2),
    "no header": ("free_track=4 free_track_backtrace_num_frames=3", 0, 0, 4, 0, 0.1),
    "guards alone": ("guard=64", 64, 64, 0, 1, 0.1),
}


class Round:
    def __init__(self, line):
        words = line.split()
        self.line, self.number, self.kind = line, int(words[0]), words[1]
        self.call = words[2].replace("realloc_0", "realloc")
        self.p, self.size, self.tag = int(words[3], 16), int(words[4]), int(words[5], 16)
        self.damage = {int(i): int(b) for i, b in (w.split("=") for w in words[6:])}


def promised(result, r, made_in):
    """What the log must say of a round; None: it may say something, of this block alone."""
    made = {"made_in": made_in}
    front = {i: b for i, b in r.damage.items() if i < 0}
    rear = {i: b for i, b in r.damage.items() if i >= r.size}
    if r.kind == "sound":
        return []
    if r.kind in ("rear", "front", "both"):
        return [result.damaged(r.p, r.size, "FRONT", front, "let_go", **made) if front else [],
                result.damaged(r.p, r.size, "REAR", rear, "let_go", **made) if rear else []]
    if r.kind == "tag":
        what = "USED AFTER FREE" if r.tag == FREED_TAG else "HAS INVALID TAG %x" % r.tag
        return result.bad_pointer(r.p, what, r.call, "let_go", **made)
    if r.kind == "freed":
        return result.used_after_free(r.p, r.damage, "let_go", **made)
    if r.kind == "freed_tag":
        return [DIVIDER, "+++ ALLOCATION 0x%x HAS CORRUPTED HEADER TAG 0x%x AFTER FREE" % (r.p, r.tag),
                "Backtrace at time of free:", Frames("let_go"), DIVIDER]
    return None


def check_set(bench, tap, name, rounds, seed):
    options, front, rear, kept, header, share = SETS[name]
    count = max(20, int(rounds * share))
    program = bench.program("corrupt.c")
    result = bench.run(program, [str(w) for w in (count, seed, front, rear, kept, header)], options,
                       timeout=60 + count // 20)
    result.expect("status", result.status, 0)
    segments, current = {}, []
    for line in result.log:
        m = re.match(r"^-- (\w+)$", line)
        if m:
            segments[m[1]] = current = []
        else:
            current.append(line)
    done = [Round(line) for line in result.out.splitlines()]
    result.expect("rounds", len(done), count)
    result.expect("log after the last round", segments.get("end"), [])
    err, result.err = result.err, "" # of each round its own lines are shown
    for r in done:
        lines, before = segments.get(str(r.number), []), len(result.problems)
        wanted = promised(result, r, ["make"] if "backtrace" in options.split() else [])
        if wanted is not None:
            result.expect_log(wanted, lines)
        else:
            result.problems += ["round '%s': '%s'" % (r.line, line) for line in lines
                                if line.startswith("+++") and "+++ ALLOCATION 0x%x " % r.p not in line]
        if len(result.problems) > before:
            result.problems.append("in round '%s', log %s" % (r.line, lines[:12]))
        if len(result.problems) > 20:
            break
    if result.problems and not done:
        result.problems.append(err[-1000:])
    tap.note("%s: %d rounds" % (name, len(done)))
    tap.ok("damage is found and named: %s" % name, result.problems)


def main(bench, tap, options):
    for name in SETS:
        if options.k in name:
            check_set(bench, tap, name, options.rounds, options.seed)


if __name__ == "__main__":
    sys.exit(run_tests(main, rounds=500, seed=20))
