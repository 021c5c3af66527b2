"""Which commands a line may start, where they run, and what cannot be known about it."""

import pytest

from pinfold.model.script import Script, Trait
from pinfold.shell import parse


def argvs(script: Script) -> list[str]:
    assert not script.problem, script.problem
    return [" ".join(w.literal if w.literal is not None else "?" for w in c.words) for c in script.commands]


STARTS = [
    # lists and pipes
    ("a && b || c; d & e", ["a", "b", "c", "d", "e"]),
    ("a\nb", ["a", "b"]),
    ("a | b |& c", ["a", "b", "c"]),
    ("! a", ["a"]),
    ("time -p a", ["a"]),
    ("time", []),
    ("coproc a", ["a"]),
    ("coproc N { a; }", ["a"]),
    # compound
    ("{ a; }", ["a"]),
    ("(a; b)", ["a", "b"]),
    ("if a; then b; elif c; then d; else e; fi", ["a", "b", "c", "d", "e"]),
    ("while a; do b; done", ["a", "b"]),
    ("until a; do b; done", ["a", "b"]),
    ("for i in $(a); do b; done", ["a", "b"]),
    ("for ((i=$(a);;)); do b; done", ["a", "b"]),
    ("select x in a; do b; done", ["b"]),
    ("case $(a) in $(b)) c;; *) d;& esac", ["a", "b", "c", "d"]),
    ("[[ $(a) == $(b) ]]", ["a", "b"]),
    ("(( $(a) ))", ["a"]),
    ("let x=$(a)", ["a"]),
    ("f() { a; }", ["a"]),
    ("function f { a; }", ["a"]),
    # words
    ('p "$(a)" `b` <(c) >(d)', ["a", "b", "c", "d", "p ? ? ? ?"]),
    ('p "${x:-$(a)}" ${y/$(b)/`c`} ${z:$(d)} ${w[$(e)]}', ["a", "b", "c", "d", "e", "p ? ? ? ?"]),
    ("p $((1 + $(a)))", ["a", "p ?"]),
    ("x=$(a)", ["a", ""]),
    ("x=(1 $(a) [$(b)]=2)", ["a", "b", ""]),
    ("x[$(a)]=1", ["a", ""]),
    ("declare x=$(a)", ["a", "declare ?"]),
    ("p `q \\`r\\``", ["r", "q ?", "p ?"]),
    # redirections and here-documents
    ("p > $(a)", ["a", "p"]),
    ("cat <<E\n$(a) `b`\nE", ["a", "b", "cat"]),
    ("cat <<'E'\n$(a) `b`\nE", ["cat"]),
    ("cat <<E <<F\n$(a)\nE\n$(b)\nF\nc", ["a", "b", "cat", "c"]),
    ("cat <<< $(a)", ["a", "cat"]),
    ("cat <<-E\n\tx\n\tE\na", ["cat", "a"]),
    # texts
    ("eval 'a; b'", ["eval a; b", "a", "b"]),
    ("eval a b", ["eval a b", "a b"]),
    ("builtin eval 'a'", ["builtin eval a", "a", "eval a"]),
    ("trap 'a' EXIT", ["trap a EXIT", "a"]),
    ("trap - EXIT", ["trap - EXIT"]),
    ("alias x='a b'", ["alias x=a b", "a b ?"]),
]


@pytest.mark.parametrize(("text", "expected"), STARTS)
def test_starts(text: str, expected: list[str]) -> None:
    assert sorted(argvs(parse(text))) == sorted(expected)


