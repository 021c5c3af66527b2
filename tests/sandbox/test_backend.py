"""Every backend keeps the contract."""

import pytest

from tests.sandbox.contract import BACKENDS
from tests.sandbox.people import USERS, run_at_home


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_contract(backend: str, user: str) -> None:
    run_at_home(user, backend, "tests.sandbox.contract")
