# SPDX-License-Identifier: MIT
"""
Real programs at real work. A workload is a function that gets a Tracked: where it may write, and how it
starts a program under the tracker. NEEDS are the programs without which it is left out; QUICK ones run in
each test run, all of them in the suite soak.
"""
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "oracle")]
import run_oracle
from run_oracle import write

TIMEOUT_S = 300
WORKLOADS = []


class Failed(Exception):
    """The program did not do what it was asked to."""


class Workload:
    def __init__(self, name, function, needs, quick):
        self.name, self.function, self.needs, self.quick = name, function, needs, quick

    def missing(self):
        return [name for name in self.needs if not shutil.which(name)]


def workload(name, *needs, quick=False):
    def add(function):
        WORKLOADS.append(Workload(name, function, needs, quick))
        return function
    return add


class Tracked:
    """Programs under `memtrack run`, in a directory of their own."""

    def __init__(self, memtrack, directory, options=()):
        self.dir = directory
        self.states = os.path.join(directory, "states")
        os.mkdir(self.states)
        self.prefix = [memtrack, "run", "-q", "-o", self.states + "/%e.%p.mtk", *options, "--"]
        self.user = None
        self.started = []

    def environment(self, more=None):
        env = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": self.dir, "LC_ALL": "C", "TZ": "UTC",
               "XDG_CACHE_HOME": self.dir, "GIT_CONFIG_NOSYSTEM": "1"}
        for name in "AUTHOR", "COMMITTER":
            env.update({"GIT_%s_NAME" % name: "A", "GIT_%s_EMAIL" % name: "a@example.org"})
        env.update(more or {})
        return env

    def be_nobody(self):
        """For programs that refuse to run as root."""
        if os.geteuid():
            return
        self.user = pwd.getpwnam("nobody").pw_uid
        os.chown(self.dir, self.user, -1)
        os.chown(self.states, self.user, -1)

    def start(self, command, env=None, **how):
        how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, **how}
        started = subprocess.Popen(self.prefix + command, cwd=self.dir, env=self.environment(env), text=True,
                                   errors="replace", user=self.user, **how)
        self.started.append(started)
        return started

    def end(self, started, timeout=TIMEOUT_S):
        """Waits for it; a Failed unless it ended well."""
        try:
            _, errors = started.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as error:
            started.kill()
            raise Failed("'%s' did not end in %d s" % (started.args[-1], timeout)) from error
        if started.returncode:
            raise Failed("exit status %d: %s" % (started.returncode, (errors or "")[-600:]))

    def run(self, command, env=None, **how):
        self.end(self.start(command, env, **how))

    def bare(self, command, **how):
        """Another program that is not tracked."""
        return subprocess.run(command, cwd=self.dir, env=self.environment(), timeout=TIMEOUT_S, user=self.user,
                              **{"check": True, "stdin": subprocess.DEVNULL, "capture_output": True, **how})

    def wait_socket(self, started, path):
        """Until somebody listens at the UNIX socket."""
        for _ in range(TIMEOUT_S * 20):
            if started.poll() is not None:
                raise Failed("ended at once: " + started.stderr.read()[-600:])
            with socket.socket(socket.AF_UNIX) as s:
                try:
                    s.connect(path)
                    return
                except OSError:
                    time.sleep(0.05)
        raise Failed("nobody listens")

    def stop_all(self):
        for started in self.started:
            if started.poll() is None:
                started.send_signal(signal.SIGKILL)
                started.wait()


def lines(directory, count=60000):
    write(directory, "lines.txt", run_oracle.words(count))


def source_tree(directory, files=12):
    """C and C++ sources with a makefile's worth of work in them."""
    for i in range(files):
        write(directory, "u%d.cc" % i, "#include <algorithm>\n#include <map>\n#include <string>\n#include <vector>\n"
              "int f%d(std::map<std::string, std::vector<int>> &m) { for (auto &e : m) std::sort(e.second.begin(), "
              "e.second.end()); return m[\"x%d\"].size(); }\n" % (i, i))
        write(directory, "c%d.c" % i, "#include <stdio.h>\n#include <stdlib.h>\nint g%d(int n) { int s = 0; for (int i = 0; "
              "i < n; i++) s += i * %d; return s + atoi(\"1\"); }\n" % (i, i + 1))
    write(directory, "main.c", "int main(void) { return 0; }\n")


