# SPDX-License-Identifier: MIT
"""
A second, independent reader of state files (src/wire/state.h), for tests. It shares no code with
the project's own reader, so that one checks the other. It trusts the file.
"""
import collections
import struct

STRINGS, MODULES, THREADS, NODES, SITES, CELLS, HISTS, LIVE, LARGE, HEAPS, LABELS = range(1, 12)
STATS, BIG, REGIMES, SAMPLED, CHANGES = range(12, 17)
MODE_FULL, MODE_STATS, MODE_SAMPLE = 1, 2, 3
MALLOC, MMAP, BRK, CUSTOM = range(4)
LOST = ("nested", "live_full", "site_full", "thread_full", "storage", "mapping_full", "child", "lock",
        "module_full", "before_start", "hist_full", "unseen_free", "jump", "label_full", "string_full", "heap_full")
END_RUNNING, END_EXITED, END_SIGNALED, END_EXEC, END_UNKNOWN = range(5)
NOTE_STORAGE_ENDED, NOTE_PROVIDER_IN_PROGRAM, NOTE_FORK_CHILD = 1, 2, 64
CALLS = ("?", "malloc", "calloc", "realloc", "aligned", "new", "new[]", "mmap", "mremap", "sbrk",
         "custom", "strdup")

Block = collections.namedtuple("Block", "address size cell unit heap")
Site = collections.namedtuple("Site", "node heap call label regime")
Regime = collections.namedtuple("Regime", "kind every interval_bytes")
Change = collections.namedtuple("Change", "what unit before after")
Totals = collections.namedtuple("Totals", "allocs frees bytes freed_bytes")


class Module:
    def __init__(self, lo, hi, bias, path, flags, loaded, unloaded):
        self.lo, self.hi, self.bias, self.path = lo, hi, bias, path
        self.flags, self.loaded, self.unloaded = flags, loaded, unloaded


class Thread:
    def __init__(self, raw):
        self.tid, self.state = struct.unpack_from("<II", raw, 0)
        self.name = raw[16:32].split(b"\0")[0].decode("utf-8", "replace")
        self.totals = [Totals(*struct.unpack_from("<4Q", raw, 64 + 32 * i)) for i in range(4)]
        self.live_bytes = self.totals[0].bytes - self.totals[0].freed_bytes
        self.peak_bytes, self.published = struct.unpack_from("<2q", raw, 200)
        (self.reallocs, self.temporaries, self.unknown_frees,
         self.failed_allocs) = struct.unpack_from("<4Q", raw, 216)
        self.ends = struct.unpack_from("<8Q", raw, 304)
        (self.unplaced_allocs, self.unplaced_bytes, self.untracked_allocs,
         self.untracked_bytes) = struct.unpack_from("<4Q", raw, 376)
        (self.nested_allocs, self.nested_frees, self.verified,
         self.verify_wrong) = struct.unpack_from("<4Q", raw, 424)
        # nobody answered, the process could not be read, libdw gave up
        self.verify_unsure = struct.unpack_from("<3Q", raw, 472)


class Cell:
    def __init__(self, raw):
        self.site, self.thread = struct.unpack_from("<IH", raw, 0)
        self.allocs, self.bytes, self.frees, self.freed_bytes = struct.unpack_from("<4Q", raw, 8)
        self.peak_bytes, self.at_peak_bytes, self.at_peak_epoch, self.hist = struct.unpack_from("<qqII", raw, 40)
        self.temporaries, = struct.unpack_from("<Q", raw, 72)
        self.lifetimes = struct.unpack_from("<10I", raw, 88)


class Stats:
    """A thread's row of statistics."""
    def __init__(self, raw):
        (self.live_bytes, self.peak_bytes, self.published, self.sampled, self.no_block, self.no_site, self.left_by_size,
         self.left_by_module) = struct.unpack_from("<qqq5Q", raw, 0)
        self.size_class = [Totals(*struct.unpack_from("<4Q", raw, 64 + 32 * i)) for i in range(32)]


class Sampled:
    """What a cell of samples has beside its counters."""
    def __init__(self, raw):
        v = struct.unpack_from("<10QII", raw, 0)
        self.bytes, self.freed_bytes = v[0:2]
        self.count, self.freed_count = (v[2] + (v[3] << 64)) / 65536, (v[4] + (v[5] << 64)) / 65536
        self.bytes_variance, self.count_variance = v[6] + (v[7] << 64), v[8] + (v[9] << 64)
        v = struct.unpack_from("<4Q", raw, 88)
        self.freed_bytes_variance, self.freed_count_variance = v[0] + (v[1] << 64), v[2] + (v[3] << 64)


