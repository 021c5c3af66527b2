"""Whoever walks down finds what a single question would call hidden."""

from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.policy.hidden_paths import HiddenTree, hidden_by

POLICY = SandboxPolicy(
    type=PolicyType.WORKSPACE_READWRITE,
    hidden=(".env", "*.pem", "!a", "/w/a/b", "/home/u/.ssh", "/w/**/key*", "/"),
    ignore_mapping={"/w": ("secret/", "!x"), "/w/a": ("foo",)},
)
NAMES = ("a", "b", ".env", "x.pem", "keys", "secret", "foo", "x", ".ssh")


def test_a_walk_agrees_with_single_questions() -> None:
    hiding = HiddenTree(POLICY, ("/w", "/v"))
    waiting = ["/w", "/v", "/home/u"]
    whole = SandboxPolicy(hidden=POLICY.hidden[:-1], ignore_mapping=POLICY.ignore_mapping)
    for directory in waiting:
        ask = hiding.within(directory)
        for name in NAMES:
            path = f"{directory}/{name}"
            # Of `secret/` a single question knows no directory: it asks about what is in it.
            single = hidden_by(f"{path}/x", whole, ("/w", "/v")), hidden_by(path, whole, ("/w", "/v"))
            told = ask.is_hidden(name, True)
            assert not told or ask.may_hide(["y", name, "z"])
            assert told is (single[1] is not None or (name == "secret" and single[0] is not None)), path
            if not told and path.count("/") < 4:
                waiting.append(path)


def test_what_lies_too_deep_is_hidden() -> None:
    ask = HiddenTree(POLICY, ("/w",)).within("/w" + "/a" * 300)
    assert ask.may_hide(["b"]) and ask.is_hidden("b", False)
