#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: generate.py DIR - writes the input files of the real-program workloads, the same for the same sources."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

SOURCES = pathlib.Path(__file__).resolve().parents[2] / 'src'
LAYERS = ('symbolize', 'formats', 'model')
RANDOM = random.Random(42)
WORDS = [''.join(RANDOM.choice('abcdefghijklmnopqrstuvwxyz') for _ in range(RANDOM.randint(3, 10)))
         for _ in range(5000)]


def some_words(count):
    return ' '.join(RANDOM.choice(WORDS) for _ in range(count))


def write_sql(path, rows):
    """Mostly bulk work in two tables: inserts, indexes, joins, sorts, JSON; and many small statements."""
    numbers = f'WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM c WHERE i<{rows})'
    lines = [
        'PRAGMA threads=0;',
        'CREATE TABLE a(id INTEGER PRIMARY KEY, k INT, name TEXT, v REAL);',
        'CREATE TABLE b(id INTEGER PRIMARY KEY, a INT, tag TEXT);',
        f"{numbers} INSERT INTO a SELECT i,(i*7919)%{rows // 10},"
        "'name'||((i*31)%997)||printf('%08x',i*2654435761),i*0.5 FROM c;",
        f"{numbers} INSERT INTO b SELECT i,(i*104729)%{rows}+1,'t'||(i%53) FROM c;",
        'CREATE INDEX a_k ON a(k); CREATE INDEX a_name ON a(name); CREATE INDEX b_a ON b(a,tag); ANALYZE;',
        'SELECT tag,count(*),sum(v),group_concat(substr(name,1,3)) FROM b JOIN a ON a.id=b.a '
        'WHERE a.k%7<3 GROUP BY tag ORDER BY 2 DESC;',
        'SELECT x.name,y.name FROM a x JOIN a y ON x.k=y.k AND x.id<y.id WHERE x.k<400 ORDER BY x.name DESC LIMIT 500;',
        "SELECT json_group_array(json_object('id',id,'n',name)) FROM a WHERE id%5=0;",
    ]
    for i in range(rows // 40):
        lines.append((
            f"SELECT count(*),max(name) FROM a WHERE name LIKE 'name{i % 997}%' AND k IN ({i % 100},{i % 77},{i % 31}) "
            f'OR id={i};',
            f"UPDATE a SET v=v+1, name=name||'{RANDOM.choice(WORDS)}' WHERE id={i * 13 % rows + 1};",
            f"INSERT INTO b(a,tag) VALUES({i},'{RANDOM.choice(WORDS)}');")[i % 3])
    lines.append('SELECT count(DISTINCT name) FROM a; DELETE FROM a WHERE id%3=0; VACUUM;')
    path.write_text('\n'.join(lines) + '\n')


def write_json(path, count):
    path.write_text(json.dumps([{
        'id': i, 'user': {'name': some_words(2), 'mail': f'{RANDOM.choice(WORDS)}@{RANDOM.choice(WORDS)}.org',
                          'tags': RANDOM.sample(WORDS, 5)},
        'text': some_words(20), 'position': [RANDOM.random(), RANDOM.randint(0, 10**6)], 'next': None}
        for i in range(count)]))


def write_lines(path, count):
    path.write_text(''.join(f'{some_words(12)} key{i % 5003}={RANDOM.randint(0, 1 << 30)}\n' for i in range(count)))


def write_c(path, compiler):
    """Real C, preprocessed: the project's own sources of some layers with the headers that they use, in one file.
    A source whose static names clash with those of an earlier one is left out."""
    command = [compiler, '-w', '-D_GNU_SOURCE', '-I', SOURCES, '-x', 'c', '-']
    text = ''
    for source in sorted(file for layer in LAYERS for file in (SOURCES / layer).glob('*.c')):
        longer = text + f'#include "{source.relative_to(SOURCES)}"\n'
        if not subprocess.run([*command, '-fsyntax-only'], input=longer.encode(), capture_output=True, check=False).returncode:
            text = longer
    path.write_bytes(subprocess.run([*command, '-E', '-P'], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout)


def make_repository(path, commits):
    subprocess.run(['git', 'init', '-q', '-b', 'main', path], check=True)
    stream = subprocess.Popen(['git', '-C', path, 'fast-import', '--quiet'], stdin=subprocess.PIPE)
    files = {}
    for c in range(commits):
        stream.stdin.write(f'commit refs/heads/main\ncommitter a <a@example.org> {1700000000 + c * 100} +0000\n'
                           f'data 8\nc{c:06d}\n\n'.encode())
        for k in sorted({RANDOM.randrange(300) for _ in range(4)}):
            lines = files.setdefault(k, [some_words(8) for _ in range(RANDOM.randint(50, 400))])
            for _ in range(RANDOM.randint(1, 12)):
                lines[RANDOM.randrange(len(lines))] = some_words(8)
            blob = '\n'.join(lines).encode()
            stream.stdin.write(f'M 100644 inline dir{k % 17}/f{k}.txt\ndata {len(blob)}\n'.encode() + blob + b'\n')
    stream.stdin.close()
    if stream.wait():
        sys.exit('git fast-import failed')


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    write_sql(folder / 'script.sql', 200000)
    write_json(folder / 'documents.json', 8000)
    write_lines(folder / 'lines.txt', 24000)
    for compiler in 'gcc', 'clang':
        if shutil.which(compiler):
            write_c(folder / f'{compiler}.i', compiler)
    if not os.path.isdir(folder / 'repository'):
        make_repository(folder / 'repository', 1200)


if __name__ == '__main__':
    main()
