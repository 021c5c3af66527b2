"""`pinfold status`: the policy in force and where it is written, what is enforced of it, and who runs."""

from argparse import ArgumentParser, Namespace
from time import localtime, strftime
from typing import TYPE_CHECKING

from pinfold.cli.common import add_common, print_json, print_table, short
from pinfold.cli.request_args import add_choices, require_part_of_machine, session_of
from pinfold.cli.settings import fitted, rows_as_json, rows_of
from pinfold.model.escape_text import visible
from pinfold.model.policy import Level
from pinfold.model.settings import NetworkAccess

if TYPE_CHECKING:
    from pinfold.diagnose.doctor import Enforcement
    from pinfold.session import Session
    from pinfold.state.sessions import LiveSession

SHOWN = ("mode", "sandbox", "filesystem", "network", "environment", "limits")
"""Sections that make the policy; `pinfold settings show` has the others."""

HOSTS = {
    NetworkAccess.ASK: " but the hosts that you allow when asked",
    NetworkAccess.RULES: " but the hosts of `network.allow`",
}


def configure(parser: ArgumentParser) -> None:
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
    print(f"workspace    {', '.join(visible(short(root)) for root in session.roots)}")
    print(f"enforcement  {_told(session, enforcement)}")
    print(f"level        {_level(session).value} ({_level_told(session)})")
    print()
    rows = [row for row in rows_of(session.settings) if _is_shown(row[0])]
    print_table(fitted(rows))
    print()
    if not alive:
        print("no session is alive")
    for each in alive:
        since = strftime("%Y-%m-%d %H:%M", localtime(each.started))
        roots = ", ".join(visible(short(root)) for root in each.roots)
        print(f"session {visible(each.id)}  process {each.pid}  since {since}  {roots}")
    for notice in _notices(session):
        print(f"note: {visible(notice)}")


def _level(session: "Session") -> Level:
    from pinfold.policy.level import settled_level

    return settled_level(session.policy) if session.settings.sandbox.enabled else Level.UNSANDBOXED


def _level_told(session: "Session") -> str:
    from pinfold.policy.level import TOLD

    level = _level(session)
    is_closed = level in (Level.SANDBOX_READONLY, Level.SANDBOX_NO_NETWORK)
    return TOLD[level] + (HOSTS.get(session.settings.network.access, "") if is_closed else "")


def _notices(session: "Session") -> tuple[str, ...]:
    from pinfold.workspace.granted_paths import absent

    missing = absent(session.policy, session.roots)
    opened = (
        f"{path} in `filesystem.write` opens nothing: it is not there; make it first" for path in missing
    )
    return (*session.notices, *opened)


def _told(session: "Session", enforcement: "Enforcement") -> str:
    if not session.settings.sandbox.enabled:
        return "none: the fence is switched off"
    missing = "; ".join(f"without {gap.layer}: {gap.why}" for gap in enforcement.missing)
    return f"{enforcement.level}, {missing}" if missing else str(enforcement.level)


def _is_shown(name: str) -> bool:
    return name.split(".")[0] in SHOWN
