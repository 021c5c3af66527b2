"""The command line: one module per verb or pair of verbs, of which only the one in use is loaded.

Start-up time is a feature, since agents' hooks start pinfold for each tool call:
- argparse and msgspec are loaded without the modules that only others need (`lazy_imports`).
- The garbage collector is off: a verb ends before collecting would pay.
- `run` and `learn` need a sandbox, so its first process is started before anything else, on another core.
- The user's service, if there is one, does a `run` sooner than this process could.
"""

import gc
import os
import sys

from pinfold.model.errors import PinfoldError, PolicyError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Mapping
    from typing import NoReturn


class Verb:
    def __init__(
        self,
        module: str,
        help: str,
        exits: str = "",
        *,
        configure: str = "configure",
        run: str = "run",
        actions: "Mapping[str, Verb] | None" = None,
    ) -> None:
        self.module = module
        self.help = help
        self.exits = exits
        self.actions = actions or {}
        """Words behind the verb that make another verb of it."""
        self._configure, self._run = configure, run

    def parser(self, name: str) -> "ArgumentParser":
        from importlib import import_module

        from pinfold.cli.arguments import parser_of

        parser = parser_of(name, self.help, self.exits)
        getattr(import_module(f"pinfold.cli.{self.module}"), self._configure)(parser)
        return parser

    def run(self, args: "Namespace") -> int:
        """Preconditions: `parser` was called, which loads the module."""
        return int(getattr(sys.modules[f"pinfold.cli.{self.module}"], self._run)(args))


class EndedBySignal(KeyboardInterrupt):
    """Another signal asks this process to end, as Ctrl-C does."""

    def __init__(self, number: int) -> None:
        self.number = number


STDOUT, STDERR = 1, 2
OK, BAD_INPUT, FAILED, INTERRUPTED = 0, 2, 125, 130
SIGNALLED = 128
"""Added to the number of a signal, as shells do."""
BLOCKED = 2
"""Agents take this exit code of a hook for a no, and any other failure for a yes."""
EXITS = "exit: 0 allow, 10 ask, 11 deny, 2 bad input or settings, 125 pinfold itself failed"
RUN_EXITS = (
    "exit: the command's own, 128 + N for signal N; 124 timed out, 125 pinfold itself failed, 126 denied"
)

VERBS = {
    "run": Verb("run", "decide about a command, ask if needed, and run it in the sandbox", RUN_EXITS),
    "learn": Verb("learn", "run a command, and propose the settings that would allow it", RUN_EXITS),
    "check": Verb("explain", "say whether a command, path, host or tool is allowed", EXITS, run="check"),
    "explain": Verb("explain", "say whether it is allowed, and show every reason", EXITS),
    "doctor": Verb(
        "doctor", "show what this machine can enforce, and how to fix the rest", "exit: 0 all of it, 1 not"
    ),
    "selftest": Verb(
        "selftest",
        "attack the sandbox on this machine, and show which attacks it stopped",
        "exit: 0 it stopped all of them, 1 at least one got through",
    ),
    "status": Verb("status", "show the policy in force, what is enforced, and the running sessions"),
    "prompt": Verb(
        "status",
        "print a description of the sandbox for a model's prompt",
        configure="configure_prompt",
        run="prompt",
    ),
    "settings": Verb("settings", "show, validate or describe the settings"),
    "approvals": Verb("approvals", "list or revoke remembered answers"),
    "journal": Verb("journal", "list what was run, denied and asked, or delete old entries"),
    "request": Verb(
        "sessions",
        "ask the agent's person for a host, a path or git writes",
        "exit: 0 granted, 126 not",
        configure="configure_request",
        run="request",
    ),
    "rules": Verb("rules", "list, add or remove rules about commands"),
    "exclude": Verb(
        "rules",
        "list, add or remove commands that run outside the sandbox",
        configure="configure_exclude",
        run="exclude",
    ),
    "sessions": Verb("sessions", "list the sessions that the service holds, or end one"),
    "serve": Verb("serve", "offer sessions to other programs: JSON-RPC on stdio or a unix socket"),
    "acp": Verb("acp", "start an editor's ACP agent, and run its commands in the sandbox"),
    "mcp": Verb(
        "mcp",
        "offer sandboxed tools to agents: an MCP server on stdio",
        actions={"wrap": Verb("mcp_wrap", "run an MCP server in a sandbox of its own", RUN_EXITS)},
    ),
    "web": Verb("web", "show the questions of all your sessions on a page in your browser"),
    "install": Verb("install", "run an agent's commands in the sandbox, by editing its configuration"),
    "uninstall": Verb(
        "install", "undo `install`, byte for byte", configure="configure_uninstall", run="uninstall"
    ),
    "import": Verb("import_", "copy an agent's own settings and rules into your settings"),
    "completion": Verb("completion", "print a shell completion script for bash, zsh or fish"),
    "hook": Verb(
        "install",
        "answer the hook of an agent",
        "exit: 0 answered, 2 blocked",
        configure="configure_hook",
        run="hook",
    ),
}


