#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
'memtrack enable' and 'memtrack disable' below a folder that stands for a system. Nothing of the
machine's own /etc is touched.

  run_command.py --build DIR [-k SUBSTRING]
"""
import fcntl
import os
import resource
import shutil
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import Skip, clean_environment, main

LIBRARY = "/usr/lib/libmemtrack.so"
CHECK = "--check=backtrace guard=32 free_track"


class Image:
    """A system in a folder."""
    def __init__(self, b, library=None):
        self.b, self.root = b, b.path("image")
        for folder in ("etc", "usr/lib"):
            os.makedirs(os.path.join(self.root, folder), mode=0o755)
        self.put("etc/passwd", "root:x:0:0::/:/bin/sh\nweb:x:4711:4711::/:/bin/false\n")
        self.library(library or b.lib)

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def put(self, name, text, mode=0o644):
        os.makedirs(os.path.dirname(self.path(name)), mode=0o755, exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        os.chmod(self.path(name), mode)

    def get(self, name):
        try:
            with open(self.path(name)) as f:
                return f.read()
        except FileNotFoundError:
            return None

    def library(self, path):
        shutil.copy(os.path.realpath(path), self.path(LIBRARY))
        os.chmod(self.path(LIBRARY), 0o644)

    @property
    def config(self):
        return self.get("etc/memtrack/programs.conf")

    @config.setter
    def config(self, text):
        self.put("etc/memtrack/programs.conf", text)

    @property
    def list(self):
        return self.get("etc/ld.so.preload")

    def tool(self, *words, status=0, library=LIBRARY, **more):
        command = [self.b.tool, *words, "--root=" + self.root]
        if library and words[0] == "enable" and "--list" not in words:
            command.append("--library=" + library)
        p = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=90, check=False,
                           **more)
        self.b.expect("status of %s (%s)" % (" ".join(words), p.stderr.strip()), p.returncode, status)
        return p.stdout if status == 0 else p.stderr


def a_program_is_named_in_a_new_file(b):
    image = Image(b)
    out = image.tool("enable", "nginx", CHECK, "--user=web", "--limit=2")
    b.expect("file", image.config, "# Programs that memtrack tracks wherever they are started; see memtrack.conf(5).\n\n"
             "[nginx]\ncheck = backtrace guard=32 free_track\nuser = 4711\nlimit = 2\n")
    b.expect("mode", stat.S_IMODE(os.stat(image.path("etc/memtrack/programs.conf")).st_mode), 0o644)
    b.expect_in("hint", "nothing loads the tracker yet: start the program with LD_PRELOAD=/usr/lib/libmemtrack.so in its", out)
    out = image.tool("enable", "nginx", CHECK, "--config=/etc/other.conf")
    b.expect_in("hint, other file", "LD_PRELOAD=/usr/lib/libmemtrack.so and MEMTRACK_CONFIG=/etc/other.conf in its environment", out)
    b.expect("left over", os.listdir(image.path("etc/memtrack")), ["programs.conf"])


def what_is_written_is_what_the_tracker_reads(b):
    config = b.path("own.conf")
    for words in (["enable", "enable_subject", "--mode=sample", "--options=interval=4K depth=9"],
                  ["enable", "enable_*", "--options=depth=10"]):
        p = subprocess.run([b.tool, *words, "--config=" + config], env=clean_environment(), capture_output=True, text=True,
                           timeout=60, check=False)
        b.expect("status (%s)" % p.stderr, p.returncode, 0)
    state = b.state_of(b.run([b.subject], config).pid)
    b.expect_in("options", "depth=9 follow=all interval=4096", state.options)
    state = b.state_of(b.run([b.static.replace("static", "subject")], config, executable=b.subject).pid)
    b.expect_in("options", "depth=9", state.options)


def what_is_there_stays(b):
    image = Image(b)
    before = ("; mine\n\n# about a\n[a]\n  # inside\n  limit=7\ncolour-of-comment = no\n")
    image.config = before
    image.tool("enable", "b", "--mode=stats")
    b.expect("appended", image.config, before + "\n[b]\noptions = mode=stats\n")
    image.config = "[a]\n# one\nlimit=7\n\n# about b\n[b]\n  options = depth=3\nuser=0\n# end\n"
    image.tool("enable", "a", "--limit=9", CHECK)
    b.expect("changed", image.config, "[a]\n# one\nlimit = 9\ncheck = backtrace guard=32 free_track\n\n"
             "# about b\n[b]\n  options = depth=3\nuser=0\n# end\n")
    image.tool("enable", "b", "--user=root", "--options=depth=4")
    b.expect_in("of the user", "[b]\noptions = depth=4\nuser = 0\n# end\n", image.config)
    os.chmod(image.path("etc/memtrack/programs.conf"), 0o600)
    image.tool("enable", "a", "--limit=0")
    b.expect("mode", stat.S_IMODE(os.stat(image.path("etc/memtrack/programs.conf")).st_mode), 0o600)
    b.expect("limit", "limit" in image.config, False)


def a_mistake_is_refused_and_nothing_changes(b):
    image = Image(b)
    image.config = before = "[a]\nlimit = 1\n"
    for words, status, say in (
            (["x", "--options=depht=3"], 2, "depht=3"), (["x", "--options=depth=0"], 2, "depth=0"),
            (["x", "--check=frobnicate"], 2, "frobnicate"), (["x", "--check=guard=-1"], 2, "guard"),
            (["x", "--check", "--options=depth=9 interval=4K"], 2, "'interval=4K' means nothing in check mode"),
            (["x", "--check", "--options=record-keep=last"], 2, "'record-keep=last' means nothing"),
            (["x", "--mode=fast"], 2, "fast"), (["x", "--mode=full", "--check"], 2, "--mode"),
            (["x", "--user=nobody-has-this-name"], 1, "nobody-has-this-name"), (["x", "--limit=1001"], 2, "1001"),
            (["/usr/bin/x"], 1, "/usr/bin/x"), (["a\n[b"], 1, "no text"), ([""], 1, "''"),
            (["x" * 300], 1, "cannot be the name"), (["x", "--options=label=" + "y" * 1000], 2, "label"), ([], 2, "name a program"),
            (["x", "--all"], 2, "either"), (["--user=web", "--system-wide"], 2, "belong"),
            (["x", "--list"], 2, "--list"), (["--unit=a/b"], 1, "a/b"), (["--unit=a.socket"], 1, "no service"),
            (["x", "y"], 2, "y")):
        b.expect_in(" ".join(words)[:60], say, image.tool("enable", *words, status=status))
    b.expect("file", image.config, before)
    b.expect("folders", sorted(os.listdir(image.path("etc"))), ["memtrack", "passwd"])


def a_section_stands_where_it_counts(b):
    image = Image(b)
    image.config = "[a]\n\n# the rest\n[*]\noptions = depth=2\n"
    image.tool("enable", "nginx", "--mode=full")
    b.expect("file", image.config, "[a]\n\n[nginx]\noptions = mode=full\n\n# the rest\n[*]\noptions = depth=2\n")
    image.tool("enable", "nginx", "--user=0", "--mode=stats")
    b.expect_in("user first", "[nginx]\noptions = mode=stats\nuser = 0\n\n[nginx]\noptions = mode=full\n", image.config)
    image.tool("enable", "--all", "--limit=3")
    b.expect_in("all", "[*]\noptions = depth=2\nlimit = 3\n", image.config)
    image.config = "[n*]\n[nginx]\n"
    b.expect_in("message", "move it in front", image.tool("enable", "nginx", status=1))


def disabling_keeps_the_section_for_later(b):
    image = Image(b)
    image.tool("enable", "nginx", CHECK)
    image.tool("enable", "b", "--user=0")
    enabled = image.config
    b.expect_in("count", "1 section ", image.tool("disable", "nginx"))
    b.expect_in("file", "[nginx]\ncheck = backtrace guard=32 free_track\nenabled = no\n", image.config)
    image.tool("enable", "nginx")
    b.expect("enabled again", image.config, enabled)
    b.expect_in("count", "2 sections ", image.tool("disable", "--all"))
    b.expect("disabled", image.config.count("enabled = no\n"), 2)
    once = image.config
    image.tool("disable", "--all")
    b.expect("disabled twice", image.config, once)
    b.expect_in("unknown", "does not name", image.tool("disable", "nobody", status=1))
    image.tool("disable", "b", "--user=0")
    b.expect_in("other user", "does not name", image.tool("disable", "b", "--user=1", status=1))


def the_list_says_what_is_wrong(b):
    image = Image(b)
    b.expect_in("empty", "names no program", image.tool("enable", "--list"))
    image.config = ("[nginx]\nuser = 33\nlimit = 2\ncheck = guard\n[off]\nenabled = no\n[bad]\ncolour = red\n"
                    "[worse]\noptions = frobnicate\n[worst]\ncheck = frobnicate\n[su]\nsecure = yes\n")
    out = image.tool("enable", "--list")
    for line in ("1  nginx    on", "5  off      off", "7  bad      ignored: line 8: an unknown key",
                 "9  worse    ignored: cannot understand 'frobnicate'", "11  worst    ignored: check: unknown option",
                 "13  su       on", "33      2  check: guard", "mode=full; secure"):
        if line == "mode=full; secure":
            line = "secure"
        b.expect_in("list", line, out)
    b.expect_in("loaded", "does not name the tracker", out)
    os.chmod(image.path("etc/memtrack/programs.conf"), 0o666)
    b.expect_in("untrusted", "others may write to it", image.tool("enable", "--list", status=1))


def a_file_that_the_tracker_would_not_read_is_not_changed(b):
    image = Image(b)
    image.config = "[a]\n"
    os.chmod(image.path("etc/memtrack/programs.conf"), 0o664)
    b.expect_in("writable", "chmod go-w", image.tool("enable", "b", status=1))
    os.rename(image.path("etc/memtrack/programs.conf"), image.path("etc/memtrack/real"))
    os.symlink("real", image.path("etc/memtrack/programs.conf"))
    b.expect_in("link", "symbolic link", image.tool("enable", "b", status=1))
    os.unlink(image.path("etc/memtrack/programs.conf"))
    os.mkdir(image.path("etc/memtrack/programs.conf"))
    b.expect_in("folder", "no plain file", image.tool("enable", "b", status=1))
    os.rmdir(image.path("etc/memtrack/programs.conf"))
    image.config = "#" * 70000
    image.tool("enable", "b", status=1)
    image.config = "#" * 65520
    b.expect_in("too long", "64 KiB", image.tool("enable", "a-long-name", status=1))


def a_failed_write_leaves_the_old_file(b):
    image = Image(b)
    image.config = before = "[a]\n" + "# comment\n" * 200
    image.tool("enable", "b", status=1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
    b.expect("file", image.config, before)
    b.expect("left over", os.listdir(image.path("etc/memtrack")), ["programs.conf"])


def editors_wait_for_each_other(b):
    image = Image(b)
    started = [subprocess.Popen([b.tool, "enable", "p%d" % i, "--root=" + image.root], env=clean_environment(),
                                stdout=subprocess.DEVNULL) for i in range(8)]
    b.expect("statuses", [p.wait(60) for p in started], [0] * 8)
    b.expect("sections", sorted(line for line in image.config.splitlines() if line.startswith("[")),
             ["[p%d]" % i for i in range(8)])
    folder = os.open(image.path("etc/memtrack"), os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    begun = time.monotonic()
    b.expect_in("locked", "somebody else", image.tool("enable", "q", status=1))
    b.expect("waited", time.monotonic() - begun >= 4, True)
    os.close(folder)


UNIT = "etc/systemd/system/web.service.d/memtrack.conf"


def a_unit_gets_a_drop_in(b):
    image = Image(b)
    out = image.tool("enable", "--unit=web", "--mode=sample", "--options=output=/var/%e.%p.mtk label=a")
    b.expect_in("hint", "systemctl daemon-reload", out)
    b.expect("text", image.get(UNIT), "# written by 'memtrack enable', removed by 'memtrack disable'\n[Service]\n"
             'Environment="LD_PRELOAD=/usr/lib/libmemtrack.so"\n'
             'Environment="MEMTRACK_OPTIONS=mode=sample output=/var/%%e.%%p.mtk label=a"\n')
    b.expect("no program", image.config, None)
    image.tool("enable", "--unit=web.service", CHECK)
    b.expect("check", image.get(UNIT).splitlines()[2:], ['Environment="LD_PRELOAD=/usr/lib/libmemtrack.so"',
             'Environment="LIBC_DEBUG_MALLOC_OPTIONS=backtrace guard=32 free_track"'])
    image.tool("enable", "worker", "--unit=web", "--mode=stats")
    b.expect("program", image.get(UNIT).splitlines()[2:], ['Environment="LD_PRELOAD=/usr/lib/libmemtrack.so"'])
    b.expect_in("section", "[worker]\noptions = mode=stats\n", image.config)
    image.tool("disable", "--unit=web")
    b.expect("removed", image.get(UNIT), None)
    image.tool("disable", "--unit=web", status=1)


def a_unit_keeps_the_preload_that_it_has(b):
    image = Image(b)
    image.put("usr/lib/systemd/system/web.service", "[Service]\nExecStart=/bin/web\n"
              "Environment=A=1 'LD_PRELOAD=/usr/lib/libjemalloc.so.2' B=2\n")
    image.tool("enable", "--unit=web")
    b.expect_in("merged", '"LD_PRELOAD=/usr/lib/libmemtrack.so:/usr/lib/libjemalloc.so.2"', image.get(UNIT))
    image.put("etc/systemd/system/web.service.d/allocator.conf", '[Service]\nEnvironment="LD_PRELOAD=/x/y.so"\n')
    image.tool("enable", "--unit=web")
    b.expect_in("of the drop-in", '"LD_PRELOAD=/usr/lib/libmemtrack.so:/x/y.so"', image.get(UNIT))


def the_loaders_list_is_changed_and_changed_back(b):
    image = Image(b)
    for before in (None, "# about\n/usr/lib/other.so   # why\n", "/a.so:/b.so"):
        if before is not None:
            image.put("etc/ld.so.preload", before)
        image.tool("enable", "--system-wide")
        b.expect("list", image.list, {None: LIBRARY + "\n", "/a.so:/b.so": LIBRARY + "\n/a.so:/b.so"}.get(
            before, "# about\n" + LIBRARY + "\n/usr/lib/other.so   # why\n"))
        b.expect_in("again", "already", image.tool("enable", "--system-wide"))
        image.tool("disable", "--system-wide")
        b.expect("back", image.list, before)
    b.expect_in("twice", "does not name", image.tool("disable", "--system-wide"))


def a_bad_library_never_gets_into_the_list(b):
    image = Image(b)
    folder = os.path.join(b.options.build, "tests", "enable")
    for kind, say in (("PRINTS", "bad library"), ("DIES", "signal 6"), ("CHANGES", "status 3")):
        image.library(os.path.join(folder, "libenable_%s.so" % kind))
        b.expect_in(kind, say, image.tool("enable", "--system-wide", status=1))
    image.put(LIBRARY, "no library\n")
    image.tool("enable", "--system-wide", status=1)
    os.unlink(image.path(LIBRARY))
    image.tool("enable", "--system-wide", status=1)
    b.expect("list", image.list, None)


def a_library_that_others_can_change_is_refused(b):
    image = Image(b)
    for what, change in (("file", lambda: os.chmod(image.path(LIBRARY), 0o666)),
                         ("unreadable", lambda: os.chmod(image.path(LIBRARY), 0o640)),
                         ("folder", lambda: os.chmod(image.path("usr"), 0o777)),
                         ("closed folder", lambda: os.chmod(image.path("usr"), 0o700))):
        os.chmod(image.path("usr"), 0o755)
        os.chmod(image.path(LIBRARY), 0o644)
        change()
        b.expect_in(what, "image/usr", image.tool("enable", "--system-wide", status=1))
        image.tool("enable", "--unit=web", status=1)
    b.expect("list", image.list, None)


def a_library_that_services_may_not_see_needs_force(b):
    image = Image(b)
    os.makedirs(image.path("home/me"))
    shutil.copy(image.path(LIBRARY), image.path("home/me/libmemtrack.so"))
    for words in (["--system-wide"], ["--unit=web"]):
        out = image.tool("enable", "--library=/home/me/libmemtrack.so", *words, status=1, library=None)
        b.expect_in("refused", "cannot see", out)
    b.expect("written", [image.list, image.get(UNIT)], [None, None])
    image.tool("enable", "--library=/home/me/libmemtrack.so", "--system-wide", "--force", library=None)
    b.expect("list", image.list, "/home/me/libmemtrack.so\n")


def a_system_with_small_programs_needs_force(b):
    image = Image(b)
    image.put("lib/ld-linux.so.2", "")
    b.expect_in("refused", "32-bit", image.tool("enable", "--system-wide", status=1))
    image.tool("enable", "--system-wide", "--force")
    b.expect("list", image.list, LIBRARY + "\n")


def a_program_and_all_of_the_system_at_once(b):
    image = Image(b)
    out = image.tool("enable", "nginx", CHECK, "--system-wide")
    b.expect("no hint", "nothing loads" in out, False)
    b.expect_in("program", "[nginx]", image.config)
    b.expect("list", image.list, LIBRARY + "\n")
    b.expect_in("shown", "every program loads '%s'" % LIBRARY, image.tool("enable", "--list"))


sys.exit(main([
    a_program_is_named_in_a_new_file,
    what_is_written_is_what_the_tracker_reads,
    what_is_there_stays,
    a_mistake_is_refused_and_nothing_changes,
    a_section_stands_where_it_counts,
    disabling_keeps_the_section_for_later,
    the_list_says_what_is_wrong,
    a_file_that_the_tracker_would_not_read_is_not_changed,
    a_failed_write_leaves_the_old_file,
    editors_wait_for_each_other,
    a_unit_gets_a_drop_in,
    a_unit_keeps_the_preload_that_it_has,
    the_loaders_list_is_changed_and_changed_back,
    a_bad_library_never_gets_into_the_list,
    a_library_that_others_can_change_is_refused,
    a_library_that_services_may_not_see_needs_force,
    a_system_with_small_programs_needs_force,
    a_program_and_all_of_the_system_at_once,
]))
