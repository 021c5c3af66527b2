"""Tool descriptions and refusals, as a model reads them."""

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import SandboxSettings, Settings
from pinfold.model.text_positions import Origin
from pinfold.policy.prompt_text import REFUSED, describe_tools
from pinfold.policy.reasons import describe_refusal

CLOSED = Settings(sandbox=SandboxSettings(allow_unsandboxed=False))


def test_every_tool_says_what_a_refusal_is_and_what_comes_next() -> None:
    for settings in (Settings(), CLOSED):
        told = describe_tools(settings)
        assert set(told) == {
            *("execute_command", "read_file", "write_file", "replace_in_file", "list_files", "search_files"),
            *("explain", "request_permission"),
        }
        assert all(REFUSED in text for name, text in told.items() if name != "explain")


def test_a_bypass_is_mentioned_where_there_is_one() -> None:
    assert "asks them again" in describe_tools(Settings())["execute_command"]
    closed = describe_tools(CLOSED)["execute_command"]
    assert "has no effect" in closed and "asks them again" not in closed


def refusal(verdict: Verdict, **more: object) -> str:
    reason = Reason(StepCode.DENIED, "matches the deny rule `git push`\nX", verdict, **more)  # type: ignore[arg-type]
    return describe_refusal(Decision(verdict, (reason,), True, SandboxPolicy()))


def test_a_refusal_says_why_where_and_what_next() -> None:
    text = refusal(Verdict.DENY, origin=Origin("user", "/s.toml", 3), remedy="change that rule")
    assert "\n" not in text
    assert "(/s.toml:3)" in text and "to change that: change that rule" in text and "nothing was done" in text
    assert refusal(Verdict.ASK).endswith("a person has to allow it")
