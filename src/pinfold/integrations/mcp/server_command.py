"""How people start MCP servers: by a launcher that fetches them, by a container, or by their own program.

Facts about launchers: `npx` and `uvx` fetch a package when it is not in their cache, then start its program.
They ask the registry at each start. The rest of a machine runs what is in the usual cache, so a sandboxed
server must not write there.
"""

import os
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from pinfold.model.home import home_of


class Launcher(NamedTuple):
    """A program that fetches a server and starts it."""

    hosts: tuple[str, ...]
    cache: tuple[str, ...]
    """Variables that say where it keeps what it fetched."""


_NPM = Launcher(("registry.npmjs.org",), ("npm_config_cache",))
_UV = Launcher(("pypi.org", "files.pythonhosted.org"), ("UV_CACHE_DIR", "UV_TOOL_DIR"))
LAUNCHERS = {"npx": _NPM, "npm": _NPM, "uvx": _UV, "uv": _UV}
CONTAINERS = ("docker", "podman", "nerdctl", "container")
"""Programs that only ask a service of the machine to start something: that runs in no sandbox of ours."""


def program_of(words: Sequence[str]) -> str:
    return os.path.basename(words[0]) if words else ""


def hosts_of(words: Sequence[str]) -> tuple[str, ...]:
    """The hosts that its launcher fetches from."""
    launcher = LAUNCHERS.get(program_of(words))
    return launcher.hosts if launcher else ()


def cache_of(words: Sequence[str], environ: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """A directory in which its launcher may keep what it fetches, and the variables that lead there.

    Each server has its own, so that none changes what another one starts.
    """
    launcher = LAUNCHERS.get(program_of(words))
    if launcher is None:
        return [], {}
    place = environ.get("XDG_CACHE_HOME") or os.path.join(home_of(environ), ".cache")
    directory = _made(os.path.join(place, "pinfold", "mcp", name_of(words)))
    return [directory], {name: os.path.join(directory, name.lower()) for name in launcher.cache}


def own_directory(words: Sequence[str], environ: Mapping[str, str]) -> str:
    """A directory for a server that has no project."""
    place = environ.get("XDG_DATA_HOME") or os.path.join(home_of(environ), ".local", "share")
    return _made(os.path.join(place, "pinfold-mcp", name_of(words)))  # `pinfold` may be Pinfold's own place


def name_of(words: Sequence[str]) -> str:
    """A file name for a server: the same for other arguments of it."""
    operands = [word for word in words[1:] if not word.startswith("-")]
    told = operands[:2] if program_of(words) in ("npm", "uv") else operands[:1]
    server = (program_of(words), *told)
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(server[-1])).strip("-.")[:40]
    mark = blake2b("\0".join(server).encode(errors="surrogateescape"), digest_size=4).hexdigest()
    return f"{plain or 'server'}-{mark}"


def _made(directory: str) -> str:
    os.makedirs(directory, mode=0o700, exist_ok=True)
    return os.path.realpath(directory)
