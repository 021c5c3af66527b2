"""What is proposed after a run: enough, nothing more than enough, and never what nobody may grant."""

from posixpath import dirname

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.model.decision import Verdict
from pinfold.model.policy import Cap, PolicyType, SandboxPolicy
from pinfold.model.request import Connect
from pinfold.model.settings import FilesystemSettings, NetworkAccess, NetworkSettings, Settings
from pinfold.model.text_positions import Origin
from pinfold.policy.connect import reason_of
from pinfold.policy.grants import GrantContext
from pinfold.policy.learning import (
    MachineFacts,
    PersonAnswer,
    Proposal,
    ProposedSetting,
    WantedAccess,
    propose,
)
from pinfold.policy.paths import contains, is_covered
from pinfold.settings.policy import policy_of

ROOT, HOME = "/home/u/work", "/home/u"
OWN = (f"{HOME}/.config/pinfold", f"{HOME}/.local/state/pinfold", "/etc/pinfold")
SETTINGS = Settings(filesystem=FilesystemSettings(protect=(f"{HOME}/kept/this",)))
THERE = {f"{HOME}/notes", f"{HOME}/cache", f"{HOME}/cache/db", f"{HOME}/.bashrc", "/srv/data", "/srv/data/a"}
AGENT = "/run/user/1/agent.7"
AROUND = MachineFacts(THERE.__contains__, (f"{HOME}/bin", "/usr/bin"), {"SSH_AUTH_SOCK": AGENT})


def context(settings: Settings = SETTINGS) -> GrantContext:
    return GrantContext(policy_of(settings, (ROOT,), HOME), (ROOT,), HOME, OWN, settings)


def learned(*records: WantedAccess, settings: Settings = SETTINGS) -> Proposal:
    return propose(records, context(settings), AROUND)


def write(
    operation: str, *paths: str, answer: PersonAnswer = PersonAnswer.NOTHING, directory: str = ""
) -> WantedAccess:
    return WantedAccess(operation, paths, answer=answer, directory=directory)


def connect(target: str, answer: PersonAnswer = PersonAnswer.NOTHING) -> WantedAccess:
    return WantedAccess("connect", (target,), answer=answer)


GIT = WantedAccess("open", (f"{ROOT}/.git/index.lock",), ".git", "git writes are blocked", is_git=True)


@pytest.mark.parametrize(
    ("records", "entries"),
    [
        # what is there is changed in place
        ([write("open", f"{HOME}/notes")], ["~/notes"]),
        ([write("chmod", "/srv/data/a"), write("open", "/srv/data/a")], ["/srv/data/a"]),
        # what is made, moved or removed needs its directory
        ([write("open", f"{HOME}/cache/new")], ["~/cache"]),
        ([write("unlink", f"{HOME}/cache/db"), write("open", f"{HOME}/cache/db")], ["~/cache"]),
        ([write("rename", "/srv/data/a", f"{HOME}/cache/t")], ["/srv/data", "~/cache"]),
        # a new directory is one entry, whatever is made in it
        ([write("mkdir", f"{HOME}/new"), *(write("open", f"{HOME}/new/{n}") for n in range(20))], ["~/new"]),
        ([write("mkdir", f"{HOME}/new"), write("mkdir", f"{HOME}/new/a")], ["~/new"]),
        # more than a few side by side are packages of a cache, and the next run wants others
        ([write("mkdir", f"{HOME}/cache/{n}") for n in range(5)], ["~/cache"]),
        ([write("mkdir", f"{HOME}/cache/{n}") for n in range(4)], [f"~/cache/{n}" for n in range(4)]),
        ([write("mkdir", f"{HOME}/{n}") for n in range(5)], [f"~/{n}" for n in range(5)]),
        # what a person let be written as a whole
        (
            [write("open", f"{HOME}/cache/db", answer=PersonAnswer.YES, directory=f"{HOME}/cache")],
            ["~/cache"],
        ),
        # what is in the project already needs nothing
        ([write("rename", f"{HOME}/cache/x", f"{ROOT}/x")], ["~/cache"]),
    ],
)
def test_paths(records: list[WantedAccess], entries: list[str]) -> None:
    found = learned(*records)
    assert (
        found.entries == tuple(ProposedSetting("filesystem.write", entry) for entry in entries)
        and not found.not_proposed
    )


def test_what_was_refused_is_not_opened_with_what_lies_around_it() -> None:
    made = [write("mkdir", f"{HOME}/cache/{n}") for n in range(9)]
    found = learned(*made, write("mkdir", f"{HOME}/cache/no", answer=PersonAnswer.NO))
    assert [entry.value for entry in found.entries] == [
        f"~/cache/{n}" for n in range(9)
    ] and found.not_proposed


