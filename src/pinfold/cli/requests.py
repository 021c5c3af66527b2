"""Arguments that name a request, shared by the verbs that judge one."""

import sys
from argparse import ArgumentParser, Namespace

from pinfold.cli.common import add_common
from pinfold.model.errors import PolicyError
from pinfold.model.request import CallTool, Connect, ReadFile, Request, RunCommand, UseBrowser, WriteFile
from pinfold.session import Session

POLICIES = ("read-only", "workspace-write", "danger-full-access")


def add_request(parser: ArgumentParser) -> None:
    """The request itself, the call's own fields, and the choices of the command line's layer."""
    parser.add_argument(
        "line", nargs="?", metavar="LINE", help="a shell line; - reads it from standard input"
    )
    parser.add_argument("--path", help="judge a file instead of a command")
    parser.add_argument("--write", action="store_true", help="with --path: to write it, not to read it")
    parser.add_argument("--host", metavar="HOST:PORT", help="judge a connection")
    parser.add_argument("--mcp", metavar="SERVER:TOOL", help="judge a call of an MCP tool")
    parser.add_argument("--browser", metavar="ACTION", help="judge the use of a browser")
    parser.add_argument("--policy", choices=POLICIES, help="the policy of this run")
    parser.add_argument("--network", choices=("none", "ask", "rules", "all"), help="the network of this run")
    parser.add_argument(
        "--mode", choices=("ask_every_time", "use_allowlist", "run_everything"), help="the mode of this run"
    )
    parser.add_argument("--sandbox-policy", metavar="JSON", help="a policy the call itself asks for")
    parser.add_argument("--description", default="", help="what the agent says the command is for")
    parser.add_argument("--timeout", type=float, metavar="S", help="seconds the command may take")
    parser.add_argument(
        "--dangerously-disable-sandbox", action="store_true", help="the call asks to run without the fence"
    )
    add_common(parser)


def session_of(args: Namespace) -> Session:
    chosen = {"sandbox": {"policy": args.policy}, "network": {"access": args.network}}
    overrides: dict[str, object] = {
        section: values for section, values in chosen.items() if all(values.values())
    }
    if args.mode:
        overrides["mode"] = args.mode
    return Session(settings=args.settings, cwd=args.cwd, overrides=overrides)


def request_of(args: Namespace) -> Request:
    """The one request that the arguments name."""
    given = [name for name in ("line", "path", "host", "mcp", "browser") if getattr(args, name) is not None]
    if len(given) != 1:
        raise PolicyError("give one of: a shell line, --path, --host, --mcp, --browser", help="see --help")
    if args.path is not None:
        return WriteFile(args.path) if args.write else ReadFile(args.path)
    if args.host is not None:
        return _connect(args.host)
    if args.mcp is not None:
        server, _, tool = args.mcp.rpartition(":")
        return CallTool(server, tool)
    if args.browser is not None:
        return UseBrowser(args.browser)
    return RunCommand(
        sys.stdin.read() if args.line == "-" else args.line,
        description=args.description,
        timeout=args.timeout,
        policy=_sandbox_policy(args.sandbox_policy),
        disable_sandbox=args.dangerously_disable_sandbox,
    )


def _connect(text: str) -> Connect:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or len(port) > 5:
        raise PolicyError(f"`{text}` is not HOST:PORT", help="for example --host api.example.com:443")
    return Connect(host, int(port))


def _sandbox_policy(text: str | None):  # type: ignore[no-untyped-def]
    if text is None:
        return None
    from pinfold.policy.convert import from_json

    return from_json(text)
