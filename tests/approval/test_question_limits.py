"""What a person is shown on each face, and what is not asked because it cannot be shown."""

import json
import re
from html import unescape
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from msgspec.structs import replace

from pinfold.approval import settle
from pinfold.approval.question_limits import LONGEST_COMMAND, MOST_WANTED
from pinfold.cli.question_view import QuestionView
from pinfold.integrations.acp import _asked
from pinfold.integrations.hooks import AGENTS
from pinfold.integrations.hooks.hook_call import HookCall, Opinion
from pinfold.integrations.hooks.judge_call import judge
from pinfold.integrations.markdown import verbatim_line
from pinfold.integrations.mcp.elicitation import form_of
from pinfold.model.decision import Reason, StepCode, Verdict, Widening
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, Capability, PermissionNeeded
from pinfold.model.request import RunCommand, WriteFile
from pinfold.session import Session
from pinfold.session.permission_requests import ask_for_permission
from pinfold.session.serialize import question_as_plain
from pinfold.web.wire import sheet_of
from tests.approval.questions import DECISION, Person, question

FIELDS = ("additional_readwrite_paths", "additional_readonly_paths", "network", "unix_sockets")
NAMES = st.one_of(
    st.text(alphabet="ab/\u202e\u200b\x1b[2J\n\u05d0 \U000e0041", min_size=1, max_size=40),
    st.text(alphabet="a/<!->`*_[]()~&;#b", min_size=1, max_size=40),
    st.builds(lambda n: "/" + "d" * n, st.sampled_from([200, 900, 1001, 5000])),
)
WIDENINGS = st.lists(
    st.builds(Widening, st.sampled_from(FIELDS), NAMES), max_size=MOST_WANTED + 3, unique=True
)
COMMANDS = st.one_of(
    st.just("touch x"),
    st.builds(lambda n: "echo " + "x" * n, st.sampled_from([1000, LONGEST_COMMAND, 10 * LONGEST_COMMAND])),
    st.builds(lambda n: "\n".join(f"echo {i}" for i in range(n)), st.sampled_from([2, 300, 5000])),
)


def wanting(widenings: list[Widening], **given: Any) -> PermissionNeeded:
    reasons = tuple(
        Reason(StepCode.WIDENING, f"the request wants `{widening.value}`", Verdict.ASK)
        for widening in widenings
    )
    decision = replace(DECISION, widening=tuple(widenings), reasons=reasons or DECISION.reasons)
    return question(capability=Capability.WIDEN, decision=decision, **given)


def faces(asked: PermissionNeeded) -> dict[str, str]:
    """What each face shows before it takes a yes, lines that were folded joined."""
    terminal, page = QuestionView(), sheet_of(asked, 60, "/home/me")
    lines = terminal.question(asked, 80, 24)
    if terminal.is_cut(asked, 80, 24):
        lines += terminal.explanation(asked, 80)
    command = "\\n".join("".join(piece.text for piece in line) for line in page.command)
    acp = _asked("1", "s", asked)["params"]
    return {
        "terminal": "".join(lines),
        "page": "".join((command, *(value for _, value in page.facts))),
        "JSON-RPC": json.dumps(question_as_plain(asked)["wanted"], ensure_ascii=False) + asked.command,
        "MCP": form_of(asked).message,
        "ACP": acp["toolCall"]["title"] + acp["toolCall"]["rawInput"]["command"],
        "ACP's text": acp["toolCall"]["content"][0]["content"]["text"],
        "MCP, drawn": drawn(form_of(asked).message),
        "ACP's title, drawn": drawn(acp["toolCall"]["title"]) + acp["toolCall"]["rawInput"]["command"],
        "ACP's text, drawn": drawn(acp["toolCall"]["content"][0]["content"]["text"]),
    }


@pytest.mark.parametrize(
    "path", ["/a<!--", "/a`b```c````", "/<x>", "/a*b*", "![](http://a.test/b)", "/a&lt;b"]
)
def test_no_editor_draws_requests_away(path: str) -> None:
    """In Markdown, a comment begins in one widening and ends in another."""
    asked = wanting(
        [Widening(FIELDS[0], each) for each in (path, "/opt/hidden", "/c-->")], command="cat <a >b"
    )
    told = faces(asked)
    for face in ("MCP, drawn", "ACP's title, drawn", "ACP's text, drawn"):
        for each in (path, "/opt/hidden", "/c-->", "cat <a >b"):
            assert bare(each) in bare(told[face]), (face, told[face])


@given(st.text(st.sampled_from("`` ~#*_<>!-[]()&;:\\/a1. |"), min_size=1))
@example("a`")
@example(" ")
@example("```sh")
@example("<!--")
@example("[touch x](http://a.test)")
def test_a_line_is_drawn_as_it_is(text: str) -> None:
    page = MarkdownIt("commonmark").render(verbatim_line(text))
    assert page.startswith("<p><code>") and page.endswith("</code></p>\n"), page
    assert unescape(page[len("<p><code>") : -len("</code></p>\n")]) == text


