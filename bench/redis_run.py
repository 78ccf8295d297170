#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: redis_run.py RESULT CPUS TIMEOUT_S RUNONE REQUESTS [NAME=VALUE...] SERVER COMMAND...

Starts the (perhaps tracked) redis-server, drives it with redis-benchmark on another cpu and shuts it
down. The result has the client's wall time, processor time and peak RSS of the server's processes.
"""
import json
import os
import socket
import subprocess
import sys
import tempfile
import time


def ask(path, message):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(path)
        connection.sendall(message)
        return connection.recv(100)


def wait_until_up(server, path, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            if ask(path, b'PING\r\n').startswith(b'+PONG'):
                return True
        except OSError:
            time.sleep(0.02)
    return False


def main():
    result, cpus, timeout, runone, requests = sys.argv[1:6]
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, 'socket')
    server = subprocess.Popen(
        [runone, cpus, timeout, result, *sys.argv[6:], '--unixsocket', path, '--port', '0', '--save', '',
         '--appendonly', 'no', '--daemonize', 'no', '--loglevel', 'warning', '--dir', folder],
        stdout=subprocess.DEVNULL)
    status, wall = 1, None
    if wait_until_up(server, path, float(timeout)):
        start = time.monotonic()
        status = subprocess.run(
            ['taskset', '-c', '1' if cpus == '0' else '0', 'redis-benchmark', '-s', path, '-n', requests, '-P', '16',
             '-c', '20', '-r', '100000', '-d', '64', '-q', '-t', 'set,get,lpush'],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode
        wall = time.monotonic() - start
        try:
            ask(path, b'SHUTDOWN NOSAVE\r\n')
        except OSError:
            pass
    server.wait()
    with open(result, encoding='utf-8') as file:
        measured = json.load(file)
    measured['wall_s'] = wall
    measured['status'] = status or measured['status']
    with open(result, 'w', encoding='utf-8') as file:
        json.dump(measured, file)


if __name__ == '__main__':
    main()