DIRECTORIES: list[tuple[str, list[list[str]] | None]] = [
    # the last command's ways
    ("x", [[]]),
    ("cd a && x", [["a"]]),
    ("cd a; x", [["a"], []]),
    ("cd a || x", [[]]),
    ("cd a || exit; x", [["a"]]),
    ("cd a && cd b && x", [["a", "b"]]),
    ("cd -- a && x", [["a"]]),
    ("command cd a && x", [["a"]]),
    ("cd && x", [["~"]]),
    ("! cd a && x", [[]]),
    ("if cd a; then x; fi", [["a"]]),
    ("cd $HOME && x", [["$HOME"]]),
    # restored
    ("(cd a); x", [[]]),
    ("p $(cd a); x", [[]]),
    ("cd a | p; x", [[]]),
    ("cd a & x", [[]]),
    ("bash -c 'cd a'; x", [[]]),
    # lost
    ("cd - && x", None),
    ("cd $(p) && x", None),
    ("cd * && x", None),
    ("pushd a && x", None),
    ("CDPATH=/etc; cd ssl && x", None),
    ("while p; do cd a; done; x", None),
    ("for i in 1; do cd a && break; exit; done; x", None),
    ("f() { cd a; }; f; x", None),
    ("eval 'cd a'; x", None),
    (". ./file; x", None),
    ("$p; x", None),
    ("cd a; cd b; cd c; x", None),
    ("HOME=/; cd; x", None),
]


@pytest.mark.parametrize(("text", "expected"), DIRECTORIES)
def test_directories(text: str, expected: list[list[str]] | None) -> None:
    command = next(c for c in parse(text).commands if c.words and c.words[0].literal == "x")
    found = command.directories
    ours = None if found is None else [[word.source for word in way] for way in found]
    assert ours == expected


REDIRECTIONS = [
    ("> f", [(">", "f", True, False)]),
    ("p >> f 2>&1", [(">>", "f", True, False)]),
    ("p >| f", [(">|", "f", True, False)]),
    ("p &> f", [("&>", "f", True, False)]),
    ("p >& f", [(">&", "f", True, False)]),
    ("p >&$fd", [(">&", "$fd", True, False)]),
    ("p <> f", [("<>", "f", True, True)]),
    ("p < f", [("<", "f", False, True)]),
    ("p 2>&- <&3 3>&1-", [("<&", "3", False, False)]),
    ("exec {fd}> f", [(">", "f", True, False)]),
    ("p > {a,}", [(">", "{a,}", True, False)]),
    ("{ :; } > f", [(">", "f", True, False)]),
    ("while p; do :; done < f", [("<", "f", False, True)]),
    ("f() { :; } > f", [(">", "f", True, False)]),
]


@pytest.mark.parametrize(("text", "expected"), REDIRECTIONS)
def test_redirections(text: str, expected: list[tuple[str, str, bool, bool]]) -> None:
    # What the commands of a loop or a function read is `test_inputs`' business.
    found = [r for command in parse(text).commands[:1] for r in command.redirections]
    assert [(r.operator, r.target.source, r.writes, r.reads) for r in found] == expected


HERE_TEXTS = [
    ("p <<E\na b\nE", "a b\n"),
    ("p <<-E\n\ta\n\t\tb\n\tE", "a\nb\n"),
    ("p <<'E'\n$x \\$\nE", "$x \\$\n"),
    ("p <<E\n\\$x \\q\nE", "$x \\q\n"),
    ("p <<< 'a b'", "a b"),
    ("p <<E\nE", ""),
    ("p <<E\n$x\nE", None),
]


@pytest.mark.parametrize(("text", "expected"), HERE_TEXTS)
def test_here_texts(text: str, expected: str | None) -> None:
    (redirection,) = parse(text).commands[0].redirections
    assert redirection.target.literal == expected
    assert not redirection.writes
    assert not redirection.reads


