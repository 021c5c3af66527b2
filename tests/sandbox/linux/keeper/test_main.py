"""The seccomp programs that plans name."""

import sys

import pytest

from pinfold.sandbox.linux.keeper.main import compile_ahead, compiled, filters_of
from pinfold.sandbox.linux.protocol.operations import Seccomp
from pinfold.sandbox.seccomp import STREAMS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")


def test_what_is_compiled_ahead_is_not_compiled_again() -> None:
    compiled.cache_clear()
    compile_ahead()
    assert set(filters_of((Seccomp(STREAMS, watched=True),))) == {STREAMS}
    assert compiled.cache_info().misses == 1
