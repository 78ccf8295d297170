#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack leaks on real programs at work, each with seven lost blocks (seed.c): these are found, and nothing else. With the
allocator that each brings, and with mimalloc instead.

  run_servers.py --build DIR [-k WORD]
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.dont_write_bytecode = True
from tap import Tap

TIMEOUT_S = 120
SEEDED, SEED_BYTES = 7, 777
SLOT_BYTES = {"glibc": 792, "jemalloc": 896, "mimalloc": 896}  # what these give for it
MIMALLOC = "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2.0"

LOAD = """
import json, threading, time
class Node:
    def __init__(self, n): self.next, self.data = None, [n] * 5
head = None
for i in range(50000):
    n = Node(i); n.next = head; head = n
cache = {str(i): json.loads('{"a": [1, 2, %d]}' % i) for i in range(20000)}
threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
open("ready", "w").close()
time.sleep(300)
"""
NGINX = """
daemon off; master_process off; pid %(dir)s/nginx.pid; error_log %(dir)s/error.log;
events {} http { access_log off; client_body_temp_path %(dir)s; proxy_temp_path %(dir)s; fastcgi_temp_path %(dir)s;
uwsgi_temp_path %(dir)s; scgi_temp_path %(dir)s;
server { listen unix:%(dir)s/socket; location / { return 200 "hello"; } } }
"""


class Bench:
    def __init__(self, build, allocator):
        self.build, self.dir = os.path.abspath(build), tempfile.mkdtemp(prefix="memtrack-servers-")
        # no others: a copy of a variable may end in the middle of an old pointer, which then points into a seeded block
        self.env = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LANG")}
        self.allocator = allocator
        self.env.update(MEMTRACK_STATE_DIR=self.dir, XDG_CACHE_HOME=self.dir + "/cache")
        self.seed = self.dir + "/seed.so"
        subprocess.run(["gcc", "-O1", "-g", "-fno-builtin", "-shared", "-fPIC", os.path.join(HERE, "seed.c"), "-o", self.seed],
                       check=True, timeout=120)

    def start(self, command, is_tracked, **more):
        preload = [self.build + "/libmemtrack.so"] * is_tracked + [self.seed] + [MIMALLOC] * (self.allocator == "mimalloc")
        return subprocess.Popen(command, env=dict(self.env, LD_PRELOAD=":".join(preload), **more), cwd=self.dir,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True)

    def wait_for(self, name):
        until = time.monotonic() + TIMEOUT_S
        while not os.path.exists(os.path.join(self.dir, name)):
            if time.monotonic() > until:
                raise TimeoutError(name)
            time.sleep(0.05)

    def leaks(self, process, *args):
        return subprocess.run([self.build + "/memtrack", "leaks", str(process.pid), "--json", *args], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def check(b, done, is_tracked, tap):
    if done.returncode:
        return [done.stderr]
    found, size = json.loads(done.stdout), SEED_BYTES if is_tracked else SLOT_BYTES[b.allocator]
    tap.note("%d blocks reachable, %d of them from inside only; stopped %.1f ms, %.0f MiB/s" %
             (found["reachable"]["count"], found["reachable_by_interior_pointers_only"]["count"], found["stop_ns"] / 1e6,
              found["scanned_bytes"] / 1048576 / max(found["scan_ns"], 1) * 1e9))
    got = (found["lost"], [l["bytes"] for l in found["leaks"]])
    wanted = ({"count": SEEDED, "bytes": SEEDED * size}, [size] if is_tracked else [size] * SEEDED)
    return [] if got == wanted else ["%r, expected %r" % (got, wanted)]


def run_python(b, is_tracked, tap):
    p = b.start(["/usr/bin/python3", "-c", LOAD], is_tracked, **({"PYTHONMALLOC": "malloc"} if is_tracked else {}))
    try:
        b.wait_for("ready")
        return check(b, b.leaks(p), is_tracked, tap)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def run_nginx(b, is_tracked, tap):
    with open(b.dir + "/nginx.conf", "w", encoding="ascii") as f:
        f.write(NGINX % {"dir": b.dir})
    p = b.start(["nginx", "-c", b.dir + "/nginx.conf"], is_tracked)
    try:
        b.wait_for("socket")
        for _ in range(20):
            subprocess.run(["curl", "-s", "--unix-socket", b.dir + "/socket", "http://x/"], check=True, timeout=TIMEOUT_S,
                           stdout=subprocess.DEVNULL)
        return check(b, b.leaks(p), is_tracked, tap)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def run_redis(b, is_tracked, tap):
    p = b.start(["redis-server", "--port", "0", "--unixsocket", b.dir + "/redis", "--save", "", "--dir", b.dir], is_tracked)
    try:
        b.wait_for("redis")
        for i in range(50):
            subprocess.run(["redis-cli", "-s", b.dir + "/redis", "rpush", "list%d" % i, *map(str, range(100))], check=True,
                           stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
        return check(b, b.leaks(p), is_tracked, tap)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap = Tap()
    programs = (("/usr/bin/python3", run_python, "glibc"), ("nginx", run_nginx, "glibc"), ("redis-server", run_redis, "jemalloc"))
    runs = [(p, f, a, t) for p, f, own in programs for a in (own, "mimalloc") for t in (False, True)]
    for program, function, allocator, is_tracked in runs:
        name = "%s, %s, %s" % (os.path.basename(program), allocator, "tracked" if is_tracked else "untracked")
        if options.k not in name:
            continue
        if not shutil.which(program) or (allocator == "mimalloc" and not os.path.exists(MIMALLOC)):
            tap.skip(name, "not installed")
            continue
        b = Bench(options.build, allocator)
        try:
            tap.ok(name, function(b, is_tracked, tap))
        except (OSError, ValueError, subprocess.SubprocessError) as e:
            tap.ok(name, [repr(e)])
        finally:
            shutil.rmtree(b.dir, ignore_errors=True)
    return tap.done()


sys.exit(main())
