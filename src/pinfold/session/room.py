"""How many sessions a process has room for: each takes some ten descriptors, and the usual limit is 1024."""

from pinfold.sandbox.linux.limits import make_room

__all__ = ["make_room"]