def drawn(markdown: str) -> str:
    """What is seen of Markdown: without comments and tags."""
    page = re.sub(r"<!--.*?-->|<[^>]*>", "", MarkdownIt("commonmark").render(markdown), flags=re.DOTALL)
    return unescape(page)


def bare(text: str) -> str:
    """Without what folding, escaping and drawing add."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "".join(text.replace("\\\\", "\\").replace("↳", "").split())


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(WIDENINGS, COMMANDS, st.text(max_size=3000))
def test_granted_is_what_was_shown(widenings: list[Widening], command: str, description: str) -> None:
    """Either every face shows each thing that a yes grants, or nobody is asked."""
    seen: list[PermissionNeeded] = []

    def person(asked: PermissionNeeded) -> Answer:
        seen.append(asked)
        return Answer.ONCE

    settled = settle(wanting(widenings, command=command, description=description), [person])
    if not seen:
        assert settled.answer is Answer.NO
        assert any(word in settled.by for word in ("ask in parts", "script file", "use a shorter one"))
        return
    for face, shown in faces(seen[0]).items():
        told = bare(shown)
        for widening in widenings:
            # Every face has words of its own for every host.
            words = (
                "every host"
                if (widening.field, widening.value) == ("network", "*")
                else visible(widening.value)
            )
            assert bare(words) in told, face
        for line in command.splitlines():
            assert bare(visible(line)) in told, face


def test_what_a_person_usually_asks_for_is_asked() -> None:
    person = Person()
    widenings = [Widening("network", f"h{n}.example") for n in range(MOST_WANTED)]
    assert settle(wanting(widenings), [person]).answer is Answer.ONCE
    long = "cat > notes.md <<'END'\n" + "a line of ordinary text\n" * 400 + "END"
    assert settle(question(command=long), [person]).answer is Answer.ONCE


def test_a_line_that_is_cut_is_seen_whole_before_it_can_be_granted() -> None:
    long = "\n".join(f"echo {number}" for number in range(100))
    view = QuestionView()
    assert view.is_cut(question(command=long), 80, 24)
    assert "echo 99" not in "".join(view.question(question(command=long), 80, 24))
    assert "echo 99" in "".join(view.explanation(question(command=long), 80))
    assert not view.is_cut(question(command="touch x"), 80, 24)


OPERATIONS = ["add_project", "create_session", "request_permission"]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_words_match_the_reach_of_a_grant_for_the_session(operation: str) -> None:
    """What is added to a session is for each of its commands, and no face calls it one command's."""
    asked = wanting(
        [Widening("network", "a.example")],
        operation=operation, path="/w/x", command=operation, choices=(Answer.NO, Answer.SESSION),
    )  # fmt: skip
    told = faces(asked)
    shown = "".join((*told.values(), *QuestionView().choices(asked, asked.reaches[0], 80)))
    shown += json.dumps(form_of(asked).requested_schema) + json.dumps(question_as_plain(asked)["effects"])
    assert "every command" in shown and "any command, while this session lasts" in shown
    assert "this very command" not in shown


def test_an_answer_that_adds_rules_shows_them_on_every_face() -> None:
    asked = question(rules=("npm test", "make lint"), choices=tuple(Answer))
    schema = json.dumps(form_of(asked).requested_schema)
    acp = _asked("1", "s", asked)["params"]["toolCall"]["content"][0]["content"]["text"]
    terminal = "".join(QuestionView().choices(asked, asked.reaches[0], 99))
    for shown in (schema, acp, terminal, json.dumps(question_as_plain(asked))):
        assert "npm test" in shown and "make lint" in shown
    seen: list[PermissionNeeded] = []

    def person(asked: PermissionNeeded) -> Answer:
        seen.append(asked)
        return Answer.NO

    settle(question(rules=("x " * 2000,), choices=tuple(Answer)), [person])
    assert Answer.RULE not in seen[0].choices and not seen[0].rules


def test_so_many_things_at_once_are_refused_with_what_to_do(tmp_path: Path) -> None:
    person = Person(Answer.SESSION)
    with Session([tmp_path], settings={}, environ={"HOME": str(tmp_path)}, approvers=[person]) as session:
        asked = ask_for_permission(session, {"hosts": [f"h{n}.example" for n in range(55)]})
        assert not asked.is_granted and not person.asked
        assert "ask in parts" in asked.decision.reasons[0].message
        assert ask_for_permission(session, {"hosts": ["h1.example", "h2.example"]}).is_granted
        assert session.settings.network.allow == ("h1.example", "h2.example")


