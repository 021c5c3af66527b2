"""Every backend keeps the contract."""

import pytest

from tests.probe_runner import USERS, run_at_home
from tests.sandbox.contract import BACKENDS


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_contract(backend: str, user: str) -> None:
    run_at_home(user, backend, "tests.sandbox.contract")
