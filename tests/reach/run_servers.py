#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack leaks on real programs at work, each with seven lost blocks (seed.c): these are found, and beside them only what
is known to be lost there (NOISE), and the programs are as before. With the allocator that each brings, and with mimalloc.

  run_servers.py --build DIR [-k WORD]
"""
import argparse
import json
import os
import pwd
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
STOP_MS_MAX, KEYS, LOOKS = 25, 1000000, 3

# Blocks that the programs themselves lose: most bytes, how many at most, a function of their call stacks, and why.
NOISE = {
    "java": ((128, 2, "JLI_MemAlloc", "the launcher's texts of two options, which it never frees"),
             (64, 1, "Compiler::initialize", "the arena in which the first compiler made its tables")),
    "postgres": ((512, 1, "save_ps_display_args", "its copy of the environment, when setenv() has made another one"),
                 (64, 2, "", "what only that copy pointed to, and the path of the data directory")),
}

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
JAVA = """
import java.util.*;
public class Load {
    public static void main(String[] args) throws Exception {
        Map<String, byte[]> map = new HashMap<>();
        for (int i = 0; i < 200000; i++) map.put("key" + i, new byte[100]);
        for (int t = 0; t < 4; t++) {
            Thread thread = new Thread(() -> {
                long sum = 0;
                for (int i = 0; i < 1000000; i++) sum += ("k" + i).hashCode();
                synchronized (map) { map.put("sum" + sum, new byte[1]); }
                try { Thread.sleep(1000000); } catch (InterruptedException e) { }
            });
            thread.setDaemon(true);
            thread.start();
        }
        Thread.sleep(3000);
        System.gc();
        new java.io.File("ready").createNewFile();
        Thread.sleep(1000000);
    }
}
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

    def start(self, command, is_tracked, user=None, **more):
        preload = [self.build + "/libmemtrack.so"] * is_tracked + [self.seed] + [MIMALLOC] * (self.allocator == "mimalloc")
        return subprocess.Popen(command, env=dict(self.env, LD_PRELOAD=":".join(preload), **more), cwd=self.dir,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True, user=user)

    def wait_for(self, name):
        self.wait_until(lambda: os.path.exists(os.path.join(self.dir, name)), name)

    def wait_until(self, condition, what):
        until = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError(what)
            time.sleep(0.05)

    def leaks(self, pid, *args):
        return subprocess.run([self.build + "/memtrack", "leaks", str(pid), "--json", *args], env=self.env,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


# ---- what a look must leave as it is ----

def read(pid, name):
    with open("/proc/%d/%s" % (pid, name), encoding="utf-8") as f:
        return f.read()


def facts_of(pid):
    kept, facts = ("TracerPid", "FDSize", "Threads", "Seccomp"), {}
    for tid in os.listdir("/proc/%d/task" % pid):
        rows = dict(line.split(":\t", 1) for line in read(pid, "task/%s/status" % tid).splitlines())
        facts.update({(tid, k): v.strip() for k, v in rows.items() if k.startswith(("Sig", "Shd")) or k in kept})
        facts.pop((tid, "SigQ"))  # of all processes of the user
    facts["mappings"] = [line.split()[0] for line in read(pid, "maps").splitlines()]
    return facts


def children_of(pid):
    return [int(t) for t in read(pid, "task/%d/children" % pid).split()]


def files_of(pid):
    return set(os.listdir("/proc/%d/fd" % pid))


def shared_kib(pid):
    return int(dict(line.split(":", 1) for line in read(pid, "status").splitlines())["RssShmem"].split()[0])


# ---- what is found ----

def take_noise(leaks, name, is_tracked):
    """Takes out what is known to be lost; the rest."""
    left = list(leaks)
    for size, most, function, _ in NOISE.get(name, ()):
        for _ in range(most):
            for leak in left:
                names = " ".join(str(f.get("function")) for f in leak.get("stack", ()))
                if leak["bytes"] <= size and (not is_tracked or function in names):
                    left.remove(leak)
                    break
    return left


def count_seeds(b, found, is_tracked):
    size = SEED_BYTES if is_tracked else SLOT_BYTES[b.allocator]
    seeds = [l for l in found["leaks"] if l["bytes"] == size]
    return seeds, sum(1 + l["similar"]["count"] for l in seeds)


def check_found(b, pid, found, name, is_tracked):
    seeds, got = count_seeds(b, found, is_tracked)
    # one may be held by chance: an old word points somewhere into it
    if got == SEEDED - 1:
        got = count_seeds(b, json.loads(b.leaks(pid, "--no-interior").stdout), is_tracked)[1]
    problems = [] if got == SEEDED else ["%d of %d blocks were found" % (got, SEEDED)]
    others = take_noise([l for l in found["leaks"] if l not in seeds], name, is_tracked)
    return problems + ["%d bytes at 0x%x are lost: %s" % (l["bytes"], l["address"], [f.get("function") for f in l.get("stack", ())])
                       for l in others] + found["warnings"]


def check(b, pid, name, is_tracked, tap):
    """Some looks: all find the same, the shortest stop counts, and the process is as before."""
    problems, stops = [], []
    before, shared, children, files = facts_of(pid), shared_kib(pid), children_of(pid), files_of(pid)
    for _ in range(LOOKS):
        done = b.leaks(pid)
        if done.returncode:
            return [done.stderr]
        found = json.loads(done.stdout)
        problems += check_found(b, pid, found, name, is_tracked)
        stops.append(found["stop_ns"] / 1e6)
        if found["source"] != "copy":
            problems.append("no copy was made")
        if problems:
            break
    tap.note("%s: %d blocks reachable, %d of them from inside only; %d lost, %d of them seeded; stopped %.1f to %.1f ms, %.0f MiB "
             "at %.0f MiB/s" % (name, found["reachable"]["count"], found["reachable_by_interior_pointers_only"]["count"],
                                found["lost"]["count"], count_seeds(b, found, is_tracked)[1], min(stops), max(stops),
                                found["scanned_bytes"] / 1048576,
                                found["scanned_bytes"] / 1048576 / max(found["scan_ns"], 1) * 1e9))
    if min(stops) > STOP_MS_MAX:
        problems.append("it stood still for %.1f ms" % min(stops))
    after = facts_of(pid)
    problems += ["%s: %r, before %r" % (k, after.get(k), before[k]) for k in before if after.get(k) != before[k]]
    if set(children_of(pid)) - set(children) or files_of(pid) - files:  # some may have ended, connections too
        problems.append("it has more children or descriptors")
    if shared_kib(pid) > shared + 256:
        problems.append("it has %d KiB of shared memory, before %d" % (shared_kib(pid), shared))
    return problems


# ---- the programs ----

def run_python(b, is_tracked, tap):
    p = b.start(["/usr/bin/python3", "-c", LOAD], is_tracked, **({"PYTHONMALLOC": "malloc"} if is_tracked else {}))
    try:
        b.wait_for("ready")
        return check(b, p.pid, "python3", is_tracked, tap)
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
        return check(b, p.pid, "nginx", is_tracked, tap)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def run_redis(b, is_tracked, tap):
    p = b.start(["redis-server", "--port", "0", "--unixsocket", b.dir + "/redis", "--save", "", "--dir", b.dir,
                 "--enable-debug-command", "yes"], is_tracked)
    try:
        b.wait_for("redis")
        cli = ["redis-cli", "-s", b.dir + "/redis"]
        for i in range(50):
            subprocess.run([*cli, "rpush", "list%d" % i, *map(str, range(100))], check=True, stdout=subprocess.DEVNULL,
                           timeout=TIMEOUT_S)
        subprocess.run([*cli, "debug", "populate", str(KEYS)], check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
        size = subprocess.run([*cli, "dbsize"], check=True, capture_output=True, text=True, timeout=TIMEOUT_S).stdout
        problems = [] if int(size) == KEYS + 50 else ["it has %s keys" % size]
        return problems + check(b, p.pid, "redis", is_tracked, tap)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def postgres_bin():
    found = sorted(os.listdir("/usr/lib/postgresql")) if os.path.isdir("/usr/lib/postgresql") else []
    return "/usr/lib/postgresql/%s/bin/" % found[-1] if found else ""


class Postgres:
    """A server with a table, which refuses to run as root, and a connection in the middle of a query."""

    def __init__(self, b, is_tracked):
        user = "nobody" if not os.geteuid() else None
        self.b, self.data, self.client = b, b.dir + "/data", None
        os.mkdir(self.data, 0o700)
        os.chmod(b.dir, 0o755)
        if user:
            os.chown(self.data, pwd.getpwnam(user).pw_uid, -1)
            b.env["MEMTRACK_STATE_DIR"] = self.data
        name = user or pwd.getpwuid(os.geteuid()).pw_name
        subprocess.run([postgres_bin() + "initdb", "-D", self.data, "-A", "trust", "-U", name], env=b.env, cwd=self.data,
                       user=user, check=True, capture_output=True, timeout=TIMEOUT_S)
        self.psql = ["psql", "-h", self.data, "-U", name, "-d", "postgres"]
        self.process = b.start([postgres_bin() + "postgres", "-D", self.data, "-k", self.data, "-c", "listen_addresses=", "-c",
                                "autovacuum=off"], is_tracked, user=user)

    def sql(self, text):
        return subprocess.run([*self.psql, "-Atc", text], env=self.b.env, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_S)

    def connect(self):
        """The process of the connection."""
        self.b.wait_until(lambda: self.sql("select 1").stdout == "1\n", "postgres")
        self.sql("create table t as select i, md5(i::text) as m from generate_series(1, 100000) i")
        self.client = subprocess.Popen([*self.psql, "-c", "begin; declare c cursor for select a.m from t a join t b using (i) "
                                        "order by 1; fetch 10 from c; select pg_sleep(1000)"], env=self.b.env,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        sleeper = "select pid from pg_stat_activity where wait_event = 'PgSleep'"
        self.b.wait_until(lambda: self.sql(sleeper).stdout, "the query")
        return int(self.sql(sleeper).stdout)

    def end(self):
        if self.client:
            self.client.kill()
            self.client.wait()
        self.process.send_signal(signal.SIGQUIT)  # it takes its shared memory away
        self.process.wait(TIMEOUT_S)


def run_postgres(b, is_tracked, tap):
    p = Postgres(b, is_tracked)
    try:
        connection = p.connect()
        problems = check(b, p.process.pid, "postgres", is_tracked, tap)
        # what the server lost before the fork, the process of a connection has lost, too; there is no table of that
        return problems if is_tracked else problems + check(b, connection, "postgres", False, tap)
    finally:
        p.end()


def run_java(b, is_tracked, tap):
    with open(b.dir + "/Load.java", "w", encoding="ascii") as f:
        f.write(JAVA)
    subprocess.run(["javac", "-d", b.dir, b.dir + "/Load.java"], env=b.env, check=True, timeout=TIMEOUT_S)
    p = b.start(["java", "-Xmx256m", "-cp", b.dir, "Load"], is_tracked)
    try:
        b.wait_for("ready")
        time.sleep(1)  # its compilers come to rest
        return check(b, p.pid, "java", is_tracked, tap)
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("-k", default="")
    options = parser.parse_args()
    tap = Tap()
    programs = (("/usr/bin/python3", run_python, ("glibc", "mimalloc")), ("nginx", run_nginx, ("glibc", "mimalloc")),
                ("redis-server", run_redis, ("jemalloc", "mimalloc")), (postgres_bin() + "postgres", run_postgres, ("glibc",)),
                ("javac", run_java, ("glibc",)))
    runs = [(p, f, a, t) for p, f, allocators in programs for a in allocators for t in (False, True)]
    for program, function, allocator, is_tracked in runs:
        name = "%s, %s, %s" % (os.path.basename(program).replace("javac", "java"), allocator,
                               "tracked" if is_tracked else "untracked")
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
