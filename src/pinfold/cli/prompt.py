"""`pinfold prompt`: what to tell a model about the fence its commands run in."""

from argparse import ArgumentParser, Namespace

from pinfold.cli.common import add_common, print_json
from pinfold.cli.requests import add_choices, session_of


def configure(parser: ArgumentParser) -> None:
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    from pinfold.policy.summary import summarize

    with session_of(args) as session:
        policy = session.policy
        text = summarize(policy, session.settings, session.roots)
    if args.json:
        from pinfold.policy.convert import to_executor

        print_json({"prompt": text, "sandboxed": bool(text), "policy": to_executor(policy)})
    elif text:
        print(text)
    return 0
