# SPDX-License-Identifier: MIT
"""Core files of running programs, for tests: by gdb, and by the kernel."""
import os
import re
import resource
import shutil
import signal
import subprocess

from cases import Skip

TIMEOUT_S = 280


def by_gdb(folder, p):
    """The process goes on. The file's path."""
    if not shutil.which("gcore"):
        raise Skip("gcore is not installed")
    subprocess.run(["gcore", "-o", folder + "/gdb", str(p.pid)], capture_output=True, timeout=TIMEOUT_S, check=True,
                   stdin=subprocess.DEVNULL)
    return "%s/gdb.%d" % (folder, p.pid)


def by_kernel(folder, p):
    """The process ends; `folder` is where it is at work."""
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as f:
        pattern = f.read().strip()
    if not re.match(r"[\w.%-]+$", pattern):
        raise Skip("the kernel writes core files elsewhere: " + pattern)
    resource.prlimit(p.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    p.send_signal(signal.SIGABRT)
    p.wait()
    found = [n for n in os.listdir(folder) if n.startswith("core")]
    if not found:
        raise Skip("the kernel wrote no core file")
    return os.path.join(folder, found[0])
