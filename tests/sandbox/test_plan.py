"""Plans are values: compared with golden texts, and by what must hold of any of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pinfold.model.errors import ConfinementError
from pinfold.model.policy import Limits, PolicyType, SandboxPolicy
from pinfold.sandbox.linux.protocol.keeper import Confinement
from pinfold.sandbox.linux.protocol.message import decode, encode
from pinfold.sandbox.linux.protocol.operations import (
    Bind,
    EnterRoot,
    Hide,
    Landlock,
    NoteReads,
    Pin,
    Point,
    Protect,
    Reveal,
    Seal,
    Seccomp,
)
from pinfold.sandbox.plan import ExistingPath, ExistingPaths, Plan, ShownPath, plan_pen

GOLDEN = Path(__file__).parent / "golden"
WORKSPACE = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE)
READ_ONLY = SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
WORK = ExistingPath("/home/u/code")


def file(path: str) -> ExistingPath:
    return ExistingPath(path, "file")


CASES = {
    "workspace": (
        SandboxPolicy(
            type=PolicyType.WORKSPACE_READWRITE,
            additional_readwrite_paths=("/srv/cache",),
            limits=Limits(processes=512, memory=1 << 30),
        ),
        ExistingPaths(
            (WORK, ExistingPath("/tmp/other")),
            writable=(ExistingPath("/srv/cache"),),
            readable=(file("/run/user/token"), ExistingPath("/usr/share")),
            sockets=(file("/run/service.sock"), file("/home/u/.agent.sock"), file("/home/u/.ssh/agent")),
            protected=(
                ExistingPath(f"{WORK.path}/.git/hooks"),
                file(f"{WORK.path}/sub/.git/info/attributes"),
            ),
            hidden=(ExistingPath("/home/u/.ssh"), file(f"{WORK.path}/.env")),
        ),
    ),
    "scratch": (WORKSPACE, ExistingPaths((WORK,), scratch="/tmp/pinfold-1000/a")),
    "read-only": (
        READ_ONLY,
        ExistingPaths((WORK, ExistingPath("/tmp/other")), protected=(file(f"{WORK.path}/.git/config"),)),
    ),
    "no-tmp": (
        SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, disable_tmp_write=True),
        ExistingPaths((WORK,)),
    ),
    "worktree": (
        WORKSPACE,
        ExistingPaths(
            (WORK,),
            writable=(ExistingPath("/home/u/main/.git"),),
            protected=(
                file(f"{WORK.path}/.git"),
                file("/home/u/main/.git/HEAD"),
                ExistingPath("/home/u/main/.git/hooks"),
                file("/home/u/main/.git/worktrees/code/gitdir"),
                ExistingPath("/home/u/main/.git/worktrees/other"),
            ),
        ),
    ),
    "no-git": (
        SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, block_git_writes=True),
        ExistingPaths(
            (WORK,), protected=(file(f"{WORK.path}/.git/config"), ExistingPath(f"{WORK.path}/a/.git/hooks"))
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_plans_are_as_they_were(name: str) -> None:
    path = GOLDEN / f"{name}.plan"
    text = f"{plan_pen(*CASES[name])}\n"
    assert text == path.read_text()


def test_a_granted_agent_is_known_by_what_the_environment_says() -> None:
    policy, where = CASES["workspace"]
    granted = replace(where, sockets=(file("/run/a.sock"), file("/run/b.sock")))
    for agents, found in ((("/run/b.sock",), ("/run/b.sock",)), (("/run/c.sock",), ()), ((), ())):
        last = plan_pen(policy, replace(granted, agents=agents)).operations[-1]
        assert isinstance(last, Seccomp) and last.agents == found, last


def test_reads_are_noted_where_that_is_asked_for() -> None:
    policy, where = CASES["workspace"]
    usual, noting = plan_pen(policy, where), plan_pen(policy, where, notes_reads=True)
    assert [each for each in noting.operations if each not in usual.operations] == [NoteReads()]
    assert tuple(each for each in noting.operations if each != NoteReads()) == usual.operations


@pytest.mark.parametrize("type_", [PolicyType.UNSPECIFIED, PolicyType.INSECURE_NONE])
def test_what_describes_no_pen_is_refused(type_: PolicyType) -> None:
    with pytest.raises(ConfinementError):
        plan_pen(SandboxPolicy(type=type_), ExistingPaths((WORK,)))


@pytest.mark.parametrize("root", ["/", "/proc", "/proc/1", "/sys/kernel", "/dev", "/dev/pts"])
def test_roots_that_no_pen_can_have(root: str) -> None:
    with pytest.raises(ConfinementError):
        plan_pen(WORKSPACE, ExistingPaths((ExistingPath(root),)))


def test_shared_memory_may_hold_a_workspace() -> None:
    plan = plan_pen(WORKSPACE, ExistingPaths((ExistingPath("/dev/shm/work"),)))
    assert Point("/dev/shm/work", "directory") in plan.operations


names = st.sampled_from(["a", "b", ".git", "hooks", "config", "tmp", "run", "home"])
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
found = st.lists(paths.map(ExistingPath), max_size=4).map(tuple)
policies = st.builds(
    SandboxPolicy,
    type=st.sampled_from([PolicyType.WORKSPACE_READWRITE, PolicyType.WORKSPACE_READONLY]),
    block_git_writes=st.booleans(),
    disable_tmp_write=st.booleans(),
)
places = st.builds(ExistingPaths, found, found, found, found, found)


def covers(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}/")


@given(policies, places)
def test_what_is_hidden_is_hidden_last(policy: SandboxPolicy, where: ExistingPaths) -> None:
    operations = plan_pen(policy, where).operations
    for hidden in where.hidden:
        place = operations.index(Hide(hidden.path, hidden.kind))
        for later in operations[place:]:
            assert not isinstance(later, Bind | Pin | Protect | Point), later
        (landlock,) = (operation for operation in operations if isinstance(operation, Landlock))
        assert not any("make" in rule.access and covers(rule.path, hidden.path) and rule.path not in OWN
                       for rule in landlock.rules)  # fmt: skip


OWN = ("/tmp", "/var/tmp", "/dev/shm")


@given(policies, places)
def test_what_is_protected_is_under_a_read_only_mount(policy: SandboxPolicy, where: ExistingPaths) -> None:
    operations = plan_pen(policy, where).operations
    writable = {
        operation.path for operation in operations if isinstance(operation, Bind) and operation.writable
    }
    shut = [operation.path for operation in operations if isinstance(operation, Protect)]
    for place in where.protected:
        if any(covers(place.path, top) for top in writable):
            assert any(covers(place.path, top) for top in shut)


@given(policies, places)
def test_read_only_mode_opens_nothing(policy: SandboxPolicy, where: ExistingPaths) -> None:
    operations = plan_pen(policy, where).operations
    if policy.type is PolicyType.WORKSPACE_READONLY:
        assert not any(isinstance(operation, Bind) and operation.writable for operation in operations)


@given(policies, places)
def test_parents_come_before_children_and_covers_are_sealed(
    policy: SandboxPolicy, where: ExistingPaths
) -> None:
    operations = plan_pen(policy, where).operations
    mounted: list[str] = []
    for operation in operations:
        if isinstance(operation, Bind | Pin | Protect):
            assert not [path for path in mounted if path != operation.path and covers(path, operation.path)]
            mounted.append(operation.path)
    binds = [operation.path for operation in operations if isinstance(operation, Bind)]
    assert len(binds) == len(set(binds))
    enter = operations.index(EnterRoot())
    assert all(operations.index(each) < enter for each in operations if isinstance(each, Seal | Bind | Hide))


@given(policies, places)
def test_what_may_only_be_read_is_opened_by_nothing_that_comes_later(
    policy: SandboxPolicy, where: ExistingPaths
) -> None:
    operations = plan_pen(policy, where).operations
    open_ = {each.path for each in operations if isinstance(each, Bind) and each.writable}
    for place in where.readable:
        over = [
            each
            for each in operations
            if isinstance(each, Bind | Pin | Protect) and covers(place.path, each.path)
        ]
        if place.path not in open_ and place not in where.roots and over:
            assert not isinstance(over[-1], Pin), over
            assert isinstance(over[-1], Protect) or not over[-1].writable, over


def test_a_plan_is_plain_data_for_the_keeper() -> None:
    import marshal

    plan = plan_pen(*CASES["workspace"])
    sent = marshal.dumps(encode(Confinement(plan.operations)))
    assert decode(marshal.loads(sent)) == Confinement(plan.operations)


def test_five_thousand_protected_paths_plan_quickly() -> None:
    import time

    where = ExistingPaths(
        (WORK,), protected=tuple(file(f"{WORK.path}/d{n}/.git/config") for n in range(5000))
    )
    began = time.process_time()
    plan = plan_pen(WORKSPACE, where)
    assert sum(isinstance(operation, Protect) for operation in plan.operations) == 5000
    assert time.process_time() - began < 2
    assert isinstance(plan, Plan)


@pytest.mark.parametrize("granted", ["/tmp", "/var", "/var/tmp", "/dev/shm"])
def test_in_what_is_granted_nobody_but_the_warden_makes_names(granted: str) -> None:
    """Though a pen has a directory of its own there otherwise, or in it, where commands make them."""
    plan = plan_pen(WORKSPACE, ExistingPaths((WORK,), writable=(ExistingPath(granted),)))
    (landlock,) = (operation for operation in plan.operations if isinstance(operation, Landlock))
    open_ = [rule.path for rule in landlock.rules if "make" in rule.access]
    assert not [path for path in open_ if f"{path}/".startswith(f"{granted}/")]


def test_what_disables_tmp_disables_one_that_is_granted() -> None:
    policy = SandboxPolicy(type=PolicyType.WORKSPACE_READWRITE, disable_tmp_write=True)
    plan = plan_pen(policy, ExistingPaths((WORK,), writable=(ExistingPath("/tmp"),)))
    assert Bind("/tmp", True) not in plan.operations and plan.temporary is None


@pytest.mark.parametrize("granted", [(), (ExistingPath("/tmp/home"),)])
def test_what_a_private_tmp_has_taken_away_shows_nothing(granted: tuple[ExistingPath, ...]) -> None:
    """The home lies below /tmp. Nothing of it is there to be shown, unless it is granted."""
    hidden = ExistingPath("/tmp/home/.claude")
    shown = ShownPath(hidden.path, f"{hidden.path}/skills", "directory")
    plan = plan_pen(WORKSPACE, ExistingPaths((WORK,), readable=granted, hidden=(hidden,), shown=(shown,)))
    revealed = [each.path for each in plan.operations if isinstance(each, Reveal)]
    assert revealed == ([shown.path] if granted else [])
