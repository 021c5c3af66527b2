"""`pinfold uninstall AGENT`: takes our hooks out of an agent's configuration, which is then what it was."""

import os
from argparse import ArgumentParser, Namespace

from pinfold.cli import install


def configure(parser: ArgumentParser) -> None:
    install.configure(parser)


def run(args: Namespace) -> int:
    from pinfold.integrations.install.apply import apply_uninstall
    from pinfold.integrations.install.plan import plan_uninstall

    plan = plan_uninstall(args.agent, os.environ)
    if not args.dry_run:
        apply_uninstall(args.agent, plan, os.environ)
    install.tell(args, plan, "taken out", "has no hooks of ours")
    return 0
