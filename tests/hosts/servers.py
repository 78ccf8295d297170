# SPDX-License-Identifier: MIT
"""Servers under load: every reply is compared, then what they hold, then how they end."""
import concurrent.futures
import functools
import hashlib
import http.server
import os
import re
import signal
import socket
import subprocess
import threading

from commands import lines, write
from ways import NOBODY, Host, descriptors, digest

NGINX = """daemon off;
worker_processes 2;
%s
error_log stderr warn;
pid %s/nginx.pid;
events { worker_connections 128; }
http {
	access_log off;
	client_body_temp_path %s/t1; proxy_temp_path %s/t2; fastcgi_temp_path %s/t3; uwsgi_temp_path %s/t4; scgi_temp_path %s/t5;
	gzip on; gzip_min_length 100; gzip_types text/plain; gzip_proxied any;
	types { text/plain txt; }
	server {
		listen unix:%s/http.sock;
		location / { root %s/www; autoindex off; }
		location /fixed { return 200 "fixed $request_uri\\n"; }
		location /proxy { rewrite ^/proxy(.*)$ $1 break; proxy_pass http://unix:%s/http.sock; }
	}
}
"""


def free_of(path):
    return lambda: os.path.exists(path)


def answers(path):
    def true():
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
            return True
        except OSError:
            return False
    return true


def stop(trial, process, name, sig=signal.SIGTERM):
    """Asks the server itself to end."""
    os.kill(trial.server_pid(process), sig)
    trial.finish(process, name, 60)


def add_descriptors(trial, process):
    """Once all clients are gone: one socket, the one that listens."""
    pid = trial.server_pid(process)
    trial.wait_until("end of connections", lambda: descriptors(pid).count("socket:") == 1, process)
    trial.outcome.add("descriptors", descriptors(pid))


# ---- redis ---------------------------------------------------------------------------------------

def redis_script():
    """Deterministic commands over all types of values."""
    out = []
    for i in range(6000):
        key = (i * 7919) % 1500
        out.append(("SET s%d %s", "LPUSH l%d %s", "HSET h%d f%s x", "ZADD z%d %d m", "SADD t%d %s", "APPEND s%d %s",
                    "RPOP l%d", "DEL h%d", "EXPIRE z%d 90000", "SETRANGE s%d 100 %s", "INCR n%d", "SPOP none%d")[i % 12].replace(
                        "%d", str(key), 1).replace("%s", "v" * (i % 90 + 1)).replace("%d", str(i)))
    return ("\n".join(out) + "\n").encode()


def redis_run(trial):
    path = os.path.join(trial.dir, "redis.sock")
    server = trial.popen(["redis-server", "redis.conf", "--unixsocket", path])
    trial.wait_until("socket", answers(path), server)
    cli = functools.partial(subprocess.run, capture_output=True, timeout=60, check=False)
    base = ["redis-cli", "-s", path]
    trial.outcome.add("replies", cli(base, input=redis_script()).stdout)
    load = cli(["redis-benchmark", "-s", path, "-n", "4000", "-c", "20", "-P", "4", "-q", "-t", "set,get,lpush,lrange_100,hset,mset"])
    trial.outcome.add("benchmark", re.sub(rb"[\d.]+", b"", load.stdout.replace(b"\r", b"\n").splitlines()[-2]) + load.stderr)
    for words in ("DEBUG DIGEST", "DBSIZE", "BGSAVE", "EVAL return{redis.call('dbsize'),'lua'} 0", "CONFIG GET maxmemory"):
        trial.outcome.add(words, cli(base + words.split()).stdout)
    trial.wait_until("dump", free_of(os.path.join(trial.dir, "dump.rdb")), server)
    # the pipes to the child that saves go when the server has noticed its end
    trial.wait_until("end of the save", lambda: b"rdb_bgsave_in_progress:0" in cli(base + ["INFO", "persistence"]).stdout, server)
    trial.outcome.add("reload", cli(base + ["DEBUG", "RELOAD"]).stdout + cli(base + ["DEBUG", "DIGEST"]).stdout)
    trial.outcome.add("flush", cli(base + ["FLUSHALL", "ASYNC"]).stdout)
    add_descriptors(trial, server)
    stop(trial, server, "redis-server")


def redis_prepare(directory):
    write(directory, "redis.conf", "port 0\nsave \"\"\nappendonly no\nenable-debug-command yes\nlogfile \"redis.log\"\n"
          "activedefrag no\n")


# ---- nginx ---------------------------------------------------------------------------------------

