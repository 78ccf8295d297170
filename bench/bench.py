#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures what tracking costs: each tracked run is paired with a bare run of the same command.

The two runs of a pair follow each other, in changing order, and only their ratio or difference counts,
so a noisy machine moves both. The tool `none` is a second bare run: its spread is the noise of the figures.
Tables are Markdown.
"""
import argparse
import pathlib
import statistics
import sys

sys.dont_write_bytecode = True
import figures
from catalog import COSTS, MODE_BARS, RELATIVE_BARS, TOOLS, WALL_BARS, WORKLOADS
from measure import HERE, Bench


def cell(pairs, metric):
    """`median (lowest to highest)`, or what went wrong."""
    if figures.failure(pairs):
        return figures.failure(pairs)
    found = figures.ratios(pairs, metric)
    if not found:
        return '-'
    return f'{statistics.median(found):.2f} ({min(found):.2f} to {max(found):.2f})'


def print_tables(results, tools, metrics):
    """`results` maps (workload, tool) to pairs."""
    workloads = [w for w in WORKLOADS if any((w, tool) in results for tool in tools)]
    count = max(len(pairs) for pairs in results.values())
    for metric in metrics:
        key = figures.METRICS[metric]
        print(f'\n{metric}: tracked / bare, median (lowest to highest) of n = {count} pairs; none = a second bare run\n')
        print('| workload | bare | ' + ' | '.join(tools) + ' |\n|---|---|' + '---|' * len(tools))
        for workload in workloads:
            bare = [b[key] for t in tools for b, _ in results.get((workload, t), []) if b.get(key)]
            unit = f'{statistics.median(bare) / 1024:.0f} MiB' if metric == 'rss' else f'{statistics.median(bare):.2f} s'
            row = [cell(results[workload, t], metric) if (workload, t) in results else '' for t in tools]
            print(f'| {workload} | {unit} | ' + ' | '.join(row) + ' |')
    print_notes(results)


def print_notes(results):
    for (workload, tool), pairs in results.items():
        if workload.startswith('mb') and tool not in ('none', 'empty') and not figures.failure(pairs):
            bare_ns, tool_ns = (statistics.median(pair[i]['pair_ns'] for pair in pairs) for i in (0, 1))
            print(f'\n{workload}, {tool}: one malloc and free takes {bare_ns:.0f} ns bare, {tool_ns:.0f} ns tracked '
                  '(processor time)', end='')
        if any(b['output'] != t['output'] for b, t in pairs) and tool != 'heaptrack':
            print(f'\n{workload}, {tool}: the program printed something else than in the bare run', end='')
        if figures.failure(pairs):
            print(f'\n{workload}, {tool}: {pairs[-1][1]["error"].strip()[-200:]}', end='')
    print()


def verdict(value, bar, noise):
    """What to say of a value; `noise` is the least distance that can be told, in the figure's unit."""
    if abs(value - bar) <= noise:
        return 'not decided: within the noise'
    return 'kept' if value <= bar else 'MISSED'


def spread(values):
    """Half of the interquartile range."""
    if len(values) < 4:
        return 0
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / 2


def wall_rows(results):
    """Rows of the table of bars: wall ratios of programs, against the control's."""
    for workload, bar in WALL_BARS.items():
        pairs, control = results.get((workload, 'memtrack')), results.get((workload, 'none'))
        if not pairs or not control:
            continue
        if figures.failure(pairs):
            yield f'{workload}, wall', bar, figures.failure(pairs), '', 'MISSED'
            continue
        value, noise = (figures.ratios(p, 'wall') for p in (pairs, control))
        # a median of n values moves about 1.25 / sqrt(n) as much as one of them
        error = 1.25 * spread(noise) / len(noise) ** 0.5 + abs(statistics.median(noise) - 1)
        yield (f'{workload}, wall tracked / bare', bar, f'{statistics.median(value):.3f}',
               f'{statistics.median(noise):.3f}', verdict(statistics.median(value), bar, error))


def mode_rows(results):
    """Rows of the modes' bars: processor time against the control's."""
    for (workload, tool), pairs in results.items():
        control = results.get((workload, 'none'))
        if tool not in MODE_BARS or not control or workload.startswith('mb'):
            continue
        kind, bar = MODE_BARS[tool]
        if figures.failure(pairs):
            yield f'{workload}, {tool}', bar, figures.failure(pairs), '', 'MISSED'
            continue
        value, noise = (figures.ratios(p, 'cpu') for p in (pairs, control))
        base = statistics.median(noise)
        error = 1.25 * spread(noise) / len(noise) ** 0.5
        got = statistics.median(value) - (base if kind == 'above' else 0)
        what = 'processor time above the control' if kind == 'above' else 'processor time, tracked / bare'
        yield f'{workload}, {tool}: {what}', bar, f'{got:.3f}', f'{base:.3f}', verdict(got, bar, error)


