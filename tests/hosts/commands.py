# SPDX-License-Identifier: MIT
"""Programs that run and end: compilers, archivers, filters, shells."""
import os
import subprocess

from ways import Host, digest

WORDS = 60000


def write(directory, name, text, mode=0o644):
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def lines(count, seed=12345):
    """Deterministic lines: a number, a word, a sum."""
    value, out = seed, []
    for i in range(count):
        value = (value * 1103515245 + 12345) % (1 << 31)
        out.append("%d word%d %d" % (value % 100000, value % 997, i))
    return "\n".join(out) + "\n"


def tree(directory, files=60):
    for i in range(files):
        write(directory, "tree/d%d/e%d/f%d.txt" % (i % 5, i % 3, i), lines(40 + i * 7, i))


def text(directory):
    write(directory, "words.txt", lines(WORDS))


def simple(argv, **how):
    """A host that is one command; the files of its directory belong to what is compared."""
    def run(trial):
        trial.run(argv)
        trial.outcome.add("files", digest(trial.dir))
    return run


def script(*commands, skip=None):
    """A host that is several commands, one after the other."""
    def run(trial):
        for i, command in enumerate(commands):
            trial.run(command, "%d %s" % (i, os.path.basename(command[0])))
        trial.outcome.add("files", digest(trial.dir, skip))
    return run


def c_project(directory):
    for i in range(6):
        body = "".join("int f%d_%d(int a)\n{\n\tstatic int t[%d];\n\tfor (int i = 0; i < %d; i++)\n\t\tt[i] += a * i;\n"
                       "\treturn t[a %% %d];\n}\n" % (i, j, j + 3, j + 3, j + 3) for j in range(8))
        write(directory, "part%d.c" % i, "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" + body)
    calls = "".join("int f%d_%d(int);\n" % (i, j) for i in range(6) for j in range(8))
    sums = " + ".join("f%d_%d(a)" % (i, j) for i in range(6) for j in range(8))
    write(directory, "main.c", "#include <stdio.h>\n%sint main(void)\n{\n\tint a = 1;\n\tprintf(\"%%d\\n\", %s);\n}\n" % (
        calls, sums))
    objects = " ".join("part%d.o" % i for i in range(6)) + " main.o"
    write(directory, "Makefile", "CC = gcc\nprog: %s\n\t@$(CC) -o $@ %s\n%%.o: %%.c\n\t@$(CC) -g -O2 -c $<\n"
          "deps:\n\t@$(MAKE) --no-print-directory prog\n\t@./prog\n" % (objects, objects))


def cxx_source(directory):
    write(directory, "map.cc", "#include <algorithm>\n#include <iostream>\n#include <map>\n"
          "#include <string>\n#include <vector>\nint main()\n{\n\tstd::map<std::string, std::vector<int>> m;\n"
          "\tfor (int i = 0; i < 1000; i++)\n\t\tm[std::to_string(i % 37)].push_back(i);\n"
          "\tfor (auto &e : m)\n\t\tif (e.first[0] == '1')\n"
          "\t\t\tstd::cout << e.first << ' ' << e.second.size() << '\\n';\n"
          "\ttry { m.at(\"none\"); } catch (std::out_of_range &e) { std::cout << \"none\\n\"; }\n}\n")


def git_repository(directory):
    home = {"PATH": "/usr/bin:/bin", "HOME": directory, "GIT_CONFIG_NOSYSTEM": "1"}
    for who in "AUTHOR", "COMMITTER":
        home.update({"GIT_%s_NAME" % who: "A", "GIT_%s_EMAIL" % who: "a@example.org",
                     "GIT_%s_DATE" % who: "1700000000 +0000"})

    def git(*arguments):
        subprocess.run(["git", "-C", directory + "/origin"] + list(arguments), env=home, check=True, capture_output=True)
    os.mkdir(directory + "/origin")
    git("init", "-q", "-b", "main", ".")
    for i in range(15):
        write(directory, "origin/file%d.txt" % (i % 6), lines(200 + i, i))
        git("add", ".")
        git("commit", "-q", "-m", "change %d" % i)
        if i % 5 == 4:
            git("tag", "v%d" % i)
    write(directory, "gitconfig", "[pack]\n\tthreads = 1\n[gc]\n\tauto = 0\n[user]\n\tname = A\n\temail = a@example.org\n")


