"""How many different names below one wildcard commands may reach. Knows no clock: the caller passes the time.

A name that is looked up is a packet, and below `*.example.com` a program chooses its text: the owner of that
domain reads it there. So each new name uses up a part of a budget that refills slowly. All gates of a user
share one file, so that another session has no other budget.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

AT_ONCE = 256
EACH = 2.0
"""Seconds until the budget grows by one name."""
MOST_SEEN = 4096
"""The newest names that are remembered for each rule; older ones count as new again."""
PATIENCE = 1.0
"""Seconds to wait while another gate has the file locked."""
_TABLES = """
create table if not exists stores (rule text primary key, room real, at real);
create table if not exists names (rule text, name text, primary key (rule, name));
"""


class WildcardBudget:
    def __init__(self, at_once: int = AT_ONCE, each: float = EACH, path: str = ":memory:") -> None:
        self._at_once, self._each, self._path = at_once, each, path
        self._seen: set[tuple[str, str]] = set()
        self._file: sqlite3.Connection | None = None
        self.trouble = ""
        """Why names cannot be counted, and what helps; empty while they can."""

    def has_room(self, rule: str, name: str, now: float) -> bool:
        """Whether a canonical name that a rule allows may be looked up; it counts from then on."""
        if not rule.startswith("*.") or (rule, name) in self._seen:
            return True
        import sqlite3

        try:
            has_room = self._takes(rule, name, now)
        except sqlite3.Error as error:
            self._file = None
            said = f"names cannot be counted in {self._path}: {error}"
            self.trouble = f"{said}; remove that file, or free space on its disk"
            return False
        self.trouble = ""
        if has_room and len(self._seen) < MOST_SEEN:
            self._seen.add((rule, name))
        return has_room

    def _takes(self, rule: str, name: str, now: float) -> bool:
        self._file = file = self._file or self._opened()
        with file:
            file.execute("begin immediate")
            if file.execute("select 1 from names where rule = ? and name = ?", (rule, name)).fetchone():
                return True
            row = file.execute("select room, at from stores where rule = ?", (rule,)).fetchone()
            room, at = row or (float(self._at_once), now)
            room = min(float(self._at_once), room + max(0.0, now - at) / self._each)
            if room < 1:
                return False  # without writing: all connections would wait for the disk
            file.execute("replace into stores values (?, ?, ?)", (rule, room - 1, now))
            file.execute("insert into names values (?, ?)", (rule, name))
            file.execute(
                "delete from names where rule = ?1 and rowid <= (select max(rowid) from names) - ?2",
                (rule, MOST_SEEN),
            )
            return True

    def _opened(self) -> "sqlite3.Connection":
        import sqlite3

        file = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None)
        file.executescript(_TABLES)
        return file