def entry(is_asked: bool = False) -> "NoReturn":
    """The program `pinfold`. `is_asked`: the service has been asked to run the command, and has not."""
    gc.disable()
    try:
        if sys.argv[1:2] == ["run"] and not is_asked:
            _ask_service(sys.argv[2:])
        _prepare()
        code = main()
        _flush()
        sys.stderr.flush()
    except KeyboardInterrupt as end:
        code = interrupted_code(end)
    except BrokenPipeError:  # the reader of our output has gone
        code = FAILED
    except OSError as error:
        _complain(f"cannot write the answer: {error.strerror}")
        code = FAILED
    except Exception as error:  # noqa: BLE001  (an exit code of 1 would look like the command's own)
        _complain(f"internal error in pinfold; please report it: {type(error).__name__}: {error}")
        code = FAILED
    if sys.argv[1:2] == ["hook"] and code != OK:
        code = BLOCKED
    if code == INTERRUPTED:
        from pinfold.cli.signals import follow_command

        follow_command()
    # Everything is written and nothing is left running; shutting the interpreter down would cost 10 ms more.
    os._exit(code)


def _ask_service(words: list[str]) -> None:
    """Exits with the command's exit code if the service has run it."""
    from pinfold import isolated
    from pinfold.service import command_client, local_socket

    if command_client.is_of_conversation(words):
        command_client.main(words, local_socket, isolated)
    command_client.command_line(words, local_socket)


def interrupted_code(end: KeyboardInterrupt) -> int:
    """The exit code of a verb that a signal ended."""
    return SIGNALLED + end.number if isinstance(end, EndedBySignal) else INTERRUPTED


def _prepare() -> None:
    if sys.stderr is None:
        _open_error_stream()
    if sys.argv[1:2] in (["run"], ["learn"]):
        from pinfold.session import prepare_sandbox

        prepare_sandbox()
    from pinfold.lazy_imports import load_light

    load_light()


def _open_error_stream() -> None:
    """Opens /dev/null as standard error where that is closed (`2>&-`): no file that is opened later may
    become descriptor 2."""
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
    if action := verb.actions.get(arguments[1]) if len(arguments) > 1 else None:
        return _run(" ".join(arguments[:2]), action, arguments[2:])
    return _run(arguments[0], verb, arguments[1:])


def _run(name: str, verb: Verb, arguments: list[str]) -> int:
    try:
        code = _exit_code(verb, verb.parser(name), arguments)
        _flush()
        return code
    except KeyboardInterrupt as end:
        return interrupted_code(end)


def _exit_code(verb: Verb, parser: "ArgumentParser", arguments: list[str]) -> int:
    # A guess, for the case that the arguments cannot be parsed; those after -- are a command's own.
    as_json = "--json" in arguments[: arguments.index("--") if "--" in arguments else None]
    try:
        args = parser.parse_args(arguments)
        args.arguments = arguments
    except PolicyError as error:
        from pinfold.cli.output import print_error

        return print_error(error, as_json=as_json)
    return exit_code_of(lambda: verb.run(args), as_json=getattr(args, "json", False))


def exit_code_of(do: "Callable[[], int]", *, as_json: bool = False) -> int:
    """What a verb's work returns. If it fails, this prints why."""
    try:
        return do()
    except PolicyError as error:
        from pinfold.cli.output import print_error

        return print_error(error, as_json=as_json)
    except PinfoldError as error:
        return _failed(str(error), as_json)
    except OSError as error:
        if not error.filename:
            raise  # the output could not be written, so no exit code may claim that it was
        return _failed(f"{error.filename}: {error.strerror}", as_json)


def _failed(message: str, as_json: bool) -> int:
    if as_json:
        from pinfold.cli.output import print_error_json

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
        from pinfold.cli.output import report
        from pinfold.model.escape_text import visible

        report(visible(message))  # it may name files
    except OSError:
        return


def _overview() -> str:
    from shutil import get_terminal_size
    from textwrap import fill

    width, indent = get_terminal_size().columns, max(map(len, VERBS)) + 4
    about = "Runs the terminal commands of AI agents in a sandbox that the Linux kernel enforces."
    lines = [
        fill(verb.help, width, initial_indent=f"  {name}".ljust(indent), subsequent_indent=" " * indent)
        for name, verb in VERBS.items()
    ]
    more = "See `pinfold VERB --help` for the options of a verb."
    return "\n".join(["usage: pinfold VERB ...", "", fill(about, width), "", *lines, "", fill(more, width)])


def _unknown(name: str) -> int:
    from difflib import get_close_matches

    from pinfold.cli.output import report
    from pinfold.model.escape_text import visible

    near = get_close_matches(name, VERBS, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else f"; the verbs are: {', '.join(VERBS)}"
    report(f"unknown verb `{visible(name)}`{hint}")
    return BAD_INPUT
