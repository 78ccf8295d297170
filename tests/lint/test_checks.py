#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Feeds each check of tools/ something bad and sees it complain, and something good and sees it agree."""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOOLS = ROOT / 'tools'
sys.path.insert(0, str(ROOT / 'tests/support'))
from tap import Tap  # noqa: E402

LICENCE = '/* SPDX-License-Identifier: MIT */\n'
RULES = 'core:\nelf: core\nbase: core\n! core: stdio.h\n'


class Case:
    """One call of a check in a folder of its own."""

    def __init__(self, tap, folder):
        self.tap, self.folder = tap, folder

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *command):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def expect(self, name, complaint, *command):
        """`complaint` is text that must be printed with a failure; None: the check must agree."""
        status, output = self.run(*command)
        if status == 77:
            self.tap.skip(name, output.strip().splitlines()[-1])
            return
        wrong = []
        if complaint is None and status != 0:
            wrong = [f'complained: {output}']
        elif complaint is not None and (status == 0 or complaint not in output):
            wrong = [f'exit status {status}, expected a complaint with {complaint!r}, got: {output}']
        self.tap.ok(name, wrong)


def layers(case):
    case.write('tools/layers.txt', RULES)

    def one(name, complaint, path, text):
        file = case.write(path, text)
        case.expect(name, complaint, TOOLS / 'check-layers', '--root', case.folder, file)
        file.unlink()

    one('layers: an include of a layer above is fine', None, 'src/elf/a.c', '#include "core/x.h"\n')
    one('layers: an include upwards is found', 'core may not include "elf/x.h"', 'src/core/a.c', '#include "elf/x.h"\n')
    one('layers: an include of a sister is found', 'base may not include "elf/x.h"', 'src/base/a.c', '#include "elf/x.h"\n')
    one('layers: an include without its layer is found', 'write "layer/x.h"', 'src/elf/a.c', '#include "x.h"\n')
    one('layers: a banned system header is found', 'core may not include <stdio.h>', 'src/core/a.c', '# include <stdio.h>\n')
    one('layers: an include of a macro is found', 'not a macro', 'src/core/a.c', '#include HEADER\n')
    one('layers: an unknown layer is found', 'no such layer: extra', 'src/extra/a.c', 'int x;\n')
    one('layers: a test that looks into the runtime is found', 'only tests/runtime', 'tests/elf/a.c', '#include "runtime/x.h"\n')
    rules = case.write('bad.txt', 'core: elf\nelf: core\n')
    case.expect('layers: a cycle in the table is found', 'elf is not above core',
                TOOLS / 'check-layers', '--root', case.folder, '--rules', rules)


def source(case):
    def one(name, complaint, path, text):
        file = case.write(path, text)
        case.expect('source: ' + name, complaint, TOOLS / 'check-source', '--root', case.folder, file)

    body = ''.join(f'\tx += {n};\n' for n in range(90))
    one('a clean file passes', None, 'src/core/a.c', LICENCE + '/* fine */\nint x;\n')
    one('a missing licence line is found', 'SPDX', 'src/core/a.c', 'int x;\n')
    one('a missing licence line of a script is found', 'SPDX', 'tools/a', '#!/bin/sh\necho\n')
    one('malloc in a guest layer is found', 'malloc must not be called', 'src/core/a.c', LICENCE + 'void f(void)\n{\n\tmalloc(1);\n}\n')
    one('malloc in a comment or a table of calls is no call', None, 'src/core/a.c',
        LICENCE + '/* malloc(1) */\nvoid f(void)\n{\n\treal.malloc(1); /* free(x) */\n\ttext("malloc(1)");\n}\n')
    one('malloc on the tool side is fine', None, 'src/base/a.c', LICENCE + 'void f(void)\n{\n\tmalloc(1);\n}\n')
    one('dlsym in a guest layer is found', 'dlsym must not', 'src/unwind/a.c', LICENCE + 'void f(void)\n{\n\tdlsym(0, "x");\n}\n')
    one('strcpy is found', 'strcpy is banned', 'src/cli/a.c', LICENCE + 'void f(void)\n{\n\tstrcpy(a, b);\n}\n')
    one('sprintf is found in tests too', 'sprintf is banned', 'tests/core/a.c', LICENCE + 'void f(void)\n{\n\tsprintf(a, "b");\n}\n')
    one('alloca is found', 'alloca is banned', 'src/cli/a.c', LICENCE + 'void f(void)\n{\n\talloca(4);\n}\n')
    one('alloca where a test is about frames is fine', None, 'tests/unwind/a.c', LICENCE + 'void f(void)\n{\n\talloca(4);\n}\n')
    one('a long function is found', 'a function of 90 lines', 'src/cli/a.c', LICENCE + 'void f(void)\n{\n' + body + '}\n')
    one('a long function that says why passes', None, 'src/cli/a.c', LICENCE + '/* long: a table */\nvoid f(void)\n{\n' + body + '}\n')
    one('a long file is found', 'more than 1000 lines', 'src/cli/a.c', LICENCE + 'int x;\n' * 1000)
    one('a machine path is found', 'a path of one machine', 'README.md', 'see /wor' + 'k/main\n')
    one('a registry host is found', 'the host of a registry', 'README.md', 'from registry.' + 'npmjs.org\n')
    one('an issue number is found', 'an issue number', 'README.md', 'fixes is' + 'sue #12\n')
    one('a line comment is found', 'block comments', 'src/cli/a.c', LICENCE + 'int x; // no\n')
    one('a wrong header guard is found', 'MT_CLI_A_H', 'src/cli/a.h', LICENCE + '#ifndef A_H\n#define A_H\n#endif\n')
    one('blanks at a line end are found', 'blanks at the end', 'src/cli/a.c', LICENCE + 'int x; \n')
    one('an unowned mark is found', 'unfinished', 'src/cli/a.c', LICENCE + '/* TO' + 'DO: more */\n')


