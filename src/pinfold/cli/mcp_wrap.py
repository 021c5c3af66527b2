"""`pinfold mcp wrap -- SERVER ARG...`: runs a stdio MCP server in a sandbox of its own.

The client's bytes reach the server unchanged, and the server's the client. What Pinfold has to say goes to
standard error, which clients keep as the server's log. Questions go to the page of `pinfold web`. Pinfold
never asks on the terminal, which belongs to the client.

Facts about MCP clients:
- A client closes the server's standard input, waits some seconds, sends SIGTERM, and later SIGKILL.
- A client that dies closes both pipes. A server that waits for something else does not notice it.
- Clients that are desktop programs start servers in `/` or in the home directory.
- Clients pass an API key of the server in a variable, which the sandbox would take for a secret.
"""

import gc
import os
import select
import sys
import threading
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from pinfold.cli import SIGNALLED, interrupted_code
from pinfold.cli.arguments import here
from pinfold.cli.judged_arguments import require_part_of_machine, session_of
from pinfold.cli.output import report, short_path
from pinfold.cli.run import (
    DENIED,
    MOST_SHOWN,
    SIGPIPE,
    add_run,
    command_from_args,
    exit_code,
)
from pinfold.cli.signals import end_on_signals
from pinfold.integrations.mcp.server_command import cache_of, own_directory
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.events import Output, Stream
from pinfold.model.home import home_of
from pinfold.model.permission import PermissionNeeded
from pinfold.settings.policy import expand
from pinfold.settings.sources import find_project
from pinfold.web import WebApprover
from pinfold.workspace.granted_paths import has_glob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pinfold.model.request import RunCommand
    from pinfold.session import Session
    from pinfold.session.execution import Execution

GRACE = 5.0
"""Seconds that a server has to exit by itself after its client has gone."""
OUT = {Stream.STDOUT: 1, Stream.STDERR: 2}


def configure(parser: ArgumentParser) -> None:
    add_run(parser, "mcp wrap")
    parser.usage = "pinfold mcp wrap [OPTION...] -- SERVER [ARG...]"
    parser.add_argument(
        "--env",
        metavar="NAME",
        action="append",
        help="a variable to pass to the server although it looks like a secret",
    )


def run(args: Namespace) -> int:
    gc.enable()  # a server runs for long
    if args.json:
        raise PolicyError(
            "--json is not possible: standard output belongs to the server", help="see `pinfold journal list`"
        )
    command = command_from_args(args, "pinfold mcp wrap -- npx some-server")
    end_on_signals()
    page = WebApprover(os.environ, told=_tell_of_page)
    with _session(args, command, [page, Unanswered()]) as session:
        require_part_of_machine(session, command)
        page.seconds = session.settings.approvals.question_timeout
        _tell_missing(session, args.write or ())
        return _serve(session, command)


def _tell_missing(session: "Session", paths: "Sequence[str]") -> None:
    """Warns about `--write` paths that do not exist, which grant nothing."""
    for path in paths:
        place = expand(path, session.roots[0], home_of(os.environ))
        if not has_glob(path) and not os.path.lexists(place):
            report(visible(f"--write has no effect: {place} does not exist; create it first"))


class Unanswered:
    """The last approver: answers nothing, and says on standard error what could not be asked."""

    name = "nobody"

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def __call__(self, question: PermissionNeeded) -> None:
        from pinfold.approval.wording import headline

        wanted = headline(question, short_path)
        with self._lock:
            if wanted in self._told:
                return
            self._told.add(wanted)
        report(visible(f"denied, because no `pinfold web` page is open to ask: {wanted}"))


def _tell_of_page(question: PermissionNeeded) -> None:
    from pinfold.approval.wording import headline

    report(visible(f"answer this on the page of `pinfold web`: {headline(question, short_path)}"))


def _session(args: Namespace, command: "RunCommand", approvers: list[Any]) -> "Session":
    """The server's session. A server that starts in the whole home or machine gets a directory of its own as
    project, or it could write everywhere."""
    words = command.argv or (command.command,)
    projects = args.project or ()
    directory = args.cwd or here()
    too_wide = ("/", os.path.realpath(home_of(os.environ)))
    if not projects and os.path.realpath(find_project(directory)) in too_wide:
        projects = [own_directory(words, os.environ)]
        place, own = short_path(directory), short_path(projects[0])
        report(visible(f"started in {place}: its project is {own}; --project DIR names another"))
    cache, variables = cache_of(words, os.environ)
    lists: dict[str, dict[str, object]] = {
        "filesystem": {"write": [*(args.write or ()), *cache], "hide": args.hide},
        "network": {"allow": args.allow_domain, "publish": args.publish},
        "environment": {"keep": args.env, "set": variables},
    }
    return session_of(args, lists=lists, projects=projects, one_command=True, approvers=approvers)


def _serve(session: "Session", command: "RunCommand") -> int:
    execution = session.start(command, stdin=0 if sys.stdin is not None else None, is_background=True)
    if execution.refusal:
        report(visible(execution.refusal))
        return DENIED
    threading.Thread(target=_follow_client, args=(execution,), name="pinfold-client", daemon=True).start()
    code = _carry(execution)
    for line in execution.left_running:
        report(visible(line))
    for each in execution.violations[:MOST_SHOWN]:
        report(f"{each.summary}; to allow it: {visible(each.remedy)}" if each.remedy else each.summary)
    if len(execution.violations) > MOST_SHOWN:
        report(f"and {len(execution.violations) - MOST_SHOWN} more, which `pinfold journal list` shows")
    return code


def _carry(execution: "Execution") -> int:
    """Copies what the server writes, as it comes; returns the exit code."""
    try:
        for event in execution.events():
            if isinstance(event, Output):
                _write(event)
            else:
                if event.timed_out:
                    report("stopped: its time was up; --timeout SECONDS sets another limit")
                return exit_code(event.exit_code, event.signal, event.timed_out)
    except KeyboardInterrupt as interrupt:
        execution.cancel()
        return interrupted_code(interrupt)
    except BrokenPipeError:  # the client reads no more
        execution.cancel()
    return SIGNALLED + SIGPIPE


def _write(output: Output) -> None:
    rest = memoryview(output.data)
    try:
        while rest:
            rest = rest[os.write(OUT[output.stream], rest) :]
    except BrokenPipeError:
        if output.stream is Stream.STDOUT:  # a client may give up the log and go on
            raise


def _follow_client(execution: "Execution") -> None:
    """Ends the server after its client: once nobody reads its output, it has `GRACE` to exit."""
    poll = select.poll()
    poll.register(1, 0)  # POLLERR: the pipe has no reader; POLLHUP: the socket has no other end
    while not any(events & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, events in poll.poll()):
        pass
    threading.Event().wait(GRACE)
    execution.cancel()
