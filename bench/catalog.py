# SPDX-License-Identifier: MIT
"""What is measured, with which tools, and the bars that the project must keep. README.md explains each."""

# Name: (cpus, command). {bin} programs built here, {data} generated inputs, {work} bench/workloads.
WORKLOADS = {
    'mb': ('0', '{bin}/mb own 1 2000000 100000'),
    'mb-hot': ('0', '{bin}/mb own 1 6000000 1000'),
    'mb-2t': ('01', '{bin}/mb own 2 3000000 100000'),
    'mb-4t': ('01', '{bin}/mb own 4 3000000 100000'),
    'mb-cross': ('01', '{bin}/mb cross 1 2000000 0'),
    'sqlite': ('0', '{bin}/sqlite_run {data}/script.sql'),
    'python': ('0', 'PYTHONMALLOC=malloc /usr/bin/python3 -S {work}/documents.py {data}/documents.json'),
    'perl': ('0', '/usr/bin/perl {work}/words.pl {data}/lines.txt'),
    'jq': ('0', 'jq -c -f {work}/group.jq {data}/documents.json'),
    'cc1': ('0', '{cc1} -quiet -O1 {data}/gcc.i -o /dev/null'),
    'clang': ('0', 'clang -cc1 -O2 -emit-obj {data}/clang.i -o /dev/null'),
    'git': ('0', 'git -C {data}/repository log -p -n 700'),
    'redis': ('0', 'REDIS 120000 redis-server'),
}

# Name: (may use all cpus, what it needs, command). {} is the bare command, $OUT a fresh folder, $STATE another one in
# shared memory, {build} the build folder.
MODE = ('LD_PRELOAD={build}/libmemtrack.so MEMTRACK_OPTIONS="mode=%s" MEMTRACK_DIR=$OUT MEMTRACK_STATE_DIR=$STATE {}')
CHECK = ('LD_PRELOAD={build}/libmemtrack.so LIBC_DEBUG_MALLOC_OPTIONS="%s" MEMTRACK_DIR=$OUT MEMTRACK_STATE_DIR=$STATE {}')
TOOLS = {
    'none': (False, None, '{}'),
    'empty': (False, None, 'LD_PRELOAD={bin}/empty.so {}'),
    'memtrack': (False, '{build}/libmemtrack.so',
                 'LD_PRELOAD={build}/libmemtrack.so MEMTRACK_MODE=full MEMTRACK_DIR=$OUT MEMTRACK_STATE_DIR=$STATE {}'),
    'memtrack-stats': (False, '{build}/libmemtrack.so', MODE % 'stats'),
    'memtrack-sample': (False, '{build}/libmemtrack.so', MODE % 'sample interval=512K'),
    'memtrack-sample-4k': (False, '{build}/libmemtrack.so', MODE % 'sample interval=4K'),
    'memtrack-record': (True, '{build}/memtrack', '{build}/memtrack run -q --mode=record -o $OUT/run.mtk -- {}'),
    'memtrack-run': (True, '{build}/memtrack', '{build}/memtrack run -o $OUT/run.mtk -- {}'),
    'memtrack-guard': (False, '{build}/libmemtrack.so', CHECK % 'guard'),
    'memtrack-fill': (False, '{build}/libmemtrack.so', CHECK % 'free_track fill'),
    'memtrack-backtrace': (False, '{build}/libmemtrack.so', CHECK % 'backtrace'),
    'memtrack-check': (False, '{build}/libmemtrack.so', CHECK % 'guard free_track fill verify_pointers backtrace'),
    'asan': (False, '{asan}', 'LD_PRELOAD={asan} ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0:log_path=$OUT/asan {}'),
    'memcheck': (False, 'valgrind', 'valgrind -q --log-file=$OUT/memcheck {}'),
    'efence': (False, '/usr/lib/libefence.so.0.0', 'LD_PRELOAD=/usr/lib/libefence.so.0.0 EF_ALLOW_MALLOC_0=1 {}'),
    'duma': (False, '/usr/lib/libduma.so.0.0.0', 'LD_PRELOAD=/usr/lib/libduma.so.0.0.0 {}'),
    'lsan': (False, '{lsan}', 'LD_PRELOAD={lsan} LSAN_OPTIONS=exitcode=0:log_path=$OUT/lsan {}'),
    'heaptrack': (True, 'heaptrack', 'prlimit --as=8000000000 heaptrack -o $OUT/heaptrack {}'),
}

