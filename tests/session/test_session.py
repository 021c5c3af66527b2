"""A session on a real disk: links, globs, ignore files, settings that change."""

import inspect
import os
import re
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import pinfold
from pinfold.model.context import Context
from pinfold.model.decision import Decision, Verdict
from pinfold.model.errors import PolicyError
from pinfold.model.permission import Answer
from pinfold.model.request import ReadFile, Request, RunCommand, WriteFile
from pinfold.session import Session, start
from pinfold.session.execution import Execution
from pinfold.session.judge import Judge
from pinfold.session.result import Judged
from pinfold.workspace.ignore_files import IgnoreFiles
from pinfold.workspace.policy_source import PolicySource
from tests.patience import PATIENCE

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
UNFENCED: dict[str, Any] = {
    "sandbox": {"enabled": False},
    "commands": {"allow": ["cat", "touch", "git status"]},
    "filesystem": {"hide": [".env"]},
}


def session(tmp_path: Path, settings: dict[str, Any] | str | None = None) -> Session:
    return Session([str(tmp_path)], settings=UNFENCED if settings is None else settings, cwd=str(tmp_path))


def test_links_out_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/out").symlink_to("/etc")
    (tmp_path / "inner/dangling").symlink_to("/nonexistent/x")
    (tmp_path / "inner/fine").symlink_to(tmp_path / "inner")
    judge = session(tmp_path)
    assert judge.check("touch inner/out/passwd").verdict is ASK
    assert judge.check("touch inner/dangling").verdict is ASK
    assert judge.check("touch inner/fine/x").verdict is ALLOW
    assert judge.check(WriteFile("inner/out/x")).verdict is ASK


@pytest.mark.parametrize("padding", ["./" * 2040, "\u00e4/../" * 680])
def test_a_link_counts_on_as_long_a_way_as_a_program_can_go(tmp_path: Path, padding: str) -> None:
    """The kernel takes the path from where it starts, though with that directory it would be too long."""
    (tmp_path / "\u00e4").mkdir()
    (tmp_path / "out").symlink_to("/etc")
    assert len(f"{padding}out/x".encode()) < 4096 < len(f"{tmp_path}/{padding}out/x".encode())
    judge = session(tmp_path)
    assert judge.check(f"touch {padding}out/x").verdict is ASK
    assert judge.check(f"touch {padding}x").verdict is ALLOW


@pytest.mark.parametrize("line", ["touch way/x", "cd way && touch x", "cat way/x"])
def test_a_decision_is_remembered_as_long_as_its_paths_lead_where_they_led(tmp_path: Path, line: str) -> None:
    places = {"fine": ALLOW, ".env": ASK, "/etc": ASK if "cat" not in line else ALLOW}
    for name in ("fine", ".env"):
        (tmp_path / name).mkdir()
    judge = session(tmp_path, {**UNFENCED, "commands": {"allow": ["cat", "touch", "cd", "echo"]}})
    for place in ("fine", "fine", "/etc", "/etc", ".env", "fine", ".env", "/etc"):
        (tmp_path / "way").unlink(missing_ok=True)
        (tmp_path / "way").symlink_to(place)
        assert judge.check(line).verdict is places[place], place


def test_a_requested_path_is_shown_as_where_it_leads(tmp_path: Path) -> None:
    for name in ("work", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "work/link").symlink_to(tmp_path / "elsewhere")
    link = (str(tmp_path / "work/link"),)
    judge = session(tmp_path / "work", {})
    for policy in (
        pinfold.SandboxPolicy(additional_readwrite_paths=link),
        pinfold.SandboxPolicy(additional_readonly_paths=link),
    ):
        decision = judge.check(RunCommand("ls", policy=policy))
        assert [widening.value for widening in decision.widening] == [str(tmp_path / "elsewhere")]
        assert str(tmp_path / "elsewhere") in decision.reasons[0].message


