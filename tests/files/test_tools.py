"""The file tools, through a session: what they do, and what they refuse."""

import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import pinfold
from pinfold.audit.history import entries
from pinfold.files import TOOLS, Access, FileTools, tools
from pinfold.files.text_format import replace_blocks
from pinfold.model.errors import FileRefused
from pinfold.model.permission import Answer, PermissionNeeded
from pinfold.sandbox.linux.protocol import rename_lock
from pinfold.session import open_parts
from tests.files.races import RACES, race
from tests.patience import PATIENCE

TURNS = 2_000


class Says:
    name = "test"

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[PermissionNeeded] = []

    def __call__(self, question: PermissionNeeded) -> Answer:
        self.asked.append(question)
        return self.answer


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    directory = tmp_path / "outside"
    directory.mkdir()
    (directory / "secret").write_text("secret\n")
    return directory


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


@pytest.fixture
def session(work: Path) -> Iterator[pinfold.Session]:
    with pinfold.Session([str(work)], cwd=str(work)) as session:
        yield session


@pytest.fixture
def files(session: pinfold.Session) -> FileTools:
    return session.files


def refusal(rule: str) -> "pytest.RaisesContext[FileRefused]":  # type: ignore[name-defined]
    return pytest.raises(FileRefused, check=lambda error: error.rule == rule)


def test_a_file_is_made_read_changed_moved_and_removed(work: Path) -> None:
    yes = Says(Answer.ONCE)
    with pinfold.Session([str(work)], cwd=str(work), approvers=[yes]) as session:
        _use(session.files, work)
    assert {question.operation for question in yes.asked} <= {"delete", "move"}


def _use(files: FileTools, work: Path) -> None:
    assert files.write("a.txt", "one\ntwo\n").created
    assert files.write("new/and/deeper/b", "x").created
    files.delete("new/and/deeper/b")
    for directory in ("new/and/deeper", "new/and", "new"):
        files.delete(directory)
    assert not files.write("a.txt", "one\ntwo\nthree\n").created
    files.replace("a.txt", [("two", "2"), ("three", "3")])
    files.append("a.txt", "four\n")
    assert files.read("a.txt").text == "one\n2\n3\nfour\n"
    assert files.read("a.txt", first_line=2, lines=1).text == "2\n"
    assert files.read(str(work / "a.txt")).lines == 4
    files.move("a.txt", "b.txt")
    assert os.listdir(work) == ["b.txt"]


@pytest.mark.parametrize(("first", "lines"), [(0, None), (-3, 2), (1, -1)])
def test_there_is_no_line_before_the_first(
    files: FileTools, work: Path, first: int, lines: int | None
) -> None:
    (work / "a").write_text("one\ntwo\n")
    assert files.read("a", lines=0).text == ""
    with pytest.raises(ValueError, match="lines"):
        files.read("a", first_line=first, lines=lines)


def test_lines_are_counted_as_compilers_do(files: FileTools, work: Path) -> None:
    (work / "a").write_bytes("one\f\u2028 still\r\ntwo\x1c\x85\nthree".encode())
    assert files.read("a").lines == 3
    assert files.read("a", first_line=2, lines=1).text == "two\x1c\x85\n"
    assert [(hit.line, hit.text) for hit in files.search("still|three", "a")] == [
        (1, "one\f\u2028 still"),
        (3, "three"),
    ]


def test_a_project_that_is_gone_is_not_said_to_be_outside(session: pinfold.Session, work: Path) -> None:
    work.rmdir()
    with refusal("unreachable") as refused:
        session.files.read("a")
    assert str(refused.value).startswith(f"{work} does not exist any more; ")


