"""Ways out of the fence that were found: closed, as root and as an ordinary user. `fence_probes` says it."""

import sys

import pytest
from tests.escape.fence_probes import PROBES
from tests.sandbox.people import USERS, house, run_as

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")


OPEN = {
    "what_is_moved_about_during_a_survey_stays_hidden": "a walk has no one moment: what is moved from where "
    "it is going to look to where it has looked is not seen, and the pen that is built then shows it",
    "the_code_that_holds_the_fence_is_not_the_agents_to_write": "pinfold in the workspace itself, as in a "
    "project's own .venv, can be changed by commands and is run by the host",
}
"""Not closed yet, and why."""


def marked(probe: str) -> object:
    marks = [pytest.mark.xfail(strict=True, reason=OPEN[probe])] if probe in OPEN else []
    return pytest.param(probe, marks=marks)


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("probe", [marked(probe) for probe in PROBES])
def test_fence(probe: str, user: str) -> None:
    with house(user) as where:
        run_as(user, probe, where, "tests.escape.fence_probes")
