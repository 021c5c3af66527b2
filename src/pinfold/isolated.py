"""How Pinfold starts Python for code of its own, and what reaches a program that it starts outside.

A program outside has the user's rights, so nothing that a command can write may say what it loads.
Facts:
- `-I` (isolated) keeps the working directory and the script's off `sys.path`, and ignores every variable
  `PYTHON*` and the user's site directory. `-S` also ignores site-packages with its `.pth` files.
- A restart once we run is too late: `site` has imported `sitecustomize` by then.
- The loader obeys its variables before any of our code: a relative path in them is relative to any
  directory the agent works in.

INVARIANT: no other module names the interpreter to start it (tests/test_house.py).
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""The directory that our package is in."""
COMMAND = "import sys; sys.path += [each for each in {!r} if each not in sys.path]; {}"
ENTRY = "from pinfold.cli import entry; entry()"
COLD_ENTRY = "from pinfold.cli import entry; entry(is_asked=True)"
"""Where the service has been asked to run the command, and has not."""
LOADED = ("LD_AUDIT", "LD_LIBRARY_PATH", "LD_PRELOAD")
"""What the loader takes libraries from: lists of paths, and for two of them bare names of the system's."""


def isolated_python(*words: str, site: bool = False) -> tuple[str, ...]:
    """The argv of our own Python with these words behind it. `site`: with the packages around it."""
    return (sys.executable, "-I", *(() if site else ("-S",)), *words)


elsewhere: list[str] = []
"""More directories of packages, as the starter of this process named them."""


def package_directories() -> list[str]:
    """The directory that our package is in, and that of the packages that belong to our interpreter.

    Started with `-S`, the interpreter does not know the latter. In a virtual environment it lies beside the
    interpreter, which then is no link that may be followed.
    """
    around = os.path.dirname(os.path.dirname(sys.executable))
    prefix = around if os.path.exists(os.path.join(around, "pyvenv.cfg")) else sys.prefix
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    usual = os.path.join(prefix, "lib", version, "site-packages")
    return list(dict.fromkeys((SOURCE, usual, *elsewhere)))


def packages_apart() -> tuple[str, ...]:
    """The words that name our packages to `integrations/hooks/start.py`, if it could not find them itself."""
    import msgspec

    packages = os.path.dirname(os.path.dirname(msgspec.__file__))
    return () if packages in package_directories() else ("--packages", packages)


def own_command(*words: str, entry: str = ENTRY) -> tuple[str, ...]:
    """The argv of the command `pinfold` with these words, wherever this process found our package."""
    places = package_directories()
    if msgspec := sys.modules.get("msgspec"):
        places.append(os.path.dirname(os.path.dirname(str(msgspec.__file__))))
    return isolated_python("-c", COMMAND.format(list(dict.fromkeys(places)), entry), *words, site=True)


def isolated_environment(environ: "Mapping[str, str]", writable: "Iterable[str]" = ()) -> dict[str, str]:
    """The variables for a program that is started outside: none of Python's, and in lists of places to load
    from none that is relative or lies in a `writable` directory."""
    writable = tuple(writable)
    kept = {name: value for name, value in environ.items() if not name.startswith("PYTHON")}
    for name in LOADED:
        if name in kept:
            entries = kept.pop(name).replace(":", " ").split()
            own = [each for each in entries if _is_bare(name, each) or is_out_of_reach(each, writable)]
            kept |= {name: ":".join(own)} if own else {}
    if "PATH" in kept:
        kept["PATH"] = ":".join(each for each in kept["PATH"].split(":") if is_out_of_reach(each, writable))
    return kept


def program_outside(name: str, environ: "Mapping[str, str]", writable: "Iterable[str]" = ()) -> str:
    """Where a program is that commands cannot have put there, as PATH says; empty if it is nowhere."""
    writable = tuple(writable)
    if "/" in name:
        return name
    for directory in environ.get("PATH", os.defpath).split(":"):
        path = os.path.join(directory, name)
        if not is_out_of_reach(directory, writable) or not is_out_of_reach(path, writable):
            continue
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def shadowed_program(name: str, path: str, writable: "Iterable[str]") -> str:
    """Where PATH finds a program by its name, if commands can write there, or if the place is not known."""
    writable = tuple(writable)
    for directory in path.split(":"):
        found = os.path.join(directory, name)
        if os.path.isfile(found) and os.access(found, os.X_OK):
            return "" if is_out_of_reach(found, writable) else found
        if not os.path.isabs(directory):
            return found  # relative to wherever the line goes
    return ""


def is_out_of_reach(path: str, writable: "Iterable[str]") -> bool:
    """Whether it is a whole path that neither lies nor leads into one of these directories."""
    if not os.path.isabs(path):
        return False
    spellings = (os.path.normpath(path), os.path.realpath(path))
    return not any(f"{each}/".startswith(f"{root.rstrip('/')}/") for each in spellings for root in writable)


def _is_bare(name: str, entry: str) -> bool:
    return "/" not in entry and name != "LD_LIBRARY_PATH"
