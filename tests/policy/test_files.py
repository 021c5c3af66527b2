"""File tools: what may be read and written, and by which step it is answered."""

from typing import Any

import pytest
from msgspec.structs import replace

from pinfold.model.decision import Verdict
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import ReadFile, WriteFile
from pinfold.policy.decide import decide
from pinfold.policy.hidden_paths import UNLISTABLE
from pinfold.policy.ignore import naming
from tests.policy.world import ROOT, Paper, facts, settings

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
POLICY = SandboxPolicy(
    type=PolicyType.WORKSPACE_READWRITE,
    hidden=("/home/me/.ssh", ".env", f"{ROOT}/keys/*.pem"),
    ignore_mapping={ROOT: ("*.secret", "private/")},
    additional_readwrite_paths=("/data",),
    protected=("deploy.sh",),
)

READS = [
    ("notes.txt", ALLOW, "file_read"),
    (f"{ROOT}/notes.txt", ALLOW, "file_read"),
    ("/etc/hostname", ALLOW, "file_read"),
    ("", DENY, "malformed_path"),
    ("a\0b", DENY, "malformed_path"),
    # hidden, by whatever way
    ("~/.ssh/id_rsa", DENY, "hidden"),
    ("/home/me/.ssh", DENY, "hidden"),
    ("../../me/.ssh/config", DENY, "hidden"),
    (".env", DENY, "hidden"),
    ("deep/down/.env", DENY, "hidden"),
    ("keys/a.pem", DENY, "hidden"),
    ("x.secret", DENY, "hidden"),
    ("sub/private/x", DENY, "hidden"),
    ("link", DENY, "hidden"),
    (".environment", ALLOW, "file_read"),
]
WRITES = [
    ("notes.txt", ALLOW, "file_write"),
    ("src/new/deep.py", ALLOW, "file_write"),
    ("/data/x", ALLOW, "file_write"),
    ("/etc/passwd", ASK, "file_protection"),
    ("../other/x", ASK, "file_protection"),
    (".github/workflows/ci.yml", ASK, "file_protection"),
    (".git/config", ASK, "file_protection"),
    (".GIT/Config", ASK, "file_protection"),
    (".g\u200cit/hooks/x", ASK, "file_protection"),
    ("sub/.vscode/tasks.json", ASK, "file_protection"),
    ("deploy.sh", ASK, "file_protection"),
    ("build/out.o", ASK, "git_ignored"),
    # nobody lets these through
    (".pinfold/settings.toml", DENY, "protected"),
    ("sub/.pinfold/settings.toml", DENY, "protected"),
    (".env", DENY, "hidden"),
]


def files() -> Paper:
    paper = Paper(links={f"{ROOT}/link": "/home/me/.ssh/id_rsa"})
    paper.ignored = (f"{ROOT}/build/out.o",)
    return paper


@pytest.mark.parametrize(("path", "verdict", "step"), READS)
def test_read(path: str, verdict: Verdict, step: str) -> None:
    decision = decide(ReadFile(path), settings(), facts(policy=POLICY, files=files()))
    assert (decision.verdict, decision.reasons[0].step) == (verdict, step)


@pytest.mark.parametrize(("path", "verdict", "step"), WRITES)
def test_write(path: str, verdict: Verdict, step: str) -> None:
    decision = decide(WriteFile(path), settings(), facts(policy=POLICY, files=files()))
    assert (decision.verdict, decision.reasons[0].step) == (verdict, step)


LIFTED: list[tuple[str, dict[str, Any]]] = [
    ("/etc/x", {"protect": {"outside_workspace": False}}),
    (".github/x", {"protect": {"dotfiles": False}}),
    ("build/out.o", {"protect": {"git_ignored": False}}),
]


@pytest.mark.parametrize(("path", "document"), LIFTED)
def test_each_protection_has_its_switch(path: str, document: dict[str, Any]) -> None:
    world = facts(policy=POLICY, files=files())
    assert decide(WriteFile(path), settings(), world).verdict is ASK
    assert decide(WriteFile(path), settings(document), world).verdict is ALLOW


def test_a_read_only_policy_refuses_writers() -> None:
    decision = decide(
        WriteFile("x"), settings(), facts(policy=SandboxPolicy(type=PolicyType.WORKSPACE_READONLY))
    )
    assert (decision.verdict, decision.reasons[0].step) == (DENY, "read_only")


def test_deleting_asks_where_the_user_wants_that() -> None:
    document = {"protect": {"delete_files": True}}
    assert decide(WriteFile("x", delete=True), settings(document), facts()).verdict is ASK
    assert decide(WriteFile("x"), settings(document), facts()).verdict is ALLOW


@pytest.mark.parametrize("request_", [ReadFile("x"), WriteFile("x")])
def test_ask_every_time_means_files_too(request_: ReadFile | WriteFile) -> None:
    decision = decide(request_, settings({"mode": "ask_every_time"}), facts())
    assert (decision.verdict, decision.reasons[0].step) == (ASK, "person_wanted")


