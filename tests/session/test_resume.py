"""A resumed session has its own projects, and is nowhere wider than it was or than settings are today."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

import pinfold
from pinfold.approval.chain import Approver
from pinfold.model.policy import PolicyType
from pinfold.session.permission_requests import ask_for_permission
from pinfold.settings.build import build, effective
from pinfold.settings.cap_resumed import held_of
from pinfold.settings.defaults import default_layer
from pinfold.settings.keys import TABLE, Direction
from pinfold.settings.parse_layer import SettingsLayer
from tests.settings.loaded import shape
from tests.settings.test_claims import frozen, is_no_wider, layers

LEFT_OUT = {"network.proxy", "sandbox.debug_output_dir", "admin.sandboxing", "admin.networking", "admin.git"}
"""Of two of them neither is the wider, or what they do is in other keys."""


@settings(max_examples=150, deadline=None)
@given(layers("managed"), layers("command line"), layers("user"), layers("managed"), layers("user"))
def test_resume_never_widens(
    cap: SettingsLayer, flags: SettingsLayer, user: SettingsLayer, cap_now: SettingsLayer, now: SettingsLayer
) -> None:
    """Each key is no wider than the session had it, and no wider than it is without the session."""
    built = build([cap, flags, user, default_layer()], shape)
    before, today = effective(built), effective(build([cap_now, now, default_layer()], shape))
    kept = json.loads(json.dumps(held_of(built)))
    resumed = effective(build([cap_now, now, default_layer()], shape, held=kept))
    for key in TABLE:
        if key.name not in LEFT_OUT:
            assert is_no_wider(key, resumed[key.name], before[key.name]), key.name
            assert is_no_wider(key, resumed[key.name], today[key.name]), key.name
    again = effective(build([cap, flags, user, default_layer()], shape, held=kept))
    for key in TABLE:
        mine, theirs = again[key.name], before[key.name]
        same = mine == theirs if key.is_scalar else {*frozen(mine)} == {*frozen(theirs)}
        assert same or key.name in LEFT_OUT, f"{key.name}: what has not changed is restored"


class World:
    """A home, and projects in it."""

    def __init__(self, directory: Path) -> None:
        self.home = directory / "home"
        self.one, self.two = self.home / "one", self.home / "two"
        for each in (self.one, self.two):
            each.mkdir(parents=True)
        self.environ = {"HOME": str(self.home), "PATH": os.environ["PATH"]}

    def opened(self, projects: list[Path] | None = None, **given: Any) -> pinfold.Session:
        return pinfold.Session(projects or [], environ=given.pop("environ", self.environ), **given)

    def ended(self, **given: Any) -> str:
        """The id of a session that has done something."""
        with self.opened([self.one], **given) as session:
            assert session.ledger
            return session.id


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield World(Path(os.path.realpath(tmp_path)))


NARROW: dict[str, Any] = {
    "sandbox": {"policy": "read-only", "auto_allow": False},
    "network": {"access": "none", "deny": ["evil.example"]},
    "commands": {"deny": ["curl"], "ask": ["git push"]},
    "filesystem": {"hide": ["secrets"]},
}


def test_what_was_given_as_a_dictionary_holds_again(world: World) -> None:
    ended = world.ended(settings=NARROW)
    wider: list[dict[str, Any]] = [
        {},
        {"settings": {}},
        {"settings": {"network": {"access": "all"}}},
        {"overrides": {"mode": "run_everything"}},
    ]
    for more in wider:
        with world.opened(resume=ended, **more) as session:
            assert session.roots == (str(world.one),)
            assert session.policy.type is PolicyType.WORKSPACE_READONLY
            assert (
                session.settings.network.access == "none" and "evil.example" in session.settings.network.deny
            )
            assert session.check("curl x").verdict == "deny"
            assert not session.settings.sandbox.auto_allow and "secrets" in session.policy.hidden


def test_what_a_file_or_the_environment_said_holds_again(world: World) -> None:
    file = world.home / "mine.toml"
    file.write_text('[commands]\ndeny = ["curl"]\n')
    narrow = {**world.environ, "PINFOLD_NETWORK": "none", "PINFOLD_POLICY": "read-only"}
    ended = world.ended(settings=file, environ=narrow)
    file.write_text("")
    with world.opened(resume=ended) as session:
        assert session.check("curl x").verdict == "deny"
        assert session.settings.network.access == "none"
        assert session.policy.type is PolicyType.WORKSPACE_READONLY
    file.unlink()
    with pytest.raises(pinfold.PolicyError, match="this settings file does not exist"):
        world.opened(resume=ended)


def test_today_s_settings_hold_too(world: World) -> None:
    ended = world.ended(
        settings={"network": {"access": "all"}, "filesystem": {"write": ["/opt/a", "/opt/b"]}}
    )
    with world.opened(
        resume=ended, settings={"commands": {"deny": ["wget"]}, "filesystem": {"write": ["/opt/b", "/opt/c"]}}
    ) as session:
        assert session.check("wget x").verdict == "deny"
        assert session.settings.network.access == "ask"
        assert session.settings.filesystem.write == ("/opt/b",)
        assert any("/opt/c" in notice for notice in session.notices)


def test_it_has_its_own_projects_and_no_others(world: World) -> None:
    ended = world.ended(settings={})
    with world.opened([world.one], resume=ended) as session:
        assert session.roots == (str(world.one),)
        session.add_project(world.two)
    with world.opened(resume=ended) as session:
        assert session.roots == (str(world.one), str(world.two))
    for projects in ([world.two], [world.one], [world.home]):
        with pytest.raises(pinfold.PolicyError, match="other projects"):
            world.opened(projects, resume=ended)


def test_what_cannot_be_restored_is_refused(world: World) -> None:
    ended = world.ended(settings={})
    (kept,) = (world.home / ".local/state/pinfold/resumable").iterdir()
    whole = kept.read_bytes()
    for data in (b"", b"{}", whole.replace(b'"version":1', b'"version":2'), whole[:-1]):
        kept.write_bytes(data)
        with pytest.raises(pinfold.PolicyError, match="no session"):
            world.opened(resume=ended)
    kept.write_bytes(whole)
    with pytest.raises(pinfold.PolicyError, match="another home"):
        elsewhere = {
            **world.environ,
            "HOME": str(world.two),
            "XDG_STATE_HOME": str(world.home / ".local/state"),
        }
        world.opened(resume=ended, environ=elsewhere)
    world.one.rename(world.home / "moved")
    world.one.symlink_to(world.two)
    with pytest.raises(pinfold.PolicyError, match="leads elsewhere"):
        world.opened(resume=ended)
    for wrong in ("0" * 16, "../x", ".", "a/b", "\0"):
        with pytest.raises((pinfold.PolicyError, ValueError)):
            world.opened(resume=wrong)


def test_a_grant_is_given_anew_by_a_person_alone(world: World) -> None:
    def yes(_: pinfold.PermissionNeeded) -> pinfold.Answer:
        return pinfold.Answer.SESSION

    approvers: list[Approver] = [yes]
    ended = world.ended(settings={})
    with world.opened(resume=ended, approvers=approvers) as session:
        assert ask_for_permission(session, {"hosts": ["a.example"]}).is_granted
        assert session.settings.network.allow == ("a.example",)
    with world.opened(resume=ended) as session:
        assert session.settings.network.allow == ()


def test_every_list_that_grants_is_one_that_is_held() -> None:
    """A new key is held by its direction: nothing here names it."""
    assert {key.narrows for key in TABLE if not key.is_scalar} == {Direction.GRANT, Direction.RESTRICT}
