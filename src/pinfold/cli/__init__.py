"""The command line: a module a verb, and nothing loaded but the verb that was asked for.

Start-up time is a feature: agents' hooks start us for each tool call. What is done for it here:
- argparse and msgspec are loaded without what they bring along for others (`light`).
- Nothing that a verb makes on its way is worth a garbage collection before it ends.
- `run` and `learn` want a fence, which makes itself ready on another core meanwhile: it is started first.
"""

import gc
import os
import sys

from pinfold.model.errors import PinfoldError, PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from types import ModuleType
    from typing import NoReturn


class Verb:
    def __init__(self, module: str, help: str, exits: str = "") -> None:
        self.module = module
        self.help = help
        self.exits = exits


class Ended(KeyboardInterrupt):
    """Like Ctrl-C, by another signal."""

    def __init__(self, number: int) -> None:
        self.number = number


STDOUT, STDERR = 1, 2
OK, BAD_INPUT, FAILED, INTERRUPTED = 0, 2, 125, 130
SIGNALLED = 128
"""Added to the number of a signal, as shells do."""
BLOCKED = 2
"""What agents take for a no; to them any other failure of a hook is a yes."""
EXITS = "exit: 0 allow, 10 ask, 11 deny, 2 bad input or settings, 125 pinfold itself failed"
RUN_EXITS = (
    "exit: the command's own, 128 + N for signal N; 124 timed out, 125 pinfold itself failed, 126 denied"
)

VERBS = {
    "run": Verb("run", "run a command inside the fence, once it is decided that it may", RUN_EXITS),
    "learn": Verb("learn", "run a command, and propose the settings that it would have needed", RUN_EXITS),
    "check": Verb("check", "say whether a command, path, host or tool is allowed", EXITS),
    "explain": Verb("explain", "the same with its reasons, for a person", EXITS),
    "doctor": Verb(
        "doctor", "say what this machine enforces, and what would mend the rest", "exit: 0 all of it, 1 not"
    ),
    "selftest": Verb(
        "selftest",
        "attack the fence on this machine and say what held",
        "exit: 0 all held, 1 something did not",
    ),
    "status": Verb("status", "the policy in force, what is enforced of it, and who runs"),
    "prompt": Verb("prompt", "what to tell a model about the fence its commands run in"),
    "settings": Verb("settings", "show, validate or describe the settings"),
    "approvals": Verb("approvals", "list the answers that are remembered, or take them back"),
    "journal": Verb("journal", "list what was run, refused and asked, or forget what is old"),
    "rules": Verb("rules", "list, add or remove rules about commands"),
    "exclude": Verb("exclude", "list, add or remove commands that run outside of the fence"),
    "serve": Verb("serve", "sessions for other programs: JSON-RPC on stdio or a unix socket"),
    "acp": Verb("acp", "start an editor's agent that speaks ACP, and fence what it does"),
    "mcp": Verb("mcp", "tools for agents, behind the fence: an MCP server on stdio"),
    "web": Verb("web", "a page in your browser for the questions of all your sessions"),
    "install": Verb("install", "put an agent behind the fence: edit its configuration"),
    "uninstall": Verb("uninstall", "undo that, byte for byte"),
    "import": Verb("import_", "take over an agent's own settings and rules"),
    "completion": Verb("completion", "what bash, zsh or fish completes these words by"),
    "hook": Verb("hook", "answer the hook of an agent", "exit: 0 answered, 2 blocked"),
}


def entry() -> "NoReturn":
    """The program `pinfold`."""
    gc.disable()
    try:
        _prepare()
        code = main()
        _flush()
        sys.stderr.flush()
    except KeyboardInterrupt as end:
        code = interrupted(end)
    except BrokenPipeError:  # whoever read us has gone: there is nobody left to tell
        code = FAILED
    except OSError as error:
        _complain(f"cannot write the answer: {error.strerror}")
        code = FAILED
    except Exception as error:  # noqa: BLE001  (an exit code of 1 would look like the command's own)
        _complain(f"a fault of pinfold's own, please report it: {type(error).__name__}: {error}")
        code = FAILED
    if sys.argv[1:2] == ["hook"] and code != OK:
        code = BLOCKED
    if code == INTERRUPTED:
        from pinfold.cli.signals import follow_command

        follow_command()
    # Everything is written and nothing is left running; taking the interpreter apart would cost 10 ms more.
    os._exit(code)


