# SPDX-License-Identifier: MIT
"""Languages with a runtime, a collector, a compiler and threads of their own."""
from commands import both, script, simple, text, write
from ways import Host

PYTHON = r"""
import collections, hashlib, json, multiprocessing, os, re, signal, subprocess, sys, threading, zlib

def work(n):
    d = {i: str(i) * 3 for i in range(n)}
    return hashlib.sha256(json.dumps(d).encode()).hexdigest()

def threads():
    out = [None] * 6
    def one(i):
        out[i] = work(2000 + i)
    ts = [threading.Thread(target=one, args=(i,)) for i in range(6)]
    [t.start() for t in ts]; [t.join() for t in ts]
    print(hashlib.sha256("".join(out).encode()).hexdigest())

def processes():
    for method in "fork", "spawn", "forkserver":
        context = multiprocessing.get_context(method)
        pool = context.Pool(3)
        print(method, hashlib.sha256("".join(pool.map(work, range(500, 520))).encode()).hexdigest())
        pool.close(); pool.join()
        q = context.Queue()
        p = context.Process(target=q.put, args=([b"x" * 1000000],))
        p.start(); print(len(q.get()[0])); p.join(); print(p.exitcode)
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=4096) if hasattr(multiprocessing, "shared_memory") else None
    if shared:
        shared.close(); shared.unlink()

def commands():
    print(subprocess.run(["sort", "-k2", "words.txt"], capture_output=True).stdout[:60])
    print(subprocess.check_output("head -3 words.txt | tr 'a-z' 'A-Z'; exit 0", shell=True, text=True))
    print(subprocess.run([sys.executable, "-c", "import os; os.abort()"], stderr=subprocess.DEVNULL,
                         preexec_fn=lambda: __import__('resource').setrlimit(4, (0, 0))).returncode)
    print(subprocess.run(["cat", "/proc/self/environ"], env={"ONLY": "1"}, capture_output=True).stdout.count(b"ONLY=1"))
    p = subprocess.Popen(["sleep", "60"]); p.send_signal(signal.SIGTERM); print(p.wait())
    print(sorted(os.listdir("/proc/self/fd"), key=int)[:-1])
    print(os.posix_spawn("/bin/true", ["true"], {}) > 0, os.wait()[1])

if __name__ == "__main__":
    import multiprocessing.shared_memory
    threads(); processes(); commands()
    text = open("words.txt").read()
    print(collections.Counter(re.findall(r"word\d", text)).most_common(3), zlib.crc32(zlib.compress(text.encode())))
    try:
        import sqlite3
        c = sqlite3.connect(":memory:"); print(c.execute("select count(*) from (values (1),(2))").fetchone())
    except ImportError:
        pass
    print("to stderr", file=sys.stderr)
    b = bytearray(200 << 20); del b
    try:
        bytearray(1 << 62)
    except MemoryError:
        print("no memory")
    sys.exit(3)
"""

JAVA = r"""
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
	static long churn(int seed) {
		Random r = new Random(seed);
		Map<Integer, byte[]> m = new HashMap<>();
		long sum = 0;
		for (int i = 0; i < 60000; i++) {
			m.put(r.nextInt(2000), new byte[r.nextInt(3000)]);
			sum += m.size();
		}
		return sum;
	}

	public static void main(String[] a) throws Exception {
		ExecutorService pool = Executors.newFixedThreadPool(6);
		List<Future<Long>> f = new ArrayList<>();
		for (int i = 0; i < 12; i++) {
			final int seed = i;
			f.add(pool.submit(() -> churn(seed)));
		}
		for (Future<Long> one : f)
			System.out.println(one.get());
		pool.shutdown();
		System.out.println(IntStream.range(0, 100000).parallel().mapToLong(i -> (long) i * i).sum());
		Deflater d = new Deflater();
		d.setInput(new byte[1 << 20]);
		d.finish();
		System.out.println(d.deflate(new byte[1 << 20]));
		int caught = 0;
		for (int i = 0; i < 1000; i++)
			try { Object o = i % 2 == 0 ? null : "x"; o.hashCode(); } catch (NullPointerException e) { caught++; }
		System.out.println("caught " + caught);
		try { deep(0); } catch (StackOverflowError e) { System.out.println("overflow"); }
		try { long[][] all = new long[1 << 20][]; for (int i = 0; ; i++) all[i] = new long[1 << 17]; }
		catch (OutOfMemoryError e) { System.out.println("no memory"); }
		Process p = new ProcessBuilder("sh", "-c", "echo child; exit 5").inheritIO().start();
		System.out.println("child " + p.waitFor());
		System.err.println("to stderr");
		System.exit(6);
	}

	static int deep(int n) { return deep(n + 1) + 1; }
}
"""

NODE = r"""
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), cp = require('child_process'), fs = require('fs');
function work(seed) {
	let m = new Map(), x = seed;
	for (let i = 0; i < 50000; i++) {
		x = (x * 1103515245 + 12345) % 2147483648;
		m.set(x % 3000, Buffer.alloc(x % 500, i % 256));
	}
	return crypto.createHash('sha256').update(JSON.stringify([...m.keys()].sort())).digest('hex');
}
if (!isMainThread) {
	parentPort.postMessage(work(workerData));
} else {
	const run = (n) => new Promise((yes, no) => {
		const w = new Worker(__filename, { workerData: n });
		w.on('message', (v) => { w.terminate().then(() => yes(v)); });
		w.on('error', no);
	});
	(async () => {
		for (const v of await Promise.all([1, 2, 3, 4, 5, 6].map(run))) console.log(v);
		const text = fs.readFileSync('words.txt');
		console.log(crypto.createHash('sha1').update(zlib.gunzipSync(zlib.gzipSync(text))).digest('hex'));
		const all = await Promise.all([...Array(40).keys()].map((i) => fs.promises.readFile('words.txt').then((b) => b.length + i)));
		console.log(all.join(' '));
		console.log(cp.execSync('sort words.txt | head -2').toString());
		console.log(cp.spawnSync('sh', ['-c', 'exit 4']).status);
		const c = cp.fork(__filename, ['child']);
		await new Promise((yes) => c.on('exit', (code) => { console.log('fork', code); yes(); }));
		console.error('to stderr');
		process.exitCode = 5;
	})();
	if (process.argv[2] === 'child') process.exit(8);
}
"""

