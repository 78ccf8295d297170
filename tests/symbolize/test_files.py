#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The symbolizer on files of every kind, built here: exact functions, files and lines at known call sites.

usage: test_files.py LOOK_UP [WORDS-OF-A-TEST-NAME...]
"""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = HERE / "sources"
sys.path.insert(0, str(HERE.parent / "support"))
from tap import Tap  # noqa: E402

LOOK_UP = pathlib.Path(sys.argv[1]).resolve()
TESTS = []
BASE = ["-g", "-O2", "-fno-optimize-sibling-calls", "-Wl,--build-id=sha1"]


class Skip(Exception):
	"""What the test needs is not installed."""


def test(function):
	TESTS.append(function)
	return function


def run(*args, **more):
	done = subprocess.run([str(a) for a in args], capture_output=True, text=True, errors="replace", check=False, **more)
	if done.returncode:
		raise AssertionError("%s failed: %s" % (args[0], done.stderr.strip()))
	return done.stdout


def need(*tools):
	for tool in tools:
		if not shutil.which(tool):
			raise Skip(tool + " is not installed")


def build(folder, name="program", compiler="gcc", flags=(), sources=("chain.c", "take.c")):
	need(compiler)
	out = folder / name
	run(compiler, *BASE, *flags, *[SOURCES / s for s in sources], "-o", out, cwd=folder)
	return out


def calls(path, function):
	"""Addresses to look up for each call of a function: return address - 1, in order."""
	lines = run("objdump", "-d", "--no-show-raw-insn", path).splitlines()
	found = []
	for i, line in enumerate(lines):
		if re.search(r"\b(call|jmp)q?\s+[0-9a-f]+ <%s(@plt)?>" % re.escape(function), line) and i + 1 < len(lines):
			after = re.match(r"\s*([0-9a-f]+):", lines[i + 1])
			if after:
				found.append(int(after[1], 16) - 1)
	return found


def build_id(path):
	return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-nW", path))[1]


def look_up(path, addresses, *options, env=None):
	"""Frames of each address as (function, mangled, file, line, column, flags, offset); warnings."""
	text = run(LOOK_UP, *options, path, input="".join("%x\n" % a for a in addresses),
	           env=dict(os.environ, **(env or {})))
	entries, warnings = [], []
	for line in text.splitlines():
		if line.startswith("@"):
			entries.append([])
		elif line.startswith("!"):
			warnings.append(line[1:])
		else:
			entries[-1].append(tuple(line.split("\t")))
	return entries, warnings


def chain(frames):
	return [(f[0], pathlib.Path(f[2]).name, int(f[3])) for f in frames]


INNER = ("innermost", "chain.h", 8)
CHAINS = [
	[INNER, ("middle", "chain.h", 12), ("outer", "chain.c", 9)],
	[INNER, ("middle", "chain.h", 13), ("outer", "chain.c", 9)],
	[("outer", "chain.c", 10)],
	[("hidden", "chain.c", 15)],
	[("shown", "chain.c", 21)],
]


def check_chains(path, addresses, *options):
	"""Problems: none when the five call sites of chain.c come out exactly, in any order of functions."""
	entries, warnings = look_up(path, addresses, *options)
	got = sorted(chain(e) for e in entries)
	problems = ["warning: " + w for w in warnings]
	if got != sorted(CHAINS):
		problems += ["expected %s" % sorted(CHAINS), "got      %s" % got]
	for entry in entries:
		flags = [f[5] for f in entry]
		if flags != ["i"] * (len(entry) - 1) + [""]:
			problems.append("inline flags are %s" % flags)
	return problems


def check_build(folder, **how):
	program = build(folder, **how)
	return check_chains(program, calls(program, "take"), "--id=" + build_id(program))


for compiler_ in ("gcc", "clang"):
	for version_ in (4, 5):
		for split_ in (False, True):
			def inlined_chain(folder, compiler=compiler_, version=version_, split=split_):
				flags = ["-gdwarf-%d" % version] + (["-gsplit-dwarf"] if split else [])
				return check_build(folder, compiler=compiler, flags=flags)
			inlined_chain.__name__ = "inlined_chain_is_exact_%s_dwarf_%d%s" % (
				compiler_, version_, "_split" if split_ else "")
			test(inlined_chain)


@test
def program_at_a_fixed_address(folder):
	return check_build(folder, flags=["-no-pie", "-fno-pie"])


@test
def shared_library_with_a_nonzero_first_address(folder):
	library = build(folder, "lib.so", flags=["-shared", "-fPIC", "-Wl,-Ttext-segment=0x30000000"],
	                sources=("chain.c",))
	addresses = calls(library, "take")
	if not addresses or addresses[0] < 0x30000000:
		return ["the library does not begin where asked"]
	return check_chains(library, addresses, "--id=" + build_id(library), "--bias=7f0012345000")


@test
def shared_library_with_a_debug_file_for_other_addresses(folder):
	"""What prelink does: the library's addresses have moved since the debug file was made."""
	flags = ["-shared", "-fPIC", "-Wl,--build-id=0x1234567890abcdef"]
	library = build(folder, "lib.so", flags=flags, sources=("chain.c",))
	moved = build(folder, "moved.so", flags=flags + ["-Wl,-Ttext-segment=0x30000000"], sources=("chain.c",))
	debug = folder / "debug" / ".build-id" / "12" / "34567890abcdef.debug"
	debug.parent.mkdir(parents=True)
	run("objcopy", "--only-keep-debug", library, debug)
	run("strip", moved)
	return check_chains(moved, [a + 0x30000000 for a in calls(library, "take")],
	                    "--id=1234567890abcdef", "--root=%s" % (folder / "debug"))


