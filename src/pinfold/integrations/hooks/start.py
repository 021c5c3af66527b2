"""Starts a hook's process, or the client of a command: `python -I -S start.py AGENT`, `... --run WORD...` for
an agent's line, `... --pinfold run WORD...` for the command line.

`--packages DIRECTORY` before these names where our packages are, if they lie apart from our own.

The interpreter compiles this file at each start, so it only loads other files, which are compiled already. It
loads them one by one: what `site` brings, and the packages around them, would take as long as the answer.
"""

import posix
import sys
from _frozen_importlib_external import SourceFileLoader  # `importlib` itself would take 1 ms more

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType

PACKAGE = __file__.rpartition("/integrations/")[0]
BLOCKED, FAILED = 2, 125


def load(name: str) -> "ModuleType":
    """A module of ours, without the packages around it."""
    loader = SourceFileLoader(f"pinfold.{name}", f"{PACKAGE}/{name.replace('.', '/')}.py")
    module = type(sys)(loader.name)
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def main(words: list[str]) -> None:
    local, isolated = load("service.local_socket"), load("isolated")
    if words[:1] == ["--packages"]:
        isolated.elsewhere.append(words[1])
        del words[:2]
    if words[:1] == ["--run"]:
        load("service.command_client").main(words[1:], local, isolated)
    if words[:1] == ["--pinfold"]:
        client = load("service.command_client")
        if client.is_of_conversation(words[2:]):
            client.main(words[2:], local, isolated)
        client.command_line(words[2:], local)
        client.run_cold(isolated.own_command(*words[1:], entry=isolated.COLD_ENTRY))
    load("integrations.hooks.hook_process").main(words, local, isolated)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BaseException as error:  # noqa: BLE001  (agents take any other exit code of a hook for a yes)
        code = FAILED if sys.argv[1:2] in (["--run"], ["--pinfold"]) else BLOCKED
        posix.write(
            2, f"pinfold: could not start: {type(error).__name__}: {error}\n".encode("utf-8", "replace")
        )
        posix._exit(code)
