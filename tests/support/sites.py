# SPDX-License-Identifier: MIT
"""
Allocation sites with symbolized stacks, from three sources that must agree: memtrack's report, its
state file read by mtk.py and symbolized by addr2line, and Valgrind (which checks the expectations).
"""
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import mtk


class Frame:
    def __init__(self, function="", file="", line=0, module=""):
        self.function, self.file, self.line, self.module = function or "", file or "", line or 0, module or ""

    def __str__(self):
        place = "%s:%d" % (os.path.basename(self.file), self.line) if self.file else os.path.basename(self.module)
        return "%s (%s)" % (self.function or "?", place)


class Site:
    """count and bytes are live; allocs, frees, total_bytes and temporaries are cumulative or None."""

    def __init__(self, frames, count, size, heap="malloc", label="", call="", allocs=None, frees=None,
             total_bytes=None, temporaries=None):
        self.frames, self.count, self.bytes = frames, count, size
        self.heap, self.label, self.call = heap, label, call
        self.allocs, self.frees, self.total_bytes, self.temporaries = allocs, frees, total_bytes, temporaries

    def __str__(self):
        return "%d blocks, %d bytes, %s: %s" % (self.count, self.bytes, self.heap,
                            " <- ".join(str(f) for f in self.frames[:8]))


def base_name(function):
    """A function's name without arguments, clone suffixes, return type and template arguments' blanks."""
    name = re.sub(r"\.(constprop|isra|part|cold|llvm|lto_priv)\b.*$", "", function.strip())
    name = re.sub(r"@@?[A-Z]+_[0-9.]+$", "", name)
    depth = 0
    for i, c in enumerate(name):
        if c == "<":
            depth += 1
        elif c == ">":
            depth -= 1
        elif c == "(" and depth <= 0 and i and not name.startswith("operator()", max(0, i - 8)) \
                and not name[i:].startswith("(anonymous namespace)"):
            name = name[:i]
            break
    return name


# ---- state file + addr2line --------------------------------------------------------------------

def _addr2line(module, addresses):
    """{address: [Frame innermost first]}; the file may be gone."""
    answer = {a: [Frame(module=module)] for a in addresses}
    if not os.path.exists(module):
        return answer
    text = subprocess.run(["addr2line", "-a", "-f", "-i", "-C", "-e", module] + ["0x%x" % a for a in addresses],
                  capture_output=True, text=True, check=False).stdout.splitlines()
    frames, i = None, 0
    while i < len(text):
        if re.match(r"0x[0-9a-f]{16}$", text[i]):
            frames = answer[int(text[i], 16)]
            frames.clear()
            i += 1
            continue
        file, _, line = text[i + 1].split(" (discriminator")[0].rpartition(":")
        frames.append(Frame("" if text[i] == "??" else text[i], "" if file == "??" else file,
                    int(line) if line.isdigit() else 0, module))
        i += 2
    return answer


def from_state(path):
    state = mtk.State(path)
    wanted = {}
    stacks = []
    for site in state.site:
        frames, _ = state.frames(site.node)
        stacks.append(frames)
        for pc, module, kind in frames:
            if kind != 2 and 0 < module < len(state.module):
                m = state.module[module]
                wanted.setdefault(m.path, set()).add(pc - 1 - m.bias)
    found = {path: _addr2line(path, sorted(a)) for path, a in wanted.items()}
    live = {}
    for block in state.block:
        site = state.cell[block.cell].site if block.cell < len(state.cell) else 0
        n, size = live.get(site, (0, 0))
        live[site] = n + 1, size + block.size
    sums = {}
    for cell in state.cell:
        old = sums.get(cell.site, (0, 0, 0, 0))
        sums[cell.site] = tuple(map(sum, zip(old, (cell.allocs, cell.frees, cell.bytes, cell.temporaries))))
    sites = []
    for i, site in enumerate(state.site):
        if not i and i not in live:
            continue
        frames = []
        for pc, module, kind in stacks[i]:
            if kind == 2:
                frames.append(Frame("", state.string(pc >> 32), pc & 0xffffffff))
            elif 0 < module < len(state.module):
                m = state.module[module]
                frames += found[m.path][pc - 1 - m.bias]
            else:
                frames.append(Frame())
        allocs, frees, total, temporaries = sums.get(i, (0, 0, 0, 0))
        count, size = live.get(i, (0, 0))
        heap = state.heap[site.heap] if site.heap < len(state.heap) else "malloc"
        label = state.label[site.label] if 0 < site.label < len(state.label) else ""
        sites.append(Site(frames, count, size, heap, label, mtk.CALLS[site.call], allocs, frees, total,
                  temporaries))
    t = state.totals()
    return sites, {"allocs": t.allocs, "frees": t.frees, "bytes": t.bytes}