@test
def bias_is_subtracted(folder):
	program = build(folder)
	return check_chains(program, calls(program, "take"), "--id=" + build_id(program), "--bias=555555554000")


def separate(folder, compress=False):
	"""A stripped program and its debug file; the call sites were read before stripping."""
	program = build(folder)
	addresses = calls(program, "take")
	debug = folder / "program.debug"
	run("objcopy", "--only-keep-debug", *(["--compress-debug-sections"] if compress else []), program, debug)
	run("strip", program)
	return program, debug, addresses


def link_debug(folder, program):
	run("objcopy", "--add-gnu-debuglink=program.debug", program, cwd=folder)


@test
def debuglink_beside_the_file(folder):
	program, _, addresses = separate(folder)
	link_debug(folder, program)
	return check_chains(program, addresses, "--id=" + build_id(program))


@test
def debuglink_in_the_debug_folder_and_under_the_root(folder):
	program, debug, addresses = separate(folder)
	link_debug(folder, program)
	hidden = folder / ".debug"
	hidden.mkdir()
	debug = debug.rename(hidden / debug.name)
	problems = check_chains(program, addresses)
	under = folder / "root" / str(program.parent).lstrip("/")
	under.mkdir(parents=True)
	debug.rename(under / debug.name)
	return problems + check_chains(program, addresses, "--root=%s" % (folder / "root"))


@test
def debuglink_with_a_wrong_checksum_is_not_used(folder):
	program, debug, addresses = separate(folder)
	link_debug(folder, program)
	with open(debug, "ab") as file:
		file.write(b"changed")
	entries, _ = look_up(program, addresses, "--id=" + build_id(program))
	return ["got %s" % e for e in entries if any(f[2] != "?" for f in e)]


@test
def debug_file_by_build_id(folder):
	program, debug, addresses = separate(folder, compress=True)
	id_ = build_id(program)
	place = folder / "root" / ".build-id" / id_[:2]
	place.mkdir(parents=True)
	debug.rename(place / (id_[2:] + ".debug"))
	return check_chains(program, addresses, "--id=" + id_, "--root=%s" % (folder / "root"))


@test
def symbols_folder_by_build_id_and_by_path(folder):
	program, debug, addresses = separate(folder)
	id_ = build_id(program)
	problems = []
	for place in ("a/.build-id/%s/%s.debug" % (id_[:2], id_[2:]), "b/%s/%s" % (id_[:2], id_[2:]),
	              "c" + str(program), "d/program", "e/program.debug", "f/%s/program.debug" % folder.name):
		target = folder / place
		target.parent.mkdir(parents=True, exist_ok=True)
		shutil.copy(debug, target)
		for problem in check_chains(program, addresses, "--id=" + id_, "--symbols=%s" % (folder / place[0])):
			problems.append(place + ": " + problem)
	return problems


