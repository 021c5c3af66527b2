"""`pinfold mcp`: tools for agents that speak MCP, on stdio, all of them behind the fence."""

import gc
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pinfold.cli.arguments import add_common, here
from pinfold.cli.request_args import add_choices, overrides_of
from pinfold.model.errors import PinfoldError
from pinfold.session import Session
from pinfold.web import WebApprover

if TYPE_CHECKING:
    from pinfold.approval import Approver


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("projects", nargs="*", metavar="PROJECT", help="directories to work in; else --cwd's")
    parser.add_argument(
        "--terminal",
        action="store_true",
        help="ask on this terminal where the client cannot ask; otherwise on the page of `pinfold web`",
    )
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    gc.enable()  # unlike other verbs, it stays
    try:
        import anyio

        from pinfold.integrations.mcp.server import McpServer
    except ImportError as error:
        mend = f"{sys.executable} -I -m pip install 'mcp>=2.3'"
        raise PinfoldError(f"the MCP SDK is missing ({error}); run: {mend}") from None

    def opened(approvers: "Sequence[Approver]") -> Session:
        return Session(
            [os.path.abspath(project) for project in args.projects],
            settings=args.settings,
            cwd=args.cwd or (None if args.projects else here()),
            overrides=overrides_of(args),
            approvers=approvers,
        )

    page = WebApprover(os.environ)
    server = McpServer(opened, [*_others(args.terminal), page])
    with server.session:
        page.seconds = server.session.settings.approvals.question_timeout
        anyio.run(server.serve)
    return 0


def _others(terminal: bool) -> "list[Approver]":
    if not terminal:
        return []
    from pinfold.approval.terminal import TerminalApprover
    from pinfold.cli.question_view import QuestionView

    return [TerminalApprover(QuestionView())]
