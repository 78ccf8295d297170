#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what tracking costs: each tracked run is paired with a bare run of the same command.

The two runs of a pair follow each other, in changing order, and only their ratio counts, so a noisy
machine moves both. The tool `none` is a second bare run: its spread is the noise of the figures.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# Name: (cpus, command). {bin} programs built here, {data} generated inputs, {work} bench/workloads.
WORKLOADS = {
    'mb': ('0', '{bin}/mb own 1 2000000 100000'),
    'mb-hot': ('0', '{bin}/mb own 1 6000000 1000'),
    'mb-2t': ('01', '{bin}/mb own 2 3000000 100000'),
    'mb-4t': ('01', '{bin}/mb own 4 3000000 100000'),
    'mb-cross': ('01', '{bin}/mb cross 1 2000000 0'),
    'sqlite': ('0', "sqlite3 :memory: '.read {data}/script.sql'"),
    'python': ('0', 'PYTHONMALLOC=malloc /usr/bin/python3 -S {work}/documents.py {data}/documents.json'),
    'perl': ('0', '/usr/bin/perl {work}/words.pl {data}/lines.txt'),
    'jq': ('0', 'jq -c -f {work}/group.jq {data}/documents.json'),
    'cc1': ('0', '{cc1} -quiet -O1 {data}/program.c -o /dev/null'),
    'git': ('0', 'git -C {data}/repository log -p -n 700'),
    'redis': ('0', 'REDIS 100000 redis-server'),
}
# Name: (may use all cpus, what it needs, command). {} is the bare command, $OUT a fresh folder,
# {build} the build folder.
TOOLS = {
    'none': (False, None, '{}'),
    'empty': (False, None, 'LD_PRELOAD={bin}/empty.so {}'),
    'memtrack': (False, '{build}/libmemtrack.so', 'LD_PRELOAD={build}/libmemtrack.so MEMTRACK_MODE=full MEMTRACK_DIR=$OUT {}'),
    'memtrack-run': (True, '{build}/memtrack', '{build}/memtrack run -o $OUT/run.mtk -- {}'),
    'heaptrack': (True, 'heaptrack', 'prlimit --as=8000000000 heaptrack -o $OUT/heaptrack {}'),
}
METRICS = {'cpu': 'cpu_s', 'wall': 'wall_s', 'rss': 'rss_kib'}


class Bench:
    def __init__(self, build, pairs, timeout):
        self.pairs, self.timeout = pairs, timeout
        home = build / 'bench'
        cc1 = subprocess.run(['gcc', '-print-prog-name=cc1'], capture_output=True, text=True, check=False).stdout.strip()
        self.names = {'bin': home, 'data': home / 'data', 'work': HERE / 'workloads', 'build': build, 'cc1': cc1}

    def text(self, template):
        return re.sub(r'\{(\w+)\}', lambda m: str(self.names[m[1]]), template)

    def prepare(self):
        """Builds the programs and writes the inputs, once."""
        home = self.names['bin']
        home.mkdir(parents=True, exist_ok=True)
        deep = ['-fomit-frame-pointer', '-fno-optimize-sibling-calls', '-fno-ipa-icf']
        for target, source, flags in (('runone', 'runone.c', ['-fno-builtin', '-Wl,-z,now', '-fno-plt']),
                                      ('mb', 'workloads/mb.c', [*deep, '-g', '-pthread']),
                                      ('empty.so', 'empty.c', ['-shared', '-fPIC'])):
            if not (home / target).exists() or (home / target).stat().st_mtime < (HERE / source).stat().st_mtime:
                subprocess.run(['cc', '-O2', '-D_GNU_SOURCE', '-o', home / target, HERE / source, *flags], check=True)
        done = self.names['data'] / 'done'
        generator = HERE / 'workloads/generate.py'
        if not done.exists() or done.stat().st_mtime < generator.stat().st_mtime:
            print('writing the inputs', file=sys.stderr)
            subprocess.run([sys.executable, generator, self.names['data']], check=True)
            done.touch()

    def missing(self, command):
        """The program that a workload or tool needs and that is not here, or None."""
        words = [word for word in command.split() if not re.match(r'\w+=', word) and not re.match(r'(REDIS|\d+)$', word)]
        program = words[0]
        return None if shutil.which(program) or pathlib.Path(program).exists() else program

    def run_once(self, template, command, cpus):
        """One run; returns its measures with a hash of what it printed."""
        out = tempfile.mkdtemp(prefix='memtrack-bench-')
        result = os.path.join(out, 'result.json')
        environment = dict(os.environ, OUT=out)
        runone, timeout = str(self.names['bin'] / 'runone'), str(self.timeout)
        if command.startswith('REDIS '):
            _, requests, server = command.split(' ', 2)
            start = [sys.executable, str(HERE / 'redis_run.py'), result, cpus, timeout, runone, requests, '--',
                     'sh', '-c', 'exec env ' + template.replace('{}', server + ' "$@"'), 'sh']
        else:
            assignment, rest = re.match(r'((?:\w+=\S+ )*)(.*)', command).groups()
            start = [runone, cpus, timeout, result, 'sh', '-c', 'exec env ' + assignment + template.replace('{}', rest)]
        done = subprocess.run(start, cwd=out, env=environment, capture_output=True, check=False)
        try:
            measured = json.loads(pathlib.Path(result).read_text())
        except (OSError, ValueError):
            measured = {'status': 98}
        measured['output'] = hashlib.sha256(done.stdout).hexdigest()
        measured['error'] = done.stderr[-300:].decode(errors='replace')
        pair_ns = re.search(rb'cpu_ns_per_pair ([\d.]+)', done.stderr)
        measured['pair_ns'] = float(pair_ns[1]) if pair_ns else None
        shutil.rmtree(out, ignore_errors=True)
        return measured

    def measure(self, workload, tool):
        """All pairs of one workload and tool: a list of (bare, tracked)."""
        cpus, command = WORKLOADS[workload]
        all_cpus, _, template = TOOLS[tool]
        command = self.text(command)
        template = self.text(template)
        pairs = []
        self.run_once('{}', command, cpus)  # warms the caches
        for number in range(self.pairs):
            runs = [('{}', cpus), (template, '01' if all_cpus else cpus)]
            order = (0, 1) if number % 2 == 0 else (1, 0)
            measured = {i: self.run_once(runs[i][0], command, runs[i][1]) for i in order}
            pairs.append((measured[0], measured[1]))
            if measured[1]['status'] != 0:
                break
        return pairs


