"""Where the paths of a grant lead, and who says so.

INVARIANT: no link that a command may have made decides what a grant opens. A path of the settings that leads
over one is left out; a path that a call asks for is judged, and shown to a person, as the place it leads to.
What is swapped afterwards is no grant any more (`sandbox.linux.places`).
"""

import os
from collections.abc import Iterator

from msgspec.structs import replace

from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import Request, RunCommand
from pinfold.model.symlinks import real_path, walk_path
from pinfold.policy.paths import is_covered


def granted(paths: tuple[str, ...], writable: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where the paths of the settings lead, and which of them a command may lead elsewhere: those do not."""
    lost = tuple(path for path in paths if any(is_covered(link, writable) for link in links_of(path)))
    return tuple(real_path(path) for path in paths if path not in lost), lost


def told(policy: SandboxPolicy, roots: tuple[str, ...]) -> SandboxPolicy:
    """What a model is told of: what is not there is not promised to it."""
    missing = absent(policy, roots)
    there = tuple(path for path in policy.additional_readwrite_paths if path not in missing)
    return replace(policy, additional_readwrite_paths=there)


def absent(policy: SandboxPolicy, roots: tuple[str, ...]) -> tuple[str, ...]:
    """What may be written but is not there: a pen opens what it finds, so commands cannot make it either."""
    paths = policy.additional_readwrite_paths
    return tuple(path for path in paths if not os.path.lexists(path) and not is_covered(path, roots))


def with_places(request: Request) -> Request:
    """The request, with the places that its policy's paths lead to."""
    if not isinstance(request, RunCommand) or request.policy is None:
        return request
    return replace(request, policy=_led(request.policy))


def _led(policy: SandboxPolicy) -> SandboxPolicy:
    def places(paths: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(real_path(path) if path.startswith("/") else path for path in paths)

    return replace(
        policy,
        additional_readwrite_paths=places(policy.additional_readwrite_paths),
        additional_readonly_paths=places(policy.additional_readonly_paths),
    )


def links_of(path: str) -> Iterator[str]:
    """Every link that a path leads over, each where it really lies."""
    return (step.place for step in walk_path(path) if step.is_link)
