# SPDX-License-Identifier: MIT
"""What each tool said of a faulty program, in the same words for all."""
import re

PAST, BEFORE, READ_PAST, READ_BEFORE = "write past", "write before", "read past", "read before"
FREED_WRITE, FREED_READ = "write to freed", "read of freed"
DOUBLE, BAD, MISMATCH, LEAK, SOMETHING = "double free", "bad free", "mismatch", "leak", "something"

# fault: what it is
KINDS = {
    "overflow_by_one": PAST, "overflow_by_some": PAST, "overflow_far": PAST, "overflow_with_a_gap": PAST,
    "memcpy_past": PAST, "memset_past": PAST, "strcpy_past": PAST, "calloc_past": PAST, "posix_memalign_past": PAST,
    "memalign_past": PAST, "grown_too_late": PAST, "past_the_shrunk_end": PAST, "vector_off_by_one": PAST,
    "into_the_rounding": PAST,
    "underflow_by_one": BEFORE, "underflow_by_some": BEFORE, "underflow_far": BEFORE, "aligned_alloc_before": BEFORE,
    "read_by_one": READ_PAST, "read_by_some": READ_PAST, "read_far": READ_PAST, "memcpy_from_past": READ_PAST,
    "read_before": READ_BEFORE,
    "use_after_free_write": FREED_WRITE, "use_after_free_write_late": FREED_WRITE, "use_after_free_memset": FREED_WRITE,
    "use_after_realloc": FREED_WRITE, "use_after_free_by_a_thread": FREED_WRITE,
    "use_after_free_read": FREED_READ, "use_after_free_copy": FREED_READ, "use_after_free_in_a_list": FREED_READ,
    "double_free": DOUBLE, "double_free_late": DOUBLE, "double_free_by_a_thread": DOUBLE, "realloc_after_free": DOUBLE,
    "free_of_a_variable": BAD, "free_of_a_global": BAD, "free_inside_a_block": BAD, "free_of_an_element": BAD,
    "free_of_a_number": BAD, "free_of_a_mapping": BAD,
    "new_and_free": MISMATCH, "malloc_and_delete": MISMATCH, "new_array_and_delete": MISMATCH,
    "new_and_delete_array": MISMATCH,
    "leak_lost": LEAK, "leak_of_a_cycle": LEAK, "leak_still_reachable": LEAK, "leak_by_realloc": LEAK,
    "leak_of_a_thread": LEAK, "leak_with_inner_pointer": LEAK,
}


# what a report of an access to a guarded page says, and whether it was a read
PAGE_KINDS = {("OVERFLOW", False): PAST, ("OVERFLOW", True): READ_PAST, ("UNDERFLOW", False): BEFORE,
              ("UNDERFLOW", True): READ_BEFORE, ("USED AFTER FREE", False): FREED_WRITE, ("USED AFTER FREE", True): FREED_READ}


class Found:
    """One thing that a tool reported. size of the block and first bad index where they were said."""

    def __init__(self, kind, size=None, at=None, frames=()):
        self.kind, self.size, self.at, self.frames = kind, size, at, list(frames)

    def __repr__(self):
        return "%s size=%s at=%s %s" % (self.kind, self.size, self.at, [f[1] for f in self.frames][:4])


def _is_of_the_loader(frames, program):
    """Thread descriptors that libc keeps, and the pool of libstdc++: no block of the program."""
    modules = [f[0] for f in frames]
    return bool(modules) and (modules[0].rsplit("/", 1)[-1].startswith(("ld-linux", "ld-musl")) or
                              program.real not in modules)


def memtrack(lines, program, frame):
    """The log of check mode, a list of lines without prefix. frame: pattern of a stack's line."""
    found, current = [], None
    for line in lines:
        m = frame.match(line)
        if m:
            if current and len(current.frames) < 32:
                current.frames.append((m[3], program.function(int(m[2], 16)) if m[3] == program.real else m[4] or "?"))
            continue
        if re.match(r"  allocation\[(-?\d+)\]", line):
            if current and current.at is None:
                current.at = int(re.match(r"  allocation\[(-?\d+)\]", line)[1])
            continue
        if line == "Backtrace of original free:" and current and current.kind == BAD:
            current.kind = DOUBLE
        m = re.match(r"\+\+\+ ALLOCATION 0x[0-9a-f]+ (.*)", line)
        if m:
            current = Found(SOMETHING)
            found.append(current)
            what = re.match(r"SIZE (\d+) HAS A CORRUPTED (FRONT|REAR) GUARD$", m[1])
            if what:
                current.kind, current.size = (PAST if what[2] == "REAR" else BEFORE), int(what[1])
            elif m[1] == "USED AFTER FREE":
                current.kind = FREED_WRITE
            elif re.match(r"USED AFTER FREE \(", m[1]):
                current.kind = DOUBLE
            elif re.match(r"(UNKNOWN POINTER|HAS INVALID TAG [0-9a-f]+) \(", m[1]):
                current.kind = BAD
            elif re.match(r"SIZE \d+ MADE BY ", m[1]):
                current.kind = MISMATCH
            page = re.match(r"SIZE (\d+) (OVERFLOW|UNDERFLOW|USED AFTER FREE|UNKNOWN POINTER)(?: \((read|write|bytes beside).*\))? "
                            r"at allocation\[(-?\d+)\]$", m[1])
            if page:
                current.kind = PAGE_KINDS.get((page[2], page[3] == "read"), SOMETHING) if page[3] else \
                    {"USED AFTER FREE": DOUBLE, "UNKNOWN POINTER": BAD}.get(page[2], SOMETHING)
                current.size, current.at = int(page[1]), int(page[4])
        m = re.match(r"\+\+\+ .* leaked block of size (\d+) ", line)
        if m:
            current = Found(LEAK, int(m[1]))
            found.append(current)
    return [f for f in found if f.kind != LEAK or not _is_of_the_loader(f.frames, program)]