def test_globs_are_looked_up(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("SECRET=1")
    (tmp_path / "a.txt").write_text("")
    judge = session(tmp_path)
    assert judge.check("cat *.txt").verdict is ALLOW
    assert judge.check("cat .e*").verdict is ASK
    assert judge.check("cat ?env").verdict is ASK


def test_a_directory_of_the_request(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    judge = session(tmp_path)
    assert judge.check(RunCommand("touch ../x", cwd="sub")).verdict is ALLOW
    assert judge.check(RunCommand("touch ../../x", cwd="sub")).verdict is ASK


def test_an_argument_vector_is_no_shell_line(tmp_path: Path) -> None:
    judge = session(tmp_path)
    decision = judge.check(["cat", "a; touch x", "$(touch y)"])
    assert [command.argv for command in decision.commands] == [("cat", "a; touch x", "$(touch y)")]


def test_the_settings_are_there_before_the_workspace_was_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else whoever waits for that would not be told of it."""
    (tmp_path / ".pinfoldignore").write_text("a\n")
    ignore_files = IgnoreFiles.mapping

    def too_early(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(IgnoreFiles, "mapping", too_early)
    judge = session(tmp_path)
    assert judge.settings.approvals.question_timeout
    monkeypatch.setattr(IgnoreFiles, "mapping", ignore_files)
    assert judge.policy.ignore_mapping


def test_of_new_projects_the_law_holds_for_who_was_judged_before(tmp_path: Path) -> None:
    """A project may be added while a command or a file tool is between its decision and what it does."""
    (tmp_path / ".pinfoldignore").write_text("a\n")
    settings: dict[str, Any] = {"environment": {"set": {"X": "1"}}, "limits": {"output": "1MB"}}
    judge = session(tmp_path).supposing(settings)
    context = judge.now()
    assert context.settings.environment_set == {"X": "1"}
    assert context.policy.limits.output == 1_000_000
    assert judge.judged_again(ReadFile("a"), context).verdict is DENY


def test_every_stage_of_a_request_has_one_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken when the request comes, and anew after a person has answered."""
    taken, judged, explained = list[Context](), list[Context](), list[Context]()
    now, decided = PolicySource.now, Judge.decided

    def noted(source: PolicySource, cwd: str, sandbox_trouble: str) -> Context:
        taken.append(now(source, cwd, sandbox_trouble))
        return taken[-1]

    def used(judge: Judge, request: Request, context: Context) -> Decision:
        judged.append(context)
        return decided(judge, request, context)

    def started(_entry: int, about: Judged, *_: object) -> Execution:
        explained.append(about.context)
        return Execution(about.decision, about.settlement)

    monkeypatch.setattr(PolicySource, "now", noted)
    monkeypatch.setattr(Judge, "decided", used)
    monkeypatch.setattr(start, "start", started)
    with session(tmp_path) as allowed:
        allowed.start("cat a")
    assert len(taken) == 1 and judged == taken == explained
    for each in (taken, judged, explained):
        each.clear()

    with Session([tmp_path], settings=UNFENCED, approvers=[lambda _: Answer.ONCE]) as asked:
        asked.start("mkdir a")
    assert judged[0] is taken[0] and len(judged) == 2
    assert explained == judged[1:] and judged[1] is not judged[0]


def test_ignore_files_hide(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / ".pinfoldignore").write_text("*.key\n!public.key\n")
    (tmp_path / "sub/.cursorignore").write_text("notes\n")
    judge = session(tmp_path)
    for path, verdict in {
        "a.key": DENY, "public.key": ALLOW, "sub/b.key": DENY, "sub/notes": DENY, "notes": ALLOW,
    }.items():  # fmt: skip
        assert judge.check(ReadFile(path)).verdict is verdict, path
    assert judge.policy.ignore_mapping


def test_an_ignore_file_that_changes_counts_at_once(tmp_path: Path) -> None:
    file = tmp_path / ".pinfoldignore"
    file.write_text("a\n")
    judge = session(tmp_path)
    assert judge.check(ReadFile("b")).verdict is ALLOW
    file.write_text("a\nb\n")
    assert judge.check(ReadFile("b")).verdict is DENY


def test_an_ignore_file_that_appears_in_the_root_counts_at_once(tmp_path: Path) -> None:
    judge = session(tmp_path)
    assert judge.check(ReadFile("b")).verdict is ALLOW
    (tmp_path / ".cursorignore").write_text("b\n")
    assert judge.check(ReadFile("b")).verdict is DENY


def test_an_unreadable_ignore_file_refuses(tmp_path: Path) -> None:
    (tmp_path / ".pinfoldignore").symlink_to(".pinfoldignore")  # which root cannot read either
    with pytest.raises(PolicyError, match="cannot be read"):
        session(tmp_path).check("ls")


def test_settings_that_change_count_from_the_next_request_on(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("")
    judge = session(tmp_path, str(file))
    assert judge.check("git push").verdict is ALLOW
    file.write_text('[commands]\ndeny = ["git push"]\n')
    assert judge.check("git push").verdict is DENY
    file.write_text("[commands\n")
    assert judge.check("git push").verdict is DENY, "the last good settings stay in force"


def test_git_ignored_files_ask(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / ".gitignore").write_text("*.o\n")
    (tmp_path / "sub/.gitignore").write_text("!keep.o\n/only\n")
    (tmp_path / ".git/info/exclude").write_text("mine\n")
    judge = session(tmp_path)
    for path, verdict in {
        "a.c": ALLOW, "a.o": ASK, "sub/a.o": ASK, "sub/keep.o": ALLOW, "sub/only": ASK, "only": ALLOW,
        "mine": ASK,
    }.items():  # fmt: skip
        assert judge.check(WriteFile(path)).verdict is verdict, path


def test_the_home_is_the_one_that_the_sessions_variables_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The secrets of our own stay hidden all the same."""
    ours, given, work = (tmp_path / name for name in ("ours", "given", "given/work"))
    for place in (ours, work):
        place.mkdir(parents=True)
    (given / ".git").mkdir()
    (ours / ".ssh").symlink_to(tmp_path / "keys")
    monkeypatch.setenv("HOME", str(ours))
    environ = {**os.environ, "HOME": str(given)}
    judge = Session(settings={"filesystem": {"hide": ["~/diary"]}}, cwd=str(work), environ=environ)
    assert judge.roots == (str(work),), "a repository in the home is no project"
    hidden = {f"{given}/diary", f"{given}/.ssh", f"{ours}/.ssh", f"{tmp_path}/keys"}
    assert hidden <= set(judge.policy.hidden)
    assert judge.check(ReadFile(f"{given}/diary")).verdict is DENY
    opened = Session(settings={"filesystem": {"read": [f"{ours}/.ssh"]}}, cwd=str(work), environ=environ)
    assert f"{ours}/.ssh" not in opened.policy.hidden


def test_several_roots(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    judge = Session([str(tmp_path / "one"), str(tmp_path / "two")], settings={}, cwd=str(tmp_path / "one"))
    assert judge.check(WriteFile("../two/x")).verdict is ALLOW
    assert judge.check(WriteFile("../three/x")).verdict is ASK
    assert judge.policy.additional_readwrite_paths == judge.roots


@pytest.mark.parametrize("arguments", [{"cwd": "/nonexistent"}, {"projects": ["/nonexistent"]}])
def test_a_directory_that_is_not_there(arguments: dict[str, Any]) -> None:
    with pytest.raises(PolicyError, match="is not a directory"):
        Session(**arguments)


def test_the_public_name() -> None:
    assert pinfold.Session is Session
    with pytest.raises(AttributeError, match="has no attribute `Sesion`"):
        pinfold.Sesion  # noqa: B018


async def _asynchronous(_: object) -> None: ...


class _Asynchronous:
    async def __call__(self, _: object) -> None: ...


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"projects": "."}, "a list of directories"),
        ({"projects": Path()}, "a list of directories"),
        ({"settings": 3}, "settings must be a file or a dictionary, got int"),
        ({"approvers": [3]}, "approvers must be callable, got 3"),
        ({"approvers": [_asynchronous]}, "approvers run on a thread and cannot be `async`"),
        ({"approvers": [_Asynchronous()]}, "cannot be `async`"),
        ({"approvers": [_Asynchronous().__call__]}, "cannot be `async`"),
    ],
)
def test_what_no_session_can_be_made_of_is_told(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        Session(**{"projects": [str(tmp_path)], **given})


@pytest.mark.parametrize(
    ("request_", "given", "said"),
    [
        (3, {}, "a shell line, a list of words or a Request, got int"),
        (["ls", 3], {}, "the words of a command must be strings, got int"),
        ([], {}, "the list of words is empty: give a program"),
        (["ls", Path()], {}, "the words of a command must be strings, got PosixPath"),
        (b"ls", {}, "a shell line, a list of words or a Request, got bytes"),
        (pinfold.RunCommand(["ls", "x"]), {}, "malformed: Expected `str`, got `array` - at `$.command`"),  # type: ignore[arg-type]
        (pinfold.RunCommand("ls", argv=("ls", 1)), {}, "malformed: .*`int` - at"),  # type: ignore[arg-type]
        (pinfold.RunCommand("ls", argv="ls"), {}, "malformed: .*got `str`"),  # type: ignore[arg-type]
        (pinfold.RunCommand("ls", cwd=3), {}, "malformed: .*cwd"),  # type: ignore[arg-type]
        (pinfold.RunCommand("ls", policy="x"), {}, "malformed: .*policy"),  # type: ignore[arg-type]
        (pinfold.RunCommand("ls", timeout="3"), {}, "malformed: .*timeout"),  # type: ignore[arg-type]
        (pinfold.RunCommand("ls", description=["x"]), {}, "malformed: .*description"),  # type: ignore[arg-type]
        ("ls", {"cwd": 3}, "`cwd` must be a path, got int"),
        ("ls", {"timeout": "3"}, "`timeout` must be a number of seconds above 0, got '3'"),
        ("ls", {"stdin": "text"}, "`stdin` must be bytes or a descriptor, got str"),
        ("ls", {"terminal": 80}, "`terminal` must be a tuple of rows and columns, got 80"),
        ("ls", {"environment": {"A": 3}}, "names and values of the environment must be strings"),
    ],
)
def test_what_cannot_be_given_to_a_command_is_told(
    tmp_path: Path, request_: Any, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(pinfold.RequestError, match=re.escape(said) if "`$" in said else said):
        session(tmp_path).start(request_, **given)
    if not given:
        with pytest.raises(pinfold.RequestError):
            session(tmp_path).check(request_)


@pytest.mark.parametrize("nothing", [[], pinfold.RunCommand("ls", argv=())])
def test_no_words_are_no_command_to_check_either(tmp_path: Path, nothing: Any) -> None:
    with pytest.raises(pinfold.RequestError, match="the list of words is empty: give a program"):
        session(tmp_path).check(nothing)


def test_settings_in_the_workspace_are_told_as_what_pinfold_obeys(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('[filesystem]\nprotect = ["deploy.sh"]\n')
    with pinfold.Session([tmp_path], settings=own) as session:
        told = {
            name: session.check_path(tmp_path / name, write=True).reasons[0].message
            for name in ("own.toml", "deploy.sh")
        }
    assert "pinfold reads or runs it" in told["own.toml"]
    assert "your settings protect it" in told["deploy.sh"]


def test_paths_may_be_path_objects(tmp_path: Path) -> None:
    judge = Session([tmp_path], settings=UNFENCED, cwd=tmp_path)
    assert judge.check_path(tmp_path / "a").verdict is ALLOW
    assert judge.run("touch made", cwd=tmp_path).exit_code == 0 and (tmp_path / "made").exists()
    (tmp_path / "other").mkdir()
    judge.add_project(tmp_path / "other")
    assert judge.roots == (str(tmp_path), str(tmp_path / "other"))
    with pytest.raises(TypeError, match="a path must be str, got PosixPath"):
        judge.files.read(tmp_path / "made")  # type: ignore[arg-type]


def test_what_is_no_text_is_not_written(tmp_path: Path) -> None:
    tools = session(tmp_path).files
    for attempt in (tools.write, tools.append):
        with pytest.raises(TypeError, match="the text to write must be str, got bytes"):
            attempt("a", b"x")  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == []


def test_nothing_is_not_run_again(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"retry takes the `needed` of a result, got None"):
        session(tmp_path).retry(None)  # type: ignore[arg-type]


def test_asyncio_hosts_give_the_same_arguments() -> None:
    theirs = {
        name: inspect.signature(getattr(Session, name)).parameters for name in ("__init__", "run", "start")
    }
    for name, parameters in theirs.items():
        ours = inspect.signature(getattr(pinfold.AsyncSession, name)).parameters
        wanted = [each for each in parameters.values() if each.name != "is_withdrawn"]
        assert [*ours.values()] == wanted, name


def test_a_tmp_that_commands_do_not_see_is_told(tmp_path: Path) -> None:
    def told(filesystem: dict[str, Any]) -> str:
        return "\n".join(session(tmp_path).supposing({"filesystem": filesystem}).source.notices)

    assert "/tmp is not shown: commands have one of their own" in told({"read": ["/tmp", "/tmp/x"]})
    assert told({"read": ["/tmp/x"]}) == told({"read": ["/tmp"], "tmp": "shared"}) == ""


def test_settings_that_changed_during_a_walk_keep_nobody_waiting(tmp_path: Path) -> None:
    """The walk asks which `.env` files are hidden before any command was judged by the new settings."""
    told: list[tuple[str, ...]] = []
    source = session(tmp_path)._judge.source
    walk = threading.Thread(target=lambda: told.append(source.closed_env_files()), daemon=True)
    walk.start()
    walk.join(PATIENCE)
    assert told == [()]
