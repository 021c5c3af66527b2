"""The self-test: attacks the sandbox on the user's own machine and says what held.

`scratch` makes the place that is attacked and tells from outside whether something of it was touched; `run`
lets the attacks (`sandbox.attacks`) loose on it, one by one.
"""

from collections.abc import Iterator, Mapping

from pinfold.diagnose.selftest.run import AttackResult, attack_all
from pinfold.diagnose.selftest.scratch import Scratch
from pinfold.sandbox.attacks.runner import ATTACKS
from pinfold.sandbox.probe import require_platform

__all__ = ["HOW_MANY", "AttackResult", "selftest"]

HOW_MANY = len(ATTACKS)


def selftest(environ: Mapping[str, str]) -> Iterator[AttackResult]:
    """Attacks this machine's sandbox; leaves nothing behind."""
    require_platform()
    from pinfold.sandbox.linux.host.backend import LinuxBackend

    backend = LinuxBackend()
    try:
        with Scratch(environ) as scratch:
            yield from attack_all(backend, scratch)
    finally:
        backend.close()
