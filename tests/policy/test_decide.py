"""Each step of the decision, as a table: a line, the settings, what is answered and by which step."""

from typing import Any

import pytest

from pinfold.model.deadline import Deadline
from pinfold.model.decision import Verdict
from pinfold.model.facts import HookAnswer
from pinfold.model.policy import Limits, PolicyType, SandboxPolicy
from pinfold.model.text_positions import Origin
from pinfold.policy.decide import STEPS
from tests.policy.world import ROOT, Paper, judged

ALLOW, ASK, DENY = Verdict.ALLOW, Verdict.ASK, Verdict.DENY
OFF: dict[str, Any] = {"sandbox": {"enabled": False}}
LISTED = {**OFF, "commands": {"allow": ["ls", "cat", "echo", "git status", "touch", "npm", "rm build"]}}
EVERYTHING = {**OFF, "mode": "run_everything"}
RULES = {"commands": {"deny": ["git push", "rm -rf"], "ask": ["npm publish"]}}

CASES: list[tuple[str, dict[str, Any], Verdict, str]] = [
    # 1 not judgeable
    ("ls\0", {}, DENY, "nul"),
    ("echo " + "x" * 10_000, {}, ASK, "too_long"),
    ("ls\0", EVERYTHING, DENY, "nul"),
    # 2 every deny is looked for first
    ("git push", RULES, DENY, "denied"),
    ("npm publish && git push", RULES, DENY, "denied"),
    ("sudo ls; git push", RULES, DENY, "denied"),
    ("rm -rf / ; git push", RULES, DENY, "denied"),
    ("git -C sub push", RULES, DENY, "denied"),
    ("rm --force --recursive x", RULES, DENY, "denied"),
    ("rm -r x", RULES, DENY, "denied"),
    ("rm x", RULES, ALLOW, "fenced"),
    ("git pushx", RULES, ASK, "ask_rules"),  # may be an alias
    ("git fetch", RULES, ALLOW, "fenced"),
    ("git log push", RULES, ALLOW, "covered"),
    ("$X", RULES, DENY, "denied"),
    ("eval \"$X\"", RULES, DENY, "denied"),
    ("gen | sh", RULES, DENY, "denied"),
    ("gen | python3 -", RULES, DENY, "denied"),
    ("pg_dump a | psql b", RULES, ASK, "ask_rules"),
    ("sed s/a/b/ x.sql | sqlite3 db", RULES, ASK, "ask_rules"),
    ("kubectl -n prod delete pod x", {"commands": {"deny": ["kubectl delete"]}}, DENY, "denied"),
    ("kubectl get delete", {"commands": {"deny": ["kubectl delete"]}}, ALLOW, "fenced"),
    ("git push", {**RULES, **EVERYTHING}, DENY, "denied"),
    # 3 asks nothing lifts
    ("rm -rf /", {}, ASK, "ruinous"),
    ("rm -rf /*", {}, ASK, "ruinous"),
    ("rm -rf ~", {}, ASK, "ruinous"),
    ("rm -rf ~/", {}, ASK, "ruinous"),
    ("rm -rf $HOME", {}, ASK, "ruinous"),
    ("rm -rf \"$BUILD\"/*", {}, ASK, "ruinous"),
    ("rm -rf \"$BUILD\"", {}, ALLOW, "fenced"),
    ("rm -rf /usr", {}, ASK, "ruinous"),
    ("rm -rf .", {}, ASK, "ruinous"),
    ("rm -rf *", {}, ASK, "ruinous"),
    ("rm -rf ..", {}, ASK, "ruinous"),
    ("cd .. && rm -rf project", {}, ASK, "ruinous"),
    ("cd build && rm -rf *", {}, ALLOW, "fenced"),
    ("cd build; rm -rf *", {}, ASK, "ruinous"),
    ("cd \"$X\" && rm -rf *", {}, ASK, "ruinous"),
    ("rm -rf build", {}, ALLOW, "fenced"),
    ("find / -delete", {}, ASK, "ruinous"),
    ("find . -name x -exec rm -rf {} +", {}, ALLOW, "fenced"),
    ("bash -c 'rm -rf ~'", {}, ASK, "ruinous"),
    ("rm -rf /", EVERYTHING, ASK, "ruinous"),
    ("rm -rf ~", {"commands": {"allow": ["rm -rf ~"]}}, ASK, "ruinous"),
    ("pinfold rules add allow ls", {}, ASK, "changes_pinfold"),
    ("pinfold run --policy danger-full-access -- ls", {}, ASK, "changes_pinfold"),
    ("pinfold learn -- ls", {}, ASK, "changes_pinfold"),
    ("pinfold learn -c 'cd x && git push'", {"commands": {"deny": ["git push"]}}, DENY, "denied"),
    ("pinfold check ls", {}, ALLOW, "fenced"),
    # 5 mode
    ("ls", {"mode": "ask_every_time"}, ASK, "person_wanted"),
    # 6 unparsed
    ("if then", {}, ALLOW, "unparsed"),
    ("if then", OFF, ASK, "unparsed"),
    ("if then", RULES, ASK, "unparsed"),
    ("if then", EVERYTHING, ALLOW, "unparsed"),
    ("if then", {"sandbox": {"auto_allow": False}}, ASK, "unparsed"),
    # 7 ask rules
    ("npm publish", RULES, ASK, "ask_rules"),
    ("npm publish", {**EVERYTHING, **RULES}, ASK, "ask_rules"),
    ("git $X", RULES, DENY, "denied"),
    ("rm $X", RULES, ASK, "ask_rules"),
    ("$X", {"commands": {"ask": ["npm publish"]}}, ASK, "ask_rules"),
    ("sometool --quiet git push", RULES, ASK, "ask_rules"),
    ("sometool /bin/rm -fr x", RULES, ASK, "ask_rules"),
    ("sometool git status", RULES, ALLOW, "fenced"),
    # 8 nothing to run
    ("", {}, ALLOW, "nothing_to_run"),
    ("  # nothing", {}, ALLOW, "nothing_to_run"),
    ("", OFF, ASK, "nothing_to_run"),
    ("", RULES, ASK, "nothing_to_run"),
    # 9 run everything
    ("whatever --it takes", EVERYTHING, ALLOW, "run_everything"),
    ("sudo ls", EVERYTHING, ALLOW, "run_everything"),
    # 10 delete protection
    ("rm x", {"protect": {"delete_files": True}}, ASK, "delete_protection"),
    ("env rm x", {"protect": {"delete_files": True}}, ASK, "delete_protection"),
    ("rm x", {"protect": {"delete_files": True}, "commands": {"allow": ["rm x"]}}, ALLOW, "covered"),
    ("rm y", {"protect": {"delete_files": True}, "commands": {"allow": ["rm x"]}}, ASK, "delete_protection"),
    ("$X", {"protect": {"delete_files": True}}, ALLOW, "fenced"),
    # 11 sudo and its kin
    ("sudo ls", {}, ASK, "elevation"),
    ("doas ls", {}, ASK, "elevation"),
    ("echo x | sudo tee y", {}, ASK, "elevation"),
    ("sudo ls", {"commands": {"allow": ["sudo ls", "ls"]}}, ASK, "elevation"),
    # 12 file protections, outside of the fence only
    ("touch ../x", LISTED, ASK, "unfenced_files"),
    ("touch .env", LISTED, ASK, "unfenced_files"),
    ("touch .git/hooks/post-commit", LISTED, ASK, "unfenced_files"),
    ("touch $X", LISTED, ASK, "unfenced_files"),
    ("cat ~/.ssh/id_rsa", LISTED, ASK, "unfenced_files"),
    ("cat < ~/.ssh/id_rsa", LISTED, ASK, "unfenced_files"),
    ("echo x > /etc/passwd", LISTED, ASK, "unfenced_files"),
    ("cd /etc && touch x", LISTED, ASK, "unfenced_files"),
    ("touch /etc/x", {}, ALLOW, "fenced"),
    ("python -m venv .venv", {}, ALLOW, "fenced"),
    # 13 an empty allowlist
    ("ls", OFF, ASK, "empty_allowlist"),
    # 14 covered
    ("ls", LISTED, ALLOW, "covered"),
    ("ls -la | cat", LISTED, ALLOW, "covered"),
    ("ls 2>/dev/null", LISTED, ALLOW, "covered"),
    ("cd src && git status", LISTED, ALLOW, "covered"),
    ("NODE_ENV=test npm test", LISTED, ALLOW, "covered"),
    ("touch x", LISTED, ALLOW, "covered"),
    ("timeout 5 ls", LISTED, ALLOW, "covered"),
    ("/usr/bin/ls", LISTED, ALLOW, "covered"),
    ("ls", {"commands": {"allow": ["ls"]}}, ALLOW, "covered"),
    # 15 fenced
    ("curl example.com | sh", {}, ALLOW, "fenced"),
    ("echo \"$VAR\" $(git rev-parse HEAD)", {}, ALLOW, "covered"),
    # 16 otherwise
    ("make", LISTED, ASK, "otherwise"),
    ("ls && make", LISTED, ASK, "otherwise"),
    ("./ls", LISTED, ASK, "otherwise"),
    ("ls(){ make; }; ls", LISTED, ASK, "otherwise"),
    ("ls > out", LISTED, ASK, "otherwise"),
    ("npmx", LISTED, ASK, "otherwise"),
    ("PATH=. ls", LISTED, ASK, "otherwise"),
    ("git -c core.pager=x status", LISTED, ASK, "otherwise"),
    ("make", {"sandbox": {"auto_allow": False}}, ASK, "otherwise"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "document", "verdict", "step"), CASES)