SLIPS = [
    # arithmetic
    "echo $((x))", "(( a[0] ))", "let x=1", "[[ x -eq 1 ]]", "[[ 'a[$(p)]' -eq 0 ]]", "echo ${a[x]}",
    "echo ${s:x}", "echo ${s:1:x}", "a[x]=1", "for ((i=0;i<x;i++)); do :; done", "echo $[x]", "declare -i x",
    # names
    "echo ${!x}", "[[ -v 'a[$(p)]' ]]", "test -v 'a[$(p)]'", "[ -v x ]", "printf -v 'a[$(p)]' x",
    "read 'a[$(p)]'", "unset 'a[$(p)]'", "declare 'a[$(p)]=1'", "export 'a[$(p)]=1'", "wait -p 'a[$(p)]'",
    "getopts x 'a[$(p)]'", "mapfile 'a[$(p)]'", 'read "$x"', "declare -n x=y", "unset $x",
    # text that other readers see otherwise
    "cat =ls", "ls *(e:p:)", "echo a\rb", "rm\u00a0-rf\u00a0v", "echo <-> f", "echo .g\u200cit", "echo > /dev/tcp/h/1",  # noqa: E501
]  # fmt: skip
OPEN = [
    # programs
    "$x a", "$(p) a", "/bin/r[m] a", "${!x} a", "`p`", "command $x", '"$@"',
    # text run now or later
    "eval $x", 'eval "$(p)"', "source <(p)", ". $f", "source /dev/stdin", "trap $x EXIT", "alias a=$x",
    "alias a='p ('", "eval 'a |'", "mapfile -C p a", "complete -C p x", "compgen -W '$(p)'", "bind -x '\"a\":p'",  # noqa: E501
    "enable -f ./x.so y", "hash -p ./x ls", "fc -s", "set -H", 'echo "${x@P}"', "echo @(a|$(p))", "echo ${ p; }",  # noqa: E501
    # variables the shell runs
    "PROMPT_COMMAND=p", "PS4='$(p)' bash -x", "export BASH_ENV=f", "declare PS1=x", "BASH_ALIASES[ls]=p",
    "command_not_found_handle() { p; }", "ENV=f sh", "read PROMPT_COMMAND",
    # another shell's reading
    "sh -c \"p $'a\\\\'b; q '\"",
]  # fmt: skip
CLEAN = [
    "ls -la", "echo $((1 + 2))", "[[ 1 -eq 2 ]]", "[ 1 -eq 2 ]", 'echo "${a[0]}" "${a[@]}" ${#a[@]}', "echo ${s:1:2}",  # noqa: E501
    "[ -f x ]", "[[ -f x && $y == z* ]]", "read -r line", "export A=b", "printf '%s' \"$x\"", "cd src && ls",
    "ls | head", "git log > out 2>&1", "echo 'a\tb'", "for i in 1 2; do ls $i; done", "test -n \"$x\"",
    "sh -c 'ls; echo hi 2>&1'", "echo ${x:-y} ${x##*/}", "echo \"${!a[@]}\"",
]  # fmt: skip


@pytest.mark.parametrize("text", SLIPS)
def test_what_may_slip_through_is_noted(text: str) -> None:
    script = parse(text)
    assert not script.problem
    assert script.unknowns


@pytest.mark.parametrize("text", OPEN)
def test_what_may_run_anything_is_noted(text: str) -> None:
    assert any(unknown.runs for unknown in parse(text).unknowns)


@pytest.mark.parametrize("text", CLEAN)
def test_plain_lines_are_clean(text: str) -> None:
    script = parse(text)
    assert not script.problem
    assert script.unknowns == ()


@pytest.mark.parametrize(
    "text", ["ls() { p; }; ls", "ls; ls() { p; }", "alias ls=p\nls", "eval 'ls() { p; }'; ls"]
)
def test_redefined(text: str) -> None:
    command = next(c for c in parse(text).commands if c.words and c.words[0].literal == "ls")
    assert Trait.REDEFINED in command.traits


ASSIGNMENTS = [
    ("A=1", [("A", False)]),
    ("A=1 p", [("A", True)]),
    ("export A=1", [("A", True)]),
    ("export A", [("A", True)]),
    ("declare -x A=1", [("A", True)]),
    ("declare A=1", [("A", False)]),
    ("A=1; export A", [("A", True), ("A", True)]),
    ("set -a; A=1", [("A", True)]),
    ("PATH=.", [("PATH", True)]),
]


@pytest.mark.parametrize(("text", "expected"), ASSIGNMENTS)
def test_assignments(text: str, expected: list[tuple[str, bool]]) -> None:
    found = [a for command in parse(text).commands for a in command.assignments]
    assert [(a.name, a.exported) for a in found] == expected


SETS = [
    "for PATH in .; do ls; done",
    "select PATH in .; do ls; done",
    "printf -v PATH .",
    "printf 'a%n' PATH",
    "read PATH",
    "mapfile PATH",
    "getopts a PATH",
    ": ${PATH:=.}",
    "(( PATH = 3 ))",
    "wait -p PATH",
    "exec {PATH}>a",
    "coproc PATH { ls; }",
    "for RANDOM in 'a[$(p)]'; do ls; done",
]


