"""What a command tried and was refused, as the pen's warden saw it."""

from msgspec import Struct


class Violation(Struct, frozen=True):
    operation: str
    """The system call, such as `openat` or `rename`."""
    path: str
    """Where it led in the pen, every link followed."""
    rule: str
    """The protected name that stood in the way; empty if the place as such is closed."""
    why: str
    program: str
    """What the process called itself."""
    pid: int
    """Outside of the pen."""
    grantable: bool
    """Whether a person may let it through."""
    times: int = 1
    """How often it was tried, at least."""
