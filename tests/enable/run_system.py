#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The library in every program of a machine: a real /etc/ld.so.preload, in a mount namespace with a copy
of /etc and a /dev/shm of its own. Needs root; says so and skips without.

  run_system.py --build DIR [-k SUBSTRING]
"""
import glob
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import Skip, clean_environment, main

PLACE = os.environ.get("ENABLE_PLACE", "")
LIST, CONFIG = "/etc/ld.so.preload", "/etc/memtrack/programs.conf"
SETUP = """set -e
cp -a /etc "$ENABLE_PLACE/etc"
mount --bind "$ENABLE_PLACE/etc" /etc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755,suid,exec tmpfs "$ENABLE_PLACE/bin"
rm -rf /etc/ld.so.preload /etc/memtrack
exec "$@"
"""
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class System:
    def __init__(self, b, library=None):
        self.b = b
        self.library = os.path.join(PLACE, "lib", "libmemtrack.so")
        shutil.copy(os.path.realpath(library or b.lib), self.library + ".new")
        os.chmod(self.library + ".new", 0o755)
        os.rename(self.library + ".new", self.library)
        for path in (LIST, CONFIG):
            if os.path.exists(path):
                os.unlink(path)

    def tool(self, *words, status=0):
        command = [self.b.tool, *words]
        if "--system-wide" in words and words[0] == "enable":
            command += ["--force", "--library=" + self.library]
        p = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=120, check=False)
        self.b.expect("status of %s (%s)" % (" ".join(words), p.stderr.strip()), p.returncode, status)
        return p.stdout + p.stderr

    def run(self, argv, **more):
        return self.b.run(argv, preload=False, **more)


def states():
    return sorted(glob.glob("/dev/shm/memtrack-*/*.mtk"))


def with_variables(variables):
    """Sets them for the program only: this one and setpriv would follow them."""
    return ["env"] + ["%s=%s" % item for item in variables.items()]


def program(b, name, mode=0o755):
    path = os.path.join(PLACE, "bin", name)
    shutil.copy(b.subject, path)
    os.chmod(path, mode)
    return path


COMMANDS = (["true"], ["false"], ["sh", "-c", "echo a | cat; exit 3"], ["bash", "-c", "x=$(seq 5); echo $x"],
            ["python3", "-c", "import json, threading; print(json.dumps({'a': [1, 2]}))"], ["git", "--version"],
            ["perl", "-e", "print join(',', map { $_ * 2 } 1 .. 5), qq(\\n)"], ["ls", "/proc/self/task/../fd"],
            ["env", "-i", "/bin/echo", "bare"], ["su", "--version"], ["mount", "--version"], ["ldd", "/bin/true"])


def every_program_runs_as_before(b):
    system = System(b)
    commands = [c for c in COMMANDS if shutil.which(c[0])]
    before = [system.run(c) for c in commands[:-1]]
    system.tool("enable", "--system-wide")
    known = states()
    for command, bare in zip(commands, before):
        p = system.run(command)
        b.expect(" ".join(command), (p.status, p.out, p.err), (bare.status, bare.out, bare.err))
    b.expect("states", states(), known)
    b.expect("it is loaded", system.library in system.run(["cat", "/proc/self/maps"]).out, True)
    b.expect("static program", system.run([b.static]).status, 7)
    b.expect_in("of another user", "65534", system.run(NOBODY + ["id", "-u"]).out)


def a_named_program_is_tracked_and_no_other(b):
    system = System(b)
    one, two = program(b, "one"), program(b, "two")
    system.tool("enable", "one", "--options=depth=12", "--system-wide")
    p = system.run([one])
    b.expect("stderr", p.err, "")
    state = b.state_of(p.pid)
    b.expect_in("options", "depth=12", state.options if state else "")
    b.expect_tracked("another", system.run([two]).pid, False)
    b.expect_tracked("without an environment", system.run(["env", "-i", one]).pid, True)
    b.expect_tracked("of another user", int(system.run(NOBODY + [one]).value("pid")), True)
    p = system.run(["sh", "-c", one + "; exit 0"])
    b.expect_tracked("its parent", p.pid, False)
    b.expect_tracked("a child", int(p.value("pid")), True)
    b.expect("static program", system.run([b.static]).status, 7)
    system.tool("disable", "one")
    b.expect_tracked("disabled", system.run([one]).pid, False)
    system.tool("enable", "one")
    b.expect_tracked("enabled again", system.run([one]).pid, True)
    b.expect_tracked("run under memtrack", int(system.run(
        [b.tool, "run", "-q", "-o", b.path("x.mtk"), two]).value("pid")), False)
    b.expect("its file", os.path.exists(b.path("x.mtk")), True)


def without_a_file_nobody_is_tracked(b):
    system = System(b)
    one = program(b, "one")
    system.tool("enable", "--system-wide")
    b.expect_tracked("it", system.run([one]).pid, False)
    b.expect_tracked("with a wish", system.run([one], env={"MEMTRACK_MODE": "full"}).pid, True)


def programs_with_more_rights_believe_nobody(b):
    system = System(b)
    plain, rights = program(b, "plain"), program(b, "rights", 0o4755)
    if system.run(NOBODY + [rights]).value("secure") != "1":
        raise Skip("set-uid bits have no effect here")
    system.tool("enable", "plain", "--system-wide")
    everything = {"MEMTRACK_MODE": "full", "MEMTRACK_OPTIONS": "output=/etc/passwd", "MEMTRACK_STATE_DIR": b.work,
                  "MEMTRACK_CONFIG": b.write("c", "[*]\nsecure = yes\n"), "LIBC_DEBUG_MALLOC_OPTIONS": "guard"}
    known = states()
    # the loader takes TMPDIR out of their environment
    for env in (everything, dict(everything, TMPDIR=b.work), {"MEMTRACK_MODE": "full"}, {"MEMTRACK_MODE": "leak_report"}, {}):
        p = system.run(NOBODY + with_variables(env) + [rights])
        b.expect("status and stderr", (p.status, p.err), (7, ""))
        b.expect("rights", (p.value("user"), p.value("secure")), ("0", "1"))
    b.expect("files made", [states(), os.listdir(b.work)], [known, ["c"]])
    system.tool("enable", "rights")
    b.expect_tracked("named, but not allowed", int(system.run(NOBODY + [rights]).value("pid")), False)
    system.tool("enable", "rights", "--secure")
    p = system.run(NOBODY + with_variables(everything) + [rights])
    b.expect("stderr", p.err, "")
    b.expect("allowed", len(b.files_of(int(p.value("pid")))), 1)
    for path in b.files_of(int(p.value("pid"))):
        b.expect("owner of the state", os.stat(path).st_uid, 0)
        b.expect_in("place of the state", "/dev/shm/memtrack-0-0-", path)
    system.tool("enable", "rights", "--secure", "--check=guard")
    p = system.run(NOBODY + [rights])
    b.expect("stderr in check mode", p.err, "")
    b.expect("check mode", [x.mode for x in [b.state_of(int(p.value("pid")))] if x], [4])
    # the caller chooses argv[0]
    p = system.run(NOBODY + ["bash", "-c", "exec -a rights " + plain])
    b.expect_tracked("plain by argv[0]", int(p.value("pid")), True)
    system.tool("disable", "rights")
    system.tool("enable", "other", "--secure")
    p = system.run(NOBODY + ["bash", "-c", "exec -a other " + rights])
    b.expect_tracked("rights by argv[0]", int(p.value("pid")), False)


def programs_with_more_rights_are_checked_where_the_file_says_so(b):
    """Set-uid to another user than root, too; the caller chooses variables, working directory and signals, and gets nothing."""
    system = System(b)
    rights = program(b, "rights", 0o755)
    os.chown(rights, 65534, 65534)
    os.chmod(rights, 0o4755)
    caller = ["setpriv", "--reuid=1", "--regid=1", "--clear-groups"]
    if system.run(caller + [rights]).value("secure") != "1":
        raise Skip("set-uid bits have no effect here")
    here = b.path("here")
    os.mkdir(here)
    os.chmod(here, 0o777)
    system.tool("enable", "--system-wide")
    system.tool("enable", "rights", "--secure", "--check=backtrace guard record_allocs record_allocs_on_exit")
    everything = {"MEMTRACK_MODE": "off", "MEMTRACK_OPTIONS": "check-signals=none", "MEMTRACK_STATE_DIR": here,
                  "MEMTRACK_CONFIG": b.write("c", "[rights]\nenabled = no\n"), "LIBC_DEBUG_MALLOC_OPTIONS": "leak_track verbose",
                  "MEMTRACK_DIR": here, "TMPDIR": here, "MEMTRACK_LOG": "file:%s/log" % here, "MEMTRACK_LOG_PREFIX": "none"}
    for env in ({}, everything):
        p = system.run(caller + with_variables(env) + [rights, "damage", "raise", "46", "raise", "47"], cwd=here)
        pid = int(p.value("pid"))
        b.expect("status", (p.status, p.value("user"), p.value("secure")), (7, "65534", "1"))
        lines = [line for line in p.err.splitlines() if "+++" in line]
        b.expect("lines with %s" % env, (len(lines), lines and lines[0].startswith("malloc_debug: +++ ALLOCATION 0x")), (1, True))
        b.expect_in("report", " SIZE 24 HAS A CORRUPTED REAR GUARD", p.err)
        b.expect("files of the caller", os.listdir(here), [])
        [state] = b.files_of(pid)
        folder = os.path.dirname(state)
        b.expect_in("place of the state", "/dev/shm/memtrack-65534-0-", state)
        b.expect("its owner and mode", (os.stat(folder).st_uid, os.stat(folder).st_mode & 0o777), (65534, 0o700))
        b.expect("its files", sorted(f.replace(str(pid), "PID") for f in os.listdir(folder)),
                 ["PID.1.mtk", "backtrace_heap.PID.txt", "record_allocs.txt", "record_allocs.txt.PID"])
        b.expect("mode", b.state_of(pid).mode, 4)


def what_is_wrong_only_in_the_real_list_is_taken_back(b):
    folder = os.path.join(b.options.build, "tests", "enable")
    for before in (None, "# mine\n"):
        system = System(b, os.path.join(folder, "libenable_LATE.so"))
        if before:
            with open(LIST, "w") as f:
                f.write(before)
        b.expect_in("message", "bad library", system.tool("enable", "--system-wide", status=1))
        b.expect("list", open(LIST).read() if os.path.exists(LIST) else None, before)
        b.expect("stderr of a program", system.run(["true"]).err, "")


def another_library_that_is_missing_stops_the_change(b):
    system = System(b)
    with open(LIST, "w") as f:
        f.write("/no/such/library.so\n")
    b.expect_in("message", "/no/such/library.so", system.tool("enable", "--system-wide", status=1))
    with open(LIST) as f:
        b.expect("list", f.read(), "/no/such/library.so\n")
    os.unlink(LIST)


def a_file_of_somebody_else_names_nobody(b):
    system = System(b)
    one = program(b, "one")
    system.tool("enable", "one", "--system-wide")
    for mode, owner in ((0o666, 0), (0o644, 65534)):
        os.chmod(CONFIG, mode)
        os.chown(CONFIG, owner, 0)
        p = system.run([one])
        b.expect("status and stderr", (p.status, p.err), (7, ""))
        b.expect_tracked("mode %o, owner %d" % (mode, owner), p.pid, False)
        os.chmod(CONFIG, 0o644)
        os.chown(CONFIG, 0, 0)
    b.expect_tracked("root's", system.run([one]).pid, True)


def when_it_is_disabled_nothing_is_loaded_any_more(b):
    system = System(b)
    system.tool("enable", "--system-wide")
    system.tool("disable", "--system-wide")
    b.expect("list", os.path.exists(LIST), False)
    b.expect("loaded", "libmemtrack" in system.run(["cat", "/proc/self/maps"]).out, False)


TESTS = [
    every_program_runs_as_before,
    a_named_program_is_tracked_and_no_other,
    without_a_file_nobody_is_tracked,
    programs_with_more_rights_believe_nobody,
    programs_with_more_rights_are_checked_where_the_file_says_so,
    what_is_wrong_only_in_the_real_list_is_taken_back,
    another_library_that_is_missing_stops_the_change,
    a_file_of_somebody_else_names_nobody,
    when_it_is_disabled_nothing_is_loaded_any_more,
]


def skip_all(why):
    print("1..1\nok 1 - the library in every program # SKIP " + why)
    return 0


def outside():
    import tempfile
    if os.getuid():
        return skip_all("only root may have an /etc/ld.so.preload of its own")
    namespace = ["unshare", "-m", "--propagation", "private"]
    if not shutil.which("unshare") or not shutil.which("setpriv"):
        return skip_all("unshare or setpriv is not installed")
    with tempfile.TemporaryDirectory() as place:
        os.chmod(place, 0o755)
        os.mkdir(os.path.join(place, "lib"))
        os.mkdir(os.path.join(place, "bin"))
        env = dict(os.environ, ENABLE_PLACE=place)
        trial = subprocess.run(namespace + ["sh", "-c", SETUP, "sh", "true"], env=env, capture_output=True, text=True,
                               timeout=60, check=False)
        if trial.returncode:
            return skip_all("no mount namespace here: " + trial.stderr.strip().replace("\n", "; "))
        shutil.rmtree(os.path.join(place, "etc"))
        return subprocess.run(namespace + ["sh", "-c", SETUP, "sh", sys.executable] + sys.argv, env=env, timeout=170,
                              check=False).returncode


sys.exit(main(TESTS) if PLACE else outside())
