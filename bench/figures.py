# SPDX-License-Identifier: MIT
"""Numbers made of pairs of runs (bare, tracked); a run is what measure.Bench.run_once() returns."""
from statistics import median

from catalog import BLOCKS, MIB

METRICS = {'cpu': 'cpu_s', 'wall': 'wall_s', 'rss': 'rss_kib'}


def good(pairs):
    """The pairs without a system-wide probe."""
    return [(bare, tool) for bare, tool in pairs if not bare.get('probed') and not tool.get('probed')]


def ratios(pairs, metric):
    key = METRICS[metric]
    return [tool[key] / bare[key] for bare, tool in good(pairs) if bare.get(key) and tool.get(key)]


def failure(pairs):
    """What went wrong in the last pair, or None."""
    last = pairs[-1][1]
    if last.get('timed_out'):
        return 'timed out'
    return f'exit status {last["status"]}' if last['status'] != 0 else None


def difference(pairs, key):
    return median(tool[key] - bare[key] for bare, tool in good(pairs))


def added_pair_ns(pairs):
    return difference(pairs, 'pair_ns')


def added_ms(pairs):
    return difference(pairs, 'wall_s') * 1000


def added_mib(pairs):
    return difference(pairs, 'rss_kib') / 1024


def block_bytes(pairs):
    return (difference(pairs, 'rss_kib') * 1024 - 16 * MIB) / BLOCKS


def whole_ms(pairs):
    return median(tool['wall_s'] for _, tool in good(pairs)) * 1000


def whole_cpu_s(pairs):
    return median(tool['cpu_s'] for _, tool in good(pairs))


def whole_mib(pairs):
    return max(tool['rss_kib'] for _, tool in good(pairs)) / 1024
