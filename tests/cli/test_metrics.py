#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""
memtrack metrics: the text, the server, the file, and what Prometheus makes of them.

usage: test_metrics.py MEMTRACK MAKE_SAMPLE SUBJECT LIBRARY|-
"""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse

from live import Skip, main, needs_library, test, wait_until

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
CLASSIC = "text/plain; version=0.0.4; charset=utf-8"
# As Prometheus 2.42 asks.
ACCEPT = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75," \
         "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
SAMPLE = re.compile(r'^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?[0-9.]+)$')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\\n]|\\["\\n])*)"')


def parse(b, text, counter_suffix):
    """{(name, {labels}): value}, with every rule that a collector insists on checked."""
    samples, family, kind, seen = {}, None, None, set()
    lines = text.split("\n")
    b.expect("the end", lines[-2:], ["# EOF", ""])
    for line in lines[:-2]:
        if line.startswith("# "):
            word, name, rest = line[2:].split(" ", 2)
            if word == "TYPE":
                if name in seen:
                    b.problems.append("a second family %s" % name)
                seen.add(name)
                family, kind = name, rest
            elif name != family or word not in ("HELP", "UNIT") or word == "UNIT" and not name.endswith("_" + rest):
                b.problems.append("out of order: %r" % line)
            continue
        found = SAMPLE.match(line)
        if not found:
            b.problems.append("no sample: %r" % line)
            continue
        wanted = family + "_total" if kind == "counter" and counter_suffix else family
        if found[1] != wanted:
            b.problems.append("sample %s in family %s" % (found[1], family))
        key = (found[1], tuple(sorted(LABEL.findall(found[2] or ""))))
        if key in samples:
            b.problems.append("twice: %r" % line)
        samples[key] = float(found[3])
    return samples


def values(samples, name, **labels):
    return [v for (n, pairs), v in samples.items() if n == name and set(labels.items()) <= set(pairs)]


def labels_of(samples, name, label, **labels):
    return [dict(pairs)[label] for (n, pairs) in samples if n == name and set(labels.items()) <= set(pairs)]


class Served:
    """A server and its answers."""

    def __init__(self, b, *options):
        self.process = b.start("metrics", "--listen=127.0.0.1:0", *options)
        line = self.process.stdout.readline()
        b.expect("its first line", bool(re.match(r"serving http://127\.0\.0\.1:\d+/metrics\n$", line)), True)
        self.port = int(re.search(r":(\d+)/", line)[1])

    def ask(self, method="GET", path="/metrics", accept=ACCEPT, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        c.request(method, path, body=body, headers={"Accept": accept} if accept else {})
        r = c.getresponse()
        text = r.read().decode("utf-8")
        c.close()
        return r.status, r.headers, text


@test
def numbers_are_those_of_the_state(b):
    pid = str(b.pretended())
    done = b.run("metrics", "--textfile=-")
    b.expect("stderr", (done.returncode, done.stderr), (0, ""))
    s = parse(b, done.stdout, False)
    wanted = {"memtrack_live_bytes": 1007, "memtrack_live_blocks": 11, "memtrack_allocations_total": 22,
              "memtrack_frees_total": 11, "memtrack_recording": 1, "memtrack_threads_total": 2,
              "memtrack_tracker_limit_bytes": 0}
    for name, value in wanted.items():
        b.expect(name, values(s, name, pid=pid, program="server"), [value])
    b.expect("peak", values(s, "memtrack_peak_bytes", pid=pid)[0] >= 1 << 20, True)
    b.expect("mode", labels_of(s, "memtrack_mode", "mode", pid=pid), ["full"])
    b.expect("reasons", len(set(labels_of(s, "memtrack_lost_events_total", "reason", pid=pid))), 16)
    b.expect("sites", values(s, "memtrack_site_live_bytes", pid=pid), [1007])
    b.expect("their allocations", values(s, "memtrack_site_allocations_total", pid=pid), [11])
    b.expect("their name", labels_of(s, "memtrack_site_live_bytes", "function", pid=pid), ["server+0x1fff"])
    report = json.loads(b.run("report", "--json", "--leak-threshold=0", os.path.join(b.states, "live.mtk")).stdout)
    b.expect("callstack_hash", labels_of(s, "memtrack_site_live_bytes", "callstack_hash", pid=pid),
             ["0x" + report["top_leak_sites"][0]["callstack_hash"]])


@test
def the_older_format_is_accepted_by_promtool(b):
    if not shutil.which("promtool"):
        raise Skip("needs promtool (Debian package prometheus)")
    b.pretended()
    b.pretended("hostile", "hostile")
    text = b.run("metrics", "--textfile=-").stdout
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    b.expect("promtool", (done.returncode, done.stdout, done.stderr), (0, "", ""))


@test
def names_are_escaped(b):
    pid = str(b.pretended("hostile", "hostile"))
    done = b.run("metrics", "--textfile=-")
    s = parse(b, done.stdout, False)
    program = labels_of(s, "memtrack_live_bytes", "program", pid=pid)
    b.expect("one program", len(program), 1)
    b.expect_in("program", program[0], "\\\\x1b]0;owned\\\\x07\\\\n")
    b.expect_in("quotes", program[0], '\\"')
    b.expect("controls", re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e]", done.stdout), [])


@test
def the_server_answers_as_it_should(b):
    pid = str(b.pretended())
    server = Served(b)
    status, headers, text = server.ask()
    b.expect("GET", (status, headers["Content-Type"]), (200, OPENMETRICS))
    b.expect("length", int(headers["Content-Length"]), len(text.encode()))
    b.expect("numbers", values(parse(b, text, True), "memtrack_live_bytes", pid=pid), [1007])
    b.expect_in("unit", text, "\n# UNIT memtrack_live_bytes bytes\n")
    for accept in ["", "*/*"]:
        b.expect("Accept: " + accept, server.ask(accept=accept)[1]["Content-Type"], OPENMETRICS)
    status, headers, text = server.ask(accept="text/plain")
    b.expect("text/plain", (status, headers["Content-Type"]), (200, CLASSIC))
    parse(b, text, False)
    status, headers, text = server.ask("HEAD")
    b.expect("HEAD", (status, headers["Content-Type"], int(headers["Content-Length"]) > 1000, text),
             (200, OPENMETRICS, True, ""))
    for method, body in [("POST", b"x" * 100000), ("PUT", b"x"), ("DELETE", None), ("OPTIONS", None)]:
        status, headers, _ = server.ask(method, body=body)
        b.expect(method, (status, headers["Allow"]), (405, "GET, HEAD"))
    for path in ["/", "/metrics/", "/metricsx", "/../etc/passwd"]:
        b.expect(path, server.ask(path=path)[0], 404)
    b.expect("a query", server.ask(path="/metrics?x=1")[0], 200)
    server.process.send_signal(signal.SIGTERM)
    b.expect("end", server.process.wait(20), 0)
    b.expect("stderr", server.process.stderr.read(), "")


@test
def what_is_no_request_harms_nobody(b):
    server = Served(b)
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for text in [b"\0" * 5000, b"GET " + b"/" * 100000 + b" HTTP/1.1\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n",
                 b"GET /metrics HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"A: b\r\n" * 20000]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
            try:
                s.sendall(text)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
            except OSError:
                pass
    b.expect("still there", server.ask()[0], 200)
    for s in idle:
        s.close()
    b.expect("running", server.process.poll(), None)


@test
def a_document_is_made_again_when_it_is_old(b):
    server = Served(b)
    pid = str(b.pretended())
    seen = wait_until(lambda: values(parse(b, server.ask()[2], True), "memtrack_live_bytes", pid=pid))
    b.expect("a process that came later", seen, [1007])
    os.kill(int(pid), signal.SIGKILL)
    b.started[-1].wait()
    gone = wait_until(lambda: not values(parse(b, server.ask()[2], True), "memtrack_live_bytes", pid=pid))
    b.expect("a process that is gone", gone, True)


@test
def unreadable_states_are_counted(b):
    pid = str(b.pretended())
    before = values(parse(b, b.run("metrics", "--textfile=-").stdout, False), "memtrack_unreadable_states")[0]
    with open(os.path.join(b.states, "live.mtk"), "rb") as f:
        whole = f.read(4096)
    junk = {"text": b"no state" * 1000, "cut": whole[:1000], "newer": whole[:8] + b"\x09" + whole[9:]}
    for name, content in junk.items():
        with open(os.path.join(b.states, name + ".mtk"), "wb") as f:
            f.write(content)
    os.mkdir(os.path.join(b.states, "directory.mtk"))
    os.mkfifo(os.path.join(b.states, "fifo.mtk"))
    done = b.run("metrics", "--textfile=-")
    s = parse(b, done.stdout, False)
    b.expect("count", values(s, "memtrack_unreadable_states")[0] >= before + 5, True)
    b.expect("the others", values(s, "memtrack_live_bytes", pid=pid), [1007])
    b.expect("stderr", (done.returncode, done.stderr), (0, ""))


@test
def a_scribbled_state_of_a_running_process_is_survived(b):
    b.pretended()
    path = os.path.join(b.states, "live.mtk")
    number = 12345
    for _ in range(60):
        with open(path, "r+b") as f:
            for _ in range(30):
                number = (number * 6364136223846793005 + 1442695040888963407) % (1 << 64)
                f.seek(512 + (number >> 33) % 400 if number & 1 << 20 else 4096 + (number >> 33) % 60000)
                f.write(bytes([number >> 56]))
        done = b.run("metrics", "--textfile=-")
        if done.returncode or done.stderr:
            b.problems.append("status %d: %s" % (done.returncode, done.stderr[-500:]))
            break
        parse(b, done.stdout, False)


@test
def no_more_sites_than_asked_for(b):
    pid = str(b.pretended("wide", "wide"))
    for top in [0, 1, 7]:
        s = parse(b, b.run("metrics", "--textfile=-", "--top=%d" % top, "--no-symbols").stdout, False)
        b.expect("--top=%d" % top, len(values(s, "memtrack_site_live_bytes", pid=pid)), top)


@test
def a_file_is_replaced_as_a_whole(b):
    b.pretended()
    path = os.path.join(b.dir, "memtrack.prom")
    with open(path, "w", encoding="ascii") as f:
        f.write("old")
    before = os.stat(path).st_ino
    process = b.start("metrics", "--textfile=" + path, "--every=20ms", "--top=0")
    inodes = set()

    def look():
        with open(path, encoding="utf-8") as f:
            text = f.read()
            inodes.add(os.fstat(f.fileno()).st_ino)
        if text != "old":
            parse(b, text, False)
        return len(inodes - {before}) > 3

    b.expect("replaced again and again", wait_until(look), True)
    b.expect("mode", os.stat(path).st_mode & 0o777, 0o644)
    process.send_signal(signal.SIGINT)
    b.expect("end", process.wait(20), 0)
    b.expect("nothing left", [n for n in os.listdir(b.dir) if n.startswith("memtrack.prom.")], [])
    b.fails(1, "cannot create '/nonexistent/x': No such file or directory", "metrics", "--textfile=/nonexistent/x")


@test
def addresses_are_checked(b):
    examples = " is no address to listen at (examples: 127.0.0.1:9468, [::1]:9468, 9468)"
    for text in ["x", "127.0.0.1", "127.0.0.1:65536", "::1:80", "127.0.0.1:-1", ""]:
        b.fails(1, "'%s'%s" % (text, examples), "metrics", "--listen=" + text)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        taken = "127.0.0.1:%d" % s.getsockname()[1]
        b.fails(1, "cannot listen at '%s': Address already in use" % taken, "metrics", "--listen=" + taken)
    process = b.start("metrics", "--listen=[::1]:0")
    line = process.stdout.readline()
    if line:
        b.expect_in("IPv6", line, "serving http://[::1]:")
    else:
        b.expect_in("IPv6", process.stderr.read(), "cannot listen at '[::1]:0'")


@needs_library
def a_tracked_program_is_shown_with_its_leak(b):
    from live import SUBJECT  # pylint: disable=import-outside-toplevel
    pid = str(b.tracked(SUBJECT, "signal"))
    s = parse(b, b.run("metrics", "--textfile=-").stdout, False)
    b.expect("live", values(s, "memtrack_live_bytes", pid=pid, program="subject")[0] >= 20000, True)
    b.expect("site", labels_of(s, "memtrack_site_live_bytes", "function", pid=pid)[0], "leak_here")
    b.expect("caller", labels_of(s, "memtrack_site_live_bytes", "caller", pid=pid)[0], "main")
    b.expect_in("place", labels_of(s, "memtrack_site_live_bytes", "place", pid=pid)[0], "subject.c:")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@test
def prometheus_collects_it(b):
    if not shutil.which("prometheus"):
        raise Skip("needs prometheus")
    pid = str(b.pretended())
    hostile = str(b.pretended("hostile", "hostile"))
    server = Served(b)
    port = free_port()
    config = os.path.join(b.dir, "prometheus.yml")
    with open(config, "w", encoding="ascii") as f:
        f.write("global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: memtrack\n"
                "    static_configs: [{targets: ['127.0.0.1:%d']}]\n" % server.port)
    process = subprocess.Popen(["prometheus", "--config.file=" + config, "--log.level=warn",
                                "--storage.tsdb.path=" + os.path.join(b.dir, "tsdb"),
                                "--web.listen-address=127.0.0.1:%d" % port],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    b.started.append(process)

    def query(text):
        try:
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            c.request("GET", "/api/v1/query?query=" + urllib.parse.quote(text))
            return json.load(c.getresponse())["data"]["result"]
        except (OSError, ValueError, KeyError, http.client.HTTPException):
            return []

    up = wait_until(lambda: [r for r in query("up") if r["value"][1] == "1"], 60)
    b.expect("scraped", bool(up), True)
    for name, value in [("memtrack_live_bytes", "1007"), ("memtrack_allocations_total", "22")]:
        found = wait_until(lambda name=name: query("%s{pid='%s'}" % (name, pid)))
        b.expect(name, [r["value"][1] for r in found or []], [value])
    found = query("memtrack_site_live_bytes{pid='%s'}" % hostile)
    b.expect("hostile names", len(found), 3)
    meta = json.loads(ask_api(port, "/api/v1/metadata?metric=memtrack_allocations_total") or "{}").get("data", {})
    meta = meta or json.loads(ask_api(port, "/api/v1/metadata?metric=memtrack_allocations") or "{}").get("data", {})
    b.expect("type", [m["type"] for values_ in meta.values() for m in values_], ["counter"])
    process.terminate()
    b.expect("complaints", [line for line in process.stderr.read().splitlines() if "scrape" in line.lower()], [])


def ask_api(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    c.request("GET", path)
    return c.getresponse().read().decode()


sys.exit(main())