def interrupted(end: KeyboardInterrupt) -> int:
    """The exit code of what was ended from outside."""
    return SIGNALLED + end.number if isinstance(end, Ended) else INTERRUPTED


def _prepare() -> None:
    if sys.stderr is None:
        _open_error_stream()
    if sys.argv[1:2] in (["run"], ["learn"]):
        from pinfold.session import prepare_sandbox

        prepare_sandbox()
    from pinfold.lazy_imports import load_light

    load_light()


def _open_error_stream() -> None:
    """In the place of a standard error that is closed (`2>&-`): who closed it wants to hear nothing, and no
    file that is opened later is to be taken for it."""
    null = os.open(os.devnull, os.O_WRONLY)
    if null != STDERR:
        os.dup2(null, STDERR)
        os.close(null)
    sys.stderr = open(STDERR, "w", encoding="utf-8")  # noqa: SIM115  (it stays as long as we do)


def main(argv: list[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    arguments = sys.argv[1:] if argv is None else argv
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return OK if arguments else BAD_INPUT
    if arguments[0] in ("-V", "--version"):
        from pinfold import __version__

        print(f"pinfold {__version__}")
        return OK
    verb = VERBS.get(arguments[0])
    if verb is None:
        return _unknown(arguments[0])
    return _run(arguments[0], verb, arguments[1:])


def _run(name: str, verb: Verb, arguments: list[str]) -> int:
    from importlib import import_module

    from pinfold.cli.parser import parser_of

    try:
        module = import_module(f"pinfold.cli.{verb.module}")
        parser = parser_of(name, verb.help, verb.exits)
        module.configure(parser)
        code = _told(module, parser, arguments)
        _flush()
        return code
    except KeyboardInterrupt as end:
        return interrupted(end)


def _told(module: "ModuleType", parser: "ArgumentParser", arguments: list[str]) -> int:
    # As far as can be said of arguments that make no sense; those after -- are a command's own.
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        args = parser.parse_args(arguments)
        as_json = getattr(args, "json", False)
        return int(module.run(args))
    except PolicyError as error:
        from pinfold.cli.common import print_error

        return print_error(error, as_json=as_json)
    except PinfoldError as error:
        return _failed(str(error), as_json)
    except OSError as error:
        if not error.filename:
            raise  # the answer could not be written: nobody may take a verdict for granted that was not told
        return _failed(f"{error.filename}: {error.strerror}", as_json)


def _failed(message: str, as_json: bool) -> int:
    if as_json:
        from pinfold.cli.common import print_error_json

        print_error_json(message)
    else:
        _complain(message)
    return FAILED


def _flush() -> None:
    if sys.stdout is None:
        raise OSError(None, "standard output is closed")
    sys.stdout.flush()


def _complain(message: str) -> None:
    try:
        from pinfold.cli.draw import tell
        from pinfold.model.escape_text import visible

        tell(visible(message))  # it may name files
    except OSError:
        return


def _overview() -> str:
    from shutil import get_terminal_size
    from textwrap import fill

    width, indent = get_terminal_size().columns, max(map(len, VERBS)) + 4
    about = "Lets AI agents run terminal commands inside a fence that the kernel holds."
    lines = [
        fill(verb.help, width, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
        for name, verb in VERBS.items()
    ]
    more = "`pinfold VERB --help` says more."
    return "\n".join(["usage: pinfold VERB ...", "", fill(about, width), "", *lines, "", fill(more, width)])


def _unknown(name: str) -> int:
    from difflib import get_close_matches

    from pinfold.cli.draw import tell
    from pinfold.model.escape_text import visible

    near = get_close_matches(name, VERBS, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; there are: {', '.join(VERBS)}"
    tell(f"no verb `{visible(name)}`{hint}")
    return BAD_INPUT
