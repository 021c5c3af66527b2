"""`meet` is a lattice's meet, and its result allows nothing that either side forbids."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields

from pinfold.model.policy import SandboxPolicy
from pinfold.policy.ignore import Ignore
from pinfold.policy.meet import RULES, meet
from pinfold.policy.paths import common, contains, is_covered, normalised, outermost
from tests.policy.policies import PATHS, canonical, is_within, policies

PROBES = (*PATHS, "/a/b/c/x", "/a/bcd", "/d/e/f")
FILES = ("/w/a", "/w/b/x", "/w/x.key", "/w/c", "/w/s/a", "/w/s/d", "/v/x.key", "/w/b/a")


def test_every_field_has_a_rule() -> None:
    assert set(RULES) == {field.name for field in fields(SandboxPolicy)}


@given(policies, policies)
def test_commutative(a: SandboxPolicy, b: SandboxPolicy) -> None:
    assert meet(a, b) == meet(b, a)


@given(policies, policies, policies)
def test_associative(a: SandboxPolicy, b: SandboxPolicy, c: SandboxPolicy) -> None:
    a, b, c = canonical(a), canonical(b), canonical(c)
    assert meet(meet(a, b), c) == meet(a, meet(b, c))


@given(policies)
def test_idempotent(a: SandboxPolicy) -> None:
    assert canonical(canonical(a)) == canonical(a) == meet(canonical(a), canonical(a))


@given(policies, policies)
def test_meet_never_widens(a: SandboxPolicy, b: SandboxPolicy) -> None:
    both = meet(a, b)
    assert is_within(both, a)
    assert is_within(both, b)
    for side in (a, b):
        for name in ("additional_readwrite_paths", "additional_readonly_paths", "unix_sockets"):
            for probe in PROBES:
                if any(contains(path, probe) for path in getattr(both, name)):
                    assert any(contains(path, probe) for path in getattr(side, name))
        for name in ("hidden", "protected"):
            for probe in PROBES:
                if any(contains(path, probe) for path in getattr(side, name)):
                    assert any(contains(path, probe) for path in getattr(both, name))


@given(policies, policies, st.sampled_from(FILES))
def test_ignored_stays_ignored(a: SandboxPolicy, b: SandboxPolicy, file: str) -> None:
    both = Ignore(meet(a, b).ignore_mapping)
    if any(Ignore(side.ignore_mapping).is_ignored(file) for side in (a, b)):
        assert both.is_ignored(file)


SPELLED = st.lists(st.text("/a.*~", max_size=8), max_size=6)


@given(SPELLED, SPELLED)
def test_lists_of_paths_are_compared_as_each_pair_is(first: list[str], second: list[str]) -> None:
    named = {normalised(path) for path in first} - {""}
    assert outermost(first) == tuple(sorted(path for path in named if not is_covered(path, named - {path})))
    ours, theirs = outermost(first), outermost(second)
    both = {path for path in ours if is_covered(path, theirs)}
    both |= {path for path in theirs if is_covered(path, ours)}
    assert common(first, second) == outermost(both)


def test_thousands_of_paths_take_no_time() -> None:
    """If each were compared with all others, this would take minutes."""
    many = [f"/a/{number:05}" for number in range(20_000)]
    assert outermost(many) == common(many, many) == tuple(many)
