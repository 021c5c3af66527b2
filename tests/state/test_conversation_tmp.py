"""The /tmp of a conversation: made and removed only where no other user can interfere."""

import os
from pathlib import Path
from time import time

import pytest

from pinfold.state import conversation_tmp
from pinfold.state.conversation_tmp import (
    DAY,
    KEPT,
    conversation_record,
    forget_old_conversations,
    remove_scratch,
    scratch_directory,
    scratch_prefix,
    sweep_scratch,
)
from pinfold.state.directory import write_private


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home")}


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(conversation_tmp, "scratch_top", lambda: str(tmp_path / "top"))
    return tmp_path / "top"


def test_it_is_made_and_removed_with_what_is_in_it(
    top: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    path = Path(scratch_directory("agent", "id", environ))
    assert (
        path.parent == top and top.stat().st_mode & 0o7777 == 0o700 and path.stat().st_mode & 0o7777 == 0o1777
    )
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "kept").mkdir(mode=0o755)
    (path / "link").symlink_to(outside)
    (path / "closed/inner").mkdir(parents=True)
    (path / "closed").chmod(0)
    remove_scratch("agent", "id", environ)
    assert not path.exists() and (outside / "kept").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize("is_link", [True, False])
def test_nothing_is_touched_where_another_user_may_write(
    is_link: bool, top: Path, environ: dict[str, str], tmp_path: Path
) -> None:
    """Any user may make the name in /tmp first, with links in it that lead anywhere."""
    made = tmp_path / "made" if is_link else top
    made.mkdir()
    made.chmod(0o700 if is_link else 0o777)
    if is_link:
        top.symlink_to(made)
    target = tmp_path / "target"
    (target / "inner").mkdir(parents=True)
    for each in (target, target / "inner"):
        each.chmod(0o755)
    left = made / f"{scratch_prefix(environ)}left"
    left.symlink_to(target)
    os.utime(left, (0, 0), follow_symlinks=False)
    before = sorted(made.iterdir())
    assert not scratch_directory("agent", "id", environ)
    sweep_scratch(environ)
    remove_scratch("agent", "id", environ)
    assert sorted(made.iterdir()) == before
    assert {each.stat().st_mode & 0o7777 for each in (target, target / "inner")} == {0o755}


def test_only_what_is_old_and_forgotten_is_swept(top: Path, environ: dict[str, str], tmp_path: Path) -> None:
    old, new = (Path(scratch_directory("agent", name, environ)) for name in ("old", "new"))
    target = tmp_path / "target"
    target.mkdir(mode=0o755)
    link = top / f"{scratch_prefix(environ)}link"
    link.symlink_to(target)
    for each in (old, link):
        os.utime(each, (0, 0), follow_symlinks=False)
    sweep_scratch(environ)
    assert not old.exists() and new.exists() and target.stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    ("opened", "used", "is_kept"),
    [(KEPT - DAY, KEPT - DAY, True), (KEPT + DAY, KEPT + DAY, False), (KEPT + DAY, 0, True), (0, KEPT, True)],
)
def test_a_conversation_can_be_resumed_for_a_month(
    opened: float, used: float, is_kept: bool, top: Path, environ: dict[str, str]
) -> None:
    scratch = Path(scratch_directory("agent", "id", environ))
    record = Path(conversation_record("agent", "id", environ))
    write_private(str(record), b"{}")
    for path, age in ((record, opened), (scratch, used)):
        os.utime(path, (time() - age,) * 2)
    forget_old_conversations(environ)
    sweep_scratch(environ)
    assert (record.exists(), scratch.exists()) == (is_kept, is_kept)
