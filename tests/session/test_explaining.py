"""What commands were refused, where the disk changes while that is told."""

import os
import subprocess
from pathlib import Path

import pytest

from pinfold.model.codes import ViolationCode
from pinfold.model.context import Context
from pinfold.model.decision import Decision, Verdict
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.settings import Settings
from pinfold.model.violation import Violation
from pinfold.session.execution import Explanations, _may_write
from pinfold.session.result import Judged


def test_what_is_taken_away_meanwhile_is_nobodys_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    assert _may_write(f"{there}/new")

    def closed(path: str, _: int) -> bool:
        os.rmdir(path)
        return False

    monkeypatch.setattr(os, "access", closed)
    assert not _may_write(f"{there}/new")


def test_a_commit_in_a_linked_worktree_waits_for_gits_writes(tmp_path: Path) -> None:
    main, linked = tmp_path.resolve() / "main", tmp_path.resolve() / "linked"
    identity = ("-c", "user.name=x", "-c", "user.email=x@y")
    for arguments in (
        ("init", "-q", str(main)),
        ("-C", str(main), "commit", "-q", "--allow-empty", "-m", "x"),
        ("-C", str(main), "worktree", "add", "-q", str(linked)),
    ):
        subprocess.run(["git", *identity, *arguments], check=True, capture_output=True)
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True)
    lock = Violation(
        "open",
        f"{main}/.git/worktrees/linked/index.lock",
        "",
        "it lies outside",
        "git",
        7,
        True,
        ViolationCode.OUTSIDE,
    )
    beside = Violation("open", f"{main}/x", "", "it lies outside", "touch", 8, True, ViolationCode.OUTSIDE)
    decision = Decision(Verdict.ALLOW, (), sandboxed=True, policy=policy)
    context = Context(Settings(), policy, (str(linked),), "/h", str(linked), "", tuple)
    judged = Judged(RunCommand("git commit"), str(linked), context, decision)
    every, _ = Explanations().explained((lock, beside), judged)
    assert [each.is_git_writes for each in every] == [True, False]
    assert every[0].remedy == "set `filesystem.git_writes = true`"
