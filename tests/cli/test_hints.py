"""What a failed command is told by its words."""

import os
import sys
from pathlib import Path

import pytest

from pinfold import Session
from pinfold.cli.hints import AS_OWNER, hint, hopeless


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("chmod 4755 f", AS_OWNER),
        ("chmod 06755 f", AS_OWNER),
        ("chmod u+s f", AS_OWNER),
        ("chmod u+rwx,go-w,+s f", AS_OWNER),
        ("install -m 4755 a b", AS_OWNER),
        ("install -m4755 a b", AS_OWNER),
        ("cd x && install --mode=u=rxs a b", AS_OWNER),
        ("chmod gu+s f", AS_OWNER),
        ("chmod 2755 f", ""),
        ("chmod g+s f", ""),
        ("chmod 755 f", ""),
        ("chmod a+x,u-s programs", ""),
        ("chmod +x as=s", ""),
        ("echo chmod 4755", ""),
        ("git -C x worktree remove wt", "`git worktree remove` cannot work"),
        ("git worktree move a b", "`git worktree move` cannot work"),
        ("git init -q --separate-git-dir=a b", "`git init --separate-git-dir` cannot work"),
        ("git clone --separate-git-dir a b", "`git clone --separate-git-dir` cannot work"),
        ("git init -q b", ""),
        ("git submodule add y", ""),
        ("ssh x", ""),
        # A read of something hidden is no refusal that is seen.
        (
            "cat ~/.ssh/there-or-not",
            "`~/.ssh/there-or-not` is hidden from commands; `pinfold",
        ),
        ("cd x && cat a/keys.pem", "`a/keys.pem` is hidden from commands"),
        ("cat notes.pem.txt -", ""),
        ("head -keys.pem", ""),
    ],
)
def test_hint(line: str, told: str) -> None:
    settings = {"filesystem": {"hide": ["keys.pem"]}}
    session = Session(["."], settings=settings)
    decision = session.check(line)
    said = hopeless(decision) or hint(decision, 1, {}, session.cwd, session.roots)
    assert said.startswith(told) and bool(said) is bool(told)
    unfenced = Session(["."], settings={**settings, "sandbox": {"enabled": False}})
    decision = unfenced.check(line)
    assert not hopeless(decision) and not hint(decision, 1, {}, unfenced.cwd, unfenced.roots)


def test_directories_that_rm_has_left_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty/below").mkdir(parents=True)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    session = Session([str(tmp_path)])
    told = "`empty` is empty, but could not be deleted while the command ran; run it again to delete it"
    for line, said in {
        "rm -rf full empty": told,
        "rm -r full": "",
        "rm -f empty": "",
        "rm -r none": "",
    }.items():
        assert hint(session.check(line), 1, {}, str(tmp_path), session.roots) == said, line


def test_a_hint_ends_however_many_directories_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinfold.cli.hints.MOST_WALKED", 3)
    session = Session([str(tmp_path)])
    for number in range(3):
        assert bool(hint(session.check("rm -r many"), 1, {}, str(tmp_path), session.roots)) is bool(number)
        (tmp_path / "many" / str(number)).mkdir(parents=True)
    assert not hint(session.check("rm -r many"), 1, {}, str(tmp_path), session.roots)


def test_what_is_hidden_in_a_directory_that_cannot_go_is_told(tmp_path: Path) -> None:
    """To the kernel it is busy, and a program that moves or deletes all of it says no more than that."""
    for name in ("a/b/c", "a/open", "away"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("a/b/c/k.env", "a/open/file", "away/k.env"):
        (tmp_path / name).touch()
    (tmp_path / ".pinfoldignore").write_text("*.env\n")
    session = Session([str(tmp_path)])
    told = "`a` cannot be moved or deleted, because `a/b/c/k.env` is hidden from commands; `pinfold explain"
    for line, said in {
        "rm -rf a": told,
        "cd x; mv -n a z": told,
        "rm -rf a/open": "",
        "rm a": "",
        "mv nothing away": "",
        "mv a/open away": "",
        "rm -rf a/b/c/k.env": "`a/b/c/k.env` is hidden from commands",
    }.items():
        hinted = hint(session.check(line), 1, {}, str(tmp_path), session.roots)
        assert hinted.startswith(said) and bool(hinted) is bool(said), line


def test_a_hidden_file_that_stops_a_program_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".m2").mkdir(parents=True)
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))

    def told(line: str, **filesystem: list[str]) -> str:
        session = Session([str(work)], settings={"filesystem": filesystem})
        return hint(session.check(line), 1, {}, session.cwd, session.roots)

    assert told("./mvnw test") == ""
    (home / ".m2/settings.xml").write_text("<settings/>")
    assert told("./mvnw test").startswith("`~/.m2/settings.xml` is hidden from commands")
    assert told("mvn test", read=["~/.m2/settings.xml"]) == told("gradle test") == told("dotnet test") == ""
    (home / ".nuget/NuGet").mkdir(parents=True)
    (home / ".nuget/NuGet/NuGet.Config").write_text("<configuration/>")
    assert told("dotnet test").startswith("`~/.nuget/NuGet/NuGet.Config` is hidden from commands")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is told")
@pytest.mark.parametrize(
    ("owner", "mode", "is_told"), [(65534, 0o755, True), (65534, 0o777, False), (0, 0o755, False)]
)
def test_root_is_told_of_a_project_that_is_somebody_elses(
    tmp_path: Path, owner: int, mode: int, is_told: bool
) -> None:
    """There "Permission denied" is all that its commands hear."""
    project = tmp_path / "project"
    project.mkdir()
    os.chown(project, owner, owner)
    project.chmod(mode)
    with Session([project], environ={"HOME": str(tmp_path)}) as session:
        told = hint(session.check("touch x"), 1, {}, session.cwd, session.roots)
    assert ("belongs to another user" in told) is is_told


def test_a_chain_of_links_without_end_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for number in range(2 * sys.getrecursionlimit()):
        os.symlink(f"link{number}", f"link{number + 1}")
    session = Session(["."], settings={})
    last = f"link{2 * sys.getrecursionlimit()}"
    assert hint(session.check(f"cat {last}"), 1, {}, session.cwd, session.roots) == ""


@pytest.mark.parametrize(("code", "most", "is_told"), [(254, 12, True), (1, 12, False)])
def test_a_shell_that_cannot_fork_is_told_the_setting(code: int, most: int, is_told: bool) -> None:
    session = Session(["."], settings={"limits": {"processes": most}})
    said = hint(session.check("make -j"), code, {}, session.cwd, session.roots)
    assert ("`limits.processes` is 12" in said) is is_told
