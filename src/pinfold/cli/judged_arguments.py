"""Arguments that name a request, shared by the verbs that decide about one."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from pinfold.cli.arguments import add_common, filled, here, seconds
from pinfold.model.errors import PolicyError
from pinfold.model.policy import POLICY_WORDS, SandboxPolicy
from pinfold.model.request import CallTool, Connect, ReadFile, Request, RunCommand, UseBrowser, WriteFile
from pinfold.session import Session
from pinfold.session.request import as_command

CHOICES = {
    "policy": POLICY_WORDS,
    "network": ("none", "ask", "rules", "all"),
    "mode": ("ask_every_time", "use_allowlist", "run_everything"),
}
"""The options that override a setting, and the choices for each."""
SETTING = {"policy": "`sandbox.policy`", "network": "`network.access`", "mode": "`mode`"}


def add_request(parser: ArgumentParser) -> None:
    """The request itself, the call's own fields, and the choices of the command line's layer."""
    parser.add_argument(
        "line",
        nargs="*",
        metavar="LINE",
        help="a shell line, or - to read one from standard input; after --, a program and its arguments",
    )
    parser.add_argument("--path", type=filled, help="decide about a file instead of a command")
    parser.add_argument(
        "--write", action="store_true", help="with --path: write the file (the default is to read it)"
    )
    parser.add_argument("--delete", action="store_true", help="with --path: delete the file")
    parser.add_argument("--host", metavar="HOST:PORT", type=filled, help="decide about a connection")
    parser.add_argument(
        "--mcp", metavar="SERVER:TOOL", type=filled, help="decide about a call of an MCP tool"
    )
    parser.add_argument("--browser", metavar="ACTION", type=filled, help="decide about the use of a browser")
    parser.set_defaults(prog=parser.prog)
    add_choices(parser)
    add_call(parser)
    add_common(parser)


def add_choices(parser: ArgumentParser) -> None:
    """Adds the options that override settings for one run."""
    for name, choices in CHOICES.items():
        about = f"override {SETTING[name]}: %(choices)s"
        parser.add_argument(f"--{name}", choices=choices, metavar=name.upper(), help=about)


def add_call(parser: ArgumentParser) -> None:
    """Adds the options that describe a single call, as an agent would."""
    parser.add_argument(
        "--sandbox-policy",
        metavar="JSON",
        help="a policy for this command alone, as an agent may request one",
    )
    parser.add_argument(
        "--description", metavar="TEXT", default="", help="what the command is for; shown in questions"
    )
    parser.add_argument("--timeout", type=seconds, metavar="S", help="stop the command after S seconds")
    parser.add_argument(
        "--dangerously-disable-sandbox",
        action="store_true",
        help="request to run outside the sandbox, which is always a question",
    )


def session_of(
    args: Namespace, lists: Mapping[str, Mapping[str, object]] | None = None, **given: Any
) -> Session:
    """Opens the session that the arguments describe; `lists` are more settings to override."""
    overrides = overrides_of(args, lists)
    return Session(settings=args.settings, cwd=args.cwd or here(), overrides=overrides, **given)


def require_part_of_machine(session: Session, request: Request | None = None) -> None:
    """Rejects `/` as a project at once, rather than after a search of the whole machine. Without a request,
    for any command."""
    if "/" in session.roots and (request is None or isinstance(request, RunCommand)):
        from pinfold.session.request import ANY, require_pen_or_way_out

        require_pen_or_way_out(session.roots, session.settings, request or ANY)


def overrides_of(
    args: Namespace, lists: Mapping[str, Mapping[str, object]] | None = None
) -> dict[str, object]:
    """The settings that the arguments override."""
    chosen: dict[str, dict[str, object]] = {
        "sandbox": {"policy": args.policy},
        "network": {"access": args.network},
    }
    for section, values in (lists or {}).items():
        chosen[section] = {**chosen.get(section, {}), **values}
    overrides: dict[str, object] = {"mode": args.mode} if args.mode else {}
    for section, values in chosen.items():
        if chosen_values := {key: value for key, value in values.items() if value}:
            overrides[section] = chosen_values
    return overrides


def request_of(args: Namespace) -> Request:
    """The request that the arguments name."""
    given = [name for name in ("line", "path", "host", "mcp", "browser") if getattr(args, name)]
    if len(given) != 1:
        raise PolicyError(
            "give exactly one of: a shell line, --path, --host, --mcp, --browser",
            help=f"see `{args.prog} --help`",
        )
    if (args.write or args.delete) and not args.path:
        raise PolicyError("--write and --delete need --path", help=f"see `{args.prog} --help`")
    if args.path:
        return WriteFile(args.path, args.delete) if args.write or args.delete else ReadFile(args.path)
    if args.host:
        return _connect(args.host)
    if args.mcp:
        return _tool(args.mcp)
    return UseBrowser(args.browser) if args.browser else _command(args)


def _command(args: Namespace) -> RunCommand:
    words = tuple(args.line)
    line = _standard_input() if words == ("-",) else words[0]
    return request_from(args, line, words if len(words) > 1 else None)


def request_from(args: Namespace, line: str, argv: tuple[str, ...] | None) -> RunCommand:
    """A command with what the call says of itself; of words, the line is the one that is judged."""
    return as_command(
        RunCommand(
            line,
            argv=argv,
            description=args.description,
            timeout=args.timeout,
            policy=_sandbox_policy(args.sandbox_policy),
            disable_sandbox=args.dangerously_disable_sandbox,
        )
    )


def _standard_input() -> str:
    if sys.stdin is None:
        raise PolicyError("standard input is closed", help="give the line as an argument")
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")


def _tool(text: str) -> CallTool:
    server, colon, tool = text.rpartition(":")
    if not (server and colon and tool):
        raise PolicyError(f"`{text}` is not SERVER:TOOL", help="for example --mcp github:search")
    return CallTool(server, tool)


def _connect(text: str) -> Connect:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or not 0 < int(port[:6]) < 65536:
        raise PolicyError(f"`{text}` is not HOST:PORT", help="for example --host api.example.com:443")
    return Connect(host, int(port))


def _sandbox_policy(text: str | None) -> SandboxPolicy | None:
    if text is None:
        return None
    from pinfold.policy.json_format import from_json

    return from_json(text)