def cost_rows(costs):
    """The other bars. `costs` maps a name of COSTS to (value, control), a control may be None."""
    for name, (value, control) in costs.items():
        bar, what = COSTS[name][5:]
        relative = RELATIVE_BARS.get(name)
        if relative and relative[0] in costs:
            value, bar, control = value / costs[relative[0]][0], relative[1], None
            what += f', as a multiple of {relative[0]}'
        if bar is None:
            continue
        noise = abs(control) if control is not None else 0
        yield (f'{name}: {what}', bar, f'{value:.2f}', '' if control is None else f'{control:.2f}',
               verdict(value, bar, noise))


def print_bars(results, costs):
    rows = [*wall_rows(results), *mode_rows(results), *cost_rows(costs)]
    if rows:
        print('\n| what | at most | measured | control | verdict |\n|---|---|---|---|---|')
    for row in rows:
        print('| ' + ' | '.join(map(str, row)) + ' |')
    return any(row[-1] == 'MISSED' for row in rows)


def measure_cost(bench, name):
    """(value, control) of one of COSTS; the control is the same figure of a second bare run."""
    cpus, command, tool, least, figure, _, _ = COSTS[name]
    figure = getattr(figures, figure)
    count = max(least, bench.pairs) if tool and least > 3 else least
    if not tool:
        bench.prepare_state()
    pairs = bench.measure(cpus, command, tool or 'none', count)
    if figures.failure(pairs):
        sys.exit(f'bench: {name}: {figures.failure(pairs)}: {pairs[-1][1]["error"]}')
    control = None
    if tool and figure.__name__.startswith('added'):
        control = figure(bench.measure(cpus, command, 'none', count))
    print(f'{name}: {figure(pairs):.2f}', file=sys.stderr, flush=True)
    return figure(pairs), control


def choose(names, asked, what):
    chosen = asked.split(',') if asked else list(names)
    for name in chosen:
        if name not in names:
            sys.exit(f'bench: no such {what}: {name}; there are: {", ".join(names)}')
    return chosen


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', type=pathlib.Path, default=HERE.parent / 'build', help='build folder')
    parser.add_argument('--must', action='store_true', help='measure what has a bar, and nothing else; exit 1 if one is missed')
    parser.add_argument('--modes', action='store_true',
                        help='measure the bars of statistics and sampling mode, and nothing else; -n 30 decides more')
    parser.add_argument('-t', '--tools', help='comma-separated, of: ' + ', '.join(TOOLS))
    parser.add_argument('-w', '--workloads', help='comma-separated, of: ' + ', '.join(list(WORKLOADS) + list(COSTS)))
    parser.add_argument('-m', '--metrics', default='wall,cpu,rss', help='of: wall, cpu, rss')
    parser.add_argument('-n', '--pairs', type=int, default=15, help='pairs of each (15)')
    parser.add_argument('-T', '--timeout', type=int, default=150, help='seconds for one run')
    options = parser.parse_args()
    usual = 'none,memtrack' if options.must else 'none,memtrack,memtrack-run'
    if options.modes:
        usual = ','.join(['none', *MODE_BARS])
    options.tools = choose(TOOLS, options.tools or usual, 'tool')
    options.metrics = choose(figures.METRICS, options.metrics, 'metric')
    names = [name for name in WORKLOADS if not (options.must or options.modes) or name in WALL_BARS]
    names += [name for name in COSTS if not options.modes or name.startswith(('stats', 'sample', 'record'))]
    options.workloads = choose([*WORKLOADS, *COSTS], options.workloads or ','.join(names), 'workload')
    return options


def main():
    options = parse()
    bench = Bench(options.build.resolve(), options.pairs, options.timeout)
    bench.prepare()
    tools = options.tools
    for tool in tools[:]:
        need = TOOLS[tool][1]
        if need and bench.missing(bench.text(need)):
            print(f'left out: tool {tool} ({bench.text(need)} is not there)')
            tools.remove(tool)
    results, costs = {}, {}
    for workload in options.workloads:
        if workload in COSTS:
            costs[workload] = measure_cost(bench, workload)
            continue
        cpus, command = WORKLOADS[workload]
        absent = bench.missing(bench.text(command))
        if absent:
            print(f'left out: workload {workload} ({absent} is not installed)')
            continue
        for tool in tools:
            results[workload, tool] = bench.measure(cpus, command, tool, bench.pairs)
            print(f'{workload} {tool}: cpu {cell(results[workload, tool], "cpu")}', file=sys.stderr, flush=True)
    if results:
        print_tables(results, tools, options.metrics)
    missed = print_bars(results, costs)
    failed = any(figures.failure(pairs) for pairs in results.values())
    return 1 if failed or ((options.must or options.modes) and missed) else 0


if __name__ == '__main__':
    sys.exit(main())
