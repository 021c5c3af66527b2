"""`pinfold install [AGENT]`, `uninstall AGENT` and `hook AGENT`.

`install` alone lists the agents of this machine; with an agent it adds pinfold's hooks to that agent's
configuration. `uninstall` removes them byte for byte. `hook` answers one of them, from standard input to
standard output.
"""

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from pinfold.integrations.hooks import AGENTS, SPELLINGS

if TYPE_CHECKING:
    from pinfold.integrations.install.plan import InstallPlan


def configure(parser: ArgumentParser) -> None:
    _add_agent(parser, nargs="?")
    parser.add_argument(
        "--wrap-mcp",
        metavar="NAME",
        action="append",
        default=[],
        help="run this MCP server of the agent's in a sandbox; `all` for every one",
    )


def configure_uninstall(parser: ArgumentParser) -> None:
    _add_agent(parser)


def _add_agent(parser: ArgumentParser, nargs: str | None = None) -> None:
    about = "the agent to configure: %(choices)s" + ("; without one, list those found here" if nargs else "")
    parser.add_argument(
        "agent", choices=tuple(AGENTS), type=agent_name, metavar="AGENT", nargs=nargs, help=about
    )
    parser.add_argument(
        "--managed", action="store_true", help="for all users of this machine, as its administrator"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes without making them")
    parser.add_argument("--json", action="store_true", help="answer as JSON")


def agent_name(word: str) -> str:
    """Our name of an agent, for each that people call it by."""
    name = word.lower()
    return SPELLINGS.get(name, name)


def configure_hook(parser: ArgumentParser) -> None:
    parser.add_argument(
        "agent", choices=tuple(AGENTS), metavar="AGENT", help="the agent that calls: %(choices)s"
    )


def run(args: Namespace) -> int:
    from pinfold.integrations.install.plan import apply_install, name_of, plan_install, plan_managed_install
    from pinfold.model.errors import PinfoldError

    if args.agent is None:
        if args.managed or args.wrap_mcp or args.dry_run:
            raise PinfoldError(
                "name the agent: pinfold install AGENT; `pinfold install` lists those found here"
            )
        _list_agents(is_json=args.json)
        return 0
    if args.managed and args.wrap_mcp:
        raise PinfoldError("--wrap-mcp is for your own servers, and --managed for all users: give one")
    managed = args.managed
    plan = (
        plan_managed_install(args.agent, os.environ)
        if managed
        else plan_install(args.agent, os.environ, args.wrap_mcp)
    )
    if not args.dry_run:
        _require_root(args, plan, "install")
        if args.managed:
            _require_reach(args.agent)
        apply_install(name_of(args.agent, args.managed), plan, os.environ)
    _print_changes(args, plan, "installed", "is installed already")
    return 0


def _list_agents(*, is_json: bool) -> None:
    from pinfold.cli.output import print_json, short_path
    from pinfold.integrations.install.health import found_agents
    from pinfold.model.escape_text import visible

    found = found_agents(os.environ, os.getcwd())
    absent = [agent for agent in AGENTS if agent not in {each.agent for each in found}]
    if is_json:
        print_json({"found": [each._asdict() for each in found], "notFound": absent})
        return
    for each in found:
        print(f"{each.agent}: {'installed' if each.is_installed else 'not installed'}")
        print(f"  found   {visible(', '.join(map(short_path, each.found)))}")
        print(f"  hooks   {visible(short_path(each.file))}")
        print(f"  type    {' or '.join(each.commands)} there to see or change the sandbox")
        for note in each.notes:
            print(f"  note    {visible(note)}")
        if each.trouble:
            print(f"  problem {visible(each.trouble)}")
        elif not each.is_installed:
            print(f"  to do   pinfold install {each.agent}")
    if not found:
        print("no agent that pinfold knows was found here")
    print(f"not found: {', '.join(absent) or 'none'}")


def uninstall(args: Namespace) -> int:
    from pinfold.integrations.install.plan import apply_uninstall, name_of, plan_uninstall

    plan = plan_uninstall(args.agent, os.environ, managed=args.managed)
    if not args.dry_run:
        _require_root(args, plan, "uninstall")
        apply_uninstall(name_of(args.agent, args.managed), plan, os.environ)
    _print_changes(args, plan, "uninstalled", "has no pinfold hooks")
    return 0


def _require_root(args: Namespace, plan: "InstallPlan", verb: str) -> None:
    from pinfold.model.errors import PinfoldError

    if args.managed and plan.changes and os.geteuid():
        raise PinfoldError(
            f"only root may write {plan.changes[0].path}; run `sudo pinfold {verb} --managed {args.agent}`"
        )


def _require_reach(agent: str) -> None:
    from pinfold.integrations.install.agents import out_of_reach
    from pinfold.model.errors import PinfoldError

    if path := out_of_reach(agent):
        raise PinfoldError(
            f"other users cannot reach {path}, so each of their calls would be denied; "
            "install pinfold where everybody can read it, such as /opt/pinfold"
        )


def hook(args: Namespace) -> int:
    from pinfold.integrations.hooks.hook_process import respond

    return respond(args.agent)


def _print_changes(args: Namespace, plan: "InstallPlan", done: str, nothing: str) -> None:
    """Prints what was changed, or would be."""
    from pinfold.cli.output import print_json, short_path
    from pinfold.model.escape_text import visible

    if args.json:
        files = [
            {"path": each.path, "diff": diff(each.before, each.after, each.path)} for each in plan.changes
        ]
        servers = [
            {
                "name": each.name,
                "command": each.words,
                "wrapped": each.options is not None,
                "obstacle": each.obstacle or None,
            }
            for each in plan.servers
        ]
        print_json({"changed": files, "dryRun": args.dry_run, "notes": plan.notes, "mcpServers": servers})
        return
    for each in plan.changes:
        if args.dry_run:
            print(diff(each.before, each.after, short_path(each.path)), end="")
        else:
            print(f"{'removed' if each.after is None else 'changed'} {visible(short_path(each.path))}")
    if not plan.changes:
        print(f"{args.agent} {nothing}")
    elif not args.dry_run:
        print(f"{done}: restart {args.agent}")
    for note in plan.notes:
        print(f"note: {visible(note)}")
    _offer_wraps(args.agent, plan)


def _offer_wraps(agent: str, plan: "InstallPlan") -> None:
    """Says which MCP servers run in a sandbox, and how to wrap the others."""
    from pinfold.model.escape_text import visible

    wrapped = sorted({visible(each.name) for each in plan.servers if each.options is not None})
    free = sorted({visible(each.name) for each in plan.servers if each.options is None and not each.obstacle})
    if wrapped:
        print(
            f"MCP servers in a sandbox: {', '.join(wrapped)}; add options such as --write DIR,"
            " --allow-domain HOST or --policy read-only before the `--` of each"
        )
    if free:
        print(f"MCP servers without a sandbox: {', '.join(free)}")
        print(f"to wrap them: pinfold install {agent} --wrap-mcp all (or a name)")


def diff(before: str | None, after: str | None, path: str) -> str:
    """A unified diff of a file; None where there is no file."""
    from difflib import unified_diff

    old, new = (before or "").splitlines(keepends=True), (after or "").splitlines(keepends=True)
    lines = unified_diff(
        old,
        new,
        "/dev/null" if before is None else path,
        "/dev/null" if after is None else path,
    )
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)
