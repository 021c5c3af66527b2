"""Which resources a pen's programs get less of than Pinfold's own processes."""

import os
import resource
import threading
from collections.abc import Callable

import pytest

from pinfold.kernel.process import set_name
from pinfold.sandbox.linux.limits import (
    MOST,
    full_limit,
    limit_commands,
    limit_user_namespaces,
    process_count,
    raise_descriptor_limit,
)
from tests.kernel.child import NOBODY, in_child

COUNTED = (resource.RLIMIT_SIGPENDING, resource.RLIMIT_MEMLOCK)
PEN = [(kind, limit_commands) for kind in (resource.RLIMIT_NOFILE, *COUNTED)]
SESSIONS = [(kind, limit_user_namespaces) for kind in (resource.RLIMIT_NPROC, *COUNTED)]


@pytest.mark.parametrize(("kind", "leave"), [*PEN, *SESSIONS])
@pytest.mark.parametrize("soft", [400, 1000])
def test_a_quarter_is_left_for_others(kind: int, leave: Callable[[], None], soft: int) -> None:
    def action() -> tuple[int, int]:
        resource.setrlimit(kind, (soft, 1000))
        leave()
        return resource.getrlimit(kind)

    assert in_child(action) == (min(soft, 750), 750)


def test_the_wardens_limit_is_raised_for_a_moment_only() -> None:
    def action() -> list[tuple[int, int]]:
        found = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (400, 1000))
        with full_limit():
            found.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        found.append(resource.getrlimit(resource.RLIMIT_NOFILE))
        raise_descriptor_limit()
        return [*found, resource.getrlimit(resource.RLIMIT_NOFILE)]

    assert MOST > 1000
    assert in_child(action) == [(1000, 1000), (400, 1000), (1000, 1000)]


@pytest.mark.parametrize("uid", [0, NOBODY])
def test_processes_are_counted_where_a_limit_applies(uid: int) -> None:
    def action() -> tuple[tuple[int, int] | None, int]:
        resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000))
        set_name("\rx" + 8 * "\u00e9")  # which is cut within a character
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        found = process_count()
        return found, len(os.listdir("/proc/self/task"))

    found, own = in_child(action, uid)
    if uid == 0:
        assert found is None
    else:
        assert found is not None and found[0] >= own == 2 and found[1] == 750
