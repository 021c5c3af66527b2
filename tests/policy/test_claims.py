"""The claims of SECURITY.md that are about decisions, each under its name."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.model.decision import Verdict
from pinfold.model.facts import HookAnswer
from pinfold.model.text import Origin
from tests.policy.world import judged

MODES = ["ask_every_time", "use_allowlist", "run_everything"]
UNPARSED = ["if then", "ls |", "echo 'x", "((", "ls # a\\\ntouch x"]
SANDBOXES = st.fixed_dictionaries({}, optional={
    "enabled": st.booleans(),
    "auto_allow": st.booleans(),
    "allow_unsandboxed": st.booleans(),
    "if_unavailable": st.sampled_from(["refuse", "ask", "run"]),
    "excluded_commands": st.just(["ls", "if", "echo"]),
})  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(UNPARSED), st.sampled_from(MODES), SANDBOXES, st.booleans())
def test_unparsed_is_never_unsandboxed(line: str, mode: str, sandbox: dict[str, Any], bypass: bool) -> None:
    document = {"mode": mode, "sandbox": sandbox}
    decision = judged(line, document, request={"disable_sandbox": bypass})
    if decision.verdict is Verdict.ALLOW and not decision.sandboxed:
        assert sandbox.get("enabled") is False
        assert mode == "run_everything"


ALLOWING: list[dict[str, Any]] = [
    {"commands": {"allow": ["git push", "git"]}},
    {"mode": "run_everything"},
    {"mode": "run_everything", "sandbox": {"enabled": False}},
    {"sandbox": {"excluded_commands": ["git"]}, "commands": {"allow": ["git"]}},
]


@pytest.mark.parametrize("document", ALLOWING)
def test_deny_trumps_allow(document: dict[str, Any]) -> None:
    commands = {**document.get("commands", {}), "deny": ["git push"]}
    yes = HookAnswer("hook", Verdict.ALLOW, Origin("user"))
    for line in ("git push", "ls && env git -C x push", "$(git push)", "bash -c 'git push'"):
        assert judged(line, {**document, "commands": commands}, hooks=(yes,)).verdict is Verdict.DENY


ASKING = ["sudo ls", "rm -rf /", "pinfold rules add allow x", "npm publish", "echo " + "x" * 200]


@pytest.mark.parametrize("asked", ASKING)
@pytest.mark.parametrize("mode", MODES)
def test_deny_trumps_ask(asked: str, mode: str) -> None:
    document = {"mode": mode, "commands": {"ask": ["npm publish"], "deny": ["git push"]}}
    for line in (f"{asked}; git push", f"git push; {asked}"):
        assert judged(line, document, request={"disable_sandbox": True}).verdict is Verdict.DENY
    no = HookAnswer("hook", Verdict.DENY, Origin("user"))
    assert judged(asked, document, hooks=(no,)).verdict is Verdict.DENY


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["ls", "make", "if then", "$X"]), st.sampled_from(MODES), SANDBOXES)
def test_no_fence_no_run(line: str, mode: str, sandbox: dict[str, Any]) -> None:
    accepted = sandbox.get("if_unavailable", "refuse")
    decision = judged(line, {"mode": mode, "sandbox": sandbox}, fence_trouble="no")
    if decision.verdict is Verdict.ALLOW:
        switched_off = sandbox.get("enabled") is False
        excluded = line == "ls" and "excluded_commands" in sandbox
        assert accepted == "run" or switched_off or excluded
    if accepted == "refuse" and decision.sandboxed:
        assert decision.verdict is Verdict.DENY