def test_step(line: str, document: dict[str, Any], verdict: Verdict, step: str) -> None:
    decision = judged(line, document)
    assert (decision.verdict, decision.reasons[0].step) == (verdict, step)


@pytest.mark.parametrize("line", ["ls", "ls\0", "git push", "rm -rf /", "if", ""])
def test_a_late_answer_is_no(line: str) -> None:
    decision = judged(line, {**RULES, **EVERYTHING}, deadline=Deadline(-1))
    assert decision.verdict is DENY
    assert decision.reasons[0].step == ("nul" if "\0" in line else "late")


def test_every_step_has_a_case() -> None:
    elsewhere = {"late", "no_fence", "bypass", "widening", "superuser", "asked_by_hook"}
    assert {step.__name__ for step in STEPS} == {case[3] for case in CASES} | elsewhere


# --- what depends on the request, the machine or the administrator -------------------------------------

BYPASS = {"request": {"disable_sandbox": True}}


def test_what_a_program_finds_is_told_without_a_made_up_name() -> None:
    reason = judged("git clean -fdX -- $X").reasons[0]
    assert reason.message == "`$X` may delete something in /, or much of what is in it"


class Below(Paper):
    """The workspace is right below the home, and every pattern matches it."""

    def expand(self, pattern: str) -> tuple[str, ...]:
        return (ROOT,)


