# SPDX-License-Identifier: MIT
"""
Builds each scenario, runs it under memtrack and compares every live allocation site with what the
scenario's top comment declares (README.md describes the notation). One test point a build variant.

  run_scenarios.py --build DIR [--source report|state|valgrind] [-k SUBSTRING] [-v]

--source=valgrind checks the declarations themselves, without memtrack; --source=state preloads the
library itself and reads the state file with the tests' own reader.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import mtk
import sites as sites_module
from tap import Tap

TIMEOUT_S = 120
ENTRY_FUNCTIONS = ("_start", "_init", "_fini", "call_init", "__do_global_dtors_aux")
CLASSES = {"mmap": mtk.MMAP, "brk": mtk.BRK}


class Scenario:
    """The declarations of one source file."""

    def __init__(self, path):
        self.path = path
        self.name = os.path.splitext(os.path.basename(path))[0]
        self.builds, self.libs, self.after, self.leaks, self.cumulative = [], [], [], [], []
        self.run, self.exit, self.children, self.foreign, self.totals = [], 0, 0, (0, 0), None
        self.no_valgrind, self.needs, self.args = "", [], []
        with open(path, encoding="utf-8") as f:
            text = f.read()
        head = text[text.index("/*", 10):]
        for key, value in re.findall(r"^ \* ([a-z]+): (.*)$", head[:head.index("*/")], re.M):
            self._declare(key, value.strip())
        if not self.builds:
            self.builds = ["%s -O1 -g" % ("g++" if path.endswith(".cc") else "gcc")]
        self.sources = {self.path} | {os.path.join(HERE, "lib", lib[1]) for lib in self.libs}
        self.sources |= {w.replace("$DIR", HERE) for b in self.builds for w in b.split() if w.endswith(".c")}
        self.marks = {}
        for source in self.sources:
            with open(source, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    for mark in re.findall(r"\b(?:LEAK|AT):(\w+)", line):
                        self.marks[mark] = (os.path.basename(source), number)

    def _declare(self, key, value):
        words = [] if key in ("valgrind", "after", "build") else shlex.split(value)
        if key == "build":
            self.builds.append(value)
        elif key == "lib":
            self.libs.append(words)
        elif key == "after":
            self.after.append(value)
        elif key == "leak":
            self.leaks.append(Expectation(words))
        elif key == "site":
            self.cumulative.append(Expectation(words))
        elif key == "foreign":
            self.foreign = None if value == "any" else (int(words[0]), int(words[1]))
        elif key == "totals":
            self.totals = dict((k, int(v)) for k, v in (w.split("=") for w in words))
        elif key == "run":
            self.run += words
        elif key == "args":
            self.args += words
        elif key == "needs":
            self.needs += words
        elif key in ("exit", "children"):
            setattr(self, key, int(value))
        elif key == "valgrind":
            self.no_valgrind = value
        else:
            raise ValueError("%s: unknown declaration '%s'" % (self.name, key))

    def first_user_frame(self, site, modules):
        names = {os.path.basename(s) for s in self.sources}
        for i, f in enumerate(site.frames):
            if f.file:
                if os.path.basename(f.file) in names:
                    return i
            elif os.path.basename(f.module) in modules and sites_module.base_name(f.function) not in ENTRY_FUNCTIONS:
                return i
        return None


class Expectation:
    """One 'leak:' or 'site:' line."""

    def __init__(self, words):
        self.mark = words[0]
        keys = dict(w.split("=", 1) for w in words[1:])
        self.frames = keys.pop("frames", "*").split(",")
        self.process = keys.pop("in", "main")
        self.call, self.heap, self.label = keys.pop("call", None), keys.pop("heap", "malloc"), keys.pop("label", "")
        self.via = keys.pop("via", None)
        self.numbers = {k: int(v) for k, v in keys.items()}

    def matches(self, site, at, marks):
        if site.heap != self.heap or site.label != self.label or (self.call and site.call and site.call != self.call):
            return False
        if self.via and self.via not in [sites_module.base_name(f.function) for f in site.frames[:at]]:
            return False
        frames, i = list(self.frames), at
        if "@" not in frames[0]:
            frames[0] += "@" + self.mark
        skipping = False
        for want in frames:
            if want == "...":
                skipping = True
                continue
            while skipping and i < len(site.frames) and not frame_is(site.frames[i], want, marks):
                i += 1
            if i >= len(site.frames) or not frame_is(site.frames[i], want, marks):
                return False
            skipping = False
            i += 1
        return True


def frame_is(frame, want, marks):
    function, _, mark = want.partition("@")
    if function not in ("*", "") and frame.function != "UnknownInlinedFun" and sites_module.base_name(frame.function) != function:
        return False
    if mark == "-":
        return not frame.file
    return not mark or (os.path.basename(frame.file), frame.line) == marks[mark]


# ---- building ----------------------------------------------------------------------------------

class Variant:
    def __init__(self, scenario, build, directory, options):
        self.scenario, self.build, self.options = scenario, build, options
        self.flags = " ".join(w for w in build.split() if w not in ("-g", "-Wall"))
        slug = re.sub(r"[^\w.+-]+", "_", self.flags)
        self.dir = os.path.join(directory, "scenarios", scenario.name, slug)
        self.program = os.path.join(self.dir, scenario.name)
        self.title = scenario.name + (" [%s]" % self.flags if len(scenario.builds) > 1 else "")

    def _expand(self, text):
        for name, value in (("$DIR", HERE), ("$OUT", self.dir), ("$PROG", self.program),
                    ("$LIB", self.options.libdir or "")):
            text = text.replace(name, value)
        return text

    def compile(self):
        """Returns a problem or None. Rebuilt only when a source is newer."""
        inputs = list(self.scenario.sources) + [os.path.join(HERE, "scenario.h"), __file__]
        inputs += [os.path.join(self.options.libdir, need) for need in self.scenario.needs]
        stamp = os.path.join(self.dir, "stamp")
        if os.path.exists(stamp) and os.path.getmtime(stamp) > max(os.path.getmtime(p) for p in inputs):
            return None
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(self.dir)
        include = ["-D_GNU_SOURCE", "-I" + os.path.join(HERE, "..", "..", "include"), "-I" + HERE]
        commands = []
        for lib in self.scenario.libs:
            commands.append(["gcc", "-shared", "-fPIC", os.path.join(HERE, "lib", lib[1]), "-o",
                     os.path.join(self.dir, lib[0])] + lib[2:] + include)
        words = shlex.split(self._expand(self.build))
        commands.append([words[0], self.scenario.path] + include + ["-Wall", "-Werror"] + words[1:] +
                ["-o", self.program])
        commands += [["sh", "-ec", self._expand(after)] for after in self.scenario.after]
        for command in commands:
            done = subprocess.run(command, cwd=self.dir, capture_output=True, text=True, check=False)
            if done.returncode:
                return "%s: %s" % (shlex.join(command), done.stderr[:1500])
        open(stamp, "w", encoding="ascii").close()
        return None

    def run(self):
        """Returns {process: (sites, totals)}, problems."""
        scenario, problems = self.scenario, []
        environment = dict(os.environ, OUT=self.dir)
        for name in ("MALLOC_PERTURB_", "MALLOC_ARENA_MAX", "LD_PRELOAD"):
            environment.pop(name, None)
        command = [self.program] + scenario.args
        how = dict(cwd=self.dir, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
               timeout=TIMEOUT_S)
        if self.options.source == "valgrind":
            for leak in scenario.leaks:
                leak.via = None # Valgrind's own operators stand there
            found, done = sites_module.from_valgrind(command, os.path.join(self.dir, "valgrind.xml"), **how)
            totals = {}
            if scenario.totals:
                totals = sites_module.valgrind_totals(command, os.path.join(self.dir, "valgrind.log"), **how)
            if done.returncode != scenario.exit:
                problems.append("exit status %d, expected %d" % (done.returncode, scenario.exit))
            return {"main": (found, totals)}, problems
        for old in glob.glob(os.path.join(self.dir, "*.mtk")):
            os.unlink(old)
        linked = any(need.endswith(".a") for need in scenario.needs)
        if self.options.source == "state":
            environment.update(MEMTRACK_MODE="full", MEMTRACK_STATE_DIR=self.dir,
                               MEMTRACK_OPTIONS=" ".join(word.lstrip("-") for word in scenario.run))
            if not linked:
                environment["LD_PRELOAD"] = os.path.join(self.options.build, "libmemtrack.so")
        else:
            command = [self.options.memtrack, "run", "--report=none", "-o",
                       os.path.join(self.dir, "%e.%p.mtk")] + scenario.run + ["--"] + command
        done = subprocess.run(command, check=False, **how)
        if done.returncode != scenario.exit:
            problems.append("exit status %d, expected %d" % (done.returncode, scenario.exit))
        if done.stderr:
            problems.append("stderr: " + done.stderr.decode("utf-8", "replace")[:300])
        return self._states(problems), problems

    def _states(self, problems):
        paths = glob.glob(os.path.join(self.dir, "*.mtk"))
        states = {path: mtk.State(path) for path in paths}
        pids = {s.pid for s in states.values()}
        main = [p for p, s in states.items() if s.ppid not in pids]
        if len(main) != 1 or len(states) != 1 + self.scenario.children:
            problems.append("state files: %s, expected 1 and %d of children" % (
                [os.path.basename(p) for p in paths], self.scenario.children))
            if not main:
                return {}
        processes = {}
        for path, state in states.items():
            lost = {k: v for k, v in state.lost.items() if v}
            if lost:
                problems.append("%s: events lost: %s" % (os.path.basename(path), lost))
            if self.options.source == "report":
                found, totals = sites_module.from_report(self.options.memtrack, path)
            else:
                found, totals = sites_module.from_state(path)
            name = "main" if path == main[0] else "child"
            found = processes.get(name, ([],))[0] + found
            processes[name] = (found, totals)
        return processes

    # ---- comparing ----

    def check(self):
        problem = self.compile()
        if problem:
            return [problem]
        try:
            processes, problems = self.run()
        except (subprocess.TimeoutExpired, RuntimeError, OSError, ValueError, KeyError, IndexError,
                SyntaxError) as error:
            return ["%s: %s" % (type(error).__name__, error)]
        valgrind = self.options.source == "valgrind"
        for process in ["main"] if valgrind else sorted({"main"} | {x.process for x in self.scenario.leaks}):
            if process in processes:
                problems += self._check_process(process, *processes[process])
            else:
                problems.append("no state file of process '%s'" % process)
        return problems

    def _check_process(self, process, found, totals):
        scenario, problems = self.scenario, []
        modules = {lib[0] for lib in scenario.libs}
        if "-g" not in self.build.split(): # functions without a line are the scenario's own only then
            modules.add(scenario.name)
        valgrind = self.options.source == "valgrind"
        leaks = [x for x in scenario.leaks if x.process == process and not (valgrind and x.heap != "malloc")]
        claimed = {id(x): [] for x in leaks}
        foreign = []
        for site in found:
            if not site.count:
                continue
            at = scenario.first_user_frame(site, modules)
            if valgrind:
                site.label = next((x.label for x in leaks if x.label and at is not None and
                           frame_is(site.frames[at], "@" + x.mark, scenario.marks)), "")
            owners = [x for x in leaks if at is not None and x.matches(site, at, scenario.marks)]
            if len(owners) == 1:
                claimed[id(owners[0])].append(site)
            elif owners:
                problems.append("%s fits several declarations" % site)
            elif site.heap == "malloc" and (at is None or (at and scenario.foreign is None and self._of_library(site))):
                foreign.append(site)
            elif site.heap == "malloc" or any(x.heap == site.heap for x in leaks):
                problems.append("not declared: %s" % site)
        for leak in leaks:
            problems += leak_problems(leak, claimed[id(leak)], valgrind)
        problems += self._foreign_problems(process, foreign)
        if not valgrind:
            problems += self._cumulative_problems(process, found, modules)
        if scenario.totals and process == "main":
            wrong = {k: totals[k] for k in scenario.totals if totals[k] != scenario.totals[k]}
            if wrong:
                problems.append("totals %s, expected %s" % (wrong, scenario.totals))
        return problems

    def _of_library(self, site):
        """Whether the innermost frame that is not an allocation function lies in another module."""
        skip = ("malloc", "calloc", "realloc", "memalign")
        frame = next((f for f in site.frames if sites_module.base_name(f.function) not in skip), site.frames[0])
        return frame.module != self.program

    def _foreign_problems(self, process, foreign):
        expected = self.scenario.foreign
        if expected is None or process != "main":
            return []
        got = sum(s.count for s in foreign), sum(s.bytes for s in foreign)
        if got == expected:
            return []
        return ["blocks of libraries: %d of %d bytes, expected %d of %d" % (got + expected)] + [
            "  " + str(s) for s in foreign]

    def _cumulative_problems(self, process, found, modules):
        problems = []
        for want in self.scenario.cumulative:
            if want.process != process:
                continue
            mine = [s for s in found if (at := self.scenario.first_user_frame(s, modules)) is not None and
                want.matches(s, at, self.scenario.marks)]
            for key, value in want.numbers.items():
                got = sum(getattr(s, "total_bytes" if key == "bytes" else key) or 0 for s in mine)
                if got != value:
                    problems.append("site %s: %s is %d, expected %d" % (want.mark, key, got, value))
        return problems


def leak_problems(leak, sites, valgrind):
    got = {"count": sum(s.count for s in sites), "bytes": sum(s.bytes for s in sites), "sites": len(sites)}
    wrong = [k for k, v in leak.numbers.items() if got[k] != v]
    if valgrind and "sites" in wrong:
        wrong.remove("sites") # it makes one of each kind of leak
    return ["leak %s: %s" % (leak.mark, ", ".join("%s is %d, expected %d" % (k, got[k], leak.numbers[k])
                             for k in wrong))] if wrong else []


def lacking(scenario, options):
    """Why a scenario cannot be checked here, or ''."""
    if options.source == "valgrind":
        return scenario.no_valgrind
    for need in scenario.needs:
        if need.endswith(".a") and not (options.libdir and os.path.exists(os.path.join(options.libdir, need))):
            return need + " is not built"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, help="meson build directory")
    parser.add_argument("--source", choices=("report", "state", "valgrind"), default="report")
    parser.add_argument("--memtrack", help="the command; default: found in the build directory")
    parser.add_argument("-k", dest="filter", default="", help="only scenarios whose name contains this")
    parser.add_argument("-j", dest="jobs", type=int, default=2)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.memtrack = options.memtrack or os.path.join(options.build, "memtrack")
    options.libdir = options.build
    tap = Tap()
    variants = []
    for path in sorted(glob.glob(os.path.join(HERE, "*.c")) + glob.glob(os.path.join(HERE, "*.cc"))):
        if options.filter not in os.path.basename(path):
            continue
        scenario = Scenario(path)
        if not (scenario.leaks or scenario.cumulative):
            continue
        why = lacking(scenario, options)
        if why:
            tap.skip(scenario.name, why)
            continue
        builds = scenario.builds
        if options.source == "valgrind": # reads no split, and not all of clang's debug information
            builds = [b for b in builds if not b.startswith("clang") and "-gsplit-dwarf" not in b]
        for build in builds:
            if shutil.which(build.split()[0]):
                variants.append(Variant(scenario, build, options.build, options))
            else:
                tap.skip("%s [%s]" % (scenario.name, build), build.split()[0] + " is not installed")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for variant, problems in zip(variants, pool.map(Variant.check, variants)):
            tap.ok(variant.title, problems)
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
