"""`pinfold mcp`: sandboxed tools for agents that speak MCP, on stdio."""

import gc
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinfold.cli.arguments import add_common, here
from pinfold.cli.judged_arguments import add_choices, overrides_of
from pinfold.model.agent_variables import AgentVariables
from pinfold.model.errors import PinfoldError
from pinfold.session import Session
from pinfold.web import WebApprover

if TYPE_CHECKING:
    from pinfold.approval import Approver


def configure(parser: ArgumentParser) -> None:
    parser.usage = (
        "pinfold mcp [OPTION...] [PROJECT...]\n       pinfold mcp wrap [OPTION...] -- SERVER [ARG...]"
    )
    parser.add_argument(
        "projects",
        nargs="*",
        metavar="PROJECT",
        help="directories to work in; the default is the project around --cwd",
    )
    parser.add_argument(
        "--terminal",
        action="store_true",
        help="if the client cannot ask, ask on this terminal before the page of `pinfold web`",
    )
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    gc.enable()  # this verb runs for long
    try:
        import anyio

        from pinfold.integrations.mcp.server import McpServer
    except ImportError as error:
        install = f"{sys.executable} -I -m pip install 'mcp>=2.3'"
        raise PinfoldError(f"the MCP SDK is not installed ({error}); run: {install}") from None

    def open_session(approvers: "Sequence[Approver]") -> Session:
        return Session(
            [os.path.abspath(project) for project in args.projects],
            settings=args.settings,
            cwd=args.cwd or (None if args.projects else here()),
            overrides=overrides_of(args),
            environ=AgentVariables(os.environ),
            approvers=approvers,
        )

    page = WebApprover(os.environ)
    server = McpServer(open_session, [*_terminal_approvers(args.terminal), page])
    with server.session:
        page.seconds = server.session.settings.approvals.question_timeout
        anyio.run(server.serve)
    return 0


def _terminal_approvers(terminal: bool) -> "list[Approver]":
    if not terminal:
        return []
    from pinfold.approval.terminal import TerminalApprover
    from pinfold.cli.question_view import QuestionView

    return [TerminalApprover(QuestionView())]
