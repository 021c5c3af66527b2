"""What a command line says about sessions of the user's service.

`pinfold sessions` lists them, or ends one. `pinfold run --session` runs a command in one. `pinfold request`
asks an agent's person for a grant in its conversation: the agent's hook turns the line into a question in
the agent's dialog, and the service grants what the person answers. So that verb runs only where no hook could
ask.
"""

import os
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Sequence
from time import monotonic, sleep
from typing import TYPE_CHECKING

from msgspec import json

from pinfold.cli import OK
from pinfold.cli.arguments import filled
from pinfold.cli.output import print_json, print_sentence, print_table, report, short_path
from pinfold.model.errors import PinfoldError, PolicyError
from pinfold.model.escape_text import visible
from pinfold.service import command_client
from pinfold.service import local_socket as local

if TYPE_CHECKING:
    from pinfold.service.conversations import KnownSession

DENIED = 126
PATIENCE = 60.0
"""Seconds that a service may take to start."""
ABSENT = 1
"""Exit code of `end` without a session of that name."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    verbs = parser.add_subparsers(dest="action", metavar="list|end")
    listing = verbs.add_parser("list", help="show the sessions, also without this word", allow_abbrev=False)
    ending = verbs.add_parser("end", help="end a session, with all that runs in it", allow_abbrev=False)
    ending.add_argument("name", metavar="NAME", type=filled, help="a name or an id that `list` shows")
    for verb in (listing, ending):
        # No default: that would undo what comes before the action.
        verb.add_argument("--json", action="store_true", default=SUPPRESS, help="answer as JSON")


def run(args: Namespace) -> int:
    known = _known()
    if args.action == "end":
        return _end(args, known)
    if args.json:
        print_json(known)
    elif known:
        print_table([("NAME", "SESSION", "STATE", "PROJECTS"), *map(_row, known)])
    else:
        print_sentence("there are no sessions; `pinfold run --session NAME` makes one")
    return OK


def _end(args: Namespace, known: "Sequence[KnownSession]") -> int:
    is_there = any(args.name in (each.name, each.session) for each in known)
    if is_there and _ask("end", args.name) is None:
        from pinfold.service.conversations import forget

        forget(args.name, os.environ)
    if args.json:
        print_json({"ended": is_there})
    elif not is_there:
        print_sentence(f"there is no session `{visible(args.name)}`; see `pinfold sessions`")
    return OK if is_there else ABSENT


def _row(each: "KnownSession") -> tuple[str, ...]:
    name = each.name or f"{each.agent}: {each.conversation}"
    running = f"{each.commands} running" if each.commands else "idle"
    projects = ", ".join(map(short_path, each.projects)) or "-"
    return visible(name), each.session, running if each.is_held else "resumable", visible(projects)


def _known() -> "list[KnownSession]":
    """As the service has it; without one, what it would resume."""
    from pinfold.service.conversations import KnownSession, resumable

    answer = _ask()
    return resumable(os.environ) if answer is None else json.decode(answer, type=list[KnownSession])


def _ask(*words: str) -> bytes | None:
    """What the service knows; None if there is none."""
    try:
        if not local.is_wanted(os.environ):
            return None
        connection = local.connect(local.socket_path(os.environ))
        if connection is None:
            return None
        local.send(connection, "sessions", words, os.environ)
        code, answer, _ = local.receive_reply(connection)
        return None if code == local.NOT_HERE else answer
    except (OSError, ValueError):
        return None


# `pinfold request`


def configure_request(parser: ArgumentParser) -> None:
    from pinfold.service.grant_requests import add_request_arguments

    add_request_arguments(parser)


def request(args: Namespace) -> int:
    from pinfold.service.grant_requests import USAGE

    if not (args.git_writes or args.host or args.write or args.read):
        raise PolicyError("there is nothing to ask for", help=f"give {USAGE}")
    settings = [
        *(f"`{host}` to `network.allow`" for host in args.host),
        *(f"`{path}` to `filesystem.write`" for path in args.write),
        *(f"`{path}` to `filesystem.read`" for path in args.read),
        *(["`filesystem.git_writes = true`"] if args.git_writes else []),
    ]
    report(
        "nothing was granted: no agent's dialog was open to ask in, nor was the page of `pinfold web`; "
        f"the user may add {', '.join(settings)} to their settings"
    )
    return DENIED


# `pinfold run --session`


def run_in_service(args: Namespace) -> int:
    """Runs the command in the session, and exits as it does. Starts a service if there is none."""
    if args.json or args.asked_by is not None:
        raise PolicyError("--session goes with neither --json nor --asked-by")
    if not local.is_wanted(os.environ):
        raise PinfoldError(
            "a named session needs Pinfold's service, which cannot run here: "
            f"{local.SWITCH} is 0, HOME or XDG_STATE_HOME is unusual, or this is a sandbox"
        )
    reply, end, is_started = None, monotonic() + PATIENCE, False
    while reply is None and monotonic() < end:
        reply = command_client.command_line(args.arguments, local)
        if reply is None:
            if not is_started:
                is_started = True
                start_service()
            sleep(0.02)
    if reply is None:
        raise PinfoldError("the service did not start; see what `pinfold serve --agents` says")
    raise PinfoldError(f"the session cannot be used from here: {reply[2].decode()}")


def leave_service() -> None:
    """Starts a service for the commands to come, if there is none."""
    try:
        if not local.is_wanted(os.environ) or local.connect(local.socket_path(os.environ)) is not None:
            return
    except OSError:
        start_service()


def start_service() -> None:
    from pinfold.integrations.hooks.hook_process import start_service

    start_service()