# Highest wall time, tracked / bare, of tool `memtrack`.
WALL_BARS = {'sqlite': 1.10, 'redis': 1.43, 'python': 1.50, 'perl': 1.33, 'jq': 1.20, 'cc1': 1.25, 'clang': 1.20,
             'git': 1.23}

# Highest processor time, tracked / bare, of the other modes: above the control of the same run, or in all.
MODE_BARS = {'memtrack-stats': ('above', 0.02), 'memtrack-sample': ('above', 0.02), 'memtrack-sample-4k': ('in all', 1.10)}

BLOCKS, THREADS, MIB = 1000000, 1000, 1 << 20

# What is not a ratio. Name: (cpus, command, tool, pairs at least, figure, highest value, what it is). The figure is a
# function of figures.py that makes a number of the pairs.
COSTS = {
    'pair-hot': ('0', '{bin}/mb hot 1 6000000 16', 'memtrack', 15, 'added_pair_ns', 40,
                 'ns added to malloc and free: one stack of 25 frames, 16 live blocks'),
    'pair-cold': ('0', '{bin}/mb hot 1 3000000 100000', 'memtrack', 15, 'added_pair_ns', 150,
                  'the same with 100,000 live blocks, replaced at random'),
    'pair-2t': ('01', '{bin}/mb hot 2 12000000 32', 'memtrack', 15, 'added_pair_ns', None,
                'the same as pair-hot in each of two threads'),
    'stats-hot': ('0', '{bin}/mb hot 1 6000000 16', 'memtrack-stats', 15, 'added_pair_ns', 8,
                  'the same as pair-hot in statistics mode'),
    'stats-2t': ('01', '{bin}/mb hot 2 12000000 32', 'memtrack-stats', 15, 'added_pair_ns', None,
                 'the same in each of two threads'),
    'stats-4t': ('01', '{bin}/mb hot 4 12000000 64', 'memtrack-stats', 15, 'added_pair_ns', None,
                 'the same in each of four threads on two processors'),
    'sample-hot': ('0', '{bin}/mb hot 1 6000000 16', 'memtrack-sample', 15, 'added_pair_ns', 8,
                   'the same as pair-hot, sampling at 512 KiB'),
    'sample-4k-hot': ('0', '{bin}/mb hot 1 6000000 16', 'memtrack-sample-4k', 15, 'added_pair_ns', 40,
                      'the same as pair-hot, sampling at 4 KiB'),
    'sample-4t': ('01', '{bin}/mb hot 4 12000000 64', 'memtrack-sample', 15, 'added_pair_ns', None,
                  'sampling at 512 KiB in each of four threads'),
    'record-hot': ('01', '{bin}/mb hot 1 6000000 16', 'memtrack-record', 15, 'added_pair_ns', None,
                   'the same as pair-hot in recording mode, with the process that writes the recording'),
    'record-4t': ('01', '{bin}/mb hot 4 12000000 64', 'memtrack-record', 15, 'added_pair_ns', None,
                  'the same in each of four threads'),
    'start': ('0', '/bin/true', 'memtrack', 40, 'added_ms', 3, 'ms added to the run of `true` by the library'),
    'start-run': ('01', '/bin/true', 'memtrack-run', 40, 'whole_ms', 20, 'ms for `memtrack run true` in all'),
    'block': ('0', '{bin}/many 100 %d' % BLOCKS, 'memtrack', 3, 'block_bytes', 48,
              'bytes of memory added for a live block of 64 to 128 bytes, beyond 16 MiB'),
    'threads': ('01', '{bin}/threads %d' % THREADS, 'memtrack', 3, 'added_mib', 16,
                'MiB of memory added by 1000 idle threads'),
    'report': ('0', '{build}/memtrack report --no-symbols {data}/many.mtk', None, 5, 'whole_cpu_s', 2,
               's of processor time for a report of 5 million live blocks of 100,000 stacks'),
    'report-memory': ('0', '{build}/memtrack report --no-symbols {data}/many.mtk', None, 1, 'whole_mib', 200,
                      'MiB of memory for that report'),
}
# The cost of one, as a multiple of the other's, may be at most this.
RELATIVE_BARS = {'pair-2t': ('pair-hot', 1.3), 'stats-2t': ('stats-hot', 1.3), 'stats-4t': ('stats-hot', 1.3),
                 'sample-4t': ('sample-hot', 1.3), 'record-4t': ('record-hot', 1.3)}