class State:
    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.file = f
            self._header(f.read(4096))
            self._tables()
            self.file = None

    def _header(self, raw):
        if raw[:8] != b"MEMTRACK":
            raise ValueError("%s: not a state file" % self.path)
        (self.mode, self.control, self.pid, self.ppid,
         self.depth) = struct.unpack_from("<IIiiI", raw, 28)
        self.end_kind, self.end_code, self.notes = struct.unpack_from("<IiQ", raw, 120)
        self.string_at = struct.unpack_from("<4I", raw, 152)
        self.exec_pending, = struct.unpack_from("<I", raw, 172)
        self.threads_seen, self.children_seen = struct.unpack_from("<II", raw, 184)
        self.peak_bound_bytes, self.live_published, self.peak_bytes = struct.unpack_from("<Qqq", raw, 192)
        self.peak_epoch, = struct.unpack_from("<I", raw, 224)
        self.lost = dict(zip(LOST, struct.unpack_from("<16Q", raw, 232)))
        self.region, self.capacity = {}, {}
        for i in range(24):
            kind, elem, offset, capacity, used, committed, refused = struct.unpack_from(
                "<IIQQQQQ", raw, 512 + 48 * i)
            if not kind:
                break
            self.capacity[kind] = capacity
            self.region[kind] = (elem, offset, min(used, capacity), committed, refused)

    def _elements(self, kind):
        """Raw elements of a region, element 0 included."""
        if kind not in self.region:
            return []
        elem, offset, used, _, _ = self.region[kind]
        self.file.seek(offset)
        raw = self.file.read(elem * used)
        return [raw[i:i + elem] for i in range(0, len(raw) - elem + 1, elem)]

    def string(self, at):
        end = self.strings.find(b"\0", at)
        return self.strings[at:end].decode("utf-8", "replace")

    def _tables(self):
        _, offset, used, _, _ = self.region[STRINGS]
        self.file.seek(offset)
        self.strings = self.file.read(used) + b"\0"
        self.exe, self.cmdline, self.output, self.options = [self.string(a) for a in self.string_at]
        self.module = []
        for raw in self._elements(MODULES):
            lo, hi, bias, path, flags, loaded, unloaded = struct.unpack_from("<3Q4I", raw, 0)
            self.module.append(Module(lo, hi, bias, self.string(path), flags, loaded, unloaded))
        self.thread = [Thread(raw) for raw in self._elements(THREADS)]
        self.node = [struct.unpack("<QII", raw) for raw in self._elements(NODES)]
        self.site = [Site(*struct.unpack_from("<IHBxI", raw, 0), *struct.unpack_from("<I", raw, 44))
                     for raw in self._elements(SITES)]
        self.stats = [Stats(raw) for raw in self._elements(STATS)]
        self.regime = [Regime(*struct.unpack_from("<IIQ", raw, 0)) for raw in self._elements(REGIMES)]
        self.sampled = [Sampled(raw) for raw in self._elements(SAMPLED)]
        self.change = [Change(*struct.unpack_from("<IIQQ", raw, 0)) for raw in self._elements(CHANGES)[1:]]
        self.big = [struct.unpack_from("<QQII", raw, 0) for raw in self._elements(BIG)]
        self.big = [b for b in self.big if b[0]]
        self.cell = [Cell(raw) for raw in self._elements(CELLS)]
        self.heap = [self.string(struct.unpack_from("<I", raw, 0)[0]) for raw in self._elements(HEAPS)]
        self.label = [self.string(struct.unpack_from("<I", raw, 0)[0])
                  for raw in self._elements(LABELS)]
        self.block = []
        for raw in self._elements(LIVE):
            place, size, cell, unit = struct.unpack_from("<QIII", raw, 0)
            if place:
                self.block.append(Block(place, size, cell, unit, self._heap_of(cell)))
        for raw in self._elements(LARGE):
            place, size, cell, unit, _, heap = struct.unpack_from("<QQIIII", raw, 0)
            if place:
                self.block.append(Block(place, size, cell, unit, self._heap_of(cell) if cell else heap))

    def _heap_of(self, cell):
        return self.site[self.cell[cell].site].heap if 0 < cell < len(self.cell) else 0

    def totals(self, heap_class=MALLOC):
        sums = [0, 0, 0, 0]
        for thread in self.thread:
            for i, value in enumerate(thread.totals[heap_class]):
                sums[i] += value
        return Totals(*sums)

    def counted(self):
        """Statistics of all threads and size classes."""
        return Totals(*[sum(getattr(c, f) for s in self.stats for c in s.size_class) for f in Totals._fields])

    def at_peak(self, cell):
        """Live bytes of the cell when the process's peak was."""
        return cell.at_peak_bytes if cell.at_peak_epoch == self.peak_epoch else cell.bytes - cell.freed_bytes

    def sum(self, field):
        return sum(getattr(thread, field) for thread in self.thread)

    def blocks(self, heap=MALLOC):
        return [b for b in self.block if b.heap == heap]

    def frames(self, node):
        """(pc, module number, kind) innermost first, and how the stack ended."""
        frames = []
        while node >= 16 and node < len(self.node):
            pc, parent, meta = self.node[node]
            frames.append((pc, meta & 0xfffff, meta >> 20 & 15))
            node = parent
        return frames, node


def note_of(path):
    """The header's notes alone."""
    with open(path, "rb") as f:
        return struct.unpack_from("<Q", f.read(136), 128)[0]
