"""Links that are swapped, again and again, while files are read and written by their names."""

import os
import threading
from collections import Counter
from pathlib import Path

from pinfold.files import FileTools
from pinfold.model.errors import FileRefused

RACES = ("file", "directory")
MINE, SECRET = "mine\n", "secret\n"


def race(turns: int, what: str, files: FileTools, work: Path, outside: Path) -> Counter[str]:
    """How often what came of it. Preconditions: `outside` holds a file `secret`, not to be reached."""
    inside = work / "inside"
    inside.mkdir()
    (inside / "secret").write_text(MINE)
    name = work / "name"
    targets = (inside, outside) if what == "directory" else (inside / "secret", outside / "secret")
    path = "name/secret" if what == "directory" else "name"
    stop = threading.Event()

    def swap() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            fresh = work / f"new{turn % 2}"
            fresh.symlink_to(targets[turn % 2])
            fresh.rename(name)

    name.symlink_to(targets[0])
    swapper = threading.Thread(target=swap)
    swapper.start()
    got: Counter[str] = Counter()
    try:
        for turn in range(turns):
            try:
                if turn % 2:
                    got[files.read(path).text] += 1
                else:
                    files.write(path, MINE)
                    got["written"] += 1
            except FileRefused as error:
                got[error.rule] += 1
    finally:
        stop.set()
        swapper.join()
    assert MINE in got and SECRET not in got, got
    assert (outside / "secret").read_text() == SECRET
    assert sorted(os.listdir(outside)) == ["secret"]
    return got
