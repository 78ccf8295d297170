# SPDX-License-Identifier: MIT
"""
Kills by a memory group of cgroup version 2, in a virtual machine of its own: the kernel ends the program
alone, or its whole group (memory.oom.group), launcher and all. What had been allocated is in the state.

  run_guest.py --build DIR

Needs qemu-system-x86_64, busybox-static, and a kernel: $MT_TEST_KERNEL, or the newest /boot/vmlinuz-*.
"""
import argparse
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

TIMEOUT_S = 300
CASES = ("program alone", "whole group", "launcher in the group")

INIT = """#!/bin/sh
export PATH=/bin
mkdir -p /proc /sys /dev/shm /tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t cgroup2 cgroup /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
group() { # NAME OOM_GROUP
	mkdir /sys/fs/cgroup/$1
	echo 64M >/sys/fs/cgroup/$1/memory.max
	echo $2 >/sys/fs/cgroup/$1/memory.oom.group
}
report() { # CASE STATUS FILE...
	echo "CASE $1"
	echo "STATUS $2 $(tr '\\n' ' ' </tmp/out)"
	shift 2
	for file; do
		memtrack report "$file" --json --no-cache >/tmp/json 2>/tmp/errors
		echo "REPORT $? $(tr -d '\\n' </tmp/json)"
	done
}
group a 0
LD_PRELOAD=/lib/libmemtrack.so MEMTRACK_STATE_DIR=/tmp/a hungry /sys/fs/cgroup/a/cgroup.procs >/tmp/out 2>&1
report "program alone" $? /tmp/a/*.mtk
echo "EVENTS $(tr '\\n' ' ' </sys/fs/cgroup/a/memory.events)"
group b 1
(sh -c 'echo $$ >/sys/fs/cgroup/b/cgroup.procs && exec sleep 100'; echo "SLEEPER $?" >/tmp/sleeper) &
while ! grep -q . /sys/fs/cgroup/b/cgroup.procs; do :; done
memtrack run --report=none -o /tmp/b.mtk -- hungry /sys/fs/cgroup/b/cgroup.procs >/tmp/out 2>&1
report "whole group" $? /tmp/b*.mtk
wait
cat /tmp/sleeper
echo "EVENTS $(tr '\\n' ' ' </sys/fs/cgroup/b/memory.events)"
group c 1
mkdir /dev/shm/c
sh -c 'echo $$ >/sys/fs/cgroup/c/cgroup.procs && exec memtrack run --report=none -o /tmp/c.mtk -- hungry' >/tmp/out 2>&1
report "launcher in the group" $? /dev/shm/memtrack-*/*.mtk
echo "EVENTS $(tr '\\n' ' ' </sys/fs/cgroup/c/memory.events)"
echo DONE
poweroff -f
"""


class Skip(Exception):
    """The machine lacks what a test needs."""


def find_tools():
    kernels = [os.environ.get("MT_TEST_KERNEL")] if "MT_TEST_KERNEL" in os.environ else sorted(glob.glob("/boot/vmlinuz-*"))
    for name, found in (("qemu-system-x86_64", shutil.which("qemu-system-x86_64")), ("busybox", shutil.which("busybox")),
                        ("a kernel (MT_TEST_KERNEL or /boot/vmlinuz-*)", kernels and os.access(kernels[-1], os.R_OK))):
        if not found:
            raise Skip("needs " + name)
    return kernels[-1]


def libraries_of(path):
    text = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", text)


