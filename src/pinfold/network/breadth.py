"""How many different names below one wildcard are reached. Knows no clock: the time comes in.

A name that is looked up is a packet, and below `*.example.com` a program chooses its text: whoever answers
for that domain reads it there. So each name that was not seen before takes from a store that fills up slowly.
"""

AT_ONCE = 256
EACH = 2.0
"""Seconds until there is one more."""


class Breadth:
    def __init__(self, at_once: int = AT_ONCE, each: float = EACH) -> None:
        self._at_once, self._each = at_once, each
        self._seen: dict[str, set[str]] = {}
        self._began: dict[str, float] = {}

    def has_room(self, rule: str, name: str, now: float) -> bool:
        """Whether a canonical name that a rule allows may be looked up; it counts from then on."""
        if not rule.startswith("*."):
            return True
        seen = self._seen.setdefault(rule, set())
        began = self._began.setdefault(rule, now)
        if name in seen:
            return True
        if len(seen) >= self._at_once + (now - began) / self._each:
            return False
        seen.add(name)
        return True
