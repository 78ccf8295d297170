#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and runs generated programs in many ways; each capture is checked. Prints TAP.

usage: run_shapes.py SOURCE_ROOT LIBUNWIND(0|1) SEEDS [CROSS]
SEEDS 0: one seed, and only the most different ways to build.
CROSS (aarch64-linux-gnu): with that compiler, under qemu-user; test_edges and test_reuse run there too.
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, ORACLE, SEEDS = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
HERE = os.path.join(ROOT, "tests/unwind")
OWN = ["src/unwind/" + f for f in ("capture.c", "memo.c", "row.c", "rowcache.c", "stack.c", "step.c")]
OWN += ["src/elf/loader.c", "src/elf/modules.c", "tests/unwind/check.c", "tests/unwind/shapes_main.c", "tests/unwind/walk.c"]

QUICK_WAYS = [
    ("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1"), ("clang", "-O3"), ("gcc", "-Os -fcf-protection=full -z now"),
    ("gcc", "-O2 -fno-omit-frame-pointer"), ("gcc", "-O2 -static-pie"),
]
WAYS = QUICK_WAYS + [
    ("gcc", "-O1"), ("gcc", "-O3"), ("gcc", "-Os"), ("clang", "-O0"), ("clang", "-O2"), ("clang", "-Os"),
    ("gcc", "-O2 -fno-plt -mpreferred-stack-boundary=4"), ("gcc", "-O2 -flto"),
    ("clang", "-O2 -fno-omit-frame-pointer -z now"), ("gcc", "-O1 -no-pie"),
]
QUICK_CROSS = ["-O0", "-O2", "-O3 -mbranch-protection=standard"]
CROSS = QUICK_CROSS + ["-O1", "-Os", "-O2 -fomit-frame-pointer", "-O2 -static-pie"]


def run(args, **kw):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **kw)


def own_objects(compiler, folder, static):
    """The unwinder and the checks, compiled once for each compiler."""
    oracle = ORACLE and not static and compiler in ("gcc", "clang")
    objects = []
    for source in OWN:
        out = os.path.join(folder, f"{compiler}-{static}-{os.path.basename(source)}.o")
        if not os.path.exists(out):
            flags = ["-DHAVE_LIBUNWIND"] if oracle else []
            r = run([compiler, "-g", "-O2", "-fPIC", "-std=gnu11", "-D_GNU_SOURCE", "-I", ROOT + "/src",
                     "-I", HERE, *flags, "-c", os.path.join(ROOT, source), "-o", out])
            if r.returncode:
                raise RuntimeError(r.stdout)
        objects.append(out)
    return objects, (["-lunwind"] if oracle else [])


def build(compiler, flags, folder, seed):
    source = os.path.join(folder, f"seed{seed}")
    if not os.path.isdir(source):
        os.mkdir(source)
        subprocess.run([sys.executable, os.path.join(HERE, "gen_shapes.py"), str(seed), source], check=True)
    static = "-static-pie" in flags
    objects, libs = own_objects(compiler, folder, static)
    program = os.path.join(source, "program")
    common = [compiler, "-g", "-std=gnu11", "-w", *flags]
    parts = [os.path.join(source, f"part{i}.c") for i in range(2)]
    if static:
        return program, run([*common, "-fPIE", *parts, *objects, "-o", program])
    library = os.path.join(source, "libshapes.so")
    r = run([*common, "-fPIC", "-shared", parts[1], "-o", library])
    if r.returncode:
        return program, r
    pie = [] if "-no-pie" in flags else ["-fPIE", "-pie"]
    return program, run([*common, *pie, "-rdynamic", parts[0], *objects, library, "-Wl,-rpath," + source,
                         *libs, "-lpthread", "-o", program])


def build_test(compiler, name, folder):
    sources = [os.path.join(ROOT, f) for f in OWN if not f.endswith("shapes_main.c")]
    if name == "test_reuse":
        sources = [f for f in sources if not f.endswith("check.c")]
    program = os.path.join(folder, name)
    return program, run([compiler, "-g", "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-I", HERE + "/cross", "-I",
                         ROOT + "/src", "-I", HERE, f"{HERE}/{name}.c", *sources, "-lpthread", "-o", program])


def outcome(number, name, built, command):
    """Runs what was built and prints its TAP point. 1 if it failed."""
    r, text = built, "does not build: " + built.stdout
    if not built.returncode:
        r = run(command, timeout=600)
        text = r.stdout.strip()
    ok = r.returncode == 0
    lines = text.splitlines() or ["exit status %d" % r.returncode]
    for line in lines[:-1] if ok else lines:
        print("# " + line.lstrip("# "))
    print(f"{'ok' if ok else 'not ok'} {number} - {name}: {lines[-1]}", flush=True)
    return not ok


def main():
    cross = sys.argv[4:] and sys.argv[4]
    ways = WAYS if SEEDS else QUICK_WAYS
    if cross:
        ways = [(f"{cross}-gcc", flags) for flags in (CROSS if SEEDS else QUICK_CROSS)]
    ways = [(c, f) for c, f in ways if shutil.which(c)]
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if cross and (not ways or not emulator):
        print("1..0 # SKIP no cross compiler or no qemu-user for " + cross)
        return 0
    prefix = [emulator, "-L", "/usr/" + cross] if cross else []
    failed = number = 0
    tests = ["test_reuse", "test_edges"] if cross else []
    print(f"1..{len(ways) * max(SEEDS, 1) + len(tests)}")
    with tempfile.TemporaryDirectory() as folder:
        for name in tests:
            number += 1
            program, r = build_test(ways[0][0], name, folder)
            failed += outcome(number, name, r, [*prefix, program])
        for seed in range(1, max(SEEDS, 1) + 1):
            for compiler, flags in ways:
                number += 1
                program, r = build(compiler, flags.split(), folder, seed)
                failed += outcome(number, f"{compiler} {flags} seed {seed}", r,
                                  [*prefix, program, str(seed), "40"])
    return failed != 0


sys.exit(main())