@test
def module_that_is_gone_is_found_by_its_build_id(folder):
	program, debug, addresses = separate(folder)
	id_ = build_id(program)
	program.unlink()
	(folder / "s").mkdir()
	debug.rename(folder / "s" / "program.debug")
	return check_chains(str(program) + " (deleted)", addresses, "--id=" + id_, "--symbols=%s" % (folder / "s"))


@test
def file_with_another_build_id_gives_no_symbols_but_a_warning(folder):
	program = build(folder)
	entries, warnings = look_up(program, calls(program, "take"), "--id=00112233445566778899")
	expected = ["'%s' has changed since the recording: build-id differs" % program]
	return (["got %s" % e for e in entries if e] + ([] if warnings == expected else ["warnings: %s" % warnings]))


@test
def debug_file_with_another_build_id_is_not_used(folder):
	program, debug, addresses = separate(folder)
	other = build(folder, "other", flags=["-DOTHER"], sources=("take.c", "chain.c"))
	id_ = build_id(program)
	place = folder / "root" / ".build-id" / id_[:2]
	place.mkdir(parents=True)
	shutil.copy(other, place / (id_[2:] + ".debug"))
	debug.unlink()
	entries, _ = look_up(program, addresses, "--id=" + id_, "--root=%s" % (folder / "root"))
	return ["got %s" % e for e in entries if any(f[2] != "?" for f in e)]


@test
def changed_file_is_replaced_by_the_right_one_of_a_folder(folder):
	program = build(folder)
	addresses, id_ = calls(program, "take"), build_id(program)
	(folder / "s").mkdir()
	program.rename(folder / "s" / "program")
	build(folder, flags=["-O1"])
	return check_chains(program, addresses, "--id=" + id_, "--symbols=%s" % (folder / "s"))


@test
def file_without_build_id_counts_only_while_it_is_the_same_file(folder):
	program = build(folder, flags=["-Wl,--build-id=none"])
	addresses = calls(program, "take")
	problems = check_chains(program, addresses, "--inode=%d" % program.stat().st_ino)
	entries, warnings = look_up(program, addresses, "--inode=%d" % (program.stat().st_ino + 1))
	if any(entries) or warnings != ["'%s' has changed since the recording: it is another file" % program]:
		problems.append("another inode gives %s, %s" % (entries, warnings))
	return problems


@test
def mini_debug_info(folder):
	need("xz")
	program, debug, addresses = separate(folder)
	mini = folder / "mini"
	run("objcopy", "-S", "--remove-section=.gdb_index", "--remove-section=.comment", "--keep-symbol=hidden",
	    "--keep-symbol=shown", "--keep-symbol=outer", debug, mini)
	run("xz", mini)
	run("objcopy", "--add-section", ".gnu_debugdata=%s.xz" % mini, program)
	debug.unlink()
	entries, _ = look_up(program, addresses, "--id=" + build_id(program))
	got = sorted(f[0] for e in entries for f in e)
	flags = {f[5] for e in entries for f in e}
	expected = ["hidden", "outer", "outer", "outer", "shown"]
	return [] if got == expected and flags == {""} else ["got %s with flags %s" % (got, flags)]


@test
def symbols_without_debug_information_give_function_and_offset(folder):
	program = build(folder, flags=["-g0"])
	addresses = calls(program, "take")
	starts = {l.split()[2]: int(l.split()[0], 16) for l in run("nm", program).splitlines() if len(l.split()) == 3}
	entries, _ = look_up(program, addresses, "--id=" + build_id(program))
	problems = []
	for address, entry in zip(addresses, entries):
		if len(entry) != 1 or entry[0][5] or int(entry[0][6], 16) != address - starts[entry[0][0]]:
			problems.append("0x%x is %s" % (address, entry))
	if sorted(e[0][0] for e in entries) != ["hidden", "outer", "outer", "outer", "shown"]:
		problems.append("got %s" % entries)
	return problems


