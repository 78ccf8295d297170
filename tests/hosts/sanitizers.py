# SPDX-License-Identifier: MIT
"""
Programs built with a sanitizer. They bring an allocator of their own, and the command refuses them; with
the library preloaded, or started by a tracked program, they must run as ever and find their bugs.
"""
import os
import re
import subprocess

from commands import write
from ways import LLVM, Host, Skip

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int shared;

static void *work(void *how)
{
	char *p = malloc(100);
	memset(p, 1, 100);
	if (how)
		shared++;
	free(p);
	return NULL;
}

static void two_threads(void *how)
{
	pthread_t t[2];
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, work, how);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
	const char *bug = argv[1];
	volatile char *p = malloc(40);
	strcpy((char *)p, "hello");
	two_threads(NULL);
	p = realloc((void *)p, 4000);
	for (int i = 0; i < 2000; i++)
		free(calloc(i % 50 + 1, 7));
	if (!strcmp(bug, "leak"))
		p = NULL;
	free((void *)p);
	if (!strcmp(bug, "use-after-free"))
		p[3] = 1;
	if (!strcmp(bug, "double-free"))
		free((void *)p);
	p = malloc(40);
	if (!strcmp(bug, "overflow"))
		p[39 + argc] = 1;
	if (!strcmp(bug, "uninitialized") && p[7])
		puts("set");
	if (!strcmp(bug, "race"))
		two_threads(&shared);
	if (!strcmp(bug, "arithmetic"))
		shared = 0x7fffffff + argc;
	free((void *)p);
	puts("done");
	return 3;
}
"""

# the bugs that each sanitizer finds
BUGS = {
    "address": ("use-after-free", "double-free", "overflow", "leak"),
    "thread": ("race",),
    "memory": ("uninitialized",),
    "leak": ("leak",),
    "undefined": ("arithmetic",),
}
NAMES = {"address": "AddressSanitizer", "thread": "ThreadSanitizer", "memory": "MemorySanitizer", "leak": "LeakSanitizer",
         "undefined": "UndefinedBehaviorSanitizer"}
VARIANTS = { # compiler, where the sanitizer's runtime is: what the linker is told
    ("gcc", "shared"): [],
    ("gcc", "static"): ["-static-lib%s"],
    ("clang", "static"): [],
    ("clang", "shared"): ["-shared-libsan", "-Wl,-rpath," + LLVM],
}
QUICK = (("address", "gcc", "shared"), ("thread", "gcc", "shared"), ("leak", "gcc", "shared"), ("thread", "clang", "static"))
GCC_STATIC = {"address": "asan", "thread": "tsan", "leak": "lsan", "undefined": "ubsan"}


def headlines(text):
    """What was found, less numbers that differ from run to run."""
    found = re.findall(rb"^.*(?:ERROR: |WARNING: |SUMMARY: |runtime error: |does not come first).*$", text, re.M)
    return b"\n".join(sorted({re.sub(rb"==\d+==|0x[0-9a-f]+|pid=\d+|\(.*\+X\)", b"", line) for line in found}))


def prepare(kind, compiler, where):
    def compile_it(directory):
        write(directory, "bugs.c", SOURCE)
        link = [word % GCC_STATIC.get(kind, "") if "%" in word else word for word in VARIANTS[compiler, where]]
        command = [compiler, "-g", "-O1", "-fno-builtin", "-w", "-pthread", "-fsanitize=" + kind, "bugs.c", "-o", "bugs"] + link
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Skip("cannot build: %s" % done.stderr.splitlines()[0][:120])
        done = subprocess.run(["./bugs", ""], cwd=directory, capture_output=True, text=True, check=False)
        if done.returncode != 3:
            raise Skip("does not run here, untracked: %s" % (done.stderr.splitlines() or ["status %d" % done.returncode])[0][:120])
    return compile_it


def run(kind):
    def all_bugs(trial):
        for bug in ("",) + BUGS[kind]:
            process = trial.popen(["sh", "-c", "./bugs \"$0\"; exit $?", bug])
            out, err = process.communicate(timeout=120)
            found = headlines(err)
            trial.expect(bool(found) == bool(bug), "%s: found %r" % (bug or "no bug", found[:300]))
            trial.outcome.add(bug + ": output", out)
            trial.outcome.add(bug + ": found", found if bug else err)
            trial.outcome.add(bug + ": status", process.returncode)
        if trial.way.kind == "preload" and kind != "undefined":
            refused(trial, NAMES[kind])
    return all_bugs


def refused(trial, name):
    done = subprocess.run([trial.tools.memtrack, "run", "-o", os.path.join(trial.dir, "x.mtk"), "./bugs", ""],
                          cwd=trial.dir, capture_output=True, text=True, timeout=60, check=False)
    trial.expect(done.returncode == 1 and not done.stdout and done.stderr.count("\n") == 1 and name in done.stderr,
                   "memtrack run does not refuse it with one sentence: status %d, %r" % (done.returncode, done.stderr[:300]))


def hosts():
    for kind in BUGS:
        for compiler, where in VARIANTS:
            yield Host("%s, %s, %s" % (NAMES[kind], compiler, where), run(kind), prepare(kind, compiler, where), [compiler],
                       quick=(kind, compiler, where) in QUICK,
                       takes_allocators=False, unknown_frees="the double free")


HOSTS = list(hosts())
