"""What is known of each program: a chart, from one small data file per program, read when the program occurs.

This module decides how a program's name leads to its file and what such a file may say (`Program`,
`Option`, `Operands`, `Runs`). To add a program, add a file to `data/`; this module does not change.
`options` sorts the words of a command by a chart; `effects` and `unwrap` decide what follows from that.
"""

import os
import re
from functools import lru_cache
from typing import Literal

import msgspec
from msgspec import Struct

from pinfold.model.load_structs import load_as
from pinfold.model.script import Trait

DATA = os.path.join(os.path.dirname(__file__), "data")

# Names that cannot be file names everywhere, or that mean something to programs: ruff obeys any `ruff.toml`.
SPELLED = {"[": "test", ":": "true", ".": "source", "ruff": "ruff-check"}
DASHED = frozenset({"git"})
LOADERS = ("ld-linux", "ld-musl", "ld.so", "ld64.so")
# Homebrew and MacPorts put a `g` before the names of the GNU programs.
# fmt: off
GNU = frozenset({
    "[", "awk", "b2sum", "base32", "base64", "basename", "basenc", "cat", "chcon", "chgrp", "chmod", "chown",
    "chroot", "cksum", "comm", "cp", "csplit", "cut", "date", "dd", "df", "dir", "dircolors", "dirname", "du",
    "echo", "egrep", "env", "expand", "expr", "factor", "false", "fgrep", "find", "fmt", "fold", "grep",
    "groups", "head", "hostid", "id", "install", "join", "kill", "link", "ln", "locate", "logname", "ls",
    "make", "md5sum", "mkdir", "mkfifo", "mknod", "mktemp", "mv", "nice", "nl", "nohup", "nproc", "numfmt",
    "od", "paste", "pathchk", "pinky", "pr", "printenv", "printf", "ptx", "pwd", "readlink", "realpath", "rm",
    "rmdir", "runcon", "sed", "seq", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "shred",
    "shuf", "sleep", "sort", "split", "stat", "stdbuf", "stty", "sum", "sync", "tac", "tail", "tar", "tee",
    "test", "time", "timeout", "touch", "tr", "true", "truncate", "tsort", "tty", "uname", "unexpand", "uniq",
    "unlink", "updatedb", "uptime", "users", "vdir", "wc", "which", "who", "whoami", "xargs", "yes",
})
# fmt: on
VERSION = r"(?<=[A-Za-z+])-?[0-9][0-9.]*$"
CAPITAL = r"[A-Z]"
ASKED_OFTEN = 64
PUNCTUATION = "._+-"
"""Characters besides letters and digits in the names of charts; no name begins with one."""


class Option(Struct, frozen=True, forbid_unknown_fields=True):
    """One option of a program."""

    value: bool | Literal["optional", "number"] = False
    """It takes a value; an optional value must be attached (`-Ofile`, `--color=x`), or be a number."""
    spells_option: bool = False
    """Its value is another option, without the dash: `kill -s KILL`."""
    words: int = 1
    """How many words its value has; `role` is about the last one (`jq --slurpfile`)."""
    also: tuple[str, ...] = ()
    """Its other spellings."""
    weightless: bool = False
    """A deny or ask rule that names it together with others does not require it (`rm -f`)."""
    hazard: str = ""
    """Why a program with this option does more than its name says."""
    only_alone: str = ""
    """Why it does more than print something where operands follow; no rule that names it accepts that."""
    role: str = ""
    """What its value is: words of `ROLES`."""
    makes: str = ""
    """The roles that it gives to the operands: words of `ROLES`."""
    below: bool = False
    """The program reads everything below directories."""
    follows: bool = False
    """The program follows links below directories, wherever they lead."""
    takes: Literal["", "first", "last"] = ""
    """Its value takes the place of the first or the last operand."""
    runs: Literal["", "shell", "argv", "rest", "first", "split", "stdin", "foreign", "alike", "none"] = ""
    """`shell`: its value is shell text; `argv`: the words after it, up to one of `until`, are a command;
    `rest`: the operands are a command; `first`: the first operand is shell text; `split`: its value,
    split as `env -S` does, and the operands are the program's own command line; `stdin`: standard input is
    shell text; `foreign`: its value is code in another language than bash's; `alike`: its value, or else the
    first operand, is text for another shell, read as shell text where it is plain enough; `none`: with it,
    the program runs neither operands nor standard input."""
    script: bool = False
    """Its value is a file of code: a file that the line writes, or standard input, may run anything."""
    module: bool = False
    """Its value is a module that is a program of that name: `python -m pip`."""
    program: bool = False
    """Its value is the program that gets the operands (`docker run --entrypoint git image push`)."""
    until: tuple[str, ...] = ()
    ends: bool = False
    """No option comes after it and its value."""
    strip: str = ""
    """The text before the shell text in its value."""
    safe: str = ""
    """The values that are no hazard, as a regular expression."""
    code: str = ""
    """The values that run unknown code, as a regular expression."""
    is_rarely_code: bool = False
    """Such a value seldom starts anything, so Pinfold only asks where a rule denies something."""
    goes_on: str = ""
    """The values with which the program runs standard input too, at the end, as a regular expression."""
    anywhere: bool = False
    """The program that it runs starts in an unknown directory."""
    variable: bool = False
    """Its value names a variable that the program sets or unsets."""
    empties: bool = False
    """It clears the environment of the program that it runs."""
    alias: str = ""
    """Its value may define a subcommand: the text before the name."""
    settings: str = ""
    """Its value is `key=value`: the keys whose value is shell text, as a regular expression."""
    between: str = ""
    """If such a value, or one of `alias`, is a list and no shell text: the separator of its words."""
    changes_pinfold: bool = False


