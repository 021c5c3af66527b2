"""Homes are absolute, whatever variables say."""

import os
import pwd

import pytest

from pinfold.model.home import NOWHERE, home_of


@pytest.mark.parametrize("told", [{}, {"HOME": ""}, {"HOME": "rel"}, {"HOME": "~"}])
def test_a_home_is_absolute(told: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert home_of({"HOME": "/home/you"}) == "/home/you"
    assert home_of(told) == "/home/me"
    for own in ("", "rel"):
        monkeypatch.setenv("HOME", own)
        assert home_of(told) == pwd.getpwuid(os.getuid()).pw_dir


def test_who_has_no_account_has_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert home_of({}) == NOWHERE
