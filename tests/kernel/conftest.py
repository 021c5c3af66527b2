"""What this machine can do, asked once."""

import pytest

from pinfold.kernel.probe import probe
from pinfold.model.machine import Machine
from tests.kernel.child import in_child


@pytest.fixture(scope="session")
def machine() -> Machine:
    return in_child(probe)