def headers(case):
    if not shutil.which('gcc'):
        case.tap.skip('headers', 'gcc is not installed')
        return
    tree = case.folder
    (tree / 'tools').mkdir(exist_ok=True)
    check = shutil.copy(TOOLS / 'check-headers', tree / 'tools/check-headers')

    def one(name, complaint, path, text):
        case.write(path, text)
        case.expect('headers: ' + name, complaint, check, path)

    one('a header that stands alone passes', None, 'src/a/good.h', '#ifndef G\n#define G\n#include <stddef.h>\nsize_t f(void);\n#endif\n')
    one('a header that needs another is found', 'does not compile alone', 'src/a/bad.h', '#ifndef B\n#define B\nsize_t f(void);\n#endif\n')
    one('a header without a guard is found', 'does not compile alone', 'src/a/twice.h', 'struct s { int a; };\n')
    one('a public header that is no C++ is found', '-std=c++11', 'include/c.h', '#ifndef C\n#define C\nint f(int class);\n#endif\n')


def freestanding(case):
    def one(name, complaint, text):
        file = case.write('a.c', text)
        case.expect('freestanding: ' + name, complaint, TOOLS / 'check-freestanding', file)

    one('code that calls nothing links', None, 'int f(int x) { return x + 1; }\n')
    one('a call of the C library is found', 'puts', 'int puts(const char *);\nint f(void) { return puts("x"); }\n')
    one('a weak import that is not listed is found', 'undefined without a C library: secret',
        'extern int secret __attribute__((weak, visibility("default")));\n__attribute__((visibility("default"))) int f(void) { return &secret ? secret : 0; }\n')
    one('a listed weak import passes', None,
        'extern char **__environ __attribute__((weak, visibility("default")));\n__attribute__((visibility("default"))) int f(void) { return &__environ != 0; }\n')


def image(case):
    exports = case.write('exports.txt', 'entry # the only one\n')
    imports = case.write('imports.txt', '__environ\n')
    entry = '__attribute__((visibility("default"))) int entry(void) { return 1; }\n'

    def one(name, complaint, text, *flags):
        file, out = case.write('a.c', text), case.folder / 'a.so'
        subprocess.run(['gcc', '-shared', '-fPIC', '-O1', '-fvisibility=hidden', '-nostdlib', '-o', out, file, *flags], check=True)
        case.expect('image: ' + name, complaint, TOOLS / 'check-image', '--exports', exports, '--imports', imports, out)

    one('a plain image passes', None, entry)
    one('an export that is not listed is found', 'exports extra', entry + '__attribute__((visibility("default"))) int extra;\n')
    one('a listed export that is missing is found', 'does not export entry', 'int x;\n')
    one('an import that is not listed is found', 'imports puts', entry.replace('return 1', 'extern int puts(const char *); return puts("")'))
    one('a listed import that is not weak is found', 'it must be weak',
        'extern __attribute__((visibility("default"))) char **__environ;\n' + entry.replace('return 1', 'return __environ != 0'))
    one('a needed library is found', 'needs a library: libc.so.6', entry, '-Wl,--no-as-needed', '-lc')
    one('large thread-local storage is found', 'bytes of thread-local storage',
        '__thread char big[100] __attribute__((tls_model("initial-exec")));\n' + entry.replace('return 1', 'return big[3]'))
    one('a dynamic TLS model is found', '__tls_get_addr',
        '__thread int t;\n' + entry.replace('return 1', 'return t'), '-ftls-model=global-dynamic')
    one('an indirect function is found', 'IRELATIV',
        'static int one(void) { return 1; }\nstatic void *pick(void) { return (void *)one; }\nint chosen(void) __attribute__((ifunc("pick")));\n'
        + entry.replace('return 1', 'return chosen()'))
    one('an executable stack is found', 'executable stack', entry, '-Wl,-z,execstack')


