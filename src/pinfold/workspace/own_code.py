"""Where Pinfold's own code lies, and what is done where commands could write it.

What a command writes there runs outside of the sandbox at Pinfold's next start. So it is closed to commands,
or Pinfold refuses the project:

| it lies in a writable root by way of | then |
|---|---|
| Pinfold's own checkout | `src`, `.venv` and what starts it there are read-only as a whole |
| the project's virtual environment or interpreter | refused: closed, `pip install` would fail there |
| a `.pth` file that leads there (`pip install -e .`) | refused, for the same reason |
| anything else (a copy, the home as a project) | the directory with all packages is read-only |
"""

import os
import sys
from functools import cache

import msgspec

from pinfold.isolated import SOURCE
from pinfold.model.errors import ConfinementError, PinfoldError
from pinfold.model.symlinks import real_path
from pinfold.policy.paths import contains, is_covered
from pinfold.shell.shfmt import find_binary

OF_A_CHECKOUT = ("src", ".venv", "pinfold", "pyproject.toml", "hatch.toml", ".venv.lock", ".venv.log")
"""In a checkout: the code, its environment, the script that starts it, what that installs by and writes. The
build runs hooks that `hatch.toml` names."""


@cache
def own_checkout() -> str:
    """The checkout that our package is in; empty if it is in none."""
    top, source = os.path.split(SOURCE)
    is_one = source == "src" and os.path.isfile(os.path.join(top, "pyproject.toml"))
    return top if is_one else ""


@cache
def own_code() -> tuple[str, ...]:
    """What is never a command's to write: our package with those beside it, or all of our checkout's."""
    top = own_checkout()
    code = tuple(os.path.join(top, name) for name in OF_A_CHECKOUT) if top else (SOURCE,)
    # In no environment of its own, what we load lies wherever pip put it.
    apart = (
        ()
        if sys.prefix != sys.base_prefix
        else (os.path.dirname(os.path.dirname(msgspec.__file__)), *_parser())
    )
    return tuple(dict.fromkeys((*code, *apart, *_environments())))


def _parser() -> tuple[str, ...]:
    try:
        return (find_binary(),)
    except PinfoldError:
        return ()


def _environments() -> tuple[str, ...]:
    """The environment that we run in, and the one that its interpreter is from."""
    return tuple(dict.fromkeys((sys.prefix, sys.base_prefix)))


def require_out_of_reach(roots: tuple[str, ...], home: str) -> None:
    """Raises if commands in these projects could write our code, and closing it would hinder the work."""
    own = tuple(map(real_path, own_code()))
    for root in filter(os.path.isabs, roots):
        if is_covered(root, own) and root not in _environments():
            raise ConfinementError(
                f"{root} is Pinfold's own code, which no command may write; {_elsewhere()}"
            )
        if contains(root, home):
            continue  # a home that is the project holds Pinfold, too: all of that is read-only
        if found := next((path for path in _loaded() if contains(root, path)), ""):
            raise ConfinementError(
                f"Pinfold runs from {found}, which commands in {root} could write, so it refuses "
                f"this project; {_elsewhere()}"
            )


@cache
def _loaded() -> tuple[str, ...]:
    """Directories of environments that code is loaded from, but for our checkout."""
    # In a program that is not isolated, its own directory is on the path: what it loads is its own affair.
    path = sys.path if sys.flags.isolated else []
    found = (real_path(each) for each in (*_environments(), *path) if os.path.isabs(each) and each != SOURCE)
    top = own_checkout()
    return tuple(each for each in dict.fromkeys(found) if not (top and contains(real_path(top), each)))


def _elsewhere() -> str:
    """What installs the same Pinfold where no project is."""
    from shlex import quote

    python = getattr(sys, "_base_executable", "") or sys.executable
    if any(
        contains(each, python) for each in (sys.prefix, own_checkout()) if each and each != sys.base_prefix
    ):
        python = "/usr/bin/python3"
    there = "~/.local/share/pinfold"
    return (
        f"install it elsewhere: {quote(python)} -I -m venv {there} && "
        f"{there}/bin/python -I -m pip install {quote(_distribution())} && "
        f"mkdir -p ~/.local/bin && ln -sf {there}/bin/pinfold ~/.local/bin/; "
        "then run that one, and its `install` again for each agent"
    )


def _distribution() -> str:
    """What pip installs us from: where it installed us from before, if that was no index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("pinfold").read_text("direct_url.json")
    except PackageNotFoundError:
        return own_checkout() or "pinfold"
    from msgspec import json

    told = json.decode(text) if text else {}
    url = str(told.get("url", ""))
    vcs = told.get("vcs_info", {}).get("vcs", "")
    return f"{vcs}+{url}" if vcs else url or "pinfold"