@test
def stripped_library_marks_the_nearest_dynamic_symbol(folder):
	library = build(folder, "lib.so", flags=["-shared", "-fPIC", "-fno-toplevel-reorder"], sources=("chain.c",))
	before = {a: run("llvm-symbolizer" if shutil.which("llvm-symbolizer") else "addr2line", "-f", "-e", library,
	                 hex(a)).split()[0] for a in calls(library, "take")}
	run("strip", library)
	entries, _ = look_up(library, list(before), "--id=" + build_id(library))
	problems, guesses = [], 0
	for (address, name), entry in zip(before.items(), entries):
		if len(entry) != 1:
			problems.append("0x%x has %d frames" % (address, len(entry)))
		elif name == "hidden":
			guesses += 1
			frame = entry[0]
			if frame[5] == "n" and not re.fullmatch(r"~(outer|shown)\+0x[0-9a-f]+", frame[0]):
				problems.append("hidden is shown as %s" % (frame,))
			if frame[5] != "n":
				problems.append("hidden is taken for %s" % (frame,))
		elif entry[0][5] or entry[0][0] not in ("outer", "shown"):
			problems.append("0x%x is %s" % (address, entry))
	return problems if guesses else problems + ["no call site in the hidden function"]


@test
def module_without_any_symbols(folder):
	program, debug, addresses = separate(folder)
	debug.unlink()
	run("objcopy", "--remove-section=.dynsym", "--remove-section=.dynstr", "--remove-section=.gnu.hash",
	    "--remove-section=.gnu.version", "--remove-section=.gnu.version_r", program, folder / "bare")
	entries, warnings = look_up(folder / "bare", addresses)
	return ["got %s %s" % (entries, warnings)] if any(entries) or warnings else []


@test
def paths_that_are_no_elf_files(folder):
	text = folder / "text"
	text.write_text("#!/bin/sh\n")
	os.mkfifo(folder / "fifo")
	short = folder / "short"
	short.write_bytes(b"\x7fELF\x02\x01\x01")
	cases = {"[heap]": [], "": [], "[vdso]": [], "relative": [],
	         "/nonexistent/lib.so": ["cannot open '/nonexistent/lib.so': no symbols from it"]}
	for path in (text, folder, folder / "fifo", short):
		cases[path] = ["'%s' is not a readable ELF file: no symbols from it" % path]
	problems = []
	for path, expected in cases.items():
		entries, warnings = look_up(path, [0x1000, 0x2000])
		if any(entries) or warnings != expected:
			problems.append("'%s' gives %s, %s" % (path, entries, warnings))
	return problems