class Operands(Struct, frozen=True, forbid_unknown_fields=True):
    """What the operands are; every value consists of words of `ROLES`."""

    first: str = ""
    rest: str = ""
    last: str = ""
    """The last of at least two."""
    second: str = ""
    keys: dict[str, str] = {}
    """For `key=value` operands, as dd takes them."""
    default: str = ""
    """The operand that counts when none is given."""
    last_default: str = ""
    """The last operand that counts where only one is given."""
    besides: str = ""
    """An operand that counts besides all others, unless each of those names a file of a commit
    (`HEAD:path`)."""
    unsafe: str = ""
    """A regular expression; an operand in which it matches is a hazard."""
    why: str = ""
    """The reason for `unsafe` and for the role `hazard`."""


class Runs(Struct, frozen=True, forbid_unknown_fields=True):
    """How a program starts another one that its operands name."""

    operands: Literal["", "argv", "shell", "first", "each", "stdin", "foreign"] = ""
    """`argv`: they are a command; `shell`: joined, they are shell text; `first`: the first one is; `each`:
    every one is; `stdin`: the program runs standard input, with any operands."""
    program: str = ""
    """The words to put before the operands: `minikube kubectl -- get pods` is `kubectl get pods`."""
    skip: int = 0
    """How many operands come before the command."""
    again: bool = False
    """Options may come after the skipped operands too (`ssh host -o x`)."""
    assignments: bool = False
    """`NAME=value` operands before the command go to its environment."""
    transparent: bool = False
    """The program adds nothing of its own to what it runs."""
    stdin: Literal["", "shell", "login", "foreign", "script"] = ""
    """Without operands it runs standard input. `script`: `foreign` or the rules say which of it starts
    programs, as far as the line holds that input; a file is judged as any script. `login`: as `shell` where
    the line gives it input; else it only reports whether the login works (`ssh -T git@x`)."""
    extra: str = ""
    """Where the program takes operands from that it adds to the command, in unknown number."""
    placeholder: str = ""
    """The placeholder of such an operand inside the command; in shell text, as a regular expression."""
    alone: str = ""
    """Why a call without a command is a hazard."""
    remote: bool = False
    """The command runs on another machine, or in another file tree."""
    swapped: bool = False
    """The first two operands follow `program` in the other order: `service x stop` is `systemctl stop x`."""


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """A data file, or a subcommand's table in one."""

    about: str = ""
    same_as: str = ""
    """The program whose file applies to this one too."""
    traits: tuple[Trait, ...] = ()
    style: Literal["gnu", "posix", "single"] = "gnu"
    """`gnu`: options anywhere, clusters, abbreviated long ones; `posix`: options end at the first operand;
    `single`: long options with a single dash, no clusters."""
    closed: bool = False
    """Every harmless option is listed: any other is a hazard."""
    exact: bool = False
    """Options are whole words, never abbreviated and never with a value attached."""
    plain: str = ""
    """Harmless options without a value, spellings joined by `|`: `-a|--all -l`."""
    valued: str = ""
    """Harmless options with a value."""
    options: dict[str, Option] = {}
    numbers: bool = False
    """`-5` is a harmless option."""
    plus: bool = False
    """`+x` is an option as well."""
    bare: bool = False
    """The first word may consist of options without a dash (`tar cf`)."""
    ignored: tuple[str, ...] = ()
    """Words that are neither option nor operand, such as find's parentheses."""
    slashes: bool = False
    """`/s` is an option, as in Windows programs."""
    narrowing: dict[str, str] = {}
    """Options that select some of the files it finds, such as find's `-name`: then it never acts on all. A
    regular expression says which values select; the name `first` means the first operand."""
    foreign: str = ""
    """A regular expression for code in words or on standard input: it may run anything."""
    operands: Operands = Operands()
    below: bool = False
    follows: bool = False
    runs: Runs | None = None
    passes_on: bool = False
    """The files that it writes hold what it reads: its other files, or else standard input."""
    argument_files: str = ""
    """A regular expression for words that the program replaces by the words in a file: `@FILE`."""
    code_file: bool = False
    """It is a file of code that may also be an operand of its language's program: `python manage.py
    shell`."""
    hazard: str = ""
    """Why this program or subcommand is a hazard by itself; a rule that names it accepts that."""
    changes_pinfold: bool = False
    script_safe: str = ""
    """A regular expression for one step of a harmless script (role `script`); any other script is a
    hazard."""
    script_unsafe: str = ""
    """A regular expression; a script in which it matches is a hazard."""
    script_runs: str = ""
    """A regular expression; a hazardous script in which it matches may run anything."""
    subcommands: dict[str, "Program"] = {}
    known: str = ""
    """Further known subcommands, without a table; a subcommand with a file of its own is known as well."""
    unknown_subcommand: str = ""
    """Why a subcommand that is not listed is a hazard."""
    aliasing: bool = False
    """A subcommand that is not listed may be a user's name for any of those listed."""
    abbreviates: bool = False
    """The beginning of a subcommand's name means it, if it fits no other."""
    caseless: bool = False
    """Subcommands may be written in capitals: `redis-cli FLUSHALL`."""
    aliases: dict[str, str] = {}
    """Other names of subcommands, each with the canonical name."""
    inherit: bool = False
    """Options may also come after the subcommand."""
    skips: tuple[str, ...] = ()
    """Words that may come before a subcommand, as an option does: `gcloud beta run`."""
    without: str = ""
    """The default subcommand."""
    names: tuple[str, ...] = ()
    """All names of the program."""
    may_be: tuple[str, ...] = ()
    """Programs that a rule for it also covers: on some systems they are the same, or do the same."""
    same: str = ""
    """Synonyms: beginnings after the program's name that mean the same, one group a line, joined by `|`."""
    does: dict[str, str] = {}
    """Beginnings that include what others do, with those others joined by `|`: `npm install-test`."""
    unlisted_is: str = ""
    """The subcommand that takes an unlisted one as its operand: `yarn x` is `yarn run x`."""
    shortcuts: dict[str, str] = {}
    """Other programs, each with the subcommand that it is: npx is `npm exec`."""
    shortcut_of: str = ""
    """The program and subcommand that it is a shortcut of."""
    goals: Literal["", "whole", "abbreviated"] = ""
    """Each operand is a goal of its own, and may be abbreviated. `Goals` explains the next two fields."""
    goals_between: str = ""
    common_goals: str = ""
    loads: str = ""
    """Names of files that it loads by itself, wherever they are."""
    implied: dict[str, str] = {}
    """Options that operands imply, each with a regular expression: `git push origin +main` is forced."""