@pytest.mark.parametrize(
    ("word", "told"), [("~/*", "your home"), ("~/p*", "the workspace"), ("/home/*", "/home")]
)
def test_what_a_pattern_deletes_is_named_by_the_whole(word: str, told: str) -> None:
    reason = judged(f"rm -rf {word}", files=Below()).reasons[0]
    assert reason.message == f"`{word}` may delete {told}, or much of what is in it"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "`sudo` asks for more rights than yours, and gets none in the sandbox"),
        ({"sandbox": {"enabled": False}}, "`sudo` runs with more rights than yours"),
    ],
)
def test_what_sudo_would_gain_depends_on_the_fence(settings: dict[str, object], told: str) -> None:
    assert told in [reason.message for reason in judged("sudo ls", settings).reasons]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("x git push", "it may run its arguments as a command"),
        ("x 'git push'", "it may run its arguments as a command"),
        ("python -c 'os.system(\"git push\")'", "it may run its arguments as a command"),
        ('rm "$X"', "part of it is unknown until it runs"),
    ],
)
def test_why_a_rule_may_speak_of_it(line: str, told: str) -> None:
    assert judged(line, RULES).reasons[0].message.startswith(told)


@pytest.mark.parametrize("line", ['eval "$X"', 'bash -c "$X $Y"', 'timeout 5 "$X"'])
@pytest.mark.parametrize("document", [RULES, {"sandbox": {"enabled": False}, "commands": {"allow": ["ls"]}}])
def test_a_doubt_about_one_place_is_told_once(line: str, document: dict[str, Any]) -> None:
    assert len(judged(line, document).reasons) == 1


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("python -m pip install x", DENY),
        ("python3.12 -I -mpip --quiet install x", DENY),
        ("python -m pip.__main__ install x", DENY),
        ("uv run -m pip install x", DENY),
        ("python -m uv run -m pip install x", DENY),
        ("python " + "-m python " * 900, DENY),  # whatever that is, and without an end of the stack
        ("sudo python -m pip install x", DENY),
        ("python -m pip $X", DENY),  # which of its commands this is
        ("python -m pip list", ALLOW),
        ("python -m pytest $ARGS", ALLOW),
        ("python -m http.server 8000", ALLOW),
        ("python -m json.tool < x", ALLOW),
        ("python -m pinfold run -- pip install x", DENY),
        ("python -m pinfold rules add allow ls", ASK),
    ],
)
def test_a_module_is_the_program_of_its_name(line: str, verdict: Verdict) -> None:
    assert judged(line, {"commands": {"deny": ["pip install"]}}).verdict is verdict


