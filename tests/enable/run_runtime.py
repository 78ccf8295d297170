#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
The library as it reads the configuration file in a process.

  run_runtime.py --build DIR [-k SUBSTRING]
"""
import os
import random
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from bench import DEFAULT, Skip, clean_environment, main, mtk

SUBJECT = "[enable_subject]\n"


def a_listed_program_is_tracked_with_its_options(b):
    config = b.write("c", "# first\n[other]\n" + SUBJECT + "options = depth=17 min-size=3\n")
    p = b.run([b.subject], config)
    b.expect("status and stderr", (p.status, p.err), (7, ""))
    state = b.state_of(p.pid)
    if not state:
        b.problems.append("not tracked")
        return
    b.expect("options", state.options, "depth=17 follow=all min-size=3 config=%s:3" % config)
    b.expect("blocks of 1234 bytes", [x.size for x in state.blocks() if x.size == 1234], [1234])


def another_program_is_left_alone(b):
    config = b.write("c", "[somebody-else]\n")
    bare = b.run([b.subject], preload=False)
    p = b.run([b.subject], config)
    b.expect("status and stderr", (p.status, p.err), (bare.status, bare.err))
    b.expect("output", re.sub("pid=.*", "", p.out), re.sub("pid=.*", "", bare.out))
    b.expect_tracked("it", p.pid, False)


def it_has_the_descriptors_and_mappings_that_it_would_have(b):
    config = b.write("c", "[somebody-else]\n")
    script = "ls -l /proc/self/fd | grep -vc ' /proc/'; ls /proc/self/task | wc -l; grep -c memtrack- /proc/self/maps"
    bare = b.run(["sh", "-c", script], preload=False)
    p = b.run(["sh", "-c", script], config)
    b.expect("descriptors, threads, state mappings", p.out, bare.out)
    b.expect("stderr", p.err, "")


def a_wish_in_the_environment_counts_instead(b):
    config = b.write("c", SUBJECT + "options = depth=17\n[*]\nenabled = no\n")
    for env in ({"MEMTRACK_MODE": "full"}, {"MEMTRACK_OPTIONS": "depth=5"}):
        p = b.run([b.subject], config, env=env)
        state = b.state_of(p.pid)
        b.expect("options with %s" % env, state and "config=" in state.options, False)
    p = b.run([b.subject], config, env={"MEMTRACK_MODE": "off"})
    b.expect_tracked("mode off", p.pid, False)
    # an empty one is no wish
    p = b.run([b.subject], config, env={"MEMTRACK_MODE": ""})
    b.expect_in("options", "depth=17", b.state_of(p.pid).options)


def without_a_file_the_preload_tracks_as_it_always_did(b):
    if os.path.exists(DEFAULT):
        raise Skip("this machine has a " + DEFAULT)
    p = b.run([b.subject])
    state = b.state_of(p.pid)
    b.expect("options", state and state.options, "depth=64 follow=all")


def the_first_section_that_fits_decides(b):
    config = b.write("c", "[enable_x*]\n[enable_s*]\noptions = depth=3\n" + SUBJECT + "options = depth=4\n")
    b.expect_in("options", "depth=3", b.state_of(b.run([b.subject], config).pid).options)
    config = b.write("c", SUBJECT + "enabled = no\n[*]\n")
    b.expect_tracked("disabled", b.run([b.subject], config).pid, False)


def a_program_is_known_by_the_name_it_is_started_with(b):
    link = b.path("nickname")
    os.symlink(b.subject, link)
    config = b.write("c", "[nickname]\n")
    b.expect_tracked("link", b.run([link], config).pid, True)
    b.expect_tracked("file", b.run([b.subject], config).pid, False)
    b.expect_tracked("argv[0]", b.run(["/some/where/nickname"], config, executable=b.subject).pid, True)
    script = b.write("job.sh", "#!%s alone\n" % b.subject, 0o755)
    b.expect_tracked("script", b.run([script], b.write("c", "[job.sh]\n")).pid, True)


def a_part_of_the_name_is_not_enough(b):
    b.expect_tracked("it", b.run([b.subject], b.write("c", "[enable_subjec]\n")).pid, False)
    b.expect_tracked("it", b.run([b.subject], b.write("c", "[*subjec*]\n")).pid, True)


def a_mistake_in_its_section_leaves_the_program_alone(b):
    for text in ("limit = many\n", "colour = red\n", "options = depth=1000\n", "options = frobnicate\n",
                 "nonsense\n", "enabled = no\nenabled = yes\n"):
        p = b.run([b.subject], b.write("c", SUBJECT + text + "[*]\n"))
        b.expect("status and stderr with %r" % text, (p.status, p.err), (7, ""))
        b.expect_tracked("%r" % text, p.pid, False)


def check_mode_can_be_asked_for(b):
    p = b.run([b.subject], b.write("c", SUBJECT + "check = backtrace=9 guard\noptions = follow=none\n"))
    b.expect("status and stderr", (p.status, p.err), (7, ""))
    state = b.state_of(p.pid)
    b.expect("mode", state and state.mode, 4)
    b.expect_in("options", "follow=none", state.options)
    b.expect("depth", state.depth, 9)
    p = b.run([b.subject], b.write("c", SUBJECT + "check = frobnicate\n"))
    b.expect("status and stderr of a mistake", (p.status, p.err), (7, ""))
    b.expect_tracked("a mistake", p.pid, False)


def the_log_of_a_listed_program_goes_where_the_user_says(b):
    p = b.run([b.subject], b.write("c", SUBJECT + "check = leak_track\n"),
              env={"MEMTRACK_LOG": "file:" + b.path("log"), "MEMTRACK_LOG_PREFIX": "none", "MEMTRACK_DIR": b.work})
    b.expect("status and stderr", (p.status, p.err), (7, ""))
    with open(b.path("log")) as f:
        b.expect_in("log", "+++ %s leaked block of size 1234 at " % b.subject, f.readline()[:60 + len(b.subject)])


def check_mode_follows_into_an_empty_environment(b):
    p = b.run(["env", "-i", b.subject], env={"LIBC_DEBUG_MALLOC_OPTIONS": "guard"})
    b.expect("status and stderr", (p.status, p.err), (7, ""))
    states = [mtk.State(path) for path in b.files_of(p.pid)]
    b.expect("modes", [s.mode for s in states if s.exe == os.path.realpath(b.subject)], [4])


def mistakes_elsewhere_are_counted(b):
    p = b.run([b.subject], b.write("c", "what\n[a]\ncolour = red\n[b\n" + SUBJECT))
    b.expect_in("options", "config-problems=3", b.state_of(p.pid).options)


def only_processes_of_the_user(b):
    me = os.getuid()
    config = b.write("c", SUBJECT + "user = %d\n" % (me + 1))
    b.expect_tracked("another's", b.run([b.subject], config).pid, False)
    config = b.write("c", SUBJECT + "user = %d\n" % (me + 1) + SUBJECT + "user = %d\n" % me)
    b.expect_tracked("mine", b.run([b.subject], config).pid, True)


def a_file_that_cannot_be_trusted_is_not_read(b):
    good = SUBJECT
    cases = [("writable by all", b.write("world", good, 0o666)), ("writable by the group", b.write("group", good, 0o664)),
             ("missing", b.path("missing")), ("a folder", b.work),
             ("too large", b.write("large", good + "#" * 65536))]
    os.mkfifo(b.path("fifo"))
    os.symlink(b.write("real", good), b.path("link"))
    cases += [("a pipe", b.path("fifo")), ("a link", b.path("link"))]
    if os.getuid() == 0:
        os.chown(b.write("foreign", good), 12345, 0)
        cases.append(("somebody else's", b.path("foreign")))
    for what, path in cases:
        p = b.run([b.subject], path)
        b.expect("status, " + what, p.status, 7)
        b.expect_tracked(what, p.pid, False)
        b.expect("lines, " + what, p.err.count("\n"), 1)
        b.expect_in("stderr, " + what, "MEMTRACK_CONFIG", p.err)
    b.expect_tracked("a good one", b.run([b.subject], b.write("good", good)).pid, True)


def any_bytes_are_harmless(b):
    rng = random.Random(5)
    words = [b"[", b"]", b"\n", b"=", b"*", b"?", b"enable_subject", b"check", b"options", b"limit", b"user", b"\0",
             b"enabled", b"yes", b"999999999999", b" ", b"#", b"\xff", b"secure", b"x" * 300, b"-", b"depth=3"]
    for i in range(60):
        text = b"".join(rng.choice(words) for _ in range(rng.randrange(1, 200)))
        p = b.run([b.subject], b.write("c", text))
        b.expect("status and stderr with %r" % text, (p.status, p.err), (7, ""))
        if b.problems:
            return


def at_most_so_many_at_once(b):
    config = b.write("c", SUBJECT + "limit = 2\n")
    running = []
    for _ in range(4):
        p = b.start([b.subject, "wait"], config)
        b.wait_for_line(p, "secure")
        running.append(p)
    b.expect("tracked of four", [b.is_tracked(p.pid) for p in running], [True, True, False, False])
    b.end(running[0])
    late = b.start([b.subject, "wait"], config)
    b.wait_for_line(late, "secure")
    b.expect_tracked("one more after one ended", late.pid, True)
    for p in running[1:] + [late]:
        b.expect("status and stderr", (lambda r: (r.status, r.err))(b.end(p)), (7, ""))


def the_limit_holds_when_many_start_at_once(b):
    config = b.write("c", SUBJECT + "limit = 3\n")
    running = [b.start([b.subject, "wait"], config) for _ in range(12)]
    for p in running:
        b.wait_for_line(p, "secure")
    tracked = [b.is_tracked(p.pid) for p in running].count(True)
    b.expect("tracked: 1 to 3, here %d" % tracked, 1 <= tracked <= 3, True)


def an_instance_that_was_killed_does_not_count(b):
    config = b.write("c", SUBJECT + "limit = 1\n")
    p = b.start([b.subject, "wait"], config)
    b.wait_for_line(p, "secure")
    p.kill()
    p.wait()
    b.expect_tracked("the first", p.pid, True)
    b.expect_tracked("the next", b.run([b.subject], config).pid, True)


def limits_of_two_sections_do_not_mix(b):
    config = b.write("c", SUBJECT + "limit = 1\n[nickname]\nlimit = 1\n")
    other = b.path("nickname")
    shutil.copy(b.subject, other)
    first = b.start([b.subject, "wait"], config)
    b.wait_for_line(first, "secure")
    b.expect_tracked("the other program", b.run([other], config).pid, True)


def forked_children_are_followed_and_executed_ones_ask_again(b):
    other = b.path("other")
    shutil.copy(b.subject, other)
    p = b.run([b.subject, "fork"], b.write("c", SUBJECT))
    child = int(p.value("child"))
    b.expect_tracked("forked child", child, True)
    p = b.run([b.subject, "fork"], b.write("c", SUBJECT + "options = follow=none\n"))
    b.expect_tracked("forked child with follow=none", int(p.value("child")), False)
    p = b.run([b.subject, "exec", other], b.write("c", SUBJECT))
    b.expect("files of a program that became another one", len(b.files_of(p.pid)), 1)
    p = b.run([b.subject, "exec", other], b.write("c", "[other]\n"))
    b.expect("files of one that became a listed one", len(b.files_of(p.pid)), 1)
    p = b.run([b.subject, "exec", other], b.write("c", "[other]\n" + SUBJECT))
    b.expect("files of two listed ones", len(b.files_of(p.pid)), 2)


def of_two_copies_of_the_library_one_tracks(b):
    copies = []
    for name in ("one", "two"):
        os.mkdir(b.path(name))
        copies.append(shutil.copy(b.lib, b.path(name + "/libmemtrack.so")))
    for env in ({}, {"MEMTRACK_MODE": "full"}):
        p = b.run([b.subject], b.write("c", SUBJECT), preload=False, env=dict(env, LD_PRELOAD=":".join(copies)))
        b.expect("status and stderr", (p.status, p.err), (7, ""))
        b.expect("state files", len(b.files_of(p.pid)), 1)
    p = b.run([b.subject], preload=False, env={"MEMTRACK_OPTIONS": "frobnicate", "LD_PRELOAD": ":".join(copies)})
    b.expect("lines about a mistake", (p.status, p.err.count("\n")), (7, 1))


def programs_of_another_libc_are_named_alike(b):
    if not shutil.which("musl-gcc"):
        raise Skip("musl-gcc is not installed")
    program = b.path("musl_subject")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "subject.c")
    subprocess.run(["musl-gcc", "-O1", source, "-o", program], check=True, timeout=60)
    b.expect_tracked("named", b.run([program], b.write("c", "[musl_subject]\n")).pid, True)
    p = b.run([program], b.write("c", "[other]\n"))
    b.expect("status and stderr", (p.status, p.err), (7, ""))
    b.expect_tracked("not named", p.pid, False)


def the_state_can_be_reported(b):
    config = b.write("c", SUBJECT)
    p = b.start([b.subject, "wait"], config)
    b.wait_for_line(p, "secure")
    done = subprocess.run([b.tool, "report", str(p.pid), "--show=live", "--no-symbols"], env=clean_environment(),
                          capture_output=True, text=True, timeout=60, check=False)
    b.expect("report's status", done.returncode, 0)
    b.expect_in("report", "enable_subject", done.stdout)


def each_function_reaches_its_original(b):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "each.c")
    for compiler in ("cc", "musl-gcc"):
        if not shutil.which(compiler):
            continue
        program = b.path("each-" + compiler)
        subprocess.run([compiler, "-O1", "-D_GNU_SOURCE", source, "-o", program, "-pthread", "-ldl"], check=True,
                       timeout=60)
        bare = b.run([program], preload=False)
        b.expect("bare, " + compiler, (bare.status, bare.err, "fails" in bare.out), (7, "", False))
        for env, config in (({}, b.write("c", "[nobody]\n")), ({"MEMTRACK_MODE": "off"}, None)):
            p = b.run([program], config, env=env)
            b.expect("%s with %s" % (compiler, env), (p.status, p.out, p.err), (bare.status, bare.out, bare.err))
            b.expect_tracked(compiler, p.pid, False)


# What /bin/true may cost more when the library is loaded and has nothing to do than with an empty library.
OWN_INSTRUCTIONS, OWN_CALLS = 30000, 15


def empty_library(b):
    path = b.path("empty.so")
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", path], check=True, timeout=60)
    return {"LD_PRELOAD": path}


def unlisted(b):
    return {"LD_PRELOAD": b.lib, "MEMTRACK_CONFIG": b.write("c", "[nobody]\n")}


def count_instructions(env):
    done = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "/bin/true"],
                          env={"PATH": os.environ["PATH"], **env}, capture_output=True, text=True, timeout=120,
                          check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found[1]) if found else None


def count_calls(b, env):
    options = [x for name, value in env.items() for x in ("-E", name + "=" + value)]
    log = b.path("calls")
    done = subprocess.run(["strace", "-o", log, *options, "/bin/true"], env={"PATH": os.environ["PATH"]},
                          capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise Skip("strace counts nothing here: " + done.stderr.strip()[:100])
    with open(log) as f:
        return sum(1 for line in f if re.match(r"\w+\(", line))


def a_program_that_is_not_listed_pays_few_instructions(b):
    if not shutil.which("valgrind"):
        raise Skip("valgrind is not installed")
    empty, off = count_instructions(empty_library(b)), count_instructions(unlisted(b))
    if not empty or not off:
        raise Skip("valgrind counts nothing here")
    b.expect("%d instructions more than with an empty library" % (off - empty), off - empty <= OWN_INSTRUCTIONS, True)


def a_program_that_is_not_listed_pays_few_system_calls(b):
    if not shutil.which("strace"):
        raise Skip("strace is not installed")
    own = count_calls(b, unlisted(b)) - count_calls(b, empty_library(b))
    b.expect("%d system calls more than with an empty library" % own, own <= OWN_CALLS, True)


sys.exit(main([
    a_listed_program_is_tracked_with_its_options,
    another_program_is_left_alone,
    it_has_the_descriptors_and_mappings_that_it_would_have,
    a_wish_in_the_environment_counts_instead,
    without_a_file_the_preload_tracks_as_it_always_did,
    the_first_section_that_fits_decides,
    a_program_is_known_by_the_name_it_is_started_with,
    a_part_of_the_name_is_not_enough,
    a_mistake_in_its_section_leaves_the_program_alone,
    check_mode_can_be_asked_for,
    the_log_of_a_listed_program_goes_where_the_user_says,
    check_mode_follows_into_an_empty_environment,
    mistakes_elsewhere_are_counted,
    only_processes_of_the_user,
    a_file_that_cannot_be_trusted_is_not_read,
    any_bytes_are_harmless,
    at_most_so_many_at_once,
    the_limit_holds_when_many_start_at_once,
    an_instance_that_was_killed_does_not_count,
    limits_of_two_sections_do_not_mix,
    forked_children_are_followed_and_executed_ones_ask_again,
    of_two_copies_of_the_library_one_tracks,
    programs_of_another_libc_are_named_alike,
    the_state_can_be_reported,
    each_function_reaches_its_original,
    a_program_that_is_not_listed_pays_few_instructions,
    a_program_that_is_not_listed_pays_few_system_calls,
]))