def git_run(trial):
    trial.extra.update(GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.path.join(trial.dir, "gitconfig"), HOME=trial.dir,
                         GIT_COMMITTER_DATE="1700000100 +0000", GIT_AUTHOR_DATE="1700000100 +0000")
    for i, words in enumerate(("clone -q --no-local origin copy", "-C copy gc -q --prune=now", "-C copy fsck --full --strict",
                               "-C copy rev-list --objects --all", "-C copy log --stat --oneline -p", "-C copy grep -c word7",
                               "-C copy checkout -q -b side v4", "-C copy cherry-pick --allow-empty main",
                               "-C copy merge -q -X ours -m merged main", "-C copy log --format=%H%n%an%s -3",
                               "-C copy blame file1.txt", "-C copy archive --format=tar HEAD")):
        trial.run(["git"] + words.split(), "%d git" % i)
    trial.outcome.add("files", digest(trial.dir, r"(^|/)index$|/logs/"))


def openssl_inputs(directory):
    text(directory)
    for name, how in ("ed", ["-algorithm", "ed25519"]), ("rsa", ["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"]):
        subprocess.run(["openssl", "genpkey", "-out", os.path.join(directory, name + ".pem")] + how, check=True,
                       capture_output=True)


OPENSSL = script(*[["openssl"] + words.split() for words in (
    "dgst -sha256 words.txt", "dgst -sha3-512 words.txt", "dgst -blake2b512 words.txt",
    "enc -aes-256-cbc -K 000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f -iv 0f0e0d0c0b0a09080706050403020100 "
    "-in words.txt -out words.enc",
    "enc -d -aes-256-cbc -K 000102030405060708090a0b0c0d0e0f000102030405060708090a0b0c0d0e0f -iv "
    "0f0e0d0c0b0a09080706050403020100 -in words.enc -out words.dec",
    "pkey -in ed.pem -text -noout", "pkeyutl -sign -rawin -inkey ed.pem -in Makefile.txt -out ed.sig",
    "dgst -sha256 -sign rsa.pem -out rsa.sig words.txt", "pkey -in rsa.pem -pubout -out rsa.pub",
    "dgst -sha256 -verify rsa.pub -signature rsa.sig words.txt", "list -digest-commands", "no-such-command",
    "prime 1000003")])


def openssl_prepare(directory):
    openssl_inputs(directory)
    write(directory, "Makefile.txt", lines(50))


def ssh_keys(directory):
    for kind in "ed25519", "rsa", "ecdsa":
        subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "host", "-f", os.path.join(directory, kind)], check=True,
                       capture_output=True)


BASH = r"""
set -u
count() { local n=0; while read -r line; do n=$((n + 1)); done; echo "$n"; }
for i in 1 2 3 4 5; do
	head -n $((i * 500)) words.txt | sort -k2 | uniq -c -f1 | awk '{ s += $1 } END { print s }'
done
declare -A seen
while read -r a b c; do seen[$b]=$((${seen[$b]-0} + a % 7)); done < <(head -2000 words.txt)
for k in "${!seen[@]}"; do echo "$k ${seen[$k]}"; done | sort | md5sum
echo "$(printf '%s\n' {1..300} | tee >(count >count.txt) | tac | head -3 | tr '\n' ' ')"
wait; cat <<END | tr a-z A-Z
here $(echo nested $(echo deeper)) $((6 * 7))
END
(exit 3); echo "status $?"; trap 'echo trapped' EXIT
mapfile -t rows < words.txt; echo "${#rows[@]} ${rows[99]}"
coproc cat; echo through >&"${COPROC[1]}"; read -r back <&"${COPROC[0]}"; echo "$back"
kill -TERM $COPROC_PID
bash -c 'exec ls /proc/self/fd' | tr '\n' ' '
sh -c 'kill -PIPE $$'; echo "killed $?"; no-such-command-at-all; echo "missing $?"
exit 7
"""

