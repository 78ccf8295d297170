#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: test_install.py BUILD - installs into a fresh folder and uses what lies there, from outside.

The folder is not the configured prefix: everything installed must work where it was moved to.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'support'))
sys.dont_write_bytecode = True
from tap import Tap  # noqa: E402

EXPECTED = ['bin/memtrack', 'lib/libmemtrack.so', 'lib/libmemtrack.so.1', 'lib/libmemtrack-wrap.a', 'include/memtrack.h',
            'include/memtrack_profile.h',
            'lib/pkgconfig/memtrack.pc', 'lib/pkgconfig/memtrack-wrap.pc', 'lib/cmake/memtrack/memtrackConfig.cmake',
            'lib/cmake/memtrack/memtrackConfigVersion.cmake']


class Install:
    def __init__(self, build, folder):
        self.folder = folder
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(('MEMTRACK', 'LD_', 'MESON'))}
        self.environment['MEMTRACK_DIR'] = str(folder)
        subprocess.run(['meson', 'install', '-C', build, '--no-rebuild', '--quiet', '--destdir', folder / 'root'],
                       check=True, stdout=subprocess.DEVNULL)
        found = list((folder / 'root').rglob('bin/memtrack'))
        self.prefix = found[0].parent.parent if found else folder / 'root/usr/local'
        self.environment['PKG_CONFIG_PATH'] = str(self.prefix / 'lib/pkgconfig')

    def run(self, *command, cwd=None, **more):
        """(exit status, everything printed)."""
        done = subprocess.run([str(word) for word in command], cwd=cwd or self.folder, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              env=dict(self.environment, **more))
        return done.returncode, done.stdout

    def steps(self, *commands, cwd=None):
        """Runs commands until one fails; returns (problems, output of the last)."""
        output = ''
        for command in commands:
            status, output = self.run(*command, cwd=cwd)
            if status != 0:
                return [f'{" ".join(map(str, command))}: exit status {status}', output], output
        return [], output


def check_files(tap, install):
    missing = [name for name in EXPECTED if not (install.prefix / name).exists()]
    tap.ok('everything is installed', [f'{name} is missing' for name in missing])
    link = install.prefix / 'lib/libmemtrack.so'
    tap.ok('libmemtrack.so leads to libmemtrack.so.1', [] if link.resolve().name.startswith('libmemtrack.so.1') else [
        f'{link} is {link.resolve()}'])


def check_wrap_list(tap, install):
    """The archive defines __wrap_NAME for each --wrap=NAME that pkg-config hands out, and no other."""
    _, symbols = install.run('nm', '--defined-only', install.prefix / 'lib/libmemtrack-wrap.a')
    defined = {line.split()[-1][len('__wrap_'):] for line in symbols.splitlines() if ' T __wrap_' in line}
    _, flags = install.run('pkg-config', '--libs', 'memtrack-wrap')
    asked = {word.split('=')[1] for word in flags.split() if word.startswith('-Wl,--wrap=')}
    tap.ok('the --wrap options are those that the archive defines', [] if defined == asked and asked else [
        f'only defined: {sorted(defined - asked)}', f'only asked for: {sorted(asked - defined)}'])


def expect(problems, output, *texts):
    return problems + [f'{text!r} is not in: {output}' for text in texts if text not in output]


def check_cmake(tap, install):
    if not shutil.which('cmake'):
        tap.skip('CMake project', 'cmake is not installed')
        return
    source = shutil.copytree(HERE / 'project', install.folder / 'cmake-project')
    for switch in ('ON', 'OFF'):
        out = install.folder / f'cmake-{switch}'
        problems, output = install.steps(
            ['cmake', '-S', source, '-B', out, f'-DENABLE_MEMTRACK={switch}', f'-DCMAKE_PREFIX_PATH={install.prefix}',
             '-DCMAKE_BUILD_TYPE=RelWithDebInfo'],
            ['cmake', '--build', out], [out / 'app'])
        problems = expect(problems, output, f'tracked: {"yes" if switch == "ON" else "no"}')
        tap.ok(f'a CMake project with ENABLE_MEMTRACK={switch} builds and runs', problems)
    if not (install.folder / 'cmake-ON/app').exists():
        return
    status, output = install.run(install.folder / 'cmake-ON/app', MEMTRACK_MODE='leak_report')
    tap.ok('the CMake project reports its leak with file and line',
           expect([] if status == 0 else [f'exit status {status}'], output, '[LEAK]', 'app.c:'))


def check_pkg_config(tap, install):
    source = HERE / 'project/app.c'
    script = f'cc -g -O1 -DENABLE_MEMTRACK -I {HERE}/project {source} -o pkg-app $(pkg-config --cflags --libs memtrack)'
    problems, output = install.steps(['sh', '-c', script], ['env', f'LD_LIBRARY_PATH={install.prefix}/lib', f'MEMTRACK_STATE_DIR={install.prefix}', './pkg-app'])
    tap.ok('a program built with pkg-config memtrack runs', expect(problems, output, 'tracked: yes', 'control 0'))
    script = (f'cc -g -O1 -static -DENABLE_MEMTRACK -I {HERE}/project {source} -o static-app '
              '$(pkg-config --cflags --libs memtrack-wrap)')
    problems, output = install.steps(['sh', '-c', script], ['env', f'MEMTRACK_STATE_DIR={install.prefix}', './static-app'])
    tap.ok('a static program built with pkg-config memtrack-wrap runs and reaches the tracker',
           expect(problems, output, 'sum 4950', 'control 0'))


def check_command(tap, install):
    problems, _ = install.steps(['cc', '-g', '-O1', '-I', HERE / 'project', HERE / 'project/app.c', '-o', 'plain'])
    status, output = install.run(install.prefix / 'bin/memtrack', 'run', '--', './plain')
    problems += [] if status == 0 else [f'exit status {status}']
    tap.ok('the installed command finds its library and tracks a program', expect(problems, output, 'app.c:', 'sum 4950'))


def main():
    tap = Tap()
    with tempfile.TemporaryDirectory() as folder:
        install = Install(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder))
        for check in (check_files, check_wrap_list, check_cmake, check_pkg_config, check_command):
            check(tap, install)
    return tap.done()


if __name__ == '__main__':
    sys.exit(main())