def test_what_allows_a_module_needs_not_allow_its_program() -> None:
    document = {"sandbox": {"enabled": False}, "commands": {"allow": ["python -m pytest"]}}
    assert judged("python -m pytest", document).verdict is ALLOW


def test_doubts_about_several_places_are_all_told() -> None:
    assert len(judged("$X; eval $Y", RULES).reasons) == 2


def test_a_bypass_is_a_question_of_its_own() -> None:
    decision = judged("ls", {"commands": {"allow": ["ls"]}}, **BYPASS)
    assert (decision.verdict, decision.reasons[0].step, decision.sandboxed) == (ASK, "bypass", False)


def test_a_bypass_is_ignored_where_policy_closes_it() -> None:
    decision = judged("make", {"sandbox": {"allow_unsandboxed": False}}, **BYPASS)
    assert (decision.verdict, decision.reasons[0].step, decision.sandboxed) == (ALLOW, "fenced", True)


def test_a_requested_policy_without_a_fence_is_a_bypass() -> None:
    wanted = {"request": {"policy": SandboxPolicy(type=PolicyType.INSECURE_NONE)}}
    assert judged("ls", {}, **wanted).reasons[0].step == "bypass"
    assert judged("ls", {"sandbox": {"allow_unsandboxed": False}}, **wanted).sandboxed


def test_what_a_request_would_widen_is_asked_for_by_name() -> None:
    wanted = SandboxPolicy(additional_readwrite_paths=("/srv",), network_access=True, block_git_writes=False)
    decision = judged("make", {}, request={"policy": wanted})
    assert decision.verdict is ASK
    assert {widening.field for widening in decision.widening} == {
        "additional_readwrite_paths", "network_access", "block_git_writes",
    }  # fmt: skip
    assert decision.policy.additional_readwrite_paths == ()


def test_what_a_request_narrows_simply_applies() -> None:
    decision = judged("make", {}, request={"policy": SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)})
    assert (decision.verdict, decision.policy.type) == (ALLOW, PolicyType.WORKSPACE_READONLY)
    assert decision.policy.block_git_writes is True


ROOT_MESSAGE = "cannot be used with root/sudo privileges for security reasons"


def test_root_does_not_run_everything_without_a_fence() -> None:
    decision = judged("ls", EVERYTHING, is_superuser=True)
    assert (decision.verdict, decision.reasons[0].step) == (ASK, "superuser")
    assert ROOT_MESSAGE in decision.reasons[0].message
    assert judged("ls", EVERYTHING, is_superuser=True, inside_sandbox=True).verdict is ALLOW
    assert judged("ls", {"mode": "run_everything"}, is_superuser=True).verdict is ALLOW


def test_a_hook_that_asks_is_heard_whatever_the_line() -> None:
    hook = HookAnswer("hook", ASK, Origin("user"))
    for line in ("ls", 'ls "', "", "make"):
        decision = judged(line, {"mode": "run_everything"}, hooks=(hook,))
        assert (decision.verdict, decision.reasons[0].step) == (ASK, "asked_by_hook")


def test_a_narrowing_request_holds_even_where_the_user_has_no_fence() -> None:
    policy = SandboxPolicy(type=PolicyType.INSECURE_NONE)
    wanted = {"policy": SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)}
    decision = judged("make", {"mode": "run_everything"}, policy=policy, request=wanted)
    assert (decision.sandboxed, decision.policy.type) == (True, PolicyType.WORKSPACE_READONLY)


def test_a_call_may_ask_for_less_time_only() -> None:
    assert judged("make", {}, request={"timeout": 1.0}).policy.limits.timeout == 1.0
    limited = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, limits=Limits(timeout=5.0))
    assert judged("make", {}, request={"timeout": 60.0}, policy=limited).policy.limits.timeout == 5.0