@pytest.mark.parametrize(
    ("wanted", "refused", "entries"),
    [
        # an entry would let through what was refused
        (
            write("mkdir", f"{HOME}/new", answer=PersonAnswer.YES),
            write("open", f"{HOME}/new/a", answer=PersonAnswer.NO),
            [],
        ),
        (
            write("open", f"{HOME}/cache/a", answer=PersonAnswer.YES),
            write("open", f"{HOME}/cache/b", answer=PersonAnswer.NO),
            [],
        ),
        (
            write("chmod", "/srv/data/a", answer=PersonAnswer.YES),
            write("open", "/srv/data/a", answer=PersonAnswer.NO),
            [],
        ),
        # it would not
        (
            write("mkdir", f"{HOME}/new", answer=PersonAnswer.YES),
            write("rmdir", f"{HOME}/new", answer=PersonAnswer.NO),
            ["~/new"],
        ),
        (
            write("open", f"{HOME}/notes", answer=PersonAnswer.YES),
            write("open", f"{HOME}/cache/b", answer=PersonAnswer.NO),
            ["~/notes"],
        ),
    ],
)
def test_no_entry_lets_through_what_was_refused(
    wanted: WantedAccess, refused: WantedAccess, entries: list[str]
) -> None:
    found = learned(wanted, refused)
    assert [entry.value for entry in found.entries] == entries
    assert len(found.not_proposed) == 2 - len(entries)


@pytest.mark.parametrize(
    ("record", "entry"),
    [
        (connect("Pypi.org:443"), ProposedSetting("network.allow", "pypi.org:443")),
        (connect("10.0.0.7:80", PersonAnswer.YES), ProposedSetting("network.allow", "10.0.0.7:80")),
        (connect("[2001:4860::1]:80"), ProposedSetting("network.allow", "[2001:4860::1]:80")),
        (connect("/srv/db.sock"), ProposedSetting("network.unix_sockets", "/srv/db.sock")),
        (connect(AGENT), ProposedSetting("network.unix_sockets", "$SSH_AUTH_SOCK")),
        (GIT, ProposedSetting("filesystem.git_writes", "true")),
        (WantedAccess("run", ("npm test",)), ProposedSetting("commands.allow", "npm test")),
    ],
)
def test_other_things(record: WantedAccess, entry: ProposedSetting) -> None:
    assert learned(record) == Proposal((entry,))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        # what somebody said
        (write("open", f"{HOME}/notes", answer=PersonAnswer.NO), "you said no"),
        (connect("pypi.org:443", PersonAnswer.NO), "you said no"),
        (replace(GIT, answer=PersonAnswer.NO), "you said no"),
        (WantedAccess("run", ("npm test",), answer=PersonAnswer.NO), "you said no"),
        # what is hidden, pinfold's own or protected
        (WantedAccess("read", (f"{HOME}/.ssh/id",), why="it is hidden"), "it is hidden"),
        (write("open", f"{HOME}/.ssh/config"), "it is hidden"),
        (write("open", f"{HOME}/.config/pinfold/settings.toml"), "it is hidden"),
        (write("open", "/etc/pinfold/managed.toml"), "it belongs to pinfold"),
        (write("mkdir", f"{HOME}/other/.pinfold"), "this cannot be granted"),
        (write("open", f"{HOME}/.bashrc"), "it is protected"),
        (write("open", f"{HOME}/.local/bin/tool"), "it is protected"),
        (write("open", f"{HOME}/.local/share/systemd/user/a.service"), "it is protected"),
        (write("open", f"{HOME}/.config/environment.d/a.conf"), "it is protected"),
        (write("open", f"{HOME}/.config/direnv/direnvrc"), "it is protected"),
        (write("open", f"{HOME}/.config/nvim/init.lua"), "it is protected"),
        (write("open", f"{HOME}/.emacs.d/init.el"), "it is protected"),
        (write("open", f"{HOME}/.config/Code/User/tasks.json"), "it is protected"),
        (write("open", f"{HOME}/.config/pip/pip.conf"), "it is protected"),
        (write("open", f"{HOME}/.gradle/init.d/all.gradle"), "it is protected"),
        (write("open", f"{HOME}/.local/lib/python3.11/site-packages/usercustomize.py"), "it is protected"),
        (write("open", "/opt/venv/lib/python3.11/site-packages/a.pth"), "Python loads files from there"),
        (write("open", "/srv/repository/.hg/hgrc"), "it is protected"),
        (write("open", f"{HOME}/kept/this"), "it is protected"),
        (
            WantedAccess("mkdir", (f"{ROOT}/.vscode",), ".vscode", "editors obey it"),
            "it is protected: editors",
        ),
        # what would take more than was wanted
        (write("open", f"{HOME}/new"), "it would open all of `/home/u`"),
        (write("unlink", f"{HOME}/notes"), "it would open all of"),
        (write("open", "/srv/new"), "it would open all of"),
        (write("mkdir", "/other"), "it would open all of"),
        (write("open", f"{HOME}/.config/new"), "it would open all of"),
        (write("open", f"{HOME}/kept/new"), "it would open all of"),
        (write("open", f"{HOME}/.m2/new"), "it would open all of"),
        (write("open", f"{HOME}/bin/new"), "programs that you start"),
        (write("open", "/usr/lib/x/y"), "it holds system files"),
        (write("open", "/dev/kvm"), "each sandbox has its own"),
        (write("mkdir", f"{HOME}/a*"), "its name would be read as a pattern"),
        (write("mkdir", f"{HOME}/\udcff"), "its name is not valid text"),
        # what is worth more than it looks
        (connect("169.254.169.254:80"), "it is a link-local address"),
        (connect("/var/run/docker.sock"), "a program that connects to Docker"),
        (connect("/run/user/1000/wayland-1"), "a program that connects to the display"),
        (connect("/tmp/.X11-unix/X10"), "a program that connects to the display"),
        (connect(f"{HOME}/.gnupg/S.agent"), "it is hidden"),
        (connect(f"{ROOT}/x.sock"), "it is in a directory that commands can write"),
        # what no setting changes
        (connect("x..y:443"), "the host"),
        (WantedAccess("warden", ("",), why="it ended"), "it ended"),
        (WantedAccess("", ("",), why="more than are listed"), "more than are listed"),
        (
            WantedAccess("resolve", ("10.0.0.1:53",), why="host names cannot be looked up"),
            "host names cannot be",
        ),
        (WantedAccess("run", (), why="it deletes your home"), "it deletes your home"),
    ],
)
def test_what_is_told_and_not_proposed(record: WantedAccess, why: str) -> None:
    found = learned(record)
    assert not found.entries and found.not_proposed[0].record is record
    assert found.not_proposed[0].why.startswith(why)


