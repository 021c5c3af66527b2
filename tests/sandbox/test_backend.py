"""Every backend keeps the contract."""

import pytest

from tests.sandbox.contract import BACKENDS
from tests.sandbox.people import USERS, house, run_as


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_contract(backend: str, user: str) -> None:
    with house(user) as where:
        run_as(user, backend, where, "tests.sandbox.contract")