def nginx_prepare(directory):
    for i in range(20):
        write(directory, "www/f%d.txt" % i, lines(20 + 60 * i, i))
    for path in [os.path.join(directory, "www")] + [directory]:
        os.chmod(path, 0o755)


def http_get(path, requests):
    """All replies on one connection, less what tells the time."""
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(path)
        f, out = s.makefile("rb"), []
        for request in requests:
            s.sendall(b"GET %s HTTP/1.1\r\nHost: a\r\nAccept-Encoding: %s\r\n\r\n" % (
                request.encode(), b"gzip" if len(request) % 2 else b"identity"))
            out.append(read_reply(f))
    return out


def read_reply(f):
    head, length, chunked = [], 0, False
    for line in iter(f.readline, b"\r\n"):
        if not line:
            return b"closed"
        lower = line.lower()
        length = int(lower.split(b":")[1]) if lower.startswith(b"content-length") else length
        chunked |= lower.startswith(b"transfer-encoding") and b"chunked" in lower
        if not lower.startswith((b"date:", b"last-modified:", b"etag:")):
            head.append(line)
    body = f.read(length) if not chunked else b""
    while chunked:
        size = int(f.readline(), 16)
        body += f.read(size)
        f.readline()
        if not size:
            break
    return b"".join(head) + hashlib.sha256(body).hexdigest().encode()