def test_hosts_that_settings_speak_of() -> None:
    network = NetworkSettings(allow=("a.example",), deny=("b.example",))
    settings = replace(SETTINGS, network=network)
    assert (
        "matches `b.example` in `network.deny`"
        in learned(connect("b.example:1"), settings=settings).not_proposed[0].why
    )
    assert "already allowed" in learned(connect("a.example:1"), settings=settings).not_proposed[0].why
    assert learned(connect("a.example:1", PersonAnswer.YES), settings=settings) == Proposal()
    managed = replace(settings, origins={"network.allow": Origin("managed", "/etc/x", 1)})
    assert "administrator" in learned(connect("c.example:1"), settings=managed).not_proposed[0].why
    closed = replace(SETTINGS, network=NetworkSettings(access=NetworkAccess.NONE))
    assert "switched off" in learned(connect("c.example:1"), settings=closed).not_proposed[0].why


def test_administrator_only_narrows_proposals() -> None:
    cap = Cap(SandboxPolicy(block_git_writes=True), ("additional_readwrite_paths",))
    capped = replace(SETTINGS, cap=cap)
    found = learned(GIT, write("open", f"{HOME}/notes"), settings=capped)
    assert not found.entries and all(
        "administrator" in not_proposed.why for not_proposed in found.not_proposed
    )


def test_nothing_is_proposed_to_write_under_a_read_only_policy() -> None:
    policy = replace(context().policy, type=PolicyType.WORKSPACE_READONLY)
    record = write("open", f"{ROOT}/x")
    assert (
        propose([record], replace(context(), policy=policy), AROUND).not_proposed[0].why
        == "the policy is read-only"
    )


# For any run