@pytest.mark.parametrize(
    ("path", "rule", "where", "remedy"),
    [
        ("sub/private/x", "private/", f"an ignore file in {ROOT}", "remove it from that file"),
        ("sub/x.secret", "x.*", f"an ignore file in {ROOT}/sub", "remove it from that file"),
        (
            "~/.ssh/id",
            "/home/me/.ssh",
            "pinfold's list of secrets",
            "`/home/me/.ssh` in `filesystem.read`",
        ),
        (".env", ".env", "user", "remove `.env` from `filesystem.hide`"),
        ("closed/x", f"{ROOT}/closed", UNLISTABLE, f"chmod u+rx {ROOT}/closed"),
    ],
)
def test_who_hides_it_is_told(path: str, rule: str, where: str, remedy: str) -> None:
    ignored = {**POLICY.ignore_mapping, f"{ROOT}/sub": ("x.*",), **naming([f"{ROOT}/closed"])}
    world = facts(policy=replace(POLICY, ignore_mapping=ignored), files=files())
    hiding = settings({"filesystem": {"hide": [".env"]}})
    reason = decide(ReadFile(path), hiding, world).reasons[0]
    assert (reason.step, reason.rule) == ("hidden", rule) and f"`{rule}`" in reason.message
    assert reason.origin and where in (str(reason.origin), reason.origin.layer) and remedy in reason.remedy


def test_who_protects_it_is_told() -> None:
    """What pinfold itself obeys is no entry of the user's, though both stand in the policy."""
    obeyed = f"{ROOT}/own.toml"
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, protected=("deploy.sh", obeyed))
    protecting = settings({"filesystem": {"protect": ["deploy.sh"]}})

    def told(path: str, **given: Any) -> str:
        return decide(WriteFile(path), protecting, facts(policy=policy, **given)).reasons[0].message

    assert "pinfold reads or runs it" in told("own.toml", own=lambda: (obeyed,))
    assert "your settings protect it" in told("deploy.sh", own=lambda: pytest.fail("it was looked for"))


REPOSITORIES: list[tuple[tuple[str, ...], str, Verdict]] = [
    # the last name that makes one, and what a tool makes on the way to a file
    (("a/HEAD", "a/objects"), "a/refs/heads/main", ASK),
    (("a/HEAD", "a/refs"), "a/objects/pack/x", ASK),
    (("a/objects", "a/refs"), "a/HEAD", ASK),
    (("a/objects", "a/refs"), "a/head", ASK),
    (("a/HEAD",), "a/commondir", ASK),
    (("a/commondir",), "a/HEAD", ASK),
    # what git obeys in one that is there
    (("a/HEAD", "a/objects", "a/refs"), "a/config", ASK),
    (("a/HEAD", "a/objects", "a/refs", "a/config"), "a/config", ASK),
    (("a/HEAD", "a/objects", "a/refs", "a/hooks"), "a/hooks/post-checkout", ASK),
    (("a/HEAD", "a/objects", "a/refs"), "a/description", ALLOW),
    # no repository
    (("a/HEAD",), "a/objects/x", ALLOW),
    (("a/objects", "a/refs"), "a/config", ALLOW),
    (("a/objects", "a/refs", "a/config"), "a/config", ASK),
    (("a/objects", "a/refs", "a/config"), "a/HEAD", ASK),
    (("a/objects", "a/refs", "a/config"), "a/other", ALLOW),
    (("a/objects", "a/refs"), "b/HEAD", ALLOW),
]


@pytest.mark.parametrize(("there", "path", "verdict"), REPOSITORIES)
def test_no_tool_makes_a_repository_or_has_one_run_something(
    there: tuple[str, ...], path: str, verdict: Verdict
) -> None:
    paper = Paper((ROOT, f"{ROOT}/a", *(f"{ROOT}/{name}" for name in there)))
    decision = decide(WriteFile(path), settings(), facts(policy=POLICY, files=paper))
    assert decision.verdict is verdict, decision


BARE = ("a/HEAD", "a/objects", "a/refs")
GIT_WRITES: list[tuple[tuple[str, ...], str, Verdict]] = [
    (("a/.git",), "a/.git/refs/heads/main", ASK),
    (("a/.git",), "a/.git/modules/b/refs/heads/main", ASK),
    (BARE, "a/HEAD", ASK),
    (BARE, "a/refs/heads/main", ASK),
    (BARE, "a/description", ASK),
    # a working tree, and one that is kept in a bare repository
    (("a/.git",), "a/src/new.py", ALLOW),
    ((*BARE, "a/main/.git"), "a/main/src/new.py", ALLOW),
]


@pytest.mark.parametrize(("there", "path", "verdict"), GIT_WRITES)
def test_a_tool_asks_where_git_may_not_write(there: tuple[str, ...], path: str, verdict: Verdict) -> None:
    paper = Paper((ROOT, *(f"{ROOT}/{name}" for name in there)))
    free = settings({"protect": {"dotfiles": False}})
    for blocked, expected in ((True, verdict), (False, ALLOW)):
        policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=blocked)
        decision = decide(WriteFile(path), free, facts(policy=policy, files=paper))
        assert decision.verdict is expected, decision
