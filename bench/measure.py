# SPDX-License-Identifier: MIT
"""Builds what is measured, and runs it in pairs."""
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from catalog import TOOLS

HERE = pathlib.Path(__file__).resolve().parent
DEEP = ['-fomit-frame-pointer', '-fno-optimize-sibling-calls', '-fno-ipa-icf', '-g']
PROGRAMS = (('runone', 'runone.c', ['-fno-builtin', '-Wl,-z,now', '-fno-plt']),
            ('mb', 'workloads/mb.c', [*DEEP, '-pthread']),
            ('many', 'workloads/many.c', DEEP),
            ('threads', 'workloads/threads.c', ['-pthread']),
            ('empty.so', 'empty.c', ['-shared', '-fPIC']),
            ('sqlite_run', 'workloads/sqlite_run.c', ['-lsqlite3']))
HEADERS = {'sqlite_run': '/usr/include/sqlite3.h'}  # what may be missing: then so is the program
SHARED_MEMORY = '/dev/shm'  # where states lie in real use


def ask_gcc(question):
    done = subprocess.run(['gcc', question], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def is_older(made, source):
    return not made.exists() or made.stat().st_mtime < source.stat().st_mtime


class Bench:
    def __init__(self, build, pairs, timeout):
        self.pairs, self.timeout = pairs, timeout
        home = build / 'bench'
        self.names = {'bin': home, 'data': home / 'data', 'work': HERE / 'workloads', 'build': build,
                      'cc1': ask_gcc('-print-prog-name=cc1'), 'lsan': ask_gcc('-print-file-name=liblsan.so'),
                      'asan': ask_gcc('-print-file-name=libasan.so')}

    def text(self, template):
        return re.sub(r'\{(\w+)\}', lambda m: str(self.names[m[1]]), template)

    def prepare(self):
        """Builds the programs and writes the inputs, once."""
        home, data = self.names['bin'], self.names['data']
        home.mkdir(parents=True, exist_ok=True)
        for target, source, flags in PROGRAMS:
            if target in HEADERS and not os.path.exists(HEADERS[target]):
                (home / target).unlink(missing_ok=True)
            elif is_older(home / target, HERE / source):
                subprocess.run(['cc', '-O2', '-D_GNU_SOURCE', '-o', home / target, HERE / source, *flags], check=True)
        generator = HERE / 'workloads/generate.py'
        if is_older(data / 'done', generator):
            print('writing the inputs', file=sys.stderr)
            subprocess.run([sys.executable, generator, data], check=True)
            (data / 'done').touch()

    def prepare_state(self):
        """The state file that reports are measured with."""
        path, many = self.names['data'] / 'many.mtk', self.names['bin'] / 'many'
        if is_older(path, many):
            path.unlink(missing_ok=True)
            subprocess.run([self.names['build'] / 'memtrack', 'run', '--quiet', '-o', path, '--', many, '100000', '5000000'],
                           check=True)

    def missing(self, command):
        """The program that a workload or tool needs and that is not here, or None."""
        words = [word for word in command.split() if not re.match(r'\w+=', word) and not re.match(r'(REDIS|\d+)$', word)]
        program = words[0]
        return None if shutil.which(program) or pathlib.Path(program).is_file() else program

    def start(self, template, command, cpus, folders, result):
        """The command line of one run: runone, or redis_run.py around it. `folders` maps $NAMEs to folders."""
        words = shlex.split(command)
        before, runone = [], [str(self.names['bin'] / 'runone'), cpus, str(self.timeout), result]
        if words[0] == 'REDIS':
            before = [sys.executable, str(HERE / 'redis_run.py'), result, cpus, str(self.timeout), runone[0], words[1]]
            words, runone = words[2:], []
        count = next(i for i, word in enumerate(words) if '=' not in word)
        tool = [re.sub(r'\$([A-Z]+)', lambda m: folders[m[1]], part) for part in shlex.split(template)]
        at = tool.index('{}')
        return before + runone + words[:count] + tool[:at] + words[count:] + tool[at + 1:]

    def run_once(self, template, command, cpus):
        """One run; returns its measures with a hash of what it printed. Leaves nothing behind."""
        parent = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        with (tempfile.TemporaryDirectory(prefix='memtrack-bench-') as out,
              tempfile.TemporaryDirectory(prefix='memtrack-bench-', dir=parent) as state):
            result = os.path.join(out, 'result.json')
            done = subprocess.run(self.start(template, command, cpus, {'OUT': out, 'STATE': state}, result), cwd=out,
                                  capture_output=True, check=False)
            try:
                measured = json.loads(pathlib.Path(result).read_text(encoding='utf-8'))
            except (OSError, ValueError):
                measured = {'status': 98}
        measured['output'] = hashlib.sha256(done.stdout).hexdigest()
        measured['error'] = done.stderr[-300:].decode(errors='replace')
        pair_ns = re.search(rb'cpu_ns_per_pair ([\d.]+)', done.stderr)
        measured['pair_ns'] = float(pair_ns[1]) if pair_ns else None
        return measured

    def measure(self, cpus, command, tool, pairs):
        """Pairs of one command and tool: a list of (bare, tracked), run in changing order."""
        all_cpus, _, template = TOOLS[tool]
        command, template = self.text(command), self.text(template)
        measured = []
        self.run_once('{}', command, cpus)  # warms the caches
        for number in range(pairs):
            runs = [('{}', cpus), (template, '01' if all_cpus else cpus)]
            order = (0, 1) if number % 2 == 0 else (1, 0)
            pair = {i: self.run_once(runs[i][0], command, runs[i][1]) for i in order}
            measured.append((pair[0], pair[1]))
            if pair[1]['status'] != 0:
                break
        return measured
