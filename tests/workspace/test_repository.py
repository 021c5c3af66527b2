"""Where git finds a repository, compared with git."""

import os
import random
import shutil
import subprocess
from pathlib import Path

from pinfold.workspace.repository import Repository, RepositorySearch

SEED, TREES = 19, 25
HEADS = (
    *(
        b"ref: refs/heads/x\n",
        b"ref:refs/heads/x",
        b"ref: \t\n\r refs/",
        b"ref: heads/x\n",
        b"ref:\x0brefs/x",
    ),
    *(b"ref: refs/heads/\xff\xfe\n", b"\xffref: refs/heads/x", b"ref:" + b" " * 246 + b"refs/"),
    *(b"ref:" + b" " * 247 + b"refs/", b"ref: refs/heads/x" + b"\n" * (1 << 20), b"0" * 40, b"ref:\0refs/x"),
    *(b"0" * 39, b"g" * 40, b" " + b"0" * 40, b"0" * 64, b"", b"\xef\xbb\xbfref: refs/heads/x"),
    *(b"AbCd" * 10 + b"x", b"ref : refs/x"),
)
LEADS = (
    *(
        b"gitdir: %s",
        b"gitdir: %s\n",
        b"gitdir: %s\r\n\n",
        b"gitdir:%s\n",
        b"gitdir:  %s\n",
        b"gitdir: %s \n",
    ),
    *(b" gitdir: %s\n", b"gitdir: %s\0x", b"gitdir: %s\n" + b"\n" * (1 << 20), b"\xff", b"", b"gitdir: "),
    *(b"gitdir: \0", b"Gitdir: %s", b"gitdir: %s/", b"gitdir: ./%s/.\n", b"gitdir: %s\nx", b"gitdir:\t%s"),
)
COMMONS = (
    *(b"%s", b"%s\n", b"%s\r\n", b" %s", b"%s ", b"\n", b"", b"%s\0x", b"./%s/", b"%s\nx", b"\xff"),
    b"nowhere",
)


class Oracle:
    """Trees of what may be a repository or not, and git's word about them."""

    def __init__(self, top: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.top = top

    def pick(self, *of: bytes) -> bytes:
        return self.random.choice(of)

    def make_tree(self) -> list[Path]:
        """Fills the top; the directories to ask about."""
        places = [self.top, *(self.top / name for name in ("a", "a/b", "a/b/c", "m", "m ", " m"))]
        for place in places:
            place.mkdir(exist_ok=True)
        for place in self.random.sample(places, 4):
            self.make_directory(place)
        for place in self.random.sample(places[:4], 3):
            self.make_dot_git(place / ".git")
        return places

    def make_dot_git(self, path: Path) -> None:
        kind = self.random.random()
        if kind < 0.4:
            path.mkdir()
            self.make_directory(path)
        elif kind < 0.85:
            path.write_bytes(self.filled(self.pick(*LEADS), path.parent))
        elif kind < 0.95:
            path.symlink_to(self.random.choice((self.top / "m", self.top / "none", path)))
        else:
            os.mkfifo(path)

    def filled(self, text: bytes, place: Path) -> bytes:
        target = self.top / self.random.choice(("m", "m ", " m", "a", "a/b"))
        told = os.fsencode(target if self.random.random() < 0.4 else os.path.relpath(target, place))
        return text.replace(b"%s", told)

    def make_directory(self, place: Path) -> None:
        is_whole = self.random.random() < 0.7
        for name in ("objects", "refs"):
            self.make_content(place / name, 0 if is_whole else self.random.random())
        head = place / "HEAD"
        kind = self.random.random()
        if kind < 0.85:
            head.write_bytes(HEADS[0] if is_whole and kind < 0.4 else self.pick(*HEADS))
        elif kind < 0.95:
            head.symlink_to(self.random.choice(("refs/heads/x", "refs", "../refs/x", "HEAD")))
        else:
            head.mkdir()
        if self.random.random() < 0.3:
            (place / "commondir").write_bytes(self.filled(self.pick(*COMMONS), place))

    @staticmethod
    def make_content(path: Path, kind: float) -> None:
        if kind < 0.5:
            path.mkdir()
        elif kind < 0.8:
            path.write_bytes(b"")
            path.chmod(0o755 if kind < 0.7 else 0o644)
        elif kind < 0.9:
            path.symlink_to("." if kind < 0.85 else "nowhere")

    def word_of(self, place: Path) -> tuple[str, bool] | bytes | None:
        """Which git directory git takes there, and whether it takes it for a bare one; what it dies of."""
        settings = {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
        ceiling = {"GIT_CEILING_DIRECTORIES": str(self.top.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(
            ["git", "rev-parse", "--absolute-git-dir", "--is-bare-repository"],
            cwd=place,
            capture_output=True,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_CONFIG_COUNT": "1", **settings, **ceiling},
        )
        if done.returncode == 0:
            path, _, bare = os.fsdecode(done.stdout).rstrip("\n").rpartition("\n")
            return path, bare == "true"
        return None if b"not a git repository (or any" in done.stderr else done.stderr

    def check(self, place: Path) -> str:
        """What git says, in a word, once it is what we say."""
        search = RepositorySearch()
        found = search.repository_of(str(place))
        if found and not found.top.startswith(str(self.top)):
            found = None  # above the ceiling
        word = self.word_of(place)
        told = (place, word, found, search.doubts)
        if isinstance(word, bytes):
            assert search.doubts, told
            return "dies"
        if search.doubts:
            return "doubt"
        if word is None or found is None:
            assert word is None and found is None, told
            return "none"
        assert os.path.samefile(word[0], found.directory), told
        assert word[1] is is_bare(found), told
        return "found"


def is_bare(found: Repository) -> bool:
    """Without configuration, git takes for bare what it found without a `.git`."""
    is_itself = found.top == os.path.realpath(found.directory) and not os.path.isfile(f"{found.top}/.git")
    return is_itself and os.path.basename(found.directory) != ".git"


def compare(top: Path, seed: int, trees: int) -> dict[str, int]:
    counts: dict[str, int] = {}
    for number in range(trees):
        tree = top.resolve() / "t"
        tree.mkdir()
        oracle = Oracle(tree, seed * 1_000_000 + number)
        for place in oracle.make_tree():
            word = oracle.check(place)
            counts[word] = counts.get(word, 0) + 1
        shutil.rmtree(tree)
    return counts


def test_a_repository_is_where_git_finds_it(tmp_path: Path) -> None:
    """What git dies of is a doubt, and where there is no doubt git and we say the same."""
    counts = compare(tmp_path, SEED, TREES)
    assert counts.keys() >= {"dies", "none", "found"}, counts