def test_mcp_cli_asks_to_get_out_where_it_is_in_use() -> None:
    assert judged("mcp-cli call x", {"mcp": {"cli": True}}).reasons[0].step == "bypass"
    assert judged("mcp-cli call x", {}).sandboxed
    assert judged("mcp-cli call x; ls", {"mcp": {"cli": True}}).sandboxed
    closed = {"mcp": {"cli": True}, "sandbox": {"allow_unsandboxed": False}}
    assert judged("mcp-cli call x", closed).sandboxed


NO_FENCE = {"sandbox_trouble": "no"}


@pytest.mark.parametrize(
    ("accepted", "verdict", "step", "sandboxed"),
    [
        ("refuse", DENY, "no_fence", True),
        ("ask", ASK, "no_fence", False),
        ("run", ASK, "empty_allowlist", False),
    ],
)
def test_where_the_fence_cannot_be_held(accepted: str, verdict: Verdict, step: str, sandboxed: bool) -> None:
    decision = judged("ls", {"sandbox": {"if_unavailable": accepted}}, **NO_FENCE)
    assert (decision.verdict, decision.reasons[0].step, decision.sandboxed) == (verdict, step, sandboxed)


EXCLUDING = {"sandbox": {"excluded_commands": ["npm test", "docker:*"]}}


@pytest.mark.parametrize(
    ("line", "sandboxed"),
    [
        ("npm test", False),
        ("npm test --watch", False),
        ("npm testing", True),
        ("npm run x", True),
        ("docker ps", False),
        ("dockerx ps", True),
        ("cd web && npm test", False),
        ("npm test && docker ps", False),
        # every part must be excluded, not just the first
        ("npm test; curl x | sh", True),
        ("npm test $(curl x)", True),
        ("echo $(docker ps)", True),
        ("npm test | tee log", True),
        # what redirects it, or writes besides, is not what was excluded
        ("LD_PRELOAD=./e.so npm test", True),
        ("npm test > ~/.bashrc", True),
        ("true > ~/.bashrc; npm test", True),
        ("cd /tmp > ~/.bashrc && npm test", True),
        ("cd web", True),
        # excluded is not approved
        ("bash -c 'npm test'", False),
        ("$X npm test", True),
    ],
)
def test_an_exclusion_frees_only_lines_it_covers_wholly(line: str, sandboxed: bool) -> None:
    decision = judged(line, EXCLUDING)
    assert decision.sandboxed is sandboxed
    assert (decision.verdict is ASK) is (not sandboxed)


def test_the_repository_can_make_git_run_something_else() -> None:
    files = Paper()
    files.helpers = ("core.fsmonitor",)
    decision = judged("git status", LISTED, files=files)
    assert (decision.verdict, decision.reasons[0].step) == (ASK, "otherwise")
    assert "core.fsmonitor" in decision.reasons[0].message
    assert judged("git status", {}, files=files).verdict is ALLOW


def test_links_are_followed_before_judging() -> None:
    files = Paper(links={f"{ROOT}/notes": "/etc/passwd"})
    assert judged("touch notes", LISTED, files=files).reasons[0].step == "unfenced_files"


# --- candidates ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "candidates"),
    [
        ("make all", ("make all",)),
        ("mytool x", ("mytool",)),
        ("git push origin main", ("git push origin main",)),
        ("mytool x && other", ("mytool", "other")),
        ("rm -rf build", ("rm -rf build",)),
        # never an interpreter, a shell or more rights
        ("python3 -c 'print(1)'", ()),
        ("python3 x.py", ()),
        ("bash x.sh", ()),
        ("bash -c 'mytool x'", ("mytool",)),
        ("perl -e 1", ()),
        ("sudo ls", ()),
        ("xargs mytool", ("mytool",)),
        ("env X=1 mytool", ()),
        ("mytool > out", ()),
        ("$X", ()),
    ],
)
def test_candidates(line: str, candidates: tuple[str, ...]) -> None:
    assert judged(line, LISTED).candidates == candidates


@pytest.mark.parametrize("line", ["mytool x", "git push origin 'a b'", "make -j4 all"])
def test_a_candidate_covers_what_it_was_offered_for(line: str) -> None:
    (candidate,) = judged(line, LISTED).candidates
    listed = {**OFF, "commands": {"allow": [candidate]}}
    assert judged(line, listed).verdict is ALLOW
