"""`pinfold status` and `pinfold prompt`: the policy in force, for a person and for a model.

`status` shows where the policy is written, what the machine enforces of it, and the running sessions.
"""

from argparse import ArgumentParser, Namespace
from time import localtime, strftime
from typing import TYPE_CHECKING

from pinfold.cli.arguments import add_common
from pinfold.cli.judged_arguments import add_choices, require_part_of_machine, session_of
from pinfold.cli.output import print_json, print_table, short_path
from pinfold.cli.settings import fitted, rows_as_json, rows_of
from pinfold.model.escape_text import visible
from pinfold.model.policy import Level
from pinfold.model.settings import NetworkAccess

if TYPE_CHECKING:
    from pinfold.diagnose.doctor import Enforcement
    from pinfold.session import Session
    from pinfold.state.sessions import LiveSession

SHOWN = ("mode", "sandbox", "filesystem", "network", "environment", "limits")
"""Sections that make up the policy; `pinfold settings show` prints the others."""

HOSTS = {
    NetworkAccess.ASK: " except hosts that you allow when asked",
    NetworkAccess.RULES: " except hosts in `network.allow`",
}


def configure(parser: ArgumentParser) -> None:
    add_choices(parser)
    add_common(parser)


def configure_prompt(parser: ArgumentParser) -> None:
    parser.add_argument("--tools", action="store_true", help="print the descriptions of the tools instead")
    parser.add_argument(
        "--hook", action="store_true", help="for an agent whose commands a hook runs in the sandbox"
    )
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    from pinfold.diagnose.doctor import enforcement_of
    from pinfold.state.sessions import live_sessions

    with session_of(args) as session:
        require_part_of_machine(session)
        enforcement = enforcement_of(session)
        alive = live_sessions(session.environ)
        _print_json(session, enforcement, alive) if args.json else _draw(session, enforcement, alive)
    return 0


def prompt(args: Namespace) -> int:
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
        print("\n\n".join(f"{name}: {description}" for name, description in tools.items()))
    elif text:
        print(text)
    return 0


def _print_json(session: "Session", enforcement: "Enforcement", alive: list["LiveSession"]) -> None:
    from pinfold.policy.json_format import to_executor

    values = {name: row for name, row in rows_as_json(session.settings).items() if _is_shown(name)}
    print_json(
        {
            "roots": session.roots,
            "policy": to_executor(session.policy),
            "level": _level(session).value,
            "settings": values,
            "enforcement": enforcement,
            "sessions": alive,
            "notices": _notices(session),
        }
    )


def _draw(session: "Session", enforcement: "Enforcement", alive: list["LiveSession"]) -> None:
    print(f"workspace    {', '.join(visible(short_path(root)) for root in session.roots)}")
    print(f"enforcement  {_enforcement_text(session, enforcement)}")
    print(f"level        {_level(session).value} ({_level_text(session)})")
    print()
    rows = [row for row in rows_of(session.settings) if _is_shown(row[0])]
    print_table(fitted(rows))
    print()
    if not alive:
        print("no session is running")
    for each in alive:
        since = strftime("%Y-%m-%d %H:%M", localtime(each.started))
        roots = ", ".join(visible(short_path(root)) for root in each.roots)
        print(f"session {visible(each.id)}  process {each.pid}  since {since}  {roots}")
    for notice in _notices(session):
        print(f"note: {visible(notice)}")


def _level(session: "Session") -> Level:
    from pinfold.policy.level import settled_level

    return settled_level(session.policy) if session.settings.sandbox.enabled else Level.UNSANDBOXED


def _level_text(session: "Session") -> str:
    from pinfold.policy.level import TOLD

    level = _level(session)
    is_closed = level in (Level.SANDBOX_READONLY, Level.SANDBOX_NO_NETWORK)
    return TOLD[level] + (HOSTS.get(session.settings.network.access, "") if is_closed else "")


def _notices(session: "Session") -> tuple[str, ...]:
    from pinfold.integrations.install.health import hook_notices
    from pinfold.workspace.granted_paths import absent

    missing = absent(session.policy, session.roots)
    opened = (
        f"{path} in `filesystem.write` has no effect: the path does not exist; create it first"
        for path in missing
    )
    return (*session.notices, *opened, *hook_notices(session.environ, session.roots))


def _enforcement_text(session: "Session", enforcement: "Enforcement") -> str:
    if not session.settings.sandbox.enabled:
        return "none: `sandbox.enabled` is false"
    missing = "; ".join(f"without {gap.layer}: {gap.why}" for gap in enforcement.missing)
    return f"{enforcement.level}, {missing}" if missing else str(enforcement.level)


def _is_shown(name: str) -> bool:
    return name.split(".")[0] in SHOWN