def test_a_project_that_is_renamed_is_gone_for_tools_as_for_commands(
    session: pinfold.Session, work: Path
) -> None:
    files = session.files
    files.write("a", "first")
    work.rename(f"{work}-renamed")
    for use in (lambda: files.read("a"), files.entries, lambda: files.write("b", "x")):
        with refusal("unreachable") as refused:
            use()
        assert str(refused.value).startswith(f"{work} does not exist any more; ")
    with pytest.raises(pinfold.ConfinementError):
        session.run("cat a")
    work.mkdir()
    (work / "a").write_text("second")
    assert files.read("a").text == session.run("cat a").stdout == "second"
    files.write("a", "third")
    assert (work / "a").read_text() == session.run("cat a").stdout == "third"


def test_a_link_in_the_place_of_a_project_leads_nowhere(files: FileTools, work: Path, outside: Path) -> None:
    files.write("a", "x")
    work.rename(f"{work}-renamed")
    work.symlink_to(outside)
    for path in ("secret", f"{work}/secret", f"{outside}/secret"):
        with refusal("outside"):
            files.read(path)


def test_blocks_are_all_or_nothing(files: FileTools, work: Path) -> None:
    files.write("a", "x y y")
    for blocks in ([("x", "1"), ("z", "2")], [("x", "1"), ("y", "2")], [("", "1")]):
        with refusal("no_single_match"):
            files.replace("a", blocks)
    assert (work / "a").read_text() == "x y y"


@pytest.mark.parametrize(
    "data",
    [
        "a\r\nä\r\n".encode("utf-16"),
        "a\nä\n".encode("latin-1"),
        b"\xef\xbb\xbfa\r\n\xc3\xa4\r\n",
        "a\nä\n".encode(),
    ],
)
def test_encoding_mark_line_ends_and_mode_stay(files: FileTools, work: Path, data: bytes) -> None:
    path = work / "f"
    path.write_bytes(data)
    path.chmod(0o751)
    files.replace("f", [("a\nä", "a\nä")])
    assert path.read_bytes() == data
    files.write("f", files.read("f").text)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o751
    assert os.listdir(work) == ["f"]


def test_what_an_encoding_cannot_say_is_refused(files: FileTools, work: Path) -> None:
    (work / "f").write_bytes(b"\xe4\n")
    with refusal("encoding"):
        files.append("f", "€")
    assert (work / "f").read_bytes() == b"\xe4\n"


HALF = "\ud800"
"""Of a character, as JSON may say it."""


def test_halves_of_characters_are_refused_before_anything_is_made(files: FileTools, work: Path) -> None:
    with pytest.raises(FileRefused, match="which is half of a Unicode character"):
        files.write(f"new/{HALF}", "")
    with pytest.raises(FileRefused, match="which has no"):
        files.write("new/file", HALF)
    assert os.listdir(work) == []


