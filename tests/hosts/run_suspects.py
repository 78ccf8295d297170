#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
Leaks seeded into real servers: memtrack timeline names the right call site first, and not the cache beside it.

usage: run_suspects.py MEMTRACK LIBRARY LEAKY
"""
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.tap import Tap  # noqa: E402

MEMTRACK, LIBRARY, LEAKY = [os.path.abspath(a) for a in sys.argv[1:4]]
SNAPSHOTS = ["run", "-q", "--snapshot-every=100ms", "-o", "%e.%p.mtk"]
LOAD_S = 8

NGINX = """daemon off;
worker_processes 1;
error_log stderr crit;
pid nginx.pid;
events { worker_connections 128; }
http {
	access_log off;
	client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;
	server { listen unix:http.sock; location / { return 200 "fixed $request_uri\\n"; } }
}
"""
PYTHON = """
import ctypes, json, random, sys, time
leaky, cache, end = ctypes.CDLL(sys.argv[1]), {}, time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    for _ in range(20):
        leaky.leaky_step()
    for _ in range(100):
        n = random.randrange(2000)
        cache[n] = "x" * 200 + str(n)
    [json.dumps(list(range(random.randrange(200)))) for _ in range(20)]
    time.sleep(0.02)
"""


class Trial:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="memtrack-test-suspects-")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("MEMTRACK") and k != "LD_PRELOAD"}
        self.env.update(MEMTRACK_LIB=LIBRARY, XDG_CACHE_HOME=os.path.join(self.dir, "cache"))
        self.problems = []
        self.process = None

    def start(self, *command, **env):
        self.process = subprocess.Popen([MEMTRACK, *SNAPSHOTS, *command], cwd=self.dir, env=dict(self.env, **env),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def wait_for_socket(self, name):
        end = time.monotonic() + 30
        while time.monotonic() < end:
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(os.path.join(self.dir, name))
                return
            except OSError:
                time.sleep(0.05)
        raise OSError("no server at " + name)

    def end(self, sig=None):
        if sig:
            self.process.send_signal(sig)
        _, err = self.process.communicate(timeout=60)
        if self.process.returncode not in (0, -15):
            self.problems.append("status %d: %s" % (self.process.returncode, err[-500:]))

    def timelines(self, program):
        for path in sorted(glob.glob(os.path.join(self.dir, program + "*.mtk"))):
            done = subprocess.run([MEMTRACK, "timeline", path, "--json"], env=self.env, capture_output=True, text=True,
                                  check=True, timeout=120)
            yield json.loads(done.stdout)["processes"][0]

    def check(self, line):
        """The leak comes first, the cache is no suspect."""
        names = [[f.get("function", "?") for f in s["frames"]] for s in line["sites"]]
        if not line["sites"][0]["suspect"] or "leak_here" not in names[0][:3]:
            self.problems.append("pid %d, %d snapshots: first is %s of %r, suspects %d" % (
                line["pid"], len(line["snapshots"]), line["sites"][0]["trend"]["verdict"] if "trend" in line["sites"][0] else "-",
                names[0][:4], line["suspects"]))
        for site, functions in zip(line["sites"], names):
            if "fill_cache" in functions and site["suspect"]:
                self.problems.append("the cache is called: %r" % site["trend"])

    def done(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process and self.process.stderr:
            self.process.stderr.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def python(trial):
    trial.start(sys.executable if "pyenv" not in sys.executable else "/usr/bin/python3", "-c", PYTHON, LEAKY, str(LOAD_S))
    trial.end()
    for line in trial.timelines("python"):
        trial.check(line)


def redis(trial):
    sock = os.path.join(trial.dir, "redis.sock")
    trial.start("redis-server", "--port", "0", "--save", "", "--unixsocket", sock, "--loadmodule", LEAKY)
    trial.wait_for_socket("redis.sock")
    end = time.monotonic() + LOAD_S
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(sock)
        f = s.makefile("rb")
        while time.monotonic() < end:
            subprocess.run(["redis-benchmark", "-s", sock, "-n", "500", "-r", "300", "-c", "5", "-q", "-t", "set,get,hset"],
                           stdout=subprocess.DEVNULL, check=True, timeout=60)
            s.sendall(b"*1\r\n$10\r\nleaky.step\r\n" * 20)
            for _ in range(20):
                if not f.readline().startswith(b":"):
                    raise OSError("the module does not answer")
    trial.end(signal.SIGTERM)
    for line in trial.timelines("redis-server"):
        trial.check(line)


def nginx(trial):
    with open(os.path.join(trial.dir, "nginx.conf"), "w", encoding="ascii") as f:
        f.write(NGINX)
    trial.start("nginx", "-p", trial.dir, "-e", "stderr", "-c", os.path.join(trial.dir, "nginx.conf"), LD_PRELOAD=LEAKY)
    trial.wait_for_socket("http.sock")
    for is_second in (False, True):
        end = time.monotonic() + LOAD_S
        while time.monotonic() < end:
            for _ in range(4):
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(os.path.join(trial.dir, "http.sock"))
                    s.sendall(b"GET /x HTTP/1.0\r\n\r\n")
                    while s.recv(4096):
                        pass
            time.sleep(0.01)
        trial.process.send_signal(signal.SIGQUIT if is_second else signal.SIGHUP)
    trial.end()
    workers = [line for line in trial.timelines("nginx") if line["snapshots"][-1]["live_bytes"] > 400 * 333]
    if len(workers) < 2:
        trial.problems.append("%d workers leaked, not 2" % len(workers))
    for line in workers:
        trial.check(line)


def main():
    tap = Tap()
    for name, server, function in (("python3", "python3", python), ("redis with a module", "redis-benchmark", redis),
                                   ("nginx with a reload", "nginx", nginx)):
        if not shutil.which(server):
            tap.skip(name, server + " is not installed")
            continue
        trial = Trial()
        try:
            function(trial)
            tap.ok(name, trial.problems)
        except (OSError, ValueError, KeyError, IndexError, subprocess.SubprocessError) as error:
            tap.ok(name, [*trial.problems, "%s: %s" % (type(error).__name__, error)])
        finally:
            trial.done()
    return tap.done()


if __name__ == "__main__":
    sys.exit(main())