JSON = "import json\nprint(json.dumps([{'id': i, 'name': 'n%d' % (i % 13), 'tags': ['a%d' % (i % 5), 'b']} for i in range(6000)]))"

SQL = """CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value INT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
INSERT INTO t SELECT i, 'name ' || (i % 977), (i * 7919) % 10007 FROM n;
CREATE INDEX i1 ON t(name, value);
SELECT name, count(*), sum(value) FROM t GROUP BY name ORDER BY 3 DESC LIMIT 50;
SELECT count(*) FROM t a JOIN t b ON a.value = b.value WHERE a.id < b.id;
UPDATE t SET value = value + 1 WHERE id % 3 = 0;
DELETE FROM t WHERE id % 11 = 0;
VACUUM;
PRAGMA integrity_check;
SELECT json_group_array(json_object('n', name, 'v', value)) FROM (SELECT * FROM t ORDER BY id LIMIT 200);
SELECT no_such_column FROM t;
"""

PERL = r"""
use strict; use warnings; use Time::HiRes;
my %h; $h{$_ % 997} .= "x$_," for 1 .. 40000;
print join(' ', map { "$_:" . length $h{$_} } sort { $a <=> $b } keys %h), "\n";
my @sorted = sort { $a->[1] <=> $b->[1] || $a->[0] cmp $b->[0] } map { [ "k$_", ($_ * 7919) % 1009 ] } 1 .. 5000;
print "$sorted[0][0] $sorted[-1][0]\n";
for my $i (1 .. 6) {
	pipe(my $r, my $w) or die;
	my $pid = fork // die;
	if (!$pid) { close $r; my @a = map { $_ ** 2 } 1 .. 1000 * $i; print $w scalar(@a), " $a[-1]\n"; close $w; exit $i }
	close $w; print "child says ", <$r>; waitpid $pid, 0; print "status ", $? >> 8, "\n";
}
my $text = `sort words.txt | head -2`; print $text;
my $long = 'ab' x 50000; my $n = () = $long =~ /(ab)+?/g; print "$n\n";
eval { die { code => 5 } }; print "caught $@->{code}\n";
local $SIG{ALRM} = sub { die "alarm\n" }; eval { Time::HiRes::ualarm(50000); select undef, undef, undef, 5; }; print "got $@";
warn "a warning\n"; open my $f, '<', '/nonexistent' or warn "cannot: $!\n"; exit 4;
"""

CMAKE = """cmake_minimum_required(VERSION 3.13)
project(hosts C CXX)
include(CheckIncludeFile)
include(CheckFunctionExists)
check_include_file(stdio.h HAVE_STDIO)
check_function_exists(malloc HAVE_MALLOC)
find_package(Threads REQUIRED)
configure_file(config.in config.h)
add_executable(app main.c)
target_link_libraries(app Threads::Threads)
"""


def cmake_project(directory):
    write(directory, "src/CMakeLists.txt", CMAKE)
    write(directory, "src/config.in", "#cmakedefine HAVE_STDIO\n#cmakedefine HAVE_MALLOC\n")
    write(directory, "src/main.c", "int main(void) { return 0; }\n")


def json_input(directory):
    subprocess.run(["python3", "-c", JSON], stdout=open(os.path.join(directory, "doc.json"), "wb"), check=True)


def gdb_input(directory):
    write(directory, "prog.c", "#include <stdlib.h>\nstatic int leaf(int n) { char *p = malloc(n); free(p); return n * 2; }\n"
          "int main(void) { int s = 0; for (int i = 1; i < 50; i++) s += leaf(i); return s == 2450 ? 5 : 6; }\n")
    subprocess.run(["gcc", "-g", "-O0", "prog.c", "-o", "prog"], cwd=directory, check=True)