@workload("sort", "sort", quick=True)
def run_sort(t):
    lines(t.dir)
    t.run(["sort", "--parallel=4", "-S8M", "-k2,2", "-k1,1n", "-o", "out.txt", "lines.txt"])


@workload("bash", "bash", quick=True)
def run_bash(t):
    write(t.dir, "s.sh", "declare -A m; f() { local x=$1; [ $x -le 0 ] || f $((x - 1)); }\n"
          "for i in {1..300}; do m[k$i]=$i; s=\"$s${m[k$i]}\"; f 5; done; trap 'y=$s' USR1; kill -USR1 $$\n"
          "for i in 1 2 3; do v=$(echo $i | cat); (exit 0); done; eval 'printf -v z %s \"$s\"'\n")
    t.run(["bash", "s.sh"])


@workload("find and xargs", "find", "xargs", quick=True)
def run_find(t):
    t.run(["bash", "-c", "find /usr/share -maxdepth 3 -type d -name '*a*' -print0 | xargs -0 -n 200 -P 2 ls -ld"])


@workload("gawk", "gawk", quick=True)
def run_gawk(t):
    lines(t.dir, 20000)
    t.run(["gawk", "{ s[$2] += $1; gsub(/word/, \"w\"); t = t substr($0, 1, 2) } length(t) > 5000 { t = \"\" } "
           "END { n = asorti(s, k); for (i = 1; i <= n; i++) print k[i], s[k[i]] }", "lines.txt"])


@workload("jq", "jq", quick=True)
def run_jq(t):
    run_oracle.prepare_json(t.dir)
    t.run(["jq", "-c", "[.[] | .tags += [\"x\"]] | group_by(.name) | map({(.[0].name): (map(.id) | add)}) | tojson",
           "doc.json"])


@workload("perl", "perl", quick=True)
def run_perl(t):
    t.run(["perl", "-e", "use strict; my %h; for (1..20000) { my $k = $_ % 977; $h{$k} .= \"x$_\" if \"k$k\" =~ /^k(\\d+)/ }"
           "sub d { my $n = shift; return $n ? d($n - 1) : [1] } d(30) for 1..200;"
           "print scalar(sort { length($h{$a}) <=> length($h{$b}) } keys %h); eval 'die {a => 1}' for 1..100;"])


@workload("sqlite3", "sqlite3", quick=True)
def run_sqlite(t):
    run_oracle.prepare_sql(t.dir)
    t.run(["sqlite3", "-batch", "t.db", ".read script.sql", "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 "
           "FROM c LIMIT 20000) SELECT count(DISTINCT x * 7 % 1013) FROM c;"])


@workload("openssl", "openssl")
def run_openssl(t):
    t.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", "k.pem", "-out",
           "c.pem"])
    t.run(["openssl", "speed", "-seconds", "1", "-bytes", "1024", "-evp", "aes-256-gcm"])
    t.run(["openssl", "speed", "-seconds", "1", "sha256", "ecdsap256", "rsa2048"])
    t.run(["openssl", "verify", "-CAfile", "c.pem", "c.pem"])


