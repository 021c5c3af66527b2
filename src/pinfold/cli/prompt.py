"""`pinfold prompt`: what to tell a model about the fence its commands run in, and about its tools."""

from argparse import ArgumentParser, Namespace

from pinfold.cli.common import add_common, print_json
from pinfold.cli.request_args import add_choices, require_part_of_machine, session_of


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--tools", action="store_true", help="the descriptions of the tools, instead")
    parser.add_argument(
        "--hook", action="store_true", help="for an agent whose own shell a hook puts behind it"
    )
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    from pinfold.policy.prompt_text import AgentInterface, describe_tools, summarize
    from pinfold.workspace.granted_paths import told

    with session_of(args) as session:
        require_part_of_machine(session)
        policy, settings = session.policy, session.settings
        face = AgentInterface.HOOK if args.hook else AgentInterface.SESSION
        text = summarize(told(policy, session.roots), settings, session.roots, face)
    tools = describe_tools(settings)
    if args.json:
        from pinfold.policy.json_format import to_executor

        print_json({"prompt": text, "tools": tools, "sandboxed": bool(text), "policy": to_executor(policy)})
    elif args.tools:
        print("\n\n".join(f"{name}: {told}" for name, told in tools.items()))
    elif text:
        print(text)
    return 0
