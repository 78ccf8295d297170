#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Call sites of real binaries against other symbolizers: eu-addr2line and llvm-addr2line.

usage: test_oracle.py LOOK_UP [FILE...]

Addresses are return address - 1 of call instructions: all, or one in n of a file with very many. Compared
are, for every inline level, the base name of the file and the line; the two oracles differ from each other
at times (recursive inlining, which of two equal symbols), so an address counts as right when one of them
agrees in full. The function's name is compared with eu-addr2line's where the levels agree.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))
from tap import Tap  # noqa: E402

LOOK_UP = pathlib.Path(sys.argv[1]).resolve()
SITES_MAX = 1500
SHOWN_MAX = 5
VARIANTS = [
	("gcc-dwarf-4", "g++", "-g", "-gdwarf-4", "-O2"),
	("gcc-dwarf-5", "g++", "-g", "-gdwarf-5", "-O2"),
	("gcc-split", "g++", "-g", "-gsplit-dwarf", "-O3"),
	("gcc-lto-compressed", "g++", "-g", "-gz", "-O2", "-flto"),
	("gcc-types", "g++", "-g", "-O2", "-fdebug-types-section"),
	("clang-dwarf-4", "clang++", "-g", "-gdwarf-4", "-O2"),
	("clang-dwarf-5", "clang++", "-g", "-gdwarf-5", "-O2"),
	("clang-lines-only", "clang++", "-gline-tables-only", "-O2"),
	("lld-dropped-functions", "clang++", "-g", "-O2", "-ffunction-sections", "-Wl,--gc-sections", "-fuse-ld=lld"),
]


def output(*args, text=None):
	return subprocess.run([str(a) for a in args], input=text, capture_output=True, text=True, check=False).stdout


def call_sites(path):
	sites, after_call = set(), False
	for line in output("objdump", "-d", "--no-show-raw-insn", path).splitlines():
		found = re.match(r"\s+([0-9a-f]+):\s+(\S+)", line)
		if not found:
			continue
		if after_call:
			sites.add(int(found[1], 16) - 1)
		after_call = found[2].startswith("call")
	sites = sorted(sites)
	step = max(1, len(sites) // SITES_MAX)
	return sites[::step]


def place(file, line):
	"""Base name and line; no line counts as no file, as the oracles differ in showing it."""
	line = int(line) if line.isdigit() else 0
	return (file.split("/")[-1], line) if line else ("", 0)


def ours(path, text):
	entries = []
	for line in output(LOOK_UP, path, text=text).splitlines():
		if line.startswith("@"):
			entries.append([])
		elif not line.startswith("!"):
			display, mangled, file, number = line.split("\t")[:4]
			entries[-1].append((display if mangled == "?" else mangled, place(file, number)))
	return entries


def oracle(tool, path, text):
	"""Frames of each address. Every address is followed by pairs of lines: function, file:line."""
	entries, lines = [], output(tool, "-a", "-i", "-f", "-e", path, text=text).splitlines()
	at = 0
	while at < len(lines):
		if re.fullmatch(r"0x[0-9a-f]+", lines[at]):
			entries.append([])
			at += 1
			continue
		if at + 1 >= len(lines):
			break
		name = re.sub(r" inlined at .*|\+0x[0-9a-f]+$", "", lines[at])
		where = re.sub(r" \(discriminator \d+\)", "", lines[at + 1])
		found = re.match(r"(.*?):(\d+|\?)(:\d+)?$", where)
		entries[-1].append((name, place(found[1], found[2]) if found else ("", 0)))
		at += 2
	return entries


def lines_of(entry):
	return [where for _, where in entry] or [("", 0)]


def compare(path, tools):
	sites = call_sites(path)
	text = "".join("%x\n" % s for s in sites)
	mine = ours(path, text)
	others = {tool: oracle(tool, path, text) for tool in tools}
	if len(mine) != len(sites) or any(len(o) != len(sites) for o in others.values()):
		return ["%d sites, %d answers, oracles %s" % (len(sites), len(mine), [len(o) for o in others.values()])], 0, 0
	problems, wrong, inlined = [], 0, 0
	for i, site in enumerate(sites):
		inlined += len(mine[i]) > 1
		agree = [t for t in tools if lines_of(mine[i]) == lines_of(others[t][i])]
		eu = others.get("eu-addr2line")
		named = True
		if agree and eu and "eu-addr2line" in agree and len(mine[i]) > 1:
			named = [n for n, _ in mine[i][:-1]] == [n for n, _ in eu[i][:-1]]
		if not agree or not named:
			wrong += 1
			if wrong <= SHOWN_MAX:
				problems.append("0x%x: %s" % (site, mine[i]))
				problems += ["  %s: %s" % (t, others[t][i]) for t in tools]
	return problems if wrong else [], len(sites), inlined


def build(folder):
	"""A C++ program with much inlining, compiled in every way of VARIANTS that works here."""
	source = folder / "words.cc"
	source.write_text(
		"#include <algorithm>\n#include <functional>\n#include <iostream>\n#include <map>\n#include <memory>\n"
		"#include <sstream>\n#include <string>\n#include <vector>\n"
		"static std::map<std::string, std::vector<int>> index_words(std::istream &in)\n{\n"
		"\tstd::map<std::string, std::vector<int>> index;\n\tstd::string line, word;\n"
		"\tfor (int n = 1; std::getline(in, line); n++) {\n\t\tstd::istringstream words(line);\n"
		"\t\twhile (words >> word) index[word].push_back(n);\n\t}\n\treturn index;\n}\n"
		"int main()\n{\n\tauto index = index_words(std::cin);\n"
		"\tstd::vector<std::pair<size_t, std::string>> order;\n"
		"\tfor (auto &entry : index) order.emplace_back(entry.second.size(), entry.first);\n"
		"\tstd::sort(order.begin(), order.end());\n"
		"\tstd::function<void(const std::string &)> show = [](const std::string &s) { std::cout << s << '\\n'; };\n"
		"\tfor (auto &entry : order) show(entry.second);\n\tauto last = std::make_shared<std::string>(\"end\");\n"
		"\tstd::cout << *last << std::endl;\n}\n")
	built = []
	for name, *command in VARIANTS:
		out = folder / name
		if shutil.which(command[0]) and not subprocess.run([*command, source, "-o", out], capture_output=True,
		                                                   cwd=folder, check=False).returncode:
			built.append(out)
	return built


def main():
	tap = Tap()
	tools = [t for t in ("eu-addr2line", "llvm-addr2line") if shutil.which(t)]
	if not tools or not shutil.which("objdump"):
		tap.skip("call sites of real binaries", "no eu-addr2line, llvm-addr2line or objdump")
		return tap.done()
	with tempfile.TemporaryDirectory(prefix="mt-oracle-") as folder:
		files = [pathlib.Path(f).resolve() for f in sys.argv[2:]] or [LOOK_UP] + build(pathlib.Path(folder).resolve())
		for path in files:
			problems, sites, inlined = compare(path, tools)
			if not problems and sites < 100:
				problems = ["only %d call sites" % sites]
			tap.ok("call sites of %s: %d, %d in inlined code" % (path.name, sites, inlined), problems)
	return tap.done()


sys.exit(main())
