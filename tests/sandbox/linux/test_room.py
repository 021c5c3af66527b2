"""What a pen's programs have less of than those who hold the fence."""

import resource
from collections.abc import Callable

import pytest

from pinfold.sandbox.linux.room import MOST, leave_room, leave_room_to_host, make_room, raised
from tests.kernel.child import in_child

COUNTED = (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MEMLOCK)
PEN = [(kind, leave_room) for kind in (resource.RLIMIT_NOFILE, *COUNTED)]
SESSIONS = [(kind, leave_room_to_host) for kind in (resource.RLIMIT_NPROC, *COUNTED)]


@pytest.mark.parametrize(("kind", "leave"), [*PEN, *SESSIONS])
@pytest.mark.parametrize("soft", [400, 1000])
def test_a_quarter_is_left_for_others(kind: int, leave: Callable[[], None], soft: int) -> None:
    def action() -> tuple[int, int]:
        resource.setrlimit(kind, (soft, 1000))
        leave()
        return resource.getrlimit(kind)

    assert in_child(action) == (min(soft, 750), 750)


def test_who_holds_the_fence_has_all_it_may_and_for_a_moment_only() -> None:
    def action() -> list[tuple[int, int]]:
        found = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, 1000))
        with raised():
            found.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        found.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        make_room()
        return [*found, resource.getrlimit(resource.RLIMIT_NOFILE)]

    assert MOST > 1000
    assert in_child(action) == [(1000, 1000), (400, 1000), (1000, 1000)]
