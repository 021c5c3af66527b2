"""`pinfold hook AGENT`: answers an agent's hook, from standard input to standard output."""

from argparse import ArgumentParser, Namespace

from pinfold.integrations.hooks import AGENTS
from pinfold.integrations.hooks.start import respond


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "agent", choices=tuple(AGENTS), metavar="AGENT", help="whose hook this is: %(choices)s"
    )


def run(args: Namespace) -> int:
    return respond(args.agent)
