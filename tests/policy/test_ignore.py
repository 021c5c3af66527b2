"""The matcher answers as git does, and layers never take back what another ignores."""

import os
import random
import subprocess

import pytest

from pinfold.model.policy import IgnoreMapping
from pinfold.policy.ignore import Ignore, mapping_of, parse_patterns, united

NAMES = ["a", "b", "ab", "a.c", "foo", "bar", "#x", "!x", "a b", "A", "é", "[a]", "x\\y", "1"]
PIECES = [
    *("a", "b", "ab", "foo", "bar", ".c", "#x", "!x", "x", "y", "é", " ", "A", "1"),
    *("*", "*", "**", "***", "?", "/", "/", "/", "**/", "/**", "/**/", "\\", "\\ ", "\\#", "\\!", "\\*"),
    *("[ab]", "[!a]", "[^b]", "[a-c]", "[]a]", "[!]a]", "[a", "[[:alpha:]]", "[[:digit:]x]", "[[:nope:]]"),
    *("[[:a]", "[\\]a]", "[a-]", "[b-a]", "[[:space:]]", "[[:punct:]]", "[/]", "[!/]", "[---]", "\\/"),
]
CHECKS_WANTED = 20_000


def _pattern(rng: random.Random) -> str:
    body = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 5)))
    return rng.choice(["", "", "!", "/"]) + body + rng.choice(["", "", "/", " "])


def _tree(root: str, rng: random.Random) -> list[tuple[str, bool]]:
    """Directories and files on disk, so that git knows which is which."""
    found: list[tuple[str, bool]] = []
    waiting = [""]
    while waiting:
        at = waiting.pop()
        for name in rng.sample(NAMES, 7):
            path, is_directory = at + name, at.count("/") < 3 and rng.random() < 0.45
            found.append((path, is_directory))
            if is_directory:
                os.mkdir(os.path.join(root, path))
                waiting.append(path + "/")
            else:
                open(os.path.join(root, path), "w").close()
        if len(found) > 300:
            break
    return found


def _git(root: str, *arguments: str, stdin: bytes = b"") -> bytes:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-c", f"core.excludesFile={os.devnull}", *arguments],
        cwd=root, input=stdin, capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def test_fuzz_against_git(tmp_path: os.PathLike[str]) -> None:
    seed = int(os.environ.get("PINFOLD_SEED", "0")) or random.randrange(2**32)
    print(f"seed {seed}")
    rng, root = random.Random(seed), str(tmp_path)
    _git(root, "init", "-q", ".")
    paths = _tree(root, rng)
    listed = b"\0".join(path.encode() for path, _ in paths) + b"\0"
    checks = 0
    while checks < CHECKS_WANTED:
        below = [path for path, is_dir in paths if is_dir]
        directories = ["", *rng.sample(below, min(2, len(below)))]
        texts = {at: "\n".join(_pattern(rng) for _ in range(rng.randint(1, 6))) for at in directories}
        for at, text in texts.items():
            with open(os.path.join(root, at, ".gitignore"), "w") as file:
                file.write(text)
        ignored = set(_git(root, "check-ignore", "--no-index", "-z", "--stdin", stdin=listed).split(b"\0"))
        ours = Ignore(mapping_of({os.path.join(root, at): [(".gitignore", t)] for at, t in texts.items()}))
        for path, is_dir in paths:
            said = ours.is_ignored(f"{root}/{path}", is_directory=is_dir)
            assert said == (path.encode() in ignored), (seed, texts, path, is_dir, said)
            checks += 1
        for at in directories:
            os.unlink(os.path.join(root, at, ".gitignore"))
    print(f"{checks} checks, 0 mismatches")


@pytest.mark.parametrize(
    ("text", "patterns"),
    [
        ("a\n# note\n\n b \n", ("a", " b")),
        ("\ufeffa\r\nb\r", ("a", "b")),
        ("a\\ \nb\\\\ \nc\\  ", ("a\\ ", "b\\\\", "c\\ ")),
        ("\\#a\n\\!b\n!c", ("\\#a", "\\!b", "!c")),
    ],
)
def test_parse(text: str, patterns: tuple[str, ...]) -> None:
    assert parse_patterns(text) == patterns


def test_nothing_comes_back_below_an_ignored_directory() -> None:
    assert Ignore({"/w": ("d/", "!d/x")}).is_ignored("/w/d/x")


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/w/a.env", ("*.env", "/w")),
        ("/w/sub/a.env", ("a.*", "/w/sub")),
        ("/w/sub/b.env", None),
        ("/w/sub/build/deep/b.env", ("build/", "/w")),
        ("/w/build", None),  # whether it is a directory was not said
        ("/w/\udcff.key", ("\udcff.*", "/w")),
        ("/elsewhere/a.env", None),
    ],
)
def test_the_pattern_that_decides_is_known(path: str, written: tuple[str, str] | None) -> None:
    ignore = Ignore({"/w": ("*.env", "build/"), "/w/sub": ("!b.env", "a.*"), "/w/": ("\udcff.*",)})
    assert ignore.written(path) == written and ignore.is_ignored(path) is (written is not None)


