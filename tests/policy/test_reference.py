"""The engine against `spec/reference.py`: the same answer in every situation either can describe.

A situation is made real: fragments of shell whose properties are known by their making are put
together to a line, settings and facts are built to fit, and both are asked.
"""

from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from spec import reference
from spec.reference import Situation

from pinfold.model.decision import Verdict
from pinfold.model.facts import HookAnswer
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.settings import AutoRunControls
from pinfold.model.text_positions import Origin
from pinfold.policy.decide import decide
from tests.policy import world


class Fragment(NamedTuple):
    text: str
    properties: frozenset[str] = frozenset()
    covered: bool = False
    """The allowlist below covers it."""
    excluded: bool = False
    """The exclusions below take it out of the fence."""


def has(*properties: str) -> frozenset[str]:
    return frozenset(properties)


FRAGMENTS = [
    Fragment("ls -la", covered=True),
    Fragment("cat notes.txt", covered=True),
    Fragment("mytool x", excluded=True),
    Fragment("make all"),
    Fragment("env ls", covered=True),
    Fragment("rm build", has("deletes"), covered=True),
    Fragment("rm other", has("deletes")),
    Fragment("sudo ls", has("elevates")),
    Fragment("rm -r ~", has("is_ruinous", "deletes", "touches_protected_files")),
    Fragment("pinfold rules add allow x", has("changes_pinfold")),
    Fragment("git push", has("matches_deny")),
    Fragment("othertool publish", has("matches_ask")),
    Fragment('othertool "$X"', has("may_match_a_list")),
    Fragment('"$X"', has("may_run_anything")),
    Fragment('eval "$X"', has("may_run_anything")),
    Fragment('ls "$((x))"', has("has_other_unknowns"), covered=True),
    Fragment("cat /home/me/.ssh/id", has("touches_protected_files"), covered=True),
    Fragment("ls > /etc/x", has("touches_protected_files")),
]
UNREADABLE = {
    "if then": "is_unparsed",
    "": "is_empty",
    "ls\0": "has_nul",
    "echo " + "x" * 10_000: "is_too_long",
}
FLAGS = [
    "asks_bypass", "asks_for_more", "sandbox_is_on", "auto_allow", "allow_unsandboxed", "has_deny_rules",
    "has_ask_rules", "has_allow_rules", "delete_protection", "administrator_disabled_auto_run",
    "administrator_forbids_run_everything", "sandbox_is_available", "is_superuser",
    "is_really_inside_a_sandbox",
]  # fmt: skip


@st.composite
def situations(draw: st.DrawFn) -> tuple[str, Situation]:
    values: dict[str, Any] = {flag: draw(st.booleans()) for flag in FLAGS}
    values["mode"] = draw(st.sampled_from(["ask_every_time", "use_allowlist", "run_everything"]))
    values["if_unavailable"] = draw(st.sampled_from(["refuse", "ask", "run"]))
    values["hook_says"] = draw(st.sampled_from(["nothing", "nothing", "ask", "deny"]))
    if draw(st.integers(0, 9)) == 0:
        line = draw(st.sampled_from(sorted(UNREADABLE)))
        values[UNREADABLE[line]] = True
        return line, Situation(**values)
    chosen = draw(st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=3))
    for fragment in chosen:
        values.update(dict.fromkeys(fragment.properties, True))
    return " ; ".join(fragment.text for fragment in chosen), _settled(Situation(**values), chosen)


def _settled(s: Situation, chosen: list[Fragment]) -> Situation:
    """What depends on both the line and the lists."""
    deletions = [fragment for fragment in chosen if "deletes" in fragment.properties]
    return s._replace(
        matches_deny=s.matches_deny and s.has_deny_rules,
        matches_ask=s.matches_ask and s.has_ask_rules,
        may_match_a_list=s.may_match_a_list and s.has_ask_rules,
        allow_covers_the_deletion=s.has_allow_rules and all(fragment.covered for fragment in deletions),
        is_wholly_covered=all(fragment.covered for fragment in chosen) and s.has_allow_rules,
        is_wholly_excluded=all(fragment.excluded for fragment in chosen),
    )


def _engine(line: str, s: Situation) -> tuple[Verdict, bool]:
    document = {
        "mode": s.mode,
        "sandbox": {
            "enabled": s.sandbox_is_on,
            "auto_allow": s.auto_allow,
            "allow_unsandboxed": s.allow_unsandboxed,
            "if_unavailable": s.if_unavailable,
            # Under the closed policy exclusions of the same layer still count.
            "excluded_commands": ["mytool"],
        },
        "commands": {
            "deny": ["git push"] if s.has_deny_rules else [],
            "ask": ["othertool publish"] if s.has_ask_rules else [],
            "allow": ["ls", "cat", "rm build"] if s.has_allow_rules else [],
        },
        "protect": {"delete_files": s.delete_protection},
    }
    admin = AutoRunControls(
        enabled=s.administrator_forbids_run_everything or s.administrator_disabled_auto_run,
        disabled=s.administrator_disabled_auto_run,
        enable_run_everything=not s.administrator_forbids_run_everything,
    )
    loaded = replace(world.settings(document), admin=admin)
    said: Literal["ask", "deny"] | None = None if s.hook_says == "nothing" else s.hook_says
    facts = world.facts(
        line,
        sandbox_trouble="" if s.sandbox_is_available else "no",
        is_superuser=s.is_superuser,
        inside_sandbox=s.is_really_inside_a_sandbox,
        hooks=(HookAnswer("hook", Verdict(said), Origin("user")),) if said else (),
    )
    wanted = SandboxPolicy(network_access=True) if s.asks_for_more else None
    decision = decide(RunCommand(line, policy=wanted, disable_sandbox=s.asks_bypass), loaded, facts)
    assert facts.policy.type is PolicyType.WORKSPACE_READWRITE
    return decision.verdict, decision.sandboxed


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(situations())
def test_decide_agrees_with_the_reference(case: tuple[str, Situation]) -> None:
    line, situation = case
    # A list of safe commands ships with pinfold, and counts as well as the allowlist does.
    if not situation.has_allow_rules:
        situation = situation._replace(is_wholly_covered=_is_safe(line))
    verdict, sandboxed = _engine(line, situation)
    assert verdict == reference.verdict(situation), (line, situation)
    assert sandboxed == reference.is_sandboxed(situation), (line, situation)


def _is_safe(line: str) -> bool:
    return bool(line) and all(
        fragment.covered and "deletes" not in fragment.properties
        for text in line.split(" ; ")
        for fragment in FRAGMENTS
        if fragment.text == text
    )