def ratios(pairs, metric):
    key = METRICS[metric]
    return [tool[key] / bare[key] for bare, tool in pairs
            if bare.get(key) and tool.get(key) and not bare.get('probed') and not tool.get('probed')]


def cell(pairs, metric):
    """`median (lowest to highest)`, or what went wrong."""
    last = pairs[-1][1]
    if last.get('timed_out'):
        return 'timed out'
    if last['status'] != 0:
        return f'exit status {last["status"]}'
    found = ratios(pairs, metric)
    if not found:
        return '-'
    return f'{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})'


def print_tables(results, tools, metrics):
    """`results` maps (workload, tool) to pairs."""
    workloads = [w for w in WORKLOADS if any((w, tool) in results for tool in tools)]
    counts = {len(pairs) for pairs in results.values()}
    for metric in metrics:
        print(f'\n{metric}: tracked / bare, median (lowest to highest) of n = {max(counts)} pairs; '
              'none = a second bare run\n')
        print('| workload | bare | ' + ' | '.join(tools) + ' |\n|---|---|' + '---|' * len(tools))
        for workload in workloads:
            bare = [b[METRICS[metric]] for t in tools for b, _ in results.get((workload, t), []) if b.get(METRICS[metric])]
            unit = f'{statistics.median(bare) / 1024:.0f} MiB' if metric == 'rss' else f'{statistics.median(bare):.2f} s'
            row = [cell(results[workload, t], metric) if (workload, t) in results else '' for t in tools]
            print(f'| {workload} | {unit} | ' + ' | '.join(row) + ' |')
    print_notes(results)


def print_notes(results):
    for (workload, tool), pairs in results.items():
        bare_ns = [b['pair_ns'] for b, _ in pairs if b['pair_ns']]
        tool_ns = [t['pair_ns'] for _, t in pairs if t['pair_ns']]
        if bare_ns and tool_ns and tool not in ('none', 'empty'):
            print(f'\n{workload}, {tool}: one malloc and free takes {statistics.median(bare_ns):.0f} ns bare, '
                  f'{statistics.median(tool_ns):.0f} ns tracked (processor time)', end='')
        if any(b['output'] != t['output'] for b, t in pairs) and tool != 'heaptrack':
            print(f'\n{workload}, {tool}: the program printed something else than in the bare run', end='')
        if pairs[-1][1]['status'] != 0:
            print(f'\n{workload}, {tool}: {pairs[-1][1]["error"].strip()[-200:]}', end='')
    print()


def choose(names, asked, what):
    chosen = asked.split(',') if asked else list(names)
    for name in chosen:
        if name not in names:
            sys.exit(f'bench: no such {what}: {name}; there are: {", ".join(names)}')
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=HERE.parent / 'build', help='build folder')
    parser.add_argument('-t', '--tools', help='comma-separated, of: ' + ', '.join(TOOLS))
    parser.add_argument('-w', '--workloads', help='comma-separated, of: ' + ', '.join(WORKLOADS))
    parser.add_argument('-m', '--metrics', default='cpu,rss', help='of: cpu, wall, rss')
    parser.add_argument('-n', '--pairs', type=int, default=5)
    parser.add_argument('-T', '--timeout', type=int, default=150, help='seconds for one run')
    options = parser.parse_args()
    tools = choose(TOOLS, options.tools or 'none,memtrack,memtrack-run,heaptrack', 'tool')
    workloads = choose(WORKLOADS, options.workloads, 'workload')
    metrics = choose(METRICS, options.metrics, 'metric')
    bench = Bench(options.build.resolve(), options.pairs, options.timeout)
    bench.prepare()
    for tool in tools[:]:
        need = TOOLS[tool][1]
        if need and bench.missing(bench.text(need)):
            print(f'left out: tool {tool} ({bench.text(need)} is not there)')
            tools.remove(tool)
    results = {}
    for workload in workloads:
        absent = bench.missing(bench.text(WORKLOADS[workload][1]))
        if absent:
            print(f'left out: workload {workload} ({absent} is not installed)')
            continue
        for tool in tools:
            results[workload, tool] = bench.measure(workload, tool)
            print(f'{workload} {tool}: cpu {cell(results[workload, tool], "cpu")}', file=sys.stderr, flush=True)
    if results:
        print_tables(results, tools, metrics)
    return 0 if all(pairs[-1][1]['status'] == 0 for pairs in results.values()) else 1


if __name__ == '__main__':
    sys.exit(main())