@workload("curl, http", "curl")
def run_curl(t):
    server = subprocess.Popen([sys.executable, "-c", "import http.server as h\ns = h.ThreadingHTTPServer(('127.0.0.1', 0), "
                               "h.SimpleHTTPRequestHandler)\nprint(s.server_port, flush=True)\ns.serve_forever()"],
                              cwd=t.dir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    t.started.append(server)
    write(t.dir, "page", run_oracle.words(2000))
    url = "http://localhost:%d/page?[1-200]" % int(server.stdout.readline())
    t.run(["curl", "-s", "-Z", "--parallel-max", "8", "-o", "/dev/null", url])


@workload("curl, https", "curl", "openssl")
def run_curl_tls(t):
    t.bare(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-keyout", "k.pem",
            "-out", "c.pem"])
    server = subprocess.Popen([sys.executable, "-c", "import http.server as h, ssl\ns = h.ThreadingHTTPServer(('127.0.0.1', "
                               "0), h.SimpleHTTPRequestHandler)\nc = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
                               "c.load_cert_chain('c.pem', 'k.pem')\ns.socket = c.wrap_socket(s.socket, True)\n"
                               "print(s.server_port, flush=True)\ns.serve_forever()"],
                              cwd=t.dir, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    t.started.append(server)
    write(t.dir, "page", run_oracle.words(2000))
    url = "https://localhost:%d/page?[1-40]" % int(server.stdout.readline())
    t.run(["curl", "-s", "--cacert", "c.pem", "-o", "/dev/null", url])


@workload("tar and xz", "tar", "xz", quick=True)
def run_tar(t):
    lines(t.dir, 200000)
    t.run(["tar", "-I", "xz -1 -T2 --block-size=1MiB", "-cf", "out.tar.xz", "lines.txt"])
    t.run(["tar", "-xJf", "out.tar.xz", "--to-stdout"])


@workload("git", "git", quick=True)
def run_git(t):
    os.mkdir(t.dir + "/repo")
    run_oracle.prepare_git(t.dir + "/repo")
    t.run(["git", "clone", "-q", "--no-local", "repo", "copy"])
    t.run(["git", "-C", "repo", "-c", "core.pager=cat", "log", "-p", "--stat"])
    t.run(["git", "-C", "repo", "gc", "-q", "--aggressive"])
    t.run(["git", "-C", "repo", "-c", "core.pager=cat", "blame", "file1.txt"])


@workload("gcc", "gcc", "g++", quick=True)
def run_gcc(t):
    source_tree(t.dir, 2)
    t.run(["gcc", "-O2", "-g", "-pipe", "-o", "main", "main.c", "c0.c", "c1.c"])
    t.run(["g++", "-O2", "-g", "-c", "u0.cc"])


@workload("make, gcc and lto", "make", "gcc", "g++")
def run_make(t):
    source_tree(t.dir)
    write(t.dir, "Makefile", "O := $(patsubst %.cc,%.o,$(wildcard u*.cc)) $(patsubst %.c,%.o,$(wildcard c*.c main.c))\n"
          "all: $O\n\tg++ -flto=2 -O2 -o all $O\n%.o: %.cc\n\tg++ -O2 -g -flto -c -o $@ $<\n%.o: %.c\n\tgcc -O2 -g -flto -c -o $@ $<\n")
    t.run(["make", "-j2", "-s"])


@workload("clang and lld", "clang", "ld.lld")
def run_clang(t):
    source_tree(t.dir, 3)
    t.run(["clang", "-O2", "-g", "-fuse-ld=lld", "-o", "main", "main.c", "c0.c", "c1.c"])
    t.run(["clang++", "-O2", "-g", "-c", "u0.cc"])


@workload("rustc", "rustc")
def run_rustc(t):
    write(t.dir, "m.rs", "use std::collections::HashMap;\nfn main() { let mut m: HashMap<String, Vec<u32>> = HashMap::new();\n"
          "for i in 0..1000u32 { m.entry(format!(\"k{}\", i % 37)).or_default().push(i); }\n"
          "let h: Vec<_> = (0..4).map(|i| std::thread::spawn(move || vec![i; 1000].iter().map(|x| x.to_string())."
          "collect::<Vec<_>>().len())).collect();\nprintln!(\"{} {}\", m.len(), h.into_iter().map(|t| t.join().unwrap()).sum::<usize>()); }\n")
    t.run([os.path.realpath("/usr/bin/rustc") if os.path.exists("/usr/bin/rustc") else shutil.which("rustc"), "-O", "m.rs"])
    t.run(["./m"])


PYTHON = """
import concurrent.futures, json, multiprocessing, os, re, subprocess, sys, threading, zlib, hashlib, pickle
def work(n):
    return len(json.dumps({str(i): [i, str(i)] for i in range(n)})) + len(zlib.compress(pickle.dumps(list(range(n)))))
if __name__ == "__main__":
    print(subprocess.run(["/bin/sh", "-c", "echo a; exit 3"], capture_output=True).returncode)
    for method in "fork", "spawn":
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(sum(pool.map(work, [50, 100, 200, 300])))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        print(sum(pool.map(work, [300] * 12)))
    t = [threading.Thread(target=lambda: re.findall(r"(a|b)+c", "abac" * 200)) for _ in range(4)]
    [x.start() for x in t]; [x.join() for x in t]
    print(hashlib.sha256(os.urandom(1000)).hexdigest()[:0])
"""


@workload("python3", "/usr/bin/python3", quick=True)
def run_python(t):
    write(t.dir, "w.py", PYTHON)
    t.run(["/usr/bin/python3", "w.py"], env={"PYTHONMALLOC": "malloc"})


NODE = """
const { Worker, isMainThread, parentPort } = require('worker_threads');
const zlib = require('zlib'), crypto = require('crypto'), fs = require('fs'), cp = require('child_process');
function work(n) {
  let o = {}; for (let i = 0; i < n; i++) o['k' + i % 997] = JSON.parse(JSON.stringify({ i, s: 'x'.repeat(i % 50) }));
  return zlib.gzipSync(JSON.stringify(o)).length + crypto.createHash('sha256').update(JSON.stringify(o)).digest().length
    + [...Array(2000).keys()].map(x => (x * 7919) % 1000).sort((a, b) => a - b).length
    + 'abacabad'.repeat(200).replace(/(a.)+d/g, m => Buffer.from(m).toString('base64')).length;
}
if (isMainThread) {
  let left = 2;
  for (let i = 0; i < 2; i++) new Worker(__filename).on('message', m => { if (!--left) console.log('done'); });
  work(3000); fs.readFile(__filename, () => {}); cp.execFileSync('/bin/true');
  (async () => { for (let i = 0; i < 200; i++) await fs.promises.stat('.'); })();
} else parentPort.postMessage(work(2000));
"""


@workload("node", "node")
def run_node(t):
    write(t.dir, "w.js", NODE)
    t.run(["node", "w.js"])


JAVA = """
import java.util.*; import java.util.concurrent.*; import java.util.zip.*;
public class W { static int work(int n) throws Exception { Map<String, List<Integer>> m = new TreeMap<>();
  for (int i = 0; i < n; i++) m.computeIfAbsent("k" + i % 37, k -> new ArrayList<>()).add(i);
  Deflater d = new Deflater(); d.setInput(m.toString().getBytes()); d.finish(); byte[] b = new byte[1 << 16]; int r = d.deflate(b); d.end();
  return r + String.format("%s", m.size()).length(); }
  public static void main(String[] a) throws Exception { ExecutorService e = Executors.newFixedThreadPool(3); List<Future<Integer>> l = new ArrayList<>();
  for (int i = 0; i < 60; i++) { int n = 200 * i; l.add(e.submit(() -> work(n))); } int s = 0; for (var f : l) s += f.get(); e.shutdown(); System.out.println(s); } }
"""


@workload("java -version", "java")
def run_java_version(t):
    t.run(["java", "-version"])


@workload("javac and java", "javac", "java")
def run_javac(t):
    write(t.dir, "W.java", JAVA)
    t.run(["javac", "W.java"])
    t.run(["java", "-Xmx64m", "-cp", ".", "W"])


@workload("ruby", "ruby")
def run_ruby(t):
    t.run(["ruby", "-e", "require 'json'; h = {}; 20000.times { |i| (h[i % 97] ||= []) << i.to_s * 2 }; JSON.parse(h.to_json);"
           "4.times.map { |i| Thread.new { (1..2000).map(&:to_s).sort } }.each(&:join); Fiber.new { 'x' * 1000 }.resume; `echo a`"])


@workload("php", "php")
def run_php(t):
    t.run(["php", "-n", "-r", "for ($i = 0; $i < 20000; $i++) { $a[$i % 97][] = str_repeat('x', $i % 50); } echo strlen(json_encode($a)),"
           " preg_match_all('/x+/', json_encode($a));"], env={"USE_ZEND_ALLOC": "0"})


@workload("redis-server under redis-benchmark", "redis-server", "redis-benchmark", "redis-cli")
def run_redis(t):
    path = t.dir + "/s"
    server = t.start(["redis-server", "--unixsocket", path, "--port", "0", "--save", "", "--appendonly", "no",
                      "--loglevel", "warning", "--io-threads", "2"])
    t.wait_socket(server, path)
    t.bare(["redis-benchmark", "-s", path, "-n", "20000", "-P", "16", "-c", "10", "-r", "10000", "-q", "-t",
            "set,get,incr,lpush,rpop,sadd,hset,spop,zadd,lrange_100,mset"])
    t.bare(["redis-cli", "-s", path, "eval", "local t = {} for i = 1, 1000 do t[i] = tostring(i) end return #t", "0"])
    t.bare(["redis-cli", "-s", path, "bgsave"])
    t.bare(["redis-cli", "-s", path, "shutdown", "nosave", "force"], check=False)
    t.end(server)


@workload("memcached", "memcached")
def run_memcached(t):
    t.be_nobody()
    path = t.dir + "/s"
    server = t.start(["memcached", "-s", path, "-t", "4", "-m", "64"])
    t.wait_socket(server, path)
    socks = [socket.socket(socket.AF_UNIX) for _ in range(8)]
    for s in socks:
        s.settimeout(30)
        s.connect(path)
    for i in range(3000):
        s = socks[i % 8]
        s.sendall(b"set k%d 0 0 %d\r\n%s\r\nget k%d\r\n" % (i, i % 900, b"x" * (i % 900), i // 2))
        while not s.recv(65536).endswith(b"END\r\n"):
            pass
    for s in socks:
        s.close()
    server.terminate()
    t.end(server)


NGINX = """
daemon off; master_process on; worker_processes 2; pid %(dir)s/pid; error_log %(dir)s/err.log; user root;
events { worker_connections 256; }
http { access_log off; client_body_temp_path %(dir)s/b; proxy_temp_path %(dir)s/p; fastcgi_temp_path %(dir)s/f;
uwsgi_temp_path %(dir)s/u; scgi_temp_path %(dir)s/g; gzip on; gzip_types *; gzip_min_length 1;
server { listen unix:%(dir)s/s; root %(dir)s; location /p/ { proxy_pass http://unix:%(dir)s/s:/; } } }
"""


@workload("nginx", "nginx", "curl")
def run_nginx(t):
    config = NGINX % {"dir": t.dir}
    write(t.dir, "nginx.conf", config if not os.geteuid() else config.replace("user root;", ""))
    write(t.dir, "page", run_oracle.words(2000))
    server = t.start(["nginx", "-c", t.dir + "/nginx.conf", "-p", t.dir])
    t.wait_socket(server, t.dir + "/s")
    for path in "page", "p/page", "none":
        t.bare(["curl", "-s", "-Z", "--compressed", "--unix-socket", t.dir + "/s", "-o", "/dev/null",
                "http://localhost/%s?[1-200]" % path])
    server.send_signal(signal.SIGTERM)
    t.end(server)


@workload("postgres initdb", "initdb", "postgres")
def run_initdb(t):
    t.be_nobody()
    t.run(["initdb", "-D", t.dir + "/data", "-U", "x", "--no-sync", "--no-locale"])


@workload("gdb", "gdb")
def run_gdb(t):
    t.run(["gdb", "-nx", "-batch", "-ex", "info functions main", "-ex", "python print(sum(len(str(i)) for i in range(999)))",
           "/bin/true"])


@workload("vim", "vim")
def run_vim(t):
    lines(t.dir, 2000)
    t.run(["vim", "-es", "-u", "NONE", "-c", "%s/word/w/g", "-c", "g/7/d", "-c", "wq", "lines.txt"])
