#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a program of random frame shapes: gen_shapes.py SEED DIR -> DIR/part0.c, DIR/part1.c.

Part 0 is the program, part 1 a library; calls cross between them at every level. Each function has its
own mix of locals, alloca, over-aligned locals, stack and variable arguments, tail calls, calls through
pointers and through libc, and stacks are captured (fixture_hook) on the way down and up.
"""
import random
import sys

LEVELS, VARIANTS = 11, 5

HEAD = """#include <alloca.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")
void fixture_hook(void);
extern unsigned long shapes_dice;
static inline unsigned shapes_roll(unsigned n)
{
	shapes_dice = shapes_dice * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(shapes_dice >> 33) % n;
}
"""

MAIN = """
unsigned long shapes_dice;
int shapes_main(unsigned long seed, int rounds);
int shapes_main(unsigned long seed, int rounds)
{
	long r = 0;
	for (int i = 0; i < rounds; i++) {
		shapes_dice = seed + (unsigned long)i %% 5 / 2; /* some paths again, some new */
		r += %s;
	}
	return (int)(r & 1);
}
"""


class Function:
    def __init__(self, rng, level, variant):
        self.rng, self.level = rng, level
        self.name = f"shape_{level}_{variant}"
        self.kind = rng.choices(["plain", "many", "variable"], [6, 2, 1])[0]
        self.part = rng.randrange(2)

    def params(self):
        if self.kind == "many":
            return "long a, long b, long c, long d, long e, long f, long g, long h"
        return "long a, int n, ..." if self.kind == "variable" else "long a"

    def declaration(self):
        return f"long {self.name}({self.params()})"

    def call(self, value):
        r = self.rng
        if self.kind == "many":
            return f"{self.name}({value}, 1, 2, 3, 4, 5, {r.randrange(99)}, {value})"
        if self.kind == "variable":
            return f"{self.name}({value}, 3, {value}, 2.5, {r.randrange(99)}L)"
        return f"{self.name}({value})"

    def locals_(self):
        r, out, keep = self.rng, [], []
        for i in range(r.choice([0, 0, 1, 3, 6])):
            out.append(f"long v{i} = a * {r.randrange(3, 999)} + shapes_roll(9);")
            keep.append(f"r ^= v{i};")
        size = r.choice([0, 0, 8, 24, 40, 136, 400, 70000 if r.random() < 0.1 else 72])
        if size:
            out.append(f"char room[{size}]; KEEP(room); room[{size - 1}] = (char)a;")
            keep.append(f"KEEP(room); r += room[{size - 1}];")
        if r.random() < 0.12:
            out.append(f"char *dyn = alloca(16 + shapes_roll({r.choice([64, 600])})); dyn[0] = 1; KEEP(dyn);")
            keep.append("KEEP(dyn); r += dyn[0];")
        if r.random() < 0.12:
            n = r.choice([32, 64, 128])
            out.append(f"double al[8] __attribute__((aligned({n}))); al[1] = (double)a; KEEP(al);")
            keep.append("KEEP(al); r += (long)al[1];")
        if self.kind == "variable":
            out.append("va_list ap; va_start(ap, n); r += va_arg(ap, long); r += (long)va_arg(ap, double);")
            keep.append("r += va_arg(ap, long); va_end(ap);")
        if self.kind == "many":
            keep.append("r += b + c + d + e + f + g + h;")
        return out, keep

    def body(self, next_level):
        r = self.rng
        out, keep = self.locals_()
        capture = "if (shapes_roll(%d) == 0) fixture_hook();" % r.choice([3, 6, 12])
        if r.random() < 0.1:
            capture += " if (shapes_roll(12) == 0) raise(SIGUSR1);"
        if not next_level:
            return out + ["fixture_hook();", "KEEP(&r);"] + keep + ["return r;"]
        calls = []
        for _ in range(3):
            target = r.choice(next_level)
            if target.kind == "plain" and r.random() < 0.25:
                calls.append(f"{{ long (*volatile p)(long) = {target.name}; r += p(r); }}")
            elif target.kind == "plain" and r.random() < 0.1:
                calls.append(f"{{ long x[3] = {{3, 1, 2}}; shape_inner = {target.name}; "
                             "qsort(x, 3, sizeof(x[0]), shape_compare); r += x[0]; }")
            else:
                calls.append(f"r += {target.call('r')};")
        fan = r.choice([1, 1, 1, 2])
        lines = out + ["r += a;", capture]
        lines.append(f"for (unsigned i = 0; i < {fan}; i++) switch (shapes_roll(3)) {{ "
                     + " ".join(f"case {i}: {c} break;" for i, c in enumerate(calls)) + " }")
        lines += [capture] + keep
        plain = [t for t in next_level if t.kind == "plain"]
        if r.random() < 0.15 and plain and not any("KEEP" in o or "va_" in o for o in out):
            lines.append(f"if (shapes_roll(2)) return {r.choice(plain).name}(r);")
        return lines + ["return r;"]

    def text(self, next_level):
        lines = "\n".join("\t" + line for line in self.body(next_level))
        return f"{self.declaration()}\n{{\n\tlong r = 1;\n{lines}\n}}\n"


def main():
    rng = random.Random(int(sys.argv[1]))
    levels = [[Function(rng, l, v) for v in range(VARIANTS)] for l in range(LEVELS)]
    parts = [HEAD, HEAD]
    for level in levels:
        for f in level:
            for p in range(2):
                parts[p] += f.declaration() + ";\n"
    for p in range(2):
        parts[p] += """static __thread long (*shape_inner)(long);
static int shape_compare(const void *x, const void *y)
{
	long (*inner)(long) = shape_inner;
	if (inner && shapes_roll(4) == 0)
		inner(*(const long *)x);
	shape_inner = inner;
	return *(const long *)x < *(const long *)y ? -1 : 1;
}
int (*shape_used_%d)(const void *, const void *) = shape_compare;
""" % p
    for i, level in enumerate(levels):
        for f in level:
            parts[f.part] += f.text(levels[i + 1] if i + 1 < LEVELS else None)
    parts[0] += MAIN % levels[0][0].call("i")
    for p in range(2):
        with open(f"{sys.argv[2]}/part{p}.c", "w", encoding="ascii") as out:
            out.write(parts[p])


main()