# ---- Valgrind ----------------------------------------------------------------------------------

VALGRIND = ["valgrind", "--tool=memcheck", "--leak-check=full", "--show-leak-kinds=all",
        "--leak-resolution=high", "--num-callers=400", "--keep-debuginfo=yes", "--run-libc-freeres=no",
        "--run-cxx-freeres=no", "--undef-value-errors=no", "--read-inline-info=yes",
        "--main-stacksize=16000000", "--child-silent-after-fork=yes", "--xml=yes"]
HEAP_USAGE = re.compile(r"total heap usage: ([\d,]+) allocs, ([\d,]+) frees, ([\d,]+) bytes allocated")


def valgrind_totals(command, log, options=(), **run_options):
    """Runs the command; returns {allocs, frees, bytes} as Valgrind counts them."""
    subprocess.run(["valgrind", "--tool=memcheck", "--leak-check=no", "--run-libc-freeres=no",
            "--run-cxx-freeres=no", "--undef-value-errors=no", "--child-silent-after-fork=yes",
            "--log-file=" + log] + list(options) + command, check=False, **run_options)
    with open(log, encoding="utf-8", errors="replace") as f:
        allocs, frees, size = [int(n.replace(",", "")) for n in HEAP_USAGE.search(f.read()).groups()]
    return {"allocs": allocs, "frees": frees, "bytes": size}


def from_valgrind(command, xml, **run_options):
    """Runs the command; returns (sites, how it ended)."""
    done = subprocess.run(VALGRIND + ["--xml-file=" + xml, "--log-file=" + xml + ".log"] + command,
                  check=False, **run_options)
    sites = []
    for error in ElementTree.parse(xml).getroot().iter("error"):
        if not error.findtext("kind", "").startswith("Leak_"):
            continue
        what = error.find("xwhat")
        count, size = int(what.findtext("leakedblocks")), int(what.findtext("leakedbytes"))
        direct = re.search(r"\(([\d,]+) direct", what.findtext("text"))
        if direct:
            size = int(direct.group(1).replace(",", ""))
        frames = []
        for f in error.find("stack").iter("frame"):
            file = os.path.join(f.findtext("dir", ""), f.findtext("file", "")) if f.findtext("file") else ""
            frames.append(Frame(f.findtext("fn"), file, int(f.findtext("line", "0")), f.findtext("obj")))
        sites.append(Site(frames, count, size))
    return sites, done


# ---- memtrack report ---------------------------------------------------------------------------

CALL_NAMES = {"operator new": "new", "operator new[]": "new[]", "aligned allocation": "aligned",
              "custom heap": "custom"}


def _report(memtrack, path, show):
    command = [memtrack, "report", path, "--show=" + show, "--json", "--top=1000000", "--stack=256"]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode or done.stderr:
        raise RuntimeError("memtrack report: exit %d: %s" % (done.returncode, done.stderr.decode()[:300]))
    return json.loads(done.stdout)


def _rows(report):
    for s in report["sites"] + report["other_heap_sites"]:
        frames = [Frame(f.get("function"), f.get("file"), f.get("line"), f.get("module"))
                  for f in s.get("frames", [])]
        call = s.get("call", "")
        yield Site(frames, s["live_count"], s["live_bytes"], s.get("heap", "malloc"), s.get("label", ""),
                   CALL_NAMES.get(call, call), s["allocs"], s["frees"], s["alloc_bytes"], s["temporaries"])


def from_report(memtrack, path):
    """
    (sites, totals): sites with live blocks as `--show=live` has them, and those without as
    `--show=total` has them.
    """
    live = _report(memtrack, path, "live")
    sites = list(_rows(live)) + [s for s in _rows(_report(memtrack, path, "total")) if not s.count]
    totals = {"allocs": live["total_alloc"], "frees": live["total_free"], "bytes": live["total_alloc_bytes"]}
    if live["live_count"] != sum(s.count for s in sites if s.heap == "malloc"):
        raise RuntimeError("the report's sites hold %d blocks, its head says %d" % (
            sum(s.count for s in sites if s.heap == "malloc"), live["live_count"]))
    return sites, totals