@pytest.mark.parametrize(
    "host", ["*", "*.com", "a.example, b.example", "https://a.example/x", "a\u202eb.example"]
)
def test_a_host_that_no_setting_could_allow_is_refused_with_the_reason(host: str, tmp_path: Path) -> None:
    """It was said to be granted already, or asked about and then an error."""
    person = Person(Answer.SESSION)
    with Session([tmp_path], settings={}, environ={"HOME": str(tmp_path)}, approvers=[person]) as session:
        asked = ask_for_permission(session, {"hosts": ["h.example", host]})
        assert not asked.is_granted and not person.asked
        assert "cannot be allowed as a host" in asked.decision.reasons[0].message
        assert session.settings.network.allow == ()


def call(
    *requests: Any, cwd: Path, agent: str = "claude-code", event: str = "PreToolUse", trouble: str = ""
) -> HookCall:
    return HookCall(agent, event, "tool", str(cwd), requests=requests, can_rewrite=True, trouble=trouble)


def test_a_hook_tells_each_file_that_its_yes_lets_through(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home")}
    files = [WriteFile(f"/srv/elsewhere/{number}") for number in range(3)]
    outcome = judge(call(*files, cwd=tmp_path), environ)
    assert outcome.opinion is Opinion.ASK
    assert all(file.path in outcome.message for file in files)
    many = [WriteFile(f"/srv/elsewhere/{number}") for number in range(40)]
    outcome = judge(call(*many, cwd=tmp_path), environ)
    assert outcome.opinion is Opinion.DENY and "ask in parts" in outcome.message
    outcome = judge(call(RunCommand("echo " + "x" * 3 * LONGEST_COMMAND), cwd=tmp_path), environ)
    assert outcome.opinion is Opinion.DENY and "script file" in outcome.message


@pytest.mark.parametrize(
    ("agent", "event"), [("claude-code", "PreToolUse"), ("vscode", "PreToolUse"), ("gemini", "BeforeTool")]
)
def test_no_agents_dialog_is_told_less_than_its_yes_lets_through(
    agent: str, event: str, tmp_path: Path
) -> None:
    """Agents cut what a hook tells them: long names of the first files would push the last one out."""
    environ = {"HOME": str(tmp_path / "home")}
    names = [f"/srv/{number}{'/' + 'd' * 250}" for number in range(MOST_WANTED)]
    for times in (1, 2, 3, 8):
        asked = call(*(WriteFile(name * times) for name in names), cwd=tmp_path, agent=agent, event=event)
        outcome = judge(asked, environ)
        told = import_module(f"pinfold.integrations.hooks.{AGENTS[agent]}").reply(asked, outcome)
        is_asked = b'"ask"' in told.stdout
        assert is_asked is (outcome.opinion is Opinion.ASK)
        assert not is_asked or all((name * times).encode() in told.stdout for name in names)
    assert outcome.opinion is Opinion.DENY and "ask in parts" in outcome.message
    trouble = call(cwd=tmp_path, agent=agent, event=event, trouble="x" * 20_000)
    assert judge(trouble, environ).opinion is Opinion.DENY


@pytest.mark.parametrize("rows", range(6, 40))
@pytest.mark.parametrize("lines", [1, 3, 6])
@pytest.mark.parametrize("description", ["", "harmless " * 200])
def test_a_command_is_on_the_screen_before_it_can_be_granted(rows: int, lines: int, description: str) -> None:
    """In a window of a few lines, its beginning would be above the screen."""
    command = [f"echo {number}" for number in range(lines)]
    asked = question(command="\n".join(command), description=description, cwd="/srv/place")
    view = QuestionView()
    if view.is_cut(asked, 80, rows):
        asked = replace(asked, choices=(Answer.NO,))
        assert "press `e`" in "".join(view.question(asked, 80, rows))
        return
    shown = [*view.question(asked, 80, rows), *view.choices(asked, asked.reaches[0], 80), "the prompt"]
    screen = "\n".join(shown[-rows:])
    assert all(text in screen for text in (*command, "/srv/place", "run this"))


def test_what_a_yes_grants_is_on_the_screen_before_it_can_be_granted() -> None:
    """Of what a command wanted, it chose the paths: long ones would push the first off the screen."""
    widenings = [Widening(FIELDS[0], f"/w{number}/{'d' * 240}/{'e' * 240}") for number in range(MOST_WANTED)]
    view, asked = QuestionView(), wanting(widenings, command="make")
    assert view.is_cut(asked, 80, 24)
    assert "press `e`" in "".join(view.question(asked, 80, 24))
    assert all(f"/w{number}/" in "".join(view.explanation(asked, 80)) for number in range(MOST_WANTED))
    assert not view.is_cut(wanting(widenings[:1], command="make"), 80, 33)