def memcheck(text):
    found = []
    for block in re.split(r"==\d+== *\n", text):
        block = re.sub(r"==\d+== ?", "", block)
        write = "Invalid write" in block
        if write or "Invalid read" in block:
            if re.search(r"a block of size \S+ free'd", block):
                found.append(Found(FREED_WRITE if write else FREED_READ))
            elif re.search(r"is \S+ bytes (after|inside) a block of size \S+ alloc'd", block): # inside: over its end
                found.append(Found(PAST if write else READ_PAST))
            elif re.search(r"is \S+ bytes before a block of size \S+ alloc'd", block):
                found.append(Found(BEFORE if write else READ_BEFORE))
            else:
                found.append(Found(SOMETHING))
        elif "Invalid free()" in block:
            found.append(Found(DOUBLE if re.search(r"a block of size \S+ free'd", block) else BAD))
        elif "Mismatched free()" in block or "Mismatched new" in block:
            found.append(Found(MISMATCH))
        elif re.search(r"are (definitely lost|indirectly lost|possibly lost|still reachable) in loss record", block):
            if not re.search(r"by 0x\S+: (_dl_allocate_tls|allocate_dtv)|at 0x\S+: .*\n\s+by 0x\S+: allocate_dtv", block):
                found.append(Found(LEAK))
        elif re.search(r"Process terminating with default action|Fatal error|Argument .* has a fishy", block):
            found.append(Found(SOMETHING))
    return found


def asan(text):
    found = []
    m = re.search(r"ERROR: AddressSanitizer: (.*)", text)
    if m:
        what, write = m[1], bool(re.search(r"^WRITE of size", text, re.M))
        left, right = bool(re.search(r"bytes to the left of|bytes before", text)), \
            bool(re.search(r"bytes to the right of|bytes after", text))
        if what.startswith("heap-buffer-overflow") and right:
            found.append(Found(PAST if write else READ_PAST))
        elif what.startswith("heap-buffer-overflow") and left:
            found.append(Found(BEFORE if write else READ_BEFORE))
        elif what.startswith("heap-use-after-free"):
            found.append(Found(FREED_WRITE if write else FREED_READ))
        elif what.startswith("attempting double-free"):
            found.append(Found(DOUBLE))
        elif what.startswith("attempting free on address"):
            found.append(Found(BAD))
        elif what.startswith("alloc-dealloc-mismatch") or what.startswith("new-delete-type-mismatch"):
            found.append(Found(MISMATCH))
        else:
            found.append(Found(SOMETHING))
    if "ERROR: LeakSanitizer: detected memory leaks" in text:
        found.append(Found(LEAK))
    return found


def glibc(text):
    """The C library's own checks, with MALLOC_CHECK_ or without."""
    if re.search(r"double free", text):
        return [Found(DOUBLE)]
    if re.search(r"^(free|munmap_chunk|realloc)\(\): invalid (pointer|size)|^realloc\(\): invalid old size", text, re.M):
        return [Found(BAD)]
    if re.search(r"^(malloc|free|realloc|calloc|corrupted|malloc_check|mremap_chunk|top_check|sysmalloc)\S*[ (:]", text, re.M):
        return [Found(SOMETHING)]
    return []


def efence(text):
    if re.search(r"ElectricFence (Aborting|Exiting): (free|realloc)\(.*address not from malloc", text):
        return [Found(BAD)]
    return [Found(SOMETHING)] if re.search(r"ElectricFence (Aborting|Exiting)", text) else []


def duma(text):
    m = re.search(r"DUMA (?:Aborting|Exiting): (.*)", text)
    if not m:
        return []
    kinds = {"Free mismatch": MISMATCH, "no mans land below": BEFORE, "no mans land above": PAST,
             "memory already freed": DOUBLE, "address not from DUMA": BAD}
    return [Found(next((kind for words, kind in kinds.items() if words in m[1]), SOMETHING))]


def verdict(kind, found, died):
    """named: the right thing; other: something else was said; crash: it died without a word; missed."""
    if any(f.kind == kind for f in found):
        return "named"
    if found:
        return "other"
    return "crash" if died else "missed"