NAMES = (
    "notes",
    "cache",
    "db",
    "new",
    "deep",
    ".ssh",
    ".config",
    ".vscode",
    ".m2",
    "work",
    "bin",
    "kept",
    "*",
)
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map(lambda parts: "/".join((HOME, *parts)))
others = st.sampled_from(("/srv/data/a", "/srv/data", "/srv/x", "/usr/bin/x", "/etc/pinfold/x", "/dev/null"))
says = st.sampled_from(PersonAnswer)
writes = st.builds(
    lambda operation, first, second, answer: WantedAccess(
        operation, (first, second) if operation in ("rename", "link") else (first,), answer=answer
    ),
    st.sampled_from(("open", "mkdir", "unlink", "rename", "link", "chmod", "truncate", "symlink", "rmdir")),
    paths | others,
    paths | others,
    says,
)
hosts = st.sampled_from(("a.example:1", "a.example:2", "b.example:1", "127.0.0.1:9", "169.254.169.254:80"))
sockets = st.sampled_from(("/srv/s.sock", AGENT, "/run/docker.sock", f"{ROOT}/s.sock", f"{HOME}/.ssh/s"))
records = st.lists(
    writes
    | st.builds(connect, hosts | sockets, says)
    | st.builds(lambda answer: replace(GIT, answer=answer), says)
    | st.builds(
        lambda rule, answer: WantedAccess("run", (rule,), answer=answer),
        st.sampled_from(("ls", "make")),
        says,
    )
    | st.builds(lambda path: WantedAccess("read", (path,), why="it is hidden"), paths),
    max_size=12,
)


def with_entries(entries: tuple[ProposedSetting, ...]) -> Settings:
    def of(key: str) -> tuple[str, ...]:
        return tuple(entry.value for entry in entries if entry.key == key)

    files = replace(
        SETTINGS.filesystem, write=of("filesystem.write"), git_writes=bool(of("filesystem.git_writes"))
    )
    network = replace(SETTINGS.network, allow=of("network.allow"), unix_sockets=of("network.unix_sockets"))
    return replace(SETTINGS, filesystem=files, network=network)


def would_pass(record: WantedAccess, entries: tuple[ProposedSetting, ...]) -> bool:
    """By what the settings come to, and what a pen does of that."""
    settings = with_entries(entries)
    policy = policy_of(settings, (ROOT,), HOME, {"SSH_AUTH_SOCK": AGENT})
    if record.operation == "run":
        return all(ProposedSetting("commands.allow", rule) in entries for rule in record.paths)
    if record.is_git:
        return not policy.block_git_writes
    if record.is_host:
        host, _, port = record.paths[0].rpartition(":")
        return reason_of(Connect(host, int(port)), settings).verdict is Verdict.ALLOW
    if record.operation == "connect":
        return record.paths[0] in policy.unix_sockets
    open_to_all = (ROOT, *policy.additional_readwrite_paths)
    in_place = ("open", "truncate", "chmod")
    return all(
        is_covered(path, open_to_all)
        if record.operation == "mkdir" or (record.operation in in_place and path in THERE)
        else is_covered(dirname(path), open_to_all)
        for path in record.paths
    )


@given(records)
def test_it_is_enough(found: list[WantedAccess]) -> None:
    proposal = learned(*found)
    not_proposed = [each.record for each in proposal.not_proposed]
    for record in found:
        assert record in not_proposed or would_pass(record, proposal.entries)


@given(records)
def test_no_entry_is_too_many(found: list[WantedAccess]) -> None:
    proposal = learned(*found)
    not_proposed = [each.record for each in proposal.not_proposed]
    for entry in proposal.entries:
        fewer = tuple(other for other in proposal.entries if other != entry)
        assert not all(would_pass(record, fewer) for record in found if record not in not_proposed), entry


@given(records)
def test_nothing_is_proposed_that_nobody_may_grant(found: list[WantedAccess]) -> None:
    usual, proposal = context(), learned(*found)
    policy = policy_of(with_entries(proposal.entries), (ROOT,), HOME)
    # What was hidden is hidden still.
    assert set(usual.policy.hidden) <= set(policy.hidden)
    for place in policy.additional_readwrite_paths:
        kept = (HOME, ROOT, *OWN, f"{HOME}/kept/this", f"{HOME}/.ssh", f"{HOME}/bin", "/usr/bin")
        assert not any(contains(place, path) or (path in OWN and contains(path, place)) for path in kept)
    refused = {path for record in found if record.answer is PersonAnswer.NO for path in record.paths}
    wanted = {path for record in found if record.answer is not PersonAnswer.NO for path in record.paths}
    for entry in proposal.entries:
        if entry.key in ("network.allow", "commands.allow"):
            assert entry.value in wanted or entry.value not in refused


@given(records)
def test_the_order_of_a_run_does_not_count(found: list[WantedAccess]) -> None:
    assert learned(*found).entries == learned(*reversed(found), *found).entries
