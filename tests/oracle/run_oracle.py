# SPDX-License-Identifier: MIT
"""
The oracle: real programs of the distribution, Valgrind's allocation counts against memtrack's.
README.md says what may differ and why; each difference is computed here, none is a constant.

  run_oracle.py --build DIR [-k SUBSTRING] [-v]
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
import sites
from tap import Tap

TIMEOUT_S = 250


class Case:
    def __init__(self, name, command, prepare=None, explain=None):
        self.name, self.command, self.prepare = name, command, prepare
        self.explain = explain # given the difference: whether it is of this program's class in README.md


def write(directory, name, text):
    with open(os.path.join(directory, name), "w", encoding="utf-8") as f:
        f.write(text)


def words(count):
    """Deterministic lines: a number, a word, a sum."""
    value, lines = 12345, []
    for i in range(count):
        value = (value * 1103515245 + 12345) % (1 << 31)
        lines.append("%d word%d %d" % (value % 1000, value % 37, i))
    return "\n".join(lines) + "\n"


def prepare_text(directory):
    write(directory, "words.txt", words(3000))


def prepare_sql(directory):
    rows = "".join("INSERT INTO t VALUES(%d,'name %d',%d);\n" % (i, i % 17, i * i % 101) for i in range(400))
    write(directory, "script.sql", "CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value INT);\nBEGIN;\n" + rows +
          "COMMIT;\nCREATE INDEX i ON t(name, value);\n"
          "SELECT name, count(*), sum(value) FROM t GROUP BY name ORDER BY 3 DESC;\n"
          "SELECT a.id FROM t a JOIN t b ON a.value = b.value WHERE a.id < b.id ORDER BY a.id LIMIT 20;\n")


def prepare_two_texts(directory):
    lines = words(1500).splitlines(True)
    write(directory, "words.txt", "".join(lines))
    write(directory, "other.txt", "".join(line for i, line in enumerate(lines) if i % 7))


def prepare_m4(directory):
    write(directory, "macros.m4", "".join("define(`m%d', `<$1 m%d(`$1')>')\n" % (i, i - 1) for i in range(1, 60)) +
          "define(`m0', `end')\nm50(`x')\n")


def prepare_json(directory):
    items = ",\n".join('{"id":%d,"name":"n%d","tags":["a%d","b"]}' % (i, i % 13, i % 5) for i in range(300))
    write(directory, "doc.json", "[%s]\n" % items)


def prepare_c(directory):
    functions = "".join("int f%d(int a, int b)\n{\n\tfor (int i = 0; i < b; i++)\n\t\ta += i * %d;\n"
                        "\treturn a ? f%d(a - 1, b) : b;\n}\n" % (i, i + 3, max(0, i - 1)) for i in range(15))
    write(directory, "unit.i", "# 1 \"unit.c\"\nint f0(int a, int b);\n" + functions)


def prepare_git(directory):
    env = {"PATH": "/usr/bin:/bin", "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1"}
    for name in "AUTHOR", "COMMITTER":
        env.update({"GIT_%s_NAME" % name: "A", "GIT_%s_EMAIL" % name: "a@example.org",
                    "GIT_%s_DATE" % name: "1700000000 +0000"})

    def git(*arguments):
        subprocess.run(["git", "-C", directory] + list(arguments), env=env, check=True, capture_output=True)
    git("init", "-q", "-b", "main", ".")
    for i in range(12):
        write(directory, "file%d.txt" % (i % 4), words(20 + i))
        git("add", ".")
        git("commit", "-q", "-m", "change %d" % i)


def cc1():
    found = sorted(glob.glob("/usr/lib/gcc/x86_64-linux-gnu/*/cc1"))
    return found[-1] if found else "/nonexistent/cc1"


def address_digits(difference):
    """Class 3: an int that holds an address has two digits of 30 bits natively, one under Valgrind."""
    return not difference["allocs"] and not difference["frees"] and difference["bytes"] % 4 == 0 and \
        0 <= difference["bytes"] <= 4 * 200


def page_tables(difference):
    """Class 4: the collector's tables of 4 GiB regions (2064 bytes) and of 16 MiB in them (32768)."""
    return not difference["frees"] and any(
        difference["bytes"] == 2064 * regions + 32768 * (difference["allocs"] - regions) for regions in range(-8, 9))


