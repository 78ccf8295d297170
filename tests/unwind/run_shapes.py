#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds and runs generated programs in many ways; each capture is checked. Prints TAP.

usage: run_shapes.py SOURCE_ROOT LIBUNWIND(0|1) SEEDS [CROSS]
"""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT, ORACLE, SEEDS = sys.argv[1], sys.argv[2] == "1", int(sys.argv[3])
HERE = os.path.join(ROOT, "tests/unwind")
OWN = ["src/unwind/" + f for f in ("capture.c", "row.c", "rowcache.c", "stack.c", "step.c", "walk.c")]
OWN += ["src/elf/modules.c", "tests/unwind/check.c", "tests/unwind/shapes_main.c"]

WAYS = [
    ("gcc", "-O0"), ("gcc", "-O1"), ("gcc", "-O2"), ("gcc", "-O3"), ("gcc", "-Os"),
    ("clang", "-O0"), ("clang", "-O1"), ("clang", "-O2"), ("clang", "-O3"), ("clang", "-Os"),
    ("gcc", "-O2 -fcf-protection=full -z now"), ("gcc", "-O2 -fno-omit-frame-pointer"),
    ("gcc", "-O2 -fno-plt -mpreferred-stack-boundary=4"), ("gcc", "-O2 -flto"),
    ("clang", "-O2 -fno-omit-frame-pointer -z now"), ("gcc", "-O2 -static-pie"), ("gcc", "-O1 -no-pie"),
]
CROSS_WAYS = [("-O0",), ("-O1",), ("-O2",), ("-O3",), ("-Os",), ("-O2 -fomit-frame-pointer",),
              ("-O2 -mbranch-protection=standard",), ("-O2 -static-pie",)]


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


def main():
    cross = sys.argv[4:] and sys.argv[4]
    ways = [(f"{cross}-gcc", w[0]) for w in CROSS_WAYS] if cross else WAYS
    ways = [(c, f) for c, f in ways if shutil.which(c)]
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if cross and (not ways or not emulator):
        print("1..0 # SKIP no cross compiler or no qemu-user for " + cross)
        return 0
    prefix = [emulator, "-L", "/usr/" + cross] if cross else []
    failed = number = 0
    print(f"1..{len(ways) * SEEDS}")
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, SEEDS + 1):
            for compiler, flags in ways:
                number += 1
                program, r = build(compiler, flags.split(), folder, seed)
                text = "does not build: " + r.stdout
                if not r.returncode:
                    r = run([*prefix, program, str(seed), "40"], timeout=300)
                    text = r.stdout.strip()
                ok = r.returncode == 0
                failed += not ok
                lines = text.splitlines() or [f"exit status {r.returncode}"]
                for line in lines[:-1] if ok else lines:
                    print("# " + line.lstrip("# "))
                print(f"{'ok' if ok else 'not ok'} {number} - {compiler} {flags} seed {seed}: {lines[-1]}",
                      flush=True)
    return failed != 0


sys.exit(main())
