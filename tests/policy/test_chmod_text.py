"""Changes of mode in words."""

import stat

import pytest

from pinfold.policy.grants import change_of_mode

FILE, DIRECTORY = stat.S_IFREG, stat.S_IFDIR


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (FILE | 0o644, 0o755, "from 644 to 755: everybody may run it"),
        (FILE | 0o600, 0o666, "from 600 to 666: its group and others may read and write it"),
        (FILE | 0o640, 0o646, "from 640 to 646: others may read and write it"),
        (FILE | 0o755, 0o700, "from 755 to 700: its group and others may no longer read and run it"),
        (FILE | 0o604, 0o640, "from 604 to 640: its group may read it; others may no longer read it"),
        (FILE | 0o600, 0o654, "from 600 to 654: its group may read and run it; others may read it"),
        (FILE | 0o000, 0o700, "from 000 to 700: its owner may read, write and run it"),
        (DIRECTORY | 0o700, 0o711, "from 700 to 711: its group and others may enter it"),
        (DIRECTORY | 0o777, 0o1777, "from 777 to 1777: it becomes sticky"),
        (DIRECTORY | 0o2755, 0o755, "from 2755 to 755: it is no longer setgid"),
        (FILE | 0o644, 0o644, "from 644 to 644: nothing changes"),
    ],
)  # fmt: skip
def test_a_change_of_mode_is_told(old: int, new: int, said: str) -> None:
    assert change_of_mode(old, new) == said
