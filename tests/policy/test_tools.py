"""MCP tools and browsers."""

from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.model.decision import Verdict
from pinfold.model.request import CallTool, UseBrowser
from pinfold.model.settings import AutoRunControls
from pinfold.policy.decide import decide
from tests.policy.world import facts, settings

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY

TOOLS: list[tuple[list[str], str, str, Verdict]] = [
    ([], "github", "search", ASK),
    (["github:search"], "github", "search", ALLOW),
    (["github:search"], "github", "delete", ASK),
    (["github:search"], "gitlab", "search", ASK),
    (["github:*"], "github", "delete", ALLOW),
    (["*:search"], "gitlab", "search", ALLOW),
    (["search"], "any", "search", ALLOW),
    (["*:*"], "any", "thing", ASK),
    (["GitHub:search"], "github", "search", ASK),
]


@pytest.mark.parametrize(("allow", "server", "tool", "verdict"), TOOLS)
def test_tool(allow: list[str], server: str, tool: str, verdict: Verdict) -> None:
    decision = decide(CallTool(server, tool), settings({"mcp": {"allow": allow}}), facts())
    assert decision.verdict is verdict
    assert decision.candidates == ((f"{server}:{tool}",) if verdict is ASK else ())


def test_tools_that_are_not_protected_run() -> None:
    assert decide(CallTool("a", "b"), settings({"protect": {"mcp_tools": False}}), facts()).verdict is ALLOW


@pytest.mark.parametrize(
    ("document", "admin", "verdict", "step"),
    [
        ({}, AutoRunControls(), ALLOW, "browser"),
        ({"protect": {"browser": True}}, AutoRunControls(), ASK, "browser"),
        ({}, AutoRunControls(enabled=True, browser_features=False), DENY, "browser_features"),
        ({}, AutoRunControls(enabled=True, disabled=True), ASK, "person_wanted"),
        ({"mode": "ask_every_time"}, AutoRunControls(), ASK, "person_wanted"),
    ],
)
def test_browser(document: dict[str, Any], admin: AutoRunControls, verdict: Verdict, step: str) -> None:
    decision = decide(UseBrowser("click"), replace(settings(document), admin=admin), facts())
    assert (decision.verdict, decision.reasons[0].step) == (verdict, step)