def nginx_run(trial, user_line=""):
    d = trial.dir
    path = os.path.join(d, "http.sock")
    trial.clean = [(rb"(?m)\d+#\d+: \*\d+ ", b""), (rb"(?m)^\d{4}/\d\d/\d\d \S+ ", b"")]
    write(d, "nginx.conf", NGINX % ((user_line, d) + (d,) * 8))
    server = trial.popen(["nginx", "-p", d, "-e", "stderr", "-c", os.path.join(d, "nginx.conf")])
    trial.wait_until("socket", answers(path), server)
    requests = [["/f%d.txt" % ((i * 7 + k) % 22) if i % 4 else ("/fixed/%d", "/proxy/f%d.txt")[i // 4 % 2] % (i % 9)
                 for i in range(60)] for k in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for k, replies in enumerate(pool.map(functools.partial(http_get, path), requests)):
            trial.outcome.add("client %d" % k, b"\n".join(replies))
    master = trial.server_pid(server)
    old = set(trial.children(master))
    os.kill(master, signal.SIGHUP)
    # an old worker closes connections that it had taken when the signal came
    trial.wait_until("end of the old workers", lambda: not old & set(trial.children(master)), server)
    trial.outcome.add("after reload", b"\n".join(http_get(path, requests[0])))
    stop(trial, server, "nginx", signal.SIGQUIT)


def nginx_as_root(trial):
    nginx_run(trial, "user nobody nogroup;" if not os.getuid() else "")


# ---- memcached -----------------------------------------------------------------------------------

def memcached_run(trial):
    path = os.path.join(trial.dir, "memcached.sock")
    server = trial.popen(["memcached", "-s", path, "-t", "4", "-m", "64", "-u", "root"])
    trial.wait_until("socket", answers(path), server)

    def client(k):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(path)
            f, out = s.makefile("rb"), hashlib.sha256()
            for i in range(1500):
                value = b"v%d" % i * (i % 300 + 1)
                s.sendall(b"set k%d-%d 0 0 %d\r\n%s\r\n" % (k, i, len(value), value))
                out.update(f.readline())
            for i in range(1500):
                s.sendall(b"get k%d-%d\r\n" % (k, i))
                for line in iter(f.readline, b"END\r\n"):
                    out.update(line)
            s.sendall(b"delete k%d-1\r\nincr none 1\r\nappend k%d-2 0 0 3\r\nabc\r\ntouch k%d-3 0\r\nbogus\r\n" % (k, k, k))
            for _ in range(5):
                out.update(f.readline())
        return out.hexdigest()
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        trial.outcome.add("replies", "\n".join(pool.map(client, range(5))))
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(b"stats\r\n")
        stats = b"".join(iter(s.makefile("rb").readline, b"END\r\n"))
    trial.outcome.add("stats", b"\n".join(line for line in stats.splitlines() if line.split()[1] in (
        b"curr_items", b"total_items", b"bytes", b"evictions", b"cmd_set", b"cmd_get", b"get_hits", b"threads")))
    add_descriptors(trial, server)
    stop(trial, server, "memcached")


# ---- postgres ------------------------------------------------------------------------------------

SQL = """CREATE TABLE t(id int PRIMARY KEY, name text, value numeric);
INSERT INTO t SELECT i, 'name ' || i % 97, i * 7919 % 10007 FROM generate_series(1, 20000) i;
CREATE INDEX ON t(name, value);
SELECT name, count(*), sum(value) FROM t GROUP BY name ORDER BY 3 DESC, 1 LIMIT 20;
SELECT count(*) FROM t a JOIN t b ON a.value = b.value WHERE a.id < b.id;
SELECT md5(string_agg(x::text, ',' ORDER BY id)) FROM (SELECT id, t AS x FROM t) s;
CREATE FUNCTION f(n int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN IF n < 2 THEN RETURN n; END IF; RETURN f(n - 1) + f(n - 2); END $$;
SELECT f(15);
SELECT jsonb_agg(to_jsonb(t) ORDER BY id) -> 3 FROM t WHERE id < 50;
SELECT 1 / 0;
VACUUM ANALYZE t;
"""


def postgres_run(trial):
    if not os.getuid():
        trial.user = NOBODY
        for root, dirs, files in os.walk(trial.dir):
            for name in [root] + [os.path.join(root, x) for x in dirs + files]:
                os.chown(name, NOBODY, NOBODY)
    trial.extra.update(HOME=trial.dir, PGTZ="UTC", PGUSER="test")
    trial.run(["initdb", "-D", "data", "-N", "-U", "test", "-A", "trust", "--locale=C", "-E", "UTF8"])
    trial.clean = [(rb"(?m)^\S+ \S+ UTC \[\d+\] ", b""), (rb"(?m)(checkpoint complete: wrote \d+ buffers).*", rb"\1")]
    one_line = SQL.replace("$$ BEGIN", "$$BEGIN").encode()
    trial.run(["postgres", "--single", "-j", "-D", "data", "postgres"], "single user",
                stdin=one_line.replace(b";\n", b";\n\n"))
    server = trial.popen(["postgres", "-D", "data", "-k", trial.dir, "-c", "listen_addresses=", "-c", "fsync=off", "-c",
                            "log_min_messages=panic", "-c", "max_parallel_workers_per_gather=2", "-c",
                            "logging_collector=on"])
    trial.wait_until("socket", answers(os.path.join(trial.dir, ".s.PGSQL.5432")), server)
    base = ["psql", "-X", "-q", "-h", trial.dir, "-d", "postgres", "-U", "test", "-At"]

    def client(k):
        sql = "CREATE TEMP TABLE u AS SELECT * FROM t WHERE id %% 7 = %d; SELECT count(*), sum(value) FROM u; SELECT f(12);" % k
        return subprocess.run(base + ["-c", sql], capture_output=True, timeout=60, check=False)
    trial.wait_until("answer", lambda: not client(0).returncode, server)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(client, range(6)))
    trial.outcome.add("clients", b"".join(d.stdout + d.stderr for d in done))
    stop(trial, server, "postgres", signal.SIGINT)


# ---- clients of a local server ---------------------------------------------------------------------

class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return "Thu, 01 Jan 1970 00:00:00 GMT"


def curl_run(trial):
    handler = functools.partial(Quiet, directory=os.path.join(trial.dir, "www"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = "http://127.0.0.1:%d/" % server.server_address[1]
    trial.clean = [(rb"after \d+ ms", b"after some ms")]
    try:
        trial.run(["curl", "-s", "-S", "-i", url + "f3.txt"], "headers")
        trial.run(["curl", "-s", "-Z", "--no-progress-meter", "--parallel-max", "5", "--create-dirs", "-o", "got/f#1.txt", url + "f[0-19].txt"], "parallel")
        trial.run(["curl", "-s", "-f", url + "absent"], "absent")
        trial.run(["curl", "-s", "-S", "http://127.0.0.1:1/"], "refused")
        trial.outcome.add("files", digest(trial.dir))
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


HOSTS = [
    Host("redis", redis_run, redis_prepare, ["redis-server", "redis-cli", "redis-benchmark"], quick=True),
    Host("nginx", nginx_run, nginx_prepare, ["nginx"], quick=True),
    Host("nginx that drops its rights", nginx_as_root, nginx_prepare, ["nginx"]),
    Host("memcached", memcached_run, None, ["memcached"], quick=True),
    Host("postgres", postgres_run, None, ["initdb", "postgres", "psql"]),
    Host("curl", curl_run, nginx_prepare, ["curl"], quick=True),
]
