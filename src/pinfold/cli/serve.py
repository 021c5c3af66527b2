"""`pinfold serve`: offers sessions to other programs, by JSON-RPC on stdio or a unix socket."""

import gc
import os
import signal
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, NoReturn

from pinfold.cli.arguments import add_common, filled, here
from pinfold.cli.judged_arguments import add_choices, overrides_of
from pinfold.model.errors import PinfoldError
from pinfold.web import WebApprover

if TYPE_CHECKING:
    from pinfold.service.methods import Service


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--socket", metavar="PATH", type=filled, help="listen on this unix socket instead of talking on stdio"
    )
    parser.add_argument(
        "--agents",
        action="store_true",
        help="answer the hooks of agents and run their commands; hooks start this when they need it",
    )
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    gc.enable()  # this verb runs for long
    if args.agents:
        from pinfold.cli.serve_agents import serve_agents
        from pinfold.service.agent_process import limits_of
        from pinfold.session.open_parts import make_room

        limits = limits_of(os.getpid())
        make_room()
        return serve_agents(limits)
    from pinfold.service.methods import Service
    from pinfold.session.open_parts import make_room

    make_room()
    overrides = overrides_of(args)
    supported, page = _prepare(args, overrides)
    service = Service(
        settings=args.settings,
        cwd=args.cwd or here(),
        overrides=overrides,
        environ=os.environ,
        sandbox_supported=supported,
        others=[page],
    )
    return _on_socket(args.socket, service) if args.socket else _on_stdio(service)


def _prepare(args: Namespace, overrides: dict[str, object]) -> "tuple[bool, WebApprover]":
    """Whether this machine can enforce the sandbox, and the page that is asked where a client asks no
    person."""
    # Now, while there is one thread: this forks processes that try what the machine can do.
    from pinfold.diagnose.doctor import enforcement_of
    from pinfold.session import Session

    with Session(settings=args.settings, cwd=args.cwd or here(), overrides=overrides) as session:
        if args.socket:
            from pinfold.service.socket_trust import require_out_of_reach

            writable = (*session.roots, *session.policy.additional_readwrite_paths)
            require_out_of_reach(os.path.abspath(args.socket), writable, os.environ)
        page = WebApprover(os.environ, session.settings.approvals.question_timeout)
        try:
            return enforcement_of(session).level != "none", page
        except PinfoldError:
            return False, page


def _on_stdio(service: "Service") -> int:
    from pinfold.service.connection import Connection
    from pinfold.service.lines import LineStream

    # No child process, and nothing printed by accident, may write to the client's stream.
    incoming, outgoing = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    signal.signal(signal.SIGTERM, _leave)
    Connection(LineStream(incoming, outgoing), service).serve()
    return 0


def _on_socket(path: str, service: "Service") -> int:
    from msgspec import json

    from pinfold.model.escape_text import visible_json
    from pinfold.service.listener import ServiceListener

    listener = ServiceListener(path, service, os.environ)
    signal.signal(signal.SIGTERM, _leave)
    try:
        # One line, like all the service writes, for the program that started it.
        line = json.encode({"socket": listener.path, "tokenFile": listener.token_file})
        print(visible_json(line.decode()), flush=True)
        listener.serve()
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()
    return 0


def _leave(*_: object) -> NoReturn:
    raise KeyboardInterrupt