def put(root, path, where):
    target = os.path.join(root, where.lstrip("/"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if not os.path.exists(target):
        shutil.copy(path, target)
        os.chmod(target, 0o755)


def make_root(root, build):
    """Files of the guest: busybox, memtrack, the program, and the libraries that they need."""
    program = os.path.join(root, "bin", "hungry")
    os.makedirs(os.path.dirname(program))
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O1", "-g", "-fno-builtin", os.path.join(HERE, "hungry.c"), "-o", program],
                   check=True)
    put(root, os.path.join(build, "memtrack"), "/bin/memtrack")
    put(root, os.path.realpath(os.path.join(build, "libmemtrack.so")), "/lib/libmemtrack.so")
    put(root, os.path.realpath(os.path.join(build, "libmemtrack.so")), "/bin/libmemtrack.so")
    put(root, shutil.which("busybox"), "/bin/busybox")
    for applet in "sh mount mkdir echo tr grep cat sleep poweroff".split():
        os.symlink("busybox", os.path.join(root, "bin", applet))
    for path in [os.path.join(build, "memtrack"), program]:
        for library in libraries_of(path):
            put(root, os.path.realpath(library), library)
    for name in "tmp/a", "dev", "proc", "sys":
        os.makedirs(os.path.join(root, name), exist_ok=True)
    with open(os.path.join(root, "init"), "w", encoding="ascii") as f:
        f.write(INIT.replace("mount -t tmpfs tmpfs /tmp\n", "mount -t tmpfs tmpfs /tmp\nmkdir -m 700 /tmp/a\n"))
    os.chmod(os.path.join(root, "init"), 0o755)
    if os.getuid() == 0:
        os.mknod(os.path.join(root, "dev", "console"), 0o600 | stat.S_IFCHR, os.makedev(5, 1))
        os.mknod(os.path.join(root, "dev", "null"), 0o666 | stat.S_IFCHR, os.makedev(1, 3))


def run_guest(build):
    """What the guest printed, by case."""
    kernel = find_tools()
    with tempfile.TemporaryDirectory(prefix="memtrack-test-guest-") as work:
        root, image = os.path.join(work, "root"), os.path.join(work, "image")
        make_root(root, build)
        subprocess.run("find . | busybox cpio -o -H newc >%s 2>/dev/null" % image, shell=True, cwd=root, check=True)
        fast = ["-enable-kvm", "-cpu", "host"] if os.access("/dev/kvm", os.R_OK | os.W_OK) else ["-cpu", "max"]
        command = ["qemu-system-x86_64", "-m", "768", "-smp", "1", "-nographic", "-no-reboot", "-nic", "none",
                   "-kernel", kernel, "-initrd", image, "-append", "console=ttyS0 quiet panic=-1"]
        done = subprocess.run(command + fast, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False, errors="replace")
        if "CASE" not in done.stdout and fast[0] == "-enable-kvm": # no nested machines here
            done = subprocess.run(command + ["-cpu", "max"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=TIMEOUT_S, check=False, errors="replace")
    if "DONE" not in done.stdout:
        raise RuntimeError("the guest did not come to its end: %s %s" % (done.stdout[-2000:], done.stderr[-300:]))
    return done.stdout


def words(text, name):
    return re.findall(r"^%s (.*?)\r?$" % name, text, re.M)


def check_case(case, text):
    problems, status = [], words(text, "STATUS")[0]
    if not status.startswith("137 hungry"):
        problems.append("status and output: %s" % status)
    events = dict(re.findall(r"(\w+) (\d+)", words(text, "EVENTS")[0]))
    if int(events["oom_kill"]) < 1:
        problems.append("the kernel killed nothing: %s" % events)
    if case == "whole group" and words(text, "SLEEPER") != ["137"]:
        problems.append("the group's other process: %s" % words(text, "SLEEPER"))
    if case != "program alone" and int(events["oom_group_kill"]) != 1:
        problems.append("the group was not killed: %s" % events)
    counts = []
    for line in words(text, "REPORT"):
        code, report = line.split(" ", 1)
        report = json.loads(report)
        if code != "0":
            problems.append("report: exit %s" % code)
        counts.append(report["live_count"])
    # 64 MiB are 660 blocks of 100777 bytes, less what the tracker's own file takes
    if not any(300 <= count <= 700 for count in counts):
        problems.append("%s blocks in the states of about 640" % counts)
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    options = parser.parse_args()
    tap = Tap()
    try:
        text = run_guest(os.path.abspath(options.build))
    except Skip as why:
        for case in CASES:
            tap.skip(case, why)
        return tap.done()
    parts = re.split(r"^CASE (.*?)\r?$", text, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2]))
    for case in CASES:
        tap.ok("cgroup 2 kill: " + case, check_case(case, found[case]) if case in found else ["did not run"])
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
