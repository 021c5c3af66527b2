"""`pinfold request`: an agent asks its person for a grant, before a command needs it.

The agent's hook turns the line into a question in the agent's dialog, and the service grants what the person
answers.
So this verb runs only where no hook could ask.
"""

from argparse import ArgumentParser, Namespace

from pinfold.cli.output import report
from pinfold.model.errors import PolicyError
from pinfold.service.wishes import USAGE, add_wish

DENIED = 126


def configure(parser: ArgumentParser) -> None:
    add_wish(parser)


def run(args: Namespace) -> int:
    if not (args.git_writes or args.host or args.write or args.read):
        raise PolicyError("there is nothing to ask for", help=f"give {USAGE}")
    settings = [
        *(f"`{host}` to `network.allow`" for host in args.host),
        *(f"`{path}` to `filesystem.write`" for path in args.write),
        *(f"`{path}` to `filesystem.read`" for path in args.read),
        *(["`filesystem.git_writes = true`"] if args.git_writes else []),
    ]
    report(
        "nothing was granted: no agent's dialog was open to ask in; "
        f"the user may add {', '.join(settings)} to their settings"
    )
    return DENIED