def test_union_takes_nothing_back() -> None:
    a: IgnoreMapping = {"/w": ("*.key",)}
    b: IgnoreMapping = {"/w": ("*", "!*.key", "!ok")}
    both = united(a, b)
    assert both == united(b, a) == united(both, a) == united(both)
    assert Ignore(both).is_ignored("/w/x.key")
    assert Ignore(both).is_ignored("/w/other")
    assert not Ignore(both).is_ignored("/w/ok")


def test_a_kind_of_file_takes_nothing_back_from_another() -> None:
    mapping = mapping_of({"/w": [(".pinfoldignore", "secret"), (".cursorignore", "x\n!secret")]})
    assert Ignore(mapping).is_ignored("/w/secret")
    git = mapping_of({"/w": [("exclude", "secret"), (".gitignore", "!secret")]})
    assert not Ignore(git).is_ignored("/w/secret")


def test_a_hostile_pattern_takes_no_time() -> None:
    assert not Ignore({"/w": ("*a" * 40 + "b",)}).is_ignored("/w/" + "a" * 200)
    # What would cost too much to know is hidden, and never taken back.
    costly = "**/a*/" * 12 + "b"
    assert Ignore({"/w": (costly,)}).is_ignored("/w" + "/aa" * 30)
    assert Ignore({"/w": ("aa", f"!{costly}")}).is_ignored("/w" + "/aa" * 30)


def test_whoever_walks_down_hears_the_same() -> None:
    rng = random.Random(7)
    for _ in range(12):
        mapping = {
            place: tuple(_pattern(rng) for _ in range(rng.randint(1, 4)))
            for place in rng.sample(["/w", "/w/", "/w/a", "/w/a/b", "/w/foo", "/"], 3)
        }
        ignore = Ignore(mapping)
        waiting = ["/w"] if not ignore.is_ignored("/w", is_directory=True) else []
        for directory in waiting:
            ask = ignore.within(directory)
            for name in NAMES:
                for is_directory in (True, False):
                    path = f"{directory}/{name}"
                    told = ask.is_ignored(name, is_directory) if ask else False
                    assert told is ignore.is_ignored(path, is_directory=is_directory), (mapping, path)
                    assert not told or (ask and ask.may_ignore(f"y/{name}/z"))
                if not ignore.is_ignored(path, is_directory=True) and directory.count("/") < 3:
                    waiting.append(path)


@pytest.mark.parametrize("pattern", ("x", "!x"))
def test_an_ignore_file_in_each_of_many_directories_takes_no_time(pattern: str) -> None:
    """Each compared with each would take minutes."""
    files = {
        f"/w/{number}": [(".pinfoldignore", pattern), (".cursorignore", pattern)] for number in range(8_000)
    }
    mapping = mapping_of(files)
    assert united(mapping, mapping) == mapping
    assert {key.rstrip("/") for key in mapping} == set(files)


def test_what_is_ignored_only_by_a_path_over_a_link_is_looked_for() -> None:
    """However deep below the link it is."""
    rng, found = random.Random(20), 0
    names = ("a", "b", "ab", "foo", "bar")

    def pattern() -> str:
        parts = rng.choices((*names, "*", "**", "?", "[ab]", "fo*", "a**"), k=rng.randint(1, 4))
        return rng.choice(("", "", "", "!", "/")) + "/".join(parts)

    for _ in range(6_000):
        patterns = {"/w": [_pattern(rng), pattern(), pattern()], "/w/a": [pattern()]}
        ignore = Ignore({place: parse_patterns("\n".join(each)) for place, each in patterns.items()})
        link, target = ("/".join(("/w", *rng.choices(names, k=rng.randint(1, 2)))) for _ in range(2))
        below = "".join(f"/{name}" for name in rng.choices(names, k=3))
        if "/w/a" in (link, target):
            continue  # a link has no ignore file, and that of a target counts under every path
        if ignore.is_ignored(link, is_directory=True) or ignore.is_ignored(target, is_directory=True):
            continue
        parts = below[1:].split("/")
        for level in range(1, 4):
            rest = "/".join(parts[:level])
            if ignore.is_ignored(f"{target}/{rest}", is_directory=True):
                break
            if ignore.is_ignored(f"{link}/{rest}", is_directory=True):
                levels = ignore.levels_below(link, target)
                assert levels >= level, (patterns, link, target, rest, levels)
                assert ignore.may_lead(link, ["/w"]), (patterns, link)
                found += 1
                break
    assert found > 100
