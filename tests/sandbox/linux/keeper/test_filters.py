"""The seccomp programs that plans name."""

import sys

import pytest

from pinfold.sandbox.linux.keeper.filters import compile_ahead, compiled, filters_of
from pinfold.sandbox.seccomp import STREAMS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")


def test_what_is_compiled_ahead_is_not_compiled_again() -> None:
    compiled.cache_clear()
    compile_ahead()
    assert set(filters_of((("seccomp", STREAMS, True, (), False),))) == {STREAMS}
    assert compiled.cache_info().misses == 1
