"""What holds of the page against what runs inside. Probes: `probes/`."""

import pytest

from tests.probe_runner import FOR_EACH_USER, run_at_home
from tests.web.probes.page_from_inside import PENS

pytestmark = FOR_EACH_USER

CLAIM = (
    "page_is_out_of_reach",
    "a_page_that_is_opened_later_is_out_of_reach_too",
    "a_page_whose_file_is_damaged_is_out_of_reach_too",
)


@pytest.mark.parametrize("name", CLAIM)
def test_page_is_out_of_reach(name: str, user: str) -> None:
    run_at_home(user, name, "tests.web.probes.page_from_inside")


@pytest.mark.parametrize("name", [name for name in PENS if name not in CLAIM])
def test_pen(name: str, user: str) -> None:
    run_at_home(user, name, "tests.web.probes.page_from_inside")
