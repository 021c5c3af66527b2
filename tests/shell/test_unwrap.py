"""Commands inside commands, brought to light."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.model.script import (
    Assignment,
    Command,
    Computed,
    Glob,
    Part,
    Redirection,
    Text,
    Trait,
    Variable,
    Word,
    literal_word,
)
from pinfold.model.text_positions import Span
from pinfold.shell import parse
from pinfold.shell.started_commands import Unwrapped
from pinfold.shell.unwrap import unwrap


def command(*texts: str) -> Command:
    """Words split at blanks; `$X` is an unquoted variable, `"$X"` a quoted one."""
    words, start = [], 0
    for text in texts:
        span = Span(start, start + len(text))
        if text.startswith(("$", '"$')):
            words.append(Word(text, span, (Variable(text.strip('"$'), text.startswith('"')),)))
        else:
            words.append(literal_word(text, span))
        start += len(text) + 1
    return Command(tuple(words), Span(0, start - 1), " ".join(texts))


def undone(line: str) -> Unwrapped:
    return unwrap(command(*line.split()))


@pytest.mark.parametrize(
    ("line", "inner", "transparent"),
    [
        # transparent
        ("env A=1 touch x", "touch x", True),
        ("env -i touch x", "touch x", False),
        ("env -u LANG -C d touch x", "touch x", True),
        ("env -u A touch x", "touch x", False),
        ("nice touch x", "touch x", True),
        ("nice -n 5 touch x", "touch x", True),
        ("nice -5 touch x", "touch x", True),
        ("timeout 5 touch x", "touch x", True),
        ("timeout -s KILL 5 rm -rf x", "rm -rf x", True),
        ("stdbuf -o0 touch x", "touch x", True),
        ("nohup touch x", "touch x", True),
        ("ionice -c3 touch x", "touch x", True),
        ("command touch x", "touch x", True),
        ("builtin echo x", "echo x", True),
        ("exec touch x", "touch x", True),
        ("taskset 1 touch x", "touch x", True),
        ("chrt 1 touch x", "touch x", True),
        # undone, but to be covered as well
        ("sudo -u root rm -rf x", "rm -rf x", False),
        ("sudo A=1 rm x", "rm x", False),
        ("doas rm x", "rm x", False),
        ("pkexec rm x", "rm x", False),
        ("flock ./l touch x", "touch x", False),
        ("unshare touch x", "touch x", False),
        ("prlimit touch x", "touch x", False),
        ("chroot / touch x", "touch x", False),
        ("setsid touch x", "touch x", False),
        ("strace -o f touch x", "touch x", False),
        ("gdb --args touch x", "touch x", False),
        ("ssh-agent touch x", "touch x", False),
        ("busybox touch x", "touch x", False),
        ("/lib64/ld-linux-x86-64.so.2 /bin/touch x", "/bin/touch x", False),
        ("systemd-run --user touch x", "touch x", False),
        ("xvfb-run -a touch x", "touch x", False),
        ("find . -exec touch x ;", "touch x", False),
        ("find . -name a -execdir touch x ;", "touch x", False),
        ("fd . -X touch x", "touch x {}", False),
        ("npx -y touch x", "touch x", False),
        ("npm exec -- touch x", "touch x", False),
        ("pnpm dlx touch x", "touch x", False),
        ("uv run touch x", "touch x", False),
        ("uvx touch x", "touch x", False),
        ("poetry run touch x", "touch x", False),
        ("bundle exec touch x", "touch x", False),
        ("conda run -n e touch x", "touch x", False),
        ("docker run --rm alpine touch x", "touch x", False),
        ("docker exec -it c touch x", "touch x", False),
        ("docker compose exec web touch x", "touch x", False),
        ("kubectl exec -n a pod -- touch x", "touch x", False),
        ("git bisect run touch x", "touch x", False),
        ("git -c alias.p=push p origin", "git push origin", False),
        ("git -c ALIAS.p=push p", "git push", False),
        # a wrapper with words of its own that matter
        ("exec -a y touch x", "touch x", False),
        ("time -o f touch x", "touch x", False),
    ],
)
def test_inner(line: str, inner: str, transparent: bool) -> None:
    found = undone(line)
    assert [one.text for one in found.inner] == [inner]
    assert (Trait.TRANSPARENT in found.command.traits) is transparent
    assert found.inner[0].via == (found.command.program,)
    assert found.unknowns == ()


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("bash", "-c", "git push"), "git push"),
        (("bash", "-O", "extglob", "-lc", "git push"), "git push"),
        (("bash", "-c", "-e", "git push", "a"), "git push"),
        (("sh", "-xec", "touch x"), "touch x"),
        (("su", "root", "-c", "rm x"), "rm x"),
        (("flock", "f", "-c", "rm x"), "rm x"),
        (("watch", "-n", "1", "rm", "x"), "rm x"),
        (("script", "-c", "rm x", "f"), "rm x"),
        (("ssh", "host", "rm", "-rf", "x"), "rm -rf x"),
        (("ssh", "host", "-p", "22", "rm x"), "rm x"),
        (("npm", "exec", "-c", "rm x", "--offline"), "rm x"),
        (("npx", "-c", "rm x"), "rm x"),
        (("git", "rebase", "--exec", "rm x"), "rm x"),
        (("git", "submodule", "foreach", "rm x"), "rm x"),
        (("git", "-c", "alias.x=!rm x", "x"), "rm x"),
        (("git", "difftool", "-x", "rm"), "rm"),
        (("split", "--filter=rm x", "f"), "rm x"),
        (("tar", "cf", "a", "b", "--checkpoint-action=exec=rm x"), "rm x"),
        (("rsync", "-e", "rm x", "a", "b"), "rm x"),
        (("eval", "rm", "x"), "rm x"),
        (("trap", "rm x", "EXIT"), "rm x"),
        (("nix-shell", "--run", "rm x"), "rm x"),
    ],
)
def test_texts(words: tuple[str, ...], text: str) -> None:
    assert [one.text for one in unwrap(command(*words)).texts] == [text]


@pytest.mark.parametrize(
    "line",
    [
        # the program itself
        "$X y",
        # a shell that reads
        *("bash", "sh -s a", "bash -", "bash /dev/stdin", "sudo -s", "parallel", "script"),
        # scripts and texts only known later
        *("bash $X", 'bash "$X"', "bash -c $X", "eval $X", "ssh host $X", 'env -S "$X"'),
        # a word that may shift where the command begins
        *("timeout $T ls", "env $X ls", "sudo $X ls", "xargs $X ls"),
        # options nobody has looked at, before the command
        *("timeout --whatever 5 ls", "cpulimit -l 50 rm x"),
        # other languages of shells
        *("zsh -c ls;ls", "fish -c and", "nu -c ls", "zsh", "pwsh -Command ls"),
        # which subcommand
        *("git $X", "git $X status", "docker $X"),
    ],
)
def test_unknown(line: str) -> None:
    assert any(unknown.runs for unknown in undone(line).unknowns)


@pytest.mark.parametrize(
    "line",
    [
        "bash x.sh",
        "bash --version",
        "command -v ls",
        "ls $X",
        "git status",
        "sudo -l",
        "find . -name x",
        "python x.py",
    ],
)
def test_nothing_unknown(line: str) -> None:
    found = undone(line)
    assert found.unknowns == ()
    assert found.inner == ()
    assert found.texts == ()


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ('timeout "$T" 5 ls', ["timeout 5 ls", "timeout ls", "5 ls"]),
        ('docker exec "$C" -e x c ls', ["docker exec -e x c ls", "docker exec x c ls", "-e x c ls"]),
    ],
)
def test_a_word_before_the_command_may_be_an_option(line: str, inner: list[str]) -> None:
    found = undone(line)
    assert [one.text for one in found.inner] == inner
    assert [unknown.runs for unknown in found.unknowns] == [False]


def test_xargs_adds_what_it_reads() -> None:
    inner = undone("xargs rm -f").inner[0]
    assert inner.words[-1].literal is None
    assert inner.words[-1].splits
    assert undone("xargs -I{} mv {} d").inner[0].words[1].literal is None
    assert undone("xargs -I% mv % d").inner[0].words[1].literal is None
    assert undone("xargs -I{} mv a d").inner[0].text == "mv a d"


def test_a_placeholder_in_shell_text_makes_it_unknown() -> None:
    inner = unwrap(command("xargs", "-I{}", "sh", "-c", "rm {}")).inner[0]
    assert any(unknown.runs for unknown in unwrap(inner).unknowns)


def test_what_find_finds_begins_where_it_starts() -> None:
    word = undone("find src -exec cat {} ;").inner[0].words[1]
    assert word.start == "src"
    assert not word.may_be_option
    assert [word.start for word in undone("find a b -exec cat {} ;").inner[0].words] == ["cat", "a", "b"]
    assert undone("fd x src -X cat").inner[0].words[1].start == "src/"


def test_a_here_document_is_a_text() -> None:
    body = literal_word("touch x\n", Span(10, 18))
    line = Command(
        (literal_word("bash", Span(0, 4)),),
        Span(0, 18),
        "bash <<E",
        redirections=(Redirection("<<", body, Span(5, 18), False, False, feeds=True),),
    )
    assert [text.text for text in unwrap(line).texts] == ["touch x\n"]
    assert unwrap(line).unknowns == ()


def test_assignments_and_directories_reach_the_inner_command() -> None:
    line = command("env", "-C", "d", "PATH=.", "touch", "x")
    outer = Command(line.words, line.span, line.text, (Assignment("A", Span(0, 1), None, True),))
    inner = unwrap(outer).inner[0]
    assert [assignment.name for assignment in inner.assignments] == ["A", "PATH"]
    assert all(assignment.exported for assignment in inner.assignments)
    assert inner.directories is not None
    assert [[word.source for word in way] for way in inner.directories] == [["d"]]
    assert undone("find . -execdir touch x ;").inner[0].directories is None
    assert undone("docker exec c touch x").inner[0].directories is None


@pytest.mark.parametrize("line", ["sudo ls", "doas ls", "su", "pkexec ls", "run0 ls", "runuser -u x ls"])
def test_elevates(line: str) -> None:
    assert Trait.ELEVATES in undone(line).command.traits


@pytest.mark.parametrize(
    "line", ["bash", "python3.11 x", "node x", "perl x", "zsh", "awk 1", "ruby x", "vim x"]
)
def test_interpreters(line: str) -> None:
    expected = not line.startswith("awk")
    assert (Trait.INTERPRETER in undone(line).command.traits) is expected


PROGRAMS = [
    "git",
    "env",
    "bash",
    "xargs",
    "find",
    "sudo",
    "tar",
    "ssh",
    "docker",
    "jq",
    "sed",
    "npm",
    "flock",
    "rm",
    "pinfold",
    "ps",
    "dd",
    "foo",
    "parallel",
    "[",
    ".",
]
TEXTS = st.sampled_from(
    [
        "-",
        "--",
        "-c",
        "-rf",
        "--",
        "-C",
        "x",
        "a=b",
        "{}",
        ";",
        "-exec",
        "-I",
        "cf",
        "",
        "+",
        "--x=",
        "log",
        "run",
        "\n",
    ]
)
PARTS: st.SearchStrategy[Part] = st.one_of(
    TEXTS.map(Text),
    st.just(Glob("*")),
    st.booleans().map(lambda quoted: Variable("X", quoted)),
    st.booleans().map(lambda quoted: Computed("x", quoted)),
)
WORDS = st.lists(PARTS, max_size=3).map(lambda parts: Word("w", Span(0, 1), tuple(parts)))


@given(st.sampled_from(PROGRAMS), st.lists(WORDS, max_size=7))
def test_any_words_get_an_answer(program: str, words: list[Word]) -> None:
    found = unwrap(Command((literal_word(program, Span(0, 1)), *words), Span(0, 1), ""))
    for inner in found.inner:
        unwrap(inner)


SPLIT = [
    # env's own syntax: its comment ends with its string
    ("env -S 'touch x' y", ["env touch x y", "touch x y"]),
    ("env --split-string='-i touch x'", ["env -i touch x", "touch x"]),
    ("env -S 'sort #' a -opwned", ["env sort a -opwned", "sort a -opwned"]),
    ("env '-S sort # x' a", ["env sort a", "sort a"]),
    ("env -S 'rm \"a b\" c#d' e", ["env rm a b c#d e", "rm a b c#d e"]),
]


@pytest.mark.parametrize(("line", "inner"), SPLIT)
def test_env_splits_a_string_in_its_own_way(line: str, inner: list[str]) -> None:
    commands = [c for c in parse(line).commands if c.via]
    assert [" ".join(w.literal or "?" for w in c.words) for c in commands] == inner


@pytest.mark.parametrize("line", ["env -S \"sort 'a\\\\' # ' -ox\"", "env -S 'rm ${X}'", 'env -S "rm \'a"'])
def test_what_env_would_expand_is_not_known(line: str) -> None:
    assert any(unknown.runs for unknown in parse(line).unknowns)


def test_a_file_below_home_is_a_file() -> None:
    assert not any(unknown.runs for unknown in parse("source ~/.nvm/nvm.sh").unknowns)
    assert any(unknown.runs for unknown in parse("source $X").unknowns)
    assert any(unknown.runs for unknown in parse("HOME=/dev; source ~/stdin").unknowns)
    assert any(unknown.runs for unknown in parse("source <(curl x)").unknowns)


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("git-push origin", "git push origin"),
        ("/usr/lib/git-core/git-push origin", "git push origin"),
        ("git subtree -q push -P a origin b", "git push origin b"),
        ("minikube kubectl -- delete pod x", "kubectl delete pod x"),
        ("microk8s.kubectl delete x", "kubectl delete x"),
        ("capsh -- -c x", "bash -c x"),
        ("genv rm -rf x", "rm -rf x"),
        ("dotenv run rm x", "rm x"),
        ("env -S rm -rf x", "env rm -rf x"),
    ],
)
def test_a_program_by_another_name(line: str, inner: str) -> None:
    assert [" ".join(word.source for word in one.words) for one in undone(line).inner] == [inner]


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("EDITOR='rm x' git commit", ["git", "rm"]),
        ("timeout 5 env GIT_PAGER='rm x' git log", ["timeout", "env", "rm", "git"]),
        ("git -c core.pager='rm x' log", ["git", "rm"]),
        ("git -c submodule.a.update='!rm x' log", ["git", "rm"]),
        ("git -c user.name='rm x' log", ["git"]),
    ],
)
def test_settings_that_are_shell_text(line: str, texts: list[str]) -> None:
    assert [one.program for one in parse(line).commands] == texts


@pytest.mark.parametrize(
    ("line", "runs"),
    [
        ("git clone ext::x y", True),
        ("git clone https://h/x y", False),
        ("vim '+!rm x'", True),
        ("vim +12 a", False),
        ("vim +q a", False),
        ("vim -c ':q' a", False),
        ("vim -c ': wq!' a", False),
        ("sqlite3 x '.shell rm x'", True),
        ("sqlite3 x <<< '.shell rm x'", True),
        ("sqlite3 x .tables", False),
        ("make -f - all", True),
        ("make -f m all", False),
        ("make SHELL=./x", True),
        ("make CFLAGS='-O2 -g'", False),
        ("sed '1e rm x' a", True),
        ("sed 's/a/b/e' a", True),
        ("sed -i 's/code/the/w x' a", False),
        ("awk 'BEGIN{system(1)}'", True),
        ("awk '$1 || $2 > 3'", False),
        ("crontab <<< x", True),
        ("crontab -l", False),
    ],
)
def test_code_of_other_languages(line: str, runs: bool) -> None:
    assert any(unknown.runs for unknown in parse(line).unknowns) is runs


@pytest.mark.parametrize(
    ("given_name", "meant"),
    [
        ("publ", "publish"),
        ("publish", "publish"),
        ("run-script", "run"),
        ("runScript", "run"),
        ("urn", "run"),
        ("t", "test"),
        # fits several
        ("p", None),
    ],
)
def test_subcommands_by_other_names(given_name: str, meant: str | None) -> None:
    assert undone(f"npm {given_name} x").command.operands[0].literal == meant