def summary(case):
    def one(name, expected, status, *lines):
        case.write('b/meson-logs/testlog.json', '\n'.join(lines) + '\n')
        got, output = case.run(TOOLS / 'test-summary', case.folder / 'b')
        problems = [] if (got, output.strip().splitlines()[-1]) == (status, expected) else [f'exit status {got}: {output}']
        case.tap.ok('summary: ' + name, problems)

    one('a program without a format counts once', '1 passed, 0 failed', 0, '{"result": "OK", "stdout": ""}')
    one('TAP points count singly', '1 passed, 1 failed, 1 skipped', 1,
        r'{"name": "t", "result": "FAIL", "stdout": "1..3\nok 1 - a\nnot ok 2 - b\n# why\nok 3 # SKIP no"}')
    _, output = case.run(TOOLS / 'test-summary', case.folder / 'b')
    case.tap.ok('summary: a failed point is shown with its reason', [] if 't: not ok 2 - b\n    # why\n' in output else [output])
    one('a program that dies after its points fails', '1 passed, 1 failed', 1, r'{"result": "ERROR", "stdout": "1..1\nok 1 - a"}')
    _, output = case.run(TOOLS / 'test-summary', case.folder / 'b')
    case.tap.ok('summary: a program that failed without a point is named', [] if 'failed: None: ERROR' in output else [output])
    one('cmocka tests count singly', '2 passed, 0 failed', 0,
        r'{"result": "OK", "stderr": "[==========] Running 2 test(s).\n[       OK ] a\n[       OK ] b\n[  PASSED  ] 2 test(s)."}')
    one("cmocka's notation of a skipped test is no failure", '1 passed, 0 failed, 1 skipped', 0,
        r'{"result": "FAIL", "returncode": 0, "stdout": "1..2\nok 1 - a\nnot ok 2 # SKIP b"}')
    one('nothing run is a failure', '0 passed, 0 failed', 1)


def layout(case):
    good = case.write('good.c', LICENCE + 'int f(int x)\n{\n\treturn x;\n}\n')
    case.expect('format: a well laid out file passes', None, TOOLS / 'check-format', good)
    bad = case.write('bad.c', LICENCE + 'int f( int x ){ return x; }\n')
    case.expect('format: another layout is found', 'lines differ', TOOLS / 'check-format', bad)
    wide = case.write('wide.c', LICENCE + 'static const char text[] = "' + 'x' * 100 + '";\n')
    case.expect('format: a line of more than 100 columns is found', 'more than 100 columns', TOOLS / 'check-format', wide)


def manual(case):
    """A stand-in for the command, with one command and two options."""
    program = case.write('fake', """#!/bin/sh
# SPDX-License-Identifier: MIT
case "$*" in
help) printf '  go        does it\\n' ;;
'go --help') printf '  -o, --output=F   where\\n      --fast       sooner\\n' ;;
*) cat "$(dirname "$0")/page" ;;
esac
""")
    program.chmod(0o755)
    shutil.copy(ROOT / 'docs/man/memtrack-environment.7', case.folder)
    output, fast = '.TP\n.B \\-o, \\-\\-output\nwhere.\n', '.TP\n.B \\-\\-fast\nsooner.\n'

    def one(name, complaint, page, *commands):
        case.write('page', page)
        case.expect('manual: ' + name, complaint, TOOLS / 'check-manual', program, case.folder, *commands)

    one('a page with all options passes', None, output + fast, 'go')
    one('an option without a place in the page is found', '--fast is in --help', output, 'go')
    one('an option that is gone is found', '--slow is in the man page', output + fast + fast.replace('fast', 'slow'), 'go')
    one('a name that is the same as another is fine', None, output + fast + '.TP\n.B \\-\\-quick\nthe same as \\-\\-fast.\n', 'go')
    one('a command without a page is found', 'help lists', output + fast)
    case.write('memtrack-environment.7', '.BR depth=N\n')
    one('an unwritten word of MEMTRACK_OPTIONS is found', 'heaps is not in the man page', output + fast, 'go')


def compilers(case):
    if not shutil.which('clang') or not shutil.which('meson'):
        case.tap.skip('compilers', 'clang or meson is not installed')
        return
    (case.folder / 'tools').mkdir()
    check = shutil.copy(TOOLS / 'check-compilers', case.folder / 'tools/check-compilers')
    case.write('meson.build', "project('p', 'c', default_options: ['werror=true', 'warning_level=2'])\nlibrary('a', 'a.c')\n")
    case.write('a.c', 'int f(void);\nint f(void) { return 1; }\n')
    case.expect('compilers: clean code passes', None, check)
    case.write('a.c', 'static int f(void) { return 1; }\n')
    case.expect('compilers: a warning of the second compiler is found', 'unused function', check)


def main():
    tap = Tap()
    for check in (layers, source, headers, freestanding, image, summary, layout, manual, compilers):
        with tempfile.TemporaryDirectory() as folder:
            check(Case(tap, pathlib.Path(folder)))
    return tap.done()


if __name__ == '__main__':
    sys.exit(main())
