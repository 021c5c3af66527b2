"""What an answer stood on: what changes it, and what does not."""

import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from pinfold.model.policy import NetworkRules, SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.policy.fingerprint import fingerprint, policy_fingerprint
from pinfold.settings import Sources, load
from pinfold.shell.rule_text import shape


def of(text: str) -> Settings:
    return load(Sources(user_values=tomllib.loads(text)), shape)


PLAIN = fingerprint(of(""), SandboxPolicy())


@pytest.mark.parametrize(
    "text",
    [
        '[commands]\ndeny = ["curl"]',
        '[commands]\nask = ["curl"]',
        '[network]\ndeny = ["a.example"]',
        '[network]\naccess = "rules"',
        '[filesystem]\nwrite = ["/x"]',
        '[filesystem]\nhide = ["/x"]',
        "[sandbox]\nenabled = false",
        'mode = "ask_every_time"',
        '[hooks]\nbefore_command = [["look"]]',
        '[environment]\nset = {A = "b"}',
    ],
)
def test_what_an_answer_stood_on(text: str) -> None:
    assert fingerprint(of(text), SandboxPolicy()) != PLAIN


@pytest.mark.parametrize(
    "text",
    [
        '[commands]\nallow = ["npm test"]',
        '[network]\nallow = ["a.example:443"]',
        '[limits]\ntimeout = "1m"\noutput = "1MB"',
        '[approvals]\nkeep = "1d"',
    ],
)
def test_what_it_did_not_stand_on(text: str) -> None:
    assert fingerprint(of(text), SandboxPolicy()) == PLAIN


def test_where_a_rule_is_written_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "a").write_text('[commands]\ndeny = ["curl"]')
    (tmp_path / "b").write_text('\n# why\n[commands]\ndeny = ["curl"]')
    one, other = (load(Sources(user=str(tmp_path / name)), shape) for name in "ab")
    assert fingerprint(one, SandboxPolicy()) == fingerprint(other, SandboxPolicy())


def test_of_a_policy_everything_counts_but_time_and_granted_hosts() -> None:
    policy = SandboxPolicy()
    same = replace(policy, network=NetworkRules(allow=("a.example",)))
    assert policy_fingerprint(same) == policy_fingerprint(policy)
    for other in (replace(policy, hidden=("/x",)), replace(policy, ignore_mapping={"/x": ("\udcff",)})):
        assert policy_fingerprint(other) != policy_fingerprint(policy)
