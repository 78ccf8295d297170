# SPDX-License-Identifier: MIT
"""A controller of running programs, by the protocol of docs/formats/mtk.md alone; for tests."""
import ctypes
import mmap
import os
import struct
import time

CONTROL, DONE, ERROR, OWNER = 32, 360, 364, 368
REQUEST = 17


class Controller:
    """Of one state file. The file may be a live one only."""

    def __init__(self, path):
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), os.fstat(f.fileno()).st_size)
        self.text_at = None
        for i in range(24):
            kind, _, offset = struct.unpack_from("<IIQ", self.map, 512 + 48 * i)
            if kind == REQUEST:
                self.text_at = offset

    def word(self, at):
        return struct.unpack_from("<I", self.map, at)[0]

    def put(self, text):
        """Only writes the request, as one that is killed then does."""
        raw = text.encode() + b"\0"
        self.map[self.text_at:self.text_at + len(raw)] = raw

    def ask(self, text, wait=10):
        """control_error of the request; None when the program did not take it in time."""
        self.put(text)
        control = self.word(CONTROL) + 2 & 0xffffffff
        # one store (struct.pack_into writes zeros first); this controller is the only one
        ctypes.c_uint32.from_buffer(self.map, CONTROL).value = control
        end = time.monotonic() + wait
        while self.word(DONE) >> 1 != control >> 1:
            if time.monotonic() > end:
                return None
            time.sleep(0.0005)
        return self.word(ERROR)