@test
def damaged_files_end_without_a_crash(folder):
	program = build(folder)
	whole, addresses = program.read_bytes(), calls(program, "take")
	broken = folder / "broken"
	for i in range(120):
		data = bytearray(whole)
		if i % 3 == 0:
			data = data[:len(data) * (i + 1) // 121]
		else:
			for k in range(40 * i):
				data[64 + (k * 7919 + i * 104729) % (len(data) - 64)] ^= (k * 31 + i) & 255
		broken.write_bytes(data)
		look_up(broken, addresses)
	return []


@test
def cplusplus_names_are_readable(folder):
	program = build(folder, "lib.so", compiler="g++", flags=["-shared", "-fPIC"], sources=("templates.cc",))
	entries, _ = look_up(program, calls(program, "take"), "--id=" + build_id(program))
	got = sorted((chain(e)[-1], e[-1][1]) for e in entries)
	expected = [(("shop::Basket<unsigned char, 7>::fill(unsigned char) const", "templates.cc", 11),
	             "_ZNK4shop6BasketIhLi7EE4fillEh")]
	found = [g for g in got if g == expected[0]]
	lambdas = [g for g in got if g[0][0].startswith("(anonymous namespace)::local(shop::Basket<long, 3> const&)::")
	           and "lambda" in g[0][0] and g[0][2] == 21]
	return [] if found and lambdas else ["got %s" % got]


@test
def dwz_shared_file(folder):
	need("dwz")
	first = build(folder, "first")
	second = build(folder, "second", flags=["-DMORE"])
	addresses = {p: calls(p, "take") for p in (first, second)}
	done = subprocess.run(["dwz", "-m", folder / "common", "-M", "common", first, second], cwd=folder,
	                      capture_output=True, text=True, errors="replace", check=False)
	if ".gnu_debugaltlink" not in run("readelf", "-SW", first):
		raise Skip("dwz found nothing to share: " + done.stderr.strip())
	problems = []
	for path in (first, second):
		problems += check_chains(path, addresses[path], "--id=" + build_id(path))
	return problems


@test
def split_dwarf_without_its_files_gives_lines_and_symbols(folder):
	program = build(folder, flags=["-gsplit-dwarf"])
	for dwo in folder.glob("*.dwo"):
		dwo.unlink()
	cache = folder / "cache"
	entries, _ = look_up(program, calls(program, "take"), "--id=" + build_id(program), "--cache=%s" % cache)
	got = sorted(chain(e)[0] for e in entries)
	expected = sorted([("outer", "chain.h", 8), ("outer", "chain.h", 8), ("outer", "chain.c", 10),
	                   ("hidden", "chain.c", 15), ("shown", "chain.c", 21)])
	problems = [] if got == expected else ["got %s" % got]
	return problems + ["an incomplete answer was kept: %s" % f for f in cache.iterdir()]


class Server:
	"""Counts requests; answers /buildid/ID/debuginfo with a file, once `go` is set."""

	def __init__(self, file):
		counts, whole = [], file.read_bytes()
		self.requests = counts
		go = self.go = threading.Event()
		go.set()

		class Handler(BaseHTTPRequestHandler):
			def handle(self):
				with contextlib.suppress(ConnectionError): # who asked has been stopped
					super().handle()

			def do_GET(self):
				counts.append(self.path)
				go.wait(60)
				data = whole if self.path.endswith("/debuginfo") else b""
				self.send_response(200 if data else 404)
				self.send_header("Content-Length", str(len(data)))
				self.end_headers()
				self.wfile.write(data)

			def log_message(self, *args):
				pass

		self.http = HTTPServer(("127.0.0.1", 0), Handler)
		threading.Thread(target=self.http.serve_forever, daemon=True).start()

	def env(self, folder):
		return {"DEBUGINFOD_URLS": "http://127.0.0.1:%d" % self.http.server_port, "DEBUGINFOD_TIMEOUT": "10",
		        "DEBUGINFOD_CACHE_PATH": str(folder / "debuginfod"), "no_proxy": "*", "NO_PROXY": "*"}


@test
def debuginfod_is_asked_only_when_wanted(folder):
	program, debug, addresses = separate(folder)
	moved = debug.rename(folder / "elsewhere")
	server = Server(moved)
	entries, _ = look_up(program, addresses, "--id=" + build_id(program), env=server.env(folder))
	problems = ["asked without being told to: %s" % r for r in server.requests]
	problems += ["got %s" % e for e in entries if any(f[2] != "?" for f in e)]
	entries, _ = look_up(program, addresses, "--id=" + build_id(program), "--debuginfod", env=server.env(folder))
	if not server.requests:
		if not any(pathlib.Path(p).rglob("libdebuginfod.so.1") for p in ("/usr/lib", "/usr/lib64")):
			raise Skip("libdebuginfod is not installed")
		problems.append("was not asked when told to")
	if sorted(chain(e) for e in entries) != sorted(CHAINS):
		problems.append("got %s" % [chain(e) for e in entries])
	return problems


@test
def long_work_reports_progress_and_can_be_stopped(folder):
	"""
	Long by a server that answers only after the first report of progress, and never to whom it stopped: no clock
	in the test.
	"""
	if not any(pathlib.Path(p).rglob("libdebuginfod.so.1") for p in ("/usr/lib", "/usr/lib64")):
		raise Skip("libdebuginfod is not installed")
	program, debug, addresses = separate(folder)
	server = Server(debug.rename(folder / "elsewhere"))
	problems = []
	for answer in ("go", "stop"):
		server.go.clear()
		(folder / answer).mkdir()
		env = dict(os.environ, **dict(server.env(folder / answer), DEBUGINFOD_TIMEOUT="60"))
		with subprocess.Popen([LOOK_UP, "--debuginfod", "--progress=" + answer, "--id=" + build_id(program), program],
		                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
		                      env=env) as process:
			process.stdin.write("".join("%x\n" % a for a in addresses))
			process.stdin.close()
			first = process.stderr.readline()
			if answer == "go":
				server.go.set()
			output = process.stdout.read()
			process.stderr.read()
		server.go.set()
		if first != "progress 0 of 1\n":
			problems.append("%s: reported %r" % (answer, first))
		if ("!stopped" in output) != (answer == "stop") or ("chain.h" in output) != (answer == "go"):
			problems.append("%s: %s" % (answer, output))
	return problems


@test
def cache_gives_the_same_answer(folder):
	program = build(folder)
	addresses, cache = calls(program, "take"), folder / "cache"
	args = ("--id=" + build_id(program), "--cache=%s" % cache)
	cold = look_up(program, addresses[:3], *args)
	files = list(cache.iterdir())
	if len(files) != 1 or files[0].stat().st_mode & 0o777 != 0o600 or cache.stat().st_mode & 0o777 != 0o700:
		return ["the cache holds %s" % files]
	plain = look_up(program, addresses)
	problems = []
	if look_up(program, addresses, *args) != plain:
		problems.append("two more addresses: another answer")
	size = files[0].stat().st_size
	if look_up(program, addresses, *args) != plain or files[0].stat().st_size != size:
		problems.append("all known: another answer or file")
	for damage in (lambda d: b"", lambda d: d[:-1], lambda d: d[:60] + bytes([d[60] ^ 1]) + d[61:]):
		whole = files[0].read_bytes()
		files[0].write_bytes(damage(whole))
		if look_up(program, addresses, *args) != plain:
			problems.append("damaged: another answer")
		if len(files[0].read_bytes()) != len(whole):
			problems.append("damaged: not written again")
	if cold[0] != plain[0][:3]:
		problems.append("the first answer was another one")
	return problems


@test
def cached_answers_do_not_outlive_the_file(folder):
	program, debug, addresses = separate(folder)
	args = ("--id=" + build_id(program), "--cache=%s" % (folder / "cache"), "--root=%s" % (folder / "root"))
	look_up(program, addresses, *args)
	id_ = build_id(program)
	place = folder / "root" / ".build-id" / id_[:2]
	place.mkdir(parents=True)
	debug.rename(place / (id_[2:] + ".debug"))
	return check_chains(program, addresses, *args)


@test
def cache_folder_of_others_is_not_used(folder):
	program = build(folder)
	cache = folder / "cache"
	cache.mkdir()
	cache.chmod(0o777)
	look_up(program, calls(program, "take"), "--id=" + build_id(program), "--cache=%s" % cache)
	problems = ["written: %s" % f for f in cache.iterdir()]
	link = folder / "link"
	(folder / "real").mkdir(mode=0o700)
	link.symlink_to(folder / "real")
	look_up(program, calls(program, "take"), "--id=" + build_id(program), "--cache=%s" % link)
	return problems + ["written through a link: %s" % f for f in (folder / "real").iterdir()]


@test
def rust_program(folder):
	need("rustc")
	source = folder / "main.rs"
	source.write_text(
		"mod shelf {\n    #[inline(never)]\n    pub fn fill<T: Clone>(item: T, n: usize) -> Vec<T> {\n"
		"        vec![item; n]\n    }\n}\nfn main() {\n    let v = shelf::fill(7u8, std::env::args().count());\n"
		"    println!(\"{}\", v.len());\n}\n")
	problems = []
	for mangling in ("legacy", "v0"):
		more = ["-C", "symbol-mangling-version=v0"] if mangling == "v0" else []
		done = subprocess.run(["rustc", "-g", "-O", *more, "-C", "codegen-units=1", source, "-o", folder / "main"],
		                      capture_output=True, text=True, check=False)
		if done.returncode:
			raise Skip("rustc does not work: " + done.stderr.strip()[:100])
		symbols = [l.split() for l in run("nm", folder / "main").splitlines() if "shelf" in l]
		if not symbols:
			problems.append(mangling + ": no symbol")
			continue
		entries, _ = look_up(folder / "main", [int(symbols[0][0], 16) + 1])
		last = entries[0][-1]
		if last[0] not in ("main::shelf::fill", "main::shelf::fill::<u8>", "main::shelf::fill<u8>"):
			problems.append("%s: %s" % (mangling, last))
		if last[2] != str(source) or not 3 <= int(last[3]) <= 5:
			problems.append("%s: %s" % (mangling, last))
	return problems


def main():
	tap = Tap()
	for function in TESTS:
		name = function.__name__.replace("_", " ")
		if len(sys.argv) > 2 and not all(word in name for word in sys.argv[2:]):
			continue
		with tempfile.TemporaryDirectory(prefix="mt-symbolize-") as folder:
			try:
				tap.ok(name, function(pathlib.Path(folder).resolve()))
			except Skip as skip:
				tap.skip(name, str(skip))
			except (AssertionError, IndexError, KeyError, ValueError, OSError) as error:
				tap.ok(name, ["%s: %s" % (type(error).__name__, error)])
	return tap.done()


sys.exit(main())