NOTHING = Program()


class Chart:
    """A program with its options by every spelling, and its subcommands."""

    __slots__ = ("_children", "loads", "longs", "name", "program", "risky", "spellings", "style")

    def __init__(self, name: str, program: Program, parent: "Chart | None" = None) -> None:
        self.name = name
        self.program = program
        self.style: str = parent.style if parent and parent.style == "single" else program.style
        self.spellings: dict[str, tuple[str, Option]] = dict(parent.spellings) if parent else {}
        for text, option in ((program.plain, Option()), (program.valued, Option(value=True))):
            for entry in text.split():
                self._add(entry.split("|"), option)
        for canonical, option in program.options.items():
            self._add([canonical, *option.also], option)
        self.longs = [name for name in self.spellings if name.startswith("--")]
        self.loads = program.loads.split()
        self.risky = next((n for n, (_, option) in self.spellings.items() if is_risky(option)), "")
        self._children: dict[str, Chart] = {}

    def _add(self, names: list[str], option: Option) -> None:
        for name in names:
            self.spellings[name] = (names[0], option)

    @property
    def has_subcommands(self) -> bool:
        return bool(self.program.subcommands or self.program.known)

    def canonical(self, name: str) -> str:
        """The one name of a subcommand that has several."""
        program = self.program
        name = name.lower() if program.caseless else name
        if program.abbreviates:
            name = re.sub(CAPITAL, lambda capital: "-" + capital[0].lower(), name)  # as npm reads `runScript`
        if program.abbreviates and name not in program.aliases and not self._is_listed(name):
            names = {*program.aliases, *program.subcommands, *program.known.split()}
            meant = {program.aliases.get(long, long) for long in names if long.startswith(name)}
            name = meant.pop() if len(meant) == 1 else name
        return program.aliases.get(name, name)

    def _is_listed(self, name: str) -> bool:
        return name in self.program.subcommands or name in self.program.known.split()

    def child(self, name: str) -> "Chart | None":
        """The chart of a subcommand, if there is one: a table here, or a file `program.subcommand.toml`."""
        if name not in self._children:
            program = self._subprogram(name)
            if program is None:
                return None
            self._children[name] = Chart(name, program, self if self.program.inherit else None)
        return self._children[name]

    def _subprogram(self, name: str) -> Program | None:
        program = self.program.subcommands.get(name)
        while program is not None and program.same_as:
            program = self.program.subcommands.get(program.same_as)
        if program is None and self.program.known:
            file = f"{self.name}.{name}"
            program = (
                _program(file) if _file(file) else Program() if name in self.program.known.split() else None
            )
        return program

    def stranger(self, name: str) -> "Chart":
        """The chart of a subcommand that is not listed."""
        return Chart(name, Program(), self if self.program.inherit else None)