def gdb_run(trial):
    trial.clean = [(rb"process \d+", b"process")]
    trial.run(["gdb", "-nx", "-batch", "-ex", "break leaf if n == 7", "-ex", "run", "-ex", "bt", "-ex", "finish", "-ex", "kill",
                 "prog"])


def both(*functions):
    def prepare(directory):
        for function in functions:
            function(directory)
    return prepare


HOSTS = [
    Host("gcc", simple(["gcc", "-g", "-O2", "-pipe", "-save-temps=obj", "-Wall", "-Wextra", "-o", "prog", "main.c"] +
                       ["part%d.c" % i for i in range(6)]), c_project, ["gcc"]),
    Host("make -j2", script(["make", "-s", "-j2", "prog"], ["make", "-s", "-j2", "deps"], ["./prog"], ["make", "no-such-target"]),
         c_project, ["make", "gcc"], quick=True),
    Host("g++", script(["g++", "-g", "-O1", "-o", "map", "map.cc"], ["./map"], ["g++", "-fsyntax-only", "absent.cc"]), cxx_source,
         ["g++"]),
    Host("gcc with link-time optimization", script(
        ["gcc", "-O2", "-flto=2", "-frandom-seed=1", "-o", "prog", "main.c"] + ["part%d.c" % i for i in range(6)], ["./prog"]),
         c_project, ["gcc"]),
    Host("clang", script(["clang", "-g", "-O2", "-c", "part0.c"], ["clang", "-O1", "-S", "-emit-llvm", "-o", "-", "part1.c"],
                         ["clang", "-fsyntax-only", "absent.c"]), c_project, ["clang"]),
    Host("clang++", script(["clang++", "-g", "-O1", "-c", "map.cc"]), cxx_source, ["clang++"]),
    Host("rustc", script(["rustc", "-O", "-C", "codegen-units=1", "main.rs"], ["./main"]),
         lambda d: write(d, "main.rs", "use std::collections::HashMap;\nuse std::thread;\nfn main() {\n"
                         "\tlet t: Vec<_> = (0..4).map(|k| thread::spawn(move || { let mut m = HashMap::new();\n"
                         "\t\tfor i in 0..5000u64 { m.insert(i * k, i.to_string()); } m.len() })).collect();\n"
                         "\tfor h in t { println!(\"{}\", h.join().unwrap()); }\n}\n"), ["rustc"]),
    Host("git", git_run, git_repository, ["git"], quick=True),
    Host("tar and xz", script(["tar", "--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-I", "xz -T2 --block-size=100KiB",
                               "-cf", "tree.tar.xz", "tree"], ["tar", "-I", "xz -T2", "-tvf", "tree.tar.xz"],
                              ["tar", "-xf", "tree.tar.xz", "--transform=s/^tree/again/"], ["xz", "-T2", "-lvv", "tree.tar.xz"],
                              ["tar", "-xf", "absent.tar"]),
         tree, ["tar", "xz"], quick=True),
    Host("gzip, bzip2, zstd", script(["gzip", "-kn9", "words.txt"], ["bzip2", "-k", "words.txt"],
                                     ["zstd", "-q", "-k", "-T2", "-19", "words.txt"], ["gzip", "-l", "words.txt.gz"],
                                     ["zstd", "-q", "-t", "words.txt.zst"], ["gzip", "-t", "words.txt"]), text,
         ["gzip", "bzip2", "zstd"]),
    Host("sort", script(["sort", "--parallel=2", "-S4M", "-k2,2", "-k1,1n", "-o", "sorted.txt", "words.txt"],
                        ["sort", "-c", "words.txt"], ["sort", "-u", "-R", "--random-source=words.txt", "words.txt"]), text,
         ["sort"], quick=True, allocators=["jemalloc"]),
    Host("find and xargs", script(["sh", "-c", "find tree -type f -print0 | sort -z | xargs -0 -n3 -P2 wc -l | sort"],
                                  ["find", "tree", "-name", "*7.txt", "-exec", "md5sum", "{}", "+"],
                                  ["xargs", "-a", "/dev/null", "false"]), tree, ["find", "xargs"], quick=True),
    Host("bash", simple(["bash", "script.sh"]), both(text, lambda d: write(d, "script.sh", BASH)), ["bash"], quick=True),
    Host("dash", simple(["dash", "-c", "for i in 1 2 3; do echo $(seq $i | (while read x; do echo $((x * i)); done)); done; "
                         "cat words.txt | head -5 | while read a b c; do echo $b; done; exec sh -c 'exit 9'"]), text, ["dash"]),
    Host("awk", script(*[[awk, "{ s[$2] += $1; l = l substr($0, 1, 1) } END { for (w in s) n += s[w]; print n, length(l); "
                          "\"date -u -d @0 +%Y\" | getline y; print y; while ((\"echo a b; echo c\" | getline line) > 0) print line }",
                          "words.txt"] for awk in ("gawk", "mawk")]), text, ["gawk", "mawk"]),
    Host("sqlite3", script(["sqlite3", "-batch", "data.db", ".read script.sql"], ["sqlite3", "data.db", ".dump"]),
         lambda d: write(d, "script.sql", SQL), ["sqlite3"], quick=True, allocators=["mimalloc"]),
    Host("perl", simple(["perl", "script.pl"]), both(text, lambda d: write(d, "script.pl", PERL)), ["perl"], quick=True,
         allocators=["tcmalloc"]),
    Host("jq", script(["jq", "-c", "group_by(.name) | map({(.[0].name): length})", "doc.json"],
                      ["jq", "-r", ".[] | select(.id % 100 == 3) | [.id, .name] | @csv", "doc.json"], ["jq", ".[", "doc.json"]),
         json_input, ["jq"], quick=True, allocators=["jemalloc"]),
    Host("openssl", OPENSSL, openssl_prepare, ["openssl"], quick=True),
    Host("ssh-keygen", script(["ssh-keygen", "-l", "-f", "ed25519.pub"], ["ssh-keygen", "-l", "-v", "-f", "rsa.pub"],
                              ["ssh-keygen", "-y", "-f", "ecdsa"], ["ssh-keygen", "-l", "-f", "absent"]), ssh_keys, ["ssh-keygen"]),
    Host("rsync", script(["rsync", "-a", "--out-format=%n", "tree/", "copy/"], ["rsync", "-ac", "--delete", "--out-format=%n",
                                                                                 "tree/d1/", "copy/"]), tree, ["rsync"]),
    Host("cmake", script(["cmake", "-S", "src", "-B", "out", "-G", "Unix Makefiles"], ["cmake", "--build", "out"],
                         skip=r"CMakeFiles|\.cmake$"), cmake_project, ["cmake", "make", "gcc", "g++"]),
    Host("gdb", gdb_run, gdb_input, ["gdb", "gcc"]),
    Host("vim", script(["vim", "-Nu", "NONE", "-es", "-c", "%s/word\\(\\d\\+\\)/<\\1>/g", "-c", "sort n", "-c", "wq", "words.txt"]),
         text, ["vim"]),
    Host("imagemagick", script(["convert", "-size", "300x200", "gradient:red-blue", "-blur", "0x3", "-resize", "50%", "out.ppm"],
                               ["convert", "out.ppm", "-format", "%w %h %#", "info:"]), None, ["convert"]),
    Host("getent, iconv", script(["getent", "passwd", "root"], ["getent", "hosts", "localhost"], ["iconv", "-f", "utf-8", "-t",
                                                                                                "utf-16", "words.txt"],
                                  ["locale", "-a"]), text, ["getent", "iconv"]),
    Host("ripgrep", script(["rg", "--no-config", "-j2", "--sort", "path", "-c", "word7", "tree"],
                           ["sh", "-c", "fdfind -j2 -e txt . tree | sort"], ["rg", "(", "tree"]), tree, ["rg", "fdfind"],
         quick=True),
    Host("valgrind", script(["valgrind", "-q", "--error-exitcode=9", "./prog"]), gdb_input, ["valgrind", "gcc"]),
]
