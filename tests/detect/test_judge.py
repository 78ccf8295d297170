# SPDX-License-Identifier: MIT
"""What the judge reads out of what tools print: texts of each of them."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "check")]
sys.dont_write_bytecode = True
import harness
import judge
from tap import Tap


class Program:
    real = "/bin/faulty"

    @staticmethod
    def function(address):
        return "culprit" if address == 0x1234 else "main"


STACK = """          #00  pc 0000000000001234  /bin/faulty
          #01  pc 0000000000001300  /bin/faulty (main+16)
"""
DIVIDER = harness.DIVIDER + "\n"
MEMTRACK = [
    ("nothing", "", []),
    ("rear guard", DIVIDER + "+++ ALLOCATION 0x10 SIZE 100 HAS A CORRUPTED REAR GUARD\n  allocation[101] = 0x00 (expected 0xbb)\n"
     "  allocation[103] = 0x00 (expected 0xbb)\nBacktrace at time of failure:\n" + STACK + DIVIDER,
     [(judge.PAST, 100, 101, "culprit")]),
    ("both guards", "+++ ALLOCATION 0x10 SIZE 8 HAS A CORRUPTED FRONT GUARD\n  allocation[-1] = 0x00 (expected 0xaa)\n" + STACK +
     "+++ ALLOCATION 0x10 SIZE 8 HAS A CORRUPTED REAR GUARD\n  allocation[8] = 0x00 (expected 0xbb)\n" + STACK,
     [(judge.BEFORE, 8, -1, "culprit"), (judge.PAST, 8, 8, "culprit")]),
    ("write to freed", "+++ ALLOCATION 0x10 USED AFTER FREE\n  allocation[7] = 0x61 (expected 0xef)\n" + STACK,
     [(judge.FREED_WRITE, None, 7, "culprit")]),
    ("double free with header", "+++ ALLOCATION 0x10 USED AFTER FREE (free)\nBacktrace of original free:\n" + STACK,
     [(judge.DOUBLE, None, None, "culprit")]),
    ("double free without header", "+++ ALLOCATION 0x10 UNKNOWN POINTER (free)\nBacktrace of original free:\n" + STACK,
     [(judge.DOUBLE, None, None, "culprit")]),
    ("bad free", "+++ ALLOCATION 0x10 UNKNOWN POINTER (free)\nBacktrace at time of failure:\n" + STACK,
     [(judge.BAD, None, None, "culprit")]),
    ("mismatch", "+++ ALLOCATION 0x10 SIZE 24 MADE BY operator new[] IS GIVEN TO free\nBacktrace at time of failure:\n" + STACK,
     [(judge.MISMATCH, None, None, "culprit")]),
    ("read behind a page's block", "+++ ALLOCATION 0x10 SIZE 24 OVERFLOW (read) at allocation[24]\n" + STACK,
     [(judge.READ_PAST, 24, 24, "culprit")]),
    ("leak", "+++ ./faulty leaked block of size 64 at 0x10 (leak 1 of 1)\nBacktrace at time of allocation:\n" + STACK,
     [(judge.LEAK, 64, None, "culprit")]),
    ("leak of the loader", "+++ ./faulty leaked block of size 272 at 0x10 (leak 1 of 1)\nBacktrace at time of allocation:\n"
     "          #00  pc 0000000000000010  /lib64/ld-linux-x86-64.so.2 (calloc+10)\n          #01  pc 0000000000001300  /bin/faulty\n", []),
]
OTHERS = [
    (judge.memcheck, "==1== Invalid write of size 1\n==1==    at 0x1: f (a.c:1)\n==1==  Address 0x2 is 0 bytes after a block of size "
     "10 alloc'd\n==1==    at 0x3: malloc\n==1== \n", [judge.PAST]),
    (judge.memcheck, "==1== Invalid read of size 4\n==1==  Address 0x2 is 4 bytes before a block of size 10 alloc'd\n==1== \n",
     [judge.READ_BEFORE]),
    (judge.memcheck, "==1== Invalid read of size 4\n==1==  Address 0x2 is 4 bytes inside a block of size 10 free'd\n==1== \n",
     [judge.FREED_READ]),
    (judge.memcheck, "==1== Invalid free() / delete / delete[] / realloc()\n==1==  Address 0x2 is on thread 1's stack\n==1== \n",
     [judge.BAD]),
    (judge.memcheck, "==1== Mismatched free() / delete / delete []\n==1== \n", [judge.MISMATCH]),
    (judge.memcheck, "==1== 10 bytes in 1 blocks are definitely lost in loss record 1 of 1\n==1==    at 0x1: malloc\n==1== \n",
     [judge.LEAK]),
    (judge.memcheck, "==1== All heap blocks were freed -- no leaks are possible\n==1== \n", []),
    (judge.asan, "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1\nWRITE of size 1 at 0x1 thread T0\n"
     "0x1 is located 0 bytes to the right of 10-byte region\n", [judge.PAST]),
    (judge.asan, "==1==ERROR: AddressSanitizer: heap-use-after-free on address 0x1\nREAD of size 8 at 0x1 thread T0\n",
     [judge.FREED_READ]),
    (judge.asan, "==1==ERROR: AddressSanitizer: attempting double-free on 0x1\n", [judge.DOUBLE]),
    (judge.asan, "==1==ERROR: LeakSanitizer: detected memory leaks\n", [judge.LEAK]),
    (judge.glibc, "free(): double free detected in tcache 2\n", [judge.DOUBLE]),
    (judge.glibc, "munmap_chunk(): invalid pointer\n", [judge.BAD]),
    (judge.glibc, "malloc(): corrupted top size\n", [judge.SOMETHING]),
    (judge.glibc, "wrong: 0\n", []),
    (judge.efence, "ElectricFence Aborting: free(7f51177d9fc0): address not from malloc().\n", [judge.BAD]),
    (judge.duma, "DUMA Aborting: ptr=7fd9: detected overwrite of ptrs no mans land below userSpace\n", [judge.BEFORE]),
    (judge.duma, "DUMA Aborting: Free mismatch: allocator 'malloc()' used  but  deallocator 'scalar delete' called!\n",
     [judge.MISMATCH]),
]


def main():
    tap = Tap()
    for name, text, wanted in MEMTRACK:
        found = judge.memtrack(text.splitlines(), Program, harness.FRAME)
        got = [(f.kind, f.size, f.at, f.frames[0][1]) for f in found]
        tap.ok("memtrack: " + name, [] if got == wanted else ["%s, expected %s" % (got, wanted)])
    for read, text, wanted in OTHERS:
        got = [f.kind for f in read(text)]
        tap.ok("%s: %s" % (read.__name__, wanted), [] if got == wanted else ["%s, expected %s: %s" % (got, wanted, text)])
    tap.ok("verdicts", [] if [judge.verdict(judge.PAST, *a) for a in (
        ([judge.Found(judge.PAST)], True), ([judge.Found(judge.BAD)], True), ([], True), ([], False))] ==
        ["named", "other", "crash", "missed"] else ["wrong"])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