OWNER, NAMED, GROUP, MOST, OTHERS, NOBODY = 1, 2, 4, 16, 32, 0xFFFFFFFF


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """Of posix_acl_xattr.h: a version, and of each who it is about, what they may, and their number."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


LISTED = access_list(
    (OWNER, 6, NOBODY), (NAMED, 6, 1234), (GROUP, 0, NOBODY), (MOST, 6, NOBODY), (OTHERS, 0, NOBODY)
)


def test_a_file_that_is_replaced_is_open_to_nobody_else(files: FileTools, work: Path) -> None:
    listed, plain, runs = (work / name for name in ("listed", "plain", "runs"))
    try:
        os.setxattr(work, "system.posix_acl_default", LISTED)
    except OSError:
        pytest.skip("the file system has no access lists")
    for file in (listed, plain, runs):
        file.write_text("old")
    os.setxattr(listed, "user.note", b"kept")
    for file in (plain, runs):
        os.removexattr(file, "system.posix_acl_access")
    plain.chmod(0o640)
    runs.chmod(0o6755)
    for file in (listed, plain, runs):
        files.write(file.name, "new")
    # By the mode alone, its group might read and write what only one more user could.
    assert os.getxattr(listed, "system.posix_acl_access") == LISTED
    assert os.getxattr(listed, "user.note") == b"kept"
    # That user is none of those who might read this one.
    assert os.listxattr(plain) == [] and plain.stat().st_mode == 0o100640
    assert runs.stat().st_mode == 0o100755


@pytest.mark.parametrize(
    "path",
    ["../outside/secret", "{outside}/secret", "link", "way/secret", "/etc/passwd", "..", "sub/../../x"],
)
def test_file_tools_stay_inside(files: FileTools, work: Path, outside: Path, path: str) -> None:
    (work / "sub").mkdir()
    (work / "link").symlink_to(outside / "secret")
    (work / "way").symlink_to(outside)
    path = path.format(outside=outside)
    for use in (
        lambda: files.read(path),
        lambda: files.write(path, "x"),
        lambda: files.append(path, "x"),
        lambda: files.entries(path),
        lambda: files.search("x", path),
    ):
        with refusal("outside"):
            use()
    if path != "link":  # which is itself inside
        with refusal("outside"):
            files.delete(path)
    assert (outside / "secret").read_text() == "secret\n"


def save_anew(file: Path) -> None:
    other = file.with_suffix(".new")
    other.write_text("theirs\n")
    other.replace(file)


def save_in_place(file: Path) -> None:
    file.write_text("one\ntheirs\n")


def test_who_closes_a_file_while_it_is_changed_is_not_overruled(
    files: FileTools, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = work / "file"
    file.write_text("one\n")

    def meanwhile(text: str, blocks: Sequence[tuple[str, str]], path: str) -> str:
        file.chmod(0o600)
        return replace_blocks(text, blocks, path)

    file.chmod(0o644)
    monkeypatch.setattr(tools, "replace_blocks", meanwhile)
    with refusal("swapped"):
        files.replace("file", [("one", "two")])
    assert file.stat().st_mode & 0o777 == 0o600 and file.read_text() == "one\n"


@pytest.mark.parametrize("save", [save_anew, save_in_place])
def test_who_saves_a_file_while_it_is_changed_is_not_overruled(
    files: FileTools, work: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path], None]
) -> None:
    file = work / "file"
    file.write_text("one\n")

    def meanwhile(text: str, blocks: Sequence[tuple[str, str]], path: str) -> str:
        save(file)
        return replace_blocks(text, blocks, path)

    monkeypatch.setattr(tools, "replace_blocks", meanwhile)
    with refusal("swapped"):
        files.replace("file", [("one", "two")])
    assert "theirs" in file.read_text() and os.listdir(work) == ["file"]


@pytest.mark.parametrize(
    "path", ["/proc/self/root/etc/shadow", "/proc/self/fd/0", "/dev/fd/0", "magic", "/dev/null"]
)
def test_magic_links_and_devices_are_refused(files: FileTools, work: Path, path: str) -> None:
    (work / "magic").symlink_to("/proc/self/cwd")
    with refusal("magic_path"):
        files.read(path)


def test_links_without_an_end_are_refused_and_may_be_removed(files: FileTools, work: Path) -> None:
    (work / "round").symlink_to("round")
    with refusal("too_many_links"):
        files.read("round")
    files.delete("round")
    assert not os.listdir(work)


def test_what_is_no_file_is_refused_at_once(files: FileTools, work: Path) -> None:
    os.mkfifo(work / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(work / "socket"))
        for name in ("fifo", "socket", "."):
            with refusal("not_a_file"):
                files.read(name)
        with refusal("not_a_file"):
            files.write("fifo", "x")


def test_other_names_of_a_file_do_not_change(files: FileTools, work: Path, outside: Path) -> None:
    os.link(outside / "secret", work / "linked")
    uses: list[Callable[[], object]] = [
        lambda: files.write("linked", "x"),
        lambda: files.append("linked", "x"),
        lambda: files.move("linked", "x"),
    ]
    for use in uses:
        with refusal("hard_link"):
            use()
    assert (outside / "secret").read_text() == "secret\n"


@pytest.mark.parametrize("use", ["read", "delete", "entries", "write", "append", "move", "search"])
def test_a_name_that_is_too_long_is_told(files: FileTools, work: Path, use: str) -> None:
    given = {"write": ("",), "append": ("",), "move": ("b",)}.get(use, ())
    path = "x" * 300
    with pytest.raises(FileRefused, match="too long"):
        getattr(files, use)(*(("x", path) if use == "search" else (path, *given)))


def test_a_shells_home_is_no_directory(files: FileTools, work: Path) -> None:
    for path in ("~", "~/x"):
        with refusal("malformed_path"):
            files.write(path, "x")
    assert not os.listdir(work)


def test_links_inside_are_followed(files: FileTools, work: Path) -> None:
    (work / "real").mkdir()
    (work / "there").symlink_to(work / "real")
    (work / "file").symlink_to("real/f")
    files.write("there/f", "1")
    assert files.read("file").text == "1"
    files.write("file", "2")
    assert (work / "file").is_symlink() and (work / "real/f").read_text() == "2"
    files.delete("file")
    files.delete("there")
    assert os.listdir(work) == ["real"] and os.listdir(work / "real") == ["f"]


def test_hidden_files_are_not_read_nor_listed_nor_found(work: Path) -> None:
    (work / ".pinfoldignore").write_text("secrets/\n*.key\n")
    (work / "secrets").mkdir()
    (work / "secrets/a").write_text("word")
    (work / "b.key").write_text("word")
    (work / "c").write_text("word")
    (work / "to").symlink_to("b.key")
    with pinfold.Session([str(work)], cwd=str(work)) as session:
        files = session.files
        for path in ("secrets/a", "b.key", "to"):
            with refusal("hidden"):
                files.read(path)
        with refusal("hidden"):
            files.move("b.key", "open")
        assert [hit.path for hit in files.search("word")] == ["c"]
        assert "b.key" not in {entry.path for entry in files.entries()} and not files.entries("secrets")
        assert not {"secrets/a", "b.key"} & set(files.glob("**"))


def test_a_read_only_policy_refuses_every_writer(work: Path) -> None:
    (work / "a").write_text("x")
    with pinfold.Session(
        [str(work)], cwd=str(work), overrides={"sandbox": {"policy": "read-only"}}
    ) as session:
        files = session.files
        uses: dict[str, Callable[[], object]] = {
            "write": lambda: files.write("a", "y"),
            "replace": lambda: files.replace("a", [("x", "y")]),
            "append": lambda: files.append("a", "y"),
            "delete": lambda: files.delete("a"),
            "move": lambda: files.move("a", "b"),
        }
        assert set(uses) == {tool for tool, access in TOOLS.items() if access is not Access.READ}
        for use in uses.values():
            with refusal("read_only"):
                use()
    assert (work / "a").read_text() == "x"


def test_a_second_project_is_reached_once_it_is_added(session: pinfold.Session, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with refusal("outside"):
        session.files.write(str(other / "f"), "x")
    session.add_project(str(other))
    session.files.write(str(other / "f"), "x")
    assert (other / "f").read_text() == "x"


def test_what_has_no_fence_has_no_pens_to_keep_still(
    files: FileTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_parts, "_backends", {})
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(rename_lock, "RenameLock", None)
    files.write("a", "x")
    assert files.read("a").text == "x"


def test_places_are_held_once_however_often_they_change(session: pinfold.Session, tmp_path: Path) -> None:
    tools = session.files
    for number in range(5):
        other = tmp_path / f"other-{number}"
        other.mkdir()
        session.add_project(str(other))
        session.files.write(str(other / "f"), "x")
    held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    assert [held.count(root) for root in session.roots] == [1] * 6
    assert tools.read(str(other / "f")).text == "x"  # whoever has kept them


def _is_open(descriptor: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{descriptor}")


def test_a_person_is_asked_as_for_commands(work: Path) -> None:
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".gitignore").write_text("out\n")
    no, yes = Says(Answer.NO), Says(Answer.ONCE)
    with pinfold.Session([str(work)], cwd=str(work), approvers=[no]) as session:
        with refusal("git_ignored"):
            session.files.write("out", "x")
        session.desk.approvers = (yes,)
        session.files.write("out", "x")
        kinds = [entry.kind for entry in entries(session.ledger.journal.path, session.id)]
    assert (work / "out").read_text() == "x"
    assert len(no.asked) == len(yes.asked) == 1 and yes.asked[0].path == str(work / "out")
    assert kinds.count("file") == 1 and kinds.count("refused") == 1


def test_a_question_goes_with_its_session(work: Path) -> None:
    class Patient(Says):
        def __init__(self) -> None:
            super().__init__(Answer.ONCE)
            self.stood, self.withdrawn = threading.Event(), threading.Event()

        def __call__(self, question: pinfold.PermissionNeeded) -> Answer:
            self.stood.set()
            self.withdrawn.wait(PATIENCE)
            return Answer.ONCE

        def withdraw(self, _: pinfold.PermissionNeeded) -> None:
            self.withdrawn.set()

    subprocess.run(["git", "init", "-q", str(work)], check=True)
    (work / ".gitignore").write_text("out\n")
    person, ended = Patient(), []
    session = pinfold.Session([str(work)], cwd=str(work), approvers=[person])

    def write() -> None:
        with pytest.raises(pinfold.PinfoldError) as error:
            session.files.write("out", "x")
        ended.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    assert person.stood.wait(PATIENCE)
    session.close()
    thread.join(PATIENCE)
    assert ended and person.withdrawn.is_set() and not (work / "out").exists()


def test_no_tool_makes_a_directory_a_repository(files: FileTools, work: Path) -> None:
    for name in ("sub/HEAD", "sub/config", "sub/objects/x", "sub/x"):
        files.write(name, "")
    with refusal("file_protection"):
        files.write("sub/refs/x", "")
    with refusal("file_protection"):
        files.move("sub/x", "sub/refs")
    assert not (work / "sub/refs").exists()


def test_agents_and_git_configuration_is_protected(files: FileTools, work: Path) -> None:
    for path in (".git/hooks/pre-commit", ".git/config"):
        with refusal("file_protection"):
            files.write(path, "x")


def test_a_bad_expression_is_told_and_a_costly_one_is_cheap(
    files: FileTools, capfd: pytest.CaptureFixture[str]
) -> None:
    files.write("a", "a" * 100_000)
    assert files.search("(a+)+$")
    with pytest.raises(FileRefused, match="not a valid RE2 regular expression: invalid perl") as refused:
        files.search("(?=a)")
    assert refused.value.rule == "bad_pattern"
    assert capfd.readouterr().err == ""  # an agent's window may show it


def test_globs() -> None:
    from pinfold.files.held_dirs import matches

    assert matches("**", "a") and matches("**", "a/b") and matches("**/*.py", "a.py")
    assert matches("**/*.py", "x/y/a.py") and matches("src/**/a", "src/a") and matches("src/**", "src/x/y")
    assert not matches("*.py", "x/a.py") and not matches("src/*", "src/x/y") and not matches("a/**/b", "a/c")


@pytest.mark.parametrize("what", RACES)
def test_file_races_gain_nothing(files: FileTools, work: Path, outside: Path, what: str) -> None:
    race(TURNS, what, files, work, outside)


@pytest.mark.parametrize("tool", ["read", "search"])
def test_what_grows_while_it_is_read_is_too_large(
    files: FileTools, work: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    (work / "a").write_text("a\n")
    got = [0]

    def reads(file: int, size: int, read: Callable[[int, int], bytes] = os.read) -> bytes:
        if os.path.samestat(os.fstat(file), os.stat(work / "a")):
            os.truncate(work / "a", 1 << 40)
            got[0] += size
            assert got[0] < 2 * tools.LARGEST
        return read(file, size)

    monkeypatch.setattr(os, "read", reads)
    if tool == "read":
        with refusal("too_large"):
            files.read("a")
    else:
        assert files.search("a") == []
    assert got[0] > tools.LARGEST