CASES = [
    Case("sort", ["/usr/bin/sort", "--parallel=1", "-S1M", "-k2,2", "-k1,1n", "words.txt"], prepare_text),
    Case("sed", ["/usr/bin/sed", "-n", "-e", "s/\\(word[0-9]*\\) /<\\1> /gp", "words.txt"], prepare_text),
    Case("gawk", ["/usr/bin/gawk", "{ s[$2] += $1 } END { for (w in s) n++; print n, length(s) }", "words.txt"],
         prepare_text),
    Case("mawk", ["/usr/bin/mawk", "{ s[$2] += $1 } END { for (w in s) n++; print n }", "words.txt"], prepare_text),
    Case("grep", ["/bin/grep", "-E", "-c", "(word1|word2)[0-9]? .*7", "words.txt"], prepare_text),
    Case("bzip2", ["/usr/bin/bzip2", "-k", "-c", "words.txt"], prepare_text),
    Case("xz", ["/usr/bin/xz", "-T1", "-1", "-k", "-c", "words.txt"], prepare_text),
    Case("bc", ["/usr/bin/bc", "-q", "sum.bc"],
         lambda d: write(d, "sum.bc", "scale=60\ns=0\nfor(i=1;i<150;i++) s+=1/i^2\nprint s, \"\\n\"\n2^2000\nquit\n")),
    Case("sqlite3", ["/usr/bin/sqlite3", "-batch", ":memory:", ".read script.sql"], prepare_sql),
    Case("diff", ["/usr/bin/diff", "-u", "words.txt", "other.txt"], prepare_two_texts),
    Case("m4", ["/usr/bin/m4", "macros.m4"], prepare_m4),
    Case("objdump", ["/usr/bin/objdump", "-d", "--no-show-raw-insn", "/bin/true"]),
    Case("jq", ["/usr/bin/jq", "-c", "group_by(.name) | map({(.[0].name): length})", "doc.json"], prepare_json),
    Case("perl", ["/usr/bin/perl", "-e", "my %h; $h{$_ % 97} .= \"x$_\" for 1..4000; print join(',', map { length $h{$_} "
                  "} sort { $a <=> $b } keys %h), \"\\n\";"]),
    Case("python3", ["/usr/bin/python3", "-s", "-S", "-c",
                     "d = {i: str(i) * 3 for i in range(2000)}; print(sum(len(v) for v in d.values()))"],
         explain=address_digits),
    Case("git log", ["/usr/bin/git", "-c", "core.pager=cat", "log", "--stat", "--oneline"], prepare_git),
    Case("cc1", [cc1(), "-quiet", "-fpreprocessed", "-O1", "unit.i", "-o", "/dev/null"], prepare_c,
         explain=page_tables),
    Case("tar", ["/bin/tar", "--sort=name", "--mtime=@0", "-cf", "out.tar", "words.txt"], prepare_text),
]


