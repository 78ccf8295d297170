# SPDX-License-Identifier: MIT
"""A terminal of the kind xterm for tests: runs a program on a pty and knows what it shows."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

SEQUENCE = re.compile(rb"\x1b(?:\[([0-9;?>]*)([@-~])|\][^\x07]*\x07|[()][0-9A-Z]|[=>78MDEHc])")
UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;?>]*|\][^\x07]*|[()])?$")


class Terminal:
    """Shows `rows` lines of `columns` characters; unknown sequences are kept in `unknown`."""

    def __init__(self, argv, rows=24, columns=80, env=None, cwd=None):
        self.master, self.slave = pty.openpty()
        self.output, self.pending, self.unknown = b"", b"", []
        self.set_size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        env = dict(env or os.environ, TERM=(env or {}).get("TERM", "xterm"), LC_ALL=(env or {}).get("LC_ALL", "C.UTF-8"))
        env.pop("LINES", None)
        env.pop("COLUMNS", None)

        def take_terminal():
            os.setsid()
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])

        self.process = subprocess.Popen(argv, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env, cwd=cwd,
                                        preexec_fn=take_terminal)

    def set_size(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.y = self.x = 0
        self.top, self.bottom = 0, rows - 1
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    # ---- what the program writes ----

    def feed(self, data):
        data = self.pending + data
        self.pending = b""
        unfinished = UNFINISHED.search(data)
        if unfinished:
            data, self.pending = data[:unfinished.start()], data[unfinished.start():]
        at = 0
        while at < len(data):
            found = SEQUENCE.match(data, at)
            if found:
                self.sequence(found)
                at = found.end()
            elif data[at] < 0x20:
                self.control(data[at])
                at += 1
            else:
                end = at + 1
                while end < len(data) and data[end] & 0xc0 == 0x80:
                    end += 1
                if end == len(data) and data[at] >= 0xc0 and end - at < 2 + (data[at] >= 0xe0) + (data[at] >= 0xf0):
                    self.pending = data[at:]
                    return
                self.put(data[at:end].decode("utf-8", "replace"))
                at = end

    def put(self, text):
        if self.x >= self.columns:
            self.x = 0
            self.line_feed()
        self.cells[self.y][self.x] = self.last = text
        self.x += 1

    def line_feed(self):
        if self.y == self.bottom:
            del self.cells[self.top]
            self.cells.insert(self.bottom, [" "] * self.columns)
        elif self.y < self.rows - 1:
            self.y += 1

    def control(self, c):
        if c == 13:
            self.x = 0
        elif c == 10:
            self.line_feed()
        elif c == 8:
            self.x = max(self.x - 1, 0)
        elif c == 9:
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)

    def sequence(self, found):
        if found[2] is None:
            if found[0] == b"\x1bM":
                self.y = max(self.y - 1, 0)
            return
        kind, text = chr(found[2][0]), found[1].decode()
        if text[:1] in ("?", ">"):
            return
        numbers = [int(n) if n else 0 for n in text.split(";")]
        n = max(numbers[0], 1)
        line = self.cells[self.y]
        if kind == "H":
            self.y = min(n, self.rows) - 1
            self.x = min(max(numbers[1], 1) if len(numbers) > 1 else 1, self.columns) - 1
        elif kind in "ABCDGd":
            self.y = {"A": self.y - n, "B": self.y + n, "d": n - 1}.get(kind, self.y)
            self.x = {"C": self.x + n, "D": self.x - n, "G": n - 1}.get(kind, self.x)
            self.y, self.x = min(max(self.y, 0), self.rows - 1), min(max(self.x, 0), self.columns - 1)
        elif kind == "K":
            first, end = [(self.x, self.columns), (0, self.x + 1), (0, self.columns)][numbers[0]]
            line[first:end] = [" "] * (end - first)
        elif kind == "J":
            if numbers[0] == 0:
                line[self.x:] = [" "] * (self.columns - self.x)
            for y in range(self.y + 1 if numbers[0] == 0 else 0, self.rows if numbers[0] != 1 else self.y):
                self.cells[y] = [" "] * self.columns
        elif kind == "X":
            line[self.x:self.x + n] = [" "] * len(line[self.x:self.x + n])
        elif kind == "b":
            for _ in range(n):
                self.put(self.last)
        elif kind == "@":
            line[self.x:self.x] = [" "] * n
            del line[self.columns:]
        elif kind == "P":
            del line[self.x:self.x + n]
            line.extend([" "] * (self.columns - len(line)))
        elif kind in "LM":
            for _ in range(n):
                del self.cells[self.bottom if kind == "L" else self.y]
                self.cells.insert(self.y if kind == "L" else self.bottom, [" "] * self.columns)
        elif kind in "ST":
            for _ in range(n):
                del self.cells[self.top if kind == "S" else self.bottom]
                self.cells.insert(self.bottom if kind == "S" else self.top, [" "] * self.columns)
        elif kind == "r":
            self.top = n - 1
            self.bottom = (numbers[1] if len(numbers) > 1 and numbers[1] else self.rows) - 1
            self.y = self.x = 0
        elif kind not in "mlht":
            self.unknown.append(found[0])

    # ---- what the test does ----

    def read(self, seconds=0.05):
        """Takes what the program has written; False when it has closed the terminal."""
        while select.select([self.master], [], [], seconds)[0]:
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return False
            self.output += data
            self.feed(data)
            seconds = 0
        return True

    def wait(self, condition, seconds=30):
        """Reads until condition(lines) is true; its result."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            result = condition(self.lines())
            if result:
                return result
        return None

    def shows(self, text, seconds=30):
        return bool(self.wait(lambda lines: text in "\n".join(lines), seconds))

    def press(self, keys):
        os.write(self.master, keys.encode() if isinstance(keys, str) else keys)

    def lines(self):
        return ["".join(line).rstrip() for line in self.cells]

    def end(self, seconds=30):
        """Waits for the program's end; its status, negative for a signal."""
        end = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < end:
            self.read()
        self.read()
        return self.process.poll()

    def is_restored(self):
        """The terminal's modes are as before, the alternate screen is left, the cursor is shown."""
        return termios.tcgetattr(self.slave) == self.before and \
            self.output.rfind(b"\x1b[?1049l") > self.output.rfind(b"\x1b[?1049h") and \
            max(self.output.rfind(b"\x1b[?25h"), self.output.rfind(b"\x1b[?12;25h"), self.output.rfind(b"\x1b[?12l")) > \
            self.output.rfind(b"\x1b[?25l")

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)
