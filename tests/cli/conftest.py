"""Persons of both kinds."""

from collections.abc import Iterator

import pytest

from tests.cli.terminal_user import Person, Screen
from tests.probe_runner import USERS, house


@pytest.fixture(params=USERS)
def person(request: pytest.FixtureRequest) -> Iterator[Person]:
    with house(request.param) as where:
        yield Person(request.param, where)


@pytest.fixture(params=USERS)
def screen(request: pytest.FixtureRequest) -> Iterator[Screen]:
    with house(request.param) as where:
        opened = Screen(request.param, where)
        try:
            yield opened
        finally:
            opened.close()
