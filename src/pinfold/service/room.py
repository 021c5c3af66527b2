"""How many sessions a process has room for: each takes some ten descriptors, and the usual limit is 1024."""

import resource

MOST = 65_536
"""More would make programs slow that close every descriptor there could be."""


def make_room() -> None:
    """As many descriptors as this user may have."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if most == resource.RLIM_INFINITY else min(most, MOST)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
