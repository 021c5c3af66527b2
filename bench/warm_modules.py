"""Counts the modules in which a function runs as a warm session runs a line: `python -m bench.warm_modules`.

Every process of the session counts: a mapped file, which forks share, has a byte for each module. The spawner
keeps its loop in one call, so what it does there is missing.
"""

import mmap
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

SOURCE = Path(__file__).parent.parent / "src/pinfold"
FILES = sorted(str(path) for path in SOURCE.rglob("*.py"))
LINE = "true > out.txt"


def marking(marks: mmap.mmap) -> Callable[[FrameType, str, object], None]:
    """A profile function that marks the module of each function that starts."""
    numbers = {path: number for number, path in enumerate(FILES)}

    def mark(frame: FrameType, _event: str, _argument: object) -> None:
        number = numbers.get(frame.f_code.co_filename)
        if number is not None:
            marks[number] = 1

    return mark


def start_marking(path: str) -> mmap.mmap:
    """Marks what this thread, and every thread and fork that it starts, runs from now on."""
    with open(path, "r+b") as file:
        marks = mmap.mmap(file.fileno(), len(FILES))
    mark = marking(marks)
    threading.setprofile(mark)
    sys.setprofile(mark)
    return marks


def modules_of_a_warm_run() -> list[str]:
    """The modules that ran, by their paths below the package."""
    # Imported here: the keeper, which marks too, has no dependencies.
    import pinfold
    from pinfold.sandbox.linux.host import spawn_keeper

    here = str(Path(__file__).parent.parent)
    with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory(dir=Path.home()) as work:
        os.truncate(file.name, len(FILES))
        start = f"import sys; sys.path.insert(0, {here!r})\nfrom bench.warm_modules import start_marking\n"
        start += f"start_marking({file.name!r})\n"
        spawn_keeper.PROGRAM = start.replace("{", "{{").replace("}", "}}") + spawn_keeper.PROGRAM
        marks = start_marking(file.name)
        with pinfold.Session([work]) as session:
            for _ in range(3):
                session.run(LINE)
            marks[:] = bytes(len(FILES))
            result = session.run(LINE)
            ran = [path for path, mark in zip(FILES, marks[:], strict=True) if mark]
        sys.setprofile(None)
        threading.setprofile(None)
    if result.exit_code:
        raise SystemExit(result.refusal or result.stderr)
    return [str(Path(path).relative_to(SOURCE)) for path in ran]


if __name__ == "__main__":
    ran = modules_of_a_warm_run()
    print(*ran, f"modules in a warm run: {len(ran)}", sep="\n")