@pytest.mark.parametrize("line", SETS)
def test_whatever_sets_a_variable_says_so(line: str) -> None:
    assert parse(line).unknowns


@pytest.mark.parametrize("line", ["for f in a b; do ls; done", "read line", "printf '%s' a", "printf -v x y"])
def test_a_line_may_have_variables_of_its_own(line: str) -> None:
    assert not parse(line).unknowns


@pytest.mark.parametrize(
    "line", ["for HOME in /; do rm ~/a; done", "HOME=/; rm ~/a", "printf -v HOME /; rm ~/a"]
)
def test_a_tilde_follows_home(line: str) -> None:
    removes = [c for c in parse(line).commands if c.program == "rm"]
    assert [w.emptied({"HOME": "/home/me"}) for c in removes for w in c.deletes] == ["/a"]


JOINED = ["\\\nE\np\nE", "x\n\\\n\\\nE\np\nE", "E\\\n\np\nE", "x\\\nE\np\nE"]


@pytest.mark.parametrize("body", JOINED)
@pytest.mark.parametrize("operator", ["<<", "<<-"])
def test_a_here_document_that_bash_ends_elsewhere_is_not_read(operator: str, body: str) -> None:
    assert parse(f"cat {operator}E\n{body}").problem


@pytest.mark.parametrize("text", ["cat <<E\na \\\nb\nE", "cat <<'E'\n\\\nE", "cat <<E\nx\\\\\nE"])
def test_continued_lines_elsewhere_are_fine(text: str) -> None:
    assert not parse(text).problem


EMPTIED = [
    # inside of a loop over words, its variable is never empty
    ('for d in a b; do rm "$d/x"; done', ["\ufffd/x"]),
    ('for d in packages/*; do rm "$d/x"; done', ["\ufffd/x"]),
    # unless something else may have emptied it, or it stands outside
    ('for d in a ""; do rm "$d/x"; done', ["/x"]),
    ('for d in a $X; do rm "$d/x"; done', ["/x"]),
    ('for d in a; do d=; rm "$d/x"; done', ["/x"]),
    ('for d in a; do read d; rm "$d/x"; done', ["/x"]),
    ('for d in a; do :; done; rm "$d/x"', ["/x"]),
    ('for d in a; do f() { rm "$d/x"; }; unset d; done', ["/x"]),
    ('for d; do rm "$d/x"; done', ["/x"]),
    # the shell gives up where it is empty
    ('rm "${OUT:?}/x"', ["\ufffd/x"]),
    ('rm "${OUT:?}"/*', ["\ufffd/*"]),
    ('rm "${OUT?}/x"', ["/x"]),
    ("rm ${HOME:?}/x", ["/home/me/x"]),
    # the working directory by other names
    ('rm "$(pwd)"', ["."]),
    ("rm ~+", ["."]),
    ('pwd() { p; }; rm "$(pwd)"', [""]),
    ("PWD=/; rm ~+", [""]),
]


@pytest.mark.parametrize(("line", "emptied"), EMPTIED)
def test_what_is_left_of_a_word_that_may_be_empty(line: str, emptied: list[str]) -> None:
    removes = [c for c in parse(line).commands if c.program == "rm"]
    assert [w.emptied({"HOME": "/home/me"}) for c in removes for w in c.deletes] == emptied


QUOTED_NUMBER_SIGNS = [
    "curl x \\\n -H 'A: #1' \\\n -d '{}'",
    'python -c "\n# note \\\nprint(1)\n"',
    "echo \"$(cat <<'E'\n- # a \\\nE\n)\"",
]


@pytest.mark.parametrize("line", QUOTED_NUMBER_SIGNS)
def test_a_number_sign_in_quotes_begins_no_comment(line: str) -> None:
    assert not parse(line).problem


@pytest.mark.parametrize("line", ["ls # a\\\np", "echo $(ls # a\\\np\n)", "eval 'ls # a\\\np'"])
def test_a_comment_that_ends_with_a_backslash_is_not_read(line: str) -> None:
    script = parse(line)
    assert script.problem or any(unknown.runs for unknown in script.unknowns)