class Comparison:
    def __init__(self, case, options):
        self.case, self.options = case, options
        self.problems, self.notes = [], []
        self.work = tempfile.mkdtemp(prefix="memtrack-oracle-")
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.states = tempfile.mkdtemp(prefix="memtrack-oracle-", dir=shm)

    def environment(self):
        """The same fixed variables for both runs; Valgrind's client ignores ours."""
        return {"PATH": "/usr/bin:/bin", "HOME": self.work, "LC_ALL": "C", "TZ": "UTC", "PYTHONMALLOC": "malloc",
                "PYTHONHASHSEED": "0", "PERL_HASH_SEED": "0", "GIT_CONFIG_NOSYSTEM": "1", "MEMTRACK_MODE": "full",
                "MEMTRACK_STATE_DIR": self.states, "MEMTRACK_OPTIONS": "depth=16 follow=none"}

    def tracked_environment(self):
        """
        What Valgrind's client sees, in its order, with LD_PRELOAD replaced by a path to our library of
        the same length: perl, python and others copy their environment to the heap.
        """
        seen = subprocess.run(["valgrind", "-q", "/usr/bin/env", "-0"], env=self.environment(), cwd=self.work,
                              check=True, capture_output=True).stdout.decode().split("\0")
        env = dict(word.split("=", 1) for word in seen if word)
        stem = self.states + "/lib"
        link = stem + "x" * (len(env["LD_PRELOAD"]) - len(stem) - 3) + ".so"
        os.symlink(self.options.lib, link)
        env["LD_PRELOAD"] = link
        return env

    def _how(self, env, out):
        return {"cwd": self.work, "env": env, "stdin": subprocess.DEVNULL, "stdout": out,
                "stderr": subprocess.DEVNULL, "timeout": TIMEOUT_S}

    def _valgrind(self):
        log = os.path.join(self.states, "valgrind.log")
        with open(os.path.join(self.states, "valgrind.out"), "wb") as out:
            return sites.valgrind_totals(self.case.command, log, **self._how(self.environment(), out))

    def _memtrack(self):
        with open(os.path.join(self.states, "memtrack.out"), "wb") as out:
            done = subprocess.run(self.case.command, check=False, **self._how(self.tracked_environment(), out))
        states = [mtk.State(p) for p in glob.glob(os.path.join(self.states, "*.mtk"))]
        pids = {s.pid for s in states}
        return done, next((s for s in states if s.ppid not in pids), None)

    def check(self):
        try:
            if not os.path.exists(self.case.command[0]):
                return "skip", self.case.command[0] + " is not installed"
            if self.case.prepare:
                self.case.prepare(self.work)
            self._compare()
        except (OSError, subprocess.SubprocessError, AttributeError, ValueError, IndexError) as error:
            self.problems.append("%s: %s" % (type(error).__name__, error))
        finally:
            shutil.rmtree(self.work, ignore_errors=True)
            shutil.rmtree(self.states, ignore_errors=True)
        return "done", None

    def _compare(self):
        valgrind = self._valgrind()
        done, state = self._memtrack()
        if state is None:
            self.problems.append("no state file (exit status %d)" % done.returncode)
            return
        with open(os.path.join(self.states, "valgrind.out"), "rb") as a, \
                open(os.path.join(self.states, "memtrack.out"), "rb") as b:
            if a.read() != b.read():
                self.problems.append("the program's output differs")
        lost = {k: v for k, v in state.lost.items() if v and k != "before_start"}
        if lost:
            self.problems.append("events lost: %s" % lost)
        t = state.totals()
        got = {"allocs": t.allocs, "frees": t.frees, "bytes": t.bytes}
        known = known_differences(state)
        difference = {k: got[k] - valgrind[k] - known[k] for k in got}
        self.notes.append("valgrind %s, memtrack %s, known classes %s" % (valgrind, got, known))
        if any(difference.values()) and not (self.case.explain and self.case.explain(difference)):
            self.problems.append("unexplained difference (memtrack - valgrind): %s; %s" % (difference, self.notes[0]))
        live = {"count": t.allocs - t.frees, "bytes": t.bytes - t.freed_bytes}
        blocks = state.blocks()
        held = {"count": len(blocks), "bytes": sum(b.size for b in blocks)}
        if live != held:
            self.problems.append("counters say %s live, the block table %s" % (live, held))


def known_differences(state):
    """memtrack minus Valgrind that README.md allows, computed from this state file."""
    known = {"allocs": 0, "frees": 0, "bytes": 0}
    for thread in state.thread:
        # Valgrind counts a failed allocation and the bytes it asked for; we do not (class 1, README.md)
        known["allocs"] -= thread.failed_allocs
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="meson build directory")
    parser.add_argument("-k", dest="filter", default="", help="only cases whose name contains this")
    parser.add_argument("-v", dest="verbose", action="store_true", help="print the numbers")
    parser.add_argument("-j", dest="jobs", type=int, default=2)
    options = parser.parse_args()
    options.lib = os.path.join(os.path.abspath(options.build), "libmemtrack.so")
    tap = Tap()
    if not shutil.which("valgrind"):
        tap.skip("oracle", "valgrind is not installed")
        return tap.done()
    chosen = [Comparison(c, options) for c in CASES if options.filter in c.name]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for comparison, (kind, why) in zip(chosen, pool.map(Comparison.check, chosen)):
            if kind == "skip":
                tap.skip(comparison.case.name, why)
                continue
            tap.ok(comparison.case.name, comparison.problems)
            if options.verbose:
                for note in comparison.notes:
                    tap.note(note)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
