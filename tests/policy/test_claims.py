"""The claims of SECURITY.md that are about decisions, each under its name."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pinfold.model.decision import Decision, Verdict
from pinfold.model.facts import HookAnswer
from pinfold.model.policy import NetworkRules, PolicyType, SandboxPolicy
from pinfold.model.request import CallTool, Connect, ReadFile, Request, RunCommand, UseBrowser, WriteFile
from pinfold.model.settings import Settings
from pinfold.model.text_positions import Origin
from pinfold.policy.decide import decide
from pinfold.policy.widen import with_approved
from pinfold.settings import policy_of
from pinfold.settings.keys import TABLE
from tests.policy import world
from tests.policy.world import judged

pytestmark = pytest.mark.slow

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
    decision = judged(line, {"mode": mode, "sandbox": sandbox}, sandbox_trouble="no")
    if decision.verdict is Verdict.ALLOW:
        switched_off = sandbox.get("enabled") is False
        excluded = line == "ls" and "excluded_commands" in sandbox
        assert accepted == "run" or switched_off or excluded
    if accepted == "refuse" and decision.sandboxed:
        assert decision.verdict is Verdict.DENY


WAYS_OUT: dict[str, list[Any]] = {
    "mode": ["run_everything"],
    "sandbox.enabled": [False],
    "sandbox.policy": ["danger-full-access"],
    "sandbox.allow_unsandboxed": [True],
    "sandbox.excluded_commands": [["make", "mcp-cli"]],
    "sandbox.if_unavailable": ["ask", "run"],
    "commands.allow": [["make", "mcp-cli"]],
    "mcp.cli": [True],
    "mcp.allow": [["server:tool"]],
    "protect.mcp_tools": [False],
    "protect.browser": [False],
    "protect.dotfiles": [False],
    "protect.outside_workspace": [False],
    "network.access": ["all"],
    "network.allow": [["*.example.com", "127.0.0.1:80"]],
    "network.publish": [[8080]],
    "filesystem.git_writes": [True],
    "filesystem.write": [["/", ".git"]],
    "filesystem.tmp": ["shared"],
}
"""Every key by which a user could hold against the administrator -> the widest that it may say."""
WIDE_REQUEST = SandboxPolicy(
    type=PolicyType.INSECURE_NONE,
    network_access=True,
    block_git_writes=False,
    additional_readwrite_paths=("/",),
    published_ports=(8080,),
    network=NetworkRules(allow=("evil.example",)),
)


@st.composite
def users(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(WAYS_OUT)), unique=True)):
        section, _, key = name.rpartition(".")
        (document.setdefault(section, {}) if section else document)[key] = draw(
            st.sampled_from(WAYS_OUT[name])
        )
    return document


INSISTING = [
    '[admin]\nsandboxing = "enabled"\n',
    "[sandbox]\nallow_unsandboxed = false\n",
    '[filesystem]\nhide = ["/srv/keys"]\n',
]


def test_every_key_by_which_a_command_could_leave_the_sandbox_is_tried() -> None:
    tried = {*WAYS_OUT, "sandbox.auto_allow", "sandbox.debug_output_dir"}
    assert {key.name for key in TABLE if key.name.startswith("sandbox.")} <= tried


@pytest.fixture(scope="module")
def managed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("managed") / "managed.toml"


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(INSISTING),
    users(),
    st.sampled_from(["make", "mcp-cli x", "if then", "$X", ""]),
    st.booleans(),
    st.sampled_from([None, WIDE_REQUEST]),
    st.sampled_from(["", "no"]),
)
def test_administrator_only_narrows(
    managed_file: Path,
    managed: str,
    user: dict[str, Any],
    line: str,
    bypass: bool,
    policy: SandboxPolicy | None,
    trouble: str,
) -> None:
    """Where an administrator insists on the sandbox, nothing runs without it, whatever a person answers."""
    managed_file.write_text(managed)
    in_force = world.settings(user, str(managed_file))
    request = RunCommand(line, disable_sandbox=bypass, policy=policy)
    effective = policy_of(in_force, (world.ROOT,), "/home/me")
    decision = decide(request, in_force, world.facts(line, policy=effective, sandbox_trouble=trouble))
    assert decision.sandboxed or decision.verdict is Verdict.DENY or not line
    granted = with_approved(decision.policy, decision.widening, in_force.cap)
    assert granted.type is not PolicyType.INSECURE_NONE


@settings(max_examples=100, deadline=None)
@given(users(), st.sampled_from([None, WIDE_REQUEST]))
def test_each_word_of_the_administrators_holds_against_every_setting(
    managed_file: Path, user: dict[str, Any], policy: SandboxPolicy | None
) -> None:
    def settled(words: str) -> Settings:
        managed_file.write_text(f"[admin]\n{words}\n")
        return world.settings(user, str(managed_file))

    def decided(request: Request, in_force: Settings) -> Decision:
        line = request.command if isinstance(request, RunCommand) else ""
        effective = policy_of(in_force, (world.ROOT,), "/home/me")
        return decide(request, in_force, world.facts(line, policy=effective))

    command = RunCommand("make", policy=policy)
    requests = (
        command,
        RunCommand("if then"),
        RunCommand(""),
        CallTool("server", "tool"),
        UseBrowser("open"),
    )
    in_force = settled('auto_run = "disabled"')
    for request in (*requests, WriteFile("x"), ReadFile("x")):
        assert decided(request, in_force).verdict is not Verdict.ALLOW, request
    assert decided(UseBrowser("open"), settled("browser = false")).verdict is Verdict.DENY
    in_force = settled("run_everything = false")
    assert all(reason.step != "run_everything" for reason in decided(command, in_force).reasons)

    in_force = settled('networking = "disabled"')
    decision = decided(command, in_force)
    for reached in (decision.policy, with_approved(decision.policy, decision.widening, in_force.cap)):
        assert (reached.network_access, reached.network.allow, reached.published_ports) == (False, (), ())
    assert decided(Connect("evil.example", 443), in_force).verdict is Verdict.DENY

    in_force = settled('git = "disabled"')
    decision = decided(command, in_force)
    for reached in (decision.policy, with_approved(decision.policy, decision.widening, in_force.cap)):
        assert reached.block_git_writes
