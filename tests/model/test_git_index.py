"""What an index links to, compared with git."""

import subprocess
from pathlib import Path

import pytest

from pinfold.model.git_files import linked_repositories

LINKS = ("a", "b/c", "b/c.d", "long/" + "n" * 250 + "/" + "m" * 250, "\xff\xfe", "z")
OBJECT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def git(where: Path, *words: str, text: str = "") -> None:
    subprocess.run(
        ["git", *words], cwd=where, input=text, encoding="latin-1", check=True, capture_output=True
    )


@pytest.mark.parametrize("version", (2, 3, 4))
@pytest.mark.parametrize("size", (20, 32))
def test_the_links_are_those_that_git_wrote(tmp_path: Path, version: int, size: int) -> None:
    git(tmp_path, "init", "-q", f"--object-format={'sha1' if size == 20 else 'sha256'}")
    object_name = (OBJECT * 2)[: size * 2]
    mixed = [f"160000 {object_name}\t{name}\0" for name in LINKS]
    mixed += [f"100644 {object_name}\t{name}.txt\0" for name in LINKS]
    git(tmp_path, "update-index", "--add", "-z", "--index-info", text="".join(mixed))
    (tmp_path / "new").write_text("")
    git(tmp_path, "add", "-N", "new")  # an entry that has more flags
    git(tmp_path, "update-index", "--index-version", str(version))
    index = (tmp_path / ".git/index").read_bytes()
    assert index[7] >= min(version, 3)
    found = [name.decode("latin-1") for name in linked_repositories(index, size)]
    assert sorted(found) == sorted(LINKS)
    for end in range(0, len(index) - 200, 7):
        with pytest.raises(ValueError):
            list(linked_repositories(index[:end], size))


def test_what_is_in_another_file_is_a_doubt(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--split-index")
    with pytest.raises(ValueError, match="another file"):
        list(linked_repositories((tmp_path / ".git/index").read_bytes(), 20))


def test_of_a_mode_the_type_alone_counts(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{OBJECT},sub")
    index = bytearray((tmp_path / ".git/index").read_bytes())
    index[12 + 24 : 12 + 28] = b"\x12\x34\xe1\xff"
    assert list(linked_repositories(bytes(index), 20)) == [b"sub"]
