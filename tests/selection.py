"""Which test modules build sandboxes: `make quick` leaves them out.

A module does if its text has a session, a fork, a terminal, another Python or Pinfold's system calls. The
helpers that it imports count, and a `conftest.py` above it. Other programs, such as git, are quick to run.
"""

import functools
import re
from pathlib import Path

TOP = Path(__file__).parent.parent
BUILDS = re.compile(
    r"\b(pinfold\.(?:Session|AsyncSession|Client)|from pinfold import .*\b(?:Session|AsyncSession|Client)"
    r"|pinfold\.kernel|os\.fork|sys\.executable|asyncio\.create_subprocess|import pty)\b"
)
IMPORTS = re.compile(r"^\s*(?:from|import) ((?:tests|bench)\b[\w.]*)(?: import (.*))?", re.MULTILINE)


@functools.cache
def builds_sandboxes(module: Path) -> bool:
    """Whether a test of this module may build a sandbox, fork, or start a Python program."""
    above = [folder / "conftest.py" for folder in module.parents if (TOP / "tests") in folder.parents]
    waiting, seen = [module, *above], set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        text, found = read(path)
        if text:
            return True
        waiting += found
    return False


@functools.cache
def read(path: Path) -> tuple[bool, tuple[Path, ...]]:
    """Whether the file itself builds sandboxes, and the helpers that it imports."""
    text = path.read_text()
    named = [
        name
        for package, members in IMPORTS.findall(text)
        for name in (package, *(f"{package}.{each}" for each in re.findall(r"\w+", members)))
    ]
    return bool(BUILDS.search(text)), tuple(TOP / f"{name.replace('.', '/')}.py" for name in named)
