"""Every data file loads and says only what it may; names lead to the right file."""

import os

import pytest

from pinfold.shell.effects import ROLES
from pinfold.shell.programs import DATA, Chart, Operands, Option, chart, program_name
from pinfold.shell.variables import harmless_variable

FILES = (f for f in os.listdir(DATA) if f.endswith(".toml") and f != "environment.toml")
NAMES = sorted(f.removesuffix(".toml") for f in FILES)

# What a shipped safe list may name, so it must be charted, and closed where it has options.
SAFE = [
    "ls",
    "cat",
    "head",
    "tail",
    "grep",
    "egrep",
    "fgrep",
    "rg",
    "find",
    "fd",
    "wc",
    "sort",
    "uniq",
    "cut",
    "tr",
    "nl",
    "tac",
    "rev",
    "fold",
    "fmt",
    "pr",
    "column",
    "paste",
    "join",
    "comm",
    "expand",
    "unexpand",
    "cmp",
    "diff",
    "stat",
    "file",
    "du",
    "df",
    "pwd",
    "seq",
    "sleep",
    "date",
    "basename",
    "dirname",
    "realpath",
    "readlink",
    "which",
    "type",
    "whoami",
    "id",
    "groups",
    "uname",
    "hostname",
    "uptime",
    "free",
    "ps",
    "nproc",
    "arch",
    "tty",
    "sed",
    "tree",
    "xxd",
    "od",
    "hexdump",
    "strings",
    "md5sum",
    "sha1sum",
    "sha256sum",
    "b2sum",
    "cksum",
    "sum",
    "jq",
    "yq",
    "tput",
    "clear",
    "awk",
]
SAFE_OPEN = [
    "echo",
    "printf",
    "true",
    "false",
    ":",
    "test",
    "[",
    "git",
    "man",
    "less",
    "more",
    "printenv",
    "env",
    "cd",
    "pushd",
    "popd",
    "dirs",
]


SAFE_GIT = [
    "status",
    "log",
    "diff",
    "show",
    "blame",
    "shortlog",
    "rev-list",
    "describe",
    "ls-files",
    "ls-tree",
]


@pytest.mark.parametrize("name", NAMES)
def test_file_says_only_what_it_may(name: str) -> None:
    loaded = chart(name)
    assert loaded is not None
    with open(os.path.join(DATA, name + ".toml"), encoding="utf-8") as stream:
        assert "about = " in stream.read()
    _check(loaded)


def _check(loaded: Chart) -> None:
    program = loaded.program
    for spelling, (canonical, option) in loaded.spellings.items():
        assert spelling.startswith(("-", "+")), (loaded.name, spelling)
        assert canonical in loaded.spellings
        _check_option(option)
    _check_operands(program.operands)
    for name in program.subcommands:
        child = loaded.child(name)
        assert child is not None
        _check(child)


def _check_option(option: Option) -> None:
    assert set((option.role + " " + option.makes).split()) <= ROLES
    assert not option.until or option.runs == "argv"
    assert not option.strip or option.runs == "shell"
    assert not option.role or option.value
    if option.runs == "shell":
        assert option.value


def _check_operands(operands: Operands) -> None:
    for roles in (operands.first, operands.second, operands.rest, operands.last, *operands.keys.values()):
        assert set(roles.split()) <= ROLES
    if operands.unsafe or "hazard" in operands.first + operands.rest + operands.last:
        assert operands.why


@pytest.mark.parametrize("name", [*SAFE, *(f"git.{verb}" for verb in SAFE_GIT)])
def test_safe_program_is_closed(name: str) -> None:
    loaded = chart(name)
    assert loaded is not None
    assert loaded.program.closed, name


@pytest.mark.parametrize("name", SAFE_OPEN)
def test_safe_program_is_charted(name: str) -> None:
    assert chart(name) is not None


@pytest.mark.parametrize(
    ("word", "name"),
    [
        # directories
        ("rm", "rm"),
        ("/bin/rm", "rm"),
        ("../../bin/rm", "rm"),
        ("/proc/self/root/bin/rm", "rm"),
        # versions
        ("python3.11", "python"),
        ("python3", "python"),
        ("gcc-12", "gcc"),
        ("pip3", "pip"),
        # a number that is part of the name
        ("bzip2", "bzip2"),
        ("md5sum", "md5sum"),
        ("foo2", "foo2"),
        # GNU programs under the names of Homebrew
        ("grm", "rm"),
        ("/opt/homebrew/bin/gtimeout", "gtimeout"),
        ("go", "go"),
        # loaders, other systems
        ("/lib64/ld-linux-x86-64.so.2", "ld.so"),
        ("git.exe", "git"),
        # odd words
        ("", ""),
        ("/", "/"),
        ("..", ".."),
        ("environment", "environment"),
    ],
)
def test_name_of_a_word(word: str, name: str) -> None:
    assert program_name(word) == name


@pytest.mark.parametrize("name", ["", "/", "..", "no-such-program", "environment", "a/b", "x\0y"])
def test_unknown_names_have_no_chart(name: str) -> None:
    assert chart(name) is None


def test_harmless_variables() -> None:
    for name in ("CI", "NODE_ENV", "LC_ALL", "LC_TIME", "NO_COLOR", "TZ"):
        assert harmless_variable(name), name
    for name in (
        # what is loaded or run
        *(
            "PATH",
            "LD_PRELOAD",
            "LD_AUDIT",
            "BASH_ENV",
            "ENV",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "PERL5OPT",
            "RUSTC_WRAPPER",
        ),
        # helpers, pagers, editors
        *("GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "PAGER", "MANPAGER", "EDITOR", "LESSOPEN", "BROWSER"),
        # where settings, packages and traffic come from
        *(
            "HOME",
            "RIPGREP_CONFIG_PATH",
            "TAR_OPTIONS",
            "PIP_INDEX_URL",
            "HTTPS_PROXY",
            "IFS",
            "CDPATH",
            "npm_config_x",
        ),
        "BASH_FUNC_ls%%",
    ):
        assert not harmless_variable(name), name


def test_variables_that_redirect_are_not_harmless() -> None:
    assert not any(harmless_variable(name) for name in ("POSIXLY_CORRECT", "EXECIGNORE", "LANGUAGE", "PATH"))