RUBY = r"""
require 'digest/sha2'
t = (0...5).map { |k| Thread.new { h = {}; 20000.times { |i| h[(i * 7919 + k) % 1009] = "v#{i}" * 3 }; Digest::SHA256.hexdigest(h.sort.inspect) } }
t.each { |x| puts x.value }
GC.start; GC.compact if GC.respond_to?(:compact) && false
pid = fork { puts((1..1000).map { |i| i.to_s * 2 }.join.length); exit! 3 }
Process.wait pid; puts $?.exitstatus
puts `head -2 words.txt`
begin; raise ArgumentError, 'x'; rescue => e; puts e.class; end
f = Fiber.new { 10.times { |i| Fiber.yield 'f' * i } }
10.times { puts f.resume }
def deep(n) = deep(n + 1)
begin; deep 0; rescue SystemStackError; puts 'overflow'; end
warn 'to stderr'
exit 4
"""

PHP = r"""<?php
$h = []; for ($i = 0; $i < 60000; $i++) $h[($i * 7919) % 1009][] = "v$i";
ksort($h); echo hash('sha256', json_encode($h)), "\n";
echo preg_replace_callback('/word(\d+)/', fn($m) => $m[1] * 2, file('words.txt')[5]);
echo shell_exec('head -1 words.txt'); echo strlen(serialize($h)), "\n";
function gen() { for ($i = 0; $i < 5; $i++) yield str_repeat('x', $i); } foreach (gen() as $v) echo "$v\n";
try { throw new RuntimeException('x'); } catch (Exception $e) { echo get_class($e), "\n"; }
fwrite(STDERR, "to stderr\n"); exit(4);
"""

LUA = r"""
local t = {} for i = 1, 60000 do t[(i * 7919) % 1009] = ('v' .. i):rep(3) end
local n = 0 for k, v in pairs(t) do n = n + #v * k end print(n)
local c = coroutine.wrap(function() for i = 1, 5 do coroutine.yield(('x'):rep(i)) end end) for i = 1, 5 do print(c()) end
print(pcall(error, 'x')) local p = io.popen('head -1 words.txt') print(p:read('a')) p:close() collectgarbage()
io.stderr:write('to stderr\n') os.exit(4)
"""

GUILE = r"""
(use-modules (ice-9 threads) (ice-9 popen) (ice-9 rdelim))
(define (work k) (let loop ((i 0) (acc '())) (if (< i 20000) (loop (+ i 1) (cons (number->string (* i k)) acc))
  (string-length (apply string-append acc)))))
(for-each (lambda (t) (display (join-thread t)) (newline)) (map (lambda (k) (call-with-new-thread (lambda () (work k)))) '(1 2 3 4)))
(display (call-with-current-continuation (lambda (k) (dynamic-wind (lambda () #f) (lambda () (k 'out)) (lambda () (display "unwound "))))))
(newline) (display (catch #t (lambda () (error "x")) (lambda (key . args) key))) (newline)
(let ((p (open-input-pipe "head -1 words.txt"))) (display (read-line p)) (newline) (close-pipe p))
(exit 4)
"""


def source(name, text_):
    return both(text, lambda directory: write(directory, name, text_))


def java_run(trial):
    """Memory of a fixed size: the virtual machine's own choice depends on what is free."""
    java = ["java", "-Xmx160m", "-Xms32m"]
    trial.run(["java", "-version"])
    trial.run(["javac", "-J-Xmx200m", "Work.java"])
    trial.run(java + ["-XX:+UseSerialGC", "-cp", ".", "Work"], "serial")
    trial.run(java + ["-XX:+UseG1GC", "-cp", ".", "Work"], "g1")
    trial.run(java + ["-Xint", "-cp", ".", "Absent"], "absent")


HOSTS = [
    Host("python3", simple(["python3", "script.py"]), source("script.py", PYTHON), ["python3"]),
    Host("python3 of the system", simple(["/usr/bin/python3", "script.py"]), source("script.py", PYTHON), ["/usr/bin/python3"],
         quick=True),
    Host("java", java_run, source("Work.java", JAVA), ["java", "javac"]),
    Host("node", script(["node", "script.js"], ["node", "-e", "throw new Error('x')"], ["node", "--version"]),
         source("script.js", NODE), ["node"]),
    Host("ruby", simple(["ruby", "script.rb"]), source("script.rb", RUBY), ["ruby"]),
    Host("php", simple(["php", "-n", "script.php"]), source("script.php", PHP), ["php"]),
    Host("lua", simple(["lua5.4", "script.lua"]), source("script.lua", LUA), ["lua5.4"]),
    Host("guile", simple(["guile", "--no-auto-compile", "script.scm"]), source("script.scm", GUILE), ["guile"]),
]