def is_risky(option: Option) -> bool:
    """Whether the option makes the program do more than read."""
    acts = option.role + " " + option.makes
    return bool(option.hazard or option.runs not in ("", "none") or "writes" in acts or "deletes" in acts)


def may_start(option: Option) -> bool:
    """Whether the option by itself names what the program starts."""
    starts = option.program or option.script or option.code or option.settings or option.alias
    return bool(starts or option.runs not in ("", "none"))


def program_name(word: str) -> str:
    """The plain name of the program a word starts: no directory, no version, no `.exe`.

    Facts about zsh, which may run the lines of some agents: `=git` is the path of git.
    """
    word = word.removeprefix("=") or word
    name = word.rstrip("/").rpartition("/")[2] if word.strip("/") else word
    name = name.removesuffix(".exe")
    if name.startswith(LOADERS):
        return "ld.so"
    if _file(name):
        return name
    if name.startswith("g") and name[1:] in GNU:
        return name[1:]
    shorter = re.sub(VERSION, "", name)
    return shorter if shorter != name and _file(shorter) else name


def spelled_out(name: str) -> tuple[str, ...]:
    """The program and subcommand that a dashed program is: `git-push` is `git push`."""
    program, dash, subcommand = name.partition("-")
    return (program, subcommand) if dash and program in DASHED and subcommand else ()


def chart(name: str) -> Chart | None:
    """The chart of a program, by the name that `program_name` returns; None if there is none."""
    return _load(name) if _file(name) else None


def _is_plain(name: str) -> bool:
    plain = all(each.isalnum() or each in PUNCTUATION for each in name)
    return name.isascii() and plain and name[:1] not in PUNCTUATION


@lru_cache(maxsize=512)
def _file(name: str) -> str:
    stem = SPELLED.get(name, name)
    if not _is_plain(stem) or stem == "environment":
        return ""
    name = stem + ".toml"
    file = os.path.join(DATA, name)
    return file if (name in _files() if _is_asked_often() else os.path.isfile(file)) else ""


def _is_asked_often() -> bool:
    """Whether many names are looked up, as long lists of rules do; a line looks up a few."""
    return _file.cache_info().misses > ASKED_OFTEN


@lru_cache(1)
def _files() -> frozenset[str]:
    return frozenset(os.listdir(DATA))


@lru_cache(maxsize=512)
def _load(name: str) -> Chart:
    return Chart(name, _program(name))


def _program(name: str) -> Program:
    program = load_as(Program, _file(name))
    if not program.same_as:
        return program
    other = load_as(Program, _file(program.same_as))
    told = msgspec.structs.asdict(program)
    own = {name: value for name, value in told.items() if value != getattr(NOTHING, name)}
    alone = {"same_as": "", "shortcut_of": program.shortcut_of, "may_be": program.may_be}
    return msgspec.structs.replace(other, **(own | alone))
