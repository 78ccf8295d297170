#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack view, and export --format=heapdump, from outside: dumps of holder.c, of other tools and made ones.

  run_view.py --build DIR [-k WORD] [-v]
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = os.path.join(HERE, "..", "..", "..", "shared", "samples", "android-native")
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
import cases
from cases import Skip, test

TIMEOUT_S = 100
BY = ("callers", "callees", "function", "library", "size")


class Bench(cases.Bench):
    def __init__(self, build):
        super().__init__(build, "view")
        self.holder = os.path.realpath(build + "/tests/view/holder")
        self.env = {k: v for k, v in os.environ.items()
                    if not k.startswith(("MEMTRACK", "ANDROID")) and k != "LD_PRELOAD"}
        os.mkdir(self.dir + "/states", 0o700)
        self.env.update(MEMTRACK_LIB=build + "/libmemtrack.so", XDG_CACHE_HOME=self.dir + "/cache", LC_ALL="C.UTF-8",
                        MEMTRACK_STATE_DIR=self.dir + "/states")

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(text)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def run(self, *args, **more):
        more.setdefault("env", self.env)
        more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([self.memtrack, *args], cwd=self.dir, capture_output=True, text=True, errors="replace",
                              timeout=TIMEOUT_S, check=False, **more)

    def good(self, *args, **more):
        done = self.run(*args, **more)
        if done.returncode:
            self.problems.append("%s: status %d: %s" % (" ".join(args), done.returncode, done.stderr))
        return done

    def view(self, *args):
        """The tree as JSON: nodes, each with its parent and the sum of its children."""
        done = self.good("view", "--json", *args)
        document = json.loads(done.stdout)
        stack = []
        for node in document["nodes"]:
            del stack[node["depth"]:]
            node["parent"] = stack[-1] if stack else None
            node["below"] = [0, 0, 0]
            if stack:
                stack[-1]["below"][0] += node["bytes"]
                stack[-1]["below"][1] += node["count"]
                stack[-1]["below"][2] += 1
            stack.append(node)
        return document

    def track(self, name, *args, stay=False):
        """holder under the tracker; with stay it goes on until finish(). Returns its state file."""
        state = self.path(name)
        command = [self.memtrack, "run", "-q", "--report=none", "-o", state, "--", self.holder, *args]
        self.process = subprocess.Popen(command, cwd=self.dir, env=self.env, stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.process.stdout.readline() != "ready\n":
            raise ValueError("holder did not begin: " + self.process.communicate(timeout=TIMEOUT_S)[1])
        if not stay:
            self.finish()
        return state

    def finish(self):
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        if self.process.returncode or errors:
            self.problems.append("holder: status %d: %s" % (self.process.returncode, errors))


def child_of(path):
    """The tracked child of `memtrack run`."""
    with open("/proc/%d/task/%d/children" % (path, path), encoding="ascii") as f:
        return int(f.read().split()[0])


def held(document):
    """Bytes and blocks of each function of holder.c that allocates: (function, bytes, count)."""
    return sorted((n.get("function"), n["bytes"], n["count"]) for n in document["nodes"]
                  if (n.get("function") or "").startswith("hold_") and not n["below"][2])


SEVEN_AND_THREE = [("hold_seven", 8638, 7)]


def check_sums(b, name, document):
    for node in document["nodes"]:
        if node["below"][2] and node["below"][:2] != [node["bytes"], node["count"]]:
            if node["kind"] == "root" or node["below"][0] > node["bytes"]:
                b.problems.append("%s: %r has %r below it" % (name, node["bytes"], node["below"]))
    roots = [n for n in document["nodes"] if n["depth"] == 0]
    b.expect(name + ": roots", [sum(n["bytes"] for n in roots), sum(n["count"] for n in roots)],
             [document["bytes"], document["count"]])


def line_of(text):
    with open(os.path.join(HERE, "holder.c"), encoding="utf-8") as f:
        return [text in line for line in f].index(True) + 1


def without(text, *beginnings):
    return "".join(line + "\n" for line in text.splitlines() if not line.startswith(beginnings))


# ---- exporting ----

@test
def C117_a_running_process_is_written_with_its_own_map(b):
    b.track("live.mtk", stay=True)
    try:
        pid = child_of(b.process.pid)
        done = b.good("export", str(pid), "--format=heapdump", "-o", "live.txt")
        with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
            maps = f.read()
    finally:
        b.finish()
    lines = b.read("live.txt").split("\n")
    b.expect("messages", done.stderr, "")
    b.expect("line 1", lines[0], "Android Native Heap Dump v1.2")
    b.expect("line 2", lines[1], "")
    b.expect("line 3", lines[2], "Build fingerprint: 'unknown'")
    b.expect("line 4", lines[3], "")
    b.expect("end", lines[-2:], ["END", ""])
    # the heap may have grown since; files stay where they are
    written = "\n".join(lines[lines.index("MAPS") + 1:-2])
    b.expect("map", [l for l in written.splitlines() if l.endswith("/holder")],
             [l for l in maps.splitlines() if l.endswith("/holder")])
    records = [re.fullmatch(r"z 0  sz +(\d+)  num    (\d+)  bt( [0-9a-f]+)*", l) for l in lines if l.startswith("z ")]
    b.expect("records", lines[5], "Allocation records: %d" % len(records))
    b.expect("total", lines[4], "Total memory: %d" % sum(int(m[1]) * int(m[2]) for m in records))
    b.expect("sevens", [(m[1], m[2]) for m in records if m[1] in ("1234", "555")], [("1234", "7"), ("555", "3")])
    sizes = [int(m[1]) for m in records]
    b.expect("order", sizes, sorted(sizes, reverse=True))


@test
def C118_many_equal_blocks_are_one_record(b):
    state = b.track("many.mtk", "100000")
    b.good("export", state, "--format=heapdump", "-o", "many.txt")
    b.expect("records", re.findall(r"^z 0  sz       24  num    (\d+)  bt", b.read("many.txt"), re.M), ["100000"])


@test
def C119_two_stacks_by_turns_are_two_records(b):
    state = b.track("turns.mtk", "1000")
    b.good("export", state, "--format=heapdump", "-o", "turns.txt")
    b.expect("records", re.findall(r"^z 0  sz       40  num    (\d+)  bt", b.read("turns.txt"), re.M), ["500", "500"])


@test
def older_versions_are_written_and_read(b):
    state = b.track("old.mtk")
    for version in ("1.0", "1.1"):
        b.good("export", state, "--format=heapdump", "--dump-version=" + version, "-o", "old.txt")
        text = b.read("old.txt")
        b.expect("first line", text.split("\n")[0], "Android Native Heap Dump v" + version)
        b.expect("no fingerprint", "fingerprint" in text or "\nmodule " in text, False)
        b.expect_in("padding", "bt 0000000000", text)
        b.expect("held " + version, held(b.view("old.txt", "--by=callers"))[-1:], SEVEN_AND_THREE)
    done = b.run("export", state, "--format=heapdump", "--dump-version=1.1", "--bt-info")
    b.expect("status", (done.returncode, done.stdout), (2, ""))


@test
def snapshots_and_dumps_are_written_too(b):
    state = b.track("s.mtk")
    b.good("export", state, "--format=heapdump", "-o", "one.txt")
    b.good("export", "one.txt", "--format=heapdump", "-o", "two.txt")
    one, two = b.read("one.txt"), b.read("two.txt")
    b.expect("the same", two, one)


@test
def sampled_blocks_are_told_to_be_estimates(b):
    command = [b.memtrack, "run", "-q", "--report=none", "--mode=sample", "--interval=4K", "-o", b.path("sampled.mtk"),
               "--", b.holder, "20000"]
    subprocess.run(command, cwd=b.dir, env=b.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
                   check=True)
    done = b.good("export", "sampled.mtk", "--format=heapdump", "-o", "sampled.txt")
    b.expect_in("told", "estimates", done.stderr)
    sums = sum(int(n) for n in re.findall(r"^z 0  sz       (?:24|40)  num    (\d+)  bt", b.read("sampled.txt"), re.M))
    if not 20000 < sums < 60000: # 40000 blocks of 1.3 MB in samples of 4 KB: 6 standard deviations are 14000
        b.problems.append("%d blocks were estimated where there are 40000" % sums)


@test
def blocks_that_are_only_counted_are_told(b):
    command = [b.memtrack, "run", "-q", "--report=none", "--mode=stats", "-o", b.path("stats.mtk"), "--", b.holder]
    subprocess.run(command, cwd=b.dir, env=b.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S,
                   check=True)
    for args in (("view", "stats.mtk"), ("export", "stats.mtk", "--format=heapdump")):
        b.expect_in(args[0], "11 of 11 live blocks are only counted", b.good(*args).stderr)


# ---- viewing ----

@test
def a_state_and_its_dump_show_the_same_tree(b):
    state = b.track("a.mtk", "10")
    b.good("export", state, "--format=heapdump", "-o", "a.txt")
    for by in BY:
        of_state, of_dump = b.view(state, "--by=" + by), b.view("a.txt", "--by=" + by)
        check_sums(b, by, of_dump)
        b.expect(by, [{k: v for k, v in n.items() if k != "parent"} for n in of_dump["nodes"]],
                 [{k: v for k, v in n.items() if k != "parent"} for n in of_state["nodes"]])


@test
def names_are_found_from_the_memory_map_alone(b):
    b.track("m.mtk", stay=True)
    try:
        b.good("export", str(child_of(b.process.pid)), "--format=heapdump", "-o", "m.txt")
    finally:
        b.finish()
    b.write("plain.txt", without(b.read("m.txt"), "module "))
    document = b.view("plain.txt")
    b.expect("held", held(document), SEVEN_AND_THREE)
    seven = [n for n in document["nodes"] if n.get("function") == "hold_seven"][0]
    b.expect("line", (os.path.basename(seven["file"]), seven["line"]), ("holder.c", line_of("malloc(1234)")))
    b.expect("called by", seven["parent"]["function"], "main")
    inlined = [n for n in document["nodes"] if n.get("function") == "inner"]
    b.expect("inlined", [(n["bytes"], n["inlined"], n["parent"]["function"]) for n in inlined],
             [(1665, True, "hold_inlined")])
    leaf = [n for n in b.view("plain.txt", "--reverse")["nodes"] if n.get("function") == "hold_seven"][0]
    b.expect("leaf first", leaf["depth"], 1)


@test
def symbols_are_found_flat_mirrored_and_by_build_id(b):
    if not shutil.which("strip"):
        raise Skip("strip is not installed")
    b.track("d.mtk", stay=True)
    try:
        b.good("export", str(child_of(b.process.pid)), "--format=heapdump", "-o", "d.txt")
    finally:
        b.finish()
    text = b.read("d.txt").replace(b.holder, "/device/bin/holder")
    b.write("gone.txt", without(text, "module "))
    b.expect("without files", held(b.view("gone.txt")), [])
    for name, file in (("flat", "holder"), ("mirrored", "device/bin/holder"), ("debug", "holder.debug")):
        os.makedirs(os.path.dirname(b.path(name + "/" + file)))
        if name == "debug":
            subprocess.run(["objcopy", "--only-keep-debug", b.holder, b.path(name + "/" + file)], check=True)
        else:
            shutil.copy(b.holder, b.path(name + "/" + file))
        b.expect(name, held(b.view("gone.txt", "--symbols=" + name)), SEVEN_AND_THREE)
        b.expect(name + " of the app", held(b.view("gone.txt", "--app-symbols=" + name)), SEVEN_AND_THREE)
    b.expect("of the product", held(b.view("gone.txt")), [])
    os.rename(b.path("flat"), b.path("symbols"))
    b.env["ANDROID_PRODUCT_OUT"] = b.dir
    b.expect("of the product", held(b.view("gone.txt")), SEVEN_AND_THREE)
    del b.env["ANDROID_PRODUCT_OUT"]
    build_id = re.search(r"^module \S+ bias \S+ id ([0-9a-f]+) /device/bin/holder$", text, re.M)
    b.write("id.txt", text)
    os.makedirs(b.path("ids/.build-id/" + build_id[1][:2]))
    shutil.copy(b.holder, b.path("ids/.build-id/%s/%s.debug" % (build_id[1][:2], build_id[1][2:])))
    b.expect("by build-id", held(b.view("id.txt", "--symbols=ids")), SEVEN_AND_THREE)
    # another file of that name is not the one
    os.makedirs(b.path("wrong"))
    shutil.copy(b.memtrack, b.path("wrong/holder"))
    b.expect("wrong file", held(b.view("id.txt", "--symbols=wrong")), [])


@test
def a_dump_that_the_process_itself_wrote_is_shown(b):
    env = dict(b.env, LD_PRELOAD=b.env["MEMTRACK_LIB"], MEMTRACK_DIR=b.dir,
               LIBC_DEBUG_MALLOC_OPTIONS="backtrace=32 backtrace_full backtrace_dump_on_exit backtrace_dump_prefix="
               + b.path("own"))
    done = subprocess.run([b.holder], cwd=b.dir, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT_S, check=False)
    dumps = [name for name in os.listdir(b.dir) if re.fullmatch(r"own\.\d+\.exit\.txt", name)]
    b.expect("dumps", (done.returncode, len(dumps)), (0, 1))
    document = b.view(dumps[0])
    b.expect("held", held(document), SEVEN_AND_THREE)
    b.expect("warnings", document["warnings"], [])
    b.expect("written again", b.view(dumps[0], "--by=size")["bytes"], document["bytes"])


@test
def libraries_in_packages_have_names(b):
    with zipfile.ZipFile(b.path("base.apk"), "w") as package:
        package.writestr("classes.dex", b"x" * 5000)
        begin = package.start_dir + 30 + len("lib/x86_64/holder") # contents begin behind the local header
        info = zipfile.ZipInfo("lib/x86_64/holder")
        info.extra = b"\0\0" + (-begin - 4 & 0xfff).to_bytes(2, "little") + bytes(-begin - 4 & 0xfff)
        with open(b.holder, "rb") as f:
            package.writestr(info, f.read())
    offset = begin + len(info.extra)
    b.expect("begins at a page", offset % 4096, 0)
    b.track("p.mtk", stay=True)
    try:
        b.good("export", str(child_of(b.process.pid)), "--format=heapdump", "-o", "p.txt")
    finally:
        b.finish()
    text = re.sub(r"^(\S+ \S+ )([0-9a-f]{8})( .*)%s$" % re.escape(b.holder),
                  lambda m: m[1] + "%08x" % (int(m[2], 16) + offset) + m[3] + "/data/app/x/base.apk",
                  without(b.read("p.txt"), "module "), flags=re.M)
    b.write("p.txt", text)
    b.expect("without the package", held(b.view("p.txt")), [])
    os.mkdir(b.path("apps"))
    os.rename(b.path("base.apk"), b.path("apps/base.apk"))
    os.mkdir(b.path("flat"))
    shutil.copy(b.holder, b.path("flat"))
    document = b.view("p.txt", "--app-symbols=apps", "--symbols=flat")
    b.expect("held", held(document), SEVEN_AND_THREE)
    b.expect("library", [n["library"] for n in document["nodes"] if n.get("function") == "hold_seven"],
             ["/data/app/x/base.apk!/lib/x86_64/holder"])


@test
def names_of_bt_info_are_used_without_symbols(b):
    state = b.track("i.mtk")
    b.good("export", state, "--format=heapdump", "--bt-info", "-o", "i.txt")
    document = b.view("i.txt", "--no-symbols")
    b.expect("held", [h for h in held(document) if h[0] != "hold_inlined"], SEVEN_AND_THREE)
    b.expect("by function", [(n["bytes"], n["count"]) for n in b.view("i.txt", "--no-symbols", "--by=function")["nodes"]
                             if n.get("function") == "hold_inlined"], [(1665, 3)])
    plain = b.write("none.txt", without(b.read("i.txt"), "  bt_info"))
    b.expect("without", held(b.view(plain, "--no-symbols")), [])


DUMP = "Android Native Heap Dump v1.2\n\nBuild fingerprint: ''\n\nTotal memory: %d\nAllocation records: %d\n" \
       "Backtrace size: 16\n\n%sMAPS\n1000-2000 r-xp 00000000 00:00 0 /lib/x.so\nEND\n"


def make_dump(*records):
    text = "".join("z %d  sz %8d  num    %d  bt%s\n" % (z, size, num, "".join(" %x" % f for f in frames))
                   for z, size, num, frames in records)
    return DUMP % (sum(r[1] * r[2] for r in records), len(records), text)


@test
def C163_num_is_valid_in_v1_1_and_v1_2_and_doubted_in_v1_0(b):
    records = [(0, 10 + i, 16, (0x1100 + i,)) for i in range(4)]
    text = make_dump(*records)
    for version, count in (("v1.1", 64), ("v1.2", 64), ("v1.0", 4)):
        b.write("n.txt", text.replace("v1.2", version))
        b.expect(version, b.view("n.txt")["count"], count)
    b.expect_in("told", "every record counts as one block", b.run("view", "n.txt").stderr)


@test
def C164_frames_get_their_library_from_named_maps_only(b):
    text = make_dump((0, 10, 1, (0x1100, 0x3100, 0x5100))).replace(
        "END\n", "3000-4000 r-xp 00000000 00:00 7\n5000-6000 r--s 00003000 00:00 7     /opt/a b.so\nEND\n")
    done = b.good("view", "--no-symbols", b.write("m.txt", text))
    rows = [line.split(None, 4)[4] for line in done.stdout.splitlines()[2:]]
    b.expect("rows", rows, ["5100 a b.so ??? ???", "3100 ??? ??? ???", "1100 x.so ??? ???"])
    done = b.good("view", "--no-symbols", "-v", "m.txt")
    b.expect_in("whole path", " 5100 /opt/a b.so ", done.stdout)


class Balanced(html.parser.HTMLParser):
    """Tags that close in order; text by the way."""

    def __init__(self):
        super().__init__()
        self.open, self.problems, self.text, self.seen = [], [], "", set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append("</%s> at %r closes nothing" % (tag, self.getpos()))

    def handle_data(self, data):
        self.text += data


@test
def C165_names_are_escaped_in_html(b):
    name = 'operator<<(a&, "b")'
    text = make_dump((0, 400, 1, (0x1100, 0x1200)), (0, 7, 1, ())).replace(
        "1200\n", '1200\n  bt_info {"/lib/x.so" 100 "%s" 24} {"/lib/</style>\'.so" 200 "f<&amp;>" 0}\n' % name)
    text = text.replace("/lib/x.so\nEND", "/lib/<b>'.so\nEND")
    done = b.good("view", "--no-symbols", "--html", b.write("e <b>.txt", text))
    b.expect_in("escaped", "operator&lt;&lt;(a&amp;, &quot;b&quot;)", done.stdout)
    page = Balanced()
    page.feed(done.stdout)
    page.close()
    b.problems += page.problems
    b.expect("left open", page.open, [])
    b.expect_in("name", name, page.text)
    b.expect_in("name", "f<&amp;>", page.text)
    b.expect_in("library", "<b>'.so", page.text)
    b.expect_in("no stack", "(no call stack)", page.text)
    b.expect("nothing but the page", sorted(page.seen - {"html", "head", "body", "meta", "title", "style", "h1", "div",
                                                         "details", "summary", "p", "b", "i"}), [])
    b.expect("self-contained", re.findall(r"https?:|url\(|@import|<script", done.stdout), [])
    b.expect_in("text", name, b.good("view", "--no-symbols", "e <b>.txt").stdout)


@test
def C166_wrong_options_and_no_file_are_usage_errors(b):
    b.write("ok.txt", make_dump((0, 1, 1, ())))
    for args, part in ((("-x", "ok.txt"), "unknown option '-x'"), (("--wrong", "ok.txt"), "unknown option '--wrong'"),
                       ((), "missing operand"), (("ok.txt",) * 3, "unexpected operand")):
        done = b.run("view", *args)
        b.expect("status of %r" % (args,), (done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1))
        b.expect_in("message", part, done.stderr)


@test
def what_is_no_dump_is_one_sentence(b):
    b.write("empty", "")
    b.write("prose", "this is\nno dump\n")
    with open(b.path("zeros"), "wb") as f:
        f.write(bytes(100000))
    os.mkdir(b.path("folder"))
    for name in ("empty", "prose", "zeros", "folder", "missing", b.memtrack):
        done = b.run("view", name)
        b.expect("status of " + name, (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        b.expect_in("names it", os.path.basename(name), done.stderr)
    b.expect_in("why", "not a native heap dump", b.run("view", "prose").stderr)
    b.write("ok.txt", make_dump((0, 1, 1, ())))
    for directory in ("nowhere", "prose"):
        done = b.run("view", "ok.txt", "--symbols=" + directory)
        b.expect("status", (done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1))
        b.expect_in("names it", "'%s'" % directory, done.stderr)


@test
def frameless_records_are_counted(b):
    document = b.view("--no-symbols", b.write("f.txt", make_dump((0, 100, 3, (0x1100,)), (0, 50, 4, ()))))
    b.expect("all", (document["bytes"], document["count"]), (500, 7))
    b.expect("without stack", [(n["bytes"], n["count"]) for n in document["nodes"] if n["kind"] == "no_stack"], [(200, 4)])
    check_sums(b, "frameless", document)


@test
def the_zygote_is_shown_apart_only_when_both_exist(b):
    both = make_dump((0, 10, 1, (0x1100,)), (1, 30, 1, (0x1100,)))
    text = b.good("view", "--no-symbols", b.write("z.txt", both)).stdout
    b.expect("rows", [line.split() for line in text.splitlines() if line.split()[-1:] in (["APP"], ["ZYGOTE"])],
             [["30", "100.00%", "75.00%", "1", "APP"], ["10", "100.00%", "25.00%", "1", "ZYGOTE"]])
    for z in (0, 1):
        text = b.good("view", "--no-symbols", b.write("one.txt", make_dump((z, 10, 1, (0x1100,))))).stdout
        b.expect_in("one root", " TOTAL\n", text)
        b.expect("no sides", "APP" in text or "ZYGOTE" in text, False)


@test
def two_dumps_show_what_changed(b):
    old = make_dump((0, 10, 5, (0x1100, 0x1200)), (0, 20, 3, (0x1300,)), (0, 8, 1, (0x1400,)))
    new = make_dump((0, 10, 9, (0x1100, 0x1200)), (0, 20, 3, (0x1300,)), (0, 6, 1, (0x1500,)))
    # the same library elsewhere: another run
    new = re.sub(r"\b1([0-9a-f]{3})\b(?= |\n)(?![^\n]*r-xp)", r"7f1\1", new).replace("1000-2000", "7f1000-7f2000")
    b.write("old.txt", old)
    b.write("new.txt", new)
    document = b.view("--no-symbols", "old.txt", "new.txt", "--by=callees")
    b.expect("sums", [document[k] for k in ("bytes", "old_bytes", "count", "old_count")], [156, 118, 13, 9])
    b.expect("rows", [(n["depth"], n["bytes"] - n["old_bytes"], n["count"] - n["old_count"]) for n in document["nodes"]],
             [(0, 38, 4), (1, 40, 4), (2, 40, 4), (1, -8, -1), (1, 6, 1)])
    text = b.good("view", "--no-symbols", "old.txt", "new.txt").stdout
    b.expect("head", text.split("\n")[0].split(), ["GROWTH", "OLD", "NEW", "COUNT", "ADDR", "LIBRARY", "FUNCTION", "LOCATION"])
    b.expect("total", text.split("\n")[1].split(), ["+38", "118", "156", "+4", "TOTAL"])


@test
def garbage_and_cuts_are_told_on_standard_error(b):
    text = make_dump((0, 10, 5, (0x1100,)), (0, 20, 3, (0x1300,)))
    b.write("g.txt", text.replace("z 0  sz       20", "what is this?\nz 0  sz       2?").replace("END\n", ""))
    done = b.good("view", "--no-symbols", "g.txt")
    b.expect_in("rows", "       50 100.00% 100.00%        5 TOTAL", done.stdout)
    for part in ("line 10 is left out: no lines of a heap dump", "line 11 is left out: records that are damaged",
                 "END, is missing", "claims 2 records, 1 were found"):
        b.expect_in("told", part, done.stderr)


@test
def a_pipe_is_read(b):
    text = make_dump((0, 10, 5, (0x1100,)))
    done = subprocess.run([b.memtrack, "view", "--no-symbols", "/dev/stdin"], cwd=b.dir, env=b.env, input=text,
                          capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    b.expect_in("rows", " TOTAL\n", done.stdout)
    b.expect("status", (done.returncode, done.stderr), (0, ""))


@test
def report_diff_and_export_take_dumps(b):
    state = b.track("r.mtk")
    b.good("export", state, "--format=heapdump", "-o", "r.txt")
    of_state = json.loads(b.good("report", state, "--json", "--top=0", "--no-builtin-suppressions").stdout)
    of_dump = json.loads(b.good("report", "r.txt", "--json", "--top=0", "--no-builtin-suppressions").stdout)
    for key in ("live_count", "live_bytes", "leak_sites", "leak_count", "leak_bytes"):
        b.expect(key, of_dump[key], of_state[key])
    b.expect_in("told", "are not known", " ".join(of_dump["notes"]))
    done = b.good("diff", state, "r.txt")
    b.expect_in("diff", "leaks unchanged", done.stdout)
    done = b.run("report", "r.txt", "--show=peak")
    b.expect("peak", (done.returncode, done.stdout), (1, ""))
    b.expect_in("peak", "nothing of peaks", done.stderr)


@test
def a_large_dump_is_read_in_little_memory(b):
    with open(b.path("large.txt"), "w", encoding="ascii") as f:
        f.write("Android Native Heap Dump v1.2\n\n")
        for i in range(200000):
            frames = " ".join("%x" % (0x7f0000001000 + (i * k * 7919) % 60000) for k in range(1, 9))
            f.write("z 0  sz %8d  num    %d  bt %s\n" % (16 + i % 100, 1 + i % 3, frames))
        f.write("MAPS\nEND\n")
    program = "import resource,subprocess,sys\n" \
              "r = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode\n" \
              "print(r, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-c", program, b.memtrack, "view", "--no-symbols", "--by=size", "large.txt"],
                          cwd=b.dir, env=b.env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    status, kilobytes = (int(word) for word in done.stdout.split())
    size = os.path.getsize(b.path("large.txt"))
    b.expect("status", status, 0)
    if kilobytes * 1024 > 8 * size:
        b.problems.append("%d KiB for a dump of %d bytes" % (kilobytes, size))


@test
def samples_of_android_are_shown(b):
    if not os.path.isdir(SAMPLES):
        raise Skip("there is no '%s'" % os.path.normpath(SAMPLES))
    for name, size, count in (("aosp-unit-test-v1.2.txt", 405, 6), ("aosp-readme-v1.0.txt", 1900, 4),
                              ("aosp-readme-v1.2-bt_info.txt", 400, 1)):
        document = b.view("--no-symbols", os.path.join(SAMPLES, name))
        b.expect(name, (document["bytes"], document["count"], document["warnings"]), (size, count, []))
        check_sums(b, name, document)
    rows = b.good("view", "--no-symbols", os.path.join(SAMPLES, name)).stdout.splitlines()[2:]
    b.expect("rows", [row.split()[4:] for row in rows], [["b510", "libutils.so", "???", "???"],
                                                         ["a2a0", "libc.so", "abort", "???"]])


@test
def the_sums_of_recorded_calls_are_shown(b):
    """C142-C145: what record_allocs wrote is known by its content."""
    text = b.write("allocs.txt", "7: malloc 0x10 2048 1000 3000\n7: calloc 0x20 10 10 3000 4000\n"
                   "8: realloc 0x30 0x10 4096 4000 5000 2048\n8: free 0x20 5000 5500 100\n8: thread_done 0x0 6000\n")
    sums = json.loads(b.good("view", "--json", text).stdout)
    b.expect("sums", [sums[k] for k in ("kind", "lines", "threads", "allocs", "bytes", "live_bytes", "peak_bytes")],
             ["record_allocs", 5, 2, 3, 2048 + 100 + 4096, 4096, 4196])
    b.expect("present", (sums["present_bytes"], sums["present_of_bytes"]), (2148, 2148))
    shown = b.good("view", text).stdout
    if not re.search(r"^peak +2 blocks +4\.1 KiB$", shown, re.M):
        b.problems.append("no peak in %r" % shown)
    b.expect("page", b.run("view", "--html", text).returncode, 1)
    bad = b.run("view", b.write("bad.txt", "7: malloc 0x10 20\n7: malloc 0x20 20 100\n"))
    b.expect("bad line", (bad.returncode, bad.stdout, bad.stderr),
             (1, "", "memtrack: '%s', byte 18: Failed to read timestamps: 7: malloc 0x20 20 100\n" % b.path("bad.txt")))


def main():
    options = cases.parser(__doc__).parse_args()
    return cases.run(options, lambda: Bench(os.path.realpath(options.build)))


if __name__ == "__main__":
    sys.exit(main())
