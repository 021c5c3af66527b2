"""Whose groups are left over."""

import os

from tests.kernel.child import in_child

from pinfold.kernel.process import set_name
from pinfold.sandbox.linux.keeper.cgroups import KEEPER, _is_keeper


def test_a_keeper_is_known_by_its_name_whatever_others_are_called() -> None:
    def action(name: str) -> bool:
        set_name(name)
        return _is_keeper(str(os.getpid()))

    assert in_child(lambda: action(KEEPER)) is True
    assert in_child(lambda: action(8 * "\u00e9")) is False  # which is cut within a character
